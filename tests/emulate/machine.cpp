// Fibers, barriers and warps of the CPU machine (machine.h).
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

[[gnu::noinline]] double directed(char op, double a, double b, double c, int up) {
    volatile double x = a, y = b, z = c;
    std::fesetround(up ? FE_UPWARD : FE_DOWNWARD);
    volatile double r = op == 'f' ? std::fma(x, y, z) : op == '/' ? x / y : std::sqrt(x);
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
    table_.directed = directed;
    table_.fail = [](const char* why) { get().fail(why); };
}

// ---- running ----

std::string Machine::run(const Launch& launch, uint64_t seed) {
    launch_ = launch;
    random_.seed(seed);
    in_order_ = seed == 0;
    numbers_.clear();
    error_.clear();
    *launch.table = &table_;
    table_.block_dim = {launch.threads, 1, 1};
    table_.grid_dim = {launch.grid, 1, 1};
    const size_t pitch = (launch.shared_bytes + kGuard + 1023) / 1024 * 1024;
    memory_.resize(pitch * launch.cluster + 1024);
    shared_.clear();
    for (unsigned cta = 0; cta < launch.cluster; ++cta)
        shared_.push_back(memory_.data() + (1024 - reinterpret_cast<uintptr_t>(memory_.data()) % 1024) % 1024 + cta * pitch);
    for (unsigned first = 0; first < launch.grid && error_.empty(); first += launch.cluster) run_cluster(first);
    return error_;
}

void Machine::start_fibers() {
    const unsigned n = launch_.threads * launch_.cluster;
    while (fibers_.size() < n) {
        Fiber f;
        void* stack = mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        f.stack = stack == MAP_FAILED ? nullptr : static_cast<unsigned char*>(stack);
        fibers_.push_back(std::move(f));
    }
    ready_.clear();
    for (unsigned i = 0; i < n; ++i) {
        Fiber& f = fibers_[i];
        f.registers = {};
        f.sums = {};
        void** top = reinterpret_cast<void**>(f.stack + kStack);
        *--top = nullptr;  // where a return address would lie: keeps the stack aligned as after a call
        *--top = reinterpret_cast<void*>(&Machine::fiber_main);
        for (int r = 0; r < 6; ++r) *--top = nullptr;
        f.stack_pointer = top;
        f.done = f.arrived = false;
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

void Machine::run_cluster(unsigned first) {
    first_ = first;
    for (unsigned char* shared : shared_)
        for (size_t i = 0; i < launch_.shared_bytes + kGuard; ++i) shared[i] = garbage(i);
    meetings_.clear();
    barriers_.clear();
    mbarriers_.clear();
    cluster_waiting_.clear();
    cluster_arrived_ = cluster_phase_ = 0;
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
    for (const unsigned char* shared : shared_)
        for (size_t i = launch_.shared_bytes; i < launch_.shared_bytes + kGuard && error_.empty(); ++i)
            if (shared[i] != garbage(i))
                error_ = "byte " + std::to_string(i) + " of shared memory is written, of which there are " + std::to_string(launch_.shared_bytes);
}

void Machine::switch_to(unsigned fiber) {
    current_ = fiber;
    table_.thread_index = {thread(), 0, 0};
    table_.block_index = {first_ + rank(), 0, 0};
    table_.shared = shared_[rank()];
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
    if (error_.empty()) error_ = why + " (program " + std::to_string(table_.block_index.x) + ", thread " + std::to_string(thread()) + ")";
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
    for (unsigned i = 0; i < launch_.threads * launch_.cluster; ++i)
        if (!fibers_[i].done) groups[fibers_[i].waits].push_back(i);
    std::string out;
    for (const auto& [what, threads] : groups)
        out += (out.empty() ? "" : "; ") + std::to_string(threads.size()) + " threads (first " + std::to_string(threads[0]) + ") wait " + what;
    return out.empty() ? out
                       : "nothing can go on: " + out + " (program " + std::to_string(first_) + (launch_.cluster > 1 ? " and its cluster)" : ")");
}

// ---- meeting ----

void Machine::barrier(int id, unsigned threads) {
    Rendezvous& b = barriers_[{rank(), id}];
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
    Meeting& m = meetings_[{first + rank() * launch_.threads, count}];
    const unsigned member = thread() - first, expected = count == 32 ? static_cast<unsigned>(__builtin_popcount(mask)) : count;
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

}  // namespace tegula::on_cpu
