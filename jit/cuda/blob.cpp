// Compiled kernels as bytes for caches (state.h). Hostile bytes are no kernel.
#include <cstring>

#include "jit/cuda/state.h"

namespace tegula::cuda {

namespace {

constexpr std::string_view kBlobMagic = "tegula kernel 1\n";
constexpr size_t kMaxRemarks = 1000;

void put(std::string& out, uint64_t v) { out.append(reinterpret_cast<const char*>(&v), 8); }
void put(std::string& out, std::string_view text) {
    put(out, text.size());
    out += text;
}

/// Reads what `put` wrote; `ok` falls and stays down at the first thing that does not fit.
struct Reader {
    std::string_view rest;
    bool ok = true;
    uint64_t number() {
        uint64_t v = 0;
        if (rest.size() < 8) return ok = false, 0;
        std::memcpy(&v, rest.data(), 8);
        rest.remove_prefix(8);
        return v;
    }
    std::string text() {
        const uint64_t size = number();
        if (size > rest.size()) return ok = false, std::string();
        std::string out(rest.substr(0, size));
        rest.remove_prefix(size);
        return out;
    }
};

}  // namespace

std::string to_blob(const CompiledKernel& kernel) {
    std::string out(kBlobMagic);
    put(out, kernel.is_ptx);
    put(out, kernel.entry);
    const Resources& r = kernel.resources;
    put(out, static_cast<uint64_t>(r.registers));
    for (int64_t v : {r.stack_bytes, r.spill_stores, r.spill_loads, r.static_shared}) put(out, static_cast<uint64_t>(v));
    put(out, kernel.remarks.size());
    for (const std::string& line : kernel.remarks) put(out, line);
    put(out, kernel.image);
    return out;
}

std::optional<CompiledKernel> from_blob(std::string_view blob) {
    if (!blob.starts_with(kBlobMagic)) return std::nullopt;
    Reader in{blob.substr(kBlobMagic.size())};
    CompiledKernel kernel;
    kernel.is_ptx = in.number() != 0;
    kernel.entry = in.text();
    kernel.resources.registers = static_cast<int>(in.number());
    for (int64_t* v : {&kernel.resources.stack_bytes, &kernel.resources.spill_stores, &kernel.resources.spill_loads, &kernel.resources.static_shared})
        *v = static_cast<int64_t>(in.number());
    const uint64_t remarks = in.number();
    if (!in.ok || remarks > kMaxRemarks) return std::nullopt;
    for (uint64_t i = 0; i < remarks; ++i) kernel.remarks.push_back(in.text());
    kernel.image = in.text();
    kernel.cached = true;
    if (!in.ok || !in.rest.empty() || kernel.image.empty()) return std::nullopt;
    return kernel;
}

}  // namespace tegula::cuda
