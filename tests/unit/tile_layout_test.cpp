// GPU tile layouts against brute force: every map is evaluated point by point, fragments are compared with the formulas of the PTX ISA, and
// conversions are run on simulated registers.
#include <gtest/gtest.h>

#include <bit>
#include <functional>
#include <map>
#include <set>

#include "lang/gpu/conversion.h"
#include "tests/unit/tile_layout_fixture.h"

namespace tegula {
namespace {

/// Every padded point is held, and by as many (register, lane, warp) as the layout's zero vectors say.
void expect_sound(const TileLayout& l) {
    ASSERT_TRUE(l.valid()) << l.text();
    std::map<Point, int> holders;
    for (int r = 0; r < l.registers(); ++r) {
        for (int t = 0; t < 32; ++t) {
            for (int w = 0; w < l.warps(); ++w) ++holders[l.point(r, t, w)];
        }
    }
    int64_t points = 1;
    for (int d = 0; d < l.shape.rank; ++d) points *= l.padded(d);
    ASSERT_EQ(static_cast<int64_t>(holders.size()), points) << l.text();
    const int copies = 1 << (std::popcount(static_cast<unsigned>(l.lane_copies())) + std::popcount(static_cast<unsigned>(l.warp_copies())) +
                             static_cast<int>(std::count(l.reg.begin(), l.reg.end(), uint64_t{0})));
    for (const auto& [p, n] : holders) {
        ASSERT_EQ(n, copies) << l.text();
        for (size_t d = 0; d < l.shape.rank; ++d) ASSERT_TRUE(p[d] >= 0 && p[d] < l.padded(static_cast<int>(d)));
    }
    const std::optional<TileLayout> again = parse_tile_layout(l.text(), l.shape);
    ASSERT_TRUE(again.has_value()) << l.text();
    ASSERT_EQ(*again, l);
}

TEST(TileLayout, ExtentsArePaddedToASmallOddFactorTimesAPowerOfTwo) {
    const std::map<int64_t, int64_t> expected = {{1, 1},   {2, 2},   {3, 3},   {5, 5},   {7, 7},   {9, 10},  {11, 12},   {12, 12},   {13, 14},
                                                 {15, 16}, {17, 20}, {25, 28}, {33, 40}, {48, 48}, {96, 96}, {127, 128}, {129, 160}, {781, 896}};
    for (const auto& [extent, padded] : expected) {
        const TileLayout l = blocked_layout(Shape{256, extent}, 4, 1, row_order(2));
        EXPECT_EQ(l.padded(1), padded) << extent;
        EXPECT_EQ(l.has_ghosts(), padded != extent);
        expect_sound(l);
    }
}

TEST(TileLayout, OddFactorsOfSmallTilesAreSharedByThreads) {
    struct Case {
        Shape shape;
        int warps, registers;
    };
    const Case cases[] = {{{3}, 4, 1},         {{96}, 4, 1},      {{7, 13}, 4, 1}, {{7, 13}, 1, 4},
                          {{48, 5, 7}, 4, 28}, {{35, 77}, 4, 25}, {{781}, 4, 7},   {{5, 5, 5}, 1, 10}};
    for (const Case& c : cases) {
        const TileLayout l = blocked_layout(c.shape, c.warps, 1, row_order(c.shape.rank));
        EXPECT_EQ(l.registers(), c.registers) << l.text();
        expect_sound(l);
    }
}

TEST(TileLayout, BlockedFillsTheFastestDimensionFirst) {
    for (int64_t rows = 1; rows <= 8; ++rows) {
        for (int64_t cols = 1; cols <= 8; ++cols) {
            for (const std::vector<int>& order : {std::vector<int>{1, 0}, {0, 1}}) {
                for (int warps : {1, 2, 4}) {
                    for (int vector : {1, 2, 4, 8}) expect_sound(blocked_layout(Shape{rows, cols}, warps, vector, order));
                }
            }
        }
    }
}

TEST(TileLayout, BlockedPositionsOfPowerOfTwoTiles) {
    for (int rows : {1, 2, 8, 64}) {
        for (int cols : {4, 16, 128}) {
            for (bool transposed : {false, true}) {
                for (int warps : {1, 4}) {
                    const int vector = 4, fast = transposed ? rows : cols, total = rows * cols;
                    const std::vector<int> order = transposed ? std::vector<int>{0, 1} : std::vector<int>{1, 0};
                    const TileLayout l = blocked_layout(Shape{rows, cols}, warps, vector, order);
                    const int v = std::min(vector, fast);
                    for (int r = 0; r < l.registers(); ++r) {
                        for (int t = 0; t < 32; ++t) {
                            for (int w = 0; w < warps; ++w) {
                                const int position = (r % v + v * t + v * 32 * w + r / v * v * 32 * warps) % total;
                                const Point p = l.point(r, t, w);
                                EXPECT_EQ(p[static_cast<size_t>(order[0])], position % fast);
                                EXPECT_EQ(p[static_cast<size_t>(order[1])], position / fast);
                            }
                        }
                    }
                    EXPECT_EQ(vector_width(l, order[0]), v);
                }
            }
        }
    }
}

TEST(TileLayout, OddExtentsAreSound) {
    for (int64_t a : {1, 3, 5, 7, 12, 48, 96, 127, 781}) {
        for (int64_t b : {1, 3, 7, 12, 48}) {
            for (int warps : {1, 8}) {
                expect_sound(blocked_layout(Shape{a, b}, warps, 4, row_order(2)));
                if (a <= 127) {
                    expect_sound(mma_accumulator(Shape{a, b}, warps, 1));
                    expect_sound(mma_operand_a(Shape{a, b}, 16, 1, warps));
                    expect_sound(mma_operand_b(Shape{a, b}, 8, 1, warps));
                }
            }
        }
    }
    expect_sound(mma_accumulator(Shape{3, 2, 48, 24}, 1, 2));
}

// ---- PTX ISA 8.x, "Warp-level matrix instructions", element i of the fragment of lane t: g = t / 4, c = t % 4.

struct Fragment {
    const char* name;
    int bits, k;
    std::function<int(int, int)> a_row, a_k;  ///< (lane, element)
    std::function<int(int, int)> b_k;
};
const Fragment kFragments[] = {
    {"m16n8k16 16-bit", 16, 16, [](int t, int i) { return t / 4 + ((i < 2 || (4 <= i && i < 6)) ? 0 : 8); },
     [](int t, int i) { return t % 4 * 2 + (i & 1) + (i >= 4 ? 8 : 0); }, [](int t, int i) { return t % 4 * 2 + (i & 1) + (i >= 2 ? 8 : 0); }},
    {"m16n8k32 8-bit", 8, 32, [](int t, int i) { return t / 4 + ((i < 4 || (8 <= i && i < 12)) ? 0 : 8); },
     [](int t, int i) { return t % 4 * 4 + (i & 3) + (i >= 8 ? 16 : 0); }, [](int t, int i) { return t % 4 * 4 + (i & 3) + (i >= 4 ? 16 : 0); }},
    {"m16n8k64 4-bit", 4, 64, [](int t, int i) { return t / 4 + ((i < 8 || (16 <= i && i < 24)) ? 0 : 8); },
     [](int t, int i) { return t % 4 * 8 + (i & 7) + (i >= 16 ? 32 : 0); }, [](int t, int i) { return t % 4 * 8 + (i & 7) + (i >= 8 ? 32 : 0); }},
    {"m16n8k8 tf32", 32, 8, [](int t, int i) { return t / 4 + (i % 2 ? 8 : 0); }, [](int t, int i) { return t % 4 + (i >= 2 ? 4 : 0); },
     [](int t, int i) { return t % 4 + (i ? 4 : 0); }},
    {"m16n8k4 f64", 64, 4, [](int t, int i) { return t / 4 + (i ? 8 : 0); }, [](int t, int) { return t % 4; }, [](int t, int) { return t % 4; }},
};

TEST(TileLayout, OperandFragmentsOfMma) {
    for (const Fragment& f : kFragments) {
        for (int steps : {1, 2, 4}) {
            const TileLayout a = mma_operand_a(Shape{64, f.k * steps}, f.bits, 2, 2), b = mma_operand_b(Shape{f.k * steps, 32}, f.bits, 2, 2);
            const int a_regs = 16 * f.k / 32, b_regs = 8 * f.k / 32;
            ASSERT_EQ(a.registers(), a_regs * steps * 2) << f.name;
            ASSERT_EQ(b.registers(), b_regs * steps * 2) << f.name;
            for (int w = 0; w < 4; ++w) {
                for (int t = 0; t < 32; ++t) {
                    for (int r = 0; r < a.registers(); ++r) {  // in-instruction, k step, m tile of 32 rows (two warps of 16)
                        const int i = r % a_regs, step = r / a_regs % steps, m = r / a_regs / steps;
                        const Point p = a.point(r, t, w);
                        ASSERT_EQ(p[0], f.a_row(t, i) + w % 2 * 16 + m * 32) << f.name << " element " << i;
                        ASSERT_EQ(p[1], f.a_k(t, i) + step * f.k) << f.name << " element " << i;
                    }
                    for (int r = 0; r < b.registers(); ++r) {  // in-instruction, k step, n tile; the second warp column has the upper half
                        const int i = r % b_regs, step = r / b_regs % steps, n = r / b_regs / steps;
                        const Point p = b.point(r, t, w);
                        ASSERT_EQ(p[0], f.b_k(t, i) + step * f.k) << f.name << " element " << i;
                        ASSERT_EQ(p[1], t / 4 + n * 8 + w / 2 * 16) << f.name << " element " << i;
                    }
                }
            }
        }
    }
}

TEST(TileLayout, AccumulatorFragmentOfWgmma) {
    for (int n : {8, 16, 64, 96, 192, 256}) {
        const TileLayout l = mma_accumulator(Shape{64, n}, 4, 1);
        ASSERT_EQ(l.registers(), n / 2);
        for (int w = 0; w < 4; ++w) {
            for (int t = 0; t < 32; ++t) {
                for (int i = 0; i < l.registers(); ++i) {
                    const Point p = l.point(i, t, w);
                    ASSERT_EQ(p[0], 16 * w + t / 4 + 8 * (i / 2 % 2));
                    ASSERT_EQ(p[1], 8 * (i / 4) + 2 * (t % 4) + i % 2);
                }
            }
        }
    }
    const TileLayout two_groups = mma_accumulator(Shape{256, 128}, 8, 1);  // warp bit 2: the next 64 rows; then registers
    EXPECT_EQ(two_groups.point(0, 0, 4), (Point{64, 0}));
    EXPECT_EQ(two_groups.point(64, 0, 0), (Point{128, 0}));
    const TileLayout beside = mma_accumulator(Shape{64, 128}, 4, 2);  // warp bit 2: the right half
    EXPECT_EQ(beside.point(0, 0, 4), (Point{0, 64}));
    EXPECT_EQ(mma_accumulator(Shape{192, 64}, 4, 1).point(32, 0, 0), (Point{64, 0}));  // 3 * 64 rows: odd digits above all bits
}

TEST(TileLayout, RowsOfTensorMemory) {
    // Warp w reads lanes 32 (w % 4) .. + 31 of some block of 128 rows, and consecutive registers are consecutive columns.
    for (const int64_t rows : {128, 256, 384})
        for (const int64_t columns : {16, 48, 192, 256})
            for (const int warps : {4, 8, 16}) {
                const TileLayout l = tensor_memory_rows(Shape{rows, columns}, warps);
                expect_sound(l);
                EXPECT_FALSE(l.has_ghosts() || l.lane_copies() || l.warp_copies()) << l.text();
                for (int w = 0; w < warps; ++w)
                    for (int t = 0; t < 32; ++t)
                        for (int r = 0; r < l.registers(); ++r) {
                            const Point p = l.point(r, t, w);
                            ASSERT_EQ(p[0] % 128, w % 4 * 32 + t) << l.text();
                            ASSERT_EQ(p[1] - l.point(r & ~1, t, w)[1], r % 2) << l.text();
                        }
            }
}

TEST(TileLayout, FindRegisterInvertsPoint) {
    for (const TileLayout& l :
         {mma_accumulator(Shape{48, 96}, 1, 2), mma_operand_a(Shape{20, 40}, 16, 2, 2), blocked_layout(Shape{7, 12}, 4, 2, row_order(2))}) {
        for (int w = 0; w < l.warps(); ++w) {
            for (int t = 0; t < 32; ++t) {
                std::set<Point> held;
                for (int r = 0; r < l.registers(); ++r) {
                    held.insert(l.point(r, t, w));
                    ASSERT_EQ(l.find_register(l.point(r, t, w), t, w), r);
                }
                for (int64_t i = 0; i < l.padded(0); ++i) {
                    for (int64_t j = 0; j < l.padded(1); ++j) ASSERT_EQ(l.find_register({i, j}, t, w) >= 0, held.contains({i, j}));
                }
            }
        }
    }
    EXPECT_EQ(blocked_layout(Shape{8}, 1, 1, row_order(1)).find_register({8}, 0, 0), -1);
}

TEST(TileLayout, TextNamesDimensionAndCoordinate) {
    const std::string text = "[3*16, 8] reg 1:1 0:8 lane 1:2 1:4 0:1 0:2 0:4 warp 0";
    const TileLayout l = mma_accumulator(Shape{48, 8}, 1, 1);
    EXPECT_EQ(l.text() + " 0", text);
    EXPECT_TRUE(parse_tile_layout(text, Shape{48, 8}).has_value());
    for (const char* bad : {"", "[3*16, 8]", "[3*16, 8] reg lane 0 0 0 0 0 warp", "[3*16, 8] reg 1:1 0:8 lane 1:2 1:4 0:1 0:2 warp 0",
                            "[3*16, 8] reg 1:1 0:8 lane 1:2 1:4 0:1 0:2 0:4 warp 0:4", "[3*16, 8] reg 1:1 0:16 lane 1:2 1:4 0:1 0:2 0:4 warp 0",
                            "[2*16, 8] reg 1:1 0:8 lane 1:2 1:4 0:1 0:2 0:4 warp 0", "[3*16] reg 1:1 0:8 lane 1:2 1:4 0:1 0:2 0:4 warp 0",
                            "[3*16, 8] reg 1:1 0:8 lane 1:2 1:4 0:1 0:2 0:4 warp 0 x", "[3*16, 8] reg 1:1 2:8 lane 1:2 1:4 0:1 0:2 0:4 warp 0"}) {
        EXPECT_FALSE(parse_tile_layout(bad, Shape{48, 8}).has_value()) << bad;
    }
}

// ---- Random layouts

std::set<Point> held_inside(const TileLayout& l, int t, int w) {
    std::set<Point> r;
    for (int i = 0; i < l.registers(); ++i) {
        if (l.inside(l.point(i, t, w))) r.insert(l.point(i, t, w));
    }
    return r;
}

TEST(TileLayout, PermutedTilesStayInTheirThreads) {
    std::mt19937 rng(1);
    for (const Shape& shape : {Shape{4, 8, 16}, Shape{3, 12, 10}, Shape{1, 7, 64}}) {
        std::vector<int64_t> axes = {0, 1, 2};
        do {
            const TileLayout l = random_layout(rng, padding_of(shape), 1, true, static_cast<int>(rng() % 3));
            expect_sound(l);
            const TileLayout p = permute_layout(l, axes);
            expect_sound(p);
            for (int t = 0; t < 32; ++t) {
                std::set<Point> expected;
                for (const Point& at : held_inside(l, t, 1)) {
                    expected.insert({at[static_cast<size_t>(axes[0])], at[static_cast<size_t>(axes[1])], at[static_cast<size_t>(axes[2])]});
                }
                ASSERT_EQ(held_inside(p, t, 1), expected);
            }
        } while (std::next_permutation(axes.begin(), axes.end()));
    }
}

TEST(TileLayout, ReducedTilesAreWhereTheirElementsWere) {
    std::mt19937 rng(2);
    for (const Shape& shape : {Shape{4, 8, 16}, Shape{3, 12, 10}, Shape{1, 7, 64}, Shape{2, 2, 2}}) {
        for (int axis = 0; axis < 3; ++axis) {
            for (int round = 0; round < 20; ++round) {
                const TileLayout l = random_layout(rng, padding_of(shape), 2, false, static_cast<int>(rng() % 3));
                const TileLayout r = reduce_layout(l, axis);
                expect_sound(r);
                for (int t = 0; t < 32; ++t) {
                    std::set<Point> expected;
                    for (Point at : held_inside(l, t, 3)) {
                        std::copy(at.begin() + axis + 1, at.end(), at.begin() + axis);
                        expected.insert(at);
                    }
                    ASSERT_EQ(held_inside(r, t, 3), expected);
                }
                expect_sound(reduce_layout(random_layout(rng, padding_of(shape), 2, true, 0), axis));
            }
        }
    }
    const TileLayout scalar = reduce_layout(blocked_layout(Shape{7}, 4, 1, row_order(1)), 0);
    EXPECT_EQ(scalar.registers(), 1);
    EXPECT_EQ(scalar.lane_copies(), 31);
    EXPECT_EQ(scalar.warp_copies(), 3);
}

TEST(TileLayout, BroadcastSourcesAreInTheThreadsThatNeedThem) {
    std::mt19937 rng(3);
    const Shape to{4, 12, 16};
    int found = 0;
    for (const Shape& from : {Shape{4, 12, 16}, Shape{4, 1, 16}, Shape{1, 12, 1}, Shape{12, 16}, Shape{16}, Shape{1, 1}, Shape{}}) {
        for (int round = 0; round < 30; ++round) {
            const TileLayout l = random_layout(rng, padding_of(to), 2, round % 3 == 0, static_cast<int>(rng() % 3));
            const std::optional<TileLayout> s = broadcast_source_layout(l, from);
            ASSERT_TRUE(s.has_value() || round % 3 == 0);
            if (!s) continue;
            ++found;
            expect_sound(*s);
            EXPECT_EQ(s->shape, from);
            for (int r = 0; r < l.registers(); ++r) {
                for (int t = 0; t < 32; ++t) {
                    const Point p = l.point(r, t, 2);
                    Point q{};
                    for (size_t d = 0; d < from.rank; ++d) q[d] = from[d] == 1 ? 0 : p[d + to.rank - from.rank];
                    ASSERT_TRUE(!l.inside(p) || s->find_register(q, t, 2) >= 0) << l.text();
                }
            }
        }
    }
    EXPECT_GT(found, 140);
    EXPECT_FALSE(broadcast_source_layout(padding_of(Shape{4, 8}), Shape{2, 8}).has_value());
    EXPECT_FALSE(broadcast_source_layout(padding_of(Shape{8}), Shape{1, 8}).has_value());
}

TEST(TileLayout, ReshapedTilesKeepTheirRegisters) {
    std::mt19937 rng(4);
    struct Case {
        Shape from, to;
        bool possible;
    };
    const Case cases[] = {
        {{4, 8, 16}, {512}, true},
        {{512}, {4, 8, 16}, true},
        {{4, 8, 16}, {16, 32}, true},
        {{4, 8, 16}, {4, 2, 4, 16}, true},
        {{3, 8}, {24}, true},
        {{24}, {3, 8}, true},
        {{8, 3}, {24}, false},
        {{24}, {6, 4}, true},
        {{6, 4}, {24}, true},
        {{781, 4}, {781, 2, 2}, true},
        {{781}, {11, 71}, false},
        {{13, 4}, {13, 1, 4, 1}, true},
        {{1, 13, 1, 4}, {13, 4}, true},
        {{2, 3, 4}, {2, 12}, true},
        {{2, 3, 4}, {6, 4}, false},
        {{1}, {}, true},
        {{}, {1, 1}, true},
        {{9}, {9, 1}, true},
        {{9}, {3, 3}, false},
        {{4, 1, 1, 8}, {2, 16}, true},
    };
    for (const Case& c : cases) {
        for (int round = 0; round < 5; ++round) {
            const TileLayout l = random_layout(rng, padding_of(c.from), 1, true, 1);
            const std::optional<TileLayout> r = reshape_layout(l, c.to);
            ASSERT_EQ(r.has_value(), c.possible) << to_string(c.from) << " " << to_string(c.to);
            if (!r) continue;
            expect_sound(*r);
            ASSERT_EQ(r->registers(), l.registers());
            for (int i = 0; i < l.registers(); ++i) {
                for (int t = 0; t < 32; ++t) {
                    const Point p = l.point(i, t, 1), q = r->point(i, t, 1);
                    ASSERT_EQ(l.inside(p), r->inside(q));
                    ASSERT_TRUE(!l.inside(p) || row_major(c.from, p) == row_major(c.to, q));
                }
            }
        }
    }
    EXPECT_FALSE(reshape_layout(mma_accumulator(Shape{1, 8}, 1, 1), Shape{8}).has_value());  // 15 ghost rows
    EXPECT_TRUE(reshape_layout(mma_accumulator(Shape{1, 8}, 1, 1), Shape{1, 8, 1}).has_value());
}

// ---- Conversions, run on registers: value = row-major number of the element, ghosts -1.

using Registers = std::vector<int64_t>;  ///< [warp][lane][register]

Registers filled(const TileLayout& l) {
    Registers v;
    for (int w = 0; w < l.warps(); ++w) {
        for (int t = 0; t < 32; ++t) {
            for (int r = 0; r < l.registers(); ++r) v.push_back(l.inside(l.point(r, t, w)) ? row_major(l.shape, l.point(r, t, w)) : -1);
        }
    }
    return v;
}

int xor_of(std::span<const int> columns, int x) {
    int r = 0;
    for (size_t b = 0; b < columns.size(); ++b) r ^= x >> b & 1 ? columns[b] : 0;
    return r;
}

Registers converted(const Conversion& c, const TileLayout& from, const TileLayout& to, const Registers& in) {
    Registers out(static_cast<size_t>(to.warps() * 32 * to.registers()), -2);
    const auto at = [](const TileLayout& l, int w, int t, int r) { return static_cast<size_t>((w * 32 + t) * l.registers() + r); };
    for (int w = 0; w < to.warps(); ++w) {
        for (int t = 0; t < 32; ++t) {
            if (c.kind == Conversion::registers) {
                for (int r = 0; r < to.registers(); ++r) out[at(to, w, t, r)] = in[at(from, w, t, c.rename[static_cast<size_t>(r)])];
            }
            for (const Conversion::Round& round : c.rounds) {
                const int giver = round.lane ^ xor_of(c.lane_map, t);
                const int give = round.give ^ xor_of(c.give_thread, giver | w << 5);
                out[at(to, w, t, round.keep ^ xor_of(c.keep_lane, t))] = in[at(from, w, giver, give)];
            }
        }
    }
    return out;
}

void expect_converts(const TileLayout& from, const TileLayout& to, const Conversion& c) {
    const Registers got = converted(c, from, to, filled(from)), wanted = filled(to);
    for (size_t i = 0; i < got.size(); ++i) {
        ASSERT_TRUE(wanted[i] < 0 || got[i] == wanted[i]) << from.text() << "\n" << to.text();
    }
}

TEST(Conversion, PlansMoveEveryElement) {
    std::mt19937 rng(5);
    std::map<int, int> kinds;
    int selects_only = 0;
    for (const Shape& shape : {Shape{16, 32}, Shape{8, 8}, Shape{128}, Shape{3, 64}, Shape{7, 48}, Shape{4}, Shape{1}}) {
        for (int round = 0; round < 400; ++round) {
            const TileLayout padding = padding_of(shape);
            const int warp_bits = static_cast<int>(rng() % 3);
            const TileLayout from = random_layout(rng, padding, warp_bits, rng() % 4 == 0, static_cast<int>(rng() % 4));
            TileLayout to = from;  // a few swaps away
            std::vector<uint64_t*> vectors;
            for (uint64_t& v : to.reg) vectors.push_back(&v);
            for (uint64_t& v : to.lane) vectors.push_back(&v);
            if (round % 5 == 0) {
                for (uint64_t& v : to.warp) vectors.push_back(&v);
            }
            for (uint64_t k = 0, n = rng() % 4; k < n; ++k) std::swap(*vectors[rng() % vectors.size()], *vectors[rng() % vectors.size()]);
            to.reg.erase(std::remove(to.reg.begin(), to.reg.end(), uint64_t{0}), to.reg.end());
            if (round % 7 == 0) to = random_layout(rng, padding, warp_bits, false, 0);
            ASSERT_TRUE(to.valid());
            const Conversion c = plan_conversion(from, to);
            ++kinds[c.kind];
            selects_only += c.kind == Conversion::shuffle && c.shuffles == 0;
            ASSERT_EQ(c.kind == Conversion::none, from == to);
            if (c.kind == Conversion::registers || c.kind == Conversion::shuffle) expect_converts(from, to, c);
        }
    }
    EXPECT_GT(kinds[Conversion::registers], 40);
    EXPECT_GT(kinds[Conversion::shuffle], 300);
    EXPECT_GT(kinds[Conversion::shared], 100);
    EXPECT_GT(selects_only, 20);
}

TEST(Conversion, KnownCases) {
    const Shape s{16, 16};
    // The accumulator of one product is the operand of the next: 16-bit fragments agree lane by lane.
    EXPECT_EQ(mma_accumulator(s, 1, 1), mma_operand_a(s, 16, 1, 1));
    EXPECT_EQ(plan_conversion(mma_accumulator(Shape{64, 128}, 4, 1), mma_operand_a(Shape{64, 128}, 16, 4, 1)).kind, Conversion::none);
    EXPECT_EQ(plan_conversion(mma_accumulator(Shape{128, 64}, 4, 1), mma_operand_a(Shape{128, 64}, 16, 4, 1)).kind, Conversion::none);
    EXPECT_NE(plan_conversion(mma_accumulator(Shape{16, 32}, 1, 1), mma_operand_a(Shape{16, 32}, 8, 1, 1)).kind, Conversion::registers);
    // Ghosts constrain nothing: [5, 4] padded to 16 rows of a fragment or not, thread 0's registers are what counts.
    const TileLayout spread = blocked_layout(Shape{48}, 2, 1, row_order(1));
    ASSERT_EQ(spread.registers(), 1);
    TileLayout wide = spread;  // 3 * 16 in three registers for 64 = 2^6 in one: other threads hold the elements
    wide.odd[0] = 3;
    wide.bits[0] = 4;
    wide.lane = {1, 2, 4, 8, 0};
    wide.warp = {0};
    ASSERT_TRUE(wide.valid());
    EXPECT_EQ(plan_conversion(wide, wide).kind, Conversion::none);
    EXPECT_EQ(plan_conversion(wide, spread).kind, Conversion::shared);
}

}  // namespace
}  // namespace tegula
