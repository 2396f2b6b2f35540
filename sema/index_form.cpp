// Index forms: [i < M, j < N] => body builds a tile, sum[k < K] => body reduces one. Indices are i64 tiles that broadcast: of n indices in
// scope the first lies along the leading of n dimensions, and an inner reducer adds its indices in front. So what an outer index touches
// keeps its place however deep the inner form is, also inside functions that the body calls. A sum over a product becomes `contract`,
// which lower/recognise turns into a matrix product; its operands stay views, the index of the sum last.
#include "sema/elaborate.h"
#include "sema/flow.h"

namespace tegula::sema {

using ir::Op;
using ir::ReduceKind;
using ir::ValueId;

namespace {

std::optional<ReduceKind> kind_of(std::string_view name) {
    static constexpr struct {
        std::string_view name;
        ReduceKind kind;
    } kinds[] = {{"sum", ReduceKind::sum}, {"prod", ReduceKind::prod}, {"min", ReduceKind::min},       {"max", ReduceKind::max},
                 {"any", ReduceKind::any}, {"all", ReduceKind::all},   {"minnum", ReduceKind::minnum}, {"maxnum", ReduceKind::maxnum}};
    for (const auto& k : kinds)
        if (k.name == name) return k.kind;
    return std::nullopt;
}

}  // namespace

Value Elaborator::index_form(const ast::IndexFormExpr& e) {
    Shape extents;
    for (const ast::IndexBinder& binder : e.binders) {
        const auto extent = static_int(expr(*binder.extent), binder.extent->span, "the extent of an index");
        if (!extent) return poison(e.span);
        if (*extent < 1 || extents.rank == kMaxRank)
            return error(Diag::bad_shape, binder.extent->span,
                         *extent < 1 ? "an extent is at least 1, here is " + std::to_string(*extent) : "an index form has at most 8 indices");
        extents.push(*extent);
    }
    const int outer = form_rank_, rank = outer + extents.rank;
    if (rank > kMaxRank)
        return error(Diag::bad_shape, e.span, "nested index forms have at most 8 indices together, here are " + std::to_string(rank));
    if (!fits_budget(extents, e.span)) return poison(e.span);
    const auto scope = make_scope(scope_);
    ir().set_span(e.span);
    for (size_t d = 0; d < extents.rank; ++d) {
        // Leading dimensions of later indices are left out: broadcasting adds them.
        Shape shape;
        shape.push(extents[d]);
        for (int after = static_cast<int>(d) + 1; after < rank; ++after) shape.push(1);
        form_indices_.push_back(ir().iota(id_of(Fmt::i64), shape, 0));
        define(*scope, e.binders[d].name.text, tile(form_indices_.back(), e.binders[d].name.span));
        record(e.binders[d].name.span, tile(form_indices_.back(), e.binders[d].name.span));
    }
    const ScopeSwitch in_body(scope_, scope);
    const Restore restore(form_rank_, rank);
    Value result = e.reducer == nullptr ? form_tile(e, extents, rank) : form_reduction(e, extents, rank);
    form_indices_.resize(form_indices_.size() - extents.rank);
    return result;
}

/// `v` with leading dimensions so that it has `rank` of them; invalid (reported) when it has more.
ValueId Elaborator::aligned(ValueId v, int rank, const Shape& extents, Span span) {
    const Shape from = ir().fn().type(v).shape;
    if (from.rank > rank) {
        error(Diag::not_in_index_form, span, to_string(from), to_string(extents));
        return {};
    }
    Shape to;
    for (int d = from.rank; d < rank; ++d) to.push(1);
    for (int64_t extent : from) to.push(extent);
    return ir().reshape(v, to);
}

/// `v` (of full rank) stretched to the extents of the form's own, leading indices; invalid (reported) when it does not fit.
ValueId Elaborator::stretched(ValueId v, const Shape& extents, Span span) {
    Shape to = ir().fn().type(v).shape;
    for (size_t d = 0; d < extents.rank; ++d) {
        if (to[d] != 1 && to[d] != extents[d]) {
            error(Diag::not_in_index_form, span, to_string(ir().fn().type(v).shape), to_string(extents));
            return {};
        }
        to[d] = extents[d];
    }
    if (!fits_budget(to, span)) return {};
    return ir().broadcast(v, to);
}

Value Elaborator::form_tile(const ast::IndexFormExpr& e, const Shape& extents, int rank) {
    const Value body = expr(*e.body);
    ValueId v = to_tile(body, e.body->span);
    if (!v.valid()) return poison(e.span);
    ir().set_span(e.span);
    v = aligned(v, rank, extents, e.body->span);
    if (v.valid()) v = stretched(v, extents, e.body->span);
    return tile(v, e.span);
}

Value Elaborator::form_reduction(const ast::IndexFormExpr& e, const Shape& extents, int rank) {
    const std::string_view name = e.reducer->kind == ast::ExprKind::name ? ast::as<ast::NameExpr>(e.reducer).name : std::string_view();
    const auto kind = kind_of(name);
    if (!kind)
        return error(Diag::unknown_option, e.reducer->span, name.empty() ? "expression" : std::string(name), "reducer",
                     "sum, prod, min, max, minnum, maxnum, any, all");
    if (*kind == ReduceKind::sum && e.body->kind == ast::ExprKind::binary && ast::as<ast::BinaryExpr>(e.body).op == ast::BinaryOp::mul) {
        const auto& product = ast::as<ast::BinaryExpr>(e.body);
        const Value a = expr(*product.lhs), b = expr(*product.rhs);
        if (a.kind == Value::poison || b.kind == Value::poison) return poison(e.span);
        const auto is_number = [&](const Value& v) {
            return v.kind == Value::tile && !ir().fn().type(v.v).pointer && !ir().fn().elem(v.v).is_bool();
        };
        if (is_number(a) && is_number(b)) return form_product(e, a, b, extents, rank);
        return reduce_form(e, *kind, binary(ast::BinaryOp::mul, a, b, product.span), extents, rank);
    }
    return reduce_form(e, *kind, expr(*e.body), extents, rank);
}

Value Elaborator::reduce_form(const ast::IndexFormExpr& e, ReduceKind kind, const Value& body, const Shape& extents, int rank) {
    ValueId v;
    const bool logical = kind == ReduceKind::any || kind == ReduceKind::all;
    if (logical) {
        if (!to_bool(body, e.body->span, v)) return poison(e.span);
    } else {
        v = to_tile(body, e.body->span);
    }
    if (!v.valid()) return poison(e.span);
    ir().set_span(e.span);
    FormatId to = ir().fn().type(v).elem;
    if (kind == ReduceKind::sum || kind == ReduceKind::prod) {
        Call call;
        call.span = e.span;
        const auto acc = accumulation(call, v, nullptr);
        if (!acc) return poison(e.span);
        to = *acc;
    } else if (!logical && !ir::in_domain(Op::lt, ir().fn().elem(v), ir().fn().type(v).pointer)) {
        return error(Diag::wrong_element_kind, e.body->span, ir::to_string(kind), "`" + ir().fn().elem(v).name + "`", "ordered numbers");
    }
    v = aligned(flushed(v), rank, extents, e.body->span);
    if (v.valid()) v = stretched(v, extents, e.body->span);
    if (!v.valid()) return poison(e.span);
    for (size_t d = 0; d < extents.rank; ++d) v = ir().reduce(v, kind, static_cast<int>(extents.rank - 1 - d), true, to);
    return tile(flushed(v), e.span);
}

/// sum over the indices of a * b: both operands with the summed indices last, as one dimension, stretched to one shape.
Value Elaborator::form_product(const ast::IndexFormExpr& e, const Value& a, const Value& b, const Shape& extents, int rank) {
    const auto to = product_accumulator(elem_of(a), elem_of(b), "sum", e.body->span, ast::as<ast::BinaryExpr>(e.body).lhs->span,
                                        ast::as<ast::BinaryExpr>(e.body).rhs->span);
    if (!to) return poison(e.span);
    ir().set_span(e.span);
    std::vector<ValueId> sides{a.v, b.v};
    std::vector<int64_t> axes;
    for (int d = extents.rank; d < rank; ++d) axes.push_back(d);
    for (int d = 0; d < extents.rank; ++d) axes.push_back(d);
    for (size_t i = 0; i < 2; ++i) {
        const Span span = i == 0 ? ast::as<ast::BinaryExpr>(e.body).lhs->span : ast::as<ast::BinaryExpr>(e.body).rhs->span;
        ValueId v = aligned(sides[i], rank, extents, span);
        if (!v.valid()) return poison(e.span);
        Shape own = ir().fn().type(v).shape;
        for (size_t d = 0; d < extents.rank; ++d)
            if (own[d] != 1 && own[d] != extents[d]) return error(Diag::not_in_index_form, span, to_string(own), to_string(extents));
        v = ir().permute(v, axes);
        if (extents.rank > 1) {
            Shape full = ir().fn().type(v).shape, merged;
            for (size_t d = 0; d < static_cast<size_t>(rank); ++d) {
                const bool summed = d >= static_cast<size_t>(rank) - extents.rank;
                if (summed) full[d] = extents[d - (static_cast<size_t>(rank) - extents.rank)];
                if (!summed) merged.push(full[d]);
            }
            merged.push(extents.elements());
            if (!fits_budget(full, span)) return poison(e.span);
            v = ir().reshape(ir().broadcast(v, full), merged);
        }
        sides[i] = v;
    }
    const auto joint = broadcast(ir().fn().type(sides[0]).shape, ir().fn().type(sides[1]).shape);
    if (!joint) return error(Diag::shapes_do_not_broadcast, e.body->span, to_string(shape_of(a)), to_string(shape_of(b)));
    Shape full = *joint;
    full[full.rank - 1u] = extents.elements();
    if (!fits_budget(full, e.span)) return poison(e.span);
    for (ValueId& v : sides) v = ir().broadcast(v, full);
    Shape result;
    for (size_t d = 0; d + 1 < full.rank; ++d) result.push(full[d]);
    return tile(ir().value(Op::contract, {sides[0], sides[1]}, types_.tile(*to, result), {int64_t{full.rank} - 1}), e.span);
}

}  // namespace tegula::sema
