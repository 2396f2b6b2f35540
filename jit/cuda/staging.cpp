// Copies of host tensors on the device for the length of one run.
#include <algorithm>
#include <cstring>
#include <iterator>

#include "jit/cuda/program.h"
#include "lang/check.h"

namespace tegula::cuda {

namespace {

constexpr unsigned kLargestAlignment = 8;  ///< of elements

uint64_t begin_of(const Argument& a) { return reinterpret_cast<uint64_t>(a.t.data); }

bool is_staged(const Argument& a) { return a.kind != Argument::scalar && a.t.memory == Memory::host && a.t.data && a.t.bytes > 0; }

bool overlap(const Argument& a, const Argument& b) { return begin_of(a) < begin_of(b) + b.t.bytes && begin_of(b) < begin_of(a) + a.t.bytes; }

/// `params`, taken apart into those that overlap with one another, directly or through others. `written`: where given, overlaps of two that are only
/// read do not count.
std::vector<std::vector<size_t>> overlapping(std::span<const Argument> args, std::vector<size_t> params, const std::vector<bool>* written) {
    std::vector<std::vector<size_t>> out;
    while (!params.empty()) {
        std::vector<size_t>& group = out.emplace_back(1, params[0]);
        params.erase(params.begin());
        for (size_t k = 0; k < group.size(); ++k) {
            const size_t i = group[k];
            const auto joins = [&](size_t j) { return overlap(args[i], args[j]) && (!written || (*written)[i] || (*written)[j]); };
            std::copy_if(params.begin(), params.end(), std::back_inserter(group), joins);
            std::erase_if(params, joins);
        }
    }
    return out;
}

/// Two of `params` whose elements are at multiples of their sizes in no copy of both. Alignments are powers of two: where each two can be aligned,
/// all can.
Staging::Conflict conflict_in(std::span<const Argument> args, const ParamFacts& facts, const std::vector<size_t>& params) {
    for (size_t i : params)
        for (size_t j : params)
            if (begin_of(args[i]) <= begin_of(args[j]) &&
                (begin_of(args[j]) - begin_of(args[i])) % std::min(facts.alignment[i], facts.alignment[j]) != 0)
                return {i, j};
    TEGULA_CHECK(false, "tensors that could be aligned were not");
}

}  // namespace

/// One copy for all of `params`; false when their elements cannot be aligned in one.
bool Staging::place(std::span<const Argument> args, const ParamFacts& facts, const std::vector<size_t>& params) {
    HostRange range{begin_of(args[params[0]]), 0, 0, {}, 0};
    for (size_t i : params) {
        range.begin = std::min(range.begin, begin_of(args[i]));
        range.end = std::max(range.end, begin_of(args[i]) + args[i].t.bytes);
    }
    const auto aligned = [&](size_t i) { return (begin_of(args[i]) - range.begin + range.shift) % facts.alignment[i] == 0; };
    while (range.shift < kLargestAlignment && !std::all_of(params.begin(), params.end(), aligned)) ++range.shift;
    if (range.shift == kLargestAlignment) return false;
    // Until they are allocated, ranges lie at made-up places that do not overlap: alignment and aliasing can be read off the addresses.
    const CUdeviceptr next =
        ranges_.empty() ? CUdeviceptr{1} << 62 : (ranges_.back().base + (ranges_.back().end - ranges_.back().begin) + 511) & ~CUdeviceptr{255};
    range.base = next + range.shift;
    for (size_t i : params) range_of_[i] = static_cast<int>(ranges_.size());
    ranges_.push_back(std::move(range));
    return true;
}

std::optional<Staging::Conflict> Staging::plan(std::span<const Argument> args, const ParamFacts& facts) {
    range_of_.assign(args.size(), -1);
    std::vector<size_t> staged;
    for (size_t i = 0; i < args.size(); ++i)
        if (is_staged(args[i])) staged.push_back(i);
    for (const std::vector<size_t>& all : overlapping(args, staged, nullptr)) {
        if (place(args, facts, all)) continue;
        for (const std::vector<size_t>& some : overlapping(args, all, &facts.written))
            if (!place(args, facts, some)) return conflict_in(args, facts, some);
    }
    return std::nullopt;
}

CUresult Staging::upload() {
    for (HostRange& r : ranges_) {
        const size_t bytes = r.end - r.begin, end = r.shift + bytes;
        const size_t whole = (end + 15) & ~size_t{15};  // elements narrower than a byte are written by words
        CUresult code = r.copy.allocate(driver_, whole, pool_, stream_);
        if (code == kCudaSuccess && whole > end) code = driver_.cuMemsetD8Async(r.copy.address() + end, 0, whole - end, stream_);
        if (code == kCudaSuccess && r.shift > 0) code = driver_.cuMemsetD8Async(r.copy.address(), 0, r.shift, stream_);
        r.base = r.copy.address() + r.shift;
        if (code == kCudaSuccess) code = driver_.cuMemcpyHtoDAsync(r.base, reinterpret_cast<const void*>(r.begin), bytes, stream_);
        if (code != kCudaSuccess) return code;
    }
    return kCudaSuccess;
}

uint64_t Staging::translated(uint64_t address) const {
    const auto holds = [&](const HostRange& r, uint64_t end) { return address >= r.begin && address < end; };
    auto range = std::find_if(ranges_.begin(), ranges_.end(), [&](const HostRange& r) { return holds(r, r.end); });
    if (range == ranges_.end())  // right behind the end
        range = std::find_if(ranges_.begin(), ranges_.end(), [&](const HostRange& r) { return holds(r, r.end + 1); });
    return range == ranges_.end() ? address : range->base + (address - range->begin);
}

CUresult Staging::translate(std::span<const Argument> args, size_t i, std::vector<uint64_t>& kept) const {
    if (range_of_[i] < 0) return kCudaSuccess;
    kept.resize(args[i].t.bytes / sizeof(uint64_t));
    std::memcpy(kept.data(), args[i].t.data, kept.size() * sizeof(uint64_t));
    for (uint64_t& address : kept) address = translated(address);
    return driver_.cuMemcpyHtoDAsync(address(args, i), kept.data(), kept.size() * sizeof(uint64_t), stream_);
}

CUdeviceptr Staging::address(std::span<const Argument> args, size_t i) const {
    if (args[i].kind == Argument::scalar) return 0;
    if (args[i].t.memory != Memory::host) return begin_of(args[i]);
    const int range = range_of_[i];
    return range < 0 ? 0 : ranges_[static_cast<size_t>(range)].base + (begin_of(args[i]) - ranges_[static_cast<size_t>(range)].begin);
}

CUresult Staging::download(std::span<const Argument> args, const std::vector<bool>& written) const {
    for (size_t i = 0; i < args.size(); ++i) {
        if (!written[i] || range_of_[i] < 0) continue;
        const CUresult code = driver_.cuMemcpyDtoHAsync(args[i].t.data, address(args, i), args[i].t.bytes, stream_);
        if (code != kCudaSuccess) return code;
    }
    return kCudaSuccess;
}

}  // namespace tegula::cuda
