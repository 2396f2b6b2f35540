// Exact value of a code of a floating format that the short decoders do not cover.
#pragma once
#include "jit/cuda/device/round_float.cuh"
#include "jit/cuda/device/scale_by.cuh"

__device__ __forceinline__ double decode_float(unsigned long long code, const FloatFormat& f) {
    const bool negative = (code & f.sign) != 0;
    const unsigned long long m = (code & ~f.sign) >> f.padding;
    const double not_a_number = as_double(0x7ff8000000000000ull), infinity = as_double(0x7ff0000000000000ull);
    const int exponent = (int)(m >> f.man_bits);
    unsigned long long significand = m & ((1ull << f.man_bits) - 1);
    const bool normal = exponent != 0 || f.scale_only;
    if (!normal && !f.subnormal) significand = 0;
    if (normal) significand |= 1ull << f.man_bits;
    const double v = scale_by((double)significand, f.min_exponent - f.man_bits + (normal && !f.scale_only ? exponent - 1 : exponent));
    const bool infinite = f.has_inf & (m == f.max + 1), minus_zero = (m == 0) & negative & !f.negative_zero;
    const bool none = ((m > f.max) & !infinite) | (minus_zero & f.has_nan & (f.nan_code == f.sign));
    const double magnitude = infinite ? infinity : v;
    return none ? not_a_number : negative & !minus_zero ? -magnitude : magnitude;
}
