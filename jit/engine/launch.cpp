// Launching: host arguments -> instance, extents and grid -> run. Every mismatch is found before anything is written.
#include <algorithm>
#include <charconv>
#include <chrono>

#include "jit/engine/compare.h"
#include "jit/engine/engine.h"
#include "jit/engine/hints.h"
#include "jit/engine/kept_prints.h"
#include "jit/engine/outcome.h"
#include "lang/gpu/wide_access.h"
#include "lang/kernel/kernel_text.h"
#include "lang/pointer_code.h"
#include "lang/tensor_strides.h"

namespace tegula {

namespace {

bool is_pointer_param(const ast::Param& param) {
    if (param.type->kind != ast::ExprKind::instantiate) return false;
    const ast::Expr* base = ast::as<ast::InstantiateExpr>(param.type).base;
    return base->kind == ast::ExprKind::name && ast::as<ast::NameExpr>(base).name == "ptr";
}

/// Arguments in parameter order; entries stay null where nothing was given. False when a name or position fits no parameter.
bool order_arguments(const ast::KernelItem& kernel, std::span<const LaunchArgument> args, std::vector<const LaunchArgument*>& ordered,
                     DiagSink& diags, Span at) {
    ordered.assign(kernel.params.size(), nullptr);
    bool ok = true;
    size_t position = 0;
    for (const LaunchArgument& arg : args) {
        size_t slot = position;
        if (arg.name.empty()) {
            ++position;
        } else {
            slot = 0;
            while (slot < kernel.params.size() && kernel.params[slot].name.text != arg.name) ++slot;
        }
        if (slot >= kernel.params.size()) {
            std::vector<std::string_view> names;
            for (const ast::Param& p : kernel.params) names.push_back(p.name.text);
            ok = false;
            if (arg.name.empty()) {
                const auto count = [](size_t n) { return std::to_string(n) + (n == 1 ? " argument" : " arguments"); };
                if (slot == kernel.params.size())  // one error for all of them
                    diags.report(Diag::wrong_argument_count, at,
                                 {std::string(kernel.name.text), count(kernel.params.size()), std::to_string(args.size())});
                continue;
            }
            auto& d = diags.report(Diag::unknown_launch_argument, at, {std::string(kernel.name.text), printable(arg.name)});
            if (auto near = closest(arg.name, names); !near.empty()) d.notes.push_back("did you mean `" + std::string(near) + "`?");
        } else if (ordered[slot]) {
            diags.report(Diag::repeated_launch_argument, at, {std::string(kernel.params[slot].name.text)});
            ok = false;
        } else {
            ordered[slot] = &arg;
        }
    }
    return ok;
}

bool is_tensor_param(const ast::Param& param) { return param.type->kind == ast::ExprKind::index || param.type->kind == ast::ExprKind::annotated; }

/// What a tensor of rank 0 means to a scalar parameter: the number in it.
sema::StaticValue scalar_in(const Format& format, const TensorView& view) {
    const uint64_t code = load_bits(format, view.data, 0);
    if (format.is_bool()) return {code != 0};
    if (format.is_int()) return {format.is_signed ? __int128{static_cast<int64_t>(code)} : __int128{code}};
    return {decode(format, code)};
}

/// A tensor of rank 0 that is given where a number is wanted.
bool is_number(const TypeTable& types, const ast::Param& param, const LaunchArgument& arg) {
    if (arg.kind != LaunchArgument::tensor || is_tensor_param(param) || is_pointer_param(param)) return false;
    return arg.view.extents.rank == 0 && !arg.open_type && !types.format(arg.view.elem).is_block();
}

/// Why that number cannot be read; empty: it can.
std::string unreadable(const TypeTable& types, const LaunchArgument& arg) {
    if (!arg.problem.empty()) return arg.problem;
    if (arg.view.memory != Memory::host) return "the number lies in the memory of a device; pass it by value";
    return arg.view.data && arg.view.bytes * 8 >= types.format(arg.view.elem).bits ? "" : "the number has no storage";
}

/// Why a kernel must not write to a tensor with strides of the host; empty: it may.
std::string overlapping(const TensorView& view) {
    if (!view.has_strides) return {};
    const auto n = static_cast<size_t>(view.extents.rank);
    bool nested = true;  // the usual case, seen at once
    for (size_t d = 0; d + 1 < n; ++d) {
        int64_t row = 0;
        nested = nested && !__builtin_mul_overflow(view.strides[d + 1], view.extents[d + 1], &row) && view.strides[d] >= row;
    }
    if (nested && (n == 0 || view.strides[n - 1] > 0)) return {};
    const Layout layout = Layout::with_strides({view.strides.begin(), view.strides.begin() + view.extents.rank});
    const auto conflict = layout.find_conflict({view.extents.begin(), n});
    return conflict ? "it is written, and its strides do not keep elements apart: " + conflict->text() : "";
}

sema::ArgumentType argument_type(const TypeTable& types, const ast::Param& param, const LaunchArgument* arg) {
    sema::ArgumentType type;
    if (!arg) return type;
    if (arg->kind == LaunchArgument::tensor) {
        if (is_number(types, param, *arg)) {
            type.kind = sema::ArgumentType::scalar;
            type.elem = arg->view.elem;
            type.value = scalar_in(types.format(arg->view.elem), arg->view);
            return type;
        }
        type.kind = is_pointer_param(param) ? sema::ArgumentType::pointer : sema::ArgumentType::tensor;
        type.elem = arg->view.elem;
        type.pointee = arg->view.pointee;
        type.extents = arg->view.extents;
        type.layout = arg->view.layout;
        type.has_strides = arg->view.has_strides;
        type.strides = arg->view.strides;
        type.open_layout = arg->open_layout;
        type.open_type = arg->open_type;
        return type;
    }
    type.kind = sema::ArgumentType::scalar;
    const bool is_bool = param.type->kind == ast::ExprKind::name && ast::as<ast::NameExpr>(param.type).name == "bool";
    if (arg->kind == LaunchArgument::real)
        type.value.v = arg->r;
    else if (arg->kind == LaunchArgument::boolean || (is_bool && arg->no_bools && (arg->i == 0 || arg->i == 1)))
        type.value.v = arg->i == 1;
    else
        type.value.v = arg->i;
    return type;
}

Status run(const Program& program, std::span<const Argument> values, std::span<const uint64_t, 3> grid, const LaunchOptions& options,
           const std::atomic<bool>& cancelled, DiagSink& diags, double* seconds = nullptr) {
    RunOptions run = options;
    if (!run.cancel) run.cancel = &cancelled;
    run.print = with_line_ends(options.print);
    run.progress = options.keep_going;
    try {
        const auto start = std::chrono::steady_clock::now();
        RunResult result = program.run(values, grid, run);
        if (options.measure && result.seconds == 0)  // a machine that does not measure itself
            result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        for (Diagnostic& d : result.diagnostics) diags.add(std::move(d));
        if (seconds) *seconds = result.seconds;
        if (options.copy_seconds) *options.copy_seconds = result.copy_seconds;
        if (options.steps) *options.steps += result.steps;
        return status_of(result);
    } catch (const Cancelled&) {
        diags.report(Diag::run_cancelled, {});
        return Status::cancelled;
    }
}

/// Where the tensors lie; -1: none in device memory.
int device_of(std::span<const LaunchArgument> args) {
    for (const LaunchArgument& a : args)
        if (a.kind == LaunchArgument::tensor && a.view.memory == Memory::cuda && a.view.data) return a.view.device;
    return -1;
}

/// What is wrong with where the elements of a tensor lie in device memory.
std::string misplaced(const Format& f, const TensorArg& t) {
    const auto address = reinterpret_cast<uintptr_t>(t.data);
    const unsigned alignment = element_alignment(f);
    if (t.memory == Memory::host || t.bytes == 0 || address % alignment == 0) return {};
    char digits[16];
    const auto length = static_cast<size_t>(std::to_chars(digits, std::end(digits), address, 16).ptr - digits);
    return "its address 0x" + std::string(digits, length) + " in device memory is no multiple of " + std::to_string(alignment) +
           ", the bytes of an element of `" + f.name +
           "`, and GPUs access such elements at multiples of their size only; let it begin at one, or copy it to memory of its own";
}

bool grid_fits(const uint64_t (&grid)[3]) {
    uint64_t all = 1;
    for (uint64_t n : grid)
        if (__builtin_mul_overflow(all, n, &all)) return false;
    return all <= uint64_t{1} << 62;
}

/// The arguments that are tensors of the launch as elements of other types; false (reported): one cannot be seen so.
bool append_views(const TypeTable& types, const Executable& exe, Span at, std::vector<Argument>& values, DiagSink& diags) {
    const sema::Instance& instance = exe.instance;
    const std::vector<Argument> given = instance.views.empty() ? std::vector<Argument>() : values;  // views may take the places of their tensors
    std::vector<std::string> problems;
    for (const sema::KernelView& view : instance.views) {
        const sema::KernelParam& param = instance.params[view.of];
        Argument seen = given[static_cast<size_t>(param.ir_params[0])];
        if (std::string why = see_as(types, seen.t, view.elem); !why.empty())
            problems.push_back("`" + param.name + "` is viewed as `" + types.format(view.elem).name + "`: " + why);
        if (view.ir_param < 0) continue;
        const auto slot = static_cast<size_t>(view.ir_param);
        if (slot >= values.size()) values.resize(slot + 1);
        values[slot] = seen;
    }
    if (problems.empty()) return true;
    diags.report(Diag::launch_mismatch, at.valid() ? at : exe.kernel->name.span, {std::string(exe.kernel->name.text)}).notes.assign(problems.begin(), problems.end());
    return false;
}

}  // namespace

Status status_of(const RunResult& result) {
    const auto refuses = [](const Diagnostic& d) { return d.id == Diag::bad_tensor; };  // nothing ran
    if (std::any_of(result.diagnostics.begin(), result.diagnostics.end(), refuses)) return Status::arguments;
    switch (result.status) {
        case RunResult::ok:
            return Status::ok;
        case RunResult::cancelled:
            return Status::cancelled;
        case RunResult::unavailable:
            return Status::unavailable;
        default:
            return Status::run;
    }
}

std::string argument_name(const ir::Function& fn, size_t i) { return i < fn.params.size() ? fn.params[i].name : unnamed_object(i, fn.params.size()); }

bool reachable_by_host(const ReadyLaunch& launch, const LaunchOptions& options, Span at, DiagSink& diags) {
    for (size_t i = 0; i < launch.values.size(); ++i) {
        if (launch.values[i].kind == Argument::scalar || launch.values[i].t.memory == Memory::host) continue;
        const char* who = options.machine && !options.machine->is_gpu() ? "the CPU" : "the interpreter";
        diags.report(Diag::bad_tensor, at,
                     {argument_name(*launch.exe->instance.fn, i), std::string("it lies in device memory, which ") + who + " cannot reach"});
        return false;
    }
    return true;
}

TunedKey Engine::tuned_key(const ast::KernelItem& kernel, Machine& machine, std::span<const LaunchArgument> args, void* stream) {
    return {std::string(kernel.name.text), text_hash(sources_.text(kernel.span)), machine.name(), machine.hardware(device_of(args), stream), {}};
}

TunedDatabase& Engine::tuned() {
    std::call_once(tuned_once_, [&] { tuned_ = std::make_unique<TunedDatabase>(options_.tuned, options_.log); });
    return *tuned_;
}

std::optional<sema::LaunchPlan> Engine::bind(LoadedModule& module, const ast::KernelItem& kernel, const sema::StaticValues& generics,
                                             std::span<const LaunchArgument> args, bool infer_outputs, std::vector<const LaunchArgument*>& ordered,
                                             DiagSink& diags, Span at, sema::TuneChooser* chooser) {
    if (!order_arguments(kernel, args, ordered, diags, at)) return std::nullopt;
    std::vector<std::string> problems;
    bool unknown = false;  // something of which not even the type is known: nothing can be deduced
    std::vector<sema::ArgumentType> given;
    for (size_t i = 0; i < ordered.size(); ++i) {
        const LaunchArgument* arg = ordered[i];
        const bool number = arg && is_number(module.types(), kernel.params[i], *arg);
        std::string problem = number ? unreadable(module.types(), *arg) : arg ? arg->problem : "";
        if (problem.empty() && arg && kernel.params[i].mode != ast::ParamMode::in) problem = overlapping(arg->view);
        if (!problem.empty()) {
            problems.push_back("`" + std::string(kernel.params[i].name.text) + "`: " + problem);
            unknown = unknown || number || arg->view.elem.v == 0;
        }
        if (unknown) continue;
        given.push_back(argument_type(module.types(), kernel.params[i], arg));
        if (!arg && infer_outputs && kernel.params[i].mode == ast::ParamMode::out) given.back().kind = sema::ArgumentType::inferred;
    }
    std::optional<sema::LaunchPlan> plan;
    DiagSink own;
    if (!unknown) plan = sema::bind_launch(module, kernel, generics, given, module.types(), own, at, chooser);
    if (plan && problems.empty() && !grid_fits(plan->grid)) problems.push_back("the grid has more than 2^62 programs");
    std::vector<Diagnostic> found = own.take();
    auto mismatch = std::find_if(found.begin(), found.end(), [](const Diagnostic& d) { return d.id == Diag::launch_mismatch; });
    if (!problems.empty() && mismatch == found.end()) {
        own.report(Diag::launch_mismatch, at.valid() ? at : kernel.name.span, {std::string(kernel.name.text)});
        found.push_back(std::move(own.take().front()));
        mismatch = found.end() - 1;
    }
    if (!problems.empty()) mismatch->notes.insert(mismatch->notes.end(), problems.begin(), problems.end());
    for (Diagnostic& d : found) diags.add(std::move(d));
    return problems.empty() ? std::move(plan) : std::nullopt;
}

Status Engine::ready(LoadedModule& module, const ast::KernelItem& kernel, const sema::StaticValues& generics, std::span<const LaunchArgument> args,
                     const LaunchOptions& options, DiagSink& diags, Span at, ReadyLaunch& out) {
    const std::atomic<bool>* const cancel = options.cancel ? options.cancel : &cancelled_;
    poll(cancel);
    std::vector<const LaunchArgument*> ordered;
    std::optional<TuneByEstimate> estimated;  // machines without a cost model take the first choices
    std::optional<TuneByMeasurement> measured;
    sema::TuneChooser* chooser = nullptr;
    const bool gpu = options.machine && options.machine->is_gpu();
    const Arch* arch = gpu ? &options.machine->arch(device_of(args), options.stream) : options.model;
    if (arch && !kernel.tune.empty()) chooser = &estimated.emplace(module.tuned_, module, kernel, module.types(), *arch, cancel);
    if (options.machine && !kernel.tune.empty() && !tuned().empty())
        chooser = &measured.emplace(tuned(), tuned_key(kernel, *options.machine, args, options.stream), module.tuned_, kernel, module.types(), chooser);
    auto plan = bind(module, kernel, generics, args, false, ordered, diags, at, chooser);
    if (!plan) return Status::arguments;
    out.exe = compile(module, kernel, plan->generics, options.disabled_passes, diags, nullptr, cancel);
    if (!out.exe) return Status::source;
    if (gpu && out.exe->first_use(*arch))
        for (Diagnostic& d : hint_warnings(*out.exe, *arch, cancel)) diags.add(std::move(d));
    std::copy(std::begin(plan->grid), std::end(plan->grid), out.grid);

    size_t scalar = 0;
    for (size_t i = 0; i < out.exe->instance.params.size(); ++i) {
        const sema::KernelParam& param = out.exe->instance.params[i];
        if (param.kind == sema::ArgumentType::scalar) {
            TEGULA_CHECK(scalar < plan->scalars.size());
            out.values.push_back(plan->scalars[scalar++]);
            continue;
        }
        size_t first = out.values.size();
        append_arguments(module.types(), ordered[i]->view, out.values);
        if (param.kind == sema::ArgumentType::pointer) {
            out.values[first].kind = Argument::pointer;
            out.values[first].t.extents = Shape{ordered[i]->view.extents.elements()};
        }
    }
    for (const std::string& name : out.exe->instance.extents) {
        Argument extent;
        auto it = plan->extents.find(name);
        TEGULA_CHECK(it != plan->extents.end(), name);
        extent.code = static_cast<uint64_t>(it->second);
        out.values.push_back(extent);
    }
    if (!append_views(module.types(), *out.exe, at, out.values, diags)) return Status::arguments;
    TEGULA_CHECK(out.values.size() == out.exe->instance.fn->params.size());
    for (size_t i = 0; i < out.values.size() && gpu; ++i) {
        if (out.values[i].kind == Argument::scalar) continue;
        const ir::Function& fn = *out.exe->instance.fn;
        std::string why = misplaced(fn.elem(fn.params[i].value), out.values[i].t);
        if (why.empty()) continue;
        diags.report(Diag::bad_tensor, at, {fn.params[i].name, std::move(why)});
        return Status::arguments;
    }
    if (follows_addresses(*out.exe->instance.fn))
        for (const TensorView& view : options.reachable) append_arguments(module.types(), view, out.values);
    return Status::ok;
}

Status Engine::launch(LoadedModule& module, const ast::KernelItem& kernel, const sema::StaticValues& generics, std::span<const LaunchArgument> args,
                      const LaunchOptions& options, DiagSink& diags, Span at, double* seconds) try {
    ReadyLaunch launch;
    if (Status status = ready(module, kernel, generics, args, options, diags, at, launch); status != Status::ok) return status;
    const Executable& exe = *launch.exe;
    const std::vector<Argument>& values = launch.values;
    const bool host = !options.machine || options.checked || !options.machine->is_gpu();
    if (host && !reachable_by_host(launch, options, at, diags)) return Status::arguments;
    if (!options.machine)
        return run(options.model ? exe.model(usual_options(exe.instance, *options.model, exe.disabled_passes)) : *exe.program, values, launch.grid,
                   options, cancelled_, diags, seconds);
    const bool own_checks = options.native_checks && !options.trap_floats && !options.machine->is_gpu();
    std::shared_ptr<const Executable> reference = launch.exe;
    if (options.compare && options.compare_elaborated && !options.machine->is_gpu())
        reference = compile(module, kernel, exe.generics, {"all"}, diags, nullptr, options.cancel ? options.cancel : &cancelled_);
    if (!reference) return Status::source;
    const Status status = options.compare || (options.checked && !own_checks)
                              ? run_compared(exe, *reference->program, values, launch.grid, options, seconds, diags)
                              : run(exe.on(*options.machine), values, launch.grid, options, cancelled_, diags, seconds);
    report_warning(*options.machine, diags);
    return status;
} catch (const Cancelled&) {
    diags.report(Diag::run_cancelled, at.valid() ? at : kernel.name.span);
    return Status::cancelled;
}

Status Engine::run_compared(const Executable& exe, const Program& interpreted, std::span<const Argument> values, std::span<const uint64_t, 3> grid,
                            const LaunchOptions& options, double* seconds, DiagSink& diags) {
    const Program& machine = exe.on(*options.machine);
    const bool comparable =
        (options.order_free || same_bits_everywhere(*exe.instance.fn)) &&
        std::none_of(values.begin(), values.end(), [](const Argument& a) { return a.kind != Argument::scalar && a.t.memory != Memory::host; });
    if (!comparable && !options.checked) return run(machine, values, grid, options, cancelled_, diags, seconds);
    const Snapshot before(values);
    const auto model = [&]() -> const Program& {
        GpuOptions form = options.machine->form_options(exe.instance, exe.disabled_passes, machine, values, options.stream);
        form.cancel = options.cancel;
        return exe.model(form);
    };
    const Program& reference = options.machine->is_gpu() ? model() : interpreted;
    KeptPrints said;
    LaunchOptions first = options;
    if (options.print) first.print = said.keeper();  // the machine prints, when it comes to that
    if (Status status = run(reference, values, grid, first, cancelled_, diags); status != Status::ok) return said.show(options.print), status;
    const Snapshot expected(values);
    before.restore(values);
    LaunchOptions second = options;
    second.checked = false;  // the code that is compared is the code that runs
    second.steps = nullptr;  // counted once
    bool printed = false;
    if (options.print) second.print = [&](std::string_view text) { printed = true, options.print(text); };
    if (Status status = run(machine, values, grid, second, cancelled_, diags, seconds); status != Status::ok) {
        if (!printed) said.show(options.print);  // what stops a GPU takes with it what was printed there
        return status;
    }
    if (!comparable) return Status::ok;
    bool equal = true;
    for (size_t i = 0; i < values.size(); ++i) {
        std::string difference = expected.difference(exe.instance.fn->types(), values, i);
        if (difference.empty()) continue;
        diags.report(Diag::machine_differs, exe.kernel->name.span, {options.machine->name(), argument_name(*exe.instance.fn, i), difference});
        equal = false;
    }
    return equal ? Status::ok : Status::mismatch;
}

std::optional<std::string> Engine::plan(LoadedModule& module, const ast::KernelItem& kernel, const sema::StaticValues& generics,
                                        std::span<const LaunchArgument> args, DiagSink& diags) {
    static constexpr const char* kModes[] = {"in", "out", "inout"};
    std::vector<const LaunchArgument*> ordered;
    auto bound = bind(module, kernel, generics, args, true, ordered, diags, {});
    if (!bound) return std::nullopt;
    std::string out = "{\"schema\":1,\"kernel\":" + json_quote(kernel.name.text) + ",\"generics\":{";
    const char* separator = "";
    for (const auto& [name, value] : bound->generics) {
        out += separator + json_quote(name) + ":" + json_quote(sema::to_string(value, module.types()));
        separator = ",";
    }
    out += "},\"extents\":{";
    separator = "";
    for (const auto& [name, value] : bound->extents) {
        out += separator + json_quote(name) + ":" + std::to_string(value);
        separator = ",";
    }
    out += "},\"grid\":[" + std::to_string(bound->grid[0]) + "," + std::to_string(bound->grid[1]) + "," + std::to_string(bound->grid[2]) +
           "],\"parameters\":[";
    for (size_t i = 0; i < bound->arguments.size(); ++i) {
        const sema::ArgumentType& a = bound->arguments[i];
        out += (i ? ",{" : "{") + ("\"name\":" + json_quote(kernel.params[i].name.text)) + ",\"mode\":\"" +
               kModes[static_cast<int>(kernel.params[i].mode)] + "\"";
        TensorSize size;
        const bool memory = a.kind == sema::ArgumentType::tensor || a.kind == sema::ArgumentType::pointer;
        if (memory && tensor_size(module.types(), a.elem, a.layout, a.extents, size, nullptr)) {
            out += ",\"type\":" + json_quote(module.types().format(a.elem).name) +
                   ",\"layout\":" + json_quote(module.types().layout(a.layout).name()) + ",\"extents\":[";
            for (int d = 0; d < a.extents.rank; ++d) out += (d ? "," : "") + std::to_string(a.extents[d]);
            out += "],\"bytes\":" + std::to_string(size.bytes) + ",\"scales_bytes\":" + std::to_string(size.scales_bytes);
        }
        out += "}";
    }
    return out + "]}\n";
}

}  // namespace tegula
