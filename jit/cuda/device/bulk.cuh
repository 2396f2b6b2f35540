// Bytes [at, at + bytes) of a tensor, as far as it has them, to shared memory; the barrier's phase waits for them.
#pragma once
#include "jit/cuda/device/mbarrier.cuh"

__device__ __forceinline__ void bulk_load(unsigned to, const void* tensor, unsigned long long at, unsigned long long size, unsigned bytes,
                                          unsigned barrier) {
    if (at >= size)
        bytes = 0;
    else if (size - at < bytes)
        bytes = (unsigned)(size - at) & ~15u;
    mbarrier_expect(barrier, bytes);
    if (bytes)
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                     "l"((const unsigned char*)tensor + at), "r"(bytes), "r"(barrier)
                     : "memory");
}
