// The words that some arguments and modifiers take, `round = rtz`, `@ cache(l2)`, by kind. A generic parameter bounded by a kind, `R: round`, stands
// for one of them; one bounded by `fn` for a function, an operation or a lambda.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace tegula::sema {

struct WordKind {
    enum Of { arguments, cache, evict };  ///< cache, evict: modifiers of accesses, which change no result
    std::string_view name;   ///< of the argument or modifier, and of the bound: "round"
    std::string_view title;  ///< for messages: "rounding"
    std::span<const std::string_view> words;
    Of of = arguments;
};
std::span<const WordKind> word_kinds();
const WordKind* find_word_kind(std::string_view name);  ///< null: no words are of that kind
/// The word as the table holds it, of any kind; empty: it is none.
std::string_view find_word(std::string_view text);
/// "rne, rna, rtz"
std::string list_of(const WordKind& kind);

constexpr std::string_view kFunctionBound = "fn";

}  // namespace tegula::sema
