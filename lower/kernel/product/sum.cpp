// Sums of wgmma products that a loop only adds to. Such a sum stays in registers that PTX knows by name, from before
// the loop until after it: as operands of an asm statement in a loop, every one of them would be carried through all of
// the compiler's passes.
#include "lang/tensor_core.h"
#include "lower/kernel/channel/channel.h"
#include "lower/kernel/control/control.h"
#include "lower/kernel/formats/text.h"
#include "lower/kernel/product/product.h"
#include "lower/kernel/values.h"

namespace tegula::lower {

using kernel::KernelOp;

namespace {

constexpr int kMany = 32;  ///< registers; fewer are carried along as operands

/// The type of a register of the sum; `other`: float.
kernel::Type sum_type(const Lowering& ctx, ir::ValueId sum) {
    if (text::is_native_float(ctx.fn.elem(sum))) return kernel::Type::other;
    return ctx.fn.type(sum).elem == Fmt::u32 ? kernel::Type::u32 : kernel::Type::i32;
}

/// Is the loop's carried value only the accumulator of one wgmma product, whose sum is only handed on? That product.
std::optional<ir::InstId> only_product(const Lowering& ctx, const ir::Inst& loop, size_t carried) {
    const ir::Block& body = ctx.fn.block(ctx.fn.blocks(loop)[0]);
    const ir::ValueId sum = body.args[carried + 1], next = ctx.fn.operands(ctx.fn.inst(body.insts.back()))[carried];
    const ir::Inst* dot = ctx.fn.def(next);
    if (!dot || dot->op != ir::Op::dot || !(dot->parent == ctx.fn.blocks(loop)[0]) || uses(ctx, sum) != 1 ||
        uses(ctx, next) != 1)
        return std::nullopt;
    const ir::InstId product = ctx.fn.value(next).def;
    const MmaRow& row = product_row(ctx.fn, product);
    const bool in_place = row.acc == Fmt::i32 || (row.acc == Fmt::f32 && !promotes(row));
    const bool adds = row.kind == MmaRow::wgmma && in_place && ctx.fn.operands(*dot)[2] == sum &&
                      layout(ctx, next) == layout(ctx, sum);
    return adds ? std::optional(product) : std::nullopt;
}

void keep_sums(Lowering& ctx, const std::function<bool(ir::ValueId sum, ir::InstId product)>& wanted) {
    ctx.fn.walk([&](ir::InstId id) {
        const ir::Inst& loop = ctx.fn.inst(id);
        if (loop.op != ir::Op::for_loop || (ctx.split.sum && is_split_loop(ctx.fn, loop))) return;
        for (uint32_t r = 0; r < loop.results.count; ++r)
            if (const auto product = only_product(ctx, loop, r); product && wanted(ctx.fn.result(loop, r), *product))
                ctx.plan.decide(KernelPass::keep_sums, ctx.fn.result(loop, r));
    });
}

}  // namespace

/// Threads do other things while a late product adds to its sum: no statement may move its registers.
void find_late_sums(Lowering& ctx) {
    keep_sums(ctx, [&](ir::ValueId, ir::InstId product) { return ctx.fn.gpu_inst(product).late; });
}

void find_kept_sums(Lowering& ctx) {
    keep_sums(ctx, [&](ir::ValueId sum, ir::InstId) { return registers(ctx, sum) >= kMany; });
}

std::string declare_named(Lowering& ctx, std::string_view stem, int64_t count) {
    const std::string name = ctx.out.fresh(stem) + "_";
    ctx.out.kernel().named.push_back({name, count});
    return name;
}

Ex declare_array(Lowering& ctx, kernel::Type type, std::string_view stem, int64_t size) {
    const std::string name = ctx.out.fresh(stem);
    ctx.out.declare(type == kernel::Type::other ? "float" : kernel::c_type(type), name, size);
    return ctx.pool.name(type, name);
}

void enter_sum(Lowering& ctx, ir::ValueId initial, ir::ValueId carried, ir::ValueId result) {
    const int count = registers(ctx, result);
    const std::string sum = declare_named(ctx, "sum", count);
    const kernel::Type type = sum_type(ctx, result);
    const Ex named = ctx.pool.name(type, sum);
    const ir::Inst* def = ctx.fn.def(initial);
    if (def && def->op == ir::Op::constant && ctx.fn.attrs(*def)[0] == 0) {
        ctx.out.call(KernelOp::named_set, {named, ctx.pool.number(0)});
    } else {
        const Ex from = declare_array(ctx, type, "initial", count);
        each(ctx, count,
             [&](Ex r) { ctx.out.assign(ctx.pool.index(type, from, r), spelled(ctx, text_at(ctx, initial, r))); });
        ctx.out.call(KernelOp::named_set, {named, from});
    }
    ctx.values.sums[carried.v] = ctx.values.sums[result.v] = sum;
}

/// Is the loop's sum only rounded to 16 bits by a bulk store in the same block? That one reads its registers by name.
bool stored_as_sum(const Lowering& ctx, ir::ValueId result) {
    const ir::InstId cast = ctx.values.uses.only_user(result);
    if (!cast.valid() || ctx.fn.inst(cast).op != ir::Op::cast ||
        !(ctx.fn.inst(cast).parent == ctx.fn.def(result)->parent))
        return false;
    const ir::ValueId rounded = ctx.fn.result(cast);
    return ctx.plan.has(KernelPass::round_in_store, rounded) &&
           ctx.fn.gpu_inst(ctx.values.uses.only_user(rounded)).bulk;
}

void leave_sum(Lowering& ctx, ir::ValueId result) {
    const auto kept = ctx.values.sums.find(result.v);
    if (kept == ctx.values.sums.end() || stored_as_sum(ctx, result)) return;
    const kernel::Type type = sum_type(ctx, result);
    ctx.out.call(KernelOp::named_get, {ctx.pool.name(type, name(ctx, result)), ctx.pool.name(type, kept->second)});
    ctx.values.sums.erase(kept);
}

}  // namespace tegula::lower
