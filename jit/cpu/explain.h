// What becomes of a kernel on the CPU, in words: `explain`.
#pragma once
#include <string>

#include "jit/cpu/cpu.h"
#include "lang/facts.h"

namespace tegula::cpu {

/// Lines of "FILE:LINE:COLUMN: text": vectors, what is fused and what is stored, the micro-kernel and blocking of products, parallelism, and why.
std::string explain(const ir::Function& fn, const LaunchFacts& facts, const TargetInfo& target, const SourceMap& sources,
                    const PoolOptions& pool = {});

}  // namespace tegula::cpu
