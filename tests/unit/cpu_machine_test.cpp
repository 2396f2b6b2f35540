// The machine `cpu` through the public interface: arguments of every form, prints and asserts in program order, budgets, cancellation, threads of the
// host, many threads at once, and memory that stays flat.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <fstream>
#include <thread>

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
    const auto cancelled = [&](const char* what, const auto& call) {
        auto best = std::chrono::steady_clock::duration::max();  // other work may have the processor
        for (int round = 0; round < 3 && best >= 50ms; ++round) {
            std::chrono::steady_clock::time_point asked;
            std::thread other([&] {
                std::this_thread::sleep_for(30ms);
                asked = std::chrono::steady_clock::now();
                engine.cancel();
            });
            EXPECT_EQ(call(), TEGULA_E_CANCELLED) << what;
            const auto ended = std::chrono::steady_clock::now();
            other.join();
            best = std::min(best, ended - asked);
            engine.cancel(false);
        }
        EXPECT_LT(best, 50ms) << what;
    };
    cancelled("for_ever", [&] { return launch("for_ever", {}, {tegula::Tensor(x, {8}), tegula::Tensor(y, {8})}); });
    cancelled("large", run_large);  // one operation on one tile
    std::vector<float> in(1 << 21, 0.5f), out(in);
    for (const char* kernel : {"flat", "running"}) {  // one loop over one dimension
        const auto run_flat = [&] { return launch(kernel, {}, {tegula::Tensor(in.data(), {1 << 21}), tegula::Tensor(out.data(), {1 << 21})}); };
        ASSERT_EQ(run_flat(), TEGULA_OK) << said;
        cancelled(kernel, run_flat);
    }
    std::vector<double> c(4 << 20), d(c);
    for (size_t i = 0; i < c.size(); ++i) c[i] = static_cast<double>(i * 0x9e3779b97f4a7c15);
    const auto run_order = [&] {
        return launch("order", {{"N", 4 << 20}}, {tegula::Tensor(c.data(), {4 << 20}), tegula::Tensor(d.data(), {4 << 20})});
    };
    ASSERT_EQ(run_order(), TEGULA_OK) << said;
    cancelled("order", run_order);  // one call
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

double resident_bytes() {
    std::ifstream status("/proc/self/statm");
    double all = 0, resident = 0;
    status >> all >> resident;
    return resident * 4096;
}

// At the level of the back end, where nothing else is kept: a module's sources and types are the engine's for its life.
TEST(CpuMemory, CompiledRunAndFreedLeavesNothing) {
    using namespace tegula;
    SourceMap sources;
    TypeTable types;
    DiagSink diags;
    const auto fn = ir::parse_ir(sources,
                                 sources.add("k.ir",
                                             "kernel @k(%x: tensor<f32>[?] in, %y: tensor<f32>[?] out) {\n  %0 = constant 0 : i64\n"
                                             "  %1 = load %x[%0 +: 64] : tile<f32>[64]\n  %2 = add %1, %1 : tile<f32>[64]\n"
                                             "  store %y[%0 +: 64] = %2\n  ret\n}\n"),
                                 types, diags);
    ASSERT_TRUE(fn);
    cpu::Backend backend;
    std::vector<float> x(64, 1.5f), y(64);
    std::vector<Argument> args(2);
    for (int i = 0; i < 2; ++i) {
        args[i].kind = Argument::tensor;
        args[i].t.elem = id_of(Fmt::f32);
        args[i].t.data = i ? y.data() : x.data();
        args[i].t.bytes = 256;
        args[i].t.extents = Shape{64};
    }
    const int count = tegula::test::is_long() ? 10000 : 1000, warm = count / 5;
    const uint64_t grid[3] = {1, 1, 1};
    double before = 0;
    for (int i = 0; i < count; ++i) {
        if (i == warm) before = resident_bytes();
        const auto program = backend.prepare(*fn);
        ASSERT_EQ(program->run(args, grid, {}).status, RunResult::ok);
    }
    EXPECT_EQ(y[63], 3.0f);
    const double grown = (resident_bytes() - before) / (count - warm);
    EXPECT_LT(grown, 256) << "bytes per kernel";
    RecordProperty("bytes_per_kernel", std::to_string(grown));
}

// Through the public interface. The engine keeps the text of a module for its life, which diagnostics show, and nothing else.
TEST(CpuMemory, ModulesLoadedLaunchedAndReleasedLeaveTheirText) {
    setenv("TEGULA_CACHE_DIR", "off", 1);
    auto engine = tegula::Engine::create();
    tegula::api::RunOptions options;
    options.machine = "cpu";
    const int count = tegula::test::is_long() ? 10000 : 2000, warm = count / 5;
    double before = 0;
    for (int i = 0; i < count; ++i) {
        if (i == warm) before = resident_bytes();
        const int number = i % 10;  // texts differ, codes do not: the cache keeps one of each
        auto module = engine.value().load("// module " + std::to_string(i) +
                                              "\nkernel own(out y: tensor<i32>[N]) grid [cdiv(N, 8)] { y[program_id(0) * 8 +: 8] = full<i32>[8](" +
                                              std::to_string(number) + "); }\n",
                                          "own.tile");
        ASSERT_TRUE(module) << module.diagnostics().text();
        std::vector<int32_t> y(20, -1);
        const auto ran = module.value().launch("own", {}, {tegula::Tensor(y.data(), {20})}, options);
        ASSERT_TRUE(ran) << ran.diagnostics().text();
        ASSERT_EQ(y, std::vector<int32_t>(20, number));
    }
    const double grown = (resident_bytes() - before) / (count - warm);
    std::printf("%.0f bytes per module\n", grown);
    EXPECT_LT(grown, 256 + 160) << "bytes per module, of which at most 160 are its text";
}

}  // namespace
