// Arithmetic on floats whose values f64 holds, but whose results f64 would round once too often: a sum, product, quotient or root in f64 may be a tie
// of the narrower format that the exact result is not. What these functions give is rounded to the format as the exact result is: to nearest with
// ties to even, or as a directed row says.
#pragma once
#include <algorithm>

#include "lang/directed.h"

namespace tegula {

/// The numbers of a float: `man_bits` behind the leading bit, and none below 2^(min_exponent - man_bits).
struct Grid {
    int man_bits, min_exponent;
    explicit Grid(const Format& f) : man_bits(f.man_bits), min_exponent((f.scale_only ? 0 : 1) - f.bias) {}
    Grid(int man, int min) : man_bits(man), min_exponent(min) {}
    int quantum() const { return min_exponent - man_bits; }
    /// f64's own numbers, so that its results are rounded already.
    bool is_double() const { return man_bits == 52 && quantum() == -1074; }
    /// Does a sum, difference, product, quotient or root in f64 round once more as if rounded once? A precision of p bits needs 2p + 2, and products
    /// must be exact wherever they do not round to zero.
    bool rounds_from_double() const { return man_bits < 25 && quantum() - 2 * (man_bits + 1) >= -1074; }
};

/// Would `op` in f64, rounded to the format, be rounded twice? Then it goes through `before_rounding`.
inline bool rounds_twice(ir::Op op, const Format& f) {
    using enum ir::Op;
    if (f.is_float() && (ir::is_directed(op) || (op == ir::Op::flush_subnormal && !Grid(f).is_double()))) return true;
    const bool arithmetic = op == add || op == sub || op == mul || op == div || op == sqrt || op == rem;
    return f.is_float() && !Grid(f).is_double() && (op == fma || (arithmetic && !Grid(f).rounds_from_double()));
}

/// The result of such an op on f64 values as an f64 that rounds to the grid as the exact result does, in the op's own mode. Where that leaves f64's
/// range it is an infinity, or f64's largest number where the mode is toward zero there.
double before_rounding(ir::Op op, double a, double b, double c, Grid grid);

}  // namespace tegula
