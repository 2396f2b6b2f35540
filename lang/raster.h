// The order in which a launch on a GPU walks its grid, as far as the kernel's form decides it. Any order of programs is right: none may wait for
// another.
#pragma once
#include <string>

#include "lang/ir.h"

namespace tegula {

/// Programs of axis 0 that are swept together along axis 1; 0: the plain order, axis 0 fastest. What `schedule swizzle(n)` says, else a number that
/// suits products whose operands depend on one axis each. `why`: why a hint is not followed.
int program_groups(const ir::Function& form, std::string* why = nullptr);

}  // namespace tegula
