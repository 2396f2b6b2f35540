// Which elementwise rows round otherwise than to nearest: DIRECTED in ops.def. Directed rounding composes - a result that is rounded to a format and
// then, the same way, to one within it is as if rounded once - so that every machine may compute these rows in a wider float.
#pragma once
#include "lang/ir.h"

namespace tegula::ir {

struct RoundedOp {
    Op op;        ///< the row that rounds to nearest
    Round round;  ///< rne for that row itself
};

namespace directed {
constexpr Op kBases[] = {Op::add, Op::sub, Op::mul, Op::div, Op::fma, Op::sqrt};
constexpr int kModes = 3;  // of each base, in this order
static_assert(static_cast<int>(Op::sqrt_rd) - static_cast<int>(Op::add_rtz) + 1 == static_cast<int>(std::size(kBases)) * kModes);
static_assert(static_cast<int>(Round::ru) == static_cast<int>(Round::rtz) + 1 && static_cast<int>(Round::rd) == static_cast<int>(Round::rtz) + 2);
}  // namespace directed

constexpr bool is_directed(Op op) { return op >= Op::add_rtz && op <= Op::sqrt_rd; }

/// What a row computes and how it rounds.
constexpr RoundedOp rounded_op(Op op) {
    if (!is_directed(op)) return {op, Round::rne};
    const int at = static_cast<int>(op) - static_cast<int>(Op::add_rtz);
    return {directed::kBases[at / directed::kModes], static_cast<Round>(static_cast<int>(Round::rtz) + at % directed::kModes)};
}

/// Has `op` rows that round otherwise?
constexpr bool has_directed(Op op) {
    for (const Op base : directed::kBases)
        if (base == op) return true;
    return false;
}

/// The row of `op` that rounds toward zero, up or down; `op` itself for rne. Only where has_directed(op).
constexpr Op in_mode(Op op, Round round) {
    for (int at = 0; at < static_cast<int>(std::size(directed::kBases)); ++at)
        if (directed::kBases[at] == op && round != Round::rne)
            return static_cast<Op>(static_cast<int>(Op::add_rtz) + at * directed::kModes + static_cast<int>(round) - static_cast<int>(Round::rtz));
    return op;
}

}  // namespace tegula::ir
