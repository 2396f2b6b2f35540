// Measures the choices of `tune` that the launches of a module's benches leave open, and keeps the quickest that is right (tuned.h).
#pragma once
#include <functional>
#include <string_view>

#include "jit/engine/host.h"

namespace tegula {

struct TuneRequest {
    double seconds = 20;     ///< for all launches together; comparisons with the interpreter and the first choice of each launch may take longer
    uint64_t seed = 0;       ///< of the order in which choices are tried where nothing says which is promising
    std::string build;       ///< of the library: what another one measured is measured again
    unsigned compilers = 0;  ///< choices compiled at a time; 0: as many as there are processors, at most 8
};

/// One result per launch with open choices, as JSON in `metrics` (share/tegula/schema/tune.json), and one per bench that fails. The machine is
/// options.machine, which must not be the interpreter. What was measured before by the same build is not measured again.
Status run_tunes(Engine& engine, LoadedModule& module, std::string_view filter, const LaunchOptions& options, const TuneRequest& request,
                 const std::function<void(TestResult&)>& report);

}  // namespace tegula
