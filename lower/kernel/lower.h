// From the placed tile form to a kernel.
#pragma once
#include "lang/ir.h"
#include "lang/kernel/kernel_text.h"
#include "lang/source.h"

namespace tegula {

/// The kernel of a function in GPU form. `sources` may be null (no #line). Internal errors only: everything that passed
/// the GPU passes becomes one.
KernelText lower_to_kernel(const ir::Function& fn, const SourceMap* sources);

}  // namespace tegula
