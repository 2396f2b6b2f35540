// One worker: the step loop with its budgets, scratch memory, and the reporting of run-time errors (machine.h).
#include "jit/interp/machine.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "jit/interp/channels.h"
#include "lang/print_text.h"

namespace tegula::interp {

namespace {
constexpr uint64_t kStepBatch = 256;  ///< steps taken from the common budget at once
}

bool Shared::end(RunResult::Status s) {
    uint8_t expected = RunResult::ok;
    const bool first = status.compare_exchange_strong(expected, s);
    stop.store(true, std::memory_order_relaxed);
    return first;
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
        if (budget && plan.arena_bytes + scratch_bytes > budget) end(RunResult::out_of_memory);
    }
    return b.data();
}

bool Machine::end(RunResult::Status status) {
    if (!shared.end(status)) return false;
    RunEnd& ended = shared.ended;
    ended.tile_bytes = plan.arena_bytes + scratch_bytes;
    const auto at = static_cast<uint32_t>(running ? running - plan.steps.data() : 0);
    if (!running || at < plan.body) return true;  // the prologue belongs to no program
    ended.at = running->info->id;
    ended.program = {program[0], program[1], program[2]};
    for (uint32_t next = at; next < plan.steps.size(); ++next) {  // the last steps of the loops around `at`
        const Step& s = plan.steps[next];
        if (s.run != step_for_next || s.target > at) continue;
        ended.trips_left[s.info->id.v] = scalar<uint64_t>(s.info->out[1]) - 1;
    }
    return true;
}

Cell* Machine::page_of(Shadow& shadow, uint64_t at, const std::string& name) {
    std::unique_ptr<Cell[]>& page = shadow.pages[at / Shadow::kPage];
    if (page) return page.get();
    const uint64_t cells = std::min(Shadow::kPage, shadow.cells - at / Shadow::kPage * Shadow::kPage);
    if (count_shadow(cells * sizeof(Cell), name)) page.reset(new (std::nothrow) Cell[cells]());
    return page.get();
}

bool Machine::count_shadow(uint64_t more, const std::string& name) {
    const uint64_t bytes = shared.shadow_bytes + more;
    if (bytes <= shared.shadow_limit) {
        shared.shadow_bytes = bytes;
        return true;
    }
    if (end(RunResult::out_of_memory)) {
        const bool budget = shared.options.memory_budget != 0;
        shared.ended.need = "the race shadow of `" + name + "` needs " + std::to_string(bytes) + " bytes";
        shared.ended.have = (budget ? "the budget of " : "this machine has for it: ") + std::to_string(shared.shadow_limit);
        shared.ended.help = "a checked run keeps 12 bytes for each element that programs touch: run it unchecked, or on a smaller tensor";
    }
    return false;
}

bool Machine::poll() {
    if (tick && (++polls & 15) == 0 && !tick()) end(RunResult::cancelled);
    const std::atomic<bool>* cancel = shared.options.cancel;
    if (cancel && cancel->load(std::memory_order_relaxed)) end(RunResult::cancelled);
    if (shared.stop.load(std::memory_order_relaxed) || shared.failed.load(std::memory_order_relaxed) < position) stopped = true;
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
            end(RunResult::out_of_steps);
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
    running = &s;
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

void Machine::begin_program(uint64_t index, uint64_t place) {
    linear = index;
    position = place;
    std::ranges::copy(program_of(index, shared.grid), program);
    if (shared.history) strand = shared.history->begin(linear);
    pc = plan.body;
    watched = {};
}

void Machine::run_program(uint64_t index, uint64_t place) {
    begin_program(index, place);
    execute(plan.body, static_cast<uint32_t>(plan.steps.size()));
}

void report(Machine& m, const Info& info, Diag id, std::initializer_list<std::string> args, int64_t element, const Shape* shape,
            const std::string& help) {
    Shared& s = m.shared;
    std::lock_guard lock(s.errors_mutex);
    const uint64_t failed = s.failed.load(std::memory_order_relaxed);
    if (m.position > failed) return;
    if (m.position < failed) s.errors.clear(), s.reported.clear();
    s.failed.store(m.position, std::memory_order_relaxed);
    if (s.errors.size() >= s.options.max_errors || !s.reported.emplace(info.id.v, static_cast<uint16_t>(id)).second) return;
    DiagSink sink(1);
    Diagnostic& d = sink.report(id, info.span, args);
    if (m.plan.fn->is_kernel)
        d.notes.push_back("in program (" + std::to_string(m.program[0]) + ", " + std::to_string(m.program[1]) + ", " + std::to_string(m.program[2]) +
                          ")");
    if (m.combining && id == Diag::tile_assertion_failed && (!shape || shape->rank == 0)) {
        for (std::string& note : combined_notes(m, std::clamp<int64_t>(element, 0, m.lanes - 1))) d.notes.push_back(std::move(note));
    } else if (element >= 0) {
        d.notes.push_back("at element " + (shape ? point_text(element, *shape) : std::to_string(element)) + " of the tile");
    }
    if (!help.empty()) d.notes.push_back(help);
    s.errors.push_back(d);
    uint8_t expected = RunResult::ok;
    s.status.compare_exchange_strong(expected, RunResult::failed);
}

}  // namespace tegula::interp
