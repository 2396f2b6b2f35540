// The upper half of a product of 64 bits.
#pragma once

__device__ __forceinline__ unsigned long long high_product(unsigned long long a, unsigned long long b) { return __umul64hi(a, b); }
__device__ __forceinline__ unsigned long long signed_high_product(long long a, long long b) { return (unsigned long long)__mul64hi(a, b); }
