// Quick quotients by a shared divisor (jit/cpu/speculation.h): where nothing says that an operand is odd they are those of IEEE division, next to ties
// too, where the proof has no slack; and operands of the usual kind are not called odd. Quick bf16: tests/run_cpu/odd_operands.tile.
#include <cmath>

#include "tests/unit/cpu_scalars_fixture.h"

namespace tegula::testing {
namespace {

class CpuQuick : public ::testing::Test {
protected:
    void SetUp() override {
        if (!llvm::sys::getHostCPUFeatures().lookup("avx512dq")) GTEST_SKIP() << "the processor lacks avx512dq, without which no quick form is emitted";
    }
};

const Format& format(Fmt f) {
    static const std::vector<Format> all = builtin_formats();
    return all[static_cast<size_t>(f)];
}

/// Quotients by the first of each 16 divisors (where something is odd: `other`), or whether something is.
template <class T>
ArrayFunction quotients(bool tell) {
    const Format& f = format(sizeof(T) == 4 ? Fmt::f32 : Fmt::f64);
    const Format out = tell ? int_format(8, false) : f;
    return {{f, f}, out, [f, tell](cpu::Scalars& s, std::vector<Value*> x) -> Value* {
                llvm::IRBuilder<> b(llvm::cast<llvm::Instruction>(x[0])->getParent());
                Value* both[] = {x[0], b.CreateVectorSplat(16, b.CreateExtractElement(x[1], uint64_t{0}))};
                cpu::Speculation speculation{b.GetInsertBlock(), {}, {}, {}, {}};
                s.speculate(&speculation);
                Value* quick = s.elementwise(ir::Op::div, f, both);
                s.speculate(nullptr);
                EXPECT_FALSE(speculation.empty());
                Value* odd = cpu::odd_lanes(b, speculation);
                if (tell) return b.CreateZExt(odd, llvm::FixedVectorType::get(b.getInt8Ty(), 16));
                return b.CreateSelect(odd, s.elementwise(ir::Op::div, f, both), quick);
            }};
}

template <class T>
struct Quotients {
    std::vector<T> a, b;
    ArrayJit jit;
    std::vector<ArrayEntry> entries = jit.compile({quotients<T>(false), quotients<T>(true)}, 16);

    /// Dividends of one divisor; how many of them are odd.
    size_t check(std::vector<T> dividends, T divisor) {
        while (dividends.empty() || dividends.size() % 16) dividends.push_back(1);
        const std::vector<T> divisors(dividends.size(), divisor);
        std::vector<T> out(dividends.size());
        std::vector<uint8_t> odd(dividends.size());
        const void* in[] = {dividends.data(), divisors.data()};
        entries[0](in, out.data(), static_cast<int64_t>(out.size()));
        entries[1](in, odd.data(), static_cast<int64_t>(out.size()));
        for (size_t i = 0; i < out.size(); ++i) {
            const T want = dividends[i] / divisor;
            const bool same = std::isnan(want) ? std::isnan(out[i]) : std::memcmp(&want, &out[i], sizeof(T)) == 0;
            if (!same) ADD_FAILURE() << std::hexfloat << dividends[i] << " / " << divisor << " gave " << out[i] << ", not " << want;
        }
        return static_cast<size_t>(std::count(odd.begin(), odd.end(), 1));
    }
};

/// x with divisor * x = 1 modulo 2^32, for odd divisors.
uint32_t inverse(uint32_t divisor) {
    uint32_t x = divisor;
    for (int i = 0; i < 5; ++i) x *= 2 - divisor * x;
    return x;
}

TEST_F(CpuQuick, QuotientsNextToTies) {
    Quotients<float> q;
    size_t tried = 0;
    for (uint32_t divisor = 0x800001; divisor < 0x1000000; divisor += 34) {
        // dividend * 2^k = divisor * (2m + 1) + c: the quotient lies c / (2 divisor) units from a tie.
        std::vector<float> dividends;
        for (int k = 24; k <= 25; ++k)
            for (int c = -7; c <= 7; c += 2) {
                const uint64_t odd = (0u - static_cast<uint32_t>(c)) * inverse(divisor) & ((1u << k) - 1);
                const uint64_t dividend = (divisor * odd + static_cast<uint64_t>(static_cast<int64_t>(c))) >> k;
                if (dividend < 0x800000 || dividend >= 0x1000000 || (dividend < divisor) != (k == 25)) continue;
                for (int e : {-123, -60, 0, 103}) dividends.push_back(std::ldexp(static_cast<float>(dividend), e));
            }
        tried += dividends.size();
        EXPECT_EQ(q.check(dividends, static_cast<float>(divisor)), 0u);
    }
    EXPECT_GT(tried, 100000u);
}

template <class T, class Bits>
void check_magnitudes(int least, int largest) {
    Quotients<T> q;
    std::mt19937_64 random(1);
    std::vector<T> dividends;
    for (int e = least; e <= largest; ++e)
        for (T m : {T(1), T(1) + std::numeric_limits<T>::epsilon(), T(1.5), T(2) - std::numeric_limits<T>::epsilon()})
            for (T s : {T(1), T(-1)}) dividends.push_back(s * std::ldexp(m, e));
    for (T special : {T(0), T(-0.0), std::numeric_limits<T>::infinity(), -std::numeric_limits<T>::infinity(), std::numeric_limits<T>::quiet_NaN()})
        dividends.push_back(special);
    for (int i = 0; i < 2000; ++i) dividends.push_back(std::bit_cast<T>(static_cast<Bits>(random())));
    for (int e = least; e <= largest; ++e)
        for (T m : {T(1), T(1.3), T(2) - std::numeric_limits<T>::epsilon()}) q.check(dividends, std::ldexp(m, e));
    for (T special : {T(0), T(-0.0), T(-3), std::numeric_limits<T>::infinity(), std::numeric_limits<T>::quiet_NaN()}) q.check(dividends, special);
    EXPECT_EQ(q.check({T(0), T(-0.0), T(1), T(-7), T(1e30), T(1e-30)}, T(3)), 0u);
}

TEST_F(CpuQuick, QuotientsOfAllMagnitudes) {
    check_magnitudes<float, uint32_t>(-149, 127);
    check_magnitudes<double, uint64_t>(-1074, -890);
    check_magnitudes<double, uint64_t>(960, 1023);
    check_magnitudes<double, uint64_t>(-70, 70);
}

}  // namespace
}  // namespace tegula::testing
