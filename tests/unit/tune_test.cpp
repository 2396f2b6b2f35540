// Tuned values by the cost model: which tiles matrix products take at which extents on an H200, that the choice is stable, can be named, and does
// not reach the interpreter; what `explain` says of it.
#include <gtest/gtest.h>

#include <chrono>

#include "jit/engine/engine.h"
#include "jit/engine/machine.h"
#include "jit/engine/tuner.h"
#include "lower/gpu/estimate.h"

namespace tegula {
namespace {

constexpr const char* kMatmul = R"(
kernel matmul<A: number, ACC: number, BM: int = 64, BN: int = 64, BK: int = 32>(
    a: tensor<A>[M, K], b: tensor<A>[K, N] @ col, out c: tensor<ACC>[M, N])
    grid [cdiv(M, BM), cdiv(N, BN)]
    tune BM in {64, 128, 32, 16}, BN in {64, 128, 256, 32, 16}, BK in {32, 64, 128}
{
    let (m, n) = (program_id(0) * BM, program_id(1) * BN);
    var acc = zeros<ACC>[BM, BN];
    for k in 0 .. K step BK { acc = dot(a[m +: BM, k +: BK], b[k +: BK, n +: BN], acc); }
    c[m +: BM, n +: BN] = acc;
}
)";

/// Sees every choice, and takes the model's.
class Tuning : public testing::Test {
protected:
    ModulePtr load(const std::string& text) {
        DiagSink diags;
        ModulePtr module = engine_->load("t.tile", text, "", diags);
        EXPECT_TRUE(module) << (diags.all().empty() ? "" : diags.all()[0].message);
        return module;
    }
    sema::StaticValue type(Fmt f) { return {id_of(f)}; }

    /// Tile as "128 256 64" that a launch of matmul of [m, k] by [k, n] takes.
    std::string tile(Fmt operands, Fmt accumulator, int64_t m, int64_t n, int64_t k, const char* arch = "sm_90a") {
        if (!matmul_) matmul_ = load(kMatmul);
        return choice(*matmul_, "matmul", {{"A", type(operands)}, {"ACC", type(accumulator)}, {"M", {m}}, {"N", {n}}, {"K", {k}}}, arch);
    }
    std::string choice(LoadedModule& module, std::string_view kernel, const sema::StaticValues& given, const char* arch) {
        DiagSink diags;
        const ast::KernelItem* item = module.kernel(kernel);
        std::optional<explain::Tune> told;
        TuneByEstimate chooser(store_, module, *item, module.types(), *find_arch(arch), nullptr, &told);
        const auto generics = sema::bind_static(module, *item, given, module.types(), diags, true, &chooser, TuneByEstimate::kNominalExtent);
        if (!generics) return "refused";
        why_ = told ? explain::text(*told) : "";
        TuneByEstimate quiet(store_, module, *item, module.types(), *find_arch(arch));  // takes what was chosen before
        EXPECT_EQ(sema::bind_static(module, *item, given, module.types(), diags, true, &quiet, TuneByEstimate::kNominalExtent), generics);
        std::string out;
        for (const char* name : {"BM", "BN", "BK"}) out += (out.empty() ? "" : " ") + sema::to_string(generics->at(name), module.types());
        return out;
    }

    std::shared_ptr<Engine> engine_ = Engine::create({});
    ModulePtr matmul_;
    TuneStore store_;
    std::string why_;
};

TEST_F(Tuning, LargeProductsTakeTheTileThatFeedsTheTensorCores) {
    EXPECT_EQ(tile(Fmt::bf16, Fmt::f32, 4096, 4096, 4096), "128 256 64") << why_;
    EXPECT_EQ(tile(Fmt::bf16, Fmt::f32, 8192, 8192, 8192), "128 256 64") << why_;
    EXPECT_EQ(tile(Fmt::f16, Fmt::f32, 4096, 7168, 16384), "128 256 64") << why_;
    EXPECT_EQ(tile(Fmt::i8, Fmt::i32, 4096, 4096, 4096), "128 256 128") << why_;
    EXPECT_EQ(tile(Fmt::i8, Fmt::i32, 8192, 8192, 8192), "128 256 128") << why_;
    EXPECT_EQ(tile(Fmt::f8e4m3, Fmt::f32, 8192, 8192, 8192), "128 256 128") << why_;
}

constexpr const char* kSplit = R"(
kernel steps<A: number, W: number, S: int = 2048, BM: int = 16, BN: int = 128, BK: int = 128>(
    a: tensor<A>[M, K], w: tensor<W>[N, K], out c: tensor<A>[M, N])
    grid [cdiv(M, BM), cdiv(N, BN)] schedule split_k(step = S)
{
    let (m, n) = (program_id(0) * BM, program_id(1) * BN);
    var acc = zeros<f32>[BM, BN];
    for k in 0 .. K step BK { acc = dot(a[m +: BM, k +: BK], trans(cast<A>(w[n +: BN, k +: BK])), acc); }
    c[m +: BM, n +: BN] = cast<A>(acc);
}
)";

/// Few programs spread their stretches over the machine; where there are many, one after the other in a program spares the exchange, unless the
/// total beside the sum would not fit in registers.
TEST_F(Tuning, StretchesOfSplitSumsAreSpreadWhereThatIsQuicker) {
    const ModulePtr module = load(kSplit);
    const auto estimate = [&](int64_t m, int64_t n, int64_t k, int64_t bm, int64_t bn, bool spread = true) {
        DiagSink diags;
        const ast::KernelItem* item = module->kernel("steps");
        const auto generics = sema::bind_static(*module, *item, {{"A", type(Fmt::f16)}, {"W", type(Fmt::i8)}, {"BM", {bm}}, {"BN", {bn}}},
                                                module->types(), diags, true);
        const auto instance = store_.instance(*module, *item, *generics, module->types(), nullptr);
        LaunchScale scale;
        scale.grid[0] = static_cast<uint64_t>((m + bm - 1) / bm);
        scale.grid[1] = static_cast<uint64_t>((n + bn - 1) / bn);
        for (const ir::Param& p : instance->fn->params)
            scale.scalars.push_back(p.kind != ir::Param::extent ? std::nullopt : std::optional(p.name == "M" ? m : p.name == "N" ? n : k));
        GpuOptions options = gpu_options(*instance, *find_arch("sm_90a"), {});
        options.spread = spread;
        return estimate_gpu(*instance->fn, options, scale);
    };
    const GpuEstimate few = estimate(1, 4096, 16384, 16, 128), alone = estimate(1, 4096, 16384, 16, 128, false);
    EXPECT_TRUE(few.spread);
    EXPECT_EQ(few.stretches, 8u);
    EXPECT_EQ(few.programs, 256u);
    EXPECT_GE(few.memory_bytes, 4096.0 * 16384) << "each stretch of each row of weights is read once";
    EXPECT_LE(few.memory_bytes, 1.5 * 4096 * 16384);
    EXPECT_EQ(few.codes, 4096.0 * 16384);
    EXPECT_FALSE(alone.spread);
    EXPECT_EQ(alone.programs, 32u);
    EXPECT_LT(few.microseconds, alone.microseconds);
    const GpuEstimate many = estimate(4096, 8192, 16384, 128, 128);
    EXPECT_FALSE(many.spread);
    EXPECT_FALSE(many.spills);
    EXPECT_NE(many.text().find("2048 programs, 1 per SM at a time, wgmma"), std::string::npos) << many.text();
    EXPECT_NE(many.text().find("stretches one after the other"), std::string::npos) << many.text();
    EXPECT_TRUE(estimate(4096, 8192, 16384, 128, 256).spread);
    EXPECT_TRUE(estimate(4096, 8192, 16384, 128, 256, false).spills);
    const GpuEstimate whole = estimate(4096, 8192, 2048, 128, 256);
    EXPECT_TRUE(whole.spread);
    EXPECT_EQ(whole.stretches, 1u);
    EXPECT_EQ(whole.programs, 1024u);
    EXPECT_FALSE(whole.spills);
}

/// What holds one part of a promoted sum beside the accumulator is no spill; accumulators that leave no room for it are.
TEST_F(Tuning, SumsThatArePromotedNeedRegistersBesideTheAccumulator) {
    const auto choose = [&](const std::string& list, Fmt operands) {
        std::string text = kMatmul;
        const std::string name = "m" + std::to_string(list.size()) + (operands == Fmt::bf16 ? "b" : "f");
        text.replace(text.find("matmul"), 6, name);
        text.replace(text.find("    tune"), text.find("\n{") - text.find("    tune"), "    tune " + list);
        const ModulePtr module = load(text);
        return choice(*module, name,
                      {{"A", type(operands)}, {"ACC", type(Fmt::f32)}, {"M", {int64_t{8192}}}, {"N", {int64_t{8192}}}, {"K", {int64_t{8192}}}},
                      "sm_90a");
    };
    const std::string wide = "BM in {128}, BN in {384, 512}, BK in {128}", both = "BM in {128}, BN in {384, 256, 192}, BK in {128}";
    EXPECT_EQ(choose(wide, Fmt::bf16), "128 384 128");
    EXPECT_EQ(why_.find("do not fit"), std::string::npos) << why_;
    choose(wide, Fmt::f8e4m3);
    EXPECT_NE(why_.find("do not fit"), std::string::npos) << why_;
    EXPECT_EQ(choose(both, Fmt::f8e4m3), "128 256 128") << why_;
    EXPECT_EQ(why_.substr(0, why_.find(';')).find("do not fit"), std::string::npos) << why_;
    // 192 columns belong to one group of warps: fp8 takes wgmma with 4 warps rather than another instruction.
    EXPECT_EQ(choose("BM in {64}, BN in {192, 8}, BK in {128}", Fmt::f8e4m3), "64 192 128");
    EXPECT_NE(why_.find("wgmma.e4m3"), std::string::npos) << why_;
}

TEST_F(Tuning, EmptyAndAbsurdGridsAreChosenForToo) {
    for (int64_t extent : {int64_t{0}, int64_t{1} << 40, INT64_MAX / 256})
        EXPECT_NE(tile(Fmt::bf16, Fmt::f32, extent, extent, extent), "refused") << extent;
    EXPECT_NE(tile(Fmt::bf16, Fmt::f32, 4096, 0, 4096), "refused");
}

TEST_F(Tuning, ABoundThatDoublesManyTimesIsFollowedOnce) {
    std::string text =
        "kernel doubled<BM: int = 64, BN: int = 1, BK: int = 1>(out c: tensor<i64>[M]) grid [cdiv(M, BM)] tune BM in {64, 128} {\n"
        "    let n0 = program_id(0) + 1;\n";
    for (int i = 0; i < 50; ++i) {
        const std::string n = "n" + std::to_string(i);
        text += "    let n" + std::to_string(i + 1) + " = " + n + " + " + n + ";\n";
    }
    const ModulePtr module =
        load(text + "    var sum = zeros<i64>[BM];\n    for k in 0 .. n50 { sum = sum + k; }\n    c[program_id(0) * BM +: BM] = sum;\n}\n");
    ASSERT_TRUE(module);
    EXPECT_NE(choice(*module, "doubled", {{"M", {4096}}}, "sm_90a"), "refused");
}

TEST_F(Tuning, SmallProductsAreCutIntoEnoughProgramsForTheMachine) {
    int64_t m = 0, n = 0, k = 0;
    std::sscanf(tile(Fmt::bf16, Fmt::f32, 512, 64, 512).c_str(), "%ld %ld %ld", &m, &n, &k);
    EXPECT_GE(512 / m * ((64 + n - 1) / n), 32) << why_;
    EXPECT_LE(512 / m * ((64 + n - 1) / n), 132) << why_;
    std::sscanf(tile(Fmt::bf16, Fmt::f32, 1024, 1024, 1024).c_str(), "%ld %ld %ld", &m, &n, &k);
    EXPECT_GE(1024 / m * (1024 / n), 64) << why_;
}

TEST_F(Tuning, RowsThatAreNotThereAreNotComputed) {
    for (int64_t m : {1, 16}) EXPECT_EQ(tile(Fmt::bf16, Fmt::f32, m, 8192, 8192).substr(0, 3), "16 ") << why_;
}

TEST_F(Tuning, AccumulatorsStayInRegistersAndRingsInSharedMemory) {
    for (const Arch& arch : all_archs()) {
        tile(Fmt::f16, Fmt::f32, 4096, 4096, 4096, arch.name);
        EXPECT_EQ(why_.substr(0, why_.find(';')).find("do not fit"), std::string::npos) << arch.name << ": " << why_;
    }
}

TEST_F(Tuning, ChoosingIsStableAndNamedValuesStay) {
    const std::string first = tile(Fmt::bf16, Fmt::f32, 2048, 2048, 2048), why = why_;
    EXPECT_EQ(tile(Fmt::bf16, Fmt::f32, 2048, 2048, 2048), first);
    EXPECT_EQ(why_, why) << "remembered";
    EXPECT_EQ(choice(*matmul_, "matmul", {{"A", type(Fmt::bf16)}, {"ACC", type(Fmt::f32)}, {"BM", {int64_t{64}}}, {"BN", {int64_t{32}}}}, "sm_90a")
                  .substr(0, 5),
              "64 32");
    EXPECT_EQ(
        choice(*matmul_, "matmul",
               {{"A", type(Fmt::bf16)}, {"ACC", type(Fmt::f32)}, {"BM", {int64_t{48}}}, {"BN", {int64_t{32}}}, {"BK", {int64_t{16}}}}, "sm_90a"),
        "48 32 16")
        << "values outside the lists may be named";
}

TEST_F(Tuning, ClustersFetchSharedTilesOnce) {
    // Bytes multiply faster than L2 brings 64 x 64 tiles of them.
    int kernels = 0;
    const auto microseconds = [&](const std::string& attribute, int64_t m, const char* arch = "sm_90a") {
        const std::string name = "product" + std::to_string(++kernels);  // choices are kept by name
        std::string text = kMatmul;
        text.replace(text.find("matmul"), 6, name);
        text.replace(text.find("    tune"), text.find("\n{") - text.find("    tune"),
                     attribute + "\n    tune BM in {64}, BN in {64}, BK in {64, 128}");
        const ModulePtr module = load(text);
        const sema::StaticValues given = {{"A", type(Fmt::i8)}, {"ACC", type(Fmt::i32)}, {"M", {m}}, {"N", {int64_t{8192}}}, {"K", {int64_t{8192}}}};
        choice(*module, name, given, arch);
        return std::stod(why_.substr(why_.find("estimated ") + 10));
    };
    const double alone = microseconds("", 8192), pairs = microseconds("@ cluster(2, 1)", 8192), fours = microseconds("@ cluster(2, 2)", 8192);
    EXPECT_LT(pairs, 0.9 * alone);
    EXPECT_LE(fours, pairs);
    EXPECT_EQ(microseconds("", 8192 + 64), microseconds("@ cluster(2, 1)", 8192 + 64)) << "no whole clusters";
    EXPECT_EQ(microseconds("", 8192, "sm_120a"), microseconds("@ cluster(2, 1)", 8192, "sm_120a"));
}

TEST_F(Tuning, ChoicesThatWhereForbidsAreNotTaken) {
    auto module = load(std::string("kernel k<BM: int = 1, BN: int = 1, BK: int = 1>(x: tensor<f16>[M, N], out y: tensor<f16>[M, N])\n") +
                       "grid [cdiv(M, BM), cdiv(N, BN)] where BM * BN <= 128 tune BM in {64, 32, 1}, BN in {64, 128, 4}\n"
                       "{ let (m, n) = (program_id(0) * BM, program_id(1) * BN); y[m +: BM, n +: BN] = x[m +: BM, n +: BN]; }");
    int64_t m = 0, n = 0;
    std::sscanf(choice(*module, "k", {}, "sm_90a").c_str(), "%ld %ld", &m, &n);
    EXPECT_LE(m * n, 128) << why_;
    EXPECT_GT(m * n, 4) << why_;
}

TEST_F(Tuning, TypesAreChosenByTheListAlone) {
    // Products of f16 are estimated far below those of f32; they are also other numbers.
    const auto kernel = [&](const std::string& types) {
        return load(
            "kernel k<BM: any = f32, BN: int = 16, BK: int = 16>(a: tensor<f32>[M, K], b: tensor<f32>[K, N], out c: tensor<f32>[M, N])\n"
            "grid [cdiv(M, 64), cdiv(N, BN)] where bits<BM>() > 8 tune BM in {" +
            types +
            "}, BN in {16, 64}, BK in {16, 32}\n"
            "{ let (m, n) = (program_id(0) * 64, program_id(1) * BN); var acc = zeros<f32>[64, BN];\n"
            "  for k in 0 .. K step BK { acc = dot(cast<BM>(a[m +: 64, k +: BK]), cast<BM>(b[k +: BK, n +: BN]), acc); }\n"
            "  c[m +: 64, n +: BN] = acc; }");
    };
    EXPECT_EQ(choice(*kernel("f32, f16"), "k", {}, "sm_90a").substr(0, 3), "f32");
    const sema::StaticValues other{{"M", {int64_t{512}}}};  // choices are kept by kernel and extents, here across modules
    EXPECT_EQ(choice(*kernel("f8e4m3, f16, f32"), "k", other, "sm_90a").substr(0, 3), "f16") << "the first that `where` allows";
    EXPECT_EQ(choice(*kernel("f16, f32"), "k", {{"BM", type(Fmt::bf16)}}, "sm_90a").substr(0, 4), "bf16");
}

TEST_F(Tuning, BitsOfFp8DoNotDependOnExtents) {
    // Every 128 elements of K one rounding: tiles that round more often do not compete, whatever the extents.
    for (int64_t extent : {16, 512, 4096}) {
        const std::string chosen = tile(Fmt::f8e4m3, Fmt::f32, extent, extent, extent);
        EXPECT_EQ(chosen.substr(chosen.rfind(' ')), " 128") << why_;
    }
}

TEST_F(Tuning, DozensOfCandidatesTakeMillisecondsOnceAndNothingLater) {
    tile(Fmt::bf16, Fmt::f32, 4096, 4096, 4096);
    const auto start = std::chrono::steady_clock::now();
    for (int64_t i = 0; i < 50; ++i) tile(Fmt::bf16, Fmt::f32, 4000 + i, 4096, 4096);
    const double each = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count() / 50;
    RecordProperty("milliseconds", std::to_string(each));
    EXPECT_LT(each, 50) << "of 60 candidates";
}

TEST_F(Tuning, ArtefactsShowTheChoiceAndExplainSaysWhy) {
    auto module = load(kMatmul);
    DiagSink diags;
    Status status{};
    const sema::StaticValues given{
        {"A", type(Fmt::bf16)}, {"ACC", type(Fmt::f32)}, {"M", {int64_t{8192}}}, {"N", {int64_t{8192}}}, {"K", {int64_t{8192}}}};
    const auto exe = engine_->compile_named(*module, "matmul", given, {}, diags, status);
    ASSERT_TRUE(exe);
    EXPECT_EQ(std::get<__int128>(exe->generics.at("BM").v) == 64, true) << "the interpreter takes the first choices";
    EXPECT_EQ(std::get<__int128>(exe->generics.at("BN").v) == 64, true);
    const auto text = engine_->artifact(*module, *exe, "explain", diags);
    ASSERT_TRUE(text);
    EXPECT_NE(text->find("t.tile:5:10: tune: BK = 64, BM = 128, BN = 256 at K = 8192, M = 8192, N = 8192: estimated "), std::string::npos) << *text;
    EXPECT_NE(text->find("the least of 60 choices; BK = 32, BM = 64, BN = 64: "), std::string::npos) << *text;
    EXPECT_NE(text->find("product 128 x 256 x 64: wgmma"), std::string::npos) << *text;
    const auto other = engine_->artifact(*module, *exe, "explain@sm_75", diags);
    ASSERT_TRUE(other);
    EXPECT_NE(other->find("tune: "), std::string::npos);
}

/// Choices of launches that differ in numbers alone, the nearest first, each once; of other machines and other types none.
TEST(Tuned, NeighboursAreNearInDoublings) {
    TunedDatabase database("off", {});
    const TunedKey key{"k", "source", "cuda", "a GPU", "A = block<f4e2m1, 16>, K = 4096, M = 64"};
    const auto add = [&](const std::string& launch, const std::string& chosen, const char* machine = "cuda", const char* source = "source") {
        TunedEntry entry;
        entry.chosen = chosen;
        database.add({"k", source, machine, "a GPU", launch}, entry);
    };
    EXPECT_TRUE(database.chosen_nearby(key).empty());
    add("A = block<f4e2m1, 16>, K = 4096, M = 4096", "far");
    add("A = block<f4e2m1, 16>, K = 2048, M = 128", "near");
    add("A = block<f4e2m1, 16>, K = 4096, M = 65", "nearest");
    add("A = block<f4e2m1, 16>, K = 4096, M = 0", "far");
    add("A = block<f4e2m1, 16>, K = 4096, M = 64", "its own");
    add("A = block<f4e2m1, 32>, K = 4096, M = 64", "another type");
    add("A = block<f4e2m1, 16>, K = 4096", "fewer");
    add("A = block<f4e2m1, 16>, K = 4096, N = 64", "another name");
    add("A = block<f4e2m1, 16>, K = 4096, M = 63", "another machine", "cpu");
    add("A = block<f4e2m1, 16>, K = 4096, M = 63", "another text", "cuda", "other");
    EXPECT_EQ(database.chosen_nearby(key), (std::vector<std::string>{"nearest", "near", "far"}));
    EXPECT_EQ(database.launches_of("k", "source").size(), 9u);
}

/// What launches may gain: more where choices differ more, where launches take longer and where more is left; never nothing.
TEST(Tuned, TimeGoesWhereItMayGain) {
    using Tried = std::vector<std::pair<double, double>>;
    const auto gain = [](double best, const Tried& tried, double next, double left) { return expected_gain(best, tried, next, left); };
    const Tried alike = {{1e-3, 1}, {1.01e-3, 1}, {1.02e-3, 1}}, apart = {{1e-3, 1}, {3e-3, 1}, {9e-3, 1}};
    EXPECT_GT(gain(1e-3, apart, 1, 0.5), gain(1e-3, alike, 1, 0.5));
    EXPECT_NEAR(gain(1e-3, alike, 1, 0.5), 1e-5, 1e-6);
    EXPECT_GT(gain(1e-3, alike, 1, 0.9), gain(1e-3, alike, 1, 0.1));
    EXPECT_GT(gain(1e-2, {{1e-2, 1}}, 1, 0.5), gain(1e-3, {{1e-3, 1}}, 1, 0.5));
    // A model that is right to a factor, and promises half of the best time.
    EXPECT_NEAR(gain(2e-3, {{2e-3, 1000}, {4e-3, 2000}}, 500, 1), 1e-3, 1e-9);
    EXPECT_NEAR(gain(2e-3, {{2e-3, 1000}, {4e-3, 2000}}, 3000, 1), 4e-5, 1e-9);
}

}  // namespace
}  // namespace tegula
