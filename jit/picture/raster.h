// The order of programs in a launch, for pictures and their tests.
#pragma once
#include <cstdint>

namespace tegula::picture {

/// The program of the plain order (axis 0 fastest) that comes at place `at` when groups of `group` rows are swept along axis 1 (0: plain): what
/// the text of kernels computes.
uint64_t program_at(uint64_t at, uint64_t rows, uint64_t columns, uint64_t group);

}  // namespace tegula::picture
