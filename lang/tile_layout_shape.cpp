// Layouts that shape operations carry along: the result lies in the same threads as the operand, so that nothing moves. Registers may be
// renumbered (TileLayout::find_register tells).
#include <algorithm>
#include <numeric>

#include "lang/check.h"
#include "lang/gf2.h"
#include "lang/tile_layout.h"

namespace tegula {

namespace {

/// Packed points of one layout rewritten for another choice of dimensions: dimension d of the result is `source[d]` (-1: a new unit dimension).
class Remap {
public:
    Remap(const TileLayout& from, std::span<const int> source) : from_(from), source_(source) {}
    void shape_of(TileLayout& to, const Shape& shape) const {
        to.shape = shape;
        for (size_t d = 0; d < source_.size(); ++d) {
            to.bits[d] = source_[d] < 0 ? uint8_t{0} : from_.bits[static_cast<size_t>(source_[d])];
            to.odd[d] = source_[d] < 0 ? uint8_t{1} : from_.odd[static_cast<size_t>(source_[d])];
        }
    }
    uint64_t operator()(uint64_t v) const {
        std::array<uint64_t, kMaxRank> coordinate{};
        for (size_t d = from_.shape.rank; d-- > 0;) {
            coordinate[d] = v & ((uint64_t{1} << from_.bits[d]) - 1);
            v >>= from_.bits[d];
        }
        uint64_t r = 0;
        for (int s : source_) {
            if (s >= 0) r = r << from_.bits[static_cast<size_t>(s)] | coordinate[static_cast<size_t>(s)];
        }
        return r;
    }

private:
    const TileLayout& from_;
    std::span<const int> source_;
};

/// The projection onto some dimensions: registers that only told dropped coordinates apart go, threads become copies. nullopt when what is
/// left is no layout (skewed bases).
std::optional<TileLayout> projected(const TileLayout& l, const Shape& shape, std::span<const int> source) {
    const Remap remap(l, source);
    TileLayout r;
    remap.shape_of(r, shape);
    gf2::Space held;
    for (uint64_t v : l.reg) {
        if (held.insert(remap(v))) r.reg.push_back(remap(v));
    }
    for (size_t b = 0; b < l.lane.size(); ++b) r.lane[b] = remap(l.lane[b]);
    for (uint64_t v : l.warp) r.warp.push_back(remap(v));
    if (!r.valid()) return std::nullopt;
    return r;
}

/// Extents of one group of dimensions that reshape maps onto each other: exactly odd << bits in all, the odd factor in one dimension with only
/// units before it.
bool linear_group(const Shape& shape, size_t begin, size_t end, const TileLayout* padding, int& odd) {
    odd = 1;
    bool slower = false;
    for (size_t d = begin; d < end; ++d) {
        const auto extent = static_cast<uint64_t>(shape[d]);
        const int o = static_cast<int>(extent >> std::countr_zero(extent));
        if (o > 255 || (padding && padding->padded(static_cast<int>(d)) != shape[d])) return false;
        if (o != 1 && slower) return false;
        if (o != 1) odd = o;
        slower |= extent != 1;
    }
    return true;
}

}  // namespace

TileLayout permute_layout(const TileLayout& l, std::span<const int64_t> axes) {
    TEGULA_CHECK(axes.size() == l.shape.rank);
    Shape shape;
    std::vector<int> source;
    for (int64_t a : axes) {
        source.push_back(static_cast<int>(a));
        shape.push(l.shape[static_cast<size_t>(a)]);
    }
    const std::optional<TileLayout> r = projected(l, shape, source);
    TEGULA_CHECK(r.has_value());
    return *r;
}

TileLayout reduce_layout(const TileLayout& l, int axis) {
    TEGULA_CHECK(axis >= 0 && axis < l.shape.rank);
    Shape shape;
    std::vector<int> source;
    for (int d = 0; d < l.shape.rank; ++d) {
        if (d == axis) continue;
        source.push_back(d);
        shape.push(l.shape[static_cast<size_t>(d)]);
    }
    if (std::optional<TileLayout> r = projected(l, shape, source)) return *r;
    std::vector<int> order(shape.rank);
    for (int d = 0; d < shape.rank; ++d) order[static_cast<size_t>(d)] = shape.rank - 1 - d;
    return blocked_layout(shape, l.warps(), 1, order);
}

std::optional<TileLayout> broadcast_source_layout(const TileLayout& l, const Shape& from) {
    if (from.rank > l.shape.rank) return std::nullopt;
    std::vector<int> source;
    for (size_t d = 0; d < from.rank; ++d) {
        const size_t in = d + l.shape.rank - from.rank;
        if (from[d] != 1 && from[d] != l.shape[in]) return std::nullopt;
        source.push_back(from[d] == 1 && l.shape[in] != 1 ? -1 : static_cast<int>(in));
    }
    return projected(l, from, source);
}

std::optional<TileLayout> reshape_layout(const TileLayout& l, const Shape& to) {
    if (l.shape.elements() != to.elements()) return std::nullopt;
    TileLayout r = l;
    r.shape = to;
    r.bits = {};
    r.odd = {};
    size_t i = l.shape.rank, j = to.rank;
    while (i > 0 || j > 0) {
        if (i > 0 && j > 0 && l.shape[i - 1] == to[j - 1]) {  // the dimension stays, padding and all
            --i, --j;
            r.bits[j] = l.bits[i];
            r.odd[j] = l.odd[i];
            continue;
        }
        const size_t i_end = i, j_end = j;
        int64_t a = 1, b = 1;
        if (i > 0 && l.shape[i - 1] == 1) {
            --i;
        } else if (j > 0 && to[j - 1] == 1) {
            --j;
        } else {
            a = l.shape[--i], b = to[--j];
            while (a != b) (a < b ? a : b) *= a < b ? l.shape[--i] : to[--j];
        }
        int odd_from = 1, odd_to = 1;
        if (!linear_group(l.shape, i, i_end, &l, odd_from) || !linear_group(to, j, j_end, nullptr, odd_to)) return std::nullopt;
        if (odd_from != odd_to) return std::nullopt;
        for (size_t d = j; d < j_end; ++d) {
            r.bits[d] = static_cast<uint8_t>(std::countr_zero(static_cast<uint64_t>(to[d])));
            r.odd[d] = static_cast<uint8_t>(to[d] >> r.bits[d]);
        }
    }
    if (!r.valid()) return std::nullopt;
    return r;
}

int vector_width(const TileLayout& l, int d) {
    int shift = 0;
    for (int e = l.shape.rank - 1; e > d; --e) shift += l.bits[static_cast<size_t>(e)];
    size_t n = 0;
    while (n < l.reg.size() && n < l.bits[static_cast<size_t>(d)] && l.reg[n] == uint64_t{1} << (shift + static_cast<int>(n))) ++n;
    // Every thread must start on a multiple of the vector.
    const auto aligned = [&](uint64_t v) { return (v >> shift & ((uint64_t{1} << n) - 1)) == 0; };
    while (n > 0) {
        bool all = std::all_of(l.lane.begin(), l.lane.end(), aligned) && std::all_of(l.warp.begin(), l.warp.end(), aligned);
        for (size_t r = n; r < l.reg.size(); ++r) all = all && aligned(l.reg[r]);
        if (all) break;
        --n;
    }
    return 1 << n;
}

}  // namespace tegula
