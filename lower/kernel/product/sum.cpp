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

namespace {

constexpr int kMany =
    32;  ///< registers; fewer are carried along as operands, unless threads do other things while they are added to

}  // namespace

/// Is the loop's carried value only the accumulator of one wgmma product, whose sum is only handed on?
bool kept_sum(const Lowering& ctx, const ir::Inst& loop, size_t carried) {
    const ir::Block& body = ctx.fn.block(ctx.fn.blocks(loop)[0]);
    const ir::ValueId sum = body.args[carried + 1], next = ctx.fn.operands(ctx.fn.inst(body.insts.back()))[carried];
    const ir::Inst* dot = ctx.fn.def(next);
    if (!dot || dot->op != ir::Op::dot || !(dot->parent == ctx.fn.blocks(loop)[0]) || uses(ctx, sum) != 1 ||
        uses(ctx, next) != 1)
        return false;
    const MmaRow& row = product_row(ctx.fn, ctx.fn.value(next).def);
    const bool in_place = row.acc == Fmt::i32 || (row.acc == Fmt::f32 && !promotes(row));
    return row.kind == MmaRow::wgmma && in_place && ctx.fn.operands(*dot)[2] == sum &&
           layout(ctx, next) == layout(ctx, sum) &&
           (registers(ctx, sum) >= kMany || ctx.fn.gpu_inst(ctx.fn.value(next).def).late);
}

void enter_sum(Lowering& ctx, ir::ValueId initial, ir::ValueId carried, ir::ValueId result) {
    const std::string sum = ctx.out.fresh("sum") + "_";
    const int count = registers(ctx, result);
    ctx.prologue += "    asm volatile(\".reg .b32 " + sum + "<" + std::to_string(count) + ">;\");\n";
    const ir::Inst* def = ctx.fn.def(initial);
    const bool zero = def && def->op == ir::Op::constant && ctx.fn.attrs(*def)[0] == 0;
    std::string moves, operands;
    for (int r = 0; r < count; ++r) {
        const std::string n = std::to_string(r);
        moves += "mov.b32 " + sum + n + (zero ? ", 0; " : ", %" + n + "; ");
        if (!zero)
            operands += (r ? ", \"" : " :: \"") + std::string(text::is_native_float(ctx.fn.elem(result)) ? "f" : "r") +
                        "\"(" + at(ctx, initial, ctx.pool.number(r)) + ")";
    }
    ctx.out.line("asm volatile(\"" + moves + "\"" + operands + ");");
    ctx.values.sums[carried.v] = ctx.values.sums[result.v] = sum;
}

/// Is the loop's sum only rounded to 16 bits by a bulk store in the same block? That one reads its registers by name.
bool stored_as_sum(const Lowering& ctx, ir::ValueId result) {
    if (uses(ctx, result) != 1) return false;
    for (const ir::InstId id : ctx.fn.block(ctx.fn.def(result)->parent).insts) {
        const ir::Inst& inst = ctx.fn.inst(id);
        if (inst.op == ir::Op::cast && ctx.fn.operands(inst)[0] == result) return rounded_by_store(ctx, inst);
    }
    return false;
}

void leave_sum(Lowering& ctx, ir::ValueId result) {
    const auto kept = ctx.values.sums.find(result.v);
    if (kept == ctx.values.sums.end() || stored_as_sum(ctx, result)) return;
    std::string moves, operands;
    for (int r = 0; r < registers(ctx, result); ++r) {
        const std::string n = std::to_string(r);
        moves += "mov.b32 %" + n + ", " + kept->second + n + "; ";
        operands += (r ? ", \"=" : "\"=") + std::string(text::is_native_float(ctx.fn.elem(result)) ? "f" : "r") +
                    "\"(" + name(ctx, result) + "[" + n + "])";
    }
    ctx.out.line("asm volatile(\"" + moves + "\" : " + operands + ");");
    ctx.values.sums.erase(kept);
}

}  // namespace tegula::lower
