// Copies of host tensors on the device for the length of one run.
#include <algorithm>

#include "jit/cuda/program.h"

namespace tegula::cuda {

void Staging::plan(std::span<const Argument> args) {
    std::vector<std::pair<uint64_t, uint64_t>> found;
    for (const Argument& a : args) {
        if (a.kind == Argument::scalar || a.t.memory != Memory::host || !a.t.data || a.t.bytes == 0) continue;
        const uint64_t begin = reinterpret_cast<uint64_t>(a.t.data);
        found.emplace_back(begin, begin + a.t.bytes);
    }
    std::sort(found.begin(), found.end());
    for (const auto& [begin, end] : found) {
        if (!ranges_.empty() && begin < ranges_.back().end)
            ranges_.back().end = std::max(ranges_.back().end, end);
        else
            ranges_.push_back({begin, end, {}, 0});
    }
    // Until they are allocated, ranges lie at made-up places that do not overlap: alignment and aliasing can be read off the addresses.
    CUdeviceptr next = CUdeviceptr{1} << 62;
    for (HostRange& r : ranges_) {
        r.base = next;
        next += (r.end - r.begin + 511) & ~CUdeviceptr{255};
    }
}

CUresult Staging::upload() {
    for (HostRange& r : ranges_) {
        const size_t bytes = r.end - r.begin, whole = (bytes + 15) & ~size_t{15};  // elements narrower than a byte are written by words
        CUresult code = r.copy.allocate(driver_, whole, pool_, stream_);
        if (code == kCudaSuccess && whole > bytes) code = driver_.cuMemsetD8Async(r.copy.address() + bytes, 0, whole - bytes, stream_);
        if (code == kCudaSuccess) code = driver_.cuMemcpyHtoDAsync(r.copy.address(), reinterpret_cast<const void*>(r.begin), bytes, stream_);
        if (code != kCudaSuccess) return code;
        r.base = r.copy.address();
    }
    return kCudaSuccess;
}

CUdeviceptr Staging::address(const TensorArg& tensor) const {
    const uint64_t at = reinterpret_cast<uint64_t>(tensor.data);
    if (tensor.memory != Memory::host) return at;
    for (const HostRange& r : ranges_)
        if (at >= r.begin && at < r.end) return r.base + (at - r.begin);
    return 0;
}

CUresult Staging::download(std::span<const Argument> args, const std::vector<bool>& written) const {
    for (size_t i = 0; i < args.size(); ++i) {
        const TensorArg& t = args[i].t;
        if (args[i].kind == Argument::scalar || !written[i] || t.memory != Memory::host || !address(t)) continue;
        const CUresult code = driver_.cuMemcpyDtoHAsync(t.data, address(t), t.bytes, stream_);
        if (code != kCudaSuccess) return code;
    }
    return kCudaSuccess;
}

}  // namespace tegula::cuda
