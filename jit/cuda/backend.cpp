// Backend: opens things when they are first needed, compiles texts through the cache, tells what is there.
#include <algorithm>

#include "jit/cuda/program.h"
#include "jit/cuda/state.h"
#include "lang/plain_text.h"

namespace tegula::cuda {

namespace {

std::string cache_key(const Nvrtc& nvrtc, const NvrtcJob& job) {
    std::string key = "cuda 3\n" + nvrtc.identity() + "\n";
    for (const std::string& flag : nvrtc.flags(job)) key += flag + "\n";
    return key.append(job.entry).append("\n\n").append(job.source);
}

}  // namespace

std::string without_marks(const KernelText& text) {
    std::string out;
    out.reserve(text.source.size());
    size_t at = 0;
    for (const kernel::Stretch& mark : text.marks) {
        out.append(text.source, at, mark.begin - at);
        at = mark.end;
    }
    return out.append(text.source, at);
}

const Nvrtc* Backend::State::compiler() {
    std::call_once(compiler_once_, [&] { compiler_ = Nvrtc::open(options.nvrtc_path, compiler_log_); });
    return compiler_.get();
}

Driver* Backend::State::driver() {
    std::call_once(driver_once_, [&] {
        driver_ = Driver::open(options.driver_path, driver_log_);
        if (!driver_) return;
        const Nvrtc* nvrtc = compiler();
        driver_->choose_archs(nvrtc ? std::span<const int>(nvrtc->archs()) : std::span<const int>(), driver_log_);
    });
    return driver_.get();
}

const Availability& Backend::State::availability() {
    std::call_once(availability_once_, [&] {
        Availability& a = availability_;
        if (const Nvrtc* nvrtc = compiler()) {
            a.compiler = true;
            a.compiler_version = nvrtc->version();
        }
        if (const Driver* gpu = driver()) {
            a.driver_version = gpu->version();
            a.devices = gpu->devices();
            for (const DeviceInfo& d : a.devices) a.device = a.device || d.arch;
        }
        a.looked_for = compiler_log_;
        a.looked_for.insert(a.looked_for.end(), driver_log_.begin(), driver_log_.end());
    });
    return availability_;
}

std::string Availability::problem() const {
    if (compiler && device) return {};
    std::string what;
    if (!compiler) what = "no NVRTC (CUDA's run-time compiler)";
    if (!device) {
        if (!what.empty()) what += " and ";
        what += driver_version.empty() ? "no CUDA driver with a GPU" : "no supported GPU";
    }
    return what + " was found";
}

Result<CompiledKernel> Backend::State::compile(const KernelText& text, const Arch& arch, const CompileOptions& compile) {
    Result<CompiledKernel> out;
    const Nvrtc* nvrtc = compiler();
    if (!nvrtc) {
        out.error = "no NVRTC was found (";
        for (const std::string& line : compiler_log_) out.error += (&line == &compiler_log_[0] ? "" : "; ") + line;
        out.error += ")";
        return out;
    }
    const std::string source = compile.line_info ? text.source : without_marks(text);
    const NvrtcJob job{source, text.entry, &arch, text.options, compile};
    BlobCache* cache = compile.use_cache ? options.cache.get() : nullptr;
    const auto make = [&] {
        try {
            out = nvrtc->compile(job);
        } catch (const InternalError& e) {
            const std::string refusal = refused_ptx(e.what());
            if (text.instructions.empty() || refusal.empty()) throw;  // a fault of ours
            std::string names;
            for (const std::string& name : text.instructions) names += (names.empty() ? "`" : ", `") + name + "`";
            out.error = "ptxas does not take the PTX of " + names + ": " + refusal;
        }
        if (out.value && options.log)
            options.log(LogLevel::info,
                        "cuda: compiled `" + text.entry + "` for " + arch.name + " in " + decimal_text(out.value->seconds * 1000, 3) + " ms");
    };
    if (!cache) return make(), std::move(out);
    const std::string key = cache_key(*nvrtc, job);
    const auto look = [&] {
        if (const auto blob = cache->find(key)) out.value = from_blob(*blob);
        return out.value.has_value();
    };
    if (look()) return out;
    const std::shared_ptr<std::mutex> mutex = flight(key);
    std::lock_guard lock(*mutex);  // who has it ends by the same flag of the host
    if (look()) return out;
    make();
    if (out.value) cache->put(key, to_blob(*out.value));
    return out;
}

std::shared_ptr<std::mutex> Backend::State::flight(const std::string& key) {
    constexpr size_t kMany = 1000;
    std::lock_guard lock(flights_mutex_);
    if (flights_.size() > kMany) std::erase_if(flights_, [](const auto& f) { return f.second.expired(); });
    std::weak_ptr<std::mutex>& entry = flights_[std::hash<std::string>()(key)];
    std::shared_ptr<std::mutex> mutex = entry.lock();
    if (!mutex) entry = mutex = std::make_shared<std::mutex>();
    return mutex;
}

Backend::Backend(BackendOptions options) : state_(std::make_shared<State>(std::move(options))) {}
Backend::~Backend() = default;

const Availability& Backend::availability() { return state_->availability(); }

bool Backend::has_device() {
    const Driver* driver = state_->driver();
    return driver && std::any_of(driver->devices().begin(), driver->devices().end(), [](const DeviceInfo& d) { return d.arch; });
}

Result<CompiledKernel> Backend::compile_text(const KernelText& text, const Arch& arch, const CompileOptions& options) {
    return state_->compile(text, arch, options);
}

Result<CompiledKernel> Backend::compile_text(const KernelText& text, const Arch& arch) {
    return state_->compile(text, arch, state_->options.compile);
}

Result<std::unique_ptr<Program>> Backend::prepare(const ir::Function& fn, Lower lower, std::vector<size_t> row_extents,
                                                  Spread spread, std::shared_ptr<const ir::Function> views) {
    Result<std::unique_ptr<Program>> out;
    out.error = state_->availability().problem();
    if (out.error.empty())
        out.value = make_program(state_, fn, std::move(lower), std::move(row_extents), std::move(spread), std::move(views));
    return out;
}

int device_of(std::span<const Argument> args) {
    for (const Argument& a : args)
        if (a.kind != Argument::scalar && a.t.memory == Memory::cuda && a.t.data) return a.t.device;
    return -1;
}

const DeviceInfo* Backend::device_at(int device, void* stream) {
    const Driver* driver = state_->driver();
    if (!driver) return nullptr;
    CUcontext context = nullptr;
    if (device < 0) driver->find_context(static_cast<CUstream>(stream), &context, &device);
    if (const DeviceInfo* info = driver->device(std::max(device, 0)); info && info->arch) return info;
    for (const DeviceInfo& d : driver->devices())
        if (d.arch) return &d;
    return nullptr;
}

}  // namespace tegula::cuda
