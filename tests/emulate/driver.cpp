// The CUDA driver's interface over the CPU machine: a device for each architecture in $TEGULA_ON_CPU_ARCH ("90,80"; default 90), whose memory is the
// host's. Everything happens in the call that asks for it, except that TEGULA_ON_CPU_SEED (default 1; 0: threads in order) draws the order of
// threads. Freed and fresh memory holds garbage. A kernel that does something wrong makes its launch fail, with the reason as the error's text.
#include "jit/cuda/driver.h"

#include <dlfcn.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#include "tests/emulate/machine.h"
#include "tests/emulate/ptx.h"

using namespace tegula::cuda;  // the driver's types

namespace {

using Clock = std::chrono::steady_clock;

constexpr CUresult kInvalidValue = 1, kInvalidContext = 201, kNoBinary = 209, kNotFound = 500, kLaunchFailed = 719, kInvalidCluster = 912;

struct Context {
    int device;
};
Context g_contexts[] = {{0}, {1}, {2}, {3}};

/// Of the devices that there are now: tests change the variable.
std::vector<int> archs() {
    std::vector<int> out;
    const char* own = std::getenv("TEGULA_ON_CPU_ARCH");
    std::istringstream list(own && *own ? own : "90");
    for (std::string arch; std::getline(list, arch, ',') && out.size() < std::size(g_contexts);) out.push_back(std::atoi(arch.c_str()));
    return out;
}
int arch_of(int device) { return archs().at(static_cast<size_t>(device)); }

thread_local std::vector<Context*> g_current;
Context* current() { return g_current.empty() ? nullptr : g_current.back(); }

/// What a CTA may use, as on the GPUs of that number.
int shared_bytes(int arch) { return arch == 86 || arch == 89 || arch >= 120 ? 101376 : 232448; }

/// Does an image for `target`, "sm_90a" or "compute_90", run on `arch`? A cubin does on its own GPU and later ones of the same generation, PTX is
/// translated for all later ones; an `a` is for one GPU.
bool runs(const std::string& target, int arch) {
    const int number = std::atoi(target.c_str() + target.find('_') + 1);
    if (target.back() == 'a') return number == arch;
    return number <= arch && (target.rfind("compute_", 0) == 0 || number / 10 == arch / 10);
}

struct Kernel {
    std::string target;
    void* library = nullptr;
    void (*entry)(void**) = nullptr;
    CpuMachine** table = nullptr;
};

struct Stream {
    Context* context;
};

thread_local std::string g_failure;  // text of the thread's last failed launch
std::mutex g_machine;                // there is one: kernels of several threads run one after the other
uint64_t g_launches = 0;

CUresult allocate(CUdeviceptr* p, size_t bytes) {
    void* memory = nullptr;
    if (posix_memalign(&memory, 256, bytes + 64)) return kCudaOutOfMemory;
    std::memset(memory, 0xa5, bytes + 64);
    *p = reinterpret_cast<CUdeviceptr>(memory);
    return kCudaSuccess;
}

CUresult release(CUdeviceptr p) { return std::free(reinterpret_cast<void*>(p)), kCudaSuccess; }

}  // namespace

extern "C" {

CUresult cuInit(unsigned) { return 0; }
CUresult cuDriverGetVersion(int* v) { return *v = 13000, 0; }
CUresult cuGetErrorName(CUresult code, const char** text) { return *text = code == kLaunchFailed ? "CUDA_ERROR_LAUNCH_FAILED" : "CUDA_ERROR", 0; }
CUresult cuGetErrorString(CUresult code, const char** text) {
    return *text = code == kLaunchFailed ? g_failure.c_str() : "an error of the CPU machine", 0;
}
CUresult cuDeviceGetCount(int* n) { return *n = static_cast<int>(archs().size()), 0; }
CUresult cuDeviceGet(CUdevice* device, int ordinal) { return *device = ordinal, 0; }
CUresult cuDeviceGetName(char* name, int size, CUdevice) { return std::strncpy(name, "CPU as a GPU", static_cast<size_t>(size)), 0; }
CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice) { return *bytes = size_t{1} << 30, 0; }
CUresult cuDeviceGetAttribute(int* value, int attribute, CUdevice device) {
    const int arch = arch_of(device);
    switch (attribute) {
        case kMultiprocessorCount:
            return *value = 2, 0;
        case kCapabilityMajor:
            return *value = arch / 10, 0;
        case kCapabilityMinor:
            return *value = arch % 10, 0;
        case kSharedPerBlockOptin:
            return *value = shared_bytes(arch), 0;
        default:
            return *value = 0, 0;
    }
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) { return *context = reinterpret_cast<CUcontext>(&g_contexts[device]), 0; }
CUresult cuCtxGetCurrent(CUcontext* context) { return *context = reinterpret_cast<CUcontext>(current()), 0; }
CUresult cuCtxPushCurrent_v2(CUcontext context) { return g_current.push_back(reinterpret_cast<Context*>(context)), 0; }
CUresult cuCtxPopCurrent_v2(CUcontext* context) {
    *context = reinterpret_cast<CUcontext>(current());
    return g_current.empty() ? kInvalidContext : (g_current.pop_back(), 0);
}
CUresult cuCtxGetDevice(CUdevice* device) { return current() ? (*device = current()->device, 0) : kInvalidContext; }
CUresult cuCtxSynchronize() { return 0; }

CUresult cuLibraryLoadData(CUlibrary* library, const void* image, int*, void**, unsigned, int*, void**, unsigned) {
    const char* text = static_cast<const char*>(image);
    char target[16];
    size_t size = 0;
    int head = 0;
    if (std::sscanf(text, "TEGULA_ON_CPU %12s %zx%n", target, &size, &head) != 2) return kInvalidValue;
    text += head + 1;
    char path[] = "/tmp/tegula_on_cpu_XXXXXX";  // of its own name: dlopen knows libraries by it
    const int file = mkstemp(path);
    for (size_t done = 0; done < size;) {
        const ssize_t n = ::write(file, text + done, size - done);
        if (n <= 0) return kInvalidValue;
        done += static_cast<size_t>(n);
    }
    auto* kernel = new Kernel;
    kernel->target = target;
    kernel->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    ::close(file);
    unlink(path);
    if (!kernel->library) return g_failure = dlerror(), delete kernel, kInvalidValue;
    kernel->entry = reinterpret_cast<void (*)(void**)>(dlsym(kernel->library, "cpu_entry"));
    kernel->table = static_cast<CpuMachine**>(dlsym(kernel->library, "cpu_machine"));
    *library = reinterpret_cast<CUlibrary>(kernel);
    return 0;
}
CUresult cuLibraryUnload(CUlibrary library) {
    auto* kernel = reinterpret_cast<Kernel*>(library);
    dlclose(kernel->library);
    delete kernel;
    return 0;
}
CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
    *kernel = reinterpret_cast<CUkernel>(library);
    return dlsym(reinterpret_cast<Kernel*>(library)->library, name) ? 0 : kNotFound;
}
CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
    if (!current()) return kInvalidContext;
    *function = reinterpret_cast<CUfunction>(kernel);
    return runs(reinterpret_cast<Kernel*>(kernel)->target, arch_of(current()->device)) ? 0 : kNoBinary;
}
CUresult cuFuncGetAttribute(int* value, int attribute, CUfunction) { return *value = attribute == kMaxThreadsPerBlock ? 1024 : 0, 0; }
CUresult cuFuncSetAttribute(CUfunction, int attribute, int value) {
    return attribute == kMaxDynamicSharedBytes && value > shared_bytes(arch_of(current()->device)) ? kInvalidValue : 0;
}
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction, int threads, size_t shared_bytes) {
    const size_t by_threads = 2048 / static_cast<size_t>(threads), by_shared = 233472 / (shared_bytes + 1024);
    return *blocks = static_cast<int>(std::min(by_threads, by_shared)), 0;
}
CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** params, void**) {
    const auto* kernel = reinterpret_cast<Kernel*>(function);
    if (!current() || (config->hStream && reinterpret_cast<Stream*>(config->hStream)->context != current())) return kInvalidContext;
    const int arch = arch_of(current()->device);
    const char* seed = std::getenv("TEGULA_ON_CPU_SEED");
    tegula::on_cpu::Launch launch{
        kernel->entry, kernel->table, params, config->gridDimX, config->blockDimX, config->sharedMemBytes, 1, arch, kernel->target.back() == 'a'};
    bool together = false;
    for (unsigned i = 0; i < config->numAttrs; ++i)
        if (config->attrs[i].id == kClusterDimension) std::memcpy(&launch.cluster, config->attrs[i].value, sizeof launch.cluster);
    for (unsigned i = 0; i < config->numAttrs; ++i)
        if (config->attrs[i].id == kCooperative && config->attrs[i].value[0]) together = true;
    if (launch.cluster == 0 || launch.cluster > 8 || launch.grid % launch.cluster != 0) return kInvalidCluster;
    if (launch.grid == 0 || launch.threads == 0 || launch.threads > 1024 || launch.shared_bytes > static_cast<unsigned>(shared_bytes(arch)))
        return kInvalidValue;
    if (together) launch.cluster = launch.grid;  // CTAs of a cluster are there at the same time
    const uint64_t base = seed ? std::strtoull(seed, nullptr, 10) : 1;
    const std::lock_guard one_at_a_time(g_machine);
    g_failure = tegula::on_cpu::Machine::get().run(launch, base ? base * 1000003 + ++g_launches : 0);
    return g_failure.empty() ? 0 : kLaunchFailed;
}

CUresult cuMemAlloc_v2(CUdeviceptr* p, size_t bytes) { return allocate(p, bytes); }
CUresult cuMemFree_v2(CUdeviceptr p) { return release(p); }
CUresult cuMemAllocFromPoolAsync(CUdeviceptr* p, size_t bytes, CUmemoryPool, CUstream) { return allocate(p, bytes); }
CUresult cuMemFreeAsync(CUdeviceptr p, CUstream) { return release(p); }
CUresult cuDeviceGetDefaultMemPool(CUmemoryPool*, CUdevice) { return kInvalidValue; }
CUresult cuMemPoolGetAttribute(CUmemoryPool, int, void*) { return kInvalidValue; }
CUresult cuMemPoolSetAttribute(CUmemoryPool, int, void*) { return 0; }
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes, CUstream) {
    return std::memcpy(reinterpret_cast<void*>(to), from, bytes), 0;
}
CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, CUstream) { return std::memcpy(to, reinterpret_cast<void*>(from), bytes), 0; }
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream) {
    return std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes), 0;
}
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream) {
    return std::memset(reinterpret_cast<void*>(to), value, bytes), 0;
}

CUresult cuStreamCreate(CUstream* stream, unsigned) { return *stream = reinterpret_cast<CUstream>(new Stream{current()}), 0; }
CUresult cuStreamDestroy_v2(CUstream stream) { return delete reinterpret_cast<Stream*>(stream), 0; }
CUresult cuStreamSynchronize(CUstream) { return 0; }
CUresult cuStreamGetCtx(CUstream stream, CUcontext* context) {
    return *context = reinterpret_cast<CUcontext>(reinterpret_cast<Stream*>(stream)->context), 0;
}
CUresult cuStreamIsCapturing(CUstream, int* capturing) { return *capturing = 0, 0; }
CUresult cuStreamBeginCapture_v2(CUstream, int) { return kInvalidValue; }
CUresult cuStreamEndCapture(CUstream, CUgraph*) { return kInvalidValue; }
CUresult cuThreadExchangeStreamCaptureMode(int*) { return 0; }
CUresult cuGraphInstantiateWithFlags(CUgraphExec*, CUgraph, unsigned long long) { return kInvalidValue; }
CUresult cuGraphLaunch(CUgraphExec, CUstream) { return kInvalidValue; }
CUresult cuGraphDestroy(CUgraph) { return 0; }
CUresult cuGraphExecDestroy(CUgraphExec) { return 0; }
CUresult cuEventCreate(CUevent* event, unsigned) { return *event = reinterpret_cast<CUevent>(new Clock::time_point), 0; }
CUresult cuEventRecord(CUevent event, CUstream) { return *reinterpret_cast<Clock::time_point*>(event) = Clock::now(), 0; }
CUresult cuEventSynchronize(CUevent) { return 0; }
CUresult cuEventElapsedTime(float* ms, CUevent begin, CUevent end) {
    const auto at = [](CUevent e) { return *reinterpret_cast<Clock::time_point*>(e); };
    return *ms = std::chrono::duration<float, std::milli>(at(end) - at(begin)).count(), 0;
}
CUresult cuEventDestroy_v2(CUevent event) { return delete reinterpret_cast<Clock::time_point*>(event), 0; }

CUresult cuTensorMapEncodeTiled(CUtensorMap* out, int type, uint32_t rank, void* address, const uint64_t* extents, const uint64_t* strides,
                                const uint32_t* box, const uint32_t* steps, int interleave, int swizzle, int, int) {
    static constexpr uint8_t kBytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2};
    if (type < 0 || type > kMapBF16 || rank < 1 || rank > 5 || interleave || swizzle > 3 || reinterpret_cast<uintptr_t>(address) % 16)
        return kInvalidValue;
    tegula::on_cpu::MapContents map{};
    map.magic = tegula::on_cpu::kMapMagic;
    map.rank = static_cast<uint8_t>(rank);
    map.elem_bytes = kBytes[type];
    map.type = type;
    map.swizzle = static_cast<uint16_t>(swizzle ? 16 << swizzle : 0);
    map.address = reinterpret_cast<uint64_t>(address);
    for (uint32_t d = 0; d < rank; ++d) {
        if (extents[d] < 1 || extents[d] > uint64_t{1} << 32 || box[d] < 1 || box[d] > 256 || steps[d] != 1) return kInvalidValue;
        if (d > 0 && (strides[d - 1] % 16 || strides[d - 1] >= uint64_t{1} << 40)) return kInvalidValue;
        map.extents[d] = static_cast<uint32_t>(std::min<uint64_t>(extents[d], UINT32_MAX));
        map.box[d] = static_cast<uint16_t>(box[d]);
        map.strides[d] = d ? strides[d - 1] : 0;
    }
    const uint32_t inner = box[0] * map.elem_bytes;
    if (inner % 16 || (map.swizzle && inner > map.swizzle)) return kInvalidValue;
    std::memset(out, 0, sizeof *out);
    std::memcpy(out, &map, sizeof map);
    return 0;
}
}
