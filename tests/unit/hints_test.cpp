// Hints and schedules that a GPU does not follow: one warning each with its place and reason, for those that it follows none; `explain` says the
// same.
#include <gtest/gtest.h>

#include "jit/cuda/nvrtc.h"
#include "jit/engine/engine.h"
#include "jit/engine/hints.h"

namespace tegula {
namespace {

struct Row {
    const char* kernel;    ///< attributes and schedule
    const char* loop;      ///< attributes of the loop over K
    const char* expected;  ///< code and message of the only warning; empty: none
    const char* arch = "sm_90a";
    const char* body = nullptr;
    const char* begin = "0";  ///< of that loop
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.kernel << " " << row.loop << " on " << row.arch; }

constexpr const char* kSum = "acc = dot(a[m +: 64, k +: 64], b[k +: 64, n +: 64], acc);";

std::string text_of(const Row& row) {
    return "kernel k(a: tensor<f16>[M, K], b: tensor<f16>[K, N], w: tensor<i8>[K, N], out c: tensor<f32>[M, N])\n"
           "    grid [cdiv(M, 64), cdiv(N, 64)]\n    " +
           std::string(row.kernel) +
           "\n{\n    let (m, n) = (program_id(0) * 64, program_id(1) * 64);\n    var acc = zeros<f32>[64, 64];\n    for k in " +
           std::string(row.begin) + " .. K step 64 " + row.loop + " {\n        " + (row.body ? row.body : kSum) +
           "\n    }\n    c[m +: 64, n +: 64] = acc;\n}\n";
}

class Hints : public testing::TestWithParam<Row> {
protected:
    void compile(const std::string& text) {
        DiagSink diags;
        module_ = engine_->load("t.tile", text, "", diags);
        ASSERT_TRUE(module_) << (diags.all().empty() ? "" : diags.all()[0].message) << text;
        Status status{};
        exe_ = engine_->compile_named(*module_, "k", {}, {}, diags, status);
        ASSERT_TRUE(exe_) << text;
    }
    std::shared_ptr<Engine> engine_ = Engine::create({});
    ModulePtr module_;
    std::shared_ptr<const Executable> exe_;
};

TEST_P(Hints, AreFollowedOrGiveAWarning) {
    compile(text_of(GetParam()));
    const std::vector<Diagnostic> warnings = hint_warnings(*exe_, *find_arch(GetParam().arch));
    std::string found;
    for (const Diagnostic& d : warnings) {
        found += (found.empty() ? "" : "; ") + std::string(diag_row(d.id).code) + " " + d.message;
        EXPECT_EQ(d.severity, Severity::warning);
        const uint32_t line = engine_->sources().line_col(d.span.file, d.span.begin).line;
        EXPECT_EQ(line, *GetParam().loop ? 7u : 3u) << d.message;
    }
    EXPECT_EQ(found, GetParam().expected);
    DiagSink diags;
    const auto explained = engine_->artifact(*module_, *exe_, "explain@" + std::string(GetParam().arch), diags);
    ASSERT_TRUE(explained);
    for (const Diagnostic& d : warnings) EXPECT_NE(explained->find("hint " + d.message), std::string::npos) << *explained;
    EXPECT_EQ(explained->find("hint `") == std::string::npos, warnings.empty()) << *explained;
}

constexpr const char* kDecoded = "acc = dot(a[m +: 64, k +: 64], cast<f16>(w[k +: 64, n +: 64]), acc);";
constexpr const char* kByFma = "acc = dot(cast<f32>(a[m +: 64, k +: 64]) * 0.3, cast<f32>(w[k +: 64, n +: 64]), acc);";
constexpr const char* kEqual = "acc = acc * 0.5 + dot(a[m +: 64, k +: 64], b[k +: 64, n +: 64], zeros<f32>[64, 64]);";

INSTANTIATE_TEST_SUITE_P(
    All, Hints,
    testing::Values(
        Row{"", "", ""}, Row{"@ warps(4)", "", ""}, Row{"@ warps(8)", "", ""},
        Row{"@ warps(6)", "", "T1102 `warps` counts as warps(4) on sm_90a: the number of warps is a power of two"},
        Row{"@ warps(64)", "", "T1102 `warps` counts as warps(32) on sm_90a: a program has at most 32 warps"}, Row{"@ cluster(1, 1)", "", ""},
        Row{"@ cluster(2, 1)", "", ""}, Row{"@ cluster(2, 4)", "", ""}, Row{"@ cluster(2)", "", ""},
        Row{"@ cluster(2, 1, 2)", "", "T1101 `cluster` has no effect on sm_90a: the grid has no such axis"},
        Row{"@ cluster(3, 1)", "",
            "T1101 `cluster` has no effect on sm_90a: a cluster has 1, 2, 4 or 8 programs along an axis, and at most 8 in all"},
        Row{"@ cluster(4, 4)", "",
            "T1101 `cluster` has no effect on sm_90a: a cluster has 1, 2, 4 or 8 programs along an axis, and at most 8 in all"},
        Row{"@ cluster(2, 1)", "", "T1101 `cluster` has no effect on sm_80: programs do not share tiles on this architecture", "sm_80"},
        Row{"@ cluster(2)", "", "T1101 `cluster` has no effect on sm_100a: programs do not share tiles on this architecture", "sm_100a"},
        Row{"@ cluster(2, 1)", "", "T1101 `cluster` has no effect on sm_120a: programs do not share tiles on this architecture", "sm_120a"},
        Row{"@ cluster(2, 1) @ specialise(off)", "", "T1101 `cluster` has no effect on sm_90a: no load of the kernel is a bulk copy in a loop"},
        Row{"@ cluster(2, 1)", "", "T1101 `cluster` has no effect on sm_90a: no load of the kernel is a bulk copy in a loop", "sm_90a",
            "acc = acc + 1.0;"},
        Row{"@ cluster(2, 1)", "",
            "T1101 `cluster` has no effect on sm_90a: what it prints or asserts names programs by their place in the plain order", "sm_90a",
            "assert(k >= 0, \"k\"); acc = dot(a[m +: 64, k +: 64], b[k +: 64, n +: 64], acc);"},
        Row{"@ cluster(2, 2)", "", "T1102 `cluster` counts as cluster(2, 1) on sm_90a: programs along the other axes have no tiles in common",
            "sm_90a", "acc = dot(a[m + n +: 64, k +: 64], b[k +: 64, n +: 64], acc);"},
        Row{"@ cluster(2, 1) schedule split_k(4)", "", "T1101 `cluster` has no effect on sm_90a: its sum is split"},
        Row{"@ cluster(2, 1) schedule persistent", "",
            "T1101 `cluster` has no effect on sm_90a: it is persistent: a CTA may run one program less than its neighbours, which would wait for it"},
        Row{"@ registers(128)", "", ""}, Row{"@ registers(24)", "", "", "sm_75"}, Row{"@ registers(255)", "", "", "sm_75"},
        Row{"@ registers(0)", "", "T1101 `registers` has no effect on sm_90a: it takes a positive number"},
        Row{"@ registers(23)", "", "T1102 `registers` counts as registers(24) on sm_80: compilers leave a thread no fewer", "sm_80"},
        Row{"@ registers(256)", "", "T1102 `registers` counts as registers(255) on sm_80: a thread has no more", "sm_80"},
        Row{"@ registers(65) @ warps(32)", "", "T1102 `registers` counts as registers(64) on sm_80: a multiprocessor has no more for 1024 threads",
            "sm_80"},
        Row{"@ registers(128) @ warps(8)", "", "T1101 `registers` has no effect on sm_90a: its warps give registers to one another"},
        Row{"@ registers(128) @ warps(8) @ specialise(off)", "", ""}, Row{"@ decode(auto)", "", ""}, Row{"@ math(fast)", "", ""},
        Row{"@ decode(register)", "", "T1101 `decode` has no effect on sm_90a: no operand of a product is decoded from narrower elements"},
        Row{"@ decode(shared)", "", "T1101 `decode` has no effect on sm_90a: no operand of a product is decoded from narrower elements"},
        Row{"@ decode(register)", "", "", "sm_80", kDecoded}, Row{"@ decode(shared)", "", "", "sm_80", kDecoded},
        Row{"@ decode(register)", "", "", "sm_90a", kDecoded}, Row{"@ decode(shared)", "", "", "sm_90a", kDecoded},
        Row{"@ decode(register)", "", "T1101 `decode` has no effect on sm_90a: the product is computed without tensor cores", "sm_90a", kByFma},
        Row{"@ specialise(auto)", "", ""}, Row{"@ specialise(off)", "", ""}, Row{"@ specialise(on)", "", ""},
        Row{"@ specialise(on)", "", "T1101 `specialise` has no effect on sm_80: no load of the kernel is a bulk copy in a loop", "sm_80"},
        Row{"schedule swizzle(4)", "", ""}, Row{"schedule swizzle(0)", "", "T1101 `swizzle` has no effect on sm_90a: it takes a positive number"},
        Row{"schedule swizzle(4)", "",
            "T1101 `swizzle` has no effect on sm_90a: what it prints or asserts names programs by their place in the plain order", "sm_90a",
            "assert(k >= 0, \"k\"); acc = dot(a[m +: 64, k +: 64], b[k +: 64, n +: 64], acc);"},
        Row{"schedule persistent", "", ""}, Row{"schedule persistent", "", "", "sm_80"}, Row{"schedule persistent", "", "", "sm_75"},
        Row{"schedule persistent", "", "T1101 `persistent` has no effect on sm_90a: what it prints or asserts belongs to one program of the launch",
            "sm_90a", "assert(k >= 0, \"k\"); acc = dot(a[m +: 64, k +: 64], b[k +: 64, n +: 64], acc);"},
        Row{"schedule stream_k", "",
            "T1101 `stream_k` has no effect on sm_90a: sums are cut into equal stretches only (`split_k`), as their order must not depend on the "
            "number "
            "of processors"},
        Row{"schedule split_k(4)", "", ""}, Row{"schedule split_k(4)", "", "", "sm_80"}, Row{"schedule split_k(4)", "", "", "sm_75"},
        Row{"schedule split_k(1)", "", ""}, Row{"schedule split_k(65)", "", "T1101 `split_k` has no effect on sm_90a: it takes 1 to 64 parts"},
        Row{"schedule split_k(step = 128)", "", ""}, Row{"schedule split_k(step = 128)", "", "", "sm_80"},
        Row{"schedule split_k(step = 128)", "", "", "sm_75"}, Row{"schedule split_k(step = 0x7fffffffffffffc0)", "", ""},
        Row{"schedule split_k(step = 100)", "",
            "T1101 `split_k` has no effect on sm_90a: its stretches of 100 elements are no whole steps of the loop over its product, which are of "
            "64; the nearest is 128"},
        Row{"schedule split_k(step = 1)", "",
            "T1101 `split_k` has no effect on sm_90a: its stretches of 1 element are no whole steps of the loop over its product, which are of 64; "
            "the nearest is 64"},
        Row{"schedule split_k(step = -64)", "", "T1101 `split_k` has no effect on sm_90a: a stretch of -64 elements is none; the nearest is 64"},
        Row{"schedule split_k(step = 64)", "", "T1101 `split_k` has no effect on sm_90a: it has no loop over a product", "sm_90a",
            "acc = acc + 1.0;"},
        Row{"schedule split_k(step = 64)", "",
            "T1101 `split_k` has no effect on sm_90a: its stretches are run one after the other, because how many there are is no value of extents, "
            "scalar parameters and the grid: a launch does not know it",
            "sm_90a", kSum, "m"},
        Row{"schedule split_k(4)", "", "", "sm_90a", kSum, "m"},
        Row{"schedule split_k(4)", "", "T1101 `split_k` has no effect on sm_90a: the loop over its product carries more than sums of products",
            "sm_90a", kEqual},
        Row{"schedule split_k(4)", "", "T1101 `split_k` has no effect on sm_90a: it has no loop over a product", "sm_90a", "acc = acc + 1.0;"},
        Row{"", "@ pipeline(3)", ""},
        Row{"", "@ pipeline(64)", "T1102 `pipeline` counts as pipeline(12) on sm_90a: shared memory has no room for more stages"},
        Row{"", "@ pipeline(0)", "T1101 `pipeline` has no effect on sm_90a: it takes a positive number"},
        Row{"", "@ pipeline(0)", "T1101 `pipeline` has no effect on sm_90a: it takes a positive number", "sm_90a", "acc = acc + 1.0;"},
        Row{"", "@ pipeline(3)", "T1101 `pipeline` has no effect on sm_90a: no load in the loop is copied ahead", "sm_90a", "acc = acc + 1.0;"},
        Row{"", "@ unroll(2)", ""},
        Row{"", "@ unroll(100)", "T1102 `unroll` counts as unroll(64) on sm_90a: more copies of a loop's body do not fit in the instruction cache"},
        Row{"", "@ unroll(0)", "T1101 `unroll` has no effect on sm_90a: it takes 1 to 64"},
        Row{"", "@ unroll", "T1101 `unroll` has no effect on sm_90a: the number of its trips is not known when it is compiled"},
        Row{"", "@ parallel", "T1101 `parallel` has no effect on sm_90a: trips of a loop are run one after the other"}));

TEST_F(Hints, WishesForTilesAreNamedOnce) {
    compile(
        "kernel k(x: tensor<f16>[M], out y: tensor<f16>[M]) grid [cdiv(M, 64)] schedule swizzle(0)\n"
        "{ let v = x[0 +: 64] @ shared(swizzle<3, 3, 3>); let w: tile<f16>[64] @ reg(2) = v @ shared; y[0 +: 64] = w; }");
    std::string found;
    for (const Diagnostic& d : hint_warnings(*exe_, *find_arch("sm_90a"))) {
        const LineCol at = engine_->sources().line_col(d.span.file, d.span.begin);
        found += std::to_string(at.column) + " " + d.message + "\n";
    }
    EXPECT_EQ(found,
              "80 `swizzle` has no effect on sm_90a: it takes a positive number\n"
              "8 `shared` has no effect on sm_90a: the compiler places every tile itself\n");
    compile("kernel k(x: tensor<f16>[M], out y: tensor<f16>[M]) { let w: tile<f16>[64] @ mma_c = x[0 +: 64]; y[0 +: 64] = w; }");
    const std::vector<Diagnostic> warnings = hint_warnings(*exe_, *find_arch("sm_80"));
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_EQ(warnings[0].message, "`mma_c` has no effect on sm_80: the compiler places every tile itself");
}

TEST_F(Hints, LoopsOfFewKnownTripsAreUnrolledAsAWhole) {
    const auto loops = [](const std::string& range, int width, const char* body) {
        const std::string n = std::to_string(width);
        return "kernel k(x: tensor<f32>[N], out y: tensor<f32>[N])\n    @ warps(4)\n{\n    var s = x[0 +: " + n + "];\n    for k in " + range +
               " @ unroll {\n        " + body + "\n    }\n    y[0 +: " + n + "] = s;\n}\n";
    };
    const struct {
        const char *range, *body;
        int width;
        const char *pragma, *warning;
    } rows[] = {
        {"0 .. 64", "s = s * s;", 128, "#pragma unroll 64\n", ""},
        {"-3 .. 10 step 4", "s = s * cast<f32>(k);", 128, "#pragma unroll 4\n", ""},
        {"0 .. 65", "s = s * s;", 128, "#pragma unroll 1\n", "it makes 65 trips, and loops of at most 64 are unrolled as a whole"},
        {"0 .. N", "s = s * s;", 128, "#pragma unroll 1\n", "the number of its trips is not known when it is compiled"},
        {"0 .. 64", "s = s * s;", 8192, "#pragma unroll 64\n", ""},
        {"0 .. 64", "s = s * s + 0.5 * s;", 8192, "#pragma unroll 1\n", "64 copies of its body, of 196 elements in a thread, would be too much code"},
    };
    for (const auto& row : rows) {
        compile(loops(row.range, row.width, row.body));
        std::string found;
        for (const Diagnostic& d : hint_warnings(*exe_, *find_arch("sm_90a"))) found += d.message;
        EXPECT_EQ(found, *row.warning ? "`unroll` has no effect on sm_90a: " + std::string(row.warning) : "") << row.range;
        DiagSink diags;
        const auto text = engine_->artifact(*module_, *exe_, "cuda@sm_90a", diags);
        ASSERT_TRUE(text);
        const size_t loop = text->find("for (long long v");
        ASSERT_NE(loop, std::string::npos) << *text;
        EXPECT_NE(text->rfind(row.pragma, loop), std::string::npos) << row.range << *text;
        EXPECT_GT(text->rfind(row.pragma, loop) + 40, loop) << "right in front of the loop";
    }
}

TEST_F(Hints, RegistersAreBounded) {
    compile(text_of({"@ registers(104)", "", ""}));
    for (const char* arch : {"sm_75", "sm_90a", "sm_100a"}) {
        DiagSink diags;
        const auto text = engine_->artifact(*module_, *exe_, "cuda@" + std::string(arch), diags);
        ASSERT_TRUE(text);
        EXPECT_NE(text->find("__global__ void TEGULA_BOUNDS("), std::string::npos);
        EXPECT_NE(text->find(", 104) tegula_k"), std::string::npos) << *text;
        cuda::Backend backend({nullptr, {}, {}, {}});
        if (!backend.availability().compiler) continue;
        KernelText kernel;
        kernel.source = *text;
        kernel.entry = "tegula_k0";
        const auto compiled = backend.compile_text(kernel, *find_arch(arch));
        ASSERT_TRUE(compiled) << compiled.error;
        EXPECT_LE(compiled.value->resources.registers, 104) << arch;
        EXPECT_GE(compiled.value->resources.registers, 24) << arch;
    }
    compile(text_of({"@ registers(104) @ warps(8)", "", ""}));
    DiagSink diags;
    EXPECT_EQ(engine_->artifact(*module_, *exe_, "cuda@sm_90a", diags)->find("TEGULA_BOUNDS"), std::string::npos) << "warps exchange registers";
}

/// A GPU that does nothing.
class Idle : public Machine {
public:
    std::string name() const override { return "cuda"; }
    std::string missing() override { return {}; }
    const Arch& arch(int, void*) override { return *find_arch("sm_90a"); }
    std::unique_ptr<Program> prepare(const sema::Instance&, const std::vector<std::string>&) override {
        struct Nothing : Program {
            RunResult run(std::span<const Argument>, std::span<const uint64_t, 3>, const RunOptions&) const override { return {}; }
        };
        return std::make_unique<Nothing>();
    }
    std::optional<std::string> artifact(const sema::Instance&, const std::vector<std::string>&, std::string_view, const Arch*,
                                        const std::atomic<bool>*, DiagSink&) override {
        return std::nullopt;
    }
    std::string describe() override { return "{}"; }
};

TEST_F(Hints, LaunchesWarnOnceAndTheInterpreterNever) {
    EngineOptions options;
    options.cuda = [](const MachineContext&) { return std::make_unique<Idle>(); };
    engine_ = Engine::create(options);
    compile(text_of({"schedule stream_k", "", ""}));
    std::vector<uint8_t> storage(4096);
    LaunchArgument a, c;
    a.view.elem = module_->types().builtin("f16").value();
    a.view.extents = Shape{16, 16};
    a.view.data = storage.data();
    a.view.bytes = 512;
    a.view.layout = module_->types().intern(Layout::row());
    c.view = a.view;
    c.view.elem = module_->types().builtin("f32").value();
    c.view.bytes = 1024;
    LaunchArgument w = a;
    w.view.elem = module_->types().builtin("i8").value();
    w.view.bytes = 256;
    const LaunchArgument arguments[] = {a, a, w, c};
    const ast::KernelItem* kernel = module_->kernel("k");
    const struct {
        bool gpu;
        size_t warnings;
    } launches[] = {{false, 0}, {true, 1}, {true, 0}};
    for (const auto& [gpu, warnings] : launches) {
        DiagSink diags;
        LaunchOptions launch;
        ASSERT_TRUE(engine_->find_machine(gpu ? "cuda" : "interp", launch.machine, diags));
        ASSERT_EQ(engine_->launch(*module_, *kernel, {}, arguments, launch, diags), Status::ok)
            << (diags.all().empty() ? "" : diags.all()[0].message);
        EXPECT_EQ(diags.all().size(), warnings);
        for (const Diagnostic& d : diags.all()) EXPECT_EQ(d.id, Diag::hint_ignored);
    }
}

}  // namespace
}  // namespace tegula
