// Accesses in groups of registers that lie together: where all of a group is inside the tensor, one comparison tells,
// and none of its accesses has a condition. Rows are rarely as wide as their tiles, but all of their groups save the
// last are whole. Kernels that move narrow elements only: with wider ones memory is busy longer than conditions take,
// and two versions of an access take longer to compile.
#include <algorithm>

#include "lang/gpu/wide_access.h"
#include "lower/kernel/access/access.h"
#include "lower/kernel/access/part.h"
#include "lower/kernel/values.h"

namespace tegula::lower {

namespace {

constexpr int kTogether = 8;
/// Elements at bit offsets that a thread loads or stores without a loop: a load takes two dozen instructions, a store,
/// which leaves its neighbours' bits alone, more; with and without bounds they are there twice, and again in every trip
/// that a loop over K is unrolled by.
constexpr int kMostSpeltOut = 16;

bool moves_narrow_elements(const ir::Function& fn) {
    for (uint32_t i = 0; i < fn.inst_count(); ++i) {
        const ir::Inst& inst = fn.inst(ir::InstId{i});
        const bool moves = inst.parent.valid() && (inst.op == ir::Op::load || inst.op == ir::Op::store);
        if (moves && fn.elem(fn.operands(inst)[0]).bits < 32) return true;
    }
    return false;
}

}  // namespace

/// Whether registers [first, first + count) leave the tensor through no range; empty where that takes more than a
/// comparison or two.
Ex group_inside(Lowering& ctx, const Part& part, int first, int count) {
    const TileLayout& l = layout(ctx, part.value);
    Ex out = part.fixed;
    for (size_t a = 0; a < part.axes.size(); ++a) {
        const Part::Axis& axis = part.axes[a];
        if (part.access.axes[a].kind == ir::Access::gather) return {};
        if (axis.dim < 0 || !axis.size || part.access.axes[a].kind == ir::Access::index) continue;
        const auto d = static_cast<size_t>(axis.dim);
        if (!axis.count || !is_additive(l, axis.dim)) return {};
        int64_t low = INT64_MAX, high = 0;
        for (int r = first; r < first + count; ++r) {
            low = std::min<int64_t>(low, l.point(r, 0, 0)[d]);
            high = std::max<int64_t>(high, l.point(r, 0, 0)[d]);
        }
        const Ex thread = thread_part(ctx, l, axis.dim);
        out = both(out, both(ge(thread + low, axis.low), lt(thread + high, axis.low + axis.count)));
    }
    return out;
}

/// When a group that begins at any register `first` is inside; empty where that is not known, or where groups differ
/// in more than where they begin.
Ex any_group_inside(Lowering& ctx, const Part& part, Ex first) {
    const TileLayout& l = layout(ctx, part.value);
    Ex out = part.fixed;
    for (const Part::Axis& axis : part.axes) {
        if (axis.dim < 0 || !axis.size) continue;
        const auto d = static_cast<size_t>(axis.dim);
        const auto at = [&](int r) { return int64_t{l.point(r, 0, 0)[d]}; };
        int64_t high = 0;
        for (int r = 0; r < kTogether; ++r) high = std::max(high, at(r) - at(0));
        for (int g = 0; g < l.registers(); g += kTogether) {
            int64_t low = 0, most = 0;
            for (int r = g; r < g + kTogether; ++r) {
                low = std::min(low, at(r) - at(g));
                most = std::max(most, at(r) - at(g));
            }
            if (low != 0 || most != high) return {};
        }
        const Ex c = coordinate(ctx, l, axis.dim, first);
        out = both(out, both(ge(c, axis.low), lt(c + high, axis.low + axis.count)));
    }
    return out;
}

/// Many registers: the groups are trips of a loop, and the tile lies in local memory, where its elements cost less than
/// reaching them.
void by_groups_in_loop(Lowering& ctx, const Part& part, bool checked, bool groups,
                       const std::function<void(Ex r, bool bounds)>& body) {
    const int count = registers(ctx, part.value), together = count % kTogether ? 1 : kTogether;
    const std::string g = ctx.out.fresh("g");
    const Ex first = ctx.pool.counter(g, count, together), inside = groups ? any_group_inside(ctx, part, first) : Ex();
    const Ex counter = int32(ctx, g);
    ctx.out.open_for({"int", g, ctx.pool.number(0), lt(counter, count), {counted(counter, together)}, 1});
    const auto group = [&](bool bounds) { each(ctx, together, [&](Ex i) { body(first + i, bounds); }); };
    if (!inside) {
        group(checked);
    } else {
        ctx.out.open_if(inside);
        group(false);
        ctx.out.otherwise();
        group(true);
        ctx.out.close();
    }
    ctx.out.close();
}

/// Registers one by one; the body is told whether the element needs its bounds.
void by_groups(Lowering& ctx, const Part& part, bool checked, const std::function<void(Ex r, bool bounds)>& body) {
    const auto has_bounds = [&] {
        const Ex without = part_condition(ctx, part, ctx.pool.number(0), false);
        return part_condition(ctx, part, ctx.pool.number(0), true) != without;
    };
    const bool groups = ctx.plan.runs(KernelPass::edge_groups) && checked && part.vectors.length == 1 &&
                        !is_scalar(ctx, part.value) && !part.mask && registers(ctx, part.value) % kTogether == 0 &&
                        registers(ctx, part.value) <= ctx.values.unroll_limit && moves_narrow_elements(ctx.fn) &&
                        has_bounds() && group_inside(ctx, part, 0, 1);
    if (groups) ctx.plan.decide(KernelPass::edge_groups, part.value);
    const bool rolled = !is_scalar(ctx, part.value) && is_bit_addressed(ctx.fn.elem(part.tensor)) &&
                        registers(ctx, part.value) > kMostSpeltOut;
    if (rolled) return by_groups_in_loop(ctx, part, checked, groups, body);
    if (!groups) return each_register(ctx, part.value, [&](Ex r) { body(r, checked); });
    for (int first = 0; first < registers(ctx, part.value); first += kTogether) {
        const auto group = [&](bool bounds) { each(ctx, kTogether, [&](Ex i) { body(i + first, bounds); }); };
        ctx.out.open_if(group_inside(ctx, part, first, kTogether));
        group(false);
        ctx.out.otherwise();
        group(true);
        ctx.out.close();
    }
}

}  // namespace tegula::lower
