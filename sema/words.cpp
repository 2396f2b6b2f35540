// The table of words (words.h).
#include "sema/words.h"

#include <algorithm>

#include "lang/caching.h"

namespace tegula::sema {

namespace {

constexpr std::string_view kRound[] = {"rne", "rna", "rtz", "ru", "rd", "stochastic"}, kOverflow[] = {"auto", "ieee", "sat", "trap"},
                           kPrecision[] = {"ieee", "tf32", "fast", "tf32x3"}, kOrder[] = {"relaxed", "acquire", "release", "acq_rel"},
                           kScope[] = {"gpu", "cta", "sys"};

}  // namespace

std::span<const WordKind> word_kinds() {
    static const WordKind kinds[] = {{"round", "rounding", kRound},
                                     {"overflow", "overflow rule", kOverflow},
                                     {"precision", "precision", kPrecision},
                                     {"order", "memory order", kOrder},
                                     {"scope", "memory scope", kScope},
                                     {"cache", "cache word", ir::cache_words(), WordKind::cache},
                                     {"evict", "eviction word", ir::evict_words(), WordKind::evict}};
    return kinds;
}

const WordKind* find_word_kind(std::string_view name) {
    const auto kinds = word_kinds();
    const auto it = std::ranges::find(kinds, name, &WordKind::name);
    return it == kinds.end() ? nullptr : &*it;
}

std::string_view find_word(std::string_view text) {
    for (const WordKind& kind : word_kinds())
        if (const auto it = std::ranges::find(kind.words, text); it != kind.words.end()) return *it;
    return {};
}

std::string list_of(const WordKind& kind) {
    std::string list;
    for (const std::string_view word : kind.words) list += (list.empty() ? "" : ", ") + std::string(word);
    return list;
}

}  // namespace tegula::sema
