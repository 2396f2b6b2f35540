// All threads of the group, without the producer's warps.
#pragma once

__device__ __forceinline__ void group_barrier(int threads) { asm volatile("bar.sync 1, %0;" ::"r"(threads) : "memory"); }
