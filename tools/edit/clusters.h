// Characters as people see them (grapheme clusters of UTF-8), and the columns of a terminal that each takes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tegula_tool::edit {

struct Cluster {
    size_t bytes = 1;
    size_t columns = 1;
    bool as_bytes = false;   ///< no terminal shows it where it stands: its bytes are shown as \xNN, four columns each
    bool uncertain = false;  ///< terminals differ in how wide it is
    /// On terminals that take it for several.
    size_t most_columns() const { return uncertain ? bytes : columns; }
};
/// The one that begins at byte `at` of the text. A tab counts as one column, a newline as none.
Cluster cluster_at(std::string_view text, size_t at);
/// Where the one that ends at byte `at` begins; 0 for 0.
size_t before(std::string_view text, size_t at);
inline size_t behind(std::string_view text, size_t at) { return at < text.size() ? at + cluster_at(text, at).bytes : at; }
/// The columns of a text of one line.
size_t columns_of(std::string_view text);
/// A letter, digit or `_` of any script begins there.
bool is_word_at(std::string_view text, size_t at);

inline size_t line_begin(std::string_view text, size_t at) { return at == 0 ? 0 : text.rfind('\n', at - 1) + 1; }
inline size_t line_end(std::string_view text, size_t at) {
    const size_t end = text.find('\n', at);
    return end == std::string_view::npos ? text.size() : end;
}
inline bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\n") == std::string_view::npos; }

}  // namespace tegula_tool::edit
