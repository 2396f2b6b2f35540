// Sections of device text that round: the device's copy of lang/round.cpp (one rounding of an exact value to any format) and the short path of
// nearest-even from float. Facts of a format are compile-time constants of the call, so that what a format does not have folds away. Functions have
// one exit: each other one costs a convergence barrier until the end of the kernel, and there are few (kMovesBarrier in nvrtc.h).
#include "jit/cuda/prelude_sections.h"

namespace tegula::cuda {

namespace {

/// Nearest even from float into a signed minifloat with subnormals and mantissa bits, every value of which is exact in float. Subnormal results
/// come from the float adder, which rounds at the right place when a constant is added.
constexpr std::string_view kEncodeRne = R"(
template <int kMantissa, int kMinExponent, unsigned kMax, unsigned kAbove, unsigned kNan, int kSignAt, bool kNegativeZero>
__device__ __forceinline__ unsigned encode_rne(float v) {
    const unsigned bits = float_bits(v), m = bits & 0x7fffffffu;
    const float magic = as_float((unsigned)(kMinExponent - kMantissa + 23 + 127) << 23);
    const unsigned tiny = float_bits(as_float(m) + magic) - float_bits(magic);
    const unsigned normal = ((m + ((1u << (22 - kMantissa)) - 1) + (m >> (23 - kMantissa) & 1)) >> (23 - kMantissa)) -
                            ((unsigned)(126 + kMinExponent) << kMantissa);
    unsigned r = m < (unsigned)(kMinExponent + 127) << 23 ? tiny : normal;
    r = r > kMax ? kAbove : r;
    return m > 0x7f800000u ? kNan : r | (r != 0 || kNegativeZero ? bits >> 31 << kSignAt : 0);
}
/// For formats without signs, of at most 16 bits: negative numbers that do not round to zero become kBelow.
template <int kMantissa, int kMinExponent, unsigned kMax, unsigned kAbove, unsigned kNan, unsigned kBelow>
__device__ __forceinline__ unsigned encode_unsigned_rne(float v) {
    const unsigned r = encode_rne<kMantissa, kMinExponent, kMax, kAbove, kNan, 31, false>(v);
    return r >> 31 ? kBelow : r;
}
)";

constexpr std::string_view kFloatRoundOdd = R"(
__device__ __forceinline__ float float_round_odd(double v) {
    const float r = (float)v;
    if ((double)r == v || v != v) return r;
    return as_float((float_bits(r) - (fabs((double)r) > fabs(v) ? 1 : 0)) | 1);
}
)";

/// lang/one_rounding.h: of the two neighbours of an inexact result the one that rounds to the format as the result does. `cut` bits will be lost:
/// where it is one, both neighbours but that with an even last bit are ties; where it is more, the odd one is none.
constexpr std::string_view kOneRounding = R"(
#ifdef __CUDACC__
__device__ __forceinline__ double div_down(double a, double b) { return __ddiv_rd(a, b); }
__device__ __forceinline__ double div_up(double a, double b) { return __ddiv_ru(a, b); }
__device__ __forceinline__ double sqrt_down(double a) { return __dsqrt_rd(a); }
__device__ __forceinline__ double sqrt_up(double a) { return __dsqrt_ru(a); }
#else
inline double div_down(double a, double b) { return host_directed('/', a, b, 0, false); }
inline double div_up(double a, double b) { return host_directed('/', a, b, 0, true); }
inline double sqrt_down(double a) { return host_directed('s', a, 0, 0, false); }
inline double sqrt_up(double a) { return host_directed('s', a, 0, 0, true); }
#endif
__device__ __forceinline__ double before_rounding(double below, double above, double nearest, int man_bits, int min_exponent) {
    const unsigned long long low = double_bits(below), high = double_bits(above), inner = low << 1 < high << 1 ? low : high;
    const int field = (int)(inner >> 52 & 0x7ff), normal = 52 - man_bits, subnormal = min_exponent - man_bits + 1075 - (field ? field : 1);
    const int cut = normal > subnormal ? normal : subnormal;
    const double one = ((low & 1) != 0) == (cut > 1) ? below : above;
    return below < above && cut > 0 ? one : nearest;
}
__device__ __forceinline__ double fma_once(double a, double b, double c, int man_bits, int min_exponent) {
    return before_rounding(fma_down(a, b, c), fma_up(a, b, c), fma(a, b, c), man_bits, min_exponent);
}
__device__ __forceinline__ double add_once(double a, double b, int man_bits, int min_exponent) { return fma_once(a, 1.0, b, man_bits, min_exponent); }
__device__ __forceinline__ double sub_once(double a, double b, int man_bits, int min_exponent) { return fma_once(a, 1.0, -b, man_bits, min_exponent); }
__device__ __forceinline__ double mul_once(double a, double b, int man_bits, int min_exponent) { return fma_once(a, b, -0.0, man_bits, min_exponent); }
__device__ __forceinline__ double div_once(double a, double b, int man_bits, int min_exponent) {
    return before_rounding(div_down(a, b), div_up(a, b), a / b, man_bits, min_exponent);
}
__device__ __forceinline__ double sqrt_once(double a, int man_bits, int min_exponent) {
    return before_rounding(sqrt_down(a), sqrt_up(a), sqrt(a), man_bits, min_exponent);
}
__device__ __forceinline__ double rem_once(double a, double b, int man_bits, int min_exponent) {
    const double r = fmod(a, b), up = add_once(r, b, man_bits, min_exponent), shifted = ((r < 0) != (b < 0)) & (r == r) ? up : r;
    return r == 0 ? copysign(0.0, b) : shifted;
}
)";

/// The instructions that flush subnormal operands and results differ between machines where a result rounds up to the smallest normal number; a
/// product with 1 does not round.
constexpr std::string_view kFlush = R"(
template <class T>
__device__ __forceinline__ T flush_below(T a, T least) { return fabs(a) < least ? copysign(T(0), a) : a; }
#ifdef __CUDACC__
__device__ __forceinline__ float flush_subnormal(float a) {
    float r;
    asm("mul.ftz.f32 %0, %1, 0f3f800000;" : "=f"(r) : "f"(a));
    return r;
}
#else
inline float flush_subnormal(float a) { return flush_below(a, 0x1p-126f); }
#endif
__device__ __forceinline__ double flush_subnormal(double a) { return flush_below(a, 0x1p-1022); }
)";

/// The directed rows. A host has but fma, quotients and roots of doubles rounded down and up: the rest follows, since directed rounding composes.
constexpr std::string_view kDirected = R"(
#ifdef __CUDACC__
#define DIRECTED(mode, cuda)                                                                                  \
    __device__ __forceinline__ float add_##mode(float a, float b) { return __fadd_##cuda(a, b); }            \
    __device__ __forceinline__ float sub_##mode(float a, float b) { return __fsub_##cuda(a, b); }            \
    __device__ __forceinline__ float mul_##mode(float a, float b) { return __fmul_##cuda(a, b); }            \
    __device__ __forceinline__ float div_##mode(float a, float b) { return __fdiv_##cuda(a, b); }            \
    __device__ __forceinline__ float fma_##mode(float a, float b, float c) { return __fmaf_##cuda(a, b, c); } \
    __device__ __forceinline__ float sqrt_##mode(float a) { return __fsqrt_##cuda(a); }                      \
    __device__ __forceinline__ double add_##mode(double a, double b) { return __dadd_##cuda(a, b); }         \
    __device__ __forceinline__ double sub_##mode(double a, double b) { return __dsub_##cuda(a, b); }         \
    __device__ __forceinline__ double mul_##mode(double a, double b) { return __dmul_##cuda(a, b); }         \
    __device__ __forceinline__ double div_##mode(double a, double b) { return __ddiv_##cuda(a, b); }         \
    __device__ __forceinline__ double fma_##mode(double a, double b, double c) { return __fma_##cuda(a, b, c); } \
    __device__ __forceinline__ double sqrt_##mode(double a) { return __dsqrt_##cuda(a); }
DIRECTED(rtz, rz)
DIRECTED(ru, ru)
DIRECTED(rd, rd)
#else
inline double directed_double(int mode, char op, double a, double b, double c) {  // mode: -1 down, 0 toward zero, 1 up
    const double low = host_directed(op, a, b, c, false), high = host_directed(op, a, b, c, true);
    return mode < 0 ? low : mode > 0 ? high : low < 0 || high == 0 ? high : low;
}
inline float directed_float(int mode, char op, double a, double b, double c) {
    const double v = directed_double(mode, op, a, b, c);
    const float r = (float)v;
    if (v != v || (double)r == v) return r;
    const bool above = (double)r > v, up = mode > 0 || (mode == 0 && v < 0);
    const unsigned bits = float_bits(r);
    return above == up ? r : as_float(r == 0 ? (up ? 1u : 0x80000001u) : (r > 0) == up ? bits + 1 : bits - 1);
}
#define DIRECTED_OF(T, how, name, mode)                                                                       \
    inline T add_##name(T a, T b) { return how(mode, 'f', a, 1, b); }                                         \
    inline T sub_##name(T a, T b) { return how(mode, 'f', a, 1, -b); }                                        \
    inline T mul_##name(T a, T b) { return how(mode, 'f', a, b, sign_bit(a) != sign_bit(b) ? -0.0 : 0.0); }   \
    inline T div_##name(T a, T b) { return how(mode, '/', a, b, 0); }                                         \
    inline T fma_##name(T a, T b, T c) { return how(mode, 'f', a, b, c); }                                    \
    inline T sqrt_##name(T a) { return how(mode, 's', a, 0, 0); }
#define DIRECTED(name, mode) DIRECTED_OF(float, directed_float, name, mode) DIRECTED_OF(double, directed_double, name, mode)
DIRECTED(rtz, 0)
DIRECTED(ru, 1)
DIRECTED(rd, -1)
#undef DIRECTED_OF
#endif
#undef DIRECTED
)";

/// Exact in lang/format.h, rounding increments, and the value of a double or an integer.
constexpr std::string_view kNumber = R"(
struct Number {  // (-1)^negative * significand * 2^exponent and, if sticky, a little more; kind 0 finite, 1 infinite, 2 NaN
    unsigned long long significand;
    int exponent;
    bool negative, sticky;
    int kind;
};
struct Cut {  // whole quanta and the lost part as a 64-bit fraction
    unsigned long long whole, fraction;
    bool sticky;
};
__device__ __forceinline__ bool is_zero(const Number& v) { return (v.kind == 0) & (v.significand == 0) & !v.sticky; }
__device__ __forceinline__ Number number_of(double v) {
    const unsigned long long bits = double_bits(v), mantissa = bits & 0xfffffffffffffull;
    const int exponent = (int)(bits >> 52 & 0x7ff);
    Number n = {exponent ? mantissa | 1ull << 52 : mantissa, (exponent ? exponent : 1) - 1075, bits >> 63 != 0, false, 0};
    if (exponent == 0x7ff) n.kind = mantissa ? 2 : 1;
    return n;
}
__device__ __forceinline__ Number number_of(unsigned long long v) {
    const Number n = {v, 0, false, false, 0};
    return n;
}
__device__ __forceinline__ Number number_of(long long v) {
    const Number n = {v < 0 ? 0 - (unsigned long long)v : (unsigned long long)v, 0, v < 0, false, 0};
    return n;
}
__device__ __forceinline__ Number normalise(const Number& v) {
    Number n = v;
    const int shift = leading_zeros_64(v.significand);
    n.significand = v.significand == 0 ? 1ull << 63 : v.significand << (shift & 63);
    n.exponent = v.significand == 0 ? v.exponent - 128 : v.exponent - shift;
    return n;
}
__device__ __forceinline__ Cut cut_at(unsigned long long significand, bool sticky, int shift) {
    Cut c = {significand, 0, sticky};
    if (shift > 0) {
        c.whole = shift < 64 ? significand >> shift : 0;
        c.fraction = shift < 64 ? significand << (64 - shift) : shift == 64 ? significand : shift < 128 ? significand >> (shift - 64) : 0;
        c.sticky = sticky || shift > 64;
    }
    return c;
}
// Modes in the order of the enumeration `Round`: rne rna rtz ru rd stochastic bits.
__device__ __forceinline__ bool round_up(const Cut& cut, bool negative, int mode, unsigned long long random) {
    const bool half = cut.fraction >> 63 != 0, rest = (cut.fraction << 1 != 0) | cut.sticky;
    return mode == 0   ? half & (rest | ((cut.whole & 1) != 0))
           : mode == 1 ? half
           : mode == 2 ? false
           : mode == 3 ? !negative & (half | rest)
           : mode == 4 ? negative & (half | rest)
                       : cut.fraction + random < cut.fraction;
}
__device__ __forceinline__ bool rounds_toward_zero(int mode, bool negative) { return (mode == 2) | ((mode == 4) & !negative) | ((mode == 3) & negative); }
)";

constexpr std::string_view kRoundFloat = R"(
struct FloatFormat {  // codes without padding; sat: as the cast says, or the format has no Inf
    int man_bits, exp_bits, min_exponent, padding;
    unsigned long long sign, max, nan_code, inf_code;
    bool has_inf, has_nan, subnormal, negative_zero, scale_only, sat;
};
__device__ __forceinline__ unsigned long long float_overflow(const FloatFormat& f, bool negative, int mode) {
    const unsigned long long sign = negative ? f.sign : 0;
    const unsigned long long below = f.sat || !f.has_nan ? 0 : f.nan_code, above = f.has_inf ? f.inf_code | sign : f.nan_code;
    const bool finite = f.sat | rounds_toward_zero(mode, negative) | (!f.has_inf & !f.has_nan);
    return negative & (f.sign == 0) ? below : finite ? f.max << f.padding | sign : above;
}
__device__ __forceinline__ unsigned long long round_float(const Number& v, const FloatFormat& f, int mode, unsigned long long random) {
    const unsigned long long sign = v.negative ? f.sign : 0, none = f.nan_code;
    const bool has_infinity = f.has_inf & !f.sat & ((f.sign != 0) | !v.negative);
    unsigned long long magnitude = 0;
    bool too_large = false;
    if (v.kind == 0 && !is_zero(v)) {
        const Number n = normalise(v);
        const int exponent = n.exponent + 63 > f.min_exponent ? n.exponent + 63 : f.min_exponent;
        Cut cut = cut_at(n.significand, v.sticky, exponent - f.man_bits - n.exponent);
        cut.whole += round_up(cut, v.negative, mode, random);
        const int step = exponent - f.min_exponent;
        too_large = step > (1 << f.exp_bits) - 1;
        if (!too_large) {
            magnitude = ((unsigned long long)step << f.man_bits) + cut.whole;
            if (f.scale_only) magnitude = magnitude == 0 ? 0 : magnitude - (1ull << f.man_bits);
            too_large = magnitude > f.max;
        }
        too_large = too_large | (v.negative & (f.sign == 0) & ((cut.whole != 0) | f.scale_only));
        if (!f.subnormal && magnitude >> f.man_bits == 0) magnitude = 0;
    }
    const unsigned long long code = magnitude << f.padding | (magnitude != 0 || f.negative_zero ? sign : 0);
    const unsigned long long infinity = has_infinity ? f.inf_code | sign : float_overflow(f, v.negative, 0);
    return v.kind == 2 ? none : v.kind == 1 ? infinity : too_large ? float_overflow(f, v.negative, mode) : code;
}
)";

constexpr std::string_view kRoundInteger = R"(
__device__ __forceinline__ unsigned long long round_integer(const Number& v, int bits, bool is_signed, int frac_bits, int mode,
                                                            unsigned long long random) {
    const int width = bits - (is_signed ? 1 : 0);
    const unsigned long long high = width == 0 ? 0 : ~0ull >> (64 - width);
    const unsigned long long limit = !v.negative ? high : is_signed ? high + 1 : 0;
    unsigned long long whole = limit;
    if (v.kind == 0) {
        const Number n = normalise(v);
        const Cut cut = cut_at(n.significand, v.sticky, -frac_bits - n.exponent);
        const bool up = round_up(cut, v.negative, mode, random);
        whole = cut.whole + up;
        whole = (n.exponent > -frac_bits) | (up & (whole == 0)) | (whole > limit) ? limit : whole;
    }
    const bool nothing = (v.kind == 2) | is_zero(v);
    return nothing ? 0 : v.negative ? 0 - whole : whole;
}
)";

constexpr std::string_view kScaleBy = R"(
__device__ __forceinline__ double scale_by(double v, int exponent) {
    const int half = exponent / 2;
    return v * as_double((unsigned long long)(half + 1023) << 52) * as_double((unsigned long long)(exponent - half + 1023) << 52);
}
)";

/// Exact value of a code of a floating format that the short decoders do not cover.
constexpr std::string_view kDecodeFloat = R"(
__device__ __forceinline__ double decode_float(unsigned long long code, const FloatFormat& f) {
    const bool negative = (code & f.sign) != 0;
    const unsigned long long m = (code & ~f.sign) >> f.padding;
    const double not_a_number = as_double(0x7ff8000000000000ull), infinity = as_double(0x7ff0000000000000ull);
    const int exponent = (int)(m >> f.man_bits);
    unsigned long long significand = m & ((1ull << f.man_bits) - 1);
    const bool normal = exponent != 0 || f.scale_only;
    if (!normal && !f.subnormal) significand = 0;
    if (normal) significand |= 1ull << f.man_bits;
    const double v = scale_by((double)significand, f.min_exponent - f.man_bits + (normal && !f.scale_only ? exponent - 1 : exponent));
    const bool infinite = f.has_inf & (m == f.max + 1), minus_zero = (m == 0) & negative & !f.negative_zero;
    const bool none = ((m > f.max) & !infinite) | (minus_zero & f.has_nan & (f.nan_code == f.sign));
    const double magnitude = infinite ? infinity : v;
    return none ? not_a_number : negative & !minus_zero ? -magnitude : magnitude;
}
)";

// log2 by repeated squaring: 62 bits are exact, far finer than the 53 bits that distinguish neighbours of a code's value.
constexpr std::string_view kLns = R"(
__device__ __forceinline__ long long logarithm(unsigned code, int bits) { return (long long)((unsigned long long)code << (65 - bits)) >> (65 - bits); }
__device__ __forceinline__ Number lns_number(unsigned code, const unsigned long long* significands, int bits, int frac_bits) {
    const long long log = logarithm(code, bits), whole = log >> frac_bits, part = log & ((1ll << frac_bits) - 1);
    const bool negative = (code >> (bits - 1) & 1) != 0, none = log == -(1ll << (bits - 2));
    const Number n = {none ? 0 : significands[part], (int)whole - 63, negative && !none, part != 0 && !none, none && negative ? 2 : 0};
    return n;
}
__device__ __forceinline__ double lns_value(const Number& n) {
    const double v = n.kind == 2 ? as_double(0x7ff8000000000000ull) : n.significand == 0 ? 0.0 : scale_by((double)n.significand, n.exponent);
    return n.negative ? -v : v;
}
__device__ __forceinline__ unsigned long long lns_code(long long base, Cut cut, bool negative, int bits, int mode, unsigned long long random) {
    const unsigned long long zero = 1ull << (bits - 2), sign = negative ? 1ull << (bits - 1) : 0;
    const long long largest = (long long)zero - 1, floor_log = base + (long long)cut.whole;
    const bool vanishes = (floor_log < -largest) & rounds_toward_zero(mode, negative);
    cut.whole = (unsigned long long)floor_log;
    long long log = floor_log + round_up(cut, negative, mode, random);
    log = log > largest ? largest : log < -largest ? -largest : log;
    return vanishes ? zero : ((unsigned long long)log & ((1ull << (bits - 1)) - 1)) | sign;
}
__device__ __forceinline__ unsigned long long lns_round(const Number& v, int bits, int frac_bits, int mode, unsigned long long random) {
    const unsigned long long zero = 1ull << (bits - 2), sign = v.negative ? 1ull << (bits - 1) : 0;
    unsigned long long code = v.kind == 2 ? 3ull << (bits - 2) : v.kind == 1 ? (zero - 1) | sign : zero;
    if ((v.kind == 0) & !is_zero(v)) {
        const Number n = normalise(v);
        unsigned long long x = n.significand;
        Cut cut = {0, 0, v.sticky};
#pragma unroll 1
        for (int i = 0; i < frac_bits + 64; ++i) {
            const unsigned long long square = high_product(x, x);
            const bool one = square >> 63 != 0;
            x = one ? square : square << 1 | (x * x) >> 63;
            if (i < frac_bits)
                cut.whole = cut.whole << 1 | one;
            else
                cut.fraction = cut.fraction << 1 | one;
        }
        code = lns_code((long long)(n.exponent + 63) * (1ll << frac_bits), cut, v.negative, bits, mode, random);
    }
    return code;
}
__device__ __forceinline__ unsigned long long lns_convert(unsigned code, int bits, int frac_bits, int from_bits, int from_frac_bits, int mode,
                                                          unsigned long long random) {
    const bool negative = (code >> (from_bits - 1) & 1) != 0;
    const long long log = logarithm(code, from_bits);
    const bool none = log == -(1ll << (from_bits - 2));
    const int fewer = from_frac_bits - frac_bits, more = fewer < 0 ? -fewer : 0, shift = fewer > 0 ? fewer : 0;
    const Cut cut = {0, fewer > 0 ? (unsigned long long)log << (64 - shift & 63) : 0, false};
    const unsigned long long rounded = lns_code(log * (1ll << more) >> shift, cut, negative, bits, mode, random);
    return none ? (negative ? 3ull : 1ull) << (bits - 2) : rounded;
}
)";

/// The nearest entry of a codebook, ties to the lower index: 2x is compared with the sum of two entries and its rounding error.
constexpr std::string_view kNearest = R"(
__device__ __forceinline__ int compare_distance(double x, int tail, double a, double b) {
    const double sum = a + b, part = sum - a, error = (a - (sum - part)) + (b - part), twice = 2 * x;
    const int side = twice > sum ? 1 : twice < sum ? -1 : error < 0 ? 1 : error > 0 ? -1 : tail;
    return (side == 0) | (a == b) ? 0 : (side > 0) == (a > b) ? -1 : 1;
}
__device__ __forceinline__ unsigned nearest(const Number& v, const double* table, int entries, int largest, int smallest) {
    const double kept = (double)v.significand, magnitude = scale_by(kept, v.exponent);
    const double x = v.negative ? -magnitude : magnitude;
    const long long lost = (long long)(v.significand - (kept < 0x1p64 ? (unsigned long long)kept : 0));  // modulo 2^64
    const int above = lost > 0 ? 1 : lost < 0 ? -1 : v.sticky, tail = v.negative ? -above : above;
    unsigned best = 0;
#pragma unroll 1
    for (int i = 1; i < entries; ++i)
        if (compare_distance(x, tail, table[i], table[best]) < 0) best = i;
    return v.kind == 0 ? best : (v.kind == 1) & v.negative ? smallest : largest;
}
)";

/// Float to integer: saturating, NaN gives 0. The instructions do it, except that NaN gives the top bit from double and to 64 bits.
constexpr std::string_view kFloatToInteger = R"(
#ifdef __CUDACC__
#define TO_INTEGER(mode, cuda, round)                                                                                                             __device__ __forceinline__ int to_int_##mode(float v) { return __float2int_##cuda(v); }                                                       __device__ __forceinline__ unsigned to_uint_##mode(float v) { return __float2uint_##cuda(v); }                                                __device__ __forceinline__ long long to_long_##mode(float v) { return v == v ? __float2ll_##cuda(v) : 0; }                                    __device__ __forceinline__ unsigned long long to_ulong_##mode(float v) { return v == v ? __float2ull_##cuda(v) : 0; }                         __device__ __forceinline__ int to_int_##mode(double v) { return v == v ? __double2int_##cuda(v) : 0; }                                        __device__ __forceinline__ unsigned to_uint_##mode(double v) { return v == v ? __double2uint_##cuda(v) : 0; }                                 __device__ __forceinline__ long long to_long_##mode(double v) { return v == v ? __double2ll_##cuda(v) : 0; }                                  __device__ __forceinline__ unsigned long long to_ulong_##mode(double v) { return v == v ? __double2ull_##cuda(v) : 0; }
#else
#define TO_INTEGER(mode, cuda, round)                                                                                                             inline int to_int_##mode(double v) { return v != v ? 0 : (v = round(v)) >= 0x1p31 ? 0x7fffffff : v < -0x1p31 ? -0x7fffffff - 1 : (int)v; }     inline unsigned to_uint_##mode(double v) { return v != v ? 0 : (v = round(v)) >= 0x1p32 ? ~0u : v < 0 ? 0 : (unsigned)v; }                     inline long long to_long_##mode(double v) {                                                                                                       return v != v ? 0 : (v = round(v)) >= 0x1p63 ? ~0ull >> 1 : v < -0x1p63 ? 1ull << 63 : (unsigned long long)(long long)v;                  }                                                                                                                                             inline unsigned long long to_ulong_##mode(double v) { return v != v ? 0 : (v = round(v)) >= 0x1p64 ? ~0ull : v < 0 ? 0 : (unsigned long long)v; }
#endif
TO_INTEGER(rne, rn, rint)
TO_INTEGER(rtz, rz, trunc)
TO_INTEGER(ru, ru, ceil)
TO_INTEGER(rd, rd, floor)
#undef TO_INTEGER
__device__ __forceinline__ unsigned at_most(unsigned v, unsigned high) { return v < high ? v : high; }
__device__ __forceinline__ unsigned long long at_most(unsigned long long v, unsigned long long high) { return v < high ? v : high; }
__device__ __forceinline__ int clamp(int v, int low, int high) { return v < low ? low : v > high ? high : v; }
__device__ __forceinline__ long long clamp(long long v, long long low, long long high) { return v < low ? low : v > high ? high : v; }
)";

/// Raw integers times 2^-frac_bits: saturating, one rounding to nearest even. Magnitudes of 32-bit operands fit 64 bits.
constexpr std::string_view kFixed = R"(
__device__ __forceinline__ long long fixed_clamp(bool negative, unsigned long long magnitude, int bits, bool is_signed) {
    const unsigned long long high = (1ull << (is_signed ? bits - 1 : bits)) - 1;
    const unsigned long long limit = !negative ? high : is_signed ? high + 1 : 0, kept = magnitude > limit ? limit : magnitude;
    return negative ? -(long long)kept : (long long)kept;
}
__device__ __forceinline__ long long fixed_magnitude(long long a) { return a < 0 ? -a : a; }
__device__ __forceinline__ long long fixed_saturate(long long v, int bits, bool is_signed) {
    return fixed_clamp(v < 0, v < 0 ? 0 - (unsigned long long)v : (unsigned long long)v, bits, is_signed);
}
__device__ __forceinline__ unsigned long long divide_even(unsigned long long n, unsigned long long d) {
    const unsigned long long q = n / d, r = n % d, rest = d - r;
    return q + (r > rest || (r == rest && (q & 1)) ? 1 : 0);
}
__device__ __forceinline__ long long fixed_mul(long long a, long long b, int bits, int frac_bits, bool is_signed) {
    const unsigned long long product = (unsigned long long)(a < 0 ? -a : a) * (unsigned long long)(b < 0 ? -b : b);
    return fixed_clamp((a < 0) != (b < 0), divide_even(product, 1ull << frac_bits), bits, is_signed);
}
__device__ __forceinline__ long long fixed_div(long long a, long long b, int bits, int frac_bits, bool is_signed) {
    const unsigned long long n = (unsigned long long)(a < 0 ? -a : a), d = (unsigned long long)(b == 0 ? 1 : b < 0 ? -b : b);
    const unsigned long long magnitude = b != 0 ? divide_even(n << frac_bits, d) : a != 0 ? 1ull << 62 : 0;
    return fixed_clamp((a < 0) != (b < 0), magnitude, bits, is_signed);
}
)";

constexpr Section kRoundSections[] = {
    {"encode_rne", "bits", kEncodeRne},
    {"float_round_odd", "bits", kFloatRoundOdd},
    {"one_rounding", "fma_odd", kOneRounding},
    {"directed", "float_tests", kDirected},
    {"flush", "", kFlush},
    {"number", "bits", kNumber},
    {"round_float", "number", kRoundFloat},
    {"round_integer", "number", kRoundInteger},
    {"scale_by", "bits", kScaleBy},
    {"decode_float", "round_float scale_by", kDecodeFloat},
    {"lns", "number scale_by integer_bits", kLns},
    {"nearest", "number scale_by", kNearest},
    {"float_to_integer", "", kFloatToInteger},
    {"fixed", "", kFixed},
};

}  // namespace

std::span<const Section> round_sections() { return kRoundSections; }

}  // namespace tegula::cuda
