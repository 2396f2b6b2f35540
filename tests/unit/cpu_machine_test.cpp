// The machine `cpu` through the public interface: arguments of every form, prints and asserts in program order, budgets, cancellation, threads of the
// host, many threads at once, and memory that stays flat.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <fstream>
#include <functional>
#include <optional>
#include <thread>

#include "jit/cache/cache.h"
#include "jit/cpu/cpu.h"
#include "lang/ir_text.h"
#include "tegula/tegula.hpp"
#include "tests/unit/sample.h"

using namespace std::chrono_literals;

namespace {

constexpr const char* kSource = R"(edition 1;
layout panels<R: int>[i: M, j: N] = (i / R, j, i % R);
kernel add<T: number, B: int = 8>(x: tensor<T>[N], y: tensor<T>[N], out z: tensor<T>[N]) grid [cdiv(N, B)] {
    let n = program_id(0) * B;
    z[n +: B] = x[n +: B] + y[n +: B];
}
kernel turn(x: tensor<f32>[M, N], out y: tensor<f32>[N, M]) grid [1] { y[0 +: 8, 0 +: 16] = trans(x[0 +: 16, 0 +: 8]); }
kernel panel(x: tensor<f32>[M, N] @ panels<4>, out y: tensor<f32>[M, N]) grid [1] { y[0 +: 8, 0 +: 16] = x[0 +: 8, 0 +: 16] * 2.0; }
kernel nibbles(x: tensor<i4>[M, N], out y: tensor<i32>[M, N]) grid [M] {
    let i = program_id(0);
    y[i, 0 +: 16] = cast<i32>(x[i, 0 +: 16]);
}
kernel talk(x: tensor<f32>[N]) grid [N] { print("program {} has {}", program_id(0), x[program_id(0)]); }
kernel judge(x: tensor<f32>[N]) grid [N] { assert(x[program_id(0)] > 0.0, "positive"); }
kernel for_ever(x: tensor<f32>[N], out y: tensor<f32>[N]) grid [1] {
    var t = x[0 +: 8];
    while true { t = t + 1.0; }
    y[0 +: 8] = t;
}
kernel large(x: tensor<f16>[1024, 1024], out y: tensor<f16>[1024, 1024]) grid [1] {
    y[:, :] = dot(x[:, :], x[:, :], zeros<f16>[1024, 1024]);
}
kernel flat(x: tensor<f32>[2097152], out y: tensor<f32>[2097152]) grid [1] {
    let a = cast<f64>(x[:]);
    y[:] = cast<f32>(pow(pow(a + 1.5, a), sin(a)) + pow(a, cos(a)));
}
kernel running(x: tensor<f32>[2097152], out y: tensor<f32>[2097152]) grid [1] {
    let a = cast<f64>(x[:]);
    y[:] = cast<f32>(scan(pow(a, a), 0, |a, b| pow(a, b)));
}
kernel order<N: int>(x: tensor<f64>[N], out y: tensor<f64>[N]) grid [1] { y[:] = sort(x[:]); }
kernel product<B: int>(a: tensor<f32>[M, K], b: tensor<f32>[K, N], out c: tensor<f32>[M, N]) grid [cdiv(M, B), cdiv(N, B)] {
    var sum = zeros<f32>[B, B];
    for k in 0 .. K step B { sum = dot(a[program_id(0) * B +: B, k +: B], b[k +: B, program_id(1) * B +: B], sum); }
    c[program_id(0) * B +: B, program_id(1) * B +: B] = sum;
}
)";

class Cpu : public testing::Test {
protected:
    void SetUp() override {
        setenv("TEGULA_CACHE_DIR", "off", 1);
        start({});
    }
    void start(const tegula::EngineOptions& options) {
        engine = tegula::Engine::create(options).value();
        auto loaded = engine.load(kSource, "cpu.tile");
        ASSERT_TRUE(loaded) << loaded.diagnostics().text();
        module = std::move(loaded.value());
        run = {};
        run.machine = "cpu";
    }
    tegula_status launch(const std::string& kernel, std::initializer_list<tegula::NamedValue> generics, std::initializer_list<tegula::Value> args) {
        auto result = module.launch(kernel, generics, args, run);
        said = result.diagnostics().text();
        return result.status();
    }
    void expect_adds(int64_t n) {
        std::vector<float> x(static_cast<size_t>(n)), y(x), z(x.size() + 4, -1.0f);
        for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i), y[i] = 0.5f;
        ASSERT_EQ(launch("add", {}, {tegula::Tensor(x.data(), {n}), tegula::Tensor(y.data(), {n}), tegula::Tensor(z.data(), {n})}), TEGULA_OK)
            << said;
        for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(z[i], static_cast<float>(i) + 0.5f);
        for (size_t i = x.size(); i < z.size(); ++i) ASSERT_EQ(z[i], -1.0f) << "written behind the tensor";
    }
    /// The call ends within 50 ms of being cancelled, `after` it began. A call that had ended by then shows nothing: it is cancelled sooner.
    template <class Call>
    void expect_cancelled(const char* what, const Call& call, std::chrono::milliseconds after = 30ms) {
        auto best = std::chrono::steady_clock::duration::max();  // other work may have the processor
        int cancelled = 0;
        while (cancelled < 3 && best >= 50ms) {
            std::chrono::steady_clock::time_point asked;
            std::thread other([&] {
                std::this_thread::sleep_for(after);
                asked = std::chrono::steady_clock::now();
                engine.cancel();
            });
            const tegula_status status = call();
            const auto ended = std::chrono::steady_clock::now();
            other.join();
            engine.cancel(false);
            if (status == TEGULA_OK && ended < asked && after > 1ms) {
                after = after * 2 / 3;
                continue;
            }
            ASSERT_EQ(status, TEGULA_E_CANCELLED) << what;
            best = std::min(best, ended - asked);
            ++cancelled;
        }
        EXPECT_LT(best, 50ms) << what;
    }
    tegula::Engine engine;
    tegula::Module module;
    tegula::api::RunOptions run;
    std::string said;
};

TEST_F(Cpu, RunsOnAnyLength) {
    for (int64_t n : {0, 1, 7, 8, 9, 63, 1000}) expect_adds(n);
}

TEST_F(Cpu, StridesLayoutsAndNarrowElements) {
    std::vector<float> x(16 * 8), y(8 * 16), want(y);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * i % 97);
    tegula::Tensor columns(x.data(), {16, 8});
    columns.strides({1, 16}, x.size() * 4);
    ASSERT_EQ(launch("turn", {}, {columns, tegula::Tensor(y.data(), {8, 16})}), TEGULA_OK) << said;
    EXPECT_EQ(y, x);  // the transpose of a column-major matrix, row by row
    tegula::Tensor panels(x.data(), {8, 16});
    panels.layout("panels<4>");
    ASSERT_EQ(launch("panel", {}, {panels, tegula::Tensor(y.data(), {8, 16})}), TEGULA_OK) << said;
    for (size_t i = 0; i < 8; ++i)
        for (size_t j = 0; j < 16; ++j) ASSERT_EQ(y[i * 16 + j], 2 * x[(i / 4 * 16 + j) * 4 + i % 4]);
    std::vector<uint8_t> packed(3 * 8);
    for (size_t i = 0; i < packed.size(); ++i) packed[i] = static_cast<uint8_t>(i * 37);
    std::vector<int32_t> wide(3 * 16);
    ASSERT_EQ(launch("nibbles", {}, {tegula::Tensor(packed.data(), packed.size(), "i4", {3, 16}), tegula::Tensor(wide.data(), {3, 16})}), TEGULA_OK)
        << said;
    for (size_t i = 0; i < wide.size(); ++i) {
        const int code = packed[i / 2] >> i % 2 * 4 & 15;
        ASSERT_EQ(wide[i], code >= 8 ? code - 16 : code);
    }
}

TEST_F(Cpu, DeviceMemoryIsRefused) {
    float x[8] = {};
    tegula::Tensor far(x, {8});
    far.on_cuda(0);
    EXPECT_EQ(launch("add", {}, {far, tegula::Tensor(x, {8}), tegula::Tensor(x, {8})}), TEGULA_E_ARGUMENTS);
    EXPECT_NE(said.find("which the CPU cannot reach"), std::string::npos) << said;
}

TEST_F(Cpu, PrintsAndAssertsInProgramOrder) {
    std::vector<float> x(200);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
    std::string want;
    for (int i = 0; i < 200; ++i) want += "program " + std::to_string(i) + " has " + std::to_string(i) + "\n";
    for (uint64_t seed : {0, 5})
        for (uint32_t threads : {1u, 4u}) {
            std::string text;
            run.order_seed = seed;
            run.threads = threads;
            run.user = &text;
            run.print = [](void* user, const char* line, size_t size) { static_cast<std::string*>(user)->append(line, size); };
            ASSERT_EQ(launch("talk", {}, {tegula::Tensor(x.data(), {200})}), TEGULA_OK) << said;
            EXPECT_EQ(text, want) << "seed " << seed << ", threads " << threads;
        }
    x.assign(200, 1.0f);
    x[37] = x[120] = -1.0f;
    EXPECT_EQ(launch("judge", {}, {tegula::Tensor(x.data(), {200})}), TEGULA_E_RUN);
    EXPECT_NE(said.find("positive"), std::string::npos) << said;
    EXPECT_NE(said.find("in program (37, 0, 0)"), std::string::npos) << said;
}

TEST_F(Cpu, BudgetsEndRuns) {
    float x[8] = {}, y[8];
    run.step_budget = 100000;
    EXPECT_EQ(launch("for_ever", {}, {tegula::Tensor(x, {8}), tegula::Tensor(y, {8})}), TEGULA_E_RUN);
    EXPECT_NE(said.find("100000"), std::string::npos) << said;
    run.step_budget = 0;
    run.memory_budget = 64;
    std::vector<float> m(32 * 32);
    EXPECT_EQ(
        launch("product", {{"B", 32}}, {tegula::Tensor(m.data(), {32, 32}), tegula::Tensor(m.data(), {32, 32}), tegula::Tensor(m.data(), {32, 32})}),
        TEGULA_E_RUN);
}

TEST_F(Cpu, CancellationWithin50Milliseconds) {
    float x[8] = {}, y[8];
    ASSERT_NO_FATAL_FAILURE(expect_adds(8));
    run.step_budget = 1000;  // compiles it
    launch("for_ever", {}, {tegula::Tensor(x, {8}), tegula::Tensor(y, {8})});
    run.step_budget = 0;
    std::vector<uint16_t> a(1024 * 1024), b(a);
    const auto run_large = [&] {
        const auto tensor = [](std::vector<uint16_t>& v) { return tegula::Tensor(v.data(), v.size() * 2, "f16", {1024, 1024}); };
        return launch("large", {}, {tensor(a), tensor(b)});
    };
    ASSERT_EQ(run_large(), TEGULA_OK) << said;
    expect_cancelled("for_ever", [&] { return launch("for_ever", {}, {tegula::Tensor(x, {8}), tegula::Tensor(y, {8})}); });
    expect_cancelled("large", run_large);  // one operation on one tile
    std::vector<float> in(1 << 21, 0.5f), out(in);
    for (const char* kernel : {"flat", "running"}) {  // one loop over one dimension
        const auto run_flat = [&] { return launch(kernel, {}, {tegula::Tensor(in.data(), {1 << 21}), tegula::Tensor(out.data(), {1 << 21})}); };
        ASSERT_EQ(run_flat(), TEGULA_OK) << said;
        expect_cancelled(kernel, run_flat);
    }
    expect_adds(8);
}

TEST_F(Cpu, CancellationOfMuchMemoryWithin50Milliseconds) {
    constexpr int64_t kMost = 16 << 20;  // no tile has more elements
    std::vector<double> c(kMost), d(c);
    for (size_t i = 0; i < c.size(); ++i) c[i] = static_cast<double>(i * 0x9e3779b97f4a7c15);
    const auto run_order = [&] { return launch("order", {{"N", kMost}}, {tegula::Tensor(c.data(), {kMost}), tegula::Tensor(d.data(), {kMost})}); };
    ASSERT_EQ(run_order(), TEGULA_OK) << said;
    const auto started = std::chrono::steady_clock::now();
    ASSERT_EQ(run_order(), TEGULA_OK) << said;
    const auto whole = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - started);
    for (const int part : {1, 5, 7}) expect_cancelled("order", run_order, whole * part / 10);  // one call, for which memory of 800 MiB comes and goes
    expect_adds(8);
}

TEST_F(Cpu, ProgressMayEndARun) {
    float x[8] = {}, y[8];
    run.progress = [](void*, uint64_t, uint64_t) { return 1; };
    EXPECT_EQ(launch("for_ever", {}, {tegula::Tensor(x, {8}), tegula::Tensor(y, {8})}), TEGULA_E_CANCELLED);
}

TEST_F(Cpu, ThreadsOfTheHost) {
    std::atomic<uint32_t> calls{0};
    const tegula_executor executor{[](void* user, uint32_t count, void (*call)(void*, uint32_t), void* task) {
                                       *static_cast<std::atomic<uint32_t>*>(user) += count;
                                       std::vector<std::thread> threads;
                                       for (uint32_t i = 0; i < count; ++i) threads.emplace_back(call, task, i);
                                       for (std::thread& t : threads) t.join();
                                   },
                                   &calls};
    tegula::EngineOptions options;
    options.executor = &executor;
    start(options);
    run.threads = 3;
    expect_adds(1000);
    EXPECT_EQ(calls, 3u);
    options.executor = nullptr;
    options.cpu_threads = 1;
    options.pin_threads = 1;
    start(options);
    run.threads = 8;
    expect_adds(5000);
}

/// Loads a module of its own, runs a kernel that prints and one that fails, and lets go of all.
bool runs_alone(tegula::Engine& engine, int t, tegula::api::RunOptions options) {
    const std::string source = "kernel own(out y: tensor<i32>[N]) grid [N] { y[program_id(0)] = " + std::to_string(t) +
                               "; print(\"{}\", program_id(0)); }\n"
                               "kernel fails(x: tensor<i32>[N]) grid [N] { assert(x[program_id(0)] < 0); }\n";
    auto module = engine.load(source, "own.tile");
    if (!module) return false;
    std::vector<int32_t> y(5);
    size_t printed = 0;
    options.user = &printed;
    options.print = [](void* user, const char*, size_t size) { *static_cast<size_t*>(user) += size; };
    const auto ran = module.value().launch("own", {}, {tegula::Tensor(y.data(), {5})}, options);
    const auto failed = module.value().launch("fails", {}, {tegula::Tensor(y.data(), {5})}, options);
    return ran && y == std::vector<int32_t>(5, t) && printed == 10 && failed.status() == TEGULA_E_RUN;
}

TEST_F(Cpu, ManyThreadsCompileAndLaunchOnTwoEngines) {
    auto second = tegula::Engine::create();
    auto other = second.value().load(kSource, "other.tile");
    ASSERT_TRUE(other);
    const int rounds = tegula::test::is_long() ? 20 : 2;
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 64; ++t)
        threads.emplace_back([&, t] {
            tegula::api::RunOptions options;
            options.machine = "cpu";
            options.threads = 1 + static_cast<uint32_t>(t % 3);
            tegula::Engine& home = t % 2 ? second.value() : engine;
            tegula::Module& mine = t % 2 ? other.value() : module;
            for (int round = 0; round < rounds; ++round) {
                wrong += !runs_alone(home, t, options);
                const int64_t n = 100 + t;
                std::vector<int32_t> x(static_cast<size_t>(n), t), y(static_cast<size_t>(n), round), z(static_cast<size_t>(n));
                const auto ran = mine.launch("add", {{"B", 8 << (t + round) % 4}},
                                             {tegula::Tensor(x.data(), {n}), tegula::Tensor(y.data(), {n}), tegula::Tensor(z.data(), {n})}, options);
                wrong += !ran;
                for (int32_t v : z) wrong += v != t + round;
            }
        });
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(wrong, 0);
}

/// What the process holds, without what the allocator could give back.
double resident_bytes() {
    malloc_trim(0);
    std::ifstream status("/proc/self/statm");
    double all = 0, resident = 0;
    status >> all >> resident;
    return resident * 4096;
}

/// Bytes that each of many calls leaves behind once the first ones have filled what is filled only once.
double bytes_left_by_each(int count, const std::function<void(int)>& call) {
    const int warm = tegula::test::is_long() ? 1000 : count / 2;
    if (tegula::test::is_long()) count = 10000;
    for (int i = 0; i < warm; ++i) call(i);
    const double before = resident_bytes();
    for (int i = 0; i < count; ++i) call(warm + i);
    const double grown = (resident_bytes() - before) / count;
    std::printf("%.0f bytes each\n", grown);
    return grown;
}

// At the level of the back end, where the cache in memory can be made so small that it is full at once.
TEST(CpuMemory, CompiledRunAndFreedLeavesNothing) {
    using namespace tegula;
    SourceMap sources;
    CacheOptions small;
    small.directory = "off";
    small.memory_bytes = 64 << 10;
    cpu::Backend backend(make_cache(small));
    std::vector<float> y(64);
    std::vector<Argument> args(1);
    args[0].kind = Argument::tensor;
    args[0].t.elem = id_of(Fmt::f32);
    args[0].t.data = y.data();
    args[0].t.bytes = 256;
    args[0].t.extents = Shape{64};
    const double each = bytes_left_by_each(500, [&](int i) {
        const SourcePtr text = sources.share("k.ir", "kernel @k(%y: tensor<f32>[?] out) {\n  %0 = constant 0 : i64\n  %1 = constant " +
                                                         std::to_string(i) + " : i32\n  %2 = cast %1 : f32\n" +
                                                         "  %3 = broadcast %2 : tile<f32>[64]\n  store %y[%0 +: 64] = %3\n  ret\n}\n");
        TypeTable types;
        DiagSink diags;
        const auto fn = ir::parse_ir(sources, text->id, types, diags);
        ASSERT_TRUE(fn) << render_text(diags.all()[0], sources, false);
        const uint64_t grid[3] = {1, 1, 1};
        ASSERT_EQ(backend.prepare(*fn)->run(args, grid, {}).status, RunResult::ok);
        ASSERT_EQ(y[63], static_cast<float>(i));
    });
    EXPECT_LT(each, 256) << "bytes per kernel";
}

/// Some KB that no other module has, with a type, a layout and numbers of its own. Codes of `own` are ten, which is what the cache keeps.
std::string own_module(int i) {
    const std::string n = std::to_string(i);
    std::string text;
    for (int line = 0; line < 60; ++line)
        text += "// line " + std::to_string(line) + " of module " + n + ", whose text nobody needs once it is gone\n";
    return text + "type mine = codebook<2>[-1.0, 0.5, " + n + ".0, " + n + ".5];\n" + "layout turned[i: M, j: K] = ((i * " +
           std::to_string(2 * i + 1) + " + j) % M, j);\n" +
           "kernel typed(x: tensor<mine>[8, 16] @ turned, out y: tensor<f32>[N]) grid [1] { y[0 +: 16] = cast<f32>(x[7, 0 +: 16]) + " + n +
           ".0; }\n" + "kernel own(out y: tensor<i32>[N]) grid [cdiv(N, 8)] { y[program_id(0) * 8 +: 8] = full<i32>[8](" + std::to_string(i % 10) +
           "); }\n";
}

class ModuleMemory : public testing::TestWithParam<const char*> {};

// Through the public interface.
TEST_P(ModuleMemory, ModulesLoadedLaunchedAndReleasedLeaveNothing) {
    setenv("TEGULA_CACHE_DIR", "off", 1);
    auto engine = tegula::Engine::create();
    tegula::api::RunOptions options, interpreter;
    options.machine = GetParam();
    interpreter.machine = "interp";
    const double each = bytes_left_by_each(2000, [&](int i) {
        const std::string text = own_module(i);
        auto module = engine.value().load(text, "own" + std::to_string(i) + ".tile");
        ASSERT_TRUE(module) << module.diagnostics().text();
        std::vector<int32_t> y(20, -1);
        const auto ran = module.value().launch("own", {}, {tegula::Tensor(y.data(), {20})}, options);
        ASSERT_TRUE(ran) << ran.diagnostics().text();
        ASSERT_EQ(y, std::vector<int32_t>(20, i % 10));
        std::vector<uint8_t> x(32, 0xff);
        std::vector<float> z(16);
        const std::string type = "codebook<2>[-1.0, 0.5, " + std::to_string(i) + ".0, " + std::to_string(i) + ".5]";
        const auto typed = module.value().launch(
            "typed", {}, {tegula::Tensor(x.data(), 32, type, {8, 16}).layout("turned"), tegula::Tensor(z.data(), {16})}, interpreter);
        ASSERT_TRUE(typed) << typed.diagnostics().text();
        ASSERT_EQ(z[15], static_cast<float>(2 * i) + 0.5f);
        ASSERT_FALSE(module.value().launch("own", {}, {}, options));  // its diagnostics name the kernel
        ASSERT_FALSE(engine.value().load(text + "kernel broken(", "broken.tile"));
    });
    EXPECT_LT(each, 256) << "bytes per module";
}
INSTANTIATE_TEST_SUITE_P(Machines, ModuleMemory, testing::Values("cpu", "interp"));

// Others go on while modules come and go: what they hold stays.
TEST_P(ModuleMemory, DiagnosticsOutliveModules) {
    setenv("TEGULA_CACHE_DIR", "off", 1);
    auto engine = tegula::Engine::create();
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};
    for (int t = 0; t < 16; ++t)
        threads.emplace_back([&, t] {
            tegula::api::RunOptions options;
            options.machine = GetParam();
            for (int i = 0; i < 20; ++i) {
                const std::string number = std::to_string(t * 100 + i);
                std::optional<tegula::Diagnostics> kept[2];
                {
                    auto module = engine.value().load("kernel k(out y: tensor<i32>[N]) grid [1] { assert(N == " + number + ", \"no\"); y[0] = 1; }\n",
                                                      "own.tile");
                    std::vector<int32_t> y(7);
                    auto ran = module.value().launch("k", {}, {tegula::Tensor(y.data(), {7})}, options);
                    if (!ran) kept[0] = ran.diagnostics();
                    auto broken = engine.value().load("fn f() -> i32 { return missing" + number + "; }\n", "own.tile");
                    if (!broken) kept[1] = broken.diagnostics();
                }
                const bool failed = t * 100 + i != 7;
                wrong += kept[0].has_value() != failed || !kept[1];
                if (kept[0]) wrong += kept[0]->text().find("assert(N == " + number + ", \"no\");") == std::string::npos;
                if (kept[1]) wrong += kept[1]->text().find("return missing" + number + ";") == std::string::npos;
            }
        });
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(wrong, 0);
}

}  // namespace
