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

/// How many elements of a line are joined with those `half` behind them.
inline kernel::Ex joined_at(kernel::Ex half, const Axis& axis) {
    kernel::Pool& pool = *half->pool;
    const kernel::Ex rest = pool.number(axis.n) - half;
    return pool.select(lt(half, rest), half, rest);
}

/// The element number of the first of the pair whose number, of `pairs` in each line, is `number`.
inline kernel::Ex first_of_pair(const Axis& axis, kernel::Ex number, kernel::Ex pairs) {
    const kernel::Ex row = pairs * axis.inner;
    return number / row * (axis.n * axis.inner) + number % row;
}

}  // namespace tegula::lower
