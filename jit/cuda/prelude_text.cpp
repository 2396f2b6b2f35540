// Sections of device text for scalar arithmetic: bit casts, integer division and shifts, order of floats, hardware formats, memory of elements
// that are no whole bytes, barriers, approximations (prelude_sections.h). Rounding to any format is in prelude_round.cpp.
#include "jit/cuda/prelude_sections.h"

namespace tegula::cuda {

namespace {

constexpr std::string_view kBits = R"(
#ifdef __CUDACC__
__device__ __forceinline__ float as_float(unsigned bits) { return __uint_as_float(bits); }
__device__ __forceinline__ unsigned float_bits(float v) { return __float_as_uint(v); }
__device__ __forceinline__ double as_double(unsigned long long bits) { return __longlong_as_double((long long)bits); }
__device__ __forceinline__ unsigned long long double_bits(double v) { return (unsigned long long)__double_as_longlong(v); }
__device__ __forceinline__ int leading_zeros_64(unsigned long long v) { return __clzll((long long)v); }
#else
inline float as_float(unsigned bits) { return __builtin_bit_cast(float, bits); }
inline unsigned float_bits(float v) { return __builtin_bit_cast(unsigned, v); }
inline double as_double(unsigned long long bits) { return __builtin_bit_cast(double, bits); }
inline unsigned long long double_bits(double v) { return __builtin_bit_cast(unsigned long long, v); }
inline int leading_zeros_64(unsigned long long v) { return v ? __builtin_clzll(v) : 64; }
#endif
)";

// Signed overflow would be undefined: signs are handled on the unsigned type.
constexpr std::string_view kInteger = R"(
__device__ __forceinline__ int negate(int a) { return (int)(0u - (unsigned)a); }
__device__ __forceinline__ unsigned negate(unsigned a) { return 0u - a; }
__device__ __forceinline__ long long negate(long long a) { return (long long)(0ull - (unsigned long long)a); }
__device__ __forceinline__ unsigned long long negate(unsigned long long a) { return 0ull - a; }
#ifdef __CUDACC__
// ptxas 13.0 loses the sign change of the middle operand of a minimum of three integers (VIMNMX3), and makes the minimum of changed signs the changed
// sign of the maximum, which fails for the smallest number. It leaves alone what it does not know for a sign change.
__device__ __forceinline__ unsigned opposite(unsigned a) {
    unsigned r;
    asm("{\n.reg .b32 n;\nnot.b32 n, %1;\nadd.s32 %0, n, 1;\n}" : "=r"(r) : "r"(a));
    return r;
}
__device__ __forceinline__ unsigned long long opposite(unsigned long long a) {
    unsigned long long r;
    asm("{\n.reg .b64 n;\nnot.b64 n, %1;\nadd.s64 %0, n, 1;\n}" : "=l"(r) : "l"(a));
    return r;
}
// ptxas 13.0 branches wrongly on "is the minimum of a and c, but at least 0, equal to c?" (VIMNMX.RELU with a predicate, negative a): maxima with 0
// are written in a way that it does not know for one.
__device__ __forceinline__ int positive_part(int a) {
    int r;
    asm("{\n.reg .b32 s;\nshr.s32 s, %1, 31;\nnot.b32 s, s;\nand.b32 %0, %1, s;\n}" : "=r"(r) : "r"(a));
    return r;
}
#else
inline int positive_part(int a) { return a < 0 ? 0 : a; }
inline unsigned opposite(unsigned a) { return 0u - a; }
inline unsigned long long opposite(unsigned long long a) { return 0ull - a; }
#endif
__device__ __forceinline__ bool is_negative(int a) { return a < 0; }
__device__ __forceinline__ bool is_negative(long long a) { return a < 0; }
__device__ __forceinline__ bool is_negative(unsigned) { return false; }
__device__ __forceinline__ bool is_negative(unsigned long long) { return false; }
)";

constexpr std::string_view kDivide = R"(
__device__ __forceinline__ unsigned div_trunc(unsigned a, unsigned b) { return b == 0 ? 0 : a / b; }
__device__ __forceinline__ unsigned long long div_trunc(unsigned long long a, unsigned long long b) { return b == 0 ? 0 : a / b; }
__device__ __forceinline__ int div_trunc(int a, int b) { return b == 0 ? 0 : b == -1 ? negate(a) : a / b; }
__device__ __forceinline__ long long div_trunc(long long a, long long b) { return b == 0 ? 0 : b == -1 ? negate(a) : a / b; }
template <class T>
__device__ __forceinline__ T rem_trunc(T a, T b) { return b == 0 ? a : b == T(-1) && is_negative(b) ? T(0) : a % b; }
__device__ __forceinline__ unsigned div_floor(unsigned a, unsigned b) { return div_trunc(a, b); }
__device__ __forceinline__ unsigned long long div_floor(unsigned long long a, unsigned long long b) { return div_trunc(a, b); }
__device__ __forceinline__ unsigned rem_floor(unsigned a, unsigned b) { return rem_trunc(a, b); }
__device__ __forceinline__ unsigned long long rem_floor(unsigned long long a, unsigned long long b) { return rem_trunc(a, b); }
template <class T>
__device__ __forceinline__ T signed_rem_floor(T a, T b) {
    const T r = rem_trunc(a, b);
    return b != 0 && r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
template <class T>
__device__ __forceinline__ T signed_div_floor(T a, T b) {
    const T q = div_trunc(a, b), r = rem_trunc(a, b);
    return b != 0 && r != 0 && (r < 0) != (b < 0) ? q - 1 : q;
}
__device__ __forceinline__ int rem_floor(int a, int b) { return signed_rem_floor(a, b); }
__device__ __forceinline__ long long rem_floor(long long a, long long b) { return signed_rem_floor(a, b); }
__device__ __forceinline__ int div_floor(int a, int b) { return signed_div_floor(a, b); }
__device__ __forceinline__ long long div_floor(long long a, long long b) { return signed_div_floor(a, b); }
template <class T>
__device__ __forceinline__ T div_ceil(T a, T b) {
    const T q = div_trunc(a, b), r = rem_trunc(a, b);
    return b != 0 && r != 0 && is_negative(r) == is_negative(b) ? q + 1 : q;
}
)";

constexpr std::string_view kHighProduct = R"(
#ifdef __CUDACC__
__device__ __forceinline__ unsigned long long high_product(unsigned long long a, unsigned long long b) { return __umul64hi(a, b); }
__device__ __forceinline__ unsigned long long signed_high_product(long long a, long long b) { return (unsigned long long)__mul64hi(a, b); }
#else
inline unsigned long long high_product(unsigned long long a, unsigned long long b) {
    __extension__ typedef unsigned __int128 Wide;
    return (unsigned long long)((Wide)a * b >> 64);
}
inline unsigned long long signed_high_product(long long a, long long b) {
    __extension__ typedef __int128 Wide;
    return (unsigned long long)((Wide)a * b >> 64);
}
#endif
)";

constexpr std::string_view kIntegerBits = R"(
template <class T>
__device__ __forceinline__ unsigned long long low_bits(T a, int n) { return (unsigned long long)a << (64 - n) >> (64 - n); }
__device__ __forceinline__ unsigned mul_high(unsigned a, unsigned b, int n) { return (unsigned)((unsigned long long)a * b >> n); }
__device__ __forceinline__ int mul_high(int a, int b, int n) { return (int)((long long)a * b >> n); }
#ifdef __CUDACC__
__device__ __forceinline__ int count_bits(unsigned a) { return __popc(a); }
__device__ __forceinline__ int count_bits(unsigned long long a) { return __popcll(a); }
#else
inline int count_bits(unsigned a) { return __builtin_popcount(a); }
inline int count_bits(unsigned long long a) { return __builtin_popcountll(a); }
#endif
__device__ __forceinline__ unsigned long long mul_high(unsigned long long a, unsigned long long b, int n) {
    return n == 64 ? high_product(a, b) : high_product(a, b) << (64 - n) | a * b >> n;
}
__device__ __forceinline__ long long mul_high(long long a, long long b, int n) {
    const unsigned long long x = (unsigned long long)a, y = (unsigned long long)b;
    const unsigned long long high = signed_high_product(a, b);
    return (long long)(n == 64 ? high : high << (64 - n) | x * y >> n);
}
template <class T>
__device__ __forceinline__ T shift_left(T a, T b, int n) {
    return low_bits(b, n) >= n ? T(0) : (T)((unsigned long long)a << (int)b);
}
__device__ __forceinline__ int shift_left(int a, int b, int n) { return low_bits(b, n) >= n ? 0 : (int)((unsigned)a << b); }
__device__ __forceinline__ unsigned shift_left(unsigned a, unsigned b, int n) { return low_bits(b, n) >= n ? 0 : a << b; }
template <class T>
__device__ __forceinline__ T shift_right(T a, T b, int n) {
    return low_bits(b, n) >= n ? (is_negative(a) ? T(-1) : T(0)) : a >> (int)b;
}
template <class T>
__device__ __forceinline__ T count_ones(T a, int n) { return sizeof(T) == 4 ? count_bits((unsigned)low_bits(a, n)) : count_bits(low_bits(a, n)); }
template <class T>
__device__ __forceinline__ T leading_zeros(T a, int n) { return (T)(leading_zeros_64(low_bits(a, n)) - (64 - n)); }
template <class T>
__device__ __forceinline__ T trailing_zeros(T a, int n) {
    const unsigned long long v = low_bits(a, n);
    return (T)(v == 0 ? n : 63 - leading_zeros_64(v & (0 - v)));
}
)";

constexpr std::string_view kFloatTests = R"(
template <class T>
__device__ __forceinline__ bool is_nan(T a) { return a != a; }
__device__ __forceinline__ bool is_inf(float a) { return fabsf(a) == as_float(0x7f800000u); }
__device__ __forceinline__ bool is_inf(double a) { return fabs(a) == as_double(0x7ff0000000000000ull); }
__device__ __forceinline__ bool is_finite(float a) { return (float_bits(a) & 0x7f800000u) != 0x7f800000u; }
__device__ __forceinline__ bool is_finite(double a) { return fabs(a) < as_double(0x7ff0000000000000ull); }
__device__ __forceinline__ bool sign_bit(float a) { return float_bits(a) >> 31 != 0; }
__device__ __forceinline__ bool sign_bit(double a) { return double_bits(a) >> 63 != 0; }
)";

// NaN wins in minimum and maximum and loses in the others; -0 lies below +0, as the instructions have it.
constexpr std::string_view kFloatOrder = R"(
template <class T>
__device__ __forceinline__ T minimum_by_tests(T a, T b) {
    const bool first = (a < b) | ((a == b) & sign_bit(a));
    return (a != a) | (b != b) ? a + b : first ? a : b;
}
template <class T>
__device__ __forceinline__ T maximum_by_tests(T a, T b) {
    const bool first = (a > b) | ((a == b) & !sign_bit(a));
    return (a != a) | (b != b) ? a + b : first ? a : b;
}
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 800
__device__ __forceinline__ float minimum(float a, float b) {
    float r;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
}
__device__ __forceinline__ float maximum(float a, float b) {
    float r;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
}
#else
__device__ __forceinline__ float minimum(float a, float b) { return minimum_by_tests(a, b); }
__device__ __forceinline__ float maximum(float a, float b) { return maximum_by_tests(a, b); }
#endif
__device__ __forceinline__ double minimum(double a, double b) { return minimum_by_tests(a, b); }
__device__ __forceinline__ double maximum(double a, double b) { return maximum_by_tests(a, b); }
#ifdef __CUDACC__
__device__ __forceinline__ float minimum_number(float a, float b) {
    float r;
    asm("min.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
}
__device__ __forceinline__ float maximum_number(float a, float b) {
    float r;
    asm("max.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
}
#else
inline float minimum_number(float a, float b) { return a != a ? b : b != b ? a : minimum(a, b); }
inline float maximum_number(float a, float b) { return a != a ? b : b != b ? a : maximum(a, b); }
#endif
__device__ __forceinline__ double minimum_number(double a, double b) { return a != a ? b : b != b ? a : minimum(a, b); }
__device__ __forceinline__ double maximum_number(double a, double b) { return a != a ? b : b != b ? a : maximum(a, b); }
)";

constexpr std::string_view kPairs = R"(
#ifdef __CUDACC__
__device__ __forceinline__ unsigned two_shorts(unsigned short low, unsigned short high) {
    unsigned two;
    asm("mov.b32 %0, {%1, %2};" : "=r"(two) : "h"(low), "h"(high));
    return two;
}
// Registers taken apart and put together this way cost nothing: ptxas sees through both.
__device__ __forceinline__ unsigned short low_short(unsigned two) {
    unsigned short half;
    asm("{ .reg .b16 other; mov.b32 {%0, other}, %1; }" : "=h"(half) : "r"(two));
    return half;
}
__device__ __forceinline__ unsigned short high_short(unsigned two) {
    unsigned short half;
    asm("{ .reg .b16 other; mov.b32 {other, %0}, %1; }" : "=h"(half) : "r"(two));
    return half;
}
#else
inline unsigned two_shorts(unsigned short low, unsigned short high) { return low | (unsigned)high << 16; }
inline unsigned short low_short(unsigned two) { return (unsigned short)two; }
inline unsigned short high_short(unsigned two) { return (unsigned short)(two >> 16); }
#endif
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 800
__device__ __forceinline__ unsigned encode_two_bf16(float low, float high) {
    unsigned two;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(high), "f"(low));
    return two;
}
__device__ __forceinline__ unsigned encode_two_f16(float low, float high) {
    unsigned two;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(high), "f"(low));
    return two;
}
#else
__device__ __forceinline__ unsigned encode_two_bf16(float low, float high) { return encode_bf16(low) | (unsigned)encode_bf16(high) << 16; }
__device__ __forceinline__ unsigned encode_two_f16(float low, float high) { return encode_f16(low) | (unsigned)encode_f16(high) << 16; }
#endif
)";

// Many numbers over one: the reciprocal, rounded to nearest, is the same for all of them and computed once. One correction of the product by its
// exact remainder gives the correctly rounded quotient as long as nothing over- or underflows on the way: where the product is one of the two
// neighbours of the quotient by a theorem (Markstein, IBM J. R&D 34, 1990), and else, it being off by less than 3/2 units, unless the quotient lies
// within 7/2 parts of the divisor's 24-bit integer from a tie; all these quotients of all divisors were tried.
constexpr std::string_view kSharedDivision = R"(
#ifdef __CUDACC__
__device__ __forceinline__ float nearest_reciprocal(float b) { return __frcp_rn(b); }
__device__ __noinline__ float any_division(float a, float b) { return a / b; }
#else
inline float nearest_reciprocal(float b) { return 1.0f / b; }
inline float any_division(float a, float b) { return a / b; }
#endif
// With a divisor in [2^-40, 2^40) and a dividend of 0 or in [2^-80, 2^80], quotients are normal and remainders exact. The remainder of 0 is +0 and
// leaves the product's sign, because it is taken away. Zeros are rare: the cheaper test is of magnitudes and declines them.
__device__ __forceinline__ bool is_shared_divisor(float b) { return float_bits(b) - 0x2b800000u < 0x28000000u; }
// Differences of f32 numbers and an `origin`, of whose squares the sum is known: none is larger than its root, and none but 0 smaller than 2^-80.
__device__ __forceinline__ bool are_moderate_distances(float origin, float squares) {
    return fabsf(origin) >= as_float(0x23800000u) && squares < as_float(0x7f800000u);
}
// The span of bits of numbers that are no moderate dividends when below zero.
struct PositiveDividends {
    unsigned low = ~0u, high = 0;
    __device__ __forceinline__ void add(float a) {
        low = float_bits(a) < low ? float_bits(a) : low;
        high = float_bits(a) > high ? float_bits(a) : high;
    }
    __device__ __forceinline__ bool moderate() const { return low >= 0x17800000u && high <= 0x67800000u; }
};
// As that with zeros: the low end less 1, so that they are above all others.
struct PositiveDividendsOrZeros {
    unsigned low = ~0u, high = 0;
    __device__ __forceinline__ void add(float a) {
        const unsigned below = float_bits(a) - 1;
        low = below < low ? below : low;
        high = float_bits(a) > high ? float_bits(a) : high;
    }
    __device__ __forceinline__ bool moderate() const { return low >= 0x177fffffu && high <= 0x67800000u; }
};
// The largest of all magnitudes' distances from the lowest, in halves of the last place; what lies below is far away.
struct Dividends {
    unsigned high = 0;
    __device__ __forceinline__ void add(float a) {
        const unsigned distance = 2 * float_bits(a) - 0x2f000000u;
        high = distance > high ? distance : high;
    }
    __device__ __forceinline__ bool moderate() const { return high <= 0xa0000000u; }
};
// As that with zeros.
struct DividendsOrZeros {
    unsigned low = ~0u, high = 0;
    __device__ __forceinline__ void add(float a) {
        const unsigned bits = float_bits(a) & 0x7fffffffu, below = bits - 1;
        low = below < low ? below : low;
        high = bits > high ? bits : high;
    }
    __device__ __forceinline__ bool moderate() const { return low >= 0x177fffffu && high <= 0x67800000u; }
};
__device__ __forceinline__ float reciprocal_division(float a, float b, float y) {
    const float first = a * y;
    return fmaf(-y, fmaf(b, first, -a), first);
}
)";

constexpr std::string_view kFloatRemainder = R"(
__device__ __forceinline__ float rem_floor(float a, float b) {
    const float r = fmodf(a, b);
    const float shifted = ((r < 0) != (b < 0)) & (r == r) ? r + b : r;
    return r == 0 ? copysignf(0.0f, b) : shifted;
}
__device__ __forceinline__ double rem_floor(double a, double b) {
    const double r = fmod(a, b);
    const double shifted = ((r < 0) != (b < 0)) & (r == r) ? r + b : r;
    return r == 0 ? copysign(0.0, b) : shifted;
}
)";

// Of the two neighbours of an inexact sum exactly one has an odd last bit.
constexpr std::string_view kFmaOdd = R"(
#ifdef __CUDACC__
__device__ __forceinline__ double fma_down(double a, double b, double c) { return __fma_rd(a, b, c); }
__device__ __forceinline__ double fma_up(double a, double b, double c) { return __fma_ru(a, b, c); }
#else
inline double fma_down(double a, double b, double c) { return host_directed('f', a, b, c, false); }
inline double fma_up(double a, double b, double c) { return host_directed('f', a, b, c, true); }
#endif
__device__ __forceinline__ double fma_round_odd(double a, double b, double c) {
    const double below = fma_down(a, b, c), above = fma_up(a, b, c);
    return below == above ? fma(a, b, c) : (double_bits(below) & 1) ? below : above;
}
)";

constexpr std::string_view kHalf = R"(
#ifdef __CUDACC__
__device__ __forceinline__ float decode_f16(unsigned short a) {
    float r;
    asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(a));
    return r;
}
__device__ __forceinline__ unsigned short encode_f16(float a) {
    unsigned short r;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(a));
    return r;
}
__device__ __forceinline__ unsigned short add_f16(unsigned short a, unsigned short b) {
    unsigned short r;
    asm("add.rn.f16 %0, %1, %2;" : "=h"(r) : "h"(a), "h"(b));
    return r;
}
__device__ __forceinline__ unsigned short sub_f16(unsigned short a, unsigned short b) {
    unsigned short r;
    asm("sub.rn.f16 %0, %1, %2;" : "=h"(r) : "h"(a), "h"(b));
    return r;
}
__device__ __forceinline__ unsigned short mul_f16(unsigned short a, unsigned short b) {
    unsigned short r;
    asm("mul.rn.f16 %0, %1, %2;" : "=h"(r) : "h"(a), "h"(b));
    return r;
}
__device__ __forceinline__ unsigned short fma_f16(unsigned short a, unsigned short b, unsigned short c) {
    unsigned short r;
    asm("fma.rn.f16 %0, %1, %2, %3;" : "=h"(r) : "h"(a), "h"(b), "h"(c));
    return r;
}
#else
inline float decode_f16(unsigned short a) {
    const unsigned m = a & 0x7fffu, sign = (a & 0x8000u) << 16;
    return m > 0x7c00u ? as_float(0x7fc00000u) : as_float((m > 0x7bffu ? 0x7f800000u : float_bits(as_float(m << 13) * 0x1p112f)) | sign);
}
inline unsigned short encode_f16(float a) { return (unsigned short)encode_rne<10, -14, 0x7bff, 0x7c00, 0x7e00, 15, true>(a); }
inline unsigned short add_f16(unsigned short a, unsigned short b) { return encode_f16(decode_f16(a) + decode_f16(b)); }
inline unsigned short sub_f16(unsigned short a, unsigned short b) { return encode_f16(decode_f16(a) - decode_f16(b)); }
inline unsigned short mul_f16(unsigned short a, unsigned short b) { return encode_f16(decode_f16(a) * decode_f16(b)); }
inline unsigned short fma_f16(unsigned short a, unsigned short b, unsigned short c) {
    return encode_f16(float_round_odd(fma_round_odd(decode_f16(a), decode_f16(b), decode_f16(c))));
}
#endif
)";

constexpr std::string_view kBrain = R"(
__device__ __forceinline__ float decode_bf16(unsigned short a) { return as_float((unsigned)a << 16); }
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 800
__device__ __forceinline__ unsigned short encode_bf16(float a) {
    unsigned short r;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r) : "f"(a));
    return r;
}
__device__ __forceinline__ unsigned short fma_bf16(unsigned short a, unsigned short b, unsigned short c) {
    unsigned short r;
    asm("fma.rn.bf16 %0, %1, %2, %3;" : "=h"(r) : "h"(a), "h"(b), "h"(c));
    return r;
}
#else
__device__ __forceinline__ unsigned short encode_bf16(float a) { return (unsigned short)encode_rne<7, -126, 0x7f7f, 0x7f80, 0x7fc0, 15, true>(a); }
__device__ __forceinline__ unsigned short fma_bf16(unsigned short a, unsigned short b, unsigned short c) {
    return encode_bf16(float_round_odd(fma_round_odd(decode_bf16(a), decode_bf16(b), decode_bf16(c))));
}
#endif
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 900
__device__ __forceinline__ unsigned short add_bf16(unsigned short a, unsigned short b) {
    unsigned short r;
    asm("add.rn.bf16 %0, %1, %2;" : "=h"(r) : "h"(a), "h"(b));
    return r;
}
__device__ __forceinline__ unsigned short sub_bf16(unsigned short a, unsigned short b) {
    unsigned short r;
    asm("sub.rn.bf16 %0, %1, %2;" : "=h"(r) : "h"(a), "h"(b));
    return r;
}
__device__ __forceinline__ unsigned short mul_bf16(unsigned short a, unsigned short b) {
    unsigned short r;
    asm("mul.rn.bf16 %0, %1, %2;" : "=h"(r) : "h"(a), "h"(b));
    return r;
}
#else
__device__ __forceinline__ unsigned short add_bf16(unsigned short a, unsigned short b) { return encode_bf16(decode_bf16(a) + decode_bf16(b)); }
__device__ __forceinline__ unsigned short sub_bf16(unsigned short a, unsigned short b) { return encode_bf16(decode_bf16(a) - decode_bf16(b)); }
__device__ __forceinline__ unsigned short mul_bf16(unsigned short a, unsigned short b) { return encode_bf16(decode_bf16(a) * decode_bf16(b)); }
#endif
)";

constexpr std::string_view kFp8 = R"(
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 890
__device__ __forceinline__ float decode_f8e4m3(unsigned char a) {
    unsigned pair;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"((unsigned short)a));
    return decode_f16((unsigned short)pair);
}
__device__ __forceinline__ unsigned char encode_f8e4m3(float a) {
    unsigned short r;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(r) : "f"(0.0f), "f"(a));
    return (unsigned char)r;
}
#else
__device__ __forceinline__ float decode_f8e4m3(unsigned char a) {
    const unsigned m = a & 0x7fu, sign = (a & 0x80u) << 24;
    return as_float(m == 0x7fu ? 0x7fc00000u : float_bits(as_float(m << 20) * 0x1p120f) | sign);
}
__device__ __forceinline__ unsigned char encode_f8e4m3(float a) { return (unsigned char)encode_rne<3, -6, 0x7e, 0x7e, 0x7f, 7, true>(a); }
#endif
__device__ __forceinline__ float decode_f8e5m2(unsigned char a) { return decode_f16((unsigned short)(a << 8)); }
__device__ __forceinline__ unsigned char encode_f8e5m2(float a) { return (unsigned char)encode_rne<2, -14, 0x7b, 0x7c, 0x7e, 7, true>(a); }
)";

// Approximations of the hardware, reached by `fast` only.
constexpr std::string_view kFast = R"(
#ifdef __CUDACC__
__device__ __forceinline__ float fast_exp2(float a) { float r; asm("ex2.approx.f32 %0, %1;" : "=f"(r) : "f"(a)); return r; }
__device__ __forceinline__ float fast_log2(float a) { float r; asm("lg2.approx.f32 %0, %1;" : "=f"(r) : "f"(a)); return r; }
__device__ __forceinline__ float fast_sin(float a) { float r; asm("sin.approx.f32 %0, %1;" : "=f"(r) : "f"(a)); return r; }
__device__ __forceinline__ float fast_cos(float a) { float r; asm("cos.approx.f32 %0, %1;" : "=f"(r) : "f"(a)); return r; }
__device__ __forceinline__ float fast_tanh(float a) { float r; asm("tanh.approx.f32 %0, %1;" : "=f"(r) : "f"(a)); return r; }
__device__ __forceinline__ float fast_rcp(float a) { float r; asm("rcp.approx.f32 %0, %1;" : "=f"(r) : "f"(a)); return r; }
__device__ __forceinline__ float fast_rsqrt(float a) { float r; asm("rsqrt.approx.f32 %0, %1;" : "=f"(r) : "f"(a)); return r; }
#else
inline float fast_exp2(float a) { return (float)exp2((double)a); }
inline float fast_log2(float a) { return (float)log2((double)a); }
inline float fast_sin(float a) { return (float)sin((double)a); }
inline float fast_cos(float a) { return (float)cos((double)a); }
inline float fast_tanh(float a) { return (float)tanh((double)a); }
inline float fast_rcp(float a) { return (float)(1 / (double)a); }
inline float fast_rsqrt(float a) { return (float)(1 / sqrt((double)a)); }
#endif
)";

constexpr std::string_view kPhilox = R"(
__device__ __forceinline__ unsigned long long stochastic_bits(unsigned long long seed, unsigned long long index) {
    unsigned c0 = (unsigned)index, c1 = (unsigned)(index >> 32), c2 = 0, c3 = 0, k0 = (unsigned)seed, k1 = (unsigned)(seed >> 32);
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        const unsigned long long p0 = 0xD2511F53ull * c0, p1 = 0xCD9E8D57ull * c2;
        c0 = (unsigned)(p1 >> 32) ^ c1 ^ k0;
        c1 = (unsigned)p1;
        c2 = (unsigned)(p0 >> 32) ^ c3 ^ k1;
        c3 = (unsigned)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return (unsigned long long)c1 << 32 | c0;
}
)";

// No byte outside those that hold the element is read; a byte shared with a neighbour is written by atomics on its word.
constexpr std::string_view kLoadBits = R"(
template <int kWidth>
__device__ __forceinline__ unsigned long long load_bits(const unsigned char* base, long long bit) {
    const unsigned char* at = base + (bit >> 3);
    const int shift = (int)(bit & 7), bytes = (shift + kWidth + 7) / 8;
    if (8 % kWidth == 0) return (unsigned)*at >> shift & ((1u << (kWidth & 15)) - 1);
    unsigned long long low = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i)
        if (8 * i < kWidth + 7 && i < bytes) low |= (unsigned long long)at[i] << (8 * i);
    low >>= shift;
    if (kWidth > 57 && bytes == 9) low |= (unsigned long long)at[8] << (64 - shift);
    return low << (64 - kWidth) >> (64 - kWidth);
}
)";

constexpr std::string_view kStoreBits = R"(
template <int kWidth>
__device__ __forceinline__ void store_bits(unsigned char* base, long long bit, unsigned long long code) {
    unsigned char* at = base + (bit >> 3);
    if (kWidth % 8 == 0) {
#pragma unroll
        for (int i = 0; i < kWidth / 8; ++i) at[i] = (unsigned char)(code >> (8 * i));
        return;
    }
    const int before = (int)((unsigned long long)at & 3);
    unsigned* word = (unsigned*)(at - before);
    const int shift = (int)(bit & 7) + 8 * before;
    code = code << (64 - kWidth) >> (64 - kWidth);
    const unsigned long long mask = ~0ull >> (64 - kWidth);
#pragma unroll
    for (int i = 0; i < 3; ++i) {
        const int down = 32 * i - shift;
        const unsigned bits = (unsigned)(down >= 64 ? 0 : down >= 0 ? code >> down : code << -down);
        const unsigned touched = (unsigned)(down >= 64 ? 0 : down >= 0 ? mask >> down : mask << -down);
        if (touched == 0) continue;
        if (touched & ~bits) atomicAnd(word + i, ~(touched & ~bits));
        if (bits) atomicOr(word + i, bits);
    }
}
)";

// All threads of the group, without the producer's warps.
constexpr std::string_view kBarrier = R"(
#ifdef __CUDACC__
__device__ __forceinline__ void group_barrier(int threads) { asm volatile("bar.sync 1, %0;" ::"r"(threads) : "memory"); }
#else
inline void group_barrier(int threads) { host_barrier(1, threads); }
#endif
)";

// See Prelude::opaque.
constexpr std::string_view kOpaque = R"(
template <class T>
__device__ __forceinline__ T opaque(T a) {
#ifdef __CUDACC__
    if constexpr (sizeof(T) == 8)
        asm("" : "+l"(a));
    else if constexpr (sizeof(T) == 4)
        asm("" : "+r"(a));
    else
        a = (T)opaque((unsigned)a);
#endif
    return a;
}
)";

constexpr Section kScalarSections[] = {
    {"bits", "", kBits},
    {"opaque", "", kOpaque},
    {"integer", "", kInteger},
    {"divide", "integer", kDivide},
    {"high_product", "", kHighProduct},
    {"integer_bits", "bits integer high_product", kIntegerBits},
    {"float_tests", "bits", kFloatTests},
    {"float_order", "float_tests", kFloatOrder},
    {"float_remainder", "", kFloatRemainder},
    {"shared_division", "bits", kSharedDivision},
    {"fma_odd", "bits", kFmaOdd},
    {"f16", "bits encode_rne float_round_odd fma_odd", kHalf},
    {"bf16", "bits encode_rne float_round_odd fma_odd", kBrain},
    {"pairs", "f16 bf16", kPairs},
    {"fp8", "f16 encode_rne", kFp8},
    {"fast", "", kFast},
    {"philox", "", kPhilox},
    {"load_bits", "", kLoadBits},
    {"store_bits", "", kStoreBits},
    {"barrier", "", kBarrier},
};

}  // namespace

std::span<const Section> scalar_sections() { return kScalarSections; }

}  // namespace tegula::cuda
