// Program: runs a plan over a grid, or once as an expression function. Programs go to workers in order or in a permuted order; what they
// print is handed over in program order; budgets and cancellation end every worker.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <new>
#include <thread>

#include "jit/interp/run.h"
#include "jit/interp/together.h"
#include "lang/grid_order.h"
#include "lang/program_order.h"
#include "lang/run_end.h"

namespace tegula::interp {

namespace {

constexpr uint64_t kMostCtas = 7;  ///< of a persistent form; how many there are follows from the seed, and is no matter to a right one

void store_params(Machine& m) {
    for (size_t i = 0; i < m.plan.params.size(); ++i) {
        const Tile& t = m.plan.params[i].tile;
        if (t.param < 0) set_code(t.width, m.at(t), 0, m.shared.scalars[i]);
    }
}

class Launch {
public:
    Launch(Shared& shared, uint64_t total) : shared_(shared), total_(total), order_(total, shared.options.order_seed) {
        ordered_ = shared.options.order_seed == 0 && !shared.parallel && !shared.plan.order.together;
    }

    void run(unsigned threads) {
        {
            std::vector<std::jthread> helpers;
            for (unsigned t = 1; t < threads; ++t) helpers.emplace_back([this] { guarded(false); });
            guarded(true);
        }
        std::sort(printed_.begin(), printed_.end(),
                  [](const Printed& a, const Printed& b) { return a.program != b.program ? a.program < b.program : a.number < b.number; });
        for (const Printed& p : printed_)
            if (p.position <= shared_.failed) shared_.options.print(p.text);
        if (failure_) std::rethrow_exception(failure_);
    }

private:
    void guarded(bool first) {
        std::vector<Printed> printed;
        try {
            work(first, printed);
        } catch (const std::bad_alloc&) {
            shared_.end(RunResult::out_of_memory);
        } catch (...) {
            std::lock_guard lock(mutex_);
            if (!failure_) failure_ = std::current_exception();
            shared_.stop.store(true);
        }
        std::lock_guard lock(mutex_);
        try {
            printed_.insert(printed_.end(), std::make_move_iterator(printed.begin()), std::make_move_iterator(printed.end()));
        } catch (const std::bad_alloc&) {
            shared_.end(RunResult::out_of_memory);
        }
    }

    void prepare(Machine& m, bool first, std::vector<Printed>& printed) {
        if (!ordered_) m.printed = &printed;
        store_params(m);
        if (first && shared_.options.progress)
            m.tick = [this, last = std::chrono::steady_clock::now()]() mutable {
                const auto now = std::chrono::steady_clock::now();
                if (now - last < std::chrono::milliseconds(100)) return true;
                last = now;
                return shared_.options.progress(std::min(next_.load(), total_), total_);
            };
    }

    void work(bool first, std::vector<Printed>& printed) {
        if (takes_turns(shared_.plan)) {
            Together(
                shared_, order_, total_, [&](Machine& m) { prepare(m, first, printed); }, next_)
                .run();
            return;
        }
        Machine m(shared_.plan, shared_);
        prepare(m, first, printed);
        try {
            run_programs(m);
        } catch (const std::bad_alloc&) {
            m.end(RunResult::out_of_memory);
        }
        shared_.steps_taken.fetch_sub(m.steps_left);
    }

    void run_programs(Machine& m) {
        if (!m.execute(0, shared_.plan.body)) return;
        for (uint64_t i = next_.fetch_add(1); i < total_; i = next_.fetch_add(1)) {
            m.run_program(order_(i), i);
            if (m.stopped || shared_.failed.load(std::memory_order_relaxed) <= i) return;
            if (m.tick && !m.tick()) m.end(RunResult::cancelled);
        }
    }

    Shared& shared_;
    uint64_t total_;
    GridOrder order_;
    bool ordered_;
    std::atomic<uint64_t> next_{0};
    std::mutex mutex_;
    std::vector<Printed> printed_;
    std::exception_ptr failure_;
};

RunResult result_of(Shared& shared) {
    RunResult r;
    r.status = static_cast<RunResult::Status>(shared.status.load());
    r.steps = shared.steps_taken.load();
    r.diagnostics = std::move(shared.errors);
    if (shared.ended.tile_bytes == 0) shared.ended.tile_bytes = shared.plan.arena_bytes;
    if (auto why = end_of_run(*shared.plan.fn, shared.grid, shared.options, r.status, shared.ended)) r.diagnostics.push_back(std::move(*why));
    return r;
}

class Prepared final : public Program {
public:
    explicit Prepared(const ir::Function& fn) : plan_(make_plan(fn)) {}

    RunResult run(std::span<const Argument> args, std::span<const uint64_t, 3> grid, const RunOptions& options) const override {
        Shared shared(*plan_, options);
        uint64_t total = 1;
        for (int d = 0; d < 3; ++d) {
            shared.grid[d] = grid[static_cast<size_t>(d)];
            TEGULA_CHECK(!__builtin_mul_overflow(total, shared.grid[d], &total), "the grid has more than 2^64 programs");
        }
        if (total == 0) return {};
        if (plan_->order.together && total > ir::kMostTogether) return not_resident(*plan_->fn, total, ir::kMostTogether);
        if (plan_->fn->gpu && plan_->fn->gpu->persistent) total = std::min(total, 1 + options.order_seed % kMostCtas);
        shared.ctas = total;
        shared.checked = options.checked;
        const unsigned threads =
            options.checked || takes_turns(*plan_) ? 1 : static_cast<unsigned>(std::min<uint64_t>(std::max(1u, options.threads), total));
        shared.parallel = threads > 1;
        if (!within_budget(shared)) return result_of(shared);
        try {
            make_views(shared, args);
            if (shared.checked && total > 1) make_shadows(shared);
        } catch (const std::bad_alloc&) {
            shared.end(RunResult::out_of_memory);
            return result_of(shared);
        }
        Launch(shared, total).run(threads);
        for (size_t i = 0; !shared.checked && i < args.size(); ++i)  // single elements are traced in checked mode only
            if (args[i].kind != Argument::scalar && (i >= plan_->params.size() || plan_->params[i].may_write) && args[i].t.initialised)
                std::memset(args[i].t.initialised, 1, args[i].t.bytes);
        return result_of(shared);
    }

    RunResult evaluate(std::span<const TileData> args, std::vector<TileData>& results, const RunOptions& options) const override {
        Shared shared(*plan_, options);
        shared.checked = options.checked;
        shared.scalars.resize(plan_->params.size());
        shared.views.resize(plan_->params.size());
        TEGULA_CHECK(args.size() == plan_->params.size(), "arguments do not match parameters");
        results.clear();
        if (!within_budget(shared)) return result_of(shared);
        try {
            Machine m(*plan_, shared);
            if (options.progress) m.tick = [&options] { return options.progress(0, 1); };
            for (size_t i = 0; i < args.size(); ++i) {
                const Tile& t = plan_->params[i].tile;
                TEGULA_CHECK(t.param < 0 && args[i].bytes.size() == static_cast<size_t>(t.n) * t.width, "argument of the wrong size");
                std::memcpy(m.at(t), args[i].bytes.data(), args[i].bytes.size());
            }
            if (m.execute(0, plan_->body)) m.run_program(0, 0);
            shared.steps_taken.fetch_sub(m.steps_left);
            if (shared.status == RunResult::ok || shared.status == RunResult::failed)
                for (const Tile& t : plan_->results) results.push_back(take(m, t));
        } catch (const std::bad_alloc&) {
            shared.end(RunResult::out_of_memory);
        }
        return result_of(shared);
    }

private:
    static bool within_budget(Shared& shared) {
        if (!shared.options.memory_budget || shared.plan.arena_bytes <= shared.options.memory_budget) return true;
        shared.end(RunResult::out_of_memory);
        return false;
    }
    static TileData take(Machine& m, const Tile& t) {
        TileData out;
        out.elem = t.elem;
        out.shape = t.shape;
        out.bytes.resize(static_cast<size_t>(t.shape.elements()) * t.width);
        const size_t step = t.splat ? 0 : t.width;
        if (step)
            std::memcpy(out.bytes.data(), m.at(t), out.bytes.size());
        else
            for (size_t i = 0; i < out.bytes.size(); i += t.width) std::memcpy(out.bytes.data() + i, m.at(t), t.width);
        return out;
    }
    std::unique_ptr<Plan> plan_;
};

}  // namespace

std::unique_ptr<Program> Program::prepare(const ir::Function& fn) { return std::make_unique<Prepared>(fn); }

}  // namespace tegula::interp
