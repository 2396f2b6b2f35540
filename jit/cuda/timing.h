// Measured times of launches, for benchmarks.
#pragma once
#include "jit/cuda/state.h"

namespace tegula::cuda {

/// Backend::time_launches: microseconds per launch.
Result<double> time_launches(Backend::State& state, std::span<const PreparedLaunch* const> launches, TimingMode mode);

}  // namespace tegula::cuda
