// Signed overflow would be undefined: signs are handled on the unsigned type.
#pragma once

__device__ __forceinline__ int negate(int a) { return (int)(0u - (unsigned)a); }
__device__ __forceinline__ unsigned negate(unsigned a) { return 0u - a; }
__device__ __forceinline__ long long negate(long long a) { return (long long)(0ull - (unsigned long long)a); }
__device__ __forceinline__ unsigned long long negate(unsigned long long a) { return 0ull - a; }
// ptxas 13.0 loses the sign change of the middle operand of a minimum of three integers (VIMNMX3), and makes the minimum of changed signs the changed
// sign of the maximum, which fails for the smallest number. It leaves alone what it does not know for a sign change.
__device__ __forceinline__ unsigned opposite(unsigned a) {
    unsigned r;
    asm("{\n.reg .b32 n;\nnot.b32 n, %1;\nadd.s32 %0, n, 1;\n}" : "=r"(r) : "r"(a));
    return r;
}
__device__ __forceinline__ unsigned long long opposite(unsigned long long a) {
    unsigned long long r;
    asm("{\n.reg .b64 n;\nnot.b64 n, %1;\nadd.s64 %0, n, 1;\n}" : "=l"(r) : "l"(a));
    return r;
}
// ptxas 13.0 branches wrongly on "is the minimum of a and c, but at least 0, equal to c?" (VIMNMX.RELU with a predicate, negative a): maxima with 0
// are written in a way that it does not know for one.
__device__ __forceinline__ int positive_part(int a) {
    int r;
    asm("{\n.reg .b32 s;\nshr.s32 s, %1, 31;\nnot.b32 s, s;\nand.b32 %0, %1, s;\n}" : "=r"(r) : "r"(a));
    return r;
}
__device__ __forceinline__ bool is_negative(int a) { return a < 0; }
__device__ __forceinline__ bool is_negative(long long a) { return a < 0; }
__device__ __forceinline__ bool is_negative(unsigned) { return false; }
__device__ __forceinline__ bool is_negative(unsigned long long) { return false; }
