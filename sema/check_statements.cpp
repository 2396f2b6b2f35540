// Checker: statements. Declarations and their scopes, what may be assigned, loops and their exits.
#include "sema/checker.h"
#include "sema/flow.h"
#include "sema/modifiers.h"
#include "sema/walk.h"

namespace tegula::sema {

void Checker::block(const ast::Block& b) {
    scopes_.emplace_back();
    for (const ast::Stmt* s : b.stmts) statement(*s);
    scopes_.pop_back();
}

void Checker::assign_target(const ast::Expr& target, ast::AssignOp op) {
    const ast::Expr* e = &without_modifiers(target);
    if (e != &target) check_modifiers(target, diags_);
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
    if (!k) {
        if (!known(text)) return name(ast::as<ast::NameExpr>(e).name, e->span);
        if (!in_host_) diags_.report(Diag::assign_immutable, target.span, {text, "not a variable"});
        return;
    }
    const bool tensor = k->symbol == Symbol::in || k->symbol == Symbol::out || k->symbol == Symbol::inout;
    if (tensor && through_index) {
        if (k->symbol == Symbol::in && in_kernel_) report_mode(diags_, target.span, "write to", text, ast::ParamMode::in);
        if (k->symbol == Symbol::out && op != ast::AssignOp::set) report_mode(diags_, target.span, "read", text, ast::ParamMode::out);
        return;
    }
    if (k->symbol == Symbol::variable || (in_host_ && through_index)) return;
    const char* what = tensor                     ? "a tensor; its elements are assigned through an index"
                       : k->symbol == Symbol::let ? "declared with `let`"
                                                  : "a parameter or constant";
    Diagnostic& d = diags_.report(Diag::assign_immutable, target.span, {text, what});
    d.labels.push_back({k->span, "declared here"});
    if (k->symbol == Symbol::let) d.notes.push_back("help: declare it with `var`");
}

void Checker::assignment(const ast::AssignStmt& s) {
    expr(*s.value);
    if (s.target->kind != ast::ExprKind::tuple) return assign_target(*s.target, s.op);
    for (const ast::Expr* t : ast::as<ast::TupleExpr>(s.target).items) assign_target(*t, s.op);
}

void Checker::statement(const ast::Stmt& s) {
    switch (s.kind) {
        case ast::StmtKind::let: {
            const auto& l = static_cast<const ast::LetStmt&>(s);
            optional(l.type);
            expr(*l.init);
            return pattern(l.pattern, l.is_var ? Symbol::variable : Symbol::let);
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
            pattern(f.pattern, Symbol::constant);
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
            if (r.value && in_kernel_) diags_.report(Diag::expected_no_value, r.value->span, {"the kernel"});
            return optional(r.value);
        }
        case ast::StmtKind::block:
            return block(static_cast<const ast::BlockStmt&>(s).block);
    }
}

}  // namespace tegula::sema
