// contract(a, b, axis) -> dot (recognise.h). Looking through broadcasts, permutes, unit reshapes and casts shows along which indices each
// operand really varies; indices of both are batch, of one rows or columns. Both ops are one fma chain over ascending k from zero.
#include <algorithm>

#include "lower/recognise.h"

namespace tegula {

using namespace ir;

namespace {

/// New `dims` for the operand of a broadcast with result dims `dims`.
std::vector<int> through_broadcast(const Shape& from, const Shape& to, const std::vector<int>& dims) {
    std::vector<int> out;
    const size_t skip = to.rank - from.rank;
    for (size_t d = 0; d < from.rank; ++d) out.push_back(from[d] == to[d + skip] ? dims[d + skip] : -1);
    return out;
}

/// Only extents of 1 come or go; false for any other reshape.
bool through_reshape(const Shape& from, const Shape& to, std::vector<int>& dims) {
    std::vector<int> out(from.rank, -1);
    size_t t = 0;
    for (size_t d = 0; d < from.rank; ++d) {
        if (from[d] == 1) continue;
        while (t < to.rank && to[t] == 1) ++t;
        if (t == to.rank || to[t] != from[d]) return false;
        out[d] = dims[t++];
    }
    while (t < to.rank && to[t] == 1) ++t;
    if (t != to.rank) return false;
    dims = std::move(out);
    return true;
}

ProductOperand trace(const Function& fn, ValueId v) {
    ProductOperand o;
    o.base = v;
    for (int d = 0; d < fn.type(v).shape.rank; ++d) o.dims.push_back(fn.type(v).shape[static_cast<size_t>(d)] == 1 ? -1 : d);
    for (;;) {
        const Inst* def = fn.def(o.base);
        if (!def || def->operands.count != 1) return o;
        const ValueId from = fn.operands(*def)[0];
        const Shape &inner = fn.type(from).shape, &outer = fn.type(o.base).shape;
        switch (def->op) {
            case Op::broadcast:
                o.dims = through_broadcast(inner, outer, o.dims);
                break;
            case Op::reshape:
                if (!through_reshape(inner, outer, o.dims)) return o;
                break;
            case Op::permute: {
                std::vector<int> dims(o.dims.size());
                for (size_t d = 0; d < dims.size(); ++d) dims[static_cast<size_t>(fn.attrs(*def)[d])] = o.dims[d];
                o.dims = std::move(dims);
                break;
            }
            case Op::cast:
                o.casts.push_back(fn.value(o.base).def);
                break;
            default:
                return o;
        }
        o.base = from;
    }
}

bool varies(const ProductOperand& o, int index) { return std::find(o.dims.begin(), o.dims.end(), index) != o.dims.end(); }

int64_t extent_of(const std::vector<int>& indices, const Shape& space) {
    int64_t n = 1;
    for (int i : indices) n *= space[static_cast<size_t>(i)];
    return n;
}

/// Is every value of `from` surely a value of the float format `to`? Compares precision and the range of exponents.
bool embeds(const Format& from, const Format& to) {
    if (from == to) return true;
    if (from.is_int()) return from.bits <= to.man_bits + 1 && to.exp_bits >= 5 && to.bias == (1 << (to.exp_bits - 1)) - 1;
    if (!from.is_float() || from.scale_only || !to.subnormal) return false;
    const int top_from = (1 << from.exp_bits) - (from.nan == NanCode::ieee ? 2 : 1) - from.bias;
    const int top_to = (1 << to.exp_bits) - 2 - to.bias;
    const bool specials = (!from.has_inf || to.has_inf) && (from.nan == NanCode::none || to.nan != NanCode::none);
    return specials && from.man_bits <= to.man_bits && from.bias <= to.bias && top_from <= top_to;
}

/// contract rounds its operands to the result's format; dot does so only where that format computes natively. Elsewhere a cast must say it.
ValueId rounded(Builder& b, ValueId v, FormatId result) {
    const Format &from = b.fn().elem(v), &to = b.fn().types().format(result);
    const bool implied = !to.is_float() || result == Fmt::f32 || result == Fmt::f64 || embeds(from, to);
    return implied ? v : b.cast(v, result);
}

/// The operand as [batch, outer, k] or [batch, k, outer], the batch left out when there is none.
ValueId matrix(Builder& b, const ProductOperand& o, const std::vector<std::vector<int>>& groups, const Shape& space) {
    Function& fn = b.fn();
    ValueId v = o.base;
    for (size_t i = o.casts.size(); i-- > 0;) {
        const Inst cast = fn.inst(o.casts[i]);
        v = b.cast(v, fn.type(fn.result(cast)).elem, static_cast<Round>(fn.attrs(cast)[0]), static_cast<Overflow>(fn.attrs(cast)[1]));
    }
    Shape squeezed;
    std::vector<int> dims;
    for (size_t d = 0; d < o.dims.size(); ++d) {
        if (o.dims[d] < 0) continue;
        squeezed.push(fn.type(o.base).shape[d]);
        dims.push_back(o.dims[d]);
    }
    v = b.reshape(v, squeezed);
    std::vector<int64_t> axes;
    Shape shape;
    for (size_t g = 0; g < groups.size(); ++g) {
        for (int index : groups[g]) axes.push_back(std::find(dims.begin(), dims.end(), index) - dims.begin());
        if (g > 0 || !groups[g].empty()) shape.push(extent_of(groups[g], space));
    }
    if (!std::is_sorted(axes.begin(), axes.end())) v = b.permute(v, axes);
    return b.reshape(v, shape);
}

}  // namespace

ProductPlan plan_product(const Function& fn, const Inst& contract) {
    ProductPlan plan{trace(fn, fn.operands(contract)[0]), trace(fn, fn.operands(contract)[1]), {}, {}, {}, {}};
    const Shape& space = fn.type(fn.operands(contract)[0]).shape;
    const int k = static_cast<int>(fn.attrs(contract)[0]);
    const bool in_a = varies(plan.a, k), in_b = varies(plan.b, k);
    for (int i = 0; i < space.rank; ++i) {
        if (i == k) continue;
        if (varies(plan.a, i) && varies(plan.b, i))
            plan.batch.push_back(i);
        else if (varies(plan.a, i))
            plan.rows.push_back(i);
        else if (varies(plan.b, i))
            plan.columns.push_back(i);
    }
    if (!plan.rows.empty() && !plan.columns.empty() && plan.columns[0] < plan.rows[0]) {  // products commute: the result's rows come first
        std::swap(plan.a, plan.b);
        std::swap(plan.rows, plan.columns);
    }
    if (space[static_cast<size_t>(k)] == 1)
        plan.refusal = "the summed index has extent 1";
    else if (!in_a && !in_b)
        plan.refusal = "the summed index appears in neither operand";
    else if (!in_a || !in_b)
        plan.refusal = std::string("the summed index appears in the ") + (in_a ? "first" : "second") + " operand only";
    else if (plan.rows.empty() && plan.columns.empty())
        plan.refusal = "every index appears in both operands, so there are no rows and columns to multiply";
    return plan;
}

ValueId make_product(Builder& b, const Inst& contract, const ProductPlan& plan) {
    Function& fn = b.fn();
    const Shape space = fn.type(fn.operands(contract)[0]).shape, result_shape = fn.type(fn.result(contract)).shape;
    const int k = static_cast<int>(fn.attrs(contract)[0]);
    const FormatId elem = fn.type(fn.result(contract)).elem;
    const ValueId x = rounded(b, matrix(b, plan.a, {plan.batch, plan.rows, {k}}, space), elem);
    const ValueId y = rounded(b, matrix(b, plan.b, {plan.batch, {k}, plan.columns}, space), elem);
    Shape product_shape, open_shape;
    if (!plan.batch.empty()) product_shape.push(extent_of(plan.batch, space));
    product_shape.push(extent_of(plan.rows, space));
    product_shape.push(extent_of(plan.columns, space));
    const ValueId zero = b.constant(fn.types().tile(elem, product_shape), encode(fn.types().format(elem), 0.0));
    const ValueId product = b.dot(x, y, zero, Precision::ieee);
    std::vector<int> dims;
    for (const auto* group : {&plan.batch, &plan.rows, &plan.columns}) {
        for (int i : *group) {
            open_shape.push(space[static_cast<size_t>(i)]);
            dims.push_back(i > k ? i - 1 : i);
        }
    }
    return spread(b, b.reshape(product, open_shape), dims, result_shape);
}

}  // namespace tegula
