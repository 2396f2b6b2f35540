// BoundLaunch: a launch with everything decided. launch() is the hot path.
#include <cstring>

#include "jit/cuda/program.h"
#include "lang/launch_value.h"

namespace tegula::cuda {

namespace {

constexpr uint64_t kGridLimit = 0x7fffffff;                ///< CTAs of one launch
constexpr uint64_t kWorkspaceBytes = uint64_t{256} << 20;  ///< of global scratch at once; a larger need is met in pieces

uint64_t rounded(uint64_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace

uint64_t BoundLaunch::split_of(const Variant& variant, std::span<const Argument> args, std::span<const uint64_t, 3> grid) {
    const KernelText& text = variant.text;
    if (!text.split_count.valid()) return static_cast<uint64_t>(text.split);
    const ir::Function& fn = *variant.fn;
    ScalarValues values(fn, [&](ir::ValueId v) -> std::optional<uint64_t> {
        const auto scalar = launch_scalar(fn, v);
        if (!scalar) return std::nullopt;
        const auto dim = static_cast<size_t>(scalar->dim);
        if (scalar->kind == LaunchScalar::programs) return grid[dim];
        if (scalar->kind == LaunchScalar::extent) return static_cast<uint64_t>(args[scalar->param].t.extents[dim]);
        return extend_code(fn.elem(v), args[scalar->param].code);
    });
    const auto count = values.code(text.split_count);
    TEGULA_CHECK(count && static_cast<int64_t>(*count) > 0, "a number of stretches that no launch knows");
    return *count;
}

BoundLaunch::~BoundLaunch() {
    if (!driver_) return;
    ContextScope scope(*driver_, setup_.context);
    CaptureScope capture(*driver_);
    workspace_.free();
    report_.free();
}

std::string BoundLaunch::bind(Setup setup, std::span<const Argument> args, const Addresses& addresses, std::span<const uint64_t, 3> grid) {
    setup_ = std::move(setup);
    driver_ = &setup_.variant->loaded->driver;
    const KernelText& text = setup_.variant->text;
    std::copy(grid.begin(), grid.end(), grid_);
    if (std::string error = bind_function(); !error.empty()) return error;
    split_ = split_of(*setup_.variant, args, grid);
    if (std::string error = bind_grid(); !error.empty()) return error;
    if (std::string error = bind_memory(); !error.empty()) return error;
    values_.resize(text.params.size());
    maps_.resize(text.tensor_maps.size());
    for (size_t i = 0; i < maps_.size(); ++i)
        if (std::string error = bind_map(text.tensor_maps[i], args, addresses, maps_[i]); !error.empty()) return error;
    for (size_t i = 0; i < text.params.size(); ++i) {
        const KernelParam& param = text.params[i];
        bind_value(param, args, addresses, values_[i]);
        if (param.kind == KernelParam::tensor_map)
            pointers_.push_back(&maps_.at(static_cast<size_t>(param.dim)));
        else
            pointers_.push_back(&values_[i]);
    }
    for (size_t i = 0; i < args.size() && has_report(); ++i)
        if (args[i].kind != Argument::scalar) ranges_.push_back({addresses[i], args[i].t.bytes, static_cast<int>(i)});
    return {};
}

std::string BoundLaunch::bind_function() {
    CaptureScope capture(*driver_);
    CUresult code = driver_->cuKernelGetFunction(&function_, setup_.variant->loaded->kernel);
    const KernelText& text = setup_.variant->text;
    constexpr int64_t kDefaultShared = 48 << 10;
    if (code == kCudaSuccess && text.shared_bytes > kDefaultShared)
        code = driver_->cuFuncSetAttribute(function_, kMaxDynamicSharedBytes, static_cast<int>(text.shared_bytes));
    config_ = {};
    config_.gridDimY = config_.gridDimZ = config_.blockDimY = config_.blockDimZ = 1;
    config_.blockDimX = static_cast<unsigned>(text.threads);
    config_.sharedMemBytes = static_cast<unsigned>(text.shared_bytes);
    if (text.cluster > 1) {
        const unsigned size[3] = {static_cast<unsigned>(text.cluster), 1, 1};
        attribute_.id = kClusterDimension;
        std::memcpy(attribute_.value, size, sizeof size);
    } else if (text.together) {
        const int yes = 1;
        attribute_.id = kCooperative;
        std::memcpy(attribute_.value, &yes, sizeof yes);
    }
    if (text.cluster > 1 || text.together) {
        config_.attrs = &attribute_;
        config_.numAttrs = 1;
    }
    return driver_->error("cuKernelGetFunction", code);
}

/// How many CTAs, and in which pieces. A persistent kernel gets as many as the device holds at once.
std::string BoundLaunch::bind_grid() {
    const KernelText& text = setup_.variant->text;
    const uint64_t together = split_ * static_cast<uint64_t>(text.cluster), programs = grid_[0] * grid_[1] * grid_[2];
    if (programs > INT64_MAX / split_)
        return "the " + std::to_string(programs) + " programs of the grid with the " + std::to_string(split_) +
               " stretches of their split sum each are more than 2^63";
    total_ = programs * split_;
    TEGULA_CHECK(total_ % together == 0, "a grid that is not made of whole clusters");
    piece_ = std::min(total_, kGridLimit / together * together);
    const uint64_t bytes = static_cast<uint64_t>(text.workspace_bytes) + (split_ > 1 ? static_cast<uint64_t>(text.sum_bytes) : 0);
    if (bytes > 0 && !text.together) piece_ = std::min(piece_, std::max<uint64_t>(kWorkspaceBytes / bytes / together, 1) * together);
    if (text.persistent || text.together) {
        int resident = 0;
        const CUresult code = driver_->cuOccupancyMaxActiveBlocks(&resident, function_, text.threads, static_cast<size_t>(text.shared_bytes));
        if (code != kCudaSuccess) return driver_->error("cuOccupancyMaxActiveBlocksPerMultiprocessor", code);
        const auto sms = static_cast<uint64_t>(driver_->device(setup_.device)->sms), held = static_cast<uint64_t>(std::max(resident, 1)) * sms;
        if (text.together && total_ > held) {
            most_ = held;
            return "the " + std::to_string(total_) + " programs of a cooperative kernel must run at the same time, and this GPU runs at most " +
                   std::to_string(held) + " of it, " + std::to_string(resident) + " on each of " + std::to_string(sms) + " multiprocessors";
        }
        total_ = piece_ = std::min(piece_, held);
    }
    config_.gridDimX = static_cast<unsigned>(piece_);
    return {};
}

std::string BoundLaunch::bind_memory() {
    const KernelText& text = setup_.variant->text;
    CaptureScope capture(*driver_);
    CUresult code = kCudaSuccess;
    const bool several = split_ > 1;
    const uint64_t scratch = rounded(piece_ * static_cast<uint64_t>(text.workspace_bytes)),
                   sums = several ? rounded(piece_ * static_cast<uint64_t>(text.sum_bytes)) : 0, arrivals = several ? piece_ * sizeof(uint32_t) : 0;
    const uint64_t meeting = static_cast<uint64_t>(text.meeting_words) * sizeof(uint32_t);
    if (const uint64_t bytes = scratch + sums + arrivals + meeting; bytes > 0) {
        code = workspace_.allocate(*driver_, bytes, setup_.pool, setup_.stream);
        if (code != kCudaSuccess) return driver_->error("cuMemAlloc", code) + describe_memory(bytes);
    }
    if (several) {
        sums_ = workspace_.address() + scratch;
        arrivals_ = sums_ + sums;
        code = driver_->cuMemsetD8Async(arrivals_, 0, arrivals, setup_.stream);
        if (code == kCudaSuccess && !setup_.pool) code = driver_->cuStreamSynchronize(setup_.stream);
    }
    if (code == kCudaSuccess && meeting > 0) {
        meeting_ = workspace_.address() + scratch + sums + arrivals;
        code = driver_->cuMemsetD8Async(meeting_, 0, meeting, setup_.stream);
        if (code == kCudaSuccess && !setup_.pool) code = driver_->cuStreamSynchronize(setup_.stream);
    }
    bool reports = false;
    for (const KernelParam& p : text.params) reports = reports || p.kind == KernelParam::report;
    if (code == kCudaSuccess && reports && setup_.listen) {
        code = report_.allocate(*driver_, kReportWords * 8, setup_.pool, setup_.stream);
        if (code == kCudaSuccess) code = reset_report(setup_.stream, kReportWords);
    }
    return driver_->error("cuMemAlloc", code);
}

/// What a workspace that could not be had was for.
std::string BoundLaunch::describe_memory(uint64_t bytes) const {
    std::string out = ": " + std::to_string(bytes) + " bytes of workspace for " + std::to_string(piece_ / split_) + " programs at once";
    if (split_ > 1)
        out += ", each of them with " + std::to_string(split_) + " stretches of " + std::to_string(setup_.variant->text.sum_bytes) +
               " bytes; longer stretches or smaller tiles take less";
    return out;
}

/// Makes the buffer empty. `used` words are cleared: behind the last record that fitted a reader must find zeros, not an older launch's records.
CUresult BoundLaunch::reset_report(CUstream stream, uint64_t used) const {
    static constexpr uint64_t kHead[kReportHeader] = {kReportHeader, kReportWords};
    CUresult code = driver_->cuMemsetD8Async(report_.address(), 0, used * 8, stream);
    if (code == kCudaSuccess) code = driver_->cuMemcpyHtoDAsync(report_.address(), kHead, sizeof kHead, stream);
    if (code == kCudaSuccess && !setup_.pool) code = driver_->cuStreamSynchronize(stream);  // a prepared launch may use any stream next
    return code;
}

int BoundLaunch::launch(void* stream) const {
    CUcontext current = nullptr;
    if (driver_->cuCtxGetCurrent(&current) != kCudaSuccess || current != setup_.context) {
        ContextScope scope(*driver_, setup_.context);
        return scope.code() != kCudaSuccess ? scope.code() : launch_all(static_cast<CUstream>(stream), nullptr);
    }
    if (piece_ != total_ || total_ == 0) return launch_all(static_cast<CUstream>(stream), nullptr);
    return launch_bare(static_cast<CUstream>(stream));
}

int BoundLaunch::launch_all(CUstream stream, const std::atomic<bool>* cancel) const {
    std::vector<void*> pointers = pointers_;
    uint64_t first = 0;
    for (size_t i = 0; i < pointers.size(); ++i)
        if (setup_.variant->text.params[i].kind == KernelParam::first) pointers[i] = &first;
    CUlaunchConfig config = config_;
    config.hStream = stream;
    for (; first < total_; first += piece_) {
        if (cancel && cancel->load(std::memory_order_relaxed)) break;
        config.gridDimX = static_cast<unsigned>(std::min(piece_, total_ - first));
        const CUresult code = driver_->cuLaunchKernelEx(&config, function_, pointers.data(), nullptr);
        if (code != kCudaSuccess) return code;
    }
    return kCudaSuccess;
}

RunResult BoundLaunch::collect(void* stream, const RunOptions& options) const {
    RunResult result;
    const auto failed = [&](const std::string& why) {
        DiagSink sink(1);
        result.status = RunResult::failed;
        result.diagnostics.push_back(sink.report(Diag::device_error, {}, {why}));
        return result;
    };
    ContextScope scope(*driver_, setup_.context);
    if (scope.code() != kCudaSuccess) return failed(driver_->error("cuCtxPushCurrent", scope.code()));
    const CUstream s = static_cast<CUstream>(stream);
    int capturing = 0;
    CUresult code = driver_->cuStreamIsCapturing(s, &capturing);
    if (code != kCudaSuccess) return failed(driver_->error("cuStreamIsCapturing", code));
    if (capturing) return failed("the stream is being captured: collect after the graph has run");
    std::vector<uint64_t> words(kReportHeader);
    if (has_report()) code = driver_->cuMemcpyDtoHAsync(words.data(), report_.address(), kReportHeader * 8, s);
    if (code == kCudaSuccess) code = driver_->cuStreamSynchronize(s);
    if (code != kCudaSuccess) return failed(driver_->error("cuStreamSynchronize", code));
    if (!has_report() || words[0] == kReportHeader) return result;
    words.resize(std::min(words[0], kReportWords));
    code = driver_->cuMemcpyDtoHAsync(words.data(), report_.address(), words.size() * 8, s);
    if (code == kCudaSuccess) code = driver_->cuStreamSynchronize(s);
    if (code != kCudaSuccess) return failed(driver_->error("cuMemcpyDtoHAsync", code));
    code = reset_report(s, words.size());
    if (code != kCudaSuccess) return failed(driver_->error("cuMemsetD8Async", code));
    read_report(*setup_.variant->fn, words, std::span<const uint64_t, 3>(grid_), ranges_, options, result);
    return result;
}

}  // namespace tegula::cuda
