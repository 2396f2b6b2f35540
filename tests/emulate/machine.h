// A machine that runs emitted kernels on the CPU, one cluster of CTAs at a time (mostly of one): every thread is a fiber, and fibers change only
// where threads wait for each other. Which one runs next is drawn from a seed, so that a missing barrier shows in some order. Memory of a CTA starts
// as garbage; bytes outside it, lanes that meet in different instructions, barriers that nobody can pass and copies nobody waited for are errors.
#pragma once
#include <compare>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#define TEGULA_ON_CPU_MACHINE
#include "tests/emulate/cuda_on_cpu.h"

namespace tegula::on_cpu {

constexpr unsigned kSharedBase = 1024;  ///< 32-bit address of the first byte of shared memory
/// Addresses in a cluster: those of a CTA with its rank plus one from this bit on; none there: the thread's own CTA.
constexpr unsigned kClusterBit = 24;

/// Where an address leads.
struct SharedPlace {
    unsigned cta = 0;     ///< rank in the cluster
    unsigned offset = 0;  ///< from the first byte of its shared memory
    auto operator<=>(const SharedPlace&) const = default;
};

struct Launch {
    void (*entry)(void** params) = nullptr;
    CpuMachine** table = nullptr;  ///< of the kernel's library
    void** params = nullptr;
    unsigned grid = 1, threads = 1, shared_bytes = 0;
    unsigned cluster = 1;  ///< CTAs; divides the grid
    int arch = 90;
    bool special = true;  ///< compiled for this architecture alone, with what no other has
};

/// PTX registers of a thread, by the numbers of their names (Machine::number).
class Registers {
public:
    CpuOperand* find(unsigned number) { return number < slots_.size() && slots_[number] ? &*slots_[number] : nullptr; }
    /// False: it is there already.
    bool declare(unsigned number) {
        if (number >= slots_.size()) slots_.resize(number + 1);
        return !slots_[number] && (slots_[number].emplace(), true);
    }

private:
    std::vector<std::optional<CpuOperand>> slots_;
};

/// Registers that wgmma writes, or reads and that outlive their statement, with the group that it was committed in: nobody else touches them before
/// that group has been waited for.
struct WgmmaSums {
    unsigned committed = 0, in_flight = 0;
    std::vector<unsigned> groups;  ///< by number; 0: not in flight
    using Work = std::shared_ptr<std::function<void()>>;
    std::deque<std::pair<unsigned, Work>> products;  ///< to be computed, with their groups; one of the warp group's threads does
    bool contains(unsigned number) const { return number < groups.size() && groups[number]; }
    void start(unsigned number) {
        if (number >= groups.size()) groups.resize(number + 1);
        in_flight += groups[number] == 0;
        groups[number] = committed + 1;
    }
    void later(Work product) { products.emplace_back(committed + 1, std::move(product)); }
    void compute(uint64_t up_to = UINT64_MAX) {
        for (; !products.empty() && products.front().first <= up_to; products.pop_front())
            if (const auto work = std::exchange(*products.front().second, nullptr)) work();
    }
    /// All groups but the last `left` are done.
    void wait(uint64_t left) {
        if (left <= committed) compute(committed - left);
        for (unsigned& group : groups)
            if (group && group + left <= committed) group = 0, --in_flight;
    }
};

class Machine {
public:
    static Machine& get();
    /// Runs all CTAs. Empty, or what went wrong.
    std::string run(const Launch& launch, uint64_t seed);

    // ---- for running threads ----
    [[noreturn]] void fail(const std::string& why);
    unsigned thread() const { return current_ % launch_.threads; }
    unsigned rank() const { return current_ / launch_.threads; }  ///< of the thread's CTA in its cluster
    unsigned cluster() const { return launch_.cluster; }
    int arch() const { return launch_.arch; }
    bool special() const { return launch_.special; }
    Registers& kept_registers() { return fibers_[current_].registers; }  ///< those that outlive an asm statement
    unsigned number(const std::string& name) { return numbers_.try_emplace(name, static_cast<unsigned>(numbers_.size())).first->second; }
    WgmmaSums& wgmma_sums() { return fibers_[current_].sums; }
    void barrier(int id, unsigned threads);
    void pause();
    /// The members `first` .. first + count - 1 of `mask` meet at `key`; the last one to come runs `all` on what they brought.
    void meet(unsigned first, unsigned count, uint32_t mask, const void* key, void* mine, const std::function<void(void** members)>& all);
    SharedPlace place(unsigned address, unsigned bytes);
    unsigned char* shared(const SharedPlace& place) { return shared_[place.cta] + place.offset; }
    unsigned char* shared(unsigned address, unsigned bytes) { return shared(place(address, bytes)); }
    /// All threads of the cluster arrive; a wait ends when they have.
    void cluster_arrive();
    void cluster_wait();
    /// Something that happens at any later time.
    void later(std::function<void()> copy);
    void mbarrier_init(unsigned address, unsigned arrivals);
    void mbarrier_arrive(unsigned address, unsigned expected_bytes);
    void mbarrier_complete(const SharedPlace& place, unsigned bytes);
    void mbarrier_wait(unsigned address, unsigned parity);
    struct Copy {
        unsigned char* to;
        const unsigned char* from;
        unsigned bytes, width;  ///< read, and written: the rest are zeros
    };
    void copy_async(const Copy& copy);
    void copy_commit();
    void copy_wait(unsigned newer);
    /// A copy out of shared memory by the thread's open bulk group: it reads at any time before the group is waited for.
    void bulk_store(std::function<void()> copy);
    void bulk_commit();
    void bulk_wait(unsigned newer);

    // ---- tensor memory: 128 lanes of 512 columns; address = lane << 16 | column ----
    static constexpr unsigned kLanes = 128, kColumns = 512;
    unsigned tensor_take(unsigned columns);
    void tensor_give(unsigned address, unsigned columns);
    uint32_t& cell(unsigned lane, unsigned column) { return cells_[lane * kColumns + column]; }
    void check_columns(unsigned first, unsigned count);  ///< the program has taken them
    /// What a product or a commit does at a later time, after those before it.
    void tensor_later(std::function<void()> work);
    void mbarrier_commit(const SharedPlace& place);  ///< of a commit, at that time
    /// Loads and stores happen at any time before their thread waits.
    void tensor_load(unsigned thread, std::function<void()> load);
    void tensor_store(unsigned thread, std::function<void()> store);
    void tensor_wait_load();
    void tensor_wait_store();
    void check_loads();  ///< an asm statement ends: nobody may touch registers that are being loaded

private:
    struct Fiber {
        void* stack_pointer = nullptr;
        unsigned char* stack = nullptr;
        bool done = false, arrived = false;  ///< arrived: at the cluster's barrier, without having waited yet
        unsigned cluster_phase = 0;          ///< that it arrived in
        std::string waits;                   ///< for what; empty: ready
        Registers registers;
        WgmmaSums sums;
        std::vector<std::vector<Copy>> groups;
        std::vector<Copy> open_group;
        std::vector<std::vector<std::function<void()>>> bulk_groups;
        std::vector<std::function<void()>> open_bulk_group;
        std::vector<std::function<void()>> tensor_loads, tensor_stores;
    };
    struct Meeting {
        const void* key = nullptr;
        unsigned arrived = 0;
        uint32_t mask = 0;
        std::vector<void*> members;
        std::vector<unsigned> threads;
    };
    struct Rendezvous {
        unsigned expected = 0;
        std::vector<unsigned> threads;
    };
    struct Mbarrier {
        unsigned arrivals = 0, pending = 0, phase = 0;
        int64_t bytes = 0;
        std::vector<unsigned> waiting;
    };
    Machine();
    static void fiber_main();
    void run_cluster(unsigned first);
    bool has_ended(unsigned cta) const;
    void start_fibers();
    void block(const std::string& what);
    void wake(const std::vector<unsigned>& threads);
    void switch_to(unsigned fiber);
    void back();
    bool run_one_copy();
    void do_copy(const Copy& copy);
    void advance(Mbarrier& b);
    Mbarrier& mbarrier(const SharedPlace& place);
    std::string stuck() const;

    CpuMachine table_{};
    Launch launch_;
    std::mt19937_64 random_;
    bool in_order_ = true;
    std::unordered_map<std::string, unsigned> numbers_;  ///< of names of registers, in all threads of a launch
    std::vector<Fiber> fibers_;
    std::vector<unsigned> ready_;
    unsigned current_ = 0;
    void* scheduler_ = nullptr;
    std::vector<unsigned char> memory_;
    std::vector<unsigned char*> shared_;  ///< by CTA
    unsigned first_ = 0;                  ///< CTA of the cluster
    std::map<std::pair<unsigned, unsigned>, Meeting> meetings_;
    std::map<std::pair<unsigned, int>, Rendezvous> barriers_;
    std::map<SharedPlace, Mbarrier> mbarriers_;
    unsigned cluster_arrived_ = 0, cluster_phase_ = 0;
    std::vector<unsigned> cluster_waiting_;
    std::vector<std::function<void()>> copies_;
    std::vector<uint32_t> cells_;
    unsigned taken_first_ = 0, taken_ = 0;  ///< columns of the program
    std::deque<std::function<void()>> tensor_work_;
    std::string error_;
};

/// Runs an asm statement (ptx.cpp).
void run_ptx(void** parsed, const char* text, CpuOperand* operands, int count);

}  // namespace tegula::on_cpu
