// The meaning of codes and the one rounding (format.h, numerics.md): integer arithmetic only, so that the result depends neither
// on the host's rounding mode nor on its treatment of subnormals. Logarithmic numbers are the exception (long double).
#include <algorithm>
#include <bit>
#include <cmath>

#include "lang/check.h"
#include "lang/fast_float.h"
#include "lang/format.h"

namespace tegula {

namespace {

constexpr uint64_t kDoubleInf = uint64_t{0x7FF} << 52;
constexpr uint64_t kDoubleMantissa = (uint64_t{1} << 52) - 1;
constexpr uint64_t kTop = uint64_t{1} << 63;

struct FloatParts {  // where the fields of a floating format sit
    unsigned padding, width;
    uint64_t sign, max;  // sign: the bit in the code, 0 when unsigned; max: largest finite magnitude, without padding
    int min_exponent;    // exponent of the smallest normal value
    explicit FloatParts(const Format& f)
        : padding(f.bits - f.is_signed - f.exp_bits - f.man_bits),
          width(f.exp_bits + f.man_bits),
          sign(f.is_signed ? uint64_t{1} << (f.bits - 1) : 0),
          max(max_code(f) >> padding),
          min_exponent((f.scale_only ? 0 : 1) - f.bias) {}
};

bool is_sat(const Format& f, Overflow overflow) {
    return overflow == Overflow::sat || (overflow == Overflow::automatic && !(f.kind == FormatKind::floating && f.has_inf));
}

/// A normalised magnitude cut at a quantum: `whole` quanta and the lost part as a 64-bit fraction (sticky below).
struct Cut {
    uint64_t whole = 0, fraction = 0;
    bool sticky = false;
};
Cut cut_at(uint64_t significand, bool sticky, int64_t shift) {
    if (shift <= 0) return {significand, 0, sticky};
    if (shift < 64) return {significand >> shift, significand << (64 - shift), sticky};
    if (shift == 64) return {0, significand, sticky};
    return {0, shift < 128 ? significand >> (shift - 64) : 0, true};  // the significand is not zero
}

bool round_up(const Cut& cut, bool negative, RoundSpec spec) {
    bool half = cut.fraction & kTop, rest = (cut.fraction & ~kTop) != 0 || cut.sticky;
    switch (spec.round) {
        case Round::rne:
            return half && (rest || (cut.whole & 1));
        case Round::rna:
            return half;
        case Round::rtz:
            return false;
        case Round::ru:
            return !negative && (half || rest);
        case Round::rd:
            return negative && (half || rest);
        case Round::stochastic:
        case Round::bits:
            return cut.fraction + spec.random < cut.fraction;
    }
    return false;
}

bool rounds_toward_zero(Round round, bool negative) {
    return round == Round::rtz || (round == Round::rd && !negative) || (round == Round::ru && negative);
}

/// The magnitude with its top bit at 63: value in [significand, significand + 1) * 2^exponent.
struct Normal {
    uint64_t significand;
    int64_t exponent;
};
Normal normalise(const Exact& v) {
    if (v.significand == 0) return {kTop, int64_t{v.exponent} - 128};  // only a sticky tail: smaller than any quantum
    int shift = std::countl_zero(v.significand);
    return {v.significand << shift, int64_t{v.exponent} - shift};
}

bool is_zero(const Exact& v) { return v.cls == Exact::finite && v.significand == 0 && !v.sticky; }

// ---- floating ----

uint64_t float_overflow(const Format& f, const FloatParts& p, bool negative, RoundSpec spec) {
    uint64_t sign = negative ? p.sign : 0;
    if (negative && p.sign == 0) return is_sat(f, spec.overflow) || f.nan == NanCode::none ? 0 : nan_code(f);
    bool clamp = is_sat(f, spec.overflow) || rounds_toward_zero(spec.round, negative) || (!f.has_inf && f.nan == NanCode::none);
    if (clamp) return p.max << p.padding | sign;
    return f.has_inf ? inf_code(f, negative) : nan_code(f);
}

uint64_t float_special(const Exact& v, const Format& f, const FloatParts& p, RoundSpec spec, bool& overflowed) {
    if (v.cls == Exact::nan) {
        overflowed = f.nan == NanCode::none;
        return nan_code(f);
    }
    if (f.has_inf && !is_sat(f, spec.overflow) && (p.sign || !v.negative)) return inf_code(f, v.negative);
    overflowed = true;
    return float_overflow(f, p, v.negative, {Round::rne, spec.overflow, 0});
}

uint64_t round_float(const Exact& v, const Format& f, RoundSpec spec, bool& overflowed) {
    FloatParts p(f);
    if (v.cls != Exact::finite) return float_special(v, f, p, spec, overflowed);
    uint64_t magnitude = 0;
    if (!is_zero(v)) {
        Normal n = normalise(v);
        int64_t exponent = std::max<int64_t>(n.exponent + 63, p.min_exponent);
        Cut cut = cut_at(n.significand, v.sticky, exponent - f.man_bits - n.exponent);
        cut.whole += round_up(cut, v.negative, spec);
        uint64_t step = static_cast<uint64_t>(exponent - p.min_exponent);
        bool too_large = step > low_bits(f.exp_bits);  // also keeps the shift in range
        if (!too_large) {
            magnitude = (step << f.man_bits) + cut.whole;
            // Codes of a scale format start at its smallest value, those of other floats at zero.
            if (f.scale_only) magnitude = magnitude == 0 ? 0 : magnitude - (uint64_t{1} << f.man_bits);
            too_large = magnitude > p.max;
        }
        bool below = v.negative && p.sign == 0 && (too_large || cut.whole != 0 || f.scale_only);
        if (too_large || below) {
            overflowed = true;
            return float_overflow(f, p, v.negative, spec);
        }
        if (!f.subnormal && magnitude >> f.man_bits == 0) magnitude = 0;
    }
    bool sign = v.negative && p.sign && (magnitude != 0 || f.negative_zero);
    return magnitude << p.padding | (sign ? p.sign : 0);
}

Exact exact_float(const Format& f, uint64_t code) {
    FloatParts p(f);
    Exact v;
    v.negative = (code & p.sign) != 0;
    uint64_t magnitude = code >> p.padding & low_bits(p.width);
    if (magnitude > p.max) {
        v.cls = f.has_inf && magnitude == p.max + 1 ? Exact::infinite : Exact::nan;
        return v;
    }
    if (magnitude == 0 && v.negative && !f.negative_zero) {
        if (f.nan == NanCode::negative_zero) v.cls = Exact::nan;
        v.negative = false;
        return v;
    }
    uint64_t exponent = magnitude >> f.man_bits, mantissa = magnitude & low_bits(f.man_bits);
    bool normal = exponent != 0 || f.scale_only;
    if (!normal && !f.subnormal) return v;
    v.significand = normal ? mantissa | uint64_t{1} << f.man_bits : mantissa;
    v.exponent = p.min_exponent - f.man_bits + static_cast<int>(normal && !f.scale_only ? exponent - 1 : exponent);
    return v;
}

// ---- integers and fixed point ----

uint64_t round_integer(const Exact& v, const Format& f, RoundSpec spec, bool& overflowed) {
    if (v.cls == Exact::nan) {
        overflowed = true;
        return 0;
    }
    if (is_zero(v)) return 0;
    bool too_large = v.cls == Exact::infinite;
    uint64_t limit = low_bits(f.bits - f.is_signed);
    if (v.negative) limit = f.is_signed ? limit + 1 : 0;
    uint64_t whole = 0;
    if (!too_large) {
        Normal n = normalise(v);
        int64_t quantum = f.kind == FormatKind::fixed ? -int64_t{f.frac_bits} : 0;
        Cut cut = cut_at(n.significand, v.sticky, quantum - n.exponent);
        bool up = round_up(cut, v.negative, spec);
        whole = cut.whole + up;
        too_large = n.exponent > quantum || (up && whole == 0) || whole > limit;
    }
    if (too_large) {
        overflowed = true;
        whole = limit;
    }
    return v.negative ? 0 - whole : whole;
}

// ---- log numbers ----

/// The code of the logarithm `base` + `cut`, in units of 2^-F.
uint64_t round_logarithm(int64_t base, Cut cut, bool negative, const Format& f, RoundSpec spec, bool& overflowed) {
    const uint64_t zero = uint64_t{1} << (f.bits - 2), sign = negative ? uint64_t{1} << (f.bits - 1) : 0;
    const int64_t largest = static_cast<int64_t>(zero) - 1, smallest = -largest, floor_log = base + static_cast<int64_t>(cut.whole);
    if (floor_log < smallest && rounds_toward_zero(spec.round, negative)) return zero;
    cut.whole = static_cast<uint64_t>(floor_log);  // its lowest bit decides ties
    const int64_t log = floor_log + round_up(cut, negative, spec);
    overflowed = log > largest;
    return (static_cast<uint64_t>(std::clamp(log, smallest, largest)) & low_bits(f.bits - 1)) | sign;
}

uint64_t round_lns(const Exact& v, const Format& f, RoundSpec spec, bool& overflowed) {
    uint64_t zero = uint64_t{1} << (f.bits - 2), sign = v.negative ? uint64_t{1} << (f.bits - 1) : 0;
    if (v.cls == Exact::nan) return nan_code(f);
    if (is_zero(v)) return zero;
    overflowed = v.cls == Exact::infinite;
    if (overflowed) return (zero - 1) | sign;
    Normal n = normalise(v);
    // log2 of the significand in [1, 2) is kept apart from the exponent, where it would lose bits.
    long double scaled = std::ldexp(std::log2(std::ldexp(static_cast<long double>(n.significand), -63)), f.frac_bits);
    long double whole = std::floor(scaled), fraction = scaled - whole;
    Cut cut{static_cast<uint64_t>(whole), static_cast<uint64_t>(std::ldexp(fraction, 64)), v.sticky};
    int64_t exponent = std::clamp<int64_t>(n.exponent + 63, -4096, 4096);
    return round_logarithm(exponent * (int64_t{1} << f.frac_bits), cut, v.negative, f, spec, overflowed);
}

int64_t logarithm(const Format& f, uint64_t code) { return static_cast<int64_t>(code << (65 - f.bits)) >> (65 - f.bits); }

/// Between log numbers the logarithm is rescaled; values, which are irrational, are not needed.
uint64_t convert_lns(const Format& to, const Format& from, uint64_t code, RoundSpec spec, bool& overflowed) {
    const bool negative = code >> (from.bits - 1) & 1;
    const int64_t log = logarithm(from, code);
    if (log == -(int64_t{1} << (from.bits - 2))) return negative ? nan_code(to) : uint64_t{1} << (to.bits - 2);
    const int fewer = from.frac_bits - to.frac_bits;
    if (fewer <= 0) return round_logarithm(log * (int64_t{1} << -fewer), {}, negative, to, spec, overflowed);
    return round_logarithm(log >> fewer, {0, static_cast<uint64_t>(log) << (64 - fewer), false}, negative, to, spec, overflowed);
}

Exact exact_lns(const Format& f, uint64_t code) {
    Exact v;
    unsigned width = f.bits - 1u;
    v.negative = code >> width & 1;
    int64_t log = logarithm(f, code);
    if (log == -(int64_t{1} << (width - 1))) {
        if (v.negative) v.cls = Exact::nan;
        v.negative = false;
        return v;
    }
    int64_t whole = log >> f.frac_bits, part = log - whole * (int64_t{1} << f.frac_bits);
    v.significand = static_cast<uint64_t>(std::ldexp(std::exp2(std::ldexp(static_cast<long double>(part), -int{f.frac_bits})), 63));
    v.exponent = static_cast<int32_t>(whole - 63);
    v.sticky = part != 0;
    return v;
}

// ---- codebooks ----

/// Whether |x - a| < |x - b| (-1), equal (0) or > (1), decided exactly: compares 2x with the error-free sum a + b.
int compare_distance(long double x, int tail, long double a, long double b) {
    if (a == b) return 0;
    long double sum = a + b, part = sum - a, error = (a - (sum - part)) + (b - part), twice = 2 * x;
    int side = twice > sum ? 1 : twice < sum ? -1 : error < 0 ? 1 : error > 0 ? -1 : tail;  // of x, relative to the midpoint
    return side == 0 ? 0 : (side > 0) == (a > b) ? -1 : 1;
}

uint64_t round_codebook(const Exact& v, const Format& f, bool& overflowed) {
    uint64_t largest = max_code(f), smallest = lowest_code(f);
    if (v.cls != Exact::finite) {
        overflowed = true;
        return v.cls == Exact::infinite && v.negative ? smallest : largest;
    }
    long double x = std::ldexp(static_cast<long double>(v.significand), std::clamp(v.exponent, -8192, 8192));
    if (v.negative) x = -x;
    int tail = v.sticky ? (v.negative ? -1 : 1) : 0;
    uint64_t best = 0;
    for (uint64_t i = 1; i < f.table.size(); ++i)
        if (compare_distance(x, tail, f.table[i], f.table[best]) < 0) best = i;
    overflowed = x > f.table[largest] || x < f.table[smallest];
    return best;
}

}  // namespace

Exact exact_from_double(double value) {
    uint64_t bits = std::bit_cast<uint64_t>(value), mantissa = bits & kDoubleMantissa;
    int exponent = static_cast<int>(bits >> 52 & 0x7FF);
    Exact v;
    v.negative = bits >> 63;
    if (exponent == 0x7FF) {
        v.cls = mantissa ? Exact::nan : Exact::infinite;
        return v;
    }
    v.significand = exponent ? mantissa | uint64_t{1} << 52 : mantissa;
    v.exponent = (exponent ? exponent : 1) - 1075;
    return v;
}

Exact exact_from_int(uint64_t code, bool is_signed) {
    Exact v;
    v.negative = is_signed && code >> 63;
    v.significand = v.negative ? 0 - code : code;
    return v;
}

Exact decode_exact(const Format& f, uint64_t code) {
    switch (f.kind) {
        case FormatKind::boolean:
            return exact_from_int(code & 1, false);
        case FormatKind::integer:
            return exact_from_int(extend_code(f, code), f.is_signed);
        case FormatKind::fixed: {
            Exact v = exact_from_int(extend_code(f, code), f.is_signed);
            v.exponent = -int{f.frac_bits};
            return v;
        }
        case FormatKind::floating:
            return exact_float(f, code);
        case FormatKind::lns:
            return exact_lns(f, code);
        case FormatKind::codebook:
            return exact_from_double(f.table[code & low_bits(f.bits)]);
        case FormatKind::block:
            break;
    }
    TEGULA_CHECK(false, "a block has no codes");
}

uint64_t round_exact(const Exact& value, const Format& f, RoundSpec spec, bool* overflowed) {
    bool over = false;
    uint64_t code = 0;
    switch (f.kind) {
        case FormatKind::boolean:
            code = !is_zero(value);
            break;
        case FormatKind::integer:
        case FormatKind::fixed:
            code = round_integer(value, f, spec, over);
            break;
        case FormatKind::floating:
            code = round_float(value, f, spec, over);
            break;
        case FormatKind::lns:
            code = round_lns(value, f, spec, over);
            break;
        case FormatKind::codebook:
            code = round_codebook(value, f, over);
            break;
        case FormatKind::block:
            TEGULA_CHECK(false, "a block has no codes");
    }
    if (overflowed) *overflowed = over;
    return code;
}

double decode(const Format& f, uint64_t code) {
    if (f.kind == FormatKind::codebook) return f.table[code & low_bits(f.bits)];
    if (f.kind == FormatKind::integer) {
        uint64_t wide = extend_code(f, code);
        return f.is_signed ? static_cast<double>(static_cast<int64_t>(wide)) : static_cast<double>(wide);
    }
    if (is_ieee_binary(f, 64)) return std::bit_cast<double>(code);
    FastFloat fast(f);
    double value;
    if (fast.usable && fast.decode(code, value)) return value;
    Exact v = decode_exact(f, code);
    if (v.cls == Exact::nan) return std::bit_cast<double>(kDoubleInf | uint64_t{1} << 51);
    double magnitude = v.cls == Exact::infinite ? std::bit_cast<double>(kDoubleInf) : std::ldexp(static_cast<double>(v.significand), v.exponent);
    return v.negative ? -magnitude : magnitude;
}

namespace {

/// Nearest even or toward zero into a saturating integer, for |value| < 2^62.
uint64_t encode_small_integer(const Format& f, double value, Round round, bool* overflowed) {
    int64_t whole = static_cast<int64_t>(value);
    double rest = value - static_cast<double>(whole);  // exact
    if (round == Round::rne) {
        if (rest > 0.5 || (rest == 0.5 && (whole & 1))) ++whole;
        if (rest < -0.5 || (rest == -0.5 && (whole & 1))) --whole;
    }
    int64_t high = static_cast<int64_t>(low_bits(std::min(f.bits - f.is_signed, 63))), low = f.is_signed ? -high - 1 : 0;
    if (overflowed) *overflowed = whole < low || whole > high;
    return static_cast<uint64_t>(std::clamp(whole, low, high));
}

}  // namespace

uint64_t encode(const Format& f, double value, RoundSpec spec, bool* overflowed) {
    if (f.kind == FormatKind::integer && (spec.round == Round::rne || spec.round == Round::rtz) && std::fabs(value) < 0x1p62)
        return encode_small_integer(f, value, spec.round, overflowed);
    uint64_t bits = std::bit_cast<uint64_t>(value);
    if (is_ieee_binary(f, 64) && (bits & ~kTop) < kDoubleInf) {
        if (overflowed) *overflowed = false;
        return bits;
    }
    FastFloat fast(f);
    uint64_t code;
    if (fast.usable && spec.round == Round::rne && fast.encode(bits, code)) {
        if (overflowed) *overflowed = false;
        return code;
    }
    return round_exact(exact_from_double(value), f, spec, overflowed);
}

uint64_t convert(const Format& to, const Format& from, uint64_t code, RoundSpec spec, bool* overflowed) {
    if (to.is_int() && (from.is_int() || from.is_bool()) && spec.overflow != Overflow::sat) {
        if (overflowed) round_exact(decode_exact(from, code), to, spec, overflowed);
        return extend_code(to, from.is_int() ? extend_code(from, code) : code & 1);
    }
    if (to.kind == FormatKind::lns && from.kind == FormatKind::lns) {
        bool over = false;
        code = convert_lns(to, from, code, spec, over);
        if (overflowed) *overflowed = over;
        return code;
    }
    bool exact_in_double = from.kind == FormatKind::floating || from.kind == FormatKind::fixed || from.kind == FormatKind::codebook;
    if (exact_in_double) return encode(to, decode(from, code), spec, overflowed);
    return round_exact(decode_exact(from, code), to, spec, overflowed);
}

}  // namespace tegula
