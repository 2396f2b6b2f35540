// Index expressions of a storage order taken apart: where every index is a uniform start, a part of the thread and a part of the register whose bits
// do not meet, division and remainder by powers of two, shifts, sums and XOR go through to the parts, and an expression is the sum of three.
#pragma once
#include <array>
#include <span>

#include "lang/ir.h"
#include "lang/layout.h"

namespace tegula {

struct LayoutPieces {
    enum Part : uint8_t { uniform, thread, register_ };
    /// Expressions whose sum is the whole. Of a layout of rank n the uniform one is over indices 0 .. n - 1, those of thread and register are over
    /// n .. 2 n - 1 and 2 n .. 3 n - 1. The constant 0: nothing.
    std::array<LayoutExpr, 3> part;
    std::array<uint64_t, 3> bits{};  ///< that a part may have; all ones: nothing is known
    bool only_uniform() const { return part[thread].is_constant(0) && part[register_].is_constant(0); }
    bool disjoint() const { return (bits[0] & bits[1]) == 0 && (bits[0] & bits[2]) == 0 && (bits[1] & bits[2]) == 0; }
};
/// `index_bits`: by index, the bits that each of its parts may have. nullopt: the expression does not come apart.
std::optional<LayoutPieces> separate(const LayoutExpr& e, std::span<const std::array<uint64_t, 3>> index_bits);

/// The bits of the coordinate along d of a tile that its registers set, or its threads (lanes and warps).
uint64_t register_bits(const TileLayout& l, int d);
uint64_t thread_bits(const TileLayout& l, int d);

}  // namespace tegula
