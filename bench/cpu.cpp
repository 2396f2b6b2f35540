// Rows of the machine `cpu` (cpu.h). Every output is checked before it is timed; ours and the peer's are timed in turn, so that both see the same
// machine.
#include "bench/cpu.h"
#include "bench/inputs.h"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>

#include "tegula/tegula.hpp"

namespace cpu_bench {

namespace {

using Clock = std::chrono::steady_clock;
using Sgemm = void (*)(int order, int ta, int tb, int m, int n, int k, float alpha, const float* a, int lda, const float* b, int ldb, float beta,
                       float* c, int ldc);

struct Blas {
    Sgemm sgemm = nullptr;
    std::string config = "OpenBLAS is missing";
    Blas() {
        // Versions that do not know this processor would choose kernels for an old one.
        setenv("OPENBLAS_CORETYPE", __builtin_cpu_supports("avx512f") ? "SkylakeX" : __builtin_cpu_supports("avx2") ? "Haswell" : "", 0);
        void* library = nullptr;
        for (const char* name : {"libopenblas.so.0", "libopenblas.so"})
            if (!library) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
        if (!library) return;
        sgemm = reinterpret_cast<Sgemm>(dlsym(library, "cblas_sgemm"));
        if (auto text = reinterpret_cast<char* (*)()>(dlsym(library, "openblas_get_config"))) config = text();
        if (auto core = reinterpret_cast<char* (*)()>(dlsym(library, "openblas_get_corename"))) config += std::string(", kernels for ") + core();
    }
    void product(const float* a, const float* b, float* c, int m, int n, int k) const {
        if (sgemm) sgemm(101, 111, 111, m, n, k, 1, a, k, b, n, 0, c, n);
    }
};

/// Cores that slept are slow for their first millisecond, which would be the time of whoever is measured first.
void wake_cores() {
    std::vector<std::jthread> team;
    for (unsigned t = 0; t < std::max(1u, std::thread::hardware_concurrency()); ++t)
        team.emplace_back([until = Clock::now() + std::chrono::milliseconds(2)] {
            while (Clock::now() < until) {
            }
        });
}

/// Median seconds of ours and theirs, called in turn. The pause lets the threads of OpenBLAS fall asleep, which look for work for a while.
std::pair<double, double> in_turn(int runs, const std::function<void()>& ours, const std::function<void()>& theirs) {
    std::vector<double> a, b;
    const auto time = [](const std::function<void()>& call) {
        const auto start = Clock::now();
        call();
        return std::chrono::duration<double>(Clock::now() - start).count();
    };
    ours(), theirs();
    for (int i = 0; i < runs; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        wake_cores();
        a.push_back(time(ours));
        b.push_back(time(theirs));
    }
    std::sort(a.begin(), a.end());
    std::sort(b.begin(), b.end());
    return {a[a.size() / 2], b[b.size() / 2]};
}

/// The bytes go from one array to the other, each core its share.
void copy_on_all_cores(const std::vector<float>& from, std::vector<float>& to) {
    const size_t threads = std::max(1u, std::thread::hardware_concurrency()), n = from.size();
    std::vector<std::jthread> team;
    for (size_t t = 0; t < threads; ++t)
        team.emplace_back(
            [&, t] { std::memcpy(to.data() + n * t / threads, from.data() + n * t / threads, (n * (t + 1) / threads - n * t / threads) * 4); });
}

uint16_t bf16_of(float v) {
    uint32_t bits;
    std::memcpy(&bits, &v, 4);
    return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

class Rows {
public:
    Rows(const std::string& source_dir, bool quick) : source_dir_(source_dir), quick_(quick) {
        engine_ = tegula::Engine::create().value();
        module_ = engine_.load_file(source_dir + "/bench/cpu.tile").value();
        run_.machine = "cpu";
    }
    bool available(std::string& why) {
        std::vector<float> x(8), y(8);
        auto r =
            module_.launch("add", {{"B", 8}}, {tegula::Tensor(x.data(), {8}), tegula::Tensor(x.data(), {8}), tegula::Tensor(y.data(), {8})}, run_);
        why = r ? "" : r.diagnostics().text();
        return static_cast<bool>(r);
    }
    void products();
    void bandwidth();
    void decode();
    void attention();
    std::vector<CpuRow> rows;

private:
    void launch(const char* kernel, std::initializer_list<tegula::NamedValue> generics, std::initializer_list<tegula::Value> args) {
        module_.launch(kernel, generics, args, run_).value();
    }
    void note(const std::string& what) const { std::fprintf(stderr, "==> %s\n", what.c_str()); }
    void product_f32(int n);
    void product_narrow(int n);
    void attention(tegula::Module& module, int s, int d, bool causal);

    std::string source_dir_;
    bool quick_;
    Blas blas_;
    tegula::Engine engine_;
    tegula::Module module_;
    tegula::RunOptions run_;
};

void Rows::product_f32(int n) {
    note("matmul f32 " + std::to_string(n));
    const size_t count = static_cast<size_t>(n) * static_cast<size_t>(n);
    std::vector<float> a = normal(count, 1), b = normal(count, 2), c(count), d(count);
    const auto ours = [&] {
        launch("matmul", {{"T", "f32"}, {"S", "f32"}, {"BM", 128}, {"BN", 128}, {"BK", 128}},
               {tegula::Tensor(a.data(), {n, n}), tegula::Tensor(b.data(), {n, n}), tegula::Tensor(c.data(), {n, n})});
    };
    const auto theirs = [&] { blas_.product(a.data(), b.data(), d.data(), n, n, n); };
    const auto [own, peer] = in_turn(quick_ ? 3 : n <= 1024 ? 15 : 5, ours, theirs);
    for (size_t i = 0; i < count && blas_.sgemm; ++i)
        if (!(std::fabs(c[i] - d[i]) < 1e-3f * std::sqrt(static_cast<float>(n)))) throw std::runtime_error("the product is wrong");
    const double flops = 2.0 * n * n * n * 1e-9;
    rows.push_back({"matmul f32 " + std::to_string(n) + "^3", "GFLOP/s", "OpenBLAS f32", flops / own, flops / peer, 0.8});
}

void Rows::product_narrow(int n) {
    const size_t count = static_cast<size_t>(n) * static_cast<size_t>(n);
    std::vector<float> a = normal(count, 1), b = normal(count, 2), c(count), d(count);
    std::vector<uint16_t> ha(count), hb(count);
    std::vector<int8_t> ia(count), ib(count);
    std::vector<int32_t> ic(count);
    for (size_t i = 0; i < count; ++i)
        ha[i] = bf16_of(a[i]), hb[i] = bf16_of(b[i]), ia[i] = static_cast<int8_t>(a[i] * 40), ib[i] = static_cast<int8_t>(b[i] * 40);
    const auto theirs = [&] { blas_.product(a.data(), b.data(), d.data(), n, n, n); };
    const double flops = 2.0 * n * n * n * 1e-9;
    note("matmul bf16 and i8 " + std::to_string(n));
    const auto bf16 = in_turn(
        5,
        [&] {
            launch("matmul", {{"T", "bf16"}, {"S", "f32"}, {"BM", 128}, {"BN", 128}, {"BK", 128}},
                   {tegula::Tensor(ha.data(), count * 2, "bf16", {n, n}), tegula::Tensor(hb.data(), count * 2, "bf16", {n, n}),
                    tegula::Tensor(c.data(), {n, n})});
        },
        theirs);
    rows.push_back({"matmul bf16 " + std::to_string(n) + "^3, f32 chains", "GFLOP/s", "OpenBLAS f32", flops / bf16.first, flops / bf16.second, 1.5});
    const auto i8 = in_turn(
        5,
        [&] {
            launch("matmul", {{"T", "i8"}, {"S", "i32"}, {"BM", 128}, {"BN", 128}, {"BK", 128}},
                   {tegula::Tensor(ia.data(), {n, n}), tegula::Tensor(ib.data(), {n, n}), tegula::Tensor(ic.data(), {n, n})});
        },
        theirs);
    rows.push_back({"matmul i8 " + std::to_string(n) + "^3", "GOP/s", "OpenBLAS f32", flops / i8.first, flops / i8.second, 1.5});
}

void Rows::products() {
    for (int n : {512, 1024, 2048})
        if (!quick_ || n == 512) product_f32(n);
    product_narrow(quick_ ? 512 : 1024);
}

void Rows::bandwidth() {
    const int64_t n = 1024, m = quick_ ? 4096 : 1 << 15;
    const size_t count = static_cast<size_t>(n * m);
    std::vector<float> a = normal(count, 3), b = normal(count, 4), c(count, -1.0f);
    const auto copy = [&] { copy_on_all_cores(a, c); };
    const double copied = 8.0 * static_cast<double>(count) * 1e-9;
    const auto row = [&](const char* work, double bytes, const std::function<void()>& ours) {
        note(work);
        const auto [own, peer] = in_turn(quick_ ? 3 : 9, ours, copy);
        rows.push_back({std::string(work) + ", " + std::to_string(count * 4 >> 20) + " MiB arrays", "GB/s", "memcpy, all cores", bytes / own,
                        copied / peer, 0.85});
    };
    const auto all = static_cast<int64_t>(count);
    row("add f32", copied * 1.5, [&] {
        launch("add", {{"B", 8192}}, {tegula::Tensor(a.data(), {all}), tegula::Tensor(b.data(), {all}), tegula::Tensor(c.data(), {all})});
    });
    row("softmax f32 rows of 1024", copied, [&] {
        launch("softmax", {{"BLOCK", 1024}}, {tegula::Tensor(a.data(), {m, n}), tegula::Tensor(c.data(), {m, n})});
    });
    row("layernorm f32 rows of 1024", copied, [&] {
        launch("layernorm", {{"BLOCK", 1024}}, {tegula::Tensor(a.data(), {m, n}), tegula::Value(1e-5), tegula::Tensor(c.data(), {m, n})});
    });
}

void Rows::decode() {
    note("w4a16, one row");
    const int n = 4096, k = 4096, group = 128;
    std::vector<uint16_t> x(k, 0x3c00), s(static_cast<size_t>(n) * k / group, 0x2c00), y(n);
    std::vector<uint8_t> w(static_cast<size_t>(n) * k / 2);
    for (size_t i = 0; i < w.size(); ++i) w[i] = static_cast<uint8_t>(i * 2654435761u >> 13);
    std::vector<float> fx(k, 1.0f), fw = normal(static_cast<size_t>(n) * k, 5), fy(n);
    const auto [own, peer] = in_turn(
        9,
        [&] {
            launch("w4a16", {{"G", group}, {"BN", 64}, {"BK", 512}},
                   {tegula::Tensor(x.data(), x.size() * 2, "f16", {1, k}), tegula::Tensor(w.data(), w.size(), "i4", {n, k}),
                    tegula::Tensor(s.data(), s.size() * 2, "f16", {n, k / group}), tegula::Tensor(y.data(), y.size() * 2, "f16", {1, n})});
        },
        [&] { blas_.product(fx.data(), fw.data(), fy.data(), 1, n, k); });
    const double flops = 2.0 * n * k * 1e-9;
    rows.push_back({"w4a16 1 x 4096 x 4096", "GFLOP/s", "OpenBLAS f32", flops / own, flops / peer, 2.5});
}

/// Median seconds of NumPy, timed in a process of its own; NaN: it is missing.
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

/// Row i of a head by the definition, in double.
void check_attention(const float* q, const float* k, const float* v, const float* o, int s, int d, int row, bool causal) {
    const int seen = causal ? row + 1 : s;
    std::vector<double> weights, sums(static_cast<size_t>(d));
    double total = 0;
    for (int j = 0; j < seen; ++j) {
        double score = 0;
        for (int e = 0; e < d; ++e) score += static_cast<double>(q[row * d + e]) * k[j * d + e];
        const double weight = std::exp(score / std::sqrt(d));
        total += weight;
        for (int e = 0; e < d; ++e) sums[static_cast<size_t>(e)] += weight * v[j * d + e];
    }
    for (int e = 0; e < d; ++e)
        if (!(std::fabs(o[row * d + e] - sums[static_cast<size_t>(e)] / total) < 1e-4)) throw std::runtime_error("attention is wrong");
}

void Rows::attention(tegula::Module& module, int s, int d, bool causal) {
    const int heads = 4, runs = quick_ ? 3 : 9;
    const std::string work =
        "attention " + std::to_string(heads) + " x " + std::to_string(s) + ", d " + std::to_string(d) + (causal ? ", causal" : "");
    note(work);
    const auto head = static_cast<size_t>(s * d), count = heads * head;
    std::vector<float> q = normal(count, 6), k = normal(count, 7), v = normal(count, 8), o(count);
    const auto tensor = [&](std::vector<float>& x) { return tegula::Tensor(x.data(), {heads, s, d}); };
    std::vector<double> seconds;
    for (int i = -1; i < runs; ++i) {
        const auto start = Clock::now();
        module
            .launch("attention", {{"D", d}, {"CAUSAL", causal}, {"BM", 128}, {"BS", 128}},
                    {tensor(q), tensor(k), tensor(v), tegula::Value(1 / std::sqrt(static_cast<double>(d))), tensor(o)}, run_)
            .value();
        if (i >= 0) seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    }
    std::sort(seconds.begin(), seconds.end());
    for (int row : {0, s / 2 + 1, s - 1}) check_attention(&q[head], &k[head], &v[head], &o[head], s, d, row, causal);
    const double peer = numpy_attention(source_dir_, heads, s, d, causal, runs), flops = 4.0 * heads * s * s * d * (causal ? 0.5 : 1) * 1e-9;
    rows.push_back({work, "GFLOP/s", std::isnan(peer) ? "NumPy is missing" : "NumPy", flops / seconds[seconds.size() / 2], flops / peer, 5});
}

void Rows::attention() {
    tegula::Module module = engine_.load_file(source_dir_ + "/examples/attention.tile").value();
    for (int d : {128, 64})
        for (bool causal : {false, true}) attention(module, 1024, d, causal);
}

}  // namespace

std::vector<CpuRow> cpu_rows(const std::string& source_dir, bool quick, std::string& why) {
    Rows all(source_dir, quick);
    if (!all.available(why)) return {};
    all.products();
    all.bandwidth();
    all.decode();
    all.attention();
    return std::move(all.rows);
}

void print_cpu(const std::vector<CpuRow>& rows) {
    std::printf("%-44s %10s %10s  %-8s %-20s %7s %6s\n", "work", "ours", "peer", "", "which", "ratio", "goal");
    for (const CpuRow& r : rows)
        std::printf("%-44s %10.4g %10.4g  %-8s %-20s %6.2fx %5.2fx\n", r.work.c_str(), r.ours, r.theirs, r.unit.c_str(), r.peer.c_str(),
                    r.ours / r.theirs, r.goal);
    std::printf("OpenBLAS: %s\n", Blas().config.c_str());
}

std::string cpu_json(const std::vector<CpuRow>& rows) {
    std::string out = "{\"schema\":1,\"rows\":[";
    char number[160];
    for (const CpuRow& r : rows) {
        std::snprintf(number, sizeof number, "\"ours\":%.6g,\"peer\":%.6g,\"goal\":%.3g}", r.ours, std::isfinite(r.theirs) ? r.theirs : 0.0, r.goal);
        out += (&r == rows.data() ? "\n" : ",\n") + ("{\"work\":\"" + r.work) + "\",\"unit\":\"" + r.unit + "\",\"who\":\"" + r.peer + "\"," + number;
    }
    return out + "\n]}";
}

}  // namespace cpu_bench
