// Products with narrow weights on the machine `cpu`: every width, scales of groups, a block format and an order of fragments, beside ggml's nearest
// formats.
#pragma once
#include <string>
#include <vector>

#include "bench/cpu.h"

namespace cpu_bench {

/// Milliseconds at 1, 8 and 64 rows; without ggml its column is NaN.
std::vector<CpuRow> narrow_weights(const std::string& source_dir, bool quick);

}  // namespace cpu_bench
