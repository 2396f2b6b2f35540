// What divides the values of scalars, whatever a launch brings.
#pragma once
#include "lang/ir.h"

namespace tegula {

/// A power of two, at most 2^40, that divides every value of an integer scalar.
int64_t power_of_two_divisor(const ir::Function& fn, ir::ValueId v);

}  // namespace tegula
