// A double as float, rounded to odd, so that one more rounding to nearest is as good as one from the double.
#pragma once
#include "jit/cuda/device/bits.cuh"

__device__ __forceinline__ float float_round_odd(double v) {
    const float r = (float)v;
    if ((double)r == v || v != v) return r;
    return as_float((float_bits(r) - (fabs((double)r) > fabs(v) ? 1 : 0)) | 1);
}
