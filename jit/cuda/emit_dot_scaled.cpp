// What dot_scaled adds to a product: for each stretch of K with one pair of scales a sum from zero, then acc = fma(sum, a_scale * b_scale, acc),
// rounded to the accumulator's format. Scales are in registers of the threads that hold their rows or columns, or go through scratch. Here is also
// the sum without tensor cores, a chain of fma.
#include "jit/cuda/emitter.h"
#include "lang/gpu/scratch.h"

namespace tegula::cuda {

Emitter::BlockScales Emitter::stage_scales(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    const auto in = fn_.operands(inst);
    const Format& f32 = fn_.types().format(id_of(Fmt::f32));
    const ScratchPlan plan = scratch_plan(fn_, id);
    BlockScales scales;
    bool staged = false;
    for (const size_t d : {0u, 1u}) {
        const size_t o = d + 3, k = 1 - d;
        ScaleSide& s = scales[d];
        s.block = fn_.attrs(inst)[d];
        const ScalePlace place = scale_place(fn_, inst, o);
        if (place == ScalePlace::ones) continue;
        if (place == ScalePlace::scratch) {
            staged = true;
            s.array = scratch_area(id, "float", plan.operand[o]);
            stage_slab(in[o], s.array, k, "0", fn_.type(in[o]).shape[k], 1, [&](const std::string& x) { return factor(in[o], f32, false, x); });
            continue;
        }
        s.array = fresh("scale");
        line("float " + s.array + "[" + std::to_string(registers(in[o])) + "];");
        each_register(in[o], [&](Ex r) { line(s.array + "[" + r + "] = " + factor(in[o], f32, false, at(in[o], r)) + ";"); });
        const TileLayout &own = layout(in[o]), &sums = layout(fn_.result(inst));
        TileLayout::Point first{};
        for (int r = 0; r < sums.registers(); ++r) {
            first[d] = sums.point(r, 0, 0)[d];
            s.own.push_back(own.find_register(first, 0, 0));
        }
    }
    if (staged) sync();
    return scales;
}

bool Emitter::takes_codes(Fmt instruction, ir::ValueId operand) const {
    return fn_.type(operand).elem == instruction || (fn_.elem(operand).kind == FormatKind::fixed && instruction == Fmt::i8);
}

void Emitter::add_scaled(ir::InstId id, const BlockScales& s, Ex k, const std::string& sum, const std::vector<int>& registers) {
    const ir::Inst& inst = fn_.inst(id);
    const ir::ValueId to = fn_.result(inst);
    const Format &f32 = fn_.types().format(id_of(Fmt::f32)), &f = fn_.elem(to);
    const auto cast = [&](const Format& t, const Format& from, const std::string& x) {
        return t == from ? x : prelude_.cast(t, from, x, Round::rne, Overflow::automatic);
    };
    const auto scale = [&](size_t d, Ex r) {
        const Ex block = k / s[d].block;
        const Ex number = s[d].own.empty() ? block * fn_.type(to).shape[d] + clamped(to, d, r) : block + rename(s[d].own, r);
        return s[d].array + "[" + number.text() + "]";
    };
    // One times a scale is the scale.
    const auto both = [&](Ex r) -> std::string {
        if (s[0].array.empty()) return s[1].array.empty() ? "1.0f" : scale(1, r);
        if (s[1].array.empty()) return scale(0, r);
        const Known scales[] = {scale(0, r), scale(1, r)};
        return prelude_.elementwise(ir::Op::mul, f32, scales);
    };
    // An integer below 2^24 times a power of two: exact.
    const bool codes = product_row(fn_, id).acc == Fmt::i32;
    const int places = codes ? fn_.elem(fn_.operands(inst)[0]).frac_bits + fn_.elem(fn_.operands(inst)[1]).frac_bits : 0;
    const std::string unit = places ? " * 0x1p-" + std::to_string(places) + "f" : "";
    each(static_cast<int>(registers.size()), [&](Ex i) {
        const Ex r = rename(registers, i);
        const std::string partial = (codes ? "(float)" : "") + sum + "[" + i + "]" + unit;
        const std::string total = prelude_.fma(f32, partial, both(r), cast(f32, f, at(to, r)));
        assign_to(to, r, cast(f, f32, total));
    });
}

void Emitter::scaled_fma_product(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    const auto in = fn_.operands(inst);
    const ir::ValueId to = fn_.result(inst);
    const Format& f32 = fn_.types().format(id_of(Fmt::f32));
    const int64_t k = fn_.type(in[0]).shape[1], n = fn_.type(to).shape[1];
    const ScratchPlan plan = scratch_plan(fn_, id);
    accumulate_in(to, in[2], nullptr);
    open("");
    std::string factors[2];
    for (size_t i = 0; i < 2; ++i) {
        factors[i] = scratch_area(id, "float", plan.operand[i]);
        stage(in[i], factors[i], [&](const std::string& x) { return factor(in[i], f32, false, x); });
    }
    const BlockScales scales = stage_scales(id);
    const std::string sum = fresh("sum"), first = fresh("first"), kk = fresh("k"), end = fresh("end");
    line("float " + sum + "[" + std::to_string(registers(to)) + "];");
    line("#pragma unroll 1");
    open("for (int " + first + " = 0, " + end + "; " + first + " < " + std::to_string(k) + "; " + first + " = " + end + ")");
    const auto next = [&](int64_t block) { return "(" + first + " / " + std::to_string(block) + " + 1) * " + std::to_string(block); };
    const std::string a_end = next(scales[0].block), b_end = next(scales[1].block);
    line(end + " = " + a_end + " < " + b_end + " ? " + a_end + " : " + b_end + ";");
    each_register(to, [&](Ex r) { line(sum + "[" + r + "] = 0.0f;"); });
    line("#pragma unroll 1");
    open("for (int " + kk + " = " + first + "; " + kk + " < " + end + "; ++" + kk + ")");
    each_register(to, [&](Ex r) {
        const std::string x = factors[0] + "[" + (clamped(to, 0, r) * k + int32(kk)).text() + "]";
        const std::string y = factors[1] + "[" + (int32(kk) * n + clamped(to, 1, r)).text() + "]";
        line(sum + "[" + r + "] = " + prelude_.fma(f32, x, y, sum + "[" + r + "]") + ";");
    });
    close();
    add_scaled(id, scales, int32(first), sum, all_registers(to));
    close();
    close();
}

}  // namespace tegula::cuda
