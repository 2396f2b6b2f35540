// The run-time side of one launch: what emitted code calls back (abi.h, Support), budgets, cancellation, and what programs print and report.
#pragma once
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "jit/cpu/abi.h"
#include "jit/cpu/meeting.h"
#include "lang/run_end.h"
#include "lang/runtime.h"

namespace tegula::cpu {

struct Printed {
    uint64_t position, program, number;  ///< position: in the run's order; number: among the texts of one worker
    std::string text;
};

/// One run of a kernel over a grid, shared by its workers.
struct Launch {
    const ir::Function& fn;
    std::span<const Argument> args;
    const RunOptions& options;
    uint64_t grid[3];
    uint64_t total;
    uint64_t scratch_bytes = 0;  ///< of one worker
    RunEnd ended;                ///< what ran when the run was ended: written by who ended it
    bool parallel = false;
    bool in_order = false;  ///< one worker, programs in order: prints go out at once
    std::atomic<bool> stop{false};
    std::atomic<uint64_t> steps{0}, printed_bytes{0};
    std::atomic<uint8_t> status{RunResult::ok};
    std::atomic<uint64_t> programs_done{0};
    std::atomic<uint64_t> failed{UINT64_MAX};  ///< the first program in the run's order that reported an error: none behind it begins or goes on
    std::mutex memory;                         ///< atomics that no word holds
    Meeting* meeting = nullptr;                ///< of several programs that run together
    uint64_t too_few_threads = 0;              ///< threads that they got, where those are not enough

    std::mutex mutex;                 ///< guards the rest
    std::vector<Diagnostic> reports;  ///< of program `failed`, as it made them
    std::vector<Printed> printed;
    std::exception_ptr failure;

    Launch(const ir::Function& f, std::span<const Argument> a, std::span<const uint64_t, 3> g, const RunOptions& o)
        : fn(f), args(a), options(o), grid{g[0], g[1], g[2]}, total(g[0] * g[1] * g[2]) {}
    /// Ends the run with `status`. The first one wins: true, and its caller may write `ended`.
    bool end(RunResult::Status status);
    void request_stop() { stop.store(true, std::memory_order_relaxed); }
    bool stopped() const { return stop.load(std::memory_order_relaxed); }
    void fail(std::exception_ptr error);
    RunResult result();
};

/// One worker of a launch. `state` is what emitted code gets.
class Worker {
public:
    Worker(Launch& launch, bool leads);
    ~Worker();
    Worker(const Worker&) = delete;
    /// Runs program number `linear` of the grid, `position` in the run's order; false when the run is over for it and those behind it.
    bool run(Entry entry, const uint64_t* block, uint8_t* scratch, uint64_t linear, uint64_t position);

    // Called by the functions of Support.
    static Worker& of(State* state) { return *static_cast<Worker*>(state->owner); }
    Launch& launch() { return launch_; }
    void tick(uint32_t inst = UINT32_MAX, int64_t left = -1);
    /// Ends the run in this program, at instruction `inst`; `left` as in Support::tick. True: the caller may add to `ended` of the launch.
    bool end(RunResult::Status status, uint32_t inst = UINT32_MAX, int64_t left = -1);
    void print(uint32_t inst, const void* const* operands);
    void meet(uint32_t inst);
    void report(uint32_t inst, Diag id, std::initializer_list<std::string> args, int64_t element = -1, const Shape* shape = nullptr);
    /// Has this program reported that already? One report for each instruction and row: loops over lanes report every bad one.
    bool has_reported(uint32_t inst, Diag id) const;
    /// Is the run over for this program, wherever it is? One that failed itself goes on to its next back edge, or to its end.
    bool stopped() const { return launch_.stopped() || launch_.failed.load(std::memory_order_relaxed) < position_; }

private:
    using Clock = std::chrono::steady_clock;
    void take_steps(uint32_t inst = UINT32_MAX, int64_t left = -1);
    bool has_failed() const { return launch_.failed.load(std::memory_order_relaxed) == position_; }
    void leave_at_back_edge();
    Launch& launch_;
    State state_;
    const bool leads_;      ///< tells about progress
    bool running_ = false;  ///< a program has begun
    const int64_t instructions_;
    int64_t batch_ = 64;  ///< steps between two ticks
    int64_t program_[6];
    uint64_t linear_ = 0, position_ = 0, number_ = 0;
    uint32_t stop_ = 0;                                ///< what emitted code reads behind a tick
    std::vector<std::pair<uint32_t, Diag>> reported_;  ///< by this program
    Clock::time_point last_tick_, last_progress_;
    std::vector<Printed> printed_;
};

const Support& support();

}  // namespace tegula::cpu
