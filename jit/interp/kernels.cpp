// Picks the inner loops for the CPU at hand, and the baseline loops that run on any.
#include "jit/interp/kernels.h"

#include <cmath>
#include <limits>

#include "lang/scalar.h"

#define TEGULA_KERNELS baseline
#include "jit/interp/kernels.inc"

namespace tegula::interp {

Kernels baseline_kernels() {
    Kernels k = baseline::make();
    k.level = "baseline";
    return k;
}

const Kernels& kernels() {
    static const Kernels table = [] {
#if defined(__x86_64__)
        __builtin_cpu_init();
        const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
        const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                            __builtin_cpu_supports("avx512vl");
        if (avx2 && avx512) return avx512_kernels();
        if (avx2) return avx2_kernels();
#endif
        return baseline_kernels();
    }();
    return table;
}

}  // namespace tegula::interp
