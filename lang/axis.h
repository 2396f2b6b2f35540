// A tile seen along one axis: [outer, n, inner], row-major. Axis -1 is the whole tile. Reductions, scans, sorts and regions of all machines walk
// tiles this way.
#pragma once
#include "lang/type.h"

namespace tegula {

struct Axis {
    int64_t outer = 1, n = 1, inner = 1;
    Axis(const Shape& shape, int64_t axis) {
        if (axis < 0) {
            n = shape.elements();
            return;
        }
        for (int64_t d = 0; d < shape.rank; ++d) (d < axis ? outer : d == axis ? n : inner) *= shape[static_cast<size_t>(d)];
    }
    int64_t lines() const { return outer * inner; }
};

/// Half of the smallest power of two >= n: where the fixed tree of a reduction starts.
inline int64_t first_stride(int64_t n) {
    int64_t p = 1;
    while (p < n) p *= 2;
    return p / 2;
}

}  // namespace tegula
