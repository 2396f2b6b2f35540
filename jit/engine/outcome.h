// What launches and prepared launches ask alike.
#pragma once
#include "jit/engine/engine.h"

namespace tegula {

/// What a run of a program comes to for its host.
Status status_of(const RunResult& result);
/// Reports the first tensor that lies in device memory; false: there is one.
/// What messages call argument `i` of a launch; behind the parameters is memory that only addresses lead to.
std::string argument_name(const ir::Function& fn, size_t i);
bool reachable_by_host(const ReadyLaunch& launch, const LaunchOptions& options, Span at, DiagSink& diags);

}  // namespace tegula
