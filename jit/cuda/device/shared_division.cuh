// Many numbers over one: the reciprocal, rounded to nearest, is the same for all of them and computed once. One correction of the product by its
// exact remainder gives the correctly rounded quotient as long as nothing over- or underflows on the way: where the product is one of the two
// neighbours of the quotient by a theorem (Markstein, IBM J. R&D 34, 1990), and else, it being off by less than 3/2 units, unless the quotient lies
// within 7/2 parts of the divisor's 24-bit integer from a tie; all these quotients of all divisors were tried.
#pragma once
#include "jit/cuda/device/bits.cuh"

__device__ __forceinline__ float nearest_reciprocal(float b) { return __frcp_rn(b); }
__device__ __noinline__ float any_division(float a, float b) { return a / b; }
// With a divisor in [2^-40, 2^40) and a dividend of 0 or in [2^-80, 2^80], quotients are normal and remainders exact. The remainder of 0 is +0 and
// leaves the product's sign, because it is taken away. Zeros are rare: the cheaper test is of magnitudes and declines them.
__device__ __forceinline__ bool is_shared_divisor(float b) { return float_bits(b) - 0x2b800000u < 0x28000000u; }
// Differences of f32 numbers and an `origin`, of whose squares the sum is known: none is larger than its root, and none but 0 smaller than 2^-80.
__device__ __forceinline__ bool are_moderate_distances(float origin, float squares) {
    return fabsf(origin) >= as_float(0x23800000u) && squares < as_float(0x7f800000u);
}
// The span of bits of numbers that are no moderate dividends when below zero.
struct PositiveDividends {
    unsigned low = ~0u, high = 0;
    __device__ __forceinline__ void add(float a) {
        low = float_bits(a) < low ? float_bits(a) : low;
        high = float_bits(a) > high ? float_bits(a) : high;
    }
    __device__ __forceinline__ bool moderate() const { return low >= 0x17800000u && high <= 0x67800000u; }
};
// As that with zeros: the low end less 1, so that they are above all others.
struct PositiveDividendsOrZeros {
    unsigned low = ~0u, high = 0;
    __device__ __forceinline__ void add(float a) {
        const unsigned below = float_bits(a) - 1;
        low = below < low ? below : low;
        high = float_bits(a) > high ? float_bits(a) : high;
    }
    __device__ __forceinline__ bool moderate() const { return low >= 0x177fffffu && high <= 0x67800000u; }
};
// The largest of all magnitudes' distances from the lowest, in halves of the last place; what lies below is far away.
struct Dividends {
    unsigned high = 0;
    __device__ __forceinline__ void add(float a) {
        const unsigned distance = 2 * float_bits(a) - 0x2f000000u;
        high = distance > high ? distance : high;
    }
    __device__ __forceinline__ bool moderate() const { return high <= 0xa0000000u; }
};
// As that with zeros.
struct DividendsOrZeros {
    unsigned low = ~0u, high = 0;
    __device__ __forceinline__ void add(float a) {
        const unsigned bits = float_bits(a) & 0x7fffffffu, below = bits - 1;
        low = below < low ? below : low;
        high = bits > high ? bits : high;
    }
    __device__ __forceinline__ bool moderate() const { return low >= 0x177fffffu && high <= 0x67800000u; }
};
__device__ __forceinline__ float reciprocal_division(float a, float b, float y) {
    const float first = a * y;
    return fmaf(-y, fmaf(b, first, -a), first);
}
