// How long a launch would take on a GPU, from the tile IR alone: what picks tuned values when nobody measured. Cheap, deterministic, never exact:
// the ranking of tile shapes is what it is for.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "lang/explanation.h"
#include "lower/gpu/gpu.h"

namespace tegula {

/// One launch as seen before anything is compiled.
struct LaunchScale {
    uint64_t grid[3] = {1, 1, 1};
    std::vector<std::optional<int64_t>> scalars;  ///< by parameter of the function: extents and other integers that are known
};

/// Makes of a kernel before the GPU passes (run_passes may have run or not) what estimates look at: sums are split and products turned.
void prepare_for_estimates(ir::Function& fn);
/// `fn` is prepared. Of the two ways to run the stretches of a split sum, the quicker one, unless `options` leave only one.
GpuEstimate estimate_gpu(const ir::Function& fn, const GpuOptions& options, const LaunchScale& scale);
/// Does `a` take less time than `b`, or, where one part bounds both alike, less beside it?
bool is_quicker(const GpuEstimate& a, const GpuEstimate& b);

/// What memory's latency takes on its way to an SM of the architecture that reads as fast as it can.
int64_t bytes_that_hide_latency(const Arch& arch);
/// Programs that an SM holds, and what would be too little for more.
struct Occupancy {
    int per_sm = 1;
    const char* limit = "";  ///< as GpuEstimate::limit
};
Occupancy occupancy(const Arch& arch, double threads, double registers, int64_t shared_bytes);
/// The time of a launch in which the SMs of the architecture issue so many operations of threads and do nothing else.
double issue_microseconds(const Arch& arch, double operations);

}  // namespace tegula
