// How make_plan works: one walk over the function that emits steps and notes when each storage is touched (plan.cpp: straight-line
// instructions; plan_control.cpp: loops, branches, regions).
#pragma once
#include "jit/interp/machine.h"

namespace tegula::interp {

class Planner {
public:
    Planner(const ir::Function& fn, Plan& plan) : fn_(fn), plan_(plan), tiles_(fn.value_count()) {}
    void build();

private:
    // ---- values and storage ----
    Tile tile_of(TypeId type) const;
    /// A tile of the type with storage of its own; inside a batched region scalars get one element per lane.
    Tile fresh(TypeId type, bool permanent = false);
    Tile fresh_like(const Tile& t);
    /// Storage for one element that stands for the whole tile.
    Tile uniform(TypeId type, bool permanent);
    /// The tile as a dense array; emits the copy when it is a splat.
    Tile dense(const Tile& t, const Info& cause);
    static bool is_uniform(const Tile& t) { return t.splat || t.n == 1; }
    void define(ir::ValueId v, const Tile& t) { tiles_[v.v] = t; }
    void alias(const ir::Inst& inst, const Tile& t, bool splat);

    // ---- steps ----
    Info& info_for(ir::InstId id);
    uint32_t now() const { return static_cast<uint32_t>(steps_.size()); }
    void touch(const Info& info, uint32_t at);
    void emit(Run run, const Info& info);
    void emit_jump(Run run, const Info& info) { emit(run, info); }
    /// Copies values into tiles (block arguments, results), all at once; values made since step `begin` may move into the tile instead.
    void copy_values(const Info& cause, std::vector<Tile> from, const std::vector<Tile>& to, uint32_t begin);
    void emit_copy(const Info& cause, const Tile& from, const Tile& to);

    // ---- instructions ----
    void plan_block(ir::BlockId block);
    void plan_inst(ir::InstId id);
    void plan_pointwise(ir::InstId id);
    void plan_shape(ir::InstId id);
    void plan_structured(ir::InstId id, Run run, bool in_place = false);
    void plan_hoisted(ir::InstId id, Run run, bool splat);
    void plan_params();
    bool may_write(uint32_t param) const;
    void plan_region(ir::InstId id, Run run);
    void fill_of(ir::InstId put, Info& info);
    // One function per structured op (plan_ops.cpp, plan_control.cpp, plan_channels.cpp), declared from the op table: a forgotten one fails to link
    // by name.
#define STRUCTURED(name, ...) void plan_##name(ir::InstId id);
#include "lang/ops.def"
    /// Emits the check that stages which the operands lie in are not released, and follows views of stages.
    void watch_stages(ir::InstId id);
    bool batchable(ir::BlockId block) const;
    std::vector<Tile> yielded(ir::BlockId block, size_t skip = 0) const;
    std::vector<Tile> define_args(ir::BlockId block, size_t skip = 0);
    bool takes_in_place(const Info& info, uint32_t slot) const;
    void merge_in_place();
    void finish();
    template <class F>
    void each_tile(F f);

    const ir::Function& fn_;
    Plan& plan_;
    Slots slots_;
    std::vector<Tile> tiles_;
    std::vector<ir::InstId> stage_of_;  ///< GPU form, by value: the `channel_get` in whose stage it lies
    std::vector<Step> prologue_, steps_;
    std::vector<std::pair<uint32_t, const Info*>> in_place_;  ///< steps that may overwrite an operand, ascending
    bool batched_ = false;
    int depth_ = 0;
};

}  // namespace tegula::interp
