// Shared memory of the CPU machine (machine.h), of a CTA and of the others in its cluster: copies that come at any time, mbarriers, and what a
// cluster waits for. Tensor memory of a CTA.
#include <algorithm>
#include <cstring>

#include "tests/emulate/machine.h"

namespace tegula::on_cpu {

SharedPlace Machine::place(unsigned address, unsigned bytes) {
    const unsigned named = address >> kClusterBit, cta = named ? named - 1 : rank(), inside = address & ((1u << kClusterBit) - 1);
    if (cta >= launch_.cluster) fail("there is no CTA " + std::to_string(cta) + " in a cluster of " + std::to_string(launch_.cluster));
    if (inside < kSharedBase || inside + bytes > kSharedBase + launch_.shared_bytes)
        fail("address " + std::to_string(inside) + " is outside shared memory of " + std::to_string(launch_.shared_bytes) + " bytes");
    if (has_ended(cta)) fail("the shared memory of a program that has ended is used");
    return {cta, inside - kSharedBase};
}

/// Have all threads of the CTA returned?
bool Machine::has_ended(unsigned cta) const {
    const auto first = fibers_.begin() + static_cast<std::ptrdiff_t>(cta * launch_.threads);
    return std::all_of(first, first + static_cast<std::ptrdiff_t>(launch_.threads), [](const Fiber& f) { return f.done; });
}

void Machine::cluster_arrive() {
    Fiber& f = fibers_[current_];
    if (f.arrived) fail("a thread arrives at the cluster's barrier twice without waiting");
    f.arrived = true;
    f.cluster_phase = cluster_phase_;
    if (++cluster_arrived_ < launch_.threads * launch_.cluster) return;
    cluster_arrived_ = 0;
    ++cluster_phase_;
    wake(cluster_waiting_);
    cluster_waiting_.clear();
}

void Machine::cluster_wait() {
    Fiber& f = fibers_[current_];
    if (!f.arrived) fail("a thread waits at the cluster's barrier without having arrived");
    while (cluster_phase_ == f.cluster_phase) {
        cluster_waiting_.push_back(current_);
        block("for the other CTAs of their cluster");
    }
    f.arrived = false;
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
    if (launch_.cluster > 1) fail("tensor memory of programs in a cluster is not emulated");
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

void Machine::mbarrier_commit(const SharedPlace& place) {
    Mbarrier& b = mbarriers_.at(place);
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

// ---- mbarriers ----

Machine::Mbarrier& Machine::mbarrier(const SharedPlace& place) {
    const auto it = mbarriers_.find(place);
    if (it == mbarriers_.end()) fail("an mbarrier that was not initialised");
    return it->second;
}

void Machine::mbarrier_init(unsigned address, unsigned arrivals) {
    if (address % 8) fail("an mbarrier is not aligned");
    mbarriers_[place(address, 8)] = Mbarrier{arrivals, arrivals, 0, 0, {}};
}

void Machine::advance(Mbarrier& b) {
    if (b.pending != 0 || b.bytes != 0) return;
    b.pending = b.arrivals;
    ++b.phase;
    wake(b.waiting);
    b.waiting.clear();
}

void Machine::mbarrier_arrive(unsigned address, unsigned expected_bytes) {
    Mbarrier& b = mbarrier(place(address, 8));
    if (b.pending == 0) fail("more arrivals at an mbarrier than it expects");
    b.bytes += expected_bytes;
    --b.pending;
    advance(b);
}

void Machine::mbarrier_complete(const SharedPlace& place, unsigned bytes) {
    const auto it = mbarriers_.find(place);
    if (it == mbarriers_.end() || has_ended(place.cta)) {  // not a thread's doing, which could be stopped
        if (error_.empty()) error_ = "a copy arrives in a program that has not started, or has ended";
        return;
    }
    Mbarrier& b = it->second;
    b.bytes -= bytes;
    advance(b);
}

void Machine::mbarrier_wait(unsigned address, unsigned parity) {
    const SharedPlace at = place(address, 8);
    if (at.cta != rank()) fail("a thread waits at an mbarrier of another CTA");
    while ((mbarrier(at).phase & 1) == (parity & 1)) {
        mbarrier(at).waiting.push_back(current_);
        block("at the mbarrier at " + std::to_string(at.offset));
    }
}

}  // namespace tegula::on_cpu
