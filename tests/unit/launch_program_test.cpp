// Whole programs against a stand-in for the driver: passes, emission and NVRTC are real, the kernel is played by the test.
#include "jit/cuda/print.h"
#include "lower/gpu/gpu.h"
#include "lower/kernel/lower.h"
#include "tests/unit/launch_fixture.h"

namespace tegula::cuda {
namespace {

class ProgramTest : public LaunchTest {
protected:
    void SetUp() override {
        LaunchTest::SetUp();
        if (IsSkipped() || HasFatalFailure()) return;
        if (!state_->availability().compiler) GTEST_SKIP() << "no NVRTC here";
        restart();
    }
    /// A back end that finds the devices as they are now.
    void restart() {
        BackendOptions options;
        options.driver_path = kFake;
        backend_ = std::make_unique<Backend>(options);
    }
    /// y[program] = x[program], for every program, and with `checks` an assert that holds where x is not negative.
    void prepare_copy(const std::string& attribute = "", const std::string& extents = "", std::vector<size_t> row_extents = {}, bool checks = true,
                      Spread spread = {}) {
        parse("kernel @k(%y: tensor<f32>[?] inout, %x: tensor<f32>[?] in" + extents + ")" + attribute +
              " {\n  %i = program_id {axis = 0} : i64\n  %v = load %x[%i] : f32\n" +
              (checks ? "  %z = constant 0 : f32\n  %ok = ge %v, %z : bool\n  assert \"positive\", %ok\n" : "") + "  store %y[%i] = %v\n  ret\n}\n");
        const auto lower = [this](const Arch& arch, const LaunchTraits& traits, const std::atomic<bool>*) {
            ++lowered_;
            last_arch_ = arch.name;
            last_ = traits.tensors;
            last_alias_ = traits.may_alias;
            last_whole_ = traits.whole_clusters;
            last_extents_ = traits.extents;
            last_spread_ = traits.spread;
            ir::Function out = *fn_;
            GpuOptions options;
            options.arch = &arch;
            options.may_alias = traits.may_alias;
            options.tensors = traits.tensors;
            run_gpu_passes(out, options);
            KernelText kernel = printed(lower_to_kernel(out, &sources_));
            params_ = kernel.params;
            fake_->params = static_cast<int>(params_.size());
            for (ir::InstId i : out.block(out.body).insts)
                if (out.inst(i).op == ir::Op::assert) assert_ = i;
            return Lowered{std::move(out), std::move(kernel)};
        };
        auto made = backend_->prepare(*fn_, lower, std::move(row_extents), std::move(spread));
        ASSERT_TRUE(made) << made.error;
        program_ = std::move(*made);
        kernel_ = [this](const FakeLaunch& l) {
            last_launch_ = l;
            ++launches_;
            float *y = nullptr, *x = nullptr;
            uint64_t* report = nullptr;
            for (size_t i = 0; i < params_.size(); ++i) {
                if (params_[i].kind == KernelParam::pointer) (params_[i].param == 0 ? y : x) = value<float*>(l, i);
                if (params_[i].kind == KernelParam::report) report = value<uint64_t*>(l, i);
            }
            ASSERT_TRUE(y && x);
            for (unsigned p = l.grid; p-- > 0;) {  // any order
                y[p] = x[p];
                if (x[p] >= 0 || !report) continue;
                uint64_t* const to = report + report[0];
                report[0] += 3;
                to[0] = assert_.v | uint64_t{3} << 32;
                to[1] = p;
                to[2] = 0;
            }
        };
    }
    std::vector<Argument> arguments(float* y, float* x, int64_t n, Memory memory) {
        const uint64_t bytes = static_cast<uint64_t>(n) * 4;
        return {argument(tensor(Fmt::f32, y, bytes, {n}, memory)), argument(tensor(Fmt::f32, x, bytes, {n}, memory))};
    }

    /// A stream of a context, which the default stream waits for.
    struct Stream {
        const Driver& driver;
        CUstream handle = nullptr;
        Stream(const ProgramTest& test, CUcontext context) : driver(*test.state_->driver()) {
            const ContextScope scope(driver, context);
            EXPECT_EQ(driver.cuStreamCreate(&handle, 0), 0);
        }
        ~Stream() { driver.cuStreamDestroy(handle); }
        Stream(const Stream&) = delete;
    };
    /// What `work` enqueues on the stream; the capture must not have been ended by it.
    struct Graph {
        const Driver& driver;
        CUgraph graph = nullptr;
        CUgraphExec exec = nullptr;
        Graph(const ProgramTest& test, const Stream& stream, const std::function<void()>& work) : driver(*test.state_->driver()) {
            EXPECT_EQ(driver.cuStreamBeginCapture(stream.handle, 0), 0);
            work();
            EXPECT_EQ(driver.cuStreamEndCapture(stream.handle, &graph), 0);
            EXPECT_EQ(graph ? driver.cuGraphInstantiate(&exec, graph, 0) : 1, 0);
        }
        ~Graph() {
            if (exec) driver.cuGraphExecDestroy(exec);
            if (graph) driver.cuGraphDestroy(graph);
        }
        Graph(const Graph&) = delete;
        void launch(const Stream& stream) const {
            ASSERT_NE(exec, nullptr);
            EXPECT_EQ(driver.cuGraphLaunch(exec, stream.handle), 0);
        }
    };

    std::unique_ptr<Backend> backend_;
    std::unique_ptr<Program> program_;
    std::vector<KernelParam> params_;
    ir::InstId assert_;
    int lowered_ = 0, launches_ = 0;
    std::string last_arch_;
    FakeLaunch last_launch_ = {};
    std::vector<GpuTensor> last_;
    std::vector<std::pair<size_t, int64_t>> last_extents_;
    bool last_alias_ = false, last_whole_ = false, last_spread_ = false;
    void TearDown() override {
        program_.reset();
        backend_.reset();
        LaunchTest::TearDown();
    }
};

TEST_F(ProgramTest, host_tensors_come_and_go) {
    prepare_copy();
    std::vector<float> y(10, 1), x = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    std::vector<uint8_t> written(40);
    std::vector<Argument> args = arguments(y.data(), x.data(), 10, Memory::host);
    args[0].t.initialised = written.data();
    const RunResult result = program_->run(args, std::array<uint64_t, 3>{7, 1, 1}, {});
    ASSERT_EQ(result.status, RunResult::ok) << result.diagnostics.at(0).message;
    EXPECT_EQ(y, (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 1, 1, 1})) << "what no program writes keeps its value";
    EXPECT_EQ(written, std::vector<uint8_t>(40, 1));
    EXPECT_EQ(fake_->allocations, 0);
}

TEST_F(ProgramTest, one_variant_per_kind_of_arguments) {
    prepare_copy();
    alignas(16) float y[64] = {}, x[64] = {};
    const std::array<uint64_t, 3> grid = {4, 1, 1};
    const auto run = [&](float* to, float* from, Memory memory) { return program_->run(arguments(to, from, 8, memory), grid, {}).status; };
    EXPECT_EQ(run(y, x, Memory::cuda), RunResult::ok);
    EXPECT_TRUE(last_[0].aligned && last_[1].aligned && !last_alias_);
    EXPECT_EQ(run(y + 4, x + 8, Memory::cuda), RunResult::ok);
    EXPECT_EQ(lowered_, 1);
    EXPECT_EQ(run(y, x + 1, Memory::cuda), RunResult::ok);
    EXPECT_EQ(lowered_, 2);
    EXPECT_TRUE(last_[0].aligned && !last_[1].aligned);
    EXPECT_EQ(run(y + 4, y, Memory::cuda), RunResult::ok);
    EXPECT_EQ(lowered_, 3);
    EXPECT_TRUE(last_alias_);
    EXPECT_EQ(run(y, x + 1, Memory::host), RunResult::ok) << "copies are aligned, wherever the host's memory is";
    EXPECT_EQ(run(y + 4, y, Memory::host), RunResult::ok) << "what overlaps on the host overlaps on the device";
    EXPECT_EQ(lowered_, 3);
    EXPECT_EQ(program_->run(arguments(y, x, 8, Memory::cuda), std::array<uint64_t, 3>{0, 1, 1}, {}).status, RunResult::ok);
}

TEST_F(ProgramTest, host_tensors_that_overlap_within_an_element_are_refused) {
    prepare_copy();
    alignas(16) static uint8_t memory[64] = {};
    float *x = reinterpret_cast<float*>(memory + 16), *y = reinterpret_cast<float*>(memory + 18);
    const RunResult result = program_->run(arguments(y, x, 8, Memory::host), std::array<uint64_t, 3>{4, 1, 1}, {});
    EXPECT_EQ(result.status, RunResult::failed);
    ASSERT_EQ(result.diagnostics.size(), 1u);
    EXPECT_EQ(result.diagnostics[0].id, Diag::bad_tensor);
    for (const char* part : {"tensor `y`: it begins 2 bytes behind `x`", "`f32`", "multiples of 4 bytes apart"})
        EXPECT_NE(result.diagnostics[0].message.find(part), std::string::npos) << result.diagnostics[0].message;
    EXPECT_EQ(launches_, 0);
    EXPECT_EQ(fake_->allocations, 0);
    EXPECT_FALSE(program_->prepare_launch(arguments(y, x, 8, Memory::host), std::array<uint64_t, 3>{4, 1, 1}, nullptr, nullptr));
}

TEST_F(ProgramTest, the_first_widths_of_rows_are_variants) {
    prepare_copy("", ", %M: extent, %N: extent", {3});
    float y[16] = {}, x[16] = {};
    const auto run = [&](uint64_t m, uint64_t n) {
        std::vector<Argument> args = arguments(y, x, 8, Memory::host);
        args.push_back(scalar(m));
        args.push_back(scalar(n));
        ASSERT_EQ(program_->run(args, std::array<uint64_t, 3>{4, 1, 1}, {}).status, RunResult::ok);
    };
    using Extents = std::vector<std::pair<size_t, int64_t>>;
    run(1, 8);
    EXPECT_EQ(last_extents_, (Extents{{3, 8}}));
    run(2, 8);
    EXPECT_EQ(lowered_, 1) << "M is no width";
    for (const uint64_t n : {7, 6, 5}) run(1, n);
    EXPECT_EQ(last_extents_, (Extents{{3, 5}}));
    EXPECT_EQ(lowered_, 4);
    run(1, 4);
    EXPECT_EQ(last_extents_, Extents{}) << "one form for all others";
    for (const uint64_t n : {3, 4, 8, 6}) run(1, n);
    EXPECT_EQ(lowered_, 5);
}

/// Whether stretches of a sum are spread is asked once for a grid and its scalars, and both answers are variants.
TEST_F(ProgramTest, launches_that_spread_stretches_and_others_are_variants) {
    int asked = 0;
    prepare_copy("", ", %K: extent", {}, false, [&](const Arch& arch, std::span<const Argument> args, std::span<const uint64_t, 3> grid) {
        ++asked;
        return std::string_view(arch.name) == "sm_90a" && args[2].code > 8 && grid[0] < 4;
    });
    float y[8], x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    const auto run = [&](uint64_t k, uint64_t programs) {
        std::vector<Argument> args = arguments(y, x, 8, Memory::host);
        args.push_back(scalar(k));
        EXPECT_EQ(program_->run(args, std::array<uint64_t, 3>{programs, 1, 1}, {}).status, RunResult::ok);
    };
    run(16, 2);
    EXPECT_TRUE(last_spread_);
    run(16, 8);
    EXPECT_FALSE(last_spread_);
    EXPECT_EQ(asked, 2);
    run(8, 2);
    run(17, 3);
    run(16, 2);
    run(8, 2);
    EXPECT_EQ(asked, 4);
    EXPECT_EQ(lowered_, 2);
}

TEST_F(ProgramTest, grids_of_whole_clusters_and_others_are_variants) {
    prepare_copy(" @ cluster(2, 2)");
    float y[8] = {}, x[8] = {};
    const auto run = [&](std::array<uint64_t, 3> grid) { return program_->run(arguments(y, x, 8, Memory::cuda), grid, {}).status; };
    EXPECT_EQ(run({2, 2, 1}), RunResult::ok);
    EXPECT_TRUE(last_whole_);
    EXPECT_EQ(run({2, 1, 1}), RunResult::ok);
    EXPECT_FALSE(last_whole_);
    EXPECT_EQ(lowered_, 2);
    EXPECT_EQ(run({1, 4, 1}), RunResult::ok);
    EXPECT_EQ(run({4, 2, 1}), RunResult::ok);
    EXPECT_EQ(lowered_, 2);
}

TEST_F(ProgramTest, failed_asserts_are_diagnostics) {
    prepare_copy();
    float y[4] = {}, x[4] = {1, -1, 2, -2};
    const RunResult result = program_->run(arguments(y, x, 4, Memory::host), std::array<uint64_t, 3>{2, 2, 1}, {});
    EXPECT_EQ(result.status, RunResult::failed);
    ASSERT_EQ(result.diagnostics.size(), 1u);
    EXPECT_EQ(result.diagnostics[0].id, Diag::tile_assertion_failed);
    EXPECT_EQ(result.diagnostics[0].notes, (std::vector<DiagNote>{"in program (1, 0, 0)"}));
    EXPECT_EQ(y[3], -2);
}

TEST_F(ProgramTest, cancelled_runs_say_so) {
    prepare_copy();
    float y[4] = {5}, x[4] = {1};
    const std::atomic<bool> cancel{true};
    RunOptions options;
    options.cancel = &cancel;
    const RunResult result = program_->run(arguments(y, x, 4, Memory::host), kOne, options);
    EXPECT_EQ(result.status, RunResult::cancelled);
    ASSERT_EQ(result.diagnostics.size(), 1u);
    EXPECT_EQ(result.diagnostics[0].id, Diag::run_cancelled);
    EXPECT_EQ(y[0], 5);
    EXPECT_EQ(program_->run(arguments(y, x, 4, Memory::host), kOne, {}).status, RunResult::ok) << "a cancelled compile is no failed one";
}

TEST_F(ProgramTest, devices_that_do_not_fit) {
    prepare_copy();
    alignas(16) float y[4] = {}, x[4] = {};
    auto args = arguments(y, x, 4, Memory::cuda);
    args[1].t.device = 1;
    RunResult result = program_->run(args, kOne, {});
    ASSERT_EQ(result.diagnostics.size(), 1u);
    EXPECT_NE(result.diagnostics[0].message.find("several devices"), std::string::npos);
    args[0].t.device = args[1].t.device = 2;
    result = program_->run(args, kOne, {});
    ASSERT_EQ(result.diagnostics.size(), 1u);
    EXPECT_NE(result.diagnostics[0].message.find("no device 2"), std::string::npos);
    args[0].t.device = args[1].t.device = 1;
    const Stream stream(*this, context_);
    RunOptions options;
    options.stream = stream.handle;
    result = program_->run(args, kOne, options);
    ASSERT_EQ(result.diagnostics.size(), 1u);
    EXPECT_NE(result.diagnostics[0].message.find("belongs to device 0"), std::string::npos);
}

TEST_F(ProgramTest, launches_go_where_the_tensors_lie) {
    prepare_copy();
    alignas(16) float y[4] = {}, x[4] = {1, 2, 3, 4};
    auto args = arguments(y, x, 4, Memory::cuda);
    ASSERT_EQ(program_->run(args, std::array<uint64_t, 3>{4, 1, 1}, {}).status, RunResult::ok);
    EXPECT_EQ(last_launch_.context->device, 0);
    EXPECT_EQ(last_arch_, "sm_90a");
    args[0].t.device = args[1].t.device = 1;
    x[3] = 5;
    ASSERT_EQ(program_->run(args, std::array<uint64_t, 3>{4, 1, 1}, {}).status, RunResult::ok);
    EXPECT_EQ(last_launch_.context->device, 1);
    EXPECT_EQ(last_arch_, "sm_80");
    EXPECT_EQ(y[3], 5);
    const auto launch = program_->prepare_launch(args, std::array<uint64_t, 3>{2, 1, 1}, nullptr);
    ASSERT_TRUE(launch) << launch.error;
    EXPECT_EQ((*launch.value)->device(), 1);
    EXPECT_EQ((*launch.value)->launch(nullptr), 0);
    EXPECT_EQ(last_launch_.context->device, 1);
    EXPECT_EQ(lowered_, 2);
    EXPECT_STREQ(backend_->device_at(-1, nullptr)->arch->name, "sm_90a");
    EXPECT_STREQ(backend_->device_at(1, nullptr)->arch->name, "sm_80");
    EXPECT_STREQ(backend_->device_at(2, nullptr)->arch->name, "sm_90a") << "its launch will tell";
    FakeContext other{1};
    const Stream stream(*this, reinterpret_cast<CUcontext>(&other));
    EXPECT_STREQ(backend_->device_at(-1, stream.handle)->arch->name, "sm_80");
}

TEST_F(ProgramTest, streams_of_any_context) {
    prepare_copy();
    alignas(16) float y[4] = {}, x[4] = {1, 2, 3, 4};
    auto args = arguments(y, x, 4, Memory::cuda);
    args[0].t.device = args[1].t.device = 1;
    const std::array<uint64_t, 3> grid = {4, 1, 1};
    FakeContext other{1};
    CUcontext primary = nullptr;
    ASSERT_EQ(state_->driver()->primary_context(1, &primary), 0);
    const Stream own(*this, reinterpret_cast<CUcontext>(&other)), plain(*this, primary);
    RunOptions options;
    options.stream = own.handle;
    ASSERT_EQ(program_->run(args, grid, options).status, RunResult::ok);
    EXPECT_EQ(last_launch_.context, &other);
    EXPECT_EQ(last_launch_.stream, own.handle);

    const auto launch = program_->prepare_launch(args, grid, own.handle);
    ASSERT_TRUE(launch) << launch.error;
    EXPECT_EQ((*launch.value)->launch(own.handle), 0) << "from a thread without a context";
    EXPECT_EQ(last_launch_.context, &other);
    EXPECT_EQ((*launch.value)->collect(own.handle, {}).status, RunResult::ok);
    EXPECT_NE((*launch.value)->launch(plain.handle), 0) << "a stream of another context";
    const auto on_primary = program_->prepare_launch(args, grid, nullptr);
    ASSERT_TRUE(on_primary) << on_primary.error;
    EXPECT_EQ((*on_primary.value)->launch(plain.handle), 0);
    EXPECT_NE((*on_primary.value)->launch(own.handle), 0);
    args[0].t.device = args[1].t.device = 0;
    EXPECT_NE(program_->prepare_launch(args, grid, own.handle).error.find("belongs to device 1"), std::string::npos);
}

TEST_F(ProgramTest, newer_devices_run_ptx) {
    fake_->capability[0] = 121;
    fake_->capability[1] = 103;
    restart();
    prepare_copy();
    alignas(16) float y[4] = {}, x[4] = {1, 2, 3, 4};
    auto args = arguments(y, x, 4, Memory::cuda);
    ASSERT_EQ(program_->run(args, std::array<uint64_t, 3>{4, 1, 1}, {}).status, RunResult::ok);
    EXPECT_EQ(last_arch_, "compute_120");
    EXPECT_TRUE(fake_->ptx);
    EXPECT_EQ(fake_->ptx_target, 120);
    EXPECT_EQ(y[3], 4);
    args[0].t.device = args[1].t.device = 1;
    ASSERT_EQ(program_->run(args, std::array<uint64_t, 3>{4, 1, 1}, {}).status, RunResult::ok);
    EXPECT_EQ(fake_->ptx_target, 100);
    const Availability& a = backend_->availability();
    EXPECT_EQ(a.looked_for.back(), "GPU 1: Fake A100, compute capability 10.3, compiled for compute_100");
    fake_->capability[0] = 90;
    restart();
    prepare_copy();
    args[0].t.device = args[1].t.device = 0;
    ASSERT_EQ(program_->run(args, std::array<uint64_t, 3>{4, 1, 1}, {}).status, RunResult::ok);
    EXPECT_FALSE(fake_->ptx);
}

// ---- captures ----

TEST_F(ProgramTest, what_a_capture_forbids_ends_it) {
    // The stand-in notices what a driver would not take.
    const ContextScope scope(*state_->driver(), context_);
    const Stream stream(*this, context_);
    const Driver& driver = *state_->driver();
    CUdeviceptr p = 0;
    CUgraph graph = nullptr;
    for (const auto& forbidden :
         {std::function([&] { return driver.cuMemAlloc(&p, 16); }), std::function([&] { return driver.cuStreamSynchronize(stream.handle); }),
          std::function([&] { return driver.cuMemsetD8Async(0, 0, 0, stream.handle); }),
          std::function([&] { return driver.cuStreamSynchronize(nullptr); })}) {
        ASSERT_EQ(driver.cuStreamBeginCapture(stream.handle, 0), 0);
        EXPECT_NE(forbidden(), 0);
        EXPECT_NE(driver.cuStreamEndCapture(stream.handle, &graph), 0);
    }
}

TEST_F(ProgramTest, prepared_launches_are_captured) {
    prepare_copy();
    alignas(16) float y[4] = {}, x[4] = {1, 2, 3, 4};
    const Stream stream(*this, context_);
    const auto launch = program_->prepare_launch(arguments(y, x, 4, Memory::cuda), std::array<uint64_t, 3>{4, 1, 1}, stream.handle);
    ASSERT_TRUE(launch) << launch.error;
    const Graph graph(*this, stream, [&] {
        EXPECT_EQ((*launch.value)->launch(stream.handle), 0);
        EXPECT_EQ((*launch.value)->launch(stream.handle), 0);
        const RunResult collected = (*launch.value)->collect(stream.handle, {});
        EXPECT_EQ(collected.status, RunResult::failed);
        ASSERT_EQ(collected.diagnostics.size(), 1u);
        EXPECT_NE(collected.diagnostics[0].message.find("collect after the graph has run"), std::string::npos);
    });
    EXPECT_EQ(launches_, 0) << "captured, not run";
    x[1] = -7;
    graph.launch(stream);
    EXPECT_EQ(launches_, 2);
    EXPECT_TRUE(last_launch_.captured);
    EXPECT_EQ(y[1], -7);
    EXPECT_EQ((*launch.value)->collect(stream.handle, {}).diagnostics.size(), 1u);
    graph.launch(stream);
    EXPECT_EQ(launches_, 4);
}

TEST_F(ProgramTest, preparing_is_no_part_of_a_capture) {
    prepare_copy();
    alignas(16) float y[4] = {}, x[4] = {1, 2, 3, 4};
    const Stream stream(*this, context_);
    std::unique_ptr<PreparedLaunch> prepared;
    const Graph graph(*this, stream, [&] {
        auto launch = program_->prepare_launch(arguments(y, x, 4, Memory::cuda), std::array<uint64_t, 3>{4, 1, 1}, stream.handle);
        ASSERT_TRUE(launch) << launch.error;
        prepared = std::move(*launch);
        EXPECT_EQ(prepared->launch(stream.handle), 0);
        (void)program_->prepare_launch(arguments(y, x, 3, Memory::cuda), kOne, nullptr);  // comes and goes
    });
    graph.launch(stream);
    EXPECT_EQ(launches_, 1);
    EXPECT_EQ(y[3], 4);
}

TEST_F(ProgramTest, plain_launches_are_captured_where_nothing_but_the_kernel_runs) {
    alignas(16) float y[4] = {}, x[4] = {1, 2, 3, 4};
    const Stream stream(*this, context_);
    RunOptions options;
    options.stream = stream.handle;
    const auto run = [&](Memory memory) { return program_->run(arguments(y, x, 4, memory), std::array<uint64_t, 3>{4, 1, 1}, options); };
    const auto refused = [&](Memory memory) {
        const RunResult result = run(memory);
        EXPECT_EQ(result.status, RunResult::failed);
        ASSERT_EQ(result.diagnostics.size(), 1u);
        EXPECT_NE(result.diagnostics[0].message.find("the stream is being captured, and this launch copies, allocates or reports"), std::string::npos)
            << result.diagnostics[0].message;
    };
    prepare_copy();
    Graph(*this, stream, [&] {
        refused(Memory::cuda);  // asserts
        refused(Memory::host);
    }).launch(stream);
    EXPECT_EQ(launches_, 0);
    prepare_copy("", "", {}, false);
    const Graph graph(*this, stream, [&] {
        refused(Memory::host);
        EXPECT_EQ(run(Memory::cuda).status, RunResult::ok);
    });
    EXPECT_EQ(launches_, 0);
    graph.launch(stream);
    EXPECT_EQ(launches_, 1);
    EXPECT_EQ(y[3], 4);
}

TEST_F(ProgramTest, prepared_launches_of_no_programs) {
    prepare_copy();
    alignas(16) float y[4] = {5}, x[4] = {1, 2, 3, 4};
    const auto launch = program_->prepare_launch(arguments(y, x, 4, Memory::cuda), std::array<uint64_t, 3>{0, 1, 1}, nullptr);
    ASSERT_TRUE(launch) << launch.error;
    EXPECT_EQ((*launch.value)->launch(nullptr), 0);
    EXPECT_EQ((*launch.value)->collect(nullptr, {}).status, RunResult::ok);
    EXPECT_EQ(y[0], 5);
}

TEST_F(ProgramTest, prepared_launches) {
    prepare_copy();
    alignas(16) float y[4] = {}, x[4] = {1, 2, 3, 4};
    EXPECT_FALSE(program_->prepare_launch(arguments(y, x, 4, Memory::host), kOne, nullptr));
    const auto launch = program_->prepare_launch(arguments(y, x, 4, Memory::cuda), std::array<uint64_t, 3>{4, 1, 1}, nullptr);
    ASSERT_TRUE(launch) << launch.error;
    const int64_t before = fake_->allocations;
    EXPECT_EQ((*launch.value)->launch(nullptr), 0);
    EXPECT_EQ(y[3], 4);
    x[2] = -3;
    EXPECT_EQ((*launch.value)->launch(nullptr), 0);
    EXPECT_EQ(fake_->allocations, before);
    EXPECT_EQ((*launch.value)->collect(nullptr, {}).diagnostics.size(), 1u);
    EXPECT_EQ((*launch.value)->collect(nullptr, {}).diagnostics.size(), 0u);
    fake_->fail_at = fake_->calls + 2;  // the context is pushed first
    const int code = (*launch.value)->launch(nullptr);
    EXPECT_NE(code, 0);
    EXPECT_NE((*launch.value)->error_text(code).find("cuLaunchKernelEx"), std::string::npos);
}

TEST_F(ProgramTest, every_call_of_a_run_may_fail) {
    prepare_copy();
    float y[4] = {}, x[4] = {1, 2, 3, 4};
    const std::array<uint64_t, 3> grid = {4, 1, 1};
    int failures = 0;
    for (int64_t n = 1;; ++n) {
        fake_->calls = 0;
        fake_->fail_at = n;
        const RunResult result = program_->run(arguments(y, x, 4, Memory::host), grid, {});
        EXPECT_EQ(fake_->allocations, 0) << n;
        EXPECT_EQ(fake_->contexts, 0) << n;
        if (result.status == RunResult::ok) break;
        ASSERT_EQ(result.diagnostics.size(), 1u) << n;
        EXPECT_STREQ(diag_row(result.diagnostics[0].id).code, "T0916") << n;
        EXPECT_NE(result.diagnostics[0].message.find("out of fake memory"), std::string::npos) << n;
        ++failures;
        ASSERT_LT(n, 100);
    }
    EXPECT_GE(failures, 12);
    EXPECT_EQ(y[3], 4);
}

}  // namespace
}  // namespace tegula::cuda
