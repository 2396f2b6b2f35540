// cuda::Program: finds or makes the variant that a launch needs, binds the arguments, and runs.
#include "jit/cuda/program.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <set>

#include "jit/cuda/timing.h"
#include "lang/gpu/raster.h"
#include "lang/gpu/wide_access.h"
#include "lang/run_end.h"
#include "lang/view_arguments.h"

namespace tegula::cuda {

namespace {

/// Widths of rows that a kernel is compiled for. A program that brings more of them pays for these compilations and then runs the general form.
constexpr size_t kKnownExtents = 4;

/// Warnings come with the result of who made the variant.
using VariantResult = Result<std::shared_ptr<const Variant>>;

/// A variant being made or made: whoever comes first makes it, the others wait.
struct Slot {
    std::mutex mutex;
    std::shared_ptr<const Variant> variant;
};

/// Measures copies between the host and the device, where somebody wants to know: the stream is waited for before and behind them.
class CopyTime {
public:
    CopyTime(Driver& driver, CUstream stream, bool measures, double& seconds)
        : driver_(driver), stream_(stream), measures_(measures), seconds_(seconds) {}
    template <class Copy>
    CUresult timed(const Copy& copy) const {
        if (!measures_) return copy();
        CUresult code = driver_.cuStreamSynchronize(stream_);
        const auto start = std::chrono::steady_clock::now();
        if (code == kCudaSuccess) code = copy();
        if (code == kCudaSuccess) code = driver_.cuStreamSynchronize(stream_);
        seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        return code;
    }

private:
    Driver& driver_;
    CUstream stream_;
    bool measures_;
    double& seconds_;
};

class KernelProgram final : public Program {
public:
    KernelProgram(std::shared_ptr<Backend::State> state, const ir::Function& fn, Lower lower,
                  std::vector<size_t> row_extents, Spread spread, std::shared_ptr<const ir::Function> views)
        : state_(std::move(state)),
          fn_(fn),
          lower_(std::move(lower)),
          row_extents_(std::move(row_extents)),
          spread_(std::move(spread)),
          views_(std::move(views)),
          facts_(find_param_facts(fn)) {}

    RunResult run(std::span<const Argument> args, std::span<const uint64_t, 3> grid, const RunOptions& options) const override;
    Result<std::unique_ptr<PreparedLaunch>> prepare_launch(std::span<const Argument> args, std::span<const uint64_t, 3> grid, void* stream,
                                                           const std::atomic<bool>* cancel) const override;
    std::vector<GpuTensor> traits(std::span<const Argument> args, bool& may_alias) const override;

private:
    struct Place {
        int device = 0;
        CUcontext context = nullptr;
        std::string error;
    };
    /// A launch's arguments and where they lie, with those of views where this launch has them.
    struct All {
        std::vector<Argument> args;
        Addresses addresses;
    };
    Place find_place(std::span<const Argument> args, CUstream stream) const;
    /// The facts, with memory behind the arguments that only addresses lead to.
    ParamFacts facts_of(std::span<const Argument> args) const;
    All all_of(std::span<const Argument> args, const Staging& staging, std::span<const uint64_t, 3> grid) const;
    LaunchTraits traits_at(const Arch* arch, const All& all, std::span<const uint64_t, 3> grid) const;
    bool spreads(const Arch& arch, std::span<const Argument> args, std::span<const uint64_t, 3> grid) const;
    VariantResult variant(const Arch& arch, LaunchTraits traits, const std::atomic<bool>* cancel) const;
    VariantResult make_variant(const Arch& arch, LaunchTraits traits, const std::atomic<bool>* cancel) const;
    std::string run_at(const Place& place, std::span<const Argument> args, std::span<const uint64_t, 3> grid, const RunOptions& options,
                       RunResult& result) const;
    std::string finish(const BoundLaunch& launch, const Staging& staging, const CopyTime& copies, std::span<const Argument> args,
                       const RunOptions& options, RunResult& result) const;

    std::shared_ptr<Backend::State> state_;
    const ir::Function& fn_;
    Lower lower_;
    std::vector<size_t> row_extents_;
    Spread spread_;
    std::shared_ptr<const ir::Function> views_;
    mutable std::map<std::vector<uint64_t>, bool> spreads_;  ///< what it has said, by architecture, grid and scalars
    ParamFacts facts_;
    mutable std::mutex mutex_;
    mutable std::set<std::vector<std::pair<size_t, int64_t>>> known_extents_;  ///< that variants are made for
    mutable std::map<std::string, std::shared_ptr<Slot>> slots_;
};

void add_error(RunResult& result, const std::string& text) {
    DiagSink sink(1);
    result.status = RunResult::failed;
    result.diagnostics.push_back(sink.report(Diag::device_error, {}, {text}));
}

/// Nothing runs: two arguments have no copy on the device in which all their elements are where GPUs access them.
void refuse(RunResult& result, const ir::Function& fn, std::span<const Argument> args, Staging::Conflict of) {
    const auto [low, high] = of;
    TEGULA_CHECK(low < fn.params.size() && high < fn.params.size(), "memory without elements is aligned everywhere");
    const auto named = [&](size_t i) { return "`" + fn.elem(fn.params[i].value).name + "`"; };
    const uint64_t apart = reinterpret_cast<uint64_t>(args[high].t.data) - reinterpret_cast<uint64_t>(args[low].t.data);
    const unsigned alignment = std::min(element_alignment(fn.elem(fn.params[low].value)), element_alignment(fn.elem(fn.params[high].value)));
    DiagSink sink(1);
    result.status = RunResult::failed;
    result.diagnostics.push_back(sink.report(
        Diag::bad_tensor, {},
        {fn.params[high].name, "it begins " + std::to_string(apart) + (apart == 1 ? " byte behind `" : " bytes behind `") + fn.params[low].name +
                                   "`, in memory that they share and the kernel writes; on a GPU the elements of both, of " + named(low) + " and " +
                                   named(high) + ", can be accessed together only where they are multiples of " + std::to_string(alignment) +
                                   " bytes apart. Let them begin so, or run on the CPU"}));
}

/// What a GPU was at is not known: `kernel` is where the kernel is declared.
void add_cancelled(RunResult& result, Span kernel) {
    DiagSink sink(1);
    result.status = RunResult::cancelled;
    result.diagnostics.push_back(sink.report(Diag::run_cancelled, kernel));
}

// ---- variants ----

VariantResult KernelProgram::make_variant(const Arch& arch, LaunchTraits traits, const std::atomic<bool>* cancel) const {
    VariantResult result;
    auto out = std::make_shared<Variant>();
    Lowered lowered = lower_(arch, traits, cancel);
    out->fn = std::move(lowered.form);
    out->text = std::move(lowered.text);
    out->traits = std::move(traits.tensors);
    CompileOptions options = state_->options.compile;
    options.cancel = cancel;
    Result<CompiledKernel> compiled = state_->compile(out->text, arch, options);
    result.error = std::move(compiled.error);
    if (!compiled) return result;
    Driver& driver = *state_->driver();
    out->loaded = std::make_unique<Loaded>(driver);
    CaptureScope capture(driver);
    const char* call = "cuLibraryLoadData";
    CUresult code = driver.cuLibraryLoadData(&out->loaded->library, compiled->image.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0);
    if (code == kCudaSuccess) {
        call = "cuLibraryGetKernel";
        code = driver.cuLibraryGetKernel(&out->loaded->kernel, out->loaded->library, out->text.entry.c_str());
    }
    result.error = driver.error(call, code);
    if (code != kCudaSuccess) return result;
    result.warnings = warnings_of(*compiled, *out->fn, arch);
    result.value = std::move(out);
    return result;
}

VariantResult KernelProgram::variant(const Arch& arch, LaunchTraits traits, const std::atomic<bool>* cancel) const {
    std::string key = std::string(arch.name) + (traits.may_alias ? "+" : "-") + (traits.whole_clusters ? "w" : "p") + (traits.spread ? "s" : "t");
    for (const GpuTensor& t : traits.tensors) key += t.code();
    std::shared_ptr<Slot> slot;
    {
        std::lock_guard lock(mutex_);
        if (known_extents_.size() < kKnownExtents) known_extents_.insert(traits.extents);
        if (!known_extents_.contains(traits.extents)) traits.extents.clear();
        for (const auto& [param, value] : traits.extents) key += " " + std::to_string(param) + "=" + std::to_string(value);
        std::shared_ptr<Slot>& entry = slots_[key];
        if (!entry) entry = std::make_shared<Slot>();
        slot = entry;
    }
    std::lock_guard lock(slot->mutex);  // who has it ends by the same flag of the host
    if (slot->variant) return {slot->variant, {}};
    poll(cancel);
    VariantResult made = make_variant(arch, std::move(traits), cancel);
    if (made) slot->variant = *made;
    return made;
}

// ---- where and with what ----

bool KernelProgram::spreads(const Arch& arch, std::span<const Argument> args, std::span<const uint64_t, 3> grid) const {
    constexpr size_t kMany = 1000;
    std::vector<uint64_t> key(grid.begin(), grid.end());
    key.push_back(reinterpret_cast<uintptr_t>(&arch));
    for (const Argument& a : args) key.push_back(a.kind == Argument::scalar ? a.code : 0);
    {
        std::lock_guard lock(mutex_);
        if (const auto it = spreads_.find(key); it != spreads_.end()) return it->second;
    }
    const bool found = spread_(arch, args, grid);
    std::lock_guard lock(mutex_);
    if (spreads_.size() == kMany) spreads_.clear();
    return spreads_[std::move(key)] = found;
}

ParamFacts KernelProgram::facts_of(std::span<const Argument> args) const {
    ParamFacts out = facts_;
    out.written.resize(args.size(), facts_.writes_anywhere);
    out.alignment.resize(args.size(), 1);
    return out;
}

KernelProgram::All KernelProgram::all_of(std::span<const Argument> args, const Staging& staging, std::span<const uint64_t, 3> grid) const {
    const size_t named = fn_.params.size();
    TEGULA_CHECK(args.size() >= named, "arguments do not match parameters");
    All all;
    if (auto more = views_ ? with_views(*views_, args.first(named), grid) : std::nullopt)
        all.args = std::move(*more);
    else
        all.args.assign(args.begin(), args.begin() + static_cast<std::ptrdiff_t>(named));
    for (size_t i = 0; i < named; ++i) all.addresses.push_back(staging.address(args, i));
    for (size_t i = named; i < all.args.size(); ++i) {
        const size_t of = views_->params[i].view->of;
        const uint64_t behind = reinterpret_cast<uint64_t>(all.args[i].t.data) - reinterpret_cast<uint64_t>(args[of].t.data);
        all.addresses.push_back(all.addresses[of] ? all.addresses[of] + behind : 0);
    }
    return all;
}

LaunchTraits KernelProgram::traits_at(const Arch* arch, const All& all, std::span<const uint64_t, 3> grid) const {
    const ir::Function& fn = all.args.size() > fn_.params.size() ? *views_ : fn_;
    const std::span<const Argument> own = std::span(all.args).first(fn_.params.size());
    LaunchTraits out;
    out.tensors.resize(all.args.size());
    for (size_t i = 0; i < all.args.size(); ++i)
        if (fn.type(fn.params[i].value).kind == Type::tensor) out.tensors[i] = tensor_trait(fn, i, all.args[i].t, all.addresses[i]);
    for (const size_t p : row_extents_) out.extents.emplace_back(p, static_cast<int64_t>(own[p].code));
    out.may_alias = find_alias(facts_, own, all.addresses);
    if (spread_ && arch) out.spread = spreads(*arch, own, grid);
    out.whole_clusters = has_whole_clusters(wanted_cluster(fn_), grid);
    return out;
}

std::vector<GpuTensor> KernelProgram::traits(std::span<const Argument> args, bool& may_alias) const {
    Staging staging(*state_->driver(), nullptr, nullptr);
    staging.plan(args, facts_of(args));
    static constexpr uint64_t kOne[3] = {1, 1, 1};  // which tensors are where does not depend on the grid
    LaunchTraits found = traits_at(nullptr, all_of(args, staging, kOne), kOne);
    may_alias = found.may_alias;
    return std::move(found.tensors);
}

KernelProgram::Place KernelProgram::find_place(std::span<const Argument> args, CUstream stream) const {
    Place place;
    Driver& driver = *state_->driver();
    int named = -1;
    for (const Argument& a : args) {
        if (a.kind == Argument::scalar || a.t.memory != Memory::cuda || !a.t.data) continue;
        if (named >= 0 && named != a.t.device) return place.error = "the tensors lie on several devices", place;
        named = a.t.device;
    }
    const char* call = "cuStreamGetCtx";
    CUresult code = driver.find_context(stream, &place.context, &place.device);
    if (place.context) {
        if (code == kCudaSuccess && named >= 0 && named != place.device)
            return place.error =
                       "the stream belongs to device " + std::to_string(place.device) + ", the tensors lie on device " + std::to_string(named),
                   place;
    } else if (code == kCudaSuccess) {
        place.device = std::max(named, 0);
        call = "cuDevicePrimaryCtxRetain";
        if (!driver.device(place.device)) return place.error = "there is no device " + std::to_string(place.device), place;
        code = driver.primary_context(place.device, &place.context);
    }
    place.error = driver.error(call, code);
    const DeviceInfo* info = driver.device(place.device);
    if (place.error.empty() && (!info || !info->arch))
        place.error = "device " + std::to_string(place.device) + " is of an architecture that is not supported";
    return place;
}

// ---- running ----

RunResult KernelProgram::run(std::span<const Argument> args, std::span<const uint64_t, 3> grid, const RunOptions& options) const {
    RunResult result;
    if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0) return result;
    const Place place = find_place(args, static_cast<CUstream>(options.stream));
    try {
        const std::string error = place.error.empty() ? run_at(place, args, grid, options, result) : place.error;
        if (!error.empty()) add_error(result, error);
    } catch (const Cancelled&) {
        add_cancelled(result, fn_.span);
    }
    return result;
}

std::string KernelProgram::run_at(const Place& place, std::span<const Argument> args, std::span<const uint64_t, 3> grid, const RunOptions& options,
                                  RunResult& result) const {
    Driver& driver = *state_->driver();
    const CUstream stream = static_cast<CUstream>(options.stream);
    ContextScope scope(driver, place.context);
    if (scope.code() != kCudaSuccess) return driver.error("cuCtxPushCurrent", scope.code());
    int capturing = 0;
    if (const CUresult code = driver.cuStreamIsCapturing(stream, &capturing); code != kCudaSuccess) return driver.error("cuStreamIsCapturing", code);

    Staging staging(driver, driver.pool(place.device), stream);
    const ParamFacts facts = facts_of(args);
    if (const auto conflict = staging.plan(args, facts)) return refuse(result, fn_, args, *conflict), std::string();
    const Arch& arch = *driver.device(place.device)->arch;
    VariantResult found = variant(arch, traits_at(&arch, all_of(args, staging, grid), grid), options.cancel);
    result.diagnostics = std::move(found.warnings);
    poll(options.cancel);
    if (!found) return found.error;
    if (options.compile_only) return {};
    const bool listen = facts_.reports.asserts || (facts_.reports.prints && options.print);
    const bool works = (*found)->text.workspace_bytes > 0 || (*found)->text.meeting_words > 0 || BoundLaunch::split_of(**found, args, grid) > 1;
    if (capturing && (!staging.empty() || listen || works))
        return "the stream is being captured, and this launch copies, allocates or reports: prepare it before the capture";

    const CopyTime copies(driver, stream, options.measure && !capturing && !staging.empty(), result.copy_seconds);
    if (const CUresult code = copies.timed([&] { return staging.upload(); }); code != kCudaSuccess)
        return driver.error("copying arguments to the device", code);
    std::vector<std::vector<uint64_t>> tables(facts.tables.size());  // until the launch has begun, which copies them
    for (size_t k = 0; k < tables.size(); ++k)
        if (const CUresult code = staging.translate(args, facts.tables[k], tables[k]); code != kCudaSuccess)
            return driver.error("copying addresses to the device", code);
    BoundLaunch launch;
    BoundLaunch::Setup setup{state_, *found, place.device, place.context, stream, driver.pool(place.device), listen};
    All all = all_of(args, staging, grid);
    for (const size_t i : facts.addresses) all.args[i].code = staging.translated(all.args[i].code);
    if (std::string error = launch.bind(std::move(setup), all.args, all.addresses, grid); !error.empty()) {
        if (launch.most_programs() == 0) return error;
        return result = not_resident(fn_, grid[0] * grid[1] * grid[2], launch.most_programs()), std::string();
    }
    CUresult code = kCudaSuccess;
    const auto enqueue = [&](CUstream on) { return (code = launch.launch_all(on, options.cancel)) == kCudaSuccess; };
    if (options.measure && !capturing)
        result.seconds = std::max(Stopwatch(driver, stream).once(enqueue), 0.0);
    else
        enqueue(stream);
    if (code != kCudaSuccess) return launch.error_text(code);
    if (is_set(options.cancel)) add_cancelled(result, fn_.span);
    return staging.empty() && !launch.has_report() ? std::string() : finish(launch, staging, copies, args, options, result);
}

std::string KernelProgram::finish(const BoundLaunch& launch, const Staging& staging, const CopyTime& copies, std::span<const Argument> args,
                                  const RunOptions& options, RunResult& result) const {
    const Driver& driver = *state_->driver();
    if (const CUresult code = copies.timed([&] { return staging.download(args, facts_of(args).written); }); code != kCudaSuccess)
        return driver.error("copying results to the host", code);
    RunResult reported = launch.collect(options.stream, options);  // waits
    if (reported.status != RunResult::ok && result.status == RunResult::ok) result.status = reported.status;
    for (Diagnostic& d : reported.diagnostics) result.diagnostics.push_back(std::move(d));
    for (size_t i = 0; i < args.size(); ++i)  // a GPU does not trace single elements
        if (args[i].kind != Argument::scalar && (i >= facts_.written.size() || facts_.written[i]) && args[i].t.initialised)
            std::memset(args[i].t.initialised, 1, args[i].t.bytes);
    return {};
}

Result<std::unique_ptr<PreparedLaunch>> KernelProgram::prepare_launch(std::span<const Argument> args, std::span<const uint64_t, 3> grid, void* stream,
                                                                      const std::atomic<bool>* cancel) const {
    Result<std::unique_ptr<PreparedLaunch>> out;
    Driver& driver = *state_->driver();
    const Place place = find_place(args, static_cast<CUstream>(stream));
    if (!place.error.empty()) {
        out.error = place.error;
        return out;
    }
    ContextScope scope(driver, place.context);
    if (scope.code() != kCudaSuccess) {
        out.error = driver.error("cuCtxPushCurrent", scope.code());
        return out;
    }
    Staging staging(driver, nullptr, nullptr);
    if (staging.plan(args, facts_of(args)) || !staging.empty()) {
        out.error = "a prepared launch takes tensors in device memory only";
        return out;
    }
    const All all = all_of(args, staging, grid);
    const Arch& arch = *driver.device(place.device)->arch;
    VariantResult found = variant(arch, traits_at(&arch, all, grid), cancel);
    out.warnings = std::move(found.warnings);
    if (!found) {
        out.error = found.error;
        return out;
    }
    auto launch = std::make_unique<BoundLaunch>();
    // Not on the caller's stream, which may be captured, nor on the default one, which waits for others.
    const CUstream own = reinterpret_cast<CUstream>(kPerThreadStream);
    BoundLaunch::Setup setup{state_, *found, place.device, place.context, own, nullptr, true};
    out.error = launch->bind(std::move(setup), all.args, all.addresses, grid);
    if (out.error.empty()) out.value = std::move(launch);
    return out;
}

}  // namespace

Loaded::~Loaded() {
    CaptureScope capture(driver);
    if (library) driver.cuLibraryUnload(library);
}

std::unique_ptr<Program> make_program(std::shared_ptr<Backend::State> state, const ir::Function& fn, Lower lower,
                                      std::vector<size_t> row_extents, Spread spread, std::shared_ptr<const ir::Function> views) {
    return std::make_unique<KernelProgram>(std::move(state), fn, std::move(lower), std::move(row_extents), std::move(spread),
                                           std::move(views));
}

}  // namespace tegula::cuda
