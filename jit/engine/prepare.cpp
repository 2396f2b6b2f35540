// Launches with fixed arguments: on a GPU what the driver is given, elsewhere a run whose arguments are bound and that is over when launch() returns.
#include <mutex>

#include "jit/engine/engine.h"
#include "jit/engine/kept_prints.h"
#include "jit/engine/outcome.h"
#include "lang/cancel.h"

namespace tegula {

namespace {

/// What its runs print and report waits for collect().
class HostLaunch final : public PreparedLaunch {
public:
    /// `usual`: the options of every run, without callbacks. The executable owns what the launch refers to.
    HostLaunch(std::shared_ptr<const Executable> exe, RunOptions usual) : exe_(std::move(exe)), options_(std::move(usual)) {
        options_.print = [this](std::string_view line) {
            std::lock_guard lock(mutex_);
            said_.keep(std::string(line) + "\n");
        };
    }
    /// False, with what is in the way in `refused`: there is nothing to launch.
    bool bind(const Program& program, const ReadyLaunch& launch, const RunOptions& making, RunResult& refused) {
        bound_ = program.bind(launch.values, launch.grid, options_, making, refused);
        return bound_ != nullptr;
    }
    int launch(void* stream) const override try {
        if (stream) return kHasNoStreams;
        RunResult result = bound_->run();
        if (result.status == RunResult::ok && result.diagnostics.empty()) return 0;
        const RunResult::Status status = result.status;
        std::lock_guard lock(mutex_);
        if (reports_.size() < options_.max_errors)
            reports_.insert(reports_.end(), std::make_move_iterator(result.diagnostics.begin()), std::make_move_iterator(result.diagnostics.end()));
        return status == RunResult::ok ? 0 : status == RunResult::cancelled ? kCancelled : kFailed;
    } catch (const Cancelled&) {
        return kCancelled;
    } catch (...) {  // out of memory, or the host's executor
        std::lock_guard lock(mutex_);
        thrown_ = std::current_exception();
        return kFailed;
    }
    std::string error_text(int code) const override {
        return code == kCancelled ? "the engine was cancelled" : code == kHasNoStreams ? "the machine has no streams" : "the launch failed";
    }
    RunResult collect(void*, const RunOptions& options) const override {
        KeptPrints said;
        RunResult result;
        std::exception_ptr thrown;
        {
            std::lock_guard lock(mutex_);
            std::swap(said, said_);
            std::swap(result.diagnostics, reports_);
            std::swap(thrown, thrown_);
        }
        said.show(options.print);
        if (thrown) std::rethrow_exception(thrown);
        if (!result.diagnostics.empty()) result.status = RunResult::failed;
        return result;
    }
    int device() const override { return -1; }

private:
    const std::shared_ptr<const Executable> exe_;
    RunOptions options_;
    std::unique_ptr<const BoundRun> bound_;
    mutable std::mutex mutex_;
    mutable KeptPrints said_;
    mutable std::vector<Diagnostic> reports_;
    mutable std::exception_ptr thrown_;
};

}  // namespace

Status Engine::prepare_on_host(const ReadyLaunch& launch, const LaunchOptions& options, DiagSink& diags,
                               std::shared_ptr<const PreparedLaunch>& prepared) {
    const Executable& exe = *launch.exe;
    if (options.machine && options.checked && (!options.native_checks || options.trap_floats)) {
        diags.report(Diag::api_usage, {},
                     {"a prepared launch on cpu finds what native code sees itself: `checked` is 0 or 2, without `trap_floats`"});
        return Status::usage;
    }
    if (!reachable_by_host(launch, options, {}, diags)) return Status::arguments;
    RunOptions usual = options;
    usual.cancel = &cancelled_;
    usual.measure = false;
    auto made = std::make_shared<HostLaunch>(launch.exe, std::move(usual));
    const Program& program = options.machine ? exe.on(*options.machine)
                             : options.model ? exe.model(usual_options(exe.instance, *options.model, exe.disabled_passes))
                                             : *exe.program;
    RunResult refused;
    RunOptions making = options;  // while it is compiled
    making.progress = options.keep_going;
    if (!making.cancel) making.cancel = &cancelled_;
    const bool bound = made->bind(program, launch, making, refused);
    for (Diagnostic& d : refused.diagnostics) diags.add(std::move(d));
    if (options.machine) report_warning(*options.machine, diags);
    if (!bound) return status_of(refused);
    prepared = std::move(made);
    return Status::ok;
}

Status Engine::prepare(LoadedModule& module, const ast::KernelItem& kernel, const sema::StaticValues& generics, std::span<const LaunchArgument> args,
                       const LaunchOptions& options, DiagSink& diags, std::shared_ptr<const PreparedLaunch>& prepared) try {
    ReadyLaunch launch;
    if (Status status = ready(module, kernel, generics, args, options, diags, {}, launch); status != Status::ok) return status;
    if (!options.machine || !options.machine->is_gpu()) return prepare_on_host(launch, options, diags, prepared);
    for (size_t i = 0; i < launch.values.size(); ++i)
        if (launch.values[i].kind != Argument::scalar && launch.values[i].t.memory == Memory::host) {
            diags.report(Diag::bad_tensor, {},
                         {argument_name(*launch.exe->instance.fn, i), "it lies in host memory; a prepared launch needs device memory"});
            return Status::arguments;
        }
    std::string error;
    auto made = options.machine->prepare_launch(launch.exe->on(*options.machine), launch.values, launch.grid, options.stream,
                                                options.cancel ? options.cancel : &cancelled_, diags, error);
    report_warning(*options.machine, diags);
    if (!made) {
        diags.report(Diag::machine_unavailable, kernel.name.span, {options.machine->name(), error});
        return Status::unavailable;
    }
    // The executable owns what the launch refers to.
    prepared = std::shared_ptr<const PreparedLaunch>(made.release(), [keep = launch.exe](const PreparedLaunch* p) { delete p; });
    return Status::ok;
} catch (const Cancelled&) {
    diags.report(Diag::run_cancelled, kernel.name.span);
    return Status::cancelled;
}

}  // namespace tegula
