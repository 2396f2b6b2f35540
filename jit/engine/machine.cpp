// Which machines an engine has, and instances on them (machine.h, engine.h).
#include "jit/engine/machine.h"

#include <algorithm>

#include "jit/engine/engine.h"
#include "lang/instruction.h"
#include "lang/tensor_strides.h"
#include "lower/gpu/views.h"
#include "lower/lower.h"

namespace tegula {

void report_warning(Machine& machine, DiagSink& diags) {
    if (std::string text = machine.take_warning(); !text.empty()) diags.report(Diag::cache_unusable, {}, {text});
}

GpuOptions gpu_options(const sema::Instance& instance, const Arch& arch, const std::vector<std::string>& disabled_passes) {
    GpuOptions options;
    static_cast<LaunchFacts&>(options) = instance.facts;
    options.arch = &arch;
    options.disabled = disabled_passes;
    return options;
}

namespace {

/// What is known of a tensor whose base is aligned: rows of another number of bytes start anywhere.
GpuTensor usual_tensor(const sema::Instance& instance, const ir::Param& param) {
    const Type& type = instance.fn->type(param.value);
    const Layout::Kind kind = instance.fn->types().layout(type.layout).kind();
    GpuTensor out{true, false, true};
    const unsigned bits = instance.fn->elem(param.value).bits;
    if (type.shape.rank > 0 && bits <= 8) {
        constexpr int64_t kUsual = 4096;  // of extents that nothing is said of
        std::vector<int64_t> extents(type.shape.begin(), type.shape.end());
        std::replace(extents.begin(), extents.end(), kDynamic, kUsual);
        const Layout& layout = instance.fn->types().layout(type.layout);
        out.grain = word_grain(layout, extents, bits, 0);
        out.filled = out.grain && fills_members(layout, extents);
    }
    if (type.shape.rank == 0 || (kind != Layout::Kind::row && kind != Layout::Kind::col)) return out;
    const int axis = kind == Layout::Kind::col ? 0 : type.shape.rank - 1;
    int64_t extent = type.shape[static_cast<size_t>(axis)];
    for (const LaunchFacts::DimFact& dim : instance.facts.dims)
        if (const auto named = instance.named_extents.find(dim.extent);
            dim.tensor == param.name && dim.axis == axis && named != instance.named_extents.end())
            extent = named->second * dim.times / dim.by;
    out.whole = extent == kDynamic || extent * instance.fn->elem(param.value).bits % 128 == 0;
    out.aligned = out.whole || type.shape.rank == 1;
    return out;
}

}  // namespace

GpuOptions usual_options(const sema::Instance& instance, const Arch& arch, const std::vector<std::string>& disabled_passes) {
    GpuOptions options = gpu_options(instance, arch, disabled_passes);
    options.may_alias = std::ranges::any_of(instance.views, [&](const sema::KernelView& view) {  // beside the tensor, or another view of it
        const sema::KernelParam& tensor = instance.params[view.of];
        return tensor.mode != ast::ParamMode::in && view.ir_param >= 0 && view.ir_param != tensor.ir_params[0];
    });
    for (const ir::Param& param : instance.fn->params)
        options.tensors.push_back(param.kind == ir::Param::tensor ? usual_tensor(instance, param) : GpuTensor{true, false, true});
    if (const auto views = views_of(instance, disabled_passes))
        for (size_t p = options.tensors.size(); p < views->params.size(); ++p) {
            options.tensors.push_back({true, false, true});
            options.tensors.back().pitched = views->params[p].view->strides.size() > 1;
        }
    for (const size_t p : row_extents(instance))
        if (const auto named = instance.named_extents.find(instance.fn->params[p].name); named != instance.named_extents.end())
            fix_extent(options, instance, p, named->second);
    return options;
}

std::shared_ptr<const ir::Function> views_of(const sema::Instance& instance, const std::vector<std::string>& disabled_passes) {
    const auto is_off = [](const std::string& name) { return name == "all" || name == kViewsPass; };
    if (std::any_of(disabled_passes.begin(), disabled_passes.end(), is_off)) return nullptr;
    auto fn = std::make_shared<ir::Function>(*instance.fn);
    return make_views(*fn, instance.facts) ? fn : nullptr;
}

std::vector<size_t> row_extents(const sema::Instance& instance) {
    const ir::Function& fn = *instance.fn;
    for (uint32_t i = 0; i < fn.inst_count(); ++i) {
        const ir::Op op = fn.inst(ir::InstId{i}).op;
        if (op == ir::Op::dot || op == ir::Op::dot_scaled || op == ir::Op::contract) return {};
    }
    std::vector<size_t> out;
    for (size_t p = 0; p < fn.params.size(); ++p) {
        const auto bounds = [&](const LaunchFacts::Fact& f) { return f.extent == fn.params[p].name && f.at_most < INT64_MAX; };
        const auto& facts = instance.facts.facts;
        if (fn.params[p].kind == ir::Param::extent && std::any_of(facts.begin(), facts.end(), bounds)) out.push_back(p);
    }
    return out;
}

void fix_extent(GpuOptions& options, const sema::Instance& instance, size_t param, int64_t value) {
    options.facts.push_back({instance.fn->params[param].name, 1, value, value});
}

void keep_plain(sema::Instance& instance) {
    if (!has_instructions(*instance.fn)) return;
    instance.plain = std::make_unique<ir::Function>(*instance.fn);
    forget_instructions(*instance.plain);
}

ir::Function lowered_for_gpu(const sema::Instance& instance, const GpuOptions& options) {
    ir::Function fn = *instance.fn;
    if (options.tensors.size() > fn.params.size()) make_views(fn, instance.facts, options.tensors);
    if (options.facts.size() > instance.facts.facts.size()) {
        PassOptions passes;
        static_cast<LaunchFacts&>(passes) = options;
        passes.disabled = options.disabled;
        passes.cancel = options.cancel;
        run_passes(fn, passes);
    }
    run_gpu_passes(fn, options);
    return fn;
}

TensorCoreModel model_of(const ir::Function& fn, const ir::Function& kernel, const GpuOptions& options) {
    TensorCoreModel model{std::make_unique<ir::Function>(fn), nullptr};
    choose_instructions(*model.fn, options);
    if (has_own_sums(*model.fn)) {
        ir::Function form = kernel;
        const GpuOptions settled = run_gpu_passes(form, options);
        *model.fn = fn;
        choose_instructions(*model.fn, settled);
    }
    model.program = interp::Program::prepare(*model.fn);
    return model;
}

const Program& Executable::on(Machine& machine) const {
    std::lock_guard lock(mutex_);
    std::unique_ptr<Program>& program = programs_[&machine];
    if (!program) program = machine.prepare(instance, disabled_passes);
    return *program;
}

const Program& Executable::model(const GpuOptions& options) const {
    std::string key = options.arch->name + std::string(options.may_alias ? " alias " : " ");
    for (const GpuTensor& t : options.tensors) key += t.code();
    std::lock_guard lock(mutex_);
    TensorCoreModel& model = models_[key];
    if (!model.program) model = model_of(*instance.fn, *instance.fn, options);
    return *model.program;
}

bool Executable::first_use(const Arch& arch) const {
    std::lock_guard lock(mutex_);
    return used_.insert(&arch).second;
}

Machine& Engine::cuda() {
    std::call_once(cuda_once_, [this] { cuda_ = options_.cuda({sources_, options_.cache, options_.log}); });
    return *cuda_;
}

Machine& Engine::cpu() {
    std::call_once(cpu_once_, [this] { cpu_ = make_cpu_machine({sources_, options_.cache, options_.log}, options_.pool, options_.cpu_debug); });
    return *cpu_;
}

std::vector<Machine*> Engine::machines() {
    std::vector<Machine*> here;
    if (cuda().present() && cuda().missing().empty()) here.push_back(&cuda());
    if (cpu().present()) here.push_back(&cpu());  // or says what is missing
    if (here.empty()) here.push_back(nullptr);
    return here;
}

bool Engine::find_machine(std::string_view name, Machine*& machine, DiagSink& diags) {
    machine = nullptr;
    if (name == "interp") return true;
    if (name.empty() || name == "auto") return machine = machines().front(), true;
    if (name == "cuda" || name == "cpu") {
        Machine& wanted = name == "cuda" ? cuda() : cpu();
        const std::string missing = wanted.missing();
        if (missing.empty()) return machine = &wanted, true;
        diags.report(Diag::machine_unavailable, {}, {std::string(name), missing});
        return false;
    }
    diags.report(Diag::machine_unavailable, {},
                 {printable(std::string(name)), "machines: interp (the reference interpreter), cpu (native code), cuda (NVIDIA GPUs)"});
    return false;
}

}  // namespace tegula
