// Nearest even from float into a signed minifloat with subnormals and mantissa bits, every value of which is exact in float. Subnormal results
// come from the float adder, which rounds at the right place when a constant is added.
#pragma once
#include "jit/cuda/device/bits.cuh"

template <int kMantissa, int kMinExponent, unsigned kMax, unsigned kAbove, unsigned kNan, int kSignAt, bool kNegativeZero>
__device__ __forceinline__ unsigned encode_rne(float v) {
    const unsigned bits = float_bits(v), m = bits & 0x7fffffffu;
    const float magic = as_float((unsigned)(kMinExponent - kMantissa + 23 + 127) << 23);
    const unsigned tiny = float_bits(as_float(m) + magic) - float_bits(magic);
    const unsigned normal =
        ((m + ((1u << (22 - kMantissa)) - 1) + (m >> (23 - kMantissa) & 1)) >> (23 - kMantissa)) - ((unsigned)(126 + kMinExponent) << kMantissa);
    unsigned r = m < (unsigned)(kMinExponent + 127) << 23 ? tiny : normal;
    r = r > kMax ? kAbove : r;
    return m > 0x7f800000u ? kNan : r | (r != 0 || kNegativeZero ? bits >> 31 << kSignAt : 0);
}
/// For formats without signs, of at most 16 bits: negative numbers that do not round to zero become kBelow.
template <int kMantissa, int kMinExponent, unsigned kMax, unsigned kAbove, unsigned kNan, unsigned kBelow>
__device__ __forceinline__ unsigned encode_unsigned_rne(float v) {
    const unsigned r = encode_rne<kMantissa, kMinExponent, kMax, kAbove, kNan, 31, false>(v);
    return r >> 31 ? kBelow : r;
}
