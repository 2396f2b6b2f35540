// What is emitted for rows: groups of registers that lie inside the tensor have no conditions, quotients of bounded dividends no test of elements,
// and factors that are the same for all rows no registers of their own.
#include <gtest/gtest.h>

#include "jit/cuda/print.h"
#include "lang/kernel/kernel_text.h"
#include "lang/ir_text.h"
#include "lower/gpu/gpu.h"
#include "lower/kernel/lower.h"

using namespace tegula;

namespace {

/// `whole`: rows are whole vectors. `apart`: no tensors overlap.
std::string emitted(const std::string& ir_text, bool aligned, bool whole = false, bool apart = false) {
    SourceMap sources;
    TypeTable types;
    DiagSink diags;
    auto fn = ir::parse_ir(sources, sources.add("k.ir", ir_text), types, diags);
    for (const Diagnostic& d : diags.take()) ADD_FAILURE() << d.message;
    if (!fn) return {};
    GpuOptions options;
    options.arch = find_arch("sm_90a");
    options.tensors.assign(fn->params.size(), GpuTensor{aligned, false, whole});
    options.may_alias = !apart;
    run_gpu_passes(*fn, options);
    return cuda::printed(lower_to_kernel(*fn, &sources)).source;
}

int count(const std::string& text, std::string_view part) {
    int n = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
    return n;
}

std::string copied_row(const std::string& elem, const std::string& extent) {
    return "kernel @k(%x: tensor<" + elem + ">[?, ?] in, %y: tensor<" + elem +
           ">[?, ?] out) {\n  %0 = program_id {axis = 0} : i64\n  %1 = constant 0 : i64\n  %2 = load %x[%0!, %1 +: " + extent + "] : tile<" + elem +
           ">[" + extent + "]\n  store %y[%0!, %1 +: " + extent + "] = %2\n  ret\n}\n";
}

/// x less something, over the root of the sum of the squares of `squared`.
std::string scaled_row(const std::string& subtract, const std::string& squared) {
    return "kernel @k(%x: tensor<f32>[4096] in, %y: tensor<f32>[4096] out, %a: f32) {\n  %0 = load %x[:] : tile<f32>[4096]\n  %1 = broadcast %a : "
           "tile<f32>[4096]\n  %2 = " +
           subtract + " %0, %1 : tile<f32>[4096]\n  %3 = mul " + squared +
           " : tile<f32>[4096]\n  %4 = reduce %3 {kind = sum, order = tree, axis = 0} : f32\n  %5 = sqrt %4 : f32\n  %6 = broadcast %5 : "
           "tile<f32>[4096]\n  %7 = div %2, %6 : tile<f32>[4096]\n  store %y[:] = %7\n  ret\n}\n";
}

/// The row x less its largest element, times factors from w: `factors` are lines that make %7 of %6, and load %4 before they do.
std::string scaled_row_of(const std::string& factors, const std::string& extent, const std::string& elem = "f32", const std::string& mode = "inout") {
    const std::string tile = " : tile<f32>[" + extent + "]\n";
    return "kernel @k(%x: tensor<f32>[?, ?] in, %w: tensor<f32>[?] " + mode + ", %y: tensor<" + elem +
           ">[?, ?] out) {\n  %0 = program_id {axis = 0} : i64\n  %1 = constant 0 : i64\n  %2 = load %x[%0!, %1 +: " + extent + "]" + tile +
           "  %3 = reduce %2 {kind = max, axis = 0} : f32\n  %5 = broadcast %3" + tile + "  %6 = sub %2, %5" + tile + factors +
           "  store %y[%0!, %1 +: " + extent + "] = %7\n  ret\n}\n";
}

std::string scaled_by_factors(const std::string& factors, const std::string& extent = "4096") {
    return emitted(scaled_row_of(factors, extent), true, true, true);
}

constexpr const char* kFactors = "  %4 = load %w[%1 +: 4096] : tile<f32>[4096]\n";
constexpr const char* kProduct = "  %7 = mul %6, %4 : tile<f32>[4096]\n";

/// Calls of functions that store vectors, in all and in loops over groups of registers.
int stores(const std::string& source, bool in_groups) {
    int n = 0;
    for (size_t at = source.find("    store_uint"); at != std::string::npos; at = source.find("    store_uint", at + 1))
        n += !in_groups || source.substr(at, source.find('\n', at) - at).find("(g << ") != std::string::npos;
    return n;
}

}  // namespace

// 48 columns are 3 * 16: which of them a register has is no linear function of its number.
TEST(CudaRows, RegistersOfOddExtentsAreLookedUpInTablesOfTheProgram) {
    const std::string text = emitted("kernel @k(%x: tensor<f32>[40] in, %w: tensor<f32>[48] in, %y: tensor<f32>[40, 48] out) {\n"
                                     "  %0 = load %x[:] : tile<f32>[40]\n  %1 = load %w[:] : tile<f32>[48]\n"
                                     "  %2 = reshape %0 : tile<f32>[40, 1]\n  %3 = broadcast %2 : tile<f32>[40, 48]\n"
                                     "  %4 = broadcast %1 : tile<f32>[40, 48]\n  %5 = mul %3, %4 : tile<f32>[40, 48]\n  store %y[:, :] = %5\n  ret\n}\n",
                                     true);
    EXPECT_GE(count(text, "\n__device__ constexpr int renamed"), 1);
    EXPECT_EQ(count(text, "    constexpr int "), 0) << "none within a function";
}

TEST(CudaRows, GroupsThatLieInsideHaveNoConditions) {
    const std::string source = emitted(copied_row("bf16", "8192"), false);
    EXPECT_EQ(count(source, "= load_unsigned_short_if_"), 4) << "groups of 8 registers in 8 warps, " << source;
    EXPECT_EQ(count(source, "    store_unsigned_short_if_"), 4);
    EXPECT_EQ(count(source, "} else {\n"), 8) << "each beside accesses without a condition";
    EXPECT_EQ(count(emitted(copied_row("bf16", "512"), false), "} else {\n"), 0) << "fewer than 8 registers";
    EXPECT_EQ(count(emitted(copied_row("f32", "8192"), false), "} else {\n"), 0) << "memory takes longer than the conditions of wide elements";
    EXPECT_EQ(count(emitted(copied_row("bf16", "8192"), true), "load_unsigned_short_if_"), 0) << "vectors have one condition each";
}

TEST(CudaRows, DistancesWhoseSquaresAreSummedNeedNoTest) {
    const std::string known = emitted(scaled_row("sub", "%2, %2"), true);
    EXPECT_EQ(count(known, "&& !are_moderate_distances("), 1) << known;
    EXPECT_EQ(count(known, "    DividendsOrZeros "), 1) << "where they may not be moderate, the elements tell";
    EXPECT_EQ(count(known, "    Dividends "), 0);
    for (const std::string& other : {scaled_row("add", "%2, %2"), scaled_row("sub", "%2, %0"), scaled_row("sub", "%0, %0")})
        EXPECT_EQ(count(emitted(other, true), "&& !are_moderate_distances("), 0) << other;
}

TEST(CudaRows, FactorsOfAllRowsAreLoadedInTheLoopThatUsesThem) {
    const auto load = [](const std::string& at, const std::string& n) { return "  %4 = load %w[" + at + " +: " + n + "] : tile<f32>[" + n + "]\n"; };
    const std::string product = "  %7 = mul %6, %4 : tile<f32>[4096]\n", wide = "_w[4];";
    const std::string joined = scaled_by_factors(load("%1", "4096") + product);
    EXPECT_EQ(count(joined, wide), 1) << joined;
    EXPECT_EQ(count(joined, "for (int g = 0; g < 32; g += 4)"), 1);
    EXPECT_EQ(count(scaled_by_factors(load("%0", "4096") + product), wide), 0) << "they differ between programs";
    EXPECT_EQ(count(scaled_by_factors(load("%1", "4096") + "  %8 = mul %4, %4 : tile<f32>[4096]\n  %7 = mul %6, %8 : tile<f32>[4096]\n"), wide), 0)
        << "they are read twice";
    EXPECT_EQ(count(scaled_by_factors(load("%1", "32768") + "  %7 = mul %6, %4 : tile<f32>[32768]\n", "32768"), wide), 0)
        << "no other program gains from registers";
    const std::string edge = emitted(scaled_row_of(load("%1", "4096") + product, "4096"), true, false, true);
    EXPECT_EQ(count(edge, wide), 1) << edge;
    EXPECT_EQ(count(edge, "_w + 0) = load_first_16_4_"), 1) << "the tensor may end within a vector, " << edge;
    EXPECT_EQ(count(edge, "_w + 0) = load_uint4"), 0) << edge;
}

TEST(CudaRows, StoresJoinTheLoopThatLoadsFactors) {
    const std::string joined = scaled_by_factors(std::string(kFactors) + kProduct);
    EXPECT_EQ(stores(joined, false), 1) << joined;
    EXPECT_EQ(stores(joined, true), 1) << joined;
    for (const char* elem : {"bf16", "f16"}) {
        const std::string cast = "  %7 = cast %8 {round = rne, overflow = automatic} : tile<" + std::string(elem) + ">[4096]\n";
        const std::string text = scaled_row_of(kFactors + std::string("  %8 = mul %6, %4 : tile<f32>[4096]\n") + cast, "4096", elem);
        const std::string rounded = emitted(text, true, true, true), edge = emitted(text, true, false, true);
        EXPECT_EQ(stores(rounded, true), 1) << rounded;
        EXPECT_EQ(count(rounded, "] = encode_two_" + std::string(elem) + "("), 1) << "into the words that are stored, " << rounded;
        EXPECT_EQ(count(rounded, "= low_short("), 0) << rounded;
        EXPECT_EQ(count(edge, "    store_first_8_2_"), 1) << "the row may end within a vector, " << edge;
        EXPECT_EQ(stores(edge, false), 0) << edge;
    }
    const std::string plain = scaled_by_factors("  %7 = mul %6, %6 : tile<f32>[4096]\n");
    EXPECT_EQ(stores(plain, false), 1) << plain;
    EXPECT_EQ(stores(plain, true), 0) << "nothing is loaded in that loop, " << plain;
}

TEST(CudaRows, NoStoreJoinsALoopThatLoadsWhatItMayWrite) {
    for (const char* mode : {"in", "inout"}) {
        const std::string text = scaled_row_of(std::string(kFactors) + kProduct, "4096", "f32", mode);
        EXPECT_EQ(stores(emitted(text, true, true, true), true), 1) << mode;
        const std::string source = emitted(text, true, true, false);
        const size_t load = source.find("_w + 0) = "), meeting = source.find("__syncthreads();", load), store = source.find("    store_uint4", load);
        ASSERT_TRUE(load != std::string::npos && meeting != std::string::npos && store != std::string::npos) << source;
        EXPECT_LT(meeting, store) << "all factors are read before the first is overwritten, " << source;
        EXPECT_EQ(stores(source, true), 0) << source;
    }
    const std::string own = scaled_by_factors(std::string(kFactors) + kProduct + "  store %w[%1 +: 4096] = %7\n");
    EXPECT_EQ(stores(own, false), 2) << own;
    EXPECT_EQ(stores(own, true), 0) << own;
}

TEST(CudaRows, RowsNarrowerThanTheirTilesLeaveRoomForMorePrograms) {
    const auto bounds = [](const std::string& width, bool aligned) {
        const std::string tile = " : tile<f32>[1024]\n";
        const std::string source =
            emitted("kernel @k(%x: tensor<bf16>[?, " + width + "] in, %w: tensor<f32>[" + width + "] in, %y: tensor<bf16>[?, " + width +
                        "] out) {\n  %0 = program_id {axis = 0} : i64\n  %1 = constant 0 : i64\n  %2 = load %x[%0!, %1 +: "
                        "1024] : tile<bf16>[1024]\n  %3 = cast %2 {round = rne, overflow = automatic}" +
                        tile + "  %4 = reduce %3 {kind = sum, order = tree, axis = 0} : f32\n  %5 = broadcast %4" + tile + "  %6 = sub %3, %5" +
                        tile + "  %7 = load %w[%1 +: 1024]" + tile + "  %8 = mul %6, %7" + tile +
                        "  %9 = cast %8 {round = rne, overflow = automatic} : tile<bf16>[1024]\n"
                        "  store %y[%0!, %1 +: 1024] = %9\n  ret\n}\n",
                    aligned, aligned, true);
        const size_t at = source.find("__launch_bounds__(");
        return source.substr(at, source.find(')', at) + 1 - at);
    };
    EXPECT_EQ(bounds("1024", true), "__launch_bounds__(32, 32)");
    EXPECT_EQ(bounds("?", true), "__launch_bounds__(32, 24)") << "conditions take registers";
    EXPECT_EQ(bounds("781", false), "__launch_bounds__(32, 28)") << "25 registers hold the row";
    EXPECT_EQ(bounds("1022", false), "__launch_bounds__(32, 24)") << "programs come by fours";
}

TEST(CudaRows, NoFactorIsLoadedBehindAStore) {
    const std::string source =
        scaled_by_factors("  %4 = load %w[%1 +: 4096] : tile<f32>[4096]\n  store %w[%1 +: 4096] = %6\n  %7 = mul %6, %4 : tile<f32>[4096]\n");
    const size_t load = source.find("_w + 0) = "), store = source.find("    store_uint4");
    ASSERT_NE(load, std::string::npos) << source;
    EXPECT_LT(load, store) << source;
    EXPECT_LT(store, source.find(" * v", store)) << "the product follows";
}
