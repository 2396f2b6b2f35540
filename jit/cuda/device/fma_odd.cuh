// Of the two neighbours of an inexact sum exactly one has an odd last bit.
#pragma once
#include "jit/cuda/device/bits.cuh"

__device__ __forceinline__ double fma_round_odd(double a, double b, double c) {
    const double below = __fma_rd(a, b, c), above = __fma_ru(a, b, c);
    return below == above ? fma(a, b, c) : (double_bits(below) & 1) ? below : above;
}
