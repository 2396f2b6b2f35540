// dot_scaled without tensor cores: for each stretch of K with one pair of scales a chain from zero in f32, then acc = fma(chain, a_scale * b_scale,
// acc), rounded to the accumulator's format after each stretch.
#include "jit/cuda/emitter.h"
#include "lang/gpu_scratch.h"

namespace tegula::cuda {

void Emitter::cuda_dot_scaled(ir::InstId id) {
    TEGULA_CHECK(fn_.gpu_inst(id).row == 0, "dot_scaled has no instruction of its own");
    scaled_fma_product(id);
}

void Emitter::scaled_fma_product(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    const auto in = fn_.operands(inst);
    const ir::ValueId to = fn_.result(inst);
    const Format &f32 = fn_.types().format(id_of(Fmt::f32)), &f = fn_.elem(to);
    const int64_t a_block = fn_.attrs(inst)[0], b_block = fn_.attrs(inst)[1];
    const Shape& shape = fn_.type(to).shape;
    const int64_t k = fn_.type(in[0]).shape[1], n = shape[1], a_blocks = fn_.type(in[1]).shape[1];
    const ScratchPlan plan = scratch_plan(fn_, id);
    TEGULA_CHECK(layout(in[4]) == layout(to), "a product's accumulator lies like its result");
    declare(to);
    open("");
    std::string s[4];
    for (size_t i = 0; i < 4; ++i) {
        s[i] = scratch_area(id, "float", plan.operand[i]);
        const auto value = [&](const std::string& x) { return factor(in[i], f32, false, x); };
        if (in_registers(in[i]))
            stage(in[i], s[i], value);
        else
            stage_slab(in[i], s[i], 0, "0", fn_.type(in[i]).shape[0], value);
    }
    const std::string acc = fresh("acc"), sum = fresh("sum"), first = fresh("first"), kk = fresh("k"), end = fresh("end"),
                      count = std::to_string(registers(to));
    line("float " + acc + "[" + count + "], " + sum + "[" + count + "];");
    const auto cast = [&](const Format& t, const Format& from, const std::string& x) {
        return t == from ? x : prelude_.cast(t, from, x, Round::rne, Overflow::automatic);
    };
    each_register(to, [&](const std::string& r) { line(acc + "[" + r + "] = " + cast(f32, f, at(in[4], r)) + ";"); });
    sync();
    line("#pragma unroll 1");
    open("for (int " + first + " = 0, " + end + "; " + first + " < " + std::to_string(k) + "; " + first + " = " + end + ")");
    const auto next = [&](int64_t block) { return "(" + first + " / " + std::to_string(block) + " + 1) * " + std::to_string(block); };
    line(end + " = " + next(a_block) + " < " + next(b_block) + " ? " + next(a_block) + " : " + next(b_block) + ";");
    each_register(to, [&](const std::string& r) { line(sum + "[" + r + "] = 0.0f;"); });
    line("#pragma unroll 1");
    open("for (int " + kk + " = " + first + "; " + kk + " < " + end + "; ++" + kk + ")");
    each_register(to, [&](const std::string& r) {
        const std::string x = s[0] + "[" + clamped(to, 0, r) + " * " + std::to_string(k) + " + " + kk + "]";
        const std::string y = s[2] + "[" + kk + " * " + std::to_string(n) + " + " + clamped(to, 1, r) + "]";
        line(sum + "[" + r + "] = " + prelude_.fma(f32, x, y, sum + "[" + r + "]") + ";");
    });
    close();
    each_register(to, [&](const std::string& r) {
        const std::string left =
            s[1] + "[" + clamped(to, 0, r) + " * " + std::to_string(a_blocks) + " + " + first + " / " + std::to_string(a_block) + "]";
        const std::string right = s[3] + "[" + first + " / " + std::to_string(b_block) + " * " + std::to_string(n) + " + " + clamped(to, 1, r) + "]";
        const std::string scales[] = {left, right};
        const std::string joined = prelude_.fma(f32, sum + "[" + r + "]", prelude_.elementwise(ir::Op::mul, f32, scales), acc + "[" + r + "]");
        line(acc + "[" + r + "] = " + cast(f32, f, cast(f, f32, joined)) + ";");
    });
    close();
    each_register(to, [&](const std::string& r) { assign_to(to, r, cast(f, f32, acc + "[" + r + "]")); });
    close();
}

}  // namespace tegula::cuda
