// Every kernel of the examples compiles for sm_90a and for a sample of the other architectures, on a machine without a GPU: emitted, taken by NVRTC,
// without serialised products, and without spills on sm_90a. TEGULA_LONG takes all architectures, and the forms for tensors of which nothing is
// known. Products written over indices get the instruction that `dot` gets.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <regex>
#include <sstream>
#include <thread>

#include "jit/cuda/cuda.h"
#include "jit/cuda/print.h"
#include "lang/kernel/kernel_text.h"
#include "lang/ir_text.h"
#include "lower/gpu/gpu.h"
#include "lower/kernel/lower.h"
#include "lower/lower.h"
#include "lower/rewrite.h"
#include "tests/unit/example_kernels.h"
#include "tests/unit/sample.h"

namespace tegula {
namespace {

using test::Example;
using test::examples;

/// IR text taken through the GPU passes. `usual`: tensors aligned and apart.
struct Lowered {
    TypeTable types;
    SourceMap sources;
    std::unique_ptr<ir::Function> fn;
    GpuOptions options;
    Lowered(const std::string& text, const Arch& arch, bool usual = true) {
        DiagSink diags;
        fn = ir::parse_ir(sources, sources.add("example.ir", text), types, diags);
        if (!fn) throw InternalError("unreadable IR\n" + text);
        options.arch = &arch;
        options.tensors.assign(fn->params.size(), {usual, false});
        options.may_alias = !usual;
        run_gpu_passes(*fn, options);
    }
};

struct Job {
    const Example* example;
    const Arch* arch;
    bool usual;
};

struct Findings {
    std::mutex mutex;
    std::vector<std::string> failures, spills;
    std::map<std::string, int> given;  ///< by text: an architecture that a compiler got it for
    int compiled = 0, known = 0;
    double seconds = 0;

    /// Whether a compiler got `text` for an architecture of which `arch` is a superset. Those of a name in `a` have no superset.
    bool knows(const std::string& text, const Arch& arch) {
        const std::lock_guard lock(mutex);
        const auto at = given.find(text);
        const bool is_known = at != given.end() && at->second < arch.number && std::string_view(arch.name) != "sm_90a";  // whose spills are counted
        if (std::string_view(arch.name).back() != 'a' && !is_known) given[text] = arch.number;
        known += is_known;
        return is_known;
    }
};

/// A place of the kernel, not of its prelude, where bits of other numbers than the thread's are masked right in front of a shift, "r & 24) >> 2": see
/// Prelude::opaque; "": there is none.
std::string masked_before_shift(std::string_view source) {
    static const std::regex form(R"((\([^()]*) & [0-9][0-9a-fxul]*\)+ >> [0-9])"), of_thread(R"(\(t( >> [0-9]+)?( & .*)?)");
    const std::string kernel(source.substr(std::min(source.find("__global__"), source.size())));
    for (std::sregex_iterator at(kernel.begin(), kernel.end(), form), end; at != end; ++at)
        if (!std::regex_match(at->str(1), of_thread)) return at->str();
    return {};
}

TEST(Everywhere, MasksInFrontOfShiftsAreSeen) {
    EXPECT_NE(masked_before_shift("__global__ k() { a[((x & 24)) >> 2]; }"), "");
    EXPECT_NE(masked_before_shift("__global__ k() { (long long)(x & 24ull) >> 2; }"), "");
    EXPECT_EQ(masked_before_shift(
                  "(x & 24) >> 2; __global__ k() { (x >> 2 & 6); (a & b) >> 2; f(24) >> 2; (r & 64) << 6; (t & 24) >> 2; (t >> 2 & 7) >> 1; }"),
              "");
}

void compile(cuda::Backend& backend, const Job& job, Findings& findings) {
    const std::string name = job.example->name() + (job.usual ? " for " : " (nothing known of its tensors) for ") + job.arch->name;
    std::vector<std::string> failures, spills;
    double seconds = 0;
    try {
        const Lowered lowered(job.example->text, *job.arch, job.usual);
        Arch arch = *job.arch;  // PTX as drivers translate it for a GPU of its number: without what only one generation has
        const std::string translated = "sm_" + std::to_string(arch.number);
        if (arch.is_ptx()) arch.name = translated.c_str(), arch.ptx = false;
        const KernelText text = cuda::printed(lower_to_kernel(*lowered.fn, nullptr));
        if (findings.knows(text.source, arch)) return;
        if (const std::string masked = masked_before_shift(text.source); !masked.empty()) failures.push_back(name + ": " + masked);
        const auto compiled = backend.compile_text(text, arch);
        if (!compiled) {
            failures.push_back(name + ": " + compiled.error);
        } else {
            seconds = compiled.value->seconds;
            for (const Diagnostic& d : cuda::warnings_of(*compiled.value, *lowered.fn, *job.arch))
                if (d.id == Diag::products_serialised || d.id == Diag::not_optimised) failures.push_back(name + ": " + d.message);
            const cuda::Resources& r = compiled.value->resources;
            if (r.spill_stores + r.spill_loads > 0)
                spills.push_back(name + (ir::print(*lowered.fn).find("ptr_load") == std::string::npos ? ": " : " by pointers: ") + std::to_string(r.spill_stores) + " bytes stored, " + std::to_string(r.spill_loads) + " loaded, " +
                                 std::to_string(r.registers) + " registers");
        }
    } catch (const std::exception& error) {
        failures.push_back(name + ": " + std::string(error.what()).substr(0, 3000));
    }
    const std::lock_guard lock(findings.mutex);
    ++findings.compiled;
    findings.seconds += seconds;
    findings.failures.insert(findings.failures.end(), failures.begin(), failures.end());
    findings.spills.insert(findings.spills.end(), spills.begin(), spills.end());
}

std::vector<Job> jobs() {
    const bool all = test::is_long();
    std::vector<Job> out;
    uint64_t number = 0, sampled = 0;
    for (const Example& example : examples())
        for (const Arch& arch : all_archs()) {
            // All for one, and of the sample a third for the others: kernels for these are run on the GPU that the CPU plays.
            const bool taken = test::is_sampled(number++) && sampled++ % 3 == 0;
            if (!all && !taken && std::string_view(arch.name) != "sm_90a") continue;
            out.push_back({&example, &arch, true});
            if (all) out.push_back({&example, &arch, false});
        }
    return out;
}

TEST(Everywhere, ExamplesCompileForEveryArchitecture) {
    cuda::Backend backend{{nullptr, {}, {}, {}}};
    if (!backend.availability().compiler) GTEST_SKIP() << "no NVRTC here: " << backend.availability().problem();
    ASSERT_GT(examples().size(), 50u);
    const std::vector<Job> work = jobs();
    Findings findings;
    std::atomic<size_t> next{0};
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < std::max(1u, std::thread::hardware_concurrency()); ++t)
        threads.emplace_back([&] {
            for (size_t i = next++; i < work.size(); i = next++) compile(backend, work[i], findings);
        });
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(static_cast<size_t>(findings.compiled + findings.known), work.size());
    std::printf("%zu kernels, %d compilations, %d known, %.1f s in NVRTC\n", examples().size(), findings.compiled, findings.known, findings.seconds);
    for (const std::string& f : findings.failures) ADD_FAILURE() << f;
    for (const std::string& s : findings.spills) {
        std::printf("spills: %s\n", s.c_str());
        // Accesses through pointers stay in the form that launches take where no views of tensors fit.
        EXPECT_EQ(s.find(" for sm_90a:"), std::string::npos) << s;
    }
}

// ---- products over indices ----

/// The row of every product of the only kernel in `source`.
std::vector<int> rows_of(const std::string& source, const char* arch) {
    std::vector<int> rows;
    EngineOptions options;
    std::string text;
    options.on_elaborated = [&](const ir::Function& fn) {
        if (!fn.is_kernel) return;
        ir::Function copy = fn;
        run_passes(copy, {});
        text = ir::print(copy);
    };
    const auto engine = Engine::create(options);
    DiagSink diags;
    const ModulePtr module = engine->load("product.tile", source, "", diags);
    if (module) engine->check_instances(*module, diags);
    for (const Diagnostic& d : diags.all()) ADD_FAILURE() << render_text(d, engine->sources(), false);
    if (text.empty()) return rows;
    const Lowered lowered(text, *find_arch(arch));
    lowered.fn->walk([&](ir::InstId id) {
        if (lowered.fn->inst(id).op == ir::Op::dot) rows.push_back(lowered.fn->gpu_inst(id).row);
    });
    return rows;
}

/// c = a @ b with operands of type `t` stored in `order` (nn, nt: b is [N, K], tn: a is [K, M]), by index form or by `dot`.
std::string product(const std::string& t, const std::string& acc, const std::string& order, bool index_form, int tile) {
    const std::string n = std::to_string(tile);
    const bool at = order[0] == 't', bt = order[1] == 't';
    std::string out = "edition 1;\nkernel matmul(a: tensor<" + t + ">[" + (at ? "K, M" : "M, K") + "], b: tensor<" + t + ">[" +
                      (bt ? "N, K" : "K, N") + "], out c: tensor<" + acc + ">[M, N])\n    grid [cdiv(M, " + n + "), cdiv(N, " + n +
                      ")]\n{\n    let (m, n) = (program_id(0) * " + n + ", program_id(1) * " + n + ");\n    var acc = zeros<" + acc + ">[" + n +
                      ", " + n + "];\n    for k0 in 0 .. K step 64 {\n";
    if (index_form)
        out += "        acc += [i < " + n + ", j < " + n + "] => sum[k < 64] => a[" + (at ? "k0 + k, m + i" : "m + i, k0 + k") + "] * b[" +
               (bt ? "n + j, k0 + k" : "k0 + k, n + j") + "];\n";
    else
        out += std::string("        acc = dot(") + (at ? "trans(a[k0 +: 64, m +: " + n + "])" : "a[m +: " + n + ", k0 +: 64]") + ", " +
               (bt ? "trans(b[n +: " + n + ", k0 +: 64])" : "b[k0 +: 64, n +: " + n + "]") + ", acc);\n";
    return out + "    }\n    c[m +: " + n + ", n +: " + n + "] = acc;\n}\n";
}

TEST(Everywhere, IndexFormGetsTheInstructionOfDot) {
    for (const char* arch : {"sm_75", "sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a"})
        for (const auto& [type, acc] : {std::pair("f16", "f32"), std::pair("i8", "i32")})
            for (const char* order : {"nn", "nt", "tn"})
                for (const int tile : {64, 128}) {
                    const auto by_dot = rows_of(product(type, acc, order, false, tile), arch);
                    const auto by_index = rows_of(product(type, acc, order, true, tile), arch);
                    const std::string what = std::string(type) + " " + order + " " + std::to_string(tile) + " on " + arch;
                    ASSERT_EQ(by_dot.size(), 1u) << what;
                    EXPECT_EQ(by_index, by_dot) << what;
                    const MmaRow& row = mma_rows()[static_cast<size_t>(by_dot[0])];
                    EXPECT_NE(row.kind, MmaRow::fma) << what;
                    EXPECT_EQ(row.kind == MmaRow::wgmma, std::string_view(arch) == "sm_90a") << what << ": " << row.name;
                    EXPECT_EQ(row.kind == MmaRow::tcgen05, std::string_view(arch) == "sm_100a" && tile == 128) << what << ": " << row.name;
                }
}

/// `explain` of the kernel `matmul` of `source`.
std::string explained(const std::string& source, const char* kind) {
    const auto engine = Engine::create({});
    DiagSink diags;
    const ModulePtr module = engine->load("product.tile", source, "", diags);
    Status status = Status::ok;
    const auto exe = module ? engine->compile_named(*module, "matmul", {}, {}, diags, status) : nullptr;
    const std::optional<std::string> text = exe ? engine->artifact(*module, *exe, kind, diags) : std::nullopt;
    for (const Diagnostic& d : diags.all()) ADD_FAILURE() << render_text(d, engine->sources(), false);
    return text.value_or("");
}

/// The line of `text` that holds `part`, or empty.
std::string line_with(const std::string& text, const std::string& part) {
    const size_t at = text.find(part);
    if (at == std::string::npos) return {};
    const size_t begin = text.rfind('\n', at) + 1;
    return text.substr(begin, text.find('\n', at) - begin);
}

TEST(Everywhere, ExplainSaysWhyNoTensorCore) {
    // Nothing multiplies 16-bit integers; the sum stands in line 8.
    const std::string wide = explained(product("i16", "i32", "nn", true, 64), "explain@sm_90a");
    const std::string line = line_with(wide, "fma (no tensor core)");
    EXPECT_TRUE(line.starts_with("product.tile:8:")) << wide;
    EXPECT_NE(line.find("; not wgmma.s8.s8 m64nNk32: takes "), std::string::npos) << wide;
    // 5-bit integers are exact in f64, which has tensor cores from sm_80 on.
    std::string mixed = product("u5", "f64", "nn", true, 64);
    mixed.replace(mixed.find("b: tensor<u5>"), 13, "b: tensor<f64>");
    mixed.replace(mixed.find("=> a["), 5, "=> cast<f64>(a[");
    mixed.replace(mixed.find("] * b"), 5, "]) * b");
    EXPECT_NE(explained(mixed, "explain@sm_80").find("mma.sync.f64"), std::string::npos);
    const std::string old = line_with(explained(mixed, "explain@sm_75"), "fma (no tensor core)");
    EXPECT_NE(old.find("no tensor core of sm_75 accumulates in f64"), std::string::npos) << old;
    // A sum over rows of squares has no columns.
    const std::string squares =
        "edition 1;\nkernel matmul(a: tensor<f16>[M, K], out c: tensor<f32>[M]) grid [1] {\n"
        "    c[0 +: 64] = [i < 64] => sum[k < 64] => cast<f32>(a[i, k]) * cast<f32>(a[i, k]);\n}\n";
    const std::string said = line_with(explained(squares, "explain@sm_90a"), "not a matrix product: ");
    EXPECT_TRUE(said.starts_with("product.tile:3:")) << said;
    EXPECT_NE(said.find("every index appears in both operands"), std::string::npos) << said;
}

}  // namespace
}  // namespace tegula
