// Float to integer: saturating, NaN gives 0. The instructions do it, except that NaN gives the top bit from double and to 64 bits.
#pragma once

#define TO_INTEGER(mode, cuda)                                                                                            \
    __device__ __forceinline__ int to_int_##mode(float v) { return __float2int_##cuda(v); }                               \
    __device__ __forceinline__ unsigned to_uint_##mode(float v) { return __float2uint_##cuda(v); }                        \
    __device__ __forceinline__ long long to_long_##mode(float v) { return v == v ? __float2ll_##cuda(v) : 0; }            \
    __device__ __forceinline__ unsigned long long to_ulong_##mode(float v) { return v == v ? __float2ull_##cuda(v) : 0; } \
    __device__ __forceinline__ int to_int_##mode(double v) { return v == v ? __double2int_##cuda(v) : 0; }                \
    __device__ __forceinline__ unsigned to_uint_##mode(double v) { return v == v ? __double2uint_##cuda(v) : 0; }         \
    __device__ __forceinline__ long long to_long_##mode(double v) { return v == v ? __double2ll_##cuda(v) : 0; }          \
    __device__ __forceinline__ unsigned long long to_ulong_##mode(double v) { return v == v ? __double2ull_##cuda(v) : 0; }
TO_INTEGER(rne, rn)
TO_INTEGER(rtz, rz)
TO_INTEGER(ru, ru)
TO_INTEGER(rd, rd)
#undef TO_INTEGER
__device__ __forceinline__ unsigned at_most(unsigned v, unsigned high) { return v < high ? v : high; }
__device__ __forceinline__ unsigned long long at_most(unsigned long long v, unsigned long long high) { return v < high ? v : high; }
__device__ __forceinline__ int clamp(int v, int low, int high) { return v < low ? low : v > high ? high : v; }
__device__ __forceinline__ long long clamp(long long v, long long low, long long high) { return v < low ? low : v > high ? high : v; }
