// A product on wgmma while it is emitted: what it multiplies, and how its tiles fall into instructions and statements
//.
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
    Ex desc_a = {}, desc_b = {};  ///< variables: this warp group's first rows and columns
    Ex fragments = {};            ///< A in registers: packed array, or registers that PTX knows by name
    std::string sum = {};  ///< PTX registers of a sum that a loop keeps (product/sum.cpp) or that a part has; empty: an
                           ///< array
    bool unsigned_sum = false;  ///< u32, which the instruction computes as i32
    size_t batches = 1;
    std::vector<TileLayout::Point> tiles;  ///< first element of each tile of 64 rows, batch by batch
    struct Piece {
        size_t tile;
        int64_t column, columns;
    };
    std::vector<Piece> pieces;  ///< rows and columns of one instruction, tile by tile
    int steps() const { return static_cast<int>(k / row->k); }
    bool k_major(const SharedLayout& l, bool is_a) const {
        return l.contiguous == static_cast<int>(rank) - (is_a ? 1 : 2);
    }
    bool packed_sum() const { return row->acc == Fmt::f16; }
    /// The type of a sum's register; `other`: float.
    kernel::Type sum_type() const {
        if (row->acc == Fmt::i32) return unsigned_sum ? kernel::Type::u32 : kernel::Type::i32;
        return packed_sum() ? kernel::Type::u32 : kernel::Type::other;
    }
    /// Bytes from the operand's first element to that of step `s` and row or column `x` of the tile's batch.
    int64_t at_a(const TileLayout::Point& tile, int64_t x, int s) const {
        return smem_a->address(element(tile, rank, x, int64_t{s} * row->k));
    }
    int64_t at_b(const TileLayout::Point& tile, int64_t x, int s) const {
        return smem_b->address(element(tile, rank, int64_t{s} * row->k, x));
    }
    /// Cuts the result into pieces of at most `most` columns.
    void cut(int64_t most);
    /// Register of the sum of (first row of the tile, column).
    int sum_register(const TileLayout& out, const TileLayout::Point& tile, int64_t column) const {
        return out.find_register(element(tile, rank, tile[rank - 2], column), 0, 0);
    }
};

}  // namespace tegula::lower
