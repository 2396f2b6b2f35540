// The CPU machine itself: small kernels written by hand, right ones and ones with the faults that it must find.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "jit/cuda/driver.h"
#include "lang/gpu/conversion.h"

using namespace tegula::cuda;

extern "C" {
struct NvrtcProgramImpl;
int nvrtcCreateProgram(NvrtcProgramImpl**, const char*, const char*, int, const char* const*, const char* const*);
int nvrtcCompileProgram(NvrtcProgramImpl*, int, const char* const*);
int nvrtcGetProgramLogSize(NvrtcProgramImpl*, size_t*);
int nvrtcGetProgramLog(NvrtcProgramImpl*, char*);
int nvrtcGetCUBINSize(NvrtcProgramImpl*, size_t*);
int nvrtcGetCUBIN(NvrtcProgramImpl*, char*);
int nvrtcGetPTXSize(NvrtcProgramImpl*, size_t*);
int nvrtcGetPTX(NvrtcProgramImpl*, char*);
int nvrtcDestroyProgram(NvrtcProgramImpl**);
CUresult cuLibraryLoadData(CUlibrary*, const void*, int*, void**, unsigned, int*, void**, unsigned);
CUresult cuLibraryGetKernel(CUkernel*, CUlibrary, const char*);
CUresult cuKernelGetFunction(CUfunction*, CUkernel);
CUresult cuDevicePrimaryCtxRetain(CUcontext*, CUdevice);
CUresult cuCtxPushCurrent_v2(CUcontext);
CUresult cuCtxPopCurrent_v2(CUcontext*);
CUresult cuLibraryUnload(CUlibrary);
CUresult cuLaunchKernelEx(const CUlaunchConfig*, CUfunction, void**, void**);
CUresult cuGetErrorString(CUresult, const char**);
}

namespace {

/// Runs `body` (with int* out, a shared array `s` of 1024 int, t) in one cluster; "" or the failure.
std::string run(const std::string& body, std::vector<int>& out, int seed, unsigned threads = 64, unsigned shared = 4096, unsigned cluster = 1,
                const std::string& target = "sm_90a") {
    const std::string text =
        "extern \"C\" __global__ void __launch_bounds__(64, 1) k(int* out) {\n    extern __shared__ __align__(1024) unsigned char shared[];\n"
        "    int* s = (int*)shared; const int t = threadIdx.x; (void)s;\n" +
        body + "\n}\n";
    setenv("TEGULA_ON_CPU_SEED", std::to_string(seed).c_str(), 1);
    NvrtcProgramImpl* program = nullptr;
    nvrtcCreateProgram(&program, text.c_str(), "k.cu", 0, nullptr, nullptr);
    const std::string option = "--gpu-architecture=" + target;
    const char* const options[] = {option.c_str()};
    const int code = nvrtcCompileProgram(program, 1, options);
    size_t size = 0;
    if (code) {
        nvrtcGetProgramLogSize(program, &size);
        std::string log(size, ' ');
        nvrtcGetProgramLog(program, log.data());
        return log;
    }
    const bool ptx = target.rfind("compute_", 0) == 0;
    ptx ? nvrtcGetPTXSize(program, &size) : nvrtcGetCUBINSize(program, &size);
    std::string image(size, ' ');
    ptx ? nvrtcGetPTX(program, image.data()) : nvrtcGetCUBIN(program, image.data());
    nvrtcDestroyProgram(&program);
    CUlibrary library = nullptr;
    CUkernel kernel = nullptr;
    CUfunction function = nullptr;
    CUcontext context = nullptr;
    struct Current {
        explicit Current(CUcontext c) { cuCtxPushCurrent_v2(c); }
        ~Current() {
            CUcontext popped = nullptr;
            cuCtxPopCurrent_v2(&popped);
        }
    };
    cuDevicePrimaryCtxRetain(&context, 0);
    const Current current(context);
    if (cuLibraryLoadData(&library, image.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0) || cuLibraryGetKernel(&kernel, library, "k"))
        return "not loaded";
    if (cuKernelGetFunction(&function, kernel)) return cuLibraryUnload(library), "no code for this GPU";
    int* address = out.data();
    void* params[] = {&address};
    CUlaunchAttribute together{kClusterDimension, {}, {}};
    std::memcpy(together.value, &cluster, sizeof cluster);
    CUlaunchConfig config{cluster, 1, 1, threads, 1, 1, shared, nullptr, &together, 1};
    const CUresult result = cuLaunchKernelEx(&config, function, params, nullptr);
    const char* why = "";
    if (result) cuGetErrorString(result, &why);
    std::string failure = why;
    cuLibraryUnload(library);
    return failure;
}

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

TEST(CpuMachine, ImagesRunWhereADriverRunsThem) {
    std::vector<int> out(64);
    const auto error = [&](const char* target) { return run("out[t] = t;", out, 0, 64, 4096, 1, target); };
    for (const char* target : {"sm_90a", "sm_90", "compute_90a", "compute_90", "compute_80"}) EXPECT_EQ(error(target), "") << target;
    for (const char* target : {"sm_80", "sm_86", "sm_100a", "compute_100", "compute_120"}) EXPECT_EQ(error(target), "no code for this GPU") << target;
    EXPECT_TRUE(contains(error("sm_99"), "invalid value for --gpu-architecture: sm_99"));
}

TEST(CpuMachine, ReversesThroughSharedMemory) {
    for (int seed = 0; seed < 4; ++seed) {
        std::vector<int> out(64), expected(64);
        std::iota(expected.rbegin(), expected.rend(), 0);
        EXPECT_EQ(run("s[t] = t; __syncthreads(); out[t] = s[63 - t];", out, seed), "");
        EXPECT_EQ(out, expected) << seed;
    }
}

TEST(CpuMachine, AMissingBarrierShows) {
    int wrong = 0;
    for (int seed = 0; seed < 4; ++seed) {
        std::vector<int> out(64), expected(64);
        std::iota(expected.rbegin(), expected.rend(), 0);
        EXPECT_EQ(run("s[t] = t; out[t] = s[63 - t];", out, seed), "");
        wrong += out != expected;
    }
    EXPECT_EQ(wrong, 4);
}

TEST(CpuMachine, LanesExchange) {
    std::vector<int> out(64);
    EXPECT_EQ(run("int v = t; for (int d = 16; d; d /= 2) v += __shfl_xor_sync(0xffffffffu, v, d); out[t] = v;", out, 1), "");
    EXPECT_EQ(out[5], 31 * 32 / 2);
    EXPECT_EQ(out[37], 31 * 32 / 2 + 32 * 32);
    EXPECT_EQ(run("out[t] = (int)__ballot_sync(0xffffffffu, t % 2);", out, 1), "");
    EXPECT_EQ(out[40], static_cast<int>(0xaaaaaaaau));
}

TEST(CpuMachine, FaultsAreFound) {
    std::vector<int> out(64);
    EXPECT_TRUE(contains(run("if (t < 10) __syncthreads();", out, 1), "wait at barrier 0"));
    EXPECT_TRUE(contains(run("if (t < 40) __shfl_sync(0xffffffffu, t, 0);", out, 1), "other lanes"));
    EXPECT_TRUE(contains(run("if (t % 2) __syncwarp(); else __shfl_sync(0xffffffffu, t, 0);", out, 1), "diverges"));
    EXPECT_TRUE(contains(run("s[1024 + t] = 0;", out, 1), "shared memory is written"));
    EXPECT_TRUE(contains(run("asm volatile(\"mbarrier.arrive.shared::cta.b64 _, [%0];\" :: \"r\"(1024u) : \"memory\");", out, 1), "not initialised"));
    EXPECT_TRUE(contains(run("asm volatile(\"no.such.thing %0;\" :: \"r\"(t));", out, 1), "does not know"));
}

/// Arrives at the barrier at the start of shared memory of CTA `rank`.
std::string arrive_at(const std::string& rank) {
    return "{ unsigned there; asm(\"mapa.shared::cluster.u32 %0, %1, %2;\" : \"=r\"(there) : \"r\"(1024u), \"r\"(" + rank +
           "));\n asm volatile(\"mbarrier.arrive.shared::cluster.b64 _, [%0];\" :: \"r\"(there) : \"memory\"); }\n";
}
const std::string kInit = "if (t == 0) asm volatile(\"mbarrier.init.shared::cta.b64 [%0], %1;\" :: \"r\"(1024u), \"r\"(64u) : \"memory\");\n";
const std::string kMeet = "asm volatile(\"barrier.cluster.arrive;\" ::: \"memory\"); asm volatile(\"barrier.cluster.wait;\" ::: \"memory\");\n";
const std::string kWait =
    "asm volatile(\"{\\n.reg .pred p;\\nagain:\\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;\\n@p bra done;\\nbra again;\\ndone:\\n}\" :: "
    "\"r\"(1024u) : \"memory\");\n";

TEST(CpuMachine, ClustersMeetAndSignal) {
    for (int seed = 0; seed < 6; ++seed) {
        std::vector<int> out(256);
        const std::string body = kInit + kMeet + arrive_at("(blockIdx.x + 1) % 4") + kWait + "out[blockIdx.x * 64 + t] = (int)blockIdx.x;" + kMeet;
        EXPECT_EQ(run(body, out, seed, 64, 4096, 4), "") << seed;
        EXPECT_EQ(out[0] + out[64] + out[128] + out[255], 6);
    }
}

TEST(CpuMachine, FaultsOfClustersAreFound) {
    std::vector<int> out(256);
    int early = 0, late = 0;
    for (int seed = 1; seed < 8; ++seed) {
        early += contains(run(kInit + arrive_at("(blockIdx.x + 1) % 2") + kMeet, out, seed, 64, 4096, 2), "not initialised");
        late += contains(run(kInit + kMeet + "if (blockIdx.x == 0) return;\n" + arrive_at("0u"), out, seed, 64, 4096, 2), "has ended");
    }
    EXPECT_GT(early, 0) << "a peer that has not started";
    EXPECT_GT(late, 0) << "a peer that is gone";
    EXPECT_TRUE(contains(run(kInit + kMeet + arrive_at("2u"), out, 1, 64, 4096, 2), "no CTA 2"));
    EXPECT_TRUE(contains(run("if (blockIdx.x == 0) {" + kMeet + "}", out, 1, 64, 4096, 2), "for the other CTAs of their cluster"));
    EXPECT_TRUE(contains(run("asm volatile(\"barrier.cluster.wait;\" ::: \"memory\");", out, 1, 64, 4096, 2), "without having arrived"));
    EXPECT_TRUE(contains(run("asm volatile(\"barrier.cluster.arrive;\" ::: \"memory\"); asm volatile(\"barrier.cluster.arrive;\" ::: \"memory\");",
                             out, 1, 64, 4096, 2),
                         "twice without waiting"));
}

TEST(CpuMachine, TensorCoreProduct) {
    // A is the identity in f16 (16 x 16), B[k][n] = n: the sum with C = 100 is 100 + column.
    const std::string body = R"(
    if (t >= 32) return;
    unsigned a[4], b[2];
    float d[4];
    const int g = t / 4, q = t % 4;
    for (int i = 0; i < 4; ++i) {
        const int row = g + 8 * (i & 1), k = 2 * q + 8 * (i >> 1);
        a[i] = (row == k ? 0x3c00u : 0u) | (row == k + 1 ? 0x3c000000u : 0u);
        d[i] = 100.0f;
    }
    static const unsigned codes[8] = {0, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600, 0x4700};
    for (int i = 0; i < 2; ++i) b[i] = codes[g] | codes[g] << 16;
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    for (int i = 0; i < 4; ++i) out[(g + 8 * (i >> 1)) * 8 + 2 * q + (i & 1)] = (int)d[i];)";
    std::vector<int> out(128);
    EXPECT_EQ(run(body, out, 3), "");
    for (int i = 0; i < 16; ++i)
        for (int j = 0; j < 8; ++j) EXPECT_EQ(out[static_cast<size_t>(i * 8 + j)], 100 + j) << i << " " << j;
}

TEST(CpuMachine, BytesMultiplyByWords) {
    // Bytes from the lowest: 127, -128 or 128, 2, -1 or 255 by 3, 2, -1 or 255, 1.
    const auto sum = [](const char* types) {
        std::vector<int> out(64);
        EXPECT_EQ(run("int d = 5; asm(\"dp4a." + std::string(types) +
                          " %0, %1, %2, %0;\" : \"+r\"(d) : \"r\"(0xff02807fu), \"r\"(0x01ff0203u)); out[t] = d;",
                      out, 1),
                  "");
        return out[63];
    };
    EXPECT_EQ(sum("s32.s32"), 5 + 381 - 256 - 2 - 1);
    EXPECT_EQ(sum("s32.u32"), 5 + 381 - 256 + 510 - 1);
    EXPECT_EQ(sum("u32.s32"), 5 + 381 + 256 - 2 + 255);
    EXPECT_EQ(sum("u32.u32"), 5 + 381 + 256 + 510 + 255);
}

TEST(CpuMachine, MatricesAreStoredBothWays) {
    // Lane l holds elements 2 l and 2 l + 1 of a matrix of 8 rows; row i goes to 16 i bytes, or, transposed, column i does.
    for (const bool transposed : {false, true}) {
        std::vector<int> out(64), expected(64);
        for (size_t i = 0; i < 64; ++i) expected[i] = static_cast<int>(transposed ? i % 8 * 8 + i / 8 : i);
        EXPECT_EQ(run("const unsigned at = (unsigned)__cvta_generic_to_shared(shared) + t % 8 * 16, v = 2 * t | (2 * t + 1) << 16;\n"
                      "if (t < 32) asm volatile(\"stmatrix.sync.aligned.m8n8.x1" +
                          std::string(transposed ? ".trans" : "") +
                          ".shared.b16 [%0], {%1};\" :: \"r\"(at), \"r\"(v) : \"memory\");\n__syncthreads(); out[t] = ((unsigned short*)shared)[t];",
                      out, 1),
                  "");
        EXPECT_EQ(out, expected);
    }
}

/// A program of 128 threads with tensor memory: `body` runs between taking 64 columns at `sums` and giving them back.
std::string with_tensor_memory(const std::string& body, const std::string& columns = "64") {
    return R"(
    const unsigned at = (unsigned)__cvta_generic_to_shared(shared);
    if (t < 32) asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" :: "r"(at), "r"(64) : "memory");
    __syncthreads();
    const unsigned sums = *(volatile unsigned*)shared, mine = sums + ((unsigned)(t >> 5) << 21);
    unsigned v = t * 3;
    (void)mine, (void)v;)" +
           body +
           "\n    __syncthreads();\n    if (t < 32) asm volatile(\"tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;\" :: \"r\"(sums), \"r\"(" +
           columns + ") : \"memory\");";
}

constexpr const char* kPut = "asm volatile(\"tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};\" :: \"r\"(mine + 5), \"r\"(v));";
constexpr const char* kPutAndWait =
    "asm volatile(\"tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1}; tcgen05.wait::st.sync.aligned;\" :: \"r\"(mine + 5), \"r\"(v));";

std::string get(const std::string& address, bool wait = true) {
    return "asm volatile(\"tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];" + std::string(wait ? " tcgen05.wait::ld.sync.aligned;" : "") +
           "\" : \"=r\"(v) : \"r\"(" + address + "));";
}

TEST(CpuMachine, TensorMemory) {
    setenv("TEGULA_ON_CPU_ARCH", "100", 1);
    const auto program = [](const std::string& body, const std::string& columns = "64", const char* target = "sm_100a") {
        std::vector<int> out(128, -1);
        const std::string failure = run(with_tensor_memory(body, columns), out, 2, 128, 4096, 1, target);
        return failure.empty() && out[100] != 300 ? "wrong" : failure;
    };
    EXPECT_EQ(program(kPutAndWait + ("v = 0;" + get("mine + 5")) + "out[t] = (int)v;"), "");
    EXPECT_TRUE(contains(program(kPut), "store to tensor memory that nobody waited for"));
    EXPECT_TRUE(contains(program(get("mine + 5", false)), "before they are loaded"));
    EXPECT_TRUE(contains(program(get("sums")), "other lanes"));
    EXPECT_TRUE(contains(program(get("mine + 64")), "not the program's"));
    EXPECT_TRUE(contains(program("if (t >= 0) return;"), "nobody gave back"));
    EXPECT_TRUE(contains(program("", "32"), "was not taken"));
    EXPECT_TRUE(contains(program("", "64", "compute_100"), "without it"));
    setenv("TEGULA_ON_CPU_ARCH", "90", 1);
    EXPECT_TRUE(contains(program("", "64", "sm_90a"), "without it"));
}

/// One product of 64 x 8 in registers named d0 .. d3, then `rest`.
std::string with_sums(const std::string& rest) {
    return R"(
    asm volatile(".reg .b32 d<4>;");
    const unsigned long long tile = (unsigned long long)1 << 62 | (unsigned long long)64 << 32 | 1024 >> 4;
    unsigned v = 0;
    asm volatile("{.reg .pred no; setp.ne.b32 no, 0, 0; wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {d0, d1, d2, d3}, %0, %1, no, 1, 1, 0, 0; "
                 "wgmma.commit_group.sync.aligned;}" : : "l"(tile), "l"(tile) : "memory");
    )" + rest;
}

TEST(CpuMachine, SumsOfWgmmaAreWaitedFor) {
    std::vector<int> out(128);
    const auto program = [&](const std::string& rest) { return run(with_sums(rest), out, 1, 128, 8192 + 1024); };
    EXPECT_EQ(program("asm volatile(\"wgmma.wait_group.sync.aligned 0; mov.b32 %0, d0;\" : \"=r\"(v));"), "");
    EXPECT_TRUE(
        contains(program("asm volatile(\"wgmma.wait_group.sync.aligned 1; mov.b32 %0, d0;\" : \"=r\"(v));"), "before its wgmma has been waited for"));
    EXPECT_TRUE(contains(program("asm volatile(\"mov.b32 d3, 0;\");"), "before its wgmma has been waited for"));
    EXPECT_TRUE(contains(run(with_sums(""), out, 1, 128, 8192 + 1024, 1, "compute_90"), "wgmma on an architecture without it"));
}

/// One product of 64 x 8 whose first factor, ones in f16, lies in f0 .. f3, by ones in shared memory; then `rest`, and the sum's first element.
std::string with_factors(const std::string& rest) {
    return R"(
    asm volatile(".reg .b32 d<4>;");
    asm volatile(".reg .b32 f<4>;");
    for (int i = t; i < 4096; i += 128) ((unsigned short*)shared)[i] = 0x3c00;
    __syncthreads();
    const unsigned long long tile = (unsigned long long)1 << 62 | (unsigned long long)64 << 32 | 1024 >> 4;
    float v = 0;
    asm volatile("{.reg .pred no; setp.ne.b32 no, 0, 0; mov.b32 f0, %1; mov.b32 f1, %1; mov.b32 f2, %1; mov.b32 f3, %1; "
                 "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {d0, d1, d2, d3}, {f0, f1, f2, f3}, %0, no, 1, 1, 0; "
                 "wgmma.commit_group.sync.aligned;}" : : "l"(tile), "r"(0x3c003c00u) : "memory");
    )" + rest + R"(
    asm volatile("wgmma.wait_group.sync.aligned 0; mov.b32 %0, d0;" : "=f"(v));
    out[t] = (int)v;)";
}

TEST(CpuMachine, WhatWgmmaReadsStaysUntilItHasBeenWaitedFor) {
    std::vector<int> out(128);
    const auto program = [&](const std::string& rest) { return run(with_factors(rest), out, 1, 128, 8192 + 1024); };
    EXPECT_EQ(program(""), "");
    EXPECT_EQ(out, std::vector<int>(128, 16));
    EXPECT_TRUE(contains(program("asm volatile(\"mov.b32 f2, 0;\");"), "before its wgmma has been waited for"));
    EXPECT_EQ(program("asm volatile(\"wgmma.wait_group.sync.aligned 0; mov.b32 f2, 0;\");"), "");
    // Memory that is overwritten too early is what the product may see.
    EXPECT_EQ(program("for (int i = t; i < 4096; i += 128) ((unsigned short*)shared)[i] = 0; __syncthreads();"), "");
    EXPECT_EQ(out, std::vector<int>(128, 0));
}

}  // namespace
