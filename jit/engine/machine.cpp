// Which machines an engine has, and instances on them (machine.h, engine.h).
#include "jit/engine/machine.h"

#include "jit/engine/engine.h"

namespace tegula {

GpuOptions gpu_options(const sema::Instance& instance, const Arch& arch, const std::vector<std::string>& disabled_passes) {
    GpuOptions options;
    static_cast<LaunchFacts&>(options) = instance.facts;
    options.arch = &arch;
    options.disabled = disabled_passes;
    return options;
}

ir::Function lowered_for_gpu(const sema::Instance& instance, const GpuOptions& options) {
    ir::Function fn = *instance.fn;
    run_gpu_passes(fn, options);
    return fn;
}

const Program& Executable::on(Machine& machine) const {
    std::lock_guard lock(mutex_);
    std::unique_ptr<Program>& program = programs_[&machine];
    if (!program) program = machine.prepare(instance, disabled_passes);
    return *program;
}

const Program& Executable::model(const Arch& arch) const {
    std::lock_guard lock(mutex_);
    Model& model = models_[&arch];
    if (!model.program) {
        model.fn = std::make_unique<ir::Function>(*instance.fn);
        choose_instructions(*model.fn, gpu_options(instance, arch, disabled_passes));
        model.program = interp::Program::prepare(*model.fn);
    }
    return *model.program;
}

Machine& Engine::cuda() {
    std::call_once(cuda_once_, [this] { cuda_ = options_.cuda(sources_); });
    return *cuda_;
}

bool Engine::find_machine(std::string_view name, Machine*& machine, DiagSink& diags) {
    machine = nullptr;
    if (name == "interp") return true;
    if (name == "cuda") {
        const std::string missing = cuda().missing();
        if (missing.empty()) return machine = &cuda(), true;
        diags.report(Diag::machine_unavailable, {}, {"cuda", missing});
        return false;
    }
    if (name.empty() || name == "auto") {
        if (cuda().missing().empty()) machine = &cuda();
        return true;
    }
    diags.report(Diag::machine_unavailable, {}, {printable(std::string(name)), "machines: interp (the reference interpreter), cuda (NVIDIA GPUs)"});
    return false;
}

}  // namespace tegula
