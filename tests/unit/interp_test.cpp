// The interpreter's values: elementwise rows of ops.def, casts and selections against loops written here, at several types and odd sizes.
#include <bit>

#include "tests/unit/elementwise_oracle.h"

namespace tegula::testing {
namespace {

constexpr int64_t kSizes[] = {1, 7, 33, 129, 2049};

std::vector<ir::Op> elementwise_ops() {
    return {
#define ELEMENTWISE(name, ...) ir::Op::name,
#include "lang/ops.def"
    };
}

class Interp : public ::testing::Test {
protected:
    World w;
    std::mt19937_64 rng{7};

    std::string call(ir::Op op, const std::string& elem, int64_t n) {
        const ir::OpRow& row = ir::op_row(op);
        std::string text = std::string(" %r = ") + row.name;
        for (int k = 0; k < row.operands; ++k) text += std::string(k ? ", %" : " %") + static_cast<char>('a' + k);
        return text + " : " + w.tile(row.result == ir::ResultRule::boolean ? "bool" : elem, {n}) + "\n ret %r";
    }
    /// A code of `bits` bits: corner cases often, else random.
    uint64_t draw(unsigned bits) {
        const uint64_t mask = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
        const uint64_t corner[] = {0, 1, mask, uint64_t{1} << (bits - 1), mask >> 1, 2, 3, mask - 1};
        const uint64_t r = rng();
        return (r % 3 ? rng() : corner[r / 3 % 8]) & mask;
    }
};

TEST_F(Interp, IntegerRows) {
    for (const char* elem : {"i3", "u5", "i8", "u8", "i16", "u16", "i24", "i32", "u32", "i64", "u64", "u1", "i1", "bool"})
        for (ir::Op op : elementwise_ops()) {
            const Format& f = w.types.format(w.format(elem));
            if (!ir::in_domain(op, f, false)) continue;
            const bool s = f.is_int() && f.is_signed;
            for (int64_t n : kSizes) {
                std::vector<TileData> args;
                std::vector<std::vector<Wide>> in(3);
                for (int k = 0; k < ir::op_row(op).operands; ++k) {
                    std::vector<uint64_t> codes;
                    for (int64_t i = 0; i < n; ++i) {
                        in[static_cast<size_t>(k)].push_back(wrap(Wide(draw(f.bits)), f.bits, s));
                        codes.push_back(static_cast<uint64_t>(in[static_cast<size_t>(k)].back()));
                    }
                    args.push_back(w.make(w.format(elem), {n}, codes));
                }
                const TileData out = w.eval(call(op, elem, n), args).at(0);
                const Format& g = w.types.format(out.elem);
                const unsigned width = g.container_bytes();
                for (int64_t i = 0; i < n; ++i) {
                    const auto at = [&](size_t k) { return in[k].empty() ? Wide(0) : in[k][static_cast<size_t>(i)]; };
                    const Wide want = wrap(int_oracle(ir::op_row(op).name, at(0), at(1), at(2), f.bits, s), g.bits, s && !g.is_bool());
                    const auto code = static_cast<uint64_t>(wrap(want, width * 8, false));
                    ASSERT_EQ(code_at(out, static_cast<size_t>(i), width), code)
                        << ir::op_row(op).name << " " << elem << " of " << static_cast<int64_t>(at(0)) << ", " << static_cast<int64_t>(at(1));
                }
            }
        }
}

TEST_F(Interp, NativeFloatRows) {
    const auto check = [&](auto zero, const char* elem) {
        using T = decltype(zero);
        using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
        const T special[] = {0,
                             T(-0.0),
                             INFINITY,
                             -INFINITY,
                             NAN,
                             1,
                             -1,
                             T(0.5),
                             T(2.5),
                             T(-3.5),
                             std::numeric_limits<T>::denorm_min(),
                             std::numeric_limits<T>::max()};
        for (ir::Op op : elementwise_ops()) {
            if (!ir::in_domain(op, w.types.format(w.format(elem)), false)) continue;
            for (int64_t n : kSizes) {
                std::vector<T> in[3];
                std::vector<TileData> args;
                for (int k = 0; k < ir::op_row(op).operands; ++k) {
                    std::vector<uint64_t> codes;
                    for (int64_t i = 0; i < n; ++i) {
                        const T v = rng() % 4 ? std::bit_cast<T>(static_cast<Bits>(draw(sizeof(T) * 8))) : special[rng() % 12];
                        in[k].push_back(v);
                        codes.push_back(std::bit_cast<Bits>(v));
                    }
                    args.push_back(w.make(w.format(elem), {n}, codes));
                }
                const TileData out = w.eval(call(op, elem, n), args).at(0);
                for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
                    const auto at = [&](int k) { return in[k].empty() ? T(0) : in[k][i]; };
                    bool ignored = false;
                    const auto want = static_cast<T>(float_oracle<T>(ir::op_row(op).name, at(0), at(1), at(2), &ignored));
                    if (ir::op_row(op).result == ir::ResultRule::boolean) {
                        ASSERT_EQ(out.bytes[i], want != 0) << ir::op_row(op).name << " " << at(0) << " " << at(1);
                        continue;
                    }
                    const auto bits =
                        want != want ? std::bit_cast<Bits>(std::numeric_limits<T>::quiet_NaN()) : std::bit_cast<Bits>(ignored ? T(-0.0) : want);
                    ASSERT_EQ(code_at(out, i, sizeof(T)), bits)
                        << ir::op_row(op).name << " " << elem << " of " << at(0) << ", " << at(1) << ", " << at(2);
                }
            }
        }
    };
    check(float(0), "f32");
    check(double(0), "f64");
}

TEST_F(Interp, SmallFloatRows) {
    const std::map<std::string, SmallFloat> formats = {
        {"f16", {5, 10, true}}, {"bf16", {8, 7, true}}, {"f8e4m3", {4, 3, false}}, {"f8e5m2", {5, 2, true}}};
    for (const auto& [elem, f] : formats)
        for (ir::Op op : elementwise_ops()) {
            const std::string name = ir::op_row(op).name;
            if (!ir::in_domain(op, w.types.format(w.format(elem)), false)) continue;
            constexpr int64_t n = 533;
            std::vector<uint64_t> codes[3];
            std::vector<TileData> args;
            for (int k = 0; k < ir::op_row(op).operands; ++k) {
                for (int64_t i = 0; i < n; ++i) codes[k].push_back(draw(f.bits()));
                args.push_back(w.make(w.format(elem), {n}, codes[k]));
            }
            const TileData out = w.eval(call(op, elem, n), args).at(0);
            for (size_t i = 0; i < n; ++i) {
                const auto at = [&](int k) { return codes[k].empty() ? 0.0 : f.decode(codes[k][i]); };
                bool negative_zero = false;
                Real want = float_oracle<double>(name, at(0), at(1), at(2), &negative_zero);
                const bool finite = std::isfinite(at(0)) && std::isfinite(at(1)) && std::isfinite(at(2));
                if (name == "fma" && finite && want != 0) want = Real(at(0)) * at(1) + at(2);
                if (name == "flush_subnormal" && std::fabs(at(0)) < f.least_normal()) want = std::copysign(0.0, at(0)), negative_zero = std::signbit(at(0));
                if (ir::op_row(op).result == ir::ResultRule::boolean) {
                    // A NaN's sign is kept by no format with one NaN; what signbit says of it is not compared.
                    if (!(name == "signbit" && std::isnan(at(0)))) {
                        ASSERT_EQ(out.bytes[i], want != 0) << name << " " << elem << " " << at(0);
                    }
                    continue;
                }
                const unsigned width = f.bits() > 8 ? 2 : 1;
                ASSERT_EQ(code_at(out, i, width), f.encode(want, negative_zero, name.substr(name.find('_') + 1)))
                    << name << " " << elem << " of " << at(0) << ", " << at(1) << ", " << at(2);
            }
        }
}

TEST_F(Interp, FixedPoint) {
    Format f;
    f.kind = FormatKind::fixed;
    f.bits = 8;
    f.int_bits = f.frac_bits = 4;
    const FormatId id = w.types.intern(f);
    const std::string tile = w.types.name(w.types.tile(id, {129}));
    std::vector<uint64_t> x, y;
    for (int i = 0; i < 129; ++i) x.push_back(draw(8)), y.push_back(draw(8));
    for (uint64_t& v : x) v = static_cast<uint64_t>(int64_t{static_cast<int8_t>(v)});
    for (uint64_t& v : y) v = static_cast<uint64_t>(int64_t{static_cast<int8_t>(v)});
    const auto out = w.eval(" %s = add %a, %b : " + tile + "\n %p = mul %a, %b : " + tile + "\n %l = lt %a, %b : tile<bool>[129]\n ret %s, %p, %l",
                            {w.make(id, {129}, x), w.make(id, {129}, y)});
    for (size_t i = 0; i < 129; ++i) {
        const double a = static_cast<double>(static_cast<int64_t>(x[i])) / 16, b = static_cast<double>(static_cast<int64_t>(y[i])) / 16;
        const auto code = [](double v) { return static_cast<int8_t>(std::clamp(std::rint(v * 16), -128.0, 127.0)); };
        ASSERT_EQ(static_cast<int8_t>(out[0].bytes[i]), code(a + b));
        ASSERT_EQ(static_cast<int8_t>(out[1].bytes[i]), code(a * b));
        ASSERT_EQ(out[2].bytes[i], a < b);
    }
}

TEST_F(Interp, SelectAndBitcast) {
    const auto r = w.eval(
        " %r = select %a, %b, %c : tile<i3>[7]\n %u = bitcast %r : tile<u3>[7]\n %v = bitcast %u : tile<i3>[7]\n ret %r, %u, %v",
        {w.ints("bool", {7}, {1, 0, 1, 0, 1, 0, 1}), w.ints("i3", {7}, {-4, -3, -2, -1, 0, 1, 2}), w.ints("i3", {7}, {3, 2, 1, 0, -1, -2, -3})});
    EXPECT_EQ(values<int8_t>(r[0]), (std::vector<int8_t>{-4, 2, -2, 0, 0, -2, 2}));
    EXPECT_EQ(values<uint8_t>(r[1]), (std::vector<uint8_t>{4, 2, 6, 0, 0, 6, 2}));
    EXPECT_EQ(r[2].bytes, r[0].bytes);
    const auto f = w.eval(" %r = bitcast %a : tile<u32>[2]\n ret %r", {w.f32s({2}, {1.0f, -0.0f})});
    EXPECT_EQ(values<uint32_t>(f[0]), (std::vector<uint32_t>{0x3f800000, 0x80000000}));
}

TEST_F(Interp, Casts) {
    const auto cast = [&](const TileData& in, const std::string& to, const std::string& round = "rne", const std::string& overflow = "automatic") {
        return w.eval(" %r = cast %a {round = " + round + ", overflow = " + overflow + "} : " + w.tile(to, in.shape) + "\n ret %r", {in}).at(0);
    };
    const auto wide = w.ints("i32", {5}, {-129, -5, 0, 7, 300});
    EXPECT_EQ(values<int8_t>(cast(wide, "i8")), (std::vector<int8_t>{127, -5, 0, 7, 44}));
    EXPECT_EQ(values<int8_t>(cast(wide, "i3")), (std::vector<int8_t>{-1, 3, 0, -1, -4}));
    EXPECT_EQ(values<float>(cast(wide, "f32")), (std::vector<float>{-129, -5, 0, 7, 300}));
    EXPECT_EQ(values<uint8_t>(cast(wide, "bool")), (std::vector<uint8_t>{1, 1, 0, 1, 1}));
    EXPECT_EQ(values<int8_t>(cast(wide, "i8", "rne", "sat")), (std::vector<int8_t>{-128, -5, 0, 7, 127}));
    const auto reals = w.f32s({7}, {2.5f, -2.5f, 3.5f, 1e9f, -1e9f, NAN, -0.75f});
    EXPECT_EQ(values<int8_t>(cast(reals, "i8")), (std::vector<int8_t>{2, -2, 4, 127, -128, 0, -1}));
    EXPECT_EQ(values<int8_t>(cast(reals, "i8", "rtz")), (std::vector<int8_t>{2, -2, 3, 127, -128, 0, 0}));
    EXPECT_EQ(values<int8_t>(cast(reals, "i8", "ru")), (std::vector<int8_t>{3, -2, 4, 127, -128, 0, 0}));
    EXPECT_EQ(values<uint8_t>(cast(reals, "u8", "rd")), (std::vector<uint8_t>{2, 0, 3, 255, 0, 0, 0}));
    EXPECT_EQ(values<int64_t>(cast(reals, "i64")), (std::vector<int64_t>{2, -2, 4, 1000000000, -1000000000, 0, -1}));
    const auto big = w.make(w.format("u64"), {2}, {~uint64_t{0}, uint64_t{1} << 63});
    EXPECT_EQ(values<float>(cast(big, "f32")), (std::vector<float>{18446744073709551616.0f, 9223372036854775808.0f}));
    const SmallFloat half(5, 10, true), e4m3(4, 3, false);
    std::vector<float> x;
    std::vector<uint64_t> all;
    for (int i = 0; i < 1500; ++i)
        x.push_back(std::bit_cast<float>(static_cast<uint32_t>(0x30000000 + rng() % 0x1a000000) | static_cast<uint32_t>(rng() << 31)));
    const auto h = cast(w.f32s({1500}, x), "f16"), e = cast(w.f32s({1500}, x), "f8e4m3");
    for (size_t i = 0; i < x.size(); ++i) {
        ASSERT_EQ(code_at(h, i, 2), half.encode(x[i])) << x[i];
        ASSERT_EQ(e.bytes[i], e4m3.encode(x[i])) << x[i];
    }
    for (uint64_t c = 0; c < 65536; ++c) all.push_back(c);
    const auto back = values<float>(cast(w.make(id_of(Fmt::f16), {65536}, all), "f32"));
    for (uint64_t c = 0; c < 65536; ++c) {
        const double want = half.decode(c);
        ASSERT_TRUE(std::isnan(want) ? std::isnan(back[c]) : back[c] == want) << c;
    }
}

TEST_F(Interp, CodebookAndStochasticCasts) {
    Format f;
    f.kind = FormatKind::codebook;
    f.is_signed = false;
    f.bits = 2;
    f.table = {-1, 0, 1, 0.25};
    const FormatId id = w.types.intern(f);
    const std::string book = w.types.name(w.types.tile(id, {4}));
    const auto r = w.eval(" %r = cast %a {round = rne, overflow = automatic} : tile<f16>[4]\n ret %r", {w.make(id, {4}, {3, 2, 1, 0})});
    EXPECT_EQ(values<uint16_t>(r[0]), (std::vector<uint16_t>{0x3400, 0x3c00, 0, 0xbc00}));

    constexpr int64_t n = 4096;
    const auto random = [&](uint64_t seed) {
        return values<int32_t>(
            w.eval(" %v = broadcast %a : tile<f32>[4096]\n %r = cast %v, %b {round = stochastic, overflow = automatic} : tile<i32>[4096]\n ret %r",
                   {w.f32s({}, {0.25f}), w.make(w.format("u64"), {}, {seed})})
                .at(0));
    };
    const auto one = random(1);
    int64_t ups = 0;
    for (int32_t v : one) {
        ASSERT_TRUE(v == 0 || v == 1);
        ups += v;
    }
    EXPECT_NEAR(static_cast<double>(ups) / n, 0.25, 0.04);  // six standard deviations
    EXPECT_EQ(one, random(1));
    EXPECT_NE(one, random(2));
}

[[maybe_unused]] const auto* const kRowsRun = ::testing::AddGlobalTestEnvironment(new RowsRun(RunBy::elements));

}  // namespace
}  // namespace tegula::testing
