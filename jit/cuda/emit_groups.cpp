// Accesses in groups of registers that lie together: where all of a group is inside the tensor, one comparison tells, and none of its accesses has a
// condition. Rows are rarely as wide as their tiles, but all of their groups save the last are whole. Kernels that move narrow elements only: with
// wider ones memory is busy longer than conditions take, and two versions of an access take longer to compile.
#include <algorithm>

#include "jit/cuda/emit_access.h"

namespace tegula::cuda {

namespace {

constexpr int kTogether = 8;

bool moves_narrow_elements(const ir::Function& fn) {
    for (uint32_t i = 0; i < fn.inst_count(); ++i) {
        const ir::Inst& inst = fn.inst(ir::InstId{i});
        const bool moves = inst.parent.valid() && (inst.op == ir::Op::load || inst.op == ir::Op::store);
        if (moves && fn.elem(fn.operands(inst)[0]).bits < 32) return true;
    }
    return false;
}

}  // namespace

/// Whether registers [first, first + count) leave the tensor through no range; "" where that takes more than a comparison or two.
std::string Emitter::group_inside(const Part& part, int first, int count) {
    const TileLayout& l = layout(part.value);
    std::string out = part.fixed;
    for (size_t a = 0; a < part.axes.size(); ++a) {
        const Part::Axis& axis = part.axes[a];
        if (part.access.axes[a].kind == ir::Access::gather) return {};
        if (axis.dim < 0 || axis.size.empty() || part.access.axes[a].kind == ir::Access::index) continue;
        const auto d = static_cast<size_t>(axis.dim);
        if (axis.count.empty() || !additive(l, axis.dim)) return {};
        int64_t low = INT64_MAX, high = 0;
        for (int r = first; r < first + count; ++r) {
            low = std::min<int64_t>(low, l.point(r, 0, 0)[d]);
            high = std::max<int64_t>(high, l.point(r, 0, 0)[d]);
        }
        const std::string thread = thread_part(l, axis.dim);
        out = both(out, std::to_string(low) + " + " + thread + " >= " + axis.low + " && " + std::to_string(high) + " + " + thread + " < " + axis.low +
                            " + " + axis.count);
    }
    return out;
}

/// Registers one by one; the body is told whether the element needs its bounds.
void Emitter::by_groups(const Part& part, bool checked, const std::function<void(const std::string& r, bool bounds)>& body) {
    const bool groups = checked && part.vector == 1 && !is_scalar(part.value) && !part.mask.valid() && registers(part.value) % kTogether == 0 &&
                        registers(part.value) <= unroll_limit_ && moves_narrow_elements(fn_) &&
                        part_condition(part, "0", true) != part_condition(part, "0", false) && !group_inside(part, 0, 1).empty();
    if (!groups) return each_register(part.value, [&](const std::string& r) { body(r, checked); });
    for (int first = 0; first < registers(part.value); first += kTogether) {
        const auto group = [&](bool bounds) { each(kTogether, [&](const std::string& i) { body(std::to_string(first) + " + " + i, bounds); }); };
        open("if (" + group_inside(part, first, kTogether) + ")");
        group(false);
        close("} else {");
        ++depth_;
        group(true);
        close();
    }
}

}  // namespace tegula::cuda
