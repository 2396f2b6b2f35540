// One rounding of an exact number to a floating format.
#pragma once
#include "jit/cuda/device/number.cuh"

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
