// Machines beside the interpreter. The engine owns one per kind, asks whether it is there when somebody wants it, and hands it kernel instances;
// tests put stand-ins here.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "lang/program.h"
#include "lang/target.h"
#include "lower/gpu/gpu.h"
#include "sema/sema.h"

namespace tegula {

class Machine {
public:
    virtual ~Machine() = default;
    virtual std::string name() const = 0;
    /// Empty when the machine can run kernels here; else what it needs and where that was looked for. Slow the first time.
    virtual std::string missing() = 0;
    /// What it compiles for.
    virtual const Arch& arch() = 0;
    /// `instance` has been through run_passes and outlives the program. Nothing is compiled before the first run needs it.
    virtual std::unique_ptr<Program> prepare(const sema::Instance& instance, const std::vector<std::string>& disabled_passes) = 0;
    /// A launch of a program of this machine with fixed arguments; null with a reason.
    virtual std::unique_ptr<PreparedLaunch> prepare_launch(const Program& program, std::span<const Argument> args,
                                                           std::span<const uint64_t, 3> grid, std::string& error) = 0;
    /// Text or binary of an instance for any architecture, also where the machine itself is missing: "cuda", "ptx", "cubin". nullopt (reported) when it
    /// cannot be made.
    virtual std::optional<std::string> artifact(const sema::Instance& instance, const std::vector<std::string>& disabled_passes, std::string_view kind,
                                                const Arch& arch, DiagSink& diags) = 0;
    /// For `doctor`: a JSON object with name, available, doc, and what was found and looked for.
    virtual std::string describe() = 0;
};

/// The options of the GPU passes for an instance, without facts about tensors.
GpuOptions gpu_options(const sema::Instance& instance, const Arch& arch, const std::vector<std::string>& disabled_passes);
/// A copy of the instance's function taken through the GPU passes.
ir::Function lowered_for_gpu(const sema::Instance& instance, const GpuOptions& options);

/// NVIDIA GPUs through NVRTC and the driver (machine_cuda.cpp).
std::unique_ptr<Machine> make_cuda_machine(const SourceMap& sources);

}  // namespace tegula
