// `explain`: what the phases say of one kernel for one architecture or processor, put together (lang/explanation.h).
#include "jit/cuda/print.h"
#include "jit/engine/engine.h"
#include "jit/engine/hints.h"
#include "lang/gpu/hints.h"
#include "lang/gpu/tensor_memory.h"
#include "lang/kernel/kernel_text.h"
#include "lower/gpu/estimate.h"
#include "lower/gpu/narrow.h"
#include "lower/kernel/lower.h"
#include "lower/lower.h"

namespace tegula {

namespace {

constexpr int kMostRegisters = 255;

/// What a launch would take; extents that nobody gave are nominal.
struct LaunchEstimate {
    std::optional<explain::Estimated> told;  ///< none: what the launch would be is not known
    GpuEstimate estimate;
};

LaunchEstimate estimate_launch(const Executable& exe, const GpuOptions& options, TypeTable& types) {
    sema::StaticValues given = exe.generics;
    for (const auto& [name, value] : exe.instance.named_extents) given.emplace(name, sema::StaticValue{static_cast<__int128>(value)});
    DiagSink unheard;  // who launches hears
    const auto plan = sema::nominal_launch(*exe.home, *exe.kernel, given, types, unheard, TuneByEstimate::kNominalExtent);
    ir::Function fn = *exe.instance.fn;
    prepare_for_estimates(fn);
    LaunchEstimate out;
    out.estimate = estimate_gpu(fn, options, plan ? scale_of(fn, plan->grid, *plan) : LaunchScale{});
    if (plan) out.told = {extents_of(*plan), out.estimate};
    return out;
}

/// What a program of the form takes of an SM, by the text of its kernel. Registers that nothing sets are guessed.
explain::Resources resources_of(const ir::Function& form, const KernelText& text, const Arch& arch, int guessed) {
    explain::Resources out;
    out.warps = form.gpu->warps;
    out.threads = text.threads;
    out.cluster = form.gpu->cluster;
    out.shared_bytes = text.shared_bytes;
    out.workspace_bytes = text.workspace_bytes + text.sum_bytes;
    out.tensor_columns = allocated_columns(*form.gpu);
    double registers = 0;
    if (const auto exchange = register_exchange(form)) {
        out.registers = exchange->others;
        out.registers_are = explain::Resources::set;
        registers = 32.0 * out.warps * exchange->others + double(kProducerGroup) * exchange->producer;
    } else {
        const int bound = register_bound(form).most, programs = text.resident_programs;
        out.registers = bound ? bound : programs > 1 ? arch.registers / (programs * out.threads) / 8 * 8 : guessed;
        out.registers = std::min(out.registers, kMostRegisters);
        out.registers_are = bound || programs > 1 ? explain::Resources::bounded : explain::Resources::estimated;
        registers = double(out.threads) * out.registers;
    }
    const Occupancy fits = occupancy(arch, out.threads, registers, out.shared_bytes);
    out.per_sm = fits.per_sm;
    out.limit = fits.limit;
    out.buffers = explain_memory(form);
    out.buffers.insert(out.buffers.end(), text.areas.begin(), text.areas.end());
    return out;
}

/// What the stream of a narrow tensor takes of a launch.
/// `share`: of the codes of all narrow tensors.
explain::Stream stream_of(const ir::Function& form, const NarrowStream& narrow, double share, const GpuEstimate& estimate,
                          const explain::Resources& resources, const Arch& arch) {
    explain::Stream out;
    out.tensor = param_name(form, narrow.tensor);
    int64_t ahead = 0;  // in rings; else a trip's tile
    for (const explain::Buffer& b : resources.buffers)
        if (b.use == explain::Buffer::ring && b.param >= 0 && b.param == param_number(form, narrow.tensor)) ahead += b.bytes * b.stages;
    out.bytes_in_flight = (ahead ? ahead : narrow.tile_bytes) * resources.per_sm;
    out.bytes_needed = bytes_that_hide_latency(arch);
    out.operations = narrow.cost.operations;
    out.decode_us = issue_microseconds(arch, share * estimate.codes * narrow.work(32 * form.gpu->warps));
    out.memory_us = estimate.parts[GpuEstimate::memory].microseconds;
    out.tensor_us = estimate.parts[GpuEstimate::tensor_cores].microseconds;
    out.estimated_us = estimate.microseconds;
    out.bound = estimate.bound;
    return out;
}

constexpr const char* kLayouts[] = {"fragment", "fragment_8"};  ///< that the library has for weights
constexpr double kGain = 1.1;                                   ///< from which on another layout is worth to be named

/// The instance with another layout of a parameter.
sema::Instance in_layout(const sema::Instance& instance, size_t param, LayoutId layout) {
    sema::Instance out{std::make_unique<ir::Function>(*instance.fn),
                       nullptr,
                       instance.facts,
                       instance.params,
                       instance.extents,
                       instance.named_extents,
                       instance.views};
    ir::Value& tensor = out.fn->value(out.fn->params[param].value);
    Type type = out.fn->types().type(tensor.type);
    type.layout = layout;
    tensor.type = out.fn->types().intern(type);
    return out;
}

/// Tries the library's layouts for a tensor: one with which threads load and decode less.
std::optional<explain::BetterLayout> better_layout(Engine& engine, const Executable& exe, const ir::Function& form, const NarrowStream& narrow,
                                                   const std::atomic<bool>* cancel) {
    const auto param = std::ranges::find(form.params, narrow.tensor, &ir::Param::value);
    const Type& type = form.type(narrow.tensor);
    if (param == form.params.end() || type.shape.rank != 2) return std::nullopt;
    const auto index = static_cast<int>(param - form.params.begin());
    const bool viewed = std::ranges::any_of(exe.instance.views, [&](const sema::KernelView& view) {  // which keeps the layout `row`
        return view.ir_param == index || exe.instance.params[view.of].ir_params[0] == index;
    });
    if (viewed) return std::nullopt;
    const Arch& arch = *form.gpu->arch;
    const int threads = 32 * form.gpu->warps;
    explain::BetterLayout out{param->name, form.types().layout(type.layout).name(), {}, narrow.cost, {}};
    double least = narrow.work(threads) / kGain;
    for (const char* name : kLayouts) {
        DiagSink unheard;
        const auto layout = engine.parse_layout(*exe.home, name, unheard);
        if (!layout || *layout == type.layout) continue;
        const sema::Instance other = in_layout(exe.instance, static_cast<size_t>(param - form.params.begin()), *layout);
        GpuOptions options = usual_options(other, arch, exe.disabled_passes);
        options.cancel = cancel;
        const ir::Function trial = lowered_for_gpu(other, options);
        for (const NarrowStream& s : narrow_streams(trial)) {
            if (s.tensor != narrow.tensor || s.cost.words > narrow.cost.words || s.work(32 * trial.gpu->warps) > least) continue;
            least = s.work(32 * trial.gpu->warps);
            out.better = name;
            out.then = s.cost;
        }
    }
    return out.better.empty() ? std::nullopt : std::optional(std::move(out));
}

void append(std::vector<explain::Note>& to, std::vector<explain::Note> notes) {
    to.insert(to.end(), std::make_move_iterator(notes.begin()), std::make_move_iterator(notes.end()));
}

}  // namespace

void Engine::explain_gpu_form(const Executable& exe, const Arch& arch, const std::optional<explain::Tune>& tune, std::vector<explain::Note>& notes) {
    GpuOptions options = usual_options(exe.instance, arch, exe.disabled_passes);
    options.cancel = &cancelled_;
    const ir::Function form = lowered_for_gpu(exe.instance, options);
    const Span kernel = exe.kernel->name.span;
    LaunchEstimate launch = estimate_launch(exe, options, exe.home->types());
    if (tune) {
        launch.estimate = *tune->candidates[tune->chosen].estimate;
        launch.told = {tune->extents, launch.estimate};
        notes.push_back({exe.kernel->tune[0].name.span, *tune});
    }
    if (launch.told) notes.push_back({kernel, *launch.told});
    const explain::Resources resources = resources_of(form, cuda::printed(lower_to_kernel(form, nullptr, {exe.disabled_passes})), arch, launch.estimate.registers);
    notes.push_back({kernel, resources});
    const std::vector<NarrowStream> streams = narrow_streams(form);
    double codes = 0;
    for (const NarrowStream& narrow : streams) codes += double(narrow.codes);
    for (const NarrowStream& narrow : streams) {
        if (launch.told) notes.push_back({narrow.span, stream_of(form, narrow, double(narrow.codes) / codes, launch.estimate, resources, arch)});
        if (auto better = better_layout(*this, exe, form, narrow, &cancelled_)) notes.push_back({narrow.span, std::move(*better)});
    }
    std::vector<explain::Note> products = explain_products(*exe.instance.fn);
    if (products.empty()) products.push_back({{}, explain::NoProducts{}});
    append(notes, std::move(products));
    append(notes, explain_gpu(form, options));
    append(notes, explain_channels(form, options));
    append(notes, explain_hints(exe, arch, form));
}

std::optional<Explanation> Engine::explain(LoadedModule& module, const Executable& exe, const Arch* arch, DiagSink& diags) {
    std::optional<explain::Tune> tune;
    const auto instance = arch ? tuned_for(module, exe, *arch, diags, &tune) : std::shared_ptr<const Executable>(std::shared_ptr<void>(), &exe);
    if (!instance) return std::nullopt;
    Explanation out{std::string(exe.kernel->name.text), arch ? arch->name : "cpu", settings_of(instance->generics, module.types()), {}};
    if (arch) {
        explain_gpu_form(*instance, *arch, tune, out.notes);
    } else {
        auto notes = cpu().explain(instance->instance, diags);
        if (!notes) return std::nullopt;
        out.notes = std::move(*notes);
    }
    return out;
}

}  // namespace tegula
