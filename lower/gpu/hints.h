// Which hints and schedules of a kernel its GPU form does not follow, and why: warnings, never silence.
#pragma once
#include <string>
#include <vector>

#include "lower/gpu/gpu.h"

namespace tegula {

struct HintNote {
    std::string hint;     ///< "cluster"; the kernel's attribute or schedule of that name
    Span place;           ///< valid: a hint of the loop or access there
    std::string instead;  ///< what it counts as; empty: it has no effect
    std::string why;
};
/// Does the kernel have hints that might not be followed? (Finding out takes its form.)
bool has_doubtful_hints(const ir::Function& fn);
/// `fn` has been through run_passes, `form` is made of it by run_gpu_passes.
std::vector<HintNote> unfollowed_hints(const ir::Function& fn, const ir::Function& form);

}  // namespace tegula
