// Products on wgmma whose sums are made anew after every few steps (warp_groups.h): those kept in 13 bits (fp8) every
// 128 elements of K, added in f32; those of dot_scaled wherever scales change. Such a sum, a part, needs registers
// beside the accumulator's, so that it is made of a few rows and columns of the result at a time, and the next one is
// under way while it is added if there are registers for two. (Parts as large as the accumulator made ptxas spill; the
// order of the pieces changes no bit.)
#include <algorithm>

#include "lang/gpu/hints.h"
#include "lang/tensor_core.h"
#include "lower/kernel/access/access.h"
#include "lower/kernel/control/control.h"
#include "lower/kernel/move/move.h"
#include "lower/kernel/product/product.h"
#include "lower/kernel/product/warp_groups.h"
#include "lower/kernel/values.h"

namespace tegula::lower {

using kernel::KernelOp;

namespace {

constexpr int kLeastOfPart = 16;  ///< 32 columns: with fewer A is read more often than it is worth
constexpr int kBeside = 40;       ///< registers that ptxas wants beside the sums: addresses, counters, scales

}  // namespace

/// Registers of a thread that the kernel's accumulators leave for parts.
int part_registers(const Lowering& ctx, const WarpGroups& w) {
    const auto exchange = register_exchange(ctx.fn);
    const int bound = register_bound(ctx.fn).most,
              room = std::min(255, ctx.fn.gpu->arch->registers / ctx.kernel.threads / 8 * 8);
    int left = (exchange ? exchange->others : bound ? bound : room) - kBeside;
    for (uint32_t i = 0; i < ctx.fn.inst_count(); ++i)
        if (const ir::Inst& inst = ctx.fn.inst(ir::InstId{i}); inst.parent.valid() && ir::is_product(inst.op))
            left -= registers(ctx, ctx.fn.result(inst));
    return w.smem_a ? left : left - static_cast<int>(w.tiles.size()) * w.steps() * 4;
}

/// A part for every `size` elements of K and as many of the pieces, which follow one another, as have no more than
/// `most` registers.
std::vector<WarpGroupsPart> wgmma_cut(const Lowering& ctx, const WarpGroups& w, int64_t size, int most) {
    const int per = static_cast<int>(size / w.row->k);
    std::vector<WarpGroups::Part> parts;
    for (int s = 0; s < w.steps(); s += per)
        for (size_t begin = 0, end = 0; begin < w.pieces.size(); begin = end) {
            WarpGroups::Part part{begin, begin, s, std::min(s + per, w.steps()), true, {}, 0};
            for (int64_t columns = 0; end < w.pieces.size() && (columns += w.pieces[end].columns) <= 2 * most;
                 part.end = ++end)
                for (int64_t c = 0; c < w.pieces[end].columns; c += 8)
                    for (int i = 0, r = w.sum_register(layout(ctx, w.result), w.tiles[w.pieces[end].tile],
                                                       w.pieces[end].column + c);
                         i < 4; ++i)
                        part.sums.push_back(r + i);
            std::sort(part.sums.begin(), part.sums.end());
            parts.push_back(std::move(part));
        }
    return parts;
}

/// A new sum every `size` elements of K and for every few pieces, for `add` to add: its array, the result's registers
/// in that order, and its first element of K. What `meanwhile` emits runs beside the first one. Sums are in registers
/// that PTX knows by name, so that none is touched before it has been waited for.
void wgmma_parts(Lowering& ctx, WarpGroups& w, ir::InstId id, int64_t size, const std::function<void()>& meanwhile,
                 const AddPart& add) {
    const int left = part_registers(ctx, w),
              sets = w.row->acc == Fmt::i32 ? 2 : 1;  // of integers and of the floats that they are cast to
    // Factors in registers are decoded between products: rather two small parts by turns than a large one.
    const int turns = !w.smem_a && left / sets >= 2 * kLeastOfPart ? 2 : 1;
    const int most = std::clamp(left / sets / turns / 4 * 4, kLeastOfPart, kPartRegisters);
    w.cut(2 * most);
    std::vector<WarpGroups::Part> parts = wgmma_cut(ctx, w, size, most);
    const size_t count = parts[0].sums.size();
    const bool equal = std::all_of(parts.begin(), parts.end(),
                                   [&](const WarpGroups::Part& part) { return part.sums.size() == count; });
    const bool ahead = parts.size() > 1 && equal && 2 * static_cast<int>(count) <= left;
    std::map<std::vector<int64_t>, std::string> names;  // registers in tuples of several lengths make ptxas serialise
    const auto sum_of = [&](size_t i) -> const std::string& {
        std::vector<int64_t> form{ahead ? static_cast<int64_t>(i % 2) : 0};
        for (size_t piece = parts[i].begin; piece < parts[i].end; ++piece) form.push_back(w.pieces[piece].columns);
        std::string& sum = names[form];
        if (!sum.empty()) return sum;
        return sum = declare_named(ctx, "sum", static_cast<int64_t>(parts[i].sums.size()));
    };
    const auto issue = [&](size_t i) {
        WarpGroups one = w;
        one.sum = sum_of(i);
        wgmma_run(ctx, one, "", parts[i]);
    };
    if (!w.smem_a) meanwhile();  // what computes operand A's registers is not to share them with what it computes
    if (!w.smem_a && ahead) wgmma_hold(ctx, w, held_factor(ctx, w, id));
    const bool waits = w.smem_a || ahead;  // behind a statement that issues a part, not in it
    for (WarpGroups::Part& part : parts) part.wait = waits ? -1 : 0;
    issue(0);
    if (w.smem_a) meanwhile();
    for (size_t i = 0; i < parts.size(); ++i) {
        const bool next = ahead && i + 1 < parts.size();
        if (i > 0 && !ahead) issue(i);
        if (next) issue(i + 1);
        ctx.out.open_block();
        const Ex part = declare_array(ctx, w.sum_type(), "part", static_cast<int64_t>(parts[i].sums.size()));
        if (waits) ctx.out.call(KernelOp::wgmma_wait, {ctx.pool.number(next)});
        ctx.out.call(KernelOp::named_get, {part, ctx.pool.name(w.sum_type(), sum_of(i))});
        if (i + 1 == parts.size()) release_early(ctx, id);
        add(part, parts[i].sums, int64_t{parts[i].first} * w.row->k);
        ctx.out.close();
    }
}

/// The stages that are given back right behind the product: nothing reads them any more while its last part is added.
void release_early(Lowering& ctx, ir::InstId product) {
    const std::vector<ir::InstId>& list = ctx.fn.block(ctx.fn.inst(product).parent).insts;
    for (auto at = std::find(list.begin(), list.end(), product) + 1;
         at != list.end() && ctx.fn.inst(*at).op == ir::Op::channel_release; ++at) {
        if (ctx.fn.gpu_inst(*at).sync_before || ctx.fn.gpu_inst(*at).fence_before) return;
        lower_channel_release(ctx, *at);
        ctx.channels.released.insert(at->v);
    }
}

/// Stretches between scales.
void wgmma_scaled(Lowering& ctx, WarpGroups& w, ir::InstId id) {
    BlockScales scales;
    wgmma_parts(
        ctx, w, id, scale_stretch(ctx.fn, ctx.fn.inst(id)), [&] { scales = stage_scales(ctx, id); },
        [&](Ex part, const std::vector<int>& registers, int64_t k) {
            add_scaled(ctx, id, scales, ctx.pool.number(k), part, registers);
        });
}

/// fp8 in f32: a new sum every 128 elements, added with one rounding.
void wgmma_promoted(Lowering& ctx, WarpGroups& w, ir::InstId id) {
    const Ex sum = ctx.pool.name(kernel::Type::other, name(ctx, w.result));
    const auto element = [&](Ex array, Ex r) { return ctx.pool.index(kernel::Type::other, array, r); };
    wgmma_parts(
        ctx, w, id, kPromotion, [] {},
        [&](Ex part, const std::vector<int>& registers, int64_t) {
            each(ctx, static_cast<int>(registers.size()), [&](Ex i) {
                const Ex to = element(sum, rename(ctx, registers, i));
                ctx.out.assign(to, to + element(part, i));
            });
        });
}

}  // namespace tegula::lower
