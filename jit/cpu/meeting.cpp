// Meetings of programs (meeting.h). What becomes of one is decided when no program runs any more, so that it does not depend on who is faster.
#include "jit/cpu/meeting.h"

#include <algorithm>
#include <chrono>

namespace tegula::cpu {

Meeting::Outcome Meeting::meet(uint64_t i, uint32_t inst, const std::function<void()>& tick, uint64_t& other) {
    constexpr auto kLook = std::chrono::milliseconds(5);
    std::unique_lock lock(mutex_);
    const uint64_t round = round_;
    const bool looks = waiting_ == 0;
    at_[i] = inst;
    ++waiting_;
    settle();
    while (round == round_ && !broken_) {
        if (!looks) {
            all_.wait(lock);
            continue;
        }
        all_.wait_for(lock, kLook);
        lock.unlock();
        tick();
        lock.lock();
        if (round != round_ || broken_ || !is_over_()) continue;
        broken_ = true;
        all_.notify_all();
    }
    if (round != round_) return met;
    other = other_;
    return first_ == i ? missed : over;
}

void Meeting::leave(uint64_t i) {
    std::lock_guard lock(mutex_);
    at_[i] = kEnded;
    ++ended_;
    settle();
}

bool Meeting::has_ended(uint64_t i) {
    std::lock_guard lock(mutex_);
    return at_[i] == kEnded;
}

void Meeting::settle() {
    if (broken_ || waiting_ == 0 || waiting_ + ended_ < at_.size()) return;
    const auto first = std::ranges::find_if(at_, [](uint64_t at) { return at != kEnded; });
    const auto other = std::ranges::find_if(at_, [&](uint64_t at) { return at != *first; });
    if (other == at_.end()) {
        std::ranges::fill(at_, kRuns);
        waiting_ = 0;
        ++round_;
    } else {
        broken_ = true;
        if (!is_over_()) {
            first_ = static_cast<uint64_t>(first - at_.begin());
            other_ = static_cast<uint64_t>(other - at_.begin());
        }
    }
    all_.notify_all();
}

}  // namespace tegula::cpu
