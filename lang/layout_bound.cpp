// Layouts at concrete extents: physical extents, element and bit addresses, affine strides. Rows of the innermost physical member start
// on a byte; the address of a point is exact or the layout is refused by Layout::check.
#include <algorithm>
#include <bit>

#include "lang/layout.h"
#include "lang/layout_form.h"

namespace tegula {
namespace {

constexpr int64_t kMaxExtentEnumeration = int64_t{1} << 20;
constexpr int64_t kMaxTableEntries = int64_t{1} << 20;

/// Product, saturating at INT64_MAX; extents are not negative.
int64_t saturating_product(std::span<const int64_t> extents) {
    int64_t n = 1;
    for (const int64_t e : extents) {
        if (e == 0) return 0;
        if (__builtin_mul_overflow(n, e, &n)) n = INT64_MAX;
    }
    return n;
}

/// Largest value over the indices that matter; nullopt when a value overflows. The others stay at zero.
std::optional<int64_t> enumerate_largest(const LayoutExpr& e, std::span<const int64_t> extents, uint64_t uses) {
    const LayoutProgram program(e, extents);
    std::vector<int64_t> point(extents.size(), 0);
    int64_t best = INT64_MIN;
    for (;;) {
        bool overflow = false;
        best = std::max(best, program(point.data(), overflow));
        if (overflow) return std::nullopt;
        size_t d = point.size();
        while (d-- > 0) {
            if (!(uses >> d & 1)) continue;
            if (++point[d] < extents[d]) break;
            point[d] = 0;
        }
        if (d == static_cast<size_t>(-1)) return best;
    }
}

int64_t member_extent(const LayoutExpr& e, std::span<const int64_t> extents) {
    const LayoutRange range = layout_range(e, extents);
    int64_t largest = range.hi;
    const bool inexact = range.overflow || !range.exact;
    const MixedRadix form({inexact ? e : LayoutExpr::make_constant(0)}, static_cast<int>(extents.size()), extents);
    const auto attained = inexact && !range.overflow && form.ok() ? form.attained_largest(0) : std::nullopt;
    if (attained) {
        largest = *attained;
    } else if (inexact) {
        int64_t points = 1;
        for (size_t d = 0; d < extents.size(); ++d) {
            if ((range.uses >> d & 1) && __builtin_mul_overflow(points, extents[d], &points)) points = INT64_MAX;
        }
        if (points <= kMaxExtentEnumeration) {
            const auto exact = enumerate_largest(e, extents, range.uses);
            if (!exact) return INT64_MAX;
            largest = *exact;
        } else if (range.overflow) {
            return INT64_MAX;
        }
    }
    return largest == INT64_MAX ? INT64_MAX : std::max<int64_t>(largest, 0) + 1;
}

uint64_t indices_used(const LayoutExpr& e) {
    if (e.op == LayoutExpr::index) return uint64_t{1} << e.value;
    return e.a ? indices_used(*e.a) | indices_used(*e.b) : 0;
}

/// Whether the expression is a sum of functions of one index each.
bool separable(const LayoutExpr& e) {
    const uint64_t used = indices_used(e);
    if ((used & (used - 1)) == 0) return true;
    if (e.op == LayoutExpr::add || e.op == LayoutExpr::sub) return separable(*e.a) && separable(*e.b);
    return e.op == LayoutExpr::mul && e.b->op == LayoutExpr::constant && separable(*e.a);
}

void check_rank(const Layout& layout, std::span<const int64_t> extents) {
    TEGULA_CHECK(layout.problem().empty(), layout.problem());
    TEGULA_CHECK(layout.rank() < 0 || static_cast<size_t>(layout.rank()) == extents.size());
}

}  // namespace

std::vector<int64_t> Layout::physical_extents(std::span<const int64_t> extents) const {
    check_rank(*this, extents);
    std::vector<int64_t> r(extents.begin(), extents.end());
    if (kind_ == Kind::row) return r;
    if (kind_ == Kind::col) return {r.rbegin(), r.rend()};
    const std::vector<LayoutExpr> members = physical(static_cast<int>(extents.size()));
    if (std::find(r.begin(), r.end(), 0) != r.end()) return std::vector<int64_t>(members.size(), 0);
    r.clear();
    for (const LayoutExpr& m : members) r.push_back(std::max(member_extent(m, extents), pinned_extent(r.size(), extents)));
    return r;
}

int64_t Layout::pinned_extent(size_t member, std::span<const int64_t> extents) const {
    if (member >= pins_.size() || !pins_[member]) return 0;
    bool overflow = false;
    const int64_t extent = pins_[member]->eval({}, extents, &overflow);
    return overflow ? INT64_MAX : extent;
}

int64_t Layout::offset(std::span<const int64_t> index, std::span<const int64_t> extents) const {
    return BoundLayout(*this, extents, 8, false).element_offset(index.data());
}

int64_t Layout::bit_offset(std::span<const int64_t> index, std::span<const int64_t> extents, unsigned bits) const {
    return BoundLayout(*this, extents, bits, false).bit_offset(index.data());
}

int64_t Layout::storage_bytes(std::span<const int64_t> extents, unsigned bits) const {
    return BoundLayout(*this, extents, bits, false).storage_bytes();
}

std::optional<std::vector<int64_t>> Layout::bit_strides(std::span<const int64_t> extents, unsigned bits) const {
    const int rank = static_cast<int>(extents.size());
    const MixedRadix form(physical(rank), rank, extents);
    const std::vector<int64_t> physical = physical_extents(extents);
    if (!form.ok() || storage_bytes(extents, bits) < 0) return std::nullopt;
    // The address as a sum of digits; it is linear when the digits of an index have one weight per unit of the index.
    std::vector<int64_t> weight(form.atoms().size(), 0);
    int64_t pitch = bits, base = 0;
    for (size_t m = physical.size(); m-- > 0;) {
        for (const auto& [atom, coefficient] : form.forms()[m].terms) weight[static_cast<size_t>(atom)] += coefficient * pitch;
        base += form.forms()[m].constant * pitch;
        pitch = m + 1 == physical.size() ? (physical[m] * bits + 7) / 8 * 8 : pitch * physical[m];
    }
    std::vector<int64_t> strides(extents.size(), 0);
    std::vector<bool> seen(extents.size(), false);
    for (size_t a = 0; a < weight.size(); ++a) {
        const int digit = form.atoms()[a].digit;
        if (digit < 0) {
            if (weight[a] != 0) return std::nullopt;
            continue;
        }
        const auto& d = form.digits()[static_cast<size_t>(digit)];
        if (d.extent <= 1) continue;
        const auto i = static_cast<size_t>(d.index);
        if (weight[a] % d.stride != 0 || (seen[i] && strides[i] != weight[a] / d.stride)) return std::nullopt;
        strides[i] = weight[a] / d.stride;
        seen[i] = true;
    }
    if (base != 0) return std::nullopt;
    return strides;
}

BoundLayout::BoundLayout(const Layout& layout, std::span<const int64_t> extents, unsigned bits, bool tables) {
    TEGULA_CHECK(bits >= 1 && bits <= 64);
    extents_ = layout.physical_extents(extents);
    const std::vector<LayoutExpr> exprs = layout.physical(static_cast<int>(extents.size()));
    for (const LayoutExpr& e : exprs) members_.emplace_back(e, extents);
    element_pitch_.assign(extents_.size(), 0);
    bit_pitch_.assign(extents_.size(), 0);
    elements_ = saturating_product(extents_);
    if (elements_ > kMaxLayoutElements) {
        elements_ = storage_bytes_ = -1;
        return;
    }
    const int64_t row = extents_.empty() ? 1 : extents_.back();
    const int64_t row_bytes = (row * static_cast<int64_t>(bits) + 7) / 8;
    int64_t element = 1, bit = bits;
    for (size_t m = extents_.size(); m-- > 0;) {
        element_pitch_[m] = element;
        bit_pitch_[m] = bit;
        element *= extents_[m];
        bit = m + 1 == extents_.size() ? row_bytes * 8 : static_cast<int64_t>(static_cast<uint64_t>(bit) * static_cast<uint64_t>(extents_[m]));
    }
    storage_bytes_ = elements_ == 0 ? 0 : elements_ / row * row_bytes;
    if (storage_bytes_ > INT64_MAX / 8) elements_ = storage_bytes_ = -1;
    if (tables && elements_ > 0) build_tables(exprs, extents);
}

void BoundLayout::build_tables(const std::vector<LayoutExpr>& exprs, std::span<const int64_t> extents) {
    int64_t entries = 0;
    for (const int64_t e : extents) {
        if (e > kMaxTableEntries || (entries += e) > kMaxTableEntries) return;
    }
    if (extents.empty() || entries > 2 * saturating_product(extents) || !std::all_of(exprs.begin(), exprs.end(), separable)) return;
    std::vector<int64_t> point(extents.size(), 0), physical(exprs.size(), 0);
    if (!place(point.data(), physical.data())) return;
    const int64_t origin = address(point.data(), bit_pitch_);
    std::vector<std::vector<int64_t>> tables;
    for (size_t d = 0; d < extents.size(); ++d) {
        std::vector<int64_t>& table = tables.emplace_back();
        for (int64_t i = 0; i < extents[d]; ++i) {
            point[d] = i;
            if (!place(point.data(), physical.data())) return;
            table.push_back(address(point.data(), bit_pitch_) - (d == 0 ? 0 : origin));
        }
        point[d] = 0;
    }
    tables_ = std::move(tables);
}

bool BoundLayout::place(const int64_t* index, int64_t* physical) const {
    bool overflow = false, negative = false;
    for (size_t m = 0; m < members_.size(); ++m) {
        physical[m] = members_[m](index, overflow);
        negative |= physical[m] < 0;
    }
    return !overflow && !negative;
}

int64_t BoundLayout::address(const int64_t* index, const std::vector<int64_t>& pitch) const {
    bool overflow = false;
    uint64_t r = 0;  // unsigned: a point outside the extents wraps instead of being undefined
    for (size_t m = 0; m < members_.size(); ++m) r += static_cast<uint64_t>(members_[m](index, overflow)) * static_cast<uint64_t>(pitch[m]);
    return static_cast<int64_t>(r);
}

int64_t BoundLayout::element_offset(const int64_t* index) const { return address(index, element_pitch_); }

int64_t BoundLayout::element_at(const int64_t* physical) const {
    int64_t r = 0;
    for (size_t m = 0; m < element_pitch_.size(); ++m) r += physical[m] * element_pitch_[m];
    return r;
}

int64_t BoundLayout::bit_offset(const int64_t* index) const {
    if (tables_.empty()) return address(index, bit_pitch_);
    int64_t r = 0;
    for (size_t d = 0; d < tables_.size(); ++d) r += tables_[d][static_cast<size_t>(index[d])];
    return r;
}

}  // namespace tegula
