// Code size and compile time do not grow with the tile: the same kernels on tiles of 64 elements and of up to 2^20.
#include <gtest/gtest.h>

#include <cstdio>
#include <ctime>
#include <sstream>

#include "jit/cpu/cpu.h"
#include "jit/engine/engine.h"

namespace tegula {
namespace {

/// Kernels on tiles of E elements, R by R where they have two dimensions.
constexpr const char* kKernels = R"(
kernel add(x: tensor<f32>[N], z: tensor<f32>[N], out y: tensor<f32>[N]) { y[0 +: E] = x[0 +: E] + z[0 +: E]; }
kernel softmax(x: tensor<f32>[N], out y: tensor<f32>[N]) {
    let v = x[0 +: E] else -inf;
    let e = exp(v - max(v));
    y[0 +: E] = e / sum(e);
}
kernel product(a: tensor<f32>[M, K], b: tensor<f32>[K, N], out c: tensor<f32>[M, N]) {
    c[0 +: R, 0 +: R] = dot(a[0 +: R, 0 +: 64], b[0 +: 64, 0 +: R]);
}
kernel narrow_product(a: tensor<i8>[M, K], b: tensor<i8>[K, N], out c: tensor<i32>[M, N]) {
    c[0 +: R, 0 +: R] = dot(a[0 +: R, 0 +: 64], b[0 +: 64, 0 +: R]);
}
kernel columns(x: tensor<f32>[M, N], out y: tensor<f32>[N]) { y[0 +: R] = sum(x[0 +: R, 0 +: R], axis = 0); }
kernel turned(x: tensor<f32>[M, N], out y: tensor<f32>[N, M]) { y[0 +: R, 0 +: R] = trans(x[0 +: R, 0 +: R]); }
kernel nibbles(x: tensor<f32>[N], out y: tensor<i4>[N]) { y[0 +: E] = cast<i4>(x[0 +: E]); }
kernel running(x: tensor<f32>[N], out y: tensor<f32>[N]) { y[0 +: E] = cumsum(x[0 +: E]); }
kernel sorted(x: tensor<f32>[N], out y: tensor<f32>[N]) { y[0 +: E] = sort(x[0 +: E]); }
)";

struct Size {
    size_t bytes = 0, instructions = 0;
    double seconds = 0;  ///< of this thread
};

double seconds_of_thread() {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

Size size_of(const std::string& kernel, int64_t extent, int64_t rows, const char* features) {
    Size size;
    auto engine = Engine::create({});
    DiagSink diags;
    const std::string constants = "const E = " + std::to_string(extent) + ";\nconst R = " + std::to_string(rows) + ";\n";
    const ModulePtr module = engine->load("k.tile", constants + kKernels, "", diags);
    Status status{};
    const auto exe = module ? engine->compile_named(*module, kernel, {}, {}, diags, status) : nullptr;
    EXPECT_TRUE(exe) << (diags.all().empty() ? "" : diags.all()[0].message);
    if (!exe) return size;
    cpu::Compiler compiler;
    cpu::CompileOptions options;
    options.cpu = "x86-64";
    options.features = features;
    const double start = seconds_of_thread();
    const auto object = compiler.compile(*exe->instance.fn, options);
    size.seconds = seconds_of_thread() - start;
    const auto text = compiler.text(*exe->instance.fn, options, "asm");
    EXPECT_TRUE(object && text) << object.error << text.error;
    if (!object || !text) return size;
    size.bytes = object.value->object.size();
    std::istringstream lines(*text.value);
    for (std::string line; std::getline(lines, line);) size.instructions += line.size() > 1 && line[0] == '\t' && line[1] != '.' && line[1] != '#';
    return size;
}

class CpuExtents : public testing::TestWithParam<const char*> {};

/// Small tiles may take another way than large ones, and a tree of sums has a level for each doubling: hence the factors. What is unrolled would
/// grow by 1024 and by 16, as tiles do here.
TEST_P(CpuExtents, DoNotShowInTheCode) {
    constexpr size_t kPolls = 100;  // of loops over more than 2^17 elements, for cancellation
    for (const char* features : {"+avx2,+f16c,+fma", "+avx512f,+avx512bw,+avx512dq,+avx512vl,+avx2,+f16c,+fma"}) {
        const Size small = size_of(GetParam(), 1 << 6, 1 << 3, features);
        const Size large = size_of(GetParam(), 1 << 16, 1 << 8, features);
        const Size huge = size_of(GetParam(), 1 << 20, 1 << 10, features);
        std::printf("%s: %zu, %zu, %zu instructions\n", GetParam(), small.instructions, large.instructions, huge.instructions);
        EXPECT_GT(small.instructions, 20u);
        EXPECT_LE(large.instructions, 16 * small.instructions);
        EXPECT_LE(huge.instructions, 2 * large.instructions + kPolls);
        EXPECT_LE(large.bytes, 16 * small.bytes);
        EXPECT_LE(huge.bytes, 2 * large.bytes + 8 * kPolls);
        // A product has three forms, for one, few and many rows; masks of bytes are loads one by one where there are none.
        EXPECT_LE(huge.bytes, (GetParam() == std::string("narrow_product") ? 32u : 24u) << 10);
        EXPECT_LE(huge.seconds, 25 * small.seconds);
    }
}

INSTANTIATE_TEST_SUITE_P(Kernels, CpuExtents,
                         testing::Values("add", "softmax", "product", "narrow_product", "columns", "turned", "nibbles", "running", "sorted"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace tegula
