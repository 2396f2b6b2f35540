// Text of statements. What C-like languages agree on is written here; how operations are spelled is the caller's.
#pragma once
#include <string>

#include "lang/kernel/kernel.h"

namespace tegula::kernel {

using CallText = std::string (*)(const Call& call);

/// Lines with four spaces for each level of depth.
std::string text(const Body& body, int depth, CallText call);
/// The first line of a statement, without indentation.
std::string first_line(const Statement& statement, CallText call);
/// As an operation and its operands: "copy_wait 2".
std::string call_text(const Call& call);
/// What the kernel consists of, with names of operations (--emit=kernel).
std::string dump(const Kernel& kernel);

}  // namespace tegula::kernel
