// Exact values of integers, and the order of exact values (exact.h).
#include "lang/exact.h"

#include <bit>
#include <tuple>

namespace tegula {

namespace {

/// Sign, magnitude as exponent and significand with its top bit set, tail: greater tuples are greater values.
int order(const Exact& a, const Exact& b) {
    const auto key = [](const Exact& v) {
        if (v.cls == Exact::infinite) return std::tuple(2, int64_t{0}, uint64_t{0}, false);
        if (v.significand == 0) return std::tuple(v.sticky ? 1 : 0, INT64_MIN, uint64_t{0}, v.sticky);
        const int zeros = std::countl_zero(v.significand);
        return std::tuple(1, int64_t{v.exponent} - zeros, v.significand << zeros, v.sticky);
    };
    const auto x = key(a), y = key(b);
    return x < y ? -1 : x > y ? 1 : 0;
}

bool is_zero(const Exact& v) { return v.cls == Exact::finite && v.significand == 0 && !v.sticky; }

}  // namespace

Exact exact_from_wide(__int128 value) {
    Exact out;
    out.negative = value < 0;
    auto rest = out.negative ? -static_cast<unsigned __int128>(value) : static_cast<unsigned __int128>(value);
    for (; rest >> 64; rest >>= 1, ++out.exponent) out.sticky = out.sticky || (rest & 1);
    out.significand = static_cast<uint64_t>(rest);
    return out;
}

std::optional<__int128> whole_value(const Exact& v) {
    if (v.cls != Exact::finite || v.sticky) return std::nullopt;
    if (v.significand == 0) return 0;
    const int zeros = std::countr_zero(v.significand), high = 63 - std::countl_zero(v.significand);
    if (v.exponent < -zeros || v.exponent + high > 126) return std::nullopt;
    const auto all = static_cast<__int128>(v.significand);
    const __int128 magnitude = v.exponent < 0 ? all >> -v.exponent : all << v.exponent;
    return v.negative ? -magnitude : magnitude;
}

int compare(const Exact& a, const Exact& b) {
    if (is_zero(a) && is_zero(b)) return 0;
    if (a.negative != b.negative) return is_zero(a) ? (b.negative ? 1 : -1) : a.negative ? -1 : 1;
    return a.negative ? order(b, a) : order(a, b);
}

}  // namespace tegula
