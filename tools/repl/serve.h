// The console for programs: requests are lines of JSON on standard input, events lines of JSON on standard output.
#pragma once
#include "core.h"

namespace tegula_tool::repl {

int serve(Core& core);

/// An event as a line.
std::string line_of(Json event);

}  // namespace tegula_tool::repl
