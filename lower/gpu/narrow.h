// Narrow weights on their way to products, as far as a function in its final GPU form shows them: what `explain` says of their stream.
#pragma once
#include <string>
#include <vector>

#include "lower/gpu/gpu.h"

namespace tegula {

struct NarrowStream {
    ir::ValueId tensor;
    Span span;                         ///< of the load
    int64_t codes = 0;                 ///< of a tile
    int64_t tile_bytes = 0;            ///< of the tensor, that a trip takes
    explain::BetterLayout::Cost cost;  ///< no words: copied whole; no operations: code by code, without a recipe
    /// Operations of threads per code: loads, and decoding. Without a recipe a code is taken out of its bytes and converted for itself.
    double work(int threads) const;
};
/// One for each tensor of elements of at most 8 bits that are cast to what a product takes, in the order of their casts.
std::vector<NarrowStream> narrow_streams(const ir::Function& form);

}  // namespace tegula
