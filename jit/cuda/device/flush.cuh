// The instructions that flush subnormal operands and results differ between machines where a result rounds up to the smallest normal number; a
// product with 1 does not round.
#pragma once

template <class T>
__device__ __forceinline__ T flush_below(T a, T least) {
    return fabs(a) < least ? copysign(T(0), a) : a;
}
__device__ __forceinline__ float flush_subnormal(float a) {
    float r;
    asm("mul.ftz.f32 %0, %1, 0f3f800000;" : "=f"(r) : "f"(a));
    return r;
}
__device__ __forceinline__ double flush_subnormal(double a) { return flush_below(a, 0x1p-1022); }
