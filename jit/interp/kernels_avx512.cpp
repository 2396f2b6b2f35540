// The inner loops compiled for x86-64 with AVX-512; called only where kernels() has seen them.
#include <cmath>
#include <limits>

#include "jit/interp/kernels.h"
#include "lang/scalar.h"

#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,bmi,bmi2,lzcnt,popcnt,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,bmi,bmi2,lzcnt,popcnt,f16c")
#endif
#define TEGULA_KERNELS avx512
#include "jit/interp/kernels.inc"
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#else
#define TEGULA_KERNELS avx512
#include "jit/interp/kernels.inc"
#endif

namespace tegula::interp {

Kernels avx512_kernels() {
    Kernels k = avx512::make();
    k.level = "avx512";
    return k;
}

}  // namespace tegula::interp
