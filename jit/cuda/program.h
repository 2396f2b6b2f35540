// The insides of a cuda::Program: its variants (text, image, loaded kernel), the arguments of a launch as the driver takes them, and copies of host
// tensors on the device.
#pragma once
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "jit/cuda/report.h"
#include "jit/cuda/state.h"

namespace tegula::cuda {

std::unique_ptr<Program> make_program(std::shared_ptr<Backend::State> state, const ir::Function& fn, Lower lower,
                                      std::vector<size_t> row_extents, Spread spread, std::shared_ptr<const ir::Function> views);

/// What is known of a kernel's parameters without looking at arguments.
struct ParamFacts {
    std::vector<bool> written;  ///< by parameter: tensors written by mode or through their address, pointers when anything is stored through one
    std::vector<unsigned> alignment;  ///< by parameter: of the first element (element_alignment); 1 for scalars
    std::vector<size_t> tables;       ///< tensors that hold addresses
    std::vector<size_t> addresses;    ///< numbers that are addresses
    bool writes_anywhere = false;     ///< stores through pointers that were made from addresses
    Reports reports;
};
ParamFacts find_param_facts(const ir::Function& fn);

/// Where parameter `i` lies in the launch's address space; 0 for scalars.
using Addresses = std::vector<CUdeviceptr>;

/// The trait of one tensor at `address`.
GpuTensor tensor_trait(const ir::Function& fn, size_t param, const TensorArg& tensor, uint64_t address);
/// Does a written parameter share memory with another one?
bool find_alias(const ParamFacts& facts, std::span<const Argument> args, const Addresses& addresses);

/// A loaded image. The library is independent of contexts; functions are looked up per context.
struct Loaded {
    const Driver& driver;
    CUlibrary library = nullptr;
    CUkernel kernel = nullptr;
    explicit Loaded(const Driver& d) : driver(d) {}
    ~Loaded();
    Loaded(const Loaded&) = delete;
    Loaded& operator=(const Loaded&) = delete;
};

/// One compiled form of the kernel, for an architecture and the traits of its tensors.
struct Variant {
    std::optional<ir::Function> fn;  ///< what the text was emitted from: its strings, types and positions serve the reports
    std::vector<GpuTensor> traits;
    KernelText text;
    std::unique_ptr<Loaded> loaded;
};

/// A launch's arguments in the driver's form. Immutable after `bind`.
class BoundLaunch final : public PreparedLaunch {
public:
    struct Setup {
        std::shared_ptr<Backend::State> state;
        std::shared_ptr<const Variant> variant;
        int device = 0;
        CUcontext context = nullptr;  ///< current while setting up
        CUstream stream = nullptr;
        CUmemoryPool pool = nullptr;  ///< of workspace and report; null: plain allocations
        bool listen = false;          ///< somebody reads the reports
    };
    ~BoundLaunch() override;
    /// Fills values, maps and pointers, allocates workspace and report buffer. The error text is empty on success.
    std::string bind(Setup setup, std::span<const Argument> args, const Addresses& addresses, std::span<const uint64_t, 3> grid);

    int launch(void* stream) const override;
    std::string error_text(int code) const override { return driver_->error("cuLaunchKernelEx", code); }
    RunResult collect(void* stream, const RunOptions& options) const override;
    int device() const override { return setup_.device; }
    /// The driver call that launch() ends in, and nothing else: what launch() is measured against.
    int launch_bare(CUstream stream) const {
        CUlaunchConfig config = config_;
        config.hStream = stream;
        return driver_->cuLaunchKernelEx(&config, function_, pointers_.data(), nullptr);
    }
    /// launch() in pieces, polling `cancel` between them.
    int launch_all(CUstream stream, const std::atomic<bool>* cancel) const;
    /// Where `bind` failed because the programs must run at the same time and are too many: how many may be; else 0.
    uint64_t most_programs() const { return most_; }
    bool has_report() const { return report_.address() != 0; }
    /// CTAs that a launch of the variant with these arguments has for each program of the grid.
    static uint64_t split_of(const Variant& variant, std::span<const Argument> args, std::span<const uint64_t, 3> grid);

private:
    void bind_value(const KernelParam& param, std::span<const Argument> args, const Addresses& addresses, uint64_t& value) const;
    std::string bind_map(const TensorMap& map, std::span<const Argument> args, const Addresses& addresses, CUtensorMap& out) const;
    std::string bind_memory();
    std::string describe_memory(uint64_t bytes) const;
    std::string bind_function();
    std::string bind_grid();
    CUresult reset_report(CUstream stream, uint64_t used) const;

    Setup setup_;
    const Driver* driver_ = nullptr;
    CUfunction function_ = nullptr;
    CUlaunchConfig config_{};
    CUlaunchAttribute attribute_{};  ///< config_ points to it when CTAs are launched in clusters, or all together
    uint64_t grid_[3] = {1, 1, 1};
    uint64_t split_ = 1;              ///< CTAs of a program of the grid
    uint64_t total_ = 0, piece_ = 0;  ///< CTAs in all, and per launch
    uint64_t most_ = 0;
    std::vector<uint64_t> values_;
    std::vector<CUtensorMap> maps_;
    mutable std::vector<void*> pointers_;  ///< mutable: the driver's interface takes void**, and writes nothing
    std::vector<PrintedRange> ranges_;     ///< where printed pointers may point to
    CUdeviceptr sums_ = 0, arrivals_ = 0;  ///< in the workspace; 0: no program has several CTAs
    CUdeviceptr meeting_ = 0;              ///< in the workspace; 0: the programs do not meet
    DeviceMemory workspace_, report_;
};

/// Copies of host tensors on the device for one run. Arguments that overlap share a copy, so that what aliases on the host aliases on the device;
/// where their elements cannot all be aligned there, those that are read only get copies of their own.
class Staging {
public:
    Staging(const Driver& driver, CUmemoryPool pool, CUstream stream) : driver_(driver), pool_(pool), stream_(stream) {}
    /// Two parameters that overlap, of which one is written, and whose elements no copy can have at multiples of their sizes.
    using Conflict = std::pair<size_t, size_t>;
    /// Finds the ranges of host memory among the arguments; offsets within a range are kept, so that alignment is known before anything is allocated.
    std::optional<Conflict> plan(std::span<const Argument> args, const ParamFacts& facts);
    bool empty() const { return ranges_.empty(); }
    /// Allocates and uploads every range.
    CUresult upload();
    /// Address of parameter `i` on the device, 0 for scalars; before upload(), an address with the same alignment.
    CUdeviceptr address(std::span<const Argument> args, size_t i) const;
    /// Of a staged array of addresses (after upload): those of host memory that is staged, too, become those of the copies. `kept` holds what is
    /// copied.
    CUresult translate(std::span<const Argument> args, size_t i, std::vector<uint64_t>& kept) const;
    /// The same of one address.
    uint64_t translated(uint64_t address) const;
    /// Copies what parameters with `written` hold back to the host (in stream order; the caller waits).
    CUresult download(std::span<const Argument> args, const std::vector<bool>& written) const;

private:
    struct HostRange {
        uint64_t begin, end;
        unsigned shift;  ///< of its first byte in the copy
        DeviceMemory copy;
        CUdeviceptr base;  ///< of its first byte
    };
    bool place(std::span<const Argument> args, const ParamFacts& facts, const std::vector<size_t>& params);

    const Driver& driver_;
    CUmemoryPool pool_;
    CUstream stream_;
    std::vector<HostRange> ranges_;
    std::vector<int> range_of_;  ///< by parameter; -1: not copied
};

}  // namespace tegula::cuda
