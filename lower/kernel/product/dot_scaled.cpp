// What dot_scaled adds to a product: for each stretch of K with one pair of scales a sum from zero, then acc = fma(sum,
// a_scale * b_scale, acc), rounded to the accumulator's format. Scales are in registers of the threads that hold their
// rows or columns, or go through scratch. Here is also the sum without tensor cores, a chain of fma.
#include "lang/gpu/scratch.h"
#include "lower/kernel/access/access.h"
#include "lower/kernel/control/control.h"
#include "lower/kernel/elementwise/elementwise.h"
#include "lower/kernel/move/move.h"
#include "lower/kernel/product/product.h"
#include "lower/kernel/values.h"

namespace tegula::lower {

BlockScales stage_scales(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const auto in = ctx.fn.operands(inst);
    const Format& f32 = ctx.fn.types().format(id_of(Fmt::f32));
    const ScratchPlan plan = scratch_plan(ctx.fn, id);
    BlockScales scales;
    bool staged = false;
    for (const size_t d : {0u, 1u}) {
        const size_t o = d + 3, k = 1 - d;
        ScaleSide& s = scales[d];
        s.block = ctx.fn.attrs(inst)[d];
        const ScalePlace place = scale_place(ctx.fn, inst, o);
        if (place == ScalePlace::ones) continue;
        if (place == ScalePlace::scratch) {
            staged = true;
            s.array = scratch_area(ctx, id, "float", plan.operand[o]);
            stage_slab(ctx, {in[o], k, ctx.fn.type(in[o]).shape[k], 1, s.array}, ctx.pool.number(0),
                       [&](const std::string& x) { return factor(ctx, in[o], f32, false, x); });
            continue;
        }
        const Ex own_scales = declare_array(ctx, kernel::Type::other, "scale", registers(ctx, in[o]));
        s.array = own_scales.text();
        each_register(ctx, in[o], [&](Ex r) {
            ctx.out.assign(ctx.pool.index(kernel::Type::other, own_scales, r),
                           spelled(ctx, factor(ctx, in[o], f32, false, text_at(ctx, in[o], r))));
        });
        const TileLayout &own = layout(ctx, in[o]), &sums = layout(ctx, ctx.fn.result(inst));
        TileLayout::Point first{};
        for (int r = 0; r < sums.registers(); ++r) {
            first[d] = sums.point(r, 0, 0)[d];
            s.own.push_back(own.find_register(first, 0, 0));
        }
    }
    if (staged) sync(ctx);
    return scales;
}

bool takes_codes(const Lowering& ctx, Fmt instruction, ir::ValueId operand) {
    return ctx.fn.type(operand).elem == instruction ||
           (ctx.fn.elem(operand).kind == FormatKind::fixed && instruction == Fmt::i8);
}

void add_scaled(Lowering& ctx, ir::InstId id, const BlockScales& s, Ex k, Ex sum, const std::vector<int>& registers) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const ir::ValueId to = ctx.fn.result(inst);
    const Format &f32 = ctx.fn.types().format(id_of(Fmt::f32)), &f = ctx.fn.elem(to);
    const auto cast = [&](const Format& t, const Format& from, const std::string& x) {
        return t == from ? x : ctx.formats.cast(t, from, x);
    };
    const auto scale = [&](size_t d, Ex r) {
        const Ex block = k / s[d].block;
        const Ex number = s[d].own.empty() ? block * ctx.fn.type(to).shape[d] + clamped(ctx, to, d, r)
                                           : block + rename(ctx, s[d].own, r);
        return s[d].array + "[" + number.text() + "]";
    };
    // One times a scale is the scale.
    const auto both = [&](Ex r) -> std::string {
        if (s[0].array.empty()) return s[1].array.empty() ? "1.0f" : scale(1, r);
        if (s[1].array.empty()) return scale(0, r);
        const Known scales[] = {scale(0, r), scale(1, r)};
        return ctx.formats.elementwise(ir::Op::mul, f32, scales);
    };
    // An integer below 2^24 times a power of two: exact.
    const bool codes = product_row(ctx.fn, id).acc == Fmt::i32;
    const int places =
        codes ? ctx.fn.elem(ctx.fn.operands(inst)[0]).frac_bits + ctx.fn.elem(ctx.fn.operands(inst)[1]).frac_bits : 0;
    const std::string unit = places ? " * 0x1p-" + std::to_string(places) + "f" : "";
    each(ctx, static_cast<int>(registers.size()), [&](Ex i) {
        const Ex r = rename(ctx, registers, i);
        const std::string partial = (codes ? "(float)" : "") + ctx.pool.index(sum.type(), sum, i).text() + unit;
        const std::string sum_so_far = cast(f32, f, text_at(ctx, to, r));
        const std::string total = ctx.formats.fma(f32, partial, both(r), sum_so_far);
        assign_to(ctx, to, r, cast(f, f32, total));
    });
}

void scaled_fma_product(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const auto in = ctx.fn.operands(inst);
    const ir::ValueId to = ctx.fn.result(inst);
    const Format& f32 = ctx.fn.types().format(id_of(Fmt::f32));
    const int64_t k = ctx.fn.type(in[0]).shape[1], n = ctx.fn.type(to).shape[1];
    const ScratchPlan plan = scratch_plan(ctx.fn, id);
    accumulate_in(ctx, to, in[2], nullptr);
    ctx.out.open_block();
    std::string factors[2];
    for (size_t i = 0; i < 2; ++i) {
        factors[i] = scratch_area(ctx, id, "float", plan.operand[i]);
        stage(ctx, in[i], factors[i], [&](const std::string& x) { return factor(ctx, in[i], f32, false, x); });
    }
    const BlockScales scales = stage_scales(ctx, id);
    const std::string first_name = ctx.out.fresh("first"), kk_name = ctx.out.fresh("k"),
                      end_name = ctx.out.fresh("end");
    const Ex sum = declare_array(ctx, kernel::Type::other, "sum", registers(ctx, to)), first = int32(ctx, first_name),
             kk = int32(ctx, kk_name), end = int32(ctx, end_name);
    const auto next = [&](int64_t block) { return (first / block + 1) * block; };
    const Ex a_end = next(scales[0].block), b_end = next(scales[1].block);
    ctx.out.declare("int", end_name);
    ctx.out.open_for({"int", first_name, ctx.pool.number(0), lt(first, k), {{first, end}}, 1, {}});
    ctx.out.assign(end, ctx.pool.select(lt(a_end, b_end), a_end, b_end));
    each_register(ctx, to,
                  [&](Ex r) { ctx.out.assign(ctx.pool.index(kernel::Type::other, sum, r), spelled(ctx, "0.0f")); });
    ctx.out.open_for({"int", kk_name, first, lt(kk, end), {kernel::increment(kk)}, 1, {}});
    each_register(ctx, to, [&](Ex r) {
        const Ex mine = ctx.pool.index(kernel::Type::other, sum, r);
        const auto of = [&](size_t i, Ex number) { return factors[i] + "[" + number.text() + "]"; };
        const std::string x = of(0, clamped(ctx, to, 0, r) * k + kk), y = of(1, kk * n + clamped(ctx, to, 1, r));
        ctx.out.assign(mine, spelled(ctx, ctx.formats.fma(f32, x, y, mine.text())));
    });
    ctx.out.close();
    add_scaled(ctx, id, scales, first, sum, all_registers(ctx, to));
    ctx.out.close();
    ctx.out.close();
}

}  // namespace tegula::lower
