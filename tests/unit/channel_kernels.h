// Kernels of the tests of channels, as IR text, and what those tests do with them: form, proof, and runs under the model checker with copies landing
// at any time, compared with the plain function bit for bit.
#pragma once

#include <gtest/gtest.h>

#include "lang/ir_text.h"
#include "lower/gpu/channels.h"
#include "lower/lower.h"
#include "lower/rewrite.h"
#include "tests/unit/interp_fixture.h"

namespace tegula::testing {

using ir::InstId;
using ir::Op;

inline const Arch& kHopper = *find_arch("sm_90a");
inline const Arch& kAmpere = *find_arch("sm_80");

/// A row on tensor cores whose sum is an exact chain, so that the interpreter runs the ordinary product.
inline int exact_row() {
    for (size_t i = 1; i < mma_rows().size(); ++i)
        if (mma_rows()[i].fraction_bits == 0) return static_cast<int>(i);
    return 1;
}

struct ChannelRun {
    RunResult result;
    std::vector<uint8_t> bytes;
};

struct Kernel {
    World world;
    std::unique_ptr<ir::Function> plain, fn;
    GpuOptions options;
    bool changed = false;

    explicit Kernel(const std::string& text, const Arch& arch = kHopper) {
        plain = world.parse(text);
        fn = world.parse(text);
        options.arch = &arch;
        options.may_alias = false;
        options.tensors.assign(fn->params.size(), GpuTensor{true, false});
        for (ir::Function* f : {plain.get(), fn.get()}) {
            f->gpu.emplace();
            f->gpu->of_inst.resize(f->inst_count());
            f->walk([&](InstId i) { f->gpu->of_inst[i.v].row = f->inst(i).op == Op::dot ? exact_row() : 0; });
        }
    }
    Kernel& split() {
        changed = make_channels(*fn, options);
        for (const std::string& p : ir::verify(*fn)) ADD_FAILURE() << p << "\n" << ir::print(*fn);
        return *this;
    }
    /// As with `schedule persistent`; `whole`: rows are whole vectors.
    Kernel& persist(bool whole = true) {
        fn->hints.push_back({"persistent", {}});
        for (GpuTensor& t : options.tensors) t.whole = whole;
        grow_form(*fn);
        make_persistent(*fn, options);
        return split();
    }
    std::string proof() const {
        std::string out;
        for (const std::string& p : prove_channels(*fn, options)) out += p + "\n";
        return out;
    }
    std::vector<InstId> all(Op op) const {
        std::vector<InstId> out;
        fn->walk([&](InstId i) {
            if (fn->inst(i).op == op) out.push_back(i);
        });
        return out;
    }
    int64_t stages(size_t channel) const { return fn->attrs(fn->inst(all(Op::channel).at(channel)))[0]; }
    std::string why_not() const {
        std::string out;
        for (const explain::Note& n : explain_channels(*fn, options)) out += explain::text(n.fact) + "\n";
        return out;
    }

    /// Tensors are f16 (in) and f32 (out) of the given shapes, then the extents.
    ChannelRun run(const ir::Function& f, const std::vector<Shape>& shapes, const std::vector<int64_t>& extents, std::array<uint64_t, 3> grid,
                   uint64_t seed) {
        std::vector<std::vector<uint8_t>> data;
        std::vector<Argument> args;
        std::mt19937 random(7);
        size_t out = 0;
        for (size_t i = 0; i < shapes.size(); ++i) {
            const Type& type = f.type(f.params[i].value);
            const unsigned width = world.types.format(type.elem).container_bytes();
            data.emplace_back(static_cast<size_t>(shapes[i].elements()) * width + 1, 0x7b);
            if (type.mode == Mode::in)
                for (size_t e = 0; e + width < data[i].size(); e += width) {
                    // Small integers, so that no sum rounds: f16 0, 1, 2, 3 or integers.
                    static constexpr uint16_t kCodes[] = {0, 0x3c00, 0x4000, 0x4200};
                    const uint32_t code = width == 2 ? kCodes[random() % 4] : random() % (width == 1 ? 4 : 3);
                    std::memcpy(data[i].data() + e, &code, width);
                }
            else
                out = i;
        }
        for (size_t i = 0; i < shapes.size(); ++i) {
            Argument a;
            a.kind = Argument::tensor;
            a.t.elem = f.type(f.params[i].value).elem;
            a.t.data = data[i].data();
            a.t.bytes = data[i].size() - 1;
            a.t.extents = shapes[i];
            a.t.layout = f.type(f.params[i].value).layout;
            args.push_back(a);
        }
        for (int64_t e : extents) args.push_back(scalar(static_cast<uint64_t>(e)));
        RunOptions options;
        options.order_seed = seed;
        options.step_budget = 5'000'000;
        ChannelRun o;
        o.result = interp::Program::prepare(f)->run(args, grid, options);
        o.bytes = data[out];
        return o;
    }
    /// The model under many schedules against the plain function.
    void check(const std::vector<Shape>& shapes, const std::vector<int64_t>& extents, std::array<uint64_t, 3> grid = {1, 1, 1}, uint64_t seeds = 60) {
        const ChannelRun want = run(*plain, shapes, extents, grid, 0);
        ASSERT_EQ(want.result.status, RunResult::ok);
        for (uint64_t seed = 0; seed <= seeds; ++seed) {
            const ChannelRun got = run(*fn, shapes, extents, grid, seed);
            ASSERT_EQ(got.result.status, RunResult::ok) << "seed " << seed << ": " << got.result.diagnostics.at(0).message << "\n" << ir::print(*fn);
            ASSERT_EQ(got.bytes, want.bytes) << "seed " << seed << "\n" << ir::print(*fn);
        }
    }
    /// Is the mutated function told by the model under some schedule? Gives the names of the rows, or "differs" for another result.
    std::set<std::string> caught(const std::vector<Shape>& shapes, const std::vector<int64_t>& extents, std::array<uint64_t, 3> grid = {1, 1, 1}) {
        const ChannelRun want = run(*plain, shapes, extents, grid, 0);
        std::set<std::string> rows;
        for (uint64_t seed = 0; seed <= 50; ++seed) {
            const ChannelRun got = run(*fn, shapes, extents, grid, seed);
            for (const Diagnostic& d : got.result.diagnostics) {
                rows.insert(diag_row(d.id).name);
                EXPECT_EQ(d.labels.size(), 1u) << "the second place";
                EXPECT_NE(d.span.file, 0u);
            }
            if (got.result.status == RunResult::ok && got.bytes != want.bytes) rows.insert("differs");
        }
        return rows;
    }
    void erase(InstId i) {
        std::vector<bool> dead(fn->inst_count());
        dead[i.v] = true;
        fn->remove_if(dead);
    }
    /// Moves `i` to the front of its block, or in front of `where`.
    void move(InstId i, InstId where = {}) {
        const ir::BlockId home = fn->inst(i).parent;
        std::erase(fn->block(home).insts, i);
        fn->insert_before(where.valid() ? where : fn->block(home).insts.front(), i);
    }
};

inline std::string matmul_text(const std::string& a, const std::string& b, const std::string& hint = "") {
    const bool ta = a.find('T') != std::string::npos, tb = b.find('T') != std::string::npos;
    return "kernel @matmul(%a: tensor<f16>[?, ?] in, %b: tensor<f16>[?, ?] in, %c: tensor<f32>[?, ?] out, %M: extent, %K: extent, %N: extent) {\n" +
           std::string(R"(  %0 = program_id {axis = 0} : i64
  %1 = constant 16 : i64
  %2 = mul %0, %1 : i64
  %3 = program_id {axis = 1} : i64
  %4 = mul %3, %1 : i64
  %5 = constant 0 : tile<f32>[16, 16]
  %6 = constant 0 : i64
  %8 = for_loop %6, %K, %1, %5 )") +
           hint + R"(: tile<f32>[16, 16] (%9: i64, %10: tile<f32>[16, 16]) {
)" +
           (ta ? "    %20 = load %a[%9 +: 16, %2 +: 16] : tile<f16>[16, 16]\n    %11 = permute %20 {axis = [1, 0]} : tile<f16>[16, 16]\n"
               : "    %11 = load %a[%2 +: 16, %9 +: 16] : tile<f16>[16, 16]\n") +
           (tb ? "    %21 = load %b[%4 +: 16, %9 +: 16] : tile<f16>[16, 16]\n    %12 = permute %21 {axis = [1, 0]} : tile<f16>[16, 16]\n"
               : "    %12 = load %b[%9 +: 16, %4 +: 16] : tile<f16>[16, 16]\n") +
           R"(    %13 = dot %11, %12, %10 {precision = ieee} : tile<f32>[16, 16]
    yield %13
  }
  store %c[%2 +: 16, %4 +: 16] = %8
  ret
}
)";
}

inline const std::vector<Shape> kSquare = {{33, 70}, {70, 20}, {33, 20}};
inline const std::vector<int64_t> kSquareExtents = {33, 70, 20};

inline constexpr const char* kAttention = R"(
kernel @attention(%q: tensor<f16>[?, ?, 16] in, %k: tensor<f16>[?, ?, 16] in, %v: tensor<f16>[?, ?, 16] in, %o: tensor<f32>[?, ?, 16] out, %H: extent, %M: extent, %S: extent) {
  %0 = program_id {axis = 0} : i64
  %1 = constant 16 : i64
  %2 = mul %0, %1 : i64
  %3 = program_id {axis = 1} : i64
  %4 = load %q[%3, %2 +: 16, :] : tile<f16>[16, 16]
  %5 = constant 0 : tile<f32>[16, 16]
  %6 = constant 0 : i64
  %7 = add %2, %1 : i64
  %30 = min %7, %S : i64
  %8 = for_loop %6, %30, %1, %5 : tile<f32>[16, 16] (%9: i64, %10: tile<f32>[16, 16]) {
    %11 = load %k[%3, %9 +: 16, :] : tile<f16>[16, 16]
    %12 = permute %11 {axis = [1, 0]} : tile<f16>[16, 16]
    %13 = dot %4, %12, %5 {precision = ieee} : tile<f32>[16, 16]
    %14 = cast %13 {round = rne, overflow = automatic} : tile<f16>[16, 16]
    %15 = load %v[%3, %9 +: 16, :] : tile<f16>[16, 16]
    %16 = dot %14, %15, %10 {precision = ieee} : tile<f32>[16, 16]
    yield %16
  }
  store %o[%3, %2 +: 16, :] = %8
  ret
}
)";

}  // namespace tegula::testing
