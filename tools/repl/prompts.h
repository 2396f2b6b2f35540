// Prompts of a console in a text: what is pasted, or kept as a transcript, has them in front of its lines and answers between these.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace tegula_tool::repl {

/// The inputs of a text: those behind its prompts without these and the dots of further lines, answers left out; or the text as it is where it has
/// none.
std::vector<std::string> inputs_of(const std::string& text);
/// Is there a prompt in it?
bool has_prompts(std::string_view text);
/// `tegula[3]> `
std::string prompt_text(unsigned long long number);

}  // namespace tegula_tool::repl
