// The interpreter's values: operations on whole tiles and control flow against loops written here, at odd sizes.
#include <bit>

#include "tests/unit/interp_fixture.h"

namespace tegula::testing {
namespace {

struct InterpTiles : ::testing::Test {
    World w;
    std::mt19937_64 rng{7};
};

TEST_F(InterpTiles, Shapes) {
    std::vector<int64_t> x(24);
    for (int64_t i = 0; i < 24; ++i) x[static_cast<size_t>(i)] = i;
    for (const char* elem : {"i8", "u16", "i32", "i64"}) {
        const std::string e = elem;
        const auto t = [&](const char* shape) { return "tile<" + e + ">" + shape; };
        const auto r =
            w.eval(" %p = permute %a {axis = [2, 0, 1]} : " + t("[4, 2, 3]") +
                       "\n %s = slice %a {start_step = [1, 1, 2, -2, 0, 3]} : " + t("[1, 2, 2]") + "\n %q = reshape %a : " + t("[6, 4]") +
                       "\n %k = slice %q {start_step = [0, 1, 3, 1]} : " + t("[6, 1]") + "\n %w = broadcast %k : " + t("[2, 6, 3]") +
                       "\n %c = cat %q, %k {axis = 1} : " + t("[6, 5]") + "\n %i = iota {axis = 1} : " + t("[2, 3, 2]") + "\n ret %p, %s, %w, %c, %i",
                   {w.ints(elem, {2, 3, 4}, x)});
        const unsigned width = w.types.format(w.format(elem)).container_bytes();
        for (int64_t i = 0; i < 4; ++i)
            for (int64_t j = 0; j < 2; ++j)
                for (int64_t k = 0; k < 3; ++k)
                    ASSERT_EQ(code_at(r[0], static_cast<size_t>((i * 2 + j) * 3 + k), width), static_cast<uint64_t>((j * 3 + k) * 4 + i));
        const uint64_t sliced[] = {20, 23, 12, 15};
        for (size_t i = 0; i < 4; ++i) ASSERT_EQ(code_at(r[1], i, width), sliced[i]);
        for (size_t i = 0; i < 36; ++i) ASSERT_EQ(code_at(r[2], i, width), i / 3 % 6 * 4 + 3);
        for (size_t i = 0; i < 30; ++i) ASSERT_EQ(code_at(r[3], i, width), i % 5 < 4 ? i / 5 * 4 + i % 5 : i / 5 * 4 + 3);
        for (size_t i = 0; i < 12; ++i) ASSERT_EQ(code_at(r[4], i, width), i / 2 % 3);
    }
    const auto wrapped = w.eval(" %i = iota {axis = 0} : tile<i3>[9]\n %c = constant_tile [1, 2, 3] : tile<i8>[3]\n ret %i, %c", {});
    EXPECT_EQ(values<int8_t>(wrapped[0]), (std::vector<int8_t>{0, 1, 2, 3, -4, -3, -2, -1, 0}));
    EXPECT_EQ(values<int8_t>(wrapped[1]), (std::vector<int8_t>{1, 2, 3}));
}

TEST_F(InterpTiles, GatherExtractDeposit) {
    const auto a = w.ints("i16", {2, 5}, {0, 1, 2, 3, 4, 10, 11, 12, 13, 14});
    auto r = w.eval(" %r = gather %a, %b {axis = 1} : tile<i16>[2, 3]\n ret %r", {a, w.ints("i32", {2, 3}, {4, 0, 7, 2, -1, 3})});
    EXPECT_EQ(values<int16_t>(r[0]), (std::vector<int16_t>{4, 0, 0, 12, 0, 13}));
    const auto from = w.ints("i64", {}, {-1}), rows = w.ints("i64", {3}, {1, 5, 0});
    r = w.eval(
        " %x = extract %a[gather %c, %b +: 4 step 2] else %d : tile<i16>[3, 4]\n %y = deposit %a[gather %c, %b +: 4 step 2] = %d : tile<i16>[2, 5]\n "
        "ret %x, %y",
        {a, from, rows, w.ints("i16", {3, 4}, {-1, -2, -3, -4, -5, -6, -7, -8, -9, -10, -11, -12})});
    EXPECT_EQ(values<int16_t>(r[0]), (std::vector<int16_t>{-1, 11, 13, -4, -5, -6, -7, -8, -9, 1, 3, -12}));
    EXPECT_EQ(values<int16_t>(r[1]), (std::vector<int16_t>{0, -10, 2, -11, 4, 10, -2, 12, -3, 14}));
}

/// The fixed tree, as numerics.md words it.
template <class T, class F>
T tree(std::vector<T> x, F op) {
    size_t p = 1;
    while (p < x.size()) p *= 2;
    for (size_t s = p / 2; s > 0; s /= 2)
        for (size_t i = 0; i < s; ++i)
            if (i + s < x.size()) x[i] = op(x[i], x[i + s]);
    return x[0];
}

TEST_F(InterpTiles, Reductions) {
    for (int64_t n : {1, 2, 3, 7, 33, 129})
        for (int64_t inner : {1, 5}) {
            std::vector<float> x;
            for (int64_t i = 0; i < 3 * n * inner; ++i)
                x.push_back(static_cast<float>(std::ldexp(static_cast<double>(rng() % 1000) - 500, static_cast<int>(rng() % 20))));
            const Shape shape{3, n, inner};
            const std::string t = w.tile("f32", {3, inner});
            const auto r = w.eval(
                " %s = reduce %a {kind = sum, order = tree, axis = 1} : " + t + "\n %c = reduce %a {kind = sum, order = chain, axis = 1} : " + t +
                    "\n %m = reduce %a {kind = max, order = tree, axis = 1} : " + t +
                    "\n %all = reduce %a {kind = min, order = tree, axis = -1} : f32\n" + " %u = scan %a {kind = sum, axis = 1, reverse = 0} : " +
                    w.tile("f32", shape) + "\n %k = scan %a {kind = max, axis = 1, reverse = 1} : " + w.tile("f32", shape) +
                    "\n %v, %i = arg_reduce %a {kind = min, axis = 1} : " + t + ", " + w.tile("i32", {3, inner}) +
                    "\n ret %s, %c, %m, %all, %u, %k, %v, %i",
                {w.f32s(shape, x)});
            EXPECT_EQ(values<float>(r[3])[0], *std::min_element(x.begin(), x.end()));
            for (int64_t o = 0; o < 3; ++o)
                for (int64_t j = 0; j < inner; ++j) {
                    std::vector<float> column;
                    for (int64_t k = 0; k < n; ++k) column.push_back(x[static_cast<size_t>((o * n + k) * inner + j)]);
                    const auto at = static_cast<size_t>(o * inner + j);
                    ASSERT_EQ(values<float>(r[0])[at], tree(column, [](float a, float b) { return a + b; }));
                    ASSERT_EQ(values<float>(r[2])[at], *std::max_element(column.begin(), column.end()));
                    const auto least = std::min_element(column.begin(), column.end());
                    ASSERT_EQ(values<float>(r[6])[at], *least);
                    ASSERT_EQ(values<int32_t>(r[7])[at], least - column.begin());
                    float sum = 0, top = -INFINITY;
                    for (int64_t k = 0; k < n; ++k) {
                        sum = k ? sum + column[static_cast<size_t>(k)] : column[0];
                        ASSERT_EQ(values<float>(r[4])[static_cast<size_t>((o * n + k) * inner + j)], sum);
                        top = std::max(top, column[static_cast<size_t>(n - 1 - k)]);
                        ASSERT_EQ(values<float>(r[5])[static_cast<size_t>((o * n + n - 1 - k) * inner + j)], top);
                    }
                    ASSERT_EQ(values<float>(r[1])[at], sum);
                }
        }
}

TEST_F(InterpTiles, NarrowReductions) {
    const SmallFloat half(5, 10, true);
    std::vector<uint64_t> codes;
    std::vector<double> x;
    for (int i = 0; i < 33; ++i) codes.push_back(half.encode(static_cast<double>(rng() % 4000) / 7)), x.push_back(half.decode(codes.back()));
    const auto r = w.eval(
        " %s = reduce %a {kind = sum, order = tree, axis = 0} : f16\n %m = reduce %b {kind = sum, order = tree, axis = 0} : i32\n"
        " %x = reduce %b {kind = xor, order = tree, axis = 0} : i3\n %y = reduce %c {kind = any, order = tree, axis = 0} : bool\n"
        " %z = reduce %c {kind = all, order = tree, axis = 0} : bool\n ret %s, %m, %x, %y, %z",
        {w.make(id_of(Fmt::f16), {33}, codes), w.ints("i3", {5}, {-4, -4, 3, -1, 2}), w.ints("bool", {3}, {0, 1, 0})});
    EXPECT_EQ(code_at(r[0], 0, 2), half.encode(tree(x, [&](double a, double b) { return half.decode(half.encode(a + b)); })));
    EXPECT_EQ(values<int32_t>(r[1])[0], -4);
    EXPECT_EQ(values<int8_t>(r[2])[0], static_cast<int8_t>(-4 ^ -4 ^ 3 ^ -1 ^ 2));
    EXPECT_EQ(r[3].bytes[0], 1);
    EXPECT_EQ(r[4].bytes[0], 0);
}

TEST_F(InterpTiles, Regions) {
    for (int64_t n : {1, 7, 129}) {
        std::vector<float> x;
        for (int64_t i = 0; i < n * 3; ++i) x.push_back(static_cast<float>(rng() % 1000) / 3);
        const std::string body =
            " {axis = 0} : tile<f32>[3] (%p: f32, %q: f32) {\n  %s = sub %p, %q : f32\n  %h = mul %s, %b : f32\n  yield %h\n }\n";
        const auto r = w.eval(" %r = reduce_region %a, %c" + body + " %z = scan_region %a {axis = 0, reverse = 0} : " + w.tile("f32", {n, 3}) +
                                  " (%x: f32, %y: f32) {\n  %l = lt %x, %y : bool\n  %g = if_else %l : f32 {\n   yield %x\n  } {\n   yield %y\n  }\n "
                                  " yield %g\n }\n ret %r, %z",
                              {w.f32s({n, 3}, x), w.f32s({}, {0.5f}), w.f32s({}, {1.0f})});
        for (size_t j = 0; j < 3; ++j) {
            std::vector<float> column;
            for (size_t k = 0; k < static_cast<size_t>(n); ++k) column.push_back(x[k * 3 + j]);
            const auto op = [](float a, float b) { return (a - b) * 0.5f; };
            ASSERT_EQ(values<float>(r[0])[j], op(1.0f, tree(column, op)));
            float least = INFINITY;
            for (size_t k = 0; k < static_cast<size_t>(n); ++k) ASSERT_EQ(values<float>(r[1])[k * 3 + j], least = std::min(least, column[k]));
        }
    }
}

TEST_F(InterpTiles, SortAndHistogram) {
    const auto x = w.f32s({2, 5}, {3, NAN, -1, 3, -INFINITY, 0, -0.0f, 7, 0, 5});
    auto r = w.eval(
        " %v, %i = sort %a {axis = 1, descending = 0} : tile<f32>[2, 5], tile<i32>[2, 5]\n %d, %e = sort %a {axis = 1, descending = 1} : "
        "tile<f32>[2, 5], tile<i32>[2, 5]\n ret %i, %e, %v",
        {x});
    EXPECT_EQ(values<int32_t>(r[0]), (std::vector<int32_t>{4, 2, 0, 3, 1, 1, 0, 3, 4, 2}));
    EXPECT_EQ(values<int32_t>(r[1]), (std::vector<int32_t>{1, 0, 3, 2, 4, 2, 4, 0, 3, 1}));
    EXPECT_TRUE(std::isnan(values<float>(r[2])[4]));
    r = w.eval(" %v, %i = arg_reduce %a {kind = max, axis = 1} : tile<f32>[2], tile<i32>[2]\n ret %v, %i", {x});
    EXPECT_EQ(values<int32_t>(r[1]), (std::vector<int32_t>{1, 2}));
    r = w.eval(" %h = histogram %a : tile<i32>[4]\n %g = histogram %a, %b : tile<i32>[4]\n ret %h, %g",
               {w.ints("i8", {7}, {0, 3, 3, -1, 4, 2, 3}), w.ints("bool", {7}, {1, 1, 0, 1, 1, 1, 1})});
    EXPECT_EQ(values<int32_t>(r[0]), (std::vector<int32_t>{1, 0, 1, 3}));
    EXPECT_EQ(values<int32_t>(r[1]), (std::vector<int32_t>{1, 0, 1, 2}));
}

TEST_F(InterpTiles, Products) {
    for (const auto& [m, n, k] : {std::tuple<int64_t, int64_t, int64_t>{1, 1, 1}, {3, 7, 5}, {5, 33, 9}, {2, 129, 33}}) {
        const Shape sa{m, k}, sb{k, n}, sc{m, n};
        std::vector<float> a, b, c;
        for (int64_t i = 0; i < m * k; ++i) a.push_back(static_cast<float>(rng() % 2000) / 7 - 100);
        for (int64_t i = 0; i < k * n; ++i) b.push_back(static_cast<float>(rng() % 2000) / 3 - 300);
        for (int64_t i = 0; i < m * n; ++i) c.push_back(static_cast<float>(rng() % 2000) / 9);
        const std::string wide = w.tile("f32", {m, k, n});
        const auto r = w.eval(" %r = dot %a, %b, %c {precision = ieee} : " + w.tile("f32", sc) + "\n %a1 = reshape %a : " + w.tile("f32", {m, k, 1}) +
                                  "\n %a2 = broadcast %a1 : " + wide + "\n %b2 = broadcast %b : " + wide + "\n %s = contract %a2, %b2 {axis = 1} : " +
                                  w.tile("f32", sc) + "\n %t = dot %a, %b, %c {precision = tf32} : " + w.tile("f32", sc) + "\n ret %r, %s, %t",
                              {w.f32s(sa, a), w.f32s(sb, b), w.f32s(sc, c)});
        const auto tf32 = [](float v) { return std::bit_cast<float>((std::bit_cast<uint32_t>(v) + 0x1000) & 0xffffe000); };
        for (int64_t i = 0; i < m; ++i)
            for (int64_t j = 0; j < n; ++j) {
                float acc = c[static_cast<size_t>(i * n + j)], sum = 0, low = acc;
                for (int64_t p = 0; p < k; ++p) {
                    const float x = a[static_cast<size_t>(i * k + p)], y = b[static_cast<size_t>(p * n + j)];
                    acc = std::fma(x, y, acc);
                    sum = std::fma(x, y, sum);
                    low = std::fma(tf32(x), tf32(y), low);
                }
                ASSERT_EQ(values<float>(r[0])[static_cast<size_t>(i * n + j)], acc);
                ASSERT_EQ(values<float>(r[1])[static_cast<size_t>(i * n + j)], sum);
                ASSERT_EQ(values<float>(r[2])[static_cast<size_t>(i * n + j)], low);
            }
    }
}

TEST_F(InterpTiles, NarrowProducts) {
    constexpr int64_t m = 3, n = 5, k = 7;
    const SmallFloat half(5, 10, true), e4m3(4, 3, false);
    std::vector<uint64_t> h, q, zero(m * n, 0);
    std::vector<int64_t> x, y;
    for (int64_t i = 0; i < m * k; ++i)
        h.push_back(half.encode(static_cast<double>(rng() % 100) / 9)), x.push_back(static_cast<int64_t>(rng() % 8) - 4);
    for (int64_t i = 0; i < k * n; ++i)
        q.push_back(e4m3.encode(static_cast<double>(rng() % 100) / 3 - 15)), y.push_back(static_cast<int64_t>(rng() % 256) - 128);
    const auto r = w.eval(" %h = dot %a, %b, %c {precision = ieee} : tile<f16>[3, 5]\n ret %h",
                          {w.make(id_of(Fmt::f16), {m, k}, h), w.make(id_of(Fmt::f8e4m3), {k, n}, q), w.make(id_of(Fmt::f16), {m, n}, zero)});
    const auto s = w.eval(" %i = dot %a, %b, %c {precision = ieee} : tile<i32>[3, 5]\n ret %i",
                          {w.ints("i3", {m, k}, x), w.ints("i8", {k, n}, y), w.ints("i32", {m, n}, std::vector<int64_t>(m * n, 3))});
    for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
            uint64_t acc = 0;
            int32_t sum = 3;
            for (int64_t p = 0; p < k; ++p) {
                acc = half.encode(Real(half.decode(h[static_cast<size_t>(i * k + p)])) * e4m3.decode(q[static_cast<size_t>(p * n + j)]) +
                                  half.decode(acc));
                sum += static_cast<int32_t>(x[static_cast<size_t>(i * k + p)] * y[static_cast<size_t>(p * n + j)]);
            }
            ASSERT_EQ(code_at(r[0], static_cast<size_t>(i * n + j), 2), acc);
            ASSERT_EQ(values<int32_t>(s[0])[static_cast<size_t>(i * n + j)], sum);
        }
}

TEST_F(InterpTiles, BatchedAndScaledProducts) {
    const auto r =
        w.eval(" %r = dot %a, %b, %c {precision = ieee} : tile<f64>[2, 1, 2]\n ret %r",
               {w.make(id_of(Fmt::f64), {2, 1, 2},
                       {std::bit_cast<uint64_t>(1.0), std::bit_cast<uint64_t>(2.0), std::bit_cast<uint64_t>(3.0), std::bit_cast<uint64_t>(4.0)}),
                w.make(id_of(Fmt::f64), {2, 2, 2}, std::vector<uint64_t>(8, std::bit_cast<uint64_t>(0.5))),
                w.make(id_of(Fmt::f64), {2, 1, 2}, std::vector<uint64_t>(4, 0))});
    EXPECT_EQ(values<double>(r[0]), (std::vector<double>{1.5, 1.5, 3.5, 3.5}));
    // Codes of f4e2m1: 1 = 0.5, 2 = 1, 3 = 1.5, 4 = 2; of f8e8m0: 127 = 1, 128 = 2, 126 = 0.5.
    const auto s = w.eval(
        " %r = dot_scaled %a, %c, %e, %b, %d {a_block = 2, b_block = 4} : tile<f32>[1, 2]\n ret %r",
        {w.make(id_of(Fmt::f4e2m1), {1, 4}, {1, 2, 3, 4}), w.make(id_of(Fmt::f8e8m0), {1, 2}, {127, 128}),
         w.make(id_of(Fmt::f4e2m1), {4, 2}, {2, 4, 2, 4, 2, 4, 2, 4}), w.make(id_of(Fmt::f8e8m0), {1, 2}, {126, 127}), w.f32s({1, 2}, {10, 20})});
    EXPECT_EQ(values<float>(s[0]), (std::vector<float>{10 + (1.5f + 2 * 3.5f) * 0.5f, 20 + 2 * (1.5f + 2 * 3.5f)}));
}

TEST_F(InterpTiles, ControlFlow) {
    // Fibonacci by swapping carried values: copies into arguments happen all at once.
    auto r = w.eval(
        " %z = constant 0 : i64\n %o = constant 1 : i64\n %x, %y = for_loop %z, %a, %o, %z, %o : i64, i64 (%i: i64, %p: i64, %q: i64) {\n  %s = add "
        "%p, %q : i64\n  yield %q, %s\n }\n ret %x, %y",
        {w.ints("i64", {}, {30})});
    EXPECT_EQ(values<int64_t>(r[0])[0], 832040);
    EXPECT_EQ(values<int64_t>(r[1])[0], 1346269);
    r = w.eval(
        " %z = constant 0 : i64\n %o = constant 1 : i64\n %r, %s = for_loop %z, %a, %o, %b, %c : tile<i32>[40], tile<i32>[40] (%i: i64, %p: "
        "tile<i32>[40], %q: tile<i32>[40]) {\n  yield %q, %p\n }\n ret %r, %s",
        {w.ints("i64", {}, {3}), w.ints("i32", {40}, std::vector<int64_t>(40, 1)), w.ints("i32", {40}, std::vector<int64_t>(40, 2))});
    EXPECT_EQ(values<int32_t>(r[0])[39], 2);
    EXPECT_EQ(values<int32_t>(r[1])[0], 1);
    // Collatz steps of 27.
    r = w.eval(
        " %z = constant 0 : i64\n %o = constant 1 : i64\n %t = constant 2 : i64\n %h = constant 3 : i64\n %x, %n = while_loop %a, %z : i64, i64 (%p: "
        "i64, %q: i64) {\n  %c = ne %p, %o : bool\n  condition %c, %p, %q\n } (%u: i64, %v: i64) {\n"
        "  %m = rem %u, %t : i64\n  %e = eq %m, %z : bool\n  %w = if_else %e : i64 {\n   %d = div %u, %t : i64\n   yield %d\n  } {\n   %k = mul %u, "
        "%h : i64\n   %l = add %k, %o : i64\n   yield %l\n  }\n  %y = add %v, %o : i64\n  yield %w, %y\n }\n ret %n",
        {w.ints("i64", {}, {27})});
    EXPECT_EQ(values<int64_t>(r[0])[0], 111);
    // One value for two results on one path, two values on the other.
    for (int64_t c : {0, 1}) {
        r = w.eval(
            " %x, %y = if_else %a : tile<i32>[40], tile<i32>[40] {\n  %s = add %b, %b : tile<i32>[40]\n  yield %s, %s\n } {\n  %t = mul %b, %b : "
            "tile<i32>[40]\n  %u = neg %b : "
            "tile<i32>[40]\n  yield %t, %u\n }\n ret %x, %y",
            {w.ints("bool", {}, {c}), w.ints("i32", {40}, std::vector<int64_t>(40, 5))});
        EXPECT_EQ(values<int32_t>(r[0])[39], c ? 10 : 25);
        EXPECT_EQ(values<int32_t>(r[1])[0], c ? 10 : -5);
    }
    // A loop that does not run, with a step that is not positive.
    r = w.eval(" %z = constant 0 : i64\n %o = constant 7 : i64\n %x = for_loop %z, %o, %z, %a : i64 (%i: i64, %p: i64) {\n  yield %i\n }\n ret %x",
               {w.ints("i64", {}, {5})});
    EXPECT_EQ(values<int64_t>(r[0])[0], 5);
}

TEST_F(InterpTiles, LargeTileByValue) {
    constexpr int64_t n = int64_t{1} << 24;
    std::vector<float> x(n, 1.5f);
    const auto r =
        w.eval(" %s = add %a, %a : tile<f32>[16777216]\n %t = reduce %s {kind = sum, order = tree, axis = 0} : f32\n ret %t", {w.f32s({n}, x)});
    EXPECT_EQ(values<float>(r[0])[0], 3.0f * static_cast<float>(n));
}

[[maybe_unused]] const auto* const kRowsRun = ::testing::AddGlobalTestEnvironment(new RowsRun(RunBy::tiles));

}  // namespace
}  // namespace tegula::testing
