// What one scalar instruction of constants gives, when that is known before a run: the evaluation that constant folding and the clauses of a
// launch share.
#pragma once
#include <optional>
#include <span>

#include "lang/ir.h"

namespace tegula {

/// An integer quotient or remainder that checked mode reports.
enum class Undefined : uint8_t { no, by_zero, overflow };  ///< overflow: MIN / -1
Undefined undefined_quotient(ir::Op op, const Format& format, uint64_t dividend, uint64_t divisor);

/// The code of the result of an elementwise op, cast, bitcast or select of single elements with these codes; `from` is the format of the first
/// operand, `to` that of the result. Nothing where the instruction has to stay: hardware approximations, casts that trap or round stochastically,
/// quotients that checked mode reports, every other op.
std::optional<uint64_t> evaluate_scalar(ir::Op op, std::span<const int64_t> attrs, const Format& from, const Format& to,
                                        std::span<const uint64_t> codes);
/// The code of a single element that is a constant; nothing for tiles of a rank above 0, pointers and what is computed.
std::optional<uint64_t> scalar_constant(const ir::Function& fn, ir::ValueId v);

}  // namespace tegula
