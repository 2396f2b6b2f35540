// cuBLAS by dlopen (gpu_peers.h).
#include "bench/gpu_peers.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace gpu_bench {

namespace {
// cudaDataType_t, cublasComputeType_t, cublasOperation_t, cublasGemmAlgo_t
constexpr int kR16F = 2, kR8I = 3, kR32I = 10, kR16BF = 14, kCompute32F = 68, kCompute32I = 72, kDefaultTensorOp = 99;
}  // namespace

std::unique_ptr<Cublas> Cublas::open() {
    std::unique_ptr<Cublas> c(new Cublas);
    for (const char* name : {"libcublas.so.13", "/usr/local/cuda/lib64/libcublas.so.13", "libcublas.so.12", "libcublas.so"})
        if ((c->library_ = dlopen(name, RTLD_NOW))) break;
    if (!c->library_) return nullptr;
    const auto load = [&](auto& fn, const char* name) {
        return (fn = reinterpret_cast<std::remove_reference_t<decltype(fn)>>(dlsym(c->library_, name)));
    };
    if (!load(c->create_, "cublasCreate_v2") || !load(c->destroy_, "cublasDestroy_v2") || !load(c->set_stream_, "cublasSetStream_v2") ||
        !load(c->gemm_, "cublasGemmEx") || c->create_(&c->handle_) != 0)
        return nullptr;
    return c;
}

Cublas::~Cublas() {
    if (handle_) destroy_(handle_);
}

void Cublas::matmul(tegula::cuda::CUstream stream, Type type, bool nt, int m, int n, int k, tegula::cuda::CUdeviceptr a, tegula::cuda::CUdeviceptr b,
                    tegula::cuda::CUdeviceptr c) {
    set_stream_(handle_, stream);
    const float one = 1, zero = 0;
    const int ione = 1, izero = 0;
    const int in = type == bf16 ? kR16BF : type == f16 ? kR16F : kR8I, out = type == i8 ? kR32I : in;
    const void* alpha = type == i8 ? static_cast<const void*>(&ione) : &one;
    const void* beta = type == i8 ? static_cast<const void*>(&izero) : &zero;
    // Column-major by its own lights: c^T = b^T a^T.
    const int code = gemm_(handle_, nt ? 1 : 0, 0, n, m, k, alpha, reinterpret_cast<void*>(b), in, nt ? k : n, reinterpret_cast<void*>(a), in, k,
                           beta, reinterpret_cast<void*>(c), out, n, type == i8 ? kCompute32I : kCompute32F, kDefaultTensorOp);
    if (code == 0) return;
    std::fprintf(stderr, "bench: cublasGemmEx failed with %d\n", code);
    std::exit(1);
}

}  // namespace gpu_bench
