// Repeatability on the GPU: products and attention launched many times over the same inputs, outputs filled with NaN before each launch, give one
// bit pattern; what one launch enqueued costs beside a bare driver launch, a compile, and a load from the disk cache.
//   gpu_repeat [--launches N] [--dir SOURCES] [--size large|small]: small, for a GPU played by the CPU, leaves out the compiles. Exit code 1 on a
//   difference, 4 without a GPU
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "jit/api/handles.h"
#include "jit/cuda/program.h"
#include "tegula/tegula.hpp"

namespace {

namespace api = tegula::api;
using tegula::cuda::CUdeviceptr;
using tegula::cuda::Driver;

struct Operand {
    std::string type;
    std::vector<int64_t> extents;
    std::string layout = "row";
    bool out = false;
    std::vector<int32_t> values = {};  ///< else random
};
struct Case {
    std::string file, kernel;
    std::vector<api::NamedValue> generics;
    std::vector<Operand> tensors;
    std::vector<api::Value> numbers = {};  ///< scalars, in parameter order between inputs and outputs
};

constexpr const char *kMxfp4 = "block<f4e2m1, 32, scale = f8e8m0>", *kNvfp4 = "block<f4e2m1, 16, scale = f8e4m3, tensor_scale = f32>";

void store_half(uint8_t* to, uint32_t code) {
    const auto half = static_cast<uint16_t>(code);
    std::memcpy(to, &half, 2);
}

/// `bytes` random codes of a format; floats around 1, so that sums stay finite.
std::vector<uint8_t> random_codes(const std::string& type, size_t bytes, unsigned seed) {
    std::mt19937 engine(seed);
    std::vector<uint8_t> data(bytes);
    const bool wide = type == "f32" || type == "tf32", half = type == "f16" || type == "bf16";
    for (size_t i = 0; i < bytes; i += wide ? 4 : half ? 2 : 1) {
        const auto code = static_cast<uint32_t>(engine());
        const uint32_t f = (code & 0x807fffff) | ((120 + code / 0x800000 % 8) << 23);
        if (wide)
            std::memcpy(data.data() + i, &f, 4);
        else if (half)
            store_half(data.data() + i, type == "bf16" ? f >> 16 : (code & 0x83ff) | ((9 + code / 1024 % 6) << 10));
        else
            data[i] = static_cast<uint8_t>(type == "f8e8m0" ? 120 + code % 8 : type.starts_with("f8") ? code & 0xbf : code);
    }
    return data;
}

class Repeat {
public:
    Repeat(Driver& driver, int launches) : d_(driver), launches_(launches), engine_(api::Engine::create().value()) {
        d_.cuStreamCreate(&stream_, tegula::cuda::kStreamNonBlocking);
    }
    bool run(const Case& c) {
        auto module = engine_.load_file(c.file);
        if (!module) return std::printf("FAIL %s: %s", c.file.c_str(), module.diagnostics().text().c_str()), false;
        memory_.clear();
        std::vector<Output> outputs;
        std::vector<api::NamedValue> args;
        size_t number = 0;
        for (const Operand& o : c.tensors) {
            if (o.out)
                for (; number < c.numbers.size(); ++number) args.emplace_back("", c.numbers[number]);
            auto bytes = module.value().tensor_bytes(o.type, o.layout, o.extents);
            if (!bytes) return std::printf("FAIL %s: %s", c.kernel.c_str(), bytes.diagnostics().text().c_str()), false;
            const auto seed = static_cast<unsigned>(args.size() + 1);
            std::vector<uint8_t> data = random_codes(o.type, bytes.value().elements, seed);
            if (!o.values.empty()) std::memcpy(data.data(), o.values.data(), data.size());
            api::Tensor t(upload(data), data.size(), o.type, o.extents);
            if (bytes.value().scales) {
                const std::vector<uint8_t> scales = random_codes(o.type == kMxfp4 ? "f8e8m0" : "f8e4m3", bytes.value().scales, seed + 100);
                t.scales(upload(scales), scales.size(), o.type == kNvfp4 ? upload(random_codes("f32", 4, seed)) : nullptr);
            }
            if (o.out) outputs.push_back({memory_.back().address(), data.size()});
            args.emplace_back("", api::Value(t.layout(o.layout).on_cuda(0)));
        }
        api::RunOptions options;
        options.machine = "cuda";
        auto prepared = module.value().prepare(c.kernel, c.generics, args, options);
        if (!prepared) return std::printf("FAIL %s %s: %s", c.file.c_str(), c.kernel.c_str(), prepared.diagnostics().text().c_str()), false;
        return repeat(c, prepared.value(), outputs);
    }

    /// Microseconds of one enqueue beside the driver's call alone, for the same kernel; both without waiting.
    void launch_cost() {
        auto module = engine_.load(
            "kernel add(x: tensor<f32>[N], y: tensor<f32>[N], out z: tensor<f32>[N]) grid [cdiv(N, 1024)] { let n = program_id(0) * 1024; "
            "z[n +: 1024] = x[n +: 1024] + y[n +: 1024]; }");
        memory_.clear();
        std::vector<api::NamedValue> args;
        for (unsigned i = 0; i < 3; ++i)
            args.emplace_back("", api::Value(api::Tensor(upload(random_codes("f32", 4 * 4096, i)), 4 * 4096, "f32", {4096}).on_cuda(0)));
        api::RunOptions options;
        options.machine = "cuda";
        auto prepared = module.value().prepare("add", {}, args, options);
        if (!prepared) return;
        const auto* bound = dynamic_cast<const tegula::cuda::BoundLaunch*>(prepared.value().c()->launch.get());
        const auto microseconds = [&](const auto& launch) {
            std::vector<double> times;
            for (int round = 0; round < 50; ++round) {
                d_.cuStreamSynchronize(stream_);
                const auto start = Clock::now();
                for (int i = 0; i < 100; ++i) launch();
                times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count() / 100);
            }
            return median(times);
        };
        const double ours = microseconds([&] { prepared.value().enqueue(stream_); }), bare = microseconds([&] { bound->launch_bare(stream_); });
        d_.cuStreamSynchronize(stream_);
        std::printf("enqueue %.2f us beside %.2f us of a bare cuLaunchKernel of the same kernel (medians of 50 rounds of 100)\n", ours, bare);
    }

    /// Milliseconds from source text to cubin, each time in a fresh engine: without a disk cache, our own part of that (to CUDA C++, made once more for
    /// the clock), and with a disk cache that holds the kernel.
    static void compile_cost(const std::string& source, const std::string& kernel, const std::vector<api::NamedValue>& generics) {
        std::vector<double> whole, own, cached;
        std::string folder = (std::filesystem::temp_directory_path() / "tegula_repeat_XXXXXX").string();
        if (!::mkdtemp(folder.data())) return static_cast<void>(std::printf("no folder for a cache\n"));
        for (int i = 0; i < 16; ++i) {
            const bool cold = i < 8;
            ::setenv("TEGULA_CACHE_DIR", cold ? "off" : folder.c_str(), 1);
            api::Engine engine = api::Engine::create().value();
            const auto start = Clock::now();
            auto module = engine.load(source, kernel + ".tile");
            auto compiled = module ? module.value().compile(kernel, generics) : api::Result<api::Kernel>(module.status(), module.diagnostics());
            if (!compiled) return static_cast<void>(std::printf("%s does not compile\n", kernel.c_str()));
            const auto start_of_cubin = Clock::now();
            if (!compiled.value().artifact("cubin")) return static_cast<void>(std::printf("%s has no cubin\n", kernel.c_str()));
            const auto end = Clock::now();
            const auto ms = [](auto d) { return std::chrono::duration<double, std::milli>(d).count(); };
            if (i % 8 == 0) continue;  // the first opens NVRTC, or fills the cache
            (cold ? whole : cached).push_back(ms(end - start));
            if (!cold) continue;
            const auto again = Clock::now();
            if (!compiled.value().artifact("cuda")) return static_cast<void>(std::printf("%s has no text\n", kernel.c_str()));
            own.push_back(ms(start_of_cubin - start) + ms(Clock::now() - again));
        }
        std::filesystem::remove_all(folder);
        std::printf("compile %s: %.1f ms to cubin, of which ours %.1f ms; cached load %.2f ms (medians of 7)\n", kernel.c_str(), median(whole),
                    median(own), median(cached));
    }

private:
    using Clock = std::chrono::steady_clock;
    struct Output {
        CUdeviceptr address;
        size_t bytes;
    };
    static double median(std::vector<double> v) {
        std::sort(v.begin(), v.end());
        return v[v.size() / 2];
    }
    /// A copy on the device, kept until the next case.
    void* upload(const std::vector<uint8_t>& data) {
        memory_.emplace_back();
        if (memory_.back().allocate(d_, data.size(), nullptr, nullptr)) std::exit(1);
        d_.cuMemcpyHtoDAsync(memory_.back().address(), data.data(), data.size(), stream_);
        d_.cuStreamSynchronize(stream_);
        return reinterpret_cast<void*>(memory_.back().address());
    }
    bool repeat(const Case& c, const api::Prepared& prepared, const std::vector<Output>& outputs) {
        std::vector<std::vector<uint8_t>> first(outputs.size()), now(outputs.size());
        for (int launch = 0; launch < launches_; ++launch) {
            for (const Output& o : outputs) d_.cuMemsetD8Async(o.address, 0xff, o.bytes, stream_);
            if (prepared.enqueue(stream_) != TEGULA_OK) return std::printf("FAIL %s: not launched\n", c.kernel.c_str()), false;
            for (size_t i = 0; i < outputs.size(); ++i) {
                now[i].resize(outputs[i].bytes);
                d_.cuMemcpyDtoHAsync(now[i].data(), outputs[i].address, now[i].size(), stream_);
            }
            if (int code = d_.cuStreamSynchronize(stream_))
                return std::printf("FAIL %s: %s\n", c.kernel.c_str(), d_.error("launch", code).c_str()), false;
            if (launch == 0) first = now;
            if (first != now) return std::printf("FAIL %s: launch %d differs from launch 0\n", c.kernel.c_str(), launch), false;
        }
        for (const auto& bytes : first)  // results of one value, such as NaN, would hide what races do
            if (std::set<uint8_t>(bytes.begin(), bytes.end()).size() < 8)
                return std::printf("FAIL %s: results without variety\n", c.kernel.c_str()), false;
        std::printf("ok   %s %s of %s: %d launches, one bit pattern\n", c.file.c_str(), c.kernel.c_str(), c.tensors[0].type.c_str(), launches_);
        return true;
    }

    Driver& d_;
    int launches_;
    api::Engine engine_;
    tegula::cuda::CUstream stream_ = nullptr;
    std::vector<tegula::cuda::DeviceMemory> memory_;
};

/// The first tensors multiply [M, K] by [K, N]; extents that no tile divides.
std::vector<Case> cases(const std::string& dir, bool large) {
    using Tensors = std::vector<Operand>;
    using Values = std::vector<api::NamedValue>;
    std::vector<Case> all;
    const int64_t M = large ? 312 : 72, K = large ? 520 : 136, N = large ? 264 : 72;
    const auto add = [&](const char* file, const char* kernel, Values generics, Tensors tensors, std::vector<api::Value> numbers = {}) {
        all.push_back({dir + "/" + file, kernel, std::move(generics), std::move(tensors), std::move(numbers)});
    };
    const auto tile = [](Values more, int64_t m, int64_t n, int64_t k) {
        more.insert(more.end(), {{"BM", m}, {"BN", n}, {"BK", k}});
        return more;
    };
    const auto product = [&](const char* type, const char* result, const char* b_layout = "row", const char* a_layout = "row") {
        return Tensors{{type, {M, K}, a_layout}, {type, {K, N}, b_layout}, {result, {M, N}, "row", true}};
    };
    const char* matmul = "examples/matmul.tile";
    for (const char* type : {"bf16", "f16", "f32"})
        for (const char* kernel : {"matmul_nn", "matmul_nt", "matmul_tn", "matmul_tt"})
            for (int64_t t : {32, 128})
                add(matmul, kernel, tile({{"C", "f32"}}, t, t, 64),
                    product(type, "f32", kernel[8] == 't' ? "col" : "row", kernel[7] == 't' ? "col" : "row"));
    for (const char* type : {"bf16", "f8e4m3", "f8e5m2"})
        add(matmul, "matmul", {{"C", "bf16"}},
            {{type, {4 * M / 3, 2 * K}}, {type, {2 * K, 4 * M / 3}, "col"}, {"bf16", {4 * M / 3, 4 * M / 3}, "row", true}});
    // Rows at addresses that TMA does not take: of 4 bytes, copied asynchronously, and of 2, which are not.
    for (int64_t odd : {1, 2})
        for (const char* type : {"bf16", "f32"})
            add(matmul, "matmul_nn", tile({{"C", "f32"}}, 64, 64, 64),
                {{type, {M, K + odd}}, {type, {K + odd, N + odd}}, {"f32", {M, N + odd}, "row", true}});
    const int64_t P = large ? 372 : 72;  // an even number of tiles of 64: whole clusters
    for (const char* kernel : {"rows", "columns", "both"}) {
        const int64_t columns = *kernel == 'c' ? 2 * P : P;
        add("tests/run/clusters.tile", kernel, {},
            {{"bf16", {P, K}}, {"bf16", {K, columns}, *kernel == 'c' ? "col" : "row"}, {"f32", {P, columns}, "row", true}});
    }
    add("tests/run/clusters.tile", "batch", {}, {{"i8", {2, P, K}}, {"i8", {K, P}, "col"}, {"i32", {2, P, P}, "row", true}});
    for (const char* type : {"bf16", "f8e4m3"}) add("tests/run/persistent.tile", "product", {{"C", "f32"}}, product(type, "f32"));
    add("tests/gpu/repeat.tile", "product_tf32", {}, product("f32", "f32", "col"));
    for (int64_t parts : {1, 4})
        for (const char* type : {"f16", "tf32", "u8", "i8", "f8e4m3", "f8e5m2"})
            add("tests/run/split_k.tile", "mm", {{"ACC", *type == 'u' || *type == 'i' ? "i32" : "f32"}, {"S", parts}},
                product(type, *type == 'u' || *type == 'i' ? "i32" : "f32", "col"));
    for (int64_t length : {64, 192})
        add("examples/wn_a16.tile", "wn_a16_few", {{"S", length}, {"BM", int64_t{64}}, {"BN", int64_t{64}}, {"BK", int64_t{64}}},
            {{"f16", {M, K}}, {"f16", {N, K}}, {"f32", {M, N}, "row", true}});
    add("examples/int8_gemm.tile", "int8_gemm", {{"O", "f32"}, {"BM", int64_t{128}}, {"BN", int64_t{128}}},
        {{"i8", {M, K}}, {"i8", {N, K}}, {"f32", {M}}, {"f32", {N}}, {"f32", {M, N}, "row", true}});
    for (int64_t m : {64, 128})
        add("examples/matmul_batched.tile", "matmul_batched", tile({}, m, 64, 64),
            {{"bf16", {3, M, K}}, {"bf16", {3, K, N}}, {"f32", {3, M, N}, "row", true}});
    add("examples/matmul_split_k.tile", "partial_products", tile({}, 64, 64, 64),
        {{"bf16", {M, K}}, {"bf16", {K, N}}, {"f32", {4, M, N}, "row", true}});
    const auto groups = static_cast<int32_t>(M);
    add("examples/matmul_grouped.tile", "matmul_grouped", tile({}, 64, 64, 64),
        {{"bf16", {M, K}}, {"bf16", {4, K, N}}, {"i32", {5}, "row", false, {0, 33, 33, groups / 2, groups}}, {"bf16", {M, N}, "row", true}});
    for (const char* type : {"f8e4m3", "i8"})
        for (int64_t t : {32, 128})
            add("tests/run/dot_scaled_kernels.tile", "scaled", tile({{"A", "f32"}, {"XB", int64_t{32}}, {"WB", int64_t{32}}}, t, t, 128),
                {{type, {M, 512}}, {"f8e8m0", {M, 16}}, {type, {N, 512}}, {"f8e8m0", {N, 16}}, {"f32", {M, N}, "row", true}});
    // Narrow weights: decoded in registers, through shared memory, in blocks with scales.
    for (const char* kernel : {"in_registers", "through_shared"})
        for (const char* type : {"i4", "f8e4m3"})
            add("tests/run/decode_placement.tile", kernel, {},
                {{"f16", {M, K}}, {type, {N, K}}, {"f32", {M, N}, "row", true}, {"f32", {N, M}, "row", true}});
    add("examples/w4a16.tile", "w4a16", {}, {{"f16", {M, 512}}, {"i4", {N, 512}, "fragment"}, {"f16", {N, 4}}, {"f16", {M, N}, "row", true}});
    add("examples/w4a16.tile", "w4a16_zero", {{"MODE", int64_t{0}}},
        {{"f16", {M, 512}}, {"u4", {N, 512}}, {"f16", {N, 4}}, {"u4", {N, 4}}, {"f16", {M, N}, "row", true}});
    for (const char* type : {"i3", "f6e2m3"})
        add("examples/wn_a16.tile", "wn_a16", {}, {{"f16", {M, K}}, {type, {N, K}}, {"f32", {M, N}, "row", true}});
    add("examples/nvfp4_matmul.tile", "nvfp4_matmul", {}, {{"f16", {M, K}}, {kNvfp4, {N, K}}, {"f32", {M, N}, "row", true}});
    add("examples/mxfp4_matmul.tile", "mxfp4_matmul", {}, {{kMxfp4, {M, K}}, {kMxfp4, {N, K}}, {"f32", {M, N}, "row", true}});
    const int64_t S = large ? 500 : 90, H = large ? 4 : 2;
    for (const char* kernel : {"attention", "attention_fast"})
        for (int64_t causal : {0, 1})
            for (int64_t d : {64, 128})
                for (int64_t t : {32, 128}) {
                    const Operand x{"bf16", {H, S, d}};
                    add("examples/attention.tile", kernel, {{"CAUSAL", causal}, {"BM", t}, {"BS", t}}, {x, x, x, {"bf16", {H, S, d}, "row", true}},
                        {api::Value(0.1)});
                }
    const auto end = static_cast<int32_t>(S);
    const Operand offsets{"i32", {4}, "row", false, {0, 17, end / 2, end}};
    for (int64_t t : {16, 64})
        add("examples/attention_varlen.tile", "attention_varlen", {{"WINDOW", int64_t{100}}, {"BM", t}, {"BS", t}},
            {{"bf16", {S, 4, 64}}, {"bf16", {S, 2, 64}}, {"bf16", {S, 2, 64}}, offsets, offsets, {"bf16", {S, 4, 64}, "row", true}},
            {api::Value(S), api::Value(0.1)});
    return all;
}

void compile_costs(const std::string& dir) {
    std::vector<api::NamedValue> matmul = {{"BM", int64_t{128}}, {"BN", int64_t{256}}, {"BK", int64_t{64}}};
    for (const char* type : {"A", "B", "C"}) matmul.emplace_back(type, "bf16");
    const auto example = [&](const char* name) {
        std::ifstream in(dir + "/examples/" + name + ".tile");
        return std::string(std::istreambuf_iterator<char>(in), {});
    };
    Repeat::compile_cost("kernel nothing() grid [1] {}", "nothing", {});  // what NVRTC takes for any kernel on this machine
    Repeat::compile_cost(example("matmul"), "matmul", matmul);
    Repeat::compile_cost(example("vector_add"), "vector_add", {{"T", "f32"}});
    Repeat::compile_cost(example("softmax"), "softmax", {{"T", "f32"}, {"BLOCK", int64_t{4096}}});
    Repeat::compile_cost(example("attention"), "attention", {{"T", "bf16"}, {"D", int64_t{128}}, {"BM", int64_t{128}}, {"BS", int64_t{128}}});
}

}  // namespace

int main(int argc, char** argv) {
    int launches = 1000;
    std::string dir = ".";
    bool large = true;
    for (int i = 1; i + 1 < argc; i += 2) {
        const std::string option = argv[i], value = argv[i + 1];
        if (option == "--launches") launches = std::atoi(value.c_str());
        if (option == "--dir") dir = value;
        if (option == "--size") large = value == "large";
    }
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
    const std::vector<Case> all = cases(dir, large);
    for (const Case& c : all) failed += !repeat.run(c);
    repeat.launch_cost();
    if (large) compile_costs(dir);
    std::printf("%zu variants, %d failed\n", all.size(), failed);
    return failed ? 1 : 0;
}
