// Lines of an input that is no terminal, or one that cannot move its cursor.
#pragma once
#include <string>

#include "editor.h"

namespace tegula_tool::edit {

class LineReader {
public:
    explicit LineReader(int fd) : fd_(fd) {}
    enum class Got { line, interrupted, ended };
    /// The next line without its newline; `interrupted`: something can be read from `wake` (-1: nothing ever).
    Got next(std::string& line, int wake);

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
