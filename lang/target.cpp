// The rows of targets.def as tables.
#include "lang/target.h"

#include <algorithm>

namespace tegula {

namespace {

constexpr Arch kArchs[] = {
#define ARCH(...) {__VA_ARGS__},
#include "lang/targets.def"
};

constexpr MmaRow kMmaRows[] = {
#define MMA(kind, name, a, b, acc, ...) {MmaRow::kind, name, Fmt::a, Fmt::b, Fmt::acc, __VA_ARGS__},
#include "lang/targets.def"
};

}  // namespace

std::span<const Arch> all_archs() { return kArchs; }

const Arch* find_arch(std::string_view name) {
    std::string_view digits = name;
    if (digits.starts_with("sm_")) digits.remove_prefix(3);
    if (digits.ends_with('a')) digits.remove_suffix(1);
    for (const Arch& arch : kArchs)
        if (arch.is_ptx() ? name == arch.name : digits == std::to_string(arch.number)) return &arch;
    return nullptr;
}

const Arch* arch_for(int major, int minor, int shared_bytes, std::span<const int> known) {
    const int number = major * 10 + minor;
    const Arch* best = nullptr;
    for (const Arch& row : kArchs) {
        if (!known.empty() && std::find(known.begin(), known.end(), row.number) == known.end()) continue;
        if (!row.is_ptx() && row.number == number) return &row;
        if (row.is_ptx() && row.number <= number && row.shared_bytes <= shared_bytes && (!best || row.number > best->number)) best = &row;
    }
    return best;
}

std::span<const MmaRow> mma_rows() { return kMmaRows; }

bool has_row(const Arch& arch, const MmaRow& row) {
    if ((row.kind == MmaRow::wgmma && !arch.wgmma) || (row.kind == MmaRow::tcgen05 && !arch.tcgen05)) return false;
    return arch.number >= row.min_arch && arch.number <= row.max_arch;
}

}  // namespace tegula
