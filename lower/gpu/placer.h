// The second half of place_tiles (private to lower/gpu): instruction by instruction, operands are brought to where the instruction needs them
// (place_ops.cpp), by a `convert` or by making a cheap value a second time (place.cpp).
#pragma once
#include <map>
#include <utility>
#include <vector>

#include "lower/gpu/place_groups.h"
#include "lower/gpu/tensor_slots.h"

namespace tegula {

class Placer {
public:
    Placer(ir::Function& fn, const GpuOptions& options, bool simple)
        : fn_(fn),
          options_(options),
          simple_(simple),
          grids_(fn),
          groups_(fn, grids_, simple),
          slots_(fn, [&fn](ir::InstId id) { return fn.gpu_inst(id).row; }),
          before_(fn.inst_count()),
          after_(fn.inst_count()),
          at_start_(fn.block_count()) {}

    void run();

private:
    // ---- values ----
    bool is_tile(ir::ValueId v) const { return fn_.type(v).kind == Type::tile && fn_.type(v).shape.rank > 0; }
    bool cheap(ir::ValueId v) const { return groups_.cheap(v); }
    const Placement& home(ir::ValueId v) const { return fn_.placement(v); }
    bool homeless(ir::ValueId v) const { return home(v).kind == Placement::none; }
    bool lies_in_shared(ir::ValueId v) const { return is_tile(v) && home(v).kind == Placement::shared; }
    void set_home(ir::ValueId v, const Placement& p);
    /// In registers, in the layout that fits any instruction.
    Placement plain(ir::ValueId v) const { return in_registers(plain_layout(fn_.type(v).shape, fn_.gpu->warps)); }
    /// In registers, in the layout of its group.
    Placement group(ir::ValueId v) const { return cheap(v) ? plain(v) : in_registers(groups_.layout(v)); }
    /// How tensor memory is read and written.
    Placement rows(ir::ValueId v) const { return in_registers(tensor_memory_rows(fn_.type(v).shape, fn_.gpu->warps)); }
    /// Where a value that control flow or a product gives lives: tensor memory if it has a slot there.
    Placement kept(ir::ValueId v) const;

    // ---- bringing a value to a place ----
    /// A value equal to `v` that lies at `p`: `v` itself, or one that is made behind its definition.
    ir::ValueId demand(ir::ValueId v, const Placement& p);
    /// A second value at p for `v`, made from `from`.
    ir::ValueId copied_once(ir::ValueId v, ir::ValueId from, const Placement& p);
    /// A tile that a product in tensor memory, or a loop around such, starts from. It is overwritten there, so each taker has a copy of its own.
    ir::ValueId started(ir::ValueId v, const Placement& p, ir::InstId taker);
    /// A second value for `v` at p, made once.
    ir::ValueId demand_as(ir::ValueId v, const Placement& p);
    /// A `convert` of `v` behind its definition.
    ir::ValueId copy(ir::ValueId v, const Placement& p);
    /// The instruction that defines `v`, once more, with its result at `p`.
    ir::ValueId again(ir::ValueId v, const Placement& p);
    /// Puts `made`, whose result lies at `p`, behind the definition of `v`.
    ir::ValueId add_after(ir::ValueId v, ir::InstId made, const Placement& p);
    /// Operands of a cheap instruction whose result lies in `l`.
    std::vector<ir::ValueId> sources(const ir::Inst& inst, const TileLayout& l);
    /// Gives a cheap value, which no instruction has demanded yet, its home.
    void settle(ir::ValueId v, const Placement& p);
    void settle_unused(ir::InstId id);
    /// A value equal to `v` in registers, in any layout.
    ir::ValueId any(ir::ValueId v);

    // ---- instructions (place_ops.cpp) ----
    void walk(ir::BlockId block);
    void instruction(ir::InstId id);
    /// Operands that lie alike in `p`, the others anywhere; results in p or their groups' layouts.
    void in_layout(ir::InstId id, const Alike& a, const Placement& p);
    void memory(ir::InstId id);
    void product(ir::InstId id);
    /// Is operand A laid out as the product wants it, or like a product's result, by rows of this product's warps? Then it can stay in registers.
    bool lies_as_fragment(ir::InstId dot, ir::ValueId a) const;
    /// ptx_tile.
    void in_fragments(ir::InstId id);
    /// broadcast, permute and reshape.
    void moved(ir::InstId id);
    /// reduce and arg_reduce.
    void reduced(ir::InstId id);
    /// channel_get.
    void taken(ir::InstId id);

    // ---- control (place_ops.cpp) ----
    void control(ir::InstId id);
    Placement kept_tile(ir::ValueId v) const { return is_tile(v) ? kept(v) : Placement{}; }
    /// yield and condition: values go where the block's successor keeps them.
    void leave_block(ir::InstId id);

    /// Puts what was made into the blocks, in front of and behind the instructions it was made for.
    void rebuild();

    ir::Function& fn_;
    const GpuOptions& options_;
    bool simple_;
    ProductGrids grids_;
    Groups groups_;
    TensorSlots slots_;
    std::vector<std::vector<ir::InstId>> before_, after_;  ///< by original instruction
    std::vector<std::vector<ir::InstId>> at_start_;        ///< by block
    std::map<uint32_t, uint32_t> added_;                   ///< made instruction -> the original it stands behind (or after_.size() + block)
    std::map<std::pair<uint32_t, uint32_t>, ir::ValueId> known_;
};

}  // namespace tegula
