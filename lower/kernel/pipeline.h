// The optional passes of lowering, and the text of what they have decided.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "lower/kernel/lower.h"
#include "lower/kernel/lowering.h"

namespace tegula::lower {

/// Runs the passes that decide before emission.
void make_plan(Lowering& ctx, const KernelOptions& options);
/// Behind emission: shows what the other passes have decided.
void finish_plan(const Lowering& ctx, const KernelOptions& options);

}  // namespace tegula::lower
