// What the command writes to a terminal: text of programs and files cannot command it, and the line of progress never mixes with other text.
#pragma once
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace tegula_tool {

/// Control characters, what reorders or hides text, and bytes that are no UTF-8, as escapes. `keep_lines`: newlines and tabs stay.
std::string visible(std::string_view text, bool keep_lines = false);
/// Lines of a program's text, made visible.
void print_lines(std::string_view text, std::FILE* to);
/// What a stage of the compiler gives, byte for byte; made visible where standard output is a terminal.
void print_artifact(std::string_view text);

/// Shall what goes to `fd` be coloured? `mode` is that of --color.
bool wants_colour(const std::string& mode, int fd);

/// Writes over the line of progress on standard error.
void show_progress(const std::string& line);
/// Programs of a grid, or other things, that are done, with their rate and the time that is left: as the line of progress on a terminal, elsewhere as a line every ten
/// seconds. All of them: the line goes. Any thread may call it.
void show_count(uint64_t done, uint64_t all, const char* what = "programs");
/// Takes the line of progress away, where there is one: before anything else is written. Signal handlers may call it.
void erase_progress();

}  // namespace tegula_tool
