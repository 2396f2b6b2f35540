// How a product's tiles divide into the instructions of warps, and into batches.
#pragma once
#include <vector>

#include "lang/target.h"
#include "lang/tile_layout.h"

namespace tegula::lower {

/// Name of an operand or accumulator format in instructions.
const char* ptx_type(Fmt f);

/// How asm statements and C see a register of elements of the format.
struct RegisterKind {
    const char *constraint, *type;
};
RegisterKind register_kind(Fmt f);

/// What one 16 x 8 tile of a product takes per step: elements of k, 32-bit (f64: 64-bit) registers along k, elements in
/// one of them. Operand A has two registers (rows g and g + 8) for each of B's.
struct Fragment {
    int k, k_registers, packed;
};
Fragment fragment_of(const MmaRow& row);

struct WarpSplit {
    int m = 1, n = 1;
};
/// How the warps share the product whose accumulator has this layout.
WarpSplit warp_split(const TileLayout& accumulator, int warps);
/// First rows and columns of the tiles of warp 0, padding left out. Other warps' tiles lie at a fixed distance.
std::vector<int64_t> row_tiles(const TileLayout& accumulator, int warps_m);
std::vector<int64_t> column_tiles(const TileLayout& accumulator, int warps_n);
/// Every combination of batch coordinates, row-major, the last two coordinates 0.
std::vector<TileLayout::Point> batch_points(const Shape& shape);

}  // namespace tegula::lower
