// Products of few columns. Lanes of a micro-kernel lie along the columns, so that a matrix times a vector would fill one of them: it is computed as
// the transposed product, (a @ b)^T = b^T @ a^T, whose few rows keep all lanes busy. Its chains multiply and add the same numbers in the same order.
// No LLVM.
#pragma once
#include <vector>

#include "lang/ir.h"

namespace tegula::cpu {

/// Rewrites them, and says which products they are now. The transpositions are views.
std::vector<ir::InstId> transpose_narrow_products(ir::Function& fn);

}  // namespace tegula::cpu
