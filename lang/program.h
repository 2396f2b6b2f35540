// A kernel made ready by a back end: what the engine launches.
#pragma once
#include <memory>
#include <span>

#include "lang/runtime.h"

namespace tegula {

/// A run with fixed arguments. Immutable; usable from several threads.
class BoundRun {
public:
    virtual ~BoundRun() = default;
    virtual RunResult run() const = 0;
};

/// Immutable; usable from several threads.
class Program {
public:
    virtual ~Program() = default;
    /// Runs programs (0, 0, 0) .. grid. Arguments match the parameters (the engine has checked).
    virtual RunResult run(std::span<const Argument> args, std::span<const uint64_t, 3> grid, const RunOptions& options) const = 0;
    /// The same run made ready to be repeated under `options`; the program outlives it. Compiling asks `making` for cancellation, progress and its budget.
    /// Null where there is nothing to run: `refused` says why.
    virtual std::unique_ptr<const BoundRun> bind(std::span<const Argument> args, std::span<const uint64_t, 3> grid, const RunOptions& options,
                                                 const RunOptions& making, RunResult& refused) const;
};

/// A launch with fixed arguments. On a GPU launch() only enqueues: no allocation, no lock, no check; it may be captured into a CUDA graph. Elsewhere
/// it runs to its end. Usable from several threads; launches of a GPU's kernel that prints, asserts or needs a workspace must not overlap.
class PreparedLaunch {
public:
    /// Of launch(), where no driver speaks.
    enum : int { kFailed = -1, kCancelled = -2, kHasNoStreams = -3 };
    virtual ~PreparedLaunch() = default;
    /// Enqueues on `stream` (a CUstream; null: default stream). 0, one of the codes above, or the driver's error code. Throws nothing.
    virtual int launch(void* stream) const = 0;
    /// Text of an error code of launch().
    virtual std::string error_text(int code) const = 0;
    /// Waits for `stream` and hands over what was printed and reported since the last call.
    virtual RunResult collect(void* stream, const RunOptions& options) const = 0;
    /// Ordinal of the GPU; -1: none.
    virtual int device() const = 0;
};

}  // namespace tegula
