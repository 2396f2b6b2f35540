// Tiles that a loop carries because it loads them a trip ahead (lower/gpu/prefetch.cpp): from trip to trip all that changes of such a load's address
// is a constant multiple of its tensor's pitches, which can be added up instead of being computed anew.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "lang/ir.h"
#include "lang/layout.h"

namespace tegula {

/// By how much an integer grows, and a power of two that divides it before and after.
struct Growth {
    int64_t by = 0;
    uint64_t divisor = 1;
};

struct CarriedLoad {
    ir::InstId first, next;       ///< in front of the loop, and in its body
    ir::ValueId carried;          ///< of the body: the tile that `first` or the last trip's `next` gave
    ir::ValueId counter, lo, hi;  ///< of the loop
    int64_t step = 0;             ///< of the loop, positive
    ir::ValueId following;        ///< of the body: the counter that `next` loads for
    ir::ValueId more;             ///< of the body: is there another trip? Otherwise `next` loads what this trip's tile is made of
    bool from_zero = true;        ///< no start is ever negative
    std::vector<Growth> starts;   ///< by dimension of the tensor, from trip to trip
};
/// Those of one loop.
std::vector<CarriedLoad> carried_loads(const ir::Function& fn, ir::InstId loop);

/// Of an index expression whose indices grow so; nullopt: that depends on where they are.
std::optional<int64_t> growth(const LayoutExpr& e, std::span<const Growth> indices);

}  // namespace tegula
