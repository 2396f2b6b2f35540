// From arguments to launches, against a stand-in for the driver: traits, parameter values, tensor maps, pieces of a grid, staging, and every driver
// call failing in turn.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "lang/gpu/wide_access.h"
#include "lang/layout.h"
#include "tests/unit/launch_fixture.h"

namespace tegula::cuda {
namespace {

TEST_F(LaunchTest, availability_lists_the_devices) {
    const Availability& a = state_->availability();
    EXPECT_TRUE(a.device);
    ASSERT_EQ(a.devices.size(), 2u);
    EXPECT_EQ(a.devices[0].name, "Fake H200");
    EXPECT_STREQ(a.devices[0].arch->name, "sm_90a");
    EXPECT_STREQ(a.devices[1].arch->name, "sm_80");
    EXPECT_EQ(a.driver_version, "13.0");
}

TEST(Arch, of_a_device_and_a_compiler) {
    struct Row {
        int major, minor, shared;
        std::vector<int> known;
        const char* wanted;
    };
    const std::vector<int> cuda_12_0 = {75, 80, 86, 87, 89, 90}, cuda_13_0 = {75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121};
    const Row rows[] = {
        {9, 0, 232448, {}, "sm_90a"},
        {9, 0, 232448, cuda_12_0, "sm_90a"},
        {8, 6, 101376, cuda_13_0, "sm_86"},
        {8, 7, 166912, cuda_13_0, "compute_80"},
        {10, 0, 232448, cuda_13_0, "sm_100a"},
        {10, 0, 232448, cuda_12_0, "compute_90"},
        {10, 3, 232448, cuda_13_0, "compute_100"},
        {11, 0, 232448, cuda_13_0, "compute_100"},
        {12, 0, 101376, cuda_12_0, "compute_80"},  // what compute_90 needs does not fit
        {12, 1, 101376, cuda_13_0, "compute_120"},
        {13, 0, 232448, cuda_13_0, "compute_120"},
        {7, 5, 65536, cuda_13_0, "sm_75"},
        {7, 0, 98304, cuda_13_0, nullptr},
    };
    for (const Row& row : rows) {
        const Arch* arch = arch_for(row.major, row.minor, row.shared, row.known);
        EXPECT_STREQ(arch ? arch->name : nullptr, row.wanted) << row.major << "." << row.minor << ", " << row.known.size();
    }
    EXPECT_STREQ(find_arch("sm_90")->name, "sm_90a");
    EXPECT_STREQ(find_arch("compute_90")->name, "compute_90");
    EXPECT_EQ(find_arch("compute_91"), nullptr);
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
    EXPECT_TRUE(tensor_trait(*fn_, 0, t, 32).pitched) << "rows apart, elements side by side";
    EXPECT_FALSE(tensor_trait(*fn_, 0, t, 32).strided);
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
        EXPECT_EQ(bind(launch, variant({{KernelParam::first, 0, 0}}, {{}}, {}, workspace, 1, true), {scalar(1)}, grid), "");
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

TEST_F(LaunchTest, split_sums_have_several_ctas_per_program_and_count_from_zero) {
    parse("kernel @k(%N: extent) {\n  ret\n}\n");
    std::vector<std::pair<uint64_t, uint64_t>> pieces;
    kernel_ = [&](const FakeLaunch& l) {
        pieces.emplace_back(value<uint64_t>(l, 0), l.grid);
        const auto* arrivals = value<const uint32_t*>(l, 2);
        EXPECT_EQ(value<const uint8_t*>(l, 1) + (255 << 20), reinterpret_cast<const uint8_t*>(arrivals));
        EXPECT_EQ(std::count(arrivals, arrivals + 255, 0u), 255);
    };
    const auto v = make_variant({{KernelParam::first, 0, 0}, {KernelParam::sums, 0, 0}, {KernelParam::arrivals, 0, 0}}, {{}});
    v->text.split = 3;
    v->text.sum_bytes = 1 << 20;
    BoundLaunch launch;  // 256 CTAs at once would cut a program in two
    ASSERT_EQ(bind(launch, v, {scalar(1)}, {100, 1, 1}), "");
    EXPECT_EQ(launch.launch(nullptr), 0);
    EXPECT_EQ(pieces, (std::vector<std::pair<uint64_t, uint64_t>>{{0, 255}, {255, 45}}));
}

/// Every launch has the stretches of its own extents, those that are prepared beside each other too.
TEST_F(LaunchTest, how_many_stretches_a_sum_has_is_computed_for_every_launch) {
    parse(
        "kernel @k(%x: tensor<u8>[?, ?] in, %shift: i8, %K: extent) {\n  %0 = dim %x {axis = 1} : i64\n  %1 = num_programs {axis = 1} : i64\n"
        "  %2 = mul %0, %1 : i64\n  %3 = cast %shift {round = rne, overflow = automatic} : i64\n  %4 = add %2, %3 : i64\n"
        "  %5 = div_ceil %4, %K : i64\n  %6 = constant 1 : i64\n  %7 = max %5, %6 : i64\n  ret\n}\n");
    using K = KernelParam;
    const auto v =
        make_variant({{K::first, 0, 0}, {K::workspace, 0, 0}, {K::split, 0, 0}, {K::split_reciprocal, 0, 0}, {K::sums, 0, 0}, {K::arrivals, 0, 0}},
                     {{}, {}, {}}, {}, 100);
    const std::vector<ir::InstId>& insts = fn_->block(fn_->body).insts;
    v->text.split_count = fn_->result(insts[insts.size() - 2]);
    v->text.sum_bytes = 64;
    struct Seen {
        uint64_t grid, split, reciprocal, sums, arrivals;
    };
    std::vector<Seen> seen;
    kernel_ = [&](const FakeLaunch& l) {
        const uint64_t workspace = value<uint64_t>(l, 1);
        seen.push_back({l.grid, value<uint64_t>(l, 2), value<uint64_t>(l, 3), value<uint64_t>(l, 4) ? value<uint64_t>(l, 4) - workspace : 0,
                        value<uint64_t>(l, 5) ? value<uint64_t>(l, 5) - workspace : 0});
    };
    uint8_t x[8];
    const auto args = [&](int64_t extent, int shift, uint64_t k) {
        return std::vector<Argument>{argument(tensor(Fmt::u8, x, 8, {1, extent})), scalar(static_cast<uint8_t>(shift)), scalar(k)};
    };
    BoundLaunch many, one, none;
    ASSERT_EQ(bind(many, v, args(50, 7, 32), {2, 3, 1}), "");  // (50 * 3 + 7) / 32 rounded up
    ASSERT_EQ(bind(one, v, args(50, -22, 128), {2, 3, 1}), "");
    ASSERT_EQ(bind(none, v, args(50, 7, 0), {2, 3, 1}), "") << "a quotient by 0 is 0";
    EXPECT_EQ(many.launch(nullptr) + one.launch(nullptr) + none.launch(nullptr) + many.launch(nullptr), 0);
    ASSERT_EQ(seen.size(), 4u);
    for (const size_t i : {0, 3}) {
        EXPECT_EQ(seen[i].grid, 30u);
        EXPECT_EQ(seen[i].split, 5u);
        EXPECT_EQ(seen[i].reciprocal, UINT64_MAX / 5);
        EXPECT_EQ(seen[i].sums, 3072u) << "behind 30 slices of 100 bytes";
        EXPECT_EQ(seen[i].arrivals, 3072u + 2048u);
    }
    for (const size_t i : {1, 2}) {
        EXPECT_EQ(seen[i].grid, 6u);
        EXPECT_EQ(seen[i].split, 1u);
        EXPECT_EQ(seen[i].reciprocal, UINT64_MAX);
        EXPECT_EQ(seen[i].sums + seen[i].arrivals, 0u);
    }
    BoundLaunch refused;
    fake_->fail_at = fake_->calls + 4;
    EXPECT_NE(bind(refused, v, args(50, 7, 32), {2, 3, 1})
                  .find("5240 bytes of workspace for 6 programs at once, each of them with 5 stretches of 64 bytes"),
              std::string::npos);
    fake_->fail_at = 0;
    BoundLaunch large;
    EXPECT_EQ(bind(large, v, args(50, 7, 32), {uint64_t{1} << 60, 3, 1}),
              "the 3458764513820540928 programs of the grid with the 5 stretches of their split sum each are more than 2^63");
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
    ASSERT_EQ(bind(launch, variant(params, {{}}, {}, 3 << 20, 4), {scalar(1)}, {50, 4, 1}), "");
    EXPECT_EQ(launch.launch(nullptr), 0);
    EXPECT_EQ(pieces, (std::vector<std::pair<uint64_t, uint64_t>>{{0, 84}, {84, 84}, {168, 32}}));
    EXPECT_EQ(cluster, 4u);
    BoundLaunch alone;
    ASSERT_EQ(bind(alone, variant(params, {{}}, {}, 1 << 20), {scalar(1)}, {50, 4, 1}), "");
    EXPECT_EQ(alone.launch(nullptr), 0);
    EXPECT_EQ(cluster, 1u);
}

TEST_F(LaunchTest, overlapping_host_tensors_share_a_copy) {
    const ContextScope scope(*state_->driver(), context_);
    std::vector<uint8_t> memory(4096);
    std::iota(memory.begin(), memory.end(), uint8_t{0});
    std::vector<uint8_t> other(100, 9);
    const std::vector<Argument> args = {
        argument(tensor(Fmt::u8, &memory[100], 200, {200}, Memory::host)), argument(tensor(Fmt::u8, &memory[250], 200, {200}, Memory::host)),
        argument(tensor(Fmt::u8, other.data(), 100, {100}, Memory::host)), argument(tensor(Fmt::u8, nullptr, 0, {0}, Memory::host)), scalar(5)};
    parse("kernel @k(%a: tensor<u8>[?] in, %b: tensor<u8>[?] inout, %c: tensor<u8>[?] inout, %d: tensor<u8>[?] inout, %e: i64) {\n  ret\n}\n");
    Staging staging(*state_->driver(), nullptr, nullptr);
    EXPECT_FALSE(staging.plan(args, find_param_facts(*fn_)));
    EXPECT_EQ(staging.address(args, 1) - staging.address(args, 0), 150u);
    EXPECT_EQ(staging.address(args, 0) % 256, 0u);
    EXPECT_EQ(staging.upload(), 0);
    EXPECT_EQ(fake_->allocations, 2);
    const auto at = [&](size_t i) { return reinterpret_cast<uint8_t*>(staging.address(args, i)); };
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

/// A GPU takes elements of whole words at multiples of their size only.
TEST_F(LaunchTest, elements_of_overlapping_host_tensors_are_aligned) {
    const ContextScope scope(*state_->driver(), context_);
    alignas(16) static uint8_t memory[512];
    std::iota(std::begin(memory), std::end(memory), uint8_t{0});
    struct Row {
        const char* what;
        Fmt first, second, third;
        size_t at_first, at_second, at_third;  ///< of 40 bytes each
        bool writes;                           ///< the first of them
        std::optional<Staging::Conflict> conflict;
        int copies;
    };
    const Row rows[] = {
        {"apart, wherever they are", Fmt::i16, Fmt::f64, Fmt::f32, 1, 51, 103, true, {}, 3},
        {"multiples apart", Fmt::i16, Fmt::bf16, Fmt::f32, 1, 13, 205, true, {}, 2},
        {"the second begins at a word where the first is moved", Fmt::u8, Fmt::i16, Fmt::f64, 64, 65, 73, true, {}, 1},
        {"the last one decides", Fmt::i8, Fmt::u8, Fmt::f64, 64, 67, 69, true, {}, 1},
        {"odd bytes apart", Fmt::i16, Fmt::bf16, Fmt::f32, 64, 67, 205, true, Staging::Conflict{0, 1}, 0},
        {"odd words apart", Fmt::f64, Fmt::i64, Fmt::u8, 64, 68, 69, true, Staging::Conflict{0, 1}, 0},
        {"behind what is written", Fmt::f32, Fmt::i16, Fmt::u8, 67, 64, 66, true, Staging::Conflict{1, 0}, 0},
        {"nothing is written", Fmt::i16, Fmt::bf16, Fmt::f32, 64, 67, 102, false, {}, 3},
        {"only read beside what is written", Fmt::i16, Fmt::i16, Fmt::f32, 64, 102, 127, true, {}, 2},
        {"through one that is only read", Fmt::i16, Fmt::i32, Fmt::i64, 64, 102, 120, true, {}, 2},
        {"the same memory", Fmt::f64, Fmt::f64, Fmt::f64, 65, 65, 65, true, {}, 1},
    };
    for (const Row& row : rows) {
        SCOPED_TRACE(row.what);
        const auto name = [&](Fmt f) { return types_.format(id_of(f)).name; };
        parse("kernel @k(%a: tensor<" + name(row.first) + ">[?] inout, %b: tensor<" + name(row.second) + ">[?] in, %c: tensor<" + name(row.third) +
              ">[?] in, %v: " + name(row.first) + ", %i: i64) {\n" + (row.writes ? "  store %a[%i] = %v\n" : "") + "  ret\n}\n");
        const auto at = [&](Fmt f, size_t offset) {
            return argument(tensor(f, memory + offset, 40, {int64_t{320} / types_.format(id_of(f)).bits}, Memory::host));
        };
        const std::vector<Argument> args = {at(row.first, row.at_first), at(row.second, row.at_second), at(row.third, row.at_third), scalar(0),
                                            scalar(0)};
        Staging staging(*state_->driver(), nullptr, nullptr);
        EXPECT_EQ(staging.plan(args, find_param_facts(*fn_)), row.conflict);
        if (row.conflict) continue;
        const auto aligned = [&](size_t i) { return staging.address(args, i) % (types_.format(args[i].t.elem).bits / 8) == 0; };
        EXPECT_TRUE(aligned(0) && aligned(1) && aligned(2)) << "as planned";
        ASSERT_EQ(staging.upload(), 0);
        EXPECT_TRUE(aligned(0) && aligned(1) && aligned(2)) << "as allocated";
        EXPECT_EQ(fake_->allocations, row.copies);
        for (size_t i = 0; i < 3; ++i) EXPECT_EQ(std::memcmp(reinterpret_cast<const void*>(staging.address(args, i)), args[i].t.data, 40), 0);
        *reinterpret_cast<uint8_t*>(staging.address(args, 0) + 1) ^= 255;
        const uint8_t before = memory[row.at_first + 1];
        EXPECT_EQ(staging.download(args, {true, false, false, false, false}), 0);
        EXPECT_EQ(memory[row.at_first + 1], static_cast<uint8_t>(before ^ 255));
    }
}

/// Elements of no whole words are taken out of bytes.
TEST_F(LaunchTest, packed_elements_begin_at_any_byte) {
    for (const Format& f : builtin_formats())
        EXPECT_EQ(element_alignment(f), f.bits == 16 ? 2u : f.bits == 32 ? 4u : f.bits == 64 ? 8u : 1u) << f.name;
    EXPECT_EQ(element_alignment(int_format(24, false)), 1u);
    EXPECT_EQ(element_alignment(int_format(48, true)), 1u);
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

}  // namespace
}  // namespace tegula::cuda
