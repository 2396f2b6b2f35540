// From the placed tile form to a kernel.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lang/ir.h"
#include "lang/kernel/kernel_text.h"
#include "lang/source.h"

namespace tegula {

struct KernelOptions {
    std::vector<std::string> disabled;  ///< names of passes, or "all": may not change a result bit
    /// Called after every pass with all that has been decided, a line for each decision (for `dump --emit=kernel`).
    std::function<void(std::string_view pass, const std::string& plan)> after = {};
};
/// The optional passes of lowering, in order (lower/kernel/passes.def).
std::vector<std::string_view> kernel_pass_names();

/// The kernel of a function in GPU form. `sources` may be null (no #line). Internal errors only: everything that passed
/// the GPU passes becomes one.
KernelText lower_to_kernel(const ir::Function& fn, const SourceMap* sources, const KernelOptions& options = {});

}  // namespace tegula
