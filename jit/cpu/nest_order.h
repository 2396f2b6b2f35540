// In which order a loop nest goes over the dimensions of its tile: vectors run where memory does, and where two accesses disagree the nest goes in
// blocks of both dimensions, rows of memory turned in squares (turned.cpp). Decided on the IR alone; codegen and `explain` follow it.
#pragma once
#include <string>
#include <vector>

#include "jit/cpu/plan.h"

namespace tegula::cpu {

/// A load, or a stored tile, whose memory may run along another dimension than the lanes that want it (turned.cpp).
struct TurnedLoad {
    ir::InstId load;        ///< invalid: the tile
    std::vector<int> dims;  ///< of its part: the dimension of the tile at hand that each is, -1: none, the extent is 1
    size_t k = 0, n = 0;    ///< the part's dimensions along memory and along lanes
    unsigned bits = 0;      ///< of an element in memory
    ir::ValueId tile{};
    std::shared_ptr<const BlockWords> block{};  ///< of a declared layout: how it is read; else memory runs along k
};

struct NestOrder {
    std::vector<uint8_t> dims;  ///< those with an extent > 1, outermost first; vectors run along the last
    /// Memory of some loads runs along another dimension, the last but one: each vector's lanes go all along it before the next vector.
    bool blocks = false;
    std::vector<TurnedLoad> turned;  ///< then: read in squares, `side` elements along memory by a vector
    int64_t side = 0;                ///< a multiple of `step`
    int64_t step = 1;                ///< elements along memory that fill whole words of 32 bits in all of them
    /// A few elements that lie side by side in memory, too few for a vector: this dimension, which is none of `dims`. Each vector's points go all
    /// along it at a time, and what they make is put together in registers (apart.h). -1: none.
    int few = -1;
    std::string text;  ///< for `explain`: which way the nest goes and why; empty where there is only one
};

/// The nest of a store, or of a fusable instruction whose result is stored. `lanes`: of a vector.
NestOrder plan_nest(const ir::Function& fn, const Plan& plan, const CompileOptions& options, ir::InstId root, unsigned lanes);
/// The nest that copies a value into a stored tile.
NestOrder plan_copy(const ir::Function& fn, const Plan& plan, const CompileOptions& options, ir::ValueId from, unsigned lanes);
/// What has effects in the order of its elements runs so.
NestOrder row_major(const Shape& shape);

}  // namespace tegula::cpu
