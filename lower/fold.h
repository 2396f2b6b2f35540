// The rules of constant folding, apart from the walk (fold.cpp): each answers what a single instruction amounts to.
#pragma once
#include <optional>
#include <vector>

#include "lang/ir.h"

namespace tegula {

/// A constant tile: one code for all elements, or one per element in row-major order.
struct ConstantTile {
    std::vector<uint64_t> codes;
};
/// The constant that a value is, when its producer is `constant` or `constant_tile`.
std::optional<ConstantTile> constant_of(const ir::Function& fn, ir::ValueId v);

/// The constant that the instruction's only result equals, when all that matters of its operands is constant.
std::optional<ConstantTile> evaluate(const ir::Function& fn, const ir::Inst& inst);
/// The operand (or other existing value) that the instruction's only result equals, bit for bit (NaN payloads aside); invalid when none.
ir::ValueId identity(const ir::Function& fn, const ir::Inst& inst);
/// Is a float of the program nowhere above zero, NaN aside, whatever the inputs are?
bool is_nonpositive(const ir::Function& fn, ir::ValueId v);

}  // namespace tegula
