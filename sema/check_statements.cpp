// Checker: statements. Declarations and their scopes, what may be assigned, loops and their exits.
#include <algorithm>

#include "sema/checker.h"
#include "sema/flow.h"
#include "sema/modifiers.h"
#include "sema/walk.h"

namespace tegula::sema {

void Checker::block(const ast::Block& b) {
    scopes_.emplace_back();
    blocks_.push_back(&b);
    for (const ast::Stmt* s : b.stmts) statement(*s);
    blocks_.pop_back();
    scopes_.pop_back();
}

namespace {

bool mentions(const ast::Expr* e, std::string_view name) {
    if (!e) return false;
    const std::vector<ast::Name> names = names_in(*e);
    return std::any_of(names.begin(), names.end(), [name](const ast::Name& n) { return n.text == name; });
}

/// Do the statements read the variable before they declare one of that name or give it a value? What stands in `skip` is left out.
bool reads(const ast::Block& block, std::string_view name, const ast::Block* skip) {
    if (&block == skip) return false;
    for (const ast::Stmt* s : block.stmts) {
        switch (s->kind) {
            case ast::StmtKind::let: {
                const auto& l = ast::as<ast::LetStmt>(s);
                if (mentions(l.type, name) || mentions(l.init, name)) return true;
                if (std::any_of(l.pattern.names.begin(), l.pattern.names.end(), [name](const ast::Name& n) { return n.text == name; })) return false;
                break;
            }
            case ast::StmtKind::assign: {
                const auto& a = ast::as<ast::AssignStmt>(s);
                const bool given = a.op == ast::AssignOp::set && (a.target->kind == ast::ExprKind::name || a.target->kind == ast::ExprKind::tuple);
                if (mentions(a.value, name) || (!given && mentions(a.target, name))) return true;
                if (given && mentions(a.target, name)) return false;
                break;
            }
            case ast::StmtKind::expr:
                if (mentions(ast::as<ast::ExprStmt>(s).expr, name)) return true;
                break;
            case ast::StmtKind::return_:
                if (mentions(ast::as<ast::ReturnStmt>(s).value, name)) return true;
                break;
            case ast::StmtKind::if_: {
                const auto& i = ast::as<ast::IfStmt>(s);
                if (mentions(i.condition, name) || reads(i.then_block, name, skip) || (i.has_else && reads(i.else_block, name, skip))) return true;
                break;
            }
            case ast::StmtKind::for_:
                if (mentions(ast::as<ast::ForStmt>(s).iterable, name) || reads(ast::as<ast::ForStmt>(s).body, name, skip)) return true;
                break;
            case ast::StmtKind::while_:
                if (mentions(ast::as<ast::WhileStmt>(s).condition, name) || reads(ast::as<ast::WhileStmt>(s).body, name, skip)) return true;
                break;
            case ast::StmtKind::block:
                if (reads(ast::as<ast::BlockStmt>(s).block, name, skip)) return true;
                break;
            default:
                break;
        }
    }
    return false;
}

/// The `let` of a pattern that has the name at `name`, as in `let (a, b) = ..`. Not valid: other text stands before the name.
Span let_before(std::string_view text, Span name) {
    const auto in_word = [](char c) { return c == '_' || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z'); };
    size_t at = std::min<size_t>(name.begin, text.size());
    while (at > 0) {
        const size_t end = at;
        while (at > 0 && in_word(text[at - 1])) --at;
        if (text.substr(at, end - at) == "let") return {name.file, static_cast<uint32_t>(at), static_cast<uint32_t>(end)};
        const bool between = at == end && std::string_view(" \t\r\n,(").find(text[at - 1]) != std::string_view::npos;
        if (at == end && !between) break;
        if (between) --at;
    }
    return {};
}

}  // namespace

/// An assignment to names that nothing declares, where a declaration was meant. It is reported once: what follows takes the names as declared.
bool Checker::undeclared(const ast::AssignStmt& s) {
    const bool is_tuple = s.target->kind == ast::ExprKind::tuple;
    const std::span<const ast::Expr* const> targets = is_tuple ? ast::as<ast::TupleExpr>(s.target).items : std::span(&s.target, 1);
    std::string text;
    for (const ast::Expr* t : targets) {
        if (t->kind != ast::ExprKind::name) return false;
        const std::string_view name = ast::as<ast::NameExpr>(t).name;
        if (find(name) || is_item(module_, name)) return false;
        text += (text.empty() ? "" : ", ") + std::string(name);
    }
    bool variable = s.op != ast::AssignOp::set, outside = variable;
    if (diags_.error_count() < kSuggestionErrors) {
        for (const ast::Expr* t : targets) {
            const std::string_view name = ast::as<ast::NameExpr>(t).name;
            variable |= assignments(blocks_.back()->stmts, name) > 1;
            outside |= blocks_.size() > 1 && reads(*blocks_.front(), name, blocks_.back());
        }
    }
    if (is_tuple) text = "(" + text + ")";
    const bool as_variable = variable || outside;
    const char* keyword = as_variable ? "var" : "let";
    Diagnostic& d = diags_.report(Diag::undeclared, s.target->span, {text, keyword, text + " = .."});
    if (s.op != ast::AssignOp::set)
        d.notes.push_back("`" + std::string(spelling(s.op)) + "` changes a variable that has a value: declare it before");
    else if (outside)
        d.notes.push_back("it is used outside of this block too: declare it before the block");
    else
        d.fixes.push_back({{s.span.file, s.span.begin, s.span.begin}, std::string(keyword) + " "});
    if (!outside && recovery_) recovery_->declarations.emplace(&s, variable);
    Names& scope = outside ? scopes_[item_scope_] : scopes_.back();
    for (const ast::Expr* t : targets)
        scope.insert_or_assign(ast::as<ast::NameExpr>(t).name, Known{outside ? Symbol::lost : as_variable ? Symbol::variable : Symbol::let, t->span});
    return true;
}

void Checker::assign_target(const ast::Expr& target, ast::AssignOp op) {
    const ast::Expr* e = &without_modifiers(target);
    if (e != &target)
        check_modifiers(
            target, [this](std::string_view n) { return find(n) || is_item(module_, n); }, diags_);
    if (e->kind == ast::ExprKind::annotated) {
        diags_.report(Diag::bad_target, target.span);
        return;
    }
    bool through_index = false;
    while (e->kind == ast::ExprKind::member || e->kind == ast::ExprKind::index) {
        if (e->kind == ast::ExprKind::index) {
            through_index = true;
            index_items(ast::as<ast::IndexExpr>(e));
            e = ast::as<ast::IndexExpr>(e).base;
        } else {
            e = ast::as<ast::MemberExpr>(e).base;
        }
    }
    if (e->kind != ast::ExprKind::name) return expr(*e);
    const std::string text(ast::as<ast::NameExpr>(e).name);
    const Known* k = find(text);
    used(text, e->span);
    if (!k) {
        if (!known(text)) return name(ast::as<ast::NameExpr>(e).name, e->span);
        if (!in_host_) diags_.report(Diag::assign_immutable, target.span, {text, "not a variable"});
        return;
    }
    if (k->symbol == Symbol::lost || (k->symbol == Symbol::value && through_index)) return;
    const bool tensor = k->symbol == Symbol::in || k->symbol == Symbol::out || k->symbol == Symbol::inout;
    if (tensor && through_index) {
        if (k->symbol == Symbol::in && in_kernel_) report_mode(diags_, target.span, "write to", text, ast::ParamMode::in);
        if (k->symbol == Symbol::out && op != ast::AssignOp::set) report_mode(diags_, target.span, "read", text, ast::ParamMode::out);
        return;
    }
    if (k->symbol == Symbol::variable) return;
    const char* what = tensor                     ? "a tensor; its elements are assigned through an index"
                       : k->symbol == Symbol::let ? "declared with `let`"
                                                  : "a parameter or constant";
    Diagnostic& d = diags_.report(Diag::assign_immutable, target.span, {text, what});
    d.labels.push_back({k->span, "declared here"});
    if (k->symbol != Symbol::let) return;
    d.help("declare it with `var`");
    if (const Span let = let_before(module_.text, k->span); let.valid()) d.propose({{let, "var"}});
}

void Checker::assignment(const ast::AssignStmt& s) {
    expr(*s.value);
    if (undeclared(s)) return;
    if (in_host_ && (s.target->kind != ast::ExprKind::name || s.op != ast::AssignOp::set)) {
        diags_.report(Diag::host_assignment, s.span);
        return;
    }
    if (s.target->kind != ast::ExprKind::tuple) return assign_target(*s.target, s.op);
    for (const ast::Expr* t : ast::as<ast::TupleExpr>(s.target).items) assign_target(*t, s.op);
}

/// view<T>(x) of the language.
bool Checker::is_view(const ast::Expr& e) const {
    if (e.kind != ast::ExprKind::call) return false;
    const ast::Expr& callee = *ast::as<ast::CallExpr>(&e).callee;
    return callee.kind == ast::ExprKind::instantiate && base_name(*ast::as<ast::InstantiateExpr>(&callee).base) == "view" && !find("view") &&
           !module_.find("view");
}

void Checker::statement(const ast::Stmt& s) {
    poll();
    switch (s.kind) {
        case ast::StmtKind::let: {
            const auto& l = static_cast<const ast::LetStmt&>(s);
            optional(l.type);
            if (in_host_ && l.type)
                diags_.report(Diag::host_kind, l.type->span,
                              {"a variable without type (it has that of its value: convert with `cast<T>(..)`)", "a type"});
            expr(*l.init);
            // A view of a tensor is stored to as the tensor is; whether it may be, its mode tells when it is elaborated.
            return pattern(l.pattern, !in_host_ && is_view(*l.init) ? Symbol::inout
                                      : l.is_const                  ? Symbol::constant
                                      : l.is_var                    ? Symbol::variable
                                                                    : Symbol::let);
        }
        case ast::StmtKind::assign:
            return assignment(static_cast<const ast::AssignStmt&>(s));
        case ast::StmtKind::expr:
            return expr(*static_cast<const ast::ExprStmt&>(s).expr);
        case ast::StmtKind::if_: {
            const auto& i = static_cast<const ast::IfStmt&>(s);
            expr(*i.condition);
            block(i.then_block);
            if (i.has_else) block(i.else_block);
            return;
        }
        case ast::StmtKind::for_: {
            const auto& f = static_cast<const ast::ForStmt&>(s);
            expr(*f.iterable);
            attributes(f.attributes, "loop attribute");
            scopes_.emplace_back();
            pattern(f.pattern, f.iterable->kind == ast::ExprKind::range ? Symbol::constant : Symbol::value);
            ++loops_;
            block(f.body);
            --loops_;
            scopes_.pop_back();
            return;
        }
        case ast::StmtKind::while_: {
            const auto& w = static_cast<const ast::WhileStmt&>(s);
            expr(*w.condition);
            attributes(w.attributes, "loop attribute");
            ++loops_;
            block(w.body);
            --loops_;
            return;
        }
        case ast::StmtKind::break_:
        case ast::StmtKind::continue_:
            if (loops_ == 0) diags_.report(Diag::outside_loop, s.span, {s.kind == ast::StmtKind::break_ ? "break" : "continue"});
            return;
        case ast::StmtKind::return_: {
            const auto& r = static_cast<const ast::ReturnStmt&>(s);
            if (r.value && (in_kernel_ || in_host_))
                diags_.report(Diag::expected_no_value, r.value->span, {in_kernel_ ? "kernel `" + std::string(kernel_) + "`" : "host statements"});
            return optional(r.value);
        }
        case ast::StmtKind::block:
            return block(static_cast<const ast::BlockStmt&>(s).block);
    }
}

}  // namespace tegula::sema
