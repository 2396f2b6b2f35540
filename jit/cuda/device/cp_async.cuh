// Copies to shared memory that threads issue and wait for (PTX ISA, "cp.async").
#pragma once

/// 16 bytes, of which the first `bytes` are read and the rest is zero.
__device__ __forceinline__ void copy_async_16(unsigned to, const void* from, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
template <int width>
__device__ __forceinline__ void copy_async(unsigned to, const void* from, int bytes) {
    if (width == 16)
        copy_async_16(to, from, bytes);
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(width), "r"(bytes) : "memory");
}
__device__ __forceinline__ void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Until at most `newer` groups are on their way (a smaller number waits for more than is asked).
__device__ __forceinline__ void copy_async_wait(int newer) {
    if (newer >= 3)
        asm volatile("cp.async.wait_group 3;" ::: "memory");
    else if (newer == 2)
        asm volatile("cp.async.wait_group 2;" ::: "memory");
    else if (newer == 1)
        asm volatile("cp.async.wait_group 1;" ::: "memory");
    else
        asm volatile("cp.async.wait_group 0;" ::: "memory");
}
