// The elementwise rows of ops.def a second time, over exact integers and the host's floats: what the interpreter's values are compared with.
#pragma once
#include <cfenv>

#include "tests/unit/interp_fixture.h"

namespace tegula::testing {

inline Wide wrap(Wide v, unsigned bits, bool is_signed) {
    const Wide modulus = Wide(1) << bits;
    v %= modulus;
    if (v < 0) v += modulus;
    return is_signed && v >= modulus / 2 ? v - modulus : v;
}

inline Wide floor_div(Wide a, Wide b) {
    const Wide q = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

/// Exact result before wrapping.
inline Wide int_oracle(const std::string& op, Wide a, Wide b, Wide c, unsigned n, bool s) {
    const Wide pattern = wrap(a, n, false), amount = wrap(b, n, false);
    int ones = 0, top = 0, low = static_cast<int>(n);
    for (unsigned i = 0; i < n; ++i)
        if (pattern >> i & 1) {
            ++ones;
            top = static_cast<int>(i) + 1;
            low = std::min(low, static_cast<int>(i));
        }
    if (op == "add") return a + b;
    if (op == "sub") return a - b;
    if (op == "mul") return a * b;
    if (op == "div") return b == 0 ? 0 : floor_div(a, b);
    if (op == "rem") return b == 0 ? a : a - b * floor_div(a, b);
    if (op == "div_trunc") return b == 0 ? 0 : a / b;
    if (op == "rem_trunc") return b == 0 ? a : a % b;
    if (op == "div_ceil") return b == 0 ? 0 : -floor_div(-a, b);
    if (op == "neg") return -a;
    if (op == "abs") return a < 0 ? -a : a;
    if (op == "fma") return wrap(a * b, n, s) + c;
    if (op == "umulhi" || (op == "mulhi" && !s)) return Wide(static_cast<unsigned __int128>(a) * static_cast<unsigned __int128>(b) >> n);
    if (op == "mulhi") return a * b >> n;
    if (op == "min" || op == "minnum") return std::min(a, b);
    if (op == "max" || op == "maxnum") return std::max(a, b);
    if (op == "eq") return a == b;
    if (op == "ne") return a != b;
    if (op == "lt") return a < b;
    if (op == "le") return a <= b;
    if (op == "gt") return a > b;
    if (op == "ge") return a >= b;
    if (op == "bit_and") return a & b;
    if (op == "bit_or") return a | b;
    if (op == "bit_xor") return a ^ b;
    if (op == "bit_not") return -a - 1;
    if (op == "shl") return amount >= n ? 0 : Wide(static_cast<unsigned __int128>(pattern) << static_cast<int>(amount));
    if (op == "shr") return amount >= n ? (a < 0 ? -1 : 0) : a >> static_cast<int>(amount);
    if (op == "popcount") return ones;
    if (op == "clz") return static_cast<int>(n) - top;
    if (op == "ctz") return low;
    ADD_FAILURE() << "no oracle for integer " << op;
    return 0;
}

template <class T>
T order_oracle(const std::string& op, T a, T b) {
    const bool number = op == "minnum" || op == "maxnum", low = op == "min" || op == "minnum";
    if (a != a || b != b) return !number || (a != a && b != b) ? T(NAN) : a != a ? b : a;
    if (a == b) return std::signbit(a) == low ? a : b;
    return (a < b) == low ? a : b;
}

/// A directed row by the host's own arithmetic in that mode; false: another row.
template <class T>
[[gnu::noinline]] bool directed_oracle(const std::string& op, T a, T b, T c, T& r) {
    const size_t cut = op.find('_');
    const std::string base = op.substr(0, cut), mode = cut == std::string::npos ? "" : op.substr(cut + 1);
    if (mode != "rtz" && mode != "ru" && mode != "rd") return false;
    volatile T x = a, y = b, z = c, out = 0;
    std::fesetround(mode == "rtz" ? FE_TOWARDZERO : mode == "ru" ? FE_UPWARD : FE_DOWNWARD);
    if (base == "add") out = x + y;
    if (base == "sub") out = x - y;
    if (base == "mul") out = x * y;
    if (base == "div") out = x / y;
    if (base == "fma") out = std::fma(x, y, z);
    if (base == "sqrt") out = std::sqrt(x);
    std::fesetround(FE_TONEAREST);
    r = out;
    return true;
}

template <class T>
Real float_oracle(const std::string& op, T a, T b, T c, bool* negative_zero) {
    T r = 0;
    if (directed_oracle(op, a, b, c, r)) {
    } else if (op == "add")
        r = a + b;
    else if (op == "sub")
        r = a - b;
    else if (op == "mul")
        r = a * b;
    else if (op == "div")
        r = a / b;
    else if (op == "rem") {
        r = std::fmod(a, b);
        if (r != 0 && (r < 0) != (b < 0)) r += b;
        if (r == 0) r = std::copysign(r, b);
    } else if (op == "neg")
        r = -a;
    else if (op == "abs")
        r = a < 0 || (a == 0 && std::signbit(a)) ? -a : a;
    else if (op == "fma")
        r = std::fma(a, b, c);
    else if (op == "sqrt")
        r = std::sqrt(a);
    else if (op == "floor")
        r = std::floor(a);
    else if (op == "ceil")
        r = std::ceil(a);
    else if (op == "trunc")
        r = std::trunc(a);
    else if (op == "round")
        r = std::rint(a);
    else if (op == "copysign")
        r = std::signbit(a) == std::signbit(b) ? a : -a;
    else if (op == "min" || op == "max" || op == "minnum" || op == "maxnum")
        r = order_oracle(op, a, b);
    else if (op == "eq")
        return a == b;
    else if (op == "ne")
        return a != b;
    else if (op == "lt")
        return a < b;
    else if (op == "le")
        return a <= b;
    else if (op == "gt")
        return a > b;
    else if (op == "ge")
        return a >= b;
    else if (op == "isnan")
        return a != a;
    else if (op == "isinf")
        return a - a != 0 && a == a;
    else if (op == "isfinite")
        return a - a == 0;
    else if (op == "signbit")
        return std::signbit(a);
    else if (op == "flush_subnormal")
        r = std::fpclassify(a) == FP_SUBNORMAL ? std::copysign(T(0), a) : a;
    else if (op == "fast_exp2")
        r = static_cast<T>(std::exp2(static_cast<double>(a)));
    else if (op == "fast_log2")
        r = static_cast<T>(std::log2(static_cast<double>(a)));
    else if (op == "fast_sin")
        r = static_cast<T>(std::sin(static_cast<double>(a)));
    else if (op == "fast_cos")
        r = static_cast<T>(std::cos(static_cast<double>(a)));
    else if (op == "fast_tanh")
        r = static_cast<T>(std::tanh(static_cast<double>(a)));
    else if (op == "fast_rcp")
        r = static_cast<T>(1 / static_cast<double>(a));
    else if (op == "fast_rsqrt")
        r = static_cast<T>(1 / std::sqrt(static_cast<double>(a)));
    else
        ADD_FAILURE() << "no oracle for float " << op;
    *negative_zero = r == 0 && std::signbit(r);
    return r;
}

}  // namespace tegula::testing
