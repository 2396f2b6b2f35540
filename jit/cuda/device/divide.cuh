// Quotients and remainders of integers; by 0 they are 0 and the dividend.
#pragma once
#include "jit/cuda/device/integer.cuh"

__device__ __forceinline__ unsigned div_trunc(unsigned a, unsigned b) { return b == 0 ? 0 : a / b; }
__device__ __forceinline__ unsigned long long div_trunc(unsigned long long a, unsigned long long b) { return b == 0 ? 0 : a / b; }
__device__ __forceinline__ int div_trunc(int a, int b) { return b == 0 ? 0 : b == -1 ? negate(a) : a / b; }
__device__ __forceinline__ long long div_trunc(long long a, long long b) { return b == 0 ? 0 : b == -1 ? negate(a) : a / b; }
template <class T>
__device__ __forceinline__ T rem_trunc(T a, T b) {
    return b == 0 ? a : b == T(-1) && is_negative(b) ? T(0) : a % b;
}
__device__ __forceinline__ unsigned div_floor(unsigned a, unsigned b) { return div_trunc(a, b); }
__device__ __forceinline__ unsigned long long div_floor(unsigned long long a, unsigned long long b) { return div_trunc(a, b); }
__device__ __forceinline__ unsigned rem_floor(unsigned a, unsigned b) { return rem_trunc(a, b); }
__device__ __forceinline__ unsigned long long rem_floor(unsigned long long a, unsigned long long b) { return rem_trunc(a, b); }
template <class T>
__device__ __forceinline__ T signed_rem_floor(T a, T b) {
    const T r = rem_trunc(a, b);
    return b != 0 && r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
template <class T>
__device__ __forceinline__ T signed_div_floor(T a, T b) {
    const T q = div_trunc(a, b), r = rem_trunc(a, b);
    return b != 0 && r != 0 && (r < 0) != (b < 0) ? q - 1 : q;
}
__device__ __forceinline__ int rem_floor(int a, int b) { return signed_rem_floor(a, b); }
__device__ __forceinline__ long long rem_floor(long long a, long long b) { return signed_rem_floor(a, b); }
__device__ __forceinline__ int div_floor(int a, int b) { return signed_div_floor(a, b); }
__device__ __forceinline__ long long div_floor(long long a, long long b) { return signed_div_floor(a, b); }
template <class T>
__device__ __forceinline__ T div_ceil(T a, T b) {
    const T q = div_trunc(a, b), r = rem_trunc(a, b);
    return b != 0 && r != 0 && is_negative(r) == is_negative(b) ? q + 1 : q;
}
