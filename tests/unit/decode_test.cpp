// Decoding of packed codes (lang/decode.h): every plan is run on random words and compared with the cast, code by code, and its operations are
// counted against what the search is known to reach.
#include "lang/decode.h"

#include <gtest/gtest.h>

#include <random>

#include "lang/type.h"
#include "tests/unit/sample.h"

namespace tegula {
namespace {

Format named(Fmt f) { return builtin_formats()[static_cast<size_t>(f)]; }

/// One half of an addition or multiplication in the target format, with one rounding.
uint32_t half(const Format& f, uint32_t a, uint32_t b, bool product) {
    const double x = decode(f, a), y = decode(f, b);
    return static_cast<uint32_t>(encode(f, product ? x * y : x + y));  // exact in double
}

std::vector<uint32_t> run(const DecodePlan& plan, std::vector<uint32_t> values) {
    const Format f = named(plan.target);
    for (const DecodeStep& s : plan.steps) {
        const uint32_t a = values.at(static_cast<size_t>(s.a)), b = values.at(static_cast<size_t>(s.b));
        const uint64_t both = uint64_t{b} << 32 | a;
        uint32_t r = 0;
        switch (s.op) {
            case DecodeStep::shift_left:
                r = a << s.x;
                break;
            case DecodeStep::shift_right:
                r = a >> s.x;
                break;
            case DecodeStep::funnel:
                r = static_cast<uint32_t>(both >> s.x);
                break;
            case DecodeStep::pick:
                for (int i = 0; i < 4; ++i) r |= static_cast<uint32_t>(both >> 8 * (s.x >> 4 * i & 7) & 0xff) << 8 * i;
                break;
            case DecodeStep::and_xor:
                r = (a & s.x) ^ s.y;
                break;
            case DecodeStep::and_or:
                r = (a & s.x) | b;
                break;
            case DecodeStep::add:
            case DecodeStep::mul:
                r = half(f, a & 0xffff, s.x & 0xffff, s.op == DecodeStep::mul) | half(f, a >> 16, s.x >> 16, s.op == DecodeStep::mul) << 16;
                break;
        }
        values.push_back(r);
    }
    std::vector<uint32_t> out;
    for (const int p : plan.pairs) out.push_back(values.at(static_cast<size_t>(p)));
    return out;
}

uint32_t field(const std::vector<uint32_t>& words, int at, int bits) {
    uint64_t both = words[static_cast<size_t>(at / 32)];
    if (static_cast<size_t>(at / 32 + 1) < words.size()) both |= uint64_t{words[static_cast<size_t>(at / 32 + 1)]} << 32;
    return static_cast<uint32_t>(both >> at % 32) & ((1u << bits) - 1);
}

using Pairs = std::vector<std::array<int, 2>>;

void expect_casts(const Format& from, Fmt to, int words, const Pairs& pairs, const std::string& what, int rounds) {
    const auto plan = plan_decoding(from, to, words, pairs);
    ASSERT_TRUE(plan.has_value()) << what;
    ASSERT_EQ(plan->pairs.size(), pairs.size());
    std::mt19937 random(1);
    for (int n = 0; n < rounds; ++n) {
        std::vector<uint32_t> in(static_cast<size_t>(words));
        for (uint32_t& w : in) w = n == 0 ? 0 : n == 1 ? ~0u : static_cast<uint32_t>(random());
        const std::vector<uint32_t> out = run(*plan, in);
        for (size_t p = 0; p < pairs.size(); ++p)
            for (size_t h = 0; h < 2; ++h) {
                const uint64_t code = extend_code(from, field(in, pairs[p][h], from.bits));
                ASSERT_EQ(out[p] >> 16 * h & 0xffff, convert(named(to), from, code)) << what << " pair " << p << " half " << h << " code " << code;
            }
    }
}

/// Pairs `apart` elements apart, in words that whole elements fill.
Pairs pairs_apart(int bits, int words, int apart) {
    Pairs out;
    const int n = words * 32 / bits;
    for (int i = 0; i < n; ++i)
        if (i / apart % 2 == 0 && i + apart < n) out.push_back({i * bits, (i + apart) * bits});
    return out;
}

TEST(Decode, EveryWidthFromEveryOrder) {
    uint64_t number = 0;
    for (const Fmt to : {Fmt::f16, Fmt::bf16})
        for (int bits = 1; bits <= 8; ++bits)
            for (const bool is_signed : {false, true})
                for (const int apart : {1, 2, 4, 8}) {
                    if (!test::is_sampled(number++)) continue;
                    const Format from = int_format(static_cast<unsigned>(bits), is_signed);
                    if (!has_decoding(from, to)) {
                        EXPECT_TRUE(to == Fmt::bf16 && bits == 8);
                        continue;
                    }
                    const int words = 32 % bits ? bits : bits > 4 ? 2 : 1;
                    expect_casts(from, to, words, pairs_apart(bits, words, apart),
                                 from.name + " to " + named(to).name + " by " + std::to_string(apart), 200);
                }
}

TEST(Decode, PairsAnywhere) {
    std::mt19937 random(7);
    for (int n = 0; n < 600; ++n) {
        if (!test::is_sampled(static_cast<uint64_t>(n))) continue;
        const int bits = 1 + static_cast<int>(random() % 8), words = 1 + static_cast<int>(random() % 4);
        Pairs pairs;
        for (int p = 0; p < 4; ++p) {
            const auto at = [&] { return static_cast<int>(random() % static_cast<unsigned>(words * 32 - bits + 1)); };
            pairs.push_back({at(), at()});
        }
        const Fmt to = bits == 8 || random() % 2 ? Fmt::f16 : Fmt::bf16;
        const Format from = int_format(static_cast<unsigned>(bits), random() % 2);
        // Fields of one pair in three words and more have no recipe; nothing else may be wrong.
        if (plan_decoding(from, to, words, pairs)) expect_casts(from, to, words, pairs, "anywhere", 20);
    }
}

TEST(Decode, MinifloatsAndFixedPoint) {
    std::vector<Format> formats = {named(Fmt::f4e2m1), named(Fmt::f6e2m3), named(Fmt::f6e3m2)};
    for (const auto& [e, m] : {std::pair{2u, 0u}, {3u, 1u}, {1u, 2u}, {3u, 4u}, {4u, 2u}}) {
        Format f = float_format(e, m);
        f.has_inf = false;
        f.nan = NanCode::none;
        formats.push_back(f);
        f.is_signed = false;
        --f.bits;
        formats.push_back(f);
    }
    for (const auto& [i, f] : {std::pair{1, 3}, {4, 4}, {2, 2}, {0, 5}})
        for (const bool is_signed : {true, false}) {
            Format x;
            x.kind = FormatKind::fixed;
            x.is_signed = is_signed;
            x.int_bits = static_cast<uint8_t>(i);
            x.frac_bits = static_cast<uint8_t>(f);
            x.bits = static_cast<uint8_t>(i + f);
            formats.push_back(x);
        }
    uint64_t number = 0;
    for (const Format& from : formats)
        for (const Fmt to : {Fmt::f16, Fmt::bf16}) {
            if (!test::is_sampled(number++)) continue;
            const std::string what = canonical_name(from) + " to " + named(to).name;
            if (!has_decoding(from, to)) {
                EXPECT_TRUE(to == Fmt::bf16 && from.bits == 8) << what;
                continue;
            }
            const int words = 32 % from.bits ? from.bits : 1;
            for (const int apart : {1, 4}) expect_casts(from, to, words, pairs_apart(from.bits, words, apart), what, 200);
        }
    EXPECT_FALSE(has_decoding(named(Fmt::f8e4m3), Fmt::f16));
    EXPECT_FALSE(has_decoding(named(Fmt::f8e5m2), Fmt::f16));
    EXPECT_FALSE(has_decoding(named(Fmt::f16), Fmt::f16));
}

/// Operations per weight, in hundredths.
int cost_of(int bits, bool is_signed, Fmt to, int apart) {
    const int words = 32 % bits ? bits : bits > 4 ? 2 : 1;
    const Pairs pairs = pairs_apart(bits, words, apart);
    const auto plan = plan_decoding(int_format(static_cast<unsigned>(bits), is_signed), to, words, pairs);
    return plan ? static_cast<int>(100 * plan->steps.size() / (2 * pairs.size())) : 1000;
}

TEST(Decode, CostsWhatIsKnownToDo) {
    const int rows[] = {112, 125, 150, 150, 165, 168, 168, 150}, fragments[] = {112, 112, 150, 112, 165, 162, 187, 150};
    for (int bits = 1; bits <= 8; ++bits)
        for (const bool is_signed : {false, true}) {
            EXPECT_LE(cost_of(bits, is_signed, Fmt::f16, 1), rows[bits - 1]) << bits;
            EXPECT_LE(cost_of(bits, is_signed, Fmt::f16, 4), fragments[bits - 1]) << bits;
        }
}

}  // namespace
}  // namespace tegula
