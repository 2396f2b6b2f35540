// How much scratch memory an instruction of a function with a GpuForm needs, and what lies where in it: one rule for the pass that assigns it
// and the emitter that uses it.
#pragma once
#include <optional>
#include <vector>

#include "lang/gpu/conversion.h"
#include "lang/ir.h"
#include "lang/uses.h"

namespace tegula {

/// What an instruction keeps in scratch while it runs. Areas start on 16 bytes.
struct ScratchPlan {
    std::vector<int64_t> operand;  ///< by operand: byte offset of its row-major copy; -1: read from registers
    std::vector<int64_t> work;     ///< offsets of further areas, in the order that scratch_plan's op documents
    int64_t bytes = 0;
};
/// Work areas: sort: keys, indices. histogram: counts. deposit: number of the last writer by element (only when writers may meet). reduce and
/// arg_reduce: one area per exchanged array, then one per array for what a spread step gives to everybody. dot: slab of a, slab of b. convert: the exchange. atomic, ptr_atomic: old values. bulk store: the boxes. Other stores: a byte per
/// element (per joint index without a mask) that says whether it is the last one for its place (only when writers may meet). print, assert: one word.
/// `uses`: of the function, where they are known.
ScratchPlan scratch_plan(const ir::Function& fn, ir::InstId inst, const ir::Uses* uses = nullptr);

/// How a bulk store goes through scratch: each warp sends its rows and columns in boxes of `rows` and `row_bytes` (a swizzle's width, or 16),
/// which lie in `slabs` places of its own one after the other. 16 rows of an accumulator's fragments, or 32 that the lanes hold (tensor_memory_rows).
struct StoreBoxes {
    int warps_m = 1, warps_n = 1;  ///< of the accumulator's layout
    int64_t run = 0;               ///< columns that one warp holds side by side; its next ones are warps_n runs further
    int row_bytes = 0, slabs = 1;  ///< row_bytes: of a box, side by side in memory
    int rows = 16;
    int64_t columns = 0;      ///< of the accumulator, in a box
    bool turned = false;      ///< the tile is an accumulator's transpose
    bool transposed = false;  ///< columns of the accumulator, not rows, are contiguous in memory
    int64_t lines() const { return transposed ? columns : rows; }
    int64_t slab_bytes() const { return lines() * row_bytes; }
    int64_t warp_bytes() const { return slab_bytes() * slabs; }
};
/// nullopt: tiles that lie so are not stored in bulk: no accumulator of tensor cores, or what is read from tensor memory, or the transpose of one,
/// without ghosts, or of other elements than 1, 2 or 4 bytes, or in boxes of less than 32 bytes a line. `contiguous`: the tile's dimension that is so
/// in memory.
std::optional<StoreBoxes> store_boxes(const TileLayout& l, int elem_bytes, int contiguous);
std::optional<StoreBoxes> store_boxes(const ir::Function& fn, const ir::Inst& store);  ///< of a store or atomic that is bulk

/// Where dot_scaled finds the scales of operand 3 (of rows) or 4 (of columns): in scratch; in registers of the threads that hold the sums which they
/// belong to; or nowhere, since all of them are one.
enum class ScalePlace : uint8_t { scratch, registers, ones };
ScalePlace scale_place(const ir::Function& fn, const ir::Inst& dot_scaled, size_t operand);
/// The layout of such scales where the sums lie in `sums`; nullopt: too many registers, or blocks along K that are no power of two.
std::optional<TileLayout> scale_layout(const TileLayout& sums, const Shape& scales, size_t operand);
/// Is the tile a constant of ones?
bool is_ones(const ir::Function& fn, ir::ValueId v);

/// Bytes, from the instruction's op, types and placements; 0: none.
int64_t scratch_bytes(const ir::Function& fn, ir::InstId inst, const ir::Uses& uses);

/// Do the order keys of a format need 64 bits?
bool wide_key(const Format& f);
/// Does a conversion go through scratch?
bool convert_exchanges(const Conversion& c, const TileLayout& to);
/// Elements of K that a product without tensor cores keeps in scratch at a time: all, or a multiple of its instruction's.
int64_t dot_slab(const ir::Function& fn, ir::InstId inst);
/// Does a product by dp4a read its operand, in words of four elements along K, from where it lies in shared memory?
bool reads_words(const ir::Function& fn, ir::InstId dot, size_t operand);
/// May two elements of a deposit's value have one place?
bool deposit_collides(const ir::Function& fn, ir::InstId inst);
/// May two elements of a store have one place? The last one in row-major order stays.
bool store_collides(const ir::Function& fn, ir::InstId inst);

}  // namespace tegula
