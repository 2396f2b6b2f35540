// What tests say to the stand-in for the CUDA driver (fake_cuda.cpp): a library of its own with memory of the host in place of the devices'.
#pragma once
#include <cstdint>

/// What a CUcontext points to here: tests make those that are no primary ones.
struct FakeContext {
    int device;
};
struct FakeLaunch {
    unsigned grid, threads, shared;
    void* stream;
    void** params;
    bool captured;     ///< comes out of a graph
    unsigned cluster;  ///< CTAs
    const FakeContext* context;
};
struct FakeCuda {
    void (*on_launch)(void* user, const FakeLaunch& launch) = nullptr;  ///< plays the kernel
    void* user = nullptr;
    int capability[2] = {90, 80};  ///< of the two devices, as 10 * major + minor
    int params = 0;                ///< of the kernels that a capture records
    bool ptx = false;              ///< the last image that was loaded was PTX, for the architecture
    int ptx_target = 0;            ///< of this number
    int64_t fail_at = 0;           ///< the call of this number fails (out of memory), counted from 1 over all that may fail; 0: none
    int64_t calls = 0;             ///< that may fail, so far
    int64_t allocations = 0;       ///< alive
    int64_t libraries = 0;         ///< alive
    int64_t contexts = 0;          ///< pushed and not popped
    int64_t copies = 0, syncs = 0;
    struct Map {
        int type;
        uint32_t rank;
        uint64_t address, extents[5], strides[5];
        uint32_t box[5];
        int swizzle;
    } map = {};  ///< the last one that was encoded
};
extern "C" FakeCuda* fake_cuda();
