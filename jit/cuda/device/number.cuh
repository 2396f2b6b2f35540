// Exact in lang/format.h, rounding increments, and the value of a double or an integer.
#pragma once
#include "jit/cuda/device/bits.cuh"

struct Number {  // (-1)^negative * significand * 2^exponent and, if sticky, a little more; kind 0 finite, 1 infinite, 2 NaN
    unsigned long long significand;
    int exponent;
    bool negative, sticky;
    int kind;
};
struct Cut {  // whole quanta and the lost part as a 64-bit fraction
    unsigned long long whole, fraction;
    bool sticky;
};
__device__ __forceinline__ bool is_zero(const Number& v) { return (v.kind == 0) & (v.significand == 0) & !v.sticky; }
__device__ __forceinline__ Number number_of(double v) {
    const unsigned long long bits = double_bits(v), mantissa = bits & 0xfffffffffffffull;
    const int exponent = (int)(bits >> 52 & 0x7ff);
    Number n = {exponent ? mantissa | 1ull << 52 : mantissa, (exponent ? exponent : 1) - 1075, bits >> 63 != 0, false, 0};
    if (exponent == 0x7ff) n.kind = mantissa ? 2 : 1;
    return n;
}
__device__ __forceinline__ Number number_of(unsigned long long v) {
    const Number n = {v, 0, false, false, 0};
    return n;
}
__device__ __forceinline__ Number number_of(long long v) {
    const Number n = {v < 0 ? 0 - (unsigned long long)v : (unsigned long long)v, 0, v < 0, false, 0};
    return n;
}
__device__ __forceinline__ Number normalise(const Number& v) {
    Number n = v;
    const int shift = leading_zeros_64(v.significand);
    n.significand = v.significand == 0 ? 1ull << 63 : v.significand << (shift & 63);
    n.exponent = v.significand == 0 ? v.exponent - 128 : v.exponent - shift;
    return n;
}
__device__ __forceinline__ Cut cut_at(unsigned long long significand, bool sticky, int shift) {
    Cut c = {significand, 0, sticky};
    if (shift > 0) {
        c.whole = shift < 64 ? significand >> shift : 0;
        c.fraction = shift < 64 ? significand << (64 - shift) : shift == 64 ? significand : shift < 128 ? significand >> (shift - 64) : 0;
        c.sticky = sticky || shift > 64;
    }
    return c;
}
// Modes in the order of the enumeration `Round`: rne rna rtz ru rd stochastic bits.
__device__ __forceinline__ bool round_up(const Cut& cut, bool negative, int mode, unsigned long long random) {
    const bool half = cut.fraction >> 63 != 0, rest = (cut.fraction << 1 != 0) | cut.sticky;
    return mode == 0   ? half & (rest | ((cut.whole & 1) != 0))
           : mode == 1 ? half
           : mode == 2 ? false
           : mode == 3 ? !negative & (half | rest)
           : mode == 4 ? negative & (half | rest)
                       : cut.fraction + random < cut.fraction;
}
__device__ __forceinline__ bool rounds_toward_zero(int mode, bool negative) {
    return (mode == 2) | ((mode == 4) & !negative) | ((mode == 3) & negative);
}
