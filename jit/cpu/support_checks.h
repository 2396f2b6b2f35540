// What the `checked` variant reports (abi.h, Support), in the words of the checked interpreter.
#pragma once
#include "jit/cpu/support.h"

namespace tegula::cpu {

/// `element`: row-major number in the instruction's result, -1: none. `code`: the operand that the message names.
void report_failure(Worker& worker, uint32_t inst, Failure failure, int64_t element, uint64_t code);
/// Reports a cast with `overflow = trap` when `code`, of the operand's format, does not fit the result's. `random`: operand 1 at
/// this element, if there is one.
void check_cast(Worker& worker, uint32_t inst, int64_t element, uint64_t code, uint64_t random);

}  // namespace tegula::cpu
