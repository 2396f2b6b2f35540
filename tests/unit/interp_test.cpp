// The interpreter's values: every pure op of ops.def against loops written here, at several types and odd sizes.
#include <bit>

#include "interp_fixture.h"

namespace tegula::testing {
namespace {

constexpr int64_t kSizes[] = {1, 7, 33, 129, 2049};

Wide wrap(Wide v, unsigned bits, bool is_signed) {
    const Wide modulus = Wide(1) << bits;
    v %= modulus;
    if (v < 0) v += modulus;
    return is_signed && v >= modulus / 2 ? v - modulus : v;
}

Wide floor_div(Wide a, Wide b) {
    const Wide q = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

/// Exact result before wrapping.
Wide int_oracle(const std::string& op, Wide a, Wide b, Wide c, unsigned n, bool s) {
    const Wide pattern = wrap(a, n, false), amount = wrap(b, n, false);
    int ones = 0, top = 0, low = static_cast<int>(n);
    for (unsigned i = 0; i < n; ++i)
        if (pattern >> i & 1) {
            ++ones;
            top = static_cast<int>(i) + 1;
            low = std::min(low, static_cast<int>(i));
        }
    if (op == "add") return a + b;
    if (op == "sub") return a - b;
    if (op == "mul") return a * b;
    if (op == "div") return b == 0 ? 0 : floor_div(a, b);
    if (op == "rem") return b == 0 ? a : a - b * floor_div(a, b);
    if (op == "div_trunc") return b == 0 ? 0 : a / b;
    if (op == "rem_trunc") return b == 0 ? a : a % b;
    if (op == "div_ceil") return b == 0 ? 0 : -floor_div(-a, b);
    if (op == "neg") return -a;
    if (op == "abs") return a < 0 ? -a : a;
    if (op == "fma") return wrap(a * b, n, s) + c;
    if (op == "umulhi") return Wide(static_cast<unsigned __int128>(a) * static_cast<unsigned __int128>(b) >> n);
    if (op == "min" || op == "minnum") return std::min(a, b);
    if (op == "max" || op == "maxnum") return std::max(a, b);
    if (op == "eq") return a == b;
    if (op == "ne") return a != b;
    if (op == "lt") return a < b;
    if (op == "le") return a <= b;
    if (op == "gt") return a > b;
    if (op == "ge") return a >= b;
    if (op == "bit_and") return a & b;
    if (op == "bit_or") return a | b;
    if (op == "bit_xor") return a ^ b;
    if (op == "bit_not") return -a - 1;
    if (op == "shl") return amount >= n ? 0 : Wide(static_cast<unsigned __int128>(pattern) << static_cast<int>(amount));
    if (op == "shr") return amount >= n ? (a < 0 ? -1 : 0) : a >> static_cast<int>(amount);
    if (op == "popcount") return ones;
    if (op == "clz") return static_cast<int>(n) - top;
    if (op == "ctz") return low;
    ADD_FAILURE() << "no oracle for integer " << op;
    return 0;
}

template <class T>
T order_oracle(const std::string& op, T a, T b) {
    const bool number = op == "minnum" || op == "maxnum", low = op == "min" || op == "minnum";
    if (a != a || b != b) return !number || (a != a && b != b) ? T(NAN) : a != a ? b : a;
    if (a == b) return std::signbit(a) == low ? a : b;
    return (a < b) == low ? a : b;
}

template <class T>
Real float_oracle(const std::string& op, T a, T b, T c, bool* negative_zero) {
    T r = 0;
    if (op == "add")
        r = a + b;
    else if (op == "sub")
        r = a - b;
    else if (op == "mul")
        r = a * b;
    else if (op == "div")
        r = a / b;
    else if (op == "rem") {
        r = std::fmod(a, b);
        if (r != 0 && (r < 0) != (b < 0)) r += b;
        if (r == 0) r = std::copysign(r, b);
    } else if (op == "neg")
        r = -a;
    else if (op == "abs")
        r = a < 0 || (a == 0 && std::signbit(a)) ? -a : a;
    else if (op == "fma")
        r = std::fma(a, b, c);
    else if (op == "sqrt")
        r = std::sqrt(a);
    else if (op == "floor")
        r = std::floor(a);
    else if (op == "ceil")
        r = std::ceil(a);
    else if (op == "trunc")
        r = std::trunc(a);
    else if (op == "round")
        r = std::rint(a);
    else if (op == "copysign")
        r = std::signbit(a) == std::signbit(b) ? a : -a;
    else if (op == "min" || op == "max" || op == "minnum" || op == "maxnum")
        r = order_oracle(op, a, b);
    else if (op == "eq")
        return a == b;
    else if (op == "ne")
        return a != b;
    else if (op == "lt")
        return a < b;
    else if (op == "le")
        return a <= b;
    else if (op == "gt")
        return a > b;
    else if (op == "ge")
        return a >= b;
    else if (op == "isnan")
        return a != a;
    else if (op == "isinf")
        return a - a != 0 && a == a;
    else if (op == "isfinite")
        return a - a == 0;
    else if (op == "signbit")
        return std::signbit(a);
    else if (op == "fast_exp2")
        r = static_cast<T>(std::exp2(static_cast<double>(a)));
    else if (op == "fast_log2")
        r = static_cast<T>(std::log2(static_cast<double>(a)));
    else if (op == "fast_sin")
        r = static_cast<T>(std::sin(static_cast<double>(a)));
    else if (op == "fast_cos")
        r = static_cast<T>(std::cos(static_cast<double>(a)));
    else if (op == "fast_tanh")
        r = static_cast<T>(std::tanh(static_cast<double>(a)));
    else if (op == "fast_rcp")
        r = static_cast<T>(1 / static_cast<double>(a));
    else if (op == "fast_rsqrt")
        r = static_cast<T>(1 / std::sqrt(static_cast<double>(a)));
    else
        ADD_FAILURE() << "no oracle for float " << op;
    *negative_zero = r == 0 && std::signbit(r);
    return r;
}

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
                if (ir::op_row(op).result == ir::ResultRule::boolean) {
                    // A NaN's sign is kept by no format with one NaN; what signbit says of it is not compared.
                    if (!(name == "signbit" && std::isnan(at(0)))) {
                        ASSERT_EQ(out.bytes[i], want != 0) << name << " " << elem << " " << at(0);
                    }
                    continue;
                }
                const unsigned width = f.bits() > 8 ? 2 : 1;
                ASSERT_EQ(code_at(out, i, width), f.encode(want, negative_zero))
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

TEST_F(Interp, Shapes) {
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

TEST_F(Interp, GatherExtractDeposit) {
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

TEST_F(Interp, Reductions) {
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

TEST_F(Interp, NarrowReductions) {
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

TEST_F(Interp, Regions) {
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

TEST_F(Interp, SortAndHistogram) {
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

TEST_F(Interp, Products) {
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

TEST_F(Interp, NarrowProducts) {
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

TEST_F(Interp, BatchedAndScaledProducts) {
    const auto r =
        w.eval(" %r = dot %a, %b, %c {precision = ieee} : tile<f64>[2, 1, 2]\n ret %r",
               {w.make(id_of(Fmt::f64), {2, 1, 2},
                       {std::bit_cast<uint64_t>(1.0), std::bit_cast<uint64_t>(2.0), std::bit_cast<uint64_t>(3.0), std::bit_cast<uint64_t>(4.0)}),
                w.make(id_of(Fmt::f64), {2, 2, 2}, std::vector<uint64_t>(8, std::bit_cast<uint64_t>(0.5))),
                w.make(id_of(Fmt::f64), {2, 1, 2}, std::vector<uint64_t>(4, 0))});
    EXPECT_EQ(values<double>(r[0]), (std::vector<double>{1.5, 1.5, 3.5, 3.5}));
    // Codes of f4e2m1: 1 = 0.5, 2 = 1, 3 = 1.5, 4 = 2; of f8e8m0: 127 = 1, 128 = 2, 126 = 0.5.
    const auto s = w.eval(
        " %r = dot_scaled %a, %b, %c, %d, %e {a_block = 2, b_block = 4} : tile<f32>[1, 2]\n ret %r",
        {w.make(id_of(Fmt::f4e2m1), {1, 4}, {1, 2, 3, 4}), w.make(id_of(Fmt::f8e8m0), {1, 2}, {127, 128}),
         w.make(id_of(Fmt::f4e2m1), {4, 2}, {2, 4, 2, 4, 2, 4, 2, 4}), w.make(id_of(Fmt::f8e8m0), {1, 2}, {126, 127}), w.f32s({1, 2}, {10, 20})});
    EXPECT_EQ(values<float>(s[0]), (std::vector<float>{10 + (1.5f + 2 * 3.5f) * 0.5f, 20 + 2 * (1.5f + 2 * 3.5f)}));
}

TEST_F(Interp, ControlFlow) {
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

TEST_F(Interp, LargeTileByValue) {
    constexpr int64_t n = int64_t{1} << 24;
    std::vector<float> x(n, 1.5f);
    const auto r =
        w.eval(" %s = add %a, %a : tile<f32>[16777216]\n %t = reduce %s {kind = sum, order = tree, axis = 0} : f32\n ret %t", {w.f32s({n}, x)});
    EXPECT_EQ(values<float>(r[0])[0], 3.0f * static_cast<float>(n));
}

/// Every pure row has been executed by the tests of this file.
class PureRows : public ::testing::Environment {
    void TearDown() override {
        if (GTEST_FLAG_GET(filter) != "*") return;
        const std::set<std::string> elsewhere = {"program_id", "num_programs", "dim", "tensor_ptr", "ptr_add",  // interp_run_test.cpp
                                                 "convert", "cta_id", "num_ctas"};                              // channels_test.cpp
        for (uint8_t op = 0; op < static_cast<uint8_t>(ir::Op::count_); ++op) {
            const ir::OpRow& row = ir::op_row(static_cast<ir::Op>(op));
            if (row.traits & (ir::PURE | ir::ELEMWISE)) {
                EXPECT_TRUE(rows_seen().count(row.name) || elsewhere.count(row.name)) << row.name << " is run by no test";
            }
        }
    }
};
[[maybe_unused]] const auto* const kPureRows = ::testing::AddGlobalTestEnvironment(new PureRows);

}  // namespace
}  // namespace tegula::testing
