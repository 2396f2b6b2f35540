// The C API's GPU side: misuse on machines without a GPU, DLPack in and out, and one prepared launch in device memory where there is a driver (ctest
// runs it on the GPU that the CPU plays).
#include <atomic>
#include <chrono>
#include <cstddef>
#include <thread>

#include "jit/cuda/driver.h"
#include "jit/engine/dlpack.h"
#include "tests/unit/api_fixture.h"

namespace {

using namespace api_test;
namespace dlpack = tegula::dlpack;

class GpuApi : public Api {
protected:
    GpuApi() { tegula_run_options_init(&interp_, sizeof interp_), interp_.machine = "interp"; }
    tegula_status prepare(const char* kernel, const std::vector<tegula_value>& args, Diags& diags, const tegula_run_options* options) {
        return tegula_prepare(module.get(), kernel, nullptr, 0, args.data(), args.size(), options, prepared_.out(), diags.out());
    }
    tegula_run_options interp_;
    tegula::Ref<tegula_prepared> prepared_;
    const std::vector<float> values_ = {1, 2, 3, 4, 5, 6, 7, 8, 9};
};

// ---- misuse ----

TEST_F(GpuApi, VersionOfTheAbi) {
    EXPECT_EQ(TEGULA_ABI_VERSION, 3u);
    EXPECT_EQ(tegula_abi_version(), 3u);
}

TEST_F(GpuApi, NullsAreUsageErrors) {
    Diags diags;
    tegula_prepared* out = reinterpret_cast<tegula_prepared*>(8);
    EXPECT_EQ(tegula_prepare(nullptr, "add", nullptr, 0, nullptr, 0, nullptr, &out, diags.out()), TEGULA_E_USAGE);
    EXPECT_EQ(out, nullptr);
    EXPECT_TRUE(contains(text(diags), "NULL"));
    EXPECT_EQ(tegula_prepare(module.get(), nullptr, nullptr, 0, nullptr, 0, nullptr, &out, nullptr), TEGULA_E_USAGE);
    EXPECT_EQ(tegula_prepare(module.get(), "add", nullptr, 0, nullptr, 0, nullptr, nullptr, nullptr), TEGULA_E_USAGE);
    EXPECT_EQ(tegula_prepare(module.get(), "add", nullptr, 1, nullptr, 0, &interp_, &out, nullptr), TEGULA_E_USAGE);
    EXPECT_EQ(tegula_prepare(module.get(), "add", nullptr, 0, nullptr, 3, &interp_, &out, nullptr), TEGULA_E_USAGE);
    EXPECT_EQ(tegula_prepare(module.get(), "nobody", nullptr, 0, nullptr, 0, &interp_, &out, nullptr), TEGULA_E_USAGE);
    EXPECT_EQ(tegula_enqueue(nullptr, nullptr), TEGULA_E_USAGE);
    EXPECT_EQ(tegula_collect(nullptr, nullptr, nullptr, diags.out()), TEGULA_E_USAGE);
    EXPECT_TRUE(contains(text(diags), "prepared is NULL"));
}

TEST_F(GpuApi, DeviceTypes) {
    Diags diags;
    Owned<float> x("f32", {9}, values_), y("f32", {9}, values_), z("f32", {9}, values_);
    for (const int32_t type : {1, 3, -1, 99}) {
        x.c.device_type = type;
        EXPECT_EQ(launch("add", {tensor(x.c), tensor(y.c), tensor(z.c)}, diags, &interp_), TEGULA_E_ARGUMENTS) << type;
        EXPECT_TRUE(contains(text(diags), "device_type " + std::to_string(type) + " is unknown")) << text(diags);
    }
    // Device memory is never touched by the interpreter: this address would end the process.
    x.c.device_type = TEGULA_CUDA;
    x.c.data = reinterpret_cast<void*>(uintptr_t{4096});
    EXPECT_EQ(launch("add", {tensor(x.c), tensor(y.c), tensor(z.c)}, diags, &interp_), TEGULA_E_ARGUMENTS);
    EXPECT_TRUE(contains(text(diags), "device memory")) << text(diags);
    EXPECT_EQ(tegula_tensor_copy(module.get(), &y.c, &x.c, diags.out()), TEGULA_E_ARGUMENTS);
    EXPECT_TRUE(contains(text(diags), "`from`: it lies in device memory")) << text(diags);
    EXPECT_EQ(tegula_tensor_copy(module.get(), &x.c, &y.c, diags.out()), TEGULA_E_ARGUMENTS);
    EXPECT_TRUE(contains(text(diags), "`to`: it lies in device memory")) << text(diags);
    EXPECT_EQ(z.values(), values_);
}

TEST_F(GpuApi, OptionsOfOlderHosts) {
    Diags diags;
    Owned<float> x("f32", {9}, values_), y("f32", {9}, values_), z("f32", {9}, values_);
    tegula_run_options run = interp_;
    run.struct_size = offsetof(tegula_run_options, model);
    run.model = "sm_1";  // behind the end of the structure of that time: not read
    run.stream = reinterpret_cast<void*>(uintptr_t{8});
    EXPECT_EQ(launch("add", {tensor(x.c), tensor(y.c), tensor(z.c)}, diags, &run), TEGULA_OK) << text(diags);
    EXPECT_EQ(z.values()[8], 18.0f);
    run.struct_size = sizeof run;
    EXPECT_EQ(launch("add", {tensor(x.c), tensor(y.c), tensor(z.c)}, diags, &run), TEGULA_E_USAGE);
    EXPECT_TRUE(contains(text(diags), "sm_1")) << text(diags);
    run.model = "sm_90a";
    EXPECT_EQ(launch("add", {tensor(x.c), tensor(y.c), tensor(z.c)}, diags, &run), TEGULA_OK) << text(diags);
}

/// What works before any compiler of machine code does.
TEST_F(GpuApi, CancelledPasses) {
    const std::string source =
        "kernel long_body(x: tensor<f32>[N], out y: tensor<f32>[N]) grid [cdiv(N, 64)] {\n    let n = program_id(0) * 64;\n"
        "    var a = x[n +: 64];\n    for const i in 0 .. 12000 { a = a * x[n + i +: 64] + 1.5; }\n    y[n +: 64] = a;\n}\n";
    Diags diags;
    ASSERT_EQ(tegula_module_from_source(engine.get(), "long.tile", source.data(), source.size(), module.out(), diags.out()), TEGULA_OK)
        << text(diags);
    Owned<float> x("f32", {9}, values_), y("f32", {9}, values_);
    EXPECT_EQ(cancelled(std::chrono::milliseconds(20),
                        [&] {
                            return launch("long_body", {tensor(x.c), tensor(y.c)}, diags, &interp_);
                        }),
              TEGULA_E_CANCELLED);
    EXPECT_EQ(y.values(), values_);
    tegula::Ref<tegula_kernel> kernel;
    tegula::Ref<tegula_blob> form;
    ASSERT_EQ(tegula_compile(module.get(), "long_body", nullptr, 0, &interp_, kernel.out(), diags.out()), TEGULA_OK) << text(diags);
    for (const char* kind : {"ir:gpu", "explain", "cuda"})
        EXPECT_EQ(cancelled(std::chrono::milliseconds(400), [&] { return tegula_kernel_artifact(kernel.get(), kind, form.out(), diags.out()); }),
                  TEGULA_E_CANCELLED)
            << kind;
    EXPECT_TRUE(contains(text(diags), "T0915")) << text(diags);
}

// ---- DLPack ----

void count(void* n) { ++*static_cast<int*>(n); }

TEST_F(GpuApi, DlpackIn) {
    Diags diags;
    std::vector<float> memory(24);
    for (size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<float>(i);
    int64_t shape[] = {3, 16}, strides[] = {1, 0};
    dlpack::ManagedTensor plain{};
    plain.dl_tensor = {memory.data(), {dlpack::kCpu, 0}, 2, {2, 32, 1}, shape, strides, 4};
    tegula_tensor x{};
    int32_t read_only = 7;
    ASSERT_EQ(tegula_tensor_from_dlpack(module.get(), &plain, 0, &x, &read_only, diags.out()), TEGULA_OK) << text(diags);
    EXPECT_EQ(read_only, 0);
    EXPECT_STREQ(x.type, "f32");
    EXPECT_EQ(x.strides[0], 1);
    EXPECT_EQ(x.device_type, TEGULA_HOST);
    EXPECT_EQ(x.bytes, 12u);
    // y[i, j] = x[i, j] + 1, where every row of x repeats memory[1 + i].
    Owned<float> y("f32", {3, 16}, std::vector<float>(48));
    ASSERT_EQ(launch("matrix", {tensor(x), tensor(y.c)}, diags, &interp_), TEGULA_OK) << text(diags);
    for (size_t i = 0; i < 48; ++i) EXPECT_EQ(y.values()[i], static_cast<float>(i / 16 + 2));

    dlpack::VersionedTensor versioned{};
    versioned.major = 1;
    versioned.flags = dlpack::kReadOnly;
    versioned.dl_tensor = plain.dl_tensor;
    versioned.dl_tensor.device = {dlpack::kCuda, 3};
    versioned.dl_tensor.strides = nullptr;
    ASSERT_EQ(tegula_tensor_from_dlpack(module.get(), &versioned, 1, &x, &read_only, nullptr), TEGULA_OK);
    EXPECT_EQ(read_only, 1);
    EXPECT_EQ(x.device_type, TEGULA_CUDA);
    EXPECT_EQ(x.device_id, 3);
    EXPECT_EQ(x.strides, nullptr);
    EXPECT_EQ(tegula_tensor_from_dlpack(module.get(), &versioned, 1, &x, nullptr, nullptr), TEGULA_OK);

    versioned.major = 2;
    EXPECT_EQ(tegula_tensor_from_dlpack(module.get(), &versioned, 1, &x, &read_only, diags.out()), TEGULA_E_ARGUMENTS);
    EXPECT_EQ(x.data, nullptr);
    EXPECT_TRUE(contains(text(diags), "version 2")) << text(diags);
    plain.dl_tensor.dtype = {5, 64, 1};
    EXPECT_EQ(tegula_tensor_from_dlpack(module.get(), &plain, 0, &x, nullptr, diags.out()), TEGULA_E_ARGUMENTS);
    EXPECT_TRUE(contains(text(diags), "complex")) << text(diags);
    EXPECT_EQ(tegula_tensor_from_dlpack(nullptr, &plain, 0, &x, nullptr, nullptr), TEGULA_E_USAGE);
    EXPECT_EQ(tegula_tensor_from_dlpack(module.get(), nullptr, 0, &x, nullptr, nullptr), TEGULA_E_USAGE);
    EXPECT_EQ(tegula_tensor_from_dlpack(module.get(), &plain, 0, nullptr, nullptr, nullptr), TEGULA_E_USAGE);
}

TEST_F(GpuApi, DlpackOut) {
    Diags diags;
    Owned<float> x("f32", {2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
    int released = 0;
    void* managed = nullptr;
    x.c.layout = "col";
    ASSERT_EQ(tegula_tensor_to_dlpack(module.get(), &x.c, 0, count, &released, &managed, diags.out()), TEGULA_OK) << text(diags);
    auto* plain = static_cast<dlpack::ManagedTensor*>(managed);
    EXPECT_EQ(plain->dl_tensor.data, x.c.data);
    EXPECT_EQ(plain->dl_tensor.strides[0], 1);
    EXPECT_EQ(plain->dl_tensor.strides[1], 2);
    EXPECT_EQ(released, 0);
    plain->deleter(plain);
    EXPECT_EQ(released, 1);

    ASSERT_EQ(tegula_tensor_to_dlpack(module.get(), &x.c, 1, nullptr, nullptr, &managed, nullptr), TEGULA_OK);
    auto* versioned = static_cast<dlpack::VersionedTensor*>(managed);
    EXPECT_EQ(versioned->major, 1u);
    versioned->deleter(versioned);

    Owned<uint8_t> odd("float<3, 2>", {2, 4}, std::vector<uint8_t>(6));
    EXPECT_EQ(tegula_tensor_to_dlpack(module.get(), &odd.c, 0, count, &released, &managed, diags.out()), TEGULA_E_ARGUMENTS);
    EXPECT_EQ(managed, nullptr);
    EXPECT_TRUE(contains(text(diags), "no type")) << text(diags);
    x.c.bytes = 31;
    EXPECT_EQ(tegula_tensor_to_dlpack(module.get(), &x.c, 0, count, &released, &managed, diags.out()), TEGULA_E_ARGUMENTS);
    EXPECT_EQ(released, 1) << "after an error nothing is released";
    EXPECT_EQ(tegula_tensor_to_dlpack(nullptr, &x.c, 0, nullptr, nullptr, &managed, nullptr), TEGULA_E_USAGE);
    EXPECT_EQ(tegula_tensor_to_dlpack(module.get(), nullptr, 0, nullptr, nullptr, &managed, nullptr), TEGULA_E_USAGE);
    EXPECT_EQ(tegula_tensor_to_dlpack(module.get(), &x.c, 0, nullptr, nullptr, nullptr, nullptr), TEGULA_E_USAGE);
}

// ---- where there is a driver ----

class OnGpu : public GpuApi {
protected:
    void SetUp() override {
        GpuApi::SetUp();
        std::vector<std::string> looked_for;
        driver_ = tegula::cuda::Driver::open("", looked_for);
        if (!driver_) GTEST_SKIP() << "no GPU here: " << (looked_for.empty() ? "" : looked_for.front());
        tegula::cuda::CUcontext context = nullptr;
        ASSERT_EQ(driver_->primary_context(0, &context), tegula::cuda::kCudaSuccess);
        scope_ = std::make_unique<tegula::cuda::ContextScope>(*driver_, context);
        tegula_run_options_init(&cuda_, sizeof cuda_);
        cuda_.machine = "cuda";
    }
    void TearDown() override {
        for (const auto address : allocated_) driver_->cuMemFree(address);
        prepared_ = {};
        scope_.reset();
    }
    /// `values` in device memory.
    tegula_tensor on_device(Owned<float>& host) {
        tegula::cuda::CUdeviceptr address = 0;
        EXPECT_EQ(driver_->cuMemAlloc(&address, host.size), tegula::cuda::kCudaSuccess);
        allocated_.push_back(address);
        EXPECT_EQ(driver_->cuMemcpyHtoDAsync(address, host.bytes.data(), host.size, nullptr), tegula::cuda::kCudaSuccess);
        tegula_tensor t = host.c;
        t.data = reinterpret_cast<void*>(static_cast<uintptr_t>(address));
        t.device_type = TEGULA_CUDA;
        return t;
    }
    std::vector<float> back(const tegula_tensor& t) {
        std::vector<float> out(t.bytes / sizeof(float));
        EXPECT_EQ(driver_->cuMemcpyDtoHAsync(out.data(), reinterpret_cast<uintptr_t>(t.data), t.bytes, nullptr), tegula::cuda::kCudaSuccess);
        EXPECT_EQ(driver_->cuStreamSynchronize(nullptr), tegula::cuda::kCudaSuccess);
        return out;
    }
    std::unique_ptr<tegula::cuda::Driver> driver_;
    std::unique_ptr<tegula::cuda::ContextScope> scope_;
    std::vector<tegula::cuda::CUdeviceptr> allocated_;
    tegula_run_options cuda_;
};

TEST_F(OnGpu, PreparedLaunch) {
    Diags diags;
    std::vector<float> rising(1000), falling(1000);
    for (size_t i = 0; i < 1000; ++i) rising[i] = static_cast<float>(i), falling[i] = static_cast<float>(1000 - i);
    Owned<float> hx("f32", {1000}, rising), hy("f32", {1000}, falling), hz("f32", {1000}, std::vector<float>(1000, -1.0f));
    const tegula_tensor x = on_device(hx), y = on_device(hy), z = on_device(hz);
    ASSERT_EQ(prepare("add", {tensor(x), tensor(y), tensor(z)}, diags, &cuda_), TEGULA_OK) << text(diags);
    EXPECT_EQ(back(z)[0], -1.0f) << "preparing writes nothing";
    for (int round = 0; round < 3; ++round) ASSERT_EQ(tegula_enqueue(prepared_.get(), nullptr), TEGULA_OK);
    ASSERT_EQ(tegula_collect(prepared_.get(), nullptr, nullptr, diags.out()), TEGULA_OK) << text(diags);
    EXPECT_EQ(back(z), std::vector<float>(1000, 1000.0f));
    // A plain launch takes the same tensors.
    ASSERT_EQ(launch("add", {tensor(x), tensor(x), tensor(z)}, diags, &cuda_), TEGULA_OK) << text(diags);
    EXPECT_EQ(back(z)[999], 1998.0f);
}

TEST_F(OnGpu, PreparedInTheBackgroundAndForOtherArguments) {
    Diags diags;
    Owned<float> hx("f32", {9}, values_), hz("f32", {9}, std::vector<float>(9)), wide("f32", {100}, std::vector<float>(100, 2.0f));
    const tegula_tensor x = on_device(hx), z = on_device(hz), other = on_device(hz), w = on_device(wide), result = on_device(wide);
    const tegula_value args[] = {tensor(x), tensor(x), tensor(z)};
    struct Outcome {
        std::atomic<int> status{1};
        tegula::Ref<tegula_prepared> prepared;
    } outcome;
    const auto done = [](void* user, tegula_status status, tegula_prepared* prepared, tegula_diags*) {
        tegula_retain(prepared);
        auto* const out = static_cast<Outcome*>(user);
        out->prepared = tegula::Ref<tegula_prepared>(prepared);
        out->status = status;
    };
    ASSERT_EQ(tegula_prepare_async(module.get(), "add", nullptr, 0, args, 3, &cuda_, done, &outcome, nullptr, diags.out()), TEGULA_OK) << text(diags);
    while (outcome.status == 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ASSERT_EQ(outcome.status, TEGULA_OK);
    tegula_prepared* const launch = outcome.prepared.get();
    const auto run = [&] {
        EXPECT_EQ(tegula_enqueue(launch, nullptr), TEGULA_OK);
        EXPECT_EQ(tegula_collect(launch, nullptr, nullptr, nullptr), TEGULA_OK);
    };
    run();
    std::vector<float> twice = values_;
    for (float& v : twice) v *= 2;
    EXPECT_EQ(back(z), twice);
    tegula_value out = tensor(other);
    out.name = "z";
    ASSERT_EQ(tegula_rebind(launch, &out, 1, diags.out()), TEGULA_OK) << text(diags);
    run();
    EXPECT_EQ(back(other), twice);
    const tegula_value longer[] = {tensor(w), tensor(w), tensor(result)};
    ASSERT_EQ(tegula_rebind(launch, longer, 3, diags.out()), TEGULA_OK) << text(diags);
    run();
    EXPECT_EQ(back(result), std::vector<float>(100, 4.0f));
    const tegula_value host = tensor(hx.c);
    EXPECT_EQ(tegula_rebind(launch, &host, 1, diags.out()), TEGULA_E_ARGUMENTS);
    run();
}

/// Each has the stretches of its own K, in any order and again and again.
TEST_F(OnGpu, PreparedLaunchesOfSplitSums) {
    const std::string source =
        "kernel steps(a: tensor<f32>[M, K], w: tensor<f32>[N, K], inout c: tensor<f32>[M, N]) grid [cdiv(M, 16), cdiv(N, 16)]\n"
        "    schedule split_k(step = 32)\n{\n    let (m, n) = (program_id(0) * 16, program_id(1) * 16);\n    var acc = c[m +: 16, n +: 16];\n"
        "    for k in 0 .. K step 16 { acc = dot(a[m +: 16, k +: 16], trans(w[n +: 16, k +: 16]), acc); }\n    c[m +: 16, n +: 16] = acc;\n}\n";
    Diags diags;
    ASSERT_EQ(tegula_module_from_source(engine.get(), "steps.tile", source.data(), source.size(), module.out(), diags.out()), TEGULA_OK)
        << text(diags);
    constexpr int64_t kExtents[] = {100, 31, 0, 64};
    std::vector<std::unique_ptr<Owned<float>>> operands, expected;
    std::vector<tegula_tensor> results;
    std::vector<tegula::Ref<tegula_prepared>> prepared;
    for (const int64_t k : kExtents) {
        const auto made = [&](int64_t rows, int64_t columns, float scale) {
            std::vector<float> values(static_cast<size_t>(rows * columns));
            for (size_t i = 0; i < values.size(); ++i) values[i] = scale * static_cast<float>(static_cast<int>(i * 7919 % 1009) - 504);
            return std::make_unique<Owned<float>>("f32", std::vector<int64_t>{rows, columns}, values);
        };
        operands.push_back(made(3, k, 0.37f));
        operands.push_back(made(19, k, 0.0123f));
        expected.push_back(made(3, 19, 1.7f));
        const tegula_value a = tensor(operands[operands.size() - 2]->c), w = tensor(operands.back()->c);
        results.push_back(on_device(*expected.back()));
        ASSERT_EQ(prepare("steps", {tensor(on_device(*operands[operands.size() - 2])), tensor(on_device(*operands.back())), tensor(results.back())},
                          diags, &cuda_),
                  TEGULA_OK)
            << text(diags);
        prepared.push_back(std::move(prepared_));
        for (int round = 0; round < 2; ++round)
            ASSERT_EQ(launch("steps", {a, w, tensor(expected.back()->c)}, diags, &interp_), TEGULA_OK) << text(diags);
    }
    for (int round = 0; round < 2; ++round)
        for (const auto& p : prepared) ASSERT_EQ(tegula_enqueue(p.get(), nullptr), TEGULA_OK);
    for (size_t i = 0; i < results.size(); ++i) EXPECT_EQ(back(results[i]), expected[i]->values()) << "K = " << kExtents[i];
}

/// Launches on several streams, and in a graph, meet at words of their own, any number of times, also after a launch in which a program did not come.
TEST_F(OnGpu, PreparedLaunchesThatMeet) {
    const std::string source =
        "kernel turned(rounds: tensor<f32>[P], inout x: tensor<f32>[P]) grid [P] @ cooperative\n{\n    let me = program_id(0);\n"
        "    for r in 0..cast<i64>(rounds[me]) {\n        let next = x[(me + 1) % P];\n        grid_barrier();\n        x[me] = next;\n"
        "        grid_barrier();\n    }\n}\n";
    Diags diags;
    ASSERT_EQ(tegula_module_from_source(engine.get(), "turned.tile", source.data(), source.size(), module.out(), diags.out()), TEGULA_OK)
        << text(diags);
    constexpr size_t kPrograms = 7, kLaunches = 3;
    const auto turned = [](size_t by) {
        std::vector<float> out(kPrograms);
        for (size_t i = 0; i < kPrograms; ++i) out[i] = static_cast<float>((i + by) % kPrograms);
        return out;
    };
    struct Lane {
        tegula_tensor rounds, x;
        tegula::cuda::CUstream stream = nullptr;
        tegula::Ref<tegula_prepared> prepared;
    };
    Lane lanes[2];
    for (Lane& l : lanes) {
        Owned<float> rounds("f32", {kPrograms}, std::vector<float>(kPrograms, 5.0f)), x("f32", {kPrograms}, turned(0));
        l.rounds = on_device(rounds), l.x = on_device(x);
        ASSERT_EQ(driver_->cuStreamCreate(&l.stream, tegula::cuda::kStreamNonBlocking), tegula::cuda::kCudaSuccess);
        ASSERT_EQ(prepare("turned", {tensor(l.rounds), tensor(l.x)}, diags, &cuda_), TEGULA_OK) << text(diags);
        l.prepared = std::move(prepared_);
    }
    for (size_t i = 0; i < kLaunches; ++i)
        for (const Lane& l : lanes) ASSERT_EQ(tegula_enqueue(l.prepared.get(), l.stream), TEGULA_OK);
    for (const Lane& l : lanes) {
        EXPECT_EQ(tegula_collect(l.prepared.get(), l.stream, nullptr, diags.out()), TEGULA_OK) << text(diags);
        EXPECT_EQ(back(l.x), turned(kLaunches * 5));
    }
    const Lane& lane = lanes[0];
    const auto fill = [&](const tegula_tensor& t, std::vector<float> values) {
        EXPECT_EQ(driver_->cuMemcpyHtoDAsync(reinterpret_cast<uintptr_t>(t.data), values.data(), t.bytes, nullptr), tegula::cuda::kCudaSuccess);
        EXPECT_EQ(driver_->cuStreamSynchronize(nullptr), tegula::cuda::kCudaSuccess);
    };
    fill(lane.rounds, {5, 5, 4, 5, 5, 5, 5});
    ASSERT_EQ(tegula_enqueue(lane.prepared.get(), lane.stream), TEGULA_OK);
    EXPECT_EQ(tegula_collect(lane.prepared.get(), lane.stream, nullptr, diags.out()), TEGULA_E_RUN);
    EXPECT_TRUE(contains(text(diags), "T0926") && contains(text(diags), "program (2, 0, 0) has ended")) << text(diags);
    fill(lane.rounds, std::vector<float>(kPrograms, 5.0f));
    fill(lane.x, turned(0));
    size_t launched = 1;
    ASSERT_EQ(tegula_enqueue(lane.prepared.get(), lane.stream), TEGULA_OK);
    tegula::cuda::CUgraph graph = nullptr;
    tegula::cuda::CUgraphExec exec = nullptr;
    if (driver_->cuStreamBeginCapture(lane.stream, tegula::cuda::kCaptureModeRelaxed) == tegula::cuda::kCudaSuccess) {
        for (int i = 0; i < 2; ++i) EXPECT_EQ(tegula_enqueue(lane.prepared.get(), lane.stream), TEGULA_OK);
        ASSERT_EQ(driver_->cuStreamEndCapture(lane.stream, &graph), tegula::cuda::kCudaSuccess);
        ASSERT_EQ(driver_->cuGraphInstantiate(&exec, graph, 0), tegula::cuda::kCudaSuccess);
        for (int i = 0; i < 2; ++i, launched += 2) EXPECT_EQ(driver_->cuGraphLaunch(exec, lane.stream), tegula::cuda::kCudaSuccess);
    }
    EXPECT_EQ(tegula_collect(lane.prepared.get(), lane.stream, nullptr, diags.out()), TEGULA_OK) << text(diags);
    EXPECT_EQ(back(lane.x), turned(launched * 5));
    if (exec) driver_->cuGraphExecDestroy(exec);
    if (graph) driver_->cuGraphDestroy(graph);
    for (const Lane& l : lanes) driver_->cuStreamDestroy(l.stream);
    Owned<float> many("f32", {1 << 20}, std::vector<float>(1 << 20));
    const tegula_tensor wide = on_device(many);
    EXPECT_NE(prepare("turned", {tensor(wide), tensor(wide)}, diags, &cuda_), TEGULA_OK);
    EXPECT_TRUE(contains(text(diags), "1048576 programs")) << text(diags);
}

/// Streams, hints and the compiled form follow the device that tensors and streams belong to.
TEST_F(OnGpu, ASecondDevice) {
    using namespace tegula::cuda;
    if (driver_->devices().size() < 2) GTEST_SKIP() << "this machine has one GPU";
    const auto name = [&](int device) {
        const DeviceInfo& d = *driver_->device(device);
        return std::string(tegula::arch_for(d.major, d.minor, d.shared_per_block, {})->name);
    };
    CUcontext second = nullptr;
    ASSERT_EQ(driver_->primary_context(1, &second), kCudaSuccess);
    CUstream stream = nullptr;
    Owned<float> hx("f32", {9}, values_), hz("f32", {9}, std::vector<float>(9));
    tegula_tensor x, z;
    {
        const ContextScope scope(*driver_, second);
        ASSERT_EQ(driver_->cuStreamCreate(&stream, kStreamNonBlocking), kCudaSuccess);
        x = on_device(hx), z = on_device(hz);
    }
    x.device_id = z.device_id = 1;
    Diags diags;
    constexpr const char* kHinted = R"(kernel k(x: tensor<f32>[N], out z: tensor<f32>[N]) grid [cdiv(N, 8)] schedule stream_k {
    z[program_id(0) * 8 +: 8] = x[program_id(0) * 8 +: 8] * 2.0;
})";
    tegula::Ref<tegula_module> hinted;
    ASSERT_EQ(tegula_module_from_source(engine.get(), "hinted.tile", kHinted, std::strlen(kHinted), hinted.out(), diags.out()), TEGULA_OK)
        << text(diags);
    const std::vector<tegula_value> args = {tensor(x), tensor(z)};
    ASSERT_EQ(tegula_launch(hinted.get(), "k", nullptr, 0, args.data(), args.size(), &cuda_, diags.out()), TEGULA_OK) << text(diags);
    EXPECT_TRUE(contains(text(diags), "no effect on " + name(1))) << text(diags);
    cuda_.stream = stream;
    ASSERT_EQ(prepare("add", {tensor(x), tensor(x), tensor(z)}, diags, &cuda_), TEGULA_OK) << text(diags);
    ASSERT_EQ(tegula_enqueue(prepared_.get(), stream), TEGULA_OK);
    ASSERT_EQ(tegula_collect(prepared_.get(), stream, nullptr, diags.out()), TEGULA_OK) << text(diags);
    prepared_ = {};
    const tegula_tensor here = on_device(hx);
    EXPECT_EQ(prepare("add", {tensor(here), tensor(here), tensor(here)}, diags, &cuda_), TEGULA_E_UNAVAILABLE);
    EXPECT_TRUE(contains(text(diags), "the stream belongs to device 1, the tensors lie on device 0")) << text(diags);
    const ContextScope scope(*driver_, second);
    EXPECT_EQ(back(z)[8], 18.0f);
    driver_->cuStreamDestroy(stream);
}

TEST_F(OnGpu, HostTensorsArePreparedForNothing) {
    Diags diags;
    Owned<float> hx("f32", {9}, values_);
    const tegula_tensor x = on_device(hx);
    EXPECT_EQ(prepare("add", {tensor(x), tensor(hx.c), tensor(x)}, diags, &cuda_), TEGULA_E_ARGUMENTS);
    EXPECT_TRUE(contains(text(diags), "`y`: it lies in host memory")) << text(diags);
    EXPECT_EQ(prepared_.get(), nullptr);
}

TEST_F(OnGpu, ElementsBeginAtMultiplesOfTheirSize) {
    Diags diags;
    Owned<float> hx("f32", {9}, values_);
    const tegula_tensor x = on_device(hx), z = on_device(hx);
    for (const size_t off : {1u, 2u, 3u}) {
        tegula_tensor odd = x;
        odd.data = static_cast<uint8_t*>(x.data) + off;
        odd.bytes -= 4;
        const int64_t eight = 8;
        tegula_tensor even = x, out = z;
        odd.extents = even.extents = out.extents = &eight;
        for (const tegula_status status : {launch("add", {tensor(even), tensor(odd), tensor(out)}, diags, &cuda_),
                                           prepare("add", {tensor(even), tensor(odd), tensor(out)}, diags, &cuda_)}) {
            EXPECT_EQ(status, TEGULA_E_ARGUMENTS);
            for (const char* part : {"T1042", "tensor `y`: its address 0x", "no multiple of 4", "`f32`"})
                EXPECT_TRUE(contains(text(diags), part)) << text(diags);
        }
    }
    EXPECT_EQ(back(z), values_);
}

/// Compilers take seconds for what this launches, and no cache has it: the number is drawn.
TEST_F(OnGpu, CancelledCompilations) {
    const std::string source =
        "kernel slow<B: int = 64>(x: tensor<f32>[N], out y: tensor<f32>[N]) grid [cdiv(N, B)] {\n    let n = program_id(0) * B;\n"
        "    var a = x[n +: B];\n    for const i in 0 .. 400 { a = a * x[n + i +: B] + " +
        std::to_string(std::chrono::steady_clock::now().time_since_epoch().count() % 1000003) + ".5 + cast<f32>(i); }\n    y[n +: B] = a;\n}\n";
    Diags diags;
    ASSERT_EQ(tegula_module_from_source(engine.get(), "slow.tile", source.data(), source.size(), module.out(), diags.out()), TEGULA_OK)
        << text(diags);
    Owned<float> hx("f32", {9}, values_), hy("f32", {9}, values_);
    const tegula_tensor x = on_device(hx), y = on_device(hy);
    const std::vector<tegula_value> args = {tensor(x), tensor(y)};
    const std::chrono::milliseconds early(10), late(100);
    tegula_status waiting = TEGULA_OK;
    EXPECT_EQ(cancelled(late,
                        [&] {
                            std::jthread second([&] {
                                Diags own;
                                waiting = launch("slow", args, own, &cuda_);
                            });
                            return launch("slow", args, diags, &cuda_);
                        }),
              TEGULA_E_CANCELLED);
    EXPECT_EQ(waiting, TEGULA_E_CANCELLED) << "who waits for another one's compilation ends with it";
    EXPECT_TRUE(contains(text(diags), "T0915")) << text(diags);
    EXPECT_EQ(cancelled(late, [&] { return prepare("slow", args, diags, &cuda_); }), TEGULA_E_CANCELLED);
    EXPECT_EQ(prepared_.get(), nullptr);
    EXPECT_EQ(cancelled(early, [&] { return prepare("slow", args, diags, &cuda_); }), TEGULA_E_CANCELLED);
    tegula::Ref<tegula_kernel> kernel;
    tegula::Ref<tegula_blob> image;
    ASSERT_EQ(tegula_compile(module.get(), "slow", nullptr, 0, &interp_, kernel.out(), diags.out()), TEGULA_OK) << text(diags);
    EXPECT_EQ(cancelled(late, [&] { return tegula_kernel_artifact(kernel.get(), "cubin@sm_80", image.out(), diags.out()); }), TEGULA_E_CANCELLED);
    EXPECT_TRUE(contains(text(diags), "T0915")) << text(diags);
    EXPECT_EQ(back(y)[0], 1.0f);
}

TEST_F(OnGpu, DlpackInDeviceMemory) {
    Diags diags;
    Owned<float> hx("f32", {9}, values_), hz("f32", {9}, std::vector<float>(9));
    const tegula_tensor x = on_device(hx), z = on_device(hz);
    void* managed = nullptr;
    ASSERT_EQ(tegula_tensor_to_dlpack(module.get(), &x, 1, nullptr, nullptr, &managed, diags.out()), TEGULA_OK) << text(diags);
    tegula_tensor same{};
    ASSERT_EQ(tegula_tensor_from_dlpack(module.get(), managed, 1, &same, nullptr, diags.out()), TEGULA_OK) << text(diags);
    ASSERT_EQ(launch("add", {tensor(same), tensor(same), tensor(z)}, diags, &cuda_), TEGULA_OK) << text(diags);
    EXPECT_EQ(back(z)[8], 18.0f);
    auto* versioned = static_cast<dlpack::VersionedTensor*>(managed);
    versioned->deleter(versioned);
}

}  // namespace
