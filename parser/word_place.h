// The place of a word in a text that is being typed, for completion.
#pragma once
#include <string_view>
#include <vector>

namespace tegula {

/// The place of a word in a text that need not parse, as far as the tokens before it tell.
struct WordPlace {
    /// names: anything; members: of `chain`; nothing: a name that is being declared, a number, a comment, a string.
    enum Kind : uint8_t { names, members, types, layouts, attributes, schedules, imports, nothing } kind = names;
    size_t begin = 0, end = 0;             ///< of the word
    std::vector<std::string_view> chain;   ///< of names with points between them, before the point that the word stands behind
    std::vector<std::string_view> callee;  ///< what the innermost open bracket calls or instantiates; empty: nothing
    bool instantiates = false;             ///< the bracket is `<`
    bool begins_argument = false;          ///< the word comes first in an argument
    size_t argument = 0;                   ///< arguments of the callee that are complete
    std::string_view argument_name;        ///< that the open one is given by
    bool in_text = false;                  ///< the word is of a comment or string
    bool begins_statement = false;
    bool follows_operand = false;  ///< the token before it ends an expression
};
/// `text` up to `at` and the word that goes on there.
WordPlace word_place(std::string_view text, size_t at);

}  // namespace tegula
