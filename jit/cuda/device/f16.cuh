// f16 by its instructions, in 16-bit registers.
#pragma once

__device__ __forceinline__ float decode_f16(unsigned short a) {
    float r;
    asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(a));
    return r;
}
__device__ __forceinline__ unsigned short encode_f16(float a) {
    unsigned short r;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(a));
    return r;
}
__device__ __forceinline__ unsigned short add_f16(unsigned short a, unsigned short b) {
    unsigned short r;
    asm("add.rn.f16 %0, %1, %2;" : "=h"(r) : "h"(a), "h"(b));
    return r;
}
__device__ __forceinline__ unsigned short sub_f16(unsigned short a, unsigned short b) {
    unsigned short r;
    asm("sub.rn.f16 %0, %1, %2;" : "=h"(r) : "h"(a), "h"(b));
    return r;
}
__device__ __forceinline__ unsigned short mul_f16(unsigned short a, unsigned short b) {
    unsigned short r;
    asm("mul.rn.f16 %0, %1, %2;" : "=h"(r) : "h"(a), "h"(b));
    return r;
}
__device__ __forceinline__ unsigned short fma_f16(unsigned short a, unsigned short b, unsigned short c) {
    unsigned short r;
    asm("fma.rn.f16 %0, %1, %2, %3;" : "=h"(r) : "h"(a), "h"(b), "h"(c));
    return r;
}
