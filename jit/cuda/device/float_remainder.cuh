// Remainders with the sign of the divisor.
#pragma once

__device__ __forceinline__ float rem_floor(float a, float b) {
    const float r = fmodf(a, b);
    const float shifted = ((r < 0) != (b < 0)) & (r == r) ? r + b : r;
    return r == 0 ? copysignf(0.0f, b) : shifted;
}
__device__ __forceinline__ double rem_floor(double a, double b) {
    const double r = fmod(a, b);
    const double shifted = ((r < 0) != (b < 0)) & (r == r) ? r + b : r;
    return r == 0 ? copysign(0.0, b) : shifted;
}
