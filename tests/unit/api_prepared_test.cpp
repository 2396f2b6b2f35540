// Prepared launches on the machines of the host: what they compute, print, report and refuse, other arguments, many threads, and no allocation.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "tegula/tegula.hpp"
#include "tests/unit/sample.h"

#ifdef __SANITIZE_ADDRESS__
#elif defined(__has_feature)
#if !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer)
#define COUNTS_ALLOCATIONS
#endif
#else
#define COUNTS_ALLOCATIONS  // sanitizers have allocators of their own
#endif

namespace {

std::atomic<uint64_t> allocations{0};

}  // namespace

#ifdef COUNTS_ALLOCATIONS
[[gnu::noinline]] void* operator new(size_t size) {
    ++allocations;
    if (void* p = std::malloc(size ? size : 1)) return p;
    throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(size_t size, std::align_val_t alignment) {
    ++allocations;
    if (void* p = std::aligned_alloc(static_cast<size_t>(alignment),
                                     (size + static_cast<size_t>(alignment) - 1) / static_cast<size_t>(alignment) * static_cast<size_t>(alignment)))
        return p;
    throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, size_t, std::align_val_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, size_t) noexcept { std::free(p); }
#endif

namespace {

constexpr const char* kSource = R"(
kernel scaled<T: number, B: int = 8>(x: tensor<T>[N], a: T, out y: tensor<T>[N]) grid [cdiv(N, B)] {
    let n = program_id(0) * B;
    y[n +: B] = x[n +: B] * a;
}
kernel talks(x: tensor<f32>[N]) grid [N] {
    print("{} at {}", x[program_id(0)], program_id(0));
    assert(x[program_id(0)] > 0.0, "positive");
}
kernel for_ever(x: tensor<f32>[N], out y: tensor<f32>[N]) grid [1] {
    var t = x[0 +: 8];
    while true { t = t + 1.0; }
    y[0 +: 8] = t;
}
kernel outside(p: ptr<f32>, out y: tensor<f32>[N]) grid [N] { y[program_id(0)] = load(p + program_id(0)); }
)";

struct Machine {
    const char* name;
    int threads;
};

class Prepared : public testing::TestWithParam<Machine> {
protected:
    void SetUp() override {
        setenv("TEGULA_CACHE_DIR", "off", 1);
        engine = tegula::Engine::create().value();
        module = engine.load(kSource, "prepared.tile").value();
        run.machine = GetParam().name;
        run.threads = static_cast<uint32_t>(GetParam().threads);
    }
    tegula::Prepared prepare(const std::string& kernel, std::initializer_list<tegula::Value> args) {
        auto made = module.prepare(kernel, {}, args, run);
        EXPECT_TRUE(made) << made.diagnostics().text();
        return made ? made.value() : tegula::Prepared();
    }
    tegula::Engine engine;
    tegula::Module module;
    tegula::api::RunOptions run;
};

std::vector<float> counted(size_t n, float factor = 1) {
    std::vector<float> v(n);
    for (size_t i = 0; i < n; ++i) v[i] = static_cast<float>(i + 1) * factor;
    return v;
}

TEST_P(Prepared, RepeatsALaunch) {
    for (const size_t n : {1u, 7u, 8u, 1001u}) {
        std::vector<float> x = counted(n), y(n);
        const tegula::Prepared launch = prepare("scaled", {tegula::Tensor(x.data(), {int64_t(n)}), 2.0, tegula::Tensor(y.data(), {int64_t(n)})});
        ASSERT_EQ(launch.enqueue(), TEGULA_OK);
        EXPECT_EQ(y, counted(n, 2));
        for (float& v : x) v *= 2;
        ASSERT_EQ(launch.enqueue(), TEGULA_OK);
        EXPECT_EQ(y, counted(n, 4));
        EXPECT_TRUE(launch.collect());
    }
}

TEST_P(Prepared, EmptyGridsRunNothing) {
    float none = 0;
    const tegula::Prepared launch = prepare("scaled", {tegula::Tensor(&none, {0}), 2.0, tegula::Tensor(&none, {0})});
    EXPECT_EQ(launch.enqueue(), TEGULA_OK);
}

TEST_P(Prepared, OtherArguments) {
    std::vector<float> x = counted(9), y(9), z(9), wide = counted(33), result(33);
    tegula::Prepared launch = prepare("scaled", {tegula::Tensor(x.data(), {9}), 2.0, tegula::Tensor(y.data(), {9})});
    ASSERT_TRUE(launch.rebind({{"y", tegula::Tensor(z.data(), {9})}}));
    ASSERT_EQ(launch.enqueue(), TEGULA_OK);
    EXPECT_EQ(z, counted(9, 2));
    EXPECT_EQ(y, std::vector<float>(9)) << "the storage that was given up";
    ASSERT_TRUE(launch.rebind({{"a", 3.0}}));
    ASSERT_EQ(launch.enqueue(), TEGULA_OK);
    EXPECT_EQ(z, counted(9, 3));
    ASSERT_TRUE(launch.rebind({{"", tegula::Tensor(wide.data(), {33})}, {"y", tegula::Tensor(result.data(), {33})}})) << "other extents";
    ASSERT_EQ(launch.enqueue(), TEGULA_OK);
    EXPECT_EQ(result, counted(33, 3));
    std::vector<double> d(33, 1.5), e(33);
    ASSERT_TRUE(launch.rebind({{"x", tegula::Tensor(d.data(), {33})}, {"y", tegula::Tensor(e.data(), {33})}})) << "another instance";
    ASSERT_EQ(launch.enqueue(), TEGULA_OK);
    EXPECT_EQ(e, std::vector<double>(33, 4.5));
}

TEST_P(Prepared, ArgumentsThatDoNotFitChangeNothing) {
    std::vector<float> x = counted(9), y(9), other(4);
    tegula::Prepared launch = prepare("scaled", {tegula::Tensor(x.data(), {9}), 2.0, tegula::Tensor(y.data(), {9})});
    const auto refused = [&](std::initializer_list<tegula::NamedValue> args, const char* says) {
        const auto result = launch.rebind(args);
        EXPECT_FALSE(result);
        EXPECT_NE(result.diagnostics().text().find(says), std::string::npos) << result.diagnostics().text();
        std::fill(y.begin(), y.end(), 0.0f);
        EXPECT_EQ(launch.enqueue(), TEGULA_OK);
        EXPECT_EQ(y, counted(9, 2));
    };
    refused({{"x", tegula::Tensor(other.data(), {4})}}, "extent");
    refused({{"z", tegula::Tensor(other.data(), {4})}}, "`z`");
    refused({{"a", 1.0}, {"a", 2.0}}, "`a`");
    refused({{"", tegula::Tensor(x.data(), {9})}, {"", 2.0}, {"", tegula::Tensor(y.data(), {9})}, {"", 3.0}}, "3 arguments");
    refused({{"a", "f32"}}, "`a`");
    tegula::Tensor far(other.data(), {9});
    far.on_cuda(0);
    refused({{"x", far}}, "device memory");
}

TEST_P(Prepared, PrintsAndReportsWaitToBeCollected) {
    std::vector<float> x = {1, 2, 3};
    const tegula::Prepared launch = prepare("talks", {tegula::Tensor(x.data(), {3})});
    ASSERT_EQ(launch.enqueue(), TEGULA_OK);
    ASSERT_EQ(launch.enqueue(), TEGULA_OK);
    std::string said;
    tegula::api::RunOptions reader;
    reader.user = &said;
    reader.print = [](void* user, const char* text, size_t size) { static_cast<std::string*>(user)->append(text, size); };
    EXPECT_TRUE(launch.collect(nullptr, reader));
    const std::string once = "1 at 0\n2 at 1\n3 at 2\n";
    EXPECT_EQ(said, once + once);
    x[1] = -2;
    EXPECT_EQ(launch.enqueue(), TEGULA_E_RUN);
    said.clear();
    const auto failed = launch.collect(nullptr, reader);
    EXPECT_EQ(failed.status(), TEGULA_E_RUN);
    EXPECT_NE(failed.diagnostics().text().find("positive"), std::string::npos) << failed.diagnostics().text();
    EXPECT_TRUE(said.starts_with("1 at 0\n-2 at 1\n")) << said;
    said.clear();
    EXPECT_TRUE(launch.collect(nullptr, reader)) << "told once";
    EXPECT_EQ(said, "");
    x[1] = 2;
    EXPECT_EQ(launch.enqueue(), TEGULA_OK) << "a launch that failed is no end";
}

TEST_P(Prepared, BudgetsAndCancellation) {
    std::vector<float> x(8), y(8);
    run.step_budget = 10000;
    const tegula::Prepared bounded = prepare("for_ever", {tegula::Tensor(x.data(), {8}), tegula::Tensor(y.data(), {8})});
    EXPECT_EQ(bounded.enqueue(), TEGULA_E_RUN);
    EXPECT_NE(bounded.collect().diagnostics().text().find("T0913"), std::string::npos);
    run.step_budget = 0;
    const tegula::Prepared endless = prepare("for_ever", {tegula::Tensor(x.data(), {8}), tegula::Tensor(y.data(), {8})});
    std::thread other([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        engine.cancel();
    });
    EXPECT_EQ(endless.enqueue(), TEGULA_E_CANCELLED);
    other.join();
    EXPECT_EQ(endless.enqueue(), TEGULA_E_CANCELLED) << "until the engine allows runs again";
    engine.cancel(false);
}

TEST_P(Prepared, PointersThatReachNothing) {
    std::vector<float> x(3), y(5);
    const tegula::Prepared launch = prepare("outside", {tegula::Tensor(x.data(), {3}), tegula::Tensor(y.data(), {5})});
    EXPECT_EQ(launch.enqueue(), TEGULA_E_RUN);
    EXPECT_NE(launch.collect().diagnostics().text().find("in program (3, 0, 0)"), std::string::npos);
}

TEST_P(Prepared, WhatIsRefused) {
    std::vector<float> x(8), y(8);
    const tegula::Tensor a(x.data(), {8}), b(y.data(), {8});
    int stream = 0;
    EXPECT_EQ(prepare("scaled", {a, 2.0, b}).enqueue(&stream), TEGULA_E_USAGE) << "there are no streams";
    tegula::Tensor far(x.data(), {8});
    far.on_cuda(0);
    EXPECT_EQ(module.prepare("scaled", {}, {far, 2.0, b}, run).status(), TEGULA_E_ARGUMENTS);
    EXPECT_EQ(module.prepare("scaled", {}, {a, 2.0}, run).status(), TEGULA_E_ARGUMENTS);
    if (GetParam().name == std::string("cpu")) {
        run.checked = 1;
        const auto made = module.prepare("scaled", {}, {a, 2.0, b}, run);
        EXPECT_EQ(made.status(), TEGULA_E_USAGE);
        EXPECT_NE(made.diagnostics().text().find("`checked` is 0 or 2"), std::string::npos);
    }
    run.checked = 2;
    EXPECT_EQ(prepare("scaled", {a, 2.0, b}).enqueue(), TEGULA_OK);
}

TEST_P(Prepared, FromManyThreads) {
    std::vector<float> x = counted(1001), y(1001);
    const tegula::Prepared launch = prepare("scaled", {tegula::Tensor(x.data(), {1001}), 2.0, tegula::Tensor(y.data(), {1001})});
    std::vector<std::thread> threads;
    std::atomic<int> good{0};
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&] {
            for (int i = 0; i < 50; ++i) good += launch.enqueue() == TEGULA_OK;
        });
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(good, 200);
    EXPECT_EQ(y, counted(1001, 2));
}

TEST_P(Prepared, NativeLaunchesAllocateNothing) {
    if (GetParam().name != std::string("cpu") || GetParam().threads > 1 || tegula::test::is_sanitized())
        GTEST_SKIP() << "allocators of sanitizers, tiles of the interpreter, shares of several threads";
    std::vector<float> x = counted(256), y(256);
    const tegula::Prepared launch = prepare("scaled", {tegula::Tensor(x.data(), {256}), 2.0, tegula::Tensor(y.data(), {256})});
    for (int i = 0; i < 3; ++i) ASSERT_EQ(launch.enqueue(), TEGULA_OK);
    const uint64_t before = allocations;
    for (int i = 0; i < 100; ++i) launch.enqueue();
    EXPECT_EQ(allocations - before, 0u);
}

TEST_P(Prepared, WhatIsCompiledIsKeptAndTold) {
    if (GetParam().name != std::string("cpu") || GetParam().threads > 1) GTEST_SKIP() << "nothing is compiled, or the same once more";
    char folder[] = "/tmp/tegula_prepared_XXXXXX";
    ASSERT_TRUE(mkdtemp(folder));
    std::vector<std::string> lines;
    tegula::api::EngineOptions options;
    options.user = &lines;
    options.log = [](void* user, int level, const char* text) {
        static_cast<std::vector<std::string>*>(user)->push_back(std::to_string(level) + " " + text);
        throw 1;
    };
    std::vector<float> x = counted(9), y(9);
    const auto prepare_with = [&](const char* directory) {
        options.cache_dir = directory;
        const auto own = tegula::Engine::create(options).value().load(kSource, "kept.tile").value();
        EXPECT_TRUE(own.prepare("scaled", {}, {tegula::Tensor(x.data(), {9}), 2.0, tegula::Tensor(y.data(), {9})}, run));
    };
    prepare_with(folder);
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_TRUE(lines[0].starts_with("2 cpu: compiled `scaled` for ") && lines[0].ends_with(" ms")) << lines[0];
    prepare_with(folder);
    EXPECT_EQ(lines.size(), 1u) << "the cache has it";
    prepare_with("off");
    EXPECT_EQ(lines.size(), 2u);
    std::filesystem::remove_all(folder);
    prepare_with("/dev/null/nowhere");
    ASSERT_EQ(lines.size(), 4u);
    EXPECT_TRUE(lines[2].starts_with("1 ") || lines[3].starts_with("1 ")) << "a cache that cannot be written is a warning";
}

TEST_P(Prepared, InTheBackground) {
    std::vector<float> x = counted(9), y(9);
    const tegula::Tensor a(x.data(), {9}), b(y.data(), {9});
    auto started = module.prepare_async("scaled", {}, {a, 2.0, b}, run);
    ASSERT_TRUE(started) << started.diagnostics().text();
    auto made = started.value().wait();
    ASSERT_TRUE(made) << made.diagnostics().text();
    EXPECT_TRUE(started.value().ready());
    EXPECT_EQ(made.value().enqueue(), TEGULA_OK);
    EXPECT_EQ(y, counted(9, 2));
    started.value().cancel();  // too late
    EXPECT_EQ(made.value().enqueue(), TEGULA_OK);
    EXPECT_FALSE(module.prepare_async("nobody", {}, {a, 2.0, b}, run)) << "seen at once";
    auto wrong = module.prepare_async("scaled", {}, {a, 2.0}, run);
    ASSERT_TRUE(wrong) << wrong.diagnostics().text();
    auto refused = wrong.value().wait();
    EXPECT_EQ(refused.status(), TEGULA_E_ARGUMENTS);
    EXPECT_NE(refused.diagnostics().text().find("`y`"), std::string::npos) << refused.diagnostics().text();
}

/// A kernel that keeps LLVM busy for half a second.
std::string long_source() {
    std::string text = "kernel long(x: tensor<f64>[N], out y: tensor<f64>[N]) grid [1] {\n    var a = x[0 +: 64];\n";
    for (int i = 0; i < 40; ++i) text += "    a = sin(a * " + std::to_string(i) + ".5) + pow(a, " + std::to_string(i) + ".25);\n";
    return text + "    y[0 +: 64] = a;\n}\n";
}

TEST_P(Prepared, JobsAreCancelledWithin100Milliseconds) {
    if (GetParam().name != std::string("cpu") || GetParam().threads > 1) GTEST_SKIP() << "nothing is compiled, or the same once more";
    std::vector<double> x(64), y(64);
    const tegula::Tensor a(x.data(), {64}), b(y.data(), {64});
    const auto longer = engine.load(long_source(), "long.tile").value();
    for (const bool whole : {false, true}) {
        auto best = std::chrono::steady_clock::duration::max();  // other work may have the processor
        for (int round = 0; round < 3 && best >= std::chrono::milliseconds(100); ++round) {
            const auto job = longer.prepare_async("long", {}, {a, b}, run).value();
            std::this_thread::sleep_for(std::chrono::milliseconds(30));
            const auto asked = std::chrono::steady_clock::now();
            whole ? engine.cancel() : job.cancel();
            EXPECT_EQ(job.wait().status(), TEGULA_E_CANCELLED);
            best = std::min(best, std::chrono::steady_clock::now() - asked);
            engine.cancel(false);
        }
        EXPECT_LT(best, std::chrono::milliseconds(100));
    }
    EXPECT_EQ(longer.prepare_async("long", {}, {a, b}, run).value().wait().status(), TEGULA_OK) << "what was cancelled leaves nothing behind";
}

TEST_P(Prepared, JobsOutliveTheirHandles) {
    std::vector<float> x = counted(9), y(9);
    std::atomic<int> ended{0};
    {
        tegula::Ref<tegula_job> job;
        const tegula::Tensor first(x.data(), {9}), second(y.data(), {9});
        const tegula_tensor a = first.c(), b = second.c();
        tegula_value args[3] = {};
        args[0].kind = args[2].kind = TEGULA_TENSOR, args[0].tensor = &a, args[2].tensor = &b;
        args[1].kind = TEGULA_REAL, args[1].r = 2;
        const auto done = [](void* user, tegula_status status, tegula_prepared* prepared, tegula_diags*) {
            *static_cast<std::atomic<int>*>(user) = status == TEGULA_OK && tegula_enqueue(prepared, nullptr) == TEGULA_OK ? 1 : -1;
            throw 1;
        };
        ASSERT_EQ(tegula_prepare_async(module.c(), "scaled", nullptr, 0, args, 3, &run, done, &ended, job.out(), nullptr), TEGULA_OK);
        module = {};
        engine = {};
    }
    while (ended == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(ended, 1);
    EXPECT_EQ(y, counted(9, 2));
    EXPECT_EQ(tegula_prepare_async(nullptr, "scaled", nullptr, 0, nullptr, 0, &run, nullptr, nullptr, nullptr, nullptr), TEGULA_E_USAGE);
}

INSTANTIATE_TEST_SUITE_P(Machines, Prepared, testing::Values(Machine{"interp", 1}, Machine{"cpu", 1}, Machine{"cpu", 3}),
                         [](const auto& info) { return std::string(info.param.name) + std::to_string(info.param.threads); });

}  // namespace
