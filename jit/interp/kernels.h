// The inner loops of the interpreter: dense arrays of containers in, dense array out. Each loop exists once per machine level (baseline,
// AVX2 + FMA, AVX-512) with equal bits; `kernels()` picks by the CPU it runs on. NaN results of float rows are the canonical NaN.
#pragma once
#include <cstddef>
#include <cstdint>

#include "lang/ir.h"

namespace tegula::interp {

enum NumType : uint8_t { I8, I16, I32, I64, U8, U16, U32, U64, F32, F64, kNumTypes };
constexpr int kIntTypes = 8;

/// dst, a, b, c (absent operands: pass `a`), elements, element bits. dst may be exactly a, b or c.
using RowFn = void (*)(void* dst, const void* a, const void* b, const void* c, int64_t n, unsigned bits);

/// c[m][n] = chain over k of fma(a[m][k], b[k][n], c[m][n]), k ascending; row-major and dense. Integers wrap.
template <class T>
using DotFn = void (*)(const T* a, const T* b, T* c, int64_t m, int64_t n, int64_t k);

struct Kernels {
    const char* level = "";
    RowFn rows[static_cast<size_t>(ir::Op::count_)][kNumTypes] = {};
    void (*wrap[kIntTypes])(void* data, int64_t n, unsigned bits) = {};      ///< to `bits` bits, sign- or zero-extended
    void (*widen[kIntTypes])(const void* in, int64_t* out, int64_t n) = {};  ///< containers to 64 bits
    void (*narrow[4])(const int64_t* in, void* out, int64_t n) = {};         ///< low bytes; by log2 of the container width
    void (*select[4])(void* dst, const uint8_t* c, const void* a, const void* b, int64_t n) = {};
    void (*gather_strided[4])(const uint8_t* in, int64_t stride_bytes, void* out, int64_t n) = {};
    void (*scatter_strided[4])(const void* in, uint8_t* out, int64_t stride_bytes, int64_t n) = {};
    void (*f32_to_f64)(const float* in, double* out, int64_t n) = nullptr;
    void (*f64_to_f32)(const double* in, float* out, int64_t n) = nullptr;
    void (*i64_to_f64)(const int64_t* in, double* out, int64_t n) = nullptr;
    void (*i64_to_f32)(const int64_t* in, float* out, int64_t n) = nullptr;
    DotFn<float> dot_f32 = nullptr;
    DotFn<double> dot_f64 = nullptr;
    DotFn<int32_t> dot_i32 = nullptr;
    DotFn<int64_t> dot_i64 = nullptr;
};

/// The table for this CPU.
const Kernels& kernels();
Kernels baseline_kernels();
Kernels avx2_kernels();    ///< only call on a CPU with AVX2 and FMA
Kernels avx512_kernels();  ///< only call on a CPU with AVX-512 F, BW, DQ, VL

}  // namespace tegula::interp
