// Operands of floats whose exact results lie next to a tie between two numbers of the format, or on it, made so by modular arithmetic: what is
// rounded twice goes wrong there. Among subnormal numbers, at both ends of the range and in the middle; zeros, infinities, NaNs and random codes
// between them.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <vector>

#include "lang/directed.h"

namespace tegula::test {

class HardOperands {
public:
    explicit HardOperands(const Format& f, uint64_t seed = 1)
        : f_(f),
          p_(f.man_bits + 1),
          low_(1 - f.bias - f.man_bits),
          high_(std::max(low_, std::ilogb(decode(f, max_code(f))) - f.man_bits)),
          random_(seed) {}

    std::array<uint64_t, 3> next(ir::Op op) {
        if (random_() % 16 == 0) return {special(), special(), special()};
        if (random_() % 8 == 0) return {any(), any(), any()};
        switch (ir::rounded_op(op).op) {
            case ir::Op::mul:
                return product();
            case ir::Op::div:
                return quotient();
            case ir::Op::sqrt:
                return root();
            case ir::Op::fma:
                return fused();
            case ir::Op::rem: {
                const auto [a, b, c] = sum();
                return {b, a, c};
            }
            default:
                return sum();
        }
    }

private:
    __extension__ using Wide = unsigned __int128;

    int below(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
    uint64_t significand() { return (random_() & low_bits(f_.man_bits)) | uint64_t{1} << f_.man_bits; }
    /// Nearest code of significand * 2^exponent.
    uint64_t code(uint64_t s, int exponent) {
        return round_exact({.negative = f_.is_signed && random_() % 2, .significand = s, .exponent = exponent}, f_, {});
    }
    uint64_t special() {
        const uint64_t all[] = {0,
                                encode(f_, -0.0),
                                max_code(f_),
                                lowest_code(f_),
                                nan_code(f_),
                                encode(f_, HUGE_VAL, {Round::rne, Overflow::ieee}),
                                1,
                                min_normal_code(f_),
                                min_normal_code(f_) - 1,
                                encode(f_, 1.0),
                                encode(f_, -1.0)};
        return all[random_() % std::size(all)];
    }
    uint64_t any() { return random_() & low_bits(f_.bits); }
    /// Of the last bit of a number: near the bottom, near the top, or anywhere.
    int quantum() {
        const int span = high_ - low_ + 1, near = std::min(span, 2 * p_);
        switch (random_() % 3) {
            case 0:
                return low_ + below(near);
            case 1:
                return high_ - below(near);
            default:
                return low_ + below(span);
        }
    }
    /// A number of few bits next to a power of two.
    uint64_t near_power() {
        const uint64_t few = random_() % 3 == 0 ? 0 : uint64_t{1} << below(p_);
        return random_() % 2 ? (uint64_t{1} << f_.man_bits) + few % (uint64_t{1} << f_.man_bits) : low_bits(static_cast<unsigned>(p_)) - few / 2;
    }

    /// The smaller number is half a unit of the larger, more or less, or far below that.
    std::array<uint64_t, 3> sum() {
        const int q = quantum(), distance = random_() % 4 ? p_ + below(2) : below(2 * p_ + 2);
        return {code(random_() % 2 ? significand() : near_power(), q), code(near_power(), q - distance), any()};
    }
    /// An odd number's inverse modulo 2^64.
    static uint64_t inverse(uint64_t odd) {
        uint64_t x = odd;
        for (int i = 0; i < 6; ++i) x *= 2 - odd * x;
        return x;
    }
    /// a * b ends with a tie's bits, plus or minus 1.
    std::array<uint64_t, 2> tied_factors() {
        const uint64_t a = significand() | 1;
        const unsigned cut = static_cast<unsigned>(p_) - random_() % 2;
        const uint64_t tie = (uint64_t{1} << (cut - 1)) + random_() % 3 - 1;
        const uint64_t b = (inverse(a) * tie & low_bits(cut)) | (cut < static_cast<unsigned>(p_) ? uint64_t{1} << cut : 0);
        return {a, b};
    }
    std::array<uint64_t, 3> product() {
        auto [a, b] = tied_factors();
        int q = quantum() - below(3) * p_ / 2;
        if (random_() % 4 == 0) a = near_power(), b = near_power();
        if (random_() % 4 == 0) {  // half of the smallest number, more or less: 2^3i + 1 = (2^i + 1)(2^2i - 2^i + 1)
            const int i = 1 + below(p_ / 2), more = random_() % 2 ? 1 : -1;
            const uint64_t power = uint64_t{1} << i;
            a = power + static_cast<uint64_t>(more), b = power * power - static_cast<uint64_t>(more) * power + 1;
            q = low_ - 1 - 3 * i;
        }
        const int qa = std::clamp(q / 2 + below(20) - 10, low_, high_);
        return {code(a, qa), code(b, q - qa), any()};
    }
    /// A tie and a little, or a number and half its unit.
    std::array<uint64_t, 3> fused() {
        auto [a, b] = tied_factors();
        const int q = quantum() - f_.man_bits, qa = std::clamp(q / 2 + below(20) - 10, low_, high_);
        if (random_() % 2) return {code(a, qa), code(b, q - qa), code(random_() % 2 ? 1 : near_power(), q - below(2 * p_))};
        return {code(near_power(), qa), code(near_power(), q - qa), code(significand(), q + f_.man_bits + below(2 * p_) - below(p_))};
    }
    /// a * 2^shift = b * m + r with odd m, a tie, and a rest of 1 or -1.
    std::array<uint64_t, 3> quotient() {
        const unsigned shift = static_cast<unsigned>(p_) + 1;
        const uint64_t b = significand() | 1, down = random_() % 2, m = (down ? inverse(b) : 0 - inverse(b)) & low_bits(shift);
        const uint64_t a = static_cast<uint64_t>((Wide{b} * m + 1 - 2 * down) >> shift);
        const int q = quantum(), qb = random_() % 2 ? quantum() : std::clamp(below(20) - f_.man_bits, low_, high_);
        return {code(random_() % 8 ? a : near_power(), q + qb + f_.man_bits), code(b, qb), any()};
    }
    /// a * 2^shift = m * m + a few with odd m, a tie, by Hensel's lifting.
    std::array<uint64_t, 3> root() {
        if (random_() % 4 == 0) return {code(near_power(), quantum()), any(), any()};
        const unsigned shift = static_cast<unsigned>(p_) + 1 + random_() % 2;
        const uint64_t rest = 1 - 8 * (random_() % 5) + 8 * (random_() % 3);  // a square modulo every power of two
        uint64_t m = 1;
        for (unsigned k = 3; k < shift + 1; ++k)
            if ((m * m - rest) >> k & 1) m += uint64_t{1} << (k - 1);
        m = (m & low_bits(static_cast<unsigned>(p_) + 1)) | uint64_t{1} << p_;
        const uint64_t a = static_cast<uint64_t>(Wide{m} * m >> shift);
        return {code(a + random_() % 2, quantum() / 2 * 2 + static_cast<int>(shift % 2)), any(), any()};
    }

    const Format& f_;
    int p_, low_, high_;
    std::mt19937_64 random_;
};

/// Floats that f64's arithmetic would round twice, and their neighbours that it would not: many precisions, ranges of exponents up to f64's own ends,
/// without a sign, without subnormals, without infinities.
inline std::vector<Format> wide_floats() {
    std::vector<Format> all;
    const auto add = [&](unsigned e, unsigned m, auto change) {
        Format f = float_format(e, m);
        change(f);
        f.name = canonical_name(f);
        if (format_problem(f).empty()) all.push_back(f);
    };
    const auto same = [](Format&) {};
    for (unsigned m : {3u, 10u, 20u, 23u, 24u, 25u, 26u, 29u, 37u, 45u, 48u, 49u, 50u, 51u, 52u})
        for (unsigned e : {3u, 6u, 8u, 10u, 11u}) add(e, m, same);
    for (unsigned m : {10u, 16u, 25u, 40u, 50u, 51u, 52u}) {
        add(11, m, [](Format& f) { f.subnormal = false; });
        add(7, m, [](Format& f) { f.is_signed = f.negative_zero = false, --f.bits; });
        add(6, m, [](Format& f) { f.bias = 1075 - f.man_bits; });  // subnormals end where f64's do
        add(6, m, [](Format& f) { f.bias = -961, f.has_inf = false, f.nan = NanCode::none; });
        add(6, m, [](Format& f) { f.bias = -400; });
        add(5, m, [](Format& f) { f.has_inf = false, f.nan = NanCode::negative_zero, f.negative_zero = false; });
        add(0, m, same);
    }
    return all;
}

/// Some of each kind.
inline std::vector<Format> some_wide_floats() {
    std::vector<Format> some;
    for (const Format& f : wide_floats())
        for (const char* name : {"float<8, 25>", "float<10, 37>", "float<10, 50>", "float<11, 24>", "float<11, 48>", "float<11, 51>", "float<10, 52>",
                                 "float<11, 50, subnormal = false>", "float<7, 40, signed = false>"})
            if (f.name == name) some.push_back(f);
    return some;
}

inline constexpr ir::Op kRoundedOps[] = {ir::Op::add,    ir::Op::sub,     ir::Op::mul,    ir::Op::div,    ir::Op::rem,
                                         ir::Op::sqrt,   ir::Op::fma,     ir::Op::add_ru, ir::Op::sub_rd, ir::Op::mul_rd,
                                         ir::Op::div_ru, ir::Op::sqrt_ru, ir::Op::fma_rd, ir::Op::fma_rtz};

}  // namespace tegula::test
