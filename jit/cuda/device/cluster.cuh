// Peers start, and end, together: nobody touches the shared memory of a CTA that is not there yet or no more.
#pragma once

__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive;" ::: "memory"); }
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait;" ::: "memory"); }
/// Where in the memory of a cluster the CTA of that rank has what this one has at `address`.
__device__ __forceinline__ unsigned address_in_cluster(unsigned address, unsigned rank) {
    unsigned there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    return there;
}
__device__ __forceinline__ void mbarrier_arrive_at(unsigned there) {
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(there) : "memory");
}
