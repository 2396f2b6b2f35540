// Late products (GpuInst::late) run on while the next trip of their loop decodes its first factor. Factors in registers
// are then in two sets that trips take in turns, and so the body is there twice: what one copy leaves to the next trip
// is where the other one looks for it, and nothing is moved.
#include "lang/gpu/hints.h"
#include "lower/kernel/channel/channel.h"
#include "lower/kernel/control/control.h"
#include "lower/kernel/product/product.h"
#include "lower/kernel/product/warp_groups.h"
#include "lower/kernel/values.h"

namespace tegula::lower {

using kernel::KernelOp;

/// Registers of PTX for a product's first factor, those of the loop's present copy.
std::string held_factor(Lowering& ctx, const WarpGroups& w, ir::InstId product) {
    std::string& registers = ctx.late.factors[{product.v, ctx.late.second_copy}];
    if (registers.empty())
        registers = declare_named(ctx, "factor", static_cast<int64_t>(w.tiles.size()) * w.steps() * 4);
    return registers;
}

/// The places that the second copy of the loop's body finds what it carries in: other ones, of tiles that nobody wants
/// behind the loop.
std::vector<std::string> other_places(Lowering& ctx, const ir::Inst& loop, const std::vector<std::string>& places) {
    std::vector<std::string> out = places;
    for (uint32_t r = 0; r < loop.results.count; ++r) {
        const ir::ValueId result = ctx.fn.result(loop, r);
        if (is_scalar(ctx, result) || !in_registers(ctx, result) || uses(ctx, result) ||
            ctx.values.sums.count(result.v))
            continue;
        out[r] = ctx.out.fresh("v");
        ctx.out.declare(array_type(ctx, result), out[r], array_size(ctx, result));
    }
    return out;
}

/// A loop with late products, in two copies of its body: what one leaves to the next trip is where the other looks for
/// it.
void late_loop(Lowering& ctx, ir::InstId id, const Trips& trips) {
    const ir::Inst& loop = ctx.fn.inst(id);
    const ir::BlockId body = ctx.fn.blocks(loop)[0];
    const auto& args = ctx.fn.block(body).args;
    const std::vector<std::string> places = ctx.control.targets.at(body.v), others = other_places(ctx, loop, places);
    ctx.out.var(trips.type, trips.counter, trips.start);
    kernel::For copies;
    copies.unroll = static_cast<int>(unrolling(ctx.fn, loop).copies);
    ctx.out.open_for(std::move(copies));
    for (const bool second : {false, true}) {
        ctx.late.second_copy = second;
        const Ex from = element_at(ctx, ctx.fn.operands(loop)[0], {});
        ctx.late.later_trip = second ? Ex() : ne(element_at(ctx, args[0], {}), from);
        ctx.out.call(KernelOp::meet_warp);
        ctx.out.break_if(negation(trips.test));
        ctx.out.open_block();
        declare_index(ctx, loop, trips);
        for (size_t i = 0; i < places.size(); ++i) ctx.values.names[args[i + 1].v] = (second ? others : places)[i];
        set_targets(ctx, body, second ? places : others);
        trip(ctx, body);
        ctx.out.close();
        next_trip(ctx, trips);
    }
    ctx.out.close();
    ctx.late.second_copy = false;
    // Behind it the products have ended, and the stages that the last of them read are given back.
    ctx.out.call(KernelOp::wgmma_wait, {ctx.pool.number(ctx.fn.gpu_inst(id).wait)});
    const Ex end = element_at(ctx, ctx.fn.operands(loop)[1], {});
    const Ex some = lt(element_at(ctx, ctx.fn.operands(loop)[0], {}), end);
    for (const ir::InstId release : ctx.fn.block(body).insts)
        if (ctx.fn.inst(release).op == ir::Op::channel_release && ctx.fn.gpu_inst(release).late)
            give_back_if(ctx, release, some, 0);
}

}  // namespace tegula::lower
