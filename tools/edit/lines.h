// Lines of an input that is no terminal, or one that cannot move its cursor.
#pragma once
#include <string>

#include "editor.h"

namespace tegula_tool::edit {

class LineReader {
public:
    explicit LineReader(int fd) : fd_(fd) {}
    /// The next line without its newline; false at the end. `interrupted` is looked at when a signal ended the wait.
    bool next(std::string& line, const volatile bool& interrupted);

private:
    int fd_;
    bool ended_ = false;
    std::string kept_;  ///< read, and behind the last line that was given
    size_t at_ = 0;
};

/// Reads lines until they are complete, with the prompt and its dots on `out` where it is no -1.
Line read_plain(LineReader& lines, Client& client, const std::string& prompt, int out);

/// What stands before further lines, as wide as the prompt.
std::string dots(const std::string& prompt);

}  // namespace tegula_tool::edit
