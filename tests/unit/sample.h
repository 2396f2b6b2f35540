// Which of many like cases a run takes.
#pragma once
#include <cstdint>
#include <cstdlib>

namespace tegula::test {

inline bool is_long() { return std::getenv("TEGULA_LONG") != nullptr; }

/// Whether case `n` is taken: all are, but one in five where sanitizers make each several times as slow, unless TEGULA_LONG is set.
inline bool is_sampled(uint64_t n) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return n % 5 == 0 || is_long();
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
    return n % 5 == 0 || is_long();
#endif
#endif
    return static_cast<void>(n), true;
}

}  // namespace tegula::test
