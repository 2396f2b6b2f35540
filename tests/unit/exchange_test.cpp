// Shared memory of GPU kernels: the XOR rule of TMA and wgmma, bank conflicts, and the swizzle search against brute force over all choices of
// address bits.
#include <gtest/gtest.h>

#include <bit>
#include <functional>
#include <set>

#include "lang/gf2.h"
#include "lang/gpu/conversion.h"
#include "tests/unit/sample.h"
#include "tests/unit/tile_layout_fixture.h"

namespace tegula {
namespace {

// ---- SharedLayout

TEST(SharedLayout, ChunksAreXoredWithTheRowAsTmaDoes) {
    for (int swizzle : {32, 64, 128}) {
        for (int bytes : {1, 2, 4}) {
            const int cols = 2 * swizzle / bytes, rows = 64;
            const SharedLayout l{Shape{rows, cols}, 1, swizzle, bytes};
            EXPECT_EQ(l.row_bytes(), swizzle);
            EXPECT_EQ(l.panel_bytes(), swizzle * rows);
            EXPECT_EQ(l.bytes(), 2 * swizzle * rows);
            for (int r = 0; r < rows; ++r) {
                for (int c = 0; c < cols; ++c) {
                    const int byte = c * bytes, panel = byte / swizzle, chunk = byte % swizzle / 16;
                    // 128: row mod 8; 64: every second row, mod 4; 32: every fourth row, mod 2.
                    const int twist = r % 8 * swizzle / 128;
                    ASSERT_EQ(l.address({r, c}), panel * swizzle * rows + r * swizzle + (chunk ^ twist) * 16 + byte % 16);
                }
            }
        }
    }
}

TEST(SharedLayout, EveryElementHasItsOwnPlace) {
    for (const Shape& shape : {Shape{64, 64}, Shape{3, 16, 96}, Shape{5, 7}, Shape{2, 3, 8, 40}, Shape{100}, Shape{}}) {
        for (int contiguous : {shape.rank - 1, shape.rank - 2}) {
            if (contiguous < 0) continue;
            for (int bytes : {1, 2, 4, 8}) {
                const SharedLayout l = shared_layout(shape, contiguous, bytes);
                std::set<int64_t> used;
                for (int64_t n = 0; n < shape.elements(); ++n) {
                    TileLayout::Point p{};
                    int64_t rest = n;
                    for (size_t d = shape.rank; d-- > 0; rest /= shape[d]) p[d] = rest % shape[d];
                    const int64_t at = l.address(p);
                    ASSERT_TRUE(at >= 0 && at + bytes <= l.bytes() && at % bytes == 0);
                    ASSERT_TRUE(used.insert(at).second);
                }
            }
        }
    }
}

TEST(SharedLayout, TheWidestLegalSwizzleIsTaken) {
    EXPECT_EQ(shared_layout(Shape{128, 64}, 1, 2).swizzle, 128);
    EXPECT_EQ(shared_layout(Shape{64, 128}, 0, 2).swizzle, 128);
    EXPECT_EQ(shared_layout(Shape{128, 32}, 1, 2).swizzle, 64);
    EXPECT_EQ(shared_layout(Shape{128, 48}, 1, 2).swizzle, 32);
    EXPECT_EQ(shared_layout(Shape{128, 16}, 1, 1).swizzle, 0);
    EXPECT_EQ(shared_layout(Shape{4, 64}, 1, 2).swizzle, 0);  // atoms have 8 rows
    EXPECT_EQ(shared_layout(Shape{8, 5}, 1, 2).row_bytes(), 16);
    EXPECT_EQ(shared_layout(Shape{128, 64}, 1, 2).text(), "contiguous 1 swizzle 128 bytes 2");
}

// ---- Bank conflicts

TEST(BankConflicts, KnownStrides) {
    std::array<int64_t, 32> a;
    const auto stride = [&](int64_t s, int bytes) {
        for (size_t t = 0; t < 32; ++t) a[t] = static_cast<int64_t>(t) * s;
        return bank_conflicts(a, bytes);
    };
    EXPECT_EQ(stride(4, 4), 1);
    EXPECT_EQ(stride(0, 4), 1);  // one word: broadcast
    EXPECT_EQ(stride(2, 2), 1);  // two lanes a word
    EXPECT_EQ(stride(8, 4), 2);
    EXPECT_EQ(stride(128, 4), 32);
    EXPECT_EQ(stride(132, 4), 1);  // one word of padding
    EXPECT_EQ(stride(16, 16), 1);  // quarter warp by quarter warp
    EXPECT_EQ(stride(128, 16), 8);
    EXPECT_EQ(stride(144, 16), 1);
    EXPECT_EQ(stride(8, 8), 1);
    EXPECT_EQ(stride(64, 8), 8);
}

// ---- Exchange

struct Cost {
    int64_t wavefronts = 0, accesses = 0;
    int64_t total() const { return 2 * wavefronts + accesses; }
};

/// Runs one side: its registers, grouped into aligned accesses of `vector` elements, for every warp. Fails when a group is incomplete.
Cost run_side(const Exchange& e, const TileLayout& l, int vector, int bytes) {
    Cost cost;
    const int phases = std::max(1, vector * bytes / 4);
    for (int w = 0; w < l.warps(); ++w) {
        std::vector<bool> done(static_cast<size_t>(l.registers()));
        Cost warp;
        for (int r = 0; r < l.registers(); ++r) {
            if (done[static_cast<size_t>(r)]) continue;
            const int64_t base = e.address(e.number(l.point(r, 0, 0))) / vector;
            std::array<int64_t, 32> address;
            int members = 0;
            for (int s = 0; s < l.registers(); ++s) {
                const int64_t at = e.address(e.number(l.point(s, 0, 0)));
                if (at / vector != base) continue;
                done[static_cast<size_t>(s)] = true;
                ++members;
                for (int t = 0; t < 32; ++t) {
                    const int64_t mine = e.address(e.number(l.point(s, t, w)));
                    EXPECT_LT(mine, e.elements);
                    EXPECT_EQ(mine % vector, at % vector) << "the group lies in another order in another thread";
                    const int64_t first = (mine - at % vector) * bytes;
                    EXPECT_TRUE(members == 1 || address[static_cast<size_t>(t)] == first);
                    address[static_cast<size_t>(t)] = first;
                }
            }
            EXPECT_EQ(members, vector);
            warp.wavefronts += bank_conflicts(address, vector * bytes) * phases;
            ++warp.accesses;
        }
        cost.wavefronts = std::max(cost.wavefronts, warp.wavefronts);
        cost.accesses = std::max(cost.accesses, warp.accesses);
    }
    return cost;
}

Cost run_exchange(const Exchange& e, const TileLayout& from, const TileLayout& to, int bytes) {
    const Cost a = run_side(e, from, e.write_vector, bytes), b = run_side(e, to, e.read_vector, bytes);
    std::set<int64_t> used;
    for (int64_t n = 0; n < e.extents.elements(); ++n) EXPECT_TRUE(used.insert(e.address(n)).second);
    return {a.wavefronts + b.wavefronts, a.accesses + b.accesses};
}

using Vectors = std::vector<uint64_t>;

Vectors threads_of(const TileLayout& l) {
    Vectors v(l.lane.begin(), l.lane.end());
    v.insert(v.end(), l.warp.begin(), l.warp.end());
    return v;
}
Vectors with(Vectors a, const Vectors& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

/// All subspaces of dimension k of GF(2)^n, as reduced row echelon bases.
void subspaces(int n, int k, int top, Vectors& rows, const std::function<void(const Vectors&)>& use) {
    if (static_cast<int>(rows.size()) == k) return use(rows);
    for (int pivot = top - 1; pivot >= 0; --pivot) {
        // Later rows have lower pivots; entries of this row at their pivots are zeroed by keeping only reduced bases.
        for (uint64_t low = 0; low < uint64_t{1} << pivot; ++low) {
            rows.push_back(uint64_t{1} << pivot | low);
            bool reduced = true;
            for (size_t i = 0; i + 1 < rows.size(); ++i) reduced = reduced && !(rows[i] >> pivot & 1);
            if (reduced) subspaces(n, k, pivot, rows, use);
            rows.pop_back();
        }
    }
}

/// The cheapest exchange over every choice of vector address bits (low, at most `most` of them) and of bits above the banks: accesses of one
/// side may take the first w or r of the low vectors when its registers hold them and some address form is zero on its threads.
int64_t brute_force(const TileLayout& from, const TileLayout& to, int bytes) {
    const int n = from.total_bits(), line = std::countr_zero(128u / static_cast<unsigned>(bytes)),
              most = std::countr_zero(16u / static_cast<unsigned>(bytes));
    const Vectors tw = threads_of(from), tr = threads_of(to);
    int64_t best = INT64_MAX;
    const auto side_cost = [&](const TileLayout& l, const Vectors& low, const Vectors& s, size_t vector) {
        const int access = bytes << vector, lanes = 5 - std::max(0, std::countr_zero(static_cast<unsigned>(access)) - 2);
        Vectors footprint(low.begin(), low.begin() + static_cast<std::ptrdiff_t>(vector));
        footprint.insert(footprint.end(), l.lane.begin(), l.lane.begin() + lanes);
        const int64_t wavefronts = int64_t{1} << (5 - lanes + gf2::common_dimension(s, footprint));
        return (int64_t{1} << (l.reg.size() - vector)) * (2 * wavefronts + 1);
    };
    std::vector<bool> from_holds, to_holds;  // by vector: is it a sum of registers?
    for (uint64_t v = 0; v < uint64_t{1} << n; ++v) {
        from_holds.push_back(gf2::Space(from.reg).contains(v));
        to_holds.push_back(gf2::Space(to.reg).contains(v));
    }
    const auto holds = [](const std::vector<bool>& side, const Vectors& low, size_t vector) {
        return std::all_of(low.begin(), low.begin() + static_cast<std::ptrdiff_t>(vector), [&](uint64_t v) { return side[v]; });
    };
    std::array<std::array<int64_t, 5>, 2> at_best{};  // without conflicts
    for (size_t v = 0; v <= static_cast<size_t>(most); ++v) {
        if (v <= from.reg.size()) at_best[0][v] = side_cost(from, Vectors(v), {}, v);
        if (v <= to.reg.size()) at_best[1][v] = side_cost(to, Vectors(v), {}, v);
    }
    const auto consider = [&](const Vectors& s, const Vectors& low) {
        for (size_t w = 0; w <= low.size(); ++w) {
            for (size_t r = 0; r <= low.size(); ++r) {
                if (std::max(w, r) != low.size() || !holds(from_holds, low, w) || !holds(to_holds, low, r)) continue;
                if (at_best[0][w] + at_best[1][r] >= best) continue;
                // Low coordinate i must vanish on s, on the other low vectors and on the threads of the sides that access it.
                bool possible = true;
                for (size_t i = 0; i < low.size(); ++i) {
                    Vectors zero = s;
                    for (size_t j = 0; j < low.size(); ++j) {
                        if (j != i) zero.push_back(low[j]);
                    }
                    if (i < w) zero = with(zero, tw);
                    if (i < r) zero = with(zero, tr);
                    possible = possible && !gf2::Space(zero).contains(low[i]);
                }
                if (possible) best = std::min(best, side_cost(from, low, s, w) + side_cost(to, low, s, r));
            }
        }
    };
    int64_t ideal = INT64_MAX;
    for (size_t w = 0; w <= from.reg.size() && w <= static_cast<size_t>(most); ++w)
        for (size_t r = 0; r <= to.reg.size() && r <= static_cast<size_t>(most); ++r) ideal = std::min(ideal, at_best[0][w] + at_best[1][r]);
    Vectors rows, low;
    const std::function<void(const Vectors&)> longer = [&](const Vectors& s) {
        if (best == ideal || gf2::Space(with(s, low)).dimension() != static_cast<int>(s.size() + low.size())) return;
        consider(s, low);
        if (low.size() == static_cast<size_t>(most)) return;
        for (uint64_t a = 1; a < uint64_t{1} << n; ++a) {
            if (!from_holds[a] && !to_holds[a]) continue;
            low.push_back(a);
            if (holds(from_holds, low, low.size()) || holds(to_holds, low, low.size())) longer(s);
            low.pop_back();
        }
    };
    subspaces(n, std::max(0, n - line), n, rows, longer);
    return best;
}

TEST(Exchange, NothingIsBetterThanTheSwizzleSearch) {
    std::mt19937 rng(6);
    uint64_t number = 0;
    for (int n : {5, 6, 7, 8}) {
        for (int bytes : {1, 2, 4, 8}) {
            if (n == 8 && bytes > 1) continue;
            for (int round = 0; round < (bytes < 4 ? 8 : 24); ++round) {
                const TileLayout padding = padding_of(Shape{1 << n});
                const int copies = n == 8 ? 0 : static_cast<int>(rng() % 4);  // else registers to choose from are too many
                const bool skewed = round % 6 == 2;
                const TileLayout from = random_layout(rng, padding, 0, skewed, copies), to = random_layout(rng, padding, 0, skewed, copies);
                if (!test::is_sampled(number++)) continue;
                const Exchange e = plan_exchange(from, to, bytes * 8);
                const int64_t found = run_exchange(e, from, to, bytes).total(), best = brute_force(from, to, bytes);
                ASSERT_EQ(found, best) << from.text() << "\n" << to.text() << "\nbytes " << bytes;
            }
        }
    }
}

TEST(Exchange, LargeTilesOfUnitVectorsHaveNoConflicts) {
    std::mt19937 rng(7);
    for (const Shape& shape : {Shape{64, 64}, Shape{128, 32}, Shape{16, 8, 32}}) {
        for (int bytes : {1, 2, 4, 8}) {
            for (int round = 0; round < 10; ++round) {
                const TileLayout padding = padding_of(shape);
                const TileLayout from = random_layout(rng, padding, 2, false, round % 2), to = random_layout(rng, padding, 2, false, 0);
                const Exchange e = plan_exchange(from, to, bytes * 8);
                const Cost cost = run_exchange(e, from, to, bytes);
                const int64_t ideal = from.registers() / e.write_vector * std::max(1, e.write_vector * bytes / 4) +
                                      to.registers() / e.read_vector * std::max(1, e.read_vector * bytes / 4);
                ASSERT_EQ(cost.wavefronts, ideal) << from.text() << "\n" << to.text() << "\nbytes " << bytes;
                ASSERT_EQ(e.elements, shape.elements());
            }
        }
    }
}

TEST(Exchange, TransposeOfAFragment) {
    const std::vector<int> rows = {1, 0};
    const TileLayout acc = mma_accumulator(Shape{64, 64}, 4, 1), memory = blocked_layout(Shape{64, 64}, 4, 8, rows);
    const Exchange e = plan_exchange(acc, memory, 16);
    EXPECT_GE(e.write_vector, 2);
    EXPECT_EQ(e.read_vector, 8);
    EXPECT_EQ(run_exchange(e, acc, memory, 2).wavefronts, 16 + 16);
}

TEST(Exchange, OddExtentsArePadded) {
    const std::vector<int> rows = {1, 0}, columns = {0, 1};
    for (const Shape& shape : {Shape{48, 96}, Shape{7, 48}, Shape{20, 33}, Shape{96, 32}, Shape{781, 3}, Shape{3, 5}}) {
        for (int bytes : {1, 2, 4, 8}) {
            for (const auto& [from, to] : {std::pair{blocked_layout(shape, 4, 4, rows), blocked_layout(shape, 4, 4, columns)},
                                           std::pair{mma_accumulator(shape, 4, 1), blocked_layout(shape, 4, 2, rows)}}) {
                const Exchange e = plan_exchange(from, to, bytes * 8);
                Exchange plain = e;
                plain.period = plain.pad = 0;
                plain.elements = e.extents.elements();
                const int64_t padded = run_exchange(e, from, to, bytes).wavefronts;
                EXPECT_LE(padded, run_exchange(plain, from, to, bytes).wavefronts);
                EXPECT_LE(e.elements, 2 * e.extents.elements() + 64);
            }
        }
    }
    // A transpose of 96 x 96 words: unpadded rows would hit one bank in three lanes of four.
    const Exchange e = plan_exchange(blocked_layout(Shape{96, 96}, 4, 1, rows), blocked_layout(Shape{96, 96}, 4, 1, columns), 32);
    EXPECT_GT(e.pad, 0);
    EXPECT_EQ(run_exchange(e, blocked_layout(Shape{96, 96}, 4, 1, rows), blocked_layout(Shape{96, 96}, 4, 1, columns), 4).wavefronts, 2 * 72);
}

/// Against every padding up to a line of banks, after rows, lines and parts of both.
TEST(Exchange, NothingIsBetterThanThePaddingSearch) {
    const std::vector<int> rows = {1, 0}, columns = {0, 1};
    for (const Shape& shape : {Shape{3, 5}, Shape{7, 12}, Shape{20, 33}, Shape{5, 24}, Shape{96, 3}, Shape{7, 48}, Shape{48, 20}, Shape{24, 40}}) {
        for (int bytes : {1, 2, 4}) {
            for (const auto& [from, to] : {std::pair{blocked_layout(shape, 1, 4, rows), blocked_layout(shape, 1, 4, columns)},
                                           std::pair{mma_accumulator(shape, 1, 1), blocked_layout(shape, 1, 2, rows)}}) {
                Exchange e = plan_exchange(from, to, bytes * 8);
                if (!e.columns.empty()) continue;
                const auto wavefronts = [&] {
                    return run_side(e, from, e.write_vector, bytes).wavefronts + run_side(e, to, e.read_vector, bytes).wavefronts;
                };
                const int64_t found = wavefronts();
                const int step = std::max(e.write_vector, e.read_vector), row = static_cast<int>(e.extents[1]), line = 128 / bytes;
                e.elements = INT64_MAX;
                for (int part : {row / 2, row, line / 2, line})
                    for (int times : {1, 2, 3, 4, 6, 8}) {
                        if (part == 0 || part * times % step || part * times > e.extents.elements()) continue;
                        for (e.period = part * times, e.pad = step; e.pad <= line; e.pad += step)
                            ASSERT_LE(found, wavefronts()) << from.text() << "\n"
                                                           << to.text() << "\nbytes " << bytes << " period " << e.period << " pad " << e.pad;
                    }
            }
        }
    }
}

}  // namespace
}  // namespace tegula
