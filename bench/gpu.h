// The GPU part of the benchmark: our kernels beside cuBLAS, measured copy bandwidth and (through peers.py) PyTorch and Triton, all in one run.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace gpu_bench {

struct GpuRow {
    std::string work, who, mode;  ///< "bf16 matmul 4096^3", "tegula" | "cublas" | .., "burst" | "sustained"
    double seconds = 0;           ///< of one launch
    double flops = 0, bytes = 0;  ///< of one launch; what is zero is not quoted
};

/// Empty, with the reason in `why`, where there is no GPU. `set`: generic parameters of products with narrow weights, instead of their defaults.
std::vector<GpuRow> gpu_rows(const std::string& source_dir, bool quick, const std::string& only, const std::vector<std::pair<std::string, int64_t>>& set,
                             std::string& why);
/// One line per work: every peer and mode, ratios of ours to the best peer.
void print_gpu(const std::vector<GpuRow>& rows);
std::string gpu_json(const std::vector<GpuRow>& rows);

}  // namespace gpu_bench
