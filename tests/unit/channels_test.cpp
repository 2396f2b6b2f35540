// Channels: which loads become rings of tiles, the split into producer and consumer, the proof of both, and the model checker that runs them
// with copies landing at any time. Kernels are IR text; what they compute is compared with the plain function, bit for bit.
#include "lower/gpu/channels.h"

#include <gtest/gtest.h>

#include <regex>

#include "lang/ir_text.h"
#include "lower/lower.h"
#include "lower/rewrite.h"
#include "tests/unit/interp_fixture.h"

using namespace tegula;
using namespace tegula::testing;
using ir::InstId;
using ir::Op;

namespace {

const Arch& kHopper = *find_arch("sm_90a");
const Arch& kAmpere = *find_arch("sm_80");

/// A row on tensor cores whose sum is an exact chain, so that the interpreter runs the ordinary product.
int exact_row() {
    for (size_t i = 1; i < mma_rows().size(); ++i)
        if (mma_rows()[i].fraction_bits == 0) return static_cast<int>(i);
    return 1;
}

struct Output {
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
            for_each_inst(*f, f->body, [&](InstId i) { f->gpu->of_inst[i.v].row = f->inst(i).op == Op::dot ? exact_row() : 0; });
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
        for_each_inst(*fn, fn->body, [&](InstId i) {
            if (fn->inst(i).op == op) out.push_back(i);
        });
        return out;
    }
    int64_t stages(size_t channel) const { return fn->attrs(fn->inst(all(Op::channel).at(channel)))[0]; }
    std::string why_not() const {
        std::string out;
        for (const GpuNote& n : explain_channels(*fn, options)) out += n.text + "\n";
        return out;
    }

    /// Tensors are f16 (in) and f32 (out) of the given shapes, then the extents.
    Output run(const ir::Function& f, const std::vector<Shape>& shapes, const std::vector<int64_t>& extents, std::array<uint64_t, 3> grid,
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
        Output o;
        o.result = interp::Program::prepare(f)->run(args, grid, options);
        o.bytes = data[out];
        return o;
    }
    /// The model under many schedules against the plain function.
    void check(const std::vector<Shape>& shapes, const std::vector<int64_t>& extents, std::array<uint64_t, 3> grid = {1, 1, 1}, uint64_t seeds = 60) {
        const Output want = run(*plain, shapes, extents, grid, 0);
        ASSERT_EQ(want.result.status, RunResult::ok);
        for (uint64_t seed = 0; seed <= seeds; ++seed) {
            const Output got = run(*fn, shapes, extents, grid, seed);
            ASSERT_EQ(got.result.status, RunResult::ok) << "seed " << seed << ": " << got.result.diagnostics.at(0).message << "\n" << ir::print(*fn);
            ASSERT_EQ(got.bytes, want.bytes) << "seed " << seed << "\n" << ir::print(*fn);
        }
    }
    /// Is the mutated function told by the model under some schedule? Gives the names of the rows, or "differs" for another result.
    std::set<std::string> caught(const std::vector<Shape>& shapes, const std::vector<int64_t>& extents, std::array<uint64_t, 3> grid = {1, 1, 1}) {
        const Output want = run(*plain, shapes, extents, grid, 0);
        std::set<std::string> rows;
        for (uint64_t seed = 0; seed <= 50; ++seed) {
            const Output got = run(*fn, shapes, extents, grid, seed);
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

std::string matmul_text(const std::string& a, const std::string& b, const std::string& hint = "") {
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

const std::vector<Shape> kSquare = {{33, 70}, {70, 20}, {33, 20}};
const std::vector<int64_t> kSquareExtents = {33, 70, 20};

TEST(Channels, matmul_is_split_into_a_producer_and_a_consumer) {
    Kernel k(matmul_text("a", "b"));
    k.split();
    ASSERT_TRUE(k.changed);
    EXPECT_TRUE(k.fn->gpu->specialised);
    EXPECT_EQ(k.all(Op::channel).size(), 2u);
    EXPECT_EQ(k.all(Op::channel_put).size(), 2u);
    EXPECT_EQ(k.all(Op::channel_get).size(), 2u);
    EXPECT_EQ(k.all(Op::channel_release).size(), 2u);
    EXPECT_TRUE(k.all(Op::load).empty());
    EXPECT_EQ(k.stages(0), 4);
    ASSERT_EQ(k.fn->gpu->channels.size(), 2u);
    EXPECT_EQ(k.fn->gpu->channels[0].second.tensor_map, 0);
    EXPECT_EQ(k.fn->gpu->channels[1].second.tensor_map, 1);
    EXPECT_EQ(k.fn->gpu->channels[1].second.layout, shared_layout({16, 16}, 1, 2));
    // The producer carries no tile: its loop has no results.
    const auto blocks = k.fn->blocks(k.fn->inst(k.all(Op::specialise)[0]));
    for (InstId i : k.fn->block(blocks[0]).insts) EXPECT_EQ(k.fn->inst(i).op == Op::for_loop ? k.fn->inst(i).results.count : 0, 0u);
    EXPECT_EQ(k.proof(), "");
    k.check(kSquare, kSquareExtents, {3, 2, 1});
}

/// Both operands as they are and transposed, on `arch`.
void check_every_order_of_storage(const Arch& arch, uint64_t seeds) {
    for (const bool ta : {false, true})
        for (const bool tb : {false, true}) {
            Kernel k(matmul_text(ta ? "T" : "n", tb ? "T" : "n"), arch);
            k.split();
            ASSERT_EQ(k.all(Op::channel).size(), 2u);
            EXPECT_EQ(k.proof(), "");
            std::vector<Shape> shapes = kSquare;
            if (ta) std::swap(shapes[0][0], shapes[0][1]);
            if (tb) std::swap(shapes[1][0], shapes[1][1]);
            k.check(shapes, kSquareExtents, {3, 2, 1}, seeds);
        }
}

TEST(Channels, every_order_of_storage) { check_every_order_of_storage(kHopper, 50); }

TEST(Channels, a_loop_without_trips) {
    Kernel k(matmul_text("a", "b"));
    k.split();
    k.check({{16, 0}, {0, 16}, {16, 16}}, {16, 0, 16});
}

TEST(Channels, the_hint_of_the_loop_sets_the_stages) {
    std::string text = matmul_text("a", "b");
    Kernel k(text);
    ir::Hint hint{"pipeline", {3}};
    for (InstId i : k.all(Op::for_loop)) {
        k.fn->loop_hints = {{}, {hint}};
        const int64_t attrs[] = {1};
        k.fn->set_attrs(i, attrs);
    }
    k.split();
    EXPECT_EQ(k.stages(0), 3);
    EXPECT_EQ(k.stages(1), 3);
    k.check(kSquare, kSquareExtents, {3, 2, 1}, 10);
}

const char* const kAttention = R"(
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

TEST(Channels, attention_holds_the_queries_over_the_loop) {
    Kernel k(kAttention);
    k.split();
    ASSERT_EQ(k.all(Op::channel).size(), 3u) << k.why_not();
    EXPECT_EQ(k.stages(0), 1);
    EXPECT_EQ(k.stages(1), 4);
    EXPECT_EQ(k.stages(2), 4);
    EXPECT_EQ(k.proof(), "") << ir::print(*k.fn);
    k.check({{2, 40, 16}, {2, 50, 16}, {2, 50, 16}, {2, 40, 16}}, {2, 40, 50}, {3, 2, 1});
    k.check({{2, 40, 16}, {2, 0, 16}, {2, 0, 16}, {2, 40, 16}}, {2, 40, 0}, {3, 2, 1}, 5);
}

/// A persistent kernel: tiles in a while loop, the inner loop in a branch, its end read from memory.
const char* const kNested = R"(
kernel @nested(%a: tensor<f16>[?, ?] in, %b: tensor<f16>[?, ?] in, %ends: tensor<f16>[?] in, %c: tensor<f32>[?, ?] out, %M: extent, %K: extent, %N: extent) {
  %0 = program_id {axis = 0} : i64
  %1 = constant 16 : i64
  %2 = num_programs {axis = 0} : i64
  %3 = constant 0 : i64
  %4 = constant 0 : tile<f32>[16, 16]
  %5 = mul %0, %1 : i64
  %6 = mul %2, %1 : i64
  %7 = while_loop %5 : i64 (%8: i64) {
    %9 = lt %8, %M : bool
    condition %9, %8
  } (%10: i64) {
    %11 = div %10, %1 : i64
    %12 = load %ends[%11] : f16
    %13 = cast %12 {round = rtz, overflow = sat} : i64
    %14 = mul %13, %1 : i64
    %15 = constant 1 : i64
    %16 = gt %13, %15 : bool
    %17 = if_else %16 : tile<f32>[16, 16] {
      %18 = for_loop %3, %14, %1, %4 : tile<f32>[16, 16] (%19: i64, %20: tile<f32>[16, 16]) {
        %21 = load %a[%10 +: 16, %19 +: 16] : tile<f16>[16, 16]
        %22 = load %b[%19 +: 16, %3 +: 16] : tile<f16>[16, 16]
        %23 = dot %21, %22, %20 {precision = ieee} : tile<f32>[16, 16]
        yield %23
      }
      yield %18
    } {
      yield %4
    }
    store %c[%10 +: 16, %3 +: 16] = %17
    %24 = add %10, %6 : i64
    yield %24
  }
  ret
}
)";

TEST(Channels, loops_in_branches_in_loops) {
    Kernel k(kNested);
    k.split();
    ASSERT_EQ(k.all(Op::channel).size(), 2u) << k.why_not();
    EXPECT_EQ(k.proof(), "") << ir::print(*k.fn);
    k.check({{150, 48}, {48, 16}, {10}, {150, 16}}, {150, 48, 16}, {3, 1, 1});
    // The read-ahead of `ends` and of the operands is wrong once the output may be the same memory.
    Kernel aliased(kNested);
    aliased.options.may_alias = true;
    EXPECT_FALSE(make_channels(*aliased.fn, aliased.options));
    EXPECT_NE(aliased.why_not().find("a write before it may reach the same memory"), std::string::npos) << aliased.why_not();
    k.options.may_alias = true;
    EXPECT_NE(k.proof(), "");
}

TEST(Channels, what_the_producer_cannot_compute_stays_a_load) {
    // The next block depends on a value of the product: only the threads that compute have it.
    std::string text = matmul_text("a", "b");
    const size_t at = text.find("    %12 = load");
    text.insert(at,
                "    %30 = reduce %10 {kind = max, order = tree, axis = -1} : f32\n"
                "    %31 = cast %30 {round = rtz, overflow = sat} : i64\n    %32 = rem %31, %1 : i64\n");
    text.replace(text.find("%b[%9"), 5, "%b[%32");
    Kernel k(text);
    k.split();
    EXPECT_EQ(k.all(Op::channel).size(), 1u);
    EXPECT_EQ(k.all(Op::load).size(), 1u);
    EXPECT_NE(k.why_not().find("depends on a tile"), std::string::npos) << k.why_not();
    EXPECT_EQ(k.proof(), "");
}

TEST(Channels, loads_that_do_not_qualify) {
    const auto reason = [](Kernel& k) {
        EXPECT_FALSE(make_channels(*k.fn, k.options));
        return k.why_not();
    };
    Kernel off(matmul_text("a", "b"));
    off.options.disabled = {"channels"};
    EXPECT_NE(reason(off).find("is off"), std::string::npos);
    Kernel fma(matmul_text("a", "b"));
    for (InstId i : fma.all(Op::dot)) fma.fn->gpu->of_inst[i.v].row = 0;
    EXPECT_NE(reason(fma).find("without tensor cores"), std::string::npos);
    Kernel strided(matmul_text("a", "b"));
    strided.options.tensors.assign(6, {true, true});
    EXPECT_NE(reason(strided).find("strides"), std::string::npos);
    std::string other = matmul_text("a", "b");
    other.replace(other.find("%a[%2 +: 16, %9 +: 16]"), 22, "%a[%2 +: 16, %9 +: 16 step 2]");
    Kernel steps(other);
    make_channels(*steps.fn, steps.options);
    EXPECT_NE(steps.why_not().find("gathers or strides"), std::string::npos) << steps.why_not();
}

TEST(Channels, shared_memory_bounds_the_stages) {
    std::string text = matmul_text("a", "b");
    for (size_t at = text.find("[16, 16]"); at != std::string::npos; at = text.find("[16, 16]", at)) text.replace(at, 8, "[192, 192]");
    for (size_t at = text.find("+: 16"); at != std::string::npos; at = text.find("+: 16", at)) text.replace(at, 5, "+: 192");
    Kernel k(text);
    k.split();
    // Two tiles of 72 KiB; 195 KiB are free for channels.
    EXPECT_EQ(k.stages(0), 1);
    EXPECT_EQ(k.stages(1), 1);
}

TEST(Channels, tiles_that_no_bulk_copy_fits_are_copied_by_the_threads) {
    // [rows, columns] of f16: a row of 264 columns fits no box; 258 rows of 32 bytes are two boxes, the second one at 129 * 32 bytes.
    const auto split = [](int rows, int columns) {
        std::string text = matmul_text("n", "T");
        const std::string r = std::to_string(rows), c = std::to_string(columns);
        text = std::regex_replace(text, std::regex(R"(\[%2 \+: 16, %9 \+: 16\] : tile<f16>\[16, 16\])"),
                                  "[%2 +: " + r + ", %9 +: " + c + "] : tile<f16>[" + r + ", " + c + "]");
        text = std::regex_replace(text, std::regex(R"(\[%4 \+: 16, %9 \+: 16\] : tile<f16>\[16, 16\])"),
                                  "[%4 +: 16, %9 +: " + c + "] : tile<f16>[16, " + c + "]");
        text = std::regex_replace(text, std::regex(R"(\{axis = \[1, 0\]\} : tile<f16>\[16, 16\])"), "{axis = [1, 0]} : tile<f16>[" + c + ", 16]");
        text = std::regex_replace(text, std::regex(R"(tile<f32>\[16, 16\])"), "tile<f32>[" + r + ", 16]");
        text = std::regex_replace(text, std::regex(R"(store %c\[%2 \+: 16)"), "store %c[%2 +: " + r);
        Kernel k(text);
        k.split();
        EXPECT_EQ(k.proof(), "");
        return std::make_pair(k.fn->gpu->specialised, k.all(Op::channel).size());
    };
    EXPECT_EQ(split(16, 64), std::make_pair(true, size_t{2}));
    EXPECT_EQ(split(16, 264), std::make_pair(false, size_t{2}));
    EXPECT_EQ(split(12, 48), std::make_pair(true, size_t{2}));
    EXPECT_EQ(split(258, 16), std::make_pair(true, size_t{1}));
}

TEST(Channels, a_tile_that_is_decoded_first) {
    std::string text = R"(
kernel @decode(%a: tensor<f16>[?, ?] in, %w: tensor<i8>[?, ?] in, %c: tensor<f32>[?, ?] out, %M: extent, %K: extent, %N: extent) {
  %0 = program_id {axis = 0} : i64
  %1 = constant 64 : i64
  %2 = mul %0, %1 : i64
  %3 = constant 0 : tile<f32>[64, 64]
  %4 = constant 0 : i64
  %5 = for_loop %4, %K, %1, %3 : tile<f32>[64, 64] (%6: i64, %7: tile<f32>[64, 64]) {
    %8 = load %a[%2 +: 64, %6 +: 64] : tile<f16>[64, 64]
    %9 = load %w[%4 +: 64, %6 +: 64] : tile<i8>[64, 64]
    %10 = cast %9 {round = rne, overflow = automatic} : tile<f16>[64, 64]
    %11 = permute %10 {axis = [1, 0]} : tile<f16>[64, 64]
    %12 = dot %8, %11, %7 {precision = ieee} : tile<f32>[64, 64]
    yield %12
  }
  store %c[%2 +: 64, %4 +: 64] = %5
  ret
}
)";
    Kernel k(text);
    k.split();
    ASSERT_EQ(k.all(Op::channel).size(), 2u) << k.why_not();
    EXPECT_EQ(k.proof(), "");
    // The bytes are free again as soon as they are decoded.
    const ir::BlockId body = k.fn->inst(k.all(Op::cast)[0]).parent;
    const auto& list = k.fn->block(body).insts;
    const auto cast = std::find(list.begin(), list.end(), k.all(Op::cast)[0]);
    EXPECT_EQ(k.fn->inst(*(cast + 1)).op, Op::channel_release);
    k.check({{64, 130}, {64, 130}, {64, 64}}, {64, 130, 64}, {1, 1, 1}, 50);
}

// ---- what is refused ----

TEST(ProveChannels, a_release_is_missing) {
    Kernel k(matmul_text("a", "b"));
    k.split();
    k.erase(k.all(Op::channel_release)[0]);
    EXPECT_NE(k.proof().find("does not release what it takes"), std::string::npos) << k.proof();
    EXPECT_EQ(k.caught({{16, 200}, {200, 16}, {16, 16}}, {16, 200, 16}), std::set<std::string>{"channel_deadlock"});
    EXPECT_EQ(k.caught({{16, 16}, {16, 16}, {16, 16}}, {16, 16, 16}), std::set<std::string>{"channel_not_empty"});
}

TEST(ProveChannels, a_stage_is_used_after_its_release) {
    Kernel k(matmul_text("a", "b"));
    k.split();
    k.move(k.all(Op::channel_release)[0], k.all(Op::dot)[0]);
    EXPECT_NE(k.proof().find("uses a stage after its release"), std::string::npos) << k.proof();
    EXPECT_EQ(k.caught(kSquare, kSquareExtents), std::set<std::string>{"stage_use_after_release"});
}

TEST(ProveChannels, a_view_is_used_after_the_release) {
    Kernel k(matmul_text("T", "b"));
    k.split();
    const InstId get = k.all(Op::channel_get)[0];
    for (InstId r : k.all(Op::channel_release))
        if (k.fn->operands(k.fn->inst(r))[0] == k.fn->operands(k.fn->inst(get))[0]) k.move(r, k.all(Op::dot)[0]);
    EXPECT_NE(k.proof().find("uses a stage after its release"), std::string::npos) << k.proof();
    EXPECT_EQ(k.caught({{70, 33}, {70, 20}, {33, 20}}, kSquareExtents), std::set<std::string>{"stage_use_after_release"});
}

TEST(ProveChannels, a_release_comes_first) {
    Kernel k(matmul_text("a", "b"));
    k.split();
    k.move(k.all(Op::channel_release)[0]);
    EXPECT_NE(k.proof().find("releases a stage that was not taken"), std::string::npos) << k.proof();
    EXPECT_TRUE(k.caught(kSquare, kSquareExtents).contains("stage_not_taken"));
}

TEST(ProveChannels, copies_stand_in_another_order) {
    Kernel k(matmul_text("a", "b"));
    k.split();
    k.move(k.all(Op::channel_put)[1]);
    const auto puts = k.all(Op::channel_put);
    EXPECT_NE(k.proof().find("does not meet its channel"), std::string::npos) << k.proof();
}

TEST(ProveChannels, copies_go_to_the_wrong_channel) {
    Kernel k(matmul_text("a", "b"));
    k.split();
    const auto puts = k.all(Op::channel_put);
    const ir::ValueId first = k.fn->operands(k.fn->inst(puts[0])).back(), second = k.fn->operands(k.fn->inst(puts[1])).back();
    k.fn->operands(k.fn->inst(puts[0])).back() = second;
    k.fn->operands(k.fn->inst(puts[1])).back() = first;
    EXPECT_NE(k.proof().find("does not meet its channel"), std::string::npos) << k.proof();
    EXPECT_EQ(k.caught(kSquare, kSquareExtents), std::set<std::string>{"differs"});
}

TEST(ProveChannels, a_copy_is_missing) {
    Kernel k(matmul_text("a", "b"));
    k.split();
    k.erase(k.all(Op::channel_put)[1]);
    EXPECT_NE(k.proof().find("do not meet equally often"), std::string::npos) << k.proof();
    EXPECT_EQ(k.caught(kSquare, kSquareExtents), std::set<std::string>{"channel_deadlock"});
}

TEST(ProveChannels, the_producer_runs_another_number_of_trips) {
    Kernel k(matmul_text("a", "b"));
    k.split();
    const InstId loop = k.all(Op::for_loop)[0];
    k.fn->operands(k.fn->inst(loop))[1] = k.fn->params[3].value;  // M, not K
    EXPECT_NE(k.proof().find("is not proved to run in step"), std::string::npos) << k.proof();
    EXPECT_EQ(k.caught({{40, 16}, {16, 16}, {40, 16}}, {40, 16, 16}).size(), 1u);
    EXPECT_EQ(k.caught({{16, 40}, {40, 16}, {16, 16}}, {16, 40, 16}), std::set<std::string>{"channel_deadlock"});
}

// ---- clusters ----

std::string clustered(std::string text, const std::string& size) {
    text.replace(text.find(") {"), 3, ") @ cluster(" + size + ") {");
    return text;
}

TEST(Clusters, programs_share_what_does_not_depend_on_their_axis) {
    const struct {
        const char *wanted, *a, *b;
        std::array<int, 3> size;
        unsigned shared_a, shared_b;
    } rows[] = {{"2, 1", "a", "b", {2, 1, 1}, 0, 1}, {"1, 2", "a", "T", {1, 2, 1}, 2, 0}, {"2, 2", "T", "b", {2, 2, 1}, 2, 1},
                {"2", "a", "b", {2, 1, 1}, 0, 1},    {"3, 1", "a", "b", {1, 1, 1}, 0, 0}, {"1, 1, 2", "a", "b", {1, 1, 2}, 4, 4}};
    for (const auto& row : rows) {
        Kernel k(clustered(matmul_text(row.a, row.b), row.wanted));
        k.split();
        EXPECT_EQ(k.fn->gpu->cluster, row.size) << row.wanted;
        ASSERT_EQ(k.fn->gpu->channels.size(), 2u);
        EXPECT_EQ(k.fn->gpu->channels[0].second.multicast, row.shared_a) << row.wanted;
        EXPECT_EQ(k.fn->gpu->channels[1].second.multicast, row.shared_b) << row.wanted;
        EXPECT_EQ(k.proof(), "") << row.wanted;
        std::vector<Shape> shapes = kSquare;
        if (*row.a == 'T') std::swap(shapes[0][0], shapes[0][1]);
        if (*row.b == 'T') std::swap(shapes[1][0], shapes[1][1]);
        k.check(shapes, kSquareExtents, {3, 2, 1}, 5);
    }
}

TEST(Clusters, what_forbids_them) {
    Kernel grid(clustered(matmul_text("a", "b"), "2, 1"));
    grid.options.whole_clusters = false;
    EXPECT_EQ(grid.split().fn->gpu->cluster_size(), 1);
    EXPECT_EQ(grid.proof(), "");
    Kernel persistent(clustered(matmul_text("a", "b"), "2, 1"));
    EXPECT_EQ(persistent.persist().fn->gpu->cluster_size(), 1);
    EXPECT_TRUE(persistent.fn->gpu->persistent && persistent.changed);

    Kernel ampere(clustered(matmul_text("a", "b"), "2, 1"), kAmpere);
    EXPECT_EQ(ampere.split().fn->gpu->cluster_size(), 1);
    // The number of trips depends on the axis, through a minimum.
    std::string text = clustered(matmul_text("a", "b"), "2, 1");
    text.replace(text.find("  %8 = for_loop %6, %K"), 22, "  %40 = min %K, %2 : i64\n  %8 = for_loop %6, %40");
    Kernel trips(text);
    EXPECT_EQ(trips.split().fn->gpu->cluster_size(), 1);
    EXPECT_EQ(trips.proof(), "");
    // It comes from memory, which a program may write in the end: then two programs may read it at different times.
    text = clustered(matmul_text("a", "b"), "2, 1");
    text.replace(text.find("  %8 = for_loop %6, %K"), 22, "  %40 = load %e[%6] : i64\n  %8 = for_loop %6, %40");
    text.insert(text.find(", %M: extent"), ", %e: tensor<i64>[?] in");
    for (const bool alias : {false, true}) {
        Kernel read(text);
        read.options.may_alias = alias;
        read.split();
        EXPECT_EQ(read.fn->gpu->channels.size(), 2u);
        EXPECT_EQ(read.fn->gpu->cluster_size(), alias ? 1 : 2);
        EXPECT_EQ(read.proof(), "");
        read.options.may_alias = true;
        EXPECT_EQ(read.proof().empty(), alias);
    }
}

TEST(Clusters, a_tile_that_cannot_be_cut_is_private) {
    std::string text = clustered(matmul_text("a", "b"), "4, 2");
    Kernel k(text);
    k.split();
    // 16 rows are two parts of 8, not four.
    EXPECT_EQ(k.fn->gpu->cluster, (std::array<int, 3>{1, 2, 1}));
    EXPECT_EQ(k.fn->gpu->channels[0].second.multicast, 2u);
    EXPECT_EQ(k.fn->gpu->channels[1].second.multicast, 0u);
    EXPECT_EQ(k.proof(), "");
}

TEST(ProveClusters, tiles_that_differ_are_not_shared) {
    Kernel k(clustered(matmul_text("a", "b"), "2, 1"));
    k.split();
    k.fn->gpu->channels[0].second.multicast = 1;
    EXPECT_NE(k.proof().find("may bring the programs that share the channel different tiles"), std::string::npos) << k.proof();
}

TEST(ProveClusters, trips_that_differ_are_not_shared) {
    Kernel k(clustered(matmul_text("a", "b"), "2, 1"));
    k.split();
    for (const InstId loop : k.all(Op::for_loop)) {
        const auto& list = k.fn->block(k.fn->inst(loop).parent).insts;
        const auto id = std::find_if(list.begin(), list.end(), [&](InstId i) { return k.fn->inst(i).op == Op::program_id; });
        k.fn->operands(k.fn->inst(loop))[1] = k.fn->result(*id);
    }
    EXPECT_NE(k.proof().find("may bring the programs that share the channel different tiles"), std::string::npos) << k.proof();
}

TEST(ProveClusters, forms_that_cannot_be) {
    const auto broken = [](void (*change)(Kernel&)) {
        Kernel k(clustered(matmul_text("a", "b"), "2, 1"));
        k.split();
        change(k);
        return k.proof();
    };
    EXPECT_EQ(broken([](Kernel&) {}), "");
    EXPECT_NE(broken([](Kernel& k) { k.fn->gpu->cluster = {1, 1, 1}; }).find("shared along an axis without a cluster"), std::string::npos);
    EXPECT_NE(broken([](Kernel& k) { k.fn->gpu->persistent = true; }).find("a cluster cannot be, because it is persistent"), std::string::npos);
    EXPECT_NE(broken([](Kernel& k) { k.options.whole_clusters = false; }).find("of a grid that has no whole ones"), std::string::npos);
    EXPECT_NE(broken([](Kernel& k) { k.fn->gpu->cluster = {4, 1, 1}; }).find("cannot be copied in parts"), std::string::npos);
    EXPECT_NE(broken([](Kernel& k) { k.fn->gpu->channels[1].second.tensor_map = -1; }).find("cannot be copied in parts"), std::string::npos);
    EXPECT_NE(broken([](Kernel& k) { k.fn->gpu->grid_axes = 0; }).find("the grid has no such axis"), std::string::npos);
}

TEST(ProveChannels, a_stage_leaves_its_block) {
    Kernel k(matmul_text("a", "b"));
    k.split();
    // The loop carries the stage instead of the product.
    const InstId yield = k.fn->block(k.fn->inst(k.all(Op::dot)[0]).parent).insts.back();
    const InstId get = k.all(Op::channel_get)[0];
    k.fn->operands(k.fn->inst(yield))[0] = k.fn->result(get);
    EXPECT_NE(k.proof().find("carries a stage out of its block"), std::string::npos) << k.proof();
}

// ---- copies issued ahead in one thread group ----

TEST(ChannelsAhead, matmul_without_bulk_copies) {
    for (const bool hopper : {false, true}) {
        Kernel k(matmul_text("a", "b"), hopper ? kHopper : kAmpere);
        if (hopper) k.options.tensors.assign(6, {false, false});  // not aligned
        k.split();
        ASSERT_TRUE(k.changed) << k.why_not();
        EXPECT_FALSE(k.fn->gpu->specialised);
        EXPECT_TRUE(k.all(Op::specialise).empty());
        ASSERT_EQ(k.all(Op::channel).size(), 2u);
        EXPECT_EQ(k.fn->gpu->channels[0].second.tensor_map, -1);
        // Three trips ahead: as many copies before the loop, and one more in it, for each operand.
        EXPECT_EQ(k.all(Op::channel_put).size(), 8u);
        EXPECT_EQ(k.all(Op::if_else).size(), 4u);
        // Tiles are taken first, side by side.
        const auto& body = k.fn->block(k.fn->inst(k.all(Op::dot)[0]).parent).insts;
        EXPECT_EQ(k.fn->inst(body[0]).op, Op::channel_get);
        EXPECT_EQ(k.fn->inst(body[1]).op, Op::channel_get);
        EXPECT_EQ(k.proof(), "") << ir::print(*k.fn);
        for (const int64_t depth : {0, 1, 16, 17, 40, 49, 70, 200}) k.check({{33, depth}, {depth, 20}, {33, 20}}, {33, depth, 20}, {3, 2, 1}, 50);
    }
}

TEST(ChannelsAhead, every_order_of_storage) { check_every_order_of_storage(kAmpere, 10); }

TEST(ChannelsAhead, attention_keeps_the_queries_a_load) {
    Kernel k(kAttention, kAmpere);
    k.split();
    EXPECT_EQ(k.all(Op::channel).size(), 2u);
    EXPECT_EQ(k.all(Op::load).size(), 1u);
    EXPECT_NE(k.why_not().find("stands in no loop"), std::string::npos) << k.why_not();
    EXPECT_EQ(k.proof(), "") << ir::print(*k.fn);
    k.check({{2, 40, 16}, {2, 50, 16}, {2, 50, 16}, {2, 40, 16}}, {2, 40, 50}, {3, 2, 1});
}

TEST(ChannelsAhead, loops_in_branches_in_loops) {
    Kernel k(kNested, kAmpere);
    k.split();
    ASSERT_EQ(k.all(Op::channel).size(), 2u) << k.why_not();
    EXPECT_EQ(k.proof(), "") << ir::print(*k.fn);
    k.check({{150, 48}, {48, 16}, {10}, {150, 16}}, {150, 48, 16}, {3, 1, 1});
}

TEST(ChannelsAhead, the_hint_specialise_off_is_heard) {
    Kernel k(matmul_text("a", "b"));
    k.fn->hints = {{"specialise", {2}}};
    k.split();
    EXPECT_FALSE(k.fn->gpu->specialised);
    EXPECT_EQ(k.all(Op::channel).size(), 2u);
}

TEST(ChannelsAhead, loops_whose_next_trip_is_not_known_keep_their_loads) {
    // The loop starts at an extent minus something: maybe below zero.
    std::string text = matmul_text("a", "b");
    text.insert(text.find("  %8 = for_loop"), "  %40 = sub %M, %2 : i64\n");
    text.replace(text.find("for_loop %6"), 11, "for_loop %40");
    Kernel k(text, kAmpere);
    k.split();
    EXPECT_FALSE(k.changed);
    EXPECT_NE(k.why_not().find("may start below zero"), std::string::npos) << k.why_not();
}

TEST(ProveChannelsAhead, a_release_is_missing) {
    Kernel k(matmul_text("a", "b"), kAmpere);
    k.split();
    k.erase(k.all(Op::channel_release)[0]);
    EXPECT_NE(k.proof(), "");
    EXPECT_EQ(k.caught({{16, 200}, {200, 16}, {16, 16}}, {16, 200, 16}), std::set<std::string>{"stage_not_free"});
}

TEST(ProveChannelsAhead, a_copy_before_the_loop_is_missing) {
    for (const size_t which : {0u, 1u, 2u}) {
        Kernel k(matmul_text("a", "b"), kAmpere);
        k.split();
        k.erase(k.all(Op::if_else)[which]);
        EXPECT_NE(k.proof(), "");
        const auto rows = k.caught({{16, 200}, {200, 16}, {16, 16}}, {16, 200, 16});
        EXPECT_EQ(rows.size(), 1u);
    }
}

TEST(ProveChannelsAhead, one_copy_too_many) {
    // The guard in the loop lets one more trip's copy start than there are trips.
    Kernel k(matmul_text("a", "b"), kAmpere);
    k.split();
    const InstId guard = k.all(Op::if_else)[3];
    const ir::Inst* test = k.fn->def(k.fn->operands(k.fn->inst(guard))[0]);
    const ir::Inst* ahead = k.fn->def(k.fn->operands(*test)[0]);
    k.fn->attr_pool[ahead->attrs.begin] = 32;
    EXPECT_NE(k.proof().find("while trips are left"), std::string::npos) << k.proof();
    EXPECT_EQ(k.caught({{16, 200}, {200, 16}, {16, 16}}, {16, 200, 16}), std::set<std::string>{"channel_not_empty"});
}

TEST(ProveChannelsAhead, a_stage_is_missing) {
    Kernel k(matmul_text("a", "b"), kAmpere);
    k.split();
    for (InstId c : k.all(Op::channel)) {
        const int64_t attrs[] = {3};
        k.fn->set_attrs(c, attrs);
    }
    EXPECT_NE(k.proof().find("fewer stages"), std::string::npos) << k.proof();
    EXPECT_EQ(k.caught({{16, 200}, {200, 16}, {16, 16}}, {16, 200, 16}), std::set<std::string>{"stage_not_free"});
}

TEST(ProveChannelsAhead, the_tensor_may_have_been_written) {
    Kernel k(kNested, kAmpere);
    k.split();
    EXPECT_EQ(k.proof(), "");
    k.options.may_alias = true;
    EXPECT_NE(k.proof().find("may have been written before"), std::string::npos) << k.proof();
}

TEST(Channels, a_tile_moved_to_registers_outlives_its_stage) {
    Kernel k(matmul_text("a", "b"));
    k.split();
    const InstId get = k.all(Op::channel_get)[0], dot = k.all(Op::dot)[0];
    const ir::ValueId operands[] = {k.fn->result(get)};
    const TypeId types[] = {k.fn->type_of(operands[0])};
    const InstId convert = k.fn->make(Op::convert, operands, types, {}, k.fn->inst(get).span);
    k.fn->insert_before(dot, convert);
    k.fn->operands(k.fn->inst(dot))[0] = k.fn->result(convert);
    for (InstId r : k.all(Op::channel_release))
        if (k.fn->operands(k.fn->inst(r))[0] == k.fn->operands(k.fn->inst(get))[0]) k.move(r, dot);
    grow_form(*k.fn);
    EXPECT_EQ(k.proof(), "");
    k.check(kSquare, kSquareExtents, {3, 2, 1}, 10);
}

// ---- persistent forms: a loop over programs around everything; the model runs it with 1 to 7 CTAs ----

TEST(Persistent, the_producer_goes_on_with_the_next_program) {
    Kernel k(matmul_text("a", "b"));
    k.persist();
    ASSERT_TRUE(k.fn->gpu->persistent && k.fn->gpu->specialised) << ir::print(*k.fn);
    EXPECT_EQ(k.all(Op::for_loop).size(), 4u) << "over programs and over K, on both sides";
    EXPECT_EQ(k.stages(0), 4);
    EXPECT_EQ(k.proof(), "");
    k.check(kSquare, kSquareExtents, {3, 2, 1});
    k.check({{16, 40}, {40, 16}, {16, 16}}, {16, 40, 16}, {1, 1, 1}, 20);
    k.check({{16, 0}, {0, 96}, {16, 96}}, {16, 0, 96}, {1, 6, 1}, 20);
}

TEST(Persistent, tiles_that_are_held_over_an_inner_loop) {
    Kernel k(kAttention);
    k.persist();
    ASSERT_EQ(k.all(Op::channel).size(), 3u) << k.why_not();
    EXPECT_EQ(k.stages(0), 1);
    EXPECT_EQ(k.proof(), "");
    k.check({{3, 33, 16}, {3, 33, 16}, {3, 33, 16}, {3, 33, 16}}, {3, 33, 33}, {3, 3, 1}, 30);
}

TEST(Persistent, copies_ahead_inside_of_a_program) {
    Kernel k(matmul_text("a", "b"), kAmpere);
    k.persist();
    ASSERT_TRUE(k.fn->gpu->persistent);
    ASSERT_EQ(k.all(Op::channel).size(), 2u) << k.why_not();
    EXPECT_EQ(k.proof(), "");
    k.check(kSquare, kSquareExtents, {3, 2, 1}, 30);
}

TEST(Persistent, not_when_copies_might_meet_stores_of_other_programs) {
    Kernel k(matmul_text("a", "b"));
    k.options.may_alias = true;
    k.persist();
    EXPECT_FALSE(k.fn->gpu->persistent);
    EXPECT_EQ(k.all(Op::channel).size(), 2u) << "within one program nothing is stored before";
    EXPECT_EQ(k.proof(), "");
}

TEST(ProvePersistent, the_producer_starts_with_another_program) {
    Kernel k(matmul_text("a", "b"));
    k.persist();
    const InstId loop = k.all(Op::for_loop)[0];
    const ir::ValueId outside[] = {k.fn->operands(k.fn->inst(loop))[2]};  // from 1
    k.fn->operands(k.fn->inst(loop))[0] = outside[0];
    EXPECT_NE(k.proof().find("is not proved to run in step"), std::string::npos) << k.proof();
    EXPECT_FALSE(k.caught(kSquare, kSquareExtents, {3, 2, 1}).empty());
}

/// y = x - max(x) along rows of up to 1024 elements; `mode` of x.
std::string rows_text(const std::string& mode = "in", const std::string& other = " else %3", const std::string& row = "%0") {
    return "kernel @rows(%x: tensor<f16>[?, ?] " + mode + ", %y: tensor<f32>[?, ?] out, %M: extent, %N: extent) {\n" +
           R"(  %0 = program_id {axis = 0} : i64
  %1 = constant 0 : i64
  %3 = constant -inf : tile<f16>[1024]
  %4 = load %x[)" +
           row + ", %1 +: 1024]" + other + R"( : tile<f16>[1024]
  %5 = cast %4 {round = rne, overflow = automatic} : tile<f32>[1024]
  %6 = reduce %5 {kind = max, order = tree, axis = 0} : f32
  %7 = broadcast %6 : tile<f32>[1024]
  %8 = sub %5, %7 : tile<f32>[1024]
  store %y[%0, %1 +: 1024] = %8
  ret
}
)";
}

TEST(OwnRings, the_next_rows_are_copied_by_their_readers) {
    for (const Arch* arch : {&kHopper, &kAmpere})
        for (const char* other : {"", " else %3"}) {
            Kernel k(rows_text("in", other), *arch);
            k.persist();
            ASSERT_EQ(k.all(Op::channel).size(), 1u) << k.why_not();
            EXPECT_TRUE(k.all(Op::load).empty() && k.all(Op::channel_release).empty());
            const GpuChannel& ring = k.fn->gpu->channels[0].second;
            ASSERT_TRUE(ring.own.has_value());
            EXPECT_EQ(ring.own->registers(), 8);
            const int stages = arch == &kHopper ? 2 : 1;  // sm_80 has less shared memory for 32 programs
            EXPECT_EQ(ring.stages, stages);
            EXPECT_EQ(ring.fill, *other ? 0xfc00u : 0u) << "-inf";
            EXPECT_EQ(k.all(Op::channel_put).size(), stages + 1u) << "for every stage before the loop, one in it";
            EXPECT_EQ(k.proof(), "");
            k.check({{13, 1016}, {13, 1016}}, {13, 1016}, {13, 1, 1}, 30);
            k.check({{1, 1024}, {1, 1024}}, {1, 1024}, {1, 1, 1}, 10);
        }
}

TEST(OwnRings, what_stays_a_load) {
    const auto rings = [](const std::string& text, bool whole = true, const Arch& arch = kHopper, bool may_alias = false) {
        Kernel k(text, arch);
        k.options.may_alias = may_alias;
        k.persist(whole);
        EXPECT_TRUE(k.fn->gpu->persistent);
        EXPECT_EQ(k.proof(), "");
        return k.all(Op::channel).size();
    };
    EXPECT_EQ(rings(rows_text()), 1u);
    EXPECT_EQ(rings(rows_text(), false), 0u) << "rows that are no whole vectors";
    EXPECT_EQ(rings(rows_text(), true, *find_arch("sm_75")), 0u) << "no cp.async";
    EXPECT_EQ(rings(rows_text(), true, kHopper, true), 0u) << "stores of other programs";
    EXPECT_EQ(rings(rows_text("in", "", "%1")), 0u) << "the same row in all programs";
    std::string written = rows_text("inout");
    written.replace(written.find("  store"), 0, "  store %x[%0, %1 +: 1024] = %4\n");
    EXPECT_EQ(rings(written), 0u) << "a tensor that is written";
}

TEST(OwnRings, stages_follow_from_what_programs_leave_each_other) {
    const auto stages = [](const std::string& extent) {
        Kernel k(std::regex_replace(rows_text(), std::regex("1024"), extent));
        k.persist();
        return k.all(Op::channel).empty() ? 0 : static_cast<int>(k.stages(0));
    };
    EXPECT_EQ(stages("1024"), 2);
    EXPECT_EQ(stages("16384"), 2);
    EXPECT_EQ(stages("32768"), 2);
    EXPECT_EQ(stages("65536"), 1);
    EXPECT_EQ(stages("131072"), 0);
}

TEST(Persistent, wide_rows_only_unless_asked) {
    const auto persistent = [](const std::string& text) {
        Kernel k(text);
        for (GpuTensor& t : k.options.tensors) t.whole = true;
        grow_form(*k.fn);
        EXPECT_EQ(make_persistent(*k.fn, k.options), k.fn->gpu->persistent);
        return k.fn->gpu->persistent;
    };
    const std::string wide = std::regex_replace(rows_text(), std::regex("1024"), "32768");
    EXPECT_TRUE(persistent(wide));
    EXPECT_FALSE(persistent(std::regex_replace(rows_text(), std::regex("1024"), "16384")));
    EXPECT_FALSE(persistent(std::regex_replace(wide, std::regex("reduce %5 [^:]*"), "constant 1.0 "))) << "nothing that threads wait for";
}

TEST(ProveOwnRings, a_stage_is_missing) {
    Kernel k(rows_text());
    k.persist();
    const int64_t attrs[] = {1};
    k.fn->set_attrs(k.all(Op::channel)[0], attrs);
    EXPECT_NE(k.proof().find("fewer stages"), std::string::npos) << k.proof();
    EXPECT_EQ(k.caught({{13, 1024}, {13, 1024}}, {13, 1024}, {13, 1, 1}), std::set<std::string>{"stage_not_free"});
}

TEST(ProveOwnRings, the_tensor_may_have_been_written) {
    Kernel k(rows_text());
    k.persist();
    k.options.may_alias = true;
    EXPECT_NE(k.proof().find("may have been written before"), std::string::npos) << k.proof();
}

TEST(VerifyOwnRings, layouts_and_releases) {
    Kernel k(rows_text());
    k.persist();
    EXPECT_EQ(ir::verify(*k.fn), std::vector<std::string>());
    GpuChannel& ring = k.fn->gpu->channels[0].second;
    const TileLayout own = *ring.own;
    const int order[] = {0};
    ring.own = blocked_layout({2048}, 4, 8, order);
    EXPECT_FALSE(ir::verify(*k.fn).empty()) << "another tile's layout";
    ring.own = own;
    const ir::ValueId channel[] = {k.fn->result(k.all(Op::channel)[0])};
    const InstId get = k.all(Op::channel_get)[0];
    k.fn->insert_before(k.fn->block(k.fn->inst(get).parent).insts.back(), k.fn->make(Op::channel_release, channel, {}));
    EXPECT_FALSE(ir::verify(*k.fn).empty()) << "a release";
}

// ---- random programs ----

/// Kernels with products in random control flow: counted loops, `while`s, branches, carried scalars, scalars read from memory.
class RandomKernel {
public:
    explicit RandomKernel(uint32_t seed) : random_(seed) {}
    std::string text() {
        scalars_ = {line("program_id {axis = 0} : i64"), line("constant 16 : i64"), line("constant 0 : i64")};
        sixteen_ = scalars_[1];
        zero_ = scalars_[2];
        small_ = line("constant 3 : i64");
        one_ = line("constant 1 : i64");
        const std::string first = line("constant 0 : tile<f32>[16, 16]"), row = line("mul " + scalars_[0] + ", " + sixteen_ + " : i64");
        const std::string acc = statements(first, 6, 0);
        out_ += indent_ + "store %c[" + row + " +: 16, " + zero_ + " +: 16] = " + acc + "\n";
        return "kernel @random(%a: tensor<f16>[?, ?] in, %b: tensor<f16>[?, ?] in, %n: tensor<f16>[?] in, %c: tensor<f32>[?, ?] out, %M: extent, %K: "
               "extent, "
               "%N: extent) {\n" +
               out_ + "  ret\n}\n";
    }

private:
    uint32_t below(uint32_t n) { return static_cast<uint32_t>(random_() % n); }
    std::string fresh() { return "%" + std::to_string(next_++); }
    std::string line(const std::string& op) {
        const std::string v = fresh();
        out_ += indent_ + v + " = " + op + "\n";
        return v;
    }
    std::string any() { return scalars_[below(static_cast<uint32_t>(scalars_.size()))]; }
    std::string tile(const char* tensor) {
        const std::string t = line("load %" + std::string(tensor) + "[" + any() + " +: 16, " + any() + " +: 16] : tile<f16>[16, 16]");
        return below(3) ? t : line("permute " + t + " {axis = [1, 0]} : tile<f16>[16, 16]");
    }
    /// Some statements; gives the accumulator's new name.
    std::string statements(std::string acc, uint32_t count, int depth) {
        const size_t scope = scalars_.size(), tiles = held_.size();
        for (uint32_t i = 0; i < count; ++i) acc = statement(acc, depth);
        scalars_.resize(scope);
        held_.resize(tiles);
        return acc;
    }
    std::string statement(const std::string& acc, int depth) {
        switch (below(depth < 3 ? 9 : 4)) {
            case 0:
                scalars_.push_back(line(std::string(below(2) ? "add " : "mul ") + any() + ", " + any() + " : i64"));
                return acc;
            case 1: {
                const std::string at = line("rem " + any() + ", " + sixteen_ + " : i64");
                scalars_.push_back(line("cast " + line("load %n[" + at + "] : f16") + " {round = rtz, overflow = sat} : i64"));
                return acc;
            }
            case 2:
                held_.push_back(tile("a"));
                return acc;
            case 4:
            case 5:
                return counted(acc, depth);
            case 6:
                return branch(acc, depth);
            case 7:
                return conditional(acc, depth);
            default: {
                const std::string a = !held_.empty() && below(2) ? held_[below(static_cast<uint32_t>(held_.size()))] : tile("a");
                const std::string b = tile("b");
                return line("dot " + a + ", " + b + ", " + acc + " {precision = ieee} : tile<f32>[16, 16]");
            }
        }
    }
    std::string trips() { return line("mul " + line("rem " + any() + ", " + small_ + " : i64") + ", " + sixteen_ + " : i64"); }
    std::string counted(const std::string& acc, int depth) {
        const std::string hi = trips(), init = any(), result = fresh(), other = fresh(), i = fresh(), carried = fresh(), tile = fresh();
        out_ += indent_ + result + ", " + other + " = for_loop " + zero_ + ", " + hi + ", " + sixteen_ + ", " + acc + ", " + init +
                " : tile<f32>[16, 16], i64 (" + i + ": i64, " + tile + ": tile<f32>[16, 16], " + carried + ": i64) {\n";
        body({i, carried}, tile, depth, [&](const std::string& end) { return "yield " + end + ", " + any(); });
        out_ += indent_ + "}\n";
        scalars_.push_back(other);
        return result;
    }
    std::string conditional(const std::string& acc, int depth) {
        const std::string end = line("rem " + any() + ", " + small_ + " : i64");
        const std::string result = fresh(), count = fresh(), i = fresh(), tile = fresh(), j = fresh(), passed = fresh();
        out_ += indent_ + result + ", " + count + " = while_loop " + acc + ", " + zero_ + " : tile<f32>[16, 16], i64 (" + tile +
                ": tile<f32>[16, 16], " + i + ": i64) {\n";
        body({i}, tile, depth + 1,
             [&](const std::string& last) { return "condition " + line("lt " + i + ", " + end + " : bool") + ", " + last + ", " + i; });
        out_ += indent_ + "} (" + passed + ": tile<f32>[16, 16], " + j + ": i64) {\n";
        body({j}, passed, depth, [&](const std::string& last) { return "yield " + last + ", " + line("add " + j + ", " + one_ + " : i64"); });
        out_ += indent_ + "}\n";
        return result;
    }
    std::string branch(const std::string& acc, int depth) {
        const std::string test = line("lt " + any() + ", " + any() + " : bool"), result = fresh(), other = fresh();
        out_ += indent_ + result + ", " + other + " = if_else " + test + " : tile<f32>[16, 16], i64 {\n";
        for (int b = 0; b < 2; ++b) {
            body({}, acc, depth, [&](const std::string& end) { return "yield " + end + ", " + any(); });
            out_ += indent_ + (b ? "}\n" : "} {\n");
        }
        scalars_.push_back(other);
        return result;
    }
    template <class End>
    void body(const std::vector<std::string>& scalars, const std::string& acc, int depth, const End& end) {
        const size_t scope = scalars_.size();
        indent_ += "  ";
        scalars_.insert(scalars_.end(), scalars.begin(), scalars.end());
        const std::string last = statements(acc, 1 + below(3), depth + 1);
        const std::string text = end(last);
        out_ += indent_ + text + "\n";
        indent_.resize(indent_.size() - 2);
        scalars_.resize(scope);
    }

    std::mt19937 random_;
    std::string out_, indent_ = "  ", zero_, one_, small_, sixteen_;
    std::vector<std::string> scalars_, held_;
    int next_ = 0;
};

const std::vector<Shape> kRandomShapes = {{70, 70}, {70, 70}, {16}, {48, 16}};
const std::vector<int64_t> kRandomExtents = {48, 70, 16};

TEST(Channels, random_programs_compute_the_same) {
    int split = 0, ahead = 0;
    for (uint32_t seed = 1; seed <= 150; ++seed) {
        const std::string text = RandomKernel(seed).text();
        for (const Arch* arch : {&kHopper, &kAmpere}) {
            Kernel k(text, *arch);
            k.split();
            if (!k.changed) continue;
            ++(arch == &kHopper ? split : ahead);
            ASSERT_EQ(k.proof(), "") << "seed " << seed << "\n" << ir::print(*k.fn);
            ASSERT_NO_FATAL_FAILURE(k.check(kRandomShapes, kRandomExtents, {3, 1, 1}, 6)) << "seed " << seed;
        }
    }
    EXPECT_GT(split, 50);
    EXPECT_GT(ahead, 10);
}

/// One random change of what has to do with channels. Gives false when it could not be made.
bool mutate(Kernel& k, std::mt19937& random) {
    const auto pick = [&](const std::vector<InstId>& from) { return from[random() % from.size()]; };
    const std::vector<InstId> puts = k.all(Op::channel_put), releases = k.all(Op::channel_release);
    switch (random() % 5) {
        case 0:
            k.erase(pick(puts));
            return true;
        case 1:
            k.erase(pick(releases));
            return true;
        case 2: {
            const InstId r = pick(releases);
            const auto& list = k.fn->block(k.fn->inst(r).parent).insts;
            const InstId where = list[random() % list.size()];
            if (where == r) return false;
            k.move(r, where);
            return true;
        }
        case 3: {
            const InstId a = pick(puts), b = pick(puts);
            std::swap(k.fn->operands(k.fn->inst(a)).back(), k.fn->operands(k.fn->inst(b)).back());
            return !(k.fn->operands(k.fn->inst(a)).back() == k.fn->operands(k.fn->inst(b)).back());
        }
        default: {
            // Another constant, anywhere: the producer's trips, a guard, or something harmless.
            const InstId c = pick(k.all(Op::constant));
            const Type& type = k.fn->type(k.fn->result(c));
            if (type.shape.rank != 0) return false;
            k.fn->attr_pool[k.fn->inst(c).attrs.begin] += 16;
            return true;
        }
    }
}

TEST(ProveChannels, whatever_it_accepts_the_model_finds_no_fault_with) {
    std::mt19937 random(5);
    int refused = 0, accepted = 0, caught = 0;
    for (uint32_t seed = 1; seed <= 150; ++seed) {
        const std::string text = RandomKernel(seed).text();
        for (const Arch* arch : {&kHopper, &kAmpere}) {
            Kernel k(text, *arch);
            k.split();
            if (!k.changed || !mutate(k, random)) continue;
            if (!ir::verify(*k.fn).empty()) continue;
            const std::string proof = k.proof();
            ++(proof.empty() ? accepted : refused);
            bool bad = false;
            for (uint64_t order = 0; order < 6; ++order) {
                const Output got = k.run(*k.fn, kRandomShapes, kRandomExtents, {3, 1, 1}, order);
                for (const Diagnostic& d : got.result.diagnostics) {
                    bad = bad || (d.id != Diag::step_budget_spent && d.id != Diag::memory_budget_spent);
                    ASSERT_TRUE(!proof.empty() || d.id == Diag::step_budget_spent) << "seed " << seed << ": " << d.message << "\n"
                                                                                   << ir::print(*k.fn);
                }
            }
            caught += bad;
        }
    }
    EXPECT_GT(refused, 40);
    EXPECT_GT(caught, 30);
    EXPECT_GT(accepted, 3);
}

}  // namespace
