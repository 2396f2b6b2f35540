// Two 16-bit elements in one register, the first one lowest.
#pragma once
#if __CUDA_ARCH__ < 800
#include "jit/cuda/device/bf16.cuh"
#include "jit/cuda/device/f16.cuh"
#endif

__device__ __forceinline__ unsigned two_shorts(unsigned short low, unsigned short high) {
    unsigned two;
    asm("mov.b32 %0, {%1, %2};" : "=r"(two) : "h"(low), "h"(high));
    return two;
}
// Registers taken apart and put together this way cost nothing: ptxas sees through both.
__device__ __forceinline__ unsigned short low_short(unsigned two) {
    unsigned short half;
    asm("{ .reg .b16 other; mov.b32 {%0, other}, %1; }" : "=h"(half) : "r"(two));
    return half;
}
__device__ __forceinline__ unsigned short high_short(unsigned two) {
    unsigned short half;
    asm("{ .reg .b16 other; mov.b32 {other, %0}, %1; }" : "=h"(half) : "r"(two));
    return half;
}
#if __CUDA_ARCH__ >= 800
__device__ __forceinline__ unsigned encode_two_bf16(float low, float high) {
    unsigned two;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(high), "f"(low));
    return two;
}
__device__ __forceinline__ unsigned encode_two_f16(float low, float high) {
    unsigned two;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(high), "f"(low));
    return two;
}
#else
__device__ __forceinline__ unsigned encode_two_bf16(float low, float high) { return encode_bf16(low) | (unsigned)encode_bf16(high) << 16; }
__device__ __forceinline__ unsigned encode_two_f16(float low, float high) { return encode_f16(low) | (unsigned)encode_f16(high) << 16; }
#endif
