// Turns of programs (together.h), and how a program is found to wait: a pass of a loop after which everything is as it was before, its own values and
// memory alike, will be repeated until another program changes memory.
#include "jit/interp/together.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tegula::interp {

namespace {

constexpr uint64_t kAtATime = 4;          ///< programs, where a seed mixes them
constexpr uint64_t kLongTurn = 1 << 16;   ///< steps
constexpr uint64_t kShortTurn = 8;        ///< at most, where a seed mixes the programs
constexpr size_t kMostTold = 8;           ///< programs of which an error says where they wait
constexpr uint64_t kMostPolls = 1 << 22;  ///< passes of loops that count what they wait for, while nobody changes memory

std::string program_text(const Machine& m) {
    return "(" + std::to_string(m.program[0]) + ", " + std::to_string(m.program[1]) + ", " + std::to_string(m.program[2]) + ")";
}

}  // namespace

/// Behind a pass of a `while` loop.
void Machine::watch_loop() {
    if (watched.changes != shared.changes) {
        watched.changes = shared.changes;
        watched.passes = watched.polls = 0;
        return;
    }
    watched.polls += std::exchange(watched.polled, false);
    ++watched.passes;
    waiting = true;  // it may be for others
    const bool again = watched.pc == pc && watched.passes > 1 && std::memcmp(watched.values.data(), arena, plan.arena_bytes) == 0;
    watched.for_ever = again || watched.polls >= kMostPolls;
    if (again || (watched.passes & (watched.passes - 1)) != 0) return;
    watched.pc = pc;
    watched.values.assign(arena, arena + plan.arena_bytes);
}

Together::Together(Shared& shared, const GridOrder& order, uint64_t total, std::function<void(Machine&)> prepare, std::atomic<uint64_t>& done)
    : shared_(shared),
      order_(order),
      total_(total),
      end_(static_cast<uint32_t>(shared.plan.steps.size())),
      prepare_(std::move(prepare)),
      done_(done),
      random_{shared.options.order_seed} {
    shared.watches = true;
    places_.resize(std::min(total, shared.plan.order.together ? total : shared.options.order_seed ? kAtATime : 1));
}

Together::~Together() {
    for (const Place& p : places_)
        if (p.machine) shared_.steps_taken.fetch_sub(p.machine->steps_left);
}

bool Together::begin(Place& place) {
    if (!place.machine) {
        place.machine = std::make_unique<Machine>(shared_.plan, shared_);
        prepare_(*place.machine);
        if (!place.machine->execute(0, shared_.plan.body)) return false;
    }
    place.machine->begin_program(order_(begun_), begun_);
    ++begun_;
    return place.runs = true;
}

bool Together::can_go_on(const Machine& m) const { return !m.meets_at && (!m.watched.for_ever || m.watched.changes != shared_.changes); }

/// Whose turn it is; nobody: all that have begun wait.
Together::Place* Together::next() {
    const size_t n = places_.size(), from = shared_.options.order_seed ? random_.below(n) : last_;
    for (size_t i = 0; i < n; ++i) {
        Place& place = places_[(from + i) % n];
        if (!place.runs || !can_go_on(*place.machine)) continue;
        last_ = (from + i) % n;
        return &place;
    }
    return nullptr;
}

void Together::turn(Place& place) {
    Machine& m = *place.machine;
    m.watched.for_ever = false;
    m.advance(end_, shared_.options.order_seed ? 1 + random_.below(kShortTurn) : kLongTurn);
    if ((m.pc < end_ || m.meets_at) && !m.stopped) {
        last_ += m.waiting;
        return;
    }
    place.runs = false;
    ++shared_.changes;  // what waits for programs looks again
    done_.fetch_add(1, std::memory_order_relaxed);
    if (m.tick && !m.tick()) m.end(RunResult::cancelled);
}

void Together::run() {
    for (;;) {
        const bool failed = shared_.failed.load(std::memory_order_relaxed) != UINT64_MAX;
        for (Place& place : places_)
            if (!place.runs && !failed && begun_ < total_ && !begin(place)) return;
        if (shared_.stop.load(std::memory_order_relaxed)) return;
        if (Place* place = next()) {
            turn(*place);
            continue;
        }
        if (!failed && leave_meeting()) continue;
        const bool waits = std::any_of(places_.begin(), places_.end(), [](const Place& p) { return p.runs; });
        if (waits && !failed) report_standstill();
        return;
    }
}

/// Nobody can go on. Where all wait at one `grid_barrier`, what each has done comes before what any of them does from here on.
bool Together::leave_meeting() {
    const Info* at = places_[0].runs ? places_[0].machine->meets_at : nullptr;
    if (!at || !std::ranges::all_of(places_, [&](const Place& p) { return p.runs && p.machine->meets_at == at; })) return false;
    Clock all;
    for (const Place& p : places_) {
        p.machine->meets_at = nullptr;
        if (shared_.history) all.join(History::released(p.machine->strand));
    }
    for (const Place& p : places_) {
        if (!shared_.history) break;
        p.machine->strand.seen = all;
        shared_.history->go_on(p.machine->strand);
    }
    ++shared_.changes;
    return true;
}

/// The program waits at a `grid_barrier` to which another one does not come.
void Together::report_missed(Machine& m) {
    const Place& place = *std::ranges::find_if(places_, [&](const Place& p) { return !p.runs || p.machine->meets_at != m.meets_at; });
    const Machine& other = *place.machine;
    const char* what = !place.runs ? "has ended" : other.meets_at ? "waits at another one" : "waits for something else";
    report(m, *m.meets_at, Diag::meeting_missed, {program_text(m), program_text(other), what});
    if (place.runs && !shared_.errors.empty())
        shared_.errors.back().labels.push_back({other.running->info->span, "program " + program_text(other) + " is here"});
}

/// Of the program that comes first, with where the others stand.
void Together::report_standstill() {
    std::vector<Machine*> waiting;
    for (const Place& p : places_)
        if (p.runs) waiting.push_back(p.machine.get());
    std::ranges::sort(waiting, {}, [](const Machine* m) { return m->position; });
    const auto meets = std::ranges::find_if(waiting, [](const Machine* m) { return m->meets_at; });
    if (meets != waiting.end()) return report_missed(**meets);
    const auto at = [](const Machine* m) -> const Info& { return *m->running->info; };
    const uint64_t rest = total_ - begun_;
    std::string help;
    if (rest > 0)
        help = std::to_string(rest) + (rest == 1 ? " program has" : " programs have") +
               " not begun: no program may wait for one of which it does not know that it has begun; let programs take their numbers from a "
               "counter (`atomic_add`) instead of `program_id`, and wait for lower ones only";
    report(*waiting[0], at(waiting[0]), Diag::waits_for_ever, {program_text(*waiting[0])}, -1, nullptr, help);
    for (size_t i = 1; i < std::min(waiting.size(), kMostTold) && !shared_.errors.empty(); ++i)
        shared_.errors.back().labels.push_back({at(waiting[i]).span, "program " + program_text(*waiting[i]) + " waits here"});
}

}  // namespace tegula::interp
