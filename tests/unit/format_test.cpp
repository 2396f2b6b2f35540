// Number formats against published tables (OCP, IEEE, the NF4 paper), MPFR for logarithms, and the rules of numerics.md for special
// values and conversions. The rounding itself is tested in round_test.cpp.
#include "lang/format.h"

#include <gtest/gtest.h>
#include <mpfr.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>

using namespace tegula;

namespace {

constexpr double kInf = HUGE_VAL;
const double kNan = std::nan("");

const Format& get(Fmt id) {
    static const std::vector<Format> all = builtin_formats();
    return all[static_cast<size_t>(id)];
}

Format lns(unsigned i, unsigned f) {
    Format out;
    out.kind = FormatKind::lns;
    out.int_bits = uint8_t(i);
    out.frac_bits = uint8_t(f);
    out.bits = uint8_t(1 + i + f);
    return canonical(out);
}

Format codebook(unsigned bits, std::vector<double> table) {
    Format out;
    out.kind = FormatKind::codebook;
    out.bits = uint8_t(bits);
    out.table = std::move(table);
    return canonical(out);
}

// The table of NF4 as published with QLoRA.
const std::vector<double> kNf4 = {-1,
                                  -0.6961928009986877,
                                  -0.5250730514526367,
                                  -0.39491748809814453,
                                  -0.28444138169288635,
                                  -0.18477343022823334,
                                  -0.09105003625154495,
                                  0,
                                  0.07958029955625534,
                                  0.16093020141124725,
                                  0.24611230194568634,
                                  0.33791524171829224,
                                  0.44070982933044434,
                                  0.5626170039176941,
                                  0.7229568362236023,
                                  1};

TEST(format, published_limits) {
    struct Row {
        Fmt id;
        double max, min_normal, min_subnormal;
    };
    const Row rows[] = {{Fmt::f16, 65504, 0x1p-14, 0x1p-24},
                        {Fmt::bf16, 0x1.FEp127, 0x1p-126, 0x1p-133},
                        {Fmt::tf32, 0x1.FFCp127, 0x1p-126, 0x1p-136},
                        {Fmt::f8e4m3, 448, 0x1p-6, 0x1p-9},
                        {Fmt::f8e5m2, 57344, 0x1p-14, 0x1p-16},
                        {Fmt::f8e4m3fnuz, 240, 0x1p-7, 0x1p-10},
                        {Fmt::f8e5m2fnuz, 57344, 0x1p-15, 0x1p-17},
                        {Fmt::f6e3m2, 28, 0x1p-2, 0x1p-4},
                        {Fmt::f6e2m3, 7.5, 1, 0x1p-3},
                        {Fmt::f4e2m1, 6, 1, 0.5},
                        {Fmt::f32, 0x1.FFFFFEp127, 0x1p-126, 0x1p-149}};
    for (const Row& row : rows) {
        const Format& f = get(row.id);
        unsigned padding = row.id == Fmt::tf32 ? 13 : 0;
        EXPECT_EQ(decode(f, max_code(f)), row.max) << f.name;
        EXPECT_EQ(decode(f, lowest_code(f)), -row.max) << f.name;
        EXPECT_EQ(decode(f, min_normal_code(f)), row.min_normal) << f.name;
        EXPECT_EQ(decode(f, uint64_t{1} << padding), row.min_subnormal) << f.name;
        EXPECT_EQ(encode(f, row.min_subnormal), uint64_t{1} << padding) << f.name;
    }
}

TEST(format, where_nearest_even_leaves_the_range) {
    struct Row {
        Fmt id;
        double last_in, first_out;
    };
    const Row rows[] = {{Fmt::f16, std::nextafter(65520, 0), 65520},    {Fmt::f8e4m3, 464, std::nextafter(464, 500)},
                        {Fmt::f8e5m2, std::nextafter(61440, 0), 61440}, {Fmt::f8e4m3fnuz, std::nextafter(248, 0), 248},
                        {Fmt::f6e3m2, std::nextafter(30, 0), 30},       {Fmt::f6e2m3, std::nextafter(7.75, 0), 7.75},
                        {Fmt::f4e2m1, std::nextafter(7, 0), 7}};
    for (const Row& row : rows) {
        const Format& f = get(row.id);
        bool over = true;
        EXPECT_EQ(encode(f, row.last_in, {Round::rne, Overflow::ieee, 0}, &over), max_code(f)) << f.name;
        EXPECT_FALSE(over) << f.name;
        uint64_t beyond = encode(f, row.first_out, {Round::rne, Overflow::ieee, 0}, &over);
        EXPECT_TRUE(over) << f.name;
        if (f.has_inf)
            EXPECT_EQ(decode(f, beyond), kInf) << f.name;
        else if (has_nan(f))
            EXPECT_TRUE(std::isnan(decode(f, beyond))) << f.name;
        else
            EXPECT_EQ(beyond, max_code(f)) << f.name;
        EXPECT_EQ(encode(f, row.first_out, {Round::rne, Overflow::sat, 0}), max_code(f)) << f.name;
    }
}

TEST(format, fp4_and_nf4_tables) {
    const double fp4[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    for (uint64_t code = 0; code < 8; ++code) {
        EXPECT_EQ(decode(get(Fmt::f4e2m1), code), fp4[code]);
        EXPECT_EQ(decode(get(Fmt::f4e2m1), code | 8), -fp4[code]);
    }
    Format nf4 = codebook(4, kNf4);
    ASSERT_EQ(format_problem(nf4), "");
    for (uint64_t code = 0; code < 16; ++code) {
        EXPECT_EQ(decode(nf4, code), kNf4[code]);
        EXPECT_EQ(encode(nf4, kNf4[code]), code);
        if (code == 15) continue;
        double middle = (kNf4[code] + kNf4[code + 1]) / 2;
        EXPECT_EQ(encode(nf4, std::nextafter(middle, -2)), code);
        EXPECT_EQ(encode(nf4, std::nextafter(middle, 2)), code + 1);
    }
    EXPECT_EQ(encode(nf4, kNan), 15u);
    EXPECT_EQ(encode(nf4, -kInf), 0u);
    EXPECT_EQ(encode(nf4, 7.0), 15u);
}

TEST(format, codebook_ties_take_the_lower_index_and_distances_are_exact) {
    Format book = codebook(2, {4, 2, -1, 2});
    EXPECT_EQ(encode(book, 3.0), 0u);  // halfway between index 0 and 1
    EXPECT_EQ(encode(book, 0.5), 1u);  // halfway between 1 (or 3) and 2
    EXPECT_EQ(encode(book, 2.0), 1u);  // equal entries
    EXPECT_EQ(encode(book, std::nextafter(3.0, 0)), 1u);
    Format close = codebook(1, {1.0, std::nextafter(1.0, 2)});
    Exact middle{Exact::finite, false, false, (uint64_t{1} << 53) + 1, -53};
    EXPECT_EQ(round_exact(middle, close, {}), 0u);
    middle.sticky = true;
    EXPECT_EQ(round_exact(middle, close, {}), 1u);
    EXPECT_EQ(encode(codebook(1, {1, 0x1p-70}), 0.5), 1u);  // 0.5 - 2^-70 is the shorter way
    EXPECT_EQ(encode(codebook(1, {1, -0x1p-70}), 0.5), 0u);
}

TEST(format, scale_format_of_ocp) {
    const Format& e8m0 = get(Fmt::f8e8m0);
    for (uint64_t code = 0; code < 255; ++code) {
        EXPECT_EQ(decode(e8m0, code), std::ldexp(1.0, int(code) - 127));
        EXPECT_EQ(encode(e8m0, std::ldexp(1.0, int(code) - 127)), code);
        EXPECT_EQ(encode(e8m0, std::ldexp(1.25, int(code) - 127)), code);
        EXPECT_EQ(encode(e8m0, std::ldexp(1.25, int(code) - 127), {Round::ru, {}, 0}), std::min<uint64_t>(code + 1, 254));
        EXPECT_EQ(encode(e8m0, std::ldexp(1.75, int(code) - 127), {Round::rtz, {}, 0}), code);
        EXPECT_EQ(encode(e8m0, std::ldexp(1.5, int(code) - 127)), std::min<uint64_t>(code + 1, 254));
    }
    EXPECT_TRUE(std::isnan(decode(e8m0, 255)));
    EXPECT_EQ(encode(e8m0, kNan), 255u);
    EXPECT_EQ(encode(e8m0, 0.0), 0u);
    EXPECT_EQ(encode(e8m0, -4.0), 0u);
    EXPECT_EQ(encode(e8m0, -4.0, {Round::rne, Overflow::ieee, 0}), 255u);
    EXPECT_EQ(encode(e8m0, -0x1p-140, {Round::rne, Overflow::ieee, 0}), 255u);
    EXPECT_EQ(encode(e8m0, 0x1p-140, {Round::rne, Overflow::ieee, 0}), 0u);
    EXPECT_EQ(encode(e8m0, 0x1p200), 254u);
    EXPECT_EQ(encode(e8m0, 0x1p200, {Round::rne, Overflow::ieee, 0}), 255u);
}

TEST(format, special_values) {
    EXPECT_EQ(encode(get(Fmt::f8e5m2), kInf), 0x7Cu);
    EXPECT_EQ(encode(get(Fmt::f8e5m2), kInf, {Round::rne, Overflow::sat, 0}), 0x7Bu);
    EXPECT_EQ(encode(get(Fmt::f8e5m2), -1e9, {Round::rtz, Overflow::ieee, 0}), 0xFBu);
    EXPECT_EQ(encode(get(Fmt::f8e5m2), -1e9, {Round::ru, Overflow::ieee, 0}), 0xFBu);
    EXPECT_EQ(encode(get(Fmt::f8e5m2), -1e9, {Round::rd, Overflow::ieee, 0}), 0xFCu);
    EXPECT_EQ(encode(get(Fmt::f8e4m3), kInf), 0x7Eu);
    EXPECT_EQ(encode(get(Fmt::f8e4m3), -kInf), 0xFEu);
    EXPECT_EQ(encode(get(Fmt::f8e4m3), kInf, {Round::rne, Overflow::ieee, 0}), 0x7Fu);
    EXPECT_EQ(encode(get(Fmt::f8e4m3fnuz), -0.0), 0u);
    EXPECT_EQ(encode(get(Fmt::f8e4m3fnuz), -1e-9), 0u);
    EXPECT_TRUE(std::isnan(decode(get(Fmt::f8e4m3fnuz), 0x80)));
    EXPECT_EQ(encode(get(Fmt::f16), -0.0), 0x8000u);
    for (auto [id, code] : {std::pair{Fmt::f16, 0x7E00u},
                            {Fmt::bf16, 0x7FC0u},
                            {Fmt::f32, 0x7FC00000u},
                            {Fmt::tf32, 0x7FC00000u},
                            {Fmt::f8e5m2, 0x7Eu},
                            {Fmt::f8e4m3, 0x7Fu},
                            {Fmt::f8e4m3fnuz, 0x80u},
                            {Fmt::f4e2m1, 7u},
                            {Fmt::f6e3m2, 31u},
                            {Fmt::i8, 0u},
                            {Fmt::boolean, 1u}}) {
        bool over = false;
        EXPECT_EQ(encode(get(id), -kNan, {}, &over), code) << get(id).name;
        EXPECT_EQ(encode(get(id), kNan, {Round::rne, Overflow::sat, 0}), code) << get(id).name;
        EXPECT_EQ(over, !has_nan(get(id)) && id != Fmt::boolean) << get(id).name;
    }
    EXPECT_EQ(encode(get(Fmt::f64), kNan), 0x7FF8000000000000u);
    EXPECT_EQ(encode(get(Fmt::f64), kInf, {Round::rne, Overflow::sat, 0}), 0x7FEFFFFFFFFFFFFFu);
    EXPECT_EQ(encode(get(Fmt::f64), 5e-324), 1u);
}

TEST(format, conversions_between_integers) {
    Format i4 = int_format(4, true), u4 = int_format(4, false), i1 = int_format(1, true), u1 = int_format(1, false);
    const RoundSpec sat{Round::rne, Overflow::sat, 0};
    for (int64_t v = -128; v < 128; ++v) {
        uint64_t code = static_cast<uint64_t>(v);
        bool over = false;
        int64_t wrapped = ((v & 15) ^ 8) - 8;
        EXPECT_EQ(int64_t(convert(i4, get(Fmt::i8), code, {}, &over)), wrapped);
        EXPECT_EQ(over, v < -8 || v > 7);
        EXPECT_EQ(int64_t(convert(i4, get(Fmt::i8), code, sat)), std::clamp<int64_t>(v, -8, 7));
        EXPECT_EQ(convert(u4, get(Fmt::i8), code), uint64_t(v & 15));
        EXPECT_EQ(int64_t(convert(u4, get(Fmt::i8), code, sat)), std::clamp<int64_t>(v, 0, 15));
        EXPECT_EQ(convert(get(Fmt::boolean), get(Fmt::i8), code), uint64_t(v != 0));
        EXPECT_EQ(decode(get(Fmt::i8), code & 0xFF), double(v));
    }
    EXPECT_EQ(decode(i1, 1), -1.0);
    EXPECT_EQ(decode(u1, 1), 1.0);
    EXPECT_EQ(int64_t(convert(i1, get(Fmt::boolean), 1)), -1);
    EXPECT_EQ(convert(get(Fmt::u64), get(Fmt::i8), ~uint64_t{0}), ~uint64_t{0});
    EXPECT_EQ(convert(get(Fmt::i64), get(Fmt::u64), ~uint64_t{0}, sat), uint64_t(INT64_MAX));
    EXPECT_EQ(convert(get(Fmt::u64), get(Fmt::i64), ~uint64_t{0}, sat), 0u);
}

TEST(format, floats_to_integers_saturate) {
    struct Row {
        double x;
        Round round;
        int64_t i8, u8;
    };
    const Row rows[] = {{2.5, Round::rne, 2, 2},       {3.5, Round::rne, 4, 4},       {2.5, Round::rna, 3, 3},     {-2.5, Round::rne, -2, 0},
                        {-2.5, Round::rna, -3, 0},     {-2.5, Round::rtz, -2, 0},     {2.999, Round::rtz, 2, 2},   {-0.5, Round::rd, -1, 0},
                        {0.1, Round::ru, 1, 1},        {127.5, Round::rne, 127, 128}, {300, Round::rne, 127, 255}, {-300, Round::rne, -128, 0},
                        {1e300, Round::rne, 127, 255}, {-kInf, Round::rtz, -128, 0},  {kNan, Round::rne, 0, 0}};
    for (const Row& row : rows) {
        EXPECT_EQ(int64_t(encode(get(Fmt::i8), row.x, {row.round, {}, 0})), row.i8) << row.x;
        EXPECT_EQ(int64_t(encode(get(Fmt::u8), row.x, {row.round, {}, 0})), row.u8) << row.x;
        uint64_t code = encode(get(Fmt::f64), row.x);
        EXPECT_EQ(int64_t(convert(get(Fmt::i8), get(Fmt::f64), code, {row.round, Overflow::ieee, 0})), row.i8) << row.x;
        EXPECT_EQ(int64_t(round_exact(exact_from_double(row.x), get(Fmt::i8), {row.round, {}, 0})), row.i8) << row.x;
    }
    EXPECT_EQ(encode(get(Fmt::i64), 0x1p63), uint64_t(INT64_MAX));
    EXPECT_EQ(encode(get(Fmt::i64), -0x1p63), uint64_t(1) << 63);
    EXPECT_EQ(encode(get(Fmt::u64), 0x1p64), ~uint64_t{0});
    EXPECT_EQ(encode(get(Fmt::u64), 0x1.8p63), uint64_t{3} << 62);
    Exact just_above{Exact::finite, false, true, ~uint64_t{0}, 0};  // 2^64 - 1 and a bit
    bool over = false;
    EXPECT_EQ(round_exact(just_above, get(Fmt::u64), {Round::ru, {}, 0}, &over), ~uint64_t{0});
    EXPECT_TRUE(over);
    EXPECT_EQ(encode(get(Fmt::boolean), 1e-300), 1u);
    EXPECT_EQ(encode(get(Fmt::boolean), -0.0), 0u);
}

TEST(format, every_small_code_survives_a_trip_through_f32_and_f64) {
    for (Fmt id :
         {Fmt::f8e4m3, Fmt::f8e5m2, Fmt::f8e4m3fnuz, Fmt::f8e5m2fnuz, Fmt::f6e3m2, Fmt::f6e2m3, Fmt::f4e2m1, Fmt::f8e8m0, Fmt::f16, Fmt::bf16}) {
        const Format& f = get(id);
        for (uint64_t code = 0; code < uint64_t{1} << f.bits; ++code) {
            uint64_t want = std::isnan(decode(f, code)) ? nan_code(f) : code;
            ASSERT_EQ(convert(f, get(Fmt::f32), convert(get(Fmt::f32), f, code)), want) << f.name << " " << code;
            ASSERT_EQ(encode(f, decode(f, code)), want) << f.name << " " << code;
            ASSERT_EQ(round_exact(decode_exact(f, code), f, {}), want) << f.name << " " << code;
        }
    }
}

TEST(format, log_numbers_equal_mpfr) {
    for (auto [i, fr] : {std::pair{4u, 3u}, {1u, 6u}, {5u, 10u}, {7u, 0u}, {11u, 4u}}) {
        Format f = lns(i, fr);
        ASSERT_EQ(format_problem(f), "");
        unsigned width = i + fr;
        int64_t zero = int64_t{1} << (width - 1);
        mpfr_t log, value, boundary;
        mpfr_inits2(200, log, value, boundary, static_cast<mpfr_ptr>(nullptr));
        for (int64_t raw = -zero + 1; raw < zero; ++raw) {
            uint64_t code = static_cast<uint64_t>(raw) & ((uint64_t{1} << width) - 1);
            mpfr_set_si_2exp(log, raw, -int(fr), MPFR_RNDN);
            mpfr_exp2(value, log, MPFR_RNDN);
            double want = mpfr_get_d(value, MPFR_RNDN), got = decode(f, code);
            mpfr_sub_d(boundary, value, got, MPFR_RNDN);
            double ulp = std::nextafter(want, kInf) - want;
            ASSERT_LE(std::fabs(mpfr_get_d(boundary, MPFR_RNDN)), 0.501 * ulp) << canonical_name(f) << " " << raw;
            ASSERT_EQ(decode(f, code | uint64_t{1} << width), -got);
            ASSERT_EQ(encode(f, want), code) << canonical_name(f) << " " << raw;
            ASSERT_EQ(encode(f, -want), code | uint64_t{1} << width);
            if (raw + 1 == zero) continue;
            mpfr_set_si_2exp(log, 2 * raw + 1, -int(fr) - 1, MPFR_RNDN);  // the boundary of nearest lies at the middle of the logarithms
            mpfr_exp2(boundary, log, MPFR_RNDN);
            uint64_t next = static_cast<uint64_t>(raw + 1) & ((uint64_t{1} << width) - 1);
            ASSERT_EQ(encode(f, mpfr_get_d(boundary, MPFR_RNDD)), code);
            ASSERT_EQ(encode(f, mpfr_get_d(boundary, MPFR_RNDU)), next);
            ASSERT_EQ(encode(f, mpfr_get_d(boundary, MPFR_RNDU), {Round::rtz, {}, 0}), code);
            ASSERT_EQ(encode(f, mpfr_get_d(boundary, MPFR_RNDD), {Round::ru, {}, 0}), next);
        }
        mpfr_clears(log, value, boundary, static_cast<mpfr_ptr>(nullptr));
        uint64_t sign = uint64_t{1} << width, max = uint64_t(zero) - 1;
        EXPECT_EQ(encode(f, 0.0), uint64_t(zero));
        EXPECT_EQ(decode(f, uint64_t(zero)), 0.0);
        EXPECT_TRUE(std::isnan(decode(f, sign | uint64_t(zero))));
        EXPECT_EQ(encode(f, kNan), sign | uint64_t(zero));
        EXPECT_EQ(encode(f, kInf), max);
        EXPECT_EQ(encode(f, -kInf), sign | max);
        if (i < 11) {
            EXPECT_EQ(encode(f, 1e-320), uint64_t(zero) + 1);
            EXPECT_EQ(encode(f, 1e-320, {Round::rtz, {}, 0}), uint64_t(zero));
        }
    }
}

TEST(format, batches_equal_the_scalar_functions) {
    std::mt19937_64 random(9);
    std::vector<Format> formats = builtin_formats();
    formats.erase(formats.begin());
    formats.push_back(codebook(4, kNf4));
    formats.push_back(lns(4, 3));
    formats.push_back(int_format(3, true));
    formats.push_back(int_format(33, false));
    formats.push_back(float_format(3, 2));
    formats.push_back(float_format(0, 5));
    formats.push_back(float_format(11, 20));
    for (const Format& f : formats) {
        size_t n = 2000, bytes = f.container_bytes();
        std::vector<double> in(n), out(n);
        std::vector<uint64_t> containers(n);
        auto* raw = reinterpret_cast<uint8_t*>(containers.data());
        auto at = [&](size_t i) {
            uint64_t code = 0;
            std::memcpy(&code, raw + i * bytes, bytes);
            return code;
        };
        for (size_t i = 0; i < n; ++i)
            in[i] = i % 3 ? std::ldexp(double(int64_t(random())), -int(random() % 90) - 10) : std::bit_cast<double>(random());
        in[0] = -0.0, in[1] = kInf, in[2] = -kInf, in[3] = kNan;
        uint64_t mask = bytes == 8 ? ~uint64_t{0} : (uint64_t{1} << 8 * bytes) - 1;
        encode_many(f, in.data(), n, raw);
        for (size_t i = 0; i < n; ++i) ASSERT_EQ(at(i), encode(f, in[i]) & mask) << f.name << " " << in[i];
        for (uint64_t& c : containers) c = random();
        for (size_t count : {n, size_t{100}}) {
            decode_many(f, raw, count, out.data());
            for (size_t i = 0; i < count; ++i) {
                double want = decode(f, at(i));
                ASSERT_TRUE(std::isnan(want) ? std::isnan(out[i]) : std::bit_cast<uint64_t>(out[i]) == std::bit_cast<uint64_t>(want))
                    << f.name << " " << at(i);
            }
        }
    }
}

TEST(format, names_and_problems) {
    EXPECT_EQ(canonical_name(float_format(5, 10)), "f16");
    EXPECT_EQ(canonical_name(float_format(3, 4)), "float<3, 4>");
    EXPECT_EQ(canonical_name(int_format(3, false)), "u3");
    EXPECT_EQ(canonical_name(int_format(32, true)), "i32");
    EXPECT_EQ(canonical_name(get(Fmt::boolean)), "bool");
    EXPECT_EQ(canonical_name(codebook(1, {-1, 0.1})), "codebook<1>[-1, 0.1]");
    EXPECT_EQ(canonical_name(lns(4, 3)), "lns<4, 3>");
    Format odd = float_format(4, 3);
    odd.bias = 11, odd.has_inf = false, odd.nan = NanCode::negative_zero, odd.negative_zero = false;
    EXPECT_EQ(canonical_name(odd), "float<4, 3, bias = 11, inf = false, nan = negative_zero>");
    EXPECT_EQ(decode(odd, max_code(odd)), 30.0);  // ml_dtypes' float8_e4m3b11fnuz
    for (const Format& f : builtin_formats()) EXPECT_EQ(format_problem(f), f.bits ? "" : "an element has 1 to 64 bits") << f.name;

    auto problem = [](auto change) {
        Format f = float_format(4, 3);
        change(f);
        return format_problem(f);
    };
    EXPECT_EQ(problem([](Format&) {}), "");
    EXPECT_NE(problem([](Format& f) { f.bits = 9; }), "");
    EXPECT_NE(problem([](Format& f) { f.nan = NanCode::negative_zero; }), "");
    EXPECT_NE(problem([](Format& f) { f.exp_bits = 1, f.man_bits = 6; }), "");
    EXPECT_NE(problem([](Format& f) { f.bias = 1200; }), "");
    EXPECT_NE(problem([](Format& f) { f.bias = -1020; }), "");
    EXPECT_NE(problem([](Format& f) { f.bias = INT32_MIN; }), "");
    EXPECT_NE(problem([](Format& f) { f.exp_bits = 255, f.man_bits = 255; }), "");
    EXPECT_NE(format_problem(codebook(2, {1, 2, 3})), "");
    EXPECT_NE(format_problem(codebook(1, {1, kNan})), "");
    EXPECT_NE(format_problem(lns(12, 1)), "");
    EXPECT_NE(format_problem(lns(8, 8)), "");
}

// The table of numerics.md: which codes `nan` and `inf` give away, in formats of a sign, 3 exponent and 2 mantissa bits.
TEST(format, codes_of_nan_and_infinity) {
    constexpr int kNone = -1, kX = 28, kT = 31, kMinusZero = 32;
    const struct {
        NanCode nan;
        bool inf;
        int largest, infinity, made, first_nan;  ///< first_nan: of the magnitudes; kMinusZero: that code alone
    } rows[] = {{NanCode::ieee, true, kX - 1, kX, kX + 2, kX + 1},
                {NanCode::ieee, false, kX, kNone, kX + 2, kX + 1},
                {NanCode::all_ones, false, kT - 1, kNone, kT, kT},
                {NanCode::all_ones, true, kT - 2, kT - 1, kT, kT},
                {NanCode::negative_zero, false, kT, kNone, kMinusZero, kMinusZero},
                {NanCode::negative_zero, true, kT - 1, kT, kMinusZero, kMinusZero},
                {NanCode::none, false, kT, kNone, kT, kNone},
                {NanCode::none, true, kT - 1, kT, kT - 1, kNone}};
    for (const auto& row : rows) {
        Format f = float_format(3, 2);
        f.nan = row.nan;
        f.has_inf = row.inf;
        f.negative_zero = row.nan != NanCode::negative_zero;
        ASSERT_EQ(format_problem(f), "");
        const std::string name = canonical_name(f);
        EXPECT_EQ(static_cast<int>(max_code(f)), row.largest) << name;
        EXPECT_EQ(static_cast<int>(nan_code(f)), row.made) << name;
        EXPECT_EQ(static_cast<int>(encode(f, kNan)), row.made) << name;
        for (int code = 0; code < 64; ++code) {
            const int magnitude = code & 31;
            const bool nan = row.first_nan == kMinusZero ? code == kMinusZero : row.first_nan != kNone && magnitude >= row.first_nan;
            const double value = decode(f, static_cast<uint64_t>(code));
            EXPECT_EQ(std::isnan(value), nan) << name << ", code " << code;
            EXPECT_EQ(std::isinf(value), magnitude == row.infinity) << name << ", code " << code;
            const double plain = std::ldexp(magnitude < 4 ? magnitude : 4 + magnitude % 4, magnitude < 4 ? -4 : magnitude / 4 - 5);
            if (magnitude <= row.largest && !nan) {
                EXPECT_EQ(std::fabs(value), plain) << name << ", code " << code;
            }
        }
    }
}

TEST(format, unsigned_floats_of_negative_values) {
    Format f = float_format(5, 3);
    f.is_signed = f.negative_zero = f.has_inf = false;
    f.bits = 8;
    f.nan = NanCode::all_ones;
    const RoundSpec ieee{Round::rne, Overflow::ieee}, sat{Round::rne, Overflow::sat}, trap{Round::rne, Overflow::trap};
    for (const double x : {-1.0, -HUGE_VAL, -0.01}) {
        EXPECT_EQ(encode(f, x, sat), 0u);
        EXPECT_EQ(encode(f, x, ieee), 255u);
        EXPECT_EQ(encode(f, x, trap), 255u);
    }
    for (const double x : {-0.0, -1e-9})  // round to zero
        for (const RoundSpec& rule : {ieee, sat, trap}) EXPECT_EQ(encode(f, x, rule), 0u);
    f.nan = NanCode::none;
    EXPECT_EQ(encode(f, -1.0, ieee), 0u);
    const Format scale = builtin_formats()[static_cast<size_t>(Fmt::f8e8m0)];
    EXPECT_EQ(encode(scale, -1e-60, sat), 0u);
    EXPECT_EQ(encode(scale, -1e-60, ieee), 255u);
    EXPECT_EQ(encode(scale, -0.0, ieee), 0u);
}

}  // namespace
