// Times of launches as performance.md "How to measure" wants them: single launches from a cold start (burst), and graphs of launches back to back
// (sustained, rotating).
#include "jit/cuda/timing.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace tegula::cuda {

namespace {

constexpr size_t kFlushBytes = size_t{256} << 20;
constexpr int kBurstRuns = 7;
constexpr auto kIdle = std::chrono::milliseconds(200);
constexpr double kPreheatMs = 120, kMeasureMs = 60;

/// Reads all of a buffer, so that L2 holds nothing of the tensors and no dirty lines either.
constexpr const char* kFlushText = R"(extern "C" __global__ void flush(const uint4* p, unsigned long long n, unsigned* sink) {
    unsigned sum = 0;
#pragma unroll 1
    for (unsigned long long i = blockIdx.x * 256ull + threadIdx.x; i < n; i += gridDim.x * 256ull) {
        const uint4 v = p[i];
        sum += v.x ^ v.y ^ v.z ^ v.w;
    }
    if (sum == 0x9e3779b9u) *sink = sum;
}
)";

/// One measurement: a context, a stream of its own, and handles that are released at the end whatever happens.
class Stopwatch {
public:
    Stopwatch(Backend::State& state, std::span<const PreparedLaunch* const> launches)
        : state_(state), driver_(*state.driver()), launches_(launches) {}
    ~Stopwatch() {
        ContextScope scope(driver_, context_);
        buffer_.free();
        if (exec_) driver_.cuGraphExecDestroy(exec_);
        if (graph_) driver_.cuGraphDestroy(graph_);
        for (CUevent e : {begin_, end_})
            if (e) driver_.cuEventDestroy(e);
        if (stream_) driver_.cuStreamDestroy(stream_);
        if (flush_.library) driver_.cuLibraryUnload(flush_.library);
    }
    Stopwatch(const Stopwatch&) = delete;
    Stopwatch& operator=(const Stopwatch&) = delete;

    /// Microseconds; negative after a failure, which error() tells.
    double measure(TimingMode mode) {
        CUresult code = driver_.primary_context(launches_[0]->device(), &context_);
        if (!ok("cuDevicePrimaryCtxRetain", code)) return -1;
        ContextScope scope(driver_, context_);
        if (!ok("cuCtxPushCurrent", scope.code()) || !ok("cuStreamCreate", driver_.cuStreamCreate(&stream_, kStreamNonBlocking)) ||
            !ok("cuEventCreate", driver_.cuEventCreate(&begin_, 0)) || !ok("cuEventCreate", driver_.cuEventCreate(&end_, 0)))
            return -1;
        return mode == TimingMode::burst ? burst() : back_to_back(mode == TimingMode::rotating ? launches_ : launches_.first(1));
    }
    const std::string& error() const { return error_; }

private:
    bool ok(const char* call, CUresult code) {
        if (code != kCudaSuccess && error_.empty()) error_ = driver_.error(call, code);
        return code == kCudaSuccess;
    }
    bool launch(const PreparedLaunch& launch) {
        const int code = launch.launch(stream_);
        if (code != 0 && error_.empty()) error_ = launch.error_text(code);
        return code == 0;
    }
    /// Milliseconds between the two events of what `work` enqueues; negative after a failure.
    template <class Work>
    double between(const Work& work) {
        float ms = 0;
        const bool good = ok("cuEventRecord", driver_.cuEventRecord(begin_, stream_)) && work() &&
                          ok("cuEventRecord", driver_.cuEventRecord(end_, stream_)) && ok("cuEventSynchronize", driver_.cuEventSynchronize(end_)) &&
                          ok("cuEventElapsedTime", driver_.cuEventElapsedTime(&ms, begin_, end_));
        return good ? ms : -1;
    }

    bool load_flush() {
        KernelText text;
        text.source = kFlushText;
        text.entry = "flush";
        const DeviceInfo& device = *driver_.device(launches_[0]->device());
        Result<CompiledKernel> compiled = state_.compile(text, *device.arch, state_.options.compile);
        if (!compiled) {
            error_ = compiled.error;
            return false;
        }
        blocks_ = static_cast<unsigned>(device.sms) * 8;
        return ok("cuLibraryLoadData",
                  driver_.cuLibraryLoadData(&flush_.library, compiled->image.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0)) &&
               ok("cuLibraryGetKernel", driver_.cuLibraryGetKernel(&flush_.kernel, flush_.library, "flush")) &&
               ok("cuKernelGetFunction", driver_.cuKernelGetFunction(&flush_.function, flush_.kernel)) &&
               ok("cuMemAlloc", buffer_.allocate(driver_, kFlushBytes + 256, nullptr, stream_)) &&
               ok("cuMemsetD8Async", driver_.cuMemsetD8Async(buffer_.address(), 1, kFlushBytes + 256, stream_));
    }
    bool flush() {
        CUlaunchConfig config{blocks_, 1, 1, 256, 1, 1, 0, stream_, nullptr, 0};
        CUdeviceptr from = buffer_.address(), sink = buffer_.address() + kFlushBytes;
        uint64_t count = kFlushBytes / 16;
        void* params[] = {&from, &count, &sink};
        return ok("cuLaunchKernelEx", driver_.cuLaunchKernelEx(&config, flush_.function, params, nullptr));
    }

    double burst() {
        if (!load_flush() || !launch(*launches_[0])) return -1;
        std::vector<double> times;
        for (int i = 0; i < kBurstRuns; ++i) {
            if (!flush() || !ok("cuStreamSynchronize", driver_.cuStreamSynchronize(stream_))) return -1;
            std::this_thread::sleep_for(kIdle);
            const double ms = between([&] { return launch(*launches_[0]); });
            if (ms < 0) return -1;
            times.push_back(ms);
        }
        std::sort(times.begin(), times.end());
        return times[times.size() / 2] * 1e3;
    }

    bool capture(std::span<const PreparedLaunch* const> launches, int rounds) {
        if (!ok("cuStreamBeginCapture", driver_.cuStreamBeginCapture(stream_, kCaptureModeRelaxed))) return false;
        bool good = true;
        for (int i = 0; i < rounds && good; ++i)
            for (const PreparedLaunch* l : launches) good = good && launch(*l);
        const CUresult code = driver_.cuStreamEndCapture(stream_, &graph_);  // ends the capture also after a failure
        return ok("cuStreamEndCapture", code) && good && ok("cuGraphInstantiate", driver_.cuGraphInstantiate(&exec_, graph_, 0));
    }
    double back_to_back(std::span<const PreparedLaunch* const> launches) {
        for (const PreparedLaunch* l : launches)
            if (!launch(*l)) return -1;
        const double once = between([&] {
            for (const PreparedLaunch* l : launches)
                if (!launch(*l)) return false;
            return true;
        });
        if (once < 0) return -1;
        // A graph of about 5 ms, so that its own launch costs nothing; then as many graphs as preheating and measuring take.
        const int rounds = static_cast<int>(std::clamp(5 / std::max(once, 1e-3), 1.0, 2000.0));
        if (!capture(launches, rounds)) return -1;
        const auto graphs = [&](int n) {
            for (int i = 0; i < n; ++i)
                if (!ok("cuGraphLaunch", driver_.cuGraphLaunch(exec_, stream_))) return false;
            return true;
        };
        const double graph = between([&] { return graphs(1); });
        if (graph < 0) return -1;
        if (between([&] { return graphs(static_cast<int>(kPreheatMs / std::max(graph, 0.01)) + 1); }) < 0) return -1;
        const int n = static_cast<int>(kMeasureMs / std::max(graph, 0.01)) + 1;
        const double ms = between([&] { return graphs(n); });
        return ms < 0 ? -1 : ms * 1e3 / (static_cast<double>(n) * rounds * static_cast<double>(launches.size()));
    }

    struct Flush {
        CUlibrary library = nullptr;
        CUkernel kernel = nullptr;
        CUfunction function = nullptr;
    };
    Backend::State& state_;
    Driver& driver_;
    std::span<const PreparedLaunch* const> launches_;
    CUcontext context_ = nullptr;
    CUstream stream_ = nullptr;
    CUevent begin_ = nullptr, end_ = nullptr;
    CUgraph graph_ = nullptr;
    CUgraphExec exec_ = nullptr;
    Flush flush_;
    unsigned blocks_ = 0;
    DeviceMemory buffer_;
    std::string error_;
};

}  // namespace

Result<double> time_launches(Backend::State& state, std::span<const PreparedLaunch* const> launches, TimingMode mode) {
    Result<double> out;
    if (!state.driver()) {
        out.error = "no CUDA driver was found";
        return out;
    }
    TEGULA_CHECK(!launches.empty(), "nothing to measure");
    Stopwatch watch(state, launches);
    const double us = watch.measure(mode);
    if (us >= 0)
        out.value = us;
    else
        out.error = watch.error();
    return out;
}

}  // namespace tegula::cuda
