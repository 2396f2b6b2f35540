// Text of where a line of a tile along an axis begins.
#pragma once
#include <string>

#include "lang/axis.h"

namespace tegula::cuda {

/// Text of the element number of coordinate 0 of the line whose number is the text `line`.
inline std::string line_base(const Axis& axis, const std::string& line) {
    const std::string in = std::to_string(axis.inner);
    if (axis.inner == 1) return line + " * " + std::to_string(axis.n);
    if (axis.outer == 1) return line;
    return "(" + line + " / " + in + " * " + std::to_string(axis.n * axis.inner) + " + " + line + " % " + in + ")";
}

}  // namespace tegula::cuda
