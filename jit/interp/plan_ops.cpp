// What each structured op becomes, but for control flow (plan_control.cpp) and rings (plan_channels.cpp): mostly the step of its name.
#include "jit/interp/planner.h"

namespace tegula::interp {

/// Dense operands, dense results, and the step in between.
#define TEGULA_PLAN(name) \
    void Planner::plan_##name(ir::InstId id) { plan_structured(id, step_##name); }
TEGULA_PLAN(program_id)
TEGULA_PLAN(cta_id)
TEGULA_PLAN(cat)
TEGULA_PLAN(extract)
TEGULA_PLAN(deposit)
TEGULA_PLAN(gather)
TEGULA_PLAN(reduce)
TEGULA_PLAN(arg_reduce)
TEGULA_PLAN(contract)
TEGULA_PLAN(scan)
TEGULA_PLAN(sort)
TEGULA_PLAN(histogram)
TEGULA_PLAN(load)
TEGULA_PLAN(store)
TEGULA_PLAN(atomic)
TEGULA_PLAN(ptr_at)
TEGULA_PLAN(ptr_address)
TEGULA_PLAN(ptr_load)
TEGULA_PLAN(ptr_store)
TEGULA_PLAN(ptr_atomic)
TEGULA_PLAN(print)
TEGULA_PLAN(assert)
TEGULA_PLAN(assume)
TEGULA_PLAN(grid_barrier)
#undef TEGULA_PLAN

void Planner::plan_dot(ir::InstId id) { plan_structured(id, step_dot, true); }
void Planner::plan_dot_scaled(ir::InstId id) { plan_structured(id, step_dot_scaled, true); }
void Planner::plan_reduce_region(ir::InstId id) { plan_region(id, step_reduce_region); }
void Planner::plan_scan_region(ir::InstId id) { plan_region(id, step_scan_region); }

// What depends on nothing but the run.
void Planner::plan_constant(ir::InstId id) { plan_hoisted(id, step_constant, true); }
void Planner::plan_constant_tile(ir::InstId id) { plan_hoisted(id, step_constant_tile, false); }
void Planner::plan_iota(ir::InstId id) { plan_hoisted(id, step_iota, false); }
void Planner::plan_num_programs(ir::InstId id) { plan_hoisted(id, step_num_programs, false); }
void Planner::plan_num_ctas(ir::InstId id) { plan_hoisted(id, step_num_ctas, false); }
void Planner::plan_dim(ir::InstId id) { plan_hoisted(id, step_dim, false); }
void Planner::plan_tensor_ptr(ir::InstId id) { plan_hoisted(id, step_tensor_ptr, false); }

void Planner::plan_select(ir::InstId id) { plan_pointwise(id); }
void Planner::plan_cast(ir::InstId id) { plan_pointwise(id); }
void Planner::plan_ptr_add(ir::InstId id) { plan_pointwise(id); }

void Planner::plan_broadcast(ir::InstId id) { plan_shape(id); }
void Planner::plan_reshape(ir::InstId id) { plan_shape(id); }
void Planner::plan_permute(ir::InstId id) { plan_shape(id); }
void Planner::plan_slice(ir::InstId id) { plan_shape(id); }
void Planner::plan_bitcast(ir::InstId id) { plan_shape(id); }

/// Operand 0 says what the instruction computes.
void Planner::plan_instruction(ir::InstId id) { plan_structured(id, step_copy); }
void Planner::plan_ptx(ir::InstId) { TEGULA_CHECK(false, "PTX means nothing here: forms are run with the instructions that it takes the place of"); }
void Planner::plan_ptx_tile(ir::InstId id) { plan_ptx(id); }

// Their owner reads them.
void Planner::plan_yield(ir::InstId) {}
void Planner::plan_condition(ir::InstId) {}

void Planner::plan_ret(ir::InstId id) {
    if (plan_.rings) emit(step_channels_end, info_for(id));
    for (const ir::ValueId v : fn_.operands(fn_.inst(id))) {
        plan_.results.push_back(tiles_[v.v]);
        slots_.read(tiles_[v.v].slot, now() + 1);
    }
}

}  // namespace tegula::interp
