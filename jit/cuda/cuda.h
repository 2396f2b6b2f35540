// The CUDA back end's face for the engine. A Backend opens NVRTC and the driver when they are first needed; compiling works without a GPU. A
// Program holds one kernel instance and makes a variant (text, cubin, loaded kernel) for each combination of architecture and tensor traits that
// launches bring. Everything slow happens once: tegula::PreparedLaunch is what remains on the hot path.
#pragma once
#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lang/blob_cache.h"
#include "lang/cancel.h"
#include "lang/kernel/kernel_text.h"
#include "lang/log.h"
#include "lang/program.h"
#include "lang/target.h"

namespace tegula::cuda {

/// A machine with a GPU as seen from here.
struct DeviceInfo {
    int ordinal = 0;
    std::string name;
    int major = 0, minor = 0;  ///< compute capability
    int sms = 0;
    uint64_t memory = 0;         ///< bytes
    int shared_per_block = 0;    ///< bytes that one CTA may opt into
    std::string problem;         ///< why nothing is known of it; empty: something is
    const Arch* arch = nullptr;  ///< the row of targets.def that kernels are compiled for; null: no row fits
};

/// What is there and what was looked for: exit 4 messages, `doctor`, tegula_describe.
struct Availability {
    bool compiler = false;                         ///< NVRTC: kernels can be compiled
    bool device = false;                           ///< driver and at least one GPU with a known architecture: kernels can run
    std::string compiler_version, driver_version;  ///< "13.0"; empty when missing
    std::vector<DeviceInfo> devices;
    std::vector<std::string> looked_for;  ///< one line per thing: "libcuda.so.1: not found (cannot open shared object file ..)"
    /// One sentence: what is missing; empty when kernels can be compiled and run.
    std::string problem() const;
};

/// Registers and memory of a compiled kernel, as ptxas reports them.
struct Resources {
    int registers = 0;
    int64_t stack_bytes = 0, spill_stores = 0, spill_loads = 0, static_shared = 0;
};
struct CompiledKernel {
    std::string image;  ///< cubin, or PTX for rows that are PTX
    bool is_ptx = false;
    std::string entry;
    Resources resources;
    std::vector<std::string> remarks;   ///< warnings of ptxas, one line each: "C7510: Potential .."
    bool cached = false;                ///< came from the cache
    double seconds = 0;                 ///< spent in NVRTC
};
/// What the host should hear of `kernel`, compiled for `arch` from `form`: registers that are spilled, products that wait for one another, a compiler
/// known to be wrong, other remarks. The same whether the kernel was compiled now or cached.
std::vector<Diagnostic> warnings_of(const CompiledKernel& kernel, const ir::Function& form, const Arch& arch);

/// What launches of one variant of a kernel have in common.
struct LaunchTraits {
    std::vector<GpuTensor> tensors;  ///< by parameter, then by view (ir::PointerView) where the launch has them
    bool may_alias = true;           ///< tensors may overlap
    bool whole_clusters = true;      ///< the grid consists of whole clusters of the size that the kernel asks for
    bool spread = true;              ///< stretches of a split sum are CTAs of their own
    std::vector<std::pair<size_t, int64_t>> extents = {};  ///< numbers and values of the extent parameters that the variant is made for
};
/// A kernel for an architecture and a launch: the placed tile form, and its text.
struct Lowered {
    ir::Function form;
    KernelText text;
};
/// Given by the engine: a fresh copy of the instance after run_gpu_passes, lowered. Called from any thread; may throw InternalError, and Cancelled.
using Lower = std::function<Lowered(const Arch& arch, const LaunchTraits& traits, const std::atomic<bool>* cancel)>;

/// Given by the engine for kernels that can do both: should a launch run the stretches of its split sum by CTAs of their own, rather than one after the
/// other? A matter of speed.
using Spread = std::function<bool(const Arch& arch, std::span<const Argument> args, std::span<const uint64_t, 3> grid)>;

struct CompileOptions {
    bool line_info = false;
    bool use_cache = true;
    int optimise = 3;                           ///< ptxas -O level
    bool ptx = false;                           ///< PTX instead of a cubin, to be looked at (no resources are known then)
    const std::atomic<bool>* cancel = nullptr;  ///< ends the call by Cancelled
};
/// A result or why there is none (the world is wrong: no NVRTC, no GPU, out of memory). Our own faults are InternalError.
template <class T>
struct Result {
    std::optional<T> value;
    std::string error;
    std::vector<Diagnostic> warnings = {};  ///< about what was compiled for it
    explicit operator bool() const { return value.has_value(); }
    T& operator*() { return *value; }
    T* operator->() { return &*value; }
};

/// One kernel instance. run() takes tensors in host memory (copied to the GPU and back; waits) or device memory (enqueues on RunOptions::stream and
/// returns, unless the kernel reports asserts or prints). Thread-safe.
class Program : public tegula::Program {
public:
    /// Device arguments only. The tensors must stay where they are for as long as the launch is used, on any stream of the context that `stream`
    /// belongs to (null: the primary context of the tensors' device). Throws Cancelled when `cancel` is set.
    virtual Result<std::unique_ptr<PreparedLaunch>> prepare_launch(std::span<const Argument> args, std::span<const uint64_t, 3> grid, void* stream,
                                                                   const std::atomic<bool>* cancel = nullptr) const = 0;
    /// Traits that a launch with these arguments has: the key of its variant.
    virtual std::vector<GpuTensor> traits(std::span<const Argument> args, bool& may_alias) const = 0;
};

struct BackendOptions {
    std::shared_ptr<BlobCache> cache;  ///< null: none
    CompileOptions compile;
    std::string nvrtc_path;   ///< empty: $TEGULA_NVRTC, then the usual places
    std::string driver_path;  ///< empty: libcuda.so.1
    Log log = {};
};

/// The device that tensors of the arguments lie on; -1: none lies in device memory.
int device_of(std::span<const Argument> args);

class Backend {
public:
    explicit Backend(BackendOptions options);
    ~Backend();
    Backend(const Backend&) = delete;
    Backend& operator=(const Backend&) = delete;

    /// Opens what can be opened on the first call (or first need); later calls are cheap.
    const Availability& availability();
    /// Is there a GPU of a known architecture? Opens the driver only.
    bool has_device();
    /// Text -> cubin through the cache. Works without a GPU. NVRTC refusing the text is an InternalError with text and log; Cancelled.
    Result<CompiledKernel> compile_text(const KernelText& text, const Arch& arch, const CompileOptions& options);
    Result<CompiledKernel> compile_text(const KernelText& text, const Arch& arch);
    /// `fn` is the instance before the GPU passes (its types and parameters); it and what `lower` refers to outlive the program, which shares the back
    /// end's state. Nothing is compiled before the first launch. No GPU or no compiler: an error. The first few values of the extent parameters
    /// `row_extents` get variants of their own. `views`, unless null, is what `lower` starts with where traits go on behind the parameters.
    Result<std::unique_ptr<Program>> prepare(const ir::Function& fn, Lower lower, std::vector<size_t> row_extents = {},
                                             Spread spread = {}, std::shared_ptr<const ir::Function> views = {});
    /// What launches are compiled for whose tensors lie on `device` (-1: none in device memory) and whose stream is `stream`: those of devices that
    /// are none (their launches will say so) as for the first one. Null without a GPU.
    const DeviceInfo* device_at(int device, void* stream);

    struct State;  ///< shared with programs

private:
    std::shared_ptr<State> state_;
};

}  // namespace tegula::cuda
