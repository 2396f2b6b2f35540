// Setting up one run (views.cpp, run.cpp).
#pragma once
#include "jit/interp/interp.h"
#include "jit/interp/machine.h"

namespace tegula::interp {

/// Views and scalar codes of the arguments.
void make_views(Shared& shared, std::span<const Argument> args);
/// Race shadows for every argument that overlaps a written one.
void make_shadows(Shared& shared);

}  // namespace tegula::interp
