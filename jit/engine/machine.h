// Machines beside the interpreter. The engine owns one per kind, asks whether it is there when somebody wants it, and hands it kernel instances;
// tests put stand-ins here.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "jit/cache/cache.h"
#include "jit/cpu/pool.h"
#include "jit/interp/interp.h"
#include "lang/log.h"
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
    /// Is there hardware for it? Cheap where there is none; true does not promise that nothing is missing.
    virtual bool present() { return missing().empty(); }
    /// Runs the form that the GPU passes make, with its sums, and reaches device memory (arch, form_options). Else tile IR as it is, bit for bit as the
    /// interpreter, in host memory.
    virtual bool is_gpu() const { return true; }
    /// What it compiles for where tensors lie on `device` (-1: none of them in device memory) and `stream` (RunOptions::stream) belongs; of GPUs
    /// only, like form_options.
    virtual const Arch& arch(int /*device*/, void* /*stream*/) { throw InternalError(name() + " has no architecture"); }
    /// The processor or GPU that runs there, as its maker calls it, with what else its speed depends on; for the file of measured choices.
    virtual std::string hardware(int /*device*/, void* /*stream*/) { return {}; }
    /// `instance` has been through run_passes and outlives the program. Nothing is compiled before the first run needs it.
    virtual std::unique_ptr<Program> prepare(const sema::Instance& instance, const std::vector<std::string>& disabled_passes) = 0;
    /// A launch of a program of this machine with fixed arguments, for streams of the same context as `stream`; null with a reason. Warnings about
    /// what was compiled go into `diags`. Throws Cancelled.
    virtual std::unique_ptr<PreparedLaunch> prepare_launch(const Program&, std::span<const Argument> /*args*/, std::span<const uint64_t, 3> /*grid*/,
                                                           void* /*stream*/, const std::atomic<bool>* /*cancel*/, DiagSink& /*diags*/,
                                                           std::string& error) {
        return error = "launches are prepared for a GPU only", nullptr;
    }
    /// Text or binary of an instance, for a GPU for any architecture and also where the machine itself is missing: "cuda", "ptx", "cubin",
    /// "resources"; for the CPU (`arch` null) "llvm", "llvm-opt", "llvm-lines", "asm", "asm-lines". nullopt (reported) when it cannot be
    /// made; may throw Cancelled.
    virtual std::optional<std::string> artifact(const sema::Instance& instance, const std::vector<std::string>& disabled_passes,
                                                std::string_view kind, const Arch* arch, const std::atomic<bool>* cancel, DiagSink& diags) = 0;
    /// Of a machine that is no GPU: what becomes of an instance; nullopt (reported) when it has no compiler.
    virtual std::optional<std::vector<explain::Note>> explain(const sema::Instance&, DiagSink&) { return std::nullopt; }
    /// The options of the passes under which the form was or will be compiled that a launch of `program` with these arguments on `stream` runs.
    virtual GpuOptions form_options(const sema::Instance&, const std::vector<std::string>& /*disabled_passes*/, const Program&,
                                    std::span<const Argument> /*args*/, void* /*stream*/) {
        throw InternalError(name() + " runs no GPU form");
    }
    /// What the host should hear about the machine, once; empty: nothing (any more).
    virtual std::string take_warning() { return {}; }
    /// For `doctor`: a JSON object with name, available, doc, and what was found and looked for.
    virtual std::string describe() = 0;
};

/// Reports what the machine has to say (take_warning).
void report_warning(Machine& machine, DiagSink& diags);
/// After the shared passes: sets `instance.plain` where the function has instructions of the program.
void keep_plain(sema::Instance& instance);

/// The options of the GPU passes for an instance, without facts about tensors.
GpuOptions gpu_options(const sema::Instance& instance, const Arch& arch, const std::vector<std::string>& disabled_passes);
/// The same for the variant that artefacts show: every tensor's base aligned and none overlapping; rows of whole 16 bytes unless their extent is known.
GpuOptions usual_options(const sema::Instance& instance, const Arch& arch, const std::vector<std::string>& disabled_passes);
/// Numbers of the extent parameters whose values a GPU kernel may be compiled for: those that `where` bounds by a constant, in kernels without
/// products. Such are the widths of rows that a tile holds: with the width known no element is tested, and none beyond the row is computed.
std::vector<size_t> row_extents(const sema::Instance& instance);
/// Tells the passes the value of an extent.
void fix_extent(GpuOptions& options, const sema::Instance& instance, size_t param, int64_t value);
/// The instance's function with views of its pointers (lower/gpu/views.h); null where it has none. Options whose `tensors` go on behind its
/// parameters have facts of them.
std::shared_ptr<const ir::Function> views_of(const sema::Instance& instance, const std::vector<std::string>& disabled_passes);
/// A copy of the instance's function taken through the passes for the extents that `options` fix, and through the GPU passes.
ir::Function lowered_for_gpu(const sema::Instance& instance, const GpuOptions& options);

/// The interpreter with the sums of the tensor cores that a kernel's form uses.
struct TensorCoreModel {
    std::unique_ptr<ir::Function> fn;
    std::unique_ptr<interp::Program> program;
};
/// `fn` is the kernel of `options` before the GPU passes, or an expression; then `kernel` is its form as a kernel. The rows are those of the final
/// form: when the passes had to give up an instruction whose sums differ, the model does too.
TensorCoreModel model_of(const ir::Function& fn, const ir::Function& kernel, const GpuOptions& options);

/// What machines get of their engine.
struct MachineContext {
    const SourceMap& sources;
    CacheOptions cache;  ///< of compiled code
    Log log;             ///< what is compiled, and what goes wrong beside it
};
/// NVIDIA GPUs through NVRTC and the driver (machine_cuda.cpp).
std::unique_ptr<Machine> make_cuda_machine(const MachineContext& context);
/// The host's processor through LLVM, on the threads of a pool (machine_cpu.cpp). Missing where the library was built without LLVM.
/// `debug`: kernels are shown to gdb and perf, with the lines of their sources; so they are too where TEGULA_CPU_DEBUG is set to anything but 0.
/// TEGULA_CPU names what code is made for where that is less than the host; another name makes the machine missing.
std::unique_ptr<Machine> make_cpu_machine(const MachineContext& context, cpu::PoolOptions pool, bool debug);

}  // namespace tegula
