// What becomes of a kernel on the CPU, in words: `explain`.
#pragma once
#include <string>

#include "jit/cpu/cpu.h"

namespace tegula::cpu {

/// Lines of "FILE:LINE:COLUMN: text": vectors, what is fused and what is stored, the micro-kernel and blocking of products, parallelism.
std::string explain(const ir::Function& fn, const TargetInfo& target, const SourceMap& sources);

}  // namespace tegula::cpu
