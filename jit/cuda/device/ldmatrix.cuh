// 8x8 matrices of 16-bit elements from shared memory to the fragments of products.
#pragma once
#include "jit/cuda/device/shared.cuh"

__device__ __forceinline__ void ldmatrix_x2(unsigned& a, unsigned& b, unsigned from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(a), "=r"(b) : "r"(from) : "memory");
}
__device__ __forceinline__ void ldmatrix_x2_trans(unsigned& a, unsigned& b, unsigned from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];" : "=r"(a), "=r"(b) : "r"(from) : "memory");
}
__device__ __forceinline__ void ldmatrix_x4(unsigned& a, unsigned& b, unsigned& c, unsigned& d, unsigned from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(from) : "memory");
}
__device__ __forceinline__ void ldmatrix_x4_trans(unsigned& a, unsigned& b, unsigned& c, unsigned& d, unsigned from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
                 : "r"(from)
                 : "memory");
}
