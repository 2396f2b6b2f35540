// Times on the device, as docs/performance.md says how to measure: for `bench` blocks, the benchmark and tests.
#pragma once
#include <functional>

#include "jit/cuda/driver.h"

namespace tegula::cuda {

/// Measures what callers enqueue. The context of the device is current throughout. All times are seconds; negative after a failure, which error()
/// tells (a failure of the caller's own work is the caller's to tell).
class Stopwatch {
public:
    using Enqueue = std::function<bool(CUstream)>;  ///< enqueues the work on that stream; false: it failed

    /// With a stream of its own.
    explicit Stopwatch(const Driver& driver);
    /// On a stream of the caller's.
    Stopwatch(const Driver& driver, CUstream stream);
    ~Stopwatch();
    Stopwatch(const Stopwatch&) = delete;
    Stopwatch& operator=(const Stopwatch&) = delete;

    /// The work once, behind reads of 256 MB: L2 holds none of its data, and the host has enqueued it before they end. The work is enqueued once
    /// also when it cannot be timed.
    double once(const Enqueue& enqueue);
    /// Median of `runs` times once() after 0.2 s of idling, behind a first run that is not timed.
    double burst(const Enqueue& enqueue, int runs = 7);
    /// Back to back in a CUDA graph for about `length`, after 0.1 s of the same; time per call of `enqueue`. Not on the default stream.
    double sustained(const Enqueue& enqueue, double length = 0.5);

    CUstream stream() const { return stream_; }
    const std::string& error() const { return error_; }

private:
    bool ok(const char* call, CUresult code);
    bool set_up();
    bool flush();
    double between(const std::function<bool()>& work);
    bool capture(const Enqueue& enqueue, int count);

    const Driver& driver_;
    bool owns_stream_ = false;
    CUstream stream_ = nullptr;
    CUevent begin_ = nullptr, end_ = nullptr;
    CUgraph graph_ = nullptr;
    CUgraphExec exec_ = nullptr;
    DeviceMemory clean_, written_;
    std::string error_;
};

}  // namespace tegula::cuda
