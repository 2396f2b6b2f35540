// Functions in GPU form (planner.h): channels are rings beside the arena, the tile that `channel_get` gives is a copy of a stage in a storage of its
// own, and every use of it, or of a view of it, is preceded by a check that the stage is still held.
#include "jit/interp/planner.h"

namespace tegula::interp {

using ir::Op;

void Planner::plan_convert(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    const ir::ValueId from = fn_.operands(inst)[0];
    if (stage_of_[from.v].valid()) return plan_structured(id, step_copy);
    const Tile& t = tiles_[from.v];
    alias(inst, t, t.splat);
}

void Planner::plan_channel(ir::InstId id) {
    const ir::ValueId v = fn_.result(id);
    Info& info = info_for(id);
    Tile ring = tile_of(fn_.type_of(v));
    ring.param = static_cast<int>(plan_.rings++);
    define(v, ring);
    info.out.push_back(ring);
    emit(step_channel, info);
}

void Planner::plan_channel_put(ir::InstId id) {
    Info& info = info_for(id);
    const Type& channel = fn_.type(fn_.operands(fn_.inst(id)).back());
    info.out.push_back(fresh(fn_.types().tile(channel.elem, channel.shape), true));
    fill_of(id, info);
    emit(step_channel_put, info);
}

void Planner::plan_channel_get(ir::InstId id) {
    const ir::ValueId v = fn_.result(id);
    Info& info = info_for(id);
    info.attrs.push_back(fn_.gpu->is_own(fn_.operands(fn_.inst(id))[0].v));
    const Tile out = fresh(fn_.type_of(v), true);
    define(v, out);
    info.out.push_back(out);
    emit(step_channel_get, info);
}

void Planner::plan_channel_release(ir::InstId id) { emit(step_channel_release, info_for(id)); }

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
    ir::AccessOperands& access = *info.access;
    info.in.insert(info.in.begin() + access.channel.at, fill);
    access.other.at = access.channel.at++;
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
    if (ir::has_trait(inst.op, ir::VIEW)) stage_of_[fn_.result(inst).v] = stage_of_[fn_.operands(inst)[0].v];
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
