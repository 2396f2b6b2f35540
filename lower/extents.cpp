// Extents: named extents whose value is a fact (`where N == 64`, or a form that a machine compiles for rows of one width) become constants, and the
// tensors whose axes they are get them as extents. What follows from a constant, the fold and the mask pass find.
#include <algorithm>

#include "lower/lower.h"
#include "lower/rewrite.h"

namespace tegula {

namespace {

using namespace ir;

/// The only value that the facts allow for an extent; kDynamic when there are several, or where nothing is in the tensor.
int64_t only_value(const PassOptions& options, const std::string& extent) {
    int64_t low = 0, high = INT64_MAX;
    for (const LaunchFacts::Fact& f : options.facts) {
        if (f.extent != extent) continue;
        low = std::max(low, f.at_least);
        high = std::min(high, f.at_most);
    }
    return low == high && low > 0 ? low : kDynamic;
}

/// Gives axes that are the extent its value.
bool shape_tensors(Function& fn, const PassOptions& options, const std::string& extent, int64_t value) {
    bool changed = false;
    for (const LaunchFacts::DimFact& dim : options.dims) {
        if (dim.extent != extent) continue;
        for (const Param& p : fn.params) {
            if (p.kind != Param::tensor || p.name != dim.tensor) continue;
            Type type = fn.type(p.value);
            int64_t& axis = type.shape[static_cast<size_t>(dim.axis)];
            int64_t extent = 0;
            if (__builtin_mul_overflow(value, dim.times, &extent) || extent % dim.by != 0) continue;  // such a launch is refused
            extent /= dim.by;
            if (axis == extent) continue;
            axis = extent;
            fn.value(p.value).type = fn.types().intern(type);
            changed = true;
        }
    }
    return changed;
}

}  // namespace

bool fix_extents(Function& fn, const PassOptions& options) {
    bool changed = false;
    for (const Param& p : fn.params) {
        const int64_t value = p.kind == Param::extent ? only_value(options, p.name) : kDynamic;
        if (value == kDynamic) continue;
        changed = shape_tensors(fn, options, p.name, value) || changed;
        bool used = false;
        fn.walk([&](InstId i) {
            for (const ValueId v : fn.operands(fn.inst(i))) used = used || v == p.value;
        });
        if (!used) continue;
        fn.replace_uses(p.value, insert_constant(fn, fn.block(fn.body).insts.front(), fn.type_of(p.value), static_cast<uint64_t>(value)));
        changed = true;
    }
    return changed;
}

}  // namespace tegula
