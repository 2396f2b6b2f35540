// Which instructions on register tiles need no memory, and how they go: renamed registers, and reductions by registers, shuffles and one exchange
// between warps. Shared by the scratch rule and the emitter, so that they agree.
#pragma once
#include <optional>
#include <vector>

#include "lang/ir.h"

namespace tegula {

struct RegisterSource {
    int operand = 0, reg = 0;
};
/// broadcast, reshape, permute, slice, cat: the register of an operand that each result register is, in every thread. nullopt: data moves.
std::optional<std::vector<RegisterSource>> register_sources(const ir::Function& fn, ir::InstId inst);

/// Registers of the elements along an axis (-1: row-major over the tile), ascending, for every register that holds coordinate 0 of it; nullopt
/// when the axis is spread over threads. Ghosts of the axis are left out.
struct AxisRegisters {
    std::vector<int> first;               ///< register of coordinate 0
    std::vector<std::vector<int>> along;  ///< by `first`: registers of coordinates 0 .. extent - 1
};
std::optional<AxisRegisters> axis_registers(const TileLayout& l, int axis);

/// A reduction over `axis` (-1: all) that leaves its result in every thread that held a part of it.
struct ReducePlan {
    struct Step {
        enum Kind : uint8_t {
            digits,   ///< tree over `b` odd digits whose registers are `a` apart
            reg,      ///< x[r] op= x[r + a]
            lane,     ///< x[r] op= x[r] of lane ^ a
            scatter,  ///< lane a keeps registers with bit b of its own side and joins them with the other side's
            warps,    ///< exchange over the warp bits `masks`
            spread,   ///< the same and then the lane bits `lanes`, each warp for its share of the live registers; then everybody has all of them
        } kind = reg;
        int a = 0, b = 0;
        std::vector<int> live;   ///< registers that hold partial results afterwards (warps, spread: before and after)
        std::vector<int> masks;  ///< warps, spread: bits of the warp number, first joined first
        std::vector<int> lanes;  ///< spread: all bits of the lane number, first joined first
    };
    std::vector<Step> steps;
    std::vector<int> results;  ///< by register of the result (one entry for a scalar): the register that holds it
    bool fill = false;         ///< ghosts must be made the identity first
};
/// `ordered`: the fixed tree, bit for bit; else any order. `result` is null for a scalar. nullopt: not in this way.
std::optional<ReducePlan> plan_reduce(const TileLayout& l, int axis, bool ordered, const TileLayout* result);

}  // namespace tegula
