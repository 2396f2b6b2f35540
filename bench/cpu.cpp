// Rows of the machine `cpu` (cpu.h). Every output is checked before it is timed; ours and the peer's are timed in turn, so that both see the same
// machine.
#include "bench/cpu.h"
#include "bench/cpu_narrow.h"
#include "bench/cpu_peers.h"
#include "bench/cpu_times.h"
#include "bench/inputs.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <stdexcept>

#include "tegula/tegula.hpp"

namespace cpu_bench {

namespace {

uint16_t bf16_of(float v) {
    uint32_t bits;
    std::memcpy(&bits, &v, 4);
    return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float value_of(uint16_t bf16) {
    const uint32_t bits = uint32_t{bf16} << 16;
    float v;
    std::memcpy(&v, &bits, 4);
    return v;
}

class Rows {
public:
    Rows(const std::string& source_dir, bool quick) : source_dir_(source_dir), quick_(quick) {
        engine_ = tegula::Engine::create().value();
        module_ = engine_.load_file(source_dir + "/bench/cpu.tile").value();
        run_.machine = "cpu";
    }
    void products();
    void bandwidth();
    void beside_interpreter();
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
    struct Arrays {
        std::vector<float> a, b, c;
        std::vector<uint16_t> narrow;  ///< as many bytes
    };
    void rows_of(const char* type, int64_t columns, Arrays& at);
    void against_copy(const std::string& work, size_t bytes, Arrays& at, const std::function<void()>& ours);
    void attention(tegula::Module& module, int s, int d, bool causal, bool narrow);

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
    const auto [own, peer] = in_turn(quick_ ? 3 : n <= 1024 ? 15 : 5, kBlasSleeps, ours, theirs);
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
        5, kBlasSleeps,
        [&] {
            launch("matmul", {{"T", "bf16"}, {"S", "f32"}, {"BM", 128}, {"BN", 128}, {"BK", 128}},
                   {tegula::Tensor(ha.data(), count * 2, "bf16", {n, n}), tegula::Tensor(hb.data(), count * 2, "bf16", {n, n}),
                    tegula::Tensor(c.data(), {n, n})});
        },
        theirs);
    rows.push_back({"matmul bf16 " + std::to_string(n) + "^3, f32 chains", "GFLOP/s", "OpenBLAS f32", flops / bf16.first, flops / bf16.second, 1.5});
    const auto i8 = in_turn(
        5, kBlasSleeps,
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

/// Rows of `columns` elements, the arrays as large for every width.
void Rows::rows_of(const char* type, int64_t columns, Arrays& at) {
    const bool wide = std::string(type) == "f32";
    const int64_t m = static_cast<int64_t>(at.a.size() * 4) / (wide ? 4 : 2) / columns;
    const size_t count = static_cast<size_t>(m * columns), bytes = count * (wide ? 4 : 2);
    const tegula::Tensor x(wide ? static_cast<void*>(at.a.data()) : at.narrow.data(), bytes, type, {m, columns}),
        y(at.c.data(), bytes, type, {m, columns});
    const auto block = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(columns)));
    const std::string name = std::string(" ") + type + " rows of " + std::to_string(columns);
    against_copy("softmax" + name, 2 * bytes, at, [&] { launch("softmax", {{"T", type}, {"BLOCK", block}}, {x, y}); });
    against_copy("layernorm" + name, 2 * bytes, at, [&] { launch("layernorm", {{"T", type}, {"BLOCK", block}}, {x, tegula::Value(1e-5), y}); });
}

/// `bytes`: read and written. The peer's figure counts both as well.
void Rows::against_copy(const std::string& work, size_t bytes, Arrays& at, const std::function<void()>& ours) {
    note(work);
    const auto [own, peer] = in_turn(quick_ ? 3 : 9, kNobodySpins, ours, [&] { copy_on_all_cores(at.a, at.c); });
    const double copied = 8.0 * static_cast<double>(at.a.size());
    rows.push_back({work + ", " + std::to_string(at.a.size() * 4 >> 20) + " MiB", "GB/s", "memcpy, all cores",
                    static_cast<double>(bytes) * 1e-9 / own, copied * 1e-9 / peer, 0.85});
}

void Rows::bandwidth() {
    const size_t count = quick_ ? 1 << 22 : 1 << 25;
    Arrays at{normal(count, 3), normal(count, 4), std::vector<float>(count, -1.0f), std::vector<uint16_t>(2 * count)};
    for (size_t i = 0; i < 2 * count; ++i) at.narrow[i] = bf16_of(at.a[i % count]);
    const auto all = static_cast<int64_t>(count);
    against_copy("add f32", 12 * count, at, [&] {
        launch("add", {{"B", 8192}}, {tegula::Tensor(at.a.data(), {all}), tegula::Tensor(at.b.data(), {all}), tegula::Tensor(at.c.data(), {all})});
    });
    for (int64_t columns : {1024, 781, 4096, 16384})
        if (!quick_ || columns == 1024) rows_of("f32", columns, at);
    for (int64_t columns : {1024, 781, 4096})
        if (!quick_ || columns == 1024) rows_of("bf16", columns, at);
}

/// The interpreter is what says what a result is, not how fast it can be had: a row without a goal.
void Rows::beside_interpreter() {
    const int n = quick_ ? 128 : 256;
    note("matmul f32 " + std::to_string(n) + ", beside the interpreter");
    const size_t count = static_cast<size_t>(n) * static_cast<size_t>(n);
    std::vector<float> a = normal(count, 1), b = normal(count, 2), c(count), d(count);
    const auto product = [&](const char* machine, std::vector<float>& to) {
        tegula::RunOptions run;
        run.machine = machine;
        module_
            .launch("matmul", {{"T", "f32"}, {"S", "f32"}, {"BM", 64}, {"BN", 64}, {"BK", 64}},
                    {tegula::Tensor(a.data(), {n, n}), tegula::Tensor(b.data(), {n, n}), tegula::Tensor(to.data(), {n, n})}, run)
            .value();
    };
    const auto [own, peer] = in_turn(
        3, kNobodySpins, [&] { product("cpu", c); }, [&] { product("interp", d); });
    if (c != d) throw std::runtime_error("the product is not the interpreter's");
    const double flops = 2.0 * n * n * n * 1e-9;
    rows.push_back({"matmul f32 " + std::to_string(n) + "^3", "GFLOP/s", "interpreter", flops / own, flops / peer});
}

void Rows::decode() {
    note("w4a16, one row");
    const int n = 4096, k = 4096, group = 128;
    std::vector<uint16_t> x(k, 0x3c00), s(static_cast<size_t>(n) * k / group, 0x2c00), y(n);
    std::vector<uint8_t> w(static_cast<size_t>(n) * k / 2);
    for (size_t i = 0; i < w.size(); ++i) w[i] = static_cast<uint8_t>(i * 2654435761u >> 13);
    std::vector<float> fx(k, 1.0f), fw = normal(static_cast<size_t>(n) * k, 5), fy(n);
    const auto [own, peer] = in_turn(
        9, kBlasSleeps,
        [&] {
            launch("w4a16", {{"G", group}, {"BN", 64}, {"BK", 512}},
                   {tegula::Tensor(x.data(), x.size() * 2, "f16", {1, k}), tegula::Tensor(w.data(), w.size(), "i4", {n, k}),
                    tegula::Tensor(s.data(), s.size() * 2, "f16", {n, k / group}), tegula::Tensor(y.data(), y.size() * 2, "f16", {1, n})});
        },
        [&] { blas_.product(fx.data(), fw.data(), fy.data(), 1, n, k); });
    const double flops = 2.0 * n * k * 1e-9;
    rows.push_back({"w4a16 1 x 4096 x 4096", "GFLOP/s", "OpenBLAS f32", flops / own, flops / peer, 2.5});
}

/// Row i of a head by the definition, in double; `most`: what an element may be off.
void check_attention(const float* q, const float* k, const float* v, const float* o, int s, int d, int row, bool causal, double most) {
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
        if (!(std::fabs(o[row * d + e] - sums[static_cast<size_t>(e)] / total) < most)) throw std::runtime_error("attention is wrong");
}

/// NumPy has no bf16: its figure is of f32 in either case.
void Rows::attention(tegula::Module& module, int s, int d, bool causal, bool narrow) {
    const int heads = 4, runs = quick_ ? 3 : 9;
    const std::string work = "attention " + std::string(narrow ? "bf16 " : "f32 ") + std::to_string(heads) + " x " + std::to_string(s) + ", d " +
                             std::to_string(d) + (causal ? ", causal" : "");
    note(work);
    const auto head = static_cast<size_t>(s * d), count = heads * head;
    std::vector<float> q = normal(count, 6), k = normal(count, 7), v = normal(count, 8), o(count);
    std::vector<uint16_t> narrow_of[4];
    const std::vector<float>* wide[] = {&q, &k, &v, &o};
    for (int i = 0; narrow && i < 4; ++i)
        for (float x : *wide[i]) narrow_of[i].push_back(bf16_of(x));
    const auto tensor = [&](int i) {
        return narrow ? tegula::Tensor(narrow_of[i].data(), count * 2, "bf16", {heads, s, d})
                      : tegula::Tensor(const_cast<float*>(wide[i]->data()), {heads, s, d});
    };
    std::vector<double> seconds;
    for (int i = 0; i < runs; ++i)
        seconds.push_back(awake_seconds([&] {
            module
                .launch("attention", {{"D", d}, {"CAUSAL", causal}, {"BM", 128}, {"BS", 128}},
                        {tensor(0), tensor(1), tensor(2), tegula::Value(1 / std::sqrt(static_cast<double>(d))), tensor(3)}, run_)
                .value();
        }));
    if (narrow) std::transform(narrow_of[3].begin(), narrow_of[3].end(), o.begin(), value_of);
    for (int row : {0, s / 2 + 1, s - 1}) check_attention(&q[head], &k[head], &v[head], &o[head], s, d, row, causal, narrow ? 0.05 : 1e-4);
    const double peer = numpy_attention(source_dir_, heads, s, d, causal, runs), flops = 4.0 * heads * s * s * d * (causal ? 0.5 : 1) * 1e-9;
    rows.push_back({work, "GFLOP/s", std::isnan(peer) ? "NumPy is missing" : "NumPy f32", flops / median(seconds), flops / peer, 5});
}

void Rows::attention() {
    tegula::Module module = engine_.load_file(source_dir_ + "/examples/attention.tile").value();
    for (int d : {128, 64})
        for (bool causal : {false, true})
            for (bool narrow : {false, true}) attention(module, 1024, d, causal, narrow);
}

}  // namespace

std::vector<CpuRow> cpu_rows(const std::string& source_dir, const std::string& command, bool quick, const std::string& only, std::string& why) {
    setenv("TEGULA_CACHE_DIR", "off", 1);  // what is compiled is compiled here
    CpuRow first;
    try {
        first = first_kernel(source_dir);
    } catch (const tegula::Error& e) {
        why = e.what();
        return {};
    }
    Rows all(source_dir, quick);
    const auto wanted = [&](const char* group) { return std::string(group).find(only) != std::string::npos; };
    if (wanted("starts")) {
        all.rows.push_back(first);
        for (CpuRow& row : launch_times(source_dir)) all.rows.push_back(std::move(row));
        for (CpuRow& row : compile_times(source_dir)) all.rows.push_back(std::move(row));
        all.rows.push_back(command_start(command, source_dir));
    }
    if (wanted("products")) all.products();
    if (wanted("bandwidth")) all.bandwidth();
    if (wanted("interpreter")) all.beside_interpreter();
    if (wanted("decode")) all.decode();
    if (wanted("weights"))
        for (CpuRow& row : narrow_weights(source_dir, quick)) all.rows.push_back(std::move(row));
    if (wanted("attention")) all.attention();
    return std::move(all.rows);
}

void print_cpu(const std::vector<CpuRow>& rows) {
    std::printf("%-44s %10s %10s  %-8s %-20s %7s %6s\n", "work", "ours", "peer", "", "which", "ratio", "goal");
    for (const CpuRow& r : rows) {
        std::printf("%-44s %10.4g %10.4g  %-8s %-20s %6.4gx", r.work.c_str(), r.ours, r.theirs, r.unit.c_str(), r.peer.c_str(), r.ratio());
        std::printf(r.goal ? " %4.3gx\n" : "\n", r.goal);
    }
    std::printf("OpenBLAS: %s\n", Blas().config.c_str());
}

std::string cpu_json(const std::vector<CpuRow>& rows) {
    std::string out = "{\"schema\":1,\"rows\":[";
    char number[200];
    for (const CpuRow& r : rows) {
        std::snprintf(number, sizeof number, "\"ours\":%.6g,\"peer\":%.6g,\"goal\":%.3g,\"smaller_is_better\":%s}", r.ours,
                      std::isfinite(r.theirs) ? r.theirs : 0.0, r.goal, r.smaller_is_better ? "true" : "false");
        out += (&r == rows.data() ? "\n" : ",\n") + ("{\"work\":\"" + r.work) + "\",\"unit\":\"" + r.unit + "\",\"who\":\"" + r.peer + "\"," + number;
    }
    return out + "\n]}";
}

}  // namespace cpu_bench
