// Sorting and counting of whole tiles, for emitted code: dense row-major containers in, dense containers out.
#pragma once
#include <functional>

#include "lang/ir.h"

namespace tegula::cpu {

/// The op `sort` of instruction `inst`. `poll` is asked now and then; true: leave, the results do not matter any more.
void sort_tile(const ir::Function& fn, uint32_t inst, const void* in, void* values, int32_t* indices, const std::function<bool()>& poll);
/// The op `histogram`. `mask` may be null.
void count_tile(const ir::Function& fn, uint32_t inst, const void* in, const uint8_t* mask, int32_t* counts, const std::function<bool()>& poll);

}  // namespace tegula::cpu
