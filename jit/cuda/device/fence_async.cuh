// The fence between threads' accesses and those of asynchronous copies and products.
#pragma once

/// Writes of this thread to shared memory become visible to TMA and wgmma.
__device__ __forceinline__ void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
