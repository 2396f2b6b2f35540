// Hints that a GPU does not follow, as warnings at the place where they stand (lower/gpu/hints.h finds them).
#pragma once
#include "jit/engine/engine.h"

namespace tegula {

/// Warnings for the form that most launches on `arch` run.
std::vector<Diagnostic> hint_warnings(const Executable& exe, const Arch& arch, const std::atomic<bool>* cancel = nullptr);

/// The same as facts, where the form is at hand.
std::vector<explain::Note> explain_hints(const Executable& exe, const Arch& arch, const ir::Function& form);

}  // namespace tegula
