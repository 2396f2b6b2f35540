// What accesses ask of caches in the text of GPU kernels: the instructions of every way that loads and stores are done, on every kind of
// architecture, and a warning where one cannot do it. With NVRTC at hand all of it is compiled.
#include <gtest/gtest.h>

#include "jit/cuda/nvrtc.h"
#include "jit/engine/engine.h"
#include "jit/engine/hints.h"
#include "lang/ir_text.h"

namespace tegula {
namespace {

struct Row {
    const char *arch, *body;
    std::vector<const char*> spelled;  ///< in the kernel's text
    const char* warnings = "";
    const char* attributes = "";
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.body << " on " << row.arch; }

class Caching : public testing::TestWithParam<Row> {
protected:
    void compile(const Row& row) {
        DiagSink diags;
        const std::string text =
            "kernel k(a: tensor<f16>[M, K], b: tensor<f16>[K, N], x: tensor<f32>[N], w: tensor<i4>[N], p: ptr<f32>, r: tensor<f16>[M, 1024],\n"
            "    out c: tensor<f32>[M, N], inout y: tensor<f32>[N], out v: tensor<i4>[N], out s: tensor<f16>[M, 1024])\n    grid [cdiv(M, 64), "
            "cdiv(N, "
            "64)]\n" +
            std::string(row.attributes) + "{\n    let (m, n) = (program_id(0) * 64, program_id(1) * 64);\n    " + row.body + "\n}\n";
        module_ = engine_->load("t.tile", text, "", diags);
        ASSERT_TRUE(module_) << (diags.all().empty() ? "" : diags.all()[0].message) << text;
        Status status{};
        exe_ = engine_->compile_named(*module_, "k", {}, {}, diags, status);
        ASSERT_TRUE(exe_) << (diags.all().empty() ? "" : diags.all()[0].message) << text;
    }
    std::shared_ptr<Engine> engine_ = Engine::create({});
    ModulePtr module_;
    std::shared_ptr<const Executable> exe_;
};

TEST_P(Caching, IsSpelledOrGivesAWarning) {
    const Row& row = GetParam();
    compile(row);
    const Arch& arch = *find_arch(row.arch);
    DiagSink diags;
    const auto text = engine_->artifact(*module_, *exe_, "cuda@" + std::string(row.arch), diags);
    ASSERT_TRUE(text) << (diags.all().empty() ? "" : diags.all()[0].message);
    for (const char* spelled : row.spelled) EXPECT_NE(text->find(spelled), std::string::npos) << spelled << *text;
    std::string warnings;
    for (const Diagnostic& d : hint_warnings(*exe_, arch, nullptr)) warnings += (warnings.empty() ? "" : "; ") + d.message;
    EXPECT_EQ(warnings, row.warnings);
    cuda::Backend backend({nullptr, {}, {}, {}});
    if (!backend.availability().compiler) return;
    KernelText kernel;
    kernel.source = *text;
    kernel.entry = "k";
    const auto compiled = backend.compile_text(kernel, arch);
    EXPECT_TRUE(compiled) << compiled.error;
}

constexpr const char* kLoop =
    "var acc = zeros<f32>[64, 64]; for k in 0 .. K step 64 { acc = dot(a[m +: 64, k +: 64] @ evict(last), "
    "b[k +: 64, n +: 64] @ cache(stream), acc); } c[m +: 64, n +: 64] @ evict(first) = acc;";
constexpr const char* kAll =
    "var acc = zeros<f32>[64, 64]; for k in 0 .. K step 64 { acc = dot(a[m +: 64, k +: 64] @ cache(all), "
    "b[k +: 64, n +: 64] @ cache(through), acc); } c[m +: 64, n +: 64] @ cache(through) = acc;";
constexpr const char* kRows = "s[program_id(0), :] @ cache(all) = r[program_id(0), :] @ evict(first) @ cache(l2);";
constexpr const char* kPersistent = "    schedule persistent\n";
constexpr const char* kBits = "v[n +: 64] @ evict(normal) = w[n +: 64] @ evict(first) @ cache(l2);";

INSTANTIATE_TEST_SUITE_P(
    All, Caching,
    testing::Values(
        Row{"sm_75", "y[n +: 64] @ cache(all) = x[n +: 64] @ cache(l2);", {"ld.global.cg.", "st.global.wb."}},
        Row{"sm_75", "y[n +: 64] @ cache(l2) = x[n +: 64] @ cache(all);", {"ld.global.ca.", "st.global.cg."}},
        Row{"sm_90a", "y[n +: 64] @ cache(through) = x[n +: 64] @ cache(through);", {"ld.global.cv.", "st.global.wt."}},
        Row{"sm_90a", "y[n +: 64] @ cache(stream) = x[n +: 64] @ cache(stream);", {"ld.global.cs.", "st.global.cs."}},
        Row{"sm_75", "y[n +: 64] @ evict(last) = x[n +: 64] @ evict(first);", {"ld.global.L1::evict_first.b", "st.global.L1::evict_last.b"}},
        Row{"sm_80",
            "y[n +: 64] @ evict(last) = x[n +: 64] @ evict(first) @ cache(all);",
            {"ld.global.L1::evict_first.L2::cache_hint.", "st.global.L1::evict_last.L2::cache_hint.", "createpolicy.fractional.L2::evict_first.b64",
             "createpolicy.fractional.L2::evict_last.b64"}},
        Row{"sm_80", "y[n +: 64] = x[n +: 64] @ evict(first) @ cache(l2);", {"ld.global.cg.L2::cache_hint."}},
        Row{"sm_80", "y[n +: 64] = x[n +: 64] @ evict(first) @ cache(stream);", {"ld.global.cs.L2::cache_hint."}},
        Row{"sm_75", "y[n +: 64] = x[n +: 64] @ evict(first) @ cache(stream);", {"ld.global.cs."}},
        Row{"sm_75",
            "y[n +: 64] = x[n +: 64] @ evict(last) @ cache(l2);",
            {"ld.global.cg."},
            "`evict` has no effect on sm_75: the second cache of this architecture takes no policies"},
        Row{"sm_90a", "y[n +: 64] @ cache(l2) += 1.0;", {"ld.global.cg.", "st.global.cg."}},
        Row{"sm_90a",
            "let i = cast<i64>(x[n +: 64] @ cache(l2)); y[i] @ evict(last) = x[i] @ cache(stream);",
            {"ld.global.cg.", "ld.global.cs.", "st.global.L1::evict_last.L2::cache_hint."}},
        Row{"sm_100a",
            "store(p + iota[32], load(p + 1) @ evict(last), iota[32] < n) @ cache(stream);",
            {"ld.global.L1::evict_last.L2::cache_hint.b32", "st.global.cs.b32"}},
        Row{"sm_100a", "y[n] @ cache(through) = load(p, n > 1, other = 2.0) @ cache(all);", {"@p ld.global.ca.b32", "st.global.wt.b32"}},
        Row{"sm_80",
            kLoop,
            {"copy_async_16(", "ld.global.cs.", "st.global.L1::evict_first.L2::cache_hint."},
            "`evict` has no effect on sm_80: what threads copy ahead takes no policy for the second cache; `cache` has no effect on sm_80: what "
            "threads copy ahead takes no policy for the second cache"},
        Row{"sm_75", kLoop, {"ld.global.L1::evict_last.", "ld.global.cs."}},
        Row{"sm_90a",
            kLoop,
            {"cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint", "tma_load_last", "tma_load_first",
             "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group.L2::cache_hint", "tma_store_first"}},
        Row{"sm_90a", kLoop, {".multicast::cluster.L2::cache_hint", "tma_multicast_last", "tma_multicast_first"}, "", "    @ cluster(2, 2)\n"},
        Row{"sm_100a", kLoop, {"tma_load_last", "tma_load_first", "tma_store_first"}}, Row{"sm_120a", kLoop, {"tma_load_last", "tma_load_first"}},
        Row{"sm_80",
            kAll,
            {"cp.async.ca.shared.global [%0], [%1], %2, %3;", "copy_async_ca"},
            "`cache` has no effect on sm_80: what is copied ahead goes through the "
            "second cache"},
        Row{"sm_90a",
            kAll,
            {" tma_load("},
            "`cache` has no effect on sm_90a: copies by TMA pass the first cache by; `cache` has no effect on sm_90a: copies by TMA go through the "
            "second cache; `cache` has no effect on sm_90a: copies by TMA go through the second cache"},
        Row{"sm_90a",
            kRows,
            {"copy_async_16(", "st.global.wb."},
            "`evict` has no effect on sm_90a: what threads copy ahead takes no policy for the second cache",
            kPersistent},
        Row{"sm_90a",
            kBits,
            {},
            "`cache` has no effect on sm_90a: elements of 4 bits are taken out of bytes that others share; `evict` has no effect on sm_90a: elements "
            "of 4 bits are taken out of bytes that others share"}));

TEST_F(Caching, EqualReadsThatAskForDifferentThingsStaySeparate) {
    compile({"sm_90a", "y[n +: 64] = x[n +: 64] + x[n +: 64] @ cache(l2) + x[n +: 64] + x[n +: 64] @ cache(l2);", {}});
    DiagSink diags;
    const auto text = engine_->artifact(*module_, *exe_, "ir:final", diags);
    ASSERT_TRUE(text);
    size_t loads = 0, asking = 0;
    for (size_t at = 0; (at = text->find("= load ", at)) != std::string::npos; ++at) ++loads;
    for (size_t at = 0; (at = text->find(" cache l2", at)) != std::string::npos; ++at) ++asking;
    EXPECT_EQ(loads, 2u) << *text;
    EXPECT_EQ(asking, 1u) << *text;
}

std::string read_back(const std::string& lines) {
    SourceMap sources;
    TypeTable types;
    DiagSink diags;
    const std::string text = "kernel @k(%y: tensor<f32>[8] inout, %p: ptr<f32>, %i: i64) {\n" + lines + "  ret\n}\n";
    const auto fn = ir::parse_ir(sources, sources.add("k.ir", text), types, diags);
    if (!fn) return diags.all().empty() ? "?" : diags.all()[0].message;
    const std::string printed = ir::print(*fn);
    return printed == text ? "the same" : printed;
}

TEST(CachingText, IsReadBack) {
    for (const char* cache : {"", " cache all", " cache l2", " cache stream", " cache through"})
        for (const char* evict : {"", " evict normal", " evict first", " evict last"}) {
            const std::string asked = std::string(cache) + evict;
            const bool contradicts =
                *evict && (asked.starts_with(" cache through") || (asked.starts_with(" cache stream") && !asked.ends_with("first")));
            const std::string found = read_back("  %0 = load %y[%i]" + asked + " : f32\n  store %y[%i] = %0" + asked + "\n  %1 = ptr_load %p" +
                                                asked + " {flags = 0} : f32\n  ptr_store %p, %1" + asked + " {flags = 0}\n");
            EXPECT_TRUE(contradicts ? found.find("contradict") != std::string::npos : found == "the same") << asked << ": " << found;
        }
    EXPECT_EQ(read_back("  %0 = load %y[%i] cache l3 : f32\n"), "unknown cache `l3`");
    EXPECT_EQ(read_back("  %0 = load %y[%i] evict first cache l2 : f32\n"), "expected one type per result, found `cache`");
    EXPECT_EQ(read_back("  %0 = ptr_load %p {flags = 8} : f32\n"),
              "kernel @k(%y: tensor<f32>[8] inout, %p: ptr<f32>, %i: i64) {\n  %0 = ptr_load %p cache l2 {flags = 0} : f32\n  ret\n}\n");
    EXPECT_NE(read_back("  %0 = ptr_load %p {flags = 28} : f32\n").find("contradict"), std::string::npos);
    EXPECT_NE(read_back("  %0 = ptr_load %p {flags = 128} : f32\n").find("flag is not allowed"), std::string::npos);
    EXPECT_NE(read_back("  %0 = constant 0 : f32\n  %1 = ptr_atomic %p, %0 {flags = 8} : f32\n").find("flag is not allowed"), std::string::npos);
}

}  // namespace
}  // namespace tegula
