// Layout expressions: built-in words, `layout` items (index expressions over logical indices and extents), composition, product and inverse. Whether
// a layout keeps elements apart is checked where extents are known: at launch (bind.cpp) and in pack.
#include <algorithm>

#include "sema/elaborate.h"
#include "sema/flow.h"
#include "sema/suggest.h"
#include "sema/walk.h"

namespace tegula::sema {

namespace {

constexpr std::string_view kWords[] = {"row",    "col", "strides", "compose", "product", "inverse", "fragment",
                                       "shared", "reg", "swizzle", "mma_a",   "mma_b",   "mma_c"};
constexpr std::string_view kTileWords[] = {"shared", "reg", "mma_a", "mma_b", "mma_c"};
constexpr std::string_view kCalls[] = {"strides", "compose", "product", "inverse"};

std::optional<LayoutExpr::Op> layout_op(ast::BinaryOp op) {
    using B = ast::BinaryOp;
    switch (op) {
        case B::add:
            return LayoutExpr::add;
        case B::sub:
            return LayoutExpr::sub;
        case B::mul:
            return LayoutExpr::mul;
        case B::div:
            return LayoutExpr::div;
        case B::rem:
            return LayoutExpr::rem;
        case B::bit_and:
            return LayoutExpr::bit_and;
        case B::bit_or:
            return LayoutExpr::bit_or;
        case B::bit_xor:
            return LayoutExpr::bit_xor;
        case B::shl:
            return LayoutExpr::shl;
        case B::shr:
            return LayoutExpr::shr;
        default:
            return std::nullopt;
    }
}

}  // namespace

std::span<const std::string_view> layout_words() { return kWords; }

bool is_layout_call(std::string_view name) { return std::find(std::begin(kCalls), std::end(kCalls), name) != std::end(kCalls); }

Value Elaborator::layout_result(const Layout& layout, Span span) {
    if (const std::string problem = layout.problem(); !problem.empty()) return error(Diag::layout_problem, span, layout.name(), problem);
    Value v;
    v.kind = Value::layout;
    v.layout_id = types_.intern(layout);
    v.span = span;
    return v;
}

Value Elaborator::join_layouts(const Value& outer, const Value& inner, Span span, Layout (*join)(const Layout&, const Layout&)) {
    if (outer.kind == Value::poison || inner.kind == Value::poison) return poison(span);
    for (const Value* v : {&outer, &inner})
        if (v->kind != Value::layout || v->generic_item) return error(Diag::not_a_layout, span, describe(*v));
    return layout_result(join(types_.layout(outer.layout_id), types_.layout(inner.layout_id)), span);
}

Value Elaborator::compose_layouts(const Value& outer, const Value& inner, Span span) { return join_layouts(outer, inner, span, Layout::compose); }

Value Elaborator::inverse_layout(const Value& layout, Span span) {
    if (layout.kind == Value::poison) return layout;
    if (layout.kind != Value::layout || layout.generic_item) return error(Diag::not_a_layout, span, describe(layout));
    std::string why;
    const Layout& l = types_.layout(layout.layout_id);
    const std::optional<Layout> inverse = Layout::inverse(l, &why);
    return inverse ? layout_result(*inverse, span) : error(Diag::layout_problem, span, l.name(), "it has no inverse in closed form: " + why);
}

Value Elaborator::layout_call(const ast::CallExpr& e) {
    const std::string_view name = base_name(*e.callee);
    const auto count = [&](size_t n, const char* text) {
        if (e.args.size() == n) return true;
        error(Diag::wrong_argument_count, e.span, name, text, std::to_string(e.args.size()));
        return false;
    };
    if (name == "compose" || name == "product") {
        if (!count(2, "2 layouts")) return poison(e.span);
        const Value first = layout_expr(*e.args[0].value);
        return join_layouts(first, layout_expr(*e.args[1].value), e.span, name == "compose" ? Layout::compose : Layout::product);
    }
    if (name == "inverse") return count(1, "1 layout") ? inverse_layout(layout_expr(*e.args[0].value), e.span) : poison(e.span);
    const auto names_extent = [&](const ast::Arg& a) {
        const std::vector<ast::Name> names = names_in(*a.value);
        return std::any_of(names.begin(), names.end(),
                           [&](const ast::Name& n) { return std::ranges::find(form_extents_, n.text) != form_extents_.end(); });
    };
    if (std::any_of(e.args.begin(), e.args.end(), names_extent)) return strides_of_extents(e);
    std::vector<int64_t> strides;
    for (const ast::Arg& a : e.args) {
        const auto n = static_int(constant(*a.value, scope_), a.value->span, "a stride");
        if (!n) return poison(e.span);
        strides.push_back(*n);
    }
    if (strides.size() > kMaxRank) return error(Diag::layout_problem, e.span, "strides", "at most 8 dimensions");
    return layout_result(Layout::with_strides(std::move(strides)), e.span);
}

/// Strides that are computed from the extents of the tensor: a layout that multiplies each index by its stride.
Value Elaborator::strides_of_extents(const ast::CallExpr& e) {
    if (e.args.size() > kMaxRank) return error(Diag::layout_problem, e.span, "strides", "at most 8 dimensions");
    std::optional<LayoutExpr> place;
    for (size_t d = 0; d < e.args.size(); ++d) {
        const std::optional<LayoutExpr> stride = index_expression(*e.args[d].value, {}, form_extents_);
        if (!stride) return poison(e.span);
        const LayoutExpr part = LayoutExpr::make(LayoutExpr::mul, *stride, LayoutExpr::make_index(static_cast<int>(d)));
        place = place ? LayoutExpr::make(LayoutExpr::add, *place, part) : part;
    }
    return layout_result(Layout::from_exprs(source_text(e), static_cast<int>(e.args.size()), {*place}), e.span);
}

Value Elaborator::layout_expr(const ast::Expr& e) {
    if (too_deep(e.span)) return poison(e.span);
    if (e.kind == ast::ExprKind::call) {
        const auto& call = ast::as<ast::CallExpr>(&e);
        const std::string_view name = base_name(*call.callee);
        if (is_layout_call(name)) return layout_call(call);
    }
    Value v;
    // `A . B<4>` parses as (A . B)<4>, a member with generics.
    const auto* generics = e.kind == ast::ExprKind::instantiate ? &ast::as<ast::InstantiateExpr>(&e) : nullptr;
    const ast::Expr& head = generics ? *generics->base : e;
    if (head.kind == ast::ExprKind::member) {
        const auto& m = ast::as<ast::MemberExpr>(&head);
        v = layout_expr_base(m);
        if (v.kind == Value::layout) {
            const ast::NameExpr name{{ast::ExprKind::name, m.member.span}, m.member.text};
            if (!generics) return compose_layouts(v, layout_expr(name), e.span);
            const ast::InstantiateExpr inner{
                {ast::ExprKind::instantiate, {m.member.span.file, m.member.span.begin, e.span.end}}, &name, generics->args};
            return compose_layouts(v, layout_expr(inner), e.span);
        }
        if (v.kind == Value::poison) return v;
    }
    v = expr(e);
    if (v.kind == Value::poison) return v;
    if (v.kind == Value::layout && v.generic_item && v.home) {
        Value open;
        open.kind = Value::none;
        return layout_item(*v.home, *static_cast<const ast::LayoutItem*>(v.generic_item), {open}, e.span);
    }
    return v.kind == Value::layout ? v : error(Diag::not_a_layout, e.span, describe(v));
}

/// The left side of `A . B` when it is a layout; kind `module` (left to expr) when it is a module's name.
Value Elaborator::layout_expr_base(const ast::MemberExpr& m) {
    if (m.base->kind == ast::ExprKind::name || m.base->kind == ast::ExprKind::instantiate) {
        const Value v = expr(*m.base);
        if (v.kind != Value::layout) return v;
    }
    return layout_expr(*m.base);
}

std::optional<LayoutExpr> Elaborator::index_expression(const ast::Expr& root, const std::vector<std::string_view>& indices,
                                                       const std::vector<std::string_view>& extents) {
    if (too_deep(root.span)) return std::nullopt;
    std::vector<const ast::BinaryExpr*> spine;
    const ast::Expr* e = &root;
    while (e->kind == ast::ExprKind::binary) {
        spine.push_back(&ast::as<ast::BinaryExpr>(e));
        e = spine.back()->lhs;
    }
    std::optional<LayoutExpr> out = index_leaf(*e, indices, extents);
    for (auto it = spine.rbegin(); out && it != spine.rend(); ++it) {
        const auto op = layout_op((*it)->op);
        if (!op) {
            error(Diag::layout_expression, (*it)->op_span, "`" + std::string(ast::spelling((*it)->op)) + "`");
            return std::nullopt;
        }
        const std::optional<LayoutExpr> rhs = index_expression(*(*it)->rhs, indices, extents);
        if (!rhs) return std::nullopt;
        out = LayoutExpr::make(*op, *out, *rhs);
    }
    return out;
}

std::optional<LayoutExpr> Elaborator::index_leaf(const ast::Expr& e, const std::vector<std::string_view>& indices,
                                                 const std::vector<std::string_view>& extents) {
    if (e.kind == ast::ExprKind::name) {
        const std::string_view name = ast::as<ast::NameExpr>(&e).name;
        if (const auto it = std::find(indices.begin(), indices.end(), name); it != indices.end()) {
            return LayoutExpr::make_index(static_cast<int>(it - indices.begin()));
        }
        if (const auto it = std::find(extents.begin(), extents.end(), name); it != extents.end()) {
            return LayoutExpr::make_extent(static_cast<int>(it - extents.begin()));
        }
    }
    if (e.kind == ast::ExprKind::unary && ast::as<ast::UnaryExpr>(&e).op == ast::UnaryOp::neg) {
        const auto a = index_expression(*ast::as<ast::UnaryExpr>(&e).operand, indices, extents);
        if (!a) return std::nullopt;
        return LayoutExpr::make(LayoutExpr::sub, LayoutExpr::make_constant(0), *a);
    }
    if (e.kind == ast::ExprKind::call) {
        const auto& call = ast::as<ast::CallExpr>(&e);
        const std::string_view name = base_name(*call.callee);
        if (call.args.size() == 2 && (name == "min" || name == "max" || name == "cdiv")) {
            const auto a = index_expression(*call.args[0].value, indices, extents), b = index_expression(*call.args[1].value, indices, extents);
            if (!a || !b) return std::nullopt;
            if (name != "cdiv") return LayoutExpr::make(name == "min" ? LayoutExpr::min : LayoutExpr::max, *a, *b);
            const LayoutExpr up = LayoutExpr::make(LayoutExpr::add, *a, LayoutExpr::make(LayoutExpr::sub, *b, LayoutExpr::make_constant(1)));
            return LayoutExpr::make(LayoutExpr::div, up, *b);
        }
    }
    for (const ast::Name& n : names_in(e)) {
        const auto is = [&](const auto& list) { return std::find(list.begin(), list.end(), n.text) != list.end(); };
        if (!is(indices) && !is(extents)) continue;
        error(Diag::layout_expression, e.span, "`" + source_text(e) + "`");
        return std::nullopt;
    }
    const auto n = static_int(constant(e, scope_), e.span, "a part of a layout index");
    if (!n) return std::nullopt;
    return LayoutExpr::make_constant(*n);
}

Value Elaborator::layout_item(const Module& module, const ast::LayoutItem& item, std::vector<Value> generics, Span span) {
    const bool complete =
        std::all_of(item.generics.begin(), item.generics.end(), [](const ast::GenericParam& p) { return p.default_value != nullptr; });
    if (generics.empty() && !complete) {
        Value open;
        open.kind = Value::layout;
        open.generic_item = &item;
        open.home = &module;
        open.span = span;
        return open;
    }
    if (too_deep(span) || !step(span)) return poison(span);
    const auto scope = generic_scope(item.name.text, item.generics, generics, module, span);
    if (!scope) return poison(span);
    const StaticMode mode(*this, scope);
    if (item.dims.empty()) return layout_expr(*item.value);
    if (item.dims.size() > kMaxRank) return error(Diag::layout_problem, item.name.span, item.name.text, "at most 8 dimensions");
    std::vector<std::string_view> indices, extents;
    for (const ast::IndexBinder& d : item.dims) {
        indices.push_back(d.name.text);
        const std::string_view name = d.extent ? base_name(*d.extent) : std::string_view();
        const bool is_new = !name.empty() && !scope_->find(name) && !is_item(module, name);
        extents.push_back(is_new ? name : std::string_view("\0", 1));
    }
    std::vector<const ast::Expr*> parts{item.value};
    if (item.value->kind == ast::ExprKind::tuple) {
        const auto& items = ast::as<ast::TupleExpr>(item.value).items;
        parts.assign(items.begin(), items.end());
    }
    if (parts.size() > static_cast<size_t>(kMaxLayoutMembers))
        return error(Diag::layout_problem, item.name.span, item.name.text, "too many physical indices");
    std::vector<LayoutExpr> physical;
    for (const ast::Expr* p : parts) {
        std::optional<LayoutExpr> x = index_expression(*p, indices, extents);
        if (!x) return poison(span);
        physical.push_back(std::move(*x));
    }
    Layout::Pins pins;
    if (item.extents) {
        if (item.extents->kind != ast::ExprKind::array)
            return error(Diag::layout_problem, item.extents->span, item.name.text,
                         "declared extents are an array behind `in`: in [cdiv(M, 128), 32]");
        for (const ast::Expr* e : ast::as<ast::ArrayExpr>(item.extents).items) {
            std::optional<LayoutExpr>& pin = pins.emplace_back();
            for (const ast::Name& n : names_in(*e))
                if (std::ranges::find(indices, n.text) != indices.end())
                    return error(Diag::layout_problem, n.span, item.name.text,
                                 "a declared extent cannot use the index `" + std::string(n.text) + "`");
            if (e->kind != ast::ExprKind::none_lit && !(pin = index_expression(*e, indices, extents))) return poison(span);
        }
        if (pins.size() != physical.size())
            return error(Diag::layout_problem, item.extents->span, item.name.text,
                         "it has " + std::to_string(physical.size()) + " physical indices and declares " + std::to_string(pins.size()) + " extents");
    }
    std::string name(item.name.text);
    for (size_t i = 0; i < item.generics.size(); ++i) name += (i ? ", " : "<") + describe_plain(scope_->find(item.generics[i].name.text)->value);
    if (!item.generics.empty()) name += ">";
    return layout_result(Layout::from_exprs(std::move(name), static_cast<int>(item.dims.size()), std::move(physical), std::move(pins)), span);
}

/// The layout of a tensor. A layout item that lacks only BITS (std.layouts `fragment`) gets the element's width.
std::optional<LayoutId> Elaborator::tensor_layout(const ast::Expr& e, FormatId elem, int rank, const ast::IndexExpr& form) {
    Value v;
    std::vector<std::string_view> extents;
    for (const ast::IndexItem& item : form.items) {
        const std::string_view extent = item.kind == ast::IndexItem::value && item.start ? base_name(*item.start) : std::string_view();
        const Local* known = extent.empty() ? nullptr : scope_->find(extent);
        const bool constant = known && is_static(known->value) && known->value.kind != Value::none && known->value.kind != Value::poison;
        extents.push_back(extent.empty() || constant ? std::string_view("\0", 1) : extent);
    }
    const auto outer = std::exchange(form_extents_, std::move(extents));
    const auto restore = [&](const std::optional<LayoutId>& made) {
        form_extents_ = outer;
        return made;
    };
    const std::string_view name = base_name(e);
    if (std::find(std::begin(kTileWords), std::end(kTileWords),
                  e.kind == ast::ExprKind::call ? base_name(*ast::as<ast::CallExpr>(&e).callee) : name) != std::end(kTileWords)) {
        error(Diag::not_a_layout, e.span, "`" + source_text(e) + "`, which is for tiles");
        return restore(std::nullopt);
    }
    if (e.kind == ast::ExprKind::name) v = expr(e);
    if (v.kind == Value::layout && v.generic_item && v.home) {
        const auto& item = static_cast<const ast::LayoutItem&>(*v.generic_item);
        Value open;
        open.kind = Value::none;
        std::vector<Value> values(item.generics.size(), open);
        for (size_t i = 0; i < values.size(); ++i)
            if (item.generics[i].name.text == "BITS") values[i] = integer_value(types_.format(elem).bits, e.span);
        v = layout_item(*v.home, item, values, e.span);
    } else if (v.kind != Value::layout && !(e.kind == ast::ExprKind::name && v.kind == Value::poison)) {
        v = layout_expr(e);
    }
    if (v.kind != Value::layout) return restore(std::nullopt);
    const Layout& l = types_.layout(v.layout_id);
    if (l.rank() < 0 || l.rank() == rank) return restore(v.layout_id);
    error(Diag::layout_rank, e.span, l.name(), std::to_string(l.rank()), std::to_string(rank));
    return restore(std::nullopt);
}

void Elaborator::check_tile_annotation(const ast::Expr& e, const ast::AnnotatedExpr* value) {
    const ast::Expr& head = e.kind == ast::ExprKind::call ? *ast::as<ast::CallExpr>(&e).callee : e;
    const std::string_view word = base_name(head);
    if (std::find(std::begin(kTileWords), std::end(kTileWords), word) != std::end(kTileWords)) {
        if (!instance_) return;
        std::vector<ir::Hint>& hints = instance_->fn->hints;  // the first wish of a kernel, so that machines can say what becomes of them
        if (std::none_of(std::begin(kTileWords), std::end(kTileWords), [&](std::string_view w) { return ir::find_hint(hints, w); }))
            hints.push_back({std::string(word), {}});
        return;
    }
    Diagnostic& d = diags_.report(Diag::not_a_layout, e.span, {"`" + source_text(e) + "`"});
    if (value && (scope_->find(word) || is_function(module_here(), word))) return suggest_product(d, module_here(), *value);
    suggest_spelling(d, word, head.span, {std::begin(kTileWords), std::end(kTileWords)});
}

}  // namespace tegula::sema
