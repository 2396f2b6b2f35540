// NaN wins in minimum and maximum and loses in the others; -0 lies below +0, as the instructions have it.
#pragma once
#include "jit/cuda/device/float_tests.cuh"

template <class T>
__device__ __forceinline__ T minimum_by_tests(T a, T b) {
    const bool first = (a < b) | ((a == b) & sign_bit(a));
    return (a != a) | (b != b) ? a + b : first ? a : b;
}
template <class T>
__device__ __forceinline__ T maximum_by_tests(T a, T b) {
    const bool first = (a > b) | ((a == b) & !sign_bit(a));
    return (a != a) | (b != b) ? a + b : first ? a : b;
}
#if __CUDA_ARCH__ >= 800
__device__ __forceinline__ float minimum(float a, float b) {
    float r;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
}
__device__ __forceinline__ float maximum(float a, float b) {
    float r;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
}
#else
__device__ __forceinline__ float minimum(float a, float b) { return minimum_by_tests(a, b); }
__device__ __forceinline__ float maximum(float a, float b) { return maximum_by_tests(a, b); }
#endif
__device__ __forceinline__ double minimum(double a, double b) { return minimum_by_tests(a, b); }
__device__ __forceinline__ double maximum(double a, double b) { return maximum_by_tests(a, b); }
__device__ __forceinline__ float minimum_number(float a, float b) {
    float r;
    asm("min.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
}
__device__ __forceinline__ float maximum_number(float a, float b) {
    float r;
    asm("max.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
}
__device__ __forceinline__ double minimum_number(double a, double b) { return a != a ? b : b != b ? a : minimum(a, b); }
__device__ __forceinline__ double maximum_number(double a, double b) { return a != a ? b : b != b ? a : maximum(a, b); }
