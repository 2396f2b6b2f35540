// See prompts.h.
#include "prompts.h"

#include <algorithm>

namespace tegula_tool::repl {

namespace {

constexpr std::string_view kPrompt = "tegula[", kPromptEnd = "]>", kDots = "...>";

/// Bytes of the prompt that a line begins with, and the space behind it; 0: none.
size_t prompt_size(std::string_view line) {
    if (!line.starts_with(kPrompt)) return 0;
    const size_t end = line.find_first_not_of("0123456789", kPrompt.size());
    if (end == line.npos || end == kPrompt.size() || !line.substr(end).starts_with(kPromptEnd)) return 0;
    return end + kPromptEnd.size() + (line.substr(end + kPromptEnd.size()).starts_with(' ') ? 1 : 0);
}

/// Likewise of the dots of a further line.
size_t dots_size(std::string_view line) {
    const size_t at = std::min(line.find_first_not_of(' '), line.size());
    if (!line.substr(at).starts_with(kDots)) return 0;
    return at + kDots.size() + (line.substr(at + kDots.size()).starts_with(' ') ? 1 : 0);
}

template <class Fn>
void each_line(std::string_view text, Fn&& fn) {
    for (size_t at = 0; at <= text.size();) {
        const size_t end = std::min(text.find('\n', at), text.size());
        fn(text.substr(at, end - at));
        at = end + 1;
    }
}

}  // namespace

std::string prompt_text(unsigned long long number) { return std::string(kPrompt) + std::to_string(number) + std::string(kPromptEnd) + " "; }

bool has_prompts(std::string_view text) {
    bool any = false;
    each_line(text, [&](std::string_view line) { any = any || prompt_size(line); });
    return any;
}

std::vector<std::string> inputs_of(const std::string& text) {
    if (!has_prompts(text)) return {text};
    std::vector<std::string> out;
    bool open = false;  // the line before was of an input
    each_line(text, [&](std::string_view line) {
        const size_t prompt = prompt_size(line), dots = dots_size(line);
        if (prompt)
            out.emplace_back(line.substr(prompt));
        else if (dots && open)
            (out.back() += '\n') += line.substr(dots);
        open = prompt || (dots && open);
    });
    return out;
}

}  // namespace tegula_tool::repl
