// What CUDA C++ gives to emitted kernels, on a CPU: included before the text of a kernel that g++ compiles (nvrtc.cpp rewrites asm statements and
// shared arrays). Everything that needs other threads goes through a table of functions of the machine (machine.h). No headers: this is compiled per
// kernel.
#pragma once

struct CpuIndex {
    unsigned x, y, z;
};
/// An operand of an asm statement.
struct CpuOperand {
    char kind;  ///< constraint letter: r l f d h n
    bool output;
    void* address;
    unsigned long long value;
};
/// What the machine offers to running threads. The first members are the registers of the thread that runs now.
struct CpuMachine {
    CpuIndex thread_index, block_index, block_dim, grid_dim;
    unsigned char* shared;
    void (*barrier)(int id, int threads);
    /// All lanes of `mask` meet; lane `source` of the result is that lane's value. op: 0 shuffle, 1 ballot (value: bool), 2 nothing.
    void (*warp)(int op, unsigned mask, const void* in, void* out, int bytes, int source);
    void (*pause)();  ///< lets others run
    void (*ptx)(void** parsed, const char* text, CpuOperand* operands, int count);
    /// Rounded down or up. op: 'f' a * b + c, '/' a / b, 's' root of a.
    double (*directed)(char op, double a, double b, double c, int up);
    void (*fail)(const char* why);
};
#ifndef TEGULA_ON_CPU_MACHINE

extern "C" {
CpuMachine* cpu_machine = 0;
float fabsf(float) noexcept;
float fmaf(float, float, float) noexcept;
float sqrtf(float) noexcept;
float floorf(float) noexcept;
float ceilf(float) noexcept;
float truncf(float) noexcept;
float nearbyintf(float) noexcept;
float rintf(float) noexcept;
float copysignf(float, float) noexcept;
float fmodf(float, float) noexcept;
double fabs(double) noexcept;
double fma(double, double, double) noexcept;
double sqrt(double) noexcept;
double floor(double) noexcept;
double ceil(double) noexcept;
double trunc(double) noexcept;
double nearbyint(double) noexcept;
double rint(double) noexcept;
double copysign(double, double) noexcept;
double fmod(double, double) noexcept;
double exp2(double) noexcept;
double log2(double) noexcept;
double sin(double) noexcept;
double cos(double) noexcept;
double tanh(double) noexcept;
void* memcpy(void*, const void*, unsigned long) noexcept;
}

#define __device__
#define __host__
#define __global__
#define __constant__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) alignas(n)
#define threadIdx cpu_machine->thread_index
#define blockIdx cpu_machine->block_index
#define blockDim cpu_machine->block_dim
#define gridDim cpu_machine->grid_dim

#define CPU_VECTORS(T, name, align2, align4)                   \
    struct alignas(align2) name##2 {                           \
        T x, y;                                                \
    };                                                         \
    struct alignas(align4) name##4 {                           \
        T x, y, z, w;                                          \
    };                                                         \
    inline name##2 make_##name##2(T x, T y) { return {x, y}; } \
    inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
CPU_VECTORS(signed char, char, 2, 4)
CPU_VECTORS(unsigned char, uchar, 2, 4)
CPU_VECTORS(short, short, 4, 8)
CPU_VECTORS(unsigned short, ushort, 4, 8)
CPU_VECTORS(int, int, 8, 16)
CPU_VECTORS(unsigned, uint, 8, 16)
CPU_VECTORS(float, float, 8, 16)
CPU_VECTORS(long long, longlong, 16, 16)
CPU_VECTORS(unsigned long long, ulonglong, 16, 16)
CPU_VECTORS(double, double, 16, 16)
#undef CPU_VECTORS

inline void __syncthreads() { cpu_machine->barrier(0, (int)cpu_machine->block_dim.x); }
inline void __syncwarp(unsigned mask = 0xffffffffu) { cpu_machine->warp(2, mask, 0, 0, 0, 0); }
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
inline void __nanosleep(unsigned) { cpu_machine->pause(); }
inline void __trap() { cpu_machine->fail("__trap"); }

inline unsigned cpu_lane() { return cpu_machine->thread_index.x & 31; }
template <class T>
inline T __shfl_sync(unsigned mask, T v, int lane, int width = 32) {
    T r;
    cpu_machine->warp(0, mask, &v, &r, sizeof(T), (int)((cpu_lane() & ~(unsigned)(width - 1)) | ((unsigned)lane & (width - 1))));
    return r;
}
template <class T>
inline T __shfl_xor_sync(unsigned mask, T v, int lane, int width = 32) {
    return __shfl_sync(mask, v, (int)(cpu_lane() ^ (unsigned)lane), width);
}
template <class T>
inline T __shfl_up_sync(unsigned mask, T v, unsigned delta, int width = 32) {
    const int lane = (int)(cpu_lane() & (unsigned)(width - 1)) - (int)delta;
    return __shfl_sync(mask, v, lane < 0 ? (int)cpu_lane() : lane, width);
}
template <class T>
inline T __shfl_down_sync(unsigned mask, T v, unsigned delta, int width = 32) {
    const int lane = (int)(cpu_lane() & (unsigned)(width - 1)) + (int)delta;
    return __shfl_sync(mask, v, lane >= width ? (int)cpu_lane() : lane, width);
}
inline unsigned __ballot_sync(unsigned mask, int predicate) {
    unsigned char v = predicate != 0;
    unsigned r = 0;
    cpu_machine->warp(1, mask, &v, &r, 1, 0);
    return r;
}
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) == mask; }
template <class T>
inline T min(T a, T b) {
    return a < b ? a : b;
}
template <class T>
inline T max(T a, T b) {
    return a < b ? b : a;
}
inline int __popc(unsigned v) { return __builtin_popcount(v); }
inline int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
inline int __clz(int v) { return v ? __builtin_clz((unsigned)v) : 32; }
inline int __ffs(int v) { return __builtin_ffs(v); }
inline unsigned long __cvta_generic_to_shared(const void* p) { return (unsigned long)((const unsigned char*)p - cpu_machine->shared) + 1024; }

// Threads change only where they wait, so that a plain read, change and write is atomic.
#define CPU_ATOMIC(name, expression)        \
    template <class T, class U>             \
    inline T name(T* p, U value) {          \
        const T old = *p, v = (T)value;     \
        *p = (T)(expression);               \
        return old;                         \
    }                                       \
    template <class T, class U>             \
    inline T name##_block(T* p, U value) {  \
        return name(p, value);              \
    }                                       \
    template <class T, class U>             \
    inline T name##_system(T* p, U value) { \
        return name(p, value);              \
    }
CPU_ATOMIC(atomicAdd, old + v)
CPU_ATOMIC(atomicMin, old < v ? old : v)
CPU_ATOMIC(atomicMax, old < v ? v : old)
CPU_ATOMIC(atomicAnd, old& v)
CPU_ATOMIC(atomicOr, old | v)
CPU_ATOMIC(atomicXor, old ^ v)
CPU_ATOMIC(atomicExch, (old, v))
#undef CPU_ATOMIC
template <class T, class U, class V>
inline T atomicCAS(T* p, U expected, V value) {
    const T old = *p;
    if (old == (T)expected)
        *p = (T)value;
    else
        cpu_machine->pause();
    return old;
}
template <class T, class U, class V>
inline T atomicCAS_block(T* p, U expected, V value) {
    return atomicCAS(p, expected, value);
}
template <class T, class U, class V>
inline T atomicCAS_system(T* p, U expected, V value) {
    return atomicCAS(p, expected, value);
}

template <class T>
inline CpuOperand cpu_out(const char* constraint, T& v) {
    return {constraint[1] == '&' ? constraint[2] : constraint[1], true, &v, 0};
}
template <class T>
inline CpuOperand cpu_in(const char* constraint, T v) {
    CpuOperand o = {constraint[0], false, 0, 0};
    memcpy(&o.value, &v, sizeof(T));
    if (constraint[0] == 'n' || constraint[0] == 'r') o.value = (unsigned)o.value;
    return o;
}
#define CPU_ASM(text, ...)                                                                            \
    do {                                                                                              \
        static void* parsed = 0;                                                                      \
        CpuOperand operands[] = {CpuOperand{}, ##__VA_ARGS__};                                        \
        cpu_machine->ptx(&parsed, text, operands + 1, (int)(sizeof operands / sizeof *operands) - 1); \
    } while (0)

#include "instructions.h"

template <class T>
struct CpuBare {
    typedef T type;
};
template <class T>
struct CpuBare<const T> {
    typedef T type;
};
template <int... I>
struct CpuInts {};
template <class... A, int... I>
inline void cpu_call(void (*kernel)(A...), void** p, CpuInts<I...>) {
    kernel(*(typename CpuBare<A>::type*)p[I]...);
}
template <int n, int... I>
struct CpuCount : CpuCount<n - 1, n - 1, I...> {};
template <int... I>
struct CpuCount<0, I...> {
    typedef CpuInts<I...> type;
};
template <class... A>
inline void cpu_call(void (*kernel)(A...), void** p) {
    cpu_call(kernel, p, typename CpuCount<sizeof...(A)>::type());
}
#endif
