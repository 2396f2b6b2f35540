// The device's division by a shared divisor, compiled by the system's compiler: where its tests call operands moderate, quotients are
// those of IEEE division, also next to ties between floats, where the proof has no slack.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "jit/cuda/device_text.h"
#include "tests/unit/device_on_host.h"

namespace tegula {
namespace {

constexpr const char* kExports = R"(
extern "C" float quotient(float a, float b) { return reciprocal_division(a, b, nearest_reciprocal(b)); }
extern "C" bool moderate(float a, float other, float b) {
    DividendsOrZeros d;
    d.add(a), d.add(other);
    return is_shared_divisor(b) && d.moderate();
}
extern "C" bool moderate_without_zeros(float a, float other) {
    Dividends d;
    d.add(a), d.add(other);
    return d.moderate();
}
extern "C" bool moderate_above_zero(float a, float other) {
    PositiveDividends d;
    d.add(a), d.add(other);
    return d.moderate();
}
extern "C" bool moderate_from_zero(float a, float other) {
    PositiveDividendsOrZeros d;
    d.add(a), d.add(other);
    return d.moderate();
}
extern "C" bool moderate_distances(float origin, float squares) { return are_moderate_distances(origin, squares); }
)";

class SharedDivision : public testing::Test {
protected:
    void SetUp() override {
        cuda::DeviceText text(75);
        text.need("shared_division");
        const bool built = library.build("shared_division_test_text", text.text(), kExports);
        if (!library.found()) GTEST_SKIP() << "no compiler";
        ASSERT_TRUE(built);
        quotient = reinterpret_cast<float (*)(float, float)>(library.symbol("quotient"));
        moderate = reinterpret_cast<bool (*)(float, float, float)>(library.symbol("moderate"));
        moderate_without_zeros = reinterpret_cast<bool (*)(float, float)>(library.symbol("moderate_without_zeros"));
        moderate_above_zero = reinterpret_cast<bool (*)(float, float)>(library.symbol("moderate_above_zero"));
        moderate_from_zero = reinterpret_cast<bool (*)(float, float)>(library.symbol("moderate_from_zero"));
        moderate_distances = reinterpret_cast<bool (*)(float, float)>(library.symbol("moderate_distances"));
    }
    void TearDown() override { library.close(); }
    void expect_exact(float a, float b) {
        ASSERT_EQ(std::bit_cast<uint32_t>(quotient(a, b)), std::bit_cast<uint32_t>(a / b)) << std::hexfloat << a << " / " << b;
    }

    float (*quotient)(float, float) = nullptr;
    bool (*moderate)(float, float, float) = nullptr;
    bool (*moderate_without_zeros)(float, float) = nullptr;
    bool (*moderate_above_zero)(float, float) = nullptr;
    bool (*moderate_from_zero)(float, float) = nullptr;
    bool (*moderate_distances)(float, float) = nullptr;

private:
    test::DeviceOnHost library;
};

/// x with divisor * x = 1 modulo 2^32, for odd divisors.
uint32_t inverse(uint32_t divisor) {
    uint32_t x = divisor;
    for (int i = 0; i < 5; ++i) x *= 2 - divisor * x;
    return x;
}

TEST_F(SharedDivision, NextToTies) {
    // dividend * 2^k = divisor * (2m + 1) + c: the quotient lies c / (2 divisor) units from a tie.
    int tried = 0;
    for (uint32_t divisor = 0x800001; divisor < 0x1000000; divisor += 34) {
        for (int k = 24; k <= 25; ++k)
            for (int c = -7; c <= 7; c += 2) {
                const uint64_t odd = (0u - static_cast<uint32_t>(c)) * inverse(divisor) & ((1u << k) - 1);
                const uint64_t dividend = (divisor * odd + static_cast<uint64_t>(static_cast<int64_t>(c))) >> k;
                if (dividend < 0x800000 || dividend >= 0x1000000 || (dividend < divisor) != (k == 25)) continue;
                ++tried;
                const auto a = static_cast<float>(dividend), b = static_cast<float>(divisor);
                expect_exact(a, b);
                expect_exact(std::ldexp(-a, -100), std::ldexp(b, -60));
            }
    }
    EXPECT_GT(tried, 100000);
}

TEST_F(SharedDivision, WhateverIsModerate) {
    std::mt19937 bits(1);
    int tried = 0;
    for (int i = 0; i < 2000000; ++i) {
        const float a = std::bit_cast<float>(static_cast<uint32_t>(bits())),
                    b = std::ldexp(1.0f + static_cast<float>(bits() & 0xffffff) * 0x1p-24f, static_cast<int>(bits() % 90) - 45);
        if (!moderate(a, 1, b)) continue;
        ++tried;
        expect_exact(a, b);
    }
    EXPECT_GT(tried, 500000);
    for (const float a : {0x1p-80f, 0x1p80f, -0x1p-80f, 0.0f, -0.0f})
        for (const float b : {0x1p-40f, 0x1.fffffep39f, 1.0f, 0x1.fffffep0f, 3.0f}) {
            EXPECT_TRUE(moderate(a, 1, b)) << a << " / " << b;
            expect_exact(a, b);
        }
}

TEST_F(SharedDivision, WhatIsNot) {
    const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    for (const float a : {0x1.fffffep-81f, 0x1.000002p80f, -inf, inf, nan, 0x1p-149f, -0x1p-126f}) {
        EXPECT_FALSE(moderate(a, 1, 3)) << a;
        EXPECT_FALSE(moderate(1, a, 3)) << a;
        EXPECT_FALSE(moderate_without_zeros(a, 1)) << a;
        EXPECT_FALSE(moderate_without_zeros(1, a)) << a;
    }
    for (const float a : {0.0f, -0.0f}) EXPECT_FALSE(moderate_without_zeros(a, 1) || moderate_without_zeros(1, a)) << a;
    for (const float a : {-1.0f, -0x1p-80f, 0x1p-80f, 1.0f, 0x1p80f}) EXPECT_TRUE(moderate_without_zeros(a, 1) && moderate_without_zeros(1, a)) << a;
    for (const float b : {0.0f, -0.0f, -3.0f, 0x1p40f, 0x1.fffffep-41f, inf, -inf, nan, 0x1p-149f}) EXPECT_FALSE(moderate(1, 1, b)) << b;
}

TEST_F(SharedDivision, HardlyEverBelowZero) {
    const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    for (const auto test : {moderate_above_zero, moderate_from_zero}) {
        // What other threads hold may take a large part away from the sum: it says nothing about this thread's parts.
        for (const float a : {0x1.fffffep-81f, 0x1.000002p80f, 0x1p127f, -1.0f, -0x1p-80f, -0.0f, -inf, inf, nan, -nan, 0x1p-149f, -0x1p-149f}) {
            EXPECT_FALSE(test(a, 3)) << a;
            EXPECT_FALSE(test(3, a)) << a;
        }
        for (const float a : {0x1p-80f, 1.0f, 0x1p80f}) EXPECT_TRUE(test(a, 1) && test(1, a)) << a;
    }
    EXPECT_FALSE(moderate_above_zero(0, 1) || moderate_above_zero(1, 0));
    EXPECT_TRUE(moderate_from_zero(0, 1) && moderate_from_zero(1, 0));
}

TEST_F(SharedDivision, DistancesFromAnOrigin) {
    const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    for (const float origin : {0.0f, -0.0f, 0x1.fffffep-57f, -0x1.fffffep-57f, nan}) EXPECT_FALSE(moderate_distances(origin, 1)) << origin;
    for (const float squares : {inf, nan}) EXPECT_FALSE(moderate_distances(1, squares));
    for (const float origin : {0x1p-56f, -0x1p-56f, 1.0f, 0x1p100f}) EXPECT_TRUE(moderate_distances(origin, 0x1.fffffep127f)) << origin;
    // No difference from such an origin is smaller than 2^-80 but for 0: neighbours of the origin, and numbers of all magnitudes.
    std::mt19937 bits(2);
    int near = 0;
    for (int i = 0; i < 2000000; ++i) {
        const float origin = std::ldexp(1.0f + static_cast<float>(bits() & 0x7fffff) * 0x1p-23f, static_cast<int>(bits() % 4) - 56);
        float x = std::bit_cast<float>(static_cast<uint32_t>(bits()));
        if (i % 2) x = std::bit_cast<float>(static_cast<uint32_t>(std::bit_cast<uint32_t>(origin) + bits() % 7 - 3));
        if (!moderate_distances(origin, 1) || std::isnan(x)) continue;
        const float distance = std::fabs(x - origin);
        ASSERT_TRUE(distance == 0 || distance >= 0x1p-80f) << std::hexfloat << x << " - " << origin;
        near += distance != 0 && distance < 0x1p-76f;
    }
    EXPECT_GT(near, 1000);
}

}  // namespace
}  // namespace tegula
