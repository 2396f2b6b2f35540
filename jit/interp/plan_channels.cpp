// Functions in GPU form (planner.h): channels are rings beside the arena, the tile that `channel_get` gives is a copy of a stage in a storage of its
// own, and every use of it, or of a view of it, is preceded by a check that the stage is still held.
#include "jit/interp/planner.h"

namespace tegula::interp {

using ir::Op;

void Planner::plan_gpu(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    if (inst.op == Op::specialise) return plan_specialise(id);
    if (inst.op == Op::convert && !stage_of_[fn_.operands(inst)[0].v].valid()) {
        const Tile& t = tiles_[fn_.operands(inst)[0].v];
        return alias(inst, t, t.splat);
    }
    if (inst.op == Op::convert) return plan_structured(id, step_copy);
    Info& info = info_for(id);
    if (inst.op == Op::channel) {
        Tile ring = tile_of(fn_.type_of(fn_.result(inst)));
        ring.param = static_cast<int>(plan_.rings++);
        define(fn_.result(inst), ring);
        info.out.push_back(ring);
        return emit(step_channel, info);
    }
    if (inst.op == Op::channel_release) return emit(step_channel_release, info);
    if (inst.op == Op::channel_put) {
        info.access = fn_.access(inst);
        const Type& channel = fn_.type(fn_.operands(inst).back());
        info.out.push_back(fresh(fn_.types().tile(channel.elem, channel.shape), true));
        fill_of(id, info);
        return emit(step_channel_put, info);
    }
    info.attrs.push_back(fn_.gpu->is_own(fn_.operands(inst)[0].v));
    const Tile out = fresh(fn_.type_of(fn_.result(inst)), true);
    define(fn_.result(inst), out);
    info.out.push_back(out);
    emit(step_channel_get, info);
}

/// Elements out of range are the fill of an own ring: as if the copy were a load with `else`.
void Planner::fill_of(ir::InstId put, Info& info) {
    const GpuChannel* ring = fn_.gpu->channel(fn_.operands(fn_.inst(put)).back().v);
    if (!ring || !ring->fill) return;
    const Type& channel = fn_.type(fn_.operands(fn_.inst(put)).back());
    const TypeId type = fn_.types().tile(channel.elem, channel.shape);
    Info& constant = plan_.infos.emplace_back();
    constant.id = put;
    constant.op = Op::constant;
    constant.span = info.span;
    constant.attrs = {static_cast<int64_t>(ring->fill)};
    constant.out.push_back(uniform(type, false));
    emit(step_constant, constant);
    const Tile fill = fresh(type, true);
    emit_copy(info, constant.out[0], fill);
    info.in.insert(info.in.end() - 1, fill);
    info.access.flags |= ir::Access::has_other;
}

void Planner::watch_stages(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    Info* check = nullptr;
    for (ir::ValueId v : fn_.operands(inst)) {
        const ir::InstId get = stage_of_[v.v];
        if (!get.valid()) continue;
        if (!check) {
            check = &plan_.infos.emplace_back();
            check->id = id;
            check->op = Op::convert;
            check->span = inst.span;
        }
        check->attrs.push_back(tiles_[fn_.operands(fn_.inst(get))[0].v].param);
        check->attrs.push_back(get.v);
    }
    if (check) emit(step_stage_use, *check);
    if (inst.op == Op::channel_get && !fn_.gpu->is_own(fn_.operands(inst)[0].v)) stage_of_[fn_.result(inst).v] = id;
    if (inst.op == Op::permute || inst.op == Op::reshape) stage_of_[fn_.result(inst).v] = stage_of_[fn_.operands(inst)[0].v];
}

/// The producer's steps, then the consumer's; step_specialise runs both.
void Planner::plan_specialise(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    Info& info = info_for(id);
    const uint32_t at = now();
    emit(step_specialise, info);
    info.begin = now();
    plan_block(fn_.blocks(inst)[0]);
    info.end = now();
    plan_block(fn_.blocks(inst)[1]);
    steps_[at].target = now();
}

}  // namespace tegula::interp
