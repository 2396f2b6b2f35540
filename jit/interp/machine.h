// The running side: Shared is one run of a plan over a grid, Machine is one worker of it. Steps get a Machine and find everything there.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "jit/interp/history.h"
#include "jit/interp/plan.h"
#include "lang/layout.h"
#include "lang/pointer_code.h"
#include "lang/run_end.h"
#include "lang/runtime.h"

namespace tegula::interp {

/// Who touched an element, for the race check, by stretch (history.h); 0 for nobody.
struct Cell {
    uint32_t writer = 0;          ///< the last plain write
    uint32_t others[2] = {0, 0};  ///< reads and atomics since then
};
constexpr uint32_t kAtomicAccess = 0x80000000u;

/// Race shadow of one piece of storage; arguments that share memory share it. Cells are made in pages, when a program first touches one of them.
struct Shadow {
    static constexpr uint64_t kPage = 4096;  ///< cells
    const uint8_t* data = nullptr;
    unsigned unit = 8;   ///< bits per cell
    uint64_t cells = 0;  ///< of the whole storage
    std::vector<std::unique_ptr<Cell[]>> pages;
    std::unordered_map<uint64_t, std::vector<uint32_t>> more;  ///< by cell: reads and atomics that it has no room for
    std::unordered_map<uint64_t, Clock> released;              ///< by cell: what an acquire there finds
};

/// A tensor or pointer argument (or, for extract and deposit, a tile) as memory.
struct View {
    uint8_t* data = nullptr;
    uint64_t bytes = 0;
    const Format* format = nullptr;  ///< null: raw containers of `bits`
    unsigned bits = 8, width = 1;    ///< element in storage; container
    Shape extents{};
    bool affine = true, contained = true;  ///< contained: every in-range index lies inside the storage
    int64_t stride[kMaxRank] = {};         ///< bits
    std::shared_ptr<const BoundLayout> bound;
    uint8_t* initialised = nullptr;
    Shadow* shadow = nullptr;
    bool locked = false;  ///< sub-byte storage that several workers may write: whole accesses are serialised
    int param = -1;       ///< number of the argument
    bool is_pointer = false;  ///< a pointer reaches `extents[0]` elements of it
};

struct Shared {
    const Plan& plan;
    const RunOptions& options;
    uint64_t grid[3] = {1, 1, 1};
    uint64_t ctas = 1;              ///< of a persistent form: what counts as a program of the run
    std::vector<View> views;        ///< per parameter, then of memory that the launch names behind them
    std::vector<Reach> objects;     ///< the same, for pointers made from addresses
    std::vector<uint64_t> scalars;  ///< per parameter: code, or pointer value
    std::vector<std::unique_ptr<Shadow>> shadows;
    uint64_t shadow_bytes = 0, shadow_limit = 0;  ///< of the pages that were made; checked runs have one worker
    std::optional<History> history;               ///< with race shadows
    std::mutex memory;                            ///< atomics and sub-byte stores
    std::atomic<bool> stop{false};
    std::atomic<uint64_t> steps_taken{0};
    std::atomic<uint8_t> status{RunResult::ok};
    bool checked = false, parallel = false;
    bool watches = false;  ///< programs take turns, and loops are looked at for whether they wait (together.h)
    uint64_t changes = 0;  ///< then: how often memory may have changed, or a program has ended

    std::atomic<uint64_t> failed{UINT64_MAX};  ///< the first program in the run's order that reported an error: none behind it begins or goes on
    std::mutex errors_mutex;
    std::vector<Diagnostic> errors;                    ///< of program `failed`
    std::set<std::pair<uint32_t, uint16_t>> reported;  ///< instruction and row: one report each
    RunEnd ended;                                      ///< what ran when the run was ended

    Shared(const Plan& p, const RunOptions& o) : plan(p), options(o) {}
    /// Ends the run with `status`. The first one wins: true, and its caller may write `ended`.
    bool end(RunResult::Status status);
};

struct Printed {
    uint64_t position, program, number;  ///< position: in the run's order; number: among the texts of one worker
    std::string text;
};

/// What a program's loops do while nobody changes memory.
struct Watched {
    uint64_t changes = 0;  ///< Shared::changes at the last back edge
    uint64_t passes = 0, polls = 0;
    bool polled = false;    ///< in this pass: an atomic has been run
    bool for_ever = false;  ///< it repeats a pass for ever, as long as `changes` stays
    uint32_t pc = 0;        ///< of a back edge, and all values there
    std::vector<uint8_t> values;
};

struct Rings;  // channels.h

/// The elements that a combining function is at work on: of the right operands, in the tiles that are combined, one per lane.
struct Combining {
    const Info* info;
    const int64_t* elements;
};

struct Machine {
    const Plan& plan;
    Shared& shared;
    std::unique_ptr<uint8_t[]> storage;
    uint8_t* arena = nullptr;  ///< 64-byte aligned
    uint32_t pc = 0;
    int64_t lanes = 1;
    const Combining* combining = nullptr;  ///< null: no combining function runs
    uint64_t program[3] = {0, 0, 0};
    uint64_t linear = 0, position = 0;  ///< the program's number; its place in the run's order
    Strand strand;                      ///< where it stands among the others, with race shadows
    uint64_t steps_left = 0;            ///< of the batch taken from the budget
    const Step* running = nullptr;      ///< the last step that was begun
    bool stopped = false;
    bool waiting = false;          ///< the others shall go on: the step at `pc` could not run, or a loop may wait for what they do
    Watched watched;
    const Info* meets_at = nullptr;  ///< it waits at this `grid_barrier`
    std::shared_ptr<Rings> rings;  ///< programs in GPU form; both sides of `specialise` share it
    uint64_t scratch_bytes = 0;
    Chunks chunks;
    std::vector<uint8_t> scratch[6];
    std::vector<Printed>* printed = nullptr;  ///< null: print at once
    uint64_t printed_bytes = 0;
    std::function<bool()> tick;  ///< of the worker that tells about progress; looks at the clock; false: the host wants the run to end
    unsigned polls = 0;

    Machine(const Plan& p, Shared& s);
    uint8_t* at(const Tile& t) const { return arena + t.offset; }
    template <class T>
    T scalar(const Tile& t) const {
        return *reinterpret_cast<const T*>(arena + t.offset);
    }
    /// Stored elements.
    int64_t count(const Tile& t) const { return t.splat ? 1 : t.n == kPerLane ? lanes : t.n; }
    /// Scratch buffer `which`, at least `bytes` long; contents are lost on growth. Ends the run when the memory budget is exceeded (the buffer
    /// is valid all the same).
    uint8_t* buffer(int which, uint64_t bytes);
    /// Runs steps [begin, end); false when the run is over.
    bool execute(uint32_t begin, uint32_t end);
    /// Goes on at `pc`, for at most `count` steps, until `end` or until a step waits. Gives how many steps ran.
    uint64_t advance(uint32_t end, uint64_t count);
    /// Ends the run here: at the step that runs, in the loops around it. True: the caller may add to `shared.ended`.
    bool end(RunResult::Status status);
    /// The page of a race shadow that holds cell `at`; null when memory for it is not to be had, which ends the run.
    Cell* page_of(Shadow& shadow, uint64_t at, const std::string& name);
    /// Counts memory of race shadows, of the one of parameter `name`; false when there is none left, which ends the run.
    bool count_shadow(uint64_t bytes, const std::string& name);
    /// Polls cancellation and the end of the run; to be called at least every few milliseconds. True: stop.
    bool poll();
    void run_program(uint64_t index, uint64_t place);
    /// The same up to the first step.
    void begin_program(uint64_t index, uint64_t place);
    /// Behind a step that went back to the start of a loop: a program that reported an error ends here.
    void at_back_edge() {
        if (shared.failed.load(std::memory_order_relaxed) <= position) stopped = true;
    }
    void watch_loop();
    /// What memory holds may be another thing now.
    void changed() {
        if (shared.watches) ++shared.changes;
    }

private:
    bool run_step(bool checked, bool traps);
    bool take_steps();
};

/// What messages call the memory of argument `number`.
std::string object_name(const Machine& m, uint64_t number);
/// Indices of program `number` of a grid, axis 0 counting fastest.
std::array<uint64_t, 3> program_of(uint64_t number, const uint64_t (&grid)[3]);

/// Reports one T09 row for an instruction: once per instruction and row, with the program's id and, if not negative, the element's index as
/// notes, and `help` behind them. It ends the run: the program goes on to its next back edge, or to its end, and no later one begins.
void report(Machine& m, const Info& info, Diag id, std::initializer_list<std::string> args, int64_t element = -1, const Shape* shape = nullptr,
            const std::string& help = {});

/// The name of the view's parameter; an element's indices where the view has them (strides nest), else its number in storage.
std::string param_name(const Machine& m, const View& view);
std::string element_text(const View& view, int64_t bit);

/// What a report says of lane `lane` of the combining function that runs: the element, and the values that it combines.
std::vector<std::string> combined_notes(Machine& m, int64_t lane);

/// Memory for one access, checked and traced. `element` numbers the accessed part in row-major order.
class Memory {
public:
    Memory(Machine& m, const Info& info, const View& view, bool reads, bool writes, bool atomic)
        : m_(m), info_(info), view_(view), reads_(reads), writes_(writes), atomic_(atomic) {}
    /// Checked mode: races and uninitialised reads of elements that are about to be touched.
    void trace(int64_t bit, int64_t stride, int64_t count, int64_t element);
    void load(int64_t bit, int64_t stride, int64_t count, void* out) const;
    void store(int64_t bit, int64_t stride, int64_t count, const void* in) const;
    uint64_t load_code(int64_t bit) const;
    void store_code(int64_t bit, uint64_t code) const;
    const View& view() const { return view_; }
    /// Of an atomic in a run with race shadows: what was released at the element comes before what this program does from here on; and `what`
    /// comes before whatever an acquire of the element precedes.
    void acquire(int64_t bit);
    void release(int64_t bit, const Clock& what);

private:
    uint64_t cell_of(int64_t bit) const;
    void trace_race(int64_t bit, int64_t element);
    void note(Cell& cell, uint64_t at, uint32_t access);
    void trace_initialised(int64_t bit, int64_t element);
    Machine& m_;
    const Info& info_;
    const View& view_;
    bool reads_, writes_, atomic_;
};

// The step of every structured op that has one of its own, declared from the op table: a forgotten one fails to link by name.
#define STRUCTURED(name, ...) void step_##name(Machine& m, const Step& s);
#include "lang/ops.def"
// Steps that several ops share, and those that control flow and rings are made of.
void step_elementwise(Machine& m, const Step& s);
void step_copy(Machine& m, const Step& s);
void step_jump(Machine& m, const Step& s);
void step_jump_if_false(Machine& m, const Step& s);
void step_for_begin(Machine& m, const Step& s);
void step_for_next(Machine& m, const Step& s);
void step_stage_use(Machine& m, const Step& s);
void step_channels_end(Machine& m, const Step& s);

// Checked mode (checks.cpp): before and after a step.
void check_division(Machine& m, const Info& info);
/// Marks in a buffer which elements may legally become NaN or Inf; `check_floats` reports the others.
void watch_floats(Machine& m, const Info& info);
void check_floats(Machine& m, const Info& info);

}  // namespace tegula::interp
