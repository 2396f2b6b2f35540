// Axes by strides (memory_order.h).
#include "jit/cpu/memory_order.h"

#include <algorithm>
#include <numeric>

namespace tegula::cpu {

std::optional<std::vector<uint8_t>> permutation(const Layout& layout, size_t rank) {
    if (layout.kind() == Layout::Kind::strides) return std::nullopt;
    std::vector<uint8_t> out;
    for (const LayoutExpr& e : layout.physical(static_cast<int>(rank))) {
        if (e.op != LayoutExpr::index || std::find(out.begin(), out.end(), e.value) != out.end()) return std::nullopt;
        out.push_back(static_cast<uint8_t>(e.value));
    }
    if (out.size() != rank) return std::nullopt;
    return out;
}

static bool uses(const LayoutExpr& e, int64_t index) {
    return (e.op == LayoutExpr::index && e.value == index) || (e.a && (uses(*e.a, index) || uses(*e.b, index)));
}

/// The index that counts through runs of the last member, which holds it alone: `j`, `j % 64`.
static int run_index(const std::vector<LayoutExpr>& members) {
    if (members.empty()) return -1;
    const LayoutExpr& last = members.back();
    const LayoutExpr* index = last.op == LayoutExpr::rem && last.b->op == LayoutExpr::constant ? last.a.get() : &last;
    if (index->op != LayoutExpr::index) return -1;
    const bool alone = std::none_of(members.begin(), members.end() - 1, [&](const LayoutExpr& e) { return uses(e, index->value); });
    return alone || index != &last ? static_cast<int>(index->value) : -1;
}

/// Of dense storage whose axes lie in this order.
static std::vector<int64_t> dense_steps(const std::vector<uint8_t>& axes, const Shape& shape) {
    constexpr int64_t kMost = int64_t{1} << 32;
    std::vector<int64_t> out(axes.size());
    int64_t step = 1;
    for (auto a = axes.rbegin(); a != axes.rend(); ++a) {
        out[*a] = step;
        const int64_t extent = shape[*a];
        step = extent == kDynamic || extent > kMost ? 0 : step * extent;
        if (step > kMost) step = 0;
    }
    return out;
}

MemoryOrder memory_order(const ir::Function& fn, const CompileOptions& options, ir::ValueId object) {
    const Type& type = fn.type(object);
    const size_t rank = type.shape.rank;
    MemoryOrder out;
    out.axes.resize(rank);
    std::iota(out.axes.begin(), out.axes.end(), uint8_t{0});
    const auto unit = [&](int axis) {
        out.unit = axis;
        if (axis < 0) return;
        out.axes.erase(std::find(out.axes.begin(), out.axes.end(), axis));
        out.axes.push_back(static_cast<uint8_t>(axis));
    };
    if (rank == 0) return out;
    if (type.kind != Type::tensor) {
        out.unit = static_cast<int>(rank) - 1;
        return out;
    }
    for (size_t i = 0; i < fn.params.size() && i < options.tensors.size(); ++i)
        if (fn.params[i].value == object && options.tensors[i].strided) {
            unit(options.tensors[i].unit);
            return out;
        }
    const Layout& layout = fn.types().layout(type.layout);
    if (auto order = permutation(layout, rank)) {
        out.axes = std::move(*order);
        out.unit = out.axes.back();
        out.whole_rows = true;
        out.steps = dense_steps(out.axes, type.shape);
    } else if (layout.kind() == Layout::Kind::strides) {
        if (const auto strides = layout.bit_strides(std::vector<int64_t>(rank, 2), 8))
            std::sort(out.axes.begin(), out.axes.end(),
                      [&](uint8_t a, uint8_t b) { return (*strides)[a] != (*strides)[b] ? (*strides)[a] > (*strides)[b] : a < b; });
        unit(layout.innermost_dimension(static_cast<int>(rank)));
    } else {
        unit(run_index(layout.physical(static_cast<int>(rank))));
        out.runs = out.unit >= 0;
    }
    return out;
}

int unit_dimension(const ir::Access& part, const MemoryOrder& order) {
    using ir::Access;
    int dimension = 0;  // in the order of axes, where there are no gathers
    for (size_t a = 0; a < part.axes.size(); ++a) {
        const Access::Axis& axis = part.axes[a];
        if (axis.kind == Access::gather) return -1;
        if (axis.kind == Access::index) continue;
        if (static_cast<int>(a) == order.unit) return axis.kind == Access::all || axis.step == 1 ? dimension : -1;
        ++dimension;
    }
    return -1;
}

}  // namespace tegula::cpu
