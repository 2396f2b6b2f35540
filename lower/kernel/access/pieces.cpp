// Layout expressions taken apart (lang/layout_pieces.h): all but the register part of an address is computed once per
// access, and the register part is a constant after unrolling. Expressions that do not come apart are evaluated per
// element.
#include "lang/gpu/carried_load.h"
#include "lang/gpu/packed_view.h"
#include "lower/kernel/access/access.h"
#include "lower/kernel/access/part.h"
#include "lower/kernel/control/control.h"
#include "lower/kernel/packed/packed.h"
#include "lower/kernel/product/product.h"
#include "lower/kernel/values.h"

namespace tegula::lower {

using ir::Access;

std::vector<Ex> piece_indices(Lowering& ctx, const Part& part, Ex t, Ex r) {
    const size_t rank = part.axes.size();
    std::vector<Ex> out(3 * rank);
    for (size_t a = 0; a < rank; ++a) {
        out[a] = part.axes[a].start;
        if (part.access.axes[a].kind == Access::index) continue;
        const TileLayout& l = layout(ctx, part.value);
        out[rank + a] = thread_part(l, part.axes[a].dim, t);
        if (r) out[2 * rank + a] = register_part(l, part.axes[a].dim, r);
    }
    return out;
}

bool part_pieces(Lowering& ctx, Part& part) {
    const auto members = access_pieces(ctx.fn, ctx.fn.inst(part.inst),
                                       is_scalar(ctx, part.value) ? TileLayout{} : layout(ctx, part.value));
    if (!members) return false;
    const std::vector<Ex> indices = piece_indices(ctx, part, ctx.thread),
                          pitches = member_pitches(ctx, part.tensor, members->size());
    Ex sum = ctx.pool.constant(kernel::Type::u64, 0);
    for (size_t m = 0; m < members->size(); ++m) {
        const LayoutPieces& pieces = (*members)[m];
        for (const auto k : {LayoutPieces::uniform, LayoutPieces::thread})
            if (!pieces.part[k].is_constant(0))
                sum = sum + u64(layout_value(ctx, pieces.part[k], part.tensor, indices)) * pitches[m];
        if (!pieces.part[LayoutPieces::register_].is_constant(0))
            part.terms.emplace_back(pieces.part[LayoutPieces::register_], pitches[m]);
    }
    part.base = declare_base(ctx, part.inst, sum, piece_growth(ctx, part.inst, *members, pitches));
    part.in_pieces = true;
    return true;
}

// ---- loads of the next trip (lang/carried_load.h) ----

void find_carried_loads(Lowering& ctx) {
    for (uint32_t b = 0; b < ctx.fn.block_count(); ++b)
        for (const ir::InstId id : ctx.fn.block(ir::BlockId{b}).insts) {
            if (ctx.fn.inst(id).op != ir::Op::for_loop) continue;
            for (CarriedLoad& load : carried_loads(ctx.fn, id)) {
                const auto shared = std::make_shared<Walk>(Walk{std::move(load), {}});
                for (const ir::InstId access : {shared->load.first, shared->load.next}) {
                    ctx.packed.walks[access.v] = shared;
                    ctx.plan.decide(KernelPass::walk_addresses, ctx.fn.result(access));
                }
            }
        }
}

/// The variable that both loads of a tile see has the scope of the first one.
void declare_walk(Lowering& ctx, ir::InstId load) {
    const auto walk = ctx.packed.walks.find(load.v);
    if (walk == ctx.packed.walks.end() || walk->second->load.first != load ||
        ctx.packed.rings.count(ctx.fn.result(ctx.fn.inst(load)).v))
        return;
    walk->second->name = ctx.out.fresh("walk");
    ctx.out.declare("unsigned long long", walk->second->name);
}

/// The variable of an access' uniform and thread parts. `grows`: from trip to trip; empty: it is not known by how much.
Ex declare_base(Lowering& ctx, ir::InstId access, Ex sum, Ex grows) {
    const std::string base = ctx.out.fresh("base");
    const auto found = ctx.packed.walks.find(access.v);
    if (found != ctx.packed.walks.end() && grows && !found->second->name.empty()) {
        const Walk& walk = *found->second;
        const Ex at = ctx.pool.name(kernel::Type::u64, walk.name);
        if (walk.load.first == access)
            ctx.out.assign(at, sum);
        else
            ctx.out.assign(at, ctx.pool.select(element_at(ctx, walk.load.more, {}), grows, u64(int64(ctx, 0))),
                           kernel::AssignOp::add);
        sum = at;
    }
    ctx.out.let("unsigned long long", base, sum);
    return ctx.pool.name(kernel::Type::u64, base);
}

/// By how much the sum of an access' pieces grows from trip to trip; empty: not by a constant multiple of pitches.
Ex piece_growth(Lowering& ctx, ir::InstId access, std::span<const LayoutPieces> members, std::span<const Ex> pitches) {
    const auto found = ctx.packed.walks.find(access.v);
    if (found == ctx.packed.walks.end()) return {};
    Ex out = int64(ctx, 0);
    for (size_t m = 0; m < members.size(); ++m) {
        const auto by = growth(members[m].part[LayoutPieces::uniform], found->second->load.starts);
        if (!by) return {};
        out = out + int64(ctx, *by) * pitches[m];
    }
    return u64(out);
}

}  // namespace tegula::lower
