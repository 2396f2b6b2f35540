// How a tile goes from one layout to another: by renamed registers, by shuffles within warps, or through shared memory, and in which order there.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "lang/tile_layout.h"

namespace tegula {

/// How to bring a tile from one layout to another of the same shape and warps.
struct Conversion {
    enum Kind : uint8_t { none, registers, shuffle, shared } kind = none;
    std::vector<int> rename;   ///< registers: destination register -> source register
    int shuffles = 0;          ///< shuffle: shuffles per thread
    /// shuffle: what one destination register's worth of data does. In each round every thread gives its register `give` ^ (XOR of give_thread[b]
    /// over the set bits b of its thread number), takes the value given by lane `lane` ^ (XOR of lane_map[b] over the set bits b of its own lane
    /// number) and keeps it in register `keep` ^ (XOR of keep_lane[b]). Values lie within the registers' bits; round k covers odd digits too.
    struct Round {
        int give = 0, lane = 0, keep = 0;
    };
    std::vector<Round> rounds;
    std::vector<int> give_thread;           ///< 5 lane bits, then the warp bits
    std::array<int, 5> lane_map{}, keep_lane{};
    bool same_lane() const;                 ///< every value comes from the thread itself: selects only, no shuffle
};
Conversion plan_conversion(const TileLayout& from, const TileLayout& to);
/// The scratch order in which `from` -> `to` goes through shared memory: element address bits = XOR combinations of the bits of the padded
/// row-major element number (columns[k]: where bit k of the number goes), chosen for the fewest bank conflicts (Triton's swizzle search);
/// tiles with odd factors use the identity with `pad` elements after every `period`.
struct Exchange {
    std::vector<uint64_t> columns;  ///< empty: identity
    int period = 0, pad = 0;
    int write_vector = 1, read_vector = 1;  ///< elements per access
    int64_t elements = 0;                   ///< of scratch
    Shape extents;                          ///< whose row-major numbers `address` takes: per dimension the larger padding of the two layouts
    int64_t number(const TileLayout::Point& p) const;  ///< row-major in `extents`
    int64_t address(int64_t element) const; ///< in elements; accesses of `*_vector` elements are aligned and consecutive
};
Exchange plan_exchange(const TileLayout& from, const TileLayout& to, int elem_bits);
/// The worst `bank_conflicts` of one side of an exchange, where each thread accesses `vector` elements of its part of `l`.
int exchange_conflicts(const Exchange& e, const TileLayout& l, int vector, int elem_bits);

/// Worst number of shared-memory wavefronts per warp access over its ideal (1: no conflict) when every thread of a warp accesses `vector`
/// consecutive elements at `address[lane]` (bytes).
int bank_conflicts(std::span<const int64_t> address, int access_bytes);

}  // namespace tegula
