// What tests say to the stand-in for the CUDA driver (fake_cuda.cpp): a library of its own with memory of the host in place of the device's.
#pragma once
#include <cstdint>

struct FakeLaunch {
    unsigned grid, threads, shared;
    void* stream;
    void** params;
    bool captured;
    unsigned cluster;  ///< CTAs
};
struct FakeCuda {
    void (*on_launch)(void* user, const FakeLaunch& launch);  ///< plays the kernel
    void* user;
    int64_t fail_at;      ///< the call of this number fails (out of memory), counted from 1 over all that may fail; 0: none
    int64_t calls;        ///< that may fail, so far
    int64_t allocations;  ///< alive
    int64_t libraries;    ///< alive
    int64_t contexts;     ///< pushed and not popped
    int64_t copies, syncs;
    struct Map {
        int type;
        uint32_t rank;
        uint64_t address, extents[5], strides[5];
        uint32_t box[5];
        int swizzle;
    } map;  ///< the last one that was encoded
};
extern "C" FakeCuda* fake_cuda();
