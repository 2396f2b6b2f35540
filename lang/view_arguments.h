// The arguments of a launch that nobody gives: views of what pointers reach (ir::PointerView).
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "lang/runtime.h"

namespace tegula {

/// The launch's arguments with those of the views behind them, none where the function has none. nullopt: this launch has no such views, as a scalar
/// that must not be negative is, or a stride is not positive.
std::optional<std::vector<Argument>> with_views(const ir::Function& fn, std::span<const Argument> args, std::span<const uint64_t, 3> grid);

}  // namespace tegula
