// Masks: a 64-bit count of elements compared with a scalar. Every count fits 31 bits, so that the scalar is clamped
// once, next to the counts' range, and each element costs one 32-bit comparison.
#include <algorithm>

#include "lang/gpu/wide_access.h"
#include "lower/kernel/control/control.h"
#include "lower/kernel/elementwise/elementwise.h"
#include "lower/kernel/product/product.h"
#include "lower/kernel/values.h"

namespace tegula::lower {

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

bool compare_counts(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const ir::ValueId to = ctx.fn.result(inst);
    const char* sign = comparison(inst.op);
    const auto in = ctx.fn.operands(inst);
    if (!sign || is_scalar(ctx, to) || ctx.fn.type(in[0]).pointer || !ctx.fn.elem(in[0]).is_int() ||
        ctx.fn.elem(in[0]).bits != 64)
        return false;
    for (size_t side = 0; side < 2; ++side) {
        const ir::Inst* bound = ctx.fn.def(in[1 - side]);
        int axis = 0;
        if (!bound || bound->op != Op::broadcast || !is_scalar(ctx, ctx.fn.operands(*bound)[0]) ||
            !counts(ctx.fn, in[side], axis))
            continue;
        const std::string type = type_of(ctx, ctx.fn.operands(*bound)[0]), clamped = ctx.out.fresh("clamped"),
                          scalar = name(ctx, ctx.fn.operands(*bound)[0]);
        const std::string below = ctx.fn.elem(in[0]).is_signed ? "v < 0 ? -1 : " : "";
        const std::string clamp =
            support(ctx, "clamp to counts " + type, "clamp_to_counts",
                    "// Outside [0, top) on the same side, as an int.\n__device__ __forceinline__ int $(" + type +
                        " v, int top) {\n    return " + below + "v > (" + type + ")top ? top : (int)v;\n}\n");
        ctx.out.let("int", clamped,
                    raw(ctx, clamp + "(" + scalar + ", " +
                                 std::to_string(ctx.fn.type(to).shape[static_cast<size_t>(axis)]) + ")"));
        // The thread's part of a count goes to the other side, once: each register is compared as a constant.
        const bool apart = is_additive(layout(ctx, to), axis);
        const Ex top = ctx.pool.name(kernel::Type::i32, clamped);
        const std::string limit =
            (apart ? ctx.out.constant("limit", top - thread_part(ctx, layout(ctx, to), axis)) : top).text();
        const bool prefix = side == 0 ? inst.op == Op::lt || inst.op == Op::le : inst.op == Op::gt || inst.op == Op::ge;
        if (prefix && apart && ctx.plan.runs(KernelPass::prefixes))
            ctx.values.prefixes[to.v] = {axis, [=](int count) {
                                             return side == 0 ? std::to_string(count) + sign + limit
                                                              : limit + sign + std::to_string(count);
                                         }};
        assign(ctx, to, [&](Ex r) {
            const std::string count =
                (apart ? register_part(layout(ctx, to), axis, r) : coordinate(ctx, layout(ctx, to), axis, r)).atom();
            return "(" + (side == 0 ? count + sign + limit : limit + sign + count) + ")";
        });
        return true;
    }
    return false;
}

/// A choice by a mask that is true for the first counts: registers that lie together are all chosen from the first
/// operand wherever the last of them is, which one comparison tells.
bool select_by_counts(Lowering& ctx, ir::InstId id) {
    constexpr int kTogether = 8;
    const ir::ValueId to = ctx.fn.result(id);
    const auto in = ctx.fn.operands(ctx.fn.inst(id));
    const auto prefix = ctx.values.prefixes.find(in[0].v);
    if (prefix == ctx.values.prefixes.end() || registers(ctx, to) % kTogether ||
        registers(ctx, to) > ctx.values.unroll_limit || !(layout(ctx, to) == layout(ctx, in[0])))
        return false;
    const auto d = static_cast<size_t>(prefix->second.axis);
    ctx.plan.decide(KernelPass::prefixes, to);
    declare(ctx, to);
    for (int first = 0; first < registers(ctx, to); first += kTogether) {
        int64_t last = 0;
        for (int r = first; r < first + kTogether; ++r)
            last = std::max<int64_t>(last, layout(ctx, to).point(r, 0, 0)[d]);
        const auto all = [&](const std::function<std::string(Ex r)>& value) {
            each(ctx, kTogether, [&](Ex i) {
                const Ex r = i + first;
                ctx.out.assign(element_at(ctx, to, r), raw(ctx, value(r)));
            });
        };
        ctx.out.open_if(raw(ctx, prefix->second.holds(static_cast<int>(last))));
        all([&](Ex r) { return text_at(ctx, in[1], r); });
        ctx.out.otherwise();
        all([&](Ex r) { return select_text(ctx, in, r); });
        ctx.out.close();
    }
    return true;
}

}  // namespace tegula::lower
