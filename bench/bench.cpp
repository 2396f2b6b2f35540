// The benchmark: kernels of bench/kernels.tile on the reference interpreter, through the public header, beside limits measured in the same run
// (copy bandwidth, a plain C++ loop). Prints one table and writes a JSON file (default bench.json). Every output is checked before it is timed.
//   tegula_bench [--out FILE] [--quick] [--cpu | --gpu [--set NAME=NUMBER]..] [--only TEXT]      --cpu: the rows of cpu.cpp instead, beside OpenBLAS,
//   memcpy and ggml
//                                                               --gpu: the rows of gpu.cpp instead, beside cuBLAS, PyTorch and Triton
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "bench/cpu.h"
#include "bench/gpu.h"
#include "bench/inputs.h"
#include "tegula/tegula.hpp"

namespace {

using Clock = std::chrono::steady_clock;

struct Row {
    std::string name, unit, limit_name;
    double value = 0, limit = 0;  ///< same unit; limit 0: none
    bool smaller_is_better = false;
    double memory = 0;  ///< peak resident bytes of the measured part over bytes of its arrays; 0: not measured
};

/// Median of `runs` calls, in seconds.
double median_time(int runs, const std::function<void()>& call) {
    std::vector<double> times;
    for (int i = 0; i < runs; ++i) {
        auto start = Clock::now();
        call();
        times.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
}

/// A field of /proc/self/status in bytes.
double resident(const char* field) {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
        if (line.rfind(field, 0) == 0) return 1024.0 * std::strtod(line.c_str() + std::strlen(field), nullptr);
    return 0;
}

/// Peak memory of `call`, counting `data` bytes of arrays that exist already, over those bytes.
double peak_over_data(double data, const std::function<void()>& call) {
    std::ofstream("/proc/self/clear_refs") << "5";  // resets the high-water mark
    const double before = resident("VmRSS:");
    call();
    return (resident("VmHWM:") - before + data) / data;
}

/// The folder with `bench/kernels.tile` and the examples: the first that holds them among the current folder, the program's and those above it.
std::string find_source(const std::filesystem::path& program) {
    const auto holds = [](const std::filesystem::path& folder) { return std::filesystem::exists(folder / "bench" / "kernels.tile"); };
    if (holds(std::filesystem::current_path())) return std::filesystem::current_path();
    for (std::filesystem::path at = program.parent_path(); at.has_relative_path(); at = at.parent_path())
        if (holds(at)) return at;
    return holds("/") ? "/" : "";
}

[[noreturn]] void die(const std::string& what) {
    std::fprintf(stderr, "bench: %s\n", what.c_str());
    std::exit(1);
}

class Bench {
public:
    Bench(std::string source, bool quick) : source_(std::move(source)), quick_(quick) {
        engine_ = tegula::Engine::create().value();
        module_ = engine_.load_file(source_ + "/bench/kernels.tile").value();
    }
    void vector_add();
    void matmul();
    void softmax();
    void check_examples();
    void print() const;
    bool write(const std::string& path) const;

private:
    void launch(const char* kernel, std::initializer_list<tegula::NamedValue> generics, std::initializer_list<tegula::Value> args) {
        tegula::RunOptions interpreter;
        interpreter.machine = "interp";
        module_.launch(kernel, generics, args, interpreter).value();
    }
    void note(const char* what) const { std::fprintf(stderr, "==> %s\n", what); }

    std::string source_;
    bool quick_;
    tegula::Engine engine_;
    tegula::Module module_;
    std::vector<Row> rows_;
};

void Bench::vector_add() {
    note("vector add");
    const int64_t n = int64_t{1} << (quick_ ? 20 : 24);
    std::vector<float> a = normal(size_t(n), 1), b = normal(size_t(n), 2), c(size_t(n), NAN);
    auto run = [&] { launch("add", {}, {tegula::Tensor(a.data(), {n}), tegula::Tensor(b.data(), {n}), tegula::Tensor(c.data(), {n})}); };
    run();
    for (size_t i = 0; i < c.size(); ++i)
        if (c[i] != a[i] + b[i]) die("vector add is wrong");
    const double data = 3.0 * 4 * double(n);
    const double memory = peak_over_data(data, run);
    const double ours = data / median_time(5, run) * 1e-9;
    const double copy = 2.0 * 4 * double(n) / median_time(5, [&] { std::memcpy(c.data(), a.data(), size_t(n) * 4); }) * 1e-9;
    rows_.push_back({"vector add f32, " + std::to_string(n), "GB/s", "memcpy, one thread", ours, copy, false, memory});
}

/// The triple loop in the order that vectorises, one thread.
void plain_matmul(const std::vector<float>& a, const std::vector<float>& b, std::vector<float>& c, int64_t n) {
    std::fill(c.begin(), c.end(), 0.0f);
    for (int64_t i = 0; i < n; ++i)
        for (int64_t k = 0; k < n; ++k) {
            const float x = a[size_t(i * n + k)];
            for (int64_t j = 0; j < n; ++j) c[size_t(i * n + j)] += x * b[size_t(k * n + j)];
        }
}

void Bench::matmul() {
    note("matrix product");
    const int64_t n = quick_ ? 128 : 512;
    const size_t count = size_t(n * n);
    std::vector<float> a = normal(count, 3), b = normal(count, 4), c(count, NAN), reference(count);
    auto run = [&] { launch("matmul", {}, {tegula::Tensor(a.data(), {n, n}), tegula::Tensor(b.data(), {n, n}), tegula::Tensor(c.data(), {n, n})}); };
    run();
    const double plain = median_time(3, [&] { plain_matmul(a, b, reference, n); });
    for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < n; ++j) {
            double bound = 0;
            for (int64_t k = 0; k < n; ++k) bound += std::fabs(double(a[size_t(i * n + k)]) * b[size_t(k * n + j)]);
            // Two chains of n roundings each, each term at most 2^-24 of the running sum.
            if (!(std::fabs(double(c[size_t(i * n + j)]) - reference[size_t(i * n + j)]) <= 2.0 * double(n) * 0x1p-24 * bound))
                die("matrix product is wrong");
        }
    const double memory = peak_over_data(3.0 * 4 * double(count), run);
    rows_.push_back({"matmul f32, " + std::to_string(n) + "^3", "s", "plain C++ loop, one thread", median_time(3, run), plain, true, memory});
}

void Bench::softmax() {
    note("softmax");
    const int64_t m = quick_ ? 256 : 4096, n = 1024;
    const size_t count = size_t(m * n);
    std::vector<float> x = normal(count, 5), y(count, NAN), reference(count);
    auto run = [&] { launch("softmax", {}, {tegula::Tensor(x.data(), {m, n}), tegula::Tensor(y.data(), {m, n})}); };
    auto plain = [&] {
        for (int64_t i = 0; i < m; ++i) {
            const float* row = x.data() + i * n;
            float* out = reference.data() + i * n;
            const float top = *std::max_element(row, row + n);
            float sum = 0;
            for (int64_t j = 0; j < n; ++j) sum += out[j] = std::exp(row[j] - top);
            for (int64_t j = 0; j < n; ++j) out[j] /= sum;
        }
    };
    run();
    const double limit = median_time(3, plain);
    for (size_t i = 0; i < count; ++i)
        // The plain loop adds 1024 terms in a chain: 1024 roundings, plus a few for exp and the division.
        if (!(std::fabs(y[i] - reference[i]) <= 1040 * 0x1p-24 * reference[i])) die("softmax is wrong");
    const double memory = peak_over_data(2.0 * 4 * double(count), run);
    rows_.push_back({"softmax f32, " + std::to_string(m) + " x 1024", "s", "plain C++ loop, one thread", median_time(3, run), limit, true, memory});
}

void Bench::check_examples() {
    note("tegula check of the examples");
    double worst = 0;
    std::string name = "none";
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(source_ + "/examples"))
        if (entry.path().extension() == ".tile") files.push_back(entry.path());
    for (const auto& file : files) {
        bool good = false;
        const double seconds = median_time(3, [&] {
            auto engine = tegula::Engine::create().value();
            auto module = engine.load_file(file.string());
            good = module && module.value().check();
        });
        if (!good) std::fprintf(stderr, "    %s does not check\n", file.filename().c_str());
        if (seconds > worst) worst = seconds, name = file.filename().string();
    }
    rows_.push_back({"check, slowest of " + std::to_string(files.size()) + " examples: " + name, "s", "goal", worst, 0.03, true, 0});
}

void Bench::print() const {
    std::printf("%-48s %10s %-5s %10s  %-28s %7s  %s\n", "work", "ours", "", "limit", "which", "ratio", "peak memory / data");
    for (const Row& r : rows_) {
        std::printf("%-48s %10.3g %-5s %10.3g  %-28s %6.2fx  ", r.name.c_str(), r.value, r.unit.c_str(), r.limit, r.limit_name.c_str(),
                    r.smaller_is_better ? r.limit / r.value : r.value / r.limit);
        if (r.memory > 0)
            std::printf("%.2f\n", r.memory);
        else
            std::printf("-\n");
    }
}

bool Bench::write(const std::string& path) const {
    std::ofstream out(path);
    out << "{\"schema\":1,\"build\":\"" << tegula_build_id() << "\",\"rows\":[";
    for (size_t i = 0; i < rows_.size(); ++i) {
        const Row& r = rows_[i];
        out << (i ? ",\n" : "\n") << "{\"name\":\"" << r.name << "\",\"unit\":\"" << r.unit << "\",\"value\":" << r.value << ",\"limit\":" << r.limit
            << ",\"limit_name\":\"" << r.limit_name << "\",\"peak_memory_over_data\":" << r.memory << "}";
    }
    out << "\n]}\n";
    return static_cast<bool>(out.flush());
}

}  // namespace

int main(int argc, char** argv) {
    bool quick = false, gpu = false, cpu = false;
    std::string path = "bench.json", only;             // only: work, or a group of it, whose name holds it
    std::vector<std::pair<std::string, int64_t>> set;  // generics of products with narrow weights
    std::error_code none;
    const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", none);
    std::string source, command = program.parent_path().parent_path() / "tools" / "tegula";
    for (int i = 1; i < argc; ++i) {
        if (std::string(argv[i]) == "--quick") {
            quick = true;
        } else if (std::string(argv[i]) == "--gpu") {
            gpu = true;
        } else if (std::string(argv[i]) == "--cpu") {
            cpu = true;
        } else if (std::string(argv[i]) == "--out" && i + 1 < argc) {
            path = argv[++i];
        } else if (std::string(argv[i]) == "--only" && i + 1 < argc) {
            only = argv[++i];
        } else if (std::string(argv[i]) == "--set" && i + 1 < argc && std::strchr(argv[i + 1], '=')) {
            const std::string pair = argv[++i];
            const size_t equals = pair.find('=');
            set.emplace_back(pair.substr(0, equals), std::atoll(pair.c_str() + equals + 1));
        } else if (std::string(argv[i]) == "--source" && i + 1 < argc) {
            source = argv[++i];
        } else if (std::string(argv[i]) == "--command" && i + 1 < argc) {
            command = argv[++i];
        } else {
            std::fprintf(
                stderr,
                "usage: tegula_bench [--out FILE] [--quick] [--cpu | --gpu [--set NAME=NUMBER]..] [--only TEXT] [--source DIR] [--command TEGULA]\n");
            return 2;
        }
    }
    if (source.empty()) source = find_source(program);
    if (source.empty()) die("bench/kernels.tile is not found from here or from " + program.string() + ": name the source tree with --source");
    try {
        if (gpu) {
            std::string why;
            const auto rows = gpu_bench::gpu_rows(source, quick, only, set, why);
            if (!why.empty()) die("no GPU rows: " + why);
            gpu_bench::print_gpu(rows);
            std::ofstream(path) << gpu_bench::gpu_json(rows) << "\n";
            return 0;
        }
        if (cpu) {
            std::string why;
            const auto rows = cpu_bench::cpu_rows(source, command, quick, only, why);
            if (!why.empty()) die("no CPU rows: " + why);
            cpu_bench::print_cpu(rows);
            std::ofstream(path) << cpu_bench::cpu_json(rows) << "\n";
            return 0;
        }
        Bench bench(source, quick);
        bench.vector_add();
        bench.matmul();
        bench.softmax();
        bench.check_examples();
        bench.print();
        if (!bench.write(path)) die(path + ": cannot be written");
    } catch (const tegula::Error& e) {
        die(e.what());
    }
    return 0;
}
