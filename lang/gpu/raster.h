// The order in which a launch on a GPU walks its grid, as far as the kernel's form decides it. Any order of programs is right: none may wait for
// another.
#pragma once
#include <array>
#include <span>
#include <string>

#include "lang/ir.h"

namespace tegula {

/// Programs of axis 0 that are swept together along axis 1; 0: the plain order, axis 0 fastest. What `schedule swizzle(n)` says, else a number that
/// suits products whose operands depend on one axis each. `why`: why a hint is not followed.
int program_groups(const ir::Function& form, std::string* why = nullptr);

/// The attribute `cluster(a, b, c)`: programs along each grid axis; 1 where it says nothing. `why`: set when it asks for what no GPU has (all 1
/// then).
std::array<int, 3> wanted_cluster(const ir::Function& fn, std::string* why = nullptr);
/// Does a grid consist of whole clusters?
bool has_whole_clusters(const std::array<int, 3>& cluster, std::span<const uint64_t, 3> grid);
/// Does the program print or assert? Its reports name programs by their place in the plain order.
bool reports_programs(const ir::Function& fn);

}  // namespace tegula
