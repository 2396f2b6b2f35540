// GF(2)-linear layouts: each input bit has a column, a value is the XOR of the columns of its set bits. Also the derivation of this form
// from index expressions, bit by bit.
#include <algorithm>
#include <bit>

#include "lang/layout.h"

namespace tegula {
namespace {

/// Every bit of a value as an affine function of the input bits.
struct BitVector {
    std::array<uint64_t, 63> mask{};
    uint64_t constant = 0;
    uint64_t occupied() const {
        uint64_t r = constant;
        for (size_t k = 0; k < mask.size(); ++k) r |= uint64_t{mask[k] != 0} << k;
        return r;
    }
    bool is_constant() const {
        return std::all_of(mask.begin(), mask.end(), [](uint64_t m) { return m == 0; });
    }
};
using Bits = std::optional<BitVector>;

Bits shifted(const BitVector& v, int up) {
    BitVector r;
    for (int k = 0; k < 63; ++k) {
        const uint64_t constant = v.constant >> k & 1;
        if (v.mask[static_cast<size_t>(k)] == 0 && constant == 0) continue;
        if (k + up > 62) return std::nullopt;
        if (k + up < 0) continue;
        r.mask[static_cast<size_t>(k + up)] = v.mask[static_cast<size_t>(k)];
        r.constant |= constant << (k + up);
    }
    return r;
}

BitVector masked(BitVector v, uint64_t keep) {
    for (size_t k = 0; k < v.mask.size(); ++k) {
        if (!(keep >> k & 1)) v.mask[k] = 0;
    }
    v.constant &= keep;
    return v;
}

BitVector combined(BitVector a, const BitVector& b) {
    for (size_t k = 0; k < a.mask.size(); ++k) a.mask[k] ^= b.mask[k];
    a.constant ^= b.constant;
    return a;
}

Bits binary_bits(LayoutExpr::Op op, const BitVector& a, const BitVector& b) {
    const uint64_t c = b.constant;
    const bool constant = b.is_constant(), power = constant && std::has_single_bit(c);
    switch (op) {
        case LayoutExpr::bit_xor:
            return combined(a, b);
        case LayoutExpr::add:
        case LayoutExpr::bit_or:
            return a.occupied() & b.occupied() ? std::nullopt : Bits(combined(a, b));
        case LayoutExpr::bit_and:
            return constant ? Bits(masked(a, c)) : a.is_constant() ? Bits(masked(b, a.constant)) : std::nullopt;
        case LayoutExpr::mul:
            return power ? shifted(a, std::countr_zero(c)) : std::nullopt;
        case LayoutExpr::div:
            return power ? shifted(a, -std::countr_zero(c)) : std::nullopt;
        case LayoutExpr::rem:
            return power ? Bits(masked(a, c - 1)) : std::nullopt;
        case LayoutExpr::shl:
            return constant && c < 63 ? shifted(a, static_cast<int>(c)) : std::nullopt;
        case LayoutExpr::shr:
            return constant ? shifted(a, -static_cast<int>(std::min<uint64_t>(c, 63))) : std::nullopt;
        default:
            return std::nullopt;
    }
}

/// `first_bit[i]`: where index i starts among the input bits.
Bits bits_of(const LayoutExpr& e, std::span<const int64_t> extents, const std::vector<int>& first_bit) {
    BitVector r;
    const auto k = static_cast<size_t>(e.value);
    if (e.op == LayoutExpr::constant || e.op == LayoutExpr::extent) {
        const int64_t v = e.op == LayoutExpr::constant ? e.value : extents[k];
        if (v < 0) return std::nullopt;
        r.constant = static_cast<uint64_t>(v);
        return r;
    }
    if (e.op == LayoutExpr::index) {
        for (int b = 0; (int64_t{1} << b) < extents[k]; ++b) r.mask[static_cast<size_t>(b)] = uint64_t{1} << (first_bit[k] + b);
        return r;
    }
    if (!e.a) return std::nullopt;
    const Bits a = bits_of(*e.a, extents, first_bit);
    const Bits b = a ? bits_of(*e.b, extents, first_bit) : std::nullopt;
    return b ? binary_bits(e.op, *a, *b) : std::nullopt;
}

int log2_of(int64_t v) { return std::countr_zero(static_cast<uint64_t>(v)); }

bool power_of_two(int64_t v) { return v > 0 && std::has_single_bit(static_cast<uint64_t>(v)); }

/// The linear map through the values at unit points, if every point agrees with it.
std::optional<LinearLayout> enumerate_linear(const Layout& layout, std::span<const int64_t> extents, int in_bits, int out_bits) {
    const BoundLayout bound(layout, extents, 8);
    std::vector<int64_t> point(extents.size(), 0), physical(bound.physical_extents().size() + 1, 0);
    const auto at = [&](uint64_t x) -> std::optional<uint64_t> {
        for (size_t d = extents.size(); d-- > 0;) {
            point[d] = static_cast<int64_t>(x & (static_cast<uint64_t>(extents[d]) - 1));
            x >>= log2_of(extents[d]);
        }
        if (!bound.place(point.data(), physical.data())) return std::nullopt;
        return static_cast<uint64_t>(bound.element_offset(point.data()));
    };
    LinearLayout r{in_bits, out_bits, {}};
    for (int b = 0; b < in_bits; ++b) {
        const auto column = at(uint64_t{1} << b);
        if (!column) return std::nullopt;
        r.columns.push_back(*column);
    }
    for (uint64_t x = 0; x < uint64_t{1} << in_bits; ++x) {
        if (at(x) != r(x)) return std::nullopt;
    }
    return r;
}

}  // namespace

uint64_t LinearLayout::operator()(uint64_t x) const {
    uint64_t r = 0;
    for (; x != 0; x &= x - 1) {
        const auto bit = static_cast<size_t>(std::countr_zero(x));
        TEGULA_CHECK(bit < columns.size());
        r ^= columns[bit];
    }
    return r;
}

int LinearLayout::rank() const {
    std::vector<uint64_t> rows = columns;
    int rank = 0;
    for (size_t k = 0; k < rows.size(); ++k) {
        if (rows[k] == 0) continue;
        ++rank;
        const uint64_t pivot = rows[k] & -rows[k];
        for (size_t j = k + 1; j < rows.size(); ++j) {
            if (rows[j] & pivot) rows[j] ^= rows[k];
        }
    }
    return rank;
}

std::optional<uint64_t> LinearLayout::kernel() const {
    std::vector<uint64_t> rows = columns, origin;
    for (size_t k = 0; k < rows.size(); ++k) origin.push_back(uint64_t{1} << k);
    for (size_t k = 0; k < rows.size(); ++k) {
        if (rows[k] == 0) return origin[k];
        const uint64_t pivot = rows[k] & -rows[k];
        for (size_t j = k + 1; j < rows.size(); ++j) {
            if (!(rows[j] & pivot)) continue;
            rows[j] ^= rows[k];
            origin[j] ^= origin[k];
        }
    }
    return std::nullopt;
}

std::optional<LinearLayout> LinearLayout::inverse() const {
    if (in_bits != out_bits) return std::nullopt;
    const auto n = static_cast<size_t>(in_bits);
    std::vector<uint64_t> image = columns, origin;
    for (size_t k = 0; k < n; ++k) origin.push_back(uint64_t{1} << k);
    for (size_t bit = 0; bit < n; ++bit) {  // Gauss-Jordan: afterwards image[bit] is the unit vector of `bit`
        size_t pivot = bit;
        while (pivot < n && !(image[pivot] >> bit & 1)) ++pivot;
        if (pivot == n) return std::nullopt;
        std::swap(image[pivot], image[bit]);
        std::swap(origin[pivot], origin[bit]);
        for (size_t j = 0; j < n; ++j) {
            if (j == bit || !(image[j] >> bit & 1)) continue;
            image[j] ^= image[bit];
            origin[j] ^= origin[bit];
        }
    }
    return LinearLayout{in_bits, out_bits, std::move(origin)};
}

LinearLayout LinearLayout::identity(int bits) {
    TEGULA_CHECK(bits >= 0 && bits <= 64);
    LinearLayout r{bits, bits, {}};
    for (int k = 0; k < bits; ++k) r.columns.push_back(uint64_t{1} << k);
    return r;
}

LinearLayout LinearLayout::compose(const LinearLayout& outer, const LinearLayout& inner) {
    TEGULA_CHECK(inner.out_bits == outer.in_bits);
    LinearLayout r{inner.in_bits, outer.out_bits, {}};
    for (const uint64_t column : inner.columns) r.columns.push_back(outer(column));
    return r;
}

LinearLayout LinearLayout::product(const LinearLayout& low, const LinearLayout& high) {
    TEGULA_CHECK(low.in_bits + high.in_bits <= 64 && low.out_bits + high.out_bits <= 64);
    LinearLayout r{low.in_bits + high.in_bits, low.out_bits + high.out_bits, low.columns};
    for (const uint64_t column : high.columns) r.columns.push_back(low.out_bits == 64 ? 0 : column << low.out_bits);
    return r;
}

LinearLayout LinearLayout::swizzle(int bits, int base, int shift, int total_bits) {
    TEGULA_CHECK(bits >= 0 && base >= 0 && shift >= bits && base + shift + bits <= total_bits);
    LinearLayout r = identity(total_bits);
    for (int k = 0; k < bits; ++k) r.columns[static_cast<size_t>(base + shift + k)] |= uint64_t{1} << (base + k);
    return r;
}

std::optional<LinearLayout> to_linear(const Layout& layout, std::span<const int64_t> extents) {
    TEGULA_CHECK(layout.problem().empty() && (layout.rank() < 0 || static_cast<size_t>(layout.rank()) == extents.size()));
    if (!std::all_of(extents.begin(), extents.end(), power_of_two)) return std::nullopt;
    const std::vector<int64_t> physical = layout.physical_extents(extents);
    if (!std::all_of(physical.begin(), physical.end(), power_of_two)) return std::nullopt;
    std::vector<int> first_bit(extents.size(), 0);
    int in_bits = 0, out_bits = 0;
    for (size_t d = extents.size(); d-- > 0;) {
        first_bit[d] = in_bits;
        in_bits += log2_of(extents[d]);
    }
    for (const int64_t e : physical) out_bits += log2_of(e);
    if (in_bits > 62 || out_bits > 56) return std::nullopt;

    LinearLayout r{in_bits, out_bits, std::vector<uint64_t>(static_cast<size_t>(in_bits), 0)};
    const std::vector<LayoutExpr> members = layout.physical(static_cast<int>(extents.size()));
    int position = 0;
    bool proved = true;
    for (size_t m = members.size(); proved && m-- > 0;) {
        const Bits bits = bits_of(members[m], extents, first_bit);
        const int width = log2_of(physical[m]);
        proved = bits && bits->constant == 0 && (bits->occupied() >> width) == 0;
        for (int k = 0; proved && k < width; ++k) {
            for (uint64_t mask = bits->mask[static_cast<size_t>(k)]; mask != 0; mask &= mask - 1) {
                r.columns[static_cast<size_t>(std::countr_zero(mask))] |= uint64_t{1} << (position + k);
            }
        }
        position += width;
    }
    if (proved) return r;
    return (int64_t{1} << in_bits) <= kMaxLayoutEnumeration ? enumerate_linear(layout, extents, in_bits, out_bits) : std::nullopt;
}

}  // namespace tegula
