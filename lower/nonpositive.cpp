// Signs of floats that the program's shape proves: what remains of a value after its own maximum was taken away is never above zero. `exp` asks, so
// that a softmax pays for one scale factor only.
#include "lower/fold.h"

namespace tegula {

using namespace ir;

namespace {

constexpr int kDepth = 8;  ///< of expressions looked at

bool has_order(const Type& t) { return !t.pointer && (t.elem == Fmt::f16 || t.elem == Fmt::bf16 || t.elem == Fmt::f32 || t.elem == Fmt::f64); }

/// a.shape without `axis`, or with 1 there.
bool is_shape_without(const Shape& shape, const Shape& of, int axis, bool keeps) {
    if (shape.rank + !keeps != of.rank) return false;
    for (int d = 0, from = 0; d < of.rank; ++d) {
        if (d == axis && !keeps) continue;
        if (shape[static_cast<size_t>(from++)] != (d == axis ? 1 : of[static_cast<size_t>(d)])) return false;
    }
    return true;
}

/// Is `v` NaN or at least the maximum of `a` along `axis` (-1: of all elements) everywhere? `number`: and NaN only where all these elements are, so
/// that a maxnum cannot put something small in its place.
bool covers_axis(const Function& fn, ValueId v, ValueId a, int axis, bool number, int depth) {
    const Inst* def = fn.def(v);
    if (!def || depth == 0) return false;
    const auto operands = fn.operands(*def);
    number = number || def->op == Op::maxnum;
    if (def->op == Op::maxnum || (def->op == Op::max && !number))
        return covers_axis(fn, operands[0], a, axis, number, depth - 1) || covers_axis(fn, operands[1], a, axis, number, depth - 1);
    if (def->op != Op::reduce || operands[0] != a || fn.type(v).elem != fn.type(a).elem) return false;
    const auto attrs = fn.attrs(*def);
    const auto kind = static_cast<ReduceKind>(attrs[0]);
    if (kind != ReduceKind::maxnum && (kind != ReduceKind::max || number)) return false;
    return attrs[2] == axis || (axis < 0 && fn.type(a).shape.rank == 1);
}

/// Is `v`, of the type of `a`, nowhere below `a`, NaN aside? `number` as above.
bool covers(const Function& fn, ValueId v, ValueId a, bool number, int depth) {
    if (v == a) return true;
    const Inst* def = fn.def(v);
    if (!def || depth == 0) return false;
    const auto operands = fn.operands(*def);
    number = number || def->op == Op::maxnum;
    if (def->op == Op::maxnum || (def->op == Op::max && !number))
        return covers(fn, operands[0], a, number, depth - 1) || covers(fn, operands[1], a, number, depth - 1);
    if (def->op != Op::broadcast) return false;
    const Shape& shape = fn.type(a).shape;
    if (fn.type(operands[0]).shape.rank == 0) return covers_axis(fn, operands[0], a, -1, number, depth - 1);
    const Inst* reshape = fn.def(operands[0]);
    if (!reshape || reshape->op != Op::reshape) return false;
    const ValueId line = fn.operands(*reshape)[0];
    for (int axis = 0; axis < shape.rank; ++axis)
        if (is_shape_without(fn.type(operands[0]).shape, shape, axis, true) && is_shape_without(fn.type(line).shape, shape, axis, false) &&
            covers_axis(fn, line, a, axis, number, depth - 1))
            return true;
    return false;
}

bool constant_sign(const Function& fn, ValueId v, bool positive) {
    const auto c = constant_of(fn, v);
    if (!c || c->codes.size() != 1) return false;
    const double value = decode(fn.elem(v), c->codes[0]);
    return positive ? value > 0 : value <= 0;
}

bool nonpositive(const Function& fn, ValueId v, int depth) {
    const Inst* def = fn.def(v);
    if (!def || depth == 0 || !has_order(fn.type(v))) return false;
    const auto operands = fn.operands(*def);
    const auto is = [&](size_t i) { return nonpositive(fn, operands[i], depth - 1) || constant_sign(fn, operands[i], false); };
    switch (def->op) {
        case Op::sub:
            return covers(fn, operands[1], operands[0], false, depth - 1);
        case Op::max:
            return is(0) && is(1);
        case Op::min:
            return is(0) || is(1);
        case Op::mul:
            return (is(0) && constant_sign(fn, operands[1], true)) || (is(1) && constant_sign(fn, operands[0], true));
        case Op::neg: {
            const Inst* inner = fn.def(operands[0]);
            return inner && inner->op == Op::abs;
        }
        default:
            return false;
    }
}

}  // namespace

bool is_nonpositive(const Function& fn, ValueId v) { return nonpositive(fn, v, kDepth); }

}  // namespace tegula
