// The order in which a launch walks its grid when rows of programs are swept in groups (lang/raster.h). Clusters are swept as a whole.
#include "lang/raster.h"

#include <algorithm>

#include "jit/cuda/emitter.h"

namespace tegula::cuda {

std::string Emitter::in_groups(const std::string& place, const std::string& scope, const std::function<void(const std::string&)>& put) {
    if (program_groups(fn_) == 0) return place;
    const auto [it, added] = param_names_.emplace("in groups: " + scope, "");
    if (!added) return it->second;
    const std::string rows = clusters_along(0), columns = clusters_along(1);
    const std::string group = std::to_string(std::max(program_groups(fn_) / fn_.gpu->cluster[0], 1));
    const std::string order = support(
        "program in groups", "in_groups",
        "// Program of the plain order (axis 0 fastest) that comes at place `at` when groups of " + group +
            " rows are swept along axis 1. Huge grids stay as\n"
            "// they are: 64-bit divisions are long sequences.\n"
            "__device__ __forceinline__ unsigned long long $(unsigned long long at, unsigned long long all_rows, unsigned long long all_columns) {\n"
            "    if ((at | all_rows | all_columns) >> 32 || (all_rows * all_columns) >> 28) return at;\n"
            "    const unsigned rows = all_rows, columns = all_columns;\n" +
            (fn_.gpu->grid_axes > 2
                 ? "    const unsigned plane = rows * columns, below = (unsigned)at / plane * plane, rest = (unsigned)at - below;\n"
                 : "    const unsigned below = 0, rest = (unsigned)at;\n") +
            "    const unsigned group = rows < " + group + "u ? rows : " + group +
            "u, first = rest / (group * columns) * group;\n"
            "    const unsigned height = rows - first < group ? rows - first : group, in = rest - first * columns, column = in / height;\n"
            "    return below + column * rows + first + (in - column * height);\n}\n");
    it->second = fresh("place");
    put("const unsigned long long " + it->second + " = " + order + "(" + place + ", " + rows + ", " + columns + ");");
    return it->second;
}

}  // namespace tegula::cuda
