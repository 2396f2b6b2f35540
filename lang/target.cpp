// The rows of targets.def as tables.
#include "lang/target.h"

namespace tegula {

namespace {

constexpr Arch kArchs[] = {
#define ARCH(...) {__VA_ARGS__},
#include "lang/targets.def"
};

constexpr MmaRow kRows[] = {
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
        if (digits == std::to_string(arch.number)) return &arch;
    return nullptr;
}

std::span<const MmaRow> mma_rows() { return kRows; }

}  // namespace tegula
