// Timing on the GPU as docs/performance.md says: bursts (median of single launches, each after 0.2 s of idling with L2 flushed by reading 256 MB) and
// sustained (one CUDA graph back to back, after 0.1 s of the same).
#pragma once
#include <functional>

#include "jit/cuda/driver.h"

namespace gpu_bench {

class GpuTimer {
public:
    explicit GpuTimer(tegula::cuda::Driver& driver);
    ~GpuTimer();
    GpuTimer(const GpuTimer&) = delete;
    using Enqueue = std::function<void(tegula::cuda::CUstream)>;
    double burst(const Enqueue& enqueue, int runs = 7);
    double sustained(const Enqueue& enqueue, double seconds = 0.5);
    tegula::cuda::CUstream stream() const { return stream_; }
    void check(const char* call, int code) const;

private:
    double elapsed(const std::function<void()>& work);
    void flush();
    tegula::cuda::Driver& d_;
    tegula::cuda::CUstream stream_ = nullptr;
    tegula::cuda::CUevent begin_ = nullptr, end_ = nullptr;
    tegula::cuda::CUdeviceptr flush_[2] = {0, 0};
};

}  // namespace gpu_bench
