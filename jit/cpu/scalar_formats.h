// Facts of number formats that decide how arithmetic on them is emitted (scalars.h). All follow from lang/format.h; no LLVM here.
#pragma once
#include "lang/fast_float.h"

namespace tegula::cpu {

inline bool is_native(const Format& f) { return (is_ieee_binary(f, 32) || is_ieee_binary(f, 64)) && f.is_signed && f.negative_zero; }
inline unsigned padding(const Format& f) { return f.bits - f.is_signed - f.exp_bits - f.man_bits; }
inline int min_exponent(const Format& f) { return (f.scale_only ? 0 : 1) - f.bias; }
inline uint64_t low_bits(unsigned n) { return n >= 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1; }
inline uint64_t max_magnitude(const Format& f) { return max_code(f) >> padding(f); }
inline bool extends_sign(const Format& f) { return f.is_signed && (f.is_int() || f.kind == FormatKind::fixed); }
inline bool is_whole(const Format& f) { return f.is_int() || f.is_bool(); }

/// Exponent of the largest value.
inline int max_exponent(const Format& f) { return static_cast<int>(max_magnitude(f) >> f.man_bits) + min_exponent(f) - (f.scale_only ? 0 : 1); }

/// Every value is exact in float, and a sum, product, quotient or root in float rounds once more to the format as if rounded once: 24 bits are
/// enough for precisions up to 11, and products stay above float's smallest number wherever they matter.
inline bool works_in_float(const Format& f) {
    const int precision = f.man_bits + 1, quantum = min_exponent(f) - f.man_bits;
    return f.is_float() && f.bits <= 16 && precision <= 11 && max_exponent(f) <= 127 && quantum - (2 * precision - 1) >= -149;
}

/// The upper bits of a binary32: bf16, tf32.
inline bool is_prefix_of_f32(const Format& f) {
    return f.is_float() && f.exp_bits == 8 && f.man_bits > 0 && f.man_bits < 23 && f.bias == 127 && f.is_signed && f.has_inf &&
           f.nan == NanCode::ieee && f.subnormal && f.negative_zero;
}

inline bool is_binary16(const Format& f) {
    return f.is_float() && f.bits == 16 && f.exp_bits == 5 && f.man_bits == 10 && f.bias == 15 && f.is_signed && f.has_inf &&
           f.nan == NanCode::ieee && f.subnormal && f.negative_zero;
}

/// Nearest even from float by integer steps: see nearest_short.
inline bool has_short_encoder(const Format& f) {
    return works_in_float(f) && f.is_signed && f.subnormal && f.man_bits > 0 && !f.scale_only && f.bias <= 127 && f.bias >= -80;
}

/// Is every value a float, and does a float that was rounded to odd round to the format as the exact number would? It has two bits more than the
/// format everywhere, among subnormals too.
inline bool rounds_from_float(const Format& f) {
    return f.is_float() && !is_native(f) && f.man_bits <= 20 && max_exponent(f) <= 127 && min_exponent(f) - f.man_bits >= -147;
}

/// Is a product of two values exact in float, and every sum with a third in its range?
inline bool products_are_floats(const Format& f) {
    return 2 * (f.man_bits + 1) <= 24 && 2 * (max_exponent(f) + 1) <= 127 && 2 * (min_exponent(f) - f.man_bits) >= -149;
}

/// Is a product of two values exact in double, and every sum with a third in its range?
inline bool products_are_exact(const Format& f) {
    return f.man_bits < 26 && 2 * (max_exponent(f) + 1) < 1000 && 2 * (min_exponent(f) - f.man_bits) > -1000;
}

/// Is the error of a sum, product, quotient or root in double (of the latter two: the remainder) a double wherever it decides, and are two bits more
/// than the format's enough?
inline bool errors_are_exact(const Format& f) { return f.man_bits <= 50 && max_exponent(f) < 512 && min_exponent(f) - f.man_bits >= -600; }

inline bool is_sat(const Format& f, Overflow overflow) { return overflow == Overflow::sat || (overflow == Overflow::automatic && !f.has_inf); }

/// Is this the rounding that `nearest` does?
inline bool is_plain(const Format& to, Round round, Overflow overflow) {
    const bool usual = overflow == Overflow::automatic || (to.is_float() && to.has_inf == (overflow != Overflow::sat));
    return round == Round::rne && usual;
}

}  // namespace tegula::cpu
