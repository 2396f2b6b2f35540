// A wait spins inside PTX; labels are local to the braces, so that inlined copies do not clash.
#pragma once

__device__ __forceinline__ void mbarrier_init(unsigned barrier, unsigned arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
/// Initialised barriers become visible to TMA; other threads see them after a barrier of the CTA.
__device__ __forceinline__ void mbarrier_init_fence() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
/// Arrives, and the phase also waits for `bytes` that copies bring.
__device__ __forceinline__ void mbarrier_expect(unsigned barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ __forceinline__ void mbarrier_arrive(unsigned barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
/// Until the phase of this parity is complete.
__device__ __forceinline__ void mbarrier_wait(unsigned barrier, unsigned parity) {
    asm volatile(
        "{\n.reg .pred complete;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 complete, [%0], %1;\n@complete bra done;\nbra again;\ndone:\n}" ::
            "r"(barrier),
        "r"(parity)
        : "memory");
}
