// From arguments to launches, against a stand-in for the driver that keeps device memory on the host: traits, parameter values, tensor maps, pieces
// of a grid, staging, reports, and every driver call failing in turn.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>

#include "jit/cuda/emitter.h"
#include "jit/cuda/program.h"
#include "lang/ir_text.h"
#include "lang/layout.h"
#include "lower/gpu/gpu.h"
#include "tests/unit/fake_cuda.h"

namespace tegula::cuda {
namespace {

constexpr const char* kFake = TEGULA_BINARY_DIR "/tests/libfake_cuda.so";
constexpr std::array<uint64_t, 3> kOne = {1, 1, 1};

using Kernel = std::function<void(const FakeLaunch&)>;

class LaunchTest : public ::testing::Test {
protected:
    void SetUp() override {
        void* library = ::dlopen(kFake, RTLD_NOW | RTLD_LOCAL);
        ASSERT_NE(library, nullptr) << ::dlerror();
        fake_ = reinterpret_cast<FakeCuda* (*)()>(::dlsym(library, "fake_cuda"))();
        *fake_ = {};
        fake_->user = &kernel_;
        fake_->on_launch = [](void* user, const FakeLaunch& launch) {
            if (*static_cast<Kernel*>(user)) (*static_cast<Kernel*>(user))(launch);
        };
        BackendOptions options;
        options.driver_path = kFake;
        state_ = std::make_shared<Backend::State>(options);
        ASSERT_NE(state_->driver(), nullptr);
        ASSERT_EQ(state_->driver()->primary_context(0, &context_), 0);
    }
    void TearDown() override {
        if (!fake_) return;
        EXPECT_EQ(fake_->allocations, 0);
        EXPECT_EQ(fake_->libraries, 0);
        EXPECT_EQ(fake_->contexts, 0);
    }

    const ir::Function& parse(const std::string& text) {
        DiagSink diags;
        fn_ = ir::parse_ir(sources_, sources_.add("test", text), types_, diags);
        for (const Diagnostic& d : diags.all()) ADD_FAILURE() << render_text(d, sources_, false);
        if (!fn_) throw std::runtime_error("IR text does not parse");
        return *fn_;
    }
    TensorArg tensor(Fmt elem, void* data, uint64_t bytes, Shape extents, Memory memory = Memory::cuda) {
        TensorArg t;
        t.elem = id_of(elem);
        t.data = data;
        t.bytes = bytes;
        t.extents = extents;
        t.memory = memory;
        return t;
    }
    static Argument argument(TensorArg t) {
        Argument a;
        a.kind = Argument::tensor;
        a.t = t;
        return a;
    }
    static Argument scalar(uint64_t code) {
        Argument a;
        a.code = code;
        return a;
    }
    /// A variant as the program would make it, with a parameter list of the test's choice.
    std::shared_ptr<const Variant> variant(std::vector<KernelParam> params, std::vector<GpuTensor> traits, std::vector<TensorMap> maps = {},
                                           int64_t workspace = 0, int split = 1, int cluster = 1, bool persistent = false) {
        auto v = std::make_shared<Variant>();
        v->fn = *fn_;
        v->traits = std::move(traits);
        v->text.params = std::move(params);
        v->text.tensor_maps = std::move(maps);
        v->text.workspace_bytes = workspace;
        v->text.split = split;
        v->text.cluster = cluster;
        v->text.persistent = persistent;
        v->text.threads = 256;
        v->text.shared_bytes = 100000;
        v->loaded = std::make_unique<Loaded>(*state_->driver());
        state_->driver()->cuLibraryLoadData(&v->loaded->library, "image", nullptr, nullptr, 0, nullptr, nullptr, 0);
        state_->driver()->cuLibraryGetKernel(&v->loaded->kernel, v->loaded->library, "k");
        return v;
    }
    std::string bind(BoundLaunch& launch, std::shared_ptr<const Variant> v, const std::vector<Argument>& args, std::array<uint64_t, 3> grid = kOne) {
        Addresses addresses;
        for (const Argument& a : args) addresses.push_back(reinterpret_cast<CUdeviceptr>(a.t.data));
        return launch.bind({state_, std::move(v), 0, context_, nullptr, nullptr, true}, args, addresses, grid);
    }

    FakeCuda* fake_ = nullptr;
    CUcontext context_ = nullptr;
    Kernel kernel_;
    TypeTable types_;
    SourceMap sources_;
    std::unique_ptr<ir::Function> fn_;
    std::shared_ptr<Backend::State> state_;
};

template <class T>
T value(const FakeLaunch& l, size_t i) {
    return *static_cast<T*>(l.params[i]);
}

TEST_F(LaunchTest, availability_lists_the_device) {
    const Availability& a = state_->availability();
    EXPECT_TRUE(a.device);
    ASSERT_EQ(a.devices.size(), 1u);
    EXPECT_EQ(a.devices[0].name, "Fake H200");
    EXPECT_STREQ(a.devices[0].arch->name, "sm_90a");
    EXPECT_EQ(a.driver_version, "13.0");
}

TEST_F(LaunchTest, every_parameter_gets_its_value) {
    parse("kernel @k(%y: tensor<f32>[?, ?] inout, %x: tensor<i4>[?, 5] in, %a: f16, %N: extent) {\n  ret\n}\n");
    alignas(16) float y[64];
    alignas(16) uint8_t x[64];
    const std::vector<Argument> args = {argument(tensor(Fmt::f32, y, sizeof y, {4, 16})), argument(tensor(Fmt::none_, x, 21, {7, 5})), scalar(0x3c00),
                                        scalar(77)};
    using K = KernelParam;
    const auto v = variant({{K::pointer, 0, 0},
                            {K::extent, 0, 1},
                            {K::stride, 0, 0},
                            {K::stride, 1, 0},
                            {K::stride, 1, 1},
                            {K::bytes, 1, 0},
                            {K::scalar, 2, 0},
                            {K::scalar, 3, 0},
                            {K::grid, 0, 1},
                            {K::first, 0, 0},
                            {K::grid_reciprocal, 1, 1},
                            {K::grid_reciprocal, 2, 2}},
                           {{}, {}, {}, {}});
    BoundLaunch launch;
    ASSERT_EQ(bind(launch, v, args, {3, 5, 2}), "");
    int launches = 0;
    kernel_ = [&](const FakeLaunch& l) {
        ++launches;
        EXPECT_EQ(l.grid, 30u);
        EXPECT_EQ(l.threads, 256u);
        EXPECT_EQ(l.shared, 100000u);
        EXPECT_EQ(value<void*>(l, 0), y);
        EXPECT_EQ(value<int64_t>(l, 1), 16);
        EXPECT_EQ(value<int64_t>(l, 2), 16) << "elements";
        EXPECT_EQ(value<int64_t>(l, 3), 24) << "bits: 5 * 4 rounded up to bytes";
        EXPECT_EQ(value<int64_t>(l, 4), 4);
        EXPECT_EQ(value<int64_t>(l, 5), 21);
        EXPECT_EQ(value<uint64_t>(l, 6), 0x3c00u);
        EXPECT_EQ(value<uint64_t>(l, 7), 77u);
        EXPECT_EQ(value<uint64_t>(l, 8), 5u);
        EXPECT_EQ(value<uint64_t>(l, 9), 0u);
        EXPECT_EQ(value<uint64_t>(l, 10), UINT64_MAX / 5);
        EXPECT_EQ(value<uint64_t>(l, 11), UINT64_MAX) << "one cluster of two programs";
    };
    EXPECT_EQ(launch.launch(nullptr), 0);
    EXPECT_EQ(launch.launch(nullptr), 0);
    EXPECT_EQ(launches, 2);
}

TEST_F(LaunchTest, strides_of_hosts_and_of_layouts) {
    parse("kernel @k(%x: tensor<f32>[?, ?] in) {\n  ret\n}\n");
    alignas(16) float x[64];
    TensorArg t = tensor(Fmt::f32, x, sizeof x, {4, 6});
    t.has_strides = true;
    t.strides = {8, -1};
    EXPECT_TRUE(tensor_trait(*fn_, 0, t, 16).strided);
    BoundLaunch launch;
    ASSERT_EQ(bind(launch, variant({{KernelParam::stride, 0, 0}, {KernelParam::stride, 0, 1}}, {{false, true}}), {argument(t)}), "");
    kernel_ = [](const FakeLaunch& l) {
        EXPECT_EQ(value<int64_t>(l, 0), 8);
        EXPECT_EQ(value<int64_t>(l, 1), -1);
    };
    EXPECT_EQ(launch.launch(nullptr), 0);
    // tiled<2, 3>: physical tuple (i / 2, j / 3, i % 2, j % 3) of a 4 x 6 tensor, extents (2, 2, 2, 3).
    const auto i = LayoutExpr::make_index(0), j = LayoutExpr::make_index(1);
    const auto div = [](const LayoutExpr& a, int64_t n) { return LayoutExpr::make(LayoutExpr::div, a, LayoutExpr::make_constant(n)); };
    const auto mod = [](const LayoutExpr& a, int64_t n) { return LayoutExpr::make(LayoutExpr::rem, a, LayoutExpr::make_constant(n)); };
    const Layout tiled = Layout::from_exprs("tiled", 2, {div(i, 2), div(j, 3), mod(i, 2), mod(j, 3)});
    Type type = fn_->type(fn_->params[0].value);
    type.layout = types_.intern(tiled);
    fn_->value(fn_->params[0].value).type = types_.intern(type);
    t.has_strides = false;
    t.layout = type.layout;
    BoundLaunch other;
    ASSERT_EQ(bind(other, variant({{KernelParam::stride, 0, 0}, {KernelParam::stride, 0, 1}, {KernelParam::stride, 0, 2}}, {{}}), {argument(t)}), "");
    kernel_ = [](const FakeLaunch& l) {
        EXPECT_EQ(value<int64_t>(l, 0), 12);
        EXPECT_EQ(value<int64_t>(l, 1), 6);
        EXPECT_EQ(value<int64_t>(l, 2), 3);
    };
    EXPECT_EQ(other.launch(nullptr), 0);
}

TEST_F(LaunchTest, traits) {
    parse("kernel @k(%x: tensor<f16>[?, ?] in, %q: tensor<i4>[?, ?] in) {\n  ret\n}\n");
    const auto aligned = [&](size_t param, TensorArg t, uint64_t address) { return tensor_trait(*fn_, param, t, address).aligned; };
    TensorArg t = tensor(Fmt::f16, nullptr, 1024, {4, 64});
    EXPECT_TRUE(aligned(0, t, 32));
    EXPECT_FALSE(aligned(0, t, 40)) << "base";
    t.extents = {4, 63};
    EXPECT_FALSE(aligned(0, t, 32)) << "rows of 126 bytes";
    t.extents = {1, 63};
    EXPECT_TRUE(aligned(0, t, 32)) << "one row has no pitch";
    EXPECT_FALSE(tensor_trait(*fn_, 0, t, 32).whole) << "126 bytes";
    t.extents = {1, 72};
    EXPECT_TRUE(tensor_trait(*fn_, 0, t, 32).whole) << "144 bytes";
    EXPECT_FALSE(tensor_trait(*fn_, 0, t, 40).whole) << "base";
    t.extents = {0, 64};
    EXPECT_FALSE(aligned(0, t, 32)) << "nothing to describe";
    t.extents = {4096, 1};
    EXPECT_FALSE(aligned(0, t, 32)) << "rows of 2 bytes";
    TensorArg q = tensor(Fmt::none_, nullptr, 1024, {4, 32});
    EXPECT_TRUE(aligned(1, q, 16));
    q.extents = {4, 30};
    EXPECT_FALSE(aligned(1, q, 16));

    t.extents = {4, 64};
    t.has_strides = true;
    t.strides = {64, 1};
    EXPECT_FALSE(tensor_trait(*fn_, 0, t, 32).strided) << "what the layout says anyway";
    t.strides = {128, 1};
    EXPECT_TRUE(tensor_trait(*fn_, 0, t, 32).strided);
    EXPECT_TRUE(aligned(0, t, 32));
    t.strides = {100, 1};
    EXPECT_FALSE(aligned(0, t, 32)) << "200 bytes";
    t.strides = {0, 1};
    EXPECT_FALSE(aligned(0, t, 32));
    t.strides = {1, 64};
    EXPECT_TRUE(aligned(0, t, 32)) << "the other dimension is contiguous";
    t.strides = {INT64_MAX, 1};
    EXPECT_FALSE(aligned(0, t, 32));
}

TEST_F(LaunchTest, written_parameters_and_aliases) {
    parse(
        "kernel @k(%y: tensor<f32>[?] inout, %x: tensor<f32>[?] inout, %p: ptr<f32>, %i: i64) {\n"
        "  %0 = load %x[%i] : f32\n  store %y[%i] = %0\n  ret\n}\n");
    const ParamFacts facts = find_param_facts(*fn_);
    EXPECT_EQ(facts.written, (std::vector<bool>{true, false, false, false}));
    std::vector<Argument> args = {argument(tensor(Fmt::f32, nullptr, 64, {16})), argument(tensor(Fmt::f32, nullptr, 64, {16})),
                                  argument(tensor(Fmt::f32, nullptr, 64, {16})), scalar(0)};
    EXPECT_FALSE(find_alias(facts, args, {1000, 1064, 1064, 0})) << "read twice";
    EXPECT_TRUE(find_alias(facts, args, {1000, 1060, 2000, 0}));
    EXPECT_TRUE(find_alias(facts, args, {1000, 2000, 937, 0}));
    EXPECT_FALSE(find_alias(facts, args, {1000, 2000, 936, 0}));
    parse("kernel @k(%y: tensor<f32>[?] inout, %p: ptr<f32>, %v: f32) {\n  ptr_store %p, %v {flags = 0}\n  ret\n}\n");
    EXPECT_EQ(find_param_facts(*fn_).written, (std::vector<bool>{false, true, false}));
}

TEST_F(LaunchTest, tensor_maps) {
    parse("kernel @k(%x: tensor<bf16>[?, ?] in, %q: tensor<i4>[?, ?] in) {\n  ret\n}\n");
    alignas(256) static uint8_t memory[8192];
    const std::vector<Argument> args = {argument(tensor(Fmt::bf16, memory, 8192, {32, 128})), argument(tensor(Fmt::none_, memory, 4096, {16, 512}))};
    TensorMap map{0, {1, 0}, {64, 16}, 128};
    BoundLaunch launch;
    ASSERT_EQ(bind(launch, variant({{KernelParam::tensor_map, 0, 0}}, {{true, false}, {true, false}}, {map}), args), "");
    EXPECT_EQ(fake_->map.type, kMapBF16);
    EXPECT_EQ(fake_->map.rank, 2u);
    EXPECT_EQ(fake_->map.address, reinterpret_cast<uint64_t>(memory));
    EXPECT_EQ(fake_->map.extents[0], 128u);
    EXPECT_EQ(fake_->map.extents[1], 32u);
    EXPECT_EQ(fake_->map.strides[0], 256u);
    EXPECT_EQ(fake_->map.box[0], 64u);
    EXPECT_EQ(fake_->map.box[1], 16u);
    EXPECT_EQ(fake_->map.swizzle, 3);
    kernel_ = [&](const FakeLaunch& l) {
        EXPECT_EQ(reinterpret_cast<uintptr_t>(l.params[0]) % 128, 0u);
        EXPECT_EQ(*static_cast<uint64_t*>(l.params[0]), reinterpret_cast<uint64_t>(memory));
    };
    EXPECT_EQ(launch.launch(nullptr), 0);
    map = {1, {1, 0}, {128, 8}, 64};
    BoundLaunch packed;
    ASSERT_EQ(bind(packed, variant({{KernelParam::tensor_map, 0, 0}}, {{true, false}, {true, false}}, {map}), args), "");
    EXPECT_EQ(fake_->map.type, kMapU8);
    EXPECT_EQ(fake_->map.extents[0], 256u) << "bytes";
    EXPECT_EQ(fake_->map.box[0], 64u);
    EXPECT_EQ(fake_->map.strides[0], 256u);
    EXPECT_EQ(fake_->map.swizzle, 2);
}

TEST_F(LaunchTest, large_grids_go_in_pieces) {
    parse("kernel @k(%N: extent) {\n  ret\n}\n");
    std::vector<std::pair<uint64_t, uint64_t>> pieces;
    kernel_ = [&](const FakeLaunch& l) { pieces.emplace_back(value<uint64_t>(l, 0), l.grid); };
    BoundLaunch wide;
    ASSERT_EQ(bind(wide, variant({{KernelParam::first, 0, 0}}, {{}}), {scalar(1)}, {uint64_t{1} << 31, 2, 1}), "");
    EXPECT_EQ(wide.launch(nullptr), 0);
    const uint64_t most = 0x7fffffff;
    EXPECT_EQ(pieces, (std::vector<std::pair<uint64_t, uint64_t>>{{0, most}, {most, most}, {2 * most, 2}}));
    pieces.clear();
    BoundLaunch scratch;  // 1 MB each: 256 programs at once
    ASSERT_EQ(bind(scratch, variant({{KernelParam::first, 0, 0}, {KernelParam::workspace, 0, 0}}, {{}}, {}, 1 << 20), {scalar(1)}, {600, 1, 1}), "");
    EXPECT_EQ(fake_->allocations, 1);
    EXPECT_EQ(scratch.launch(nullptr), 0);
    EXPECT_EQ(pieces, (std::vector<std::pair<uint64_t, uint64_t>>{{0, 256}, {256, 256}, {512, 88}}));
    pieces.clear();
    const std::atomic<bool> cancel{true};
    EXPECT_EQ(scratch.launch_all(nullptr, &cancel), 0);
    EXPECT_TRUE(pieces.empty());
}

TEST_F(LaunchTest, persistent_kernels_get_what_the_device_holds_and_no_pieces) {
    parse("kernel @k(%N: extent) {\n  ret\n}\n");
    std::vector<std::pair<uint64_t, uint64_t>> pieces;
    kernel_ = [&](const FakeLaunch& l) { pieces.emplace_back(value<uint64_t>(l, 0), l.grid); };
    const auto held = [&](std::array<uint64_t, 3> grid, int64_t workspace) {
        BoundLaunch launch;
        EXPECT_EQ(bind(launch, variant({{KernelParam::first, 0, 0}}, {{}}, {}, workspace, 1, 1, true), {scalar(1)}, grid), "");
        EXPECT_EQ(launch.launch(nullptr), 0);
        return std::exchange(pieces, {});
    };
    using Pieces = std::vector<std::pair<uint64_t, uint64_t>>;
    EXPECT_EQ(held({1, 1, 1}, 0), (Pieces{{0, 1}}));
    EXPECT_EQ(held({131, 2, 1}, 0), (Pieces{{0, 262}}));
    EXPECT_EQ(held({265, 1, 1}, 0), (Pieces{{0, 264}})) << "2 CTAs on each of 132 multiprocessors";
    EXPECT_EQ(held({uint64_t{1} << 31, 2, 5}, 0), (Pieces{{0, 264}}));
    EXPECT_EQ(held({1000, 1, 1}, 2 << 20), (Pieces{{0, 128}})) << "256 MB of workspace";
}

TEST_F(LaunchTest, split_sums_have_several_ctas_per_program_and_start_from_zeros) {
    parse("kernel @k(%N: extent) {\n  ret\n}\n");
    std::vector<std::pair<uint64_t, uint64_t>> pieces;
    kernel_ = [&](const FakeLaunch& l) {
        pieces.emplace_back(value<uint64_t>(l, 0), l.grid);
        const auto* workspace = value<const uint8_t*>(l, 1);
        EXPECT_EQ(std::count(workspace, workspace + (3 << 20), 0), 3 << 20);
    };
    const auto v = variant({{KernelParam::first, 0, 0}, {KernelParam::workspace, 0, 0}}, {{}}, {}, 1 << 20, 3);
    BoundLaunch launch;  // 256 CTAs at once would cut a program in two
    ASSERT_EQ(bind(launch, v, {scalar(1)}, {100, 1, 1}), "");
    EXPECT_EQ(launch.launch(nullptr), 0);
    EXPECT_EQ(pieces, (std::vector<std::pair<uint64_t, uint64_t>>{{0, 255}, {255, 45}}));
}

TEST_F(LaunchTest, clusters_are_launched_whole) {
    parse("kernel @k(%N: extent) {\n  ret\n}\n");
    std::vector<std::pair<uint64_t, uint64_t>> pieces;
    unsigned cluster = 0;
    kernel_ = [&](const FakeLaunch& l) {
        pieces.emplace_back(value<uint64_t>(l, 0), l.grid);
        cluster = l.cluster;
    };
    const std::vector<KernelParam> params = {{KernelParam::first, 0, 0}, {KernelParam::workspace, 0, 0}};
    BoundLaunch launch;  // 85 CTAs at once would cut a cluster in two
    ASSERT_EQ(bind(launch, variant(params, {{}}, {}, 3 << 20, 1, 4), {scalar(1)}, {50, 4, 1}), "");
    EXPECT_EQ(launch.launch(nullptr), 0);
    EXPECT_EQ(pieces, (std::vector<std::pair<uint64_t, uint64_t>>{{0, 84}, {84, 84}, {168, 32}}));
    EXPECT_EQ(cluster, 4u);
    BoundLaunch alone;
    ASSERT_EQ(bind(alone, variant(params, {{}}, {}, 1 << 20), {scalar(1)}, {50, 4, 1}), "");
    EXPECT_EQ(alone.launch(nullptr), 0);
    EXPECT_EQ(cluster, 1u);
}

TEST_F(LaunchTest, overlapping_host_tensors_share_a_copy) {
    std::vector<uint8_t> memory(4096);
    std::iota(memory.begin(), memory.end(), uint8_t{0});
    std::vector<uint8_t> other(100, 9);
    const std::vector<Argument> args = {
        argument(tensor(Fmt::u8, &memory[100], 200, {200}, Memory::host)), argument(tensor(Fmt::u8, &memory[250], 200, {200}, Memory::host)),
        argument(tensor(Fmt::u8, other.data(), 100, {100}, Memory::host)), argument(tensor(Fmt::u8, nullptr, 0, {0}, Memory::host)), scalar(5)};
    Staging staging(*state_->driver(), nullptr, nullptr);
    staging.plan(args);
    EXPECT_EQ(staging.address(args[1].t) - staging.address(args[0].t), 150u);
    EXPECT_EQ(staging.address(args[0].t) % 256, 0u);
    EXPECT_EQ(staging.upload(), 0);
    EXPECT_EQ(fake_->allocations, 2);
    const auto at = [&](size_t i) { return reinterpret_cast<uint8_t*>(staging.address(args[i].t)); };
    EXPECT_EQ(at(1) - at(0), 150);
    EXPECT_EQ(at(3), nullptr);
    EXPECT_EQ(at(0)[7], 107);
    EXPECT_EQ(at(2)[99], 9);
    at(0)[0] = 1;
    at(1)[0] = 2;
    at(2)[0] = 3;
    EXPECT_EQ(staging.download(args, {false, true, true, true, false}), 0);
    EXPECT_EQ(memory[100], 100) << "not written, not copied back";
    EXPECT_EQ(memory[250], 2);
    EXPECT_EQ(other[0], 3);
}

TEST_F(LaunchTest, reports_come_in_program_order) {
    parse(
        "kernel @k(%x: tensor<f32>[?] in, %p: ptr<f32>, %i: i64, %a: f16) {\n"
        "  %c = constant 1 : tile<i8>[2, 3]\n  %b = constant true : tile<bool>[2, 3]\n"
        "  print \"i = {} and {}\", %i, %a\n  print \"tile {{}}\", %c\n  print \"at {}\", %p\n  assert \"all\", %b\n  ret\n}\n");
    const auto& insts = fn_->block(fn_->body).insts;
    std::vector<uint64_t> words(200);
    words[1] = words.size();
    size_t at = 2;
    const auto record = [&](size_t inst, uint64_t program, std::vector<uint64_t> payload) {
        words[at] = insts[inst + 2].v | (payload.size() + 2) << 32;
        words[at + 1] = program;
        std::copy(payload.begin(), payload.end(), words.begin() + static_cast<long>(at) + 2);
        at += payload.size() + 2;
        words[0] = at;
    };
    record(3, 7, {4});
    record(0, 7, {static_cast<uint64_t>(-3), 0x3e00});
    record(0, 2, {11, 0x7e00});
    record(1, 2, {1, 2, 0xff, 4, 5, 6});
    record(3, 5, {2});
    record(2, 9, {1000 + 12});
    record(2, 9, {0});
    const PrintedRange range{1000, 64, 1};
    std::vector<std::string> printed;
    RunOptions options;
    options.print = [&](std::string_view text) { printed.emplace_back(text); };
    RunResult result;
    const std::array<uint64_t, 3> grid = {3, 4, 1};
    read_report(*fn_, words, grid, {&range, 1}, options, result);
    EXPECT_EQ(printed, (std::vector<std::string>{"i = 11 and nan", "tile {}} [[1, 2, -1], [4, 5, 6]]", "i = -3 and 1.5",
                                                 "at ptr(argument 1, element 3)", "at ptr(none)"}));
    ASSERT_EQ(result.diagnostics.size(), 1u) << "once per instruction";
    EXPECT_EQ(result.status, RunResult::failed);
    EXPECT_EQ(result.diagnostics[0].message, "assertion failed: all");
    EXPECT_EQ(result.diagnostics[0].notes, (std::vector<std::string>{"in program (2, 1, 0)", "at element (0, 2) of the tile"}));
}

TEST_F(LaunchTest, damaged_reports_end_the_reading) {
    parse("kernel @k(%i: i64) {\n  print \"{}\", %i\n  ret\n}\n");
    int printed = 0;
    RunOptions options;
    options.print = [&](std::string_view) { ++printed; };
    const auto read = [&](std::vector<uint64_t> words) {
        RunResult result;
        printed = 0;
        read_report(*fn_, words, kOne, {}, options, result);
        for (const Diagnostic& d : result.diagnostics) EXPECT_STREQ(diag_row(d.id).code, "T0917");
        return result.diagnostics.size();
    };
    const uint64_t print = fn_->block(fn_->body).insts[0].v, three = uint64_t{3} << 32;
    EXPECT_EQ(read({}), 0u);
    EXPECT_EQ(read({5}), 0u);
    EXPECT_EQ(read({5, 5, print | three, 0, 42}), 0u);
    EXPECT_EQ(printed, 1);
    EXPECT_EQ(read({UINT64_MAX, 5, print | three, 0, 42}), 1u) << "a note that something was dropped";
    EXPECT_EQ(printed, 1);
    for (const uint64_t head : {print, print | uint64_t{1} << 32, print | uint64_t{4} << 32, UINT64_MAX, uint64_t{9999} | three}) {
        EXPECT_EQ(read({5, 5, head, 0, 42}), 0u);
        EXPECT_EQ(printed, 0);
    }
    EXPECT_EQ(read({4, 4, print | uint64_t{2} << 32, 0}), 0u) << "too short for its instruction";
    EXPECT_EQ(printed, 0);
}

TEST_F(LaunchTest, a_prepared_launch_collects_what_it_printed) {
    parse("kernel @k(%i: i64) {\n  print \"{}\", %i\n  ret\n}\n");
    BoundLaunch launch;
    ASSERT_EQ(bind(launch, variant({{KernelParam::report, 0, 0}}, {{}}), {scalar(1)}), "");
    const uint64_t inst = fn_->block(fn_->body).insts[0].v;
    uint64_t next = 40;
    kernel_ = [&](const FakeLaunch& l) {
        auto* report = value<uint64_t*>(l, 0);
        const uint64_t at = report[0];
        report[0] += 3;
        report[at] = inst | uint64_t{3} << 32;
        report[at + 1] = 0;
        report[at + 2] = next++;
    };
    std::vector<std::string> printed;
    RunOptions options;
    options.print = [&](std::string_view text) { printed.emplace_back(text); };
    EXPECT_EQ(launch.launch(nullptr), 0);
    EXPECT_EQ(launch.launch(nullptr), 0);
    EXPECT_EQ(launch.collect(nullptr, options).status, RunResult::ok);
    EXPECT_EQ(launch.launch(nullptr), 0);
    EXPECT_EQ(launch.collect(nullptr, options).status, RunResult::ok);
    EXPECT_EQ(launch.collect(nullptr, options).status, RunResult::ok);
    EXPECT_EQ(printed, (std::vector<std::string>{"40", "41", "42"}));
}

TEST_F(LaunchTest, every_call_may_fail) {
    parse("kernel @k(%x: tensor<bf16>[?, ?] in) {\n  ret\n}\n");
    alignas(256) static uint8_t memory[8192];
    const std::vector<Argument> args = {argument(tensor(Fmt::bf16, memory, 8192, {32, 128}))};
    const auto v = variant({{KernelParam::tensor_map, 0, 0}, {KernelParam::workspace, 0, 0}, {KernelParam::report, 0, 0}}, {{true, false}},
                           {{0, {1, 0}, {64, 16}, 128}}, 4096);
    int failures = 0;
    for (int64_t n = 1;; ++n) {
        fake_->calls = 0;
        fake_->fail_at = n;
        BoundLaunch launch;
        const std::string error = bind(launch, v, args);
        if (error.empty()) {
            const int code = launch.launch(nullptr);
            const RunResult result = launch.collect(nullptr, {});
            if (code == 0 && result.status == RunResult::ok) break;
            EXPECT_TRUE(code == kCudaOutOfMemory || (result.diagnostics.size() == 1 && result.diagnostics[0].id == Diag::device_error));
        } else {
            EXPECT_NE(error.find("out of fake memory (FAKE_ERROR)"), std::string::npos) << error;
        }
        ++failures;
        ASSERT_LT(n, 100);
    }
    EXPECT_GE(failures, 7);
}

// ---- whole programs: passes, emission and NVRTC are real, the kernel is played by the test ----

class ProgramTest : public LaunchTest {
protected:
    void SetUp() override {
        LaunchTest::SetUp();
        if (IsSkipped() || HasFatalFailure()) return;
        if (!state_->availability().compiler) GTEST_SKIP() << "no NVRTC here";
        BackendOptions options;
        options.driver_path = kFake;
        backend_ = std::make_unique<Backend>(options);
    }
    /// y[program] = x[program], for every program, and an assert that holds where x is not negative.
    void prepare_copy(const std::string& attribute = "") {
        parse("kernel @k(%y: tensor<f32>[?] inout, %x: tensor<f32>[?] in)" + attribute +
              " {\n  %i = program_id {axis = 0} : i64\n  %v = load %x[%i] : f32\n"
              "  %z = constant 0 : f32\n  %ok = ge %v, %z : bool\n  assert \"positive\", %ok\n  store %y[%i] = %v\n  ret\n}\n");
        const auto lower = [this](const Arch& arch, const LaunchTraits& traits) {
            ++lowered_;
            last_ = traits.tensors;
            last_alias_ = traits.may_alias;
            last_whole_ = traits.whole_clusters;
            ir::Function out = *fn_;
            GpuOptions options;
            options.arch = &arch;
            options.may_alias = traits.may_alias;
            options.tensors = traits.tensors;
            run_gpu_passes(out, options);
            params_ = emit(out, &sources_).params;
            for (ir::InstId i : out.block(out.body).insts)
                if (out.inst(i).op == ir::Op::assert) assert_ = i;
            return out;
        };
        auto made = backend_->prepare(*fn_, lower, &sources_);
        ASSERT_TRUE(made) << made.error;
        program_ = std::move(*made);
        kernel_ = [this](const FakeLaunch& l) {
            float *y = nullptr, *x = nullptr;
            uint64_t* report = nullptr;
            for (size_t i = 0; i < params_.size(); ++i) {
                if (params_[i].kind == KernelParam::pointer) (params_[i].param == 0 ? y : x) = value<float*>(l, i);
                if (params_[i].kind == KernelParam::report) report = value<uint64_t*>(l, i);
            }
            ASSERT_TRUE(y && x && report);
            for (unsigned p = l.grid; p-- > 0;) {  // any order
                y[p] = x[p];
                if (x[p] >= 0) continue;
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

    std::unique_ptr<Backend> backend_;
    std::unique_ptr<Program> program_;
    std::vector<KernelParam> params_;
    ir::InstId assert_;
    int lowered_ = 0;
    std::vector<GpuTensor> last_;
    bool last_alias_ = false, last_whole_ = false;
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
    EXPECT_EQ(result.diagnostics[0].notes, (std::vector<std::string>{"in program (1, 0, 0)"}));
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
    args[0].t.device = 1;
    result = program_->run(args, kOne, {});
    ASSERT_EQ(result.diagnostics.size(), 1u);
    EXPECT_NE(result.diagnostics[0].message.find("no device 1"), std::string::npos);
    int stream = 0;
    RunOptions options;
    options.stream = &stream;
    result = program_->run(args, kOne, options);
    ASSERT_EQ(result.diagnostics.size(), 1u);
    EXPECT_NE(result.diagnostics[0].message.find("belongs to device 0"), std::string::npos);
}

TEST_F(ProgramTest, prepared_launches_of_no_programs) {
    prepare_copy();
    alignas(16) float y[4] = {5}, x[4] = {1, 2, 3, 4};
    const auto launch = program_->prepare_launch(arguments(y, x, 4, Memory::cuda), std::array<uint64_t, 3>{0, 1, 1});
    ASSERT_TRUE(launch) << launch.error;
    EXPECT_EQ((*launch.value)->launch(nullptr), 0);
    EXPECT_EQ((*launch.value)->collect(nullptr, {}).status, RunResult::ok);
    EXPECT_EQ(y[0], 5);
}

TEST_F(ProgramTest, prepared_launches) {
    prepare_copy();
    alignas(16) float y[4] = {}, x[4] = {1, 2, 3, 4};
    EXPECT_FALSE(program_->prepare_launch(arguments(y, x, 4, Memory::host), kOne));
    const auto launch = program_->prepare_launch(arguments(y, x, 4, Memory::cuda), std::array<uint64_t, 3>{4, 1, 1});
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
