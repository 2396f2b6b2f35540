// Results of f64 operands, rounded once to a float's numbers (one_rounding.h): 128-bit integers hold what decides. Fused sums have a short path for
// products that are exact in double.
#include "lang/one_rounding.h"

#include <bit>
#include <cmath>
#include <limits>

#include "lang/check.h"

namespace tegula {

namespace {

__extension__ using Wide = unsigned __int128;

constexpr uint64_t kMantissa = (uint64_t{1} << 52) - 1;

unsigned exponent_field(double v) { return static_cast<unsigned>(std::bit_cast<uint64_t>(v) >> 52 & 0x7FF); }

int leading_zeros(Wide v) {
    uint64_t high = static_cast<uint64_t>(v >> 64);
    return high ? std::countl_zero(high) : 64 + std::countl_zero(static_cast<uint64_t>(v));
}

/// magnitude * 2^exponent and, if sticky, a little more, less than 2^exponent.
struct Term {
    Wide magnitude;
    int exponent;
    bool negative, sticky = false;
};

/// The top bit at 126, so that a sum fits into 128 bits.
Term normalise(Term t) {
    if (t.magnitude == 0) return {0, -100000, t.negative};
    int shift = leading_zeros(t.magnitude) - 1;
    return {t.magnitude << shift, t.exponent - shift, t.negative};
}

/// Of a finite number.
Term term(double v) {
    unsigned field = exponent_field(v);
    uint64_t bits = std::bit_cast<uint64_t>(v);
    return normalise({(bits & kMantissa) | (field ? uint64_t{1} << 52 : 0), static_cast<int>(field ? field : 1) - 1075, bits >> 63 != 0});
}

/// How a result becomes a number of the format.
struct Target {
    Grid grid;
    Round round;
    bool rounds_up(bool negative) const { return round == (negative ? Round::rd : Round::ru); }
    /// Of an exact zero that is a sum of a zero and another one, or of a number and its opposite.
    double zero(bool first_negative, bool second_negative) const {
        return first_negative == second_negative ? (first_negative ? -0.0 : 0.0) : round == Round::rd ? -0.0 : 0.0;
    }
};

double rounded(Term t, const Target& to) {
    const Grid& grid = to.grid;
    if (t.magnitude == 0) return to.zero(false, true);
    int quantum = std::max(t.exponent + 127 - leading_zeros(t.magnitude), grid.min_exponent) - grid.man_bits, shift = quantum - t.exponent;
    Wide kept = shift > 127 ? 0 : shift < 0 ? t.magnitude << -shift : t.magnitude >> shift;
    if (to.round != Round::rne) {
        const bool lost = t.sticky || shift > 127 || (shift > 0 && (kept << shift) != t.magnitude);
        kept += lost && to.rounds_up(t.negative);
    } else if (shift > 0 && shift <= 127) {
        Wide lost = t.magnitude & ((Wide{1} << shift) - 1), half = Wide{1} << (shift - 1);
        kept += lost > half || (lost == half && (t.sticky || (kept & 1)));
    }
    double size = std::ldexp(static_cast<double>(static_cast<uint64_t>(kept)), quantum);
    if (std::isinf(size) && to.round != Round::rne && !to.rounds_up(t.negative)) size = std::numeric_limits<double>::max();
    return t.negative ? -size : size;
}

Term sum(const Term& a, const Term& b) {
    bool swap = a.exponent < b.exponent || (a.exponent == b.exponent && a.magnitude < b.magnitude);
    const Term &large = swap ? b : a, &small = swap ? a : b;
    int distance = large.exponent - small.exponent;
    Wide shifted = distance > 127 ? 0 : small.magnitude >> distance;
    bool sticky = small.magnitude != 0 && (distance > 127 || (shifted << distance) != small.magnitude);
    bool subtract = large.negative != small.negative;
    return {subtract ? large.magnitude - shifted - sticky : large.magnitude + shifted, large.exponent, large.negative, sticky};
}

double fused(double a, double b, double c, const Target& to) {
    const Grid& grid = to.grid;
    double product = a * b;
    constexpr uint64_t kHalf = (uint64_t{1} << 27) - 1;
    bool exact = b == 1.0 || ((std::bit_cast<uint64_t>(a) | std::bit_cast<uint64_t>(b)) & kHalf) == 0;
    if (exact && to.round == Round::rne && grid.man_bits <= 50 && exponent_field(product) - 100 < 1900 && exponent_field(c) < 2000) {
        // The product is exact; so is the error of the sum (Knuth's two-sum). An inexact sum whose last bit is odd decides as the exact one does.
        double total = product + c, part = total - product, error = (product - (total - part)) + (c - part);
        uint64_t bits = std::bit_cast<uint64_t>(total);
        if (error == 0 || (bits & 1)) return total;
        bool away = (error > 0) == (total > 0);
        return std::bit_cast<double>(away ? bits + 1 : bits - 1);
    }
    bool special = exponent_field(a) == 2047 || exponent_field(b) == 2047 || exponent_field(c) == 2047 || a == 0 || b == 0;
    if (special) {
        const double r = std::fma(a, b, c);
        return r == 0 ? to.zero(std::signbit(a) != std::signbit(b), std::signbit(c)) : r;
    }
    Term x = term(a), y = term(b);
    constexpr int kBelow = 126 - 52;  // zeros below a significand
    Term both{(x.magnitude >> kBelow) * (y.magnitude >> kBelow), x.exponent + y.exponent + 2 * kBelow, x.negative != y.negative};
    return rounded(sum(normalise(both), term(c)), to);
}

double quotient(double a, double b, const Target& to) {
    if (!std::isfinite(a) || !std::isfinite(b) || a == 0 || b == 0) return a / b;
    Term x = term(a), y = term(b);
    Wide by = y.magnitude >> 74;  // 53 bits, so that 74 remain of the quotient
    return rounded({x.magnitude / by, x.exponent - y.exponent - 74, x.negative != y.negative, x.magnitude % by != 0}, to);
}

double root(double a, const Target& to) {
    if (!(a > 0) || !std::isfinite(a)) return std::sqrt(a);
    Term x = term(a);
    if (x.exponent % 2 != 0) x.magnitude >>= 1, ++x.exponent;  // loses a zero
    // Newton's step from a root of 53 bits is within a few units of all 63.
    uint64_t r = static_cast<uint64_t>(std::sqrt(static_cast<double>(x.magnitude)));
    r = static_cast<uint64_t>((r + x.magnitude / r) / 2);
    while (Wide{r} * r > x.magnitude) --r;
    while ((Wide{r} + 1) * (Wide{r} + 1) <= x.magnitude) ++r;
    return rounded({r, x.exponent / 2, false, Wide{r} * r != x.magnitude}, to);
}

}  // namespace

double before_rounding(ir::Op op, double a, double b, double c, Grid grid) {
    const auto [base, round] = ir::rounded_op(op);
    const Target to{grid, round};
    switch (base) {
        case ir::Op::add:
            return fused(a, 1.0, b, to);
        case ir::Op::sub:
            return fused(a, 1.0, -b, to);
        case ir::Op::mul:  // a zero of the product's sign changes nothing
            return fused(a, b, std::signbit(a) != std::signbit(b) ? -0.0 : 0.0, to);
        case ir::Op::fma:
            return fused(a, b, c, to);
        case ir::Op::div:
            return quotient(a, b, to);
        case ir::Op::sqrt:
            return root(a, to);
        case ir::Op::flush_subnormal:
            return std::fabs(a) < std::ldexp(1.0, grid.min_exponent) ? std::copysign(0.0, a) : a;
        case ir::Op::rem: {
            const double r = std::fmod(a, b);  // exact
            if (r == 0) return std::copysign(0.0, b);
            return (r < 0) != (b < 0) && !std::isnan(r) ? fused(r, 1.0, b, to) : r;
        }
        default:
            TEGULA_CHECK(false, std::string("no rounding of its own: ") + ir::op_row(op).name);
    }
}

}  // namespace tegula
