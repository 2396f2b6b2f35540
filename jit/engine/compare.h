// Comparing a machine with the interpreter: the storage of a launch before and after, and what differs.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "jit/engine/tensor.h"
#include "lang/ir.h"

namespace tegula {

/// Must two machines that are both right give equal bits? Not with hardware approximations (`fast_*`), sums of floats by atomics, or old values
/// that atomics return: those depend on the order of programs.
bool same_bits_everywhere(const ir::Function& fn);

/// A copy of the storage behind the tensors and pointers of a launch.
class Snapshot {
public:
    explicit Snapshot(std::span<const Argument> values);
    void restore(std::span<const Argument> values) const;
    /// How argument `i` now differs from the copy, as the end of a sentence; empty when it is equal (NaN equals NaN). `copy_is_got`: the copy
    /// is what was computed and the argument what is expected, not the other way round.
    std::string difference(const TypeTable& types, std::span<const Argument> values, size_t i, bool copy_is_got = false) const;

private:
    std::vector<std::vector<uint8_t>> bytes_;
};

}  // namespace tegula
