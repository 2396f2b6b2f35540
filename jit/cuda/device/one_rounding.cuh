// lang/one_rounding.h: of the two neighbours of an inexact result the one that rounds to the format as the result does. `cut` bits will be lost:
// where it is one, both neighbours but that with an even last bit are ties; where it is more, the odd one is none.
#pragma once
#include "jit/cuda/device/bits.cuh"

__device__ __forceinline__ double before_rounding(double below, double above, double nearest, int man_bits, int min_exponent) {
    const unsigned long long low = double_bits(below), high = double_bits(above), inner = low << 1 < high << 1 ? low : high;
    const int field = (int)(inner >> 52 & 0x7ff), normal = 52 - man_bits, subnormal = min_exponent - man_bits + 1075 - (field ? field : 1);
    const int cut = normal > subnormal ? normal : subnormal;
    const double one = ((low & 1) != 0) == (cut > 1) ? below : above;
    return below < above && cut > 0 ? one : nearest;
}
__device__ __forceinline__ double fma_once(double a, double b, double c, int man_bits, int min_exponent) {
    return before_rounding(__fma_rd(a, b, c), __fma_ru(a, b, c), fma(a, b, c), man_bits, min_exponent);
}
__device__ __forceinline__ double add_once(double a, double b, int man_bits, int min_exponent) { return fma_once(a, 1.0, b, man_bits, min_exponent); }
__device__ __forceinline__ double sub_once(double a, double b, int man_bits, int min_exponent) {
    return fma_once(a, 1.0, -b, man_bits, min_exponent);
}
__device__ __forceinline__ double mul_once(double a, double b, int man_bits, int min_exponent) {
    return fma_once(a, b, -0.0, man_bits, min_exponent);
}
__device__ __forceinline__ double div_once(double a, double b, int man_bits, int min_exponent) {
    return before_rounding(__ddiv_rd(a, b), __ddiv_ru(a, b), a / b, man_bits, min_exponent);
}
__device__ __forceinline__ double sqrt_once(double a, int man_bits, int min_exponent) {
    return before_rounding(__dsqrt_rd(a), __dsqrt_ru(a), sqrt(a), man_bits, min_exponent);
}
__device__ __forceinline__ double rem_once(double a, double b, int man_bits, int min_exponent) {
    const double r = fmod(a, b), up = add_once(r, b, man_bits, min_exponent), shifted = ((r < 0) != (b < 0)) & (r == r) ? up : r;
    return r == 0 ? copysign(0.0, b) : shifted;
}
