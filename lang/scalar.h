// The scalar meaning of elementwise ops: helpers that the expressions of ops.def call, for integer containers T holding N-bit values
// (sign- or zero-extended) and for f32/f64, and `eval_elementwise`, the one evaluation on codes that folding and the interpreter share.
// Division by zero, MIN / -1, oversized shifts and NaN are defined (numerics.md 3, 4); nothing here traps or is undefined.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>

#include "lang/ir.h"

namespace tegula::scalar {

// ---- integers ----

/// Keeps the low `bits` bits of `v`, sign- or zero-extended to 64.
constexpr uint64_t wrap(uint64_t v, unsigned bits, bool is_signed) {
    if (bits >= 64) return v;
    const unsigned up = 64 - bits;
    return is_signed ? static_cast<uint64_t>(static_cast<int64_t>(v << up) >> up) : v << up >> up;
}
/// Low N bits of a container as an unsigned number.
template <class T>
constexpr uint64_t low_bits(T a, unsigned n) {
    return wrap(static_cast<uint64_t>(a), n, false);
}
/// a / b toward zero; x / 0 = 0, MIN / -1 = MIN (after wrapping to N bits).
template <class T>
requires std::is_integral_v<T>
constexpr T div_trunc(T a, T b) {
    if (b == 0) return 0;
    if constexpr (std::is_signed_v<T>)
        if (b == -1) return static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(a));
    return static_cast<T>(a / b);
}
/// Remainder of div_trunc: x % 0 = x, MIN % -1 = 0.
template <class T>
requires std::is_integral_v<T>
constexpr T rem_trunc(T a, T b) {
    if (b == 0) return a;
    if constexpr (std::is_signed_v<T>)
        if (b == -1) return 0;
    return static_cast<T>(a % b);
}
template <class T>
requires std::is_integral_v<T>
constexpr T rem_floor(T a, T b) {
    const T r = rem_trunc(a, b);
    if constexpr (std::is_signed_v<T>)
        if (b != 0 && r != 0 && (r < 0) != (b < 0)) return static_cast<T>(r + b);
    return r;
}
template <class T>
requires std::is_integral_v<T>
constexpr T div_floor(T a, T b) {
    const T q = div_trunc(a, b);
    if constexpr (std::is_signed_v<T>) {
        const T r = rem_trunc(a, b);
        if (b != 0 && r != 0 && (r < 0) != (b < 0)) return static_cast<T>(q - 1);
    }
    return q;
}
template <class T>
requires std::is_integral_v<T>
constexpr T div_ceil(T a, T b) {
    const T q = div_trunc(a, b), r = rem_trunc(a, b);
    if (b == 0 || r == 0) return q;
    if constexpr (std::is_signed_v<T>)
        if ((r < 0) != (b < 0)) return q;
    return static_cast<T>(q + 1);
}
/// High half of the 2N-bit product of two N-bit numbers, which their containers hold extended.
template <class T>
constexpr T mul_high(T a, T b, unsigned n) {
    __extension__ using Signed = __int128;
    __extension__ using Unsigned = unsigned __int128;
    if constexpr (std::is_signed_v<T>) return static_cast<T>(static_cast<Signed>(a) * b >> n);
    return static_cast<T>(static_cast<uint64_t>(static_cast<Unsigned>(low_bits(a, n)) * low_bits(b, n) >> n));
}
/// Amounts are read as unsigned: anything outside [0, N) shifts everything out.
template <class T>
constexpr T shift_left(T a, T b, unsigned n) {
    return low_bits(b, n) >= n ? T(0) : static_cast<T>(static_cast<uint64_t>(a) << b);
}
template <class T>
constexpr T shift_right(T a, T b, unsigned n) {
    if (low_bits(b, n) >= n) {
        if constexpr (std::is_signed_v<T>) return a < 0 ? T(-1) : T(0);
        return T(0);
    }
    return static_cast<T>(a >> b);
}
template <class T>
constexpr T count_ones(T a, unsigned n) {
    return static_cast<T>(std::popcount(low_bits(a, n)));
}
template <class T>
constexpr T leading_zeros(T a, unsigned n) {
    return static_cast<T>(std::countl_zero(low_bits(a, n)) - static_cast<int>(64 - n));
}
template <class T>
constexpr T trailing_zeros(T a, unsigned n) {
    const uint64_t v = low_bits(a, n);
    return static_cast<T>(v == 0 ? static_cast<int>(n) : std::countr_zero(v));
}

// ---- floats ----

/// Remainder of the floor quotient, exact fmod plus one addition; a zero has the divisor's sign; x % 0 is NaN.
template <class T>
requires std::is_floating_point_v<T> T rem_floor(T a, T b) {
    const T r = std::fmod(a, b);
    if (r == 0) return std::copysign(T(0), b);
    return (r < 0) != (b < 0) && !std::isnan(r) ? r + b : r;
}
template <class T>
T minimum(T a, T b) {
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
    if (a == b) return std::signbit(a) ? a : b;
    return a < b ? a : b;
}
template <class T>
T maximum(T a, T b) {
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
    if (a == b) return std::signbit(a) ? b : a;
    return a < b ? b : a;
}
/// Zero with the sign of a subnormal number, else the number.
template <class T>
T flush_subnormal(T a) {
    return std::fabs(a) < std::numeric_limits<T>::min() ? std::copysign(T(0), a) : a;
}
template <class T>
T minimum_number(T a, T b) {
    if (std::isnan(a)) return b;
    return std::isnan(b) ? a : minimum(a, b);
}
template <class T>
T maximum_number(T a, T b) {
    if (std::isnan(a)) return b;
    return std::isnan(b) ? a : maximum(a, b);
}

// ---- directed rounding: the functions that the rows of DIRECTED call, on float and double ----

#define TEGULA_TAKES_1(T) T a
#define TEGULA_TAKES_2(T) T a, T b
#define TEGULA_TAKES_3(T) T a, T b, T c
#define TEGULA_DIRECTED(row, arity)         \
    float row(TEGULA_TAKES_##arity(float)); \
    double row(TEGULA_TAKES_##arity(double));
#define DIRECTED(op, arity, operands, doc) TEGULA_DIRECTED(op##_rtz, arity) TEGULA_DIRECTED(op##_ru, arity) TEGULA_DIRECTED(op##_rd, arity)
#include "lang/ops.def"
#undef TEGULA_DIRECTED

// ---- on codes ----

/// Does an f32 op compute in f64 and round once? (The hardware approximations do; every other op is native f32.)
constexpr bool wide_f32(ir::Op op) { return op >= ir::Op::fast_exp2 && op <= ir::Op::fast_rsqrt; }

/// The meaning of elementwise `op` on one element: `codes` has the op's arity, all of `format` (64-bit codes as in format.h). Gives a code
/// of the result type: `format`, or bool (0 or 1). `format` must be in the op's domain. NaN results are the format's canonical NaN.
uint64_t eval_elementwise(ir::Op op, const Format& format, std::span<const uint64_t> codes);

}  // namespace tegula::scalar
