// What accesses to memory move, for pictures and their tests.
#pragma once
#include <cstdint>

#include "lang/tile_layout.h"

namespace tegula::picture {

/// Accesses of all warps of a tile to memory, in sectors of 32 bytes.
struct SectorCount {
    int64_t accesses = 0;  ///< of warps
    int64_t asked = 0;     ///< bytes, what several lanes ask for counted once
    int64_t moved = 0;     ///< bytes
    int64_t worst = 0;     ///< sectors of one access
    bool cut = false;      ///< there are more accesses than are counted
};
/// A tile begins on a sector; elements of `bits` bits lie side by side along `dimension` (-1: none of them do) and `vector` of them are one access;
/// lines along that dimension begin on sectors of their own.
SectorCount count_sectors(const TileLayout& l, int dimension, int vector, unsigned bits);

}  // namespace tegula::picture
