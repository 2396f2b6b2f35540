// Peers in this process: cuBLAS, opened at run time with our own declarations of the few functions used.
#pragma once
#include <memory>

#include "jit/cuda/driver.h"

namespace gpu_bench {

class Cublas {
public:
    /// Null where there is no cuBLAS.
    static std::unique_ptr<Cublas> open();
    ~Cublas();
    enum Type { bf16, f16, i8 };
    /// c[M, N] = a[M, K] @ b, all by rows; `nt`: b is stored as [N, K]. i8 gives i32.
    void matmul(tegula::cuda::CUstream stream, Type type, bool nt, int m, int n, int k, tegula::cuda::CUdeviceptr a, tegula::cuda::CUdeviceptr b,
                tegula::cuda::CUdeviceptr c);

private:
    Cublas() = default;
    void* library_ = nullptr;
    void* handle_ = nullptr;
    int (*create_)(void**) = nullptr;
    int (*destroy_)(void*) = nullptr;
    int (*set_stream_)(void*, void*) = nullptr;
    int (*gemm_)(void*, int, int, int, int, int, const void*, const void*, int, int, const void*, int, int, const void*, void*, int, int, int, int) = nullptr;
};

}  // namespace gpu_bench
