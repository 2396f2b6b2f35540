// One rounding of an exact number to an integer or fixed-point format, saturating.
#pragma once
#include "jit/cuda/device/number.cuh"

__device__ __forceinline__ unsigned long long round_integer(const Number& v, int bits, bool is_signed, int frac_bits, int mode,
                                                            unsigned long long random) {
    const int width = bits - (is_signed ? 1 : 0);
    const unsigned long long high = width == 0 ? 0 : ~0ull >> (64 - width);
    const unsigned long long limit = !v.negative ? high : is_signed ? high + 1 : 0;
    unsigned long long whole = limit;
    if (v.kind == 0) {
        const Number n = normalise(v);
        const Cut cut = cut_at(n.significand, v.sticky, -frac_bits - n.exponent);
        const bool up = round_up(cut, v.negative, mode, random);
        whole = cut.whole + up;
        whole = (n.exponent > -frac_bits) | (up & (whole == 0)) | (whole > limit) ? limit : whole;
    }
    const bool nothing = (v.kind == 2) | is_zero(v);
    return nothing ? 0 : v.negative ? 0 - whole : whole;
}
