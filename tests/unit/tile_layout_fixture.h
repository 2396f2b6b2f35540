// What the tests of GPU layouts share: plain row-major numbers and random layouts.
#pragma once
#include <algorithm>
#include <random>
#include <vector>

#include "lang/tile_layout.h"

namespace tegula {

using Point = TileLayout::Point;

inline int64_t row_major(const Shape& shape, const Point& p) {
    int64_t n = 0;
    for (size_t d = 0; d < shape.rank; ++d) n = n * shape[d] + p[d];
    return n;
}

inline std::vector<int> row_order(int rank) {
    std::vector<int> order(static_cast<size_t>(rank));
    for (int d = 0; d < rank; ++d) order[static_cast<size_t>(d)] = rank - 1 - d;
    return order;
}

/// A random layout of padded power-of-two or odd extents; `skewed`: the basis vectors are any basis, else unit vectors.
inline TileLayout random_layout(std::mt19937& rng, const TileLayout& padding, int warp_bits, bool skewed, int copies) {
    TileLayout l = padding;
    const int n = l.total_bits();
    std::vector<uint64_t> basis(static_cast<size_t>(n));
    for (int b = 0; b < n; ++b) basis[static_cast<size_t>(b)] = uint64_t{1} << b;
    std::shuffle(basis.begin(), basis.end(), rng);
    for (int k = 0; skewed && n > 1 && k < 2 * n; ++k) {
        const size_t a = rng() % basis.size(), b = rng() % basis.size();
        if (a != b) basis[a] ^= basis[b];
    }
    std::vector<uint64_t> threads(basis.begin(), basis.begin() + std::min(n, std::max(0, 5 + warp_bits - copies)));
    l.reg.assign(basis.begin() + static_cast<std::ptrdiff_t>(threads.size()), basis.end());
    threads.resize(static_cast<size_t>(5 + warp_bits), 0);
    std::shuffle(threads.begin(), threads.end(), rng);
    std::copy_n(threads.begin(), 5, l.lane.begin());
    l.warp.assign(threads.begin() + 5, threads.end());
    return l;
}

/// A layout (registers, lanes and warps to be dealt out) with the least padding, whatever is left for threads; long tiles are padded so.
inline TileLayout padding_of(const Shape& shape) {
    TileLayout l = blocked_layout(shape, 1, 1, row_order(shape.rank));
    for (size_t d = 0; d < shape.rank; ++d) {
        const TileLayout with_long = blocked_layout(Shape{4096, shape[d]}, 1, 1, row_order(2));
        l.odd[d] = with_long.odd[1];
        l.bits[d] = with_long.bits[1];
    }
    return l;
}

}  // namespace tegula
