// Whom the machine `cpu` is measured beside, and how both are timed: OpenBLAS (opened when the program runs), memcpy on all cores, NumPy (in a
// process of its own).
#pragma once
#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace cpu_bench {

using Sgemm = void (*)(int order, int ta, int tb, int m, int n, int k, float alpha, const float* a, int lda, const float* b, int ldb, float beta,
                       float* c, int ldc);

struct Blas {
    Sgemm sgemm = nullptr;  ///< null: it is missing
    std::string config = "OpenBLAS is missing";
    Blas();
    /// c[m, n] = a[m, k] @ b[k, n], by rows.
    void product(const float* a, const float* b, float* c, int m, int n, int k) const {
        if (sgemm) sgemm(101, 111, 111, m, n, k, 1, a, k, b, n, 0, c, n);
    }
};

/// Seconds of a call, by threads and cores that earlier ones woke.
double awake_seconds(const std::function<void()>& call);
double median(std::vector<double> values);

/// The threads of OpenBLAS look for work for a while before they fall asleep; nothing else does.
constexpr std::chrono::milliseconds kBlasSleeps{100}, kNobodySpins{0};
/// Median seconds of ours and theirs, called in turn, each after a pause.
std::pair<double, double> in_turn(int runs, std::chrono::milliseconds pause, const std::function<void()>& ours, const std::function<void()>& theirs);

/// The bytes go from one array to the other, each core its share.
void copy_on_all_cores(const std::vector<float>& from, std::vector<float>& to);

/// Median seconds of NumPy's attention (attention.py); NaN: it is missing.
double numpy_attention(const std::string& source_dir, int heads, int s, int d, bool causal, int runs);

}  // namespace cpu_bench
