// Placement beyond the pass itself (private to lower/gpu): what an instruction demands of its operands, and the checks and tidying afterwards.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "lower/gpu/gpu.h"
#include "lower/gpu/rows.h"

namespace tegula {

/// Index of `placement` in the function's table, added when new.
uint32_t placement_index(GpuForm& gpu, const Placement& placement);
/// A placement in registers.
Placement in_registers(TileLayout layout);

/// What a product with a row other than 0 needs.
struct ProductPlacements {
    Placement a, b;
    TileLayout acc;
};
/// `a_in_registers`: operand A of a wgmma row is computed, not copied.
ProductPlacements product_placements(const ir::Function& fn, ir::InstId dot, WarpGrid grid, bool a_in_registers);
/// Operand `which` (0: A, 1: B) in shared memory, contiguous along K where the row insists on it.
Placement shared_operand(const ir::Function& fn, ir::ValueId v, const MmaRow& row, int which);

/// Where operands that are decoded from narrower elements are decoded: where the product wants them in registers, or once for all warps, which
/// then read the wide elements from shared memory.
enum class Decode : uint8_t { in_registers, through_shared, automatic };
/// What the hint `decode` says.
Decode decode_hint(const ir::Function& fn);
/// The widest elements, in bits, of the loaded tiles of its size that operand `which` of the product is computed from; 0 unless all are narrower than its
/// own.
int decoded_bits(const ir::Function& fn, const ir::Inst& dot, size_t which);
bool is_decoded(const ir::Function& fn, const ir::Inst& dot, size_t which);

/// How warps share the products of a function. Asked before placement adds instructions: the answers then hold for all of it.
class ProductGrids {
public:
    explicit ProductGrids(const ir::Function& fn);
    WarpGrid of(const ir::Function& fn, ir::InstId dot) const;

private:
    bool rows_first_ = false;
};
/// The grid that a placed product's accumulator has; nullopt: it lies in no fragment.
std::optional<WarpGrid> placed_grid(const ir::Function& fn, ir::InstId dot);

/// What `ptx_tile` needs of its operands, and where its result lies.
struct InstructionPlacements {
    std::vector<Placement> operands;
    Placement result;
};
/// Groups of elements lie as `groups` says, or in the plain layout; tiles of a warp in their fragments.
InstructionPlacements instruction_placements(const ir::Function& fn, const ir::Inst& inst, const std::optional<TileLayout>& groups = {});
bool instruction_on_tiles(const ir::Function& fn, const ir::Inst& inst);
/// The layout of groups that operand number `operand` (behind the last one: the result) has when it lies in `l`; nullopt: its groups are torn there, or
/// the instruction takes tiles.
std::optional<TileLayout> instruction_groups(const ir::Function& fn, const ir::Inst& inst, size_t operand, const TileLayout& l);

/// The layout in shared memory of a permute's or reshape's result when its operand lies in shared memory as `from`; nullopt: no view.
std::optional<SharedLayout> shared_view(const ir::Function& fn, const ir::Inst& view, const SharedLayout& from);
/// Can a row that reads shared memory take operand `which` (0: A, 1: B) from a tile laid out like this?
bool row_reads(const MmaRow& row, int which, const SharedLayout& layout);

/// Does a load, store or atomic surely begin on whole 16 bytes of the tensor's rows, which begin so? TMA copies no others: one that does not ends the
/// kernel with an illegal instruction, to and from the tensor, in every swizzle mode (measured on an H200).
bool starts_on_16_bytes(const ir::Function& fn, const GpuOptions& options, const ir::Inst& access);
/// Why TMA may not do a store or atomic whose value lies in `l`; empty: it may. The tensor is aligned, the tile an accumulator's (store_boxes),
/// without mask or gather, and nothing else writes its memory, which would have to be ordered with copies by another proxy.
std::string bulk_refusal(const ir::Function& fn, const GpuOptions& options, ir::InstId store, const TileLayout& l);

/// Drops converts of converts, repeated ones, and ones that nobody uses.
bool clean_converts(ir::Function& fn);
/// What emission relies on: every tile has a place, elementwise ops and carried values keep theirs, products get what their rows take. One line each.
std::vector<std::string> check_placements(const ir::Function& fn);

}  // namespace tegula
