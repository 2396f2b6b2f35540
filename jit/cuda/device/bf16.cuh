// bf16 by the instructions that an architecture has, else through float.
#pragma once
#include "jit/cuda/device/bits.cuh"
#if __CUDA_ARCH__ < 800
#include "jit/cuda/device/encode_rne.cuh"
#include "jit/cuda/device/float_round_odd.cuh"
#include "jit/cuda/device/fma_odd.cuh"
#endif

__device__ __forceinline__ float decode_bf16(unsigned short a) { return as_float((unsigned)a << 16); }
#if __CUDA_ARCH__ >= 800
__device__ __forceinline__ unsigned short encode_bf16(float a) {
    unsigned short r;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r) : "f"(a));
    return r;
}
__device__ __forceinline__ unsigned short fma_bf16(unsigned short a, unsigned short b, unsigned short c) {
    unsigned short r;
    asm("fma.rn.bf16 %0, %1, %2, %3;" : "=h"(r) : "h"(a), "h"(b), "h"(c));
    return r;
}
#else
__device__ __forceinline__ unsigned short encode_bf16(float a) { return (unsigned short)encode_rne<7, -126, 0x7f7f, 0x7f80, 0x7fc0, 15, true>(a); }
__device__ __forceinline__ unsigned short fma_bf16(unsigned short a, unsigned short b, unsigned short c) {
    return encode_bf16(float_round_odd(fma_round_odd(decode_bf16(a), decode_bf16(b), decode_bf16(c))));
}
#endif
#if __CUDA_ARCH__ >= 900
__device__ __forceinline__ unsigned short add_bf16(unsigned short a, unsigned short b) {
    unsigned short r;
    asm("add.rn.bf16 %0, %1, %2;" : "=h"(r) : "h"(a), "h"(b));
    return r;
}
__device__ __forceinline__ unsigned short sub_bf16(unsigned short a, unsigned short b) {
    unsigned short r;
    asm("sub.rn.bf16 %0, %1, %2;" : "=h"(r) : "h"(a), "h"(b));
    return r;
}
__device__ __forceinline__ unsigned short mul_bf16(unsigned short a, unsigned short b) {
    unsigned short r;
    asm("mul.rn.bf16 %0, %1, %2;" : "=h"(r) : "h"(a), "h"(b));
    return r;
}
#else
__device__ __forceinline__ unsigned short add_bf16(unsigned short a, unsigned short b) { return encode_bf16(decode_bf16(a) + decode_bf16(b)); }
__device__ __forceinline__ unsigned short sub_bf16(unsigned short a, unsigned short b) { return encode_bf16(decode_bf16(a) - decode_bf16(b)); }
__device__ __forceinline__ unsigned short mul_bf16(unsigned short a, unsigned short b) { return encode_bf16(decode_bf16(a) * decode_bf16(b)); }
#endif
