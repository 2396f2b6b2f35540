// Work that its host may end: what takes long looks at the host's flag now and then.
#pragma once
#include <atomic>

namespace tegula {

/// Thrown by work whose flag is set, to whoever started it for the host. No error of ours.
struct Cancelled {};

inline bool is_set(const std::atomic<bool>* cancel) { return cancel && cancel->load(std::memory_order_relaxed); }
/// Throws Cancelled when the flag (may be null) is set.
inline void poll(const std::atomic<bool>* cancel) {
    if (is_set(cancel)) throw Cancelled();
}

}  // namespace tegula
