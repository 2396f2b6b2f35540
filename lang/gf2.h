// Small linear algebra over GF(2) for the GPU layouts: vectors are the bits of a uint64_t, addition is XOR.
#pragma once
#include <bit>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

namespace tegula::gf2 {

/// XOR of the columns of the set bits of `x`.
template <class Columns>
auto combine(const Columns& columns, uint64_t x) {
    std::decay_t<decltype(columns[0])> r{};
    for (; x; x &= x - 1) r ^= columns[static_cast<size_t>(std::countr_zero(x))];
    return r;
}

/// A subspace, grown vector by vector. Remembers how every vector combines from the inserted ones.
class Space {
public:
    Space() = default;
    explicit Space(std::span<const uint64_t> vectors) { insert(vectors); }
    /// False when `v` lies in the space already.
    bool insert(uint64_t v) {
        uint64_t from = 0;
        reduce(v, from);
        const size_t number = inserted_++;
        if (v == 0) return false;
        rows_.push_back({v, from | uint64_t{1} << (number & 63)});
        return true;
    }
    void insert(std::span<const uint64_t> vectors) {
        for (uint64_t v : vectors) insert(v);
    }
    bool contains(uint64_t v) const {
        uint64_t from = 0;
        reduce(v, from);
        return v == 0;
    }
    int dimension() const { return static_cast<int>(rows_.size()); }
    /// Which inserted vectors (bit n: the n-th insertion, at most 64) combine to `v`; false when `v` is outside.
    bool solve(uint64_t v, uint64_t& from) const {
        from = 0;
        reduce(v, from);
        return v == 0;
    }

private:
    struct Row {
        uint64_t v, from;
    };
    void reduce(uint64_t& v, uint64_t& from) const {
        for (const Row& r : rows_) {
            if (v & std::bit_floor(r.v)) {
                v ^= r.v;
                from ^= r.from;
            }
        }
    }
    std::vector<Row> rows_;
    size_t inserted_ = 0;
};

/// dim(a intersect b).
inline int common_dimension(const std::vector<uint64_t>& a, const std::vector<uint64_t>& b) {
    Space sum(a);
    const int da = sum.dimension(), db = Space(b).dimension();
    sum.insert(b);
    return da + db - sum.dimension();
}

}  // namespace tegula::gf2
