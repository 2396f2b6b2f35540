// Looks, between pieces of work, whether the compilation of a kernel should go on: its host may have cancelled the run, by the flag or by its
// progress callback, or the budget of time may be spent. Belongs to one thread.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>

#include "lang/cancel.h"

namespace tegula::cpu {

class Watch {
public:
    using Clock = std::chrono::steady_clock;
    /// `budget`: milliseconds, 0: none. `progress` (may be empty) is called about every 0.1 s: false, or what it throws, ends the compilation.
    Watch(const std::atomic<bool>* cancel, uint64_t budget, std::function<bool()> progress)
        : cancel_(cancel), budget_(budget), progress_(std::move(progress)) {}
    Watch(const Watch&) = delete;

    /// Has the compilation ended? Cheap; true for good once it was.
    bool over() {
        if (over_) return true;
        const Clock::time_point now = Clock::now();
        spent_ = budget_ && started_ && now - start_ >= std::chrono::milliseconds(budget_);
        if (progress_ && now - told_ >= kProgress) {
            told_ = now;
            try {
                refused_ = !progress_();
            } catch (...) {
                thrown_ = std::current_exception();
            }
        }
        return over_ = spent_ || refused_ || thrown_ || is_set(cancel_);
    }
    /// Starts the budget: of compilations that this one waits for, none is counted.
    void start() { start_ = Clock::now(), started_ = true; }
    /// Why it ended: the budget, else what the callback threw, else the flag.
    bool budget_is_spent() const { return spent_; }
    const std::exception_ptr& thrown() const { return thrown_; }

private:
    static constexpr std::chrono::milliseconds kProgress{100};
    const std::atomic<bool>* const cancel_;
    const uint64_t budget_;
    const std::function<bool()> progress_;
    Clock::time_point start_ = Clock::now(), told_ = start_;
    bool started_ = false, over_ = false, spent_ = false, refused_ = false;
    std::exception_ptr thrown_;
};

inline bool is_over(Watch* watch) { return watch && watch->over(); }

}  // namespace tegula::cpu
