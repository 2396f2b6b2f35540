// What kind of float a number is.
#pragma once
#include "jit/cuda/device/bits.cuh"

template <class T>
__device__ __forceinline__ bool is_nan(T a) {
    return a != a;
}
__device__ __forceinline__ bool is_inf(float a) { return fabsf(a) == as_float(0x7f800000u); }
__device__ __forceinline__ bool is_inf(double a) { return fabs(a) == as_double(0x7ff0000000000000ull); }
__device__ __forceinline__ bool is_finite(float a) { return (float_bits(a) & 0x7f800000u) != 0x7f800000u; }
__device__ __forceinline__ bool is_finite(double a) { return fabs(a) < as_double(0x7ff0000000000000ull); }
__device__ __forceinline__ bool sign_bit(float a) { return float_bits(a) >> 31 != 0; }
__device__ __forceinline__ bool sign_bit(double a) { return double_bits(a) >> 63 != 0; }
