// The inner loops compiled for x86-64 with AVX2 and FMA; called only where kernels() has seen them.
#include <cmath>
#include <limits>

#include "jit/interp/kernels.h"
#include "lang/scalar.h"

#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,bmi,bmi2,lzcnt,popcnt,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,bmi,bmi2,lzcnt,popcnt,f16c")
#endif
#define TEGULA_KERNELS avx2
#include "jit/interp/kernels.inc"
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#else
#define TEGULA_KERNELS avx2
#include "jit/interp/kernels.inc"
#endif

namespace tegula::interp {

Kernels avx2_kernels() {
    Kernels k = avx2::make();
    k.level = "avx2";
    return k;
}

}  // namespace tegula::interp
