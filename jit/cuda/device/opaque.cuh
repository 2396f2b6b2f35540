// See Prelude::opaque.
#pragma once

template <class T>
__device__ __forceinline__ T opaque(T a) {
    if constexpr (sizeof(T) == 8)
        asm("" : "+l"(a));
    else if constexpr (sizeof(T) == 4)
        asm("" : "+r"(a));
    else
        a = (T)opaque((unsigned)a);
    return a;
}
