// Functions that emitted code calls (abi.h, Support), and the bookkeeping of a launch behind them. Nothing may be thrown into emitted code: whatever
// a callback of the host throws ends the run and is thrown again when all workers have left.
#include "jit/cpu/support.h"

#include <algorithm>
#include <cstring>

#include "jit/cpu/support_atomic.h"
#include "jit/cpu/support_checks.h"
#include "jit/cpu/support_order.h"
#include "lang/grid_order.h"
#include "lang/print_text.h"

namespace tegula::cpu {

namespace {

constexpr int64_t kLeastBatch = 16, kMostBatch = 4096;
constexpr int64_t kElementsPerTick = int64_t{1} << 13;  ///< 25 us of math, some 15 ms of products in the slowest formats
constexpr std::chrono::microseconds kShortTick{100}, kLongTick{1000}, kProgress{100000};

uint64_t container_code(const Format& f, const void* data, int64_t i) {
    const unsigned width = f.container_bytes();
    uint64_t code = 0;
    std::memcpy(&code, static_cast<const uint8_t*>(data) + i * width, width);
    return extend_code(f, code);
}

std::string element_text(const Format& f, bool pointer, const void* data, int64_t i, const PrintSpec& spec) {
    if (!pointer) return number_text(f, container_code(f, data, i), spec);
    uint64_t code = 0;
    std::memcpy(&code, static_cast<const uint8_t*>(data) + i * 8, 8);
    return pointer_text(code);
}

/// Runs `call`; what it throws becomes the failure of the launch.
template <class Call>
void guarded(State* state, Call&& call) noexcept {
    Worker& worker = Worker::of(state);
    try {
        call(worker);
    } catch (const std::bad_alloc&) {
        worker.end(RunResult::out_of_memory);
    } catch (...) {
        worker.launch().fail(std::current_exception());
    }
}

void on_tick(State* state, uint32_t inst, int64_t left) {
    guarded(state, [&](Worker& w) { w.tick(inst, left); });
}

void on_print(State* state, uint32_t inst, const void* const* operands) {
    guarded(state, [&](Worker& w) { w.print(inst, operands); });
}

void on_failed_assert(State* state, uint32_t inst, int64_t element) {
    guarded(state, [&](Worker& w) {
        const ir::Function& fn = *state->fn;
        const ir::Inst& i = fn.inst(ir::InstId{inst});
        const std::string& text = fn.strings[static_cast<size_t>(fn.attrs(i)[0])];
        const Shape& shape = fn.type(fn.operands(i)[0]).shape;
        w.report(inst, Diag::tile_assertion_failed, {text.empty() ? text : ": " + text}, shape.rank ? element : -1, &shape);
    });
}

const char* verb_of(ir::Op op) { return op == ir::Op::ptr_load ? "a read" : op == ir::Op::ptr_store ? "a write" : "an atomic"; }

void on_bad_pointer(State* state, uint32_t inst, int64_t lane, uint64_t pointer) {
    guarded(state, [&](Worker& w) {
        if (w.has_reported(inst, Diag::pointer_out_of_range)) return;
        const ir::Function& fn = *state->fn;
        const ir::Inst& i = fn.inst(ir::InstId{inst});
        const ir::ValueId pointers = fn.operands(i)[0];
        const Shape& shape = fn.type(pointers).shape;
        const std::span<const Argument> args = w.launch().args;
        const uint64_t argument = pointer >> 48;
        if (argument == 0 || argument > args.size() || args[argument - 1].kind == Argument::scalar)
            return w.report(inst, Diag::pointer_without_object, {verb_of(i.op)}, lane, &shape);
        const TensorArg& t = args[argument - 1].t;
        uint64_t reachable = (t.data ? t.bytes : 0) * 8 / fn.elem(pointers).bits;
        const bool named = argument <= fn.params.size();
        if (named && fn.type(fn.params[argument - 1].value).pointer)
            reachable = std::min(reachable, static_cast<uint64_t>(t.extents.rank ? t.extents[0] : 0));
        const int64_t element = pointer_element(pointer);
        w.report(inst, Diag::pointer_out_of_range,
                 {verb_of(i.op), std::to_string(element), named ? fn.params[argument - 1].name : unnamed_object(argument - 1, fn.params.size()),
                  std::to_string(reachable)},
                 lane, &shape);
    });
}

/// Where the launch's arguments lie, for addresses.
std::vector<Reach> objects_of(std::span<const Argument> args) {
    std::vector<Reach> out;
    for (const Argument& a : args)
        out.push_back(a.kind == Argument::scalar || !a.t.data ? Reach{} : Reach{static_cast<uint8_t*>(a.t.data), a.t.bytes});
    return out;
}

void on_convert_pointers(State* state, uint32_t inst, const uint64_t* in, uint64_t* out) {
    guarded(state, [&](Worker& w) {
        const ir::Function& fn = *state->fn;
        const ir::Inst& i = fn.inst(ir::InstId{inst});
        const ir::ValueId from = fn.operands(i)[0], to = fn.result(i);
        const bool made = i.op == ir::Op::ptr_at;
        const unsigned bits = fn.elem(made ? to : from).bits;
        const std::vector<Reach> objects = objects_of(w.launch().args);
        for (int64_t k = 0; k < fn.type(to).shape.elements(); ++k)
            out[k] = made ? pointer_to(in[k], bits, objects) : address_of(in[k], bits, objects);
    });
}

void on_outside(State* state, uint32_t inst, uint32_t param) {
    guarded(state, [&](Worker& w) {
        const TensorArg& t = w.launch().args[param].t;
        w.report(inst, Diag::outside_storage, {state->fn->params[param].name, std::to_string(t.data ? t.bytes : 0)});
    });
}

uint64_t on_atomic(State* state, uint32_t inst, uint8_t* data, uint64_t bit, uint64_t value, uint64_t expected) {
    return update_element(Worker::of(state).launch(), inst, data, bit, value, expected);
}

void on_sort(State* state, uint32_t inst, const void* in, void* values, int32_t* indices, int64_t wanted) {
    guarded(state, [&](Worker& w) { sort_tile(*state->fn, inst, in, values, indices, wanted, [&] { return w.tick(inst), w.stopped(); }); });
}

void on_histogram(State* state, uint32_t inst, const void* in, const uint8_t* mask, int32_t* counts) {
    guarded(state, [&](Worker& w) { count_tile(*state->fn, inst, in, mask, counts, [&] { return w.tick(inst), w.stopped(); }); });
}

void on_grid_barrier(State* state, uint32_t inst) {
    guarded(state, [&](Worker& w) { w.meet(inst); });
}

void on_failed_check(State* state, uint32_t inst, uint32_t failure, int64_t element, uint64_t code) {
    guarded(state, [&](Worker& w) { report_failure(w, inst, static_cast<Failure>(failure), element, code); });
}

void on_check_cast(State* state, uint32_t inst, int64_t element, uint64_t code, uint64_t random) {
    guarded(state, [&](Worker& w) { check_cast(w, inst, element, code, random); });
}

}  // namespace

const Support& support() {
    static constexpr Support kSupport{on_tick, on_print,     on_failed_assert, on_bad_pointer,  on_outside,    on_atomic,
                                      on_sort, on_histogram, on_grid_barrier,  on_failed_check, on_check_cast, on_convert_pointers};
    return kSupport;
}

// ---- Launch ----

bool Launch::end(RunResult::Status s) {
    uint8_t expected = RunResult::ok;
    const bool first = status.compare_exchange_strong(expected, s);
    request_stop();
    return first;
}

void Launch::fail(std::exception_ptr error) {
    {
        std::lock_guard lock(mutex);
        if (!failure) failure = std::move(error);
    }
    request_stop();
}

RunResult Launch::result() {
    RunResult out;
    out.status = static_cast<RunResult::Status>(status.load());
    out.steps = steps.load();
    out.diagnostics = std::move(reports);
    if (out.status == RunResult::ok) return out;
    ended.tile_bytes = scratch_bytes;
    if (auto why = end_of_run(fn, grid, options, out.status, ended)) out.diagnostics.push_back(std::move(*why));
    DiagSink sink;
    if (out.status == RunResult::out_of_time) sink.report(Diag::compile_budget_spent, fn.span, {fn.name, std::to_string(options.compile_budget)});
    for (Diagnostic& d : sink.take()) out.diagnostics.push_back(std::move(d));
    return out;
}

// ---- Worker ----

Worker::Worker(Launch& launch, bool leads)
    : launch_(launch), leads_(leads), instructions_(static_cast<int64_t>(launch.fn.block(launch.fn.body).insts.size())) {
    state_.stop = &stop_;
    state_.support = &support();
    state_.fn = &launch.fn;
    state_.owner = this;
    for (int d = 0; d < 3; ++d) program_[3 + d] = static_cast<int64_t>(launch.grid[d]);
    last_tick_ = last_progress_ = Clock::now();
    state_.elements_left = kElementsPerTick;
    take_steps();
}

Worker::~Worker() {
    launch_.steps.fetch_add(static_cast<uint64_t>(std::max<int64_t>(0, batch_ - state_.steps_left)), std::memory_order_relaxed);
    std::lock_guard lock(launch_.mutex);
    try {
        launch_.printed.insert(launch_.printed.end(), std::make_move_iterator(printed_.begin()), std::make_move_iterator(printed_.end()));
    } catch (const std::bad_alloc&) {
        launch_.end(RunResult::out_of_memory);
    }
}

bool Worker::end(RunResult::Status status, uint32_t inst, int64_t left) {
    if (!launch_.end(status)) return false;
    launch_.ended.at = ir::InstId{inst};
    if (running_)
        launch_.ended.program = {static_cast<uint64_t>(program_[0]), static_cast<uint64_t>(program_[1]), static_cast<uint64_t>(program_[2])};
    if (left < 0 || inst == UINT32_MAX) return true;
    const ir::InstId loop = launch_.fn.block(launch_.fn.inst(ir::InstId{inst}).parent).owner;
    if (loop.valid()) launch_.ended.trips_left[loop.v] = static_cast<uint64_t>(left);
    return true;
}

void Worker::take_steps(uint32_t inst, int64_t left) {
    if (const uint64_t budget = launch_.options.step_budget; budget) {
        const uint64_t taken = launch_.steps.load(std::memory_order_relaxed);
        if (taken > budget) end(RunResult::out_of_steps, inst, left);
        batch_ = std::clamp<int64_t>(static_cast<int64_t>(std::min<uint64_t>(budget - std::min(taken, budget), INT64_MAX)), 1, batch_);
    }
    state_.steps_left = batch_;
}

void Worker::tick(uint32_t inst, int64_t left) {
    launch_.steps.fetch_add(static_cast<uint64_t>(std::max<int64_t>(0, batch_ - state_.steps_left)), std::memory_order_relaxed);
    const bool at_back_edge = state_.steps_left < 0 && left != 0;  // behind the last trip of a `for` nothing goes back
    batch_ = std::max(batch_, kLeastBatch);
    const std::atomic<bool>* cancel = launch_.options.cancel;
    if (cancel && cancel->load(std::memory_order_relaxed)) end(RunResult::cancelled, inst, left);
    const Clock::time_point now = Clock::now();
    if (now - last_tick_ < kShortTick) batch_ = std::min(batch_ * 2, kMostBatch);
    if (now - last_tick_ > kLongTick) batch_ = std::max(batch_ / 4, kLeastBatch);
    last_tick_ = now;
    state_.elements_left = kElementsPerTick;
    take_steps(inst, left);
    if (leads_ && launch_.options.progress && now - last_progress_ >= kProgress) {
        last_progress_ = now;
        if (!launch_.options.progress(std::min(launch_.programs_done.load(std::memory_order_relaxed), launch_.total), launch_.total))
            end(RunResult::cancelled, inst, left);
    }
    if (stopped() || (has_failed() && at_back_edge)) stop_ = 1;
    if (has_failed()) leave_at_back_edge();
}

bool Worker::run(Entry entry, const uint64_t* block, uint8_t* scratch, uint64_t linear, uint64_t position) {
    linear_ = linear;
    running_ = true;
    position_ = position;
    if (!reported_.empty()) reported_.clear();
    stop_ = 0;
    program_[0] = static_cast<int64_t>(linear % launch_.grid[0]);
    program_[1] = static_cast<int64_t>(linear / launch_.grid[0] % launch_.grid[1]);
    program_[2] = static_cast<int64_t>(linear / launch_.grid[0] / launch_.grid[1]);
    state_.steps_left -= instructions_;
    if (state_.steps_left < 0) on_tick(&state_, UINT32_MAX, -1);
    if (stopped()) return false;
    entry(block, program_, scratch, &state_);
    return !stopped() && !has_failed();
}

void Worker::meet(uint32_t inst) {
    if (!launch_.meeting) return;
    const auto text = [&](uint64_t program) {
        const uint64_t x = launch_.grid[0], y = launch_.grid[1];
        return "(" + std::to_string(program % x) + ", " + std::to_string(program / x % y) + ", " + std::to_string(program / x / y) + ")";
    };
    uint64_t other = 0;
    const Meeting::Outcome outcome = launch_.meeting->meet(
        position_, inst, [&] { tick(inst); }, other);
    if (outcome == Meeting::met) return;
    if (outcome == Meeting::missed)
        report(inst, Diag::meeting_missed,
               {text(linear_), text(GridOrder(launch_.total, launch_.options.order_seed)(other)),
                launch_.meeting->has_ended(other) ? "has ended" : "waits at another one"});
    stop_ = 1;
}

void Worker::print(uint32_t inst, const void* const* operands) {
    const RunOptions& options = launch_.options;
    if (!options.print) return;
    const ir::Function& fn = launch_.fn;
    const ir::Inst& i = fn.inst(ir::InstId{inst});
    const auto value = [&](size_t at, const PrintSpec& spec) {
        const ir::ValueId v = fn.operands(i)[at];
        return tile_text(fn.type(v).shape, [&](int64_t e) { return element_text(fn.elem(v), fn.type(v).pointer, operands[at], e, spec); });
    };
    std::string text = filled_text(fn.strings[static_cast<size_t>(fn.attrs(i)[0])], fn.operands(i).size(), value);
    if (launch_.in_order) return options.print(text);
    if (launch_.printed_bytes.fetch_add(text.size() + sizeof(Printed), std::memory_order_relaxed) > kKeptPrintBytes) {
        if (end(RunResult::out_of_memory, inst)) launch_.ended.too_much_print();
        return;
    }
    printed_.push_back({position_, linear_, number_++, std::move(text)});
}

bool Worker::has_reported(uint32_t inst, Diag id) const {
    return std::find(reported_.begin(), reported_.end(), std::pair(inst, id)) != reported_.end();
}

void Worker::report(uint32_t inst, Diag id, std::initializer_list<std::string> args, int64_t element, const Shape* shape) {
    if (has_reported(inst, id)) return;
    reported_.emplace_back(inst, id);
    DiagSink sink(1);
    Diagnostic& d = sink.report(id, launch_.fn.inst(ir::InstId{inst}).span, args);
    d.notes.push_back("in program (" + std::to_string(program_[0]) + ", " + std::to_string(program_[1]) + ", " + std::to_string(program_[2]) + ")");
    if (element >= 0) d.notes.push_back("at element " + (shape ? point_text(element, *shape) : std::to_string(element)) + " of the tile");
    uint8_t expected = RunResult::ok;
    launch_.status.compare_exchange_strong(expected, RunResult::failed);
    leave_at_back_edge();
    std::lock_guard lock(launch_.mutex);
    const uint64_t failed = launch_.failed.load(std::memory_order_relaxed);
    if (position_ > failed) return;
    if (position_ < failed) launch_.reports.clear();
    launch_.failed.store(position_, std::memory_order_relaxed);
    if (launch_.reports.size() < launch_.options.max_errors) launch_.reports.push_back(std::move(d));
}

/// The next back edge of a loop of the program asks whether the run is over: so does the interpreter's, and both report the same.
void Worker::leave_at_back_edge() {
    launch_.steps.fetch_add(static_cast<uint64_t>(std::max<int64_t>(0, batch_ - state_.steps_left)), std::memory_order_relaxed);
    batch_ = state_.steps_left = 0;
}

}  // namespace tegula::cpu
