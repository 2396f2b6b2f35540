// Statements of the kernel form as CUDA C++.
#pragma once
#include <string>

#include "lang/kernel/kernel.h"
#include "lang/kernel/kernel_text.h"

namespace tegula::cuda {

/// The operation's text (kernel_ops.def), without the semicolon.
std::string spelled(const kernel::Call& call);
/// The statements at a depth of four spaces each.
std::string print(const kernel::Body& body, int depth = 1);

/// Fills in the kernel's source: device text, what stands in front of the statements, and these, which are then gone.
KernelText printed(KernelText kernel);

}  // namespace tegula::cuda
