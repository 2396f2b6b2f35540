// The language's primitive operations on single elements, for the reference definitions of std.math in math_reference_f32.h and
// math_reference_f64.h. A number of the language is a Num: literals adapt to it, integers wrap, shifts by the width or more give 0 or the
// sign, min and max propagate NaN and order -0 below +0. Must be compiled without contraction of a * b + c.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <tuple>
#include <type_traits>

namespace math_reference {

template <class T>
struct Num {
    T v;

    static constexpr bool is_float = std::is_floating_point_v<T>;
    static constexpr int bits = 8 * static_cast<int>(sizeof(T));
    /// The type in which integers wrap.
    using Wrapping = std::make_unsigned_t<std::conditional_t<is_float, int, T>>;

    Num() = default;
    template <class L>
        requires std::is_arithmetic_v<L>
    constexpr Num(L literal) : v(static_cast<T>(literal)) {}

    static Num wrap(Wrapping u) { return static_cast<T>(u); }
    static Wrapping unwrap(Num a) { return static_cast<Wrapping>(a.v); }
    static bool too_far(Num amount) { return unwrap(amount) >= static_cast<Wrapping>(bits); }

    friend Num operator+(Num a, Num b) {
        if constexpr (is_float)
            return a.v + b.v;
        else
            return wrap(unwrap(a) + unwrap(b));
    }
    friend Num operator-(Num a, Num b) {
        if constexpr (is_float)
            return a.v - b.v;
        else
            return wrap(unwrap(a) - unwrap(b));
    }
    friend Num operator*(Num a, Num b) {
        if constexpr (is_float)
            return a.v * b.v;
        else
            return wrap(unwrap(a) * unwrap(b));
    }
    friend Num operator-(Num a) {
        if constexpr (is_float)
            return -a.v;
        else
            return wrap(Wrapping{0} - unwrap(a));
    }
    friend Num operator/(Num a, Num b)
        requires is_float
    {
        return a.v / b.v;
    }

    friend bool operator==(Num a, Num b) { return a.v == b.v; }
    friend bool operator!=(Num a, Num b) { return a.v != b.v; }
    friend bool operator<(Num a, Num b) { return a.v < b.v; }
    friend bool operator>(Num a, Num b) { return a.v > b.v; }
    friend bool operator<=(Num a, Num b) { return a.v <= b.v; }
    friend bool operator>=(Num a, Num b) { return a.v >= b.v; }

    friend Num operator&(Num a, Num b) { return static_cast<T>(a.v & b.v); }
    friend Num operator|(Num a, Num b) { return static_cast<T>(a.v | b.v); }
    friend Num operator^(Num a, Num b) { return static_cast<T>(a.v ^ b.v); }
    friend Num operator<<(Num a, Num b) { return too_far(b) ? Num(0) : wrap(unwrap(a) << b.v); }
    friend Num operator>>(Num a, Num b) { return too_far(b) ? Num(a.v < 0 ? -1 : 0) : Num(static_cast<T>(a.v >> b.v)); }

    friend Num fma(Num a, Num b, Num c) { return std::fma(a.v, b.v, c.v); }
    friend Num abs(Num a) { return std::fabs(a.v); }
    friend Num sqrt(Num a) { return std::sqrt(a.v); }
    friend Num trunc(Num a) { return std::trunc(a.v); }
    friend Num copysign(Num a, Num b) { return std::copysign(a.v, b.v); }
    friend bool signbit(Num a) { return std::signbit(a.v); }
    friend bool isnan(Num a) { return std::isnan(a.v); }
    friend bool isinf(Num a) { return std::isinf(a.v); }

    /// Is `a` the smaller of two numbers, -0 before +0?
    static bool is_less(Num a, Num b) { return a.v < b.v || (a.v == b.v && std::signbit(a.v)); }
    friend Num min(Num a, Num b) { return isnan(a) ? a : isnan(b) ? b : is_less(a, b) ? a : b; }
    friend Num max(Num a, Num b) { return isnan(a) ? a : isnan(b) ? b : is_less(a, b) ? b : a; }

    /// High half of the product of unsigned integers.
    friend Num umulhi(Num a, Num b) { return static_cast<T>((static_cast<unsigned __int128>(a.v) * b.v) >> bits); }
};

using f32 = Num<float>;
using f64 = Num<double>;
using i32 = Num<int32_t>;
using u32 = Num<uint32_t>;
using i64 = Num<int64_t>;
using u64 = Num<uint64_t>;

template <class T>
Num<T> select(bool condition, Num<T> a, std::type_identity_t<Num<T>> b) {
    return condition ? a : b;
}
template <class T, class L>
    requires std::is_arithmetic_v<L>
Num<T> select(bool condition, L a, Num<T> b) {
    return condition ? Num<T>(a) : b;
}

template <class R, class T>
R bitcast(Num<T> a) {
    static_assert(sizeof(R) == sizeof(Num<T>));
    R out;
    std::memcpy(&out.v, &a.v, sizeof(T));
    return out;
}

/// Conversions that std.math makes: between integers, from integers to floats, and of floats within range to integers; NaN becomes 0.
template <class R, class T>
R cast(Num<T> a) {
    using To = decltype(R::v);
    if constexpr (std::is_integral_v<To> && std::is_floating_point_v<T>) {
        if (std::isnan(a.v)) return R(0);
    }
    return R(static_cast<To>(a.v));
}

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

}  // namespace math_reference
