// Statements without control flow: declarations, patterns, assignments, return; and the walk over a block, which puts whatever follows a
// possible early exit under a guard. A `var` keeps the type it was declared with; its first value takes its run-time form at once.
#include <algorithm>

#include "sema/elaborate.h"
#include "sema/flow.h"
#include "sema/modifiers.h"
#include "sema/walk.h"

namespace tegula::sema {

namespace {

constexpr uint64_t kStatementSteps = 64;  // cost of a statement against limits.const_steps

}  // namespace

std::shared_ptr<Local> make_flag() {
    auto flag = std::make_shared<Local>();
    flag->name = "exit";
    flag->is_var = true;
    flag->value = flag_value(false);
    return flag;
}

Value flag_value(bool set) {
    Value v;
    v.kind = Value::boolean;
    v.b = set;
    return v;
}

void Elaborator::declare(std::string_view name, Value v, bool is_var, Span span) {
    if (name == "_") return;
    record(span, v);
    auto local = std::make_shared<Local>();
    local->name = name;
    local->value = std::move(v);
    local->is_var = is_var;
    local->span = span;
    scope_->names[name] = std::move(local);
}

void Elaborator::bind_pattern(const ast::Pattern& pattern, const Value& v, bool is_var) {
    if (!pattern.is_tuple) return declare(pattern.names.front().text, v, is_var, pattern.names.front().span);
    const bool bundle = v.kind == Value::tuple || v.kind == Value::list || v.kind == Value::structure;
    const bool fits = bundle && v.items.size() == pattern.items.size();
    if (!fits && v.kind != Value::poison) error(Diag::wrong_pattern, pattern.span, describe(v), std::to_string(pattern.items.size()));
    for (size_t i = 0; i < pattern.items.size(); ++i) bind_pattern(pattern.items[i], fits ? v.items[i] : poison(pattern.items[i].span), is_var);
}

Value Elaborator::materialise(const Value& v, Span span, bool& ok) {
    if (!building()) return v;
    if (v.is_static_number()) return tile(to_tile(v, span), span);
    Value out = v;
    switch (v.kind) {
        case Value::tuple:
        case Value::list:
        case Value::structure:
            for (Value& item : out.items) item = materialise(item, span, ok);
            return out;
        case Value::poison:
        case Value::tile:
        case Value::block_tile:
            return out;
        default:
            ok = false;
            return error(Diag::no_runtime_form, span, describe(v));
    }
}

void Elaborator::let(const ast::LetStmt& s) {
    Value v = expr(*s.init);
    if (v.kind == Value::unit) v = error(Diag::no_value, s.init->span, "the right side");
    if (s.type) {
        const std::optional<TypeDesc> t = type_desc(*s.type);
        v = t ? coerce(v, *t, s.init->span) : poison(s.init->span);
    }
    if (s.is_const && !is_static(v)) {
        Diagnostic& d = diags_.report(Diag::not_constant, s.init->span, {"a `const`", describe(v)});
        d.propose({{{s.span.file, s.span.begin, s.span.begin + 5}, "let"}});
        v = poison(s.init->span);
    }
    bool ok = true;
    if (s.is_var) v = materialise(v, s.init->span, ok);
    bind_pattern(s.pattern, v, s.is_var);
}

/// An assignment where a declaration was meant.
void Elaborator::declare_targets(const ast::AssignStmt& s, Value v, bool is_var) {
    bool ok = true;
    if (is_var) v = materialise(v, s.value->span, ok);
    std::vector<ast::Name> names;
    std::vector<ast::Pattern> items;
    const bool is_tuple = s.target->kind == ast::ExprKind::tuple;
    for (const ast::Expr* t : is_tuple ? ast::as<ast::TupleExpr>(s.target).items : std::span(&s.target, 1))
        names.push_back({ast::as<ast::NameExpr>(t).name, t->span});
    for (const ast::Name& name : names) items.push_back({false, {&name, 1}, {}, name.span});
    bind_pattern({is_tuple, names, items, s.target->span}, v, is_var);
}

void Elaborator::assign(const ast::AssignStmt& s) {
    Value v = expr(*s.value);
    if (const Recovery* told = recovery(); told && !told->declarations.empty())
        if (const auto it = told->declarations.find(&s); it != told->declarations.end()) return declare_targets(s, std::move(v), it->second);
    if (s.target->kind != ast::ExprKind::tuple) return assign_place(*s.target, v, s.op, s.span);
    const auto& targets = ast::as<ast::TupleExpr>(s.target).items;
    const bool bundle = v.kind == Value::tuple || v.kind == Value::list;
    if (!bundle || v.items.size() != targets.size()) {
        if (v.kind != Value::poison) error(Diag::wrong_pattern, s.target->span, describe(v), std::to_string(targets.size()));
        return;
    }
    for (size_t i = 0; i < targets.size(); ++i) assign_place(*targets[i], v.items[i], s.op, s.span);
}

namespace {

/// The variable at the root of a.b.c, and the members on the way down.
std::string_view place_root(const ast::Expr& target, std::vector<const ast::Name*>& path) {
    const ast::Expr* e = &target;
    while (e->kind == ast::ExprKind::member) {
        path.insert(path.begin(), &ast::as<ast::MemberExpr>(e).member);
        e = ast::as<ast::MemberExpr>(e).base;
    }
    return e->kind == ast::ExprKind::name ? ast::as<ast::NameExpr>(e).name : std::string_view();
}

Value* find_member(Value& v, std::string_view name) {
    if (v.kind == Value::structure && v.decl) {
        for (size_t i = 0; i < v.decl->fields.size() && i < v.items.size(); ++i)
            if (v.decl->fields[i].name.text == name) return &v.items[i];
        return nullptr;
    }
    if (v.kind != Value::tuple) return nullptr;
    for (size_t i = 0; i < v.items.size(); ++i)
        if (std::to_string(i) == name) return &v.items[i];
    return nullptr;
}

}  // namespace

void Elaborator::assign_place(const ast::Expr& target, const Value& value, ast::AssignOp op, Span span) {
    if (without_modifiers(target).kind == ast::ExprKind::index) return store(target, value, op, span);
    std::vector<const ast::Name*> path;
    const std::string_view name = place_root(target, path);
    if (lost_.contains(name)) return;
    Local* local = name.empty() ? nullptr : scope_->find(name);
    if (!local) {
        if (name.empty() || lookup(name, target.span).kind != Value::poison) error(Diag::assign_immutable, target.span, name, "not a variable");
        return;
    }
    if (!local->is_var) {
        error(Diag::assign_immutable, target.span, name, "not declared with `var`");
        return;
    }
    Value* place = &local->value;
    for (const ast::Name* member : path) {
        if (place->kind == Value::poison) return;
        record_field(*place, *member);
        Value* next = find_member(*place, member->text);
        if (!next) {
            error(Diag::unknown_member, member->span, describe(*place), member->text);
            return;
        }
        place = next;
    }
    const Value old = *place;
    Value v = op == ast::AssignOp::set ? value : binary(binary_of(op), old, value, span);
    v.span = value.span;  // what a conversion would stand around, also in `x += value`
    v = coerce_like(v, old, name, span);
    if (v.kind != Value::poison) *place = v;
}

void Elaborator::return_statement(const ast::ReturnStmt& s) {
    Frame* f = nullptr;
    for (auto it = frames_.rbegin(); it != frames_.rend() && !f; ++it)
        if ((*it)->kind == Frame::function) f = *it;
    if (!f) return;
    Value v;
    v.kind = Value::unit;
    v.span = s.span;
    if (s.value) v = expr(*s.value);
    if (f->is_kernel && s.value) {
        error(Diag::expected_no_value, s.value->span, "kernel `" + std::string(f->name) + "`");
    } else if (f->declared_result && s.value) {
        const std::optional<TypeDesc> t = type_desc(*f->declared_result);
        v = t ? coerce(v, *t, s.value->span) : poison(s.value->span);
    }
    f->result = v;
    f->stop->value = flag_value(true);
}

void Elaborator::statement(const ast::Stmt& s) {
    if (too_deep(s.span) || !step(s.span, kStatementSteps)) return;
    if (building()) ir().set_span(s.span);
    switch (s.kind) {
        case ast::StmtKind::let:
            return let(static_cast<const ast::LetStmt&>(s));
        case ast::StmtKind::assign:
            return assign(static_cast<const ast::AssignStmt&>(s));
        case ast::StmtKind::expr:
            expr(*static_cast<const ast::ExprStmt&>(s).expr);
            return;
        case ast::StmtKind::if_:
            return if_statement(static_cast<const ast::IfStmt&>(s));
        case ast::StmtKind::for_:
            return for_statement(static_cast<const ast::ForStmt&>(s));
        case ast::StmtKind::while_:
            return while_statement(static_cast<const ast::WhileStmt&>(s));
        case ast::StmtKind::return_:
            return return_statement(static_cast<const ast::ReturnStmt&>(s));
        case ast::StmtKind::block:
            return block(static_cast<const ast::BlockStmt&>(s).block);
        case ast::StmtKind::break_:
        case ast::StmtKind::continue_: {
            const bool is_break = s.kind == ast::StmtKind::break_;
            if (frames_.empty() || frames_.back()->kind != Frame::loop) {
                error(Diag::outside_loop, s.span, is_break ? "break" : "continue");
                return;
            }
            (is_break ? frames_.back()->stop : frames_.back()->skip)->value = flag_value(true);
            return;
        }
    }
}

void Elaborator::block(const ast::Block& b) {
    const ScopeSwitch scope(scope_, make_scope(scope_));
    statements(b.stmts);
}

void Elaborator::statements(std::span<const ast::Stmt* const> stmts) {
    for (size_t i = 0; i < stmts.size() && !aborted_; ++i) {
        bool run_time = false;
        for (const auto& flag : live_flags()) {
            if (flag->value.kind == Value::boolean && flag->value.b) return;  // an exit was taken: the rest is never reached
            run_time |= flag->value.kind != Value::boolean;
        }
        if (!run_time) {
            statement(*stmts[i]);
            continue;
        }
        Effects effects;
        const auto rest = stmts.subspan(i);
        collect(rest, effects, false);
        guard(
            effects, [&] { statements(rest); }, stmts[i]->span);
        return;
    }
}

}  // namespace tegula::sema
