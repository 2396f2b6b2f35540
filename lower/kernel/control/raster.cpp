// The order in which a launch walks its grid when rows of programs are swept in groups (lang/raster.h), and divisions
// of programs' numbers. Clusters are swept as a whole. The launcher passes reciprocals: divisions by what is not known
// are long sequences, and take long to compile.
#include <algorithm>

#include "lang/gpu/raster.h"
#include "lower/kernel/access/access.h"
#include "lower/kernel/channel/channel.h"
#include "lower/kernel/control/control.h"
#include "lower/kernel/values.h"

namespace tegula::lower {

std::string quotient_by_reciprocal(Lowering& ctx) {
    ctx.formats.need("high_product");
    return support(
        ctx, "quotient", "quotient",
        "// a / b, for a below 2^63, by (2^64 - 1) / b rounded down: the high half of the product is the quotient or "
        "one less.\n"
        "__device__ __forceinline__ unsigned long long $(unsigned long long a, unsigned long long b, unsigned long "
        "long reciprocal) {\n"
        "    const unsigned long long q = high_product(a, reciprocal);\n    return q + (a - q * b >= b);\n}\n");
}

std::string clusters_reciprocal(Lowering& ctx, int axis) {
    return parameter(ctx, KernelParam::grid_reciprocal, ctx.fn.gpu->cluster[static_cast<size_t>(axis)], axis,
                     "const unsigned long long", "reciprocal");
}

std::string over_clusters(Lowering& ctx, const std::string& number, int axis) {
    const std::string divisor = clusters_along(ctx, axis), reciprocal = clusters_reciprocal(ctx, axis);
    return quotient_by_reciprocal(ctx) + "(" + number + ", " + divisor + ", " + reciprocal + ")";
}

std::string in_groups(Lowering& ctx, const std::string& place, const std::string& scope, const Put& put) {
    if (program_groups(ctx.fn) == 0) return place;
    const auto [it, added] = ctx.parameters.names.emplace("in groups: " + scope, "");
    if (!added) return it->second;
    const std::string rows = clusters_along(ctx, 0), columns = clusters_along(ctx, 1);
    const std::string group = std::to_string(std::max(program_groups(ctx.fn) / ctx.fn.gpu->cluster[0], 1)) + "u";
    const std::string divide = quotient_by_reciprocal(ctx), by_columns = clusters_reciprocal(ctx, 1);
    const bool planes = ctx.fn.gpu->grid_axes > 2;
    const std::string by_rows = planes ? clusters_reciprocal(ctx, 0) : "";
    const std::string order = support(
        ctx, "program in groups", "in_groups",
        "// Program of the plain order (axis 0 fastest) that comes at place `at` when groups of " + group +
            " rows are swept along axis 1. Of the numbers\n"
            "// behind columns, one is their reciprocal" +
            (planes ? ", the other that of rows" : "") +
            ". Very long rows stay as they are.\n"
            "__device__ __forceinline__ unsigned long long $(unsigned long long at, unsigned long long rows, unsigned "
            "long long columns, "
            "unsigned long long by_columns" +
            (planes ? ", unsigned long long by_rows" : "") + ") {\n    if (columns > 0xffffffffu / " + group +
            ") return at;\n" +
            (planes ? "    const unsigned long long below = " + divide + "(" + divide +
                          "(at, rows, by_rows), columns, by_columns) * (rows * columns), rest = at - below;\n"
                    : "    const unsigned long long below = 0, rest = at;\n") +
            "    const unsigned long long first = " + divide + "(rest, columns, by_columns) / " + group + " * " +
            group +
            ";\n"
            "    const unsigned height = rows - first < " +
            group + " ? rows - first : " + group +
            ", in = rest - first * columns, column = in / height;\n"
            "    return below + column * rows + first + (in - column * height);\n}\n");
    it->second = ctx.out.fresh("place");
    put("unsigned long long", it->second,
        order + "(" + place + ", " + rows + ", " + columns + ", " + by_columns + (planes ? ", " + by_rows : "") + ")");
    return it->second;
}

}  // namespace tegula::lower
