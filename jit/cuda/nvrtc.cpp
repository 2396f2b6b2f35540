// Opening NVRTC and running one compilation. Functions are declared here, so that no toolkit header is needed to build.
#include "jit/cuda/nvrtc.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>

#include "jit/cuda/library.h"

namespace tegula::cuda {

namespace {

using NvrtcProgram = void*;
constexpr int kSuccess = 0, kOutOfMemory = 1;  // nvrtcResult
constexpr std::chrono::milliseconds kCancelPoll(10);

/// What every kernel is compiled with (numerics.md: nothing contracted, nothing flushed, correctly rounded division and roots).
constexpr const char* kAlways[] = {"--std=c++17",     "-default-device",  "--fmad=false",      "--ftz=false",
                                   "--prec-div=true", "--prec-sqrt=true", "--ptxas-options=-v"};

std::string_view flag_name(std::string_view flag) {
    const std::string_view name = flag.substr(0, flag.find('='));
    return name == "--ptxas-options" ? flag : name;  // may be repeated with other values
}

std::vector<std::string> candidates(const std::string& path) {
    if (!path.empty()) return {path};
    if (const char* env = std::getenv("TEGULA_NVRTC"); env && *env) return {env};
    std::vector<std::string> out;
    for (const char* folder : {"", "/usr/local/cuda/lib64/", "/usr/local/cuda-13/lib64/", "/usr/local/cuda-12/lib64/"})
        for (const char* name : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}) out.push_back(std::string(folder) + name);
    return out;
}

}  // namespace

/// One compilation, which may outlive the call that wanted it.
struct Nvrtc::Work {
    std::string source, entry, arch;
    std::vector<std::string> flags;
    bool ptx = false;
    std::atomic<bool> stop{false};  ///< nobody wants it any more; once set it stays so, as NVRTC demands

    static int is_stopped(void* self, void*) { return static_cast<Work*>(self)->stop.load(std::memory_order_relaxed); }
};

struct Nvrtc::Functions {
    Library library;
#define TEGULA_NVRTC_FUNCTIONS(X)                                                                                 \
    X(nvrtcVersion, (int*, int*))                                                                                 \
    X(nvrtcGetNumSupportedArchs, (int*))                                                                          \
    X(nvrtcGetSupportedArchs, (int*))                                                                             \
    X(nvrtcCreateProgram, (NvrtcProgram*, const char*, const char*, int, const char* const*, const char* const*)) \
    X(nvrtcDestroyProgram, (NvrtcProgram*))                                                                       \
    X(nvrtcCompileProgram, (NvrtcProgram, int, const char* const*))                                               \
    X(nvrtcGetProgramLogSize, (NvrtcProgram, size_t*))                                                            \
    X(nvrtcGetProgramLog, (NvrtcProgram, char*))                                                                  \
    X(nvrtcGetCUBINSize, (NvrtcProgram, size_t*))                                                                 \
    X(nvrtcGetCUBIN, (NvrtcProgram, char*))                                                                       \
    X(nvrtcGetPTXSize, (NvrtcProgram, size_t*))                                                                   \
    X(nvrtcGetPTX, (NvrtcProgram, char*))
#define TEGULA_POINTER(name, parameters) int(*name) parameters = nullptr;
    TEGULA_NVRTC_FUNCTIONS(TEGULA_POINTER)
#undef TEGULA_POINTER
    int (*nvrtcSetFlowCallback)(NvrtcProgram, int (*)(void*, void*), void*) = nullptr;  ///< since 12.8
    const char* (*nvrtcGetErrorString)(int) = nullptr;

    bool load(std::vector<std::string>& looked_for) {
        std::string missing;
        const auto get = [&](auto& function, const char* name, bool required) {
            function = reinterpret_cast<std::decay_t<decltype(function)>>(library.symbol(name));
            if (!function && required) missing += std::string(missing.empty() ? "" : ", ") + name;
        };
#define TEGULA_LOAD(name, parameters) get(name, #name, true);
        TEGULA_NVRTC_FUNCTIONS(TEGULA_LOAD)
#undef TEGULA_LOAD
        get(nvrtcGetErrorString, "nvrtcGetErrorString", true);
        get(nvrtcSetFlowCallback, "nvrtcSetFlowCallback", false);
        if (!missing.empty()) looked_for.push_back("NVRTC: too old, without " + missing);
        return missing.empty();
    }
    std::string log(NvrtcProgram program) const {
        size_t size = 0;
        if (nvrtcGetProgramLogSize(program, &size) != kSuccess || size < 2) return {};
        std::string text(size, '\0');
        if (nvrtcGetProgramLog(program, text.data()) != kSuccess) return {};
        text.resize(size - 1);
        return text;
    }
    Result<CompiledKernel> compile(Work& work) const;
    Result<CompiledKernel> compile_rightly(Work& work) const;  ///< see kMovesBarrier
};

std::unique_ptr<Nvrtc> Nvrtc::open(const std::string& path, std::vector<std::string>& looked_for) {
    auto functions = std::make_shared<Functions>();
    functions->library = Library::open(candidates(path), looked_for);
    if (!functions->library || !functions->load(looked_for)) return nullptr;
    int major = 0, minor = 0, count = 0;
    if (functions->nvrtcVersion(&major, &minor) != kSuccess || functions->nvrtcGetNumSupportedArchs(&count) != kSuccess) {
        looked_for.push_back("NVRTC: does not tell its version");
        return nullptr;
    }
    std::unique_ptr<Nvrtc> out(new Nvrtc());
    out->archs_.resize(static_cast<size_t>(std::max(count, 0)));
    if (functions->nvrtcGetSupportedArchs(out->archs_.data()) != kSuccess) out->archs_.clear();
    out->version_ = std::to_string(major) + "." + std::to_string(minor);
    void* inside = reinterpret_cast<void*>(functions->nvrtcVersion);
    out->identity_ = out->version_ + " " + Library::build_id_of(inside);
    looked_for.back() = "NVRTC " + out->version_ + ": found, " + Library::path_of(inside);
    out->has_no_cache_ = major >= 13;  // older ones keep no cache
    out->functions_ = std::move(functions);
    return out;
}

std::vector<std::string> Nvrtc::flags(const NvrtcJob& job) const {
    std::vector<std::string> out(job.options.begin(), job.options.end());
    const std::string name = job.arch->name;
    out.push_back("--gpu-architecture=" + (job.compile.ptx && !job.arch->is_ptx() ? "compute_" + name.substr(3) : name));
    for (const char* flag : kAlways) {
        bool given = false;
        for (const std::string& own : job.options) given = given || flag_name(own) == flag_name(flag);
        if (!given) out.push_back(flag);
    }
    constexpr int kKnowsMinimal = 13;  // leaves out textures, surfaces and the device runtime: 4 ms less
    int major = 0;
    std::from_chars(version_.data(), version_.data() + version_.size(), major);
    if (major >= kKnowsMinimal) out.push_back("--minimal");
    if (job.compile.line_info) out.push_back("-lineinfo");
    if (job.compile.optimise != 3) out.push_back("--ptxas-options=-O" + std::to_string(job.compile.optimise));
    return out;
}

Result<CompiledKernel> Nvrtc::Functions::compile(Work& work) const {
    Result<CompiledKernel> out;
    const PlainLocale locale;
    const auto start = std::chrono::steady_clock::now();
    std::vector<const char*> pointers;
    for (const std::string& flag : work.flags) pointers.push_back(flag.c_str());

    struct Owner {
        const Functions& nvrtc;
        NvrtcProgram program = nullptr;
        ~Owner() {
            if (program) nvrtc.nvrtcDestroyProgram(&program);
        }
    } owner{*this};
    int code = nvrtcCreateProgram(&owner.program, work.source.c_str(), "kernel.cu", 0, nullptr, nullptr);
    if (code == kSuccess) {
        if (nvrtcSetFlowCallback) nvrtcSetFlowCallback(owner.program, &Work::is_stopped, &work);
        code = nvrtcCompileProgram(owner.program, static_cast<int>(pointers.size()), pointers.data());
    }
    if (work.stop.load()) throw Cancelled();
    if (code == kOutOfMemory) return out.error = "NVRTC is out of memory", out;
    const std::string log = owner.program ? this->log(owner.program) : std::string();
    if (code != kSuccess) {
        std::string what = std::string("NVRTC refuses the text of a kernel (") + nvrtcGetErrorString(code) + ") for " + work.arch + "\n";
        for (const std::string& flag : work.flags) what += flag + " ";
        throw InternalError(what + "\n---- log\n" + log + "\n---- text\n" + work.source);
    }
    CompiledKernel kernel;
    kernel.is_ptx = work.ptx;
    kernel.entry = work.entry;
    size_t size = 0;
    code = kernel.is_ptx ? nvrtcGetPTXSize(owner.program, &size) : nvrtcGetCUBINSize(owner.program, &size);
    kernel.image.resize(size);
    if (code == kSuccess) code = kernel.is_ptx ? nvrtcGetPTX(owner.program, kernel.image.data()) : nvrtcGetCUBIN(owner.program, kernel.image.data());
    if (code != kSuccess || size == 0) return out.error = std::string("NVRTC gives no image: ") + nvrtcGetErrorString(code), out;
    if (kernel.is_ptx && kernel.image.ends_with('\0')) kernel.image.pop_back();  // the size counts the end of a C string
    CompilerLog parsed = parse_log(log, work.entry);
    kernel.resources = parsed.resources;
    kernel.remarks = std::move(parsed.remarks);
    kernel.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    out.value = std::move(kernel);
    return out;
}

Result<CompiledKernel> Nvrtc::Functions::compile_rightly(Work& work) const {
    constexpr const char* kPlain = "--ptxas-options=-O0";
    Result<CompiledKernel> out = compile(work);
    if (!out || out->is_ptx || !has_opcode(out->image, kMovesBarrier) || std::find(work.flags.begin(), work.flags.end(), kPlain) != work.flags.end())
        return out;
    const double seconds = out->seconds;
    work.flags.emplace_back(kPlain);
    out = compile(work);
    if (!out) return out;
    out->seconds += seconds;
    out->remarks.emplace_back(kNotOptimised);
    return out;
}

Result<CompiledKernel> Nvrtc::compile(const NvrtcJob& job) const {
    poll(job.compile.cancel);
    Result<CompiledKernel> unknown;
    if (!archs_.empty() && std::find(archs_.begin(), archs_.end(), job.arch->number) == archs_.end())
        return unknown.error = "NVRTC " + version_ + " does not know " + job.arch->name, unknown;
    const auto work = std::make_shared<Work>();
    work->source = job.source;
    work->entry = job.entry;
    work->arch = job.arch->name;
    work->flags = flags(job);
    if (has_no_cache_) work->flags.push_back("--no-cache");  // NVRTC's own cache would cost a cuInit and hide compile times
    work->ptx = job.compile.ptx || job.arch->is_ptx();
    // NVRTC asks whether to go on between its steps only (since 12.8), of which some take seconds: nobody waits for the end of one in vain. Where
    // there are no more threads it works here.
    auto result =
        std::async(std::launch::async | std::launch::deferred, [functions = functions_, work] { return functions->compile_rightly(*work); });
    while (result.wait_for(kCancelPoll) == std::future_status::timeout) {
        if (!is_set(job.compile.cancel)) continue;
        work->stop = true;
        std::lock_guard lock(abandoned_mutex_);
        std::erase_if(abandoned_, [](const auto& f) { return f.wait_for(std::chrono::seconds(0)) == std::future_status::ready; });
        abandoned_.push_back(std::move(result));
        throw Cancelled();
    }
    return result.get();
}

}  // namespace tegula::cuda
