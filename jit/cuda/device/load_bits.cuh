// Reads an element of any width. No byte outside those that hold it is touched.
#pragma once

template <int kWidth>
__device__ __forceinline__ unsigned long long load_bits(const unsigned char* base, long long bit) {
    const unsigned char* at = base + (bit >> 3);
    const int shift = (int)(bit & 7), bytes = (shift + kWidth + 7) / 8;
    if (8 % kWidth == 0) return (unsigned)*at >> shift & ((1u << (kWidth & 15)) - 1);
    unsigned long long low = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i)
        if (8 * i < kWidth + 7 && i < bytes) low |= (unsigned long long)at[i] << (8 * i);
    low >>= shift;
    if (kWidth > 57 && bytes == 9) low |= (unsigned long long)at[8] << (64 - shift);
    return low << (64 - kWidth) >> (64 - kWidth);
}
