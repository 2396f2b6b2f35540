// Stopwatch (timing.h): events around what callers enqueue.
#include "jit/cuda/timing.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace tegula::cuda {

namespace {

constexpr size_t kFlushBytes = size_t{256} << 20, kFlushPiece = size_t{4} << 20;
constexpr auto kIdle = std::chrono::milliseconds(200);
constexpr double kGraphLength = 0.02, kPreheat = 0.1, kShortest = 1e-6;
constexpr int kMaxGraphCalls = 500;

}  // namespace

Stopwatch::Stopwatch(const Driver& driver) : driver_(driver), owns_stream_(true) {
    ok("cuStreamCreate", driver_.cuStreamCreate(&stream_, kStreamNonBlocking));
}

Stopwatch::Stopwatch(const Driver& driver, CUstream stream) : driver_(driver), stream_(stream) {}

Stopwatch::~Stopwatch() {
    if (exec_) driver_.cuGraphExecDestroy(exec_);
    if (graph_) driver_.cuGraphDestroy(graph_);
    for (CUevent e : {begin_, end_})
        if (e) driver_.cuEventDestroy(e);
    if (owns_stream_ && stream_) driver_.cuStreamDestroy(stream_);
}

bool Stopwatch::ok(const char* call, CUresult code) {
    if (code != kCudaSuccess && error_.empty()) error_ = driver_.error(call, code);
    return code == kCudaSuccess;
}

bool Stopwatch::set_up() {
    if (!error_.empty()) return false;
    for (CUevent* e : {&begin_, &end_})
        if (!*e && !ok("cuEventCreate", driver_.cuEventCreate(e, 0))) return false;
    for (DeviceMemory* m : {&clean_, &written_})
        if (!m->address() && !ok("cuMemAlloc", m->allocate(driver_, kFlushBytes, nullptr, stream_))) return false;
    return true;
}

/// A copy leaves the lines it wrote in L2; reading clean memory over it, by a copy into a small corner, evicts them.
bool Stopwatch::flush() {
    const auto copy = [&](CUdeviceptr from, size_t bytes) {
        return ok("cuMemcpyDtoDAsync", driver_.cuMemcpyDtoDAsync(written_.address(), from, bytes, stream_));
    };
    bool good = copy(clean_.address(), kFlushBytes);
    for (size_t at = 0; at < kFlushBytes && good; at += kFlushPiece) good = copy(clean_.address() + at, kFlushPiece);
    return good;
}

double Stopwatch::between(const std::function<bool()>& work) {
    const bool begun = ok("cuEventRecord", driver_.cuEventRecord(begin_, stream_));
    if (!work() || !begun) return -1;
    float ms = 0;
    const bool good = ok("cuEventRecord", driver_.cuEventRecord(end_, stream_)) && ok("cuEventSynchronize", driver_.cuEventSynchronize(end_)) &&
                      ok("cuEventElapsedTime", driver_.cuEventElapsedTime(&ms, begin_, end_));
    return good ? ms * 1e-3 : -1;
}

double Stopwatch::once(const Enqueue& enqueue) {
    if (set_up() && flush()) return between([&] { return enqueue(stream_); });
    enqueue(stream_);
    return -1;
}

double Stopwatch::burst(const Enqueue& enqueue, int runs) {
    if (!error_.empty() || !enqueue(stream_)) return -1;
    std::vector<double> times;
    for (int i = 0; i < runs; ++i) {
        if (!ok("cuStreamSynchronize", driver_.cuStreamSynchronize(stream_))) return -1;
        std::this_thread::sleep_for(kIdle);
        times.push_back(once(enqueue));
        if (times.back() < 0) return -1;
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
}

bool Stopwatch::capture(const Enqueue& enqueue, int count) {
    if (exec_) driver_.cuGraphExecDestroy(exec_);
    if (graph_) driver_.cuGraphDestroy(graph_);
    exec_ = nullptr;
    graph_ = nullptr;
    if (!ok("cuStreamBeginCapture", driver_.cuStreamBeginCapture(stream_, kCaptureModeRelaxed))) return false;
    bool good = true;
    for (int i = 0; i < count && good; ++i) good = enqueue(stream_);
    const CUresult code = driver_.cuStreamEndCapture(stream_, &graph_);  // ends the capture also after a failure
    return ok("cuStreamEndCapture", code) && good && ok("cuGraphInstantiate", driver_.cuGraphInstantiate(&exec_, graph_, 0));
}

double Stopwatch::sustained(const Enqueue& enqueue, double length) {
    if (!set_up() || !enqueue(stream_)) return -1;
    const double one = between([&] { return enqueue(stream_); });
    if (one < 0) return -1;
    // A graph long enough that its own launch costs nothing; then as many graphs as preheating and measuring take.
    const int count = static_cast<int>(std::clamp(kGraphLength / std::max(one, kShortest), 1.0, double{kMaxGraphCalls}));
    if (!capture(enqueue, count)) return -1;
    const auto repeat = [&](int n) {
        return between([&] {
            for (int i = 0; i < n; ++i)
                if (!ok("cuGraphLaunch", driver_.cuGraphLaunch(exec_, stream_))) return false;
            return true;
        });
    };
    const double graph = std::max(repeat(2) / 2, kShortest);
    repeat(std::max(1, static_cast<int>(kPreheat / graph)));
    const int n = std::max(1, static_cast<int>(length / graph));
    const double all = repeat(n);
    return error_.empty() ? all / n / count : -1;
}

}  // namespace tegula::cuda
