// The machine `cuda`: the CUDA back end with the passes and the cache that it does not know of.
#include <mutex>
#include <utility>

#include "jit/cache/cache.h"
#include "jit/cuda/cuda.h"
#include "jit/cuda/print.h"
#include "jit/engine/machine.h"
#include "lang/kernel/kernel_text.h"
#include "lower/gpu/estimate.h"
#include "lower/kernel/lower.h"

namespace tegula {

namespace {

std::string joined(const std::vector<std::string>& lines) {
    std::string out;
    for (const std::string& l : lines) out += (out.empty() ? "" : "; ") + l;
    return out;
}

/// What cannot be prepared says so when it is run: a host may compile for a machine and look for it later.
class Unavailable : public Program {
public:
    explicit Unavailable(std::string why) : why_(std::move(why)) {}
    RunResult run(std::span<const Argument>, std::span<const uint64_t, 3>, const RunOptions&) const override {
        DiagSink diags;
        diags.report(Diag::machine_unavailable, {}, {"cuda", why_});
        RunResult result;
        result.status = RunResult::failed;
        result.diagnostics = diags.take();
        return result;
    }

private:
    std::string why_;
};

/// The options for tensors as a launch brings them.
GpuOptions options_for(const sema::Instance& instance, const std::vector<std::string>& disabled, const Arch& arch, std::span<const GpuTensor> tensors,
                       bool may_alias) {
    GpuOptions options = gpu_options(instance, arch, disabled);
    options.may_alias = may_alias;
    options.tensors.assign(tensors.begin(), tensors.end());
    return options;
}

cuda::Lower lower(const sema::Instance& instance, const std::vector<std::string>& disabled, const SourceMap* sources) {
    return [&instance, disabled, sources](const Arch& arch, const cuda::LaunchTraits& traits, const std::atomic<bool>* cancel) {
        GpuOptions options = options_for(instance, disabled, arch, traits.tensors, traits.may_alias);
        options.cancel = cancel;
        options.whole_clusters = traits.whole_clusters;
        options.spread = traits.spread;
        for (const auto& [param, value] : traits.extents) fix_extent(options, instance, param, value);
        cuda::Lowered out{lowered_for_gpu(instance, options), {}};
        poll(cancel);
        out.text = cuda::printed(lower_to_kernel(out.form, sources, {disabled}));
        return out;
    };
}

/// By the cost model, for a kernel whose sum has as many stretches as a launch brings; null for others.
cuda::Spread spread(const sema::Instance& instance, const std::vector<std::string>& disabled) {
    if (!ir::hint_argument(instance.fn->hints, "split_k", "step")) return {};
    auto prepared = std::make_shared<ir::Function>(*instance.fn);
    prepare_for_estimates(*prepared);
    return [&instance, disabled, prepared](const Arch& arch, std::span<const Argument> args, std::span<const uint64_t, 3> grid) {
        const ir::Function& fn = *prepared;
        LaunchScale scale;
        std::copy(grid.begin(), grid.end(), scale.grid);
        for (size_t i = 0; i < args.size(); ++i) {
            const bool number = args[i].kind == Argument::scalar && fn.elem(fn.params[i].value).is_int();
            scale.scalars.push_back(number ? std::optional(static_cast<int64_t>(args[i].code)) : std::nullopt);
        }
        return estimate_gpu(fn, gpu_options(instance, arch, disabled), scale).spread;
    };
}

/// What a compiled kernel takes, as JSON; null where only the driver will know.
std::string describe_resources(const cuda::CompiledKernel& kernel, const KernelText& text, const std::string& name, const Arch& arch) {
    const cuda::Resources& r = kernel.resources;
    const auto number = [&](int64_t n) { return kernel.is_ptx ? std::string("null") : std::to_string(n); };
    return "{\"schema\":1,\"kernel\":" + json_quote(name) + ",\"arch\":" + json_quote(arch.name) + ",\"threads\":" + std::to_string(text.threads) +
           ",\"registers\":" + number(r.registers) + ",\"shared_bytes\":" + number(text.shared_bytes + r.static_shared) +
           ",\"workspace_bytes\":" + std::to_string(text.workspace_bytes + text.sum_bytes) + ",\"stack_bytes\":" + number(r.stack_bytes) +
           ",\"spill_store_bytes\":" + number(r.spill_stores) + ",\"spill_load_bytes\":" + number(r.spill_loads) + "}\n";
}

/// The one thing that the cache has to say, until it is asked for. Shared with the cache, which may speak on any thread.
struct Warning {
    std::mutex mutex;
    std::string text;
};

class CudaMachine : public Machine {
public:
    explicit CudaMachine(const MachineContext& context) : sources_(context.sources), backend_(options(context, warning_)) {}
    std::string name() const override { return "cuda"; }
    std::string missing() override {
        const cuda::Availability& a = backend_.availability();
        const std::string problem = a.problem();
        return problem.empty() ? problem : problem + "; looked for: " + joined(a.looked_for);
    }
    bool present() override { return backend_.has_device(); }
    const Arch& arch(int device, void* stream) override {
        const cuda::DeviceInfo* found = backend_.device_at(device, stream);
        TEGULA_CHECK(found, "no GPU");
        return *found->arch;
    }
    std::string hardware(int device, void* stream) override {
        const cuda::DeviceInfo* found = backend_.device_at(device, stream);
        return found ? found->name + ", " + std::to_string(found->sms) + " multiprocessors" : std::string();
    }
    std::unique_ptr<Program> prepare(const sema::Instance& instance, const std::vector<std::string>& disabled) override {
        auto program = backend_.prepare(*instance.fn, lower(instance, disabled, &sources_), row_extents(instance), spread(instance, disabled),
                                        views_of(instance, disabled));
        if (!program) return std::make_unique<Unavailable>(program.error);
        return std::move(*program);
    }
    std::unique_ptr<PreparedLaunch> prepare_launch(const Program& program, std::span<const Argument> args, std::span<const uint64_t, 3> grid,
                                                   void* stream, const std::atomic<bool>* cancel, DiagSink& diags, std::string& error) override {
        const auto* own = dynamic_cast<const cuda::Program*>(&program);
        if (!own) return error = missing(), nullptr;
        auto prepared = own->prepare_launch(args, grid, stream, cancel);
        for (Diagnostic& d : prepared.warnings) diags.add(std::move(d));
        if (prepared) return std::move(*prepared);
        error = prepared.error;
        return nullptr;
    }
    std::optional<std::string> artifact(const sema::Instance& instance, const std::vector<std::string>& disabled, std::string_view kind,
                                        const Arch* arch, const std::atomic<bool>* cancel, DiagSink& diags) override {
        GpuOptions options = usual_options(instance, *arch, disabled);
        options.cancel = cancel;
        const ir::Function form = lowered_for_gpu(instance, options);
        KernelText text = cuda::printed(lower_to_kernel(form, &sources_, {disabled}));
        if (kind == "cuda") return text.source;
        if (kind.ends_with("-lines")) text.options.push_back("--generate-line-info");
        cuda::CompileOptions compile;
        compile.ptx = kind.starts_with("ptx");
        compile.cancel = cancel;
        auto compiled = backend_.compile_text(text, *arch, compile);
        if (!compiled) {
            diags.report(Diag::machine_unavailable, {}, {"cuda", compiled.error});
            return std::nullopt;
        }
        for (Diagnostic& d : cuda::warnings_of(*compiled, form, *arch)) diags.add(std::move(d));
        return kind == "resources" ? describe_resources(*compiled, text, form.name, *arch) : std::move(compiled->image);
    }
    GpuOptions form_options(const sema::Instance& instance, const std::vector<std::string>& disabled, const Program& program,
                            std::span<const Argument> args, void* stream) override {
        const auto* own = dynamic_cast<const cuda::Program*>(&program);
        bool may_alias = false;
        const std::vector<GpuTensor> tensors = own ? own->traits(args, may_alias) : std::vector<GpuTensor>();
        return options_for(instance, disabled, arch(cuda::device_of(args), stream), tensors, may_alias);
    }
    std::string take_warning() override {
        std::lock_guard lock(warning_->mutex);
        return std::exchange(warning_->text, {});
    }
    std::string describe() override {
        const cuda::Availability& a = backend_.availability();
        std::string out = "{\"name\":\"cuda\",\"available\":" + std::string(a.problem().empty() ? "true" : "false") +
                          ",\"doc\":\"NVIDIA GPUs through NVRTC and the driver\",\"compiler\":" + json_quote(a.compiler_version) +
                          ",\"driver\":" + json_quote(a.driver_version) + ",\"devices\":[";
        for (size_t i = 0; i < a.devices.size(); ++i) {
            const cuda::DeviceInfo& d = a.devices[i];
            out += (i ? "," : "") + ("{\"name\":" + json_quote(d.name)) + ",\"arch\":" + json_quote(d.arch ? d.arch->name : "") +
                   ",\"sms\":" + std::to_string(d.sms) + ",\"memory\":" + std::to_string(d.memory) + "}";
        }
        out += "],\"problem\":" + json_quote(a.problem()) + ",\"looked_for\":[";
        for (size_t i = 0; i < a.looked_for.size(); ++i) out += (i ? "," : "") + json_quote(a.looked_for[i]);
        return out + "]}";
    }

private:
    static cuda::BackendOptions options(const MachineContext& context, const std::shared_ptr<Warning>& warning) {
        CacheOptions cache = context.cache;
        cache.warn = [warning, log = context.log](const std::string& text) {
            if (log) log(LogLevel::warning, text);
            std::lock_guard lock(warning->mutex);
            warning->text = text;
        };
        cuda::BackendOptions o;
        o.log = context.log;
        o.cache = make_cache(std::move(cache));
        return o;
    }
    const SourceMap& sources_;
    const std::shared_ptr<Warning> warning_ = std::make_shared<Warning>();
    cuda::Backend backend_;
};

}  // namespace

std::unique_ptr<Machine> make_cuda_machine(const MachineContext& context) { return std::make_unique<CudaMachine>(context); }

}  // namespace tegula
