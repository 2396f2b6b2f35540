// GPU rows of the benchmark (gpu.h): examples/*.tile through tegula_prepare and tegula_enqueue, peers beside them, outputs checked on the host.
#include "bench/gpu.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>

#include "bench/gpu_peers.h"
#include "jit/cuda/timing.h"
#include "tegula/tegula.hpp"

namespace gpu_bench {

namespace {

using tegula::cuda::CUdeviceptr;
using tegula::cuda::CUstream;

[[noreturn]] void die(const std::string& text) {
    std::fprintf(stderr, "bench: %s\n", text.c_str());
    std::exit(1);
}

uint16_t to_bf16(float f) {
    uint32_t u;
    std::memcpy(&u, &f, 4);
    return static_cast<uint16_t>((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
float from_bf16(uint16_t b) {
    const uint32_t u = uint32_t{b} << 16;
    float f;
    std::memcpy(&f, &u, 4);
    return f;
}

/// A tensor in device memory with its description for the C interface.
struct Array {
    std::string type, layout = "row";
    std::vector<int64_t> extents;
    size_t bytes = 0, scales_bytes = 0;
    CUdeviceptr data = 0, scales = 0;  ///< block formats have scales
    int64_t elements() const {
        int64_t n = 1;
        for (int64_t e : extents) n *= e;
        return n;
    }
};

class GpuBench {
public:
    GpuBench(tegula::cuda::Driver& driver, const std::string& dir, bool quick, std::string only,
             const std::vector<std::pair<std::string, int64_t>>& set)
        : d_(driver),
          timer_(driver),
          blas_(Cublas::open()),
          dir_(dir),
          quick_(quick),
          few_(quick && only.empty()),
          only_(std::move(only)),
          engine_(tegula::Engine::create().value()) {
        for (const auto& [name, value] : set) set_.emplace_back(name, value);
    }
    ~GpuBench() {
        for (CUdeviceptr p : owned_) d_.cuMemFree(p);
    }

    void copy() {
        const size_t bytes = size_t{1} << 30;
        const CUdeviceptr a = allocate(bytes), b = allocate(bytes);
        measure("copy 1 GiB", "memcpy", 0, 2.0 * static_cast<double>(bytes), [&](CUstream s) { d_.cuMemcpyDtoDAsync(a, b, bytes, s); });
        release();
    }

    /// Products of operands that stay in shared memory: what the tensor cores can do at the clock that they keep.
    void peak() {
        const int64_t programs = 132, steps = quick_ ? 4096 : 16384;
        Array a = normal("bf16", {128, 64}, 1), b = normal("bf16", {256, 64}, 2), c = empty("f32", {programs, 128, 256});
        prepare("bench/kernels.tile", "peak", {{"STEPS", steps}}, {a, b, c});
        measure("bf16 products in shared memory", "tegula", 2.0 * 128 * 256 * 64 * static_cast<double>(programs * steps), 0,
                [&](CUstream s) { enqueue(s); });
        release();
    }

    void matmuls() {
        for (int64_t n : few_ ? std::vector<int64_t>{4096} : std::vector<int64_t>{4096, 8192, 16384}) matmul("bf16", Cublas::bf16, true, n, n, n);
        matmul("bf16", Cublas::bf16, true, 4096, 7168, 16384);
        if (few_) return;
        matmul("bf16", Cublas::bf16, false, 8192, 8192, 8192);
        matmul("f16", Cublas::f16, true, 8192, 8192, 8192);
        matmul("bf16", Cublas::bf16, true, 2048, 2048, 2048);
        for (int64_t n : {64, 32, 16}) matmul("bf16", Cublas::bf16, true, 512, n, 512);
        for (int64_t m : {16, 256}) matmul("bf16", Cublas::bf16, true, m, 8192, 8192);
        int8(8192);
        int8(4096);
        fp8(8192, 8192, 8192);
        fp8(4096, 7168, 16384);
        f64(4096);
    }

    /// By an instruction of the program, beside those that the compiler knows.
    void f64(int64_t n) {
        const std::string work = "f64 matmul " + std::to_string(n) + "^3";
        if (!wanted(work)) return;
        Array a = normal("f64", {n, n}, 1), b = normal("f64", {n, n}, 2), c = empty("f64", {n, n});
        for (const auto& [kernel, by] : {std::pair("matmul_f64", "tegula"), std::pair("matmul_f64_plain", "tegula, rows of its table")}) {
            prepare("examples/instructions.tile", kernel, with_set({}), {a, b, c});
            measure(work, by, 2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n), 0, [&](CUstream s) { enqueue(s); });
        }
        release();
    }

    std::vector<tegula::NamedValue> with_set(std::vector<tegula::NamedValue> generics) const {
        generics.insert(generics.end(), set_.begin(), set_.end());
        return generics;
    }

    void fp8(int64_t m, int64_t n, int64_t k) {
        const std::string work = "e4m3 matmul nt " + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k);
        if (!wanted(work)) return;
        Array a = finite_bytes("f8e4m3", {m, k}, 1), b = finite_bytes("f8e4m3", {k, n}, 2), c = empty("bf16", {m, n});
        b.layout = "col";
        prepare("examples/matmul.tile", "matmul", with_set({{"C", "bf16"}}), {a, b, c});
        measure(work, "tegula", 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k), 0, [&](CUstream s) { enqueue(s); });
        release();
    }

    /// Products with narrow weights beside f16 ones by cuBLAS; copies of the weights, larger than L2 together, take turns.
    void narrow() {
        constexpr int64_t kFew = 16;  // rows of activations that have kernels of their own
        const std::vector<int64_t> all = {1, 2, 4, 8, 16, 32, 64, 256, 4096}, some = {1, 16, 64, 256, 4096};
        for (auto [n, k] : std::vector<std::pair<int64_t, int64_t>>{{16384, 16384}, {8192, 8192}, {28672, 8192}, {4096, 4096}}) {
            for (int64_t m : few_ ? std::vector<int64_t>{1, 16} : n == 16384 ? all : some)
                weights("w4a16 g128", "examples/w4a16.tile", m <= kFew ? "w4a16_few" : "w4a16", "i4", "fragment", m, n, k, 128);
            if (few_) return;
        }
        for (const char* type : {"i1", "i2", "i3", "i4", "i5", "i6", "i7", "i8", "f4e2m1", "f6e2m3", "f8e4m3"})
            for (const char* layout : {"fragment", "row"})
                for (int64_t m : {1, 16, 64, 4096})
                    weights("wn_a16", "examples/wn_a16.tile", m <= kFew ? "wn_a16_few" : "wn_a16", type, layout, m, 16384, 16384, 0);
    }

    /// `group`: elements of K to a scale; 0: there are none.
    void weights(const std::string& stem, const char* file, const char* kernel, const std::string& type, const std::string& layout, int64_t m,
                 int64_t n, int64_t k, int64_t group) {
        const std::string work = stem + " " + type + " " + layout + " " + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k);
        if (!wanted(work)) return;
        const auto digit = type.find_first_of("12345678");
        const int64_t bits = type[digit] - '0';
        constexpr int64_t kBeyondCache = 250'000'000, kMostCopies = 8;
        const int64_t size = n * k * bits / 8, copies = std::clamp<int64_t>((kBeyondCache + size - 1) / size, 1, m > 64 ? 1 : kMostCopies);
        Array x = normal("f16", {m, k}, 1), y = empty(group ? "f16" : "f32", {m, n});
        std::vector<tegula::NamedValue> generics = set_;
        if (!group && layout == "fragment") generics.emplace_back("FRAGMENTS", int64_t{1});
        for (int64_t copy = 0; copy < copies; ++copy) {
            Array w = type == "f8e4m3" ? finite_bytes("i8", {size}, 2) : bytes({size}, 2);
            w.type = type, w.extents = {n, k}, w.layout = layout;
            std::vector<Operand> operands = {x, w};
            if (group) operands.push_back(normal("f16", {n, k / group}, 3));
            operands.push_back(y);
            prepare(file, kernel, generics, operands, copy > 0);
        }
        beside_f16(work, x, m, n, k);
    }

    /// Times what was prepared, and cuBLAS with f16 weights on the same rows `x` of f16.
    void beside_f16(const std::string& work, const Array& x, int64_t m, int64_t n, int64_t k) {
        const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
        measure(work, "tegula", flops, 0, [&](CUstream st) { enqueue(st); });
        if (blas_) {
            Array f = normal("f16", {n, k}, 4), h = empty("f16", {m, n});
            measure(work, "cublas f16", flops, 0,
                    [&](CUstream st) { blas_->matmul(st, Cublas::f16, true, int(m), int(n), int(k), x.data, f.data, h.data); });
        }
        release();
    }

    /// Products of 4-bit weights in groups of 128 with 8-bit activations that have a scale for each row, by the library.
    void w4a8() {
        for (const char* type : {"i8", "f8e4m3"}) {
            for (const int64_t m : {1, 16, 64, 1024, 4096}) {
                const int64_t n = 8192, k = 8192;
                const std::string work =
                    "w4a8 g128 " + std::string(type) + " " + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k);
                if (!wanted(work)) continue;
                Array x = type == std::string("i8") ? bytes({m, k}, 1) : finite_bytes(type, {m, k}, 1), w = bytes({n * k / 2}, 2);
                w.type = "i4", w.extents = {n, k}, w.layout = "fragment_8";
                Array scale = normal("f16", {n, k / 128}, 3), token = ones(m), none = empty("f32", {0}), y = empty("bf16", {m, n});
                prepare("stdlib/matmul.tile", "grouped", with_set({{"W_ORDER", int64_t{3}}}), {x, w, scale, token, none, none, y});
                beside_f16(work, normal("f16", {m, k}, 5), m, n, k);
            }
        }
    }

    /// Products of operands in blocks of 32, whose scales are powers of two.
    void blocks() {
        constexpr int64_t n = 4096;
        for (const auto& [name, element, bits] : std::vector<std::tuple<const char*, const char*, int64_t>>{
                 {"mxfp8", "f8e4m3", 8}, {"mxfp6", "f6e3m2", 6}, {"mxfp4", "f4e2m1", 4}, {"mxint8", "fixed<2, 6>", 8}}) {
            const std::string work = std::string(name) + " dot_scaled " + std::to_string(n) + "^3";
            if (!wanted(work)) continue;
            const auto operand = [&, element = std::string(element), bits = bits](unsigned seed) {
                Array a = finite_bytes("i8", {n * n * bits / 8}, seed),
                      scales = filled(
                          "i8", {n * n / 32}, [](uint8_t*to, size_t i) { *to = uint8_t(125 + i % 5); }, 1);
                a.type = "block<" + element + ", 32, scale = f8e8m0>", a.extents = {n, n}, a.scales = scales.data, a.scales_bytes = scales.bytes;
                return a;
            };
            prepare("stdlib/matmul.tile", "plain", set_, {operand(1), operand(2), empty("f32", {n, n})});
            measure(work, "tegula", 2.0 * n * n * n, 0, [&](CUstream st) { enqueue(st); });
            release();
        }
    }

    void matmul(const char* type, Cublas::Type blas, bool nt, int64_t m, int64_t n, int64_t k) {
        const std::string work =
            std::string(type) + (nt ? " matmul nt " : " matmul nn ") + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k);
        if (!wanted(work)) return;
        Array a = normal(type, {m, k}, 1), b = normal(type, {k, n}, 2), c = empty(type, {m, n}), expected = empty(type, {m, n});
        if (nt) b.layout = "col";
        const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
        std::vector<tegula::NamedValue> generics = {{"C", type}};  // the tile is what `tune` picks, where the kernel leaves it open
        if (!nt) generics.insert(generics.end(), {{"BM", int64_t{128}}, {"BN", int64_t{256}}, {"BK", int64_t{64}}});
        auto ours = [&](CUstream s) { enqueue(s); };
        prepare("examples/matmul.tile", nt ? "matmul" : "matmul_nn", generics, {a, b, c});
        measure(work, "tegula", flops, 0, ours);
        if (blas_) {
            const auto peer = [&](CUstream s) { blas_->matmul(s, blas, nt, int(m), int(n), int(k), a.data, b.data, expected.data); };
            measure(work, "cublas", flops, 0, peer);
            compare(work, c, expected, 2e-2);
        }
        release();
    }

    void int8(int64_t n) {
        const std::string work = "int8 matmul nt " + std::to_string(n) + "^3";
        if (!wanted(work)) return;
        Array x = bytes({n, n}, 1), w = bytes({n, n}, 2), sx = ones(n), sw = ones(n), y = empty("bf16", {n, n}), c = empty("i32", {n, n});
        const double flops = 2.0 * std::pow(static_cast<double>(n), 3);
        prepare("examples/int8_gemm.tile", "int8_gemm", {{"O", "bf16"}, {"BM", int64_t{128}}, {"BN", int64_t{256}}, {"BK", int64_t{128}}},
                {x, w, sx, sw, y});
        measure(work, "tegula", flops, 0, [&](CUstream s) { enqueue(s); });
        if (blas_)
            measure(work, "cublas", flops, 0,
                    [&](CUstream s) { blas_->matmul(s, Cublas::i8, true, int(n), int(n), int(n), x.data, w.data, c.data); });
        release();
    }

    void attentions() {
        for (int64_t s : few_ ? std::vector<int64_t>{4096} : std::vector<int64_t>{1024, 4096, 16384})
            for (bool causal : {false, true}) attention(128, s, causal);
        if (few_) return;
        attention(64, 4096, false);
        attention(64, 4096, true);
    }

    /// 16k tokens, H * D = 2048, as the peers' script does: batch and heads are one dimension.
    void attention(int64_t d, int64_t s, bool causal) {
        const int64_t h = 16384 / s * (2048 / d);
        const std::string work = "attention d" + std::to_string(d) + " S" + std::to_string(s) + (causal ? " causal" : " full");
        if (!wanted(work)) return;
        Array q = normal("bf16", {h, s, d}, 1), k = normal("bf16", {h, s, d}, 2), v = normal("bf16", {h, s, d}, 3), o = empty("bf16", {h, s, d});
        const double flops =
            4.0 * static_cast<double>(h) * static_cast<double>(s) * static_cast<double>(s) * static_cast<double>(d) * (causal ? 0.5 : 1);
        const std::vector<tegula::NamedValue> generics = {{"CAUSAL", int64_t{causal}}, {"BM", int64_t{128}}, {"BS", int64_t{128}}};
        for (const char* kernel : {"attention", "attention_fast"}) {
            if (!prepare("examples/attention.tile", kernel, generics, {q, k, v, tegula::Value(1.0 / std::sqrt(static_cast<double>(d))), o})) continue;
            measure(work, std::string(kernel) == "attention" ? "tegula" : "tegula fast", flops, 0, [&](CUstream st) { enqueue(st); });
        }
        release();
    }

    void rows() {
        for (auto [m, n] : std::vector<std::pair<int64_t, int64_t>>{{16384, 4096}, {32768, 8192}, {16384, 16384}, {4096, 32768}, {131072, 781}}) {
            for (const char* type : {"f32", "bf16"}) {
                const double bytes = 2.0 * static_cast<double>(m) * static_cast<double>(n) * (std::string(type) == "f32" ? 4 : 2);
                int64_t block = 1;
                while (block < n) block *= 2;
                const std::string size = " " + std::string(type) + " " + std::to_string(m) + "x" + std::to_string(n);
                if (!wanted("softmax" + size) && !wanted("layernorm" + size) && !wanted("rmsnorm" + size)) continue;
                Array x = normal(type, {m, n}, 1), y = empty(type, {m, n}), gamma = ones(n), beta = ones(n);
                prepare("examples/softmax.tile", "softmax", {{"BLOCK", block}}, {x, y});
                measure("softmax" + size, "tegula", 0, bytes, [&](CUstream s) { enqueue(s); });
                prepare("examples/layernorm.tile", "layernorm", {{"BLOCK", block}}, {x, gamma, beta, tegula::Value(1e-5), y});
                measure("layernorm" + size, "tegula", 0, bytes, [&](CUstream s) { enqueue(s); });
                prepare("stdlib/nn.tile", "rmsnorm_rows", {{"BLOCK", block}}, {x, gamma, tegula::Value(1e-5), y});
                measure("rmsnorm" + size, "tegula", 0, bytes, [&](CUstream s) { enqueue(s); });
                release();
            }
            if (few_) break;
        }
        for (int64_t n : {int64_t{1} << 25, int64_t{1} << 28}) {
            const std::string work = "add f32 " + std::to_string(n);
            if (!wanted(work)) continue;
            Array x = normal("f32", {n}, 1), y = normal("f32", {n}, 2), z = empty("f32", {n});
            prepare("examples/vector_add.tile", "vector_add", {}, {x, y, z});
            const auto bytes = 12.0 * static_cast<double>(n);
            measure(work, "tegula", 0, bytes, [&](CUstream s) { enqueue(s); });
            prepare("examples/triton_style.tile", "add_pointers", {{"BLOCK", int64_t{1024}}}, {x, y, z, tegula::Value(n)});
            measure(work, "tegula, pointers", 0, bytes, [&](CUstream s) { enqueue(s); });
            release();
        }
    }

    /// The same product through slices of tensors and through pointers with strides as scalars, as Triton's kernels have them.
    void pointers(int64_t n) {
        const std::string work = "f16 matmul pointers " + std::to_string(n) + "^3";
        if (!wanted(work)) return;
        Array a = normal("f16", {n, n}, 1), b = normal("f16", {n, n}, 2), c = empty("f16", {n, n}), d = empty("f16", {n, n});
        const double flops = 2.0 * std::pow(static_cast<double>(n), 3);
        const std::vector<tegula::NamedValue> tile = {{"BM", int64_t{128}}, {"BN", int64_t{256}}, {"BK", int64_t{64}}};
        std::vector<tegula::NamedValue> generics = tile;
        generics.emplace_back("C", "f16");
        prepare("examples/matmul.tile", "matmul_nn", generics, {a, b, c});
        measure(work, "tegula", flops, 0, [&](CUstream s) { enqueue(s); });
        const tegula::Value size(n), one(int64_t{1});
        prepare("examples/triton_style.tile", "matmul_pointers", tile, {a, b, d, size, size, size, size, one, size, one, size, one});
        measure(work, "tegula, pointers", flops, 0, [&](CUstream s) { enqueue(s); });
        compare(work, c, d, 0);
        release();
    }

    std::vector<GpuRow> take() { return std::move(rows_); }

private:
    void check(const char* call, int code) const {
        if (code != 0) die(d_.error(call, code));
    }
    CUdeviceptr allocate(size_t bytes) {
        CUdeviceptr p = 0;
        check("cuMemAlloc", d_.cuMemAlloc(&p, std::max<size_t>(bytes, 1)));
        owned_.push_back(p);
        return p;
    }
    void release() {
        prepared_.clear();
        for (CUdeviceptr p : owned_) d_.cuMemFree(p);
        owned_.clear();
    }
    Array empty(const std::string& type, std::vector<int64_t> extents) {
        Array a;
        a.type = type;
        a.extents = std::move(extents);
        a.bytes = static_cast<size_t>(a.elements()) * (type == "f64"                      ? 8
                                                       : type == "f32" || type == "i32"   ? 4
                                                       : type == "i8" || type == "f8e4m3" ? 1
                                                                                          : 2);
        a.data = allocate(a.bytes);
        if (a.bytes) check("cuMemsetD8Async", d_.cuMemsetD8Async(a.data, 0xff, a.bytes, timer_.stream()));
        return a;
    }
    /// A megabyte of random values, repeated with an odd period so that no two rows are alike.
    Array filled(const std::string& type, std::vector<int64_t> extents, const std::function<void(uint8_t*, size_t)>& element, size_t width) {
        Array a = empty(type, std::move(extents));
        const size_t period = std::min<size_t>(a.bytes / width, 1048573);
        std::vector<uint8_t> host(period * width);
        for (size_t i = 0; i < period; ++i) element(host.data() + i * width, i);
        for (size_t at = 0; at < a.bytes; at += host.size())
            check("cuMemcpyHtoDAsync", d_.cuMemcpyHtoDAsync(a.data + at, host.data(), std::min(host.size(), a.bytes - at), timer_.stream()));
        check("cuStreamSynchronize", d_.cuStreamSynchronize(timer_.stream()));
        return a;
    }
    Array normal(const std::string& type, std::vector<int64_t> extents, unsigned seed) {
        std::mt19937 engine(seed);
        std::normal_distribution<float> gauss;
        const bool f64 = type == "f64", f32 = type == "f32", f16 = type == "f16";
        return filled(
            type, std::move(extents),
            [&](uint8_t* to, size_t) {
                const float v = gauss(engine);
                const uint16_t bf = to_bf16(v);
                const auto half = static_cast<uint16_t>((v < 0 ? 0x8000 : 0) | (0x3000 + (engine() & 0xfff)));  // magnitudes in [0.125, 2)
                const double wide = v;
                std::memcpy(to,
                            f64   ? static_cast<const void*>(&wide)
                            : f32 ? &v
                            : f16 ? static_cast<const void*>(&half)
                                  : &bf,
                            f64   ? 8
                            : f32 ? 4
                                  : 2);
            },
            f64   ? 8
            : f32 ? 4
                  : 2);
    }
    Array bytes(std::vector<int64_t> extents, unsigned seed) {
        std::mt19937 engine(seed);
        std::normal_distribution<float> gauss(0, 40);
        return filled(
            "i8", std::move(extents),
            [&](uint8_t* to, size_t) {
                *to = static_cast<uint8_t>(static_cast<int8_t>(std::lrint(std::fmin(127.f, std::fmax(-127.f, gauss(engine))))));
            },
            1);
    }
    /// Codes of magnitudes below 2: no NaN, no large values.
    Array finite_bytes(const std::string& type, std::vector<int64_t> extents, unsigned seed) {
        std::mt19937 engine(seed);
        return filled(
            type, std::move(extents), [&](uint8_t* to, size_t) { *to = static_cast<uint8_t>(engine() & 0xbf); }, 1);
    }
    Array ones(int64_t n) {
        return filled(
            "f32", {n},
            [](uint8_t* to, size_t) {
                const float one = 1;
                std::memcpy(to, &one, 4);
            },
            4);
    }

    struct Operand {
        Operand(const Array& a) : array(a) {}
        Operand(tegula::Value v) : value(std::move(v)), is_value(true) {}
        Array array;
        tegula::Value value{0};
        bool is_value = false;
    };
    bool prepare(const std::string& file, const std::string& kernel, const std::vector<tegula::NamedValue>& generics,
                 const std::vector<Operand>& operands, bool more = false) {
        auto module = engine_.load_file(dir_ + "/" + file);
        if (!module) die(module.diagnostics().text());
        if (module.value().artifact("json").value().find("\"name\":\"" + kernel + "\"") == std::string::npos) return false;
        std::vector<tegula::NamedValue> args;
        for (const Operand& o : operands) {
            if (o.is_value) {
                args.emplace_back(std::string(), o.value);
                continue;
            }
            tegula::Tensor t(reinterpret_cast<void*>(o.array.data), o.array.bytes, o.array.type, o.array.extents);
            if (o.array.scales) t.scales(reinterpret_cast<void*>(o.array.scales), o.array.scales_bytes);
            t.layout(o.array.layout).on_cuda(0);
            args.emplace_back(std::string(), tegula::Value(t));
        }
        tegula::api::RunOptions options;
        options.machine = "cuda";
        auto prepared = module.value().prepare(kernel, generics, args, options);
        if (!prepared) die(file + ": " + prepared.diagnostics().text());
        if (!more) prepared_.clear(), turn_ = 0;
        prepared_.push_back(prepared.value());
        return true;
    }
    /// Launches prepared one after the other take turns.
    void enqueue(CUstream stream) {
        if (tegula_status s = prepared_[turn_++ % prepared_.size()].enqueue(stream); s != TEGULA_OK) die("tegula_enqueue: " + std::to_string(s));
    }
    bool wanted(const std::string& work) const { return work.find(only_) != std::string::npos; }
    void measure(const std::string& work, const std::string& who, double flops, double bytes, const std::function<void(CUstream)>& enqueue) {
        if (!wanted(work)) return;
        const auto work_on = [&](CUstream s) { return enqueue(s), true; };
        const double burst = timer_.burst(work_on), sustained = timer_.sustained(work_on, quick_ ? 0.2 : 0.5);
        if (burst < 0 || sustained < 0) die(work + ": " + timer_.error());
        rows_.push_back({work, who, "burst", burst, flops, bytes});
        rows_.push_back({work, who, "sustained", sustained, flops, bytes});
        std::fprintf(stderr, "  %-44s %-12s %9.2f us burst %9.2f us sustained\n", work.c_str(), who.c_str(), burst * 1e6, sustained * 1e6);
    }
    /// Both are bf16 or both f16, whose bits are compared as bf16 would: relative norm of the difference over a part of the matrix.
    void compare(const std::string& work, const Array& a, const Array& b, double limit) {
        const size_t n = std::min<size_t>(a.bytes, size_t{8} << 20) / 2;
        std::vector<uint16_t> x(n), y(n);
        check("cuMemcpyDtoHAsync", d_.cuMemcpyDtoHAsync(x.data(), a.data, n * 2, timer_.stream()));
        check("cuMemcpyDtoHAsync", d_.cuMemcpyDtoHAsync(y.data(), b.data, n * 2, timer_.stream()));
        check("cuStreamSynchronize", d_.cuStreamSynchronize(timer_.stream()));
        double difference = 0, norm = 0;
        for (size_t i = 0; i < n; ++i) {
            const double u = from_bf16(x[i]), v = from_bf16(y[i]);
            difference += (u - v) * (u - v);
            norm += v * v;
        }
        if (!(std::sqrt(difference) <= limit * std::sqrt(norm)))
            die(work + ": wrong result (relative difference " + std::to_string(std::sqrt(difference / norm)) + ")");
    }

    tegula::cuda::Driver& d_;
    tegula::cuda::Stopwatch timer_;
    std::unique_ptr<Cublas> blas_;
    std::string dir_;
    bool quick_;        ///< measure for a short time
    bool few_;          ///< of what there is to measure, the most telling
    std::string only_;  ///< names of what is measured hold it
    tegula::Engine engine_;
    std::vector<tegula::Prepared> prepared_;
    size_t turn_ = 0;
    std::vector<tegula::NamedValue> set_;  ///< generic parameters of products with narrow weights
    std::vector<CUdeviceptr> owned_;
    std::vector<GpuRow> rows_;
};

/// Lines of peers.py: {"work": .., "who": .., "mode": .., "seconds": .., "flops": .., "bytes": ..}
void python_rows(const std::string& dir, bool quick, const std::string& only, std::vector<GpuRow>& rows) {
    const std::string command = "python3 '" + dir + "/bench/peers.py'" + (quick ? " --quick" : "") + " 2>/dev/null";
    ::setenv("TEGULA_BENCH_ONLY", only.c_str(), 1);
    FILE* pipe = ::popen(command.c_str(), "r");
    if (!pipe) return;
    char line[1024];
    while (std::fgets(line, sizeof line, pipe)) {
        const auto json = nlohmann::json::parse(line, nullptr, false);
        if (!json.is_object()) continue;
        rows.push_back({json.value("work", ""), json.value("who", ""), json.value("mode", ""), json.value("seconds", 0.0), json.value("flops", 0.0),
                        json.value("bytes", 0.0)});
    }
    ::pclose(pipe);
}

}  // namespace

std::vector<GpuRow> gpu_rows(const std::string& dir, bool quick, const std::string& only, const std::vector<std::pair<std::string, int64_t>>& set,
                             std::string& why) {
    std::vector<std::string> looked_for;
    auto driver = tegula::cuda::Driver::open({}, looked_for);
    if (!driver) {
        for (const std::string& l : looked_for) why += (why.empty() ? "" : "; ") + l;
        return {};
    }
    std::vector<GpuRow> rows;
    tegula::cuda::CUcontext context = nullptr;
    if (driver->primary_context(0, &context) != 0) return why = "no context", rows;
    const tegula::cuda::ContextScope scope(*driver, context);
    {
        GpuBench bench(*driver, dir, quick, only, set);
        bench.copy();
        bench.peak();
        bench.matmuls();
        bench.narrow();
        if (!quick || !only.empty()) bench.w4a8(), bench.blocks();
        bench.attentions();
        bench.rows();
        bench.pointers(4096);
        rows = bench.take();
    }
    python_rows(dir, quick, only, rows);
    if (rows.empty()) why = "nothing that is measured is called \"" + only + "\"";
    return rows;
}

namespace {
double rate(const GpuRow& r) { return (r.flops ? r.flops : r.bytes) / r.seconds * 1e-12; }
}  // namespace

void print_gpu(const std::vector<GpuRow>& rows) {
    std::vector<std::string> works;
    for (const GpuRow& r : rows)
        if (std::find(works.begin(), works.end(), r.work) == works.end()) works.push_back(r.work);
    double copy = 0;
    for (const GpuRow& r : rows)
        if (r.work.starts_with("copy") && r.mode == "burst") copy = rate(r);
    std::printf("\n%-44s %-10s  %s\n", "GPU (TFLOP/s or TB/s)", "mode", "ours / peers; ratio to the best peer, of the burst of the copy");
    for (const std::string& work : works)
        for (const char* mode : {"burst", "sustained"}) {
            double ours = 0, best = 0, limit = 0;
            std::string line;
            for (const GpuRow& r : rows) {
                if (r.work != work || r.mode != mode) continue;
                char text[96];
                std::snprintf(text, sizeof text, "%s %.4g  ", r.who.c_str(), rate(r));
                line += text;
                if (r.bytes) limit = copy;
                if (r.who.starts_with("tegula"))
                    ours = std::max(ours, rate(r));
                else
                    best = std::max(best, rate(r));
            }
            if (line.empty()) continue;
            std::printf("%-44s %-10s  %s", work.c_str(), mode, line.c_str());
            if (ours && best) std::printf("-> %.3f", ours / best);
            if (ours && limit) std::printf(", %.3f of the copy", ours / limit);
            std::printf("\n");
        }
}

std::string gpu_json(const std::vector<GpuRow>& rows) {
    nlohmann::json out = nlohmann::json::array();
    for (const GpuRow& r : rows)
        out.push_back({{"work", r.work}, {"who", r.who}, {"mode", r.mode}, {"seconds", r.seconds}, {"flops", r.flops}, {"bytes", r.bytes}});
    return out.dump();
}

}  // namespace gpu_bench
