// Atomics that the processor has no instruction for (abi.h, Support): elements inside of words, or across two.
#pragma once
#include "jit/cpu/support.h"

namespace tegula::cpu {

/// Updates the element of atomic `inst` that is `bit` bits behind `data`, whoever updates its neighbours; its old code.
uint64_t update_element(Launch& launch, uint32_t inst, uint8_t* data, uint64_t bit, uint64_t value, uint64_t expected);

}  // namespace tegula::cpu
