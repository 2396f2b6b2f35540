// The machine `cuda`: the CUDA back end with the passes and the cache that it does not know of.
#include "jit/cache/cache.h"
#include "jit/cuda/cuda.h"
#include "jit/cuda/emitter.h"
#include "jit/engine/machine.h"

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

cuda::Lower lower(const sema::Instance& instance, const std::vector<std::string>& disabled) {
    return [&instance, disabled](const Arch& arch, std::span<const cuda::TensorTrait> tensors, bool may_alias) {
        GpuOptions options = gpu_options(instance, arch, disabled);
        options.may_alias = may_alias;
        for (const cuda::TensorTrait& t : tensors) options.tensors.push_back({t.aligned, t.strided});
        return lowered_for_gpu(instance, options);
    };
}

/// Every tensor aligned, none overlapping: the variant that artefacts show.
ir::Function usual_variant(const sema::Instance& instance, const std::vector<std::string>& disabled, const Arch& arch) {
    const std::vector<cuda::TensorTrait> tensors(instance.fn->params.size(), {true, false});
    return lower(instance, disabled)(arch, tensors, false);
}

class CudaMachine : public Machine {
public:
    explicit CudaMachine(const SourceMap& sources) : sources_(sources), backend_(options()) {}
    std::string name() const override { return "cuda"; }
    std::string missing() override {
        const cuda::Availability& a = backend_.availability();
        const std::string problem = a.problem();
        return problem.empty() ? problem : problem + "; looked for: " + joined(a.looked_for);
    }
    const Arch& arch() override {
        const Arch* arch = backend_.device_arch(0);
        TEGULA_CHECK(arch, "no GPU");
        return *arch;
    }
    std::unique_ptr<Program> prepare(const sema::Instance& instance, const std::vector<std::string>& disabled) override {
        auto program = backend_.prepare(*instance.fn, lower(instance, disabled), &sources_);
        if (!program) return std::make_unique<Unavailable>(program.error);
        return std::move(*program);
    }
    std::unique_ptr<PreparedLaunch> prepare_launch(const Program& program, std::span<const Argument> args, std::span<const uint64_t, 3> grid,
                                                   std::string& error) override {
        const auto* own = dynamic_cast<const cuda::Program*>(&program);
        if (!own) return error = missing(), nullptr;
        auto prepared = own->prepare_launch(args, grid);
        if (prepared) return std::move(*prepared);
        error = prepared.error;
        return nullptr;
    }
    std::optional<std::string> artifact(const sema::Instance& instance, const std::vector<std::string>& disabled, std::string_view kind,
                                        const Arch& arch, DiagSink& diags) override {
        const cuda::KernelText text = cuda::emit(usual_variant(instance, disabled, arch), &sources_);
        if (kind == "cuda") return text.source;
        cuda::CompileOptions compile;
        compile.ptx = kind == "ptx";
        auto compiled = backend_.compile_text(text, arch, compile);
        if (compiled) return std::move(compiled->image);
        diags.report(Diag::machine_unavailable, {}, {"cuda", compiled.error});
        return std::nullopt;
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
    static cuda::BackendOptions options() {
        cuda::BackendOptions o;
        o.cache = make_cache({});
        return o;
    }
    const SourceMap& sources_;
    cuda::Backend backend_;
};

}  // namespace

std::unique_ptr<Machine> make_cuda_machine(const SourceMap& sources) { return std::make_unique<CudaMachine>(sources); }

}  // namespace tegula
