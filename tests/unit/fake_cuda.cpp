// A stand-in for libcuda.so.1 with two GPUs whose memory is the host's: launches call back into the test, every call can be made to fail, and what is
// not given back shows in counters. Contexts, streams and functions are checked against each other, and launches on a stream that is captured are
// recorded; what a capture forbids ends it, as the driver's does. Exports the driver's own names; parameters are those of jit/cuda/driver.h.
#include "tests/unit/fake_cuda.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

#include "jit/cuda/driver.h"

using namespace tegula::cuda;

namespace {

constexpr CUresult kInvalidContext = 201, kInvalidHandle = 400, kCaptureUnsupported = 900, kCaptureInvalidated = 901, kCaptureImplicit = 906;

struct Function {
    FakeContext* context;
};
/// A launch with its parameters as they were when it was recorded (tensor maps by their first word).
struct Node {
    FakeLaunch launch;
    FakeContext* context;
    std::vector<uint64_t> values;
};
struct Graph {
    std::vector<Node> nodes;
};
struct Stream {
    FakeContext* context;
    bool blocking, capturing = false, broken = false;
    Graph graph = {};
};

FakeCuda state;
FakeContext primary[2] = {{0}, {1}};
std::map<FakeContext*, Function> functions;
std::vector<Stream*> streams;
int kernel, library, pools[2];
thread_local FakeContext* current[16];
thread_local int depth = 0;
thread_local int capture_mode = 0;

FakeContext* now() { return depth ? current[depth - 1] : nullptr; }

/// Null for the default streams.
Stream* stream_of(CUstream s) { return reinterpret_cast<uintptr_t>(s) <= kPerThreadStream ? nullptr : reinterpret_cast<Stream*>(s); }

/// What no capture of `s` takes: ends it and, on the legacy default stream, captures of all that wait for that one.
CUresult uncaptured(CUstream s) {
    CUresult code = kCudaSuccess;
    for (Stream* other : streams) {
        const bool own = stream_of(s) == other, implicit = !s && other->blocking;
        if (!other->capturing || (!own && !implicit)) continue;
        other->broken = true;
        code = own ? kCaptureUnsupported : kCaptureImplicit;
    }
    return code;
}

/// Work on `s`.
CUresult on_stream(CUstream s) {
    if (!now() || (stream_of(s) && stream_of(s)->context != now())) return kInvalidContext;
    return uncaptured(s);
}

/// A call that is no part of any stream: in another mode than `relaxed` it ends all captures.
CUresult unsafe() {
    CUresult code = kCudaSuccess;
    for (Stream* s : streams) {
        if (!s->capturing || capture_mode == kCaptureModeRelaxed) continue;
        s->broken = true;
        code = kCaptureUnsupported;
    }
    return code;
}

void play(FakeLaunch launch, const FakeContext* context) {
    launch.context = context;
    if (state.on_launch) state.on_launch(state.user, launch);
}

/// Counts a call that may fail; true when it has to.
int fails() { return ++state.calls == state.fail_at ? kCudaOutOfMemory : kCudaSuccess; }

CUresult allocate(CUdeviceptr* out, size_t bytes) {
    if (const int code = fails()) return code;
    if (!now()) return kInvalidContext;
    void* memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    std::memset(memory, 0xcd, bytes);
    *out = reinterpret_cast<CUdeviceptr>(memory);
    ++state.allocations;
    return kCudaSuccess;
}

CUresult release(CUdeviceptr memory) {
    std::free(reinterpret_cast<void*>(memory));
    --state.allocations;
    return kCudaSuccess;
}

}  // namespace

#define FAKE(name, ...) extern "C" __attribute__((visibility("default"))) CUresult name(__VA_ARGS__)

extern "C" __attribute__((visibility("default"))) FakeCuda* fake_cuda() { return &state; }

FAKE(cuInit, unsigned) { return kCudaSuccess; }
FAKE(cuDriverGetVersion, int* v) { return *v = 13000, kCudaSuccess; }
FAKE(cuGetErrorName, CUresult, const char** text) { return *text = "FAKE_ERROR", kCudaSuccess; }
FAKE(cuGetErrorString, CUresult, const char** text) { return *text = "out of fake memory", kCudaSuccess; }
FAKE(cuDeviceGetCount, int* n) { return *n = 2, kCudaSuccess; }
FAKE(cuDeviceGet, CUdevice* d, int i) { return *d = i, kCudaSuccess; }
FAKE(cuDeviceGetName, char* text, int size, CUdevice d) {
    return std::strncpy(text, d ? "Fake A100" : "Fake H200", static_cast<size_t>(size)), kCudaSuccess;
}
FAKE(cuDeviceTotalMem_v2, size_t* bytes, CUdevice) { return *bytes = size_t{1} << 30, kCudaSuccess; }
FAKE(cuDeviceGetAttribute, int* out, int attribute, CUdevice d) {
    const int number = state.capability[d];
    *out = attribute == kMultiprocessorCount ? 132 : attribute == kCapabilityMajor ? number / 10 : attribute == kCapabilityMinor ? number % 10 : 1;
    if (attribute == kSharedPerBlockOptin) *out = number >= 120 ? 101376 : number < 90 ? 166912 : 232448;
    return kCudaSuccess;
}
FAKE(cuDevicePrimaryCtxRetain, CUcontext* out, CUdevice d) {
    *out = reinterpret_cast<CUcontext>(&primary[d]);
    return fails();
}
FAKE(cuCtxGetCurrent, CUcontext* out) { return *out = reinterpret_cast<CUcontext>(now()), kCudaSuccess; }
FAKE(cuCtxPushCurrent_v2, CUcontext c) {
    if (const int code = fails()) return code;
    current[depth++] = reinterpret_cast<FakeContext*>(c);
    return ++state.contexts, kCudaSuccess;
}
FAKE(cuCtxPopCurrent_v2, CUcontext* out) { return *out = reinterpret_cast<CUcontext>(current[--depth]), --state.contexts, kCudaSuccess; }
FAKE(cuCtxGetDevice, CUdevice* d) { return *d = now() ? now()->device : 0, now() ? fails() : kInvalidContext; }
FAKE(cuCtxSynchronize) { return kCudaSuccess; }
FAKE(cuLibraryLoadData, CUlibrary* out, const void* image, int*, void**, unsigned, int*, void**, unsigned) {
    if (const int code = fails()) return code;
    if (const CUresult code = unsafe()) return code;
    *out = reinterpret_cast<CUlibrary>(&library);
    const char* target = image ? std::strstr(static_cast<const char*>(image), ".target sm_") : nullptr;
    state.ptx = target;
    state.ptx_target = target ? std::atoi(target + std::strlen(".target sm_")) : 0;
    return ++state.libraries, image ? kCudaSuccess : 1;
}
FAKE(cuLibraryUnload, CUlibrary) { return --state.libraries, unsafe(); }
FAKE(cuLibraryGetKernel, CUkernel* out, CUlibrary, const char*) { return *out = reinterpret_cast<CUkernel>(&kernel), fails(); }
FAKE(cuKernelGetFunction, CUfunction* out, CUkernel) {
    if (!now()) return kInvalidContext;
    Function& f = functions[now()];
    f.context = now();
    return *out = reinterpret_cast<CUfunction>(&f), fails();
}
FAKE(cuFuncGetAttribute, int* out, int, CUfunction) { return *out = 0, kCudaSuccess; }
FAKE(cuFuncSetAttribute, CUfunction, int, int) { return fails(); }
FAKE(cuOccupancyMaxActiveBlocksPerMultiprocessor, int* out, CUfunction, int, size_t) { return *out = 2, fails(); }
FAKE(cuLaunchKernelEx, const CUlaunchConfig* c, CUfunction f, void** params, void**) {
    if (const int code = fails()) return code;
    if (!now() || reinterpret_cast<Function*>(f)->context != now()) return kInvalidContext;
    if (c->gridDimX == 0) return 1;
    Stream* stream = stream_of(c->hStream);
    if (stream && stream->context != now()) return kInvalidHandle;
    unsigned cluster = 1;
    for (unsigned i = 0; i < c->numAttrs; ++i)
        if (c->attrs[i].id == kClusterDimension) std::memcpy(&cluster, c->attrs[i].value, sizeof cluster);
    const FakeLaunch launch = {c->gridDimX, c->blockDimX, c->sharedMemBytes, c->hStream, params, stream && stream->capturing, cluster, nullptr};
    if (!stream || !stream->capturing) {
        if (const CUresult code = on_stream(c->hStream)) return code;
        return play(launch, now()), kCudaSuccess;
    }
    Node node{launch, now(), {}};
    for (int i = 0; i < state.params; ++i) node.values.push_back(*static_cast<uint64_t*>(params[i]));
    return stream->graph.nodes.push_back(std::move(node)), kCudaSuccess;
}
FAKE(cuMemAlloc_v2, CUdeviceptr* out, size_t bytes) {
    const CUresult code = unsafe();
    return code ? code : allocate(out, bytes);
}
FAKE(cuMemFree_v2, CUdeviceptr p) { return release(p), unsafe(); }
FAKE(cuMemAllocFromPoolAsync, CUdeviceptr* out, size_t bytes, CUmemoryPool pool, CUstream s) {
    if (const CUresult code = on_stream(s)) return code;
    if (!now() || reinterpret_cast<CUmemoryPool>(&pools[now()->device]) != pool) return kInvalidContext;
    return allocate(out, bytes);
}
FAKE(cuMemFreeAsync, CUdeviceptr p, CUstream s) { return release(p), on_stream(s); }
FAKE(cuDeviceGetDefaultMemPool, CUmemoryPool* out, CUdevice d) { return *out = reinterpret_cast<CUmemoryPool>(&pools[d]), kCudaSuccess; }
FAKE(cuMemPoolGetAttribute, CUmemoryPool, int, void* value) { return *static_cast<uint64_t*>(value) = 0, kCudaSuccess; }
FAKE(cuMemPoolSetAttribute, CUmemoryPool, int, void*) { return unsafe(); }
FAKE(cuMemcpyHtoDAsync_v2, CUdeviceptr to, const void* from, size_t bytes, CUstream s) {
    if (const int code = fails()) return code;
    if (const CUresult code = on_stream(s)) return code;
    std::memcpy(reinterpret_cast<void*>(to), from, bytes);
    return ++state.copies, kCudaSuccess;
}
FAKE(cuMemcpyDtoHAsync_v2, void* to, CUdeviceptr from, size_t bytes, CUstream s) {
    if (const int code = fails()) return code;
    if (const CUresult code = on_stream(s)) return code;
    std::memcpy(to, reinterpret_cast<void*>(from), bytes);
    return ++state.copies, kCudaSuccess;
}
FAKE(cuMemcpyDtoDAsync_v2, CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream) {
    std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes);
    return kCudaSuccess;
}
FAKE(cuMemsetD8Async, CUdeviceptr to, unsigned char v, size_t bytes, CUstream s) {
    if (const CUresult code = on_stream(s)) return code;
    return std::memset(reinterpret_cast<void*>(to), v, bytes), kCudaSuccess;
}
FAKE(cuStreamCreate, CUstream* out, unsigned flags) {
    if (!now()) return kInvalidContext;
    streams.push_back(new Stream{now(), flags != kStreamNonBlocking});
    return *out = reinterpret_cast<CUstream>(streams.back()), kCudaSuccess;
}
FAKE(cuStreamDestroy_v2, CUstream s) { return std::erase(streams, stream_of(s)), delete stream_of(s), kCudaSuccess; }
FAKE(cuStreamSynchronize, CUstream s) {
    ++state.syncs;
    const CUresult code = on_stream(s);
    return code ? code : fails();
}
FAKE(cuStreamGetCtx, CUstream s, CUcontext* out) { return *out = reinterpret_cast<CUcontext>(stream_of(s) ? stream_of(s)->context : now()), fails(); }
FAKE(cuStreamIsCapturing, CUstream s, int* out) {
    for (const Stream* other : streams)
        if (!s && other->capturing && other->blocking) return kCaptureImplicit;
    return *out = stream_of(s) && stream_of(s)->capturing, fails();
}
FAKE(cuStreamBeginCapture_v2, CUstream s, int) {
    Stream* stream = stream_of(s);
    if (!stream || stream->capturing) return kCaptureUnsupported;
    stream->graph = {};
    return stream->capturing = true, kCudaSuccess;
}
FAKE(cuStreamEndCapture, CUstream s, CUgraph* out) {
    Stream& stream = *stream_of(s);
    const bool broken = stream.broken;
    stream.capturing = stream.broken = false;
    *out = broken ? nullptr : reinterpret_cast<CUgraph>(new Graph(std::move(stream.graph)));
    return broken ? kCaptureInvalidated : kCudaSuccess;
}
FAKE(cuThreadExchangeStreamCaptureMode, int* mode) { return std::swap(*mode, capture_mode), kCudaSuccess; }
FAKE(cuGraphInstantiateWithFlags, CUgraphExec* out, CUgraph graph, unsigned long long) {
    return *out = reinterpret_cast<CUgraphExec>(new Graph(*reinterpret_cast<Graph*>(graph))), kCudaSuccess;
}
FAKE(cuGraphLaunch, CUgraphExec exec, CUstream s) {
    if (const CUresult code = uncaptured(s)) return code;
    for (const Node& node : reinterpret_cast<Graph*>(exec)->nodes) {
        std::vector<uint64_t> values = node.values;
        std::vector<void*> params;
        for (uint64_t& v : values) params.push_back(&v);
        FakeLaunch launch = node.launch;
        launch.params = params.data();
        play(launch, node.context);
    }
    return kCudaSuccess;
}
FAKE(cuGraphDestroy, CUgraph graph) { return delete reinterpret_cast<Graph*>(graph), kCudaSuccess; }
FAKE(cuGraphExecDestroy, CUgraphExec exec) { return delete reinterpret_cast<Graph*>(exec), kCudaSuccess; }
FAKE(cuEventCreate, CUevent* out, unsigned) { return *out = nullptr, kCudaSuccess; }
FAKE(cuEventRecord, CUevent, CUstream) { return kCudaSuccess; }
FAKE(cuEventSynchronize, CUevent) { return kCudaSuccess; }
FAKE(cuEventElapsedTime, float* out, CUevent, CUevent) { return *out = 1, kCudaSuccess; }
FAKE(cuEventDestroy_v2, CUevent) { return kCudaSuccess; }
FAKE(cuTensorMapEncodeTiled, CUtensorMap* out, int type, uint32_t rank, void* address, const uint64_t* extents, const uint64_t* strides,
     const uint32_t* box, const uint32_t*, int, int swizzle, int, int) {
    if (const int code = fails()) return code;
    FakeCuda::Map& m = state.map;
    m = {type, rank, reinterpret_cast<uint64_t>(address), {}, {}, {}, swizzle};
    for (uint32_t i = 0; i < rank; ++i) {
        m.extents[i] = extents[i];
        m.box[i] = box[i];
        if (i > 0) m.strides[i - 1] = strides[i - 1];
        if (i > 0 && (strides[i - 1] % 16 || strides[i - 1] == 0)) return 1;
    }
    if (m.address % 16) return 1;
    return out->opaque[0] = m.address, kCudaSuccess;
}
