// Times a power of two, of any exponent that a double has.
#pragma once
#include "jit/cuda/device/bits.cuh"

__device__ __forceinline__ double scale_by(double v, int exponent) {
    const int half = exponent / 2;
    return v * as_double((unsigned long long)(half + 1023) << 52) * as_double((unsigned long long)(exponent - half + 1023) << 52);
}
