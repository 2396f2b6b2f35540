// Values of integer scalars of a function that follow from some that are given: what a host knows of a kernel's scalars when it launches it, and what
// a cost model assumes of them. Exactly what the kernel itself computes.
#pragma once
#include <functional>
#include <map>
#include <optional>

#include "lang/ir.h"

namespace tegula {

class ScalarValues {
public:
    /// The code of a scalar that nothing is computed from here: a parameter, a program's number, the counter of a loop, an element in memory.
    using Given = std::function<std::optional<uint64_t>(ir::ValueId)>;
    ScalarValues(const ir::Function& fn, Given given) : fn_(fn), given_(std::move(given)) {}

    /// The code of an integer or bool scalar; nothing where it depends on something that is not given.
    std::optional<uint64_t> code(ir::ValueId v);

private:
    std::optional<uint64_t> compute(ir::ValueId v);

    const ir::Function& fn_;
    Given given_;
    int depth_ = 0;
    std::map<uint32_t, std::optional<uint64_t>> known_;  ///< by value; sums of themselves would be followed on both sides each
};

/// The scalar a host knows before a launch: what the parameters, extents of tensors and the grid say.
struct LaunchScalar {
    enum Kind : uint8_t { parameter, extent, programs } kind = parameter;
    size_t param = 0;  ///< number of the parameter, of the tensor for extents
    int dim = 0;       ///< of the extent or the grid
};
/// Which one `v` is, if it is one.
std::optional<LaunchScalar> launch_scalar(const ir::Function& fn, ir::ValueId v);
/// Does the value of an integer scalar follow from such?
bool known_at_launch(const ir::Function& fn, ir::ValueId v);

}  // namespace tegula
