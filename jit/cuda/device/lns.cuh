// log2 by repeated squaring: 62 bits are exact, far finer than the 53 bits that distinguish neighbours of a code's value.
#pragma once
#include "jit/cuda/device/integer_bits.cuh"
#include "jit/cuda/device/number.cuh"
#include "jit/cuda/device/scale_by.cuh"

__device__ __forceinline__ long long logarithm(unsigned code, int bits) {
    return (long long)((unsigned long long)code << (65 - bits)) >> (65 - bits);
}
__device__ __forceinline__ Number lns_number(unsigned code, const unsigned long long* significands, int bits, int frac_bits) {
    const long long log = logarithm(code, bits), whole = log >> frac_bits, part = log & ((1ll << frac_bits) - 1);
    const bool negative = (code >> (bits - 1) & 1) != 0, none = log == -(1ll << (bits - 2));
    const Number n = {none ? 0 : significands[part], (int)whole - 63, negative && !none, part != 0 && !none, none && negative ? 2 : 0};
    return n;
}
__device__ __forceinline__ double lns_value(const Number& n) {
    const double v = n.kind == 2 ? as_double(0x7ff8000000000000ull) : n.significand == 0 ? 0.0 : scale_by((double)n.significand, n.exponent);
    return n.negative ? -v : v;
}
__device__ __forceinline__ unsigned long long lns_code(long long base, Cut cut, bool negative, int bits, int mode, unsigned long long random) {
    const unsigned long long zero = 1ull << (bits - 2), sign = negative ? 1ull << (bits - 1) : 0;
    const long long largest = (long long)zero - 1, floor_log = base + (long long)cut.whole;
    const bool vanishes = (floor_log < -largest) & rounds_toward_zero(mode, negative);
    cut.whole = (unsigned long long)floor_log;
    long long log = floor_log + round_up(cut, negative, mode, random);
    log = log > largest ? largest : log < -largest ? -largest : log;
    return vanishes ? zero : ((unsigned long long)log & ((1ull << (bits - 1)) - 1)) | sign;
}
__device__ __forceinline__ unsigned long long lns_round(const Number& v, int bits, int frac_bits, int mode, unsigned long long random) {
    const unsigned long long zero = 1ull << (bits - 2), sign = v.negative ? 1ull << (bits - 1) : 0;
    unsigned long long code = v.kind == 2 ? 3ull << (bits - 2) : v.kind == 1 ? (zero - 1) | sign : zero;
    if ((v.kind == 0) & !is_zero(v)) {
        const Number n = normalise(v);
        unsigned long long x = n.significand;
        Cut cut = {0, 0, v.sticky};
#pragma unroll 1
        for (int i = 0; i < frac_bits + 64; ++i) {
            const unsigned long long square = high_product(x, x);
            const bool one = square >> 63 != 0;
            x = one ? square : square << 1 | (x * x) >> 63;
            if (i < frac_bits)
                cut.whole = cut.whole << 1 | one;
            else
                cut.fraction = cut.fraction << 1 | one;
        }
        code = lns_code((long long)(n.exponent + 63) * (1ll << frac_bits), cut, v.negative, bits, mode, random);
    }
    return code;
}
__device__ __forceinline__ unsigned long long lns_convert(unsigned code, int bits, int frac_bits, int from_bits, int from_frac_bits, int mode,
                                                          unsigned long long random) {
    const bool negative = (code >> (from_bits - 1) & 1) != 0;
    const long long log = logarithm(code, from_bits);
    const bool none = log == -(1ll << (from_bits - 2));
    const int fewer = from_frac_bits - frac_bits, more = fewer < 0 ? -fewer : 0, shift = fewer > 0 ? fewer : 0;
    const Cut cut = {0, fewer > 0 ? (unsigned long long)log << (64 - shift & 63) : 0, false};
    const unsigned long long rounded = lns_code(log * (1ll << more) >> shift, cut, negative, bits, mode, random);
    return none ? (negative ? 3ull : 1ull) << (bits - 2) : rounded;
}
