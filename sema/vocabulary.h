// Words that mean something without being declared, with what is to be said of them: for completion and questions about a word.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace tegula::sema {

/// What a word is: one of the vocabulary, of what a text declares, or what only its place tells.
enum class NameKind : uint8_t {
    builtin,
    host /* a function of host statements */,
    type,
    layout,
    constant,
    option,
    attribute,
    schedule,
    metric /* of a bench */,
    keyword,
    module,
    import,
    const_,
    struct_,
    fn,
    kernel,
    test,
    bench,
    parameter,
    generic,
    extent,
    field,
    member,
    argument,
    variable,
    local,
    let,
    var,
    function,
    name,
    count_
};
/// As answers of sessions and documents have it. Those of `host` are built in, too.
const char* kind_text(NameKind kind);
inline bool is_builtin_function(NameKind kind) { return kind == NameKind::builtin || kind == NameKind::host; }

struct Word {
    NameKind kind;
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
