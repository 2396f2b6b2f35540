// The machine `cpu` in processes that make it hard: another floating-point environment, no memory, no executable memory, small stacks, forked
// children, cancellation before anything ran.
#include <fenv.h>
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <fstream>
#include <functional>
#include <thread>

#include "tegula/tegula.hpp"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TEGULA_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TEGULA_SANITIZED 1
#endif
#endif

namespace {

constexpr const char* kSource = R"(edition 1;
const TINY: f32 = 1.0e-30 * 1.0e-10;
kernel sums<T: float>(x: tensor<T>[N], y: tensor<T>[N], out z: tensor<f32>[N]) grid [cdiv(N, 8)] {
    let n = program_id(0) * 8;
    z[n +: 8] = cast<f32>(x[n +: 8] + y[n +: 8]) * 0.7 / 3.0 + TINY;
}
kernel softmax(x: tensor<f32>[M, N], out y: tensor<f32>[M, N]) grid [M] where N <= 1024 {
    let e = exp(x[program_id(0), 0 +: 1024] else -inf);
    y[program_id(0), 0 +: 1024] = e / sum(e);
}
kernel product<T: float>(a: tensor<T>[64, 64], b: tensor<T>[64, 64], out c: tensor<f32>[64, 64]) {
    c[:, :] = dot(a[:, :], b[:, :], zeros<f32>[64, 64]);
}
)";

struct Host {
    tegula::Engine engine;
    tegula::Module module;
    explicit Host(const tegula::EngineOptions& options = {}) : engine(tegula::Engine::create(options).value()), module(load()) {}
    tegula::Module load() {
        setenv("TEGULA_CACHE_DIR", "off", 1);
        return engine.load(kSource, "host.tile").value();
    }
    tegula_status softmax(const char* machine, float value = 1) {
        std::vector<float> x(3 * 1000, value), y(x.size());
        tegula::RunOptions run;
        run.machine = machine;
        run.threads = 3;
        const auto done = module.launch("softmax", {}, {tegula::Tensor(x.data(), {3, 1000}), tegula::Tensor(y.data(), {3, 1000})}, run);
        said = done.diagnostics().text();
        return done ? y[2999] == y[0] && y[0] > 0.0009f ? TEGULA_OK : TEGULA_E_MISMATCH : done.status();
    }
    std::string said;
};

/// Bits of results that depend on rounding and on subnormals, of 4096 pairs.
std::vector<uint32_t> results(Host& host, const char* machine, const char* type) {
    constexpr int64_t kCount = 4096;
    const bool wide = std::string(type) == "f32";
    std::vector<uint32_t> x(kCount), y(kCount), z(2 * kCount, 1);
    for (uint32_t i = 0; i < kCount; ++i) {  // around the smallest normal numbers
        x[i] = wide ? (i * 2654435761u) % 0x01800000u : (i * 40503u) % 0x180u | (i * 9973u) % 0x180u << 16;
        y[i] = x[i] ^ (wide ? 0x80000001u : 0x80018001u) ^ i % 7;
    }
    const size_t bytes = kCount * (wide ? 4 : 2);
    tegula::RunOptions run;
    run.machine = machine;
    run.threads = 3;
    host.module
        .launch("sums", {},
                {tegula::Tensor(x.data(), bytes, type, {kCount}), tegula::Tensor(y.data(), bytes, type, {kCount}),
                 tegula::Tensor(reinterpret_cast<float*>(z.data()), {kCount})},
                run)
        .value();
    host.module
        .launch("product", {},
                {tegula::Tensor(x.data(), bytes, type, {64, 64}), tegula::Tensor(y.data(), bytes, type, {64, 64}),
                 tegula::Tensor(reinterpret_cast<float*>(z.data() + kCount), {64, 64})},
                run)
        .value();
    return z;
}

struct Floats {
    explicit Floats(int rounding, bool flush, bool traps) {
        fesetround(rounding);
#ifdef __x86_64__
        if (flush) __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040);
#endif
        if (traps) feenableexcept(FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW | FE_UNDERFLOW);
    }
    ~Floats() { fesetenv(FE_DFL_ENV); }
};

TEST(CpuHost, FloatingPointEnvironmentOfTheHost) {
    const tegula_executor threads{[](void*, uint32_t count, void (*call)(void*, uint32_t), void* task) {
                                      std::vector<std::thread> all;
                                      for (uint32_t i = 0; i < count; ++i)
                                          all.emplace_back([=] {
                                              const Floats floats(FE_TOWARDZERO, true, false);
                                              call(task, i);
                                          });
                                      for (std::thread& t : all) t.join();
                                  },
                                  nullptr};
    tegula::EngineOptions with_threads;
    with_threads.executor = &threads;
    for (const char* type : {"f32", "bf16", "f16"}) {
        Host usual;
        const auto wanted = results(usual, "interp", type);
        EXPECT_EQ(results(usual, "cpu", type), wanted);
        for (const auto& [rounding, flush, traps] : {std::tuple{FE_UPWARD, false, false}, {FE_TONEAREST, true, false}, {FE_DOWNWARD, true, true}}) {
            const Floats floats(rounding, flush, traps);
            Host host, other(with_threads);  // constants are folded here, threads started
            for (const char* machine : {"cpu", "interp"}) EXPECT_EQ(results(host, machine, type), wanted) << machine << " " << type;
            EXPECT_EQ(results(other, "cpu", type), wanted) << type;
            EXPECT_EQ(fegetround(), rounding) << "the host has its own again";
        }
    }
}

TEST(CpuHost, NothingIsWrittenAfterCancellation) {
    Host host;
    std::vector<float> x(8, 1), z(8, -1);
    host.engine.cancel(true);
    tegula::RunOptions run;
    run.machine = "cpu";
    const auto launch = [&] {
        return host.module.launch("sums", {}, {tegula::Tensor(x.data(), {8}), tegula::Tensor(x.data(), {8}), tegula::Tensor(z.data(), {8})}, run)
            .status();
    };
    EXPECT_EQ(launch(), TEGULA_E_CANCELLED);
    EXPECT_EQ(z, std::vector<float>(8, -1));
    host.engine.cancel(false);
    EXPECT_EQ(launch(), TEGULA_OK);
}

TEST(CpuHost, ExecutorWithoutRun) {
    const tegula_executor none{};
    tegula::EngineOptions options;
    options.executor = &none;
    const auto engine = tegula::Engine::create(options);
    EXPECT_EQ(engine.status(), TEGULA_E_USAGE);
    EXPECT_NE(engine.diagnostics().text().find("executor"), std::string::npos);
}

/// Exit status of `body` in a child process; -1: it was killed by a signal.
int in_child(const std::function<int()>& body) {
    const pid_t child = fork();
    if (child == 0) _exit(body());
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(CpuHost, ForkedChildrenRunAndLetGo) {
    auto host = std::make_unique<Host>();
    ASSERT_EQ(host->softmax("cpu"), TEGULA_OK);  // threads of the pool exist
    EXPECT_EQ(in_child([&] {
                  alarm(20);
                  const tegula_status again = host->softmax("cpu", 2);
                  host.reset();
                  return again == TEGULA_OK ? 0 : 1;
              }),
              0);
    EXPECT_EQ(host->softmax("cpu"), TEGULA_OK);
}

/// From now on this process makes no memory executable, as under MemoryDenyWriteExecute of systemd.
bool refuse_executable_memory() {
    sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog filter{sizeof program / sizeof *program, program};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

TEST(CpuHost, WithoutExecutableMemory) {
    constexpr int kNoFilters = 77;
    const int status = in_child([] {
        if (!refuse_executable_memory()) return kNoFilters;
        Host host;
        if (host.softmax("cpu") != TEGULA_E_UNAVAILABLE) return 1;
        if (host.said.find("executable") == std::string::npos || host.said.find("LLVM") != std::string::npos) return 2;
        return host.softmax("") == TEGULA_OK ? 0 : 3;  // on the interpreter
    });
    if (status == kNoFilters) GTEST_SKIP() << "the system has no filters of calls";
    EXPECT_EQ(status, 0);
}

#ifndef TEGULA_SANITIZED

uint64_t address_space() {
    uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

/// Wherever memory ends, in LLVM too, a launch ends with a status, and with more memory it works.
TEST(CpuHost, OutOfMemoryAtAnyPlace) {
    int refused = 0, done = 0;
    for (uint64_t more = 0; more <= 12 << 20; more += 384 << 10) {
        const int status = in_child([more] {
            Host host;
            const rlimit limit{address_space() + more, RLIM_INFINITY};
            setrlimit(RLIMIT_AS, &limit);
            std::vector<float> x(3 * 1000, 1), y(x.size());
            tegula::RunOptions run;
            run.machine = "cpu";
            run.threads = 1;
            const auto launch = [&] {
                return host.module.launch("softmax", {}, {tegula::Tensor(x.data(), {3, 1000}), tegula::Tensor(y.data(), {3, 1000})}, run).status();
            };
            if (launch() == TEGULA_OK) return 0;
            const rlimit enough{RLIM_INFINITY, RLIM_INFINITY};
            setrlimit(RLIMIT_AS, &enough);
            return launch() == TEGULA_OK ? 1 : 2;
        });
        EXPECT_GE(status, 0) << "killed, with " << more << " bytes";
        EXPECT_LT(status, 2) << "with " << more << " bytes";
        ++(status == 0 ? done : refused);
    }
    EXPECT_GT(refused, 0);
    EXPECT_GT(done, 0);
}

/// In a thread of so many KiB.
int64_t on_small_stack(size_t size, int64_t (*body)(Host&)) {
    Host host;
    std::pair<Host*, int64_t (*)(Host&)> work{&host, body};
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, size << 10);
    pthread_t thread;
    const auto run = [](void* at) -> void* {
        const auto& [h, call] = *static_cast<decltype(work)*>(at);
        return reinterpret_cast<void*>(intptr_t{call(*h)});
    };
    EXPECT_EQ(pthread_create(&thread, &attributes, run, &work), 0);
    void* status = nullptr;
    pthread_join(thread, &status);
    return reinterpret_cast<intptr_t>(status);
}

/// As the header says: threads of 256 KiB may call, and what nests too deeply for them is an error.
TEST(CpuHost, SmallStacks) {
    EXPECT_EQ(on_small_stack(256, [](Host& host) -> int64_t { return host.softmax("cpu"); }), TEGULA_OK);
    const auto nested = [](Host& host) -> int64_t {
        std::string open, close;
        for (int i = 0; i < 200; ++i) open += "if a > " + std::to_string(i) + ".0 { ", close += "}";
        auto deep =
            host.engine.load("kernel d(inout x: tensor<f32>[N]) { var a = x[0]; " + open + "a = a + 1.0; " + close + " x[0] = a; }", "deep.tile");
        float x[1] = {1000};
        tegula::RunOptions run;
        run.machine = "cpu";
        return deep.value().launch("d", {}, {tegula::Tensor(x, {1})}, run).status();
    };
    for (size_t size : {128, 256, 512}) EXPECT_EQ(on_small_stack(size, nested), TEGULA_E_SOURCE) << size;
    EXPECT_EQ(on_small_stack(4096, nested), TEGULA_OK);
}

#endif

}  // namespace
