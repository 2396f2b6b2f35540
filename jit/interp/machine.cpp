// One worker: the step loop with its budgets, scratch memory, and the reporting of run-time errors (machine.h).
#include "jit/interp/machine.h"

#include <algorithm>
#include <cstring>

#include "jit/interp/channels.h"
#include "lang/print_text.h"

namespace tegula::interp {

namespace {
constexpr uint64_t kStepBatch = 256;  ///< steps taken from the common budget at once
}

void Shared::end(RunResult::Status s) {
    uint8_t expected = RunResult::ok;
    status.compare_exchange_strong(expected, s);
    stop.store(true, std::memory_order_relaxed);
}

Machine::Machine(const Plan& p, Shared& s) : plan(p), shared(s) {
    if (p.rings) {
        rings = std::make_shared<Rings>();
        rings->rings.resize(p.rings);
    }
    storage.reset(new uint8_t[p.arena_bytes + 64]);
    arena = reinterpret_cast<uint8_t*>((reinterpret_cast<uintptr_t>(storage.get()) + 63) & ~uintptr_t{63});
}

uint8_t* Machine::buffer(int which, uint64_t bytes) {
    std::vector<uint8_t>& b = scratch[which];
    if (b.size() < bytes) {
        scratch_bytes += bytes - b.size();
        b = {};
        b.resize(bytes);
        const uint64_t budget = shared.options.memory_budget;
        if (budget && plan.arena_bytes + scratch_bytes > budget) shared.end(RunResult::out_of_memory);
    }
    return b.data();
}

bool Machine::poll() {
    if (tick && (++polls & 15) == 0) tick();
    const std::atomic<bool>* cancel = shared.options.cancel;
    if (cancel && cancel->load(std::memory_order_relaxed)) shared.end(RunResult::cancelled);
    if (shared.stop.load(std::memory_order_relaxed)) stopped = true;
    return stopped;
}

bool Machine::take_steps() {
    const uint64_t budget = shared.options.step_budget;
    const uint64_t want = budget ? std::min<uint64_t>(kStepBatch, budget) : kStepBatch;
    const uint64_t before = shared.steps_taken.fetch_add(want, std::memory_order_relaxed);
    steps_left = want;
    if (budget && before + want > budget) {
        steps_left = before < budget ? budget - before : 0;
        shared.steps_taken.fetch_sub(want - steps_left, std::memory_order_relaxed);
        if (steps_left == 0) {
            shared.end(RunResult::out_of_steps);
            stopped = true;
            return false;
        }
    }
    return true;
}

/// The body of the hot loop.
[[gnu::always_inline]] inline bool Machine::run_step(bool checked, bool traps) {
    if (poll()) return false;
    if (steps_left == 0 && !take_steps()) return false;
    --steps_left;
    const Step& s = plan.steps[pc++];
    if (checked) check_division(*this, *s.info);
    if (traps) watch_floats(*this, *s.info);
    s.run(*this, s);
    if (traps) check_floats(*this, *s.info);
    return true;
}

bool Machine::execute(uint32_t begin, uint32_t end) {
    const uint32_t back = pc;
    pc = begin;
    const bool checked = shared.checked, traps = checked && shared.options.trap_floats;
    while (pc < end)
        if (!run_step(checked, traps)) return false;
    pc = back;
    return !stopped;
}

uint64_t Machine::advance(uint32_t end, uint64_t count) {
    const bool checked = shared.checked, traps = checked && shared.options.trap_floats;
    waiting = false;
    uint64_t done = 0;
    for (; pc < end && done < count; ++done)
        if (!run_step(checked, traps) || waiting) break;
    return done;
}

std::array<uint64_t, 3> program_of(uint64_t number, const uint64_t (&grid)[3]) {
    return {number % grid[0], number / grid[0] % grid[1], number / grid[0] / grid[1]};
}

void Machine::run_program(uint64_t index) {
    linear = index;
    std::ranges::copy(program_of(index, shared.grid), program);
    execute(plan.body, static_cast<uint32_t>(plan.steps.size()));
}

void report(Machine& m, const Info& info, Diag id, std::initializer_list<std::string> args, int64_t element, const Shape* shape) {
    Shared& s = m.shared;
    std::lock_guard lock(s.errors_mutex);
    if (s.errors.size() >= s.options.max_errors || !s.reported.emplace(info.id.v, static_cast<uint16_t>(id)).second) return;
    DiagSink sink(1);
    Diagnostic& d = sink.report(id, info.span, args);
    if (m.plan.fn->is_kernel)
        d.notes.push_back("in program (" + std::to_string(m.program[0]) + ", " + std::to_string(m.program[1]) + ", " + std::to_string(m.program[2]) +
                          ")");
    if (element >= 0) d.notes.push_back("at element " + (shape ? point_text(element, *shape) : std::to_string(element)) + " of the tile");
    s.errors.push_back(d);
    uint8_t expected = RunResult::ok;
    s.status.compare_exchange_strong(expected, RunResult::failed);
    if (s.errors.size() >= s.options.max_errors) s.stop.store(true, std::memory_order_relaxed);
}

}  // namespace tegula::interp
