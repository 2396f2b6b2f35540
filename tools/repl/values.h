// How the console shows values: text of the JSON that a session gives for them.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace tegula_tool::repl {

using Json = nlohmann::json;

/// What stands for an element: its value, or the code that it is stored as.
enum class Form : uint8_t { value, code, hex, bits };

struct Style {
    size_t width = 80;         ///< columns; rows that are longer go on in the next line
    bool colour = false;       ///< NaN, Inf, subnormal and saturated numbers
    uint64_t digits = 0;       ///< of reals; 0: as many as tell the number from all others
    int64_t edge = 3;          ///< elements at each end of a dimension that is not shown whole
    int64_t threshold = 1000;  ///< elements above which a tensor is not shown whole
    Form form = Form::value;
};

/// The text of a value without its type.
std::string value_text(const Json& value, const Style& style);
/// With its type in a line above, where that is needed to understand it. `suffix` stands behind the type, and goes where no type is shown.
std::string value_block(const Json& value, const Style& style, const std::string& suffix);
/// Type, extents and layout of a tensor, also where the layout is the usual one.
std::string full_type(const Json& tensor);
/// What all numbers of a format have in common, a fact each line.
std::string format_text(const Json& format);
/// An element as the language writes it.
std::string element_text(const Json& element, uint64_t digits = 0);
/// Columns of names and texts.
std::string table_text(const std::vector<std::vector<std::string>>& rows);

}  // namespace tegula_tool::repl
