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

/// A launch with fixed arguments. launch() only enqueues: no allocation, no lock, no check; it may be captured into a CUDA graph. Usable from several
/// threads; launches of a kernel that prints, asserts or needs a workspace must not overlap.
class PreparedLaunch {
public:
    virtual ~PreparedLaunch() = default;
    /// Enqueues on `stream` (a CUstream; null: default stream). 0, or the driver's error code.
    virtual int launch(void* stream) const = 0;
    /// Text of an error code of launch().
    virtual std::string error_text(int code) const = 0;
    /// Waits for `stream` and hands over what was printed and asserted since the last call.
    virtual RunResult collect(void* stream, const RunOptions& options) const = 0;
    virtual int device() const = 0;
};

}  // namespace tegula
