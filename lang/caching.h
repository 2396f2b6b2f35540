// What an access to memory asks of caches: `x[..] @ cache(stream) @ evict(first)`. Speed only: no machine's result depends on it. Kept among the
// flags of load, store, ptr_load, ptr_store and channel_put (ir.h Access).
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tegula::ir {

enum class Cache : uint8_t { open, all, l2, stream, through };  ///< open: nothing is asked. Names in this order: cache_words()
enum class Evict : uint8_t { open, normal, first, last };

struct Caching {
    Cache cache = Cache::open;
    Evict evict = Evict::open;
    bool any() const { return cache != Cache::open || evict != Evict::open; }
    int64_t flags() const { return static_cast<int64_t>(cache) << 2 | static_cast<int64_t>(evict) << 5; }
    static Caching of(int64_t flags) { return {static_cast<Cache>(flags >> 2 & 7), static_cast<Evict>(flags >> 5 & 3)}; }
    friend bool operator==(Caching, Caching) = default;
};
constexpr int64_t kCachingFlags = 0x7c;  ///< the bits of flags()

std::span<const std::string_view> cache_words();  ///< all, l2, stream, through
std::span<const std::string_view> evict_words();  ///< normal, first, last
/// "cache(l2)"; empty where nothing is asked.
std::string to_string(Cache cache);
std::string to_string(Evict evict);
/// Why no access can do both; empty: it can.
std::string caching_conflict(Caching caching);

}  // namespace tegula::ir
