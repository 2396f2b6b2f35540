// Words and forms of other languages, as data: what people who come from Python, NumPy, PyTorch, Triton, CUDA or C type, and what it is here.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tegula {

/// How a foreign word is used. type, value: `word`, dots included; call: `word(..)`; method: `x.word(..)`; member: `x.word`; part: `x.word[..]`;
/// keyword: a word that the grammar does not take where it stands; module: the first part of `word.name`; form: no word, but a construct of the
/// grammar.
enum class ForeignUse : uint8_t { type, value, call, method, member, part, keyword, module, form };

struct ForeignRow {
    ForeignUse use;
    std::string_view word, rewrite, note;
};

/// The rows of a word, best first.
std::vector<const ForeignRow*> foreign(ForeignUse use, std::string_view word);
/// The row of a construct; it must exist.
const ForeignRow& foreign_form(std::string_view word);

/// What stands around a foreign word, as text.
struct ForeignUseText {
    std::string self;                                                 ///< what stands before the point of a method, member or part
    std::vector<std::pair<std::string, std::string>> arguments = {};  ///< name (empty: by position) and text
};
/// The rewrite of a row with its holes filled; nullopt where it needs an argument that is not there or has no place for one that is.
std::optional<std::string> rewritten(const ForeignRow& row, const ForeignUseText& with);

}  // namespace tegula
