// The nearest entry of a codebook, ties to the lower index: 2x is compared with the sum of two entries and its rounding error.
#pragma once
#include "jit/cuda/device/number.cuh"
#include "jit/cuda/device/scale_by.cuh"

__device__ __forceinline__ int compare_distance(double x, int tail, double a, double b) {
    const double sum = a + b, part = sum - a, error = (a - (sum - part)) + (b - part), twice = 2 * x;
    const int side = twice > sum ? 1 : twice < sum ? -1 : error < 0 ? 1 : error > 0 ? -1 : tail;
    return (side == 0) | (a == b) ? 0 : (side > 0) == (a > b) ? -1 : 1;
}
__device__ __forceinline__ unsigned nearest(const Number& v, const double* table, int entries, int largest, int smallest) {
    const double kept = (double)v.significand, magnitude = scale_by(kept, v.exponent);
    const double x = v.negative ? -magnitude : magnitude;
    const long long lost = (long long)(v.significand - (kept < 0x1p64 ? (unsigned long long)kept : 0));  // modulo 2^64
    const int above = lost > 0 ? 1 : lost < 0 ? -1 : v.sticky, tail = v.negative ? -above : above;
    unsigned best = 0;
#pragma unroll 1
    for (int i = 1; i < entries; ++i)
        if (compare_distance(x, tail, table[i], table[best]) < 0) best = i;
    return v.kind == 0 ? best : (v.kind == 1) & v.negative ? smallest : largest;
}
