// Descriptor of an operand in shared memory, offsets in bytes. swizzle: 1 128, 2 64, 3 32 bytes.
#pragma once
#include "jit/cuda/device/shared.cuh"

__device__ __forceinline__ unsigned long long wgmma_descriptor(unsigned address, unsigned leading, unsigned stride, unsigned long long swizzle) {
    return (unsigned long long)((address & 0x3ffffu) >> 4) | (unsigned long long)(leading >> 4) << 16 | (unsigned long long)(stride >> 4) << 32 |
           swizzle << 62;
}
/// The same in all lanes, and known to be: what depends on it lies in uniform registers.
__device__ __forceinline__ int uniform(int v) { return __shfl_sync(0xffffffffu, v, 0); }
