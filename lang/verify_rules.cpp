// The verifier's rules of ops without memory: elementwise, constants, shape, conversion, reductions, products (verify_rules.h).
#include "lang/verify_rules.h"

#include <algorithm>

#include "lang/scalar.h"

namespace tegula::ir {

namespace {

bool is_number(const Format& f) { return f.is_int() || f.is_float() || f.kind == FormatKind::fixed || f.kind == FormatKind::lns; }

/// May sums of `from` accumulate in `to`? Same kind, at least as wide; integers keep their signedness.
bool accumulates(const Format& from, const Format& to) {
    if (!is_number(from) || from.kind != to.kind || from.bits > to.bits) return false;
    return !from.is_int() || from.is_signed == to.is_signed;
}

bool orders(const Format& f) { return is_number(f) || f.is_bool(); }

bool fits(const Format& f, int64_t code) {
    const bool sign = f.is_signed && (f.is_int() || f.kind == FormatKind::fixed);
    return scalar::wrap(static_cast<uint64_t>(code), f.bits, sign) == static_cast<uint64_t>(code);
}

bool same_elem(const Type& a, const Type& b) { return a.elem == b.elem && a.pointer == b.pointer; }

bool is_permutation(std::span<const int64_t> axes, size_t rank) {
    if (axes.size() != rank) return false;
    for (size_t d = 0; d < rank; ++d)
        if (std::count(axes.begin(), axes.end(), static_cast<int64_t>(d)) != 1) return false;
    return true;
}

/// Is attribute `i` an axis of a tile of this rank?
bool is_axis(RuleContext& c, size_t i, const Shape& shape, int64_t low = 0) {
    return c.attr_in(i, low, int64_t{shape.rank} - 1, "axis is not a dimension of the operand");
}

}  // namespace

Shape drop_axis(const Shape& shape, int64_t axis) {
    Shape out;
    for (int64_t d = 0; axis >= 0 && d < shape.rank; ++d)
        if (d != axis) out.push(shape[static_cast<size_t>(d)]);
    return out;
}

void verify_elementwise(RuleContext& c) {
    const Type& first = c.operand(0);
    if (!c.need(first.kind == Type::tile, "operands are tiles")) return;
    for (size_t i = 1; i < c.operand_count(); ++i)
        if (!c.need_type(c.operand(i), first, "operand")) return;
    if (!in_domain(c.inst.op, c.elem(first), first.pointer)) return c.fail("is not defined on " + c.name(first));
    switch (op_row(c.inst.op).result) {
        case ResultRule::boolean:
            c.need_type(c.result(), tile_type(Fmt::boolean, first.shape), "result");
            break;
        case ResultRule::i32:
            c.need_type(c.result(), tile_type(Fmt::i32, first.shape), "result");
            break;
        default:
            c.need_type(c.result(), first, "result");
    }
}

void verify_select(RuleContext& c) {
    c.need_type(c.operand(0), tile_type(Fmt::boolean, c.result().shape), "condition");
    c.need_type(c.operand(1), c.result(), "operand 1");
    c.need_type(c.operand(2), c.result(), "operand 2");
}

// ---- constants and shape ----

void verify_constant(RuleContext& c) {
    if (c.result().pointer)
        c.need(c.attrs()[0] == 0, "the only pointer constant is 0");
    else
        c.need(fits(c.elem(c.result()), c.attrs()[0]), "code does not fit the element type");
}

void verify_constant_tile(RuleContext& c) {
    if (!c.need(!c.result().pointer, "elements are not pointers")) return;
    if (!c.need(c.attrs().size() == static_cast<size_t>(c.result().shape.elements()), "one code per element is needed")) return;
    for (int64_t code : c.attrs())
        if (!c.need(fits(c.elem(c.result()), code), "code does not fit the element type")) return;
}

void verify_iota(RuleContext& c) {
    c.need(is_int_tile(c, c.result()), "result is an integer tile");
    is_axis(c, 0, c.result().shape);
}

void verify_broadcast(RuleContext& c) {
    c.need(same_elem(c.operand(0), c.result()), "element type changes");
    c.need(tegula::broadcast(c.operand(0).shape, c.result().shape) == c.result().shape, "operand does not broadcast to the result's shape");
}

void verify_reshape(RuleContext& c) {
    c.need(same_elem(c.operand(0), c.result()), "element type changes");
    c.need(c.operand(0).shape.elements() == c.result().shape.elements(), "number of elements changes");
}

void verify_permute(RuleContext& c) {
    const Shape& from = c.operand(0).shape;
    if (!c.need(is_permutation(c.attrs(), from.rank), "axes are not a permutation")) return;
    Type wanted = c.operand(0);
    for (size_t d = 0; d < from.rank; ++d) wanted.shape[d] = from[static_cast<size_t>(c.attrs()[d])];
    c.need_type(c.result(), wanted, "result");
}

void verify_cat(RuleContext& c) {
    if (!c.need(c.operand_count() >= 1, "operands are missing") || !is_axis(c, 0, c.result().shape)) return;
    const auto axis = static_cast<size_t>(c.attrs()[0]);
    Type wanted = c.result();
    int64_t total = 0;
    for (size_t i = 0; i < c.operand_count(); ++i) {
        const Type& t = c.operand(i);
        if (!c.need(t.shape.rank == wanted.shape.rank, "operands have the result's rank")) return;
        total += t.shape[axis];
        wanted.shape[axis] = t.shape[axis];
        if (!c.need_type(t, wanted, "operand")) return;
    }
    c.need(total == c.result().shape[axis], "extents along the axis do not add up");
}

void verify_slice(RuleContext& c) {
    const Shape &from = c.operand(0).shape, &to = c.result().shape;
    c.need(same_elem(c.operand(0), c.result()), "element type changes");
    if (!c.need(from.rank == to.rank && c.attrs().size() == 2 * size_t{from.rank}, "one start and step per dimension is needed")) return;
    for (size_t d = 0; d < from.rank; ++d) {
        const int64_t start = c.attrs()[2 * d], step = c.attrs()[2 * d + 1];
        int64_t last = 0;
        if (!c.need(step != 0, "step is 0")) return;
        if (!c.need(!__builtin_mul_overflow(step, to[d] - 1, &last) && !__builtin_add_overflow(last, start, &last), "leaves the operand")) return;
        if (!c.need(start >= 0 && start < from[d] && last >= 0 && last < from[d], "leaves the operand")) return;
    }
}

void verify_gather(RuleContext& c) {
    const Shape &from = c.operand(0).shape, &to = c.result().shape;
    c.need(same_elem(c.operand(0), c.result()), "element type changes");
    c.need(is_int_tile(c, c.operand(1)) && c.operand(1).shape == to, "index is an integer tile of the result's shape");
    if (!c.need(from.rank == to.rank, "rank changes") || !is_axis(c, 0, from)) return;
    for (size_t d = 0; d < from.rank; ++d)
        if (static_cast<int64_t>(d) != c.attrs()[0]) c.need(from[d] == to[d], "only the extent of the axis may change");
}

// ---- conversion ----

void verify_cast(RuleContext& c) {
    if (!c.need(c.operand_count() == 1 || c.operand_count() == 2, "takes one operand and perhaps a seed or bits")) return;
    c.need(!c.operand(0).pointer && !c.result().pointer, "pointers are not numbers");
    c.need(c.operand(0).shape == c.result().shape, "shape changes");
    c.attr_in(0, 0, static_cast<int64_t>(Round::bits), "unknown rounding");
    c.attr_in(1, 0, static_cast<int64_t>(Overflow::trap), "unknown overflow rule");
    const auto round = static_cast<Round>(c.attrs()[0]);
    if (!c.need(is_random(round) == (c.operand_count() == 2), "a seed or bits go with stochastic rounding") || c.operand_count() == 1) return;
    if (round == Round::stochastic) c.need(is_scalar(c.operand(1), Fmt::u64), "the seed is a scalar u64");
    if (round == Round::bits)
        c.need(is_int_tile(c, c.operand(1)) && !c.elem(c.operand(1)).is_signed && c.operand(1).shape == c.result().shape,
               "the bits are unsigned integers of the result's shape");
}

void verify_bitcast(RuleContext& c) {
    const auto width = [&](const Type& t) { return t.pointer ? 64u : unsigned{c.elem(t).bits}; };
    c.need(c.operand(0).shape == c.result().shape, "shape changes");
    c.need(width(c.operand(0)) == width(c.result()), "element width changes");
}

// ---- reductions ----

void verify_reduce(RuleContext& c) {
    const Type& from = c.operand(0);
    if (!c.attr_in(0, 0, static_cast<int64_t>(ReduceKind::bit_xor), "unknown kind of reduction") || !c.attr_in(1, 0, 1, "order is 0 or 1")) return;
    if (!is_axis(c, 2, from.shape, -1)) return;
    if (!c.need(!from.pointer && !c.result().pointer, "pointers are not numbers")) return;
    c.need(c.result().shape == drop_axis(from.shape, c.attrs()[2]), "result's shape is not the operand's without the axis");
    const auto kind = static_cast<ReduceKind>(c.attrs()[0]);
    const Format& f = c.elem(from);
    if (kind == ReduceKind::sum || kind == ReduceKind::prod) {
        c.need(accumulates(f, c.elem(c.result())), "result cannot accumulate the operand's elements");
        return;
    }
    c.need(from.elem == c.result().elem, "element type changes");
    if (kind == ReduceKind::any || kind == ReduceKind::all)
        c.need(f.is_bool(), "operand is a bool tile");
    else if (kind >= ReduceKind::bit_and)
        c.need(f.is_int() || f.is_bool(), "operand is an integer or bool tile");
    else
        c.need(orders(f), "elements have no order");
}

void verify_arg_reduce(RuleContext& c) {
    const Type& from = c.operand(0);
    c.attr_in(0, static_cast<int64_t>(ReduceKind::min), static_cast<int64_t>(ReduceKind::max), "kind is min or max");
    if (!is_axis(c, 1, from.shape, -1) || !c.need(!from.pointer && orders(c.elem(from)), "elements have no order")) return;
    const Shape to = drop_axis(from.shape, c.attrs()[1]);
    c.need_type(c.result(0), tile_type(from.elem, to), "result 0");
    c.need_type(c.result(1), tile_type(Fmt::i32, to), "result 1");
}

namespace {

/// Elements of products: a, b multiply and accumulate in `to`. Codebooks stand for their values.
void need_product(RuleContext& c, const Type& a, const Type& b, const Type& to) {
    if (!c.need(!a.pointer && !b.pointer && !to.pointer, "pointers are not numbers")) return;
    const Format &x = c.elem(a), &y = c.elem(b), &z = c.elem(to);
    const auto factor = [](const Format& f) { return is_number(f) || f.kind == FormatKind::codebook; };
    c.need(factor(x) && factor(y) && is_number(z), "elements are numbers");
    c.need(!z.is_int() || (x.is_int() && y.is_int()), "an integer result needs integer operands");
}

}  // namespace

void verify_contract(RuleContext& c) {
    if (!is_axis(c, 0, c.operand(0).shape)) return;
    c.need(c.operand(0).shape == c.operand(1).shape, "operands have the same shape");
    c.need(c.result().shape == drop_axis(c.operand(0).shape, c.attrs()[0]), "result's shape is not the operands' without the axis");
    need_product(c, c.operand(0), c.operand(1), c.result());
}

void verify_scan(RuleContext& c) {
    const Type& from = c.operand(0);
    const bool kind_ok = c.attr_in(0, 0, static_cast<int64_t>(ReduceKind::max), "kind is sum, prod, min or max");
    if (!kind_ok || !is_axis(c, 1, from.shape) || !c.attr_in(2, 0, 1, "reverse is 0 or 1")) return;
    c.need(from.shape == c.result().shape && !from.pointer && !c.result().pointer, "result has the operand's shape");
    const bool order = c.attrs()[0] >= static_cast<int64_t>(ReduceKind::min);
    if (order)
        c.need(from.elem == c.result().elem && orders(c.elem(from)), "result has the operand's element type");
    else
        c.need(accumulates(c.elem(from), c.elem(c.result())), "result cannot accumulate the operand's elements");
}

void verify_sort(RuleContext& c) {
    const Type& from = c.operand(0);
    if (!is_axis(c, 0, from.shape) || !c.attr_in(1, 0, 1, "descending is 0 or 1")) return;
    if (!c.need(!from.pointer && orders(c.elem(from)), "elements have no order")) return;
    c.need_type(c.result(0), from, "result 0");
    c.need_type(c.result(1), tile_type(Fmt::i32, from.shape), "result 1");
}

void verify_histogram(RuleContext& c) {
    if (!c.need(c.operand_count() == 1 || c.operand_count() == 2, "takes one operand and perhaps a mask")) return;
    c.need(is_int_tile(c, c.operand(0)), "operand 0 is an integer tile");
    if (c.operand_count() == 2) c.need_type(c.operand(1), tile_type(Fmt::boolean, c.operand(0).shape), "mask");
    c.need(c.result().elem == Fmt::i32 && !c.result().pointer && c.result().shape.rank == 1, "result is a rank-1 i32 tile");
}

// ---- products ----

namespace {

/// [.., M, K] x [.., K, N] -> [.., M, N] with equal leading dimensions.
bool need_matrix_shapes(RuleContext& c, const Shape& a, const Shape& b, const Shape& to) {
    const size_t r = a.rank;
    if (!c.need(r >= 2 && b.rank == r && to.rank == r, "operands are matrices or equal batches of them")) return false;
    const bool batch = std::equal(a.begin(), a.end() - 2, b.begin()) && std::equal(a.begin(), a.end() - 2, to.begin());
    return c.need(batch && a[r - 1] == b[r - 2] && a[r - 2] == to[r - 2] && b[r - 1] == to[r - 1], "shapes do not multiply");
}

}  // namespace

void verify_dot(RuleContext& c) {
    c.attr_in(0, 0, static_cast<int64_t>(Precision::fast), "unknown precision");
    c.need_type(c.operand(2), c.result(), "accumulator");
    if (need_matrix_shapes(c, c.operand(0).shape, c.operand(1).shape, c.result().shape)) need_product(c, c.operand(0), c.operand(1), c.result());
}

void verify_dot_scaled(RuleContext& c) {
    const Type &a = c.operand(0), &b = c.operand(1), &sa = c.operand(3), &sb = c.operand(4);
    c.need_type(c.operand(2), c.result(), "accumulator");
    if (!need_matrix_shapes(c, a.shape, b.shape, c.result().shape)) return;
    if (!c.need(a.shape.rank == 2, "operands are matrices")) return;
    need_product(c, a, b, c.result());
    const int64_t k = a.shape[1], a_block = c.attrs()[0], b_block = c.attrs()[1];
    if (!c.need(a_block >= 1 && b_block >= 1 && k % a_block == 0 && k % b_block == 0, "blocks divide K")) return;
    c.need(!sa.pointer && sa.shape == Shape{a.shape[0], k / a_block}, "operand 3 has shape [M, K / a_block]");
    c.need(!sb.pointer && sb.shape == Shape{k / b_block, b.shape[1]}, "operand 4 has shape [K / b_block, N]");
    c.need(c.elem(sa).is_float() && c.elem(sb).is_float() && c.elem(c.result()).is_float(), "scales and accumulator are floats");
}

}  // namespace tegula::ir
