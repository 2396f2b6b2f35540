// Measures the choices of `tune` that the launches of a module's benches leave open, and keeps the quickest that is right (tuned.h).
#pragma once
#include <functional>
#include <span>
#include <string_view>
#include <utility>

#include "jit/engine/host.h"

namespace tegula {

struct TuneRequest {
    double seconds = 20;     ///< for all launches together, shared by what each is expected to gain; comparisons with the interpreter and the first choice of each launch may take longer
    uint64_t seed = 0;       ///< of the order in which choices are tried where nothing says which is promising
    std::string build;       ///< of the library: what another one measured is measured again
    unsigned compilers = 0;  ///< choices compiled at a time; 0: as many as there are processors, at most 8
};

/// Seconds that a launch is expected to save by trying further choices. `tried`: measured seconds and estimate of choices that run; where nothing
/// estimates, all estimates are 1. `best` is the least of the measured, `next` the estimate of the most promising choice that is left, `left` the part
/// of all choices that is. The model errs as it has erred here, so that a choice may take two standard deviations less than it says.
double expected_gain(double best, std::span<const std::pair<double, double>> tried, double next, double left);

/// One result per launch with open choices, as JSON in `metrics` (share/tegula/schema/tune.json), and one per bench that fails. The machine is
/// options.machine, which must not be the interpreter. What was measured before by the same build is not measured again.
Status run_tunes(Engine& engine, LoadedModule& module, std::string_view filter, const LaunchOptions& options, const TuneRequest& request,
                 const std::function<void(TestResult&)>& report);

}  // namespace tegula
