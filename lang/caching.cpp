// Words of cache and eviction modifiers, and which of them contradict each other (caching.h).
#include "lang/caching.h"

namespace tegula::ir {

namespace {

constexpr std::string_view kCache[] = {"all", "l2", "stream", "through"};
constexpr std::string_view kEvict[] = {"normal", "first", "last"};

std::string written(const char* modifier, std::span<const std::string_view> words, size_t value) {
    return value == 0 || value > words.size() ? std::string() : modifier + ("(" + std::string(words[value - 1])) + ")";
}

}  // namespace

std::span<const std::string_view> cache_words() { return kCache; }
std::span<const std::string_view> evict_words() { return kEvict; }

std::string to_string(Cache cache) { return written("cache", kCache, static_cast<size_t>(cache)); }
std::string to_string(Evict evict) { return written("evict", kEvict, static_cast<size_t>(evict)); }

std::string caching_conflict(Caching caching) {
    if (caching.cache > Cache::through) return "no cache does that";
    if (caching.cache == Cache::through && caching.evict != Evict::open) return "what goes through caches does not stay in them";
    const bool kept = caching.evict == Evict::normal || caching.evict == Evict::last;
    return caching.cache == Cache::stream && kept ? "what streams through caches is the first to leave them" : "";
}

}  // namespace tegula::ir
