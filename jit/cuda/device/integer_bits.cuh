// Integers of n bits in wider containers: shifts, upper halves of products, and counts of bits.
#pragma once
#include "jit/cuda/device/bits.cuh"
#include "jit/cuda/device/high_product.cuh"
#include "jit/cuda/device/integer.cuh"

template <class T>
__device__ __forceinline__ unsigned long long low_bits(T a, int n) {
    return (unsigned long long)a << (64 - n) >> (64 - n);
}
__device__ __forceinline__ unsigned mul_high(unsigned a, unsigned b, int n) { return (unsigned)((unsigned long long)a * b >> n); }
__device__ __forceinline__ int mul_high(int a, int b, int n) { return (int)((long long)a * b >> n); }
__device__ __forceinline__ int count_bits(unsigned a) { return __popc(a); }
__device__ __forceinline__ int count_bits(unsigned long long a) { return __popcll(a); }
__device__ __forceinline__ unsigned long long mul_high(unsigned long long a, unsigned long long b, int n) {
    return n == 64 ? high_product(a, b) : high_product(a, b) << (64 - n) | a * b >> n;
}
__device__ __forceinline__ long long mul_high(long long a, long long b, int n) {
    const unsigned long long x = (unsigned long long)a, y = (unsigned long long)b;
    const unsigned long long high = signed_high_product(a, b);
    return (long long)(n == 64 ? high : high << (64 - n) | x * y >> n);
}
template <class T>
__device__ __forceinline__ T shift_left(T a, T b, int n) {
    return low_bits(b, n) >= n ? T(0) : (T)((unsigned long long)a << (int)b);
}
__device__ __forceinline__ int shift_left(int a, int b, int n) { return low_bits(b, n) >= n ? 0 : (int)((unsigned)a << b); }
__device__ __forceinline__ unsigned shift_left(unsigned a, unsigned b, int n) { return low_bits(b, n) >= n ? 0 : a << b; }
template <class T>
__device__ __forceinline__ T shift_right(T a, T b, int n) {
    return low_bits(b, n) >= n ? (is_negative(a) ? T(-1) : T(0)) : a >> (int)b;
}
template <class T>
__device__ __forceinline__ T count_ones(T a, int n) {
    return sizeof(T) == 4 ? count_bits((unsigned)low_bits(a, n)) : count_bits(low_bits(a, n));
}
template <class T>
__device__ __forceinline__ T leading_zeros(T a, int n) {
    return (T)(leading_zeros_64(low_bits(a, n)) - (64 - n));
}
template <class T>
__device__ __forceinline__ T trailing_zeros(T a, int n) {
    const unsigned long long v = low_bits(a, n);
    return (T)(v == 0 ? n : 63 - leading_zeros_64(v & (0 - v)));
}
