// Floats as their bits.
#pragma once

__device__ __forceinline__ float as_float(unsigned bits) { return __uint_as_float(bits); }
__device__ __forceinline__ unsigned float_bits(float v) { return __float_as_uint(v); }
__device__ __forceinline__ double as_double(unsigned long long bits) { return __longlong_as_double((long long)bits); }
__device__ __forceinline__ unsigned long long double_bits(double v) { return (unsigned long long)__double_as_longlong(v); }
__device__ __forceinline__ int leading_zeros_64(unsigned long long v) { return __clzll((long long)v); }
