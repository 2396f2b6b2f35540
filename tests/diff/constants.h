// Operations with one constant operand, left or right: 0, 1, -1, powers of two and what lies beside them, extremes and random numbers, of integers of
// every width, floats, fixed point and logarithms. What a rewrite decides about a constant it must decide in the constant's width.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "tests/diff/elements.h"

namespace tegula::diff {

std::vector<Element> constant_formats();
uint64_t constant_programs(bool all);
/// Program `number`: a kernel with many such operations on several formats, or with `all` more of them on one. `twins`: its test also has the same
/// operations on operands from memory and compares the bits.
std::string constant_program(uint64_t number, bool all, bool twins);

}  // namespace tegula::diff
