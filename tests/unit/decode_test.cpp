// Decoding of packed codes (lang/decode.h): every plan is run on random words and compared with the cast, code by code, and its operations are
// counted against what the search is known to reach.
#include "lang/decode.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "lang/decode_bytes.h"
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

/// PRMT: bytes by nibbles, whose top bit makes a byte eight copies of its top bit.
uint32_t bytes_of(uint64_t from, uint32_t nibbles) {
    uint32_t out = 0;
    for (int i = 0; i < 4; ++i) {
        const uint32_t n = nibbles >> 4 * i & 15, byte = static_cast<uint32_t>(from >> 8 * (n & 7) & 0xff);
        out |= (n & 8 ? (byte & 0x80 ? 0xffu : 0u) : byte) << 8 * i;
    }
    return out;
}

/// `from`: of codes in the table of pairs.
std::vector<uint32_t> run(const DecodePlan& plan, std::vector<uint32_t> values, int moved, const Format& from = {}) {
    const Format f = named(plan.target);
    for (const DecodeStep& s : plan.steps) {
        const uint32_t a = values.at(static_cast<size_t>(s.a)), b = values.at(static_cast<size_t>(s.b));
        const uint64_t both = uint64_t{b} << 32 | a;
        uint32_t r = 0, x = s.x;
        if (s.op == DecodeStep::funnel_by || s.op == DecodeStep::pick_by) x = plan.number_of(s.x, moved);
        switch (s.op) {
            case DecodeStep::shift_left:
                r = a << s.x;
                break;
            case DecodeStep::shift_right:
                r = a >> s.x;
                break;
            case DecodeStep::funnel:
            case DecodeStep::funnel_by:
                EXPECT_LT(x, 32u);
                r = static_cast<uint32_t>(both >> x);
                break;
            case DecodeStep::pick:
            case DecodeStep::pick_by:
                r = bytes_of(both, x);
                break;
            case DecodeStep::and_xor:
                r = (a & s.x) ^ s.y;
                break;
            case DecodeStep::and_or:
                r = (a & s.x) | b;
                break;
            case DecodeStep::look_up:
                EXPECT_LT(a, 256u);
                for (int i = 0; i < 2; ++i) r |= static_cast<uint32_t>(convert(f, from, extend_code(from, a >> 4 * i & 15))) << 16 * i;
                break;
            case DecodeStep::halves:
                for (int i = 0; i < 2; ++i)
                    r |= static_cast<uint32_t>(convert(named(Fmt::f16), named(Fmt::f8e4m3), a >> 8 * i & 0xff)) << 16 * i;
                break;
            case DecodeStep::brains:
                for (int i = 0; i < 2; ++i)
                    r |= static_cast<uint32_t>(convert(named(Fmt::bf16), named(Fmt::f16), a >> 16 * i & 0xffff)) << 16 * i;
                break;
            case DecodeStep::select:
                r = (a & s.x) | (b & ~s.x);
                break;
            case DecodeStep::table:
                r = bytes_of(uint64_t{s.y} << 32 | s.x, a);
                break;
            case DecodeStep::choose:
                r = bytes_of(both, values.at(static_cast<size_t>(s.c)));
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

void expect_casts(const Format& from, Fmt to, int words, const Pairs& pairs, const std::string& what, int rounds,
                  const std::vector<int>& moves = {}) {
    const auto plan = plan_decoding(from, to, words, pairs, moves);
    ASSERT_TRUE(plan.has_value()) << what;
    ASSERT_EQ(plan->pairs.size(), pairs.size());
    std::mt19937 random(1);
    for (int n = 0; n < rounds; ++n) {
        std::vector<uint32_t> in(static_cast<size_t>(words));
        for (uint32_t& w : in) w = n == 0 ? 0 : n == 1 ? ~0u : static_cast<uint32_t>(random());
        const int moved = moves.empty() ? 0 : moves[static_cast<size_t>(n) % moves.size()];
        const std::vector<uint32_t> out = run(*plan, in, moved);
        for (size_t p = 0; p < pairs.size(); ++p)
            for (size_t h = 0; h < 2; ++h) {
                const uint64_t code = extend_code(from, field(in, pairs[p][h] + moved, from.bits));
                const uint64_t got = out[p] >> 16 * h & 0xffff, want = convert(named(to), from, code);
                if (std::isnan(decode(named(to), want)) && std::isnan(decode(named(to), got))) continue;  // payloads are not promised
                ASSERT_EQ(got, want) << what << " pair " << p << " half " << h << " code " << code;
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

/// A thread's neighbours of a fragment whose rows lie in plain order: elements 2c, 2c + 1 of every 8 for threads c = 0 .. 3.
struct Rows {
    Pairs pairs;
    int words;
    std::vector<int> moves;
};
Rows rows_of(int bits) {
    Rows out;
    for (int i = 0; i < 128; i += 8) out.pairs.push_back({i * bits, (i + 1) * bits});
    out.words = 128 * bits / 32;
    for (int c = 0; c < 4; ++c) out.moves.push_back(2 * c * bits);
    return out;
}

TEST(Decode, CodesThatLieFurtherInSomeThreads) {
    const int most[] = {163, 175, 188, 150, 213, 230, 250, 150};  // operations per weight, in hundredths
    uint64_t number = 0;
    for (const Fmt to : {Fmt::f16, Fmt::bf16})
        for (int bits = 1; bits <= 8; ++bits)
            for (const bool is_signed : {false, true}) {
                if (!test::is_sampled(number++)) continue;
                const Format from = int_format(static_cast<unsigned>(bits), is_signed);
                const Rows rows = rows_of(bits);
                const auto plan = plan_decoding(from, to, rows.words, rows.pairs, rows.moves);
                if (to == Fmt::f16) {
                    ASSERT_TRUE(plan.has_value()) << bits;
                    EXPECT_LE(static_cast<int>(100 * plan->steps.size() / (2 * rows.pairs.size())), most[bits - 1]) << bits;
                }
                if (plan) expect_casts(from, to, rows.words, rows.pairs, from.name + " to " + named(to).name + " of rows", 100, rows.moves);
            }
    for (const Fmt f : {Fmt::f4e2m1, Fmt::f6e3m2}) {
        const Rows rows = rows_of(named(f).bits);
        if (plan_decoding(named(f), Fmt::f16, rows.words, rows.pairs, rows.moves))
            expect_casts(named(f), Fmt::f16, rows.words, rows.pairs, named(f).name + " of rows", 100, rows.moves);
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
    EXPECT_FALSE(has_decoding(named(Fmt::f8e4m3), Fmt::i8));
    EXPECT_FALSE(has_decoding(named(Fmt::f16), Fmt::f16));
}

/// Every code of every narrow format as every 8-bit format, four of them from bytes, fields of `apart` and anywhere.
void expect_bytes(const Format& from, Fmt to, int words, const std::vector<std::array<int, 4>>& quads, const std::string& what, int most) {
    const auto plan = plan_bytes(from, to, words, quads);
    ASSERT_TRUE(plan.has_value()) << what;
    EXPECT_LE(static_cast<int>(100 * plan->steps.size() / (4 * quads.size())), most) << what << ": " << plan->text();
    std::mt19937 random(3);
    for (int n = 0; n < 60; ++n) {
        std::vector<uint32_t> in(static_cast<size_t>(words));
        for (uint32_t& w : in) w = static_cast<uint32_t>(random());
        const std::vector<uint32_t> out = run(*plan, in, 0);
        for (size_t q = 0; q < quads.size(); ++q)
            for (size_t b = 0; b < 4; ++b) {
                const uint64_t code = extend_code(from, field(in, quads[q][b], from.bits));
                ASSERT_EQ(out[q] >> 8 * b & 0xff, convert(named(to), from, code) & 0xff) << what << " byte " << b << " code " << code;
            }
    }
}

std::vector<std::array<int, 4>> quads_apart(int bits, int words, int apart) {
    std::vector<std::array<int, 4>> out;
    const int n = words * 32 / bits;
    for (int i = 0; i + 3 * apart < n; ++i)
        if (i / apart % 4 == 0) out.push_back({i * bits, (i + apart) * bits, (i + 2 * apart) * bits, (i + 3 * apart) * bits});
    return out;
}

Format codebook(int bits, int seed) {
    std::mt19937 random(static_cast<unsigned>(seed));
    Format f;
    f.kind = FormatKind::codebook;
    f.bits = static_cast<uint8_t>(bits);
    f.is_signed = false;
    std::vector<double> values;
    for (int i = 0; i < 1 << bits; ++i) values.push_back(std::uniform_real_distribution<double>(-2, 2)(random));
    f.table = values;
    return f;
}

TEST(Decode, BytesOfEveryFormat) {
    // Hundredths of an operation per code: in the order of 8-bit fragments (fields two apart), and of plain rows.
    const int pairs[] = {84, 56, 221, 68, 237, 162, 237}, rows[] = {121, 81, 221, 100, 237, 209, 237};
    for (int bits = 1; bits < 8; ++bits)
        for (const bool is_signed : {false, true})
            for (const Fmt to : {Fmt::i8, Fmt::u8}) {
                if (is_signed && to == Fmt::u8 && bits > 4) continue;
                const Format from = int_format(static_cast<unsigned>(bits), is_signed);
                const int words = 32 % bits ? bits : 2;
                for (const int apart : {1, 2, 4})
                    expect_bytes(from, to, words, quads_apart(bits, words, apart),
                                 from.name + " to " + named(to).name + " by " + std::to_string(apart),
                                 to == Fmt::i8 && apart < 4 ? (apart == 2 ? pairs : rows)[bits - 1] : 400);
            }
    std::vector<Format> formats = {named(Fmt::f4e2m1), float_format(1, 1), float_format(2, 1), int_format(4, true), int_format(3, false)};
    for (int bits = 1; bits <= 4; ++bits) formats.push_back(codebook(bits, bits));
    for (const Format& from : formats)
        for (const Fmt to : {Fmt::i8, Fmt::u8, Fmt::f8e4m3, Fmt::f8e5m2})
            for (const int apart : {1, 2}) {
                const int words = 32 % from.bits ? from.bits : 1;
                expect_bytes(from, to, words, quads_apart(from.bits, words, apart), canonical_name(from) + " to " + named(to).name, 265);
            }
    // Plain rows by words of 4 bytes: the codes of every second thread lie 16 bits further.
    for (const bool is_signed : {false, true})
        for (const Fmt to : {Fmt::i8, Fmt::f8e4m3}) {
            const Format from = int_format(4, is_signed);
            const std::vector<std::array<int, 4>> quads = {{0, 4, 8, 12}, {32, 36, 40, 44}, {64, 68, 72, 76}, {96, 100, 104, 108}};
            const auto plan = plan_bytes(from, to, 4, quads, std::vector<int>{0, 16});
            ASSERT_TRUE(plan.has_value());
            EXPECT_LE(100 * plan->steps.size(), (to == Fmt::i8 ? 130u : 180u) * 16) << plan->text();
            std::mt19937 random(3);
            for (int n = 0; n < 60; ++n) {
                std::vector<uint32_t> in(4);
                for (uint32_t& w : in) w = static_cast<uint32_t>(random());
                const std::vector<uint32_t> out = run(*plan, in, n % 2 * 16);
                for (size_t q = 0; q < quads.size(); ++q)
                    for (size_t b = 0; b < 4; ++b) {
                        const uint64_t code = extend_code(from, field(in, quads[q][b] + n % 2 * 16, 4));
                        ASSERT_EQ(out[q] >> 8 * b & 0xff, convert(named(to), from, code) & 0xff) << from.name << " to " << named(to).name;
                    }
            }
        }
    EXPECT_FALSE(has_byte_decoding(int_format(5, true), Fmt::f8e4m3));
    EXPECT_FALSE(has_byte_decoding(named(Fmt::f6e2m3), Fmt::f8e4m3));
}

TEST(Decode, TablesOfEveryFormat) {
    std::vector<Format> formats = {named(Fmt::f4e2m1), float_format(2, 1), float_format(1, 2), float_format(1, 1)};
    for (int bits = 1; bits <= 4; ++bits) formats.push_back(codebook(bits, bits));
    for (const Format& from : formats)
        for (const Fmt to : {Fmt::f16, Fmt::bf16})
            for (const int apart : {1, 2, 4}) {
                ASSERT_TRUE(has_decoding(from, to));
                const int words = 32 % from.bits ? from.bits : 1;
                expect_casts(from, to, words, pairs_apart(from.bits, words, apart), canonical_name(from) + " to " + named(to).name, 40);
            }
    const Format nf4 = codebook(4, 9);
    const auto cost = [&](int apart) {
        const Pairs pairs = pairs_apart(4, 1, apart);
        return 100 * plan_decoding(nf4, Fmt::f16, 1, pairs)->steps.size() / (2 * pairs.size());
    };
    EXPECT_LE(cost(1), 275u);
    EXPECT_LE(cost(4), 290u);
}

TEST(Decode, PairsOutOfSharedMemory) {
    const Format nf4 = codebook(4, 9);
    for (const Fmt to : {Fmt::f16, Fmt::bf16})
        for (const int apart : {1, 2, 4, 0}) {
            const Rows rows = rows_of(4);
            const Pairs pairs = apart ? pairs_apart(4, 2, apart) : rows.pairs;
            const int words = apart ? 2 : rows.words;
            const auto plan = plan_look_ups(nf4, to, words, pairs, apart ? std::vector<int>{} : rows.moves);
            ASSERT_TRUE(plan.has_value());
            EXPECT_LE(100 * plan->logic(), (apart < 2 ? 160 : 210) * static_cast<int>(2 * pairs.size())) << apart << " " << plan->text();
            std::mt19937 random(5);
            for (int n = 0; n < 60; ++n) {
                std::vector<uint32_t> in(static_cast<size_t>(words));
                for (uint32_t& w : in) w = static_cast<uint32_t>(random());
                const int moved = apart ? 0 : rows.moves[static_cast<size_t>(n) % 4];
                const std::vector<uint32_t> out = run(*plan, in, moved, nf4);
                for (size_t p = 0; p < pairs.size(); ++p)
                    for (size_t h = 0; h < 2; ++h)
                        ASSERT_EQ(out[p] >> 16 * h & 0xffff, convert(named(to), nf4, field(in, pairs[p][h] + moved, 4))) << apart;
            }
        }
}

TEST(Decode, Fp8WithInfAndNan) {
    for (const Fmt from : {Fmt::f8e4m3, Fmt::f8e5m2})
        for (const Fmt to : {Fmt::f16, Fmt::bf16}) {
            const std::string what = named(from).name + " to " + named(to).name;
            for (const int apart : {1, 2, 4}) {
                const Pairs pairs = pairs_apart(8, 2, apart);
                expect_casts(named(from), to, 2, pairs, what, 600);
                const auto plan = plan_decoding(named(from), to, 2, pairs);
                EXPECT_LE(100 * (plan->logic() + plan->arithmetic()), (to == Fmt::f16 ? 100 : 250) * static_cast<int>(2 * pairs.size())) << what;
            }
            expect_casts(named(from), to, 2, {{0, 8}, {32, 40}}, what + " further", 600, {0, 16});
        }
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
