// Where a tile's elements lie on a GPU: spread over the registers of a CTA's threads (TileLayout), or in shared memory (SharedLayout).
// Both are linear over bits (XOR algebra); what is no power of two is an odd factor on top. See architecture.md section 3.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lang/type.h"

namespace tegula {

/// Element coordinates held by (register, lane, warp). Dimension d is padded to odd[d] << bits[d] (>= shape[d]); elements in the padding are
/// ghosts: they are computed and never observed. A coordinate is (digit of the register along d) << bits[d] plus the XOR of the basis vectors
/// of the set bits. Register numbers: reg bits lowest, then the odd digits, last dimension fastest.
/// Basis vectors are packed points: dimension rank-1 in the lowest bits[rank-1] bits, and so on. A zero vector: that bit holds copies.
struct TileLayout {
    Shape shape;
    std::array<uint8_t, kMaxRank> bits{};
    std::array<uint8_t, kMaxRank> odd{};
    std::vector<uint64_t> reg, warp;
    std::array<uint64_t, 5> lane{};

    using Point = std::array<int64_t, kMaxRank>;
    int registers() const;  ///< per thread
    int warps() const { return 1 << warp.size(); }
    int64_t padded(int d) const { return int64_t{odd[d]} << bits[d]; }
    int total_bits() const;
    Point point(int reg, int lane, int warp) const;
    bool inside(const Point& p) const;  ///< no ghost
    /// The register in which that thread holds the padded point; -1: it holds no copy of it. How shape operations find their source registers.
    int find_register(const Point& p, int lane, int warp) const;
    /// Lane and warp bits whose basis is zero: threads differing in them hold copies. (A non-zero kernel of the map does not occur.)
    int lane_copies() const;
    int warp_copies() const;
    bool has_ghosts() const;
    /// Every element of the padded shape is held by some register, and by one thread only up to copies.
    bool valid() const;
    std::string text() const;  ///< deterministic; parse_tile_layout reads it
    friend bool operator==(const TileLayout&, const TileLayout&) = default;
};
std::optional<TileLayout> parse_tile_layout(std::string_view text, const Shape& shape);

/// Consecutive elements along `order[0]` (fastest first): `vector` (elements, rounded down to a power of two) per thread, then lanes, then warps,
/// then the remaining registers. What is smaller than the threads is held in copies. `order` lists all dimensions.
/// Every extent is padded to the smallest odd << bits that holds it, odd in {1, 3, 5, 7}; odd factors count registers, so that a tile that leaves
/// threads without elements is padded to powers of two where that leaves each thread fewer of them.
TileLayout blocked_layout(const Shape& shape, int warps, int vector, std::span<const int> order);

/// Accumulator, operand A and operand B of mma.sync m16n8kK (`k_bytes_per_reg`: 32-bit registers hold 4 / element bytes values along K) for an
/// [.., M, N], [.., M, K], [.., K, N] product; `warps_m` * `warps_n` = warps. Leading (batch) dimensions lie in registers.
/// wgmma's accumulator and register A operand are the same maps with four warps along M per group (warps_m >= 4, each warp 16 consecutive rows).
/// Warps: the low bits of the warp number are rows 16, 32, .., the high bits the highest column bits (each warp a run of columns).
/// Registers, lowest bit first: accumulator [col 1, row 8, cols 8 .., rows beyond the warps', batch]; operand A [packed k, row 8, k ascending, rows,
/// batch]; operand B [packed k, k ascending, n, batch]. Odd digits come above all bits, so find a tile's registers with find_register().
/// Ghosts along K take part in the product: whoever emits it makes them zero. M is padded to 16, N to 8, K to one instruction (all per warp).
TileLayout mma_accumulator(const Shape& shape, int warps_m, int warps_n);
TileLayout mma_operand_a(const Shape& shape, int elem_bits, int warps_m, int warps_n);
TileLayout mma_operand_b(const Shape& shape, int elem_bits, int warps_m, int warps_n);
/// An [M, N] tile as tcgen05.ld (32x32b) brings it from tensor memory, M a multiple of 128, at least 4 warps: a thread holds consecutive columns of
/// one row. Lanes are rows 1 .. 16, the low warp bits rows 32 and 64, the others rows 128, .. as far as M has them, then the highest column bits.
TileLayout tensor_memory_rows(const Shape& shape, int warps);

// Layouts that shape operations carry along without moving data. nullopt: not expressible, convert first.
TileLayout permute_layout(const TileLayout& l, std::span<const int64_t> axes);           ///< result dimension d is dimension axes[d]
TileLayout reduce_layout(const TileLayout& l, int axis);                                 ///< dimension removed, its registers dropped, lanes and warps copies
std::optional<TileLayout> reshape_layout(const TileLayout& l, const Shape& to);          ///< same row-major order of elements
/// The layout an operand of `from` extents must have so that broadcasting it to `to` (layout l) moves nothing.
std::optional<TileLayout> broadcast_source_layout(const TileLayout& l, const Shape& from);

/// Consecutive elements along dimension d in consecutive registers, aligned: the widest access (in elements, a power of two).
int vector_width(const TileLayout& l, int d);

/// A tile in shared memory: `contiguous` is the dimension of unit stride, cut into panels of `swizzle` bytes (the whole row, padded to 16 bytes,
/// when swizzle is 0); a panel holds all rows of the other dimension, row pitch = panel width; dimensions before the last two are slowest.
/// 16-byte chunk numbers are XORed with row bits as TMA and wgmma do (128: address bits 4-6 ^= 7-9; 64: 4-5 ^= 7-8; 32: 4 ^= 7). Elements are
/// containers (format.h). Tiles start on 1024 bytes.
struct SharedLayout {
    Shape shape;
    int contiguous = 1;
    int swizzle = 0;
    int elem_bytes = 2;
    int across() const { return 2 * shape.rank - 3 - contiguous; }  ///< the other one of the last two dimensions
    int64_t row_bytes() const;    ///< of one panel
    int64_t panel_bytes() const;
    int64_t bytes() const;        ///< all panels, batch included
    int64_t address(const TileLayout::Point& p) const;
    std::string text() const;
    friend bool operator==(const SharedLayout&, const SharedLayout&) = default;
};
/// The widest legal swizzle for the tile (128, 64, 32 or 0).
SharedLayout shared_layout(const Shape& shape, int contiguous, int elem_bytes);

}  // namespace tegula
