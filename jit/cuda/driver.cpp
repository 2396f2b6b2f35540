// Opening the driver, listing devices, and the small scoped objects around its handles.
#include "jit/cuda/driver.h"

#include <algorithm>
#include <utility>

#include "jit/cuda/library.h"

namespace tegula::cuda {

namespace {

constexpr int kOldestVersion = 12000;
constexpr uint64_t kPoolKeeps = uint64_t{256} << 20;
constexpr int kReleaseThreshold = 4;  ///< CU_MEMPOOL_ATTR_RELEASE_THRESHOLD

}  // namespace

std::unique_ptr<Driver> Driver::open(const std::string& path, std::vector<std::string>& looked_for) {
    std::unique_ptr<Driver> driver(new Driver());
    if (!driver->load(path, looked_for) || !driver->list_devices(looked_for)) return nullptr;
    return driver;
}

bool Driver::load(const std::string& path, std::vector<std::string>& looked_for) {
    std::vector<std::string> candidates{"libcuda.so.1", "libcuda.so"};
    if (!path.empty()) candidates = {path};
    const Library library = Library::open(candidates, looked_for);
    if (!library) return false;
    std::string missing;
    const auto get = [&](auto& function, const char* name, bool required) {
        function = reinterpret_cast<std::decay_t<decltype(function)>>(library.symbol(name));
        if (!function && required) missing += std::string(missing.empty() ? "" : ", ") + name;
    };
#define TEGULA_LOAD(symbol, name, parameters) get(name, #symbol, true);
    TEGULA_DRIVER_FUNCTIONS(TEGULA_LOAD)
#undef TEGULA_LOAD
    get(cuTensorMapEncodeTiled, "cuTensorMapEncodeTiled", false);
    int version = 0;
    if (cuDriverGetVersion) cuDriverGetVersion(&version);
    version_ = std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
    if (!missing.empty() || version < kOldestVersion) {
        looked_for.push_back("CUDA driver " + version_ + ": too old, 12.0 is needed" + (missing.empty() ? "" : " (no " + missing + ")"));
        return false;
    }
    looked_for.back() = "CUDA driver " + version_ + ": found, " + Library::path_of(reinterpret_cast<void*>(cuInit));
    return true;
}

bool Driver::list_devices(std::vector<std::string>& looked_for) {
    CUresult code = cuInit(0);
    int count = 0;
    if (code == kCudaSuccess) code = cuDeviceGetCount(&count);
    if (code != kCudaSuccess) {
        looked_for.push_back(error("cuInit", code));
        return false;
    }
    for (int i = 0; i < count; ++i) {
        DeviceInfo info;
        CUdevice device = 0;
        char name[256] = "";
        size_t memory = 0;
        code = cuDeviceGet(&device, i);
        if (code == kCudaSuccess) code = cuDeviceGetName(name, sizeof name, device);
        if (code == kCudaSuccess) code = cuDeviceTotalMem(&memory, device);
        const std::pair<int*, int> wanted[] = {{&info.sms, kMultiprocessorCount},
                                               {&info.major, kCapabilityMajor},
                                               {&info.minor, kCapabilityMinor},
                                               {&info.shared_per_block, kSharedPerBlockOptin}};
        for (const auto& [out, attribute] : wanted)
            if (code == kCudaSuccess) code = cuDeviceGetAttribute(out, attribute, device);
        info.ordinal = i;
        info.name = name;
        info.memory = memory;
        if (code != kCudaSuccess) info.problem = error("cuDeviceGetAttribute", code);
        devices_.push_back(std::move(info));
    }
    held_.resize(devices_.size());
    if (devices_.empty()) looked_for.push_back("the CUDA driver lists no device");
    return !devices_.empty();
}

void Driver::choose_archs(std::span<const int> known, std::vector<std::string>& looked_for) {
    for (DeviceInfo& d : devices_) {
        std::string line = "GPU " + std::to_string(d.ordinal) + ": ";
        if (!d.problem.empty()) {
            looked_for.push_back(line + d.problem);
            continue;
        }
        d.arch = arch_for(d.major, d.minor, d.shared_per_block, known);
        looked_for.push_back(line + d.name + ", compute capability " + std::to_string(d.major) + "." + std::to_string(d.minor) +
                             (d.arch ? std::string(", compiled for ") + d.arch->name : ", which is not supported"));
    }
}

std::string Driver::error(const char* call, CUresult code) const {
    if (code == kCudaSuccess) return {};
    const char *name = nullptr, *text = nullptr;
    if (cuGetErrorName) cuGetErrorName(code, &name);
    if (cuGetErrorString) cuGetErrorString(code, &text);
    return std::string(call) + ": " + (text ? text : "unknown error") + " (" + (name ? name : std::to_string(code).c_str()) + ")";
}

const DeviceInfo* Driver::device(int ordinal) const {
    return ordinal >= 0 && static_cast<size_t>(ordinal) < devices_.size() ? &devices_[static_cast<size_t>(ordinal)] : nullptr;
}

CUresult Driver::primary_context(int ordinal, CUcontext* context) {
    std::lock_guard lock(mutex_);
    Held& held = held_[static_cast<size_t>(ordinal)];
    if (!held.context) {
        CUdevice device = 0;
        CUresult code = cuDeviceGet(&device, ordinal);
        if (code == kCudaSuccess) code = cuDevicePrimaryCtxRetain(&held.context, device);
        if (code != kCudaSuccess) return held.context = nullptr, code;
    }
    *context = held.context;
    return kCudaSuccess;
}

CUresult Driver::find_context(CUstream stream, CUcontext* context, int* device) const {
    if (reinterpret_cast<uintptr_t>(stream) <= kPerThreadStream) return kCudaSuccess;
    const CUresult code = cuStreamGetCtx(stream, context);
    if (code != kCudaSuccess) return code;
    ContextScope scope(*this, *context);
    return scope.code() != kCudaSuccess ? scope.code() : cuCtxGetDevice(device);
}

CUmemoryPool Driver::pool(int ordinal) {
    std::lock_guard lock(mutex_);
    Held& held = held_[static_cast<size_t>(ordinal)];
    if (held.pool_tried) return held.pool;
    held.pool_tried = true;
    CaptureScope capture(*this);
    CUdevice device = 0;
    int supported = 0;
    if (cuDeviceGet(&device, ordinal) != kCudaSuccess || cuDeviceGetAttribute(&supported, kMemoryPoolsSupported, device) != kCudaSuccess ||
        !supported)
        return nullptr;
    if (cuDeviceGetDefaultMemPool(&held.pool, device) != kCudaSuccess) return held.pool = nullptr;
    uint64_t keeps = 0;  // only speed depends on it
    if (cuMemPoolGetAttribute(held.pool, kReleaseThreshold, &keeps) == kCudaSuccess && keeps < kPoolKeeps) {
        keeps = kPoolKeeps;
        cuMemPoolSetAttribute(held.pool, kReleaseThreshold, &keeps);
    }
    return held.pool;
}

ContextScope::ContextScope(const Driver& driver, CUcontext context) : driver_(driver) {
    CUcontext current = nullptr;
    if (driver.cuCtxGetCurrent(&current) == kCudaSuccess && current == context) return;
    code_ = driver.cuCtxPushCurrent(context);
    pushed_ = code_ == kCudaSuccess;
}

ContextScope::~ContextScope() {
    CUcontext popped = nullptr;
    if (pushed_) driver_.cuCtxPopCurrent(&popped);
}

CaptureScope::CaptureScope(const Driver& driver) : driver_(driver) { driver_.cuThreadExchangeStreamCaptureMode(&mode_); }
CaptureScope::~CaptureScope() { driver_.cuThreadExchangeStreamCaptureMode(&mode_); }

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& o) noexcept {
    if (this == &o) return *this;
    free();
    driver_ = o.driver_;
    address_ = std::exchange(o.address_, 0);
    stream_ = o.stream_;
    pooled_ = o.pooled_;
    return *this;
}

CUresult DeviceMemory::allocate(const Driver& driver, size_t bytes, CUmemoryPool pool, CUstream stream) {
    free();
    driver_ = &driver;
    stream_ = stream;
    pooled_ = pool != nullptr;
    const size_t size = std::max<size_t>(bytes, 16);
    return pooled_ ? driver.cuMemAllocFromPoolAsync(&address_, size, pool, stream) : driver.cuMemAlloc(&address_, size);
}

void DeviceMemory::free() {
    if (!address_) return;
    if (pooled_)
        driver_->cuMemFreeAsync(address_, stream_);
    else
        driver_->cuMemFree(address_);
    address_ = 0;
}

}  // namespace tegula::cuda
