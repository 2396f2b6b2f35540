// The CUDA back end on a real GPU: staging, streams, graphs, unloading, times. Skipped by name where there is no GPU; what needs none is in
// launch_test.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <thread>

#include "jit/cuda/print.h"
#include "jit/cuda/program.h"
#include "jit/cuda/timing.h"
#include "lang/ir_text.h"
#include "lower/gpu/gpu.h"
#include "lower/kernel/lower.h"

namespace tegula::cuda {
namespace {

class DeviceTest : public ::testing::Test {
protected:
    void SetUp() override {
        const Availability& a = state_->availability();
        if (!a.device || !a.compiler) GTEST_SKIP() << a.problem();
        driver_ = state_->driver();
        ASSERT_EQ(driver_->primary_context(0, &context_), 0);
        ASSERT_EQ(driver_->cuCtxPushCurrent(context_), 0);
    }
    void TearDown() override {
        CUcontext popped = nullptr;
        if (context_) driver_->cuCtxPopCurrent(&popped);
    }
    /// y[program] = x[program] + x[program], with an assert that x is not negative.
    std::unique_ptr<Program> doubling() {
        DiagSink diags;
        const uint32_t file = sources_.add(
            "test",
            "kernel @k(%y: tensor<f32>[?] inout, %x: tensor<f32>[?] in) {\n  %i = program_id {axis = 0} : i64\n  %v = load %x[%i] : f32\n"
            "  %z = constant 0 : f32\n  %ok = ge %v, %z : bool\n  assert \"positive\", %ok\n  %w = add %v, %v : f32\n  store %y[%i] = %w\n"
            "  ret\n}\n");
        fn_ = ir::parse_ir(sources_, file, types_, diags);
        EXPECT_TRUE(fn_);
        const auto lower = [this](const Arch& arch, const LaunchTraits& traits, const std::atomic<bool>*) {
            ir::Function out = *fn_;
            GpuOptions options;
            options.arch = &arch;
            options.may_alias = traits.may_alias;
            options.tensors = traits.tensors;
            run_gpu_passes(out, options);
            KernelText kernel = printed(lower_to_kernel(out, &sources_));
            return Lowered{std::move(out), std::move(kernel)};
        };
        return make_program(state_, *fn_, lower, {}, nullptr, nullptr);
    }
    static Argument argument(void* data, int64_t n, Memory memory) {
        Argument a;
        a.kind = Argument::tensor;
        a.t.elem = id_of(Fmt::f32);
        a.t.data = data;
        a.t.bytes = static_cast<uint64_t>(n) * 4;
        a.t.extents = {n};
        a.t.memory = memory;
        return a;
    }
    /// Device memory with these values.
    DeviceMemory upload(const std::vector<float>& values) {
        DeviceMemory out;
        EXPECT_EQ(out.allocate(*driver_, values.size() * 4, nullptr, nullptr), 0);
        EXPECT_EQ(driver_->cuMemcpyHtoDAsync(out.address(), values.data(), values.size() * 4, nullptr), 0);
        EXPECT_EQ(driver_->cuStreamSynchronize(nullptr), 0);
        return out;
    }
    std::vector<float> download(const DeviceMemory& memory, size_t n) {
        std::vector<float> out(n);
        EXPECT_EQ(driver_->cuMemcpyDtoHAsync(out.data(), memory.address(), n * 4, nullptr), 0);
        EXPECT_EQ(driver_->cuStreamSynchronize(nullptr), 0);
        return out;
    }
    static void* pointer(const DeviceMemory& memory) { return reinterpret_cast<void*>(memory.address()); }

    std::shared_ptr<Backend::State> state_ = std::make_shared<Backend::State>(BackendOptions{});
    Driver* driver_ = nullptr;
    CUcontext context_ = nullptr;
    TypeTable types_;
    SourceMap sources_;
    std::unique_ptr<ir::Function> fn_;
};

TEST_F(DeviceTest, host_tensors_of_many_sizes) {
    const auto program = doubling();
    for (int64_t n : {1, 7, 33, 1000, 100003}) {
        std::vector<float> x(static_cast<size_t>(n) + 1), y(x.size(), -1);
        std::iota(x.begin(), x.end(), 1.0f);
        for (size_t shift : {0, 1}) {  // also from addresses that are not aligned
            const auto result = program->run(std::vector{argument(y.data() + shift, n, Memory::host), argument(x.data() + shift, n, Memory::host)},
                                             std::array<uint64_t, 3>{static_cast<uint64_t>(n), 1, 1}, {});
            ASSERT_EQ(result.status, RunResult::ok) << result.diagnostics.at(0).message;
            for (size_t i = 0; i < static_cast<size_t>(n); ++i) ASSERT_EQ(y[i + shift], 2 * x[i + shift]) << n << " " << i;
        }
    }
}

TEST_F(DeviceTest, asserts_and_threads) {
    const auto program = doubling();
    std::vector<std::jthread> threads;
    for (int t = 0; t < 8; ++t)
        threads.emplace_back([&, t] {
            std::vector<float> x(100, 1), y(100);
            x[static_cast<size_t>(t)] = -1;
            const auto result = program->run(std::vector{argument(y.data(), 100, Memory::host), argument(x.data(), 100, Memory::host)},
                                             std::array<uint64_t, 3>{100, 1, 1}, {});
            EXPECT_EQ(result.status, RunResult::failed);
            ASSERT_EQ(result.diagnostics.size(), 1u);
            EXPECT_EQ(result.diagnostics[0].notes, (std::vector<DiagNote>{"in program (" + std::to_string(t) + ", 0, 0)"}));
            EXPECT_EQ(y[50], 2);
        });
}

TEST_F(DeviceTest, streams_graphs_and_foreign_threads) {
    const auto program = doubling();
    std::vector<float> values(5000);
    std::iota(values.begin(), values.end(), 0.0f);
    const DeviceMemory x = upload(values), y = upload(std::vector<float>(5000, -1));
    const auto launch = program->prepare_launch(std::vector{argument(pointer(y), 5000, Memory::cuda), argument(pointer(x), 5000, Memory::cuda)},
                                                std::array<uint64_t, 3>{5000, 1, 1}, nullptr);
    ASSERT_TRUE(launch) << launch.error;
    CUstream stream = nullptr;
    ASSERT_EQ(driver_->cuStreamCreate(&stream, kStreamNonBlocking), 0);
    std::jthread([&] { EXPECT_EQ((*launch.value)->launch(stream), 0) << "a thread without a context"; }).join();
    EXPECT_EQ((*launch.value)->collect(stream, {}).status, RunResult::ok);
    EXPECT_EQ(download(y, 5000)[4999], 9998);

    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    ASSERT_EQ(driver_->cuMemsetD8Async(y.address(), 0, 20000, nullptr), 0);
    ASSERT_EQ(driver_->cuStreamSynchronize(nullptr), 0);
    ASSERT_EQ(driver_->cuStreamBeginCapture(stream, 0), 0);
    EXPECT_EQ((*launch.value)->launch(stream), 0);
    ASSERT_EQ(driver_->cuStreamEndCapture(stream, &graph), 0);
    ASSERT_EQ(driver_->cuGraphInstantiate(&exec, graph, 0), 0);
    EXPECT_EQ(download(y, 5000)[4999], 0) << "captured, not run";
    ASSERT_EQ(driver_->cuGraphLaunch(exec, stream), 0);
    ASSERT_EQ(driver_->cuStreamSynchronize(stream), 0);
    EXPECT_EQ(download(y, 5000)[4999], 9998);
    driver_->cuGraphExecDestroy(exec);
    driver_->cuGraphDestroy(graph);
    driver_->cuStreamDestroy(stream);
}

TEST_F(DeviceTest, several_devices_at_once) {
    const size_t devices = state_->availability().devices.size();
    if (devices < 2) GTEST_SKIP() << "this machine has one GPU";
    const auto program = doubling();
    constexpr int64_t kElements = 50000;
    const auto on_device = [&](int d) {
        CUcontext context = nullptr;
        ASSERT_EQ(driver_->primary_context(d, &context), 0);
        const ContextScope scope(*driver_, context);
        const DeviceMemory x = upload(std::vector<float>(kElements, static_cast<float>(d + 1))), y = upload(std::vector<float>(kElements, -1));
        std::vector args{argument(pointer(y), kElements, Memory::cuda), argument(pointer(x), kElements, Memory::cuda)};
        for (Argument& a : args) a.t.device = d;
        const std::array<uint64_t, 3> grid{kElements, 1, 1};
        CUstream own = nullptr;
        ASSERT_EQ(driver_->cuStreamCreate(&own, kStreamNonBlocking), 0);
        for (CUstream stream : {CUstream{}, own}) {
            ASSERT_EQ(driver_->cuMemsetD8Async(y.address(), 0, kElements * 4, nullptr), 0);
            ASSERT_EQ(driver_->cuStreamSynchronize(nullptr), 0);
            const auto launch = program->prepare_launch(args, grid, nullptr);
            ASSERT_TRUE(launch) << launch.error;
            EXPECT_EQ((*launch.value)->launch(stream), 0);
            EXPECT_EQ((*launch.value)->collect(stream, {}).status, RunResult::ok);
            EXPECT_EQ(download(y, kElements), std::vector<float>(kElements, static_cast<float>(2 * d + 2)));
            RunOptions options;
            options.stream = stream;
            EXPECT_EQ(program->run(args, grid, options).status, RunResult::ok);
        }
        // One of the tensors is said to lie on another device.
        if (d > 0) {
            args[0].t.device = 0;
            EXPECT_EQ(program->run(args, grid, {}).status, RunResult::failed);
        }
        driver_->cuStreamDestroy(own);
    };
    std::vector<std::jthread> threads;
    for (size_t d = 0; d < devices; ++d) threads.emplace_back(on_device, static_cast<int>(d));
}

TEST_F(DeviceTest, preparing_is_no_part_of_a_capture) {
    for (const unsigned flags : {kStreamNonBlocking, 0u}) {
        CUstream stream = nullptr;
        CUgraph graph = nullptr;
        CUgraphExec exec = nullptr;
        ASSERT_EQ(driver_->cuStreamCreate(&stream, flags), 0);
        const auto program = doubling();
        const DeviceMemory x = upload(std::vector<float>(1000, 3)), y = upload(std::vector<float>(1000, -1));
        ASSERT_EQ(driver_->cuStreamBeginCapture(stream, 0), 0);
        const std::vector args{argument(pointer(y), 1000, Memory::cuda), argument(pointer(x), 1000, Memory::cuda)};
        const std::array<uint64_t, 3> grid{1000, 1, 1};
        const auto launch = program->prepare_launch(args, grid, stream);
        ASSERT_TRUE(launch) << launch.error;
        EXPECT_EQ((*launch.value)->launch(stream), 0);
        EXPECT_NE((*launch.value)->collect(stream, {}).status, RunResult::ok);
        RunOptions options;
        options.stream = stream;
        const RunResult refused = program->run(args, grid, options);
        ASSERT_EQ(refused.diagnostics.size(), 1u);
        EXPECT_NE(refused.diagnostics[0].message.find("the stream is being captured"), std::string::npos) << refused.diagnostics[0].message;
        ASSERT_EQ(driver_->cuStreamEndCapture(stream, &graph), 0) << "nothing has ended the capture";
        ASSERT_EQ(driver_->cuGraphInstantiate(&exec, graph, 0), 0);
        ASSERT_EQ(driver_->cuGraphLaunch(exec, stream), 0);
        EXPECT_EQ((*launch.value)->collect(stream, {}).status, RunResult::ok);
        EXPECT_EQ(download(y, 1000), std::vector<float>(1000, 6));
        driver_->cuGraphExecDestroy(exec);
        driver_->cuGraphDestroy(graph);
        driver_->cuStreamDestroy(stream);
    }
}

TEST_F(DeviceTest, streams_of_other_contexts) {
    void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr);
    const auto create = reinterpret_cast<CUresult (*)(CUcontext*, unsigned, CUdevice)>(::dlsym(library, "cuCtxCreate_v2"));
    const auto destroy = reinterpret_cast<CUresult (*)(CUcontext)>(::dlsym(library, "cuCtxDestroy_v2"));
    CUcontext own = nullptr;
    ASSERT_EQ(create(&own, 0, 0), 0);  // and makes it current
    {
        CUstream stream = nullptr;
        ASSERT_EQ(driver_->cuStreamCreate(&stream, kStreamNonBlocking), 0);
        const DeviceMemory x = upload(std::vector<float>(1000, 3)), y = upload(std::vector<float>(1000, -1));
        CUcontext popped = nullptr;
        ASSERT_EQ(driver_->cuCtxPopCurrent(&popped), 0);
        const auto program = doubling();
        const auto launch = program->prepare_launch(std::vector{argument(pointer(y), 1000, Memory::cuda), argument(pointer(x), 1000, Memory::cuda)},
                                                    std::array<uint64_t, 3>{1000, 1, 1}, stream);
        ASSERT_TRUE(launch) << launch.error;
        EXPECT_EQ((*launch.value)->launch(stream), 0);
        EXPECT_EQ((*launch.value)->collect(stream, {}).status, RunResult::ok);
        ASSERT_EQ(driver_->cuCtxPushCurrent(own), 0);
        EXPECT_EQ(download(y, 1000), std::vector<float>(1000, 6));
        driver_->cuStreamDestroy(stream);
    }
    destroy(own);
}

TEST_F(DeviceTest, ptx_for_an_older_gpu_is_translated) {
    std::vector<std::string> looked_for;
    driver_->choose_archs(std::vector<int>{80}, looked_for);  // as if the compiler knew no newer one
    EXPECT_STREQ(driver_->device(0)->arch->name, "compute_80");
    std::vector<float> x(1000, 3), y(1000);
    const RunResult result = doubling()->run(std::vector{argument(y.data(), 1000, Memory::host), argument(x.data(), 1000, Memory::host)},
                                             std::array<uint64_t, 3>{1000, 1, 1}, {});
    ASSERT_EQ(result.status, RunResult::ok) << result.diagnostics.at(0).message;
    EXPECT_EQ(y, std::vector<float>(1000, 6));
}

TEST_F(DeviceTest, a_program_may_go_while_its_kernels_run) {
    const DeviceMemory x = upload(std::vector<float>(1 << 20, 3)), y = upload(std::vector<float>(1 << 20, 0));
    for (int i = 0; i < 20; ++i) {
        const auto program = doubling();
        const auto launch =
            program->prepare_launch(std::vector{argument(pointer(y), 1 << 20, Memory::cuda), argument(pointer(x), 1 << 20, Memory::cuda)},
                                    std::array<uint64_t, 3>{1 << 20, 1, 1}, nullptr);
        ASSERT_TRUE(launch) << launch.error;
        for (int k = 0; k < 5; ++k) ASSERT_EQ((*launch.value)->launch(nullptr), 0);
    }
    EXPECT_EQ(driver_->cuCtxSynchronize(), 0);
    EXPECT_EQ(download(y, 1 << 20).back(), 6);
}

TEST_F(DeviceTest, a_launch_costs_what_the_driver_costs) {
    const auto program = doubling();
    const DeviceMemory x = upload(std::vector<float>(100, 3)), y = upload(std::vector<float>(100, 0));
    const auto launch = program->prepare_launch(std::vector{argument(pointer(y), 100, Memory::cuda), argument(pointer(x), 100, Memory::cuda)},
                                                std::array<uint64_t, 3>{100, 1, 1}, nullptr);
    ASSERT_TRUE(launch) << launch.error;
    const auto* bound = static_cast<const BoundLaunch*>(launch.value->get());
    const auto microseconds = [&](const auto& enqueue) {
        double best = 1e9;
        for (int round = 0; round < 20; ++round) {
            const auto start = std::chrono::steady_clock::now();
            for (int i = 0; i < 500; ++i) EXPECT_EQ(enqueue(), 0);
            best = std::min(best, std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() / 500);
            EXPECT_EQ(driver_->cuStreamSynchronize(nullptr), 0);
        }
        return best;
    };
    const double ours = microseconds([&] { return bound->launch(nullptr); }), bare = microseconds([&] { return bound->launch_bare(nullptr); });
    std::printf("prepared launch %.3f us, bare cuLaunchKernelEx %.3f us\n", ours, bare);
    RecordProperty("prepared_us", std::to_string(ours));
    RecordProperty("bare_us", std::to_string(bare));
    EXPECT_LT(ours, bare + 3) << "a figure for the report; only nonsense fails";
}

TEST_F(DeviceTest, times) {
    const auto program = doubling();
    const DeviceMemory x = upload(std::vector<float>(1 << 20, 3)), y = upload(std::vector<float>(1 << 20, 0));
    const auto launch = program->prepare_launch(std::vector{argument(pointer(y), 1 << 20, Memory::cuda), argument(pointer(x), 1 << 20, Memory::cuda)},
                                                std::array<uint64_t, 3>{1 << 20, 1, 1}, nullptr);
    ASSERT_TRUE(launch) << launch.error;
    Stopwatch watch(*driver_);
    const auto enqueue = [&](CUstream stream) { return launch.value->get()->launch(stream) == 0; };
    for (const double seconds : {watch.once(enqueue), watch.burst(enqueue, 3), watch.sustained(enqueue, 0.05)}) {
        std::printf("%.1f us\n", seconds * 1e6);
        EXPECT_GT(seconds, 100e-6) << "2^20 CTAs take at least 0.6 ns each to start " << watch.error();
        EXPECT_LT(seconds, 0.1);
    }
}

/// With `measure`, a run leaves the results of one run, and the time is that of the kernel, not of the copies around it.
TEST_F(DeviceTest, measuresARun) {
    const auto program = doubling();
    std::vector<float> x(1 << 20, 3), y(1 << 20, 0);
    RunOptions options;
    options.measure = true;
    const RunResult result = program->run(std::vector{argument(y.data(), 1 << 20, Memory::host), argument(x.data(), 1 << 20, Memory::host)},
                                          std::array<uint64_t, 3>{1 << 20, 1, 1}, options);
    EXPECT_EQ(result.status, RunResult::ok);
    EXPECT_GT(result.seconds, 100e-6);
    EXPECT_LT(result.seconds, 0.1);
    EXPECT_EQ(y, std::vector<float>(1 << 20, 6));
}

}  // namespace
}  // namespace tegula::cuda
