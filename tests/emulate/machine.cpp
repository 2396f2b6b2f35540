// Fibers, barriers, warps and mbarriers of the CPU machine (machine.h).
#include "tests/emulate/machine.h"

#include <sys/mman.h>

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <cstring>

namespace tegula::on_cpu {

namespace {

constexpr size_t kStack = size_t{1} << 20;  ///< of a thread; untouched pages cost nothing
constexpr unsigned kGuard = 4096;           ///< bytes behind shared memory that nobody may write

#if !defined(__x86_64__)
#error "the switch between fibers is written for x86-64"
#endif

// Saves the callee-saved registers on the stack, leaves its pointer in *from, and goes on at `to`.
extern "C" void tegula_switch_fiber(void** from, void* to);
asm(R"(
.text
.globl tegula_switch_fiber
.type tegula_switch_fiber, @function
tegula_switch_fiber:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
)");

[[gnu::noinline]] double fma_directed(double a, double b, double c, int up) {
    volatile double x = a, y = b, z = c;
    std::fesetround(up ? FE_UPWARD : FE_DOWNWARD);
    volatile double r = std::fma(x, y, z);
    std::fesetround(FE_TONEAREST);
    return r;
}

unsigned char garbage(size_t i) { return static_cast<unsigned char>(0x7f ^ (i * 37 & 0x80)); }  // as floats: NaN or large

struct WarpValue {
    const void* in;
    void* out;
    int bytes, source;
};

void warp_meeting(int op, unsigned mask, const void* in, void* out, int bytes, int source) {
    static const char kKeys[3] = {};
    WarpValue mine{in, out, bytes, source};
    Machine& m = Machine::get();
    m.meet(m.thread() & ~31u, 32, mask, &kKeys[op], &mine, [&](void** members) {
        unsigned ballot = 0;
        for (unsigned lane = 0; lane < 32; ++lane) {
            if (!(mask >> lane & 1)) continue;
            const WarpValue& v = *static_cast<WarpValue*>(members[lane]);
            if (op == 1) ballot |= unsigned{*static_cast<const unsigned char*>(v.in)} << lane;
            if (op != 0) continue;
            if (!(mask >> (v.source & 31) & 1)) m.fail("a shuffle reads a lane that takes no part");
            const WarpValue& from = *static_cast<WarpValue*>(members[v.source & 31]);
            if (from.bytes != v.bytes) m.fail("lanes shuffle values of different sizes");
            std::memcpy(v.out, from.in, static_cast<size_t>(v.bytes));
        }
        if (op == 1)
            for (unsigned lane = 0; lane < 32; ++lane)
                if (mask >> lane & 1) std::memcpy(static_cast<WarpValue*>(members[lane])->out, &ballot, 4);
    });
}

}  // namespace

Machine& Machine::get() {
    static Machine machine;
    return machine;
}

Machine::Machine() {
    table_.barrier = [](int id, int threads) { get().barrier(id, static_cast<unsigned>(threads)); };
    table_.warp = warp_meeting;
    table_.pause = [] { get().pause(); };
    table_.ptx = run_ptx;
    table_.fma_directed = fma_directed;
    table_.fail = [](const char* why) { get().fail(why); };
}

// ---- running ----

std::string Machine::run(const Launch& launch, uint64_t seed) {
    launch_ = launch;
    random_.seed(seed);
    in_order_ = seed == 0;
    error_.clear();
    *launch.table = &table_;
    table_.block_dim = {launch.threads, 1, 1};
    table_.grid_dim = {launch.grid, 1, 1};
    memory_.resize(launch.shared_bytes + kGuard + 1024);
    shared_ = memory_.data() + (1024 - reinterpret_cast<uintptr_t>(memory_.data()) % 1024) % 1024;
    table_.shared = shared_;
    for (unsigned block = 0; block < launch.grid && error_.empty(); ++block) run_cta(block);
    return error_;
}

void Machine::start_fibers() {
    const unsigned n = launch_.threads;
    while (fibers_.size() < n) {
        Fiber f;
        void* stack = mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        f.stack = stack == MAP_FAILED ? nullptr : static_cast<unsigned char*>(stack);
        fibers_.push_back(std::move(f));
    }
    ready_.clear();
    for (unsigned i = 0; i < n; ++i) {
        Fiber& f = fibers_[i];
        f.registers.clear();
        void** top = reinterpret_cast<void**>(f.stack + kStack);
        *--top = nullptr;  // where a return address would lie: keeps the stack aligned as after a call
        *--top = reinterpret_cast<void*>(&Machine::fiber_main);
        for (int r = 0; r < 6; ++r) *--top = nullptr;
        f.stack_pointer = top;
        f.done = false;
        f.waits.clear();
        f.groups.clear();
        f.open_group.clear();
        f.bulk_groups.clear();
        f.open_bulk_group.clear();
        f.tensor_loads.clear();
        f.tensor_stores.clear();
        ready_.push_back(n - 1 - i);
    }
}

void Machine::run_cta(unsigned block) {
    table_.block_index = {block, 0, 0};
    for (size_t i = 0; i < launch_.shared_bytes + kGuard; ++i) shared_[i] = garbage(i);
    meetings_.clear();
    barriers_.clear();
    mbarriers_.clear();
    copies_.clear();
    tensor_work_.clear();
    cells_.assign(size_t{kLanes} * kColumns, 0x7fc0dead);
    taken_ = 0;
    start_fibers();
    for (;;) {
        if (!copies_.empty() && (ready_.empty() || (!in_order_ && random_() % 16 == 0))) run_one_copy();
        if (!error_.empty()) return;
        if (ready_.empty()) {
            if (!copies_.empty()) continue;
            break;
        }
        if (!in_order_) std::swap(ready_[random_() % ready_.size()], ready_.back());
        const unsigned next = ready_.back();
        ready_.pop_back();
        switch_to(next);
        if (!error_.empty()) return;
    }
    error_ = stuck();
    for (const Fiber& f : fibers_)
        if (!f.bulk_groups.empty() || !f.open_bulk_group.empty()) error_ = "a bulk store that nobody waited for";
    for (const Fiber& f : fibers_)
        if (!f.tensor_stores.empty()) error_ = "a store to tensor memory that nobody waited for";
    if (taken_ && error_.empty()) error_ = "tensor memory that nobody gave back";
    for (size_t i = launch_.shared_bytes; i < launch_.shared_bytes + kGuard && error_.empty(); ++i)
        if (shared_[i] != garbage(i))
            error_ = "byte " + std::to_string(i) + " of shared memory is written, of which there are " + std::to_string(launch_.shared_bytes);
}

void Machine::switch_to(unsigned fiber) {
    current_ = fiber;
    table_.thread_index = {fiber, 0, 0};
    tegula_switch_fiber(&scheduler_, fibers_[fiber].stack_pointer);
}

void Machine::back() { tegula_switch_fiber(&fibers_[current_].stack_pointer, scheduler_); }

void Machine::fiber_main() {
    Machine& m = get();
    m.launch_.entry(m.launch_.params);
    m.fibers_[m.current_].done = true;
    m.back();
}

void Machine::fail(const std::string& why) {
    if (error_.empty()) error_ = why + " (program " + std::to_string(table_.block_index.x) + ", thread " + std::to_string(current_) + ")";
    for (;;) back();  // never resumed
}

void Machine::block(const std::string& what) {
    fibers_[current_].waits = what;
    back();
}

void Machine::wake(const std::vector<unsigned>& threads) {
    for (unsigned t : threads) {
        fibers_[t].waits.clear();
        ready_.push_back(t);
    }
}

void Machine::pause() {
    ready_.insert(ready_.begin(), current_);
    back();
}

std::string Machine::stuck() const {
    std::map<std::string, std::vector<unsigned>> groups;
    for (unsigned i = 0; i < launch_.threads; ++i)
        if (!fibers_[i].done) groups[fibers_[i].waits].push_back(i);
    std::string out;
    for (const auto& [what, threads] : groups)
        out += (out.empty() ? "" : "; ") + std::to_string(threads.size()) + " threads (first " + std::to_string(threads[0]) + ") wait " + what;
    return out.empty() ? out : "nothing can go on: " + out + " (program " + std::to_string(table_.block_index.x) + ")";
}

// ---- meeting ----

void Machine::barrier(int id, unsigned threads) {
    Rendezvous& b = barriers_[id];
    if (b.threads.empty()) b.expected = threads;
    if (b.expected != threads)
        fail("barrier " + std::to_string(id) + " is met for " + std::to_string(b.expected) + " and for " + std::to_string(threads) + " threads");
    b.threads.push_back(current_);
    if (b.threads.size() < threads) return block("at barrier " + std::to_string(id) + " for " + std::to_string(threads));
    std::vector<unsigned> all = std::move(b.threads);
    b.threads.clear();
    wake(all);  // the last one too: no order is privileged
    back();
}

void Machine::meet(unsigned first, unsigned count, uint32_t mask, const void* key, void* mine, const std::function<void(void** members)>& all) {
    Meeting& m = meetings_[{first, count}];
    const unsigned member = current_ - first, expected = count == 32 ? static_cast<unsigned>(__builtin_popcount(mask)) : count;
    if (count == 32 && !(mask >> member & 1)) fail("a lane meets others under a mask without itself");
    if (m.arrived == 0) {
        m.key = key;
        m.mask = mask;
        m.members.assign(count, nullptr);
        m.threads.clear();
    }
    if (m.key != key || m.mask != mask) fail("threads of a warp meet in different instructions: control flow diverges");
    m.members[member] = mine;
    m.threads.push_back(current_);
    if (++m.arrived < expected) return block("for the other lanes of their warp");
    all(m.members.data());
    m.arrived = 0;
    wake(m.threads);
    back();
}

// ---- memory ----

unsigned char* Machine::shared(unsigned address, unsigned bytes) {
    if (address < kSharedBase || address + bytes > kSharedBase + launch_.shared_bytes)
        fail("address " + std::to_string(address) + " is outside shared memory of " + std::to_string(launch_.shared_bytes) + " bytes");
    return shared_ + (address - kSharedBase);
}

void Machine::later(std::function<void()> copy) {
    copies_.push_back(std::move(copy));
    if (in_order_ && copies_.size() % 2) run_one_copy();  // some at once
}

bool Machine::run_one_copy() {
    if (copies_.empty()) return false;
    if (!in_order_) std::swap(copies_[random_() % copies_.size()], copies_.back());
    const auto copy = std::move(copies_.back());
    copies_.pop_back();
    copy();
    return true;
}

void Machine::do_copy(const Copy& c) {
    std::memset(c.to, 0, c.width);
    std::memcpy(c.to, c.from, c.bytes);
}

void Machine::copy_async(const Copy& copy) {
    if (!in_order_ && random_() % 2)
        do_copy(copy);  // may come at any time before it is waited for
    else
        fibers_[current_].open_group.push_back(copy);
}

void Machine::copy_commit() {
    Fiber& f = fibers_[current_];
    f.groups.push_back(std::move(f.open_group));
    f.open_group.clear();
}

void Machine::copy_wait(unsigned newer) {
    Fiber& f = fibers_[current_];
    while (f.groups.size() > newer) {
        for (const Copy& c : f.groups.front()) do_copy(c);
        f.groups.erase(f.groups.begin());
    }
}

void Machine::bulk_store(std::function<void()> copy) {
    if (!in_order_ && random_() % 2)
        copy();
    else
        fibers_[current_].open_bulk_group.push_back(std::move(copy));
}

void Machine::bulk_commit() {
    Fiber& f = fibers_[current_];
    f.bulk_groups.push_back(std::move(f.open_bulk_group));
    f.open_bulk_group.clear();
}

void Machine::bulk_wait(unsigned newer) {
    Fiber& f = fibers_[current_];
    while (f.bulk_groups.size() > newer) {
        for (const auto& copy : f.bulk_groups.front()) copy();
        f.bulk_groups.erase(f.bulk_groups.begin());
    }
}

// ---- tensor memory ----

unsigned Machine::tensor_take(unsigned columns) {
    if (columns < 32 || columns > kColumns || (columns & (columns - 1))) fail("a number of columns that tensor memory does not give");
    if (taken_) fail("a program takes tensor memory twice");
    taken_ = columns;
    taken_first_ = in_order_ ? 0 : static_cast<unsigned>(random_() % (kColumns / columns)) * columns;
    return taken_first_;
}

void Machine::tensor_give(unsigned address, unsigned columns) {
    if (address != taken_first_ || columns != taken_) fail("tensor memory is given back that was not taken");
    if (!tensor_work_.empty()) fail("tensor memory is given back while products run");
    taken_ = 0;
}

void Machine::check_columns(unsigned first, unsigned count) {
    if (first < taken_first_ || first + count > taken_first_ + taken_)
        fail("columns " + std::to_string(first) + " to " + std::to_string(first + count) + " of tensor memory are not the program's");
}

void Machine::tensor_later(std::function<void()> work) {
    tensor_work_.push_back(std::move(work));
    later([this] {
        const auto next = std::move(tensor_work_.front());
        tensor_work_.pop_front();
        next();
    });
}

void Machine::mbarrier_commit(unsigned address) {
    Mbarrier& b = mbarriers_.at(address);
    if (b.pending == 0) {
        error_ = "a commit arrives at an mbarrier that expects nobody";
        return;
    }
    --b.pending;
    advance(b);
}

void Machine::tensor_load(unsigned thread, std::function<void()> load) { fibers_[thread].tensor_loads.push_back(std::move(load)); }

void Machine::tensor_store(unsigned thread, std::function<void()> store) {
    if (!in_order_ && random_() % 2)
        store();
    else
        fibers_[thread].tensor_stores.push_back(std::move(store));
}

void Machine::tensor_wait_load() {
    for (const auto& load : fibers_[current_].tensor_loads) load();
    fibers_[current_].tensor_loads.clear();
}

void Machine::tensor_wait_store() {
    for (const auto& store : fibers_[current_].tensor_stores) store();
    fibers_[current_].tensor_stores.clear();
}

void Machine::check_loads() {
    if (!fibers_[current_].tensor_loads.empty()) fail("registers of tcgen05.ld may be used before they are loaded");
}

Machine::Mbarrier& Machine::mbarrier(unsigned address) {
    shared(address, 8);
    const auto it = mbarriers_.find(address);
    if (it == mbarriers_.end()) fail("an mbarrier that was not initialised");
    return it->second;
}

void Machine::mbarrier_init(unsigned address, unsigned arrivals) {
    shared(address, 8);
    if (address % 8) fail("an mbarrier is not aligned");
    mbarriers_[address] = Mbarrier{arrivals, arrivals, 0, 0, {}};
}

void Machine::advance(Mbarrier& b) {
    if (b.pending != 0 || b.bytes != 0) return;
    b.pending = b.arrivals;
    ++b.phase;
    wake(b.waiting);
    b.waiting.clear();
}

void Machine::mbarrier_arrive(unsigned address, unsigned expected_bytes) {
    Mbarrier& b = mbarrier(address);
    if (b.pending == 0) fail("more arrivals at an mbarrier than it expects");
    b.bytes += expected_bytes;
    --b.pending;
    advance(b);
}

void Machine::mbarrier_complete(unsigned address, unsigned bytes) {
    Mbarrier& b = mbarriers_.at(address);
    b.bytes -= bytes;
    advance(b);
}

void Machine::mbarrier_wait(unsigned address, unsigned parity) {
    while ((mbarrier(address).phase & 1) == (parity & 1)) {
        mbarrier(address).waiting.push_back(current_);
        block("at the mbarrier at " + std::to_string(address - kSharedBase));
    }
}

}  // namespace tegula::on_cpu
