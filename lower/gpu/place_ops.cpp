// Placer, instruction by instruction: where each op needs its operands and leaves its results (placer.h).
#include <algorithm>

#include "lang/gpu/packed_view.h"
#include "lower/gpu/channels.h"
#include "lower/gpu/placer.h"

namespace tegula {

using namespace ir;

void Placer::walk(BlockId block) {
    const std::vector<InstId> insts = fn_.block(block).insts;
    for (const InstId id : insts) {
        const Inst inst = fn_.inst(id);
        if (inst.results.count == 1 && is_tile(fn_.result(inst)) && cheap(fn_.result(inst))) continue;
        instruction(id);
    }
}

void Placer::instruction(InstId id) {
    switch (fn_.inst(id).op) {
        case Op::for_loop:
        case Op::while_loop:
        case Op::if_else:
        case Op::specialise:
            return control(id);
        case Op::yield:
        case Op::condition:
            return leave_block(id);
        case Op::load:
        case Op::store:
        case Op::atomic:
            return memory(id);
        case Op::dot:
        case Op::dot_scaled:
            if (product_row(fn_, id).tensor_core()) return product(id);
            break;
        case Op::ptx_tile:
            return in_fragments(id);
        case Op::broadcast:
        case Op::permute:
        case Op::reshape:
            return moved(id);
        case Op::reduce:
        case Op::arg_reduce:
            return reduced(id);
        case Op::channel_get:
            return taken(id);
        default:
            break;
    }
    const Inst inst = fn_.inst(id);
    const Alike a = alike(fn_, inst);
    in_layout(id, a, a.like.valid() && is_tile(a.like) ? group(a.like) : Placement{});
    for (const BlockId b : std::vector<BlockId>(fn_.blocks(inst).begin(), fn_.blocks(inst).end())) walk(b);
}

void Placer::in_layout(InstId id, const Alike& a, const Placement& p) {
    std::vector<ValueId> operands(fn_.operands(fn_.inst(id)).begin(), fn_.operands(fn_.inst(id)).end());
    for (size_t i = 0; i < operands.size(); ++i) {
        const bool here = p.kind == Placement::registers && std::find(a.operands.begin(), a.operands.end(), i) != a.operands.end();
        const bool stays = is_product(fn_.inst(id).op) && product_row(fn_, id).kind == MmaRow::dp4a && lies_in_shared(operands[i]);
        operands[i] = here ? demand(operands[i], p) : stays ? operands[i] : any(operands[i]);
    }
    fn_.set_operands(id, operands);
    const Inst inst = fn_.inst(id);
    for (uint32_t r = 0; r < inst.results.count; ++r) {
        const ValueId v = fn_.result(inst, r);
        if (is_tile(v)) set_home(v, v == a.like ? p : group(v));
    }
}

void Placer::memory(InstId id) {
    const Inst inst = fn_.inst(id);
    const Alike a = alike(fn_, inst);
    if (!is_tile(a.like)) return in_layout(id, a, {});
    Placement p = cheap(a.like) ? in_registers(memory_layout(fn_, inst)) : group(a.like);
    const bool writes = inst.op == Op::store || inst.op == Op::atomic;
    fn_.gpu->of_inst[id.v].bulk = !simple_ && writes && bulk_refusal(fn_, options_, id, p.regs).empty();
    if (fn_.gpu->of_inst[id.v].bulk) return in_layout(id, a, p);
    if (!simple_ && !whole_sectors(fn_, inst, p.regs) && !packed_view(fn_, inst, p.regs)) {
        const TileLayout own = memory_layout(fn_, inst);
        if (whole_sectors(fn_, inst, own)) p = in_registers(own);
    }
    if (!simple_)
        if (const auto wide = exchanged_layout(fn_, inst, p.regs)) p = in_registers(*wide);
    in_layout(id, a, p);
}

void Placer::product(InstId id) {
    std::vector<ValueId> operands(fn_.operands(fn_.inst(id)).begin(), fn_.operands(fn_.inst(id)).end());
    const MmaRow& row = product_row(fn_, id);
    for (size_t i = 0; i < 2; ++i)
        if (homeless(operands[i])) operands[i] = any(operands[i]);
    if (row.kind == MmaRow::mma && decode_hint(fn_) == Decode::through_shared)
        for (size_t i = 0; i < 2; ++i)
            if (is_decoded(fn_, fn_.inst(id), i)) operands[i] = demand(operands[i], shared_operand(fn_, operands[i], row, static_cast<int>(i)));
    const bool computed = row.kind != MmaRow::tcgen05 && home(operands[0]).kind == Placement::registers && lies_as_fragment(id, operands[0]);
    const ProductPlacements want = product_placements(fn_, id, grids_.of(fn_, id), computed);
    const auto reads = [&](int which) {
        const Placement& p = home(operands[static_cast<size_t>(which)]);
        return row.from_shared() && p.kind == Placement::shared && row_reads(row, which, p.smem);
    };
    if (!reads(0)) operands[0] = demand(operands[0], want.a);
    if (!reads(1)) operands[1] = demand(operands[1], want.b);
    const Placement sum = row.kind == MmaRow::tcgen05 ? kept(fn_.result(id)) : in_registers(want.acc);
    operands[2] = sum.kind == Placement::tensor ? started(operands[2], sum, id) : demand(operands[2], sum);
    for (size_t i = 3; i < operands.size(); ++i) operands[i] = any(operands[i]);
    fn_.set_operands(id, operands);
    set_home(fn_.result(id), sum);
}

bool Placer::lies_as_fragment(InstId dot, ValueId a) const {
    const TileLayout like = product_placements(fn_, dot, grids_.of(fn_, dot), true).a.regs;
    if (home(a).regs == like) return true;
    const Shape& shape = fn_.type(a).shape;
    if (shape.rank < 2) return false;
    for (int m = 1; m <= fn_.gpu->warps; m *= 2)
        if (home(a).regs == mma_accumulator(shape, m, fn_.gpu->warps / m) && like.warps() == fn_.gpu->warps) return true;
    return false;
}

void Placer::in_fragments(InstId id) {
    // The widest of operands and result says where groups lie, if its own layout keeps them together.
    std::vector<ValueId> operands(fn_.operands(fn_.inst(id)).begin(), fn_.operands(fn_.inst(id)).end());
    std::optional<TileLayout> groups;
    int64_t most = 0;
    for (size_t i = 0; i <= operands.size() && !simple_; ++i) {
        const ValueId v = i < operands.size() ? operands[i] : fn_.result(id);
        const int64_t bits = fn_.type(v).shape.elements() * fn_.elem(v).bits;
        if (bits <= most || (i < operands.size() && home(v).kind != Placement::registers)) continue;
        const auto found = instruction_groups(fn_, fn_.inst(id), i, i < operands.size() ? home(v).regs : group(v).regs);
        if (found) groups = found, most = bits;
    }
    const InstructionPlacements want = instruction_placements(fn_, fn_.inst(id), groups);
    for (size_t i = 0; i < operands.size(); ++i) operands[i] = demand(any(operands[i]), want.operands[i]);
    fn_.set_operands(id, operands);
    set_home(fn_.result(id), want.result);
}

void Placer::moved(InstId id) {
    const Inst inst = fn_.inst(id);
    const ValueId from = fn_.operands(inst)[0], to = fn_.result(inst);
    if (!is_tile(to)) {
        const ValueId operands[] = {any(from)};
        return fn_.set_operands(id, operands);
    }
    if (is_tile(from) && home(from).kind == Placement::shared) {
        if (const auto view = shared_view(fn_, inst, home(from).smem)) {
            Placement p;
            p.kind = Placement::shared;
            p.smem = *view;
            return set_home(to, p);
        }
    }
    const Placement p = group(to);
    ValueId operand = from;
    if (is_tile(from)) {
        const auto l = operand_layout(fn_, inst, p.regs);
        operand = l ? demand(from, in_registers(*l)) : any(from);
    }
    const ValueId operands[] = {operand};
    fn_.set_operands(id, operands);
    set_home(to, p);
}

void Placer::reduced(InstId id) {
    const ValueId operands[] = {any(fn_.operands(fn_.inst(id))[0])};
    fn_.set_operands(id, operands);
    const Inst inst = fn_.inst(id);
    const auto l = is_tile(operands[0]) && is_tile(fn_.result(inst)) ? result_layout(fn_, inst, home(operands[0]).regs) : std::nullopt;
    for (uint32_t r = 0; r < inst.results.count; ++r)
        if (const ValueId v = fn_.result(inst, r); is_tile(v)) set_home(v, l ? in_registers(*l) : group(v));
}

void Placer::taken(InstId id) {
    const ValueId tile = fn_.result(id);
    GpuChannel* ring = fn_.gpu->channel(fn_.operands(fn_.inst(id))[0].v);
    TEGULA_CHECK(ring, "a channel has no ring");
    if (ring->own) {
        // Threads may as well copy what the group's layout gives them, by 4 bytes or more.
        if (const TileLayout& l = group(tile).regs; suits_own_ring(fn_, tile, l, ring->layout.contiguous, 4)) ring->own = l;
        return set_home(tile, in_registers(*ring->own));
    }
    Placement p;
    p.kind = Placement::shared;
    p.smem = ring->layout;
    set_home(tile, p);
}

void Placer::control(InstId id) {
    const Inst inst = fn_.inst(id);
    const std::vector<BlockId> blocks(fn_.blocks(inst).begin(), fn_.blocks(inst).end());
    for (const BlockId b : blocks)
        for (const ValueId v : fn_.block(b).args)
            if (is_tile(v)) set_home(v, kept(v));
    std::vector<ValueId> operands(fn_.operands(inst).begin(), fn_.operands(inst).end());
    const size_t first = inst.op == Op::for_loop ? 3 : 0;
    for (size_t i = first; i < operands.size() && inst.op != Op::if_else; ++i) {
        const Placement p = kept_tile(fn_.block(blocks[0]).args[i - first + (inst.op == Op::for_loop)]);
        operands[i] = p.kind == Placement::tensor ? started(operands[i], p, id) : demand(operands[i], p);
    }
    fn_.set_operands(id, operands);
    for (const BlockId b : blocks) walk(b);
    for (uint32_t r = 0; r < inst.results.count; ++r)
        if (const ValueId v = fn_.result(inst, r); is_tile(v)) set_home(v, kept(v));
}

void Placer::leave_block(InstId id) {
    const BlockId block = fn_.inst(id).parent;
    const InstId owner = fn_.block(block).owner;
    const Inst loop = fn_.inst(owner);
    std::vector<ValueId> operands(fn_.operands(fn_.inst(id)).begin(), fn_.operands(fn_.inst(id)).end());
    const bool back = loop.op == Op::while_loop && fn_.blocks(loop)[1] == block;
    const size_t first = fn_.inst(id).op == Op::condition;
    for (size_t i = first; i < operands.size(); ++i) {
        const ValueId target = back ? fn_.block(fn_.blocks(loop)[0]).args[i] : fn_.result(loop, static_cast<uint32_t>(i - first));
        operands[i] = demand(operands[i], kept_tile(target));
    }
    fn_.set_operands(id, operands);
}

}  // namespace tegula
