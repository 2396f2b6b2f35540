// Kernels of many statements: they become several functions of limited size, so that compiling them takes time in proportion; what they compute and
// where they end early does not depend on where one function ends. Compilations end when their host or their budget says so.
#include <gtest/gtest.h>

#include <time.h>

#include <chrono>
#include <sstream>
#include <thread>

#include "tegula/tegula.hpp"
#include "tests/unit/sample.h"

using namespace std::chrono_literals;

namespace {

struct Kind {
    const char *name, *params, *before, *statement;  ///< $: number of the statement, @: 64 times it
    const char* after = "";
    int64_t n = 24;          ///< twice the statements that take about a hundredth of a second
    const char* later = "";  ///< a second statement for each, behind all first ones
};
constexpr const char* kTwo = "x: tensor<f32>[N], inout y: tensor<f32>[N]";
const Kind kKinds[] = {
    {"gathers", "t: tensor<i32>[M], x: tensor<f32>[N], inout y: tensor<f32>[N]", "", "y[@ + iota[64]] = x[cast<i64>(t[$ +: 64])] + $;", "", 12},
    {"sorts", kTwo, "", "y[@ +: 64] = sort(x[@ +: 64]);"},
    {"stores", kTwo, "", "y[@ +: 64] = x[@ +: 64] + $;"},
    {"numbers", kTwo, "", "y[$] = x[$] * x[$ + 1] + $;", "", 100},
    {"atomics", kTwo, "", "y[@ +: 64] += x[@ +: 64];"},
    {"scans", kTwo, "", "y[@ +: 64] = cumsum(x[@ +: 64]);"},
    {"sums", kTwo, "", "y[$] = sum(x[@ +: 64]);"},
    {"products", "x: tensor<f32>[M, K], inout y: tensor<f32>[M, K]", "", "y[@ +: 16, 0 +: 16] = dot(x[@ +: 16, 0 +: 16], x[0 +: 16, 0 +: 16]);", "",
     4},
    {"prints", kTwo, "", "print(\"{}\", x[$ +: 4]);", "", 100},
    {"assertions", kTwo, "", "assert(x[$] == x[$ + 1]);", "", 100},
    {"loops", "x: tensor<f32>[N], inout y: tensor<f32>[N], n: i64", "", "for k in 0 .. n { y[k + $] = x[k] * $; }", "", 50},
    {"nested", "x: tensor<f32>[N], inout y: tensor<f32>[N], n: i64", "for k in 0 .. n {", "y[k + @ +: 9] = x[k +: 9] + $;", "}", 25},
    {"branches", "x: tensor<f32>[N], inout y: tensor<f32>[N], n: i64", "", "if n > $ { y[$] = x[$] * 2; } else { y[$] = x[$]; }", "", 50},
    {"whiles", "inout y: tensor<f32>[N], n: i64", "var c = n;", "while c > $ { c = c / 2 - $; } y[$] = cast<f32>(c);", "", 50},
    {"chain", kTwo, "var a = x[0 +: 64];", "a = a * x[$ +: 64] + $;", "y[0 +: 64] = a;", 50},
    {"exponentials", kTwo, "", "y[@ +: 64] = exp(x[@ +: 64]);", "", 15},
    {"pointers", "p: ptr<f32>", "", "store(p + @ + iota[64], load(p + $ + iota[64]) + 1);", "", 6},
    {"extremes", "x: tensor<f32>[N], inout y: tensor<i64>[N]", "", "y[$] = argmax(x[@ +: 64]);"},
    {"transpositions", "x: tensor<f32>[M, K], inout y: tensor<f32>[K, M]", "", "y[@ +: 16, 0 +: 16] = trans(x[0 +: 16, @ +: 16]);", "", 6},
    {"choices", "x: tensor<f32>[N], inout y: tensor<f32>[N], n: i64", "var a = x[0 +: 64];", "if n > $ { a = sort(x[$ +: 64]); } else { a = a + $; }",
     "y[0 +: 64] = a;", 12},
    {"tiles that live", kTwo, "", "let a$ = sort(x[@ +: 64]);", "", 24, "y[@ +: 64] = a$;"},
    {"numbers that live", kTwo, "", "let a$ = x[$] * 2;", "", 50, "y[$] = a$ + a0;"},
    {"packed", "inout x: tensor<u12>[N]", "", "x[@ +: 64] = x[@ +: 64] + 1;", "", 10},
};

std::string source(const Kind& kind, int64_t n) {
    std::string out = "kernel k(" + std::string(kind.params) + ") grid [1] {\n" + kind.before + "\n";
    for (const std::string_view statement : {kind.statement, kind.later})
        for (int64_t i = 0; i < n; ++i) {
            for (const char c : statement) out += c == '$' ? std::to_string(i) : c == '@' ? std::to_string(64 * i) : std::string(1, c);
            out += "\n";
        }
    return out + kind.after + "\n}\n";
}

class CpuLongKernels : public testing::Test {
protected:
    void SetUp() override {
        setenv("TEGULA_CACHE_DIR", "off", 1);
        engine = tegula::Engine::create({}).value();
        run.machine = "cpu";
    }
    void load(const std::string& text) {
        auto loaded = engine.load(text, "long.tile");
        ASSERT_TRUE(loaded) << loaded.diagnostics().text();
        module = std::move(loaded.value());
    }
    std::string artifact(const std::string& text, const std::string& stage) {
        load(text);
        auto kernel = module.compile("k", {}, run);
        EXPECT_TRUE(kernel) << kernel.diagnostics().text();
        if (!kernel) return {};
        auto made = kernel.value().artifact(stage);
        EXPECT_TRUE(made) << made.diagnostics().text();
        return made ? made.value() : std::string();
    }
    /// Processor time of this thread, which compiles.
    double seconds(const std::string& text) {
        const auto now = [] {
            timespec t;
            clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
            return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
        };
        load(text);
        auto kernel = module.compile("k", {}, run);
        const double start = now();
        EXPECT_TRUE(kernel && kernel.value().artifact("asm"));
        return now() - start;
    }
    tegula::Engine engine;
    tegula::Module module;
    tegula::api::RunOptions run;
};

/// LLVM's time follows the text as long as no function does.
TEST_F(CpuLongKernels, FunctionsHaveLimitedSizes) {
    for (const Kind& kind : kKinds) {
        std::istringstream lines(artifact(source(kind, 8 * kind.n), "llvm"));
        size_t functions = 0, blocks = 0, instructions = 0, all = 0;
        for (std::string line; std::getline(lines, line); ++all) {
            if (line.starts_with("define")) ++functions, blocks = instructions = 0;
            blocks += !line.empty() && line.find(':') != line.npos && line[0] != ' ' && line[0] != ';';
            instructions += line.starts_with("  ");
            if (blocks <= 400 && instructions <= 12000) continue;
            ADD_FAILURE() << kind.name << ": a function of " << blocks << " blocks and " << instructions << " instructions";
            break;
        }
        EXPECT_GE(functions, all > 20000 ? 2u : 1u) << kind.name;
    }
}

TEST_F(CpuLongKernels, CompileInTimeThatGrowsWithThem) {
    if (tegula::test::is_sanitized()) GTEST_SKIP() << "sanitizers have their own times";
    for (const Kind& kind : kKinds) {
        double ratio = 100;
        for (int round = 0; round < 3 && ratio >= 6; ++round)
            ratio = std::min(ratio, seconds(source(kind, 2 * kind.n)) / seconds(source(kind, kind.n / 2)));
        EXPECT_LT(ratio, 6) << kind.name << ": four times the statements take " << ratio << " times as long";
    }
}

/// Numbers and tiles made in one function and used in others, in and after loops and branches; each run against the interpreter.
TEST_F(CpuLongKernels, ValuesCrossFunctions) {
    std::string text =
        "kernel k(x: tensor<i32>[N], inout y: tensor<i32>[N], inout z: tensor<f64>[N], n: i64) grid [3] {\n"
        "let id = cast<i32>(program_id(0));\nvar sum = id;\nvar real = 0.25;\nvar t = x[0 +: 23];\nvar c = n;\n";
    const auto piece = [&](int i, const std::string& by) {
        const std::string s = std::to_string(i);
        text += "let a" + s + " = x[" + s + " % N] * " + s + " + sum;\n";
        text += "y[program_id(0) * 400 + " + s + " +: 7] = x[" + s + " +: 7] + a" + s + ";\n";
        text += "if sum % 3 == " + std::to_string(i % 3) + " { t = t + a" + s + "; real = real * 1.5; } else { sum = sum + " + by + "; }\n";
        text += "sum = sum ^ a" + std::to_string(i / 2) + ";\n";
    };
    text += "let a0 = 5;\n";
    for (int i = 1; i < 40; ++i) piece(i, "cast<i32>(c)");
    text += "for j in 0 .. n {\n";
    for (int i = 40; i < 80; ++i) piece(i, "cast<i32>(j)");
    text += "while c > 0 {\n";
    for (int i = 80; i < 120; ++i) piece(i, "cast<i32>(c + j)");
    text += "if sum > 1000000 { break; }\nc = c - 1;\n}\n}\n";
    text += "z[program_id(0)] = real + cast<f64>(sum);\ny[1300 + program_id(0) * 23 +: 23] = t;\n}\n";
    load(text);
    std::vector<int32_t> x(2000), results[2];
    std::vector<double> reals[2];
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<int32_t>(i * 2654435761u >> 9);
    for (const int machine : {0, 1}) {
        run.machine = machine ? "cpu" : "interp";
        results[machine].assign(2000, -1);
        reals[machine].assign(2000, 0);
        auto ran = module.launch("k", {},
                                 {tegula::Tensor(x.data(), {2000}), tegula::Tensor(results[machine].data(), {2000}),
                                  tegula::Tensor(reals[machine].data(), {2000}), tegula::Value(int64_t{3})},
                                 run);
        ASSERT_TRUE(ran) << ran.diagnostics().text();
    }
    EXPECT_EQ(results[0], results[1]);
    EXPECT_EQ(reals[0], reals[1]);
    auto kernel = module.compile("k", {}, run);
    ASSERT_TRUE(kernel);
    EXPECT_NE(kernel.value().artifact("llvm").value().find("@\"part 2\""), std::string::npos);
}

/// The first error ends the run, also from a function of its own; with several threads it is the same one.
TEST_F(CpuLongKernels, EndEarlyFromAnyFunction) {
    std::string text = "kernel k(x: tensor<i32>[N], inout y: tensor<i32>[M], n: i64) grid [5000] {\nvar c = n;\nwhile c > 0 {\n";
    for (int i = 0; i < 150; ++i) {
        text += "y[" + std::to_string(i) + " +: 3] = x[" + std::to_string(i) + " +: 3] + 1;\n";
        if (i == 140) text += "assert((program_id(0) < 1234) | (c > 2), \"late\");\n";
    }
    text += "c = c - 1;\n}\n}\n";
    load(text);
    std::vector<int32_t> x(200, 1), y(200);
    for (const char* machine : {"interp", "cpu"})
        for (const uint32_t threads : {1u, 3u}) {
            run.machine = machine;
            run.threads = threads;
            auto ran = module.launch("k", {}, {tegula::Tensor(x.data(), {200}), tegula::Tensor(y.data(), {200}), tegula::Value(int64_t{3})}, run);
            EXPECT_EQ(ran.status(), TEGULA_E_RUN);
            const std::string said = ran.diagnostics().text();
            EXPECT_NE(said.find("in program (1234, 0, 0)"), std::string::npos) << machine << " " << threads << ": " << said;
        }
}

class CpuCompilation : public CpuLongKernels {
protected:
    void SetUp() override {
        CpuLongKernels::SetUp();
        load(source(kKinds[0], 3000));
    }
    /// Status, and for how long.
    std::pair<tegula_status, std::chrono::steady_clock::duration> launch() {
        const auto start = std::chrono::steady_clock::now();
        std::vector<int32_t> t(70);
        std::vector<float> x(70), y(70);
        auto ran = module.launch("k", {}, {tegula::Tensor(t.data(), {70}), tegula::Tensor(x.data(), {70}), tegula::Tensor(y.data(), {70})}, run);
        said = ran.diagnostics().text();
        return {ran.status(), std::chrono::steady_clock::now() - start};
    }
    void elaborate() { ASSERT_TRUE(module.compile("k", {}, run)); }
    std::string said;
};

TEST_F(CpuCompilation, EndsWithItsBudget) {
    elaborate();
    run.compile_budget = 50;
    const auto [status, time] = launch();
    EXPECT_EQ(status, TEGULA_E_RUN);
    EXPECT_NE(said.find("T0919"), std::string::npos) << said;
    EXPECT_NE(said.find("`k`"), std::string::npos) << said;
    EXPECT_LT(time, 2s);
    load("kernel k(x: tensor<f32>[N], out y: tensor<f32>[N]) grid [1] { y[0 +: 8] = x[0 +: 8]; }");
    run.compile_budget = 60000;
    std::vector<float> x(8, 2), y(8);
    auto ran = module.launch("k", {}, {tegula::Tensor(x.data(), {8}), tegula::Tensor(y.data(), {8})}, run);
    EXPECT_TRUE(ran) << ran.diagnostics().text();
    EXPECT_EQ(y, x) << "later compilations work";
}

TEST_F(CpuCompilation, EndsWhenItIsCancelled) {
    elaborate();
    std::chrono::steady_clock::time_point asked;
    std::thread other([&] {
        std::this_thread::sleep_for(100ms);
        asked = std::chrono::steady_clock::now();
        engine.cancel();
    });
    EXPECT_EQ(launch().first, TEGULA_E_CANCELLED) << said;
    const auto ended = std::chrono::steady_clock::now();
    other.join();
    engine.cancel(false);
    EXPECT_LT(ended - asked, 1s);
    run.progress = [](void* user, uint64_t done, uint64_t) { return ++*static_cast<int*>(user) > 1 && done == 0 ? 1 : 0; };
    int calls = 0;
    run.user = &calls;
    EXPECT_EQ(launch().first, TEGULA_E_CANCELLED) << said;
    EXPECT_EQ(calls, 2);
}

/// Who waits for another thread's compilation may be cancelled alone.
TEST_F(CpuCompilation, OfAnotherThreadIsNotWaitedFor) {
    elaborate();
    std::thread first([&] { launch(); });
    std::this_thread::sleep_for(50ms);
    tegula::api::RunOptions own = run;
    own.progress = [](void*, uint64_t, uint64_t) { return 1; };
    std::vector<int32_t> t(70);
    std::vector<float> x(70), y(70);
    const auto start = std::chrono::steady_clock::now();
    auto ran = module.launch("k", {}, {tegula::Tensor(t.data(), {70}), tegula::Tensor(x.data(), {70}), tegula::Tensor(y.data(), {70})}, own);
    EXPECT_EQ(ran.status(), TEGULA_E_CANCELLED);
    EXPECT_LT(std::chrono::steady_clock::now() - start, 1s);
    engine.cancel();
    first.join();
}

}  // namespace
