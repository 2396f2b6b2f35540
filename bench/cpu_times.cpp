// Times of compiling and starting (cpu_times.h).
#include "bench/cpu_times.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "bench/cpu_peers.h"
#include "tegula/tegula.hpp"

namespace cpu_bench {

namespace {

double milliseconds(const std::function<void()>& call) {
    const auto start = std::chrono::steady_clock::now();
    call();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

CpuRow time_row(const std::string& work, double ours, double most) { return {work, "ms", "goal", ours, most, 1, true}; }

/// Values for generic parameters that have no default and do not follow from anything: of those that the examples have.
std::vector<tegula::NamedValue> settings(const nlohmann::json& kernel) {
    const std::vector<std::pair<const char*, int64_t>> values = {{"K", 8}, {"S", 4096}, {"MODE", 0},     {"T", 5},
                                                                 {"J", 1}, {"N", 4},    {"BLOCK", 1024}, {"BINS", 256}};
    std::vector<tegula::NamedValue> out;
    for (const auto& generic : kernel["generics"]) {
        if (generic.contains("default") || generic["bound"] != "int") continue;
        int64_t value = 64;
        for (const auto& [name, other] : values)
            if (generic["name"] == name) value = other;
        out.emplace_back(generic["name"].get<std::string>(), tegula::Value(value));
    }
    return out;
}

/// Assembly instead of an object in memory: printing it takes longer than linking.
void compile(const std::string& file, const nlohmann::json& kernel) {
    const auto engine = tegula::Engine::create().value();
    const auto module = engine.load_file(file).value();
    const auto name = kernel["name"].get<std::string>();
    auto compiled = module.compile(name);
    if (!compiled) compiled = module.compile(name, settings(kernel));
    compiled.value().artifact("asm").value();
}

}  // namespace

CpuRow first_kernel(const std::string& source_dir) {
    std::vector<int32_t> y(8);
    tegula::RunOptions run;
    run.machine = "cpu";
    const double ours = milliseconds([&] {
        const auto engine = tegula::Engine::create().value();
        engine.load_file(source_dir + "/bench/start.tile").value().launch("start", {}, {tegula::Tensor(y.data(), {8})}, run).value();
    });
    if (y[7] != 7) throw std::runtime_error("the first kernel is wrong");
    return time_row("first kernel of a process", ours, 100);
}

std::vector<CpuRow> compile_times(const std::string& source_dir) {
    std::vector<std::pair<double, std::string>> times;
    for (const auto& entry : std::filesystem::directory_iterator(source_dir + "/examples")) {
        if (entry.path().extension() != ".tile") continue;
        const std::string file = entry.path().string();
        const auto facts = nlohmann::json::parse(tegula::Engine::create().value().load_file(file).value().artifact("json").value());
        for (const auto& item : facts["items"]) {
            if (item["kind"] != "kernel") continue;
            std::vector<double> all;
            for (int i = 0; i < 3; ++i) all.push_back(milliseconds([&] { compile(file, item); }));
            times.emplace_back(median(all), item["name"].get<std::string>());
        }
    }
    std::sort(times.begin(), times.end());
    const auto& [middle, last] = std::pair(times[times.size() / 2], times.back());
    return {time_row("compile, median of " + std::to_string(times.size()) + " example kernels", middle.first, 50),
            time_row("compile, slowest: " + last.second, last.first, 300)};
}

std::vector<CpuRow> launch_times(const std::string& source_dir) {
    std::vector<float> x(256, 1.5f), y(256, 0.5f), z(256);
    tegula::RunOptions run;
    run.machine = "cpu";
    const auto module = tegula::Engine::create().value().load_file(source_dir + "/examples/vector_add.tile").value();
    const auto on = [](std::vector<float>& v) { return tegula::Tensor(v.data(), {256}); };
    const auto prepared = module.prepare("vector_add", {}, {on(x), on(y), on(z)}, run).value();
    const auto timed = [&](const std::function<bool()>& launch) {
        std::vector<double> all;
        for (int i = 0; i < 1000; ++i)
            all.push_back(milliseconds([&] {
                              if (!launch()) throw std::runtime_error("a launch failed");
                          }) *
                          1e6);
        return median(all);
    };
    const double ours = timed([&] { return prepared.enqueue() == TEGULA_OK; });
    if (z != std::vector<float>(256, 2.0f)) throw std::runtime_error("the prepared launch is wrong");
    return {{"launch of 256 elements, prepared", "ns", "goal", ours, 1000, 1, true},
            {"launch of 256 elements", "ns", "goal", timed([&] {
                 return bool(module.launch("vector_add", {}, {on(x), on(y), on(z)}, run));
             }),
             20000, 1, true}};
}

CpuRow command_start(const std::string& command, const std::string& source_dir) {
    char cache[] = "/tmp/tegula_bench_XXXXXX";
    if (!::mkdtemp(cache)) throw std::runtime_error("no folder for a cache");
    const std::string line =
        "TEGULA_CACHE_DIR=" + std::string(cache) + " exec '" + command + "' run --machine cpu '" + source_dir + "/bench/start.tile' >/dev/null";
    std::vector<double> all;
    for (int i = 0; i < 16; ++i) {
        const double ours = milliseconds([&] {
            if (std::system(line.c_str()) != 0) throw std::runtime_error("tegula run failed");
        });
        if (i) all.push_back(ours);  // the first one compiles
    }
    std::filesystem::remove_all(cache);
    return time_row("tegula run, code in the cache", median(all), 20);
}

}  // namespace cpu_bench
