// A box of 16 rows per warp: written, made visible to TMA, sent by lane 0. The other lanes have nothing to wait for.
#pragma once
#include "jit/cuda/device/tma.cuh"

__device__ __forceinline__ void stmatrix_x2(unsigned to, unsigned a, unsigned b) {
    asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(to), "r"(a), "r"(b) : "memory");
}
__device__ __forceinline__ void stmatrix_x4(unsigned to, unsigned a, unsigned b, unsigned c, unsigned d) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
/// Until all but `newer` copies of this thread have read shared memory.
template <int newer>
__device__ __forceinline__ void tma_store_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(newer) : "memory");
}
/// Until all copies of this thread are in global memory.
__device__ __forceinline__ void tma_store_done() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
