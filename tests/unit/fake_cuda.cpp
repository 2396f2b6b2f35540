// A stand-in for libcuda.so.1 with one "H200" whose memory is the host's: launches call back into the test, every call can be made to fail, and what
// is not given back shows in counters. Exports the driver's own names; parameters are those of jit/cuda/driver.h.
#include "tests/unit/fake_cuda.h"

#include <cstdlib>
#include <cstring>

#include "jit/cuda/driver.h"

using namespace tegula::cuda;

namespace {

FakeCuda state;
int context, function, kernel, library, pool, stream_context;
thread_local void* current[16];
thread_local int depth = 0;
thread_local bool capturing = false;

/// Counts a call that may fail; true when it has to.
int fails() { return ++state.calls == state.fail_at ? kCudaOutOfMemory : kCudaSuccess; }

CUresult allocate(CUdeviceptr* out, size_t bytes) {
    if (const int code = fails()) return code;
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
FAKE(cuDeviceGetCount, int* n) { return *n = 1, kCudaSuccess; }
FAKE(cuDeviceGet, CUdevice* d, int i) { return *d = i, kCudaSuccess; }
FAKE(cuDeviceGetName, char* text, int size, CUdevice) { return std::strncpy(text, "Fake H200", static_cast<size_t>(size)), kCudaSuccess; }
FAKE(cuDeviceTotalMem_v2, size_t* bytes, CUdevice) { return *bytes = size_t{1} << 30, kCudaSuccess; }
FAKE(cuDeviceGetAttribute, int* out, int attribute, CUdevice) {
    *out = attribute == kMultiprocessorCount ? 132 : attribute == kCapabilityMajor ? 9 : attribute == kCapabilityMinor ? 0 : 1;
    if (attribute == kSharedPerBlockOptin) *out = 232448;
    return kCudaSuccess;
}
FAKE(cuDevicePrimaryCtxRetain, CUcontext* out, CUdevice) {
    *out = reinterpret_cast<CUcontext>(&context);
    return fails();
}
FAKE(cuCtxGetCurrent, CUcontext* out) { return *out = static_cast<CUcontext>(depth ? current[depth - 1] : nullptr), kCudaSuccess; }
FAKE(cuCtxPushCurrent_v2, CUcontext c) {
    if (const int code = fails()) return code;
    current[depth++] = c;
    return ++state.contexts, kCudaSuccess;
}
FAKE(cuCtxPopCurrent_v2, CUcontext* out) { return *out = static_cast<CUcontext>(current[--depth]), --state.contexts, kCudaSuccess; }
FAKE(cuCtxGetDevice, CUdevice* d) { return *d = 0, fails(); }
FAKE(cuCtxSynchronize) { return kCudaSuccess; }
FAKE(cuLibraryLoadData, CUlibrary* out, const void* image, int*, void**, unsigned, int*, void**, unsigned) {
    if (const int code = fails()) return code;
    *out = reinterpret_cast<CUlibrary>(&library);
    return ++state.libraries, image ? kCudaSuccess : 1;
}
FAKE(cuLibraryUnload, CUlibrary) { return --state.libraries, kCudaSuccess; }
FAKE(cuLibraryGetKernel, CUkernel* out, CUlibrary, const char*) { return *out = reinterpret_cast<CUkernel>(&kernel), fails(); }
FAKE(cuKernelGetFunction, CUfunction* out, CUkernel) { return *out = reinterpret_cast<CUfunction>(&function), fails(); }
FAKE(cuFuncGetAttribute, int* out, int, CUfunction) { return *out = 0, kCudaSuccess; }
FAKE(cuFuncSetAttribute, CUfunction, int, int) { return fails(); }
FAKE(cuOccupancyMaxActiveBlocksPerMultiprocessor, int* out, CUfunction, int, size_t) { return *out = 2, fails(); }
FAKE(cuLaunchKernelEx, const CUlaunchConfig* c, CUfunction, void** params, void**) {
    if (const int code = fails()) return code;
    if (depth == 0) return 201;  // no context is current
    if (c->gridDimX == 0) return 1;
    unsigned cluster = 1;
    for (unsigned i = 0; i < c->numAttrs; ++i)
        if (c->attrs[i].id == kClusterDimension) std::memcpy(&cluster, c->attrs[i].value, sizeof cluster);
    if (state.on_launch) state.on_launch(state.user, {c->gridDimX, c->blockDimX, c->sharedMemBytes, c->hStream, params, capturing, cluster});
    return kCudaSuccess;
}
FAKE(cuMemAlloc_v2, CUdeviceptr* out, size_t bytes) { return allocate(out, bytes); }
FAKE(cuMemFree_v2, CUdeviceptr p) { return release(p); }
FAKE(cuMemAllocFromPoolAsync, CUdeviceptr* out, size_t bytes, CUmemoryPool, CUstream) { return allocate(out, bytes); }
FAKE(cuMemFreeAsync, CUdeviceptr p, CUstream) { return release(p); }
FAKE(cuDeviceGetDefaultMemPool, CUmemoryPool* out, CUdevice) { return *out = reinterpret_cast<CUmemoryPool>(&pool), kCudaSuccess; }
FAKE(cuMemPoolGetAttribute, CUmemoryPool, int, void* value) { return *static_cast<uint64_t*>(value) = 0, kCudaSuccess; }
FAKE(cuMemPoolSetAttribute, CUmemoryPool, int, void*) { return kCudaSuccess; }
FAKE(cuMemcpyHtoDAsync_v2, CUdeviceptr to, const void* from, size_t bytes, CUstream) {
    if (const int code = fails()) return code;
    std::memcpy(reinterpret_cast<void*>(to), from, bytes);
    return ++state.copies, kCudaSuccess;
}
FAKE(cuMemcpyDtoHAsync_v2, void* to, CUdeviceptr from, size_t bytes, CUstream) {
    if (const int code = fails()) return code;
    std::memcpy(to, reinterpret_cast<void*>(from), bytes);
    return ++state.copies, kCudaSuccess;
}
FAKE(cuMemcpyDtoDAsync_v2, CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream) {
    std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes);
    return kCudaSuccess;
}
FAKE(cuMemsetD8Async, CUdeviceptr to, unsigned char v, size_t bytes, CUstream) {
    return std::memset(reinterpret_cast<void*>(to), v, bytes), kCudaSuccess;
}
FAKE(cuStreamCreate, CUstream* out, unsigned) { return *out = reinterpret_cast<CUstream>(&stream_context), kCudaSuccess; }
FAKE(cuStreamDestroy_v2, CUstream) { return kCudaSuccess; }
FAKE(cuStreamSynchronize, CUstream) { return ++state.syncs, fails(); }
FAKE(cuStreamGetCtx, CUstream, CUcontext* out) { return *out = reinterpret_cast<CUcontext>(&stream_context), fails(); }
FAKE(cuStreamIsCapturing, CUstream, int* out) { return *out = capturing, fails(); }
FAKE(cuStreamBeginCapture_v2, CUstream, int) { return capturing = true, kCudaSuccess; }
FAKE(cuStreamEndCapture, CUstream, CUgraph* out) { return *out = nullptr, capturing = false, kCudaSuccess; }
FAKE(cuThreadExchangeStreamCaptureMode, int*) { return kCudaSuccess; }
FAKE(cuGraphInstantiateWithFlags, CUgraphExec* out, CUgraph, unsigned long long) { return *out = nullptr, kCudaSuccess; }
FAKE(cuGraphLaunch, CUgraphExec, CUstream) { return kCudaSuccess; }
FAKE(cuGraphDestroy, CUgraph) { return kCudaSuccess; }
FAKE(cuGraphExecDestroy, CUgraphExec) { return kCudaSuccess; }
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
