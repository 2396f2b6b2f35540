// Products on tensor cores in emitted text: instructions, descriptor fields and copies against the PTX ISA's rules (worked out by hand here), and,
// where NVRTC is at hand, compiled without a warning or a spill for every kind of row. What the kernels compute is tested by running them
// (tests/emulate, and on GPUs the run tests).
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <regex>

#include "jit/cuda/nvrtc.h"
#include "jit/cuda/print.h"
#include "lang/ir_text.h"
#include "lang/kernel/kernel_text.h"
#include "lower/gpu/gpu.h"
#include "lower/kernel/lower.h"

namespace tegula {
namespace {

struct Product {
    std::string a = "bf16", b = "bf16", c = "bf16", acc = "f32";
    int m = 128, n = 256, k = 64;
    bool a_columns = false, b_columns = true;  ///< stored by columns
};

std::string product_text(const Product& p) {
    const auto n = [](int v) { return std::to_string(v); };
    const std::string sum = "tile<" + p.acc + ">[" + n(p.m) + ", " + n(p.n) + "]";
    const auto stored = [](bool columns) { return std::string(columns ? "[?, ?] @ \"col\" in" : "[?, ?] in"); };
    return "kernel @product(%a: tensor<" + p.a + ">" + stored(p.a_columns) + ", %b: tensor<" + p.b + ">" + stored(p.b_columns) + ", %c: tensor<" +
           p.c +
           ">[?, ?] out, %M: extent, %K: extent, %N: extent) {\n"
           "  %0 = program_id {axis = 0} : i64\n  %1 = constant " +
           n(p.m) +
           " : i64\n  %2 = mul %0, %1 : i64\n"
           "  %3 = program_id {axis = 1} : i64\n  %4 = constant " +
           n(p.n) +
           " : i64\n  %5 = mul %3, %4 : i64\n"
           "  %6 = constant 0 : " +
           sum + "\n  %7 = constant 0 : i64\n  %8 = constant " + n(p.k) +
           " : i64\n"
           "  %9 = for_loop %7, %K, %8, %6 : " +
           sum + " (%10: i64, %11: " + sum +
           ") {\n"
           "    %12 = load %a[%2 +: " +
           n(p.m) + ", %10 +: " + n(p.k) + "] : tile<" + p.a + ">[" + n(p.m) + ", " + n(p.k) +
           "]\n"
           "    %13 = load %b[%10 +: " +
           n(p.k) + ", %5 +: " + n(p.n) + "] : tile<" + p.b + ">[" + n(p.k) + ", " + n(p.n) +
           "]\n"
           "    %14 = dot %12, %13, %11 {precision = ieee} : " +
           sum +
           "\n    yield %14\n  }\n"
           "  %15 = cast %9 {round = rne, overflow = automatic} : tile<" +
           p.c + ">[" + n(p.m) + ", " + n(p.n) +
           "]\n"
           "  store %c[%2 +: " +
           n(p.m) + ", %5 +: " + n(p.n) + "] = %15\n  ret\n}\n";
}

/// softmax-less attention: o = (q k^T) v, so that the first product's result is operand A of the second.
std::string chained_text() {
    return "kernel @chained(%q: tensor<bf16>[?, 128] in, %k: tensor<bf16>[?, 128] in, %v: tensor<bf16>[?, 128] in, %o: tensor<bf16>[?, 128] out, %M: "
           "extent, "
           "%S: extent) {\n"
           "  %0 = program_id {axis = 0} : i64\n  %1 = constant 128 : i64\n  %2 = mul %0, %1 : i64\n"
           "  %3 = load %q[%2 +: 128, :] : tile<bf16>[128, 128]\n"
           "  %4 = constant 0 : tile<f32>[128, 128]\n  %5 = constant 0 : i64\n"
           "  %6 = for_loop %5, %S, %1, %4 : tile<f32>[128, 128] (%7: i64, %8: tile<f32>[128, 128]) {\n"
           "    %9 = load %k[%7 +: 128, :] : tile<bf16>[128, 128]\n"
           "    %10 = permute %9 {axis = [1, 0]} : tile<bf16>[128, 128]\n"
           "    %11 = dot %3, %10, %4 {precision = ieee} : tile<f32>[128, 128]\n"
           "    %12 = cast %11 {round = rne, overflow = automatic} : tile<bf16>[128, 128]\n"
           "    %13 = load %v[%7 +: 128, :] : tile<bf16>[128, 128]\n"
           "    %14 = dot %12, %13, %8 {precision = ieee} : tile<f32>[128, 128]\n    yield %14\n  }\n"
           "  %15 = cast %6 {round = rne, overflow = automatic} : tile<bf16>[128, 128]\n"
           "  store %o[%2 +: 128, :] = %15\n  ret\n}\n";
}

/// c[z] = a[z] @ b[z] for `batches` matrices in a program; `b_columns`: those of b are stored as their transposes.
std::string batched_text(const Product& p, int batches) {
    const auto n = [](int v) { return std::to_string(v); };
    const auto shape = [&](int rows, int columns) { return "[" + n(batches) + ", " + n(rows) + ", " + n(columns) + "]"; };
    const auto part = [&](const char* x, int rows, const char* y, int columns) {
        return "[%2 +: " + n(batches) + ", " + x + " +: " + n(rows) + ", " + y + " +: " + n(columns) + "]";
    };
    const std::string sum = "tile<" + p.acc + ">" + shape(p.m, p.n), b = " : tile<" + p.b + ">";
    return "kernel @batched(%a: tensor<" + p.a + ">[?, ?, ?] in, %b: tensor<" + p.b + ">[?, ?, ?] in, %c: tensor<" + p.c +
           ">[?, ?, ?] out, %B: extent, %M: extent, %K: extent, %N: extent) {\n  %0 = program_id {axis = 0} : i64\n  %1 = constant " + n(batches) +
           " : i64\n  %2 = mul %0, %1 : i64\n  %3 = constant 0 : i64\n  %4 = constant " + n(p.k) + " : i64\n  %5 = constant 0 : " + sum +
           "\n  %6 = for_loop %3, %K, %4, %5 : " + sum + " (%7: i64, %8: " + sum + ") {\n    %9 = load %a" + part("%3", p.m, "%7", p.k) + " : tile<" +
           p.a + ">" + shape(p.m, p.k) + "\n" +
           (p.b_columns ? "    %20 = load %b" + part("%3", p.n, "%7", p.k) + b + shape(p.n, p.k) + "\n    %10 = permute %20 {axis = [0, 2, 1]}"
                        : "    %10 = load %b" + part("%7", p.k, "%3", p.n)) +
           b + shape(p.k, p.n) + "\n    %11 = dot %9, %10, %8 {precision = ieee} : " + sum +
           "\n    yield %11\n  }\n  %12 = cast %6 {round = rne, overflow = automatic} : tile<" + p.c + ">" + shape(p.m, p.n) + "\n  store %c" +
           part("%3", p.m, "%3", p.n) + " = %12\n  ret\n}\n";
}

struct Emitted : KernelText {
    std::string notes;  ///< of `explain`
};

Emitted emitted(const std::string& text, const char* arch) {
    SourceMap sources;
    DiagSink diags;
    TypeTable types;
    const uint32_t file = sources.add("product.ir", text);
    const auto fn = ir::parse_ir(sources, file, types, diags);
    for (const Diagnostic& d : diags.take()) ADD_FAILURE() << d.message << "\n" << text;
    if (!fn) return {};
    GpuOptions options;
    options.arch = find_arch(arch);
    options.may_alias = false;
    options.tensors.assign(fn->params.size(), {true, false});
    run_gpu_passes(*fn, options);
    Emitted out{cuda::printed(lower_to_kernel(*fn, nullptr)), ""};
    for (const explain::Note& note : explain_gpu(*fn, options)) out.notes += explain::text(note.fact) + "\n";
    for (const explain::Note& note : explain_channels(*fn, options)) out.notes += explain::text(note.fact) + "\n";
    return out;
}

int count(const std::string& text, const std::string& what) {
    int n = 0;
    for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + what.size())) ++n;
    return n;
}

/// Statements that wait until at most `newer` groups are on their way, each right in front of the moves of what it has waited for.
int waits_before_moves(const std::string& text, int newer) {
    const std::regex wait("\\(\"wgmma\\.wait_group\\.sync\\.aligned " + std::to_string(newer) + ";\" : : : \"memory\"\\);\n *asm volatile\\(\"mov");
    return static_cast<int>(std::distance(std::sregex_iterator(text.begin(), text.end(), wait), std::sregex_iterator()));
}

bool contains(const std::string& text, const std::string& what) { return text.find(what) != std::string::npos; }

TEST(CudaTensor, OperandsContiguousAlongK) {
    const KernelText k = emitted(product_text({}), "sm_90a");
    // 64 elements of K are 128 bytes, one panel: 4 steps of 16 elements, 32 bytes apart, in one statement.
    EXPECT_EQ(count(k.source, "m64n256k16.f32.bf16.bf16 "), 4);
    for (const char* step : {"add.s64 a, %0, 2; add.s64 b, %1, 2;", "%0, 4; add.s64 b, %1, 4;", "%0, 6; add.s64 b, %1, 6;"})
        EXPECT_TRUE(contains(k.source, step)) << step;
    EXPECT_EQ(count(k.source, "1, 1, 0, 0;"), 4) << "neither operand is transposed";
    // 8 rows are 1024 bytes; the second warp group's rows begin 64 rows, 8 KB, further.
    EXPECT_EQ(count(k.source, ", 16, 1024, 1);"), 2);
    EXPECT_TRUE(contains(k.source, " * 8192, 16, 1024, 1)"));
    EXPECT_EQ(k.threads, 256 + 128);
    ASSERT_EQ(k.tensor_maps.size(), 3u);
    EXPECT_EQ(k.tensor_maps[0], (TensorMap{0, {1, 0}, {64, 128}, 128}));
    EXPECT_EQ(k.tensor_maps[1], (TensorMap{1, {0, 1}, {64, 256}, 128}));
    EXPECT_EQ(k.tensor_maps[2], (TensorMap{2, {1, 0}, {64, 16}, 128})) << "the store's boxes";
    EXPECT_TRUE(contains(k.source, ", 16384);") && contains(k.source, ", 32768);")) << "bytes that barriers expect";
}

std::string on_warps(std::string text, int warps) {
    text.replace(text.find(") {"), 3, ") @ warps(" + std::to_string(warps) + ") {");
    return text;
}

TEST(CudaTensor, LargeProgramsTakeNarrowInstructions) {
    // A thread of 16 warps and the producer's has 96 registers, one of 32 has 56: sums of one instruction and 26 more have to fit.
    const std::string text = product_text({"bf16", "bf16", "bf16", "f32", 512, 256, 64});
    EXPECT_EQ(count(emitted(on_warps(text, 8), "sm_90a").source, "m64n256k16.f32.bf16.bf16 "), 4 * 4);
    EXPECT_EQ(count(emitted(on_warps(text, 16), "sm_90a").source, "m64n128k16.f32.bf16.bf16 "), 2 * 2 * 4);
    EXPECT_EQ(count(emitted(on_warps(text, 32), "sm_90a").source, "m64n32k16.f32.bf16.bf16 "), 8 * 4);
}

TEST(CudaTensor, SumsBeyondRegistersAreLoops) {
    const auto large = emitted(product_text({"f16", "f16", "f32", "f32", 256, 512, 32}), "sm_90a");
    EXPECT_TRUE(contains(large.source, "wgmma.mma_async"));
    const auto huge = emitted(product_text({"f16", "f16", "f32", "f32", 1024, 1024, 32}), "sm_90a");
    EXPECT_TRUE(contains(huge.source, "mma.sync") && !contains(huge.source, "wgmma.mma_async")) << huge.source;
    EXPECT_TRUE(contains(huge.notes, "1048576 sums, more than registers hold: 131072")) << huge.notes;
    EXPECT_LT(huge.source.size(), 60000u) << "loops, whatever the number of sums";
    std::vector<std::string> looked_for;
    const auto nvrtc = cuda::Nvrtc::open("", looked_for);
    if (!nvrtc) GTEST_SKIP() << "no NVRTC";
    const auto compiled = nvrtc->compile({huge.source, huge.entry, find_arch("sm_90a"), huge.options, {}});
    ASSERT_TRUE(compiled.value) << compiled.error;
    EXPECT_LT(compiled.value->seconds, 20);  // 0.1 s; without loops an hour is not enough
}

TEST(CudaTensor, OperandsContiguousAcrossK) {
    const KernelText k = emitted(product_text({"f16", "f16", "f16", "f32", 128, 128, 64, true, false}), "sm_90a");
    // Panels of 64 elements hold 64 rows of K of 128 bytes: 8 KB from panel to panel, 16 rows of K, 2048 bytes, from step to step.
    EXPECT_EQ(count(k.source, ", 8192, 1024, 1);"), 2);
    EXPECT_TRUE(contains(k.source, "add.s64 a, %0, 128; add.s64 b, %1, 128;"));
    EXPECT_EQ(count(k.source, "1, 1, 1, 1;"), 4);
    ASSERT_EQ(k.tensor_maps.size(), 3u);
    EXPECT_EQ(k.tensor_maps[0], (TensorMap{0, {0, 1}, {64, 64}, 128}));
    EXPECT_EQ(k.tensor_maps[1], (TensorMap{1, {1, 0}, {64, 64}, 128}));
    EXPECT_EQ(count(k.source, "tma_load(to"), 4) << "two panels each";
}

TEST(CudaTensor, SumsOfALoopStayInNamedRegisters) {
    const KernelText k = emitted(product_text({}), "sm_90a");
    // Declared once, before everything else; zeroed, added to, and rounded and stored by name, all 128: never operands.
    const size_t declared = k.source.find(".reg .b32 sum"), body = k.source.find("extern \"C\"");
    ASSERT_NE(declared, std::string::npos);
    EXPECT_GT(declared, body);
    EXPECT_LT(declared, k.source.find("for (", body));
    EXPECT_EQ(count(k.source, ".reg .b32 sum"), 1);
    EXPECT_EQ(count(k.source, "_<128>;"), 1);
    EXPECT_EQ(count(k.source, ", 0; mov.b32 sum"), 127) << "zeros, without operands";
    EXPECT_EQ(count(k.source, "cvt.rn.bf16x2.f32 two"), 64);
    EXPECT_FALSE(contains(k.source, "mov.b32 %127, sum"));
    EXPECT_FALSE(contains(k.source, "+f"));
    EXPECT_FALSE(contains(k.source, "float* d"));
    // What is stored as it is, or used in other ways, is read after the loop.
    const KernelText words = emitted(product_text({"bf16", "bf16", "f32", "f32", 128, 256, 64}), "sm_90a");
    EXPECT_TRUE(contains(words.source, "mov.b32 %127, sum"));
    EXPECT_FALSE(contains(words.source, "cvt.rn."));
}

/// Blocks of 32 along K: of four stretches of 128 elements each has its sum from zero, its factors and one fma per element.
TEST(CudaTensor, ScaledProductsSumEachStretch) {
    const auto text = [](const std::string& elem, int n = 64) {
        const std::string columns = std::to_string(n);
        return "kernel @f(%a: tensor<" + elem + ">[128, 128] in, %b: tensor<" + elem + ">[128, " + columns +
               "] @ \"col\" in, %s: tensor<f8e8m0>[128, 4] in, %t: tensor<f8e8m0>[4, " + columns + "] in, %c: tensor<f32>[128, " + columns +
               "] inout) {\n  %0 = load %a[:, :] : tile<" + elem + ">[128, 128]\n  %1 = load %b[:, :] : tile<" + elem + ">[128, " + columns +
               "]\n  %2 = load %c[:, :] : tile<f32>[128, " + columns +
               "]\n  %3 = load %s[:, :] : tile<f8e8m0>[128, 4]\n  %4 = load %t[:, :] : tile<f8e8m0>[4, " + columns +
               "]\n  %5 = dot_scaled %0, %1, %2, %3, %4 {a_block = 32, b_block = 32} : tile<f32>[128, " + columns +
               "]\n  store %c[:, :] = %5\n  ret\n}\n";
    };
    const KernelText fp8 = emitted(text("f8e4m3"), "sm_90a");
    for (const char* stretch : {" + 2, operand", " + 4, operand", " + 6, operand"}) EXPECT_EQ(count(fp8.source, stretch), 1) << "32 bytes further";
    EXPECT_EQ(count(fp8.source, "= fmaf(part"), 4);
    EXPECT_EQ(count(fp8.source, "k32.f32.e4m3.e4m3 "), 2) << "a statement for each of two sums, for descriptors of four stretches";
    EXPECT_TRUE(contains(fp8.source, ", no, 1, 1;"));
    // The next stretch is on its way when one is waited for, and the first one while scales are put into scratch.
    EXPECT_EQ(waits_before_moves(fp8.source, 1), 3);
    EXPECT_EQ(waits_before_moves(fp8.source, 0), 1);
    EXPECT_LT(fp8.source.find("(operand"), fp8.source.find("= decode_f8e8m0("));
    EXPECT_LT(fp8.source.find(" + 2, operand"), fp8.source.find("(\"wgmma.wait_group.sync.aligned 1;"));
    // Beside an accumulator of 128 registers a thread has no more than one sum of 128 columns, of integers, which are cast, two of 64.
    const KernelText wide = emitted(text("f8e4m3", 256), "sm_90a");
    EXPECT_EQ(count(wide.source, "= fmaf(part"), 8);
    EXPECT_EQ(count(wide.source, "wgmma.mma_async.sync.aligned.m64n128k32"), 1);
    EXPECT_FALSE(contains(wide.source, "(\"wgmma.wait_group.sync.aligned 1;"));
    const KernelText integers = emitted(text("i8", 256), "sm_90a");
    EXPECT_EQ(waits_before_moves(integers.source, 1), 15);
    EXPECT_EQ(count(integers.source, "wgmma.mma_async.sync.aligned.m64n64k32"), 2);
    // Codes of fixed point are what integer rows multiply; 6 places each make 12 in the sum.
    const KernelText fixed = emitted(text("fixed<2, 6>"), "sm_90a");
    EXPECT_TRUE(contains(fixed.source, "k32.s32.s8.s8"));
    EXPECT_EQ(count(fixed.source, " * 0x1p-12f"), 4);
    const KernelText mma = emitted(text("fixed<2, 6>"), "sm_80");
    EXPECT_TRUE(contains(mma.source, "m16n8k32.row.col.s32.s8.s8.s32"));
    EXPECT_EQ(count(mma.source, " * 0x1p-12f"), 1) << "in a loop over stretches";
}

TEST(CudaTensor, SumsThatTheLoopReadsAreOperands) {
    // The first product's sum is rounded in the loop, so that only the second one's stays.
    const KernelText k = emitted(chained_text(), "sm_90a");
    EXPECT_EQ(count(k.source, ".reg .b32 sum"), 1);
    EXPECT_TRUE(contains(k.source, "(float* d, unsigned long long a, unsigned long long b)"));
    // 13 bits of fp8: what the products name are the sums that are made anew, two of 64 registers.
    const KernelText fp8 = emitted(product_text({"f8e4m3", "f8e4m3", "bf16", "f32", 128, 128, 256}), "sm_90a");
    EXPECT_EQ(count(fp8.source, "_<64>;"), 2);
    EXPECT_EQ(count(fp8.source, ".reg .b32 sum"), 2);
    EXPECT_FALSE(contains(emitted(product_text({}), "sm_80").source, ".reg .b32 sum")) << "no wgmma";
}

TEST(CudaTensor, EightBitFloatsAddEvery128Elements) {
    // 256 elements of K: two sums of 4 steps, each from zero, added to the accumulators by ordinary additions, the first one while the second is
    // made.
    const std::string k = emitted(product_text({"f8e4m3", "f8e4m3", "bf16", "f32", 128, 128, 256}), "sm_90a").source;
    EXPECT_EQ(count(k, ", no, 1, 1"), 2) << "a function for each";
    EXPECT_EQ(count(k, "m64n128k32.f32.e4m3.e4m3 "), 8);
    EXPECT_EQ(waits_before_moves(k, 1), 1);
    EXPECT_EQ(waits_before_moves(k, 0), 1);
    // The stage is given back before the last addition.
    EXPECT_LT(k.find("(\"wgmma.wait_group.sync.aligned 0;"), k.find("mbarrier_arrive(empty"));
    EXPECT_LT(k.rfind("mbarrier_arrive(empty"), k.rfind(" + part"));
    EXPECT_EQ(count(k, "mbarrier_arrive(empty"), 2);
}

/// Sums beside the accumulator are made of 64 rows and at most 128 columns at a time.
TEST(CudaTensor, EightBitFloatsAreSummedInPieces) {
    const auto text = [](int m, int n) { return emitted(product_text({"f8e4m3", "f8e5m2", "bf16", "f32", m, n, 128}), "sm_90a").source; };
    for (const auto& [m, n] : {std::pair(128, 256), std::pair(256, 128)}) {
        const std::string wide = text(m, n);
        EXPECT_EQ(count(wide, "m64n128k32.f32.e4m3.e5m2 "), 4) << "one function of 4 steps";
        EXPECT_EQ(count(wide, "wgmma_m64n128k32_"), 3) << "and two calls";
        EXPECT_EQ(count(wide, "[64];"), 2);
        EXPECT_EQ(waits_before_moves(wide, 0), 2) << "no registers for two of them";
        EXPECT_EQ(count(wide, "mbarrier_arrive(empty"), 2);
    }
    const std::string thirds = text(128, 192);
    EXPECT_EQ(count(thirds, "m64n96k32.f32.e4m3.e5m2 "), 8);
    EXPECT_EQ(waits_before_moves(thirds, 1), 1) << "two of 48 registers beside 96";
    const std::string odd = text(128, 136);
    EXPECT_EQ(count(odd, "m64n72k32.f32.e4m3.e5m2 "), 4);
    EXPECT_EQ(count(odd, "m64n64k32.f32.e4m3.e5m2 "), 4);
}

TEST(CudaTensor, ComputedOperandComesFromRegisters) {
    const KernelText k = emitted(chained_text(), "sm_90a");
    // The first product starts from zero and reads both operands from shared memory (two panels of K), the second takes A's 8 steps of 4 registers.
    EXPECT_TRUE(contains(k.source, "(const unsigned* a, unsigned long long b)"));
    EXPECT_EQ(count(k.source, ", no, 1, 1, 0, 0;"), 1);
    EXPECT_EQ(count(k.source, "m64n128k16.f32.bf16.bf16 "), 4 + 4 + 8);
    EXPECT_TRUE(contains(k.source, ", 16384, 1024, 1);")) << "v: panels of 128 rows";
    EXPECT_FALSE(contains(k.source, "in_groups"));
}

TEST(CudaTensor, BatchesOfProducts) {
    const Emitted k = emitted(batched_text({"bf16", "bf16", "bf16", "f32", 64, 64, 64, false, false}, 3), "sm_90a");
    EXPECT_EQ(count(k.source, "m64n32k16.f32.bf16.bf16 "), 3 * 4) << "8 warps, two groups side by side";
    EXPECT_EQ(count(k.source, "wgmma.commit_group"), 1) << "one statement";
    // A matrix is 64 rows of 128 bytes: the second one begins 8 KB further, the third one 16 KB. b, by rows, is read across: 16 rows per step.
    EXPECT_EQ(count(k.source, "add.s64 a, %0, 512; add.s64 b, %1, 512;"), 1);
    EXPECT_EQ(count(k.source, "add.s64 a, %0, 1030; add.s64 b, %1, 1408;"), 1) << "third matrix, last step: 96 bytes and 48 rows";
    EXPECT_EQ(count(k.source, " tma_load(to"), 3 + 3) << "a box per matrix";
    EXPECT_TRUE(contains(k.source, ", 24576);"));
    EXPECT_EQ(k.tensor_maps.at(0), (TensorMap{0, {2, 1, 0}, {64, 64, 1}, 128}));
    // 8-bit floats: three matrices of 256 elements of K are six sums from zero.
    const KernelText fp8 = emitted(batched_text({"f8e4m3", "f8e4m3", "f32", "f32", 64, 64, 256}, 3), "sm_90a");
    EXPECT_EQ(count(fp8.source, "m64n32k32.f32.e4m3.e4m3 "), 2 * 3 * 4) << "two functions, of 4 steps of three matrices";
    EXPECT_EQ(count(fp8.source, "wgmma_m64n32k32_"), 2 + 2);
    EXPECT_EQ(count(fp8.source, "float part"), 2);
    // Too many sums, and tensor memory.
    const Emitted many = emitted(batched_text({"bf16", "bf16", "bf16", "f32", 64, 64, 64}, 9), "sm_90a");
    EXPECT_FALSE(contains(many.source, "wgmma"));
    EXPECT_TRUE(contains(many.notes, "36864 sums of all batches, more than registers hold: 32768")) << many.notes;
    const Emitted tensor = emitted(batched_text({"bf16", "bf16", "bf16", "f32", 128, 64, 64}, 2), "sm_100a");
    EXPECT_TRUE(contains(tensor.notes, "sums in tensor memory are matrices, no batches of them")) << tensor.notes;
    EXPECT_TRUE(contains(tensor.notes, "copied ahead by TMA")) << tensor.notes;
}

TEST(CudaTensor, ProductsAreStoredByTma) {
    const KernelText k = emitted(product_text({}), "sm_90a");
    // A warp's 16 rows and 256 columns of 16 bits are 4 boxes of 64 columns, each written by 4 statements of 16 columns.
    EXPECT_EQ(count(k.source, "{.reg .b32 two<4>; cvt.rn."), 16);
    EXPECT_EQ(count(k.source, "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {two0, two1, two2, two3};"), 16);
    EXPECT_EQ(count(k.source, "tma_store(t & 31, "), 4);
    EXPECT_EQ(count(k.source, "tma_store_read<1>();"), 2) << "two places: the third and fourth box wait for them";
    EXPECT_EQ(count(k.source, "tma_store_read<0>();"), 1) << "nothing reads the tensor later";
    EXPECT_EQ(count(k.source, "tma_store_done();"), 0);
    EXPECT_EQ(count(k.source, "shfl"), 1) << "the number of the warp group: no shuffle moves the tile";
    EXPECT_EQ(count(k.source, "_inside"), 0) << "no path for edges";
    // Four-byte elements: 128 bytes are 32 columns, so 8 boxes of 8 pairs of words.
    const KernelText words = emitted(product_text({"bf16", "bf16", "f32", "f32", 128, 256, 64}), "sm_90a");
    EXPECT_EQ(count(words.source, "two_words"), 1 + 64);
    EXPECT_EQ(words.tensor_maps.at(2), (TensorMap{2, {1, 0}, {32, 16}, 128}));
    // 48 columns of bytes: boxes of 16 columns, which need no swizzle.
    const KernelText bytes = emitted(product_text({"i8", "i8", "i8", "i32", 128, 48, 64}), "sm_90a");
    EXPECT_EQ(bytes.tensor_maps.at(2), (TensorMap{2, {1, 0}, {16, 16}, 0}));
    EXPECT_EQ(emitted(product_text({}), "sm_80").tensor_maps.size(), 0u);
}

/// Columns of the tile are contiguous in memory: boxes lie transposed.
TEST(CudaTensor, ColumnsOfProductsAreStoredByTma) {
    const auto columns = [](const Product& p) {
        std::string text = product_text(p);
        return text.replace(text.find("[?, ?] out"), 10, "[?, ?] @ \"col\" out");
    };
    const KernelText k = emitted(columns({}), "sm_90a");
    // A warp's 16 rows and 256 columns: two boxes of 128 columns, each written by 8 statements of 16 columns.
    EXPECT_EQ(k.tensor_maps.at(2), (TensorMap{2, {0, 1}, {16, 128}, 32}));
    EXPECT_EQ(count(k.source, "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {two0, two1, two2, two3};"), 16);
    EXPECT_EQ(count(k.source, "tma_store(t & 31, "), 2);
    EXPECT_EQ(count(k.source, "shfl"), 1) << "no shuffle moves the tile";
    const KernelText few = emitted(columns({"f16", "f16", "f16", "f32", 128, 24, 64}), "sm_90a");
    EXPECT_EQ(few.tensor_maps.at(2), (TensorMap{2, {0, 1}, {16, 8}, 32}));
    EXPECT_TRUE(contains(few.source, "stmatrix_x2_trans(area"));
    // 16 rows of words are 64 bytes; lanes of tensor memory hold a row each.
    EXPECT_EQ(emitted(columns({"bf16", "bf16", "f32", "f32", 128, 64, 64}), "sm_90a").tensor_maps.at(2), (TensorMap{2, {0, 1}, {16, 64}, 64}));
    EXPECT_EQ(emitted(columns({"bf16", "bf16", "bf16", "f32", 128, 64, 64}), "sm_100a").tensor_maps.at(2), (TensorMap{2, {0, 1}, {32, 32}, 0}));
    EXPECT_EQ(emitted(columns({"i8", "i8", "i8", "i32", 128, 64, 64}), "sm_90a").tensor_maps.size(), 2u) << "boxes of 16 bytes";
}

TEST(CudaTensor, SumsThatNobodyHasMeasuredAreNamed) {
    const std::string text = product_text({"f8e4m3", "f8e5m2", "f16", "f16", 64, 64, 64});
    EXPECT_TRUE(contains(emitted(text, "sm_89").notes, "not mma.sync.e4m3.e5m2.f16 m16n8k32: nobody has measured its sums"));
    EXPECT_FALSE(contains(emitted(text, "sm_80").notes, "measured"));
}

/// The product's tile is not stored, but combined with what is there.
std::string combined_text(const Product& p, const std::string& attributes) {
    std::string text = product_text(p);
    const size_t store = text.find("  store %c");
    text.replace(store, 7, "  %16 = atomic");
    text.insert(text.find("\n", store), " {" + attributes + "} : tile<" + p.c + ">[" + std::to_string(p.m) + ", " + std::to_string(p.n) + "]");
    text.replace(text.find("[?, ?] out"), 10, "[?, ?] inout");
    return text;
}

TEST(CudaTensor, ProductsAreCombinedByTma) {
    const Product i32{"i8", "i8", "i32", "i32", 128, 128, 128};
    const auto source = [](const Product& p, const std::string& attributes, const char* arch = "sm_90a") {
        return emitted(combined_text(p, attributes), arch).source;
    };
    for (const char* kind : {"add", "max", "min", "and", "or", "xor"}) {
        const std::string text = source(i32, "kind = " + std::string(kind) + ", order = relaxed, scope = gpu");
        EXPECT_EQ(count(text, "cp.reduce.async.bulk.tensor.2d.global.shared::cta." + std::string(kind) + ".bulk_group"), 1);
        EXPECT_EQ(count(text, "(t & 31, &map"), 4) << "boxes of 32 columns";
        EXPECT_EQ(count(text, " tma_store(t"), 0);
    }
    EXPECT_EQ(emitted(combined_text(i32, "kind = add, order = relaxed, scope = cta"), "sm_120a").tensor_maps.size(), 3u);
    const std::string add = "kind = add, order = relaxed, scope = gpu";
    for (const char* c : {"f32", "bf16", "f16"}) {
        const Emitted k = emitted(combined_text({"f16", "f16", c, "f32", 128, 128, 64}, add), "sm_90a");
        EXPECT_EQ(count(k.source, "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group"), 1) << c;
        EXPECT_TRUE(contains(k.notes, "atomic of `c` [128, 128]: by TMA")) << k.notes;
    }
    EXPECT_FALSE(contains(source(i32, add, "sm_80"), "cp.reduce.async"));
}

/// What TMA does not do, or nobody has measured: element by element, and `explain` says why.
TEST(CudaTensor, ProductsAreCombinedOneByOne) {
    const Product i32{"i8", "i8", "i32", "i32", 128, 128, 128}, f32{"bf16", "bf16", "f32", "f32", 128, 128, 64};
    const struct {
        Product product;
        const char *kind, *order, *scope, *arch, *why;
    } rows[] = {
        {i32, "add", "release", "gpu", "sm_90a", "its order is relaxed"},
        {i32, "add", "relaxed", "sys", "sm_90a", "its scope is the GPU"},
        {i32, "xchg", "relaxed", "gpu", "sm_90a", "it does no xchg"},
        {{"i8", "i8", "i8", "i32", 128, 128, 128}, "add", "relaxed", "gpu", "sm_90a", "it combines no i8"},
        {{"i8", "i8", "i32", "i32", 32, 16, 128}, "add", "relaxed", "gpu", "sm_90a", "the tile is no matrix of 4096 bytes or more"},
        {f32, "max", "relaxed", "gpu", "sm_90a", "nothing says what its max of floats makes of NaN and -0"},
        {f32, "add", "relaxed", "gpu", "sm_100a", "nobody has measured whether it adds subnormal floats on sm_100a"},
        {f32, "add", "relaxed", "gpu", "sm_120a", "nobody has measured whether it adds subnormal floats on sm_120a"},
    };
    for (const auto& row : rows) {
        const std::string attributes = std::string("kind = ") + row.kind + ", order = " + row.order + ", scope = " + row.scope;
        const Emitted k = emitted(combined_text(row.product, attributes), row.arch);
        EXPECT_FALSE(contains(k.source, "cp.reduce.async")) << attributes;
        EXPECT_TRUE(contains(k.notes, std::string("; not by TMA: ") + row.why + "\n")) << k.notes;
    }
}

std::string clustered(std::string text, const std::string& size) {
    text.replace(text.find(") {"), 3, ") @ cluster(" + size + ") {");
    return text;
}

TEST(CudaTensor, ProgramsOfAClusterCopyPartsForEachOther) {
    const KernelText k = emitted(clustered(product_text({}), "2, 2"), "sm_90a");
    EXPECT_EQ(k.cluster, 4);
    // a: 128 rows of 128 bytes, 64 each for the two along axis 1, ranks 0 and 2 or 1 and 3; b by columns: 256 rows of which 128 each.
    EXPECT_TRUE(contains(k.source, "= 5u << "));
    EXPECT_TRUE(contains(k.source, "= 3u << "));
    EXPECT_TRUE(contains(k.source, " * 64);"));
    EXPECT_EQ(k.tensor_maps.at(0), (TensorMap{0, {1, 0}, {64, 64}, 128}));
    EXPECT_EQ(k.tensor_maps.at(1), (TensorMap{1, {0, 1}, {64, 128}, 128}));
    EXPECT_EQ(count(k.source, " tma_multicast(sharers"), 2);
    EXPECT_EQ(count(k.source, " tma_load(to"), 0);
    // Everybody's bytes are waited for; 8 warps of two programs give a stage back.
    EXPECT_TRUE(contains(k.source, ", 16384);"));
    EXPECT_TRUE(contains(k.source, ", 32768);"));
    EXPECT_EQ(count(k.source, " + s * 8, 16);"), 2);
    EXPECT_EQ(count(k.source, " < 2) mbarrier_arrive_at(peer_empty"), 2);
    EXPECT_EQ(count(k.source, " cluster_arrive();"), 3) << "start; producer and consumers when they are done";
    EXPECT_EQ(count(k.source, " cluster_wait();"), 2);
    // b by rows: 4 panels of 64 columns, of which 2 each.
    const KernelText panels = emitted(clustered(product_text({"bf16", "bf16", "bf16", "f32", 128, 256, 64, false, false}), "2"), "sm_90a");
    EXPECT_EQ(panels.tensor_maps.at(1), (TensorMap{1, {1, 0}, {64, 64}, 128}));
    EXPECT_EQ(count(panels.source, " tma_multicast(sharers"), 2);
    EXPECT_EQ(count(panels.source, " tma_load(to"), 1);
    EXPECT_EQ(emitted(product_text({}), "sm_90a").cluster, 1);
    for (const char* arch : {"sm_100a", "sm_120a"}) EXPECT_EQ(emitted(clustered(product_text({}), "2"), arch).cluster, 1);
}

TEST(CudaTensor, SumsInTensorMemory) {
    const KernelText k = emitted(product_text({}), "sm_100a");
    // f32 sum 1 << 4, bf16 1 << 7 and 1 << 10, 256 columns 32 << 17, 128 rows 8 << 24; steps of K are 32 bytes apart, 8 rows 1024.
    EXPECT_EQ(count(k.source, "mov.b32 what, 138413200; add.s32 sum, %0, 0;"), 1);
    EXPECT_EQ(count(k.source, "tcgen05.mma.cta_group::1.kind::f16 [sum], a, b, what, yes;"), 4);
    EXPECT_TRUE(contains(k.source, "add.s64 a, %1, 6; add.s64 b, %2, 6;"));
    EXPECT_EQ(count(k.source, ", 16, 1024, 2)"), 2);
    // Stages are given back by commits; all threads wait before the first sum is stored, before the last one is loaded, and at the end.
    EXPECT_EQ(count(k.source, "if (t == 0) products_commit(empty"), 2);
    EXPECT_EQ(count(k.source, " products_wait(t, "), 3);
    EXPECT_EQ(count(k.source, "take_tensor_memory<256>("), 1);
    EXPECT_EQ(count(k.source, "give_tensor_memory<256>("), 1);
    EXPECT_EQ(k.tensor_maps.at(2), (TensorMap{2, {1, 0}, {64, 32}, 128})) << "the store's boxes: a lane holds a row";
    EXPECT_EQ(count(k.source, "make_uint4("), 16) << "8 for each of two boxes";

    // Both operands contiguous across K: bits 15 and 16; panels 8 KB apart. 192 columns are three times 64.
    const KernelText across = emitted(product_text({"f16", "f16", "f16", "f32", 128, 192, 64, true, false}), "sm_100a");
    EXPECT_EQ(count(across.source, "mov.b32 what, " + std::to_string(1 << 4 | 3 << 15 | 24 << 17 | 8 << 24)), 1);
    EXPECT_EQ(count(across.source, ", 8192, 1024, 2)"), 2);
    // 256 x 512 columns: four instructions per step, no columns left to spare.
    const KernelText wide = emitted(product_text({"i8", "u8", "i32", "i32", 256, 256, 32}), "sm_100a");
    EXPECT_EQ(count(wide.source, "kind::i8 [sum]"), 2);
    EXPECT_EQ(count(wide.source, "add.s32 sum, %0, 256;"), 1);
    EXPECT_EQ(count(wide.source, "mov.b32 what, " + std::to_string(2 << 4 | 1 << 7 | 32 << 17 | 8 << 24)), 2);
    EXPECT_EQ(count(emitted(product_text({"f8e4m3", "f8e5m2", "bf16", "f32", 128, 128, 64}), "sm_100a").source, "kind::f8f6f4 [sum]"), 2);
    EXPECT_EQ(count(emitted(product_text({"tf32", "tf32", "f32", "f32", 128, 64, 32}), "sm_100a").source, "kind::tf32 [sum]"), 4);
}

TEST(CudaTensor, ProductsThatAreWaitedFor) {
    const KernelText k = emitted(chained_text(), "sm_100a");
    // The first product starts from zero; its result is read, and put into shared memory as operand of the second.
    EXPECT_EQ(count(k.source, "a, b, what, no;"), 1);
    EXPECT_EQ(count(k.source, "take_tensor_memory<256>("), 1);
    EXPECT_EQ(count(k.source, "if (t == 0) tcgen05_m128n128k128"), 2);
    EXPECT_FALSE(contains(k.source, "shfl"));
}

TEST(CudaTensor, RowsAndColumnsOfProgramsAreWalkedInGroups) {
    const KernelText k = emitted(product_text({}), "sm_90a");
    EXPECT_TRUE(contains(k.source, "in_groups"));
    // Numbers of programs are divided by multiplying with what the launcher passes.
    const auto reciprocals =
        std::count_if(k.params.begin(), k.params.end(), [](const auto& p) { return p.kind == KernelParam::grid_reciprocal; });
    EXPECT_EQ(reciprocals, 2);
    EXPECT_EQ(count(k.source, "__umul64hi"), 1);
}

TEST(CudaTensor, OlderInstructionsTakePartsOfAFragment) {
    const Product half{"f16", "f16", "f16", "f32", 64, 64, 32}, bytes{"i8", "i8", "i32", "i32", 64, 64, 64};
    EXPECT_EQ(count(emitted(product_text(half), "sm_75").source, "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32"), 2);
    EXPECT_EQ(count(emitted(product_text(half), "sm_80").source, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"), 1);
    EXPECT_EQ(count(emitted(product_text(bytes), "sm_75").source, "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32"), 4);
    EXPECT_EQ(count(emitted(product_text(bytes), "sm_86").source, "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"), 1);
}

TEST(CudaTensor, PersistentProductsDoNotWaitForTheMemoryOfOtherPrograms) {
    std::string text = product_text({});
    text.replace(text.find(") {"), 3, ") @ persistent() {");
    const KernelText k = emitted(text, "sm_90a");
    EXPECT_TRUE(k.persistent);
    EXPECT_TRUE(contains(k.source, "gridDim.x"));
    EXPECT_EQ(count(k.source, "tma_store_read<0>();"), 1) << "shared memory is free for the next program";
    EXPECT_EQ(count(k.source, "tma_store_done();"), 0);
    EXPECT_TRUE(contains(k.source, "in_groups")) << "numbers of programs count in the launch's order";
}

TEST(CudaTensor, FragmentsAreLoadedAsTheyAreNeeded) {
    const Product nt{"f16", "f16", "f16", "f32", 64, 64, 32}, tn{"f16", "f16", "f16", "f32", 64, 64, 32, true, false};
    const std::string plain = emitted(product_text(nt), "sm_80").source, transposed = emitted(product_text(tn), "sm_80").source;
    EXPECT_EQ(count(plain, " ldmatrix_x4("), 2 + 1) << "definition, A, B";
    EXPECT_EQ(count(plain, " ldmatrix_x4_trans("), 1) << "definition";
    EXPECT_EQ(count(transposed, " ldmatrix_x4_trans("), 2 + 1);
    EXPECT_TRUE(contains(plain, "copy_async_16(")) << "copies ahead";
}

TEST(CudaTensor, ElementsBeyondKAreZero) {
    // 24 elements of K are one and a half steps: both operands' second step is cut.
    const std::string text = emitted(product_text({"f16", "f16", "f16", "f32", 32, 32, 24}), "sm_80").source;
    EXPECT_EQ(count(text, " < 24 ? "), 2);
}

TEST(CudaTensor, CompilesWithoutWarnings) {
    std::vector<std::string> looked_for;
    const auto nvrtc = cuda::Nvrtc::open("", looked_for);
    if (!nvrtc) GTEST_SKIP() << "no NVRTC";
    const std::string f16_sum = product_text({"f16", "f16", "f16", "f16", 64, 64, 64}), f64 = product_text({"f64", "f64", "f64", "f64", 32, 32, 16});
    const std::string cases[][2] = {
        {"sm_90a", product_text({})},
        {"sm_90a", product_text({"f16", "f16", "f16", "f32", 128, 192, 64, true, false})},
        {"sm_90a", product_text({"f8e4m3", "f8e5m2", "bf16", "f32", 128, 128, 256})},
        {"sm_90a", product_text({"f8e4m3", "f8e4m3", "bf16", "f32", 128, 256, 128})},
        {"sm_90a", product_text({"f8e4m3", "f8e4m3", "bf16", "f32", 256, 128, 128})},
        {"sm_90a", product_text({"f8e4m3", "f8e4m3", "f32", "f32", 128, 192, 128})},
        {"sm_90a", product_text({"f8e5m2", "f8e4m3", "bf16", "f32", 128, 264, 128})},
        {"sm_90a", product_text({"i8", "u8", "i32", "i32", 64, 96, 128})},
        {"sm_90a", product_text({"tf32", "tf32", "f32", "f32", 64, 64, 32})},
        {"sm_90a", chained_text()},
        {"sm_90a", combined_text({"i8", "i8", "i32", "i32", 128, 128, 128}, "kind = min, order = relaxed, scope = gpu")},
        {"sm_90a", combined_text({"bf16", "bf16", "f32", "f32", 128, 128, 64}, "kind = add, order = relaxed, scope = gpu")},
        {"sm_90a", combined_text({"bf16", "bf16", "bf16", "f32", 128, 256, 64}, "kind = add, order = relaxed, scope = gpu")},
        {"sm_90a", combined_text({"f16", "f16", "f16", "f16", 128, 128, 64}, "kind = add, order = relaxed, scope = gpu")},
        {"sm_90a", batched_text({"bf16", "bf16", "bf16", "f32", 64, 64, 64}, 3)},
        {"sm_90a", batched_text({"f16", "f16", "f16", "f16", 128, 96, 64}, 2)},
        {"sm_90a", batched_text({"bf16", "bf16", "f32", "f32", 64, 64, 64}, 8)},
        {"sm_90a", batched_text({"bf16", "bf16", "f32", "f32", 64, 64, 64, false, false}, 8)},
        {"sm_90a", batched_text({"i8", "i8", "i32", "i32", 64, 64, 64}, 8)},
        {"sm_90a", batched_text({"f8e4m3", "f8e5m2", "f32", "f32", 64, 64, 256}, 3)},
        {"sm_90a", clustered(product_text({}), "2, 1")},
        {"sm_90a", clustered(product_text({"i8", "i8", "i32", "i32", 128, 256, 128}), "2, 2")},
        {"sm_90a", clustered(product_text({"f8e4m3", "f8e4m3", "bf16", "f32", 128, 128, 128}), "4")},
        {"sm_100a", clustered(product_text({"bf16", "bf16", "f32", "f32", 64, 64, 64}), "2")},
        {"sm_90a", on_warps(product_text({"bf16", "bf16", "bf16", "f32", 256, 128, 64}), 16)},
        {"sm_90a", on_warps(product_text({"bf16", "bf16", "bf16", "f32", 512, 32, 64}), 32)},
        {"sm_90a", f16_sum},
        {"sm_80", f16_sum},
        {"sm_80", f64},
        {"sm_80", product_text({"tf32", "tf32", "f32", "f32", 64, 64, 32})},
        {"sm_80", product_text({"f16", "f16", "f16", "f32", 48, 40, 24})},
        {"sm_89", product_text({"f8e5m2", "f8e4m3", "f32", "f32", 64, 64, 64})},
        {"sm_75", product_text({"i8", "i8", "i32", "i32", 64, 64, 64})},
        {"sm_75", f16_sum},
        {"sm_100a", product_text({"bf16", "bf16", "f32", "f32", 64, 64, 64})},
        {"sm_100a", product_text({})},
        {"sm_100a", product_text({"f16", "f16", "f16", "f32", 128, 192, 64, true, false})},
        {"sm_100a", product_text({"f8e4m3", "f8e5m2", "bf16", "f32", 128, 128, 256})},
        {"sm_100a", product_text({"i8", "u8", "i32", "i32", 128, 96, 128})},
        {"sm_100a", product_text({"tf32", "tf32", "f32", "f32", 128, 64, 32})},
        {"sm_100a", chained_text()},
        {"sm_120a", product_text({"bf16", "bf16", "f32", "f32", 64, 64, 64})},
    };
    for (const auto& [arch, text] : cases) {
        const KernelText k = emitted(text, arch.c_str());
        const cuda::NvrtcJob job{k.source, k.entry, find_arch(arch), k.options, {}};
        const auto compiled = nvrtc->compile(job);
        ASSERT_TRUE(compiled.value) << compiled.error;
        EXPECT_EQ(compiled.value->resources.spill_stores, 0) << arch << "\n" << text;
        for (const std::string& w : compiled.value->remarks) ADD_FAILURE() << arch << ": " << w << "\n" << text;
    }
}

}  // namespace
}  // namespace tegula
