// Rows of tiles that stores drop, because they lie behind the end of a tensor: what only leads to them need not be computed. At M = 1 a product of
// 64 rows has one that counts. No LLVM.
#pragma once
#include <optional>
#include <vector>

#include "lang/uses.h"

namespace tegula::cpu {

/// A store keeps rows below extent(tensor, axis) - start.
struct RowLimit {
    ir::ValueId tensor, start;
    size_t axis;
};

class KeptRows {
public:
    explicit KeptRows(const ir::Function& fn);
    /// Rows along dimension `dim` of the (first) result of `at` that may be kept are below one of the limits, whose values exist in front of `at`.
    /// Nothing: any row may be.
    std::optional<std::vector<RowLimit>> of(ir::InstId at, size_t dim) const;

private:
    class Walk;
    bool known_at(ir::ValueId v, ir::InstId at) const;

    const ir::Function& fn_;
    ir::Uses uses_;
    std::vector<size_t> place_;  ///< of instructions in their blocks
};

}  // namespace tegula::cpu
