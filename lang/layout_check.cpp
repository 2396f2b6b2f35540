// Proofs and refutations of injectivity, and the inverse by table. A proof is mixed radix, strides or GF(2); a refutation always carries
// two real points (or one out of range), found by the same evaluation that places elements.
#include <algorithm>
#include <numeric>

#include "lang/layout.h"
#include "lang/layout_form.h"

namespace tegula {
namespace {

constexpr int64_t kMaxBitmap = int64_t{1} << 28;
constexpr int64_t kMaxInverseTable = int64_t{1} << 26;
constexpr int64_t kClippedPoints = int64_t{1} << 18;

using Indices = std::vector<int64_t>;

std::string point_text(const Indices& p) {
    std::string out = "(";
    for (size_t i = 0; i < p.size(); ++i) out += (i ? ", " : "") + std::to_string(p[i]);
    return out + ")";
}

/// Row-major successor within `box`; false after the last point.
bool next_point(Indices& p, std::span<const int64_t> box) {
    for (size_t d = p.size(); d-- > 0;) {
        if (++p[d] < box[d]) return true;
        p[d] = 0;
    }
    return false;
}

int64_t point_count(std::span<const int64_t> box) {
    int64_t n = 1;
    for (const int64_t e : box) {
        if (__builtin_mul_overflow(n, e, &n)) return INT64_MAX;
    }
    return n;
}

LayoutCheck refuted(Indices first, Indices second, int64_t offset) {
    return {Injectivity::refuted, {std::move(first), std::move(second), offset, 0}, {}};
}

LayoutCheck unknown(std::string reason) { return {Injectivity::unknown, {}, std::move(reason)}; }

/// A point that cannot be placed: negative (refuted) or overflowing (unknown).
LayoutCheck misplaced(const std::vector<LayoutExpr>& members, const Indices& p, std::span<const int64_t> extents) {
    for (const LayoutExpr& m : members) {
        bool overflow = false;
        const int64_t v = m.eval(p, extents, &overflow);
        if (overflow) return unknown("the index computation at " + point_text(p) + " leaves 64 bits");
        if (v < 0) return refuted(p, {}, v);
    }
    return unknown("the index computation leaves 64 bits");
}

/// Visits every point of `box` (a part of the extents); proved means: no conflict inside the box.
LayoutCheck enumerate(const BoundLayout& bound, const std::vector<LayoutExpr>& members, std::span<const int64_t> extents, const Indices& box) {
    Indices p(box.size(), 0), physical(members.size() + 1, 0);
    const bool bitmap = bound.elements() <= kMaxBitmap;
    std::vector<uint64_t> seen(bitmap ? static_cast<size_t>(bound.elements() + 63) / 64 : 0);
    std::vector<int64_t> offsets;
    std::optional<Indices> second;
    do {
        if (!bound.place(p.data(), physical.data())) return misplaced(members, p, extents);
        const int64_t offset = bound.element_at(physical.data());
        if (!bitmap) {
            offsets.push_back(offset);
            continue;
        }
        uint64_t& word = seen[static_cast<size_t>(offset) / 64];
        const uint64_t bit = uint64_t{1} << (offset % 64);
        if (word & bit) {
            second = p;
            break;
        }
        word |= bit;
    } while (next_point(p, box));
    int64_t offset = 0;
    if (!bitmap) {
        std::sort(offsets.begin(), offsets.end());
        const auto twin = std::adjacent_find(offsets.begin(), offsets.end());
        if (twin == offsets.end()) return {};
        offset = *twin;
    } else if (!second) {
        return {};
    } else {
        offset = bound.element_offset(second->data());
    }
    Indices first;
    p.assign(box.size(), 0);
    do {
        if (bound.element_offset(p.data()) != offset) continue;
        if (first.empty()) {
            first = p;
        } else if (!second) {
            second = p;
        }
    } while ((first.empty() || !second) && next_point(p, box));
    return refuted(std::move(first), std::move(*second), offset);
}

/// Conflicts of stride layouts at any size: a negative or zero stride, or two dimensions with a common multiple in range.
std::optional<LayoutCheck> refute_strides(const std::vector<LayoutExpr>& members, std::span<const int64_t> extents) {
    const MixedRadix form(members, static_cast<int>(extents.size()), extents);
    if (!form.ok() || members.size() != 1) return std::nullopt;
    std::vector<int64_t> strides(extents.size(), 0);
    for (const auto& [atom, coefficient] : form.forms()[0].terms) {
        const int digit = form.atoms()[static_cast<size_t>(atom)].digit;
        if (digit < 0 || form.digits().size() != extents.size()) return std::nullopt;
        strides[static_cast<size_t>(form.digits()[static_cast<size_t>(digit)].index)] = coefficient;
    }
    const int64_t base = form.forms()[0].constant;
    Indices a(extents.size(), 0), b(extents.size(), 0);
    for (size_t d = 0; d < extents.size(); ++d) {
        if (strides[d] != 0 || extents[d] <= 1) continue;
        b[d] = 1;
        return base < 0 ? refuted(a, {}, base) : refuted(a, b, base);
    }
    for (size_t d = 0; d < extents.size(); ++d) {
        for (size_t e = d + 1; e < extents.size(); ++e) {
            if (strides[d] <= 0 || strides[e] <= 0) continue;
            const int64_t g = std::gcd(strides[d], strides[e]), steps_d = strides[e] / g, steps_e = strides[d] / g;
            int64_t offset = 0;
            if (steps_d >= extents[d] || steps_e >= extents[e] || __builtin_mul_overflow(steps_d, strides[d], &offset)) continue;
            a[e] = steps_e;
            b[d] = steps_d;
            if (base < 0 || __builtin_add_overflow(offset, base, &offset)) return std::nullopt;
            return refuted(a, b, offset);
        }
    }
    return std::nullopt;
}

/// Corners of the box: where a monotone member is first negative.
std::optional<LayoutCheck> probe_corners(const BoundLayout& bound, const std::vector<LayoutExpr>& members, std::span<const int64_t> extents) {
    Indices p(extents.size(), 0), physical(members.size() + 1, 0);
    for (uint64_t corner = 0; extents.size() <= 12 && corner < uint64_t{1} << extents.size(); ++corner) {
        for (size_t d = 0; d < p.size(); ++d) p[d] = corner >> (p.size() - 1 - d) & 1 ? extents[d] - 1 : 0;
        if (!bound.place(p.data(), physical.data())) return misplaced(members, p, extents);
    }
    return std::nullopt;
}

}  // namespace

std::string LayoutConflict::text() const {
    const std::string at = point_text(first) + " lands on index " + std::to_string(offset);
    if (second.empty()) return at + (offset < 0 ? ", before the start" : ", beyond the declared extent " + std::to_string(pinned));
    return point_text(first) + " and " + point_text(second) + " both land on element " + std::to_string(offset);
}

/// Do all members stay below their declared extents? nullopt: they do.
std::optional<LayoutCheck> Layout::check_pins(std::span<const int64_t> extents) const {
    if (pins_.empty()) return std::nullopt;
    std::vector<int64_t> needed = from_exprs(name_, rank_, exprs_).physical_extents(extents);
    for (size_t m = 0; m < pins_.size(); ++m) {
        const int64_t pinned = pinned_extent(m, extents);
        if (!pins_[m] || needed[m] <= pinned) continue;
        if (pinned < 0) return unknown("its declared extent " + pins_[m]->text() + " is negative");
        const LayoutProgram member(exprs_[m], extents);
        Indices p(extents.size(), 0);
        for (int64_t tried = 0; tried < kMaxLayoutEnumeration; ++tried) {
            bool overflow = false;
            const int64_t at = member(p.data(), overflow);
            if (!overflow && at >= pinned) return LayoutCheck{Injectivity::refuted, {p, {}, at, pinned}, {}};
            if (!next_point(p, extents)) break;
        }
        return unknown("physical index " + std::to_string(m) + " cannot be shown to stay below its declared extent " + std::to_string(pinned));
    }
    return std::nullopt;
}

LayoutCheck Layout::check(std::span<const int64_t> extents) const {
    if (!problem_.empty()) return unknown(problem_);
    if (rank_ >= 0 && static_cast<size_t>(rank_) != extents.size()) {
        return unknown("the layout has rank " + std::to_string(rank_) + ", the extents have rank " + std::to_string(extents.size()));
    }
    if (extents.size() > kMaxLayoutMembers) return unknown("a layout has at most " + std::to_string(kMaxLayoutMembers) + " dimensions");
    if (std::any_of(extents.begin(), extents.end(), [](int64_t e) { return e < 0; })) return unknown("an extent is not known");
    if (std::find(extents.begin(), extents.end(), 0) != extents.end()) return {};
    if (auto pins = check_pins(extents)) return *std::move(pins);
    const std::vector<LayoutExpr> members = physical(static_cast<int>(extents.size()));
    const BoundLayout bound(*this, extents, 8, false);
    if (auto corner = probe_corners(bound, members, extents)) return *corner;
    if (bound.elements() < 0) return unknown("the storage needs more than 2^56 elements, or its size leaves 64 bits");
    if (kind_ == Kind::row || kind_ == Kind::col) return {};

    bool in_range = true, fits = true;
    for (const LayoutExpr& m : members) {
        const LayoutRange range = layout_range(m, extents);
        in_range = in_range && range.lo >= 0;
        fits = fits && !range.overflow;
    }
    const MixedRadix form(members, static_cast<int>(extents.size()), extents);
    if (fits && (in_range || form.non_negative()) && form.solve()) return {};
    if (fits && in_range) {
        if (auto conflict = refute_strides(members, extents)) return *conflict;
    }
    const int64_t points = point_count(extents);
    if (points <= kMaxLayoutEnumeration) return enumerate(bound, members, extents, {extents.begin(), extents.end()});
    if (const auto linear = to_linear(*this, extents)) {
        const auto kernel = linear->kernel();
        if (!kernel) return {};
        Indices second(extents.begin(), extents.end());
        uint64_t rest = *kernel;
        for (size_t d = second.size(); d-- > 0;) {
            const auto extent = static_cast<uint64_t>(extents[d]);
            second[d] = static_cast<int64_t>(rest % extent);
            rest /= extent;
        }
        return refuted(Indices(extents.size(), 0), second, 0);
    }
    Indices box(extents.begin(), extents.end());
    while (point_count(box) > kClippedPoints) {
        int64_t& largest = *std::max_element(box.begin(), box.end());
        largest = largest / 2 + largest % 2;
    }
    const LayoutCheck part = enumerate(bound, members, extents, box);
    if (part.result != Injectivity::proved) return part;
    return unknown("its index expressions are not of a form that can be proved, and the extents have more than 2^24 points to try");
}

std::optional<LayoutConflict> Layout::find_conflict(std::span<const int64_t> extents) const {
    LayoutCheck c = check(extents);
    if (c.result != Injectivity::refuted) return std::nullopt;
    return std::move(c.conflict);
}

std::optional<std::vector<int64_t>> Layout::inverse_table(std::span<const int64_t> extents) const {
    const BoundLayout bound(*this, extents, 8, false);
    if (bound.elements() < 0 || bound.elements() > kMaxInverseTable) return std::nullopt;
    std::vector<int64_t> table(static_cast<size_t>(bound.elements()), -1);
    if (table.empty()) return table;
    Indices p(extents.size(), 0), physical(bound.physical_extents().size() + 1, 0);
    int64_t logical = 0;
    do {
        if (!bound.place(p.data(), physical.data())) return std::nullopt;
        int64_t& entry = table[static_cast<size_t>(bound.element_at(physical.data()))];
        if (entry >= 0) return std::nullopt;
        entry = logical++;
    } while (next_point(p, extents));
    return table;
}

}  // namespace tegula
