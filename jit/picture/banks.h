// Bank conflicts of accesses to shared memory, for pictures and their tests.
#pragma once
#include <array>
#include <functional>
#include <string>
#include <vector>

#include "jit/picture/picture.h"
#include "lang/tile_layout.h"

namespace tegula::picture {

/// The access of a warp that banks keep longest: how many times as long as it needs, and by lane the byte where each begins.
struct WorstAccess {
    int degree = 0;  ///< 0: there is no access
    int bytes = 0;   ///< of a lane
    std::string what;
    std::array<int64_t, 32> address{};
};
/// Takes the worse of both.
void worsen(WorstAccess& worst, const std::array<int64_t, 32>& address, int bytes, const std::string& what);
/// Every access in which the threads of a tile read or write `vector` elements of `elem_bytes` each, where `address` (bytes) says.
WorstAccess worst_of_tile(const TileLayout& l, int vector, int elem_bytes, const std::function<int64_t(const TileLayout::Point&)>& address);
/// Which lane is at which bank in which turn, of the lanes that go together first: rows are turns, columns banks.
Grid bank_grid(const WorstAccess& access);

}  // namespace tegula::picture
