// The usual cases of decode and encode for signed floats with mantissa bits, in a few integer instructions: what the scalar and the
// batch functions share. Everything it declines goes to the general code in round.cpp, which it must equal to the bit.
#pragma once
#include <algorithm>
#include <bit>

#include "lang/format.h"

namespace tegula {

/// IEEE binary32 or binary64 itself.
inline bool is_ieee_binary(const Format& f, unsigned bits) {
    unsigned exp_bits = bits == 64 ? 11 : 8;
    return f.kind == FormatKind::floating && f.bits == bits && f.exp_bits == exp_bits && f.man_bits == bits - 1 - exp_bits && f.has_inf &&
           f.nan == NanCode::ieee && f.subnormal && f.bias == (1 << (exp_bits - 1)) - 1;
}

struct FastFloat {
    bool usable;  ///< neither scale-only, unsigned, flushed nor wider than f64's own fields
    unsigned man_bits, padding, sign_at;
    int min_exponent;
    uint64_t max, rebias;  ///< largest finite magnitude; (1023 - bias) << man_bits, modulo 2^64
    bool negative_zero;

    explicit FastFloat(const Format& f)
        : usable(f.kind == FormatKind::floating && f.man_bits > 0 && f.man_bits < 52 && f.exp_bits > 0 && f.is_signed && f.subnormal &&
                 !f.scale_only && f.bias <= 1023 && f.bias >= -1023),
          man_bits(f.man_bits),
          padding(f.bits - 1u - f.exp_bits - f.man_bits),
          sign_at(f.bits - 1u),
          min_exponent(1 - f.bias),
          max(usable ? max_code(f) >> padding : 0),
          rebias(static_cast<uint64_t>(int64_t{1023} - f.bias) << f.man_bits),
          negative_zero(f.negative_zero) {}

    /// Nearest even; false when the value or the result is special (zero counts as special only for the value's exponent field).
    bool encode(uint64_t bits, uint64_t& code) const {
        uint64_t magnitude = bits & ~(uint64_t{1} << 63);
        int exponent = static_cast<int>(magnitude >> 52) - 1023;
        if (exponent == 1024 || (exponent == -1023 && magnitude != 0)) return false;
        bool normal = exponent >= min_exponent;
        uint64_t significand = normal ? magnitude : magnitude == 0 ? 0 : (magnitude & ((uint64_t{1} << 52) - 1)) | uint64_t{1} << 52;
        unsigned shift = 52 - man_bits + (normal ? 0u : static_cast<unsigned>(min_exponent - exponent));
        shift = std::min(shift, 63u);
        uint64_t result = (significand + ((uint64_t{1} << (shift - 1)) - 1) + (significand >> shift & 1)) >> shift;
        result -= normal ? rebias : 0;
        if (result > max) return false;
        code = result << padding | (result != 0 || negative_zero ? bits >> 63 << sign_at : 0);
        return true;
    }

    /// False for what is neither zero nor a normal value of the format and of f64.
    bool decode(uint64_t code, double& value) const {
        uint64_t sign = code >> sign_at & 1;
        uint64_t magnitude = (code & ((uint64_t{1} << sign_at) - 1)) >> padding;
        if (magnitude > max || magnitude >> man_bits == 0) return false;
        value = std::bit_cast<double>((magnitude + rebias) << (52 - man_bits) | sign << 63);
        return true;
    }
};

}  // namespace tegula
