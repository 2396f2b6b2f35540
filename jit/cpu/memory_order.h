// In which order the axes of an object lie in memory: what addresses, the order of loop nests and the argument block agree on. No LLVM.
#pragma once
#include <optional>
#include <vector>

#include "jit/cpu/cpu.h"
#include "lang/layout.h"

namespace tegula::cpu {

/// The physical tuple, if it is the indices in some order, the slowest first: row, col, and a user's `(k, i, j)`. Rows begin with whole bytes.
std::optional<std::vector<uint8_t>> permutation(const Layout& layout, size_t rank);

struct MemoryOrder {
    std::vector<uint8_t> axes;   ///< by descending stride, as far as known: else as row-major
    int unit = -1;               ///< the axis along which elements lie side by side, the last of `axes`; -1: none known
    bool runs = false;           ///< .. not all over, but in runs, as a layout's `j % 64`
    bool whole_rows = false;     ///< of a tensor: rows begin with whole bytes, whatever the width
    std::vector<int64_t> steps;  ///< by axis: elements from neighbour to neighbour, where that is constant, else 0; empty: unknown
};
/// Of a tensor or a tile (dense, row-major).
MemoryOrder memory_order(const ir::Function& fn, const CompileOptions& options, ir::ValueId object);
/// The dimension of a part along which neighbours lie side by side; -1: none, or not known.
int unit_dimension(const ir::Access& part, const MemoryOrder& order);

}  // namespace tegula::cpu
