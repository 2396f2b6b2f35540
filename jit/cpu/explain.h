// What becomes of a kernel on the CPU: `explain`.
#pragma once
#include <vector>

#include "jit/cpu/cpu.h"
#include "lang/explanation.h"
#include "lang/facts.h"

namespace tegula::cpu {

/// Vectors, programs, what is fused and what is stored, the micro-kernel and blocking of products, and why.
std::vector<explain::Note> explain(const ir::Function& fn, const LaunchFacts& facts, const TargetInfo& target, const PoolOptions& pool = {});

}  // namespace tegula::cpu
