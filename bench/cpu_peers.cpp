// Peers of the machine `cpu` (cpu_peers.h).
#include "bench/cpu_peers.h"

#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace cpu_bench {

using Clock = std::chrono::steady_clock;

Blas::Blas() {
    // Versions that do not know this processor would choose kernels for an old one, and so may what the environment asks for.
    setenv("OPENBLAS_CORETYPE", __builtin_cpu_supports("avx512f") ? "SkylakeX" : __builtin_cpu_supports("avx2") ? "Haswell" : "", 1);
    void* library = nullptr;
    for (const char* name : {"libopenblas.so.0", "libopenblas.so"})
        if (!library) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library) return;
    sgemm = reinterpret_cast<Sgemm>(dlsym(library, "cblas_sgemm"));
    if (auto text = reinterpret_cast<char* (*)()>(dlsym(library, "openblas_get_config"))) config = text();
    if (auto core = reinterpret_cast<char* (*)()>(dlsym(library, "openblas_get_corename"))) config += std::string(", kernels for ") + core();
}

double awake_seconds(const std::function<void()>& call) {
    // Cores that slept are slow for their first millisecond, longer than a short call.
    const auto awake = Clock::now() + std::chrono::milliseconds(2);
    do call();
    while (Clock::now() < awake);
    const auto start = Clock::now();
    call();
    return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

std::pair<double, double> in_turn(int runs, std::chrono::milliseconds pause, const std::function<void()>& ours, const std::function<void()>& theirs) {
    std::vector<double> a, b;
    for (int i = 0; i < runs; ++i) {
        std::this_thread::sleep_for(pause);
        a.push_back(awake_seconds(ours));
        std::this_thread::sleep_for(pause);
        b.push_back(awake_seconds(theirs));
    }
    return {median(std::move(a)), median(std::move(b))};
}

void copy_on_all_cores(const std::vector<float>& from, std::vector<float>& to) {
    const size_t threads = std::max(1u, std::thread::hardware_concurrency()), n = from.size();
    std::vector<std::jthread> team;
    for (size_t t = 0; t < threads; ++t)
        team.emplace_back(
            [&, t] { std::memcpy(to.data() + n * t / threads, from.data() + n * t / threads, (n * (t + 1) / threads - n * t / threads) * 4); });
}

double numpy_attention(const std::string& source_dir, int heads, int s, int d, bool causal, int runs) {
    const std::string command = "/usr/bin/python3 '" + source_dir + "/bench/attention.py' " + std::to_string(heads) + " " + std::to_string(s) + " " +
                                std::to_string(d) + " " + std::to_string(causal) + " " + std::to_string(runs);
    double seconds = NAN;
    if (FILE* pipe = ::popen(command.c_str(), "r")) {
        if (std::fscanf(pipe, "%lf", &seconds) != 1) seconds = NAN;
        ::pclose(pipe);
    }
    return seconds;
}

}  // namespace cpu_bench
