// std.math: every function, in f32 and f64, through the public interface. The results are compared bit for bit with the C++ reference
// (math_reference_*.h, the same definitions) and, on a sample, against MPFR, which knows nothing of how they are made: at most 2 ulp.
#include <gtest/gtest.h>
#include <mpfr.h>

#include <algorithm>
#include <bit>
#include <random>
#include <string>
#include <vector>

#include "math_reference_f32.h"
#include "math_reference_f64.h"
#include "tegula/tegula.hpp"

namespace {

namespace ref = math_reference;

using Oracle = int (*)(mpfr_ptr, mpfr_srcptr, mpfr_srcptr);

template <int (*F)(mpfr_ptr, mpfr_srcptr, mpfr_rnd_t)>
int one(mpfr_ptr out, mpfr_srcptr x, mpfr_srcptr) {
    return F(out, x, MPFR_RNDN);
}

template <int (*F)(mpfr_ptr, mpfr_srcptr, mpfr_srcptr, mpfr_rnd_t)>
int two(mpfr_ptr out, mpfr_srcptr x, mpfr_srcptr y) {
    return F(out, x, y, MPFR_RNDN);
}

int sigmoid(mpfr_ptr out, mpfr_srcptr x, mpfr_srcptr) {
    mpfr_neg(out, x, MPFR_RNDN);
    mpfr_exp(out, out, MPFR_RNDN);
    mpfr_add_ui(out, out, 1, MPFR_RNDN);
    return mpfr_ui_div(out, 1, out, MPFR_RNDN);
}

/// IEEE 754 has rSqrt(-0) = -inf, MPFR +inf.
int rsqrt(mpfr_ptr out, mpfr_srcptr x, mpfr_srcptr) {
    mpfr_rec_sqrt(out, x, MPFR_RNDN);
    return mpfr_zero_p(x) ? mpfr_copysign(out, out, x, MPFR_RNDN) : 0;
}

struct Function {
    const char* name;
    int arguments;
    ref::f32 (*f32)(ref::f32, ref::f32);
    ref::f64 (*f64)(ref::f64, ref::f64);
    Oracle oracle;
};

#define UNARY(name, oracle)                                                                                                    \
    Function {                                                                                                                 \
        #name, 1, [](ref::f32 x, ref::f32) { return ref::name(x); }, [](ref::f64 x, ref::f64) { return ref::name(x); }, oracle \
    }
#define BINARY(name, oracle)                                                                                                             \
    Function {                                                                                                                           \
        #name, 2, [](ref::f32 x, ref::f32 y) { return ref::name(x, y); }, [](ref::f64 x, ref::f64 y) { return ref::name(x, y); }, oracle \
    }

const Function kFunctions[] = {
    UNARY(exp, one<mpfr_exp>),   UNARY(exp2, one<mpfr_exp2>),    UNARY(expm1, one<mpfr_expm1>), UNARY(log, one<mpfr_log>),
    UNARY(log2, one<mpfr_log2>), UNARY(log10, one<mpfr_log10>),  UNARY(log1p, one<mpfr_log1p>), UNARY(sin, one<mpfr_sin>),
    UNARY(cos, one<mpfr_cos>),   UNARY(tan, one<mpfr_tan>),      UNARY(asin, one<mpfr_asin>),   UNARY(acos, one<mpfr_acos>),
    UNARY(atan, one<mpfr_atan>), UNARY(sinh, one<mpfr_sinh>),    UNARY(cosh, one<mpfr_cosh>),   UNARY(tanh, one<mpfr_tanh>),
    UNARY(erf, one<mpfr_erf>),   UNARY(erfc, one<mpfr_erfc>),    UNARY(rsqrt, rsqrt),           UNARY(cbrt, one<mpfr_cbrt>),
    UNARY(sigmoid, sigmoid),     BINARY(atan2, two<mpfr_atan2>), BINARY(pow, two<mpfr_pow>),
};

/// One kernel per function; a second argument that the function does not take is left alone.
std::string source() {
    std::string text;
    for (const Function& f : kFunctions) {
        text += "kernel k_" + std::string(f.name) + "<T: float>(x: tensor<T>[N], z: tensor<T>[N], out y: tensor<T>[N]) grid [cdiv(N, 1024)] {\n" +
                "    let i = program_id(0) * 1024;\n    y[i +: 1024] = " + f.name + "(x[i +: 1024]" + (f.arguments == 2 ? ", z[i +: 1024]" : "") +
                ");\n}\n";
    }
    return text;
}

template <class T>
constexpr uint64_t kSignificand = uint64_t{1} << (std::numeric_limits<T>::digits - 1);

/// Values at which definitions change or break: zeros, subnormals, limits of overflow and underflow, the hardest reduction modulo pi/2.
template <class T>
std::vector<T> special_values() {
    using Limits = std::numeric_limits<T>;
    std::vector<T> out;
    for (T x : {T(0),
                Limits::denorm_min(),
                Limits::min(),
                Limits::epsilon(),
                T(0.25),
                T(0.5),
                T(1),
                T(1.5),
                T(2),
                T(3),
                T(4),
                T(10),
                Limits::max(),
                Limits::infinity(),
                T(88.72284),
                T(103.97208),
                T(709.782712893384),
                T(745.1332191019412),
                T(128),
                T(149),
                T(1024),
                T(1075),
                T(M_PI_4),
                T(M_PI_2),
                T(M_PI),
                T(0x1p16),
                T(0x1p20),
                T(16777216),
                T(0x1.6ac5b262ca1ffp849)}) {
        for (T y : {x, std::nextafter(x, T(0)), std::nextafter(x, Limits::infinity())}) {
            out.push_back(y);
            out.push_back(-y);
        }
    }
    out.push_back(Limits::quiet_NaN());
    return out;
}

/// `count` inputs of five kinds: special values, bit patterns, a moderate interval, a wide range of magnitudes, neighbours of k pi/2.
template <class T>
std::vector<T> inputs(size_t count, uint64_t seed) {
    using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
    std::mt19937_64 random(seed);
    const auto unit = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
    std::vector<T> out = special_values<T>();
    while (out.size() < count) {
        out.push_back(std::bit_cast<T>(static_cast<Bits>(random())));
        out.push_back(static_cast<T>(unit() * 60 - 30));
        out.push_back(static_cast<T>(std::ldexp(1 + unit(), static_cast<int>(random() % 40) - 32) * (random() % 2 ? 1 : -1)));
        out.push_back(static_cast<T>(unit() * 2 - 1));
        const double multiple = static_cast<double>(random() % (uint64_t{1} << (random() % 40 + 1)));
        out.push_back(std::nextafter(static_cast<T>(multiple * M_PI_2), static_cast<T>(unit() * 2e12)));
    }
    out.resize(count);
    return out;
}

/// Second arguments: exponents that spread results of pow over the whole range, integers, operands of similar size, and special pairs.
template <class T>
std::vector<T> second_inputs(const std::vector<T>& x, uint64_t seed) {
    std::mt19937_64 random(seed);
    const std::vector<T> special = special_values<T>();
    std::vector<T> out;
    for (size_t i = 0; i < x.size(); ++i) {
        const double u = static_cast<double>(random() >> 11) * 0x1p-52 - 1;
        const double span = (std::numeric_limits<T>::max_exponent + 30) * u / std::log2(std::fabs(static_cast<double>(x[i])));
        switch (i < special.size() ? 3 : random() % 4) {
            case 0:
                out.push_back(static_cast<T>(span));
                break;
            case 1:
                out.push_back(std::round(static_cast<T>(u * 40)));
                break;
            case 2:
                out.push_back(x[i] * static_cast<T>(u * 4));
                break;
            default:
                out.push_back(special[random() % special.size()]);
        }
    }
    return out;
}

template <class T>
bool same_bits(T a, T b) {
    return std::isnan(a) ? std::isnan(b) : std::memcmp(&a, &b, sizeof(T)) == 0;
}

/// Error of `got` in ulp of the exact value; huge where NaN, a sign of zero or an exact infinity is wrong. An overflow counts as the first
/// power of two beyond the range.
template <class T>
double ulps(T got, mpfr_srcptr exact) {
    using Limits = std::numeric_limits<T>;
    constexpr double kWrong = 1e30;
    if (mpfr_nan_p(exact) || std::isnan(got)) return mpfr_nan_p(exact) && std::isnan(got) ? 0 : kWrong;
    if (mpfr_inf_p(exact) || mpfr_zero_p(exact)) {
        // An argument so large that even MPFR overflows is beyond the type's range as well.
        const bool value = mpfr_inf_p(exact) ? std::isinf(got) : got == 0;
        return value && std::signbit(got) == (mpfr_signbit(exact) != 0) ? 0 : kWrong;
    }
    if (std::signbit(got) != (mpfr_signbit(exact) != 0)) return kWrong;
    mpfr_t error;
    mpfr_init2(error, 160);
    if (std::isinf(got))
        mpfr_set_si_2exp(error, got > 0 ? 1 : -1, Limits::max_exponent, MPFR_RNDN);
    else
        mpfr_set_d(error, static_cast<double>(got), MPFR_RNDN);
    mpfr_t clipped;
    mpfr_init2(clipped, 160);
    mpfr_set(clipped, exact, MPFR_RNDN);
    if (mpfr_get_exp(exact) > Limits::max_exponent) mpfr_set_si_2exp(clipped, mpfr_signbit(exact) ? -1 : 1, Limits::max_exponent, MPFR_RNDN);
    mpfr_sub(error, error, clipped, MPFR_RNDN);
    const mpfr_exp_t exponent = std::max<mpfr_exp_t>(std::min<mpfr_exp_t>(mpfr_get_exp(exact), Limits::max_exponent), Limits::min_exponent);
    mpfr_mul_2si(error, error, Limits::digits - exponent, MPFR_RNDN);
    const double out = std::fabs(mpfr_get_d(error, MPFR_RNDN));
    mpfr_clear(error);
    mpfr_clear(clipped);
    return out;
}

template <class T>
T reference(const Function& f, T x, T y) {
    if constexpr (sizeof(T) == 4)
        return f.f32(x, y).v;
    else
        return f.f64(x, y).v;
}

template <class T>
void check_function(const tegula::Module& module, const Function& f, const std::vector<T>& x, const std::vector<T>& z) {
    std::vector<T> y(x.size(), T(-7));
    const auto n = static_cast<int64_t>(x.size());
    auto done =
        module.launch("k_" + std::string(f.name), {}, {tegula::Tensor(x.data(), {n}), tegula::Tensor(z.data(), {n}), tegula::Tensor(y.data(), {n})});
    ASSERT_TRUE(done) << done.diagnostics().text();
    constexpr size_t kSampled = 4;
    mpfr_t a, b, exact;
    mpfr_inits2(160, a, b, exact, mpfr_ptr(nullptr));
    double worst = 0;
    for (size_t i = 0; i < x.size(); ++i) {
        const T want = reference(f, x[i], z[i]);
        ASSERT_TRUE(same_bits(y[i], want)) << f.name << "(" << x[i] << ", " << z[i] << ") = " << y[i] << ", the reference has " << want;
        if (i % kSampled != 0 && i >= special_values<T>().size()) continue;
        mpfr_set_d(a, static_cast<double>(x[i]), MPFR_RNDN);
        mpfr_set_d(b, static_cast<double>(z[i]), MPFR_RNDN);
        f.oracle(exact, a, b);
        const double error = ulps(y[i], exact);
        worst = std::max(worst, error);
        ASSERT_LE(error, 2) << f.name << "(" << std::hexfloat << x[i] << ", " << z[i] << ") = " << y[i] << ", exactly "
                            << mpfr_get_d(exact, MPFR_RNDN);
    }
    EXPECT_GT(worst, 0) << f.name << ": an oracle that agrees to the last bit everywhere measures nothing";
    mpfr_clears(a, b, exact, mpfr_ptr(nullptr));
}

class MathTest : public ::testing::TestWithParam<Function> {
protected:
    static void SetUpTestSuite() {
        auto engine = tegula::Engine::create();
        ASSERT_TRUE(engine);
        auto loaded = engine.value().load(source(), "math_test.tile");
        ASSERT_TRUE(loaded) << loaded.diagnostics().text();
        module = new tegula::Module(loaded.value());
    }
    static void TearDownTestSuite() {
        delete module;
        module = nullptr;
        mpfr_free_cache();
    }
    static tegula::Module* module;
};
tegula::Module* MathTest::module = nullptr;

constexpr size_t kInputs = 12'000;

TEST_P(MathTest, F32) {
    const std::vector<float> x = inputs<float>(kInputs, 1);
    check_function(*module, GetParam(), x, second_inputs(x, 2));
}

TEST_P(MathTest, F64) {
    const std::vector<double> x = inputs<double>(kInputs, 3);
    check_function(*module, GetParam(), x, second_inputs(x, 4));
}

INSTANTIATE_TEST_SUITE_P(Functions, MathTest, ::testing::ValuesIn(kFunctions), [](const auto& info) { return std::string(info.param.name); });

constexpr size_t kExact = 2;  // clamp, which rounds nothing, and fast_exp, which names hardware: their tests are elsewhere

/// A function added to the library without a line here would go untested.
TEST(MathTable, NamesEveryFunction) {
    auto engine = tegula::Engine::create();
    auto module = engine.value().load_file(std::string(TEGULA_SOURCE_DIR) + "/stdlib/math.tile");
    ASSERT_TRUE(module) << module.diagnostics().text();
    const std::string items = module.value().artifact("json").value();
    size_t public_functions = 0;
    for (size_t at = 0; (at = items.find("\"kind\":\"fn\"", at)) != std::string::npos; ++at) {
        const size_t name = items.find("\"name\":\"", at) + 8;
        public_functions += items[name] != '_';
    }
    EXPECT_EQ(public_functions, std::size(kFunctions) + kExact) << items.substr(0, 400);
}

}  // namespace
