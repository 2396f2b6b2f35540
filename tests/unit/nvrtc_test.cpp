// Compiling at run time: NVRTC where it is found, the reading of its logs everywhere, and a back end on a machine that has neither.
#include "jit/cuda/nvrtc.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>

#include "jit/cuda/state.h"
#include "tegula/tegula.hpp"

namespace tegula::cuda {
namespace {

std::string kernel_text(int n) {
    const std::string i = std::to_string(n);
    return "#line " + i +
           " \"file.tile\"\nextern \"C\" __global__ void __launch_bounds__(128) scale(float* x) { x[blockIdx.x * 128 + threadIdx.x] *= " + i +
           ".0f; }\n";
}

KernelText text_of(std::string source, std::string entry) {
    KernelText text;
    text.source = std::move(source);
    if (text.source.starts_with("#line")) text.marks = {{0, text.source.find('\n') + 1}};
    text.entry = std::move(entry);
    return text;
}

/// Needs more registers than it may have.
const char* const kSpilling = R"(extern "C" __global__ void __launch_bounds__(1024, 2) spill(float* x, float* y) {
    float v[100];
#pragma unroll
    for (int i = 0; i < 100; ++i) v[i] = x[i * 1024 + threadIdx.x];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 100; ++i) y[i * 1024 + threadIdx.x] = v[i] * v[99 - i];
}
)";

/// `count` loops in which threads part, each of which costs ptxas a convergence barrier until the end, then paths within paths.
std::string parting_text(int count) {
    std::string text = R"(__device__ __forceinline__ unsigned key(float v) {
    const unsigned b = __float_as_uint(v);
    return v != v ? ~0u : b & 0x80000000u ? ~b : b | 0x80000000u;
}
extern "C" __global__ void __launch_bounds__(128) part(float* v, int* w) {
    const int t = threadIdx.x;
    float x[80];
    int at[80];
#pragma unroll 1
    for (int i = 0; i < 80; ++i) x[i] = v[i * 128 + t], at[i] = w[i * 128 + t];
)";
    for (int k = 0; k < count; ++k) {
        const std::string other = "[i + " + std::to_string(1 << k % 5) + "]";
        text += "#pragma unroll 1\n    for (int i = 0; i < 64; ++i) {\n        const unsigned a = key(x[i]), b = key(x" + other +
                ");\n        const bool take = b < a || (b == a && at" + other + " < at[i]);\n        x[i] = take ? x" + other +
                " : x[i];\n        at[i] = take ? at" + other + " : at[i];\n    }\n";
    }
    return text + R"(#pragma unroll 1
    for (int i = 0; i < 64; ++i) {
        if (x[i] > 5) {
            if (at[i] & 1) {
                if (at[i] & 2) {
                    if (at[i] & 4) atomicOr(w + at[i], 3);
                    atomicAnd(w + i, 5);
                }
                atomicOr(w + i, 5);
            }
            atomicAnd(w + i, at[i]);
        }
        v[i * 128 + t] = x[i];
    }
}
)";
}

class MapCache : public BlobCache {
public:
    std::optional<std::string> find(std::string_view key) override {
        std::lock_guard lock(mutex_);
        const auto it = blobs_.find(std::string(key));
        return it == blobs_.end() ? std::nullopt : std::optional(it->second);
    }
    void put(std::string_view key, std::string_view blob) override {
        std::lock_guard lock(mutex_);
        blobs_[std::string(key)] = blob;
        ++puts_;
    }
    /// Every entry becomes what `change` makes of its kernel.
    void alter(void (*change)(CompiledKernel& kernel)) {
        for (auto& [key, blob] : blobs_) {
            CompiledKernel kernel = *from_blob(blob);
            change(kernel);
            blob = to_blob(kernel);
        }
    }
    size_t size() const { return blobs_.size(); }
    int puts() const { return puts_; }

private:
    std::mutex mutex_;
    std::map<std::string, std::string> blobs_;
    int puts_ = 0;
};

class NvrtcTest : public ::testing::Test {
protected:
    void SetUp() override {
        if (!backend_.availability().compiler) GTEST_SKIP() << "no NVRTC here: " << backend_.availability().problem();
    }
    std::shared_ptr<MapCache> cache_ = std::make_shared<MapCache>();
    Backend backend_{{cache_, {}, {}, {}}};
    const Arch& hopper_ = *find_arch("sm_90a");
};

// ---- logs, on any machine ----

TEST(CompilerLog, NamesWhatPtxasRefuses) {
    EXPECT_EQ(refused_ptx("kernel.cu(43): warning #550-D\nptxas application ptx input, line 60; error   : Arguments mismatch for instruction 'sub'\n"
                          "ptxas application ptx input, line 61; error   : Arguments mismatch for instruction 'sub'\n"
                          "ptxas fatal   : Ptx assembly aborted due to errors\n"),
              "Arguments mismatch for instruction 'sub'");
    EXPECT_EQ(refused_ptx("kernel.cu(43): error: expected a \";\"\n"), "");
}

TEST(CompilerLog, resources_and_warnings) {
    // What ptxas 13.0 writes for two kernels, one of which spills, and its notes on serialised products.
    const CompilerLog log = parse_log(
        "kernel.cu(3): warning #177-D: variable \"q\" was declared but never referenced\n"
        "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to insufficient register resources "
        "for the wgmma pipeline in the function 'gemm'\n"
        "ptxas warning : setmaxnreg ignored; unable to determine register count at entry\n"
        "ptxas info    : 0 bytes gmem\n"
        "ptxas info    : Compiling entry function 'other' for 'sm_90a'\n"
        "ptxas info    : Function properties for other\n"
        "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
        "ptxas info    : Used 12 registers, used 1 barriers, 16 bytes smem\n"
        "ptxas info    : Compiling entry function 'gemm' for 'sm_90a'\n"
        "ptxas info    : Function properties for gemm\n"
        "ptxas         .     96 bytes stack frame, 64 bytes spill stores, 72 bytes spill loads\n"
        "ptxas info    : Used 168 registers, used 2 barriers, 96 bytes cumulative stack size, 256 bytes smem\n",
        "gemm");
    EXPECT_EQ(log.resources.registers, 168);
    EXPECT_EQ(log.resources.stack_bytes, 96);
    EXPECT_EQ(log.resources.spill_stores, 64);
    EXPECT_EQ(log.resources.spill_loads, 72);
    EXPECT_EQ(log.resources.static_shared, 256);
    ASSERT_EQ(log.remarks.size(), 2u);
    EXPECT_EQ(log.remarks[0].substr(0, 39), "C7510: Potential Performance Loss: wgmm");
    EXPECT_EQ(log.remarks[1], "setmaxnreg ignored; unable to determine register count at entry");
}

TEST(CompilerLog, hostile_text_is_no_trouble) {
    EXPECT_TRUE(parse_log("", "k").remarks.empty());
    EXPECT_EQ(parse_log("ptxas info : Compiling entry function 'k\nUsed 99999999999999999999999 registers", "k").resources.registers, 0);
    parse_log("ptxas\nptxas :\nptxas info : (C\nFunction properties for \n bytes stack frame", "");
}

TEST(CompilerLog, version_of_the_assembler) {
    EXPECT_EQ(compiler_of("..Cuda compilation tools, release 13.0, V13.0.88.."), (std::array<int, 3>{13, 0, 88}));
    EXPECT_EQ(compiler_of("Cuda compilation tools, release 12.8, V12.8.93"), (std::array<int, 3>{12, 8, 93}));
    EXPECT_EQ(compiler_of("Cuda compilation tools, release 13.0, Vx"), (std::array<int, 3>{}));
    EXPECT_EQ(compiler_of("nothing"), (std::array<int, 3>{}));
}

TEST(CompilerLog, versions_that_are_known_to_be_wrong) {
    static constexpr BadCompiler kRows[] = {{{12, 8, 60}, {12, 9, 5}, 90, 100, "first"}, {{13, 0, 0}, {13, 0, 9999}, 75, 999, "second"}};
    const auto found = [](int major, int minor, int build, const char* arch) {
        const BadCompiler* row = find_bad_compiler(kRows, {major, minor, build}, *find_arch(arch));
        return row ? std::string(row->reason) : std::string();
    };
    EXPECT_EQ(found(12, 8, 59, "sm_90a"), "");
    EXPECT_EQ(found(12, 8, 60, "sm_90a"), "first");
    EXPECT_EQ(found(12, 8, 9999, "sm_90a"), "first");
    EXPECT_EQ(found(12, 9, 0, "sm_90a"), "first") << "numbers are compared one after the other";
    EXPECT_EQ(found(12, 9, 5, "sm_100a"), "first");
    EXPECT_EQ(found(12, 9, 6, "sm_90a"), "");
    EXPECT_EQ(found(12, 8, 61, "sm_89"), "");
    EXPECT_EQ(found(12, 8, 61, "sm_120a"), "");
    EXPECT_EQ(found(13, 0, 88, "sm_120a"), "second");
    EXPECT_EQ(found(0, 0, 0, "sm_90a"), "") << "PTX names no compiler";
    EXPECT_TRUE(find_bad_compiler(bad_compilers(), {12, 8, 93}, *find_arch("sm_90a")));
    EXPECT_FALSE(find_bad_compiler(bad_compilers(), {12, 8, 93}, *find_arch("sm_80")));
    EXPECT_FALSE(find_bad_compiler(bad_compilers(), {13, 0, 88}, *find_arch("sm_90a")));
}

/// Codes and texts of the warnings about a kernel `gemm` for sm_90a.
std::vector<std::string> said_of(const CompiledKernel& kernel) {
    TypeTable types;
    ir::Function form(types);
    form.name = "gemm";
    std::vector<std::string> out;
    for (const Diagnostic& d : warnings_of(kernel, form, *find_arch("sm_90a"))) {
        EXPECT_EQ(d.severity, Severity::warning);
        out.push_back(std::string(diag_row(d.id).code) + " " + d.message);
    }
    return out;
}

TEST(Remarks, in_plain_words) {
    CompiledKernel kernel;
    EXPECT_EQ(said_of(kernel), std::vector<std::string>());
    kernel.resources.stack_bytes = 512;
    EXPECT_EQ(said_of(kernel), std::vector<std::string>());
    kernel.resources.stack_bytes = 520;
    EXPECT_EQ(said_of(kernel),
              std::vector<std::string>{"T1109 `gemm` does not fit in the registers of sm_90a: 520 bytes of each thread lie in local memory"});
    kernel.resources.stack_bytes = 0;
    kernel.resources.spill_stores = kernel.resources.spill_loads = 64;
    EXPECT_EQ(said_of(kernel), std::vector<std::string>()) << "16 registers out and in";
    kernel.resources.spill_loads = 72;
    const std::string loss = "Potential Performance Loss: wgmma.mma_async instructions are serialized due to ", in = " in the function 'tegula_gemm'";
    kernel.remarks = {
        "C7510: " + loss + "insufficient register resources for the wgmma pipeline" + in,
        "C7512: " + loss + "insufficient register resources for the function 'tegula_gemm'",
        "C7511: " + loss + "non wgmma instructions defining accumulator registers of a wgmma between start and end of the pipeline stage" + in,
        "C7519: warpgroup.arrive is injected in around line 3 by compiler to allow use of registers in GMMA" + in,
        "C7508: " + loss + "the presence of Extern calls" + in,
        "setmaxnreg ignored; unable to determine register count at entry",
        "C9999: \x1b of another time"};
    kernel.image = "..Cuda compilation tools, release 12.8, V12.8.93..";
    const std::string wait = "T1104 products of `gemm` wait for one another on sm_90a: ",
                      about = "T1105 about the machine code of `gemm` for sm_90a: ";
    EXPECT_EQ(said_of(kernel), (std::vector<std::string>{
                                   "T1103 `gemm` does not fit in the registers of sm_90a: each thread stores 64 bytes of them to memory and loads 72",
                                   wait + "their sums and operands do not fit in registers", wait + "a sum is written while they run",
                                   wait + "registers that they read are written shortly before", wait + "a function is called between them",
                                   about + "warps that only copy keep registers that those which compute should have",
                                   about + "ptxas says: C9999: \\x1b of another time",
                                   "T1106 `gemm` is compiled for sm_90a by a version of NVRTC that is not to be trusted: ptxas 12.8 makes wrong code "
                                   "of some kernels for sm_90a"}));
}

TEST(Blob, round_trip_and_damage) {
    CompiledKernel kernel;
    kernel.image = std::string(
        "\x7f"
        "ELF\0image",
        10);
    kernel.entry = "k";
    kernel.resources = {40, 8, 16, 24, 32};
    kernel.remarks = {"one", "two"};
    const std::string blob = to_blob(kernel);
    const auto back = from_blob(blob);
    ASSERT_TRUE(back);
    EXPECT_EQ(back->image, kernel.image);
    EXPECT_EQ(back->remarks, kernel.remarks);
    EXPECT_EQ(back->resources.spill_loads, 24);
    EXPECT_TRUE(back->cached);
    for (size_t n = 0; n < blob.size(); ++n) EXPECT_FALSE(from_blob(blob.substr(0, n))) << n;
    EXPECT_FALSE(from_blob(blob + "x"));
}

TEST(Text, line_directives_are_left_out) {
    KernelText text;
    text.source = "#line 3 \"a\"\nint x;\n#line 4\nint y;";
    text.marks = {{0, 12}, {19, 27}};
    EXPECT_EQ(without_marks(text), "int x;\nint y;");
    text.marks.clear();
    EXPECT_EQ(without_marks(text), text.source);
    EXPECT_EQ(without_marks({}), "");
    text.source = "#line 1";
    text.marks = {{0, 7}};
    EXPECT_EQ(without_marks(text), "");
}

TEST(Availability, missing_things_are_told) {
    BackendOptions options;
    options.nvrtc_path = "/nowhere/libnvrtc.so";
    Backend backend(std::move(options));
    const Availability& a = backend.availability();
    EXPECT_FALSE(a.compiler);
    EXPECT_NE(a.problem().find("NVRTC"), std::string::npos);
    bool told = false;
    for (const std::string& line : a.looked_for) told = told || line.find("/nowhere/libnvrtc.so") != std::string::npos;
    EXPECT_TRUE(told);
    const auto compiled = backend.compile_text(text_of(kernel_text(2), "scale"), *find_arch("sm_90a"));
    EXPECT_FALSE(compiled);
    EXPECT_NE(compiled.error.find("/nowhere/libnvrtc.so"), std::string::npos);
    TypeTable types;
    const ir::Function fn(types);
    EXPECT_FALSE(backend.prepare(fn, nullptr));
}

TEST(Availability, a_library_that_is_none_is_told) {
    BackendOptions options;
    options.nvrtc_path = "/proc/self/exe";
    Backend backend(std::move(options));
    EXPECT_FALSE(backend.availability().compiler);
}

// ---- compiling ----

TEST_F(NvrtcTest, every_architecture) {
    for (const Arch& arch : all_archs()) {
        const auto compiled = backend_.compile_text(text_of(kernel_text(2), "scale"), arch);
        ASSERT_TRUE(compiled) << arch.name << ": " << compiled.error;
        EXPECT_EQ(compiled.value->is_ptx, arch.is_ptx()) << arch.name;
        EXPECT_GE(compiler_of(compiled.value->image)[0], 12) << "the compiler's version is told";
        if (arch.is_ptx()) {
            EXPECT_NE(compiled.value->image.find(".target sm_" + std::to_string(arch.number) + "\n"), std::string::npos) << arch.name;
            EXPECT_NE(compiled.value->image.find(".entry scale"), std::string::npos) << arch.name;
            continue;
        }
        EXPECT_GT(compiled.value->resources.registers, 0) << arch.name;
        EXPECT_EQ(compiled.value->image.substr(0, 4),
                  "\x7f"
                  "ELF")
            << arch.name;
    }
    EXPECT_EQ(cache_->size(), all_archs().size());
}

TEST_F(NvrtcTest, an_unknown_architecture_is_refused) {
    Arch future = hopper_;
    future.name = "sm_990", future.number = 990;
    const auto compiled = backend_.compile_text(text_of(kernel_text(2), "scale"), future);
    ASSERT_FALSE(compiled);
    EXPECT_NE(compiled.error.find("does not know sm_990"), std::string::npos) << compiled.error;
}

TEST_F(NvrtcTest, text_that_is_refused_is_an_internal_error) {
    try {
        (void)backend_.compile_text(text_of("this is no kernel\n", "k"), hopper_);
        FAIL() << "accepted";
    } catch (const InternalError& e) {
        const std::string what = e.what();
        EXPECT_NE(what.find("this is no kernel"), std::string::npos);
        EXPECT_NE(what.find("error"), std::string::npos);
        EXPECT_NE(what.find("sm_90a"), std::string::npos);
    }
    EXPECT_EQ(cache_->size(), 0u);
}

/// The warning points at the tiles, and `explain` knows them without a compiler.
TEST_F(NvrtcTest, tiles_in_local_memory_are_named) {
    auto module = tegula::Engine::create({}).value().load(R"(
kernel mm<B: int>(x: tensor<f16>[M, Q], w: tensor<f16>[Q, N], out y: tensor<f32>[M, N]) grid [1] {
    var a = zeros<f32>[B, B];
    for k in 0 .. Q step 16 { a = dot(x[0 +: B, k +: 16], w[k +: 16, 0 +: B], a); }
    y[0 +: B, 0 +: B] = a;
}
)",
                                                          "mm.tile");
    ASSERT_TRUE(module);
    for (const int64_t b : {320, 64}) {
        auto kernel = module.value().compile("mm", {{"B", b}});
        ASSERT_TRUE(kernel);
        const auto made = kernel.value().artifact("resources@sm_90a");
        ASSERT_TRUE(made) << made.diagnostics().text();
        const std::string said = made.diagnostics().text(), explained = kernel.value().artifact("explain@sm_90a").value();
        const bool large = b == 320;
        EXPECT_EQ(said.find("T1109") != said.npos, large) << said;
        for (const std::string& text : {said, explained})
            EXPECT_EQ(text.find("`tile<f32>[320, 320]`: 400 elements (1600 bytes) of each thread") != text.npos, large) << text;
        EXPECT_EQ(said.find("4 |     for k in") != said.npos, large) << said;
    }
}

/// Compile time follows the instructions that come of an element: of weights that are not as wide as bytes, of formats that are looked up, and of
/// arithmetic that the machine does not have.
TEST_F(NvrtcTest, narrow_formats_take_few_instructions) {
    struct Case {
        std::string text;
        int elements;  ///< of a thread
        int most;      ///< instructions of PTX for each
    };
    const auto product = [](const std::string& type, int m, int n, int most) {
        const std::string bm = std::to_string(m), bn = std::to_string(n);
        return Case{"kernel k(a: tensor<f16>[M, K], b: tensor<" + type + ">[N, K], out c: tensor<f32>[M, N]) grid [cdiv(M, " + bm + "), cdiv(N, " +
                        bn + ")] {\n    let (m, n) = (program_id(0) * " + bm + ", program_id(1) * " + bn + ");\n    var acc = zeros<f32>[" + bm +
                        ", " + bn + "];\n    for k in 0 .. K step 128 { acc = dot(a[m +: " + bm + ", k +: 128], trans(cast<f16>(b[n +: " + bn +
                        ", k +: 128])), acc); }\n    c[m +: " + bm + ", n +: " + bn + "] = acc;\n}\n",
                    n, most};
    };
    const auto chain = [](const std::string& type, int most) {
        return Case{"kernel k(x: tensor<" + type + ">[N], y: tensor<" + type + ">[N], out z: tensor<" + type +
                        ">[N]) grid [cdiv(N, 4096)] {\n    let i = program_id(0) * 4096;\n    let (a, b) = (x[i +: 4096], y[i +: "
                        "4096]);\n    z[i +: 4096] = (a * b + a) * b + a;\n}\n",
                    32, most};
    };
    for (const Case& c :
         {product("i5", 1, 256, 20), product("fixed<3, 4>", 16, 128, 22), product("lns<3, 4>", 16, 128, 20),
          chain("float<5, 3, signed = false>", 200), chain("float<4, 3, subnormal = false>", 60), chain("lns<3, 4>", 60), chain("f6e3m2", 250)}) {
        auto module = tegula::Engine::create({}).value().load(c.text, "k.tile");
        ASSERT_TRUE(module) << c.text;
        auto kernel = module.value().compile("k", {});
        ASSERT_TRUE(kernel) << c.text;
        auto ptx = kernel.value().artifact("ptx@sm_90a");
        ASSERT_TRUE(ptx) << ptx.diagnostics().text();
        const std::string text = ptx.value();
        EXPECT_LE(std::count(text.begin(), text.end(), ';'), int64_t{c.most} * c.elements) << c.text;
    }
}

TEST_F(NvrtcTest, spills_are_seen) {
    const auto compiled = backend_.compile_text(text_of(kSpilling, "spill"), hopper_);
    ASSERT_TRUE(compiled) << compiled.error;
    EXPECT_GT(compiled.value->resources.spill_stores, 0);
    EXPECT_LE(compiled.value->resources.registers, 32);
    const std::vector<std::string> said = said_of(*compiled.value);
    ASSERT_EQ(said.size(), 1u);
    EXPECT_EQ(said[0].substr(0, 6), "T1103 ");
    const auto cached = backend_.compile_text(text_of(kSpilling, "spill"), hopper_);
    ASSERT_TRUE(cached && cached.value->cached);
    EXPECT_EQ(said_of(*cached.value), said);
}

TEST_F(NvrtcTest, barriers_in_registers_are_avoided) {
    const auto without_optimisation = [&](const CompiledKernel& kernel) {
        const std::vector<std::string> said = said_of(kernel);
        return std::count_if(said.begin(), said.end(), [](const std::string& s) { return s.starts_with("T1107 "); });
    };
    const auto few = backend_.compile_text(text_of(parting_text(4), "part"), hopper_);
    ASSERT_TRUE(few) << few.error;
    EXPECT_FALSE(has_opcode(few.value->image, kMovesBarrier));
    EXPECT_EQ(without_optimisation(*few.value), 0);
    for (size_t size = 0; size < few.value->image.size(); size += 7) has_opcode(std::string_view(few.value->image).substr(0, size), kMovesBarrier);
    for (size_t at = 0; at < 64 && at < few.value->image.size(); ++at) {
        std::string damaged = few.value->image;
        damaged[at] = '\xff';
        has_opcode(damaged, kMovesBarrier);
    }
    const auto many = backend_.compile_text(text_of(parting_text(16), "part"), hopper_);
    ASSERT_TRUE(many) << many.error;
    EXPECT_EQ(without_optimisation(*many.value), 1);
    const auto cached = backend_.compile_text(text_of(parting_text(16), "part"), hopper_);
    ASSERT_TRUE(cached && cached.value->cached);
    EXPECT_EQ(said_of(*cached.value), said_of(*many.value));
}

TEST_F(NvrtcTest, what_is_cached_is_judged_by_the_list_of_today) {
    ASSERT_TRUE(backend_.compile_text(text_of(kernel_text(2), "scale"), hopper_));
    cache_->alter([](CompiledKernel& kernel) { kernel.image = "Cuda compilation tools, release 12.8, V12.8.93"; });
    const auto cached = backend_.compile_text(text_of(kernel_text(2), "scale"), hopper_);
    ASSERT_TRUE(cached && cached.value->cached);
    const std::vector<std::string> said = said_of(*cached.value);
    ASSERT_EQ(said.size(), 1u);
    EXPECT_EQ(said[0].substr(0, 6), "T1106 ");
}

TEST_F(NvrtcTest, nothing_is_contracted_or_flushed) {
    CompileOptions options;
    options.ptx = true;
    const char* source = "extern \"C\" __global__ void k(float* x) { x[0] = x[1] * x[2] + x[3]; x[4] = x[5] / x[6]; }";
    const auto ptx = backend_.compile_text(text_of(source, "k"), hopper_, options);
    ASSERT_TRUE(ptx) << ptx.error;
    EXPECT_EQ(ptx.value->image.find("fma"), std::string::npos);
    EXPECT_EQ(ptx.value->image.find(".ftz"), std::string::npos);
    EXPECT_NE(ptx.value->image.find("mul.rn.f32"), std::string::npos);
    EXPECT_NE(ptx.value->image.find("div.rn.f32"), std::string::npos);
}

TEST_F(NvrtcTest, functions_are_device_functions_and_options_may_be_repeated) {
    KernelText text = text_of("inline int twice(int x) { return 2 * x; } extern \"C\" __global__ void k(int* x) { *x = twice(*x); }", "k");
    text.options = {"--fmad=false", "--std=c++17"};
    EXPECT_TRUE(backend_.compile_text(text, hopper_));
}

TEST_F(NvrtcTest, everything_that_changes_bytes_is_in_the_key) {
    const auto compile = [&](const KernelText& text, const Arch& arch, const CompileOptions& options) {
        const auto compiled = backend_.compile_text(text, arch, options);
        EXPECT_TRUE(compiled) << compiled.error;
        return compiled.value && compiled.value->cached;
    };
    const KernelText text = text_of(kernel_text(2), "scale");
    EXPECT_FALSE(compile(text, hopper_, {}));
    EXPECT_TRUE(compile(text, hopper_, {}));
    KernelText moved = text;
    moved.source.replace(0, 7, "#line 99");
    ++moved.marks.front().end;
    EXPECT_TRUE(compile(moved, hopper_, {})) << "a kernel that moves in its file is the same kernel";
    EXPECT_FALSE(compile(text, *find_arch("sm_80"), {}));
    EXPECT_FALSE(compile(text_of(kernel_text(3), "scale"), hopper_, {}));
    CompileOptions lines, slow;
    lines.line_info = true;
    slow.optimise = 0;
    EXPECT_FALSE(compile(text, hopper_, lines));
    EXPECT_FALSE(compile(moved, hopper_, lines));
    EXPECT_FALSE(compile(text, hopper_, slow));
    KernelText flushed = text;
    flushed.options = {"--ftz=true"};
    EXPECT_FALSE(compile(flushed, hopper_, {}));
    CompileOptions uncached;
    uncached.use_cache = false;
    EXPECT_FALSE(compile(text, hopper_, uncached));
}

TEST_F(NvrtcTest, threads_compile_side_by_side_and_once) {
    std::atomic<int> bad{0};
    {
        std::vector<std::jthread> threads;
        for (int t = 0; t < 8; ++t)
            threads.emplace_back([&] {
                for (int n = 0; n < 3; ++n) {
                    const auto compiled = backend_.compile_text(text_of(kernel_text(n), "scale"), hopper_);
                    if (!compiled || compiled.value->resources.registers == 0) ++bad;
                }
            });
    }
    EXPECT_EQ(bad, 0);
    EXPECT_EQ(cache_->puts(), 3) << "who comes second waits for the first";
}

TEST_F(NvrtcTest, cancelled_compilations_end) {
    std::atomic<bool> cancel{true};
    CompileOptions options;
    options.cancel = &cancel;
    EXPECT_THROW((void)backend_.compile_text(text_of(kernel_text(2), "scale"), hopper_, options), Cancelled);
    EXPECT_EQ(cache_->size(), 0u);
    cancel = false;
    EXPECT_TRUE(backend_.compile_text(text_of(kernel_text(2), "scale"), hopper_, options));
}

TEST_F(NvrtcTest, long_compilations_end_when_they_are_cancelled) {
    // Some seconds, most of them in two steps of NVRTC. The second thread waits for the first one's result.
    const KernelText text = text_of(R"(extern "C" __global__ void slow(float* x) {
    float v[120];
#pragma unroll
    for (int i = 0; i < 120; ++i) v[i] = x[i * 32 + threadIdx.x];
#pragma unroll
    for (int k = 0; k < 40; ++k) {
#pragma unroll
        for (int i = 0; i < 120; ++i) v[i] = v[i] * v[(i * 7 + k) % 120] + v[(i + 3 * k) % 120];
    }
#pragma unroll
    for (int i = 0; i < 120; ++i) x[i * 32 + threadIdx.x] = v[i];
})",
                                    "slow");
    std::atomic<bool> cancel{false};
    std::atomic<int> started{0}, cancelled{0};
    std::vector<std::jthread> threads;
    for (int t = 0; t < 2; ++t)
        threads.emplace_back([&] {
            CompileOptions options;
            options.cancel = &cancel;
            ++started;
            try {
                (void)backend_.compile_text(text, hopper_, options);
            } catch (const Cancelled&) {
                ++cancelled;
            }
        });
    while (started < 2) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    const auto start = std::chrono::steady_clock::now();
    cancel = true;
    threads.clear();
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(500)) << "some 10 where the machine has nothing else to do";
    EXPECT_EQ(cancelled, 2);
    EXPECT_EQ(cache_->size(), 0u);
}

TEST_F(NvrtcTest, the_same_text_gives_the_same_bytes) {
    CompileOptions options;
    options.use_cache = false;
    const auto a = backend_.compile_text(text_of(kernel_text(2), "scale"), hopper_, options);
    const auto b = backend_.compile_text(text_of(kernel_text(2), "scale"), hopper_, options);
    ASSERT_TRUE(a && b);
    EXPECT_EQ(a.value->image, b.value->image);
}

}  // namespace
}  // namespace tegula::cuda
