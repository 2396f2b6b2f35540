// Work that its host may end: what takes long looks at the host's flag now and then.
#pragma once
#include <atomic>
#include <utility>

namespace tegula {

/// Thrown by work whose flag is set, to whoever started it for the host. No error of ours.
struct Cancelled {};

inline bool is_set(const std::atomic<bool>* cancel) { return cancel && cancel->load(std::memory_order_relaxed); }
/// Throws Cancelled when the flag (may be null) is set.
inline void poll(const std::atomic<bool>* cancel) {
    if (is_set(cancel)) throw Cancelled();
}

/// While it lives, what this thread does is done for a host that may end it by this flag (null: nobody may): `poll()` looks at it, wherever the work
/// has got to. So every loop whose length the host's text decides can be ended, without a parameter through all that stands between.
class Interruptible {
public:
    explicit Interruptible(const std::atomic<bool>* cancel) : before_(std::exchange(current_, cancel)) {}
    ~Interruptible() { current_ = before_; }
    Interruptible(const Interruptible&) = delete;
    static const std::atomic<bool>* current() { return current_; }

private:
    static inline constinit thread_local const std::atomic<bool>* current_ = nullptr;
    const std::atomic<bool>* before_;
};

/// Throws Cancelled when the host of this thread's work has ended it.
inline void poll() { poll(Interruptible::current()); }

}  // namespace tegula
