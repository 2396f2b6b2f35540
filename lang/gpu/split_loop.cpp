// Finding a split sum and what its programs exchange (split_loop.h).
#include "lang/gpu/split_loop.h"

#include <algorithm>

#include "lang/evaluate.h"
#include "lang/launch_value.h"
#include "lang/target.h"

namespace tegula {

using namespace ir;

namespace {

constexpr int64_t kOwnShared = 32;    ///< bytes of shared memory that the exchange takes beside the form's
constexpr int64_t kStageShared = 24;  ///< for the barriers of a channel's stage

/// Adds the tile whose total is carried value k; false when it is not the sum of the total and something else in registers of the same layout, or
/// just that where there is one stretch only.
bool add_tile(const Function& fn, const Block& body, size_t k, SplitLoop& out) {
    const BlockId here = fn.inst(body.insts.back()).parent;
    const ValueId total = body.args[k + 1], next = fn.operands(fn.inst(body.insts.back()))[k];
    const auto made_here = [&](ValueId v, Op op) { return fn.def(v) && fn.def(v)->op == op && fn.def(v)->parent == here; };
    const bool chosen = made_here(next, Op::select);
    const ValueId sum = chosen ? fn.operands(*fn.def(next))[2] : next;
    if (!made_here(sum, Op::add) || fn.type(sum).shape.rank == 0) return false;
    const auto in = fn.operands(*fn.def(sum));
    const size_t other = in[0] == total ? 1 : 0;
    if (!(in[1 - other] == total) || in[other] == total || (chosen && !(fn.operands(*fn.def(next))[1] == in[other]))) return false;
    const Inst* from = fn.def(in[other]);
    for (ValueId v : {total, sum, next, in[other]})
        if (fn.placement(v).kind != Placement::registers || !(fn.placement(v).regs == fn.placement(sum).regs)) return false;
    if (!from || from->op == Op::constant) return false;
    out.tail.push_back(fn.value(sum).def);
    if (chosen) out.tail.push_back(fn.value(next).def);
    out.partials.push_back(in[other]);
    out.offsets.push_back(out.bytes);
    const int64_t bytes = int64_t{fn.placement(sum).regs.registers()} * 32 * fn.gpu->warps * fn.elem(sum).container_bytes();
    out.bytes += (bytes + 15) / 16 * 16;
    return true;
}

}  // namespace

bool is_split_loop(const Function& fn, const Inst& loop) {
    if (loop.op != Op::for_loop) return false;
    return find_hint(fn.hints_of(loop), "split_k") != nullptr;
}

std::optional<SplitLoop> parallel_split(const Function& fn, std::string* why) {
    const auto no = [&](const char* reason) {
        if (why) *why = reason;
        return std::nullopt;
    };
    if (!fn.gpu) return std::nullopt;
    SplitLoop out;
    for (uint32_t b = 0; b < fn.block_count(); ++b)
        for (InstId id : fn.block(BlockId{b}).insts) {
            const Inst& inst = fn.inst(id);
            if (!is_split_loop(fn, inst)) continue;
            const InstId owner = fn.block(inst.parent).owner;
            if (owner.valid() && fn.inst(owner).op != Op::specialise) return no("its loop stands inside another one");
            if (owner.valid() && fn.blocks(fn.inst(owner))[0] == inst.parent) {
                if (inst.results.count) return no("copying ahead depends on the sums");
                continue;
            }
            if (out.loop.valid()) return no("there are several sums");
            out.loop = id;
        }
    if (!out.loop.valid()) return std::nullopt;
    const Inst& loop = fn.inst(out.loop);
    out.count = fn.operands(loop)[1];
    if (const auto parts = scalar_constant(fn, out.count)) out.parts = static_cast<int64_t>(*parts);
    if (out.parts == 1) return std::nullopt;
    if (out.parts == 0 && !known_at_launch(fn, out.count))
        return no("how many there are is no value of extents, scalar parameters and the grid: a launch does not know it");
    const Block& body = fn.block(fn.blocks(loop)[0]);
    for (size_t k = 0; k < loop.results.count; ++k)
        if (!add_tile(fn, body, k, out)) return no("its sums do not stay where they are summed");
    int64_t shared = fn.gpu->shared_bytes + kOwnShared;
    for (const auto& [value, channel] : fn.gpu->channels) shared += kStageShared * channel.stages;
    if (shared > fn.gpu->arch->shared_bytes) return no("shared memory is full");
    return out;
}

}  // namespace tegula
