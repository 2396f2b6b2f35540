// Interval analysis of layout index expressions: sound bounds for every expression, and whether they are attained, which is what makes
// physical extents exact without visiting the points.
#include <algorithm>
#include <bit>

#include "lang/layout_form.h"

namespace tegula {
namespace {

int64_t mask_over(int64_t v) { return v <= 0 ? 0 : static_cast<int64_t>((~uint64_t{0}) >> std::countl_zero(static_cast<uint64_t>(v))); }

LayoutRange unknown_range(uint64_t uses) { return {INT64_MIN, INT64_MAX, false, false, true, uses}; }

LayoutRange add_range(LayoutExpr::Op op, const LayoutRange& a, const LayoutRange& b, LayoutRange r) {
    const bool bad = op == LayoutExpr::add ? __builtin_add_overflow(a.lo, b.lo, &r.lo) || __builtin_add_overflow(a.hi, b.hi, &r.hi)
                                           : __builtin_sub_overflow(a.lo, b.hi, &r.lo) || __builtin_sub_overflow(a.hi, b.lo, &r.hi);
    if (bad) return unknown_range(r.uses);
    r.dense = r.exact && a.dense && b.dense;
    return r;
}

/// Products and quotients by a positive range are monotone in each operand: the corners hold the ends.
LayoutRange corner_range(LayoutExpr::Op op, const LayoutRange& a, const LayoutRange& b, LayoutRange r) {
    r.lo = INT64_MAX;
    r.hi = INT64_MIN;
    for (const int64_t x : {a.lo, a.hi}) {
        for (const int64_t y : {b.lo, b.hi}) {
            int64_t v = 0;
            if (op == LayoutExpr::div) {
                v = floor_div(x, y);
            } else if (__builtin_mul_overflow(x, y, &v)) {
                return unknown_range(r.uses);
            }
            r.lo = std::min(r.lo, v);
            r.hi = std::max(r.hi, v);
        }
    }
    r.dense = r.exact && op == LayoutExpr::div && a.dense && b.lo == b.hi;
    if (r.lo == r.hi && r.exact) r.dense = true;
    return r;
}

LayoutRange rem_range(const LayoutRange& a, const LayoutRange& b, LayoutRange r) {
    if (b.lo <= 0) {  // rare: a divisor that may be zero or negative
        r.lo = std::min({a.lo, b.lo, int64_t{0}});
        r.hi = std::max({a.hi, b.hi, int64_t{0}});
        r.exact = r.dense = false;
        return r;
    }
    const int64_t c = b.lo;
    if (b.hi != c) return {0, b.hi - 1, false, false, false, r.uses};
    if (floor_div(a.lo, c) == floor_div(a.hi, c)) {
        r.lo = a.lo - floor_div(a.lo, c) * c;
        r.hi = a.hi - floor_div(a.hi, c) * c;
        r.dense = r.exact && a.dense;
        return r;
    }
    r.lo = 0;
    r.hi = c - 1;
    r.exact = r.exact && a.dense;  // the wrap passes through c - 1 and 0
    r.dense = r.exact && static_cast<uint64_t>(a.hi) - static_cast<uint64_t>(a.lo) >= static_cast<uint64_t>(c) - 1;
    return r;
}

LayoutRange bits_range(LayoutExpr::Op op, const LayoutRange& a, const LayoutRange& b, LayoutRange r) {
    const bool independent = r.exact;
    r.exact = r.dense = false;
    if (a.lo < 0 || b.lo < 0) {
        const int64_t mask = mask_over(std::max({a.hi, b.hi, a.lo < 0 ? ~a.lo : int64_t{0}, b.lo < 0 ? ~b.lo : int64_t{0}}));
        r.lo = ~mask;
        r.hi = mask;
        return r;
    }
    const int64_t mask = mask_over(std::max(a.hi, b.hi));
    r.lo = op == LayoutExpr::bit_or ? std::max(a.lo, b.lo) : 0;
    r.hi = op == LayoutExpr::bit_and ? std::min(a.hi, b.hi) : mask;
    // x ^ y over all x of [0, 2^k) is all of [0, 2^k), whatever y is.
    const bool full = (a.dense && a.lo == 0 && a.hi == mask) || (b.dense && b.lo == 0 && b.hi == mask);
    if (op == LayoutExpr::bit_xor && independent && full) r.exact = r.dense = true;
    return r;
}

LayoutRange leaf_range(int64_t lo, int64_t hi, uint64_t uses) { return {lo, hi, true, true, false, uses}; }

}  // namespace

LayoutRange layout_range(const LayoutExpr& e, std::span<const int64_t> extents) {
    const auto k = static_cast<size_t>(e.value);
    switch (e.op) {
        case LayoutExpr::constant:
            return leaf_range(e.value, e.value, 0);
        case LayoutExpr::index:
            return leaf_range(0, std::max<int64_t>(extents[k] - 1, 0), extents[k] > 1 ? uint64_t{1} << k : 0);
        case LayoutExpr::extent:
            return leaf_range(extents[k], extents[k], 0);
        case LayoutExpr::too_deep:
            return unknown_range(0);
        default:
            break;
    }
    const LayoutRange a = layout_range(*e.a, extents), b = layout_range(*e.b, extents);
    LayoutRange r;
    r.uses = a.uses | b.uses;
    if (a.overflow || b.overflow) return unknown_range(r.uses);
    r.exact = a.exact && b.exact && (a.uses & b.uses) == 0;
    switch (e.op) {
        case LayoutExpr::add:
        case LayoutExpr::sub:
            return add_range(e.op, a, b, r);
        case LayoutExpr::mul:
            return corner_range(e.op, a, b, r);
        case LayoutExpr::div:
            return b.lo > 0 ? corner_range(e.op, a, b, r) : unknown_range(r.uses);
        case LayoutExpr::rem:
            return rem_range(a, b, r);
        case LayoutExpr::bit_xor:
        case LayoutExpr::bit_and:
        case LayoutExpr::bit_or:
            return bits_range(e.op, a, b, r);
        case LayoutExpr::shl:
        case LayoutExpr::shr: {
            if (b.lo < 0 || b.hi > 61) return unknown_range(r.uses);
            const LayoutRange power{int64_t{1} << b.lo, int64_t{1} << b.hi, b.exact, b.lo == b.hi, false, b.uses};
            return corner_range(e.op == LayoutExpr::shl ? LayoutExpr::mul : LayoutExpr::div, a, power, r);
        }
        default: {
            const bool smallest = e.op == LayoutExpr::min;
            r.lo = smallest ? std::min(a.lo, b.lo) : std::max(a.lo, b.lo);
            r.hi = smallest ? std::min(a.hi, b.hi) : std::max(a.hi, b.hi);
            r.dense = r.exact && a.dense && b.dense;
            return r;
        }
    }
}

}  // namespace tegula
