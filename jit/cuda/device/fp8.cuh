// 8-bit floats by the instructions of sm_89, else through float.
#pragma once
#include "jit/cuda/device/encode_rne.cuh"
#include "jit/cuda/device/f16.cuh"

#if __CUDA_ARCH__ >= 890
__device__ __forceinline__ float decode_f8e4m3(unsigned char a) {
    unsigned pair;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"((unsigned short)a));
    return decode_f16((unsigned short)pair);
}
__device__ __forceinline__ unsigned char encode_f8e4m3(float a) {
    unsigned short r;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(r) : "f"(0.0f), "f"(a));
    return (unsigned char)r;
}
#else
__device__ __forceinline__ float decode_f8e4m3(unsigned char a) {
    const unsigned m = a & 0x7fu, sign = (a & 0x80u) << 24;
    return as_float(m == 0x7fu ? 0x7fc00000u : float_bits(as_float(m << 20) * 0x1p120f) | sign);
}
__device__ __forceinline__ unsigned char encode_f8e4m3(float a) { return (unsigned char)encode_rne<3, -6, 0x7e, 0x7e, 0x7f, 7, true>(a); }
#endif
__device__ __forceinline__ float decode_f8e5m2(unsigned char a) { return decode_f16((unsigned short)(a << 8)); }
__device__ __forceinline__ unsigned char encode_f8e5m2(float a) { return (unsigned char)encode_rne<2, -14, 0x7b, 0x7c, 0x7e, 7, true>(a); }
