// Narrow weights (cpu_narrow.h). Activations are f16, sums f32, every product exact: ggml rounds activations to 8 bits first.
#include "bench/cpu_narrow.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>
#include <stdexcept>
#include <thread>

#include "bench/cpu_peers.h"
#include "bench/ggml.h"
#include "tegula/tegula.hpp"

namespace cpu_bench {

namespace {

/// Times differ by what else the machine does, which only adds to them: of many calls, in turn, the quickest ones are compared.
struct Quickest {
    double ours = INFINITY, theirs = INFINITY;
};

Quickest quickest(int runs, const std::function<void()>& ours, const std::function<void()>& theirs) {
    Quickest out;
    for (int i = 0; i < runs; ++i) {
        out.ours = std::min(out.ours, awake_seconds(ours));
        if (theirs) out.theirs = std::min(out.theirs, awake_seconds(theirs));
    }
    return out;
}

struct Weights {
    const char* name;    ///< of the row
    const char* kernel;  ///< of bench/cpu.tile
    const char *type, *layout, *scale;
    int group;            ///< 0: no scales
    const char* nearest;  ///< types of ggml, the first that it has
};

constexpr Weights kWeights[] = {
    {"w1", "plain", "i1", "", "", 0, "tq1_0 iq1_s"},
    {"w2", "plain", "i2", "", "", 0, "q2_K tq2_0"},
    {"w3", "plain", "i3", "", "", 0, "q3_K"},
    {"w4", "plain", "i4", "", "", 0, "q4_0"},
    {"w5", "plain", "i5", "", "", 0, "q5_0"},
    {"w6", "plain", "i6", "", "", 0, "q6_K"},
    {"w7", "plain", "i7", "", "", 0, "q8_0"},
    {"w8", "plain", "i8", "", "", 0, "q8_0"},
    {"w4 in fragment order", "fragments", "i4", "fragment", "", 0, "q4_0"},
    {"w4, groups of 128", "grouped", "i4", "", "f16", 128, "q4_0"},
    {"w4, groups of 32", "grouped", "i4", "", "f16", 32, "q4_0"},
    {"mxfp4", "grouped", "f4e2m1", "", "f8e8m0", 32, "mxfp4"},
};

class Narrow {
public:
    Narrow(const std::string& source_dir, bool quick) : quick_(quick) {
        engine_ = tegula::Engine::create().value();
        module_ = engine_.load_file(source_dir + "/bench/cpu.tile").value();
        run_.machine = "cpu";
    }

    CpuRow row(const Weights& w, int64_t m) {
        const int64_t n = quick_ ? 1024 : 4096, k = n, groups = w.group ? k / w.group : 1;
        // Values that each type has, and whose sums are whole numbers.
        const int low = w.type == std::string("i1") ? -1 : -2, high = w.type == std::string("i1") ? 0 : 1;
        std::vector<float> values(static_cast<size_t>(n * k));
        double sum = 0;
        for (size_t i = 0; i < values.size(); ++i) {
            values[i] = static_cast<float>(low + static_cast<int>((i * 2654435761u >> 11) % static_cast<size_t>(high - low + 1)));
            sum += values[i];
        }
        Packed weights = packed(values, w.type, w.layout, {n, k});
        Packed x = packed(std::vector<float>(static_cast<size_t>(m * k), 1.0f), "f16", "", {m, k});
        std::vector<float> y(static_cast<size_t>(m * n));
        std::vector<tegula::NamedValue> args{{"", x.tensor}, {"", weights.tensor}};
        Packed scales;
        if (w.group) {
            scales = packed(std::vector<float>(static_cast<size_t>(n * groups), 0.5f), w.scale, "", {n, groups});
            args.emplace_back("", scales.tensor);
            sum *= 0.5;
        }
        args.emplace_back("", tegula::Tensor(y.data(), {m, n}));
        const int rows = m == 1 ? 1 : m <= 8 ? 8 : 16;
        std::vector<tegula::NamedValue> generics{{"W", w.type}, {"BM", rows}, {"BN", 64}, {"BK", 512}};
        if (w.group) generics.insert(generics.end(), {{"S", w.scale}, {"G", w.group}});
        const auto ours = [&] { module_.launch(w.kernel, generics, args, run_).value(); };
        ours();
        double got = 0;
        for (float v : y) got += v;
        if (got != sum * static_cast<double>(m)) throw std::runtime_error(std::string(w.name) + " is wrong");
        std::string type;
        const int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
        const Quickest times = quickest(quick_ ? 9 : 25, ours, ggml_.product(w.nearest, m, n, k, threads, type));
        const std::string work = std::string(w.name) + ", " + std::to_string(m) + " x " + std::to_string(n) + " x " + std::to_string(k);
        const bool measured = std::isfinite(times.theirs);
        return {
            work, "ms", measured ? "ggml " + type : "ggml is missing", times.ours * 1e3, measured ? times.theirs * 1e3 : NAN, m < 64 ? 1.25 : 1.67,
            true};
    }

private:
    struct Packed {
        std::vector<uint8_t> data;
        tegula::Tensor tensor;
    };

    Packed packed(const std::vector<float>& values, const char* type, const char* layout, std::vector<int64_t> extents) {
        Packed out;
        out.data.resize(module_.tensor_bytes(type, layout, extents).value().elements);
        out.tensor = tegula::Tensor(out.data.data(), out.data.size(), type, extents);
        if (*layout) out.tensor.layout(layout);
        module_.copy(out.tensor, tegula::Tensor(values.data(), extents)).value();
        return out;
    }

    bool quick_;
    Ggml ggml_;
    tegula::Engine engine_;
    tegula::Module module_;
    tegula::RunOptions run_;
};

}  // namespace

std::vector<CpuRow> narrow_weights(const std::string& source_dir, bool quick) {
    Narrow narrow(source_dir, quick);
    std::vector<CpuRow> out;
    for (const Weights& w : kWeights) {
        std::fprintf(stderr, "==> %s\n", w.name);
        for (int64_t m : {1, 8, 64}) out.push_back(narrow.row(w, m));
    }
    return out;
}

}  // namespace cpu_bench
