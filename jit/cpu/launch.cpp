// Backend and its programs: finds or makes the variant that a launch needs, and runs it over the grid on the pool's threads.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <exception>
#include <thread>

#include "jit/cpu/arguments.h"
#include "jit/cpu/cache_size.h"
#include "jit/cpu/plan.h"
#include "jit/cpu/pool.h"
#include "jit/cpu/support.h"
#include "lang/cancel.h"
#include "lang/float_environment.h"
#include "lang/grid_order.h"
#include "lang/plain_text.h"
#include "lang/program_order.h"
#include "lang/tensor_strides.h"

namespace tegula::cpu {

namespace {

/// Stores past the caches are in no order with others: whoever learns that a worker is done sees what it wrote.
void finish_streams() {
#ifdef __x86_64__
    __builtin_ia32_sfence();
#endif
}

}  // namespace

struct Backend::State {
    State(std::shared_ptr<BlobCache> c, PoolOptions p, const SourceMap* l, const std::string& cpu, Log to)
        : cache(l ? nullptr : std::move(c)), lines(l), log(std::move(to)), compiler(cpu), pool(std::move(p)) {}
    const std::shared_ptr<BlobCache> cache;
    const SourceMap* const lines;
    const Log log;
    Compiler compiler;
    Pool pool;
    ScratchStore scratch;
    uint64_t cache_bytes() {  // asked for by the first launch that may stream: files are read
        std::call_once(cache_asked_, [this] { cache_bytes_ = last_level_cache_bytes(); });
        return cache_bytes_;
    }

private:
    std::once_flag cache_asked_;
    uint64_t cache_bytes_ = 0;
};

namespace {

/// A variant being made or made: whoever comes first makes it, the others wait.
struct Slot {
    std::timed_mutex mutex;
    std::shared_ptr<const LoadedCode> code;  ///< under the program's mutex_
};

class KernelProgram final : public Program {
public:
    KernelProgram(std::shared_ptr<Backend::State> state, const ir::Function& fn)
        : state_(std::move(state)),
          fn_(fn),
          written_(written_params(fn)),
          streamable_(streamable_params(fn)),
          together_(ir::program_order(fn).together) {}

    RunResult run(std::span<const Argument> args, std::span<const uint64_t, 3> grid, const RunOptions& options) const override;
    std::unique_ptr<const BoundRun> bind(std::span<const Argument> args, std::span<const uint64_t, 3> grid, const RunOptions& options,
                                         const RunOptions& making, RunResult& refused) const override;

    /// What runs with the same arguments and options have in common.
    struct Ready {
        std::shared_ptr<const LoadedCode> code;
        std::vector<uint64_t> block;  ///< as Entry takes it
        unsigned workers = 1;
    };
    /// Runs the grid, or ends as cancelled.
    RunResult execute(Launch& launch, const Ready& ready) const;
    const ir::Function& function() const { return fn_; }

private:
    /// The result of a launch that ends before a program runs.
    std::optional<RunResult> make_ready(Launch& launch, Ready& out) const;
    std::shared_ptr<const LoadedCode> variant(const CompileOptions& options, std::string& error) const;
    void run_grid(Launch& launch, const Ready& ready) const;
    void run_together(Launch& launch, const Ready& ready) const;

    std::shared_ptr<Backend::State> state_;
    const ir::Function& fn_;
    const std::vector<bool> written_, streamable_;  ///< by parameter
    const bool together_;                           ///< all programs run at the same time
    mutable std::mutex mutex_;
    mutable std::map<std::string, std::shared_ptr<Slot>> slots_;
};

// ---- variants ----

/// The scratch size travels in front of the object.
std::string packed(const ObjectCode& code) {
    std::string out(reinterpret_cast<const char*>(&code.scratch_bytes), sizeof code.scratch_bytes);
    return out + code.object;
}

bool unpack(const std::string& blob, ObjectCode& code) {
    if (blob.size() <= sizeof code.scratch_bytes) return false;
    std::memcpy(&code.scratch_bytes, blob.data(), sizeof code.scratch_bytes);
    code.object = blob.substr(sizeof code.scratch_bytes);
    return true;
}

Result<LoadedCode> make_code(Backend::State& state, const ir::Function& fn, const CompileOptions& options) {
    if (const std::string& problem = state.compiler.problem(); !problem.empty()) return {std::nullopt, problem};  // also of code that the cache has
    ObjectCode object;
    std::string key;
    if (state.cache) {
        key = object_key(fn, options, state.compiler.target());
        const auto blob = state.cache->find(key);
        if (blob && unpack(*blob, object))
            if (auto loaded = state.compiler.load(object)) return loaded;
    }
    const auto start = std::chrono::steady_clock::now();
    auto compiled = state.compiler.compile(fn, options);
    if (!compiled) return {std::nullopt, std::move(compiled.error)};
    if (state.log)
        state.log(LogLevel::info, "cpu: compiled `" + fn.name + "` for " + state.compiler.target().cpu + " in " +
                                      decimal_text(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count(), 3) +
                                      " ms");
    if (state.cache) state.cache->put(key, packed(*compiled));
    return state.compiler.load(*compiled, state.lines ? fn.name : std::string());
}

/// Is this thread compiling? A launch of its progress callback then compiles for itself: the compilation that it would wait for may wait for this
/// one.
static thread_local bool compiling = false;

struct Compiling {
    const bool nested = compiling;
    Compiling() { compiling = true; }
    ~Compiling() { compiling = nested; }
};

std::shared_ptr<const LoadedCode> KernelProgram::variant(const CompileOptions& options, std::string& error) const {
    std::string key{options.may_alias ? 'a' : '-', options.bounds ? 'b' : '-', options.checked ? 'c' : '-'};
    for (const TensorTrait& t : options.tensors) (key += static_cast<char>('0' + t.strided + 2 * t.streamed)) += static_cast<char>('1' + t.unit);
    std::shared_ptr<Slot> slot;
    {
        std::lock_guard lock(mutex_);
        std::shared_ptr<Slot>& entry = slots_[key];
        if (!entry) entry = std::make_shared<Slot>();
        slot = entry;
    }
    const auto finished = [&] {
        std::lock_guard lock(mutex_);
        return slot->code;
    };
    if (auto code = finished()) return code;
    std::unique_lock lock(slot->mutex, std::defer_lock);
    if (!compiling) {
        while (!lock.try_lock_for(std::chrono::milliseconds(10)))
            if (is_over(options.watch)) return nullptr;
        if (auto code = finished()) return code;
    }
    if (options.watch) options.watch->start();
    const Compiling now;
    auto made = make_code(*state_, fn_, options);
    if (!made) return error = std::move(made.error), nullptr;
    auto code = std::make_shared<const LoadedCode>(std::move(*made));
    std::lock_guard known(mutex_);
    return slot->code = std::move(code);
}

// ---- running ----

void KernelProgram::run_grid(Launch& launch, const Ready& ready) const {
    const LoadedCode& code = *ready.code;
    const GridOrder order(launch.total, launch.options.order_seed);
    Chunks chunks(launch.total, ready.workers);
    const bool counted = static_cast<bool>(launch.options.progress);  // only then: workers that count wait for each other
    const auto work = [&](unsigned number) {
        const DefaultFloats floats;  // threads of the host have their own
        try {
            const ScratchStore::Buffer scratch(state_->scratch, code.scratch_bytes);
            Worker worker(launch, number == 0);
            uint64_t begin = 0, end = 0;
            while (!launch.stopped() && chunks.take(number, begin, end)) {
                for (uint64_t i = begin; i < end && worker.run(code.entry, ready.block.data(), scratch.data(), order(i), i); ++i)
                    if (counted) launch.programs_done.fetch_add(1, std::memory_order_relaxed);
                // Programs before the first one that failed are still run: which error is reported does not depend on the threads.
                if (const uint64_t failed = launch.failed.load(std::memory_order_relaxed); failed != UINT64_MAX) chunks.end_at(failed + 1);
            }
            finish_streams();
        } catch (const std::bad_alloc&) {
            launch.end(RunResult::out_of_memory);
        } catch (...) {
            launch.fail(std::current_exception());
        }
    };
    if (ready.workers == 1)
        work(0);
    else
        state_->pool.run(ready.workers, std::ref(work));
}

/// Programs that wait for each other: a thread for each, whatever the pool has. None begins before all threads are there, so that a launch which is
/// refused has written nothing.
void KernelProgram::run_together(Launch& launch, const Ready& ready) const {
    const GridOrder order(launch.total, launch.options.order_seed);
    Meeting meeting(launch.total, [&] { return launch.stopped() || launch.failed.load(std::memory_order_relaxed) != UINT64_MAX; });
    launch.meeting = &meeting;
    enum Gate { closed, open, refused };
    std::atomic<Gate> gate{closed};
    const auto work = [&](uint64_t i) {
        gate.wait(closed);
        if (gate == refused) return;
        const DefaultFloats floats;
        try {
            const ScratchStore::Buffer scratch(state_->scratch, ready.code->scratch_bytes);
            Worker worker(launch, i == 0);
            worker.run(ready.code->entry, ready.block.data(), scratch.data(), order(i), i);
            launch.programs_done.fetch_add(1, std::memory_order_relaxed);
            finish_streams();
        } catch (const std::bad_alloc&) {
            launch.end(RunResult::out_of_memory);
        } catch (...) {
            launch.fail(std::current_exception());
        }
        meeting.leave(i);
    };
    std::vector<std::jthread> others;
    try {
        others.reserve(launch.total - 1);
        for (uint64_t i = 1; i < launch.total; ++i) others.emplace_back(work, i);
    } catch (const std::exception&) {
        launch.too_few_threads = others.size() + 1;
    }
    gate = launch.too_few_threads ? refused : open;
    gate.notify_all();
    work(0);
}

RunResult unavailable(const std::string& why) {
    DiagSink sink(1);
    RunResult result;
    result.status = RunResult::unavailable;
    result.diagnostics.push_back(sink.report(Diag::machine_unavailable, {}, {"cpu", why}));
    return result;
}

std::optional<RunResult> KernelProgram::make_ready(Launch& launch, Ready& out) const {
    const std::span<const Argument> args = launch.args;
    const RunOptions& options = launch.options;
    for (const Argument& a : args) TEGULA_CHECK(a.kind == Argument::scalar || a.t.memory == Memory::host, "a tensor in device memory");
    CompileOptions wanted = variant_options(fn_, written_, args);
    if (std::find(streamable_.begin(), streamable_.end(), true) != streamable_.end())
        mark_streamed(fn_, streamable_, args, state_->cache_bytes(), wanted);
    wanted.checked = options.checked;
    wanted.lines = state_->lines;
    if (is_set(options.cancel)) launch.end(RunResult::cancelled);
    if (launch.stopped()) return launch.result();
    std::string error;
    std::function<bool()> progress;
    if (options.progress) progress = [&] { return options.progress(0, launch.total); };
    Watch watch(options.cancel, options.compile_budget, std::move(progress));
    wanted.watch = &watch;
    out.code = variant(wanted, error);
    if (watch.thrown()) std::rethrow_exception(watch.thrown());
    if (!out.code && watch.budget_is_spent()) launch.end(RunResult::out_of_time);
    if (!out.code && !error.empty()) return unavailable(error);
    if (!out.code && !watch.budget_is_spent()) launch.end(RunResult::cancelled);
    if (!out.code) return launch.result();
    out.block = argument_block(fn_, wanted, args);
    out.workers = static_cast<unsigned>(std::min<uint64_t>(std::max(1u, options.threads), launch.total));
    if (together_ && launch.total > ir::kMostTogether) return not_resident(fn_, launch.total, ir::kMostTogether);
    if (together_) out.workers = static_cast<unsigned>(launch.total);
    launch.scratch_bytes = out.code->scratch_bytes;
    if (!options.memory_budget || out.code->scratch_bytes <= options.memory_budget) return std::nullopt;
    launch.end(RunResult::out_of_memory);
    return launch.result();
}

RunResult KernelProgram::execute(Launch& launch, const Ready& ready) const {
    const RunOptions& options = launch.options;
    if (is_set(options.cancel)) launch.end(RunResult::cancelled);  // small grids would be done before a worker looks
    if (launch.stopped()) return launch.result();
    launch.scratch_bytes = ready.code->scratch_bytes;
    launch.parallel = ready.workers > 1;
    launch.in_order = ready.workers == 1 && options.order_seed == 0;
    const auto start = options.measure ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point();
    if (together_ && launch.total > 1)
        run_together(launch, ready);
    else
        run_grid(launch, ready);
    if (launch.too_few_threads) return not_resident(fn_, launch.total, launch.too_few_threads);
    const double seconds = options.measure ? std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() : 0;
    std::sort(launch.printed.begin(), launch.printed.end(),
              [](const Printed& a, const Printed& b) { return a.program != b.program ? a.program < b.program : a.number < b.number; });
    for (const Printed& p : launch.printed)
        if (p.position <= launch.failed) options.print(p.text);
    if (launch.failure) std::rethrow_exception(launch.failure);
    for (size_t i = 0; i < launch.args.size(); ++i)  // emitted code does not trace single elements
        if (const TensorArg& t = launch.args[i].t; launch.args[i].kind != Argument::scalar && (i >= written_.size() || written_[i]) && t.initialised)
            std::memset(t.initialised, 1, t.bytes);
    RunResult result = launch.result();
    result.seconds = seconds;
    return result;
}

uint64_t programs_of(std::span<const uint64_t, 3> grid) {
    uint64_t total = 1;
    for (uint64_t n : grid) TEGULA_CHECK(!__builtin_mul_overflow(total, n, &total), "the grid has more than 2^64 programs");
    return total;
}

RunResult KernelProgram::run(std::span<const Argument> args, std::span<const uint64_t, 3> grid, const RunOptions& options) const {
    if (programs_of(grid) == 0) return {};
    Launch launch(fn_, args, grid, options);
    Ready ready;
    if (auto ended = make_ready(launch, ready)) return std::move(*ended);
    return options.compile_only ? RunResult() : execute(launch, ready);
}

/// A run whose code and argument block are there.
class Bound final : public BoundRun {
public:
    Bound(const KernelProgram& program, std::span<const Argument> args, std::span<const uint64_t, 3> grid, const RunOptions& options)
        : program_(program), args_(args.begin(), args.end()), grid_{grid[0], grid[1], grid[2]}, options_(options) {}
    RunResult run() const override {
        Launch now(program_.function(), args_, grid_, options_);
        return ready.code ? program_.execute(now, ready) : RunResult();
    }

    KernelProgram::Ready ready;  ///< no code: the grid is empty

private:
    const KernelProgram& program_;
    const std::vector<Argument> args_;
    const std::array<uint64_t, 3> grid_;
    const RunOptions options_;
};

std::unique_ptr<const BoundRun> KernelProgram::bind(std::span<const Argument> args, std::span<const uint64_t, 3> grid, const RunOptions& options,
                                                    const RunOptions& making, RunResult& refused) const {
    auto bound = std::make_unique<Bound>(*this, args, grid, options);
    if (programs_of(grid) == 0) return bound;
    Launch launch(fn_, args, grid, making);
    auto ended = make_ready(launch, bound->ready);
    if (!ended) return bound;
    refused = std::move(*ended);
    return nullptr;
}

}  // namespace

Backend::Backend(std::shared_ptr<BlobCache> cache, PoolOptions pool, const SourceMap* lines, const std::string& cpu, Log log)
    : state_(std::make_shared<State>(std::move(cache), std::move(pool), lines, cpu, std::move(log))) {}
Backend::~Backend() = default;

std::unique_ptr<Program> Backend::prepare(const ir::Function& fn) { return std::make_unique<KernelProgram>(state_, fn); }

Compiler& Backend::compiler() { return state_->compiler; }

}  // namespace tegula::cpu
