// Repeatability on the GPU: products and attention launched many times over the same inputs, outputs filled with NaN before each launch, give one
// bit pattern; and one launch enqueued costs little more than a bare driver launch.
//   gpu_repeat [--launches N]     exit code 1 on a difference, 4 without a GPU
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "jit/cuda/driver.h"
#include "tegula/tegula.hpp"

namespace {

using tegula::cuda::CUdeviceptr;
using tegula::cuda::Driver;

struct Operand {
    std::string type;
    std::vector<int64_t> extents;
    std::string layout = "row";
    bool out = false;
};
struct Case {
    std::string file, kernel;
    std::vector<tegula::NamedValue> generics;
    std::vector<Operand> tensors;
    std::vector<double> numbers;  ///< scalars, in parameter order between inputs and outputs
};

int width(const std::string& type) { return type == "f32" || type == "i32" ? 4 : type == "i8" || type == "u8" || type.starts_with("f8") ? 1 : 2; }

size_t bytes_of(const Operand& o) {
    size_t n = static_cast<size_t>(width(o.type));
    for (int64_t e : o.extents) n *= static_cast<size_t>(e);
    return n;
}

class Repeat {
public:
    Repeat(Driver& driver, int launches) : d_(driver), launches_(launches), engine_(tegula::Engine::create().value()) {
        d_.cuStreamCreate(&stream_, tegula::cuda::kStreamNonBlocking);
    }
    bool run(const Case& c) {
        std::vector<CUdeviceptr> memory;
        std::vector<tegula::NamedValue> args;
        size_t number = 0;
        bool outputs = false;
        for (const Operand& o : c.tensors) {
            if (o.out && !outputs) {
                outputs = true;
                for (; number < c.numbers.size(); ++number) args.emplace_back("", tegula::Value(c.numbers[number]));
            }
            memory.push_back(allocate(o, static_cast<unsigned>(memory.size() + 1)));
            tegula::Tensor t(reinterpret_cast<void*>(memory.back()), bytes_of(o), o.type, o.extents);
            args.emplace_back("", tegula::Value(t.layout(o.layout).on_cuda(0)));
        }
        auto module = engine_.load_file(c.file);
        tegula::api::RunOptions options;
        options.machine = "cuda";
        auto prepared = module ? module.value().prepare(c.kernel, c.generics, args, options)
                               : tegula::Result<tegula::Prepared>(module.status(), module.diagnostics());
        bool same = false;
        if (!prepared)
            std::printf("FAIL %s %s: %s", c.file.c_str(), c.kernel.c_str(), prepared.diagnostics().text().c_str());
        else
            same = repeat(c, prepared.value(), memory);
        for (CUdeviceptr p : memory) d_.cuMemFree(p);
        return same;
    }

    /// Microseconds of one enqueue beside cuLaunchKernelEx alone; both without waiting.
    void launch_cost() {
        auto module = engine_.load(
            "kernel add(x: tensor<f32>[N], y: tensor<f32>[N], out z: tensor<f32>[N]) grid [cdiv(N, 1024)] { let n = program_id(0) * 1024; "
            "z[n +: 1024] = x[n +: 1024] + y[n +: 1024]; }");
        const Operand o{"f32", {4096}};
        std::vector<CUdeviceptr> memory;
        std::vector<tegula::NamedValue> args;
        for (unsigned i = 0; i < 3; ++i) {
            memory.push_back(allocate(o, i + 1));
            args.emplace_back("", tegula::Value(tegula::Tensor(reinterpret_cast<void*>(memory.back()), bytes_of(o), "f32", o.extents).on_cuda(0)));
        }
        tegula::api::RunOptions options;
        options.machine = "cuda";
        auto prepared = module.value().prepare("add", {}, args, options);
        if (!prepared) return;
        std::vector<double> times;
        for (int round = 0; round < 50; ++round) {
            d_.cuStreamSynchronize(stream_);
            const auto start = std::chrono::steady_clock::now();
            for (int i = 0; i < 100; ++i) prepared.value().enqueue(stream_);
            times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() / 100);
        }
        std::sort(times.begin(), times.end());
        std::printf("enqueue: %.2f us (median of 50 rounds of 100)\n", times[times.size() / 2]);
        for (CUdeviceptr p : memory) d_.cuMemFree(p);
    }

    /// Milliseconds from source text to cubin in a fresh engine, and our own part of it (to CUDA C++). Run with TEGULA_CACHE_DIR=off for cold
    /// figures.
    static void compile_cost(const std::string& source, const std::string& kernel, const std::vector<tegula::NamedValue>& generics) {
        std::vector<double> whole, own;
        for (int i = 0; i < 8; ++i) {
            tegula::Engine engine = tegula::Engine::create().value();
            const auto start = std::chrono::steady_clock::now();
            auto module = engine.load(source, kernel + ".tile");
            auto compiled = module ? module.value().compile(kernel, generics) : tegula::Result<tegula::Kernel>(module.status(), module.diagnostics());
            if (!compiled || !compiled.value().artifact("cuda")) return static_cast<void>(std::printf("%s does not compile\n", kernel.c_str()));
            const auto text = std::chrono::steady_clock::now();
            if (!compiled.value().artifact("cubin")) return static_cast<void>(std::printf("%s has no cubin\n", kernel.c_str()));
            const auto end = std::chrono::steady_clock::now();
            const auto ms = [](auto d) { return std::chrono::duration<double, std::milli>(d).count(); };
            if (i) own.push_back(ms(text - start)), whole.push_back(ms(end - start));  // the first opens NVRTC
        }
        std::sort(own.begin(), own.end());
        std::sort(whole.begin(), whole.end());
        std::printf("compile %s: %.1f ms to cubin, of which ours %.1f ms (median of 7)\n", kernel.c_str(), whole[3], own[3]);
    }

private:
    CUdeviceptr allocate(const Operand& o, unsigned seed) {
        CUdeviceptr p = 0;
        const size_t n = bytes_of(o);
        if (d_.cuMemAlloc(&p, n)) std::exit(1);
        std::mt19937 engine(seed);
        std::vector<uint8_t> data(n);
        for (size_t i = 0; i < n; i += static_cast<size_t>(width(o.type))) {
            const auto code = static_cast<uint32_t>(engine());
            if (o.type == "i8" || o.type == "u8") {
                data[i] = static_cast<uint8_t>(code);
            } else if (o.type.starts_with("f8")) {
                data[i] = static_cast<uint8_t>(code & 0xbf);  // below 2 in magnitude
            } else {                                          // sign, exponents around 1, random mantissa
                const uint32_t f = (code & 0x807fffff) | ((120 + code / 0x800000 % 8) << 23);
                const auto half = static_cast<uint16_t>(o.type == "bf16" ? f >> 16 : (code & 0x83ff) | ((9 + code / 1024 % 6) << 10));
                std::memcpy(data.data() + i, o.type == "f32" ? static_cast<const void*>(&f) : &half, static_cast<size_t>(width(o.type)));
            }
        }
        d_.cuMemcpyHtoDAsync(p, data.data(), n, stream_);
        d_.cuStreamSynchronize(stream_);
        return p;
    }
    bool repeat(const Case& c, const tegula::Prepared& prepared, const std::vector<CUdeviceptr>& memory) {
        std::vector<std::vector<uint8_t>> first(memory.size()), now(memory.size());
        for (int launch = 0; launch < launches_; ++launch) {
            for (size_t i = 0; i < memory.size(); ++i)
                if (c.tensors[i].out) d_.cuMemsetD8Async(memory[i], 0xff, bytes_of(c.tensors[i]), stream_);
            if (prepared.enqueue(stream_) != TEGULA_OK) return std::printf("FAIL %s: not launched\n", c.kernel.c_str()), false;
            for (size_t i = 0; i < memory.size(); ++i) {
                if (!c.tensors[i].out) continue;
                now[i].resize(bytes_of(c.tensors[i]));
                d_.cuMemcpyDtoHAsync(now[i].data(), memory[i], now[i].size(), stream_);
            }
            if (int code = d_.cuStreamSynchronize(stream_))
                return std::printf("FAIL %s: %s\n", c.kernel.c_str(), d_.error("launch", code).c_str()), false;
            if (launch == 0) first = now;
            if (first != now) return std::printf("FAIL %s: launch %d differs from launch 0\n", c.kernel.c_str(), launch), false;
        }
        std::printf("ok   %s %s: %d launches, one bit pattern\n", c.file.c_str(), c.kernel.c_str(), launches_);
        return true;
    }

    Driver& d_;
    int launches_;
    tegula::Engine engine_;
    tegula::cuda::CUstream stream_ = nullptr;
};

std::vector<Case> cases(const std::string& dir) {
    std::vector<Case> all;
    for (const char* type : {"bf16", "f16", "f32"})
        for (const char* kernel : {"matmul_nn", "matmul_nt", "matmul_tn", "matmul_tt"})
            for (int64_t tile : {32, 128}) {
                const std::string k = kernel;
                all.push_back({dir + "/examples/matmul.tile",
                               k,
                               {{"C", "f32"}, {"BM", tile}, {"BN", tile}, {"BK", int64_t{64}}},
                               {{type, {312, 520}, k[7] == 't' ? "col" : "row"},
                                {type, {520, 264}, k[8] == 't' ? "col" : "row"},
                                {"f32", {312, 264}, "row", true}},
                               {}});
            }
    all.push_back({dir + "/examples/matmul.tile",
                   "matmul",
                   {{"C", "bf16"}},
                   {{"bf16", {1024, 768}}, {"bf16", {768, 1024}, "col"}, {"bf16", {1024, 1024}, "row", true}},
                   {}});
    all.push_back({dir + "/examples/matmul.tile",
                   "matmul",
                   {{"C", "bf16"}},
                   {{"f8e4m3", {512, 768}}, {"f8e4m3", {768, 512}, "col"}, {"bf16", {512, 512}, "row", true}},
                   {}});
    all.push_back({dir + "/examples/int8_gemm.tile",
                   "int8_gemm",
                   {{"O", "f32"}, {"BM", int64_t{128}}, {"BN", int64_t{128}}},
                   {{"i8", {300, 512}}, {"i8", {260, 512}}, {"f32", {300}}, {"f32", {260}}, {"f32", {300, 260}, "row", true}},
                   {}});
    for (int64_t m : {64, 128})
        all.push_back({dir + "/examples/matmul_batched.tile",
                       "matmul_batched",
                       {{"BM", m}, {"BN", int64_t{64}}, {"BK", int64_t{64}}},
                       {{"bf16", {6, 200, 320}}, {"bf16", {6, 320, 136}}, {"f32", {6, 200, 136}, "row", true}},
                       {}});
    all.push_back({dir + "/examples/matmul_split_k.tile",
                   "partial_products",
                   {{"BM", int64_t{64}}, {"BN", int64_t{64}}, {"BK", int64_t{64}}},
                   {{"bf16", {312, 1040}}, {"bf16", {1040, 264}}, {"f32", {4, 312, 264}, "row", true}},
                   {}});
    for (const char* type : {"f8e4m3", "i8"})
        for (int64_t tile : {32, 128}) {
            const std::vector<tegula::NamedValue> sizes = {
                {"A", "f32"}, {"BM", tile}, {"BN", tile}, {"BK", int64_t{128}}, {"XB", int64_t{32}}, {"WB", int64_t{32}}};
            all.push_back({dir + "/tests/run/dot_scaled_kernels.tile",
                           "scaled",
                           sizes,
                           {{type, {312, 512}}, {"f8e8m0", {312, 16}}, {type, {264, 512}}, {"f8e8m0", {264, 16}}, {"f32", {312, 264}, "row", true}},
                           {}});
        }
    for (int64_t causal : {0, 1})
        for (int64_t d : {64, 128})
            for (int64_t tile : {32, 128})
                all.push_back({dir + "/examples/attention.tile",
                               "attention",
                               {{"CAUSAL", causal}, {"BM", tile}, {"BS", tile}},
                               {{"bf16", {4, 500, d}}, {"bf16", {4, 500, d}}, {"bf16", {4, 500, d}}, {"bf16", {4, 500, d}, "row", true}},
                               {0.1}});
    return all;
}

}  // namespace

int main(int argc, char** argv) {
    int launches = 1000;
    std::string dir = ".";
    for (int i = 1; i + 1 < argc; i += 2)
        (std::string(argv[i]) == "--launches" ? static_cast<void>(launches = std::atoi(argv[i + 1])) : static_cast<void>(dir = argv[i + 1]));
    std::vector<std::string> looked_for;
    auto driver = Driver::open({}, looked_for);
    tegula::cuda::CUcontext context = nullptr;
    if (!driver || driver->primary_context(0, &context)) {
        std::printf("skipped: gpu.repeatability (no GPU)\n");
        return 4;
    }
    const tegula::cuda::ContextScope scope(*driver, context);
    Repeat repeat(*driver, launches);
    int failed = 0;
    for (const Case& c : cases(dir)) failed += !repeat.run(c);
    repeat.launch_cost();
    const auto tile = [](int64_t m, int64_t n, int64_t k) { return std::vector<tegula::NamedValue>{{"BM", m}, {"BN", n}, {"BK", k}}; };
    auto matmul = tile(128, 256, 64);
    for (const char* type : {"A", "B", "C"}) matmul.emplace_back(type, "bf16");
    const auto example = [&](const char* name) {
        std::ifstream in(dir + "/examples/" + name + ".tile");
        return std::string(std::istreambuf_iterator<char>(in), {});
    };
    Repeat::compile_cost("kernel nothing() grid [1] {}", "nothing", {});  // what NVRTC takes for any kernel on this machine
    Repeat::compile_cost(example("matmul"), "matmul", matmul);
    Repeat::compile_cost(example("vector_add"), "vector_add", {{"T", "f32"}});
    Repeat::compile_cost(example("softmax"), "softmax", {{"T", "f32"}, {"BLOCK", int64_t{4096}}});
    Repeat::compile_cost(example("attention"), "attention",
                         {{"T", "bf16"}, {"D", int64_t{128}}, {"BM", int64_t{128}}, {"BS", int64_t{128}}});
    std::printf("%zu variants, %d failed\n", cases(dir).size(), failed);
    return failed ? 1 : 0;
}
