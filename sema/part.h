// A part of a tensor or tile, x[i, c +: N, :, none], with its indices evaluated once: what reads, writes and atomics share (internal to
// sema). Built by Elaborator::resolve_part; `access` and `indices` are per dimension of the base, see ir::Access.
#pragma once
#include <optional>
#include <vector>

#include "sema/elaborate.h"

namespace tegula::sema {

struct Part {
    Value base;  ///< tensor or tile
    Span span;
    ir::Access access;
    std::vector<ir::ValueId> indices;           ///< per axis; invalid for `all`
    std::vector<std::optional<int64_t>> known;  ///< per axis: the index or start where it is a constant
    std::vector<int> result_dim;                ///< per axis: first dimension of `shape` it makes, -1 for a scalar index
    Shape ir_shape;                             ///< of the accessed part
    Shape shape;                                ///< with inserted dimensions
    bool is_static() const {                    ///< a fixed rectangle
        for (size_t d = 0; d < known.size(); ++d)
            if (access.axes[d].kind == ir::Access::gather || !known[d]) return false;
        return true;
    }
    /// Object, then the index operands in order.
    std::vector<ir::ValueId> operands(ir::ValueId object) const {
        std::vector<ir::ValueId> out{object};
        for (ir::ValueId v : indices)
            if (v.valid()) out.push_back(v);
        return out;
    }
};

}  // namespace tegula::sema
