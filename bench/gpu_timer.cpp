// GpuTimer (gpu_timer.h).
#include "bench/gpu_timer.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace gpu_bench {

using namespace tegula::cuda;

namespace {
constexpr size_t kFlushBytes = size_t{256} << 20;
}

void GpuTimer::check(const char* call, int code) const {
    if (code == 0) return;
    std::fprintf(stderr, "bench: %s\n", d_.error(call, code).c_str());
    std::exit(1);
}

GpuTimer::GpuTimer(Driver& driver) : d_(driver) {
    check("cuStreamCreate", d_.cuStreamCreate(&stream_, kStreamNonBlocking));
    check("cuEventCreate", d_.cuEventCreate(&begin_, 0));
    check("cuEventCreate", d_.cuEventCreate(&end_, 0));
    for (CUdeviceptr& p : flush_) check("cuMemAlloc", d_.cuMemAlloc(&p, kFlushBytes));
}

GpuTimer::~GpuTimer() {
    for (CUdeviceptr p : flush_) d_.cuMemFree(p);
    d_.cuEventDestroy(begin_);
    d_.cuEventDestroy(end_);
    d_.cuStreamDestroy(stream_);
}

double GpuTimer::elapsed(const std::function<void()>& work) {
    check("cuEventRecord", d_.cuEventRecord(begin_, stream_));
    work();
    check("cuEventRecord", d_.cuEventRecord(end_, stream_));
    check("cuEventSynchronize", d_.cuEventSynchronize(end_));
    float ms = 0;
    check("cuEventElapsedTime", d_.cuEventElapsedTime(&ms, begin_, end_));
    return ms * 1e-3;
}

/// A copy leaves the lines it wrote in L2; reading clean memory over it, by a copy into a small corner, evicts them.
void GpuTimer::flush() {
    check("cuMemcpyDtoDAsync", d_.cuMemcpyDtoDAsync(flush_[0], flush_[1], kFlushBytes, stream_));
    for (size_t at = 0; at < kFlushBytes; at += size_t{4} << 20)
        check("cuMemcpyDtoDAsync", d_.cuMemcpyDtoDAsync(flush_[0], flush_[1] + at, size_t{4} << 20, stream_));
}

double GpuTimer::burst(const Enqueue& enqueue, int runs) {
    enqueue(stream_);
    check("cuStreamSynchronize", d_.cuStreamSynchronize(stream_));
    std::vector<double> times;
    for (int i = 0; i < runs; ++i) {
        check("cuStreamSynchronize", d_.cuStreamSynchronize(stream_));
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        flush();  // long enough that the host has enqueued everything before it ends
        times.push_back(elapsed([&] { enqueue(stream_); }));
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
}

double GpuTimer::sustained(const Enqueue& enqueue, double seconds) {
    enqueue(stream_);
    const double one = std::max(1e-6, elapsed([&] { enqueue(stream_); }));
    const int count = std::clamp(static_cast<int>(0.02 / one), 1, 500);
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    check("cuStreamBeginCapture", d_.cuStreamBeginCapture(stream_, kCaptureModeRelaxed));
    for (int i = 0; i < count; ++i) enqueue(stream_);
    check("cuStreamEndCapture", d_.cuStreamEndCapture(stream_, &graph));
    check("cuGraphInstantiate", d_.cuGraphInstantiate(&exec, graph, 0));
    const auto repeat = [&](int n) {
        return elapsed([&] {
            for (int i = 0; i < n; ++i) check("cuGraphLaunch", d_.cuGraphLaunch(exec, stream_));
        });
    };
    const double graph_time = repeat(2) / 2;
    repeat(std::max(1, static_cast<int>(0.1 / graph_time)));
    const int n = std::max(1, static_cast<int>(seconds / graph_time));
    const double total = repeat(n);
    d_.cuGraphExecDestroy(exec);
    d_.cuGraphDestroy(graph);
    return total / n / count;
}

}  // namespace gpu_bench
