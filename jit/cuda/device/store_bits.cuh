// Writes an element of any width. A byte that is shared with a neighbour is written by atomics on its word.
#pragma once

template <int kWidth>
__device__ __forceinline__ void store_bits(unsigned char* base, long long bit, unsigned long long code) {
    unsigned char* at = base + (bit >> 3);
    if (kWidth % 8 == 0) {
#pragma unroll
        for (int i = 0; i < kWidth / 8; ++i) at[i] = (unsigned char)(code >> (8 * i));
        return;
    }
    const int before = (int)((unsigned long long)at & 3);
    unsigned* word = (unsigned*)(at - before);
    const int shift = (int)(bit & 7) + 8 * before;
    code = code << (64 - kWidth) >> (64 - kWidth);
    const unsigned long long mask = ~0ull >> (64 - kWidth);
#pragma unroll
    for (int i = 0; i < 3; ++i) {
        const int down = 32 * i - shift;
        const unsigned bits = (unsigned)(down >= 64 ? 0 : down >= 0 ? code >> down : code << -down);
        const unsigned touched = (unsigned)(down >= 64 ? 0 : down >= 0 ? mask >> down : mask << -down);
        if (touched == 0) continue;
        if (touched & ~bits) atomicAnd(word + i, ~(touched & ~bits));
        if (bits) atomicOr(word + i, bits);
    }
}
