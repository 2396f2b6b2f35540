// Host expressions as kernels: so that what a test computes between launches runs on the machine under test too.
#pragma once
#include <optional>

#include "lang/ir.h"

namespace tegula {

/// An expression function (tiles by value in, `ret` values out) as a kernel of one program: tile parameters become `in` tensors, scalars stay, every
/// result becomes an `out` tensor (scalars: of extent 1) after the parameters. nullopt for pointers, and for tiles too large for a GPU's registers.
std::optional<ir::Function> as_kernel(const ir::Function& expression);

}  // namespace tegula
