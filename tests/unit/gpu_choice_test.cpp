// Which instruction the products of small functions get, on every architecture; how many warps; what `explain` says of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "lower/gpu/rows.h"
#include "lower/rewrite.h"
#include "tegula/tegula.hpp"
#include "tests/unit/gpu_function.h"

using namespace tegula;

namespace {

std::string product(const std::string& a, const std::string& b, const std::string& acc, int m, int n, int k, const std::string& precision = "ieee",
                    const std::string& hints = "") {
    const auto shape = [](int x, int y) { return "[" + std::to_string(x) + ", " + std::to_string(y) + "]"; };
    return "kernel @f(%a: tensor<" + a + ">" + shape(m, k) + " in, %b: tensor<" + b + ">" + shape(k, n) + " in, %c: tensor<" + acc + ">" +
           shape(m, n) + " inout)" + hints + " {\n  %0 = load %a[:, :] : tile<" + a + ">" + shape(m, k) + "\n  %1 = load %b[:, :] : tile<" + b + ">" +
           shape(k, n) + "\n  %2 = load %c[:, :] : tile<" + acc + ">" + shape(m, n) + "\n  %3 = dot %0, %1, %2 {precision = " + precision +
           "} : tile<" + acc + ">" + shape(m, n) + "\n  store %c[:, :] = %3\n  ret\n}\n";
}

std::string chosen(const std::string& text, const char* arch) {
    Parsed p(text);
    if (!p.fn) return "unreadable";
    choose_instructions(*p.fn, options_for(arch, *p.fn));
    EXPECT_EQ(ir::verify(*p.fn), std::vector<std::string>());
    std::string out;
    p.fn->walk([&](ir::InstId id) {
        if (ir::is_product(p.fn->inst(id).op)) out = p.fn->row_name(p.fn->gpu_inst(id).row);
    });
    return out;
}

TEST(GpuChoice, TensorCoresByTypeAndArchitecture) {
    const auto f16 = product("f16", "f16", "f32", 128, 128, 64);
    EXPECT_EQ(chosen(f16, "sm_75"), "mma.sync.f16.f32");
    EXPECT_EQ(chosen(f16, "sm_80"), "mma.sync.f16.f32");
    EXPECT_EQ(chosen(f16, "sm_90a"), "wgmma.f16.f32");
    EXPECT_EQ(chosen(f16, "sm_100a"), "tcgen05.f16.f32");
    EXPECT_EQ(chosen(f16, "sm_120a"), "mma.sync.f16.f32");
    EXPECT_EQ(chosen(product("bf16", "bf16", "f32", 64, 256, 32), "sm_90a"), "wgmma.bf16.f32");
    EXPECT_EQ(chosen(product("bf16", "bf16", "f32", 64, 256, 32), "sm_75"), "fma");
    EXPECT_EQ(chosen(product("f16", "f16", "f16", 64, 64, 64), "sm_89"), "mma.sync.f16.f16");
    EXPECT_EQ(chosen(product("bf16", "bf16", "bf16", 64, 64, 64), "sm_89"), "fma");
    EXPECT_EQ(chosen(product("f64", "f64", "f64", 32, 32, 32), "sm_80"), "mma.sync.f64");
    EXPECT_EQ(chosen(product("f64", "f64", "f64", 32, 32, 32), "sm_75"), "fma");
}

TEST(GpuChoice, ExtentsThatWgmmaCannotTake) {
    EXPECT_EQ(chosen(product("f16", "f16", "f32", 16, 128, 64), "sm_90a"), "mma.sync.f16.f32");
    EXPECT_EQ(chosen(product("f16", "f16", "f32", 64, 12, 64), "sm_90a"), "mma.sync.f16.f32");
    EXPECT_EQ(chosen(product("f16", "f16", "f32", 64, 64, 24), "sm_90a"), "mma.sync.f16.f32");
    EXPECT_EQ(chosen(product("f16", "f16", "f32", 64, 64, 64, "ieee", " @ warps(2)"), "sm_90a"), "mma.sync.f16.f32");
    EXPECT_EQ(chosen(product("f16", "f16", "f32", 7, 9, 5), "sm_90a"), "mma.sync.f16.f32") << "odd extents are padded";
}

TEST(GpuChoice, ExtentsThatTensorMemoryTakes) {
    EXPECT_EQ(chosen(product("bf16", "bf16", "f32", 256, 208, 16), "sm_100a"), "mma.sync.bf16.f32") << "208 columns have no layout in registers";
    EXPECT_EQ(chosen(product("bf16", "bf16", "f32", 256, 192, 16), "sm_100a"), "tcgen05.bf16.f32");
    EXPECT_EQ(chosen(product("bf16", "bf16", "f32", 384, 16, 16), "sm_100a"), "tcgen05.bf16.f32");
    EXPECT_EQ(chosen(product("bf16", "bf16", "f32", 64, 256, 16), "sm_100a"), "mma.sync.bf16.f32") << "half of the lanes";
    EXPECT_EQ(chosen(product("bf16", "bf16", "f32", 128, 40, 16), "sm_100a"), "mma.sync.bf16.f32");
    EXPECT_EQ(chosen(product("bf16", "bf16", "f32", 128, 64, 24), "sm_100a"), "mma.sync.bf16.f32");
    EXPECT_EQ(chosen(product("bf16", "bf16", "f32", 128, 512, 16), "sm_100a"), "tcgen05.bf16.f32");
    EXPECT_EQ(chosen(product("bf16", "bf16", "f32", 512, 256, 16), "sm_100a"), "mma.sync.bf16.f32") << "1024 columns";
    EXPECT_EQ(chosen(product("bf16", "bf16", "f32", 128, 64, 64, "ieee", " @ warps(2)"), "sm_100a"), "mma.sync.bf16.f32");
    EXPECT_EQ(chosen(product("f16", "f16", "f16", 128, 128, 64), "sm_100a"), "mma.sync.f16.f16") << "sums of f16 stay in registers";
    EXPECT_EQ(chosen(product("f8e4m3", "f8e5m2", "f32", 128, 64, 64), "sm_100a"), "tcgen05.e4m3.e5m2.f32");
    EXPECT_EQ(chosen(product("u8", "i8", "i32", 128, 64, 64), "sm_100a"), "tcgen05.u8.s8");
    EXPECT_EQ(chosen(product("f32", "f32", "f32", 128, 64, 64, "tf32"), "sm_100a"), "tcgen05.tf32.f32");
}

TEST(GpuChoice, SinglePrecisionNeedsPermission) {
    EXPECT_EQ(chosen(product("f32", "f32", "f32", 64, 64, 64), "sm_90a"), "fma");
    EXPECT_EQ(chosen(product("f32", "f32", "f32", 64, 64, 64, "tf32"), "sm_90a"), "wgmma.tf32.f32");
    EXPECT_EQ(chosen(product("f32", "f32", "f32", 64, 64, 64, "tf32"), "sm_80"), "mma.sync.tf32.f32");
    EXPECT_EQ(chosen(product("f32", "f32", "f32", 64, 64, 64, "tf32"), "sm_75"), "fma");
    EXPECT_EQ(chosen(product("f16", "bf16", "f32", 64, 64, 64), "sm_80"), "mma.sync.tf32.f32") << "both formats are parts of tf32";
}

TEST(GpuChoice, IntegersAndNarrowFormatsWiden) {
    EXPECT_EQ(chosen(product("i8", "i8", "i32", 64, 64, 64), "sm_90a"), "wgmma.s8.s8");
    EXPECT_EQ(chosen(product("u8", "i8", "i32", 64, 64, 64), "sm_80"), "mma.sync.u8.s8");
    EXPECT_EQ(chosen(product("i4", "i8", "i32", 64, 64, 64), "sm_90a"), "wgmma.s8.s8");
    EXPECT_EQ(chosen(product("i16", "i8", "i32", 64, 64, 64), "sm_90a"), "fma");
    EXPECT_EQ(chosen(product("i4", "f16", "f32", 64, 64, 64), "sm_80"), "mma.sync.f16.f32");
    EXPECT_EQ(chosen(product("f6e3m2", "f4e2m1", "f32", 64, 64, 64), "sm_80"), "mma.sync.f16.f32");
    EXPECT_EQ(chosen(product("f8e4m3", "f8e5m2", "f32", 64, 64, 64), "sm_90a"), "wgmma.e4m3.e5m2.f32");
    EXPECT_EQ(chosen(product("f8e4m3", "f8e4m3", "f32", 64, 64, 64), "sm_89"), "mma.sync.e4m3.e4m3.f32");
    EXPECT_EQ(chosen(product("f8e4m3", "f8e4m3", "f32", 16, 64, 64), "sm_90a"), "mma.sync.f16.f32") << "mma.sync of fp8 is emulated there";
    EXPECT_EQ(chosen(product("f8e4m3", "f8e4m3", "f32", 64, 64, 64), "sm_80"), "mma.sync.f16.f32");
}

/// What fragments would mostly pad is for threads.
TEST(GpuChoice, SmallProductsOfBytesAreForThreads) {
    for (const char* arch : {"sm_75", "sm_80", "sm_90a", "sm_100a", "sm_120a"}) {
        SCOPED_TRACE(arch);
        EXPECT_EQ(chosen(product("i8", "i8", "i32", 1, 1, 256), arch), "dp4a.s8.s8");
        EXPECT_EQ(chosen(product("u8", "i8", "i32", 1, 64, 16), arch), "dp4a.u8.s8");
        EXPECT_EQ(chosen(product("i8", "u8", "i32", 2, 1, 67), arch), "dp4a.s8.u8");
        EXPECT_EQ(chosen(product("u8", "u8", "u32", 3, 1, 33), arch), "dp4a.u8.u8");
        EXPECT_EQ(chosen(product("i4", "i4", "i32", 1, 1, 256), arch), "dp4a.s8.s8");
        EXPECT_EQ(chosen(product("i16", "i8", "i32", 1, 1, 256), arch), "fma");
        EXPECT_EQ(chosen(product("i8", "i8", "i64", 1, 1, 256), arch), "fma");
    }
    EXPECT_EQ(chosen(product("i8", "i8", "i32", 16, 64, 64), "sm_80"), "mma.sync.s8.s8");
    EXPECT_EQ(chosen(product("i8", "i8", "i32", 4, 64, 64), "sm_90a"), "mma.sync.s8.s8");
}

TEST(GpuChoice, Fp8WithoutAnInstructionOfItsOwn) {
    for (const char* arch : {"sm_89", "sm_120a"}) {
        EXPECT_EQ(chosen(product("f8e4m3", "f8e5m2", "f32", 16, 64, 64), arch), "mma.sync.e4m3.e5m2.f32");
        EXPECT_EQ(chosen(product("f8e4m3", "f8e4m3", "f16", 64, 64, 64), arch), "mma.sync.f16.f16") << "nobody has measured its sums";
        Parsed p(product("f8e4m3", "f8e4m3", "f16", 64, 64, 64));
        const ir::Inst* dot = nullptr;
        p.fn->walk([&](ir::InstId id) { dot = ir::is_product(p.fn->inst(id).op) ? &p.fn->inst(id) : dot; });
        RowContext context;
        context.arch = find_arch(arch);
        int unknown = 0;
        for (const RowVerdict& v : judge_rows(*p.fn, *dot, context)) unknown += v.refusal.text == kUnmeasured;
        EXPECT_EQ(unknown, 1);
    }
    for (const char* arch : {"sm_90a", "sm_100a"})
        EXPECT_EQ(chosen(product("f8e4m3", "f8e5m2", "f32", 16, 64, 64), arch), "mma.sync.f16.f32") << "mma.sync of fp8 is made of f16 steps there";
}

std::string scaled(const std::string& a, const std::string& b, int m, int n, int k, int a_block, int b_block, const std::string& acc = "f32") {
    const auto tile = [](const std::string& elem, int x, int y) { return "<" + elem + ">[" + std::to_string(x) + ", " + std::to_string(y) + "]"; };
    const std::string types[] = {tile(a, m, k), tile(b, k, n), tile(acc, m, n), tile("f8e8m0", m, k / a_block), tile("f8e8m0", k / b_block, n)};
    std::string head = "kernel @f(", body;
    for (int i = 0; i < 5; ++i) {
        const std::string name = "%p" + std::to_string(i);
        head += (i ? ", " : "") + name + ": tensor" + types[i] + (i == 2 ? " inout" : " in");
        body += "  %" + std::to_string(i) + " = load " + name + "[:, :] : tile" + types[i] + "\n";
    }
    return head + ") {\n" + body + "  %5 = dot_scaled %0, %1, %2, %3, %4 {a_block = " + std::to_string(a_block) +
           ", b_block = " + std::to_string(b_block) + "} : tile" + types[2] + "\n  store %p2[:, :] = %5\n  ret\n}\n";
}

TEST(GpuChoice, ScaledProductsByElements) {
    EXPECT_EQ(chosen(scaled("f4e2m1", "f4e2m1", 32, 32, 64, 32, 32), "sm_75"), "mma.sync.f16.f32");
    EXPECT_EQ(chosen(scaled("f4e2m1", "f4e2m1", 32, 32, 64, 32, 32), "sm_80"), "mma.sync.f16.f32");
    EXPECT_EQ(chosen(scaled("f8e4m3", "f8e5m2", 32, 32, 64, 32, 32), "sm_80"), "mma.sync.f16.f32");
    EXPECT_EQ(chosen(scaled("f8e4m3", "f8e5m2", 32, 32, 64, 32, 32), "sm_89"), "mma.sync.e4m3.e5m2.f32");
    EXPECT_EQ(chosen(scaled("f8e4m3", "f8e4m3", 128, 64, 128, 32, 32), "sm_90a"), "wgmma.e4m3.e4m3.f32");
    EXPECT_EQ(chosen(scaled("f8e4m3", "f8e4m3", 128, 64, 128, 32, 32, "bf16"), "sm_90a"), "wgmma.e4m3.e4m3.f32") << "sums are f32 between scales";
    EXPECT_EQ(chosen(scaled("f16", "f16", 128, 64, 128, 32, 32), "sm_100a"), "mma.sync.f16.f32") << "not in tensor memory";
    EXPECT_EQ(chosen(scaled("f32", "f32", 64, 64, 64, 32, 32), "sm_90a"), "fma");
    EXPECT_EQ(chosen(scaled("i8", "i8", 64, 64, 64, 32, 32), "sm_90a"), "wgmma.s8.s8");
    EXPECT_EQ(chosen(scaled("fixed<2, 6>", "fixed<2, 6>", 32, 32, 64, 32, 32), "sm_75"), "mma.sync.s8.s8");
    EXPECT_EQ(chosen(scaled("fixed<2, 6>", "f4e2m1", 32, 32, 64, 32, 32), "sm_80"), "mma.sync.f16.f32");
    EXPECT_EQ(chosen(scaled("fixed<1, 3>", "i8", 32, 32, 64, 32, 32), "sm_80"), "mma.sync.f16.f32") << "codes of other widths than the row's";
}

/// A stretch between scales is whole steps of the instruction, and no longer than its sum is good for.
TEST(GpuChoice, ScaledProductsByBlocks) {
    EXPECT_EQ(chosen(scaled("f8e4m3", "f8e4m3", 32, 32, 64, 16, 64), "sm_89"), "mma.sync.f16.f32");
    EXPECT_EQ(chosen(scaled("i8", "i8", 32, 32, 64, 16, 16), "sm_80"), "mma.sync.f16.f32");
    EXPECT_EQ(chosen(scaled("f8e4m3", "f8e4m3", 32, 32, 64, 8, 64), "sm_89"), "mma.sync.tf32.f32") << "steps of 8";
    EXPECT_EQ(chosen(scaled("f8e4m3", "f8e4m3", 32, 32, 64, 4, 64), "sm_89"), "fma");
    EXPECT_EQ(chosen(scaled("f4e2m1", "f4e2m1", 32, 32, 96, 32, 48), "sm_89"), "fma") << "48 is no multiple of 32";
    EXPECT_EQ(chosen(scaled("i8", "i8", 64, 64, 1024, 1024, 1024), "sm_90a"), "wgmma.s8.s8") << "1024 * 2^14 = 2^24";
    EXPECT_EQ(chosen(scaled("i8", "i8", 32, 16, 2048, 2048, 2048), "sm_80"), "mma.sync.f16.f32");
    EXPECT_EQ(chosen(scaled("u8", "u8", 32, 16, 512, 256, 512), "sm_80"), "mma.sync.u8.u8");
    EXPECT_EQ(chosen(scaled("u8", "u8", 32, 16, 512, 512, 512), "sm_80"), "mma.sync.f16.f32");
    EXPECT_EQ(chosen(scaled("f8e4m3", "f8e4m3", 64, 64, 256, 128, 256), "sm_90a"), "wgmma.e4m3.e4m3.f32");
    EXPECT_EQ(chosen(scaled("f8e4m3", "f8e4m3", 64, 64, 256, 256, 256), "sm_90a"), "wgmma.f16.f32") << "13 bits for 128 elements";
}

/// wgmma sums fp8 in its own way, so that it must not depend on hints whether a product gets it.
TEST(GpuChoice, HintsDoNotDecideHowFp8IsSummed) {
    for (const int warps : {1, 2, 4, 8, 16, 32}) {
        const std::string hint = " @ warps(" + std::to_string(warps) + ")";
        SCOPED_TRACE(hint);
        for (const auto& [m, n, k] : {std::array{64, 64, 64}, {64, 8, 32}, {64, 192, 64}, {128, 256, 128}, {256, 128, 64}, {192, 24, 32}})
            EXPECT_EQ(chosen(product("f8e4m3", "f8e5m2", "f32", m, n, k, "ieee", hint), "sm_90a"), "wgmma.e4m3.e5m2.f32")
                << m << " " << n << " " << k;
        EXPECT_EQ(chosen(product("f8e4m3", "f8e4m3", "f16", 64, 40, 32, "ieee", hint), "sm_90a"), "wgmma.e4m3.e4m3.f16");
        EXPECT_EQ(chosen(product("f8e4m3", "f8e4m3", "f32", 32, 64, 64, "ieee", hint), "sm_90a"), "mma.sync.f16.f32") << "extents decide";
    }
    // The hint is followed as far as that goes, and wholly where sums are equal.
    const auto warps = [](const std::string& text) {
        Parsed p(text);
        choose_instructions(*p.fn, options_for("sm_90a", *p.fn));
        return p.fn->gpu->warps;
    };
    EXPECT_EQ(warps(product("f8e4m3", "f8e4m3", "f32", 64, 64, 64, "ieee", " @ warps(2)")), 4);
    EXPECT_EQ(warps(product("f8e4m3", "f8e4m3", "f32", 64, 32, 64, "ieee", " @ warps(32)")), 16) << "8 columns per group of warps";
    EXPECT_EQ(warps(product("f16", "f16", "f32", 64, 64, 64, "ieee", " @ warps(2)")), 2);
}

/// The warps of a loop that carries two tiles of 64 x 128, to one or both of which products with a tile from outside are added.
TEST(GpuChoice, TilesThatLoopsKeepTakeMoreWarps) {
    const auto warps = [](const std::string& carried, const char* arch) {
        Parsed p(
            "kernel @f(%a: tensor<bf16>[64, 128] in, %b: tensor<bf16>[128, 128] in, %y: tensor<f32>[64, 128] out, %n: i64) {\n"
            "  %0 = constant 0 : i64\n  %1 = constant 1 : i64\n  %2 = constant 0 : tile<f32>[64, 128]\n  %3 = constant 0 : " +
            carried + "\n  %4 = load %a[:, :] : tile<bf16>[64, 128]\n  %5, %6 = for_loop %0, %n, %1, %2, %3 : tile<f32>[64, 128], " + carried +
            " (%i: i64, %7: tile<f32>[64, 128], %8: " + carried +
            ") {\n    %9 = load %b[:, :] : tile<bf16>[128, 128]\n"
            "    %10 = dot %4, %9, %7 {precision = ieee} : tile<f32>[64, 128]\n    %11 = add %8, %8 : " +
            carried + "\n    yield %10, %11\n  }\n  store %y[:, :] = %5\n  ret\n}\n");
        if (!p.fn) return 0;
        choose_instructions(*p.fn, options_for(arch, *p.fn));
        return p.fn->gpu->warps;
    };
    EXPECT_EQ(warps("tile<f32>[64]", "sm_90a"), 4);
    EXPECT_EQ(warps("tile<f32>[64]", "sm_80"), 8) << "operand A stays in registers as well";
    EXPECT_EQ(warps("tile<f32>[64, 128]", "sm_90a"), 8) << "128 registers per thread of 4 warps";
}

/// The warps of a loop that carries 64 x 128 sums and adds a second product's 64 x 128 to them; its operand is a first product times itself, or
/// times a tile from outside of the loop.
TEST(GpuChoice, TilesThatMeetInLoopsTakeMoreWarps) {
    const auto warps = [](const std::string& factor, const char* arch) {
        Parsed p(
            "kernel @f(%a: tensor<bf16>[64, 16] in, %b: tensor<bf16>[16, 64] in, %c: tensor<bf16>[64, 128] in, %d: tensor<f32>[64, 64] in,\n"
            "  %y: tensor<f32>[64, 128] out, %n: i64) {\n"
            "  %0 = constant 0 : i64\n  %1 = constant 1 : i64\n  %2 = constant 0 : tile<f32>[64, 128]\n  %3 = constant 0 : tile<f32>[64, 64]\n"
            "  %4 = load %d[:, :] : tile<f32>[64, 64]\n  %5 = add %4, %4 : tile<f32>[64, 64]\n"
            "  %6 = for_loop %0, %n, %1, %2 : tile<f32>[64, 128] (%i: i64, %7: tile<f32>[64, 128]) {\n"
            "    %8 = load %a[:, :] : tile<bf16>[64, 16]\n    %9 = load %b[:, :] : tile<bf16>[16, 64]\n"
            "    %10 = dot %8, %9, %3 {precision = ieee} : tile<f32>[64, 64]\n    %11 = mul %10, " +
            factor +
            " : tile<f32>[64, 64]\n    %12 = cast %11 {round = rne, overflow = automatic} : tile<bf16>[64, 64]\n"
            "    %13 = load %c[:, :] : tile<bf16>[64, 128]\n    %14 = dot %12, %13, %2 {precision = ieee} : tile<f32>[64, 128]\n"
            "    %15 = add %7, %14 : tile<f32>[64, 128]\n    yield %15\n  }\n  store %y[:, :] = %6\n  ret\n}\n");
        if (!p.fn) return 0;
        choose_instructions(*p.fn, options_for(arch, *p.fn));
        return p.fn->gpu->warps;
    };
    EXPECT_EQ(warps("%10", "sm_90a"), 4) << "128 registers per thread of 4 warps";
    EXPECT_EQ(warps("%5", "sm_90a"), 8) << "160 registers";
    EXPECT_EQ(warps("%10", "sm_80"), 8) << "operands pass through registers as well";
}

TEST(GpuChoice, ExactInOtherFormats) {
    const auto formats = builtin_formats();
    const auto f = [&](Fmt id) { return formats[static_cast<size_t>(id)]; };
    EXPECT_TRUE(exact_in(f(Fmt::f8e5m2), f(Fmt::f16)));
    EXPECT_TRUE(exact_in(f(Fmt::f16), f(Fmt::tf32)));
    EXPECT_FALSE(exact_in(f(Fmt::f16), f(Fmt::bf16)));
    EXPECT_FALSE(exact_in(f(Fmt::bf16), f(Fmt::f16)));
    EXPECT_FALSE(exact_in(f(Fmt::f8e8m0), f(Fmt::f16)));
    EXPECT_TRUE(exact_in(f(Fmt::f8e8m0), f(Fmt::bf16)));
    EXPECT_TRUE(exact_in(int_format(7, false), f(Fmt::i8)));
    EXPECT_FALSE(exact_in(f(Fmt::u8), f(Fmt::i8)));
    EXPECT_FALSE(exact_in(f(Fmt::i16), f(Fmt::f16)));
    EXPECT_FALSE(exact_in(f(Fmt::f32), f(Fmt::tf32)));
}

TEST(GpuChoice, ExplainSaysWhy) {
    Parsed p(product("f16", "f16", "f32", 16, 128, 64));
    const GpuOptions options = options_for("sm_90a", *p.fn);
    run_gpu_passes(*p.fn, options);
    const auto notes = explain_gpu(*p.fn, options);
    const auto note = std::ranges::find_if(notes, [](const explain::Note& n) { return std::holds_alternative<explain::Product>(n.fact); });
    ASSERT_NE(note, notes.end());
    const auto& product = std::get<explain::Product>(note->fact);
    EXPECT_EQ(product.row.text(), "mma.sync.f16.f32 m16n8k16");
    EXPECT_GT(product.clocks, 0);
    const auto wgmma = std::ranges::find_if(product.rejected, [](const explain::Rejected& r) { return r.row.name == "wgmma.f16.f32"; });
    ASSERT_NE(wgmma, product.rejected.end());
    EXPECT_EQ(wgmma->code, explain::Rejected::extents);
    EXPECT_EQ(wgmma->why, "M = 16 is no multiple of 64");
    EXPECT_NE(explain::text(note->fact).find("mma.sync.f16.f32 m16n8k16"), std::string::npos);
}

TEST(GpuChoice, ExplainNamesWhatOtherProductsTook) {
    Parsed p(
        "kernel @f(%a: tensor<bf16>[64, 512] in, %b: tensor<bf16>[512, 64] in, %c: tensor<bf16>[512, 64] in, %y: tensor<f32>[64, 64] out) {\n"
        "  %0 = constant 0 : tile<f32>[64, 64]\n  %1 = load %a[:, :] : tile<bf16>[64, 512]\n  %2 = load %b[:, :] : tile<bf16>[512, 64]\n"
        "  %3 = load %c[:, :] : tile<bf16>[512, 64]\n  %4 = dot %1, %2, %0 {precision = ieee} : tile<f32>[64, 64]\n"
        "  %5 = dot %1, %3, %4 {precision = ieee} : tile<f32>[64, 64]\n  store %y[:, :] = %5\n  ret\n}\n");
    const GpuOptions options = options_for("sm_90a", *p.fn);
    run_gpu_passes(*p.fn, options);
    std::string text;
    for (const explain::Note& n : explain_gpu(*p.fn, options)) text += explain::text(n.fact) + "\n";
    EXPECT_NE(text.find("mma.sync.bf16.f32"), std::string::npos) << text;
    EXPECT_NE(text.find("wgmma.bf16.f32 m64nNk16: 1024 clocks, but no room beside the other products"), std::string::npos) << text;
}

/// The extents M x N x K of the product of a kernel of 16 rows of x and 64 of w that is summed in a loop over K, behind the GPU passes.
std::string oriented(const std::string& x, const std::string& w, const std::string& sum) {
    const std::string source = "kernel f(x: tensor<" + x + ">[M, K], w: tensor<" + w +
                               ">[N, K], s: tensor<f16>[M, cdiv(K, 128)], t: tensor<f16>[N, cdiv(K, 128)], "
                               "out y: tensor<f32>[M, N]) grid [cdiv(N, 64)] {\n    var acc = zeros<f32>[16, 64];\n    for k in 0 .. K step 128 {\n"
                               "        let (a, b) = (x[0 +: 16, k +: 128], w[program_id(0) * 64 +: 64, k +: 128]);\n        acc = " +
                               sum +
                               ";\n    }\n"
                               "    y[0 +: 16, program_id(0) * 64 +: 64] = acc;\n}\n";
    auto module = Engine::create({}).value().load(source, "f.tile");
    if (!module) return module.diagnostics().text();
    auto kernel = module.value().compile("f", {});
    if (!kernel) return kernel.diagnostics().text();
    const std::string text = kernel.value().artifact("explain@sm_90a").value();
    const size_t at = text.find("product 1") != text.npos ? text.find("product 1") : text.find("product 6");
    return at == text.npos ? text : text.substr(at + 8, text.find(':', at) - at - 8);
}

TEST(GpuChoice, TheNarrowerFactorComesFirst) {
    const std::string dot = "dot(cast<f16>(a), trans(cast<f16>(b)), acc)", turned = "64 x 16 x 128", straight = "16 x 64 x 128";
    EXPECT_EQ(oriented("f16", "f16", dot), straight);
    EXPECT_EQ(oriented("f16", "u3", dot), turned);
    EXPECT_EQ(oriented("f16", "i8", dot), turned);
    EXPECT_EQ(oriented("i4", "f16", dot), straight);
    EXPECT_EQ(oriented("i8", "i4", dot), turned) << "both are decoded, the second from fewer bits";
    EXPECT_EQ(oriented("f8e4m3", "u3", dot), turned);
    EXPECT_EQ(oriented("i4", "i8", dot), straight);
    EXPECT_EQ(oriented("i4", "u4", dot), straight);
    const std::string scaled = "dot_scaled(a, s[0 +: 16, k / 128 +: 1], trans(b), trans(t[program_id(0) * 64 +: 64, k / 128 +: 1]), acc = acc)";
    EXPECT_EQ(oriented("i8", "i8", scaled), straight);
    EXPECT_EQ(oriented("i8", "i4", scaled), turned) << "decoded for the instruction that multiplies";
    EXPECT_EQ(oriented("f8e4m3", "f4e2m1", scaled), turned);
    EXPECT_EQ(oriented("i4", "i8", scaled), straight);
}

}  // namespace
