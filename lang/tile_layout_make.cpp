// Constructors of TileLayout: blocked layouts for memory access, and the register fragments of the tensor-core instructions (PTX ISA,
// "Matrix fragments for mma.m16n8k*", and the D and A fragments of wgmma, which are the same maps with four warps along M).
#include <algorithm>
#include <bit>

#include "lang/check.h"
#include "lang/tile_layout.h"

namespace tegula {

namespace {

int log2_floor(int64_t v) { return static_cast<int>(std::bit_width(static_cast<uint64_t>(v))) - 1; }

/// The smallest odd << bits >= extent with odd in {1, 3, 5, 7} and bits >= least.
void pad(TileLayout& l, int d, int least) {
    const int64_t extent = l.shape[static_cast<size_t>(d)];
    int64_t best = INT64_MAX;
    for (int odd = 1; odd <= 7; odd += 2) {
        int bits = least;
        while (int64_t{odd} << bits < extent) ++bits;
        if (int64_t{odd} << bits >= best) continue;
        best = int64_t{odd} << bits;
        l.odd[static_cast<size_t>(d)] = static_cast<uint8_t>(odd);
        l.bits[static_cast<size_t>(d)] = static_cast<uint8_t>(bits);
    }
}

/// What a thread of 2^threads holds, where every coordinate bit may be a thread's.
int64_t held(const TileLayout& l, int threads) {
    int64_t odd = 1;
    int bits = 0;
    for (size_t d = 0; d < l.shape.rank; ++d) odd *= l.odd[d], bits += l.bits[d];
    return odd << std::max(bits - threads, 0);
}

/// Lets threads share odd factors where that leaves each of them fewer elements.
void pad_to_threads(TileLayout& l, int threads) {
    for (size_t d = 0; d < l.shape.rank; ++d) {
        if (l.odd[d] == 1) continue;
        TileLayout wider = l;
        wider.bits[d] = static_cast<uint8_t>(l.bits[d] + std::bit_width(static_cast<unsigned>(l.odd[d])));
        wider.odd[d] = 1;
        if (held(wider, threads) < held(l, threads)) l = wider;
    }
}

/// Deals the coordinate bits of a padded shape out to registers, lanes and warps.
class Dealer {
public:
    explicit Dealer(const TileLayout& l) : l_(l) {
        int shift = 0;
        for (int d = l.shape.rank - 1; d >= 0; --d) {
            shift_[static_cast<size_t>(d)] = shift;
            shift += l.bits[static_cast<size_t>(d)];
        }
    }
    /// Basis vector of coordinate bit `bit` of dimension d.
    uint64_t basis(int d, int bit) const {
        TEGULA_CHECK(bit < l_.bits[static_cast<size_t>(d)]);
        return uint64_t{1} << (shift_[static_cast<size_t>(d)] + bit);
    }
    void registers(TileLayout& l, int d, int from, int to) const {
        for (int b = from; b < to; ++b) l.reg.push_back(basis(d, b));
    }
    void batch(TileLayout& l) const {
        for (int d = l.shape.rank - 3; d >= 0; --d) registers(l, d, 0, l.bits[static_cast<size_t>(d)]);
    }

private:
    const TileLayout& l_;
    std::array<int, kMaxRank> shift_{};
};

TileLayout padded_product(const Shape& shape, int row_bits, int column_bits) {
    TEGULA_CHECK(shape.rank >= 2);
    TileLayout l;
    l.shape = shape;
    for (int d = 0; d < shape.rank; ++d) pad(l, d, d == shape.rank - 2 ? row_bits : d == shape.rank - 1 ? column_bits : 0);
    return l;
}

/// Elements of a 32-bit register along K, as a power of two.
int packed_bits(int elem_bits) {
    TEGULA_CHECK(elem_bits >= 1 && elem_bits <= 64);
    return elem_bits > 16 ? 0 : log2_floor(32 / static_cast<int64_t>(std::bit_ceil(static_cast<unsigned>(elem_bits))));
}
/// K of one instruction, as a power of two: 256 bits; 4 for 64-bit elements.
int step_bits(int elem_bits) { return elem_bits > 32 ? 2 : packed_bits(elem_bits) + 3; }

}  // namespace

TileLayout blocked_layout(const Shape& shape, int warps, int vector, std::span<const int> order) {
    TEGULA_CHECK(order.size() == shape.rank && warps >= 1 && std::has_single_bit(static_cast<unsigned>(warps)));
    TileLayout l;
    l.shape = shape;
    for (int d = 0; d < shape.rank; ++d) pad(l, d, 0);
    pad_to_threads(l, 5 + log2_floor(warps));
    const Dealer deal(l);
    std::vector<uint64_t> left;
    for (int d : order) {
        for (int b = 0; b < l.bits[static_cast<size_t>(d)]; ++b) left.push_back(deal.basis(d, b));
    }
    size_t at = 0;
    const auto next = [&] { return at < left.size() ? left[at++] : 0; };
    const int per_thread = shape.rank ? std::min<int>(log2_floor(std::max(vector, 1)), l.bits[static_cast<size_t>(order[0])]) : 0;
    for (int b = 0; b < per_thread; ++b) l.reg.push_back(next());
    for (uint64_t& v : l.lane) v = next();
    l.warp.resize(static_cast<size_t>(log2_floor(warps)));
    for (uint64_t& v : l.warp) v = next();
    while (at < left.size()) l.reg.push_back(next());
    return l;
}

TileLayout mma_accumulator(const Shape& shape, int warps_m, int warps_n) {
    const int wm = log2_floor(warps_m), wn = log2_floor(warps_n);
    TileLayout l = padded_product(shape, 4 + wm, 3 + wn);
    const int m = shape.rank - 2, n = shape.rank - 1;
    const int m_bits = l.bits[static_cast<size_t>(m)], n_bits = l.bits[static_cast<size_t>(n)];
    const Dealer deal(l);
    l.lane = {deal.basis(n, 1), deal.basis(n, 2), deal.basis(m, 0), deal.basis(m, 1), deal.basis(m, 2)};
    l.reg = {deal.basis(n, 0), deal.basis(m, 3)};
    deal.registers(l, n, 3, n_bits - wn);
    deal.registers(l, m, 4 + wm, m_bits);
    deal.batch(l);
    for (int b = 0; b < wm; ++b) l.warp.push_back(deal.basis(m, 4 + b));
    for (int b = 0; b < wn; ++b) l.warp.push_back(deal.basis(n, n_bits - wn + b));
    return l;
}

TileLayout tensor_memory_rows(const Shape& shape, int warps) {
    TEGULA_CHECK(shape.rank == 2 && shape[0] % 128 == 0 && warps >= 4);
    TileLayout l = padded_product(shape, 7, 0);
    const int w = log2_floor(warps), wm = std::min<int>(w, l.bits[0] - 5), wn = w - wm;
    if (l.bits[1] < wn) pad(l, 1, wn);
    const Dealer deal(l);
    for (size_t b = 0; b < l.lane.size(); ++b) l.lane[b] = deal.basis(0, static_cast<int>(b));
    deal.registers(l, 1, 0, l.bits[1] - wn);
    deal.registers(l, 0, 5 + wm, l.bits[0]);
    for (int b = 0; b < wm; ++b) l.warp.push_back(deal.basis(0, 5 + b));
    for (int b = 0; b < wn; ++b) l.warp.push_back(deal.basis(1, l.bits[1] - wn + b));
    return l;
}

TileLayout mma_operand_a(const Shape& shape, int elem_bits, int warps_m, int warps_n) {
    const int wm = log2_floor(warps_m), wn = log2_floor(warps_n), p = packed_bits(elem_bits);
    TileLayout l = padded_product(shape, 4 + wm, step_bits(elem_bits));
    const int m = shape.rank - 2, k = shape.rank - 1;
    const Dealer deal(l);
    l.lane = {deal.basis(k, p), deal.basis(k, p + 1), deal.basis(m, 0), deal.basis(m, 1), deal.basis(m, 2)};
    deal.registers(l, k, 0, p);
    l.reg.push_back(deal.basis(m, 3));
    deal.registers(l, k, p + 2, l.bits[static_cast<size_t>(k)]);
    deal.registers(l, m, 4 + wm, l.bits[static_cast<size_t>(m)]);
    deal.batch(l);
    for (int b = 0; b < wm; ++b) l.warp.push_back(deal.basis(m, 4 + b));
    l.warp.resize(static_cast<size_t>(wm + wn), 0);
    return l;
}

TileLayout mma_operand_b(const Shape& shape, int elem_bits, int warps_m, int warps_n) {
    const int wm = log2_floor(warps_m), wn = log2_floor(warps_n), p = packed_bits(elem_bits);
    TileLayout l = padded_product(shape, step_bits(elem_bits), 3 + wn);
    const int k = shape.rank - 2, n = shape.rank - 1, n_bits = l.bits[static_cast<size_t>(n)];
    const Dealer deal(l);
    l.lane = {deal.basis(k, p), deal.basis(k, p + 1), deal.basis(n, 0), deal.basis(n, 1), deal.basis(n, 2)};
    deal.registers(l, k, 0, p);
    deal.registers(l, k, p + 2, l.bits[static_cast<size_t>(k)]);
    deal.registers(l, n, 3, n_bits - wn);
    deal.batch(l);
    l.warp.assign(static_cast<size_t>(wm), 0);
    for (int b = 0; b < wn; ++b) l.warp.push_back(deal.basis(n, n_bits - wn + b));
    return l;
}

}  // namespace tegula
