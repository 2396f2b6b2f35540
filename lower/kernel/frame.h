// What surrounds the body of a kernel.
#pragma once
#include "lower/kernel/lowering.h"

namespace tegula::lower {

// ---- tiles over shared numbers ----
std::string kernel_head(const Lowering& ctx);
void find_arrays(Lowering& ctx);
void find_unroll_limit(Lowering& ctx);

}  // namespace tegula::lower
