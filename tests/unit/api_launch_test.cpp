// The C API: launches, their arguments, callbacks, budgets, cancellation and threads.
#include "tests/unit/api_fixture.h"
#include "tests/unit/sample.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <thread>

using namespace api_test;

namespace {

tegula_run_options run_options() {
    tegula_run_options run;
    tegula_run_options_init(&run, sizeof run);
    return run;
}

TEST_F(Api, LaunchByPositionAndByName) {
    Owned<float> x("f32", {11}, std::vector<float>(11, 1.5f)), y("f32", {11}, std::vector<float>(11, 2.0f)),
        z("f32", {11}, std::vector<float>(11, 0));
    Diags diags;
    EXPECT_EQ(launch("add", {tensor(x.c), tensor(y.c), tensor(z.c)}, diags), TEGULA_OK) << text(diags);
    EXPECT_EQ(z.values(), std::vector<float>(11, 3.5f));
    EXPECT_EQ(launch("scaled", {tensor(z.c, "z"), tensor(y.c, "x"), real(-0.5, "s")}, diags), TEGULA_OK) << text(diags);
    EXPECT_EQ(z.values(), std::vector<float>(11, -1.0f));
    // Integers are numbers too, and so is a tensor of rank 0.
    EXPECT_EQ(launch("scaled", {tensor(y.c), integer(3), tensor(z.c)}, diags), TEGULA_OK) << text(diags);
    EXPECT_EQ(z.values(), std::vector<float>(11, 6.0f));
    Owned<double> s("f64", {}, {0.25});
    EXPECT_EQ(launch("scaled", {tensor(y.c), tensor(s.c), tensor(z.c)}, diags), TEGULA_OK) << text(diags);
    EXPECT_EQ(z.values(), std::vector<float>(11, 0.5f));
}

TEST_F(Api, KernelsOfImports) {
    constexpr std::string_view source = "import std.matmul as mm;\ntype narrow = i8;\n";
    ASSERT_EQ(tegula_module_from_source(engine.get(), "importer.tile", source.data(), source.size(), module.out(), nullptr), TEGULA_OK);
    Owned<float> x("f32", {3, 5}, std::vector<float>(15, 0.5f)), y("f32", {3, 7}, std::vector<float>(21, 0));
    Owned<int8_t> w("narrow", {7, 5}, std::vector<int8_t>(35, -3));
    Diags diags;
    // Types are those that the host's module sees.
    ASSERT_EQ(launch("mm.plain", {tensor(x.c), tensor(w.c), tensor(y.c)}, diags), TEGULA_OK) << text(diags);
    EXPECT_EQ(y.values(), std::vector<float>(21, -7.5f));
    // An operand that is not there is a vector without elements, and storage.
    const int64_t nothing = 0;
    tegula_tensor no{};
    no.type = "f32", no.rank = 1, no.extents = &nothing;
    Owned<float> bias("f32", {7}, std::vector<float>(7, 0.5f));
    ASSERT_EQ(launch("mm.scaled", {tensor(x.c), tensor(w.c), tensor(no), tensor(no), tensor(bias.c), tensor(y.c)}, diags), TEGULA_OK) << text(diags);
    EXPECT_EQ(y.values(), std::vector<float>(21, -7.0f));
    tegula_value types[3]{};
    for (size_t i = 0; i < 3; ++i) {
        types[i].name = &"A\0W\0O"[2 * i];
        types[i].kind = TEGULA_TYPE;
        types[i].type = i == 1 ? "narrow" : "f32";
    }
    tegula::Ref<tegula_kernel> compiled;
    ASSERT_EQ(tegula_compile(module.get(), "mm.plain", types, 3, nullptr, compiled.out(), diags.out()), TEGULA_OK) << text(diags);
    const tegula_value args[] = {tensor(x.c), tensor(w.c), tensor(y.c)};
    std::fill_n(x.bytes.begin(), 60, uint8_t{0});
    EXPECT_EQ(tegula_kernel_launch(compiled.get(), args, 3, nullptr, diags.out()), TEGULA_OK) << text(diags);
    EXPECT_EQ(y.values(), std::vector<float>(21, 0));
    tegula::Ref<tegula_blob> json;
    EXPECT_EQ(tegula_kernel_artifact(compiled.get(), "explain@sm_90a", json.out(), diags.out()), TEGULA_OK) << text(diags);
    EXPECT_EQ(tegula_plan(module.get(), "mm.plain", nullptr, 0, args, 3, json.out(), diags.out()), TEGULA_OK) << text(diags);
    EXPECT_EQ(tegula_module_artifact(module.get(), "json:mm", json.out(), diags.out()), TEGULA_OK) << text(diags);
    size_t size = 0;
    const char* described = tegula_blob_data(json.get(), &size);
    EXPECT_TRUE(contains({described, size}, "\"name\":\"grouped_zeros\""));
    for (const char* name : {"mm.plian", "matmul.plain", "mm.", ".plain", "mm.plain.x", "plain"}) {
        EXPECT_EQ(launch(name, {tensor(x.c), tensor(w.c), tensor(y.c)}, diags), TEGULA_E_USAGE) << name;
        EXPECT_TRUE(contains(text(diags), "T1000")) << text(diags);
    }
    EXPECT_EQ(tegula_module_artifact(module.get(), "json:matmul", json.out(), diags.out()), TEGULA_E_USAGE);
}

TEST_F(Api, StridesAndUnalignedStorage) {
    // A 2 x 3 matrix inside rows of 4, at an odd address; and its result transposed.
    std::vector<uint8_t> in(1 + 8 * 4), out(1 + 6 * 4, 0);
    for (int i = 0; i < 8; ++i) {
        const float v = static_cast<float>(i);
        std::memcpy(in.data() + 1 + 4 * i, &v, 4);
    }
    const int64_t extents[] = {2, 3}, pitch[] = {4, 1}, turned[] = {1, 2};
    tegula_tensor x{}, y{};
    x.data = in.data() + 1, x.bytes = 7 * 4, x.type = "f32", x.rank = 2, x.extents = extents, x.strides = pitch;
    y.data = out.data() + 1, y.bytes = 6 * 4, y.type = "f32", y.rank = 2, y.extents = extents, y.strides = turned;
    Diags diags;
    ASSERT_EQ(launch("matrix", {tensor(x), tensor(y)}, diags), TEGULA_OK) << text(diags);
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 3; ++j) {
            float v;
            std::memcpy(&v, out.data() + 1 + 4 * (j * 2 + i), 4);
            EXPECT_EQ(v, static_cast<float>(i * 4 + j + 1));
        }
    x.bytes = 7 * 4 - 1;
    EXPECT_EQ(launch("matrix", {tensor(x), tensor(y)}, diags), TEGULA_E_ARGUMENTS);
    const int64_t negative[] = {-4, 1}, far[] = {INT64_MAX, INT64_MAX};
    for (const int64_t* strides : {negative, far}) {
        x.strides = strides;
        EXPECT_EQ(launch("matrix", {tensor(x), tensor(y)}, diags), TEGULA_E_ARGUMENTS);
        EXPECT_TRUE(contains(text(diags), "stride")) << text(diags);
    }
}

TEST_F(Api, EveryMismatchIsInOneErrorAndNothingIsWritten) {
    Owned<float> x("f32", {8}, std::vector<float>(8, 1)), z("f32", {6}, std::vector<float>(6, 7));
    Owned<int32_t> y("i32", {9}, std::vector<int32_t>(9, 1));
    x.c.bytes = 31;
    Diags diags;
    EXPECT_EQ(launch("add", {tensor(x.c), tensor(y.c), tensor(z.c)}, diags), TEGULA_E_ARGUMENTS);
    EXPECT_EQ(tegula_diags_count(diags.get()), 1u) << text(diags);
    for (const char* part : {"`x`: the storage has 31 bytes, type, extents and layout need 32", "`y`: element type is f32, got i32",
                             "`y`: extent 0 is N = 8 from `x`, got 9", "`z`: extent 0 is N = 8 from `x`, got 6"})
        EXPECT_TRUE(contains(text(diags), part)) << part << "\n" << text(diags);
    EXPECT_EQ(z.values(), std::vector<float>(6, 7));
}

TEST_F(Api, BadTensorsAreArgumentErrors) {
    Owned<float> good("f32", {8}, std::vector<float>(8, 1)), z("f32", {8}, std::vector<float>(8, 7));
    const auto refused = [&](const tegula_value& x, const char* part) {
        Diags diags;
        EXPECT_EQ(launch("add", {x, tensor(good.c), tensor(z.c)}, diags), TEGULA_E_ARGUMENTS) << part;
        EXPECT_EQ(tegula_diags_count(diags.get()), 1u) << text(diags);
        EXPECT_TRUE(contains(text(diags), part)) << part << "\n" << text(diags);
        EXPECT_EQ(z.values(), std::vector<float>(8, 7));
    };
    const auto with = [&](auto change, const char* part) {
        tegula_tensor t = good.c;
        change(t);
        refused(tensor(t), part);
    };
    with([](auto& t) { t.type = nullptr; }, "element type is NULL");
    with([](auto& t) { t.type = "f33"; }, "`f33` is not an element type");
    with([](auto& t) { t.type = "((((((("; }, "is not an element type");
    with([](auto& t) { t.rank = 9; }, "rank 9");
    with([](auto& t) { t.rank = -1; }, "rank -1");
    with([](auto& t) { t.rank = INT32_MAX; }, "rank");
    with([](auto& t) { t.extents = nullptr; }, "extents are NULL");
    with([](auto& t) { t.data = nullptr; }, "data pointer is NULL");
    with([](auto& t) { t.layout = "diagonal"; }, "`diagonal` is not a layout");
    with([](auto& t) { t.layout = "panels<4>"; }, "rank 2");
    with(
        [](auto& t) {
            t.type = "mx";
            t.scales = nullptr;
        },
        "scales need");
    float scale = 1;
    with([&](auto& t) { t.scales = &scale; }, "`f32` has none");
    with([&](auto& t) { t.tensor_scale = &scale; }, "`f32` has none");
    const int64_t huge = int64_t{1} << 40, most = INT64_MAX, negative = -1;
    with([&](auto& t) { t.extents = &huge; }, "4398046511104");
    with([&](auto& t) { t.extents = &most; }, "does not fit in memory");
    with([&](auto& t) { t.extents = &negative; }, "negative");
    tegula_value v{};
    v.kind = TEGULA_TENSOR;
    refused(v, "tensor is NULL");
    v.kind = TEGULA_TYPE;
    refused(v, "got a type");
    std::memset(&v.kind, 0x55, sizeof v.kind);
    refused(v, "tegula_value_kind");
    refused(real(1.0), "expected a tensor, got a scalar");
    Diags diags;
    EXPECT_EQ(launch("add", {tensor(good.c), tensor(good.c)}, diags), TEGULA_E_ARGUMENTS);
    EXPECT_TRUE(contains(text(diags), "`z`: missing argument"));
    EXPECT_EQ(launch("add", {tensor(good.c), tensor(good.c), tensor(z.c), integer(1)}, diags), TEGULA_E_ARGUMENTS);
    EXPECT_EQ(launch("add", {tensor(good.c, "x"), tensor(good.c, "x"), tensor(z.c)}, diags), TEGULA_E_ARGUMENTS);
    EXPECT_EQ(launch("add", {tensor(good.c, "w\x1b")}, diags), TEGULA_E_ARGUMENTS);
    EXPECT_FALSE(contains(text(diags), "\x1b"));
}

TEST_F(Api, NumbersForScalarParameters) {
    Owned<float> z("f32", {4}, std::vector<float>(4, 7)), one("f32", {}, {1.5f});
    Owned<int64_t> three("i64", {}, {3});
    Diags diags;
    EXPECT_EQ(launch("counted", {tensor(three.c), tensor(one.c), tensor(one.c), tensor(z.c)}, diags), TEGULA_OK) << text(diags);
    EXPECT_EQ(z.values(), (std::vector<float>{3, 3, 3, 7}));
    EXPECT_EQ(launch("counted", {real(2.0), integer(2), real(0.25), tensor(z.c)}, diags), TEGULA_OK) << "a real without a fraction is an integer too";
    EXPECT_EQ(z.values(), (std::vector<float>{2.25f, 2.25f, 3, 7}));
    EXPECT_EQ(launch("counted", {integer(1), real(std::numeric_limits<double>::infinity()), real(0), tensor(z.c)}, diags), TEGULA_OK);
    z.bytes[0] = 0;
    const auto refused = [&](const tegula_value& n, const tegula_value& h, const char* part) {
        EXPECT_EQ(launch("counted", {n, h, real(1), tensor(z.c)}, diags), TEGULA_E_ARGUMENTS) << part;
        EXPECT_TRUE(contains(text(diags), part)) << text(diags);
        EXPECT_EQ(z.bytes[0], 0);
        tegula_blob* json = nullptr;
        const tegula_value args[] = {n, h, real(1), tensor(z.c)};
        EXPECT_EQ(tegula_plan(module.get(), "counted", nullptr, 0, args, 4, &json, diags.out()), TEGULA_E_ARGUMENTS) << part;
    };
    refused(real(2.5), real(1), "`n`: expected i64, got 2.5");
    refused(integer(1), real(1e9), "`h`: expected f16, got 1e+09");  // not infinity
    refused(integer(1), integer(100000), "`h`: expected f16, got 100000");
    tegula_tensor t = three.c;
    t.data = nullptr;
    refused(tensor(t), real(1), "`n`: the data pointer is NULL");
    t = three.c;
    t.device_type = TEGULA_CUDA;
    refused(tensor(t), real(1), "`n`: the number lies in the memory of a device");
    t = three.c;
    t.bytes = 4;
    refused(tensor(t), real(1), "`n`: the storage has 4 bytes");
}

TEST_F(Api, HugeExtentsOfOutputsAndGrids) {
    const int64_t huge = int64_t{1} << 40;
    size_t bytes = 0;
    EXPECT_EQ(tegula_tensor_bytes(module.get(), "f32", nullptr, &huge, 1, &bytes, nullptr, nullptr), TEGULA_OK);
    EXPECT_EQ(bytes, size_t{1} << 42);
    Owned<float> z("f32", {8}, std::vector<float>(8, 7));
    Diags diags;
    EXPECT_EQ(launch("long_run", {integer(int64_t{1} << 40), tensor(z.c)}, diags), TEGULA_E_ARGUMENTS);
    EXPECT_TRUE(contains(text(diags), "grid"));
    EXPECT_EQ(launch("box", {integer(INT32_MAX), integer(INT32_MAX), integer(INT32_MAX), tensor(z.c)}, diags), TEGULA_E_ARGUMENTS) << "2^93 programs";
    // A plan binds and does not run: the largest grid that is allowed, and one more layer of it.
    for (const int64_t more : {0, 1}) {
        const int64_t side = int64_t{1} << 21, height = (int64_t{1} << 20) + more;
        const tegula_value args[] = {integer(side), integer(side), integer(height), tensor(z.c)};
        tegula_blob* json = nullptr;
        EXPECT_EQ(tegula_plan(module.get(), "box", nullptr, 0, args, 4, &json, diags.out()), more ? TEGULA_E_ARGUMENTS : TEGULA_OK) << text(diags);
        EXPECT_EQ(contains(text(diags), "2^62"), more == 1) << text(diags);
        tegula_release(json);
    }
    EXPECT_EQ(z.values(), std::vector<float>(8, 7));
}

TEST_F(Api, PlanInfersOutputs) {
    tegula_blob* json = nullptr;
    Diags diags;
    const int64_t extents[] = {7};
    tegula_tensor x{};
    x.type = "i4", x.rank = 1, x.extents = extents;  // no storage yet
    const tegula_value args[] = {tensor(x, "x"), tensor(x, "y")};
    ASSERT_EQ(tegula_plan(module.get(), "add", nullptr, 0, args, 2, &json, diags.out()), TEGULA_OK) << text(diags);
    const std::string plan = tegula_blob_data(json, nullptr);
    tegula_release(json);
    EXPECT_TRUE(contains(plan, "\"T\":\"i4\"") && contains(plan, "\"N\":7") && contains(plan, "\"grid\":[1,1,1]")) << plan;
    EXPECT_TRUE(contains(plan, "\"name\":\"z\",\"mode\":\"out\",\"type\":\"i4\",\"layout\":\"row\",\"extents\":[7],\"bytes\":4")) << plan;
    EXPECT_EQ(tegula_plan(module.get(), "add", nullptr, 0, args, 1, &json, diags.out()), TEGULA_E_ARGUMENTS);
    EXPECT_EQ(json, nullptr);
    EXPECT_EQ(tegula_plan(module.get(), "nope", nullptr, 0, args, 2, &json, diags.out()), TEGULA_E_USAGE);
}

TEST_F(Api, CheckedRunsBudgetsAndPrint) {
    Owned<int32_t> x("i32", {8}, {1, 2, 0, 4, 5, 6, 7, 8}), z("i32", {8}, std::vector<int32_t>(8, 0));
    tegula_run_options run = run_options();
    Diags diags;
    EXPECT_EQ(launch("divide", {tensor(x.c), tensor(z.c)}, diags, &run), TEGULA_OK);
    run.checked = 1;
    EXPECT_EQ(launch("divide", {tensor(x.c), tensor(z.c)}, diags, &run), TEGULA_E_RUN);
    EXPECT_TRUE(contains(text(diags), "T09")) << text(diags);
    Owned<float> f("f32", {8}, std::vector<float>(8, 0));
    run = run_options();
    run.step_budget = 1000;
    EXPECT_EQ(launch("long_run", {integer(2000000000), tensor(f.c)}, diags, &run), TEGULA_E_RUN);
    EXPECT_TRUE(contains(text(diags), "T0913"));
    run = run_options();
    run.memory_budget = 1;
    run.machine = "interp";  // native code keeps such tiles in registers
    EXPECT_EQ(launch("long_run", {integer(1), tensor(f.c)}, diags, &run), TEGULA_E_RUN);
    EXPECT_TRUE(contains(text(diags), "T0914"));
    std::string printed;
    run = run_options();
    run.user = &printed;
    run.threads = UINT32_MAX;
    run.print = [](void* user, const char* line, size_t size) { static_cast<std::string*>(user)->append(line, size); };
    EXPECT_EQ(launch("talk", {tensor(f.c)}, diags, &run), TEGULA_OK) << text(diags);
    EXPECT_EQ(printed, "program 0\nprogram 1\nprogram 2\n");
}

TEST_F(Api, WhatCallbacksThrowIsTheHosts) {
    struct Host {
        int kind = 0;  ///< of what is thrown
        void raise() const {
            if (kind == 1) throw std::bad_alloc();  // also one of ours would be an error of another kind
            if (kind == 2) throw std::runtime_error("the disk is\x1b full");
            throw 1;
        }
    } host;
    tegula_engine_options options;
    tegula_engine_options_init(&options, sizeof options);
    const tegula_executor executor{[](void* user, uint32_t, void (*call)(void*, uint32_t), void* task) {
                                       call(task, 0);
                                       static_cast<Host*>(user)->raise();
                                   },
                                   &host};
    options.executor = &executor;
    options.user = &host;
    options.load_array = [](void* user, const char*, const char*, tegula_tensor*, char*, size_t) -> tegula_blob* {
        static_cast<Host*>(user)->raise();
        return nullptr;
    };
    tegula::Ref<tegula_engine> own;
    tegula::Ref<tegula_module> owned;
    Diags diags;
    ASSERT_EQ(tegula_engine_new(&options, own.out(), nullptr), TEGULA_OK);
    ASSERT_EQ(tegula_module_from_source(own.get(), "m", kSource, std::strlen(kSource), owned.out(), nullptr), TEGULA_OK);
    Owned<float> z("f32", {8}, std::vector<float>(8, 7));
    const tegula_value one = tensor(z.c), endless[] = {integer(INT64_MAX), tensor(z.c)};
    const auto print = [](void* user, const char*, size_t) { static_cast<Host*>(user)->raise(); };
    const auto progress = [](void* user, uint64_t, uint64_t) -> int { return static_cast<Host*>(user)->raise(), 0; };
    const auto result = [](void* user, const tegula_test_result*) { static_cast<Host*>(user)->raise(); };
    for (host.kind = 0; host.kind < 3; ++host.kind) {
        const auto told = [&](const char* callback, tegula_status status) {
            EXPECT_EQ(status, TEGULA_E_USAGE) << callback;
            const std::string wanted = "the callback `" + std::string(callback) + "` threw an exception" + (host.kind == 0 ? "\n" : ": ");
            EXPECT_TRUE(contains(text(diags), wanted)) << text(diags);
            EXPECT_EQ(contains(text(diags), "the disk is\\x1b full"), host.kind == 2) << text(diags);
        };
        for (const char* machine : {"interp", "cpu"}) {
            tegula_run_options run = run_options();
            run.user = &host;
            run.machine = machine;
            run.threads = 3;
            const tegula_status ran = tegula_launch(owned.get(), "talk", nullptr, 0, &one, 1, &run, diags.out());
            if (ran == TEGULA_E_UNAVAILABLE) continue;  // a library without LLVM
            if (machine[0] == 'c')
                told("executor.run", ran);
            else
                EXPECT_EQ(ran, TEGULA_OK);
            run.print = print;
            for (const uint32_t threads : {1u, 2u})
                for (const uint64_t seed : {0u, 9u}) {
                    run.threads = threads;
                    run.order_seed = seed;
                    told("print", tegula_launch(module.get(), "talk", nullptr, 0, &one, 1, &run, diags.out()));
                    run.checked = 1;
                    told("print", tegula_launch(module.get(), "talk", nullptr, 0, &one, 1, &run, diags.out()));
                    run.checked = 0;
                }
            run.print = nullptr;
            run.progress = progress;
            told("progress", tegula_launch(module.get(), "forever", nullptr, 0, endless, 2, &run, diags.out()));
        }
        told("result", tegula_test(module.get(), "good", nullptr, result, &host, diags.out()));
        told("result", tegula_bench(module.get(), nullptr, nullptr, result, &host, diags.out()));
        told("load_array", tegula_test(owned.get(), "file", nullptr, nullptr, nullptr, diags.out()));
    }
    EXPECT_EQ(z.values(), std::vector<float>(8, 7));
}

TEST(Prints, OfRunsThatFailAppear) {
    constexpr const char* kFailing = R"(
kernel stops(x: tensor<f32>[N], out y: tensor<f32>[N]) grid [5] {
    print("program {}", program_id(0));
    assert(x[program_id(0)] != 3.0, "three");
    y[program_id(0)] = x[program_id(0)];
}
kernel races(out y: tensor<i32>[N]) grid [3] { print("racer {}", program_id(0)); y[0] = cast<i32>(program_id(0)); }
test "asserts" { print("before"); stops(arange<f32>[7](), empty<f32>[7]); }
test "races" { races(empty<i32>[1]); }
)";
    tegula::Ref<tegula_engine> engine;
    tegula::Ref<tegula_module> module;
    Diags diags;
    ASSERT_EQ(tegula_engine_new(nullptr, engine.out(), nullptr), TEGULA_OK);
    ASSERT_EQ(tegula_module_from_source(engine.get(), "m", kFailing, std::strlen(kFailing), module.out(), diags.out()), TEGULA_OK) << text(diags);
    Owned<float> x("f32", {7}, {0, 1, 2, 3, 4, 5, 6}), y("f32", {7}, std::vector<float>(7));
    Owned<int32_t> one("i32", {1}, {0});
    const tegula_value asserts[] = {tensor(x.c), tensor(y.c)}, races = tensor(one.c);
    std::string printed;
    tegula_run_options run = run_options();
    run.user = &printed;
    run.print = [](void* user, const char* line, size_t size) { static_cast<std::string*>(user)->append(line, size); };
    const auto count = [&](const std::string& part) {
        size_t n = 0;
        for (size_t at = printed.find(part); at != std::string::npos; at = printed.find(part, at + 1)) ++n;
        return n;
    };
    for (const char* machine : {static_cast<const char*>(nullptr), "interp", "cpu"})
        for (const int32_t checked : {0, 1, 2})
            for (const uint64_t seed : {0, 5}) {
                run.machine = machine, run.checked = checked, run.order_seed = seed;
                printed.clear();
                const tegula_status status = tegula_launch(module.get(), "stops", nullptr, 0, asserts, 2, &run, diags.out());
                if (status == TEGULA_E_UNAVAILABLE) continue;
                SCOPED_TRACE(std::string(machine ? machine : "default") + " checked " + std::to_string(checked) + " seed " + std::to_string(seed));
                EXPECT_EQ(status, TEGULA_E_RUN) << text(diags);
                EXPECT_EQ(count("program 3\n"), 1u) << "the program that fails has printed before\n" << printed;
                if (checked != 1) continue;
                printed.clear();
                EXPECT_EQ(tegula_launch(module.get(), "races", nullptr, 0, &races, 1, &run, diags.out()), TEGULA_E_RUN) << text(diags);
                EXPECT_EQ(count("racer 0\n"), 1u) << printed;
            }
    for (const char* machine : {static_cast<const char*>(nullptr), "interp", "cpu"}) {
        run = run_options();
        run.user = &printed;
        run.print = [](void* user, const char* line, size_t size) { static_cast<std::string*>(user)->append(line, size); };
        run.machine = machine, run.checked = 1;
        printed.clear();
        const tegula_status status = tegula_test(module.get(), nullptr, &run, nullptr, nullptr, diags.out());
        if (status == TEGULA_E_UNAVAILABLE) continue;
        EXPECT_EQ(status, TEGULA_E_RUN);
        EXPECT_EQ(count("before\n"), 1u) << printed;
        EXPECT_EQ(count("program 3\n"), 1u) << printed;
        EXPECT_EQ(count("racer 0\n"), 1u) << printed;
    }
}

TEST_F(Api, PrintsOfARunThatIsEndedByProgressAppear) {
    std::string printed;
    Owned<float> z("f32", {8}, std::vector<float>(8, 0));
    tegula_run_options run = run_options();
    run.user = &printed;
    run.threads = 2;
    run.print = [](void* user, const char* line, size_t size) { static_cast<std::string*>(user)->append(line, size); };
    run.progress = [](void*, uint64_t, uint64_t) { return 1; };
    for (const char* machine : {"interp", "cpu"}) {
        run.machine = machine;
        Diags diags;
        printed.clear();
        const tegula_status status = launch("says_forever", {integer(INT64_MAX), tensor(z.c)}, diags, &run);
        if (status == TEGULA_E_UNAVAILABLE) continue;
        EXPECT_EQ(status, TEGULA_E_CANCELLED) << text(diags);
        EXPECT_TRUE(contains(printed, "begins 0\n")) << machine << ": " << printed;
    }
}

TEST_F(Api, ProgressEndsItsOwnRunOnly) {
    Owned<float> z("f32", {8}, std::vector<float>(8, 0)), other("f32", {8}, std::vector<float>(8, 0));
    std::atomic<int> calls{0};
    tegula_run_options run = run_options();
    run.user = &calls;
    run.progress = [](void* user, uint64_t done, uint64_t all) {
        return all == 2000000000 && done <= all && ++*static_cast<std::atomic<int>*>(user) == 2 ? 1 : 0;
    };
    tegula_status beside = TEGULA_E_INTERNAL;
    std::thread second([&] {
        // Not cancelled, so it ends by its budget.
        tegula_run_options budget = run_options();
        budget.step_budget = 5000000;
        budget.threads = 1;
        Diags diags;
        beside = launch("long_run", {integer(2000000000), tensor(other.c)}, diags, &budget);
    });
    Diags diags;
    EXPECT_EQ(launch("long_run", {integer(2000000000), tensor(z.c)}, diags, &run), TEGULA_E_CANCELLED);
    EXPECT_TRUE(contains(text(diags), "T0915"));
    EXPECT_EQ(calls, 2);
    second.join();
    EXPECT_EQ(beside, TEGULA_E_RUN);
    EXPECT_EQ(launch("long_run", {integer(3), tensor(z.c)}, diags), TEGULA_OK) << "the engine is not cancelled";
}

TEST_F(Api, ProgressIsToldWithinAProgram) {
    for (const char* machine : {"interp", "cpu"}) {
        Owned<float> z("f32", {8}, std::vector<float>(8, 7));
        tegula_run_options run = run_options();
        run.machine = machine;
        run.progress = [](void*, uint64_t done, uint64_t all) { return done <= 1 && all == 1 ? 1 : 0; };
        Diags diags;
        const tegula_status status = launch("forever", {integer(INT64_MAX), tensor(z.c)}, diags, &run);
        if (status == TEGULA_E_UNAVAILABLE) continue;  // a library without LLVM
        EXPECT_EQ(status, TEGULA_E_CANCELLED) << machine;
        EXPECT_EQ(z.values(), std::vector<float>(8, 7));
    }
}

tegula::Ref<tegula_module> load(tegula_engine* engine, const char* source) {
    tegula::Ref<tegula_module> module;
    Diags diags;
    EXPECT_EQ(tegula_module_from_source(engine, "own.tile", source, std::strlen(source), module.out(), diags.out()), TEGULA_OK) << text(diags);
    return module;
}

TEST_F(Api, ProgressAndBudgetsHoldForStatementsOfTests) {
    // Each of them takes longer than progress waits, and no longer than it must.
    const std::string size = std::to_string(tegula::test::is_sanitized() ? 1 << 21 : 1 << 24);
    const std::string source = R"(
const SIZE = )" + size + R"(;
kernel one(out y: tensor<f32>[N]) grid [N] { y[program_id(0)] = 1.0; }
fn twice(n: int) -> int { if const n == 0 { return 1; } return twice(n - 1) + twice(n - 1); }
test "passes" { while true { } }
test "launches" { let y = empty<f32>[3]; while true { one(y); } }
test "expected failures" { while true { assert_fails(load_npy("nowhere.npy")); } }
test "making" { let x = randn<f32>[SIZE]; }
test "comparing" { let x = zeros<u8>[SIZE]; while true { assert_equal(x, x); } }
test "recursion" { while true { let n = twice(12); } }
test "sorting" { let x = sort(randn<f32>[SIZE / 4]); }
)";
    const auto own = load(engine.get(), source.c_str());
    for (const char* name : {"passes", "launches", "expected failures", "making", "comparing", "recursion", "sorting"}) {
        tegula_run_options run = run_options();
        run.machine = "interp";
        run.progress = [](void*, uint64_t, uint64_t all) { return all == 0 ? 1 : 0; };
        Diags diags;
        EXPECT_EQ(tegula_test(own.get(), name, &run, nullptr, nullptr, diags.out()), TEGULA_E_CANCELLED) << name << text(diags);
        run = run_options();
        run.machine = "interp";
        run.step_budget = 500;
        run.memory_budget = uint64_t{1} << 24;
        EXPECT_NE(tegula_test(own.get(), name, &run, nullptr, nullptr, diags.out()), TEGULA_OK) << name;
    }
}

TEST_F(Api, NumbersAreGivenExactlyOrRefused) {
    const auto own = load(engine.get(), R"(
kernel keep<S: u64 = 0, F: f32 = 0.0>(c: u64, out y: tensor<u64>[2]) { y[0] = c; y[1] = S; }
kernel real(c: f32, out y: tensor<f32>[1]) { y[0] = c; }
)");
    Owned<uint64_t> y("u64", {2}, {0, 0});
    Owned<float> r("f32", {1}, {0});
    const auto unsigned_of = [](uint64_t number, const char* name = nullptr) {
        tegula_value v = integer(static_cast<int64_t>(number), name);
        v.kind = TEGULA_UINT;
        return v;
    };
    Diags diags;
    const auto run = [&](const char* kernel, tegula_value c, const tegula_tensor& out, std::vector<tegula_value> generics = {}) {
        const tegula_value args[] = {c, tensor(out)};
        return tegula_launch(own.get(), kernel, generics.data(), generics.size(), args, 2, nullptr, diags.out());
    };
    EXPECT_EQ(run("keep", unsigned_of(UINT64_MAX), y.c, {unsigned_of(UINT64_MAX - 1, "S")}), TEGULA_OK) << text(diags);
    EXPECT_EQ(y.values(), (std::vector<uint64_t>{UINT64_MAX, UINT64_MAX - 1}));
    EXPECT_EQ(run("keep", unsigned_of(7), y.c), TEGULA_OK);
    EXPECT_EQ(run("keep", real(0x1p63), y.c), TEGULA_OK) << "a real that is whole";
    EXPECT_EQ(y.values(), (std::vector<uint64_t>{uint64_t{1} << 63, 0}));
    EXPECT_EQ(run("keep", integer(-1), y.c), TEGULA_E_ARGUMENTS);
    EXPECT_EQ(run("keep", real(0x1p64), y.c), TEGULA_E_ARGUMENTS);
    EXPECT_EQ(run("keep", real(0.5), y.c), TEGULA_E_ARGUMENTS);
    EXPECT_EQ(run("keep", integer(1), y.c, {integer(-1, "S")}), TEGULA_E_ARGUMENTS);
    EXPECT_EQ(run("keep", integer(1), y.c, {real(1e39, "F")}), TEGULA_E_ARGUMENTS);
    EXPECT_EQ(run("keep", integer(1), y.c, {integer(16777217, "F")}), TEGULA_E_ARGUMENTS);
    EXPECT_EQ(run("real", integer(16777217), r.c), TEGULA_E_ARGUMENTS) << "f32 does not hold it";
    EXPECT_EQ(run("real", unsigned_of(uint64_t{1} << 63), r.c), TEGULA_OK);
    EXPECT_EQ(r.values(), std::vector<float>{0x1p63f});
    EXPECT_EQ(run("real", real(0.1), r.c), TEGULA_OK) << "reals take one rounding";
    EXPECT_EQ(r.values(), std::vector<float>{0.1f});
    Owned<double> scalar("f64", {}, {0.1});
    EXPECT_EQ(run("real", tensor(scalar.c), r.c), TEGULA_E_ARGUMENTS) << "numbers that have a type do not";
    const tegula::Value wrapped(UINT64_MAX);
    EXPECT_EQ(tegula::Values(std::span(&wrapped, 1)).data()->kind, TEGULA_UINT);
}

TEST_F(Api, CancelFromAnotherThread) {
    Owned<float> z("f32", {8}, std::vector<float>(8, 0));
    std::thread canceller([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        tegula_cancel(engine.get(), 1);
    });
    Diags diags;
    const auto before = std::chrono::steady_clock::now();
    EXPECT_EQ(launch("long_run", {integer(2000000000), tensor(z.c)}, diags), TEGULA_E_CANCELLED);
    EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(20));
    canceller.join();
    z.bytes[0] = 1;
    EXPECT_EQ(launch("long_run", {integer(1), tensor(z.c)}, diags), TEGULA_E_CANCELLED) << "until it is taken back";
    EXPECT_EQ(z.bytes[0], 1);
    EXPECT_EQ(tegula_test(module.get(), "good", nullptr, nullptr, nullptr, diags.out()), TEGULA_E_CANCELLED);
    tegula_cancel(engine.get(), 0);
    EXPECT_EQ(launch("long_run", {integer(1), tensor(z.c)}, diags), TEGULA_OK);
}

struct Results {
    std::vector<std::string> names, metrics, texts;
    std::vector<tegula_status> statuses;
};
void collect(void* user, const tegula_test_result* r) {
    auto& results = *static_cast<Results*>(user);
    results.names.push_back(r->name);
    results.statuses.push_back(r->status);
    results.metrics.push_back(r->metrics ? r->metrics : "");
    results.texts.push_back(r->diags ? tegula_diags_text(r->diags, 0) : "");
}

TEST_F(Api, TestsAndBenches) {
    Results results;
    Diags diags;
    EXPECT_EQ(tegula_test(module.get(), nullptr, nullptr, collect, &results, diags.out()), TEGULA_E_IO);  // the last failure's
    EXPECT_EQ(results.names, (std::vector<std::string>{"good", "bad", "file"}));
    EXPECT_EQ(results.statuses, (std::vector<tegula_status>{TEGULA_OK, TEGULA_E_MISMATCH, TEGULA_E_IO}));
    EXPECT_TRUE(contains(results.texts[1], "3 of 3 values differ"));
    EXPECT_EQ(tegula_test(module.get(), "goo", nullptr, nullptr, nullptr, diags.out()), TEGULA_OK);
    Results benches;
    EXPECT_EQ(tegula_bench(module.get(), "adds", nullptr, collect, &benches, diags.out()), TEGULA_OK) << text(diags);
    EXPECT_EQ(benches.metrics, (std::vector<std::string>{"{\"N\":64,\"bytes\":768}", "{\"N\":128,\"bytes\":1536}"}));
    tegula_run_options run = run_options();
    run.machine = "nope";
    EXPECT_EQ(tegula_bench(module.get(), nullptr, &run, collect, &benches, diags.out()), TEGULA_E_UNAVAILABLE);
    EXPECT_EQ(benches.names.size(), 2u);
}

TEST_F(Api, ManyThreadsShareEngines) {
    tegula::Ref<tegula_engine> second;
    tegula::Ref<tegula_module> other;
    ASSERT_EQ(tegula_engine_new(nullptr, second.out(), nullptr), TEGULA_OK);
    ASSERT_EQ(tegula_module_from_source(second.get(), "m", kSource, std::strlen(kSource), other.out(), nullptr), TEGULA_OK);
    std::atomic<int> failures{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 16; ++t)
        threads.emplace_back([&, t] {
            tegula_module* m = t % 4 == 3 ? other.get() : module.get();
            for (int round = 0; round < 6; ++round) {
                const int64_t n = 5 + t + round;
                Owned<float> x("f32", {n}, std::vector<float>(static_cast<size_t>(n), static_cast<float>(t)));
                Owned<float> z("f32", {n}, std::vector<float>(static_cast<size_t>(n), -1));
                const tegula_value b = integer(1 << (round % 3 + t % 2), "B"), args[] = {tensor(x.c), tensor(x.c), tensor(z.c)};
                Diags diags;
                if (tegula_launch(m, "add", &b, 1, args, 3, nullptr, diags.out()) != TEGULA_OK) ++failures;
                if (z.values() != std::vector<float>(static_cast<size_t>(n), static_cast<float>(2 * t))) ++failures;
                // Errors, module loads and types written as text at the same time.
                tegula::Ref<tegula_module> fresh;
                const std::string source = "import std.quant;\nkernel k(x: tensor<f32>[N]) grid [1] { print(\"\"); } fn f() { return " +
                                           std::string(round % 2 ? "1" : "oops") + "; }";
                tegula_module_from_source(t % 2 ? engine.get() : second.get(), "fresh", source.data(), source.size(), fresh.out(), diags.out());
                if (text(diags).empty() != (round % 2 == 1)) ++failures;
                size_t bytes = 0;
                if (tegula_tensor_bytes(m, "float<3, 2>", "panels<4>", std::vector<int64_t>{4, 8}.data(), 2, &bytes, nullptr, nullptr) != TEGULA_OK ||
                    bytes != 24)
                    ++failures;
            }
        });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(failures, 0);
}

}  // namespace
