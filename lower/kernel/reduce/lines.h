// Where a line of a tile along an axis begins.
#pragma once
#include "lang/axis.h"
#include "lang/kernel/expr.h"

namespace tegula::lower {

/// The element number of coordinate 0 of the line whose number is `line`.
inline kernel::Ex line_base(const Axis& axis, kernel::Ex line) {
    if (axis.inner == 1) return line * axis.n;
    if (axis.outer == 1) return line;
    return line / axis.inner * (axis.n * axis.inner) + line % axis.inner;
}

}  // namespace tegula::lower
