// Products of four warps and registers that PTX knows by name, as asm statements.
#pragma once
#include <string>

#include "lang/kernel/kernel.h"

namespace tegula::cuda {

/// Puts text in the place of operations that are printed with their neighbours. Returns the functions that it calls,
/// whose names end with a letter: those of Builder::fresh end with a digit.
std::string print_products(kernel::Kernel& kernel);

}  // namespace tegula::cuda
