// Atomics of the machine `cpu` under contention: no update is lost and every old value is seen once, for elements that the processor updates itself,
// for odd addresses, where they take turns, and for packed ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "tegula/tegula.hpp"

namespace {

constexpr const char* kSource = R"(edition 1;
kernel count<T: number>(inout x: tensor<T>[M], programs: i64) grid [programs] {
    atomic_add(x[0 +: 7], full<T>[7](1));
}
kernel join<T: number>(inout low: tensor<T>[1], inout high: tensor<T>[1], programs: i64) grid [programs] {
    let mine = cast<T>(program_id(0) * 37 % programs);
    atomic_min(low[0], mine);
    atomic_max(high[0], mine);
}
kernel bits(inout x: tensor<i32>[3], programs: i64) grid [programs] {
    let bit = 1 << cast<i32>(program_id(0) % 32);
    atomic_or(x[0], bit);
    atomic_xor(x[1], bit);
    atomic_and(x[2], ~bit);
}
kernel tickets(inout next: tensor<i64>[1], out got: tensor<i64>[N]) grid [N] {
    got[program_id(0)] = atomic_add(next[0], 1);
}
kernel first(inout owner: tensor<f32>[1], out seen: tensor<f32>[N]) grid [N] {
    let mine = cast<f32>(program_id(0) + 1);
    seen[program_id(0)] = atomic_cas(owner[0], 0.0, mine);
}
kernel through(p: ptr<i32>, programs: i64) grid [programs] {
    atomic_add(p + iota[5], full<i32>[5](1));
}
)";

constexpr int64_t kPrograms = 4000;

class Atomics : public testing::Test {
protected:
    void SetUp() override {
        setenv("TEGULA_CACHE_DIR", "off", 1);
        auto loaded = engine.load(kSource, "atomics.tile");
        ASSERT_TRUE(loaded) << loaded.diagnostics().text();
        module = std::move(loaded.value());
        run.machine = "cpu";
        run.threads = 4;
    }
    void launch(const std::string& kernel, std::initializer_list<tegula::NamedValue> generics, std::initializer_list<tegula::Value> args) {
        const auto result = module.launch(kernel, generics, args, run);
        ASSERT_TRUE(result) << result.diagnostics().text();
    }
    /// `skew` bytes before the elements: the processor wants them at multiples of their size.
    template <class T>
    void expect_counts(const char* type, size_t skew, T wanted) {
        std::vector<uint8_t> storage(9 * sizeof(T) + 16);
        auto* data = reinterpret_cast<uint8_t*>((reinterpret_cast<uintptr_t>(storage.data()) + 7) / 8 * 8) + skew;
        launch("count", {{"T", type}}, {tegula::Tensor(data, 8 * sizeof(T), type, {8}), tegula::Value(kPrograms)});
        for (int i = 0; i < 8; ++i) {
            T got;
            std::memcpy(&got, data + static_cast<size_t>(i) * sizeof(T), sizeof got);
            EXPECT_EQ(got, i < 7 ? wanted : T{}) << type << ", element " << i << ", skew " << skew;
        }
    }
    template <class T>
    void expect_extremes(const char* type) {
        T low = 1000000, high = -1000000;
        launch("join", {{"T", type}},
               {tegula::Tensor(&low, sizeof low, type, {1}), tegula::Tensor(&high, sizeof high, type, {1}), tegula::Value(kPrograms)});
        EXPECT_EQ(low, T{0}) << type;
        EXPECT_EQ(high, static_cast<T>(kPrograms - 1)) << type;
    }
    tegula::Engine engine = tegula::Engine::create().value();
    tegula::Module module;
    tegula::RunOptions run;
};

TEST_F(Atomics, NoUpdateIsLost) {
    for (size_t skew : {0, 1, 2, 4}) {
        expect_counts<int32_t>("i32", skew, kPrograms);
        expect_counts<int64_t>("i64", skew, kPrograms);
        expect_counts<float>("f32", skew, kPrograms);
        expect_counts<double>("f64", skew, kPrograms);
        expect_counts<int16_t>("i16", skew, kPrograms);
        expect_counts<uint8_t>("u8", skew, kPrograms % 256);
        expect_counts<uint16_t>("f16", skew, 0x6800);  // 2048, where one more is a tie that goes to even
    }
}

TEST_F(Atomics, PackedElementsTakeTurns) {
    std::vector<uint8_t> x(4);
    launch("count", {{"T", "u4"}}, {tegula::Tensor(x.data(), 4, "u4", {8}), tegula::Value(int64_t{3001})});
    EXPECT_EQ(x, (std::vector<uint8_t>{0x99, 0x99, 0x99, 0x09}));
}

TEST_F(Atomics, MinimumAndMaximum) {
    expect_extremes<int32_t>("i32");
    expect_extremes<int64_t>("i64");
    expect_extremes<float>("f32");
    expect_extremes<double>("f64");
}

TEST_F(Atomics, Bits) {
    std::vector<int32_t> x{0, 0, -1};
    launch("bits", {}, {tegula::Tensor(x.data(), {3}), tegula::Value(int64_t{32 * 33})});
    EXPECT_EQ(x, (std::vector<int32_t>{-1, -1, 0}));
}

TEST_F(Atomics, EveryOldValueIsSeenOnce) {
    int64_t next = 5;
    std::vector<int64_t> got(kPrograms), want(kPrograms);
    launch("tickets", {}, {tegula::Tensor(&next, {1}), tegula::Tensor(got.data(), {kPrograms})});
    std::sort(got.begin(), got.end());
    std::iota(want.begin(), want.end(), 5);
    EXPECT_EQ(got, want);
    EXPECT_EQ(next, 5 + kPrograms);
    float owner = 0;
    std::vector<float> seen(kPrograms);
    launch("first", {}, {tegula::Tensor(&owner, {1}), tegula::Tensor(seen.data(), {kPrograms})});
    EXPECT_NE(owner, 0.0f);
    EXPECT_EQ(std::count(seen.begin(), seen.end(), 0.0f), 1) << "one program finds the place free";
    EXPECT_EQ(std::count(seen.begin(), seen.end(), owner), kPrograms - 1);
    EXPECT_EQ(seen[static_cast<size_t>(owner) - 1], 0.0f);
}

TEST_F(Atomics, ThroughPointers) {
    std::vector<int32_t> x(6);
    launch("through", {}, {tegula::Tensor(x.data(), {6}), tegula::Value(kPrograms)});
    EXPECT_EQ(x, (std::vector<int32_t>{kPrograms, kPrograms, kPrograms, kPrograms, kPrograms, 0}));
}

}  // namespace
