// Addresses in shared memory, which have 32 bits.
#pragma once

/// Address in the window of shared memory.
__device__ __forceinline__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
