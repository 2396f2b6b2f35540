// How long a launch would take on a GPU, from the tile IR alone: what picks tuned values when nobody measured. Cheap, deterministic, never exact:
// the ranking of tile shapes is what it is for.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "lower/gpu/gpu.h"

namespace tegula {

/// One launch as seen before anything is compiled.
struct LaunchScale {
    uint64_t grid[3] = {1, 1, 1};
    std::vector<std::optional<int64_t>> scalars;  ///< by parameter of the function: extents and other integers that are known
};

struct GpuEstimate {
    double microseconds = 0;
    uint64_t programs = 0, stretches = 1;  ///< the stretches of split sums that are programs counted as such
    int per_sm = 1;                        ///< programs that an SM holds at the same time
    int stages = 0;                        ///< of the ring before the largest product; 0: no ring
    bool spills = false;                   ///< accumulators do not fit in registers
    bool spread = true;                    ///< the stretches of a split sum are CTAs of their own, rather than one after the other in each program
    int64_t chunk = 0;  ///< elements of K that a tensor core sums on its own before it rounds (fp8), smallest of all products; 0: no such product
    const char* bound = "";  ///< what the time goes to: "tensor cores", "arithmetic", "L2", "memory", "latency"
    const char* row = "";    ///< instruction of the product that takes longest; empty: no product
    /// "32 programs on 132 SMs, 1 each at a time, wgmma.bf16.f32, bound by latency".
    std::string text() const;
};

/// `fn` is a kernel before the GPU passes (run_passes may have run or not). Of the two ways to run the stretches of a split sum, the quicker one,
/// unless `options` leave only one.
GpuEstimate estimate_gpu(const ir::Function& fn, const GpuOptions& options, const LaunchScale& scale);

}  // namespace tegula
