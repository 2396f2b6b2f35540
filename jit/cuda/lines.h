// A tile seen along one axis.
#pragma once
#include <string>

#include "lang/type.h"

namespace tegula::cuda {

/// [outer, n, inner], row-major; axis -1 is the whole tile.
struct Lines {
    int64_t outer = 1, n = 1, inner = 1;
    Lines(const Shape& shape, int64_t axis) {
        if (axis < 0) {
            n = shape.elements();
            return;
        }
        for (int64_t d = 0; d < shape.rank; ++d) (d < axis ? outer : d == axis ? n : inner) *= shape[static_cast<size_t>(d)];
    }
    int64_t columns() const { return outer * inner; }
    /// Text of the element number of coordinate 0 of line `column`.
    std::string base(const std::string& column) const {
        const std::string in = std::to_string(inner);
        if (inner == 1) return column + " * " + std::to_string(n);
        if (outer == 1) return column;
        return "(" + column + " / " + in + " * " + std::to_string(n * inner) + " + " + column + " % " + in + ")";
    }
};

}  // namespace tegula::cuda
