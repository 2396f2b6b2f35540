// Expressions of the Builder: nodes, their shapes, and the checks that belong to single expressions.
#include "parser/builder.h"

#include <algorithm>

#include "lang/literal_rest.h"

namespace tegula::syntax {

using namespace tegula::ast;

namespace {

template <class T>
struct Shaped {
    Shape shape;
    T node;
};
static_assert(sizeof(Shape) == 8);

Shape& shape_of(const void* node) { return *(static_cast<Shape*>(const_cast<void*>(node)) - 1); }

/// The shape of a parent over children; null children count for nothing.
struct Over {
    Shape shape{0, 0, 0};
    Over& add(const void* child) {
        if (child == nullptr) return *this;
        shape.depth = std::max(shape.depth, shape_of(child).depth);
        shape.height = std::max(shape.height, shape_of(child).height);
        return *this;
    }
    Over& add(Args args) {
        for (const Arg& arg : args) add(arg.value);
        return *this;
    }
    Over& add(Exprs items) {
        for (ExprPtr item : items) add(item);
        return *this;
    }
    Over& add(IndexItems items) {
        for (const IndexItem& item : items) add(item.start).add(item.extent).add(item.step);
        return *this;
    }
    Shape parent() const { return {shape.height + 1, uint16_t(shape.depth + 1), 0}; }
};

template <class T, class... Fields>
const T* make(Arena& arena, ExprKind kind, Span span, const Shape& shape, const Fields&... fields) {
    return &arena.make<Shaped<T>>(shape, T{{kind, span}, fields...})->node;
}

constexpr size_t kMaxCures = 100;  // errors from which on blocks are not searched for what cures them: the cost is quadratic

bool is_comparison(const Expr* e) {
    if (e->kind != ExprKind::binary || shape_of(e).in_parens) return false;
    BinaryOp op = as<BinaryExpr>(e).op;
    return op >= BinaryOp::eq && op <= BinaryOp::ge;
}

}  // namespace

/// False when a node of this shape would exceed the limits; its parent is then left out of the tree.
bool Builder::fits(const Shape& shape, Span span) {
    if (shape.depth > kMaxDepth) {
        damage(span);
        if (!std::exchange(reported_depth_, true)) diags.report(Diag::nesting_too_deep, span, {std::to_string(kMaxDepth)});
        return false;
    }
    if (shape.height > kMaxChain + kMaxDepth) {
        damage(span);
        if (!std::exchange(reported_chain_, true)) diags.report(Diag::chain_too_long, span, {std::to_string(kMaxChain)});
        return false;
    }
    return true;
}

bool Builder::allow_stack(size_t symbols, Span span) {
    constexpr size_t kMaxStack = 32 * kMaxDepth;
    if (symbols <= kMaxStack) return true;
    if (!std::exchange(reported_depth_, true)) diags.report(Diag::nesting_too_deep, span, {std::to_string(kMaxDepth)});
    return false;
}

ExprPtr Builder::name(std::string_view text, Span span) { return make<NameExpr>(arena, ExprKind::name, span, {}, text); }
ExprPtr Builder::int_lit(uint64_t value, Span span) { return make<IntLit>(arena, ExprKind::int_lit, span, {}, value); }
ExprPtr Builder::float_lit(FloatText value, Span span) {
    return make<FloatLit>(arena, ExprKind::float_lit, span, {}, value.value, value.text, literal_rest(value.text, value.value));
}
ExprPtr Builder::string_lit(std::string_view value, Span span) { return make<StringLit>(arena, ExprKind::string_lit, span, {}, value); }
ExprPtr Builder::bool_lit(bool value, Span span) { return make<BoolLit>(arena, ExprKind::bool_lit, span, {}, value); }
ExprPtr Builder::none_lit(Span span) { return make<NoneLit>(arena, ExprKind::none_lit, span, {}); }

ExprPtr Builder::parenthesised(ExprPtr inner) {
    shape_of(inner).in_parens = 1;
    return inner;
}

ExprPtr Builder::member(ExprPtr base, std::string_view member, Span member_span, Span span) {
    Shape shape = Over().add(base).parent();
    return fits(shape, span) ? make<MemberExpr>(arena, ExprKind::member, span, shape, base, Name{member, member_span}) : base;
}

ExprPtr Builder::instantiate(ExprPtr base, Args args, Span span) {
    Shape shape = Over().add(base).add(args).parent();
    return fits(shape, span) ? make<InstantiateExpr>(arena, ExprKind::instantiate, span, shape, base, args) : base;
}

ExprPtr Builder::call(ExprPtr callee, Args args, Span span) {
    Shape shape = Over().add(callee).add(args).parent();
    return fits(shape, span) ? make<CallExpr>(arena, ExprKind::call, span, shape, callee, args) : callee;
}

ExprPtr Builder::index(ExprPtr base, IndexItems items, Span span) {
    Shape shape = Over().add(base).add(items).parent();
    if (!fits(shape, span)) return base;
    return make<IndexExpr>(arena, ExprKind::index, span, shape, base, items);
}

IndexItem Builder::index_value(ExprPtr value) {
    if (value->kind == ExprKind::none_lit) return {IndexItem::new_axis, value->span, nullptr, nullptr, nullptr};
    return {IndexItem::value, value->span, value, nullptr, nullptr};
}

ExprPtr Builder::unary(UnaryOp op, ExprPtr operand, Span span) {
    Shape shape = Over().add(operand).parent();
    return fits(shape, span) ? make<UnaryExpr>(arena, ExprKind::unary, span, shape, op, operand) : operand;
}

ExprPtr Builder::binary(BinaryOp op, Span op_span, ExprPtr lhs, ExprPtr rhs, Span span) {
    const Shape &l = shape_of(lhs), &r = shape_of(rhs);
    Shape shape{std::max(l.height, r.height) + 1, uint16_t(std::max<int>(l.depth, r.depth + 1)), 0};
    if (!fits(shape, span)) return l.height >= r.height ? lhs : rhs;
    bool compares = op >= BinaryOp::eq && op <= BinaryOp::ge;
    if (compares && is_comparison(lhs)) {
        // The middle operand belongs to both comparisons.
        const BinaryExpr& first = as<BinaryExpr>(lhs);
        std::string_view middle = scanner.text().substr(first.rhs->span.begin, first.rhs->span.end - first.rhs->span.begin);
        Diagnostic& d = diags.report(Diag::chained_comparison, op_span);
        d.notes.push_back("write `a < b && b < c`");
        d.fixes.push_back({{op_span.file, op_span.begin, op_span.begin}, "&& " + std::string(middle) + " "});
        d.labels.push_back({first.op_span, "the first comparison"});
    }
    return make<BinaryExpr>(arena, ExprKind::binary, span, shape, op, op_span, lhs, rhs);
}

ExprPtr Builder::else_value(ExprPtr access, ExprPtr value, Span span) {
    Shape shape = Over().add(access).add(value).parent();
    return fits(shape, span) ? make<ElseExpr>(arena, ExprKind::else_value, span, shape, access, value) : access;
}

ExprPtr Builder::tuple(Exprs items, Span span) {
    Shape shape = Over().add(items).parent();
    return fits(shape, span) ? make<TupleExpr>(arena, ExprKind::tuple, span, shape, items) : items[0];
}

ExprPtr Builder::array(Exprs items, Span span) {
    Shape shape = Over().add(items).parent();
    return fits(shape, span) ? make<ArrayExpr>(arena, ExprKind::array, span, shape, items) : items[0];
}

ExprPtr Builder::set(Exprs items, Span span) {
    Shape shape = Over().add(items).parent();
    return fits(shape, span) ? make<SetExpr>(arena, ExprKind::set, span, shape, items) : items[0];
}

ExprPtr Builder::range(ExprPtr lo, ExprPtr hi, ExprPtr step, Span span) {
    Shape shape = Over().add(lo).add(hi).add(step).parent();
    return fits(shape, span) ? make<RangeExpr>(arena, ExprKind::range, span, shape, lo, hi, step) : lo;
}

ExprPtr Builder::lambda(Names params, ExprPtr body, Span span) {
    Shape shape = Over().add(body).parent();
    return fits(shape, span) ? make<LambdaExpr>(arena, ExprKind::lambda, span, shape, params, body) : body;
}

ExprPtr Builder::annotated(ExprPtr base, ExprPtr layout, Span span) {
    Shape shape = Over().add(base).add(layout).parent();
    return fits(shape, span) ? make<AnnotatedExpr>(arena, ExprKind::annotated, span, shape, base, layout) : base;
}

/// Reads `name < extent` out of the items before `=>`; reports the others.
std::vector<IndexBinder> Builder::binders(Exprs items) {
    std::vector<IndexBinder> out;
    for (ExprPtr item : items) {
        const BinaryExpr* less = item->kind == ExprKind::binary ? &as<BinaryExpr>(item) : nullptr;
        if (less == nullptr || less->op != BinaryOp::lt || less->lhs->kind != ExprKind::name) {
            diags.report(Diag::bad_binder, item->span);
            damage(item->span);
            continue;
        }
        out.push_back({{as<NameExpr>(less->lhs).name, less->lhs->span}, less->rhs});
    }
    return out;
}

ExprPtr Builder::form(ExprPtr reducer, Exprs items, ExprPtr body, Span span) {
    Shape shape = Over().add(reducer).add(items).add(body).parent();
    if (!fits(shape, span)) return body;
    return make<IndexFormExpr>(arena, ExprKind::index_form, span, shape, reducer, std::span<const IndexBinder>(arena.copy(binders(items))), body);
}

ExprPtr Builder::index_form(Exprs items, ExprPtr body, Span span) { return form(nullptr, items, body, span); }

ExprPtr Builder::reducing_form(ExprPtr reducer, IndexItems items, ExprPtr body, Span span) {
    if (reducer->kind != ExprKind::name) {
        diags.report(Diag::bad_reducer, reducer->span);
        damage(reducer->span);
    }
    std::vector<ExprPtr> values;
    for (const IndexItem& item : items) {
        if (item.kind == IndexItem::value) {
            values.push_back(item.start);
        } else {
            diags.report(Diag::bad_binder, item.span);
            damage(item.span);
        }
    }
    if (items.empty()) {
        diags.report(Diag::bad_binder, span);
        damage(span);
    }
    return form(reducer, values, body, span);
}

ExprPtr Builder::condition_with_assign(ExprPtr lhs, Span op, ExprPtr rhs, Span span) {
    diags.report(Diag::assignment_in_condition, op).fixes.push_back({op, "=="});
    return binary(BinaryOp::eq, op, lhs, rhs, span);
}

// ---- statements ----

namespace {

template <class T, class... Fields>
const T* make_stmt(Arena& arena, StmtKind kind, Span span, const Shape& shape, const Fields&... fields) {
    return &arena.make<Shaped<T>>(shape, T{{kind, span}, fields...})->node;
}

Over over(const Block& block) {
    Over shape;
    for (StmtPtr stmt : block.stmts) shape.add(stmt);
    return shape;
}

Over over(const Block& block, ExprPtr expr, Attributes attributes) {
    Over shape = over(block);
    for (const Attribute& attribute : attributes) {
        for (const Arg& arg : attribute.args) shape.add(arg.value);
    }
    return shape.add(expr);
}

}  // namespace

Block Builder::block(Stmts stmts, Span span) {
    if (!bare_lets_.empty()) report_bare_lets(stmts, span);
    return {stmts, span};
}

Pattern Builder::name_pattern(const Name& name) { return {false, list(name), {}, name.span}; }

Pattern Builder::tuple_pattern(std::span<const Pattern> items, Span span) {
    List<Name> names{};
    for (const Pattern& item : items)
        for (const Name& name : item.names) names = append(names, name);
    return {true, names, items, span};
}

StmtPtr Builder::let(bool is_var, const Pattern& pattern, ExprPtr type, ExprPtr init, Span span, bool is_const) {
    Shape shape = Over().add(type).add(init).parent();
    return fits(shape, span) ? make_stmt<LetStmt>(arena, StmtKind::let, span, shape, is_var, pattern, type, init, is_const) : nullptr;
}

StmtPtr Builder::bare_let(const Name& name, ExprPtr type, ExprPtr init, Span span) {
    StmtPtr made = let(false, name_pattern(name), type, init, span);
    if (made) bare_lets_.push_back(&as<LetStmt>(made));
    return made;
}

void Builder::report_bare_lets(Stmts stmts, Span block) {
    for (; !bare_lets_.empty() && bare_lets_.back()->span.begin >= block.begin; bare_lets_.pop_back()) {
        const LetStmt& s = *bare_lets_.back();
        if (std::find(stmts.begin(), stmts.end(), &s) == stmts.end()) continue;  // an error has dropped it
        const Name& name = s.pattern.names.front();
        const bool few = diags.error_count() < kMaxCures;
        const bool is_var = few && assignments(stmts, name.text);
        const char* keyword = is_var ? "var" : "let";
        const_cast<LetStmt&>(s).is_var = is_var;  // made by bare_let, and seen by nobody yet
        Diagnostic& d = diags.report(Diag::undeclared, name.span, {std::string(name.text), keyword, std::string(name.text) + ": .."});
        d.fixes.push_back({{s.span.file, s.span.begin, s.span.begin}, std::string(keyword) + " "});
    }
}

StmtPtr Builder::assign(AssignOp op, ExprPtr target, ExprPtr value, Span span) {
    ExprPtr place = target;  // modifiers of the access stand behind it
    while (place->kind == ExprKind::annotated) place = as<AnnotatedExpr>(place).base;
    bool ok = place->kind == ExprKind::index || (place == target && (place->kind == ExprKind::name || place->kind == ExprKind::member));
    if (target->kind == ExprKind::tuple) {
        std::span<const Expr* const> items = as<TupleExpr>(target).items;
        ok = !items.empty() && std::all_of(items.begin(), items.end(), [](ExprPtr e) { return e->kind == ExprKind::name; });
    }
    if (!ok) {
        diags.report(Diag::bad_target, target->span);
        damage(target->span);
    }
    Shape shape = Over().add(target).add(value).parent();
    return ok && fits(shape, span) ? make_stmt<AssignStmt>(arena, StmtKind::assign, span, shape, op, target, value) : nullptr;
}

StmtPtr Builder::expr_stmt(ExprPtr expr, Span span) {
    Shape shape = Over().add(expr).parent();
    return fits(shape, span) ? make_stmt<ExprStmt>(arena, StmtKind::expr, span, shape, expr) : nullptr;
}

StmtPtr Builder::if_stmt(bool is_const, ExprPtr condition, const Block& then_block, const ElsePart& else_part, Span span) {
    Shape shape = over(then_block).add(condition).shape, other = over(else_part.block).shape;
    Shape parent{std::max(shape.height, other.height) + 1, uint16_t(std::max(shape.depth, other.depth) + 1), 0};
    if (!fits(parent, span)) return nullptr;
    return make_stmt<IfStmt>(arena, StmtKind::if_, span, parent, is_const, condition, then_block, else_part.has, else_part.block);
}

ElsePart Builder::else_if(StmtPtr inner, Span span) {
    if (inner == nullptr) return {};
    return {true, block(list(inner), span)};
}

StmtPtr Builder::for_stmt(bool is_const, const Pattern& pattern, ExprPtr iterable, Attributes attributes, const Block& body, Span span) {
    Shape shape = over(body, iterable, attributes).parent();
    if (!fits(shape, span)) return nullptr;
    return make_stmt<ForStmt>(arena, StmtKind::for_, span, shape, is_const, pattern, iterable, attributes, body);
}

StmtPtr Builder::while_stmt(ExprPtr condition, Attributes attributes, const Block& body, Span span) {
    Shape shape = over(body, condition, attributes).parent();
    if (!fits(shape, span)) return nullptr;
    return make_stmt<WhileStmt>(arena, StmtKind::while_, span, shape, condition, attributes, body);
}

StmtPtr Builder::broken_loop(const Block& body, Span keyword, Span span) { return while_stmt(bool_lit(true, keyword), {}, body, span); }

StmtPtr Builder::jump(StmtKind kind, Span span) {
    if (kind == StmtKind::break_) return make_stmt<BreakStmt>(arena, kind, span, {});
    return make_stmt<ContinueStmt>(arena, kind, span, {});
}

StmtPtr Builder::return_stmt(ExprPtr value, Span span) {
    Shape shape = Over().add(value).parent();
    return fits(shape, span) ? make_stmt<ReturnStmt>(arena, StmtKind::return_, span, shape, value) : nullptr;
}

StmtPtr Builder::block_stmt(const Block& block, Span span) {
    Shape shape = over(block).parent();
    return fits(shape, span) ? make_stmt<BlockStmt>(arena, StmtKind::block, span, shape, block) : nullptr;
}

void Builder::stray_semicolon(Span span) {
    if (span.begin >= quiet_until_) diags.report(Diag::stray_semicolon, span).fixes.push_back({span, ""});
}

}  // namespace tegula::syntax
