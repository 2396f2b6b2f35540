// Texts that a person edits with the program of their choice.
#pragma once
#include <string>

namespace tegula_tool {

/// Gives the text to $VISUAL, $EDITOR or vi, which has the terminal meanwhile, and reads it back without the line breaks at its end. An error
/// message, after which the text is as it was, or empty.
std::string edit_outside(std::string& text);

}  // namespace tegula_tool
