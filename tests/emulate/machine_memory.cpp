// Shared memory of the CPU machine (machine.h), of a CTA and of the others in its cluster: copies that come at any time, mbarriers, and what a
// cluster waits for.
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
    std::memset(c.to, 0, 16);
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
