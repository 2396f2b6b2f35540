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
            stage_slab(ctx, in[o], s.array, k, "0", ctx.fn.type(in[o]).shape[k], 1,
                       [&](const std::string& x) { return factor(ctx, in[o], f32, false, x); });
            continue;
        }
        s.array = ctx.out.fresh("scale");
        ctx.out.line("float " + s.array + "[" + std::to_string(registers(ctx, in[o])) + "];");
        each_register(ctx, in[o], [&](Ex r) {
            ctx.out.line(s.array + "[" + r + "] = " + factor(ctx, in[o], f32, false, at(ctx, in[o], r)) + ";");
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

void add_scaled(Lowering& ctx, ir::InstId id, const BlockScales& s, Ex k, const std::string& sum,
                const std::vector<int>& registers) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const ir::ValueId to = ctx.fn.result(inst);
    const Format &f32 = ctx.fn.types().format(id_of(Fmt::f32)), &f = ctx.fn.elem(to);
    const auto cast = [&](const Format& t, const Format& from, const std::string& x) {
        return t == from ? x : ctx.formats.cast(t, from, x, Round::rne, Overflow::automatic);
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
        const std::string partial = (codes ? "(float)" : "") + sum + "[" + i + "]" + unit;
        const std::string total = ctx.formats.fma(f32, partial, both(r), cast(f32, f, at(ctx, to, r)));
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
    ctx.out.open("");
    std::string factors[2];
    for (size_t i = 0; i < 2; ++i) {
        factors[i] = scratch_area(ctx, id, "float", plan.operand[i]);
        stage(ctx, in[i], factors[i], [&](const std::string& x) { return factor(ctx, in[i], f32, false, x); });
    }
    const BlockScales scales = stage_scales(ctx, id);
    const std::string sum = ctx.out.fresh("sum"), first = ctx.out.fresh("first"), kk = ctx.out.fresh("k"),
                      end = ctx.out.fresh("end");
    ctx.out.line("float " + sum + "[" + std::to_string(registers(ctx, to)) + "];");
    ctx.out.line("#pragma unroll 1");
    ctx.out.open("for (int " + first + " = 0, " + end + "; " + first + " < " + std::to_string(k) + "; " + first +
                 " = " + end + ")");
    const auto next = [&](int64_t block) {
        return "(" + first + " / " + std::to_string(block) + " + 1) * " + std::to_string(block);
    };
    const std::string a_end = next(scales[0].block), b_end = next(scales[1].block);
    ctx.out.line(end + " = " + a_end + " < " + b_end + " ? " + a_end + " : " + b_end + ";");
    each_register(ctx, to, [&](Ex r) { ctx.out.line(sum + "[" + r + "] = 0.0f;"); });
    ctx.out.line("#pragma unroll 1");
    ctx.out.open("for (int " + kk + " = " + first + "; " + kk + " < " + end + "; ++" + kk + ")");
    each_register(ctx, to, [&](Ex r) {
        const std::string x = factors[0] + "[" + (clamped(ctx, to, 0, r) * k + int32(ctx, kk)).text() + "]";
        const std::string y = factors[1] + "[" + (int32(ctx, kk) * n + clamped(ctx, to, 1, r)).text() + "]";
        ctx.out.line(sum + "[" + r + "] = " + ctx.formats.fma(f32, x, y, sum + "[" + r + "]") + ";");
    });
    ctx.out.close();
    add_scaled(ctx, id, scales, int32(ctx, first), sum, all_registers(ctx, to));
    ctx.out.close();
    ctx.out.close();
}

}  // namespace tegula::lower
