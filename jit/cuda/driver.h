// The CUDA driver, opened at run time: our own minimal declarations of its C interface (CUDA 12.0 or newer, no toolkit headers), and the devices with
// their primary contexts. Every call returns a code that error() turns into text; nothing here throws.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "jit/cuda/cuda.h"

namespace tegula::cuda {

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = struct CUctx_st*;
using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;
using CUfunction = struct CUfunc_st*;
using CUkernel = struct CUkern_st*;
using CUlibrary = struct CUlib_st*;
using CUgraph = struct CUgraph_st*;
using CUgraphExec = struct CUgraphExec_st*;
using CUmemoryPool = struct CUmemPoolHandle_st*;

constexpr CUresult kCudaSuccess = 0, kCudaOutOfMemory = 2;
enum DeviceAttribute : int {
    kMultiprocessorCount = 16,
    kCapabilityMajor = 75,
    kCapabilityMinor = 76,
    kSharedPerBlockOptin = 97,
    kMemoryPoolsSupported = 115,
};
enum FunctionAttribute : int { kMaxThreadsPerBlock = 0, kSharedBytes = 1, kLocalBytes = 3, kRegisters = 4, kMaxDynamicSharedBytes = 8 };
constexpr int kCaptureModeRelaxed = 2;
constexpr unsigned kStreamNonBlocking = 1;
constexpr uintptr_t kPerThreadStream = 2;  ///< a stream handle; up to this one they are the driver's default streams

constexpr int kCooperative = 2;       ///< launch attribute: an int, whether all CTAs must run at the same time
constexpr int kClusterDimension = 4;  ///< launch attribute: three unsigned, CTAs of a cluster
struct CUlaunchAttribute {
    int id;
    char pad[4];
    alignas(8) char value[64];
};
struct CUlaunchConfig {
    unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    CUstream hStream;
    CUlaunchAttribute* attrs;
    unsigned numAttrs;
};
struct alignas(128) CUtensorMap {
    uint64_t opaque[16];
};
enum TensorMapType : int { kMapU8, kMapU16, kMapU32, kMapI32, kMapU64, kMapI64, kMapF16, kMapF32, kMapF64, kMapBF16 };

// Name in the driver's library (with its version suffix), name here, parameters.
#define TEGULA_DRIVER_FUNCTIONS(X)                                                                                     \
    X(cuInit, cuInit, (unsigned))                                                                                      \
    X(cuDriverGetVersion, cuDriverGetVersion, (int*))                                                                  \
    X(cuGetErrorName, cuGetErrorName, (CUresult, const char**))                                                        \
    X(cuGetErrorString, cuGetErrorString, (CUresult, const char**))                                                    \
    X(cuDeviceGetCount, cuDeviceGetCount, (int*))                                                                      \
    X(cuDeviceGet, cuDeviceGet, (CUdevice*, int))                                                                      \
    X(cuDeviceGetName, cuDeviceGetName, (char*, int, CUdevice))                                                        \
    X(cuDeviceTotalMem_v2, cuDeviceTotalMem, (size_t*, CUdevice))                                                      \
    X(cuDeviceGetAttribute, cuDeviceGetAttribute, (int*, int, CUdevice))                                               \
    X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, (CUcontext*, CUdevice))                                      \
    X(cuCtxGetCurrent, cuCtxGetCurrent, (CUcontext*))                                                                  \
    X(cuCtxPushCurrent_v2, cuCtxPushCurrent, (CUcontext))                                                              \
    X(cuCtxPopCurrent_v2, cuCtxPopCurrent, (CUcontext*))                                                               \
    X(cuCtxGetDevice, cuCtxGetDevice, (CUdevice*))                                                                     \
    X(cuCtxSynchronize, cuCtxSynchronize, ())                                                                          \
    X(cuLibraryLoadData, cuLibraryLoadData, (CUlibrary*, const void*, int*, void**, unsigned, int*, void**, unsigned)) \
    X(cuLibraryUnload, cuLibraryUnload, (CUlibrary))                                                                   \
    X(cuLibraryGetKernel, cuLibraryGetKernel, (CUkernel*, CUlibrary, const char*))                                     \
    X(cuKernelGetFunction, cuKernelGetFunction, (CUfunction*, CUkernel))                                               \
    X(cuFuncGetAttribute, cuFuncGetAttribute, (int*, int, CUfunction))                                                 \
    X(cuFuncSetAttribute, cuFuncSetAttribute, (CUfunction, int, int))                                                  \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessor, cuOccupancyMaxActiveBlocks, (int*, CUfunction, int, size_t))        \
    X(cuLaunchKernelEx, cuLaunchKernelEx, (const CUlaunchConfig*, CUfunction, void**, void**))                         \
    X(cuMemAlloc_v2, cuMemAlloc, (CUdeviceptr*, size_t))                                                               \
    X(cuMemFree_v2, cuMemFree, (CUdeviceptr))                                                                          \
    X(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, (CUdeviceptr*, size_t, CUmemoryPool, CUstream))                \
    X(cuMemFreeAsync, cuMemFreeAsync, (CUdeviceptr, CUstream))                                                         \
    X(cuDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool, (CUmemoryPool*, CUdevice))                                 \
    X(cuMemPoolGetAttribute, cuMemPoolGetAttribute, (CUmemoryPool, int, void*))                                        \
    X(cuMemPoolSetAttribute, cuMemPoolSetAttribute, (CUmemoryPool, int, void*))                                        \
    X(cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync, (CUdeviceptr, const void*, size_t, CUstream))                           \
    X(cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync, (void*, CUdeviceptr, size_t, CUstream))                                 \
    X(cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync, (CUdeviceptr, CUdeviceptr, size_t, CUstream))                           \
    X(cuMemsetD8Async, cuMemsetD8Async, (CUdeviceptr, unsigned char, size_t, CUstream))                                \
    X(cuStreamCreate, cuStreamCreate, (CUstream*, unsigned))                                                           \
    X(cuStreamDestroy_v2, cuStreamDestroy, (CUstream))                                                                 \
    X(cuStreamSynchronize, cuStreamSynchronize, (CUstream))                                                            \
    X(cuStreamGetCtx, cuStreamGetCtx, (CUstream, CUcontext*))                                                          \
    X(cuStreamIsCapturing, cuStreamIsCapturing, (CUstream, int*))                                                      \
    X(cuStreamBeginCapture_v2, cuStreamBeginCapture, (CUstream, int))                                                  \
    X(cuStreamEndCapture, cuStreamEndCapture, (CUstream, CUgraph*))                                                    \
    X(cuThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode, (int*))                                    \
    X(cuGraphInstantiateWithFlags, cuGraphInstantiate, (CUgraphExec*, CUgraph, unsigned long long))                    \
    X(cuGraphLaunch, cuGraphLaunch, (CUgraphExec, CUstream))                                                           \
    X(cuGraphDestroy, cuGraphDestroy, (CUgraph))                                                                       \
    X(cuGraphExecDestroy, cuGraphExecDestroy, (CUgraphExec))                                                           \
    X(cuEventCreate, cuEventCreate, (CUevent*, unsigned))                                                              \
    X(cuEventRecord, cuEventRecord, (CUevent, CUstream))                                                               \
    X(cuEventSynchronize, cuEventSynchronize, (CUevent))                                                               \
    X(cuEventElapsedTime, cuEventElapsedTime, (float*, CUevent, CUevent))                                              \
    X(cuEventDestroy_v2, cuEventDestroy, (CUevent))

/// The functions above as members, and what is known of the machine.
class Driver {
public:
    /// The library at `path` (empty: libcuda.so.1) with at least one device. Null when it cannot be opened, is too old, or cuInit fails; `looked_for`
    /// then says why.
    static std::unique_ptr<Driver> open(const std::string& path, std::vector<std::string>& looked_for);
    Driver(const Driver&) = delete;
    Driver& operator=(const Driver&) = delete;

#define TEGULA_POINTER(symbol, name, parameters) CUresult(*name) parameters = nullptr;
    TEGULA_DRIVER_FUNCTIONS(TEGULA_POINTER)
#undef TEGULA_POINTER
    /// Missing only below sm_90-capable drivers.
    CUresult (*cuTensorMapEncodeTiled)(CUtensorMap*, int type, uint32_t rank, void* address, const uint64_t* extents, const uint64_t* strides,
                                       const uint32_t* box, const uint32_t* steps, int interleave, int swizzle, int promotion, int fill) = nullptr;

    /// "cuMemAlloc: out of memory (CUDA_ERROR_OUT_OF_MEMORY)"; empty for success.
    std::string error(const char* call, CUresult code) const;
    const std::string& version() const { return version_; }
    const std::vector<DeviceInfo>& devices() const { return devices_; }
    const DeviceInfo* device(int ordinal) const;
    /// What every device is compiled for by a compiler that knows the architectures `known` (arch_for), with a line for each in `looked_for`.
    void choose_archs(std::span<const int> known, std::vector<std::string>& looked_for);

    /// The primary context of a device, retained on first use and never released: drivers (580) crash when threads that release it meet threads
    /// that retain it. The process keeps it, as it does under the CUDA runtime.
    CUresult primary_context(int ordinal, CUcontext* context);
    /// The context that `stream` belongs to, and its device; untouched for the driver's default streams, which belong to none.
    CUresult find_context(CUstream stream, CUcontext* context, int* device) const;
    /// The device's default pool, told to keep what is freed (256 MB, or more if the process says so) for the next launch; null where pools are not
    /// supported. Not one of our own: drivers (580) hang when a pool is destroyed while other threads wait for their streams.
    CUmemoryPool pool(int ordinal);

private:
    Driver() = default;
    bool load(const std::string& path, std::vector<std::string>& looked_for);
    bool list_devices(std::vector<std::string>& looked_for);
    struct Held {
        CUcontext context = nullptr;
        CUmemoryPool pool = nullptr;
        bool pool_tried = false;
    };
    std::string version_;
    std::vector<DeviceInfo> devices_;
    std::mutex mutex_;
    std::vector<Held> held_;
};

/// Makes a context current for a scope.
class ContextScope {
public:
    ContextScope(const Driver& driver, CUcontext context);
    ~ContextScope();
    ContextScope(const ContextScope&) = delete;
    ContextScope& operator=(const ContextScope&) = delete;
    CUresult code() const { return code_; }

private:
    const Driver& driver_;
    bool pushed_ = false;
    CUresult code_ = kCudaSuccess;
};

/// Lets this thread load and allocate while some stream is captured: such calls are no part of the capture.
class CaptureScope {
public:
    explicit CaptureScope(const Driver& driver);
    ~CaptureScope();
    CaptureScope(const CaptureScope&) = delete;
    CaptureScope& operator=(const CaptureScope&) = delete;

private:
    const Driver& driver_;
    int mode_ = kCaptureModeRelaxed;
};

/// Device memory, from a pool in stream order or (stream-independent) plain. The context must be current when it is made and freed.
class DeviceMemory {
public:
    DeviceMemory() = default;
    ~DeviceMemory() { free(); }
    DeviceMemory(DeviceMemory&& o) noexcept { *this = std::move(o); }
    DeviceMemory& operator=(DeviceMemory&& o) noexcept;
    /// `pool` null: cuMemAlloc.
    CUresult allocate(const Driver& driver, size_t bytes, CUmemoryPool pool, CUstream stream);
    void free();
    CUdeviceptr address() const { return address_; }

private:
    const Driver* driver_ = nullptr;
    CUdeviceptr address_ = 0;
    CUstream stream_ = nullptr;
    bool pooled_ = false;
};

}  // namespace tegula::cuda
