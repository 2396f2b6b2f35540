// Raw integers times 2^-frac_bits: saturating, one rounding to nearest even. Magnitudes of 32-bit operands fit 64 bits.
#pragma once

__device__ __forceinline__ long long fixed_clamp(bool negative, unsigned long long magnitude, int bits, bool is_signed) {
    const unsigned long long high = (1ull << (is_signed ? bits - 1 : bits)) - 1;
    const unsigned long long limit = !negative ? high : is_signed ? high + 1 : 0, kept = magnitude > limit ? limit : magnitude;
    return negative ? -(long long)kept : (long long)kept;
}
__device__ __forceinline__ long long fixed_magnitude(long long a) { return a < 0 ? -a : a; }
__device__ __forceinline__ long long fixed_saturate(long long v, int bits, bool is_signed) {
    return fixed_clamp(v < 0, v < 0 ? 0 - (unsigned long long)v : (unsigned long long)v, bits, is_signed);
}
__device__ __forceinline__ unsigned long long divide_even(unsigned long long n, unsigned long long d) {
    const unsigned long long q = n / d, r = n % d, rest = d - r;
    return q + (r > rest || (r == rest && (q & 1)) ? 1 : 0);
}
__device__ __forceinline__ long long fixed_mul(long long a, long long b, int bits, int frac_bits, bool is_signed) {
    const unsigned long long product = (unsigned long long)(a < 0 ? -a : a) * (unsigned long long)(b < 0 ? -b : b);
    return fixed_clamp((a < 0) != (b < 0), divide_even(product, 1ull << frac_bits), bits, is_signed);
}
__device__ __forceinline__ long long fixed_div(long long a, long long b, int bits, int frac_bits, bool is_signed) {
    const unsigned long long n = (unsigned long long)(a < 0 ? -a : a), d = (unsigned long long)(b == 0 ? 1 : b < 0 ? -b : b);
    const unsigned long long magnitude = b != 0 ? divide_even(n << frac_bits, d) : a != 0 ? 1ull << 62 : 0;
    return fixed_clamp((a < 0) != (b < 0), magnitude, bits, is_signed);
}
