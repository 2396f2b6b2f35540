// Text of statements. What C-like languages agree on is written here; how operations are spelled is the caller's.
#pragma once
#include <string>
#include <vector>

#include "lang/kernel/kernel.h"

namespace tegula::kernel {

using CallText = std::string (*)(const Call& call);

/// The bytes of a text from `begin` to before `end`.
struct Stretch {
    size_t begin = 0, end = 0;
};
/// Lines with four spaces for each level of depth. `marks` receives where the lines of marks stand.
std::string text(const Body& body, int depth, CallText call, std::vector<Stretch>* marks = nullptr);
/// The first line of a statement, without indentation.
std::string first_line(const Statement& statement, CallText call);
/// As an operation and its operands: "copy_wait 2".
std::string call_text(const Call& call);
/// What the kernel consists of, with names of operations (--emit=kernel).
std::string dump(const Kernel& kernel);

}  // namespace tegula::kernel
