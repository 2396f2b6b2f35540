// Words that mean something without being declared, with what is to be said of them: for completion and questions about a word.
#pragma once
#include <span>
#include <string_view>
#include <vector>

namespace tegula::sema {

struct Word {
    std::string_view kind;  ///< builtin, host (a function of host statements), type, layout, constant, option, attribute, schedule,
                            ///< metric (of a bench)
    std::string_view name, signature, doc;
};
/// In order of importance; of words with several meanings all.
std::vector<Word> vocabulary();

// Parts of it.
std::span<const std::string_view> option_words();    ///< that arguments of built-ins and format constructors take
std::span<const std::string_view> constant_words();  ///< inf, nan, ..
/// Attributes and schedules, with the kind of place that they stand in.
std::vector<Word> hint_words();

}  // namespace tegula::sema
