// Layouts against brute force and against published tables (the interleavings and permutations of BitBLAS and Ladder, CuTe's Swizzle).
// Nothing here is taken from the code's own output: expectations are typed in or computed by visiting every point.
#include "lang/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>

#include "lang/layout_text.h"

namespace tegula {
namespace {

using E = LayoutExpr;
using Extents = std::vector<int64_t>;
using Point = std::vector<int64_t>;

struct X {  // expressions that read as formulas
    E e;
    X(int64_t v) : e(E::make_constant(v)) {}
    X(E v) : e(std::move(v)) {}
};
X operator+(const X& a, const X& b) { return E::make(E::add, a.e, b.e); }
X operator-(const X& a, const X& b) { return E::make(E::sub, a.e, b.e); }
X operator*(const X& a, const X& b) { return E::make(E::mul, a.e, b.e); }
X operator/(const X& a, const X& b) { return E::make(E::div, a.e, b.e); }
X operator%(const X& a, const X& b) { return E::make(E::rem, a.e, b.e); }
X operator^(const X& a, const X& b) { return E::make(E::bit_xor, a.e, b.e); }
const X i{E::make_index(0)}, j{E::make_index(1)}, k{E::make_index(2)};
const X m0{E::make_extent(0)}, m1{E::make_extent(1)};

Layout layout(int rank, std::vector<X> members) {
    std::vector<E> exprs;
    for (X& m : members) exprs.push_back(m.e);
    return Layout::from_exprs("test", rank, exprs);
}

void each_point(const Extents& extents, const std::function<void(const Point&)>& f) {
    Point p(extents.size(), 0);
    for (int64_t e : extents) {
        if (e == 0) return;
    }
    for (;;) {
        f(p);
        size_t d = p.size();
        while (d > 0 && ++p[d - 1] == extents[d - 1]) p[--d] = 0;
        if (d == 0) return;
    }
}

/// Independent injectivity: physical tuples in a map. Also checks a refutation by evaluating it.
void check_against_brute_force(const Layout& l, const Extents& extents) {
    SCOPED_TRACE(l.text());
    ASSERT_EQ(l.problem(), "");
    std::map<Point, Point> seen;
    bool injective = true, negative = false;
    const std::vector<E> members = l.physical(static_cast<int>(extents.size()));
    Point top(members.size(), 0);
    each_point(extents, [&](const Point& p) {
        Point physical;
        for (const E& m : members) physical.push_back(m.eval(p, extents));
        for (size_t d = 0; d < physical.size(); ++d) {
            negative = negative || physical[d] < 0;
            top[d] = std::max(top[d], physical[d] + 1);
        }
        injective = seen.emplace(physical, p).second && injective;
    });
    const LayoutCheck c = l.check(extents);
    ASSERT_NE(c.result, Injectivity::unknown) << c.reason;
    EXPECT_EQ(c.result == Injectivity::proved, injective && !negative);
    if (!negative) {
        EXPECT_EQ(l.physical_extents(extents), top);
    }
    if (c.result == Injectivity::refuted && c.conflict.second.empty()) {
        EXPECT_TRUE(negative);
        bool found = false;
        for (const E& m : members) found = found || m.eval(c.conflict.first, extents) == c.conflict.offset;
        EXPECT_TRUE(found && c.conflict.offset < 0);
    } else if (c.result == Injectivity::refuted) {
        EXPECT_NE(c.conflict.first, c.conflict.second);
        EXPECT_LT(c.conflict.first, c.conflict.second);
        EXPECT_EQ(l.offset(c.conflict.first, extents), c.conflict.offset);
        EXPECT_EQ(l.offset(c.conflict.second, extents), c.conflict.offset);
    }
}

/// The symbolic inverse sends every point's physical tuple back to the point.
void check_inverse(const Layout& l, const Extents& extents, bool for_all_extents) {
    SCOPED_TRACE(l.text());
    std::string why;
    const auto inverse = for_all_extents ? Layout::inverse(l, &why) : Layout::inverse(l, extents, &why);
    ASSERT_TRUE(inverse) << why;
    SCOPED_TRACE(inverse->text());
    const std::vector<E> forward = l.physical(static_cast<int>(extents.size()));
    const Extents physical_extents = l.physical_extents(extents);
    const std::vector<E> back = inverse->physical(static_cast<int>(forward.size()));
    ASSERT_EQ(back.size(), extents.size());
    each_point(extents, [&](const Point& p) {
        Point physical, again;
        for (const E& m : forward) physical.push_back(m.eval(p, extents));
        for (const E& m : back) again.push_back(m.eval(physical, physical_extents));
        ASSERT_EQ(again, p);
    });
}

const std::vector<Extents> kMatrices = {{1, 1}, {3, 7}, {7, 3}, {12, 17}, {16, 16}, {17, 12}, {32, 8}, {1, 17}, {33, 64}};

/// Every map from `in` to `out` bits.
void each_map(int in, int out, const std::function<void(const LinearLayout&)>& use) {
    LinearLayout l{in, out, std::vector<uint64_t>(static_cast<size_t>(in))};
    for (uint64_t code = 0; code < uint64_t{1} << (in * out); ++code) {
        for (int c = 0; c < in; ++c) l.columns[static_cast<size_t>(c)] = code >> (c * out) & ((uint64_t{1} << out) - 1);
        use(l);
    }
}
uint64_t points(int bits) { return uint64_t{1} << bits; }

/// in, out of one map and of another whose every pair can be visited.
void each_size(bool chained, const std::function<void(int, int, int, int)>& use) {
    for (int a = 0; a <= 4; ++a)
        for (int b = 0; b <= 4; ++b)
            for (int c = chained ? b : 0; c <= (chained ? b : 4); ++c)
                for (int d = 0; d <= 4; ++d)
                    if (a * b + c * d <= 14) use(a, b, c, d);
}

TEST(LinearLayout, EverySmallMapAgreesWithBruteForce) {
    for (int in = 0; in <= 4; ++in) {
        for (int out = 0; out <= 4; ++out) {
            each_map(in, out, [&](const LinearLayout& l) {
                std::vector<bool> hit(points(out));
                for (uint64_t x = 0; x < points(in); ++x) hit[l(x)] = true;
                const auto image = static_cast<uint64_t>(std::count(hit.begin(), hit.end(), true));
                const bool injective = image == points(in);
                ASSERT_EQ(points(l.rank()), image);
                ASSERT_EQ(l.injective(), injective);
                ASSERT_EQ(l.invertible(), injective && in == out);
                const auto inverse = l.inverse();
                ASSERT_EQ(inverse.has_value(), injective && in == out);
                ASSERT_EQ(l.kernel().has_value(), !injective);
                if (l.kernel()) {
                    ASSERT_NE(*l.kernel(), 0u);
                    ASSERT_LT(*l.kernel(), points(in));
                    ASSERT_EQ(l(*l.kernel()), 0u);
                }
                for (uint64_t x = 0; inverse && x < points(in); ++x) ASSERT_EQ((*inverse)(l(x)), x);
            });
        }
    }
}

TEST(LinearLayout, EveryPairOfSmallMapsComposes) {
    each_size(true, [](int in, int middle, int, int out) {
        each_map(in, middle, [&](const LinearLayout& a) {
            each_map(middle, out, [&](const LinearLayout& b) {
                const LinearLayout both = LinearLayout::compose(b, a);
                ASSERT_EQ(both.in_bits, in);
                ASSERT_EQ(both.out_bits, out);
                for (uint64_t x = 0; x < points(in); ++x) ASSERT_EQ(both(x), b(a(x)));
            });
        });
    });
}

TEST(LinearLayout, EveryPairOfSmallMapsHasItsProduct) {
    each_size(false, [](int low_in, int low_out, int high_in, int high_out) {
        each_map(low_in, low_out, [&](const LinearLayout& low) {
            each_map(high_in, high_out, [&](const LinearLayout& high) {
                const LinearLayout side = LinearLayout::product(low, high);
                ASSERT_EQ(side.in_bits, low_in + high_in);
                ASSERT_EQ(side.out_bits, low_out + high_out);
                ASSERT_EQ(side.rank(), low.rank() + high.rank());
                for (int c = 0; c < side.in_bits; ++c) {  // linear: its columns say all
                    const uint64_t x = uint64_t{1} << c;
                    ASSERT_EQ(side(x), low(x % points(low_in)) | high(x >> low_in) << low_out);
                }
            });
        });
    });
}

TEST(LinearLayout, EverySwizzleIsCutes) {
    for (int bits = 0; bits <= 4; ++bits) {
        for (int base = 0; base <= 4; ++base) {
            for (int shift = bits; shift <= 4; ++shift) {
                const LinearLayout s = LinearLayout::swizzle(bits, base, shift, 12);
                const uint64_t mask = ((uint64_t{1} << bits) - 1) << (base + shift);
                for (uint64_t x = 0; x < 4096; ++x) ASSERT_EQ(s(x), x ^ ((x & mask) >> shift));
                EXPECT_EQ(LinearLayout::compose(s, s), LinearLayout::identity(12));
                // The same as a layout expression over one index.
                const X e = i ^ ((i / (int64_t{1} << (base + shift))) % (int64_t{1} << bits)) * (int64_t{1} << base);
                const Layout l = layout(1, {e});
                EXPECT_EQ(to_linear(l, Extents{4096}), s);
                check_inverse(l, {4096}, false);
                EXPECT_EQ(l.check(Extents{int64_t{1} << 40}).result, Injectivity::proved);
            }
        }
    }
}

TEST(LinearLayout, FromLayouts) {
    const auto agrees = [](const Layout& l, const Extents& extents) {
        const auto linear = to_linear(l, extents);
        ASSERT_TRUE(linear) << l.text();
        uint64_t x = 0;
        each_point(extents, [&](const Point& p) { ASSERT_EQ((*linear)(x++), static_cast<uint64_t>(l.offset(p, extents))); });
    };
    agrees(Layout::row(), {8, 16});
    agrees(Layout::col(), {8, 16, 2});
    agrees(layout(2, {i / 4, j / 8, i % 4, (j % 8) ^ (i % 4) * 2}), {16, 32});
    agrees(layout(2, {i, (j + i * 0) * 1}), {4, 4});
    agrees(layout(2, {i, j - 2 * (j % 2) + 1 - 1 + j % 2 * 2}), {4, 8});  // proved by visiting: subtraction has no bit rule
    EXPECT_FALSE(to_linear(layout(2, {i, j * 3}), Extents{4, 4}));
    EXPECT_FALSE(to_linear(layout(1, {(i + 1) % 8}), Extents{8}));
    EXPECT_FALSE(to_linear(layout(1, {i * i % 8}), Extents{8}));
    EXPECT_FALSE(to_linear(Layout::row(), Extents{3, 4}));
}

TEST(Layout, BuiltinOrders) {
    const Extents extents{3, 5};
    each_point(extents, [&](const Point& p) {
        EXPECT_EQ(Layout::row().offset(p, extents), p[0] * 5 + p[1]);
        EXPECT_EQ(Layout::col().offset(p, extents), p[1] * 3 + p[0]);
        EXPECT_EQ(Layout::with_strides({7, 1}).offset(p, extents), p[0] * 7 + p[1]);
    });
    EXPECT_EQ(Layout::with_strides({7, 1}).physical_extents(extents), (Extents{19}));
    EXPECT_EQ(Layout::col().physical_extents(extents), (Extents{5, 3}));
    EXPECT_EQ(Layout::row().innermost_dimension(3), 2);
    EXPECT_EQ(Layout::col().innermost_dimension(3), 0);
    EXPECT_EQ(Layout::with_strides({1, 4, 20}).innermost_dimension(3), 0);
    EXPECT_EQ(layout(3, {i, k, j}).innermost_dimension(3), 1);
    EXPECT_EQ(layout(2, {i, j / 8, j % 8}).innermost_dimension(2), -1);
    EXPECT_EQ(Layout::row().storage_bytes(Extents{}, 4), 1);
    EXPECT_EQ(Layout::row().storage_bytes(Extents{0, 5}, 4), 0);
    EXPECT_EQ(layout(2, {j, i}).storage_bytes(Extents{4, 0}, 16), 0);
}

TEST(Layout, ExpressionsAgainstBruteForce) {
    const std::vector<Layout> layouts = {
        layout(2, {i, j}),
        layout(2, {j, i}),
        layout(2, {i / 4, j / 8, i % 4, j % 8}),
        layout(2, {i / 3, j / 5, j % 5, i % 3}),
        layout(2, {i, j ^ i % 8}),
        layout(2, {i, (j / 4 ^ i % 4) * 4 + j % 4}),
        layout(2, {i, j + j / 4 * 2}),
        layout(2, {i * 2, j * 3}),
        layout(2, {i * m1 + j}),
        layout(2, {j * m0 + i}),
        layout(2, {i + j}),
        layout(2, {i * 5 + j}),
        layout(2, {i, j / 2}),
        layout(2, {i - j}),
        layout(2, {m0 - 1 - i, m1 - 1 - j}),
        layout(2, {i % 5, j}),
        layout(2, {i, (i + j) % m1}),
        layout(2, {i / 2, j / 2, (i % 2) * 2 + (j % 2)}),
        layout(2, {(i ^ j), j}),
        layout(2, {(i ^ j), (i + j)}),
        layout(2, {i, E::make(E::min, j.e, X(9).e)}),
        layout(2, {i, E::make(E::max, j.e, (i * 0 + 3).e)}),
        layout(2, {i, E::make(E::bit_or, (j / 4 * 4).e, (j % 4).e)}),
        layout(2, {i, E::make(E::bit_and, j.e, X(15).e), E::make(E::shr, j.e, X(4).e)}),
        layout(2, {E::make(E::shl, i.e, X(3).e), j}),
        layout(2, {i / 4, (i % 4 * m1 + j) / 6, (i % 4 * m1 + j) % 6}),
        Layout::row(),
        Layout::col(),
        Layout::with_strides({17, 1}),
        Layout::with_strides({2, 3}),
        Layout::with_strides({0, 1}),
        Layout::with_strides({-1, 40}),
        Layout::with_strides({8, 12}),
    };
    for (const Extents& extents : kMatrices) {
        SCOPED_TRACE(std::to_string(extents[0]) + "x" + std::to_string(extents[1]));
        for (const Layout& l : layouts) check_against_brute_force(l, extents);
    }
    for (int64_t n : {1, 3, 7, 12, 17, 64}) {
        for (const Layout& l : {layout(1, {i ^ i / 2}), layout(1, {i % 8 % 3 + i % 8 / 3 * 4, i / 8}), layout(1, {i / 8, i % 4, i / 4 % 2}),
                                layout(1, {i * i}), layout(1, {i / 3, i % 2}), layout(1, {(i * 5) % 17})}) {
            check_against_brute_force(l, {n});
        }
    }
}

TEST(Layout, EverySmallPairOfStridesAgainstBruteForce) {
    for (int64_t m = 1; m <= 4; ++m)
        for (int64_t n = 1; n <= 4; ++n)
            for (int64_t a = -2; a <= 6; ++a)
                for (int64_t b = -2; b <= 6; ++b) {
                    const Layout l = Layout::with_strides({a, b});
                    check_against_brute_force(l, {m, n});
                    if (l.check(Extents{m, n}).result == Injectivity::proved && Layout::inverse(l, Extents{m, n}, nullptr))
                        check_inverse(l, {m, n}, false);
                    if (HasFailure()) return;
                }
}

std::vector<Layout> small_orders() {
    return {layout(2, {j, i}),          layout(2, {i / 2, j}),        layout(2, {i * 2 + j % 2, j / 2}),
            layout(2, {m0 - 1 - i, j}), layout(2, {i, (i + j) % m1}), layout(2, {i * m1 + j, i - i}),
            layout(2, {i, j ^ i % 2}),  layout(2, {i + 1, j * 3})};
}

TEST(Layout, EveryPairOfOrdersHasItsProduct) {
    for (const Layout& first : small_orders())
        for (const Layout& second : small_orders()) {
            const std::vector<E> both = Layout::product(first, second).physical(4);
            ASSERT_EQ(both.size(), 4u);
            for (const Extents& extents : {Extents{3, 2, 4, 3}, Extents{1, 4, 2, 5}, Extents{2, 2, 2, 2}})
                each_point(extents, [&](const Point& p) {
                    for (size_t d = 0; d < 4; ++d) {
                        const bool low = d < 2;
                        const E own = (low ? first : second).physical(2)[d % 2];
                        const auto part = [&](const auto& v) { return low ? Point{v[0], v[1]} : Point{v[2], v[3]}; };
                        ASSERT_EQ(both[d].eval(p, extents), own.eval(part(p), part(extents))) << first.text() << " x " << second.text();
                    }
                });
            if (HasFailure()) return;
        }
}

TEST(Layout, EveryPairOfOrdersComposes) {
    std::vector<Layout> orders = small_orders();
    orders.push_back(Layout::row());
    orders.push_back(Layout::col());
    int refused = 0;
    for (const Layout& outer : orders)
        for (const Layout& inner : orders) {
            const Layout both = Layout::compose(outer, inner);
            if (!both.problem().empty()) {  // the outer one needs extents that are no expression
                EXPECT_NE(both.problem().find("uses its extents"), std::string::npos) << both.problem();
                ++refused;
                continue;
            }
            const std::vector<E> members = both.physical(2), first = inner.physical(2), then = outer.physical(2);
            ASSERT_EQ(members.size(), then.size());
            for (int64_t m = 1; m <= 5; ++m)
                for (int64_t n = 1; n <= 5; ++n) {
                    const Extents extents{m, n}, between = inner.physical_extents(extents);
                    each_point(extents, [&](const Point& p) {
                        Point middle;
                        for (const E& e : first) middle.push_back(e.eval(p, extents));
                        for (size_t d = 0; d < members.size(); ++d)
                            ASSERT_EQ(members[d].eval(p, extents), then[d].eval(middle, between)) << outer.text() << " . " << inner.text();
                    });
                    if (HasFailure()) return;
                }
        }
    EXPECT_EQ(refused, 3 * 6);  // three orders use extents, and those of six orders, all but permutations and quotients, are no expressions
}

TEST(Layout, RandomExpressionsAgainstBruteForce) {
    std::mt19937 random(7);
    const std::function<X(int)> tree = [&](int depth) -> X {
        if (depth == 0 || random() % 5 == 0) return random() % 4 == 0 ? X(static_cast<int64_t>(random() % 9)) : random() % 2 ? i : j;
        const X a = tree(depth - 1);
        switch (random() % 6) {
            case 0:
                return a + tree(depth - 1);
            case 1:
                return a * static_cast<int64_t>(1 + random() % 8);
            case 2:
                return a / static_cast<int64_t>(1 + random() % 8);
            case 3:
                return a % static_cast<int64_t>(1 + random() % 8);
            case 4:
                return a - tree(depth - 1);
            default:
                return a ^ tree(depth - 1);
        }
    };
    for (int round = 0; round < 3000; ++round) {
        const Layout l = layout(2, {tree(3), tree(3)});
        const Extents extents{static_cast<int64_t>(1 + random() % 9), static_cast<int64_t>(1 + random() % 17)};
        check_against_brute_force(l, extents);
        if (HasFailure()) return;
        std::string why;
        if (l.check(extents).result == Injectivity::proved && Layout::inverse(l, extents, &why)) check_inverse(l, extents, false);
        if (HasFailure()) return;
    }
}

TEST(Layout, ConflictWording) {
    EXPECT_EQ(Layout::with_strides({5, 5}).find_conflict(Extents{2, 2})->text(), "(0, 1) and (1, 0) both land on element 5");
    EXPECT_EQ(layout(2, {i * 5 + j * 5}).find_conflict(Extents{3, 3})->text(), "(0, 1) and (1, 0) both land on element 5");
    EXPECT_EQ(layout(1, {i / 2}).find_conflict(Extents{3})->text(), "(0) and (1) both land on element 0");
    EXPECT_EQ(Layout::with_strides({4, -1}).find_conflict(Extents{2, 3})->text(), "(0, 2) lands on index -2, before the start");
    EXPECT_FALSE(Layout::with_strides({3, 1}).find_conflict(Extents{2, 3}));
}

TEST(Layout, ProofsAtSizesNobodyCanVisit) {
    const int64_t n = (int64_t{1} << 26) + 3;
    EXPECT_EQ(layout(2, {i / 16, j / 16, i % 16, j % 16}).check(Extents{n, n}).result, Injectivity::proved);
    EXPECT_EQ(layout(2, {i, (j / 8 ^ i % 8) * 8 + j % 8}).check(Extents{n, n}).result, Injectivity::proved);
    EXPECT_EQ(layout(2, {i * m1 + j}).check(Extents{n, n}).result, Injectivity::proved);
    EXPECT_EQ(Layout::with_strides({1, n}).check(Extents{n, n}).result, Injectivity::proved);
    EXPECT_EQ(Layout::with_strides({n - 1, 1}).check(Extents{n, n}).conflict.text(),
              "(0, " + std::to_string(n - 1) + ") and (1, 0) both land on element " + std::to_string(n - 1));
    EXPECT_EQ(layout(2, {i, j / 2}).check(Extents{n, n}).result, Injectivity::refuted);
    EXPECT_EQ(layout(2, {i - j}).check(Extents{n, n}).conflict.second, Point{});
    const LayoutCheck hard = layout(1, {i * i * i % 1000003}).check(Extents{int64_t{1} << 30});
    EXPECT_NE(hard.result, Injectivity::proved);
    const LayoutCheck odd = layout(2, {i + i / 3 * 7 + i / 5, j}).check(Extents{n, 8});
    EXPECT_EQ(odd.result, Injectivity::unknown);
    EXPECT_NE(odd.reason, "");
}

TEST(Layout, ExtentsAtSizesNobodyCanVisit) {
    const int64_t n = (int64_t{1} << 40) + 5;
    EXPECT_EQ(layout(2, {i / 8, i % 2 * 4 + i / 2 % 4 + j % 3 * 8}).physical_extents(Extents{n, n}), (Extents{n / 8 + 1, 24}));
    EXPECT_EQ(layout(1, {i / 8 * 8 + i % 2}).physical_extents(Extents{n - 5}), (Extents{n - 5 - 6}));  // last group starts at 2^40 - 8
    EXPECT_EQ(layout(2, {i, j ^ i % 8}).physical_extents(Extents{n, n - 5}), (Extents{n, n - 5}));
}

TEST(Layout, HostileInputIsRefused) {
    X deep = i;
    for (int d = 0; d < 100000; ++d) deep = (deep ^ j) + i;
    EXPECT_NE(layout(2, {deep}).problem(), "");
    EXPECT_EQ(layout(2, {deep}).check(Extents{2, 2}).result, Injectivity::unknown);
    X doubling = i;  // a small graph that is a huge tree
    for (int d = 0; d < 100; ++d) doubling = (doubling ^ doubling / 3);
    EXPECT_NE(layout(1, {doubling}).problem(), "");
    X nested = i;
    for (int d = 0; d < 40; ++d) nested = ((nested / 2) ^ j) % 1024;
    EXPECT_EQ(layout(2, {i, nested}).problem(), "");
    EXPECT_EQ(layout(2, {i, nested}).check(Extents{1 << 20, 1 << 20}).result, Injectivity::refuted);  // j loses its upper bits
    EXPECT_NE(layout(1, {j}).problem(), "");
    EXPECT_NE(Layout::compose(layout(3, {i, j, k}), layout(2, {i, j})).problem(), "");
    EXPECT_NE(Layout::with_strides(std::vector<int64_t>(100, 1)).problem(), "");
    const int64_t huge = INT64_MAX;
    for (const Layout& l : {Layout::row(), Layout::col(), layout(2, {i * m1 + j}), layout(2, {i * i, j}), Layout::with_strides({huge, huge}),
                            layout(2, {i * huge, j}), layout(2, {i, j + huge}), layout(2, {i, E::make(E::shl, X(1).e, j.e)})}) {
        const LayoutCheck c = l.check(Extents{huge, huge});
        EXPECT_EQ(c.result, Injectivity::unknown) << l.text();
        EXPECT_NE(c.reason, "");
        EXPECT_EQ(l.storage_bytes(Extents{huge, huge}, 64), -1) << l.text();
    }
    EXPECT_EQ(Layout::row().check(Extents{-1, 4}).result, Injectivity::unknown);
    EXPECT_EQ(Layout::with_strides({1}).check(Extents{4, 4}).result, Injectivity::unknown);
    EXPECT_EQ(layout(1, {i / 0 + i}).check(Extents{9}).result, Injectivity::proved);  // x / 0 is 0
    bool overflow = false;
    (i * i).e.eval(Extents{huge}, Extents{huge}, &overflow);
    EXPECT_TRUE(overflow);
}

TEST(Layout, Product) {
    const Layout turned = layout(2, {j, i}), lines = layout(2, {i * m1 + j}), halves = layout(1, {i / 4, i % 4});
    EXPECT_EQ(Layout::product(turned, halves), layout(3, {j, i, k / 4, k % 4}));
    EXPECT_EQ(Layout::product(halves, lines), layout(3, {i / 4, i % 4, j * X(E::make_extent(2)) + k}));
    EXPECT_EQ(Layout::product(lines, Layout::with_strides({5})), layout(3, {i * m1 + j, k * 5}));
    EXPECT_EQ(Layout::product(turned, turned).check(Extents{3, 5, 7, 2}).result, Injectivity::proved);
    EXPECT_NE(Layout::product(Layout::row(), turned).problem(), "") << "how many indices are its own?";
    EXPECT_NE(Layout::product(turned, layout(1, {j})).problem(), "");
    const std::vector<X> many(20, X(0));
    EXPECT_NE(Layout::product(layout(1, many), layout(1, many)).problem(), "") << "too many members";
}

TEST(Layout, InverseAndCompose) {
    for (const Extents& extents : kMatrices) {
        for (const Layout& l :
             {layout(2, {j, i}), layout(2, {i / 4, j / 8, i % 4, j % 8}), layout(2, {j / 3 % 2, i, j / 6, j % 3}), layout(2, {i, j ^ i % 8}),
              layout(2, {i, (j / 4 ^ i % 4) * 4 + j % 4}), layout(2, {i * 2 + 1, j * 3}), layout(2, {(i ^ j), j})}) {
            check_inverse(l, extents, true);
            check_inverse(l, extents, false);
        }
        for (const Layout& l : {layout(2, {i * m1 + j}), layout(2, {m0 - 1 - i, m1 - 1 - j}), Layout::with_strides({40, 1})}) {
            if (extents[1] <= 40) check_inverse(l, extents, false);
        }
    }
    check_inverse(layout(1, {i ^ i / 2}), {64}, false);                       // Gray code
    check_inverse(layout(2, {i ^ j, i ^ j / 2 ^ j % 2 * 3}), {4, 4}, false);  // linear, not triangular in whole indices
    std::string why;
    EXPECT_FALSE(Layout::inverse(layout(1, {i / 2}), &why));
    EXPECT_NE(why, "");
    EXPECT_FALSE(Layout::inverse(layout(1, {i * i}), Extents{5}, &why));

    const Layout tiled = layout(2, {i / 4, j / 8, i % 4, j % 8});
    const Layout back = *Layout::inverse(tiled, &why);
    EXPECT_EQ(Layout::compose(Layout::row(), tiled), tiled);
    EXPECT_EQ(Layout::compose(tiled, Layout::row()), tiled);
    EXPECT_EQ(Layout::compose(Layout::col(), Layout::col()), Layout::row());
    const Layout around = Layout::compose(back, tiled), transposed = Layout::compose(tiled, Layout::col());
    const Layout uses = Layout::compose(layout(2, {i * m1 + j}), layout(2, {j % 5, i}));
    const Extents extents{9, 17}, swapped{17, 9};
    each_point(extents, [&](const Point& p) {
        const auto at = around.physical(2);
        EXPECT_EQ((Point{at[0].eval(p, extents), at[1].eval(p, extents)}), p);
        EXPECT_EQ(transposed.offset(p, extents), tiled.offset(Point{p[1], p[0]}, swapped));
        EXPECT_EQ(uses.offset(p, extents), p[1] % 5 * 9 + p[0]);
    });
    for (const Layout& l : {tiled, layout(2, {j, i}), Layout::col()}) {
        const auto table = *l.inverse_table(extents);
        EXPECT_EQ(std::count_if(table.begin(), table.end(), [](int64_t v) { return v >= 0; }), 9 * 17);
        int64_t logical = 0;
        each_point(extents, [&](const Point& p) { EXPECT_EQ(table[static_cast<size_t>(l.offset(p, extents))], logical++); });
    }
    EXPECT_FALSE(layout(2, {i, j / 2}).inverse_table(extents));
}

TEST(Layout, TextAndHash) {
    EXPECT_EQ(Layout::row().text(), "row");
    EXPECT_EQ(Layout::with_strides({4, 1}).text(), "strides(4, 1)");
    EXPECT_EQ(layout(2, {i / 4, i % 4 * m1 + j}).text(), "[2](i0 / 4, ((i0 % 4) * e1) + i1)");
    EXPECT_EQ(layout(1, {E::make(E::shr, i.e, X(3).e)}).text(), layout(1, {i / 8}).text());
    EXPECT_EQ(layout(1, {i / 2 / 4 + 0}).text(), "[1](i0 / 8)");
    uint64_t fnv = 0xcbf29ce484222325u;  // FNV-1a, by its definition
    for (const char c : {'r', 'o', 'w'}) fnv = (fnv ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    EXPECT_EQ(Layout::row().hash(), fnv);
    EXPECT_NE(layout(2, {i, j}).hash(), layout(2, {j, i}).hash());
}

// ---- declared physical extents ----

/// cuBLAS's order of scales, 128 rows x 4 columns in 512 bytes, whatever the extents.
TEST(Layout, DeclaredExtents) {
    const Layout::Pins pins{((m0 + 127) / 128).e, ((m1 + 3) / 4).e, X(32).e, X(4).e, X(4).e};
    const Layout l = Layout::from_exprs("chunks", 2, layout(2, {i / 128, j / 4, i % 32, i / 32 % 4, j % 4}).physical(2), pins);
    ASSERT_EQ(l.problem(), "");
    const auto back = parse_layout_text(l.text());
    ASSERT_TRUE(back);
    EXPECT_EQ(back->hash(), l.hash());
    for (const int64_t m : {1, 5, 33, 128, 130}) {
        for (const int64_t n : {1, 4, 9}) {
            const Extents extents{m, n};
            EXPECT_EQ(l.check(extents).result, Injectivity::proved);
            EXPECT_EQ(l.storage_bytes(extents, 8), (m + 127) / 128 * ((n + 3) / 4) * 512);
            each_point(extents, [&](const Point& p) {
                const int64_t chunk = p[0] / 128 * ((n + 3) / 4) + p[1] / 4;
                EXPECT_EQ(l.offset(p, extents), chunk * 512 + p[0] % 32 * 16 + p[0] / 32 % 4 * 4 + p[1] % 4);
            });
        }
    }
    EXPECT_EQ(l.storage_bytes(Extents{0, 4}, 8), 0);
    const Layout product = Layout::product(layout(1, {i / 3, i % 3}), l);
    EXPECT_EQ(product.physical_extents(Extents{7, 5, 3}), (Extents{3, 3, 1, 1, 32, 4, 4}));
    EXPECT_EQ(Layout::compose(Layout::col(), l).physical_extents(Extents{5, 3}), (Extents{4, 4, 32, 1, 1}));
    const Layout rows = Layout::from_exprs("rows", 2, {i.e, j.e}, {std::nullopt, X(8).e});
    EXPECT_EQ(Layout::compose(layout(2, {i * m1 + j}), rows).offset(Point{2, 1}, Extents{3, 5}), 17);
    EXPECT_EQ(rows.storage_bytes(Extents{3, 5}, 4), 12);
}

TEST(Layout, DeclaredExtentsThatAreWrong) {
    const auto pinned = [](X extent) { return Layout::from_exprs("pinned", 1, {i.e}, {extent.e}); };
    EXPECT_EQ(pinned(4).check(Extents{4}).result, Injectivity::proved);
    EXPECT_EQ(pinned(4).check(Extents{5}).conflict.text(), "(4) lands on index 4, beyond the declared extent 4");
    EXPECT_EQ(pinned(X(0) - 3).check(Extents{4}).result, Injectivity::unknown);
    EXPECT_EQ(pinned(m0 * (int64_t{1} << 60)).storage_bytes(Extents{64}, 8), -1);
    EXPECT_NE(pinned(i).problem(), "");
    EXPECT_NE(Layout::from_exprs("pinned", 1, {i.e}, {X(4).e, X(1).e}).problem(), "");
    EXPECT_FALSE(parse_layout_text("[1](i0: i0)"));
    EXPECT_FALSE(parse_layout_text("[1](i0: )"));
}

// ---- published tables ----

/// Layout of one 32-bit word; `order[f]` is the element in field f, as bitblas.md 1.4 prints it.
void expect_interleave(const X& field, const std::vector<int>& order) {
    const Layout l = layout(1, {i / static_cast<int64_t>(order.size()), field});
    const auto n = static_cast<int64_t>(order.size());
    const Extents extents{2 * n};
    EXPECT_EQ(l.physical_extents(extents), (Extents{2, n}));
    EXPECT_EQ(l.check(extents).result, Injectivity::proved);
    const auto table = *l.inverse_table(extents);
    for (int64_t f = 0; f < 2 * n; ++f) EXPECT_EQ(table[static_cast<size_t>(f)], f / n * n + order[static_cast<size_t>(f % n)]) << f;
    check_inverse(l, extents, true);
}

TEST(PublishedLayouts, InterleavesOfOneWord) {
    const X half8 = i % 2 * 4 + i / 2 % 4;
    expect_interleave(half8, {0, 2, 4, 6, 1, 3, 5, 7});
    expect_interleave(i / 8 % 2 * 8 + half8, {0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15});
    expect_interleave(i / 8 % 4 * 8 + half8,
                      {0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15, 16, 18, 20, 22, 17, 19, 21, 23, 24, 26, 28, 30, 25, 27, 29, 31});
    expect_interleave(i % 4 * 2 + i / 4 % 2, {0, 4, 1, 5, 2, 6, 3, 7});
    expect_interleave(i % 4 * 4 + i / 4 % 4, {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15});
    const X byte16 = i % 2 * 8 + i / 2 % 2 * 4 + i / 4 % 4;
    std::vector<int> one_bit = {0, 4, 8, 12, 2, 6, 10, 14, 1, 5, 9, 13, 3, 7, 11, 15};
    for (int f = 0; f < 16; ++f) one_bit.push_back(one_bit[static_cast<size_t>(f)] + 16);
    expect_interleave(i / 16 % 2 * 16 + byte16, one_bit);
    expect_interleave(i % 8 * 2 + i / 8 % 2, {0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15});
}

TEST(PublishedLayouts, LadderPermutations) {
    const Extents half{16, 16}, byte{16, 32};
    const Layout b3 = layout(2, {i % 8 * 4 + j / 2 % 4, i / 8 * 4 + j / 8 * 2 + j % 2});
    const Layout b3_byte = layout(2, {i % 8 * 4 + j / 4 % 4, i / 8 * 8 + j / 16 * 4 + j % 4});
    const auto t16 = *b3.inverse_table(half), t8 = *b3_byte.inverse_table(byte);
    for (int64_t lane = 0; lane < 32; ++lane) {
        for (int64_t r = 0; r < 8; ++r) {
            const int64_t n = lane / 4 + 8 * (r / 4), kk = 2 * (lane % 4) + r % 2 + 8 * (r % 4 / 2);
            EXPECT_EQ(t16[static_cast<size_t>(8 * lane + r)], n * 16 + kk);
        }
        for (int64_t r = 0; r < 16; ++r) {
            const int64_t n = lane / 4 + 8 * (r / 8), kk = 4 * (lane % 4) + r % 4 + 16 * (r % 8 / 4);
            EXPECT_EQ(t8[static_cast<size_t>(16 * lane + r)], n * 32 + kk);
        }
    }
    // Kind 2: the document gives out(i, j) = in(..), so the layout is the inverse of that map; it must exist for both operands.
    const X q = i * 2 + j / 8;
    const Layout b2 = layout(2, {i / 8 * 8 + q % 8, q % 16 / 8 * 8 + j % 8}), a2 = layout(2, {q % 16, q / 16 * 8 + j % 8});
    for (const Layout& gather : {b2, a2}) {
        EXPECT_EQ(gather.check(half).result, Injectivity::proved);
        std::string why;
        const auto scatter = Layout::inverse(gather, half, &why);
        ASSERT_TRUE(scatter) << why;
        const auto table = *scatter->inverse_table(half);
        for (int64_t r = 0; r < 16; ++r) {
            for (int64_t c = 0; c < 16; ++c) {
                const int64_t s = 2 * r + c / 8;
                const int64_t source = gather == b2 ? (8 * (r / 8) + s % 8) * 16 + 8 * (s % 16 / 8) + c % 8 : s % 16 * 16 + 8 * (s / 16) + c % 8;
                EXPECT_EQ(table[static_cast<size_t>(r * 16 + c)], source);
            }
        }
    }
}

// ---- bits ----

TEST(Layout, SubByteAddresses) {
    const std::vector<Layout> layouts = {Layout::row(), Layout::col(), layout(2, {i / 4, j / 3, i % 4, j % 3}), layout(2, {j, i ^ j % 4}),
                                         Layout::with_strides({19, 1})};
    for (const Layout& l : layouts) {
        for (const Extents& extents : {Extents{3, 7}, Extents{12, 17}, Extents{1, 1}}) {
            const Extents physical = l.physical_extents(extents);
            for (unsigned bits : {1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u, 12u, 16u, 64u}) {
                const int64_t row_bytes = (physical.back() * bits + 7) / 8;
                int64_t rows = 1;
                for (size_t d = 0; d + 1 < physical.size(); ++d) rows *= physical[d];
                EXPECT_EQ(l.storage_bytes(extents, bits), rows * row_bytes);
                const BoundLayout bound(l, extents, bits);
                const auto strides = l.bit_strides(extents, bits);
                each_point(extents, [&](const Point& p) {
                    const int64_t element = l.offset(p, extents);
                    const int64_t expected = element / physical.back() * row_bytes * 8 + element % physical.back() * bits;
                    EXPECT_EQ(l.bit_offset(p, extents, bits), expected);
                    EXPECT_EQ(bound.bit_offset(p.data()), expected);
                    if (strides) {
                        EXPECT_EQ((*strides)[0] * p[0] + (*strides)[1] * p[1], expected);
                    }
                });
            }
        }
    }
    EXPECT_EQ(Layout::row().bit_strides(Extents{3, 7}, 3), (Extents{24, 3}));
    EXPECT_EQ(Layout::col().bit_strides(Extents{3, 7}, 16), (Extents{16, 48}));
    EXPECT_EQ(Layout::with_strides({7, 1}).bit_strides(Extents{3, 7}, 3), (Extents{21, 3}));
    EXPECT_EQ(layout(2, {i / 4, i % 4, j}).bit_strides(Extents{16, 8}, 4), (Extents{32, 4}));
    EXPECT_EQ(layout(2, {i, j / 4, j % 4}).bit_strides(Extents{16, 8}, 3), std::nullopt);  // rows of 4 x 3 bits are padded
    EXPECT_EQ(layout(2, {i, j ^ 1}).bit_strides(Extents{2, 4}, 8), std::nullopt);
    EXPECT_EQ(layout(2, {j, i / 4, i % 4}).bit_strides(Extents{8, 3}, 8), (Extents{8, 64}));
}

TEST(Layout, PackThenUnpackIsIdentity) {
    std::mt19937 random(3);
    const std::vector<Layout> layouts = {Layout::row(),
                                         Layout::col(),
                                         layout(2, {i / 4, j / 3, i % 4, j % 3}),
                                         layout(2, {i, j ^ i % 8}),
                                         Layout::with_strides({70, 1}),
                                         layout(2, {j + 2, i * 3})};
    for (const Layout& l : layouts) {
        for (const Extents& extents : kMatrices) {
            for (unsigned bits : {1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u, 11u, 16u, 24u, 32u, 61u, 64u}) {
                const auto plain_bytes = static_cast<size_t>(Layout::row().storage_bytes(extents, bits));
                std::vector<uint8_t> plain(plain_bytes), packed(static_cast<size_t>(l.storage_bytes(extents, bits)) + 8, 0xAB),
                    again(plain_bytes + 8, 0xCD);
                const auto bit = [](const std::vector<uint8_t>& v, int64_t at) { return v[static_cast<size_t>(at / 8)] >> (at % 8) & 1; };
                for (int64_t r = 0; r < extents[0]; ++r) {
                    const int64_t row_bits = extents[1] * bits, row = r * ((row_bits + 7) / 8 * 8);
                    for (int64_t b = 0; b < row_bits; ++b)
                        plain[static_cast<size_t>((row + b) / 8)] |= static_cast<uint8_t>((random() & 1) << (row + b) % 8);
                }
                pack(l, extents, bits, plain.data(), packed.data());
                unpack(l, extents, bits, packed.data(), again.data());
                ASSERT_TRUE(std::equal(plain.begin(), plain.end(), again.begin())) << l.text() << " " << bits;
                ASSERT_TRUE(std::all_of(packed.end() - 8, packed.end(), [](uint8_t v) { return v == 0xAB; }));
                ASSERT_TRUE(std::all_of(again.end() - 8, again.end(), [](uint8_t v) { return v == 0xCD; }));
                if (extents[0] * extents[1] > 300) continue;
                each_point(extents, [&](const Point& p) {
                    const int64_t stored = l.bit_offset(p, extents, bits), source = p[0] * ((extents[1] * bits + 7) / 8 * 8) + p[1] * bits;
                    for (unsigned b = 0; b < bits; ++b) ASSERT_EQ(bit(packed, stored + b), bit(plain, source + b));
                });
            }
        }
    }
    const uint8_t one = 5;
    uint8_t out = 0;
    pack(Layout::row(), {}, 3, &one, &out);
    EXPECT_EQ(out, 5);
}

}  // namespace
}  // namespace tegula
