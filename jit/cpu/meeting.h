// Where all programs of a cooperative launch meet, each on a thread of its own.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

namespace tegula::cpu {

class Meeting {
public:
    enum Outcome {
        met,
        over,    ///< the run is
        missed,  ///< some program does not come; told to the first one that waits
    };
    /// `is_over`: has the run ended, or a program failed?
    Meeting(uint64_t programs, std::function<bool()> is_over) : at_(programs, kRuns), is_over_(std::move(is_over)) {}
    /// Program number `i` of the run's order waits until all are at instruction `inst`. `tick` is called every few milliseconds by one of those that
    /// wait. `other`: of `missed`, the first program that does not come.
    Outcome meet(uint64_t i, uint32_t inst, const std::function<void()>& tick, uint64_t& other);
    /// The program has ended.
    void leave(uint64_t i);
    bool has_ended(uint64_t i);

private:
    static constexpr uint64_t kRuns = UINT64_MAX, kEnded = UINT64_MAX - 1;
    void settle();

    std::mutex mutex_;
    std::condition_variable all_;
    std::vector<uint64_t> at_;  ///< instruction at which a program waits, or kRuns, kEnded
    const std::function<bool()> is_over_;
    uint64_t waiting_ = 0, ended_ = 0, round_ = 0;
    uint64_t first_ = UINT64_MAX, other_ = 0;  ///< where a meeting is missed: the first program that waits, the first that does not come
    bool broken_ = false;                      ///< nobody meets any more
};

}  // namespace tegula::cpu
