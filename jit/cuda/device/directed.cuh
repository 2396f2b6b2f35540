// The directed rows: the instructions of float and double, by mode.
#pragma once

#define DIRECTED(mode, cuda)                                                                                     \
    __device__ __forceinline__ float add_##mode(float a, float b) { return __fadd_##cuda(a, b); }                \
    __device__ __forceinline__ float sub_##mode(float a, float b) { return __fsub_##cuda(a, b); }                \
    __device__ __forceinline__ float mul_##mode(float a, float b) { return __fmul_##cuda(a, b); }                \
    __device__ __forceinline__ float div_##mode(float a, float b) { return __fdiv_##cuda(a, b); }                \
    __device__ __forceinline__ float fma_##mode(float a, float b, float c) { return __fmaf_##cuda(a, b, c); }    \
    __device__ __forceinline__ float sqrt_##mode(float a) { return __fsqrt_##cuda(a); }                          \
    __device__ __forceinline__ double add_##mode(double a, double b) { return __dadd_##cuda(a, b); }             \
    __device__ __forceinline__ double sub_##mode(double a, double b) { return __dsub_##cuda(a, b); }             \
    __device__ __forceinline__ double mul_##mode(double a, double b) { return __dmul_##cuda(a, b); }             \
    __device__ __forceinline__ double div_##mode(double a, double b) { return __ddiv_##cuda(a, b); }             \
    __device__ __forceinline__ double fma_##mode(double a, double b, double c) { return __fma_##cuda(a, b, c); } \
    __device__ __forceinline__ double sqrt_##mode(double a) { return __dsqrt_##cuda(a); }
DIRECTED(rtz, rz)
DIRECTED(ru, ru)
DIRECTED(rd, rd)
#undef DIRECTED
