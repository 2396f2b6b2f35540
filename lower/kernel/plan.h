// What the optional passes of lowering have decided. Emission reads it.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lang/ir.h"

namespace tegula::lower {

enum class KernelPass : uint8_t {
#define KERNEL_PASS(name, ...) name,
#include "lower/kernel/passes.def"
#undef KERNEL_PASS
    count_
};
constexpr size_t kKernelPasses = static_cast<size_t>(KernelPass::count_);

class Plan {
public:
    explicit Plan(size_t values) {
        for (std::vector<bool>& of_pass : decided_) of_pass.assign(values, false);
    }
    bool runs(KernelPass pass) const { return !off_[static_cast<size_t>(pass)]; }
    void turn_off(KernelPass pass) { off_[static_cast<size_t>(pass)] = true; }
    bool has(KernelPass pass, ir::ValueId v) const { return decided_[static_cast<size_t>(pass)][v.v]; }
    void decide(KernelPass pass, ir::ValueId v, bool so = true) { decided_[static_cast<size_t>(pass)][v.v] = so; }

private:
    std::array<bool, kKernelPasses> off_{};
    std::array<std::vector<bool>, kKernelPasses> decided_;  ///< by ValueId
};

}  // namespace tegula::lower
