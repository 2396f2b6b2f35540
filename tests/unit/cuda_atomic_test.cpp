// Atomics leave warps whole: their loops are left by all threads at once, so that ptxas never
// lets go of some. (For sm_80 it does so where nobody waits.)
#include <gtest/gtest.h>

#include "jit/cuda/nvrtc.h"
#include "jit/engine/engine.h"

namespace tegula {
namespace {

struct Row {
    const char *type, *statement;
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.type << ": " << row.statement; }

class CudaAtomic : public testing::TestWithParam<Row> {};

TEST_P(CudaAtomic, LeavesWarpsWhole) {
    const Row& row = GetParam();
    const std::string text =
        std::string("type T = ") + row.type +
        ";\n"
        "kernel k(x: tensor<T>[N], at: tensor<i64>[N], p: ptr<T>, inout s: tensor<T>[40], out old: tensor<T>[N], out y: tensor<T>[N])\n"
        "    grid [cdiv(N, 127)]\n{\n"
        "    let (n, e) = (program_id(0) * 127, at[program_id(0) * 127 +: 127] % 40);\n"
        "    let v = x[n +: 127];\n    " +
        row.statement + "\n    y[n +: 127] = cast<T>(cumsum(v));\n}\n";
    const auto engine = Engine::create({});
    DiagSink diags;
    const ModulePtr module = engine->load("t.tile", text, "", diags);
    ASSERT_TRUE(module) << (diags.all().empty() ? "" : diags.all()[0].message) << text;
    Status status{};
    const auto exe = engine->compile_named(*module, "k", {}, {}, diags, status);
    ASSERT_TRUE(exe) << (diags.all().empty() ? "" : diags.all()[0].message) << text;
    cuda::Backend backend({nullptr, {}, {}, {}});
    if (!backend.availability().compiler) GTEST_SKIP() << "no NVRTC";
    KernelText kernel;
    const auto source = engine->artifact(*module, *exe, "cuda@sm_90a", diags);
    ASSERT_TRUE(source) << (diags.all().empty() ? "" : diags.all()[0].message);
    kernel.source = *source;
    kernel.entry = "k";
    const auto compiled = backend.compile_text(kernel, *find_arch("sm_90a"));
    ASSERT_TRUE(compiled) << compiled.error;
    EXPECT_FALSE(cuda::has_opcode(compiled.value->image, cuda::kYield)) << *source;
}

constexpr const char *kSum = "old[n +: 127] = atomic_add(s[e], v);", *kMost = "atomic_max(s[e], v, mask = v > cast<T>(0));",
                     *kPointer = "old[n +: 127] = atomic_min(p + e, v);",
                     *kOne = "let was = atomic_add(s[0], x[0]); old[n +: 127] = broadcast(was, [127]);",
                     *kBits = "atomic_or(s[e], v); atomic_xor(p + e, v, mask = cast<bool>(v));",
                     *kSwap = "old[n +: 127] = atomic_cas(s[e], cast<T>(1), v); old[n +: 127] = atomic_xchg(p + e, v);";

INSTANTIATE_TEST_SUITE_P(All, CudaAtomic,
                         testing::Values(Row{"f16", kSum}, Row{"f16", kPointer}, Row{"bf16", kMost}, Row{"f32", kSum}, Row{"f32", kOne},
                                         Row{"f64", kMost}, Row{"f8e4m3", kSum}, Row{"f6e3m2", kPointer}, Row{"i8", kSum}, Row{"i8", kSwap},
                                         Row{"u1", kBits}, Row{"i4", kMost}, Row{"i4", kSwap}, Row{"i12", kSum}, Row{"i12", kSwap}, Row{"i12", kOne},
                                         Row{"i32", kSwap}, Row{"u64", kBits}));

}  // namespace
}  // namespace tegula
