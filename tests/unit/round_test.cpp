// The one rounding against oracles that share no code with it: a table of values made by formula with a search over it (every format,
// every mode, all boundaries), LLVM's APFloat, and MPFR. TEGULA_LONG=1 runs all 2^32 f32 patterns instead of a sample.
#include <gtest/gtest.h>
#include <mpfr.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <random>

#include "lang/scalar.h"
#include "tests/unit/hard_operands.h"
#include "tests/unit/sample.h"
#ifdef TEGULA_HAVE_LLVM
#include <llvm/ADT/APFloat.h>
#endif

using namespace tegula;

namespace {

constexpr double kInf = HUGE_VAL;
const double kNan = std::nan("");
constexpr Round kModes[] = {Round::rne, Round::rna, Round::rtz, Round::ru, Round::rd};

Format get(Fmt id) { return builtin_formats()[static_cast<size_t>(id)]; }

/// What a magnitude (without sign and padding) means, by the definition in numerics.md; works one past the largest exponent too.
double by_formula(const Format& f, uint64_t magnitude) {
    double exponent = std::floor(std::ldexp(static_cast<double>(magnitude), -int{f.man_bits}));
    double fraction = std::ldexp(static_cast<double>(magnitude), -int{f.man_bits}) - exponent;
    if (exponent == 0) return f.subnormal ? fraction * std::pow(2.0, 1 - f.bias) : 0.0;
    return (1 + fraction) * std::pow(2.0, exponent - f.bias);
}

/// Largest finite magnitude by counting the codes that each rule takes away.
uint64_t count_finite(const Format& f) {
    uint64_t codes = uint64_t{1} << (f.exp_bits + f.man_bits);
    if (f.nan == NanCode::ieee)
        codes -= (uint64_t{1} << f.man_bits) - !f.has_inf;
    else
        codes -= f.has_inf + (f.nan == NanCode::all_ones);
    return codes - 1;
}

struct Expected {
    bool nan = false;
    double value = 0;
};

/// The rounding of x, which lies in [value(index), value(index + 1)), read off the table of values.
Expected look_up(const Format& f, const std::vector<double>& values, size_t index, double x, Round round, Overflow overflow) {
    double lo = values[index], hi = values[index + 1], size = std::fabs(x), middle = lo + (hi - lo) / 2;
    bool negative = x < 0, up;
    if (size == lo)
        up = false;
    else if (round == Round::rne)
        up = size > middle || (size == middle && index % 2 == 1);
    else if (round == Round::rna)
        up = size >= middle;
    else
        up = round == (negative ? Round::rd : Round::ru);
    size_t chosen = index + up;
    if (negative && !f.is_signed && chosen > 0) {
        if (overflow == Overflow::sat || f.nan == NanCode::none) return {false, 0};
        return {true, 0};
    }
    if (chosen + 1 == values.size()) {
        bool sat = overflow == Overflow::sat || (overflow == Overflow::automatic && !f.has_inf);
        if (sat || (!f.has_inf && f.nan == NanCode::none)) return {false, std::copysign(values[chosen - 1], x)};
        if (f.has_inf) return {false, std::copysign(kInf, x)};
        return {true, 0};
    }
    double value = values[chosen];
    if (!f.subnormal && chosen < size_t{1} << f.man_bits) value = 0;
    return {false, value == 0 && !f.negative_zero ? 0.0 : std::copysign(value, x)};
}

void expect_value(const Format& f, uint64_t code, const Expected& want, const std::string& what) {
    double got = decode(f, code);
    bool same = want.nan ? std::isnan(got) : std::bit_cast<uint64_t>(got) == std::bit_cast<uint64_t>(want.value);
    ASSERT_TRUE(same) << f.name << ": " << what << " gave code " << code << " = " << got << ", expected " << (want.nan ? kNan : want.value);
}

std::string describe(double x, Round round, Overflow overflow) {
    return std::to_string(x) + " (0x" + std::to_string(std::bit_cast<uint64_t>(x)) + ") mode " + std::to_string(int(round)) + " overflow " +
           std::to_string(int(overflow));
}

/// Every value, midpoint and their neighbours in f64, both signs, all modes; decode of every code on the way.
void check_all_boundaries(const Format& f) {
    ASSERT_EQ(format_problem(f), "") << f.name;
    uint64_t largest = count_finite(f);
    unsigned padding = f.bits - f.is_signed - f.exp_bits - f.man_bits;
    ASSERT_EQ(max_code(f), largest << padding) << f.name;
    std::vector<double> values;
    for (uint64_t m = 0; m <= largest + 1; ++m) values.push_back(by_formula(f, m));
    for (uint64_t m = 0; m <= largest; ++m) ASSERT_EQ(decode(f, m << padding), values[m]) << f.name << " code " << m;
    if (!f.subnormal)  // rounding happens at the subnormal quantum, before the flush
        for (uint64_t m = 0; m < uint64_t{1} << f.man_bits; ++m) values[m] = std::ldexp(static_cast<double>(m), 1 - f.bias - int{f.man_bits});
    bool wide = f.exp_bits + f.man_bits > 12;
    for (size_t i = 0; i <= largest; ++i) {
        double lo = values[i], hi = values[i + 1], middle = lo + (hi - lo) / 2;
        const double points[] = {lo, std::nextafter(lo, hi), std::nextafter(middle, lo), middle, std::nextafter(middle, hi), std::nextafter(hi, lo)};
        for (double point : points) {
            for (double x : {point, -point}) {
                if (x == 0 && std::signbit(x) && !f.is_signed) continue;
                for (Round round : kModes) {
                    if (wide && round != Round::rne && i % 5 != 0 && i + 70 < largest) continue;
                    for (Overflow overflow : {Overflow::ieee, Overflow::sat}) {
                        if (overflow == Overflow::sat && i < largest && f.is_signed) continue;
                        Expected want = look_up(f, values, i, x, round, overflow);
                        bool flagged = true;
                        uint64_t code = encode(f, x, {round, overflow, 0}, &flagged);
                        expect_value(f, code, want, describe(x, round, overflow));
                        if (f.is_signed && i < largest) {
                            ASSERT_FALSE(flagged && x != 0) << f.name << " " << describe(x, round, overflow);
                        }
                        ASSERT_EQ(code, round_exact(exact_from_double(x), f, {round, overflow, 0})) << f.name << " fast path, " << x;
                        if (::testing::Test::HasFatalFailure()) return;
                    }
                }
            }
        }
    }
}

Format minifloat(unsigned e, unsigned m, int bias, bool inf, NanCode nan, bool subnormal = true, bool is_signed = true) {
    Format f = float_format(e, m);
    f.bias = bias;
    f.has_inf = inf;
    f.nan = nan;
    f.subnormal = subnormal;
    f.is_signed = is_signed;
    f.negative_zero = is_signed && nan != NanCode::negative_zero;
    f.bits = static_cast<uint8_t>(e + m + is_signed);
    f.name = canonical_name(f);
    return f;
}

TEST(round, builtin_floats_at_every_boundary) {
    for (Fmt id : {Fmt::f16, Fmt::bf16, Fmt::f8e4m3, Fmt::f8e5m2, Fmt::f8e4m3fnuz, Fmt::f8e5m2fnuz, Fmt::f6e3m2, Fmt::f6e2m3, Fmt::f4e2m1})
        check_all_boundaries(get(id));
}

TEST(round, generic_minifloats_at_every_boundary) {
    for (unsigned e = 0; e <= 6; ++e) {
        for (unsigned m = 1; m <= 4; ++m) {
            int bias = int(e) * 3 - 4;
            for (NanCode nan : {NanCode::none, NanCode::all_ones, NanCode::negative_zero}) {
                if (e + m < 2) continue;
                check_all_boundaries(minifloat(e, m, bias, false, nan));
                if (e + m > 2) check_all_boundaries(minifloat(e, m, bias, true, nan));
                if (e > 0) check_all_boundaries(minifloat(e, m, bias, false, nan, false));
                if (nan != NanCode::negative_zero) check_all_boundaries(minifloat(e, m, bias, false, nan, true, false));
            }
            if (e < 2) continue;
            check_all_boundaries(minifloat(e, m, bias, true, NanCode::ieee));
            check_all_boundaries(minifloat(e, m, bias, false, NanCode::ieee));
            check_all_boundaries(minifloat(e, m, bias, true, NanCode::ieee, false));
            check_all_boundaries(minifloat(e, m, bias, true, NanCode::ieee, true, false));
        }
    }
    check_all_boundaries(minifloat(11, 3, 1030, true, NanCode::ieee));  // 2^1024 must stay out of the oracle's doubles
    check_all_boundaries(minifloat(5, 3, 15, false, NanCode::all_ones, true, false));
}

#ifdef TEGULA_HAVE_LLVM
const llvm::fltSemantics& semantics_of(Fmt id) {
    switch (id) {
        case Fmt::f16:
            return llvm::APFloat::IEEEhalf();
        case Fmt::bf16:
            return llvm::APFloat::BFloat();
        case Fmt::tf32:
            return llvm::APFloat::FloatTF32();
        case Fmt::f8e5m2:
            return llvm::APFloat::Float8E5M2();
        case Fmt::f8e4m3:
            return llvm::APFloat::Float8E4M3FN();
        case Fmt::f8e4m3fnuz:
            return llvm::APFloat::Float8E4M3FNUZ();
        case Fmt::f8e5m2fnuz:
            return llvm::APFloat::Float8E5M2FNUZ();
        case Fmt::f6e3m2:
            return llvm::APFloat::Float6E3M2FN();
        case Fmt::f6e2m3:
            return llvm::APFloat::Float6E2M3FN();
        case Fmt::f4e2m1:
            return llvm::APFloat::Float4E2M1FN();
        case Fmt::f32:
            return llvm::APFloat::IEEEsingle();
        default:
            return llvm::APFloat::IEEEdouble();
    }
}
constexpr Fmt kLlvmFormats[] = {Fmt::f16,        Fmt::bf16,       Fmt::tf32,   Fmt::f8e5m2, Fmt::f8e4m3,
                                Fmt::f8e4m3fnuz, Fmt::f8e5m2fnuz, Fmt::f6e3m2, Fmt::f6e2m3, Fmt::f4e2m1};

double llvm_decode(Fmt id, uint64_t code, unsigned width) {
    llvm::APFloat value(semantics_of(id), llvm::APInt(width, code));
    bool lost = false;
    value.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &lost);
    return value.convertToDouble();
}

TEST(round, decodes_every_code_as_llvm_does) {
    for (Fmt id : kLlvmFormats) {
        Format f = get(id);
        unsigned width = id == Fmt::tf32 ? 19 : f.bits, padding = f.bits - width;
        for (uint64_t code = 0; code < uint64_t{1} << width; ++code) {
            double want = llvm_decode(id, code, width);
            expect_value(f, code << padding, {std::isnan(want), want}, "decode");
            // f4, f6 and fp8 bits below the element must not matter
            if (padding) expect_value(f, code << padding | ((1u << padding) - 1), {std::isnan(want), want}, "decode with low bits");
            if (HasFatalFailure()) return;
        }
    }
}

/// APFloat overflows formats without Inf to NaN, or in its own ways: those cases are the table test's.
void check_against_llvm(Fmt id, const Format& f, double x, Round round, double limit) {
    if (std::isnan(x) || (std::fabs(x) > limit && !f.has_inf)) return;
    static constexpr llvm::APFloat::roundingMode kRounding[] = {llvm::APFloat::rmNearestTiesToEven, llvm::APFloat::rmNearestTiesToAway,
                                                                llvm::APFloat::rmTowardZero, llvm::APFloat::rmTowardPositive,
                                                                llvm::APFloat::rmTowardNegative};
    llvm::APFloat value(x);
    bool lost = false;
    value.convert(semantics_of(id), kRounding[int(round)], &lost);
    unsigned width = id == Fmt::tf32 ? 19 : f.bits;
    uint64_t want = value.bitcastToAPInt().getZExtValue() << (f.bits - width);
    if (!f.negative_zero && value.isZero()) want = 0;
    ASSERT_EQ(encode(f, x, {round, Overflow::ieee, 0}), want) << f.name << " " << describe(x, round, Overflow::ieee);
}

TEST(round, encodes_f32_patterns_as_llvm_does) {
    bool long_run = test::is_long();
    uint64_t stride = long_run ? 1 : 104729;
    for (Fmt id : kLlvmFormats) {
        Format f = get(id);
        double limit = decode(f, max_code(f));
        for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += stride) {
            double x = std::bit_cast<float>(static_cast<uint32_t>(bits));
            for (Round round : kModes) {
                check_against_llvm(id, f, x, round, limit);
                if (long_run) break;
            }
            if (HasFatalFailure()) return;
        }
    }
}

TEST(round, encodes_random_doubles_near_ties_as_llvm_does) {
    std::mt19937_64 random(7);
    for (Fmt id : {Fmt::f16, Fmt::bf16, Fmt::tf32, Fmt::f32, Fmt::f8e5m2, Fmt::f8e4m3}) {
        Format f = get(id);
        double limit = decode(f, max_code(f));
        for (int i = 0; i < 20000; ++i) {
            double scale = std::ldexp(1.0, int(random() % unsigned(2 * f.bias + f.man_bits + 8)) - f.bias - f.man_bits - 3);
            double x = std::ldexp(double(random() % (uint64_t{4} << f.man_bits)), -int(f.man_bits)) * scale;
            if (i % 3) x = std::nextafter(x, i % 3 == 1 ? kInf : 0.0);
            for (Round round : kModes) check_against_llvm(id, f, i & 1 ? x : -x, round, limit);
            if (HasFatalFailure()) return;
        }
    }
}
#else
TEST(round, llvm_oracle) { GTEST_SKIP() << "built without LLVM"; }
#endif

// ---- MPFR ----

class Real {
public:
    explicit Real(mpfr_prec_t precision) { mpfr_init2(v_, precision); }
    ~Real() { mpfr_clear(v_); }
    Real(const Real&) = delete;
    Real& operator=(const Real&) = delete;
    operator mpfr_ptr() { return v_; }

private:
    mpfr_t v_;
};

TEST(round, wide_minifloats_equal_mpfr) {
    std::mt19937_64 random(11);
    const mpfr_exp_t old_min = mpfr_get_emin(), old_max = mpfr_get_emax();
    constexpr mpfr_rnd_t kRounding[] = {MPFR_RNDN, MPFR_RNDNA, MPFR_RNDZ, MPFR_RNDU, MPFR_RNDD};
    for (auto [e, m, bias] : {std::array{8, 23, 127}, {5, 20, 15}, {11, 20, 1023}, {3, 28, 3}, {9, 30, 200}, {11, 40, 1023}, {8, 23, 140}}) {
        Format f = minifloat(unsigned(e), unsigned(m), bias, true, NanCode::ieee);
        ASSERT_EQ(format_problem(f), "");
        int min_exponent = 1 - bias, max_exponent = (1 << e) - 2 - bias;
        for (int i = 0; i < 20000; ++i) {
            double x = std::bit_cast<double>(random());
            if (i % 2) x = std::ldexp(1.0 + std::ldexp(double(random() >> 12), -52), min_exponent - int(random() % unsigned(m + 3)) + (i & 4));
            if (!std::isfinite(x)) continue;
            for (Round round : {Round::rne, Round::rtz, Round::ru, Round::rd}) {
                mpfr_set_emin(old_min);
                mpfr_set_emax(old_max);
                Real exact(53), rounded(m + 1);
                mpfr_set_d(exact, x, MPFR_RNDN);
                mpfr_set_emin(min_exponent - m + 1);  // MPFR's significands lie in [1/2, 1)
                mpfr_set_emax(max_exponent + 1);
                int ternary = mpfr_set(rounded, exact, kRounding[int(round)]);
                ternary = mpfr_check_range(rounded, ternary, kRounding[int(round)]);
                mpfr_subnormalize(rounded, ternary, kRounding[int(round)]);
                double want = mpfr_get_d(rounded, MPFR_RNDN);
                expect_value(f, encode(f, x, {round, Overflow::ieee, 0}), {false, want}, describe(x, round, Overflow::ieee));
                if (HasFatalFailure()) return;
            }
        }
    }
    mpfr_set_emin(old_min);
    mpfr_set_emax(old_max);
}

TEST(round, fixed_point_equals_mpfr) {
    std::mt19937_64 random(5);
    constexpr mpfr_rnd_t kRounding[] = {MPFR_RNDN, MPFR_RNDNA, MPFR_RNDZ, MPFR_RNDU, MPFR_RNDD};
    for (auto [i, fr, is_signed] :
         {std::tuple{4, 4, true}, {1, 7, true}, {0, 8, false}, {16, 16, true}, {3, 2, false}, {32, 0, true}, {1, 0, true}}) {
        Format f;
        f.kind = FormatKind::fixed;
        f.is_signed = is_signed;
        f.int_bits = uint8_t(i);
        f.frac_bits = uint8_t(fr);
        f.bits = uint8_t(i + fr);
        ASSERT_EQ(format_problem(f), "");
        double low = is_signed ? -std::ldexp(1.0, i + fr - 1) : 0, high = std::ldexp(1.0, i + fr - is_signed) - 1;
        for (int n = 0; n < 20000; ++n) {
            double x = std::ldexp(double(int64_t(random()) >> 20), -43 + i + 1 - int(random() % 12));
            if (n % 4 == 0) x = std::ldexp(std::round(std::ldexp(x, fr + 1)), -fr - 1);  // ties
            for (Round round : {Round::rne, Round::rtz, Round::ru, Round::rd}) {
                Real scaled(80), rounded(80);
                mpfr_set_d(scaled, std::ldexp(x, fr), MPFR_RNDN);
                if (round == Round::rne)
                    mpfr_roundeven(rounded, scaled);
                else
                    mpfr_rint(rounded, scaled, kRounding[int(round)]);
                double raw = mpfr_get_d(rounded, MPFR_RNDN);
                bool flagged = false;
                uint64_t code = encode(f, x, {round, Overflow::automatic, 0}, &flagged);
                ASSERT_EQ(double(int64_t(code)), std::clamp(raw, low, high)) << canonical_name(f) << " " << describe(x, round, Overflow::automatic);
                ASSERT_EQ(flagged, raw < low || raw > high);
                ASSERT_EQ(decode(f, code), std::ldexp(std::clamp(raw, low, high), -fr));
            }
        }
        EXPECT_EQ(encode(f, kNan), 0u);
        EXPECT_EQ(encode(f, kInf), max_code(f));
    }
}

/// An operation's exact result as MPFR has it, rounded to the format in the operation's mode; the range's upper end is the encoder's.
uint64_t correctly_rounded(ir::Op op, const Format& f, const double (&x)[3]) {
    Real a(53), b(53), c(53), r(f.man_bits + 1);
    mpfr_set_d(a, x[0], MPFR_RNDN), mpfr_set_d(b, x[1], MPFR_RNDN), mpfr_set_d(c, x[2], MPFR_RNDN);
    const mpfr_exp_t usual = mpfr_get_emin();
    mpfr_set_emin(2 - f.bias - f.man_bits);  // the smallest number is 0.1 in binary times 2 to this
    int sign = 0;                            // of the rounded minus the exact result
    const auto [base, round] = ir::rounded_op(op);
    static constexpr mpfr_rnd_t kModes[] = {MPFR_RNDN, MPFR_RNDNA, MPFR_RNDZ, MPFR_RNDU, MPFR_RNDD};
    const mpfr_rnd_t mode = kModes[static_cast<int>(round)];
    switch (base) {
        case ir::Op::add:
            sign = mpfr_add(r, a, b, mode);
            break;
        case ir::Op::sub:
            sign = mpfr_sub(r, a, b, mode);
            break;
        case ir::Op::mul:
            sign = mpfr_mul(r, a, b, mode);
            break;
        case ir::Op::div:
            sign = mpfr_div(r, a, b, mode);
            break;
        case ir::Op::sqrt:
            sign = mpfr_sqrt(r, a, mode);
            break;
        case ir::Op::fma:
            sign = mpfr_fma(r, a, b, c, mode);
            break;
        case ir::Op::rem: {
            Real exact(53);
            const mpfr_ptr rest = exact, divisor = b;
            EXPECT_EQ(mpfr_fmod(rest, a, b, mode), 0);
            if (mpfr_zero_p(rest))
                mpfr_setsign(r, rest, mpfr_signbit(divisor), mode);
            else if (mpfr_signbit(rest) != mpfr_signbit(divisor) && !mpfr_nan_p(rest))
                sign = mpfr_add(r, rest, b, mode);
            else
                sign = mpfr_set(r, rest, mode);
            break;
        }
        default:
            break;
    }
    mpfr_subnormalize(r, sign, mode);
    const double value = mpfr_get_d(r, mode);
    mpfr_set_emin(usual);
    return encode(f, value, {.round = round});
}

TEST(round, arithmetic_of_declared_floats_equals_mpfr) {
    for (const Format& f : test::wide_floats())
        for (ir::Op op : test::kRoundedOps) {
            test::HardOperands operands(f);
            int twice = 0;
            for (int i = 0; i < (test::is_long() ? 100000 : 1000); ++i) {
                const auto codes = operands.next(op);
                const double x[3] = {decode(f, codes[0]), decode(f, codes[1]), decode(f, codes[2])};
                const uint64_t want = correctly_rounded(op, f, x);
                ASSERT_EQ(scalar::eval_elementwise(op, f, {codes.data(), static_cast<size_t>(ir::op_row(op).operands)}), want)
                    << ir::op_row(op).name << " of " << f.name << std::hexfloat << ": " << x[0] << ", " << x[1] << ", " << x[2] << " gives "
                    << decode(f, want);
                if (op == ir::Op::mul) twice += encode(f, x[0] * x[1]) != want;
            }
            // The operands are hard indeed.
            const bool hard = op == ir::Op::mul && f.man_bits >= 26 && f.man_bits < 50 && f.exp_bits >= 8;
            EXPECT_TRUE(!hard || twice > 15) << f.name << " " << twice;
        }
}

// ---- traps and statistics ----

TEST(round, one_rounding_not_two) {
    // 1.0625001 is above the tie 1.0625 of e4m3 but becomes it in f16.
    EXPECT_EQ(decode(get(Fmt::f8e4m3), encode(get(Fmt::f8e4m3), double(1.0625001f))), 1.125);
    EXPECT_EQ(decode(get(Fmt::f8e4m3), encode(get(Fmt::f8e4m3), 1.0625)), 1.0);
    EXPECT_EQ(decode(get(Fmt::bf16), convert(get(Fmt::bf16), int_format(32, true), 259)), 260.0);
    // A tie of bf16 plus a bit that f32 cannot hold.
    EXPECT_EQ(decode(get(Fmt::bf16), encode(get(Fmt::bf16), 1.0 + 0x1p-8 + 0x1p-40)), 1.0 + 0x1p-7);
    // An i64 that lies just above a tie of f32, and just above one of f64 itself.
    EXPECT_EQ(decode(get(Fmt::f32), convert(get(Fmt::f32), get(Fmt::i64), (uint64_t{1} << 62) + (uint64_t{1} << 38) + 1)), 0x1p62 + 0x1p39);
    EXPECT_EQ(decode(get(Fmt::f64), convert(get(Fmt::f64), get(Fmt::u64), ~uint64_t{0})), 0x1p64);
}

TEST(round, stochastic_is_unbiased_and_keeps_exact_values) {
    constexpr int kDraws = 1 << 16;
    for (auto [id, x] : {std::pair{Fmt::f8e4m3, 1.03}, {Fmt::bf16, -3.1415926535}, {Fmt::f4e2m1, 0.1}, {Fmt::i8, 5.75}, {Fmt::f16, 1e-7}}) {
        Format f = get(id);
        double lo = decode(f, encode(f, x, {Round::rd, {}, 0})), hi = decode(f, encode(f, x, {Round::ru, {}, 0}));
        double sum = 0;
        for (uint64_t i = 0; i < kDraws; ++i) {
            double got = decode(f, encode(f, x, {Round::stochastic, {}, stochastic_bits(42, i)}));
            ASSERT_TRUE(got == lo || got == hi) << f.name;
            sum += got;
            ASSERT_EQ(decode(f, encode(f, lo, {Round::stochastic, {}, stochastic_bits(43, i)})), lo);
        }
        double p = (x - lo) / (hi - lo), sigma = (hi - lo) * std::sqrt(p * (1 - p) / kDraws);
        EXPECT_NEAR(sum / kDraws, x, 4 * sigma) << f.name;
    }
}

TEST(round, philox_known_answers) {
    // Random123's kat_vectors.
    struct Case {
        uint32_t counter[4], key[2], want[4];
    };
    const Case cases[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}, {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}};
    for (const Case& c : cases) {
        uint32_t out[4];
        philox4x32(c.counter, c.key, out);
        for (int i = 0; i < 4; ++i) EXPECT_EQ(out[i], c.want[i]);
    }
    EXPECT_EQ(stochastic_bits(0, 0), 0xe169c58d6627e8d5u);
}

}  // namespace
