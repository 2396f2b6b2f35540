// From tile IR to a Plan: straight-line instructions (planner.h). Constants and what depends on nothing but the run are computed once per
// worker (the prologue); reshapes and broadcasts of one element cost nothing, because a splat stores one element.
#include "jit/interp/plan.h"

#include <algorithm>
#include <utility>

#include "jit/interp/planner.h"

namespace tegula::interp {

using ir::Op;

namespace {
constexpr uint64_t kHoistBytes = 1 << 20;  ///< largest tile kept for the whole life of a worker
}

Tile Planner::tile_of(TypeId type) const {
    const Type& t = fn_.types().type(type);
    Tile out;
    out.format = &fn_.types().format(t.elem);
    out.elem = t.elem;
    out.pointer = t.pointer;
    out.width = static_cast<uint8_t>(t.pointer ? 8 : out.format->container_bytes());
    out.shape = t.shape;
    out.n = t.kind == Type::tensor ? 0 : t.shape.elements();
    return out;
}

Tile Planner::fresh(TypeId type, bool permanent) {
    Tile t = tile_of(type);
    if (batched_) t.n = kPerLane;
    t.slot = slots_.add(static_cast<uint64_t>(batched_ ? kLanes : t.n) * t.width, permanent);
    return t;
}

Tile Planner::fresh_like(const Tile& like) {
    Tile t = like;
    t.splat = false;
    t.slot = slots_.add(static_cast<uint64_t>(t.n == kPerLane ? kLanes : t.n) * t.width, false);
    return t;
}

Tile Planner::uniform(TypeId type, bool permanent) {
    Tile t = tile_of(type);
    t.splat = t.n != 1;
    t.slot = slots_.add(t.width, permanent);
    return t;
}

Tile Planner::dense(const Tile& t, const Info& cause) {
    if (!t.splat) return t;
    const Tile out = fresh_like(t);
    emit_copy(cause, t, out);
    return out;
}

void Planner::alias(const ir::Inst& inst, const Tile& t, bool splat) {
    Tile out = tile_of(fn_.type_of(fn_.result(inst)));
    out.slot = t.slot;
    if (t.n == kPerLane) out.n = kPerLane;
    out.splat = splat && out.n != 1;
    define(fn_.result(inst), out);
}

Info& Planner::info_for(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    Info& info = plan_.infos.emplace_back();
    info.id = id;
    info.op = inst.op;
    info.span = inst.span;
    for (ir::ValueId v : fn_.operands(inst)) info.in.push_back(tiles_[v.v]);
    const auto attrs = fn_.attrs(inst);
    info.attrs.assign(attrs.begin(), attrs.end());
    if (ir::is_access(inst.op)) info.access.emplace(fn_, inst);
    return info;
}

void Planner::touch(const Info& info, uint32_t at) {
    for (const Tile& t : info.in)
        if (t.slot != UINT32_MAX) slots_.read(t.slot, at);
    for (const auto* list : {&info.out, &info.work, &info.region_args})
        for (const Tile& t : *list)
            if (t.slot != UINT32_MAX) slots_.write(t.slot, at);
}

void Planner::emit(Run run, const Info& info) {
    touch(info, now());
    steps_.push_back({run, &info, 0});
}

/// Instructions that depend on nothing but the run: computed in the prologue when their storage may stay.
void Planner::plan_hoisted(ir::InstId id, Run run, bool splat) {
    const ir::Inst& inst = fn_.inst(id);
    Info& info = info_for(id);
    const ir::ValueId result = fn_.result(inst);
    const Tile shape = tile_of(fn_.type_of(result));
    const bool keep = splat || static_cast<uint64_t>(shape.n) * shape.width <= kHoistBytes;
    const bool batched = std::exchange(batched_, false);
    Tile out = splat ? uniform(fn_.type_of(result), true) : fresh(fn_.type_of(result), keep);
    batched_ = batched;
    define(result, out);
    info.out.push_back(out);
    if (!keep) return emit(run, info);
    info.out[0].splat = false;  // the prologue writes what is stored
    if (splat) info.out[0].n = 1;
    prologue_.push_back({run, &info, 0});
}

void Planner::plan_pointwise(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    Info& info = info_for(id);
    const ir::ValueId result = fn_.result(inst);
    Run run = step_elementwise;
    bool once = true;  // every operand is one element: so is the result
    for (Tile& t : info.in) once = once && is_uniform(t);
    if (inst.op == Op::select) {
        run = step_select;
    } else if (inst.op == Op::ptr_add) {
        run = step_ptr_add;
    } else if (inst.op == Op::bitcast) {
        run = step_bitcast;
    } else if (inst.op == Op::cast) {
        run = step_cast;
        info.cast = Conversion(fn_.elem(result), *info.in[0].format, static_cast<Round>(info.attrs[0]), static_cast<Overflow>(info.attrs[1]));
        if (info.cast.round == Round::stochastic && !(fn_.type(result).shape.elements() == 1 && !batched_)) once = false;
    } else {
        info.row = Row(inst.op, *info.in[0].format, info.in[0].pointer);
    }
    const Tile out = once ? uniform(fn_.type_of(result), false) : fresh(fn_.type_of(result));
    define(result, out);
    info.out.push_back(out);
    for (Tile& t : info.in)
        if (!once && t.n == 1 && out.n != 1) t.splat = true;
    in_place_.emplace_back(now(), &info);
    emit(run, info);
}

/// broadcast, reshape, permute, slice, bitcast: views where that is free.
void Planner::plan_shape(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    const Tile& a = tiles_[fn_.operands(inst)[0].v];
    const Shape& to = fn_.type(fn_.result(inst)).shape;
    const auto attrs = fn_.attrs(inst);
    bool same = false;  // row-major order stays as it is
    switch (inst.op) {
        case Op::reshape:
            same = true;
            break;
        case Op::broadcast:
            same = a.n == kPerLane || a.n == to.elements();
            break;
        case Op::permute: {
            int64_t last = -1;
            same = true;
            for (int64_t axis : attrs) {
                if (a.shape[static_cast<size_t>(axis)] == 1) continue;
                same = same && axis > last;
                last = axis;
            }
            break;
        }
        case Op::slice:
            same = a.n == to.elements() && std::all_of(attrs.begin(), attrs.end(), [&](const int64_t& v) {
                       const size_t k = static_cast<size_t>(&v - attrs.data());
                       return k % 2 == 0 ? v == 0 : v == 1 || a.shape[k / 2] == 1;
                   });
            break;
        case Op::bitcast: {
            if (a.width * 8u != a.format->bits && !a.pointer) return plan_pointwise(id);
            same = true;
            break;
        }
        default:
            break;
    }
    if (same || is_uniform(a)) return alias(inst, a, a.splat || a.n == 1);
    if (inst.op == Op::broadcast) return plan_structured(id, step_broadcast);
    plan_structured(id, inst.op == Op::permute ? step_permute : step_slice);
}

/// Everything whose step wants dense operands and makes dense results.
void Planner::plan_structured(ir::InstId id, Run run, bool in_place) {
    const ir::Inst& inst = fn_.inst(id);
    Info& info = info_for(id);
    for (Tile& t : info.in) t = dense(t, info);
    for (uint32_t r = 0; r < inst.results.count; ++r) {
        const Tile out = fresh(fn_.type_of(fn_.result(inst, r)));
        define(fn_.result(inst, r), out);
        info.out.push_back(out);
    }
    if (in_place) in_place_.emplace_back(now(), &info);
    emit(run, info);
}

void Planner::plan_inst(ir::InstId id) {
    if (!stage_of_.empty()) watch_stages(id);
    switch (fn_.inst(id).op) {
#define ELEMENTWISE(name, ...) case Op::name:
#include "lang/ops.def"
        return plan_pointwise(id);
#define STRUCTURED(name, ...) \
    case Op::name:            \
        return plan_##name(id);
#include "lang/ops.def"
        case Op::count_:
            return;
    }
}

void Planner::plan_block(ir::BlockId block) {
    for (ir::InstId id : fn_.block(block).insts) plan_inst(id);
}

/// Can a store or atomic reach parameter `param`? Pointers are followed no further than their making.
bool Planner::may_write(uint32_t param) const {
    const ir::ValueId v = fn_.params[param].value;
    bool pointer_stores = false, taken = fn_.params[param].kind == ir::Param::pointer, stored = false;
    fn_.walk([&](ir::InstId id) {
        const ir::Inst& inst = fn_.inst(id);
        const auto operands = fn_.operands(inst);
        if (inst.op == Op::ptr_store || inst.op == Op::ptr_atomic) pointer_stores = true;
        if (inst.op == Op::ptr_at) taken = true;  // of any of them
        if (operands.empty() || !(operands[0] == v)) return;
        if (inst.op == Op::tensor_ptr) taken = true;
        if (inst.op == Op::store || inst.op == Op::atomic) stored = true;
    });
    return stored || (taken && pointer_stores);
}

void Planner::plan_params() {
    for (uint32_t i = 0; i < fn_.params.size(); ++i) {
        const ir::Param& p = fn_.params[i];
        ParamPlan out;
        out.name = p.name;
        if (fn_.type(p.value).kind == Type::tensor) {
            out.tile = tile_of(fn_.type_of(p.value));
            out.tile.param = static_cast<int>(i);
        } else {
            out.tile = fresh(fn_.type_of(p.value), true);
        }
        out.may_write = may_write(i);
        define(p.value, out.tile);
        plan_.params.push_back(out);
    }
}

template <class F>
void Planner::each_tile(F f) {
    for (Info& info : plan_.infos)
        for (auto* list : {&info.in, &info.out, &info.work, &info.region_args, &info.region_yields})
            for (Tile& t : *list) f(t);
    for (ParamPlan& p : plan_.params) f(p.tile);
    for (Tile& t : plan_.results) f(t);
}

/// May the step of `info` write its result over `slot`? Pointwise steps touch one index at a time; dot only its accumulator so.
bool Planner::takes_in_place(const Info& info, uint32_t slot) const {
    slot = slots_.find(slot);
    const Tile& out = info.out[0];
    const bool product = ir::is_product(info.op);
    bool found = false;
    for (size_t k = 0; k < info.in.size(); ++k) {
        const Tile& in = info.in[k];
        if (in.slot == UINT32_MAX || slots_.find(in.slot) != slot) continue;
        if ((product && k != 2) || in.splat != out.splat || in.width != out.width || in.n != out.n) return false;
        found = true;
    }
    return found;
}

/// An operand that nobody wants afterwards makes room for the result.
void Planner::merge_in_place() {
    for (const auto& [at, info] : in_place_) {
        const uint32_t out = info->out[0].slot;
        for (const Tile& in : info->in) {
            if (slots_.first(out) != at || in.slot == UINT32_MAX || slots_.last_touch(in.slot) != at) continue;
            if (takes_in_place(*info, in.slot) && slots_.merge(out, in.slot, true)) break;
        }
    }
}

void Planner::finish() {
    merge_in_place();
    plan_.arena_bytes = slots_.place();
    each_tile([&](Tile& t) {
        if (t.slot != UINT32_MAX) t.offset = slots_.offset(t.slot);
    });
    const uint32_t shift = static_cast<uint32_t>(prologue_.size());
    for (Step& s : steps_) s.target += shift;
    for (Info& info : plan_.infos) info.begin += shift, info.end += shift;
    plan_.body = shift;
    plan_.steps = std::move(prologue_);
    plan_.steps.insert(plan_.steps.end(), steps_.begin(), steps_.end());
}

void Planner::build() {
    if (fn_.gpu) stage_of_.resize(fn_.value_count());
    plan_params();
    plan_block(fn_.body);
    finish();
}

std::unique_ptr<Plan> make_plan(const ir::Function& fn) {
    auto plan = std::make_unique<Plan>();
    plan->fn = &fn;
    plan->order = ir::program_order(fn);
    Planner(fn, *plan).build();
    return plan;
}

}  // namespace tegula::interp
