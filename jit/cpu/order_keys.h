// Unsigned keys whose order is that of values: -0 below +0, all NaNs alike and above all else, what decodes to one value alike.
#pragma once
#include "jit/cpu/scalar_formats.h"

namespace tegula::cpu {

/// Floats and log numbers: how the magnitude of a code is found, which is in order.
struct SignMagnitude {
    uint64_t sign, low, toggled = 0;  ///< bits of the code; of the magnitude; those that the code has the other way round
    uint64_t largest, least = 0;      ///< below `least` it is 0, above `largest` NaN
    unsigned padding = 0, key_bits;
    bool negative_zero = false, nan_zero = false;  ///< is the code of -0 that, NaN, or else 0?

    explicit SignMagnitude(const Format& f) : sign(f.is_signed ? uint64_t{1} << (f.bits - 1) : 0) {
        const bool lns = f.kind == FormatKind::lns;
        const unsigned width = lns ? f.bits - 1u : unsigned{f.exp_bits} + f.man_bits;
        low = low_bits(width);
        largest = lns ? low : max_magnitude(f) + f.has_inf;
        nan_zero = lns || f.nan == NanCode::negative_zero;
        if (lns) {
            toggled = uint64_t{1} << (width - 1);  // the lowest logarithm is that of 0
        } else {
            padding = cpu::padding(f);
            negative_zero = f.negative_zero;
            if (!f.subnormal) least = uint64_t{1} << f.man_bits;
        }
        key_bits = width + 1 + (nan_zero && largest == low);  // NaN has a key of its own
    }
    /// The usual float: its own magnitude, in order below infinity, and two zeros.
    bool plain() const { return sign != 0 && padding == 0 && least == 0 && negative_zero; }
    template <class Key>
    Key operator()(uint64_t code) const {
        const uint64_t m = ((code >> padding) & low) ^ toggled, kept = m < least ? 0 : m;
        const bool below = (code & sign) != 0;
        const bool nan = m > largest || (below && m == 0 && nan_zero);
        const uint64_t key = below && (m != 0 || negative_zero) ? low - kept : low + 1 + kept;
        return static_cast<Key>(nan ? low_bits(key_bits) : key);
    }
};

inline bool is_sign_magnitude(const Format& f) { return f.is_float() || f.kind == FormatKind::lns; }

/// How many bits keys have, from the lowest on.
inline unsigned key_bits(const Format& f) { return is_sign_magnitude(f) ? SignMagnitude(f).key_bits : f.bits; }

/// Calls `use` with the function from the codes of a format, in containers of type Code, to keys.
template <class Code, class Key, class Use>
void with_keys(const Format& f, Use&& use) {
    if (is_sign_magnitude(f)) {
        const SignMagnitude rule(f);
        if (!rule.plain()) return use([rule](Code code) { return rule.operator()<Key>(code); });
        return use([low = static_cast<Key>(rule.low), largest = static_cast<Key>(rule.largest)](Key code) {
            const Key all = static_cast<Key>(low * 2 + 1), below = static_cast<Key>(code > low ? all : low + 1);
            return (code & low) > largest ? all : static_cast<Key>(code ^ below);
        });
    }
    const uint64_t flipped = extends_sign(f) ? uint64_t{1} << (f.bits - 1) : 0;
    use([flipped, all = low_bits(f.bits)](Code code) { return static_cast<Key>((code ^ flipped) & all); });
}

}  // namespace tegula::cpu
