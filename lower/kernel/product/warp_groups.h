// A product on wgmma while it is emitted: what it multiplies, and how its tiles fall into instructions and statements
// (private to jit/cuda).
#pragma once
#include <string>
#include <vector>

#include "lower/kernel/lowering.h"
#include "lower/kernel/product/fragments.h"

namespace tegula::lower {

/// An element of the batch that `tile` lies in, whose points have `rank` coordinates.
inline TileLayout::Point element(TileLayout::Point tile, size_t rank, int64_t x, int64_t y) {
    tile[rank - 2] = x;
    tile[rank - 1] = y;
    return tile;
}

/// Steps [first, last) of the pieces [begin, end), in place of the sums where from_zero.
struct WarpGroupsPart {
    size_t begin, end;
    int first, last;
    bool from_zero;
    std::vector<int> sums;  ///< the result's registers in it, ascending; none: all, by the names that PTX knows them by
    int wait = 0;           ///< until at most so many groups are under way; -1: not at all
};

struct WarpGroups {
    using Part = WarpGroupsPart;
    const MmaRow* row = nullptr;
    ir::ValueId a, b, result;
    size_t rank = 2;
    int64_t m = 0, n = 0, k = 0;
    WarpSplit split;
    const SharedLayout* smem_a = nullptr;  ///< null: in registers
    const SharedLayout* smem_b = nullptr;
    std::string desc_a, desc_b;  ///< variables: this warp group's first rows and columns
    std::string fragments;       ///< A in registers: packed array
    std::string held;  ///< PTX registers that A is moved to, which nothing else writes while the product is under way;
                       ///< empty: operands
    std::string type;  ///< of a sum's register in C
    std::string
        sum;  ///< PTX registers of a sum that a loop keeps (product/sum.cpp) or that a part has; empty: operands
    size_t batches = 1;
    std::vector<TileLayout::Point> tiles;  ///< first element of each tile of 64 rows, batch by batch
    struct Piece {
        size_t tile;
        int64_t column, columns;
    };
    std::vector<Piece> pieces;  ///< rows and columns of one instruction, tile by tile
    int steps() const { return static_cast<int>(k / row->k); }
    size_t tiles_of(const Part& p) const { return pieces[p.end - 1].tile - pieces[p.begin].tile + 1; }
    /// Of a statement: a descriptor, or four registers per tile of 64 rows and step, unless PTX knows them.
    int a_operands(const Part& p) const {
        return smem_a ? 1 : !held.empty() ? 0 : static_cast<int>(tiles_of(p)) * (p.last - p.first) * 4;
    }
    bool k_major(const SharedLayout& l, bool is_a) const {
        return l.contiguous == static_cast<int>(rank) - (is_a ? 1 : 2);
    }
    bool packed_sum() const { return row->acc == Fmt::f16; }
    /// Bytes from the operand's first element to that of step `s` and row or column `x` of the tile's batch.
    int64_t at_a(const TileLayout::Point& tile, int64_t x, int s) const {
        return smem_a->address(element(tile, rank, x, int64_t{s} * row->k));
    }
    int64_t at_b(const TileLayout::Point& tile, int64_t x, int s) const {
        return smem_b->address(element(tile, rank, int64_t{s} * row->k, x));
    }
    int64_t start_a(const Part& p) const {
        const TileLayout::Point& tile = tiles[pieces[p.begin].tile];
        return at_a(tile, tile[rank - 2], p.first);
    }
    int64_t start_b(const Part& p) const { return at_b(tiles[pieces[p.begin].tile], pieces[p.begin].column, p.first); }
    /// Cuts the result into pieces of at most `most` columns.
    void cut(int64_t most);
    /// Register of the sum of (first row of the tile, column).
    int sum_register(const TileLayout& out, const TileLayout::Point& tile, int64_t column) const {
        return out.find_register(element(tile, rank, tile[rank - 2], column), 0, 0);
    }
};

}  // namespace tegula::lower
