#include "lang/gpu/layout_pieces.h"

#include <bit>

namespace tegula {

namespace {

constexpr uint64_t kAll = ~uint64_t{0};

LayoutPieces of_uniform(const LayoutExpr& e) {
    const LayoutExpr zero = LayoutExpr::make_constant(0);
    const uint64_t bits = e.op == LayoutExpr::constant ? static_cast<uint64_t>(e.value) : kAll;
    return {{e, zero, zero}, {bits, 0, 0}};
}

/// Every part through an operation with a constant that keeps sums of disjoint bits.
template <class Bits>
LayoutPieces through(LayoutPieces p, LayoutExpr::Op op, int64_t by, Bits&& bits) {
    for (size_t k = 0; k < 3; ++k) {
        if (p.part[k].is_constant(0)) continue;
        p.bits[k] = bits(p.bits[k]);
        p.part[k] = p.bits[k] ? LayoutExpr::make(op, std::move(p.part[k]), LayoutExpr::make_constant(by)) : LayoutExpr::make_constant(0);
    }
    return p;
}

LayoutPieces sum(LayoutPieces a, const LayoutPieces& b, LayoutExpr::Op op) {
    for (size_t k = 0; k < 3; ++k) {
        if (b.part[k].is_constant(0)) continue;
        a.bits[k] = op == LayoutExpr::add && (a.bits[k] & b.bits[k]) == 0 ? a.bits[k] | b.bits[k] : kAll;
        a.part[k] = LayoutExpr::make(op, std::move(a.part[k]), b.part[k]);
    }
    return a;
}

std::optional<LayoutPieces> exclusive(LayoutPieces a, const LayoutPieces& b) {
    if (!a.disjoint() || !b.disjoint()) return std::nullopt;
    for (size_t k = 0; k < 3; ++k)
        for (size_t m = 0; m < 3; ++m)
            if (m != k && (a.bits[k] & b.bits[m])) return std::nullopt;
    for (size_t k = 0; k < 3; ++k) {
        a.bits[k] |= b.bits[k];
        a.part[k] = LayoutExpr::make(LayoutExpr::bit_xor, std::move(a.part[k]), b.part[k]);
    }
    return a;
}

/// Coordinate bits of dimension d that some basis flips.
template <class Bases>
uint64_t flipped(const TileLayout& l, const Bases& bases, int d) {
    unsigned shift = 0;
    for (int k = d + 1; k < l.shape.rank; ++k) shift += l.bits[static_cast<size_t>(k)];
    uint64_t out = 0;
    for (const uint64_t v : bases) out |= v >> shift & ((uint64_t{1} << l.bits[static_cast<size_t>(d)]) - 1);
    return out;
}

}  // namespace

std::optional<LayoutPieces> separate(const LayoutExpr& e, std::span<const std::array<uint64_t, 3>> index_bits) {
    if (e.op == LayoutExpr::constant || e.op == LayoutExpr::extent) return of_uniform(e);
    if (e.op == LayoutExpr::index) {
        LayoutPieces p;
        p.bits = index_bits[static_cast<size_t>(e.value)];
        for (size_t k = 0; k < 3; ++k)
            p.part[k] = p.bits[k] ? LayoutExpr::make_index(static_cast<int>(e.value + static_cast<int64_t>(k * index_bits.size())))
                                  : LayoutExpr::make_constant(0);
        return p;
    }
    if (!e.a || !e.b) return std::nullopt;
    auto a = separate(*e.a, index_bits), b = separate(*e.b, index_bits);
    if (!a || !b) return std::nullopt;
    if (a->only_uniform() && b->only_uniform()) return of_uniform(e);
    const bool constant = e.b->op == LayoutExpr::constant;
    const int64_t by = e.b->value;
    const bool power = constant && by > 0 && std::has_single_bit(static_cast<uint64_t>(by));
    const int places = power ? std::countr_zero(static_cast<uint64_t>(by)) : 0;
    switch (e.op) {
        case LayoutExpr::add:
        case LayoutExpr::sub:
            return sum(std::move(*a), *b, e.op);
        case LayoutExpr::bit_xor:
            return exclusive(std::move(*a), *b);
        case LayoutExpr::mul:
            if (!constant) return std::nullopt;
            return through(std::move(*a), e.op, by, [&](uint64_t bits) { return power ? bits << places : kAll; });
        case LayoutExpr::div:
            if (!power || !a->disjoint()) return std::nullopt;
            return through(std::move(*a), e.op, by, [&](uint64_t bits) { return static_cast<uint64_t>(static_cast<int64_t>(bits) >> places); });
        case LayoutExpr::rem:
            if (!power || !a->disjoint()) return std::nullopt;
            return through(std::move(*a), e.op, by, [&](uint64_t bits) { return bits & static_cast<uint64_t>(by - 1); });
        case LayoutExpr::bit_and:
            if (!constant || !a->disjoint()) return std::nullopt;
            return through(std::move(*a), e.op, by, [&](uint64_t bits) { return bits & static_cast<uint64_t>(by); });
        default:
            return std::nullopt;
    }
}

uint64_t register_bits(const TileLayout& l, int d) {
    const auto dim = static_cast<size_t>(d);
    return flipped(l, l.reg, d) | (std::bit_ceil(uint64_t{l.odd[dim]}) - 1) << l.bits[dim];
}

uint64_t thread_bits(const TileLayout& l, int d) { return flipped(l, l.lane, d) | flipped(l, l.warp, d); }

}  // namespace tegula
