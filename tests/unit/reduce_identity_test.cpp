// The code that stands for ghosts in a reduction joins every code of its format without effect, on either side: what the interpreter computes, for
// all kinds and formats, integers of every width, and NaN. Which kinds of reductions keep a NaN.
#include <gtest/gtest.h>

#include <array>
#include <random>

#include "lang/joining.h"
#include "lang/scalar.h"

using namespace tegula;
using ir::ReduceKind;

namespace {

bool is_nan_code(const Format& f, uint64_t code) { return f.is_float() && decode(f, code) != decode(f, code); }

/// All codes of narrow formats, the outer ones and a few of the others.
std::vector<uint64_t> codes_of(const Format& f) {
    std::vector<uint64_t> out{
        0, extend_code(f, 1), max_code(f), lowest_code(f), extend_code(f, ~uint64_t{0}), extend_code(f, uint64_t{1} << (f.bits - 1))};
    if (f.is_float()) {
        out.insert(out.end(), {nan_code(f), encode(f, -0.0), encode(f, 1.0), encode(f, -1.0)});
        if (f.has_inf) out.push_back(inf_code(f, false));
        if (f.has_inf && f.is_signed) out.push_back(inf_code(f, true));
    }
    for (uint64_t c = 0; f.bits <= 10 && c < uint64_t{1} << f.bits; ++c) out.push_back(extend_code(f, c));
    std::mt19937_64 random(f.bits);
    for (int i = 0; i < 200; ++i) out.push_back(extend_code(f, random()));
    return out;
}

size_t check(const Format& f) {
    size_t known = 0;
    for (int k = 0; k <= static_cast<int>(ReduceKind::bit_xor); ++k) {
        const auto kind = static_cast<ReduceKind>(k);
        const ir::Op op = ir::joining_op(kind, f);
        const auto one = reduce_identity(kind, f);
        if (!one || !ir::in_domain(op, f, false)) continue;
        ++known;
        for (const uint64_t x : codes_of(f)) {
            if (f.is_float() && !is_nan_code(f, x) && encode(f, decode(f, x)) != x) continue;  // no value's own code (tf32 in its container)
            for (const bool left : {false, true}) {
                const std::array<uint64_t, 2> codes{left ? *one : x, left ? x : *one};
                const uint64_t r = scalar::eval_elementwise(op, f, codes);
                if (is_nan_code(f, x) && is_nan_code(f, r)) continue;
                EXPECT_EQ(r, x) << f.name << ", kind " << k << ", identity " << *one;
                if (r != x) return known;
            }
        }
    }
    return known;
}

TEST(ReduceIdentity, JoinsWithoutEffect) {
    size_t known = 0;
    for (const Format& f : builtin_formats())
        if (f.kind != FormatKind::block && f.bits > 0) known += check(f);
    EXPECT_GT(known, 100u);
    for (unsigned bits = 1; bits <= 64; ++bits)
        for (const bool is_signed : {false, true}) EXPECT_GE(check(int_format(bits, is_signed)), bits == 1 ? 6u : 7u) << bits;
}

/// A NaN among numbers is what min and max give, and what minnum and maxnum leave out.
TEST(ReduceJoining, NanAmongNumbers) {
    size_t tried = 0;
    for (const Format& f : builtin_formats()) {
        if (!f.is_float() || !is_nan_code(f, nan_code(f))) continue;
        const uint64_t nan = nan_code(f), one = encode(f, 1.0);
        for (const ReduceKind kind : {ReduceKind::min, ReduceKind::max, ReduceKind::minnum, ReduceKind::maxnum}) {
            const bool number = kind == ReduceKind::minnum || kind == ReduceKind::maxnum;
            for (const auto& codes : {std::array{nan, one}, std::array{one, nan}}) {
                const uint64_t r = scalar::eval_elementwise(ir::joining_op(kind, f), f, codes);
                EXPECT_TRUE(number ? r == one : is_nan_code(f, r)) << f.name << ", kind " << static_cast<int>(kind) << " gives " << r;
                ++tried;
            }
        }
    }
    EXPECT_GT(tried, 30u);
}

}  // namespace
