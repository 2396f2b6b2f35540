// Tensor memory: one warp takes and gives back columns; address = lane << 16 | column. Descriptor of an operand in shared memory: offsets in bytes,
// swizzle 2 128, 4 64, 6 32 bytes, bit 46 says sm_100.
#pragma once
#include "jit/cuda/device/mbarrier.cuh"

template <int columns>
__device__ __forceinline__ void take_tensor_memory(unsigned to) {
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(to), "n"(columns) : "memory");
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::: "memory");
}
/// Orders this thread's work in tensor memory before what follows the next meeting, and after it.
__device__ __forceinline__ void tensor_fence_before() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }
__device__ __forceinline__ void tensor_fence_after() { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); }
template <int columns>
__device__ __forceinline__ void give_tensor_memory(unsigned from) {
    tensor_fence_after();
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(from), "n"(columns) : "memory");
}
/// Until this thread's stores are in tensor memory.
__device__ __forceinline__ void tensor_stored() {
    asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
    tensor_fence_before();
}
__device__ __forceinline__ unsigned long long tensor_descriptor(unsigned address, unsigned leading, unsigned stride, unsigned long long swizzle) {
    return (unsigned long long)((address & 0x3ffffu) >> 4) | (unsigned long long)(leading >> 4) << 16 | (unsigned long long)(stride >> 4) << 32 |
           1ull << 46 | swizzle << 61;
}
/// Arrives when all products that this thread has asked for are done.
__device__ __forceinline__ void products_commit(unsigned barrier) {
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(barrier) : "memory");
}
/// All warps arrive; until the products are done and all have come.
__device__ __forceinline__ void products_wait(int t, unsigned done, unsigned phase) {
    if (t == 0) products_commit(done);
    __syncwarp();
    if ((t & 31) == 0) mbarrier_arrive(done);
    mbarrier_wait(done, phase);
    __syncwarp();  // what follows is for whole warps
    tensor_fence_after();
}
