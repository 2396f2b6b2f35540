// Diagnostics in the forms of other tools: lines as GCC writes them, and SARIF 2.1.0, which code hosts and editors read.
#pragma once
#include <string>

namespace tegula_tool {

/// A path as a relative or `file` URI: all but the characters that need no escape is escaped.
std::string uri_of(const std::string& path);
/// One line for each diagnostic and each of its notes, out of their JSON lines.
std::string gnu_text(const std::string& json_lines);
/// One document of all diagnostics.
std::string sarif_text(const std::string& json_lines, const std::string& version);

}  // namespace tegula_tool
