// Sorting and counting of whole tiles, for emitted code: dense row-major containers in, dense containers out.
#pragma once
#include <functional>

#include "lang/ir.h"

namespace tegula::cpu {

using Poll = std::function<bool()>;  ///< asked every few milliseconds; true: leave, the results do not matter any more

/// The op `sort` of instruction `inst`: the first `wanted` elements of each line.
void sort_tile(const ir::Function& fn, uint32_t inst, const void* in, void* values, int32_t* indices, int64_t wanted, const Poll& poll);
/// The op `histogram`. `mask` may be null.
void count_tile(const ir::Function& fn, uint32_t inst, const void* in, const uint8_t* mask, int32_t* counts, const Poll& poll);

}  // namespace tegula::cpu
