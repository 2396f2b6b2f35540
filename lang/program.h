// A kernel made ready by a back end: what the engine launches.
#pragma once
#include <memory>
#include <span>

#include "lang/runtime.h"

namespace tegula {

/// Immutable; usable from several threads.
class Program {
public:
    virtual ~Program() = default;
    /// Runs programs (0, 0, 0) .. grid. Arguments match the parameters (the engine has checked).
    virtual RunResult run(std::span<const Argument> args, std::span<const uint64_t, 3> grid, const RunOptions& options) const = 0;
};

}  // namespace tegula
