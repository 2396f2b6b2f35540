// Which of many like cases a run takes.
#pragma once
#include <cstdint>
#include <cstdlib>

namespace tegula::test {

inline bool is_long() { return std::getenv("TEGULA_LONG") != nullptr; }

/// Sanitizers make each case several times as slow.
constexpr bool is_sanitized() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
    return true;
#endif
#endif
    return false;
}

/// One case in so many is taken where TEGULA_LONG is not set.
constexpr uint64_t sample_stride() { return is_sanitized() ? 50 : 4; }

/// Whether case `n` of a sweep is taken. The choice is a hash of the number, so that it keeps in step with no loop of the sweep.
inline bool is_sampled(uint64_t n) { return ((n + 1) * 0x9e3779b97f4a7c15u >> 32) % sample_stride() == 0 || is_long(); }

}  // namespace tegula::test
