// Masks: a 64-bit count of elements compared with a scalar. Every count fits 31 bits, so that the scalar is clamped once, next to the counts' range,
// and each element costs one 32-bit comparison.
#include <algorithm>

#include "jit/cuda/emitter.h"

namespace tegula::cuda {

namespace {

using ir::Op;

const char* comparison(Op op) {
    switch (op) {
        case Op::lt:
            return " < ";
        case Op::le:
            return " <= ";
        case Op::gt:
            return " > ";
        case Op::ge:
            return " >= ";
        case Op::eq:
            return " == ";
        case Op::ne:
            return " != ";
        default:
            return nullptr;
    }
}

/// Through ops that leave the counts as they are; `axis` becomes the dimension of `v` along which they run.
const ir::Inst* counts(const ir::Function& fn, ir::ValueId v, int& axis) {
    const ir::Inst* def = fn.def(v);
    if (def && def->op == Op::convert) def = fn.def(fn.operands(*def)[0]);
    if (def && def->op == Op::broadcast) {
        const ir::ValueId from = fn.operands(*def)[0];
        const Shape &in = fn.type(from).shape, &out = fn.type(fn.result(*def)).shape;
        const ir::Inst* source = in.rank > 0 ? fn.def(from) : nullptr;
        if (!source || source->op != Op::iota) return nullptr;
        const auto d = static_cast<size_t>(fn.attrs(*source)[0]);
        axis = static_cast<int>(d + out.rank - in.rank);
        return in[d] == out[static_cast<size_t>(axis)] ? source : nullptr;
    }
    if (!def || def->op != Op::iota) return nullptr;
    axis = static_cast<int>(fn.attrs(*def)[0]);
    return def;
}

}  // namespace

bool Emitter::compare_counts(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    const ir::ValueId to = fn_.result(inst);
    const char* sign = comparison(inst.op);
    const auto in = fn_.operands(inst);
    if (!sign || is_scalar(to) || fn_.type(in[0]).pointer || !fn_.elem(in[0]).is_int() || fn_.elem(in[0]).bits != 64) return false;
    for (size_t side = 0; side < 2; ++side) {
        const ir::Inst* bound = fn_.def(in[1 - side]);
        int axis = 0;
        if (!bound || bound->op != Op::broadcast || !is_scalar(fn_.operands(*bound)[0]) || !counts(fn_, in[side], axis)) continue;
        const std::string type = type_of(fn_.operands(*bound)[0]), clamped = fresh("clamped"), scalar = name(fn_.operands(*bound)[0]);
        const std::string below = fn_.elem(in[0]).is_signed ? "v < 0 ? -1 : " : "";
        const std::string clamp = support("clamp to counts " + type, "clamp_to_counts",
                                          "// Outside [0, top) on the same side, as an int.\n__device__ __forceinline__ int $(" + type +
                                              " v, int top) {\n    return " + below + "v > (" + type + ")top ? top : (int)v;\n}\n");
        line("const int " + clamped + " = " + clamp + "(" + scalar + ", " + std::to_string(fn_.type(to).shape[static_cast<size_t>(axis)]) + ");");
        // The thread's part of a count goes to the other side, once: each register is compared as a constant.
        const bool apart = additive(layout(to), axis);
        const std::string limit = apart ? fresh("limit") : clamped;
        if (apart) line("const int " + limit + " = " + (pool_.name(kernel::Type::i32, clamped) - thread_part(layout(to), axis)).text() + ";");
        const bool prefix = side == 0 ? inst.op == Op::lt || inst.op == Op::le : inst.op == Op::gt || inst.op == Op::ge;
        if (prefix && apart)
            prefixes_[to.v] = {axis,
                               [=](int count) { return side == 0 ? std::to_string(count) + sign + limit : limit + sign + std::to_string(count); }};
        assign(to, [&](Ex r) {
            const std::string count = (apart ? register_part(layout(to), axis, r) : coordinate(layout(to), axis, r)).atom();
            return "(" + (side == 0 ? count + sign + limit : limit + sign + count) + ")";
        });
        return true;
    }
    return false;
}

/// A choice by a mask that is true for the first counts: registers that lie together are all chosen from the first operand wherever the last of them
/// is, which one comparison tells.
bool Emitter::select_by_counts(ir::InstId id) {
    constexpr int kTogether = 8;
    const ir::ValueId to = fn_.result(id);
    const auto in = fn_.operands(fn_.inst(id));
    const auto prefix = prefixes_.find(in[0].v);
    if (prefix == prefixes_.end() || registers(to) % kTogether || registers(to) > unroll_limit_ || !(layout(to) == layout(in[0]))) return false;
    const auto d = static_cast<size_t>(prefix->second.axis);
    declare(to);
    for (int first = 0; first < registers(to); first += kTogether) {
        int64_t last = 0;
        for (int r = first; r < first + kTogether; ++r) last = std::max<int64_t>(last, layout(to).point(r, 0, 0)[d]);
        const auto all = [&](const std::function<std::string(Ex r)>& value) {
            each(kTogether, [&](Ex i) {
                const Ex r = i + first;
                line(at(to, r) + " = " + value(r) + ";");
            });
        };
        open("if (" + prefix->second.holds(static_cast<int>(last)) + ")");
        all([&](Ex r) { return at(in[1], r); });
        close("} else {");
        ++depth_;
        all([&](Ex r) { return at(in[0], r) + " ? " + at(in[1], r) + " : " + at(in[2], r); });
        close();
    }
    return true;
}

}  // namespace tegula::cuda
