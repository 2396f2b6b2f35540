// Copies of boxes by TMA (PTX ISA, "cp.async.bulk.tensor"); the copies themselves are generated per number of dimensions (bulk_function).
#pragma once
#include "jit/cuda/device/tensor_map.cuh"

__device__ __forceinline__ void tma_prefetch(const TensorMap* map) { asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory"); }
/// A coordinate far outside the tensor is as good as any other outside: it only must not wrap.
__device__ __forceinline__ int tma_coordinate(long long x) { return (int)(x < -0x40000000ll ? -0x40000000ll : x > 0x7fff0000ll ? 0x7fff0000ll : x); }
