// Emitted arithmetic equals lang's on all codes of narrow formats and on edges and random codes of wide ones: rows, conversions with every rounding
// and overflow, packed storage, stochastic rounding. Vectors of several widths, with the host's instructions and with plain ones. Of the pairs with
// other formats than the built-in ones a run takes a sample, and all of them with TEGULA_LONG.
#include "tests/unit/cpu_scalars_fixture.h"

#include <cmath>

#include "lang/scalar.h"
#include "tests/unit/hard_operands.h"
#include "tests/unit/sample.h"

namespace tegula::testing {
namespace {

using cpu::Scalars;

bool is_fast(ir::Op op) { return scalar::wide_f32(op); }

Format result_format(ir::Op op, const Format& f) { return ir::op_row(op).result == ir::ResultRule::boolean ? builtin_formats()[1] : f; }

/// Operand arrays of equal length, a multiple of `step`.
std::vector<std::vector<uint64_t>> operand_codes(const Format& f, int arity, size_t step) {
    std::vector<std::vector<uint64_t>> x(static_cast<size_t>(arity));
    const std::vector<uint64_t> codes = codes_of(f, 600);
    std::mt19937_64 rng(f.bits + 7u * f.man_bits + static_cast<unsigned>(arity));
    if (arity == 1) {
        x[0] = codes;
    } else if (arity == 2 && f.bits <= 8) {
        for (uint64_t a : codes)
            for (uint64_t b : codes) x[0].push_back(a), x[1].push_back(b);
    } else {
        // Values close to each other are where rounding and cancelling happen; small amounts are where shifts do.
        for (int i = 0; i < 40000; ++i)
            for (auto& v : x) v.push_back(codes[rng() % codes.size()]);
        for (int i = 0; i < 20000; ++i) {
            const uint64_t a = codes[rng() % codes.size()];
            for (auto& v : x) v.push_back(extend_code(f, a + rng() % 64 - (i % 2 ? 32 : 0)));
        }
        for (int i = 0; i < 3000; ++i) {
            for (auto& v : x) v.push_back(codes[rng() % codes.size()]);
            x.back().back() = extend_code(f, rng() % 70);
        }
    }
    for (auto& v : x)
        while (v.size() % step) v.push_back(0);
    return x;
}

struct RowCase {
    ir::Op op;
    Format format;
};

void check_row(const RowCase& c, ArrayEntry entry, unsigned lanes) {
    const int arity = ir::op_row(c.op).operands;
    const Format out = result_format(c.op, c.format);
    const auto x = operand_codes(c.format, arity, std::max(lanes, 1u));
    std::vector<std::vector<uint8_t>> data;
    std::vector<const void*> in;
    for (const auto& v : x) data.push_back(pack_containers(c.format, v));
    for (const auto& d : data) in.push_back(d.data());
    const size_t n = x[0].size();
    std::vector<uint8_t> result(n * out.container_bytes() + 64);
    entry(in.data(), result.data(), static_cast<int64_t>(n));
    int shown = 0;
    for (size_t i = 0; i < n && shown < 3; ++i) {
        uint64_t codes[3] = {};
        for (size_t k = 0; k < x.size(); ++k) codes[k] = x[k][i];
        const uint64_t want = container_of(out, scalar::eval_elementwise(c.op, c.format, {codes, x.size()})), got = container_at(out, result, i);
        if (got == want) continue;
        ++shown;
        ADD_FAILURE() << ir::op_row(c.op).name << " on " << c.format.name << ", " << lanes << " lanes: " << std::hex << codes[0] << ", " << codes[1]
                      << ", " << codes[2] << " gave " << got << ", not " << want;
    }
}

void check_rows(const std::vector<Format>& formats, unsigned lanes, bool plain, bool called = false) {
    for (const Format& f : formats) {
        ArrayJit jit(plain, called);
        std::vector<RowCase> cases;
        std::vector<ArrayFunction> functions;
        for (int o = 0; o < static_cast<int>(ir::Op::count_); ++o) {
            const ir::Op op = static_cast<ir::Op>(o);
            if (!ir::has_trait(op, ir::ELEMWISE) || is_fast(op) || !ir::in_domain(op, f, false)) continue;
            cases.push_back({op, f});
            functions.push_back({std::vector<Format>(static_cast<size_t>(ir::op_row(op).operands), f), result_format(op, f),
                                 [op, f, called](Scalars& s, std::vector<Value*> x) {
                                     if (called) s.elementwise(op, f, x);  // nobody wants this one
                                     return s.elementwise(op, f, x);
                                 }});
        }
        const auto entries = jit.compile(functions, lanes);
        for (size_t i = 0; i < cases.size(); ++i) check_row(cases[i], entries[i], lanes);
    }
}

/// Built-in formats, which all_formats() begins with; a sweep takes all of them, and of the others a sample.
size_t builtin_count() { return builtin_formats().size() - 1; }

std::vector<Format> with_rows(bool sample) {
    std::vector<Format> some;
    const std::vector<Format> all = all_formats();
    for (size_t i = 0; i < all.size(); ++i)
        if (all[i].kind != FormatKind::codebook && (!sample || i < builtin_count() || test::is_sampled(i))) some.push_back(all[i]);
    return some;
}

TEST(CpuScalars, RowsOfAllFormats) { check_rows(with_rows(false), 16, false); }
TEST(CpuScalars, RowsOnSingleElements) { check_rows(with_rows(true), 0, false); }

TEST(CpuScalars, RowsOnOtherWidths) {
    std::vector<Format> some;
    for (const Format& f : builtin_formats())
        for (const char* name : {"bool", "f64", "f32", "bf16", "f16", "f8e4m3", "i8", "u16", "i32", "u64"})
            if (f.name == name) some.push_back(f);
    check_rows(some, 3, false);
    check_rows(some, 8, false);
    check_rows(some, 4, true);
}

TEST(CpuScalars, RowsThatAreCalled) {
    std::vector<Format> some;
    for (const Format& f : all_formats())
        for (const char* name : {"bf16", "f16", "f8e4m3", "f8e5m2", "i64", "lns<4, 3>", "lns<6, 5>"})
            if (f.name == name) some.push_back(f);
    check_rows(some, 16, false, true);
    check_rows(some, 4, true, true);
}

void check_hard_operands(const Format& f, bool plain) {
    ArrayJit jit(plain);
    std::vector<ArrayFunction> functions;
    for (ir::Op op : test::kRoundedOps) {
        const auto arity = static_cast<size_t>(ir::op_row(op).operands);
        functions.push_back({std::vector<Format>(arity, f), f, [op, f](Scalars& s, std::vector<Value*> x) { return s.elementwise(op, f, x); }});
    }
    const auto entries = jit.compile(functions, 8);
    for (size_t k = 0; k < entries.size(); ++k) {
        const ir::Op op = test::kRoundedOps[k];
        test::HardOperands operands(f, 2);
        std::vector<uint64_t> x[3], want;
        for (int i = 0; i < 2000; ++i) {
            const auto codes = operands.next(op);
            for (size_t j = 0; j < 3; ++j) x[j].push_back(codes[j]);
            want.push_back(container_of(f, scalar::eval_elementwise(op, f, {codes.data(), functions[k].in.size()})));
        }
        const std::vector<uint8_t> a = pack_containers(f, x[0]), b = pack_containers(f, x[1]), c = pack_containers(f, x[2]);
        const void* const in[] = {a.data(), b.data(), c.data()};
        std::vector<uint8_t> result(want.size() * f.container_bytes() + 64);
        entries[k](in, result.data(), static_cast<int64_t>(want.size()));
        for (size_t i = 0; i < want.size(); ++i)
            ASSERT_EQ(container_at(f, result, i), want[i])
                << ir::op_row(op).name << " of " << f.name << ": " << std::hex << x[0][i] << ", " << x[1][i] << ", " << x[2][i];
    }
}

TEST(CpuScalars, WideFloatsRoundOnce) {
    for (const Format& f : test::some_wide_floats())
        for (bool plain : {false, true})
            if (!plain || f.exp_bits == 8) check_hard_operands(f, plain);
}

struct CastCase {
    Format from, to;
    Round round;
    Overflow overflow;
};

void check_cast(const CastCase& c, ArrayEntry entry, size_t step) {
    std::vector<uint64_t> codes = codes_of(c.from);
    while (codes.size() % step) codes.push_back(0);
    const bool random = c.round == Round::stochastic;
    std::vector<uint64_t> bits(codes.size());
    std::mt19937_64 rng(5);
    for (uint64_t& b : bits) b = rng();
    const std::vector<uint8_t> a = pack_containers(c.from, codes), r = pack_containers(int_format(64, false), bits);
    const void* in[] = {a.data(), r.data()};
    std::vector<uint8_t> result(codes.size() * c.to.container_bytes() + 64);
    entry(in, result.data(), static_cast<int64_t>(codes.size()));
    int shown = 0;
    for (size_t i = 0; i < codes.size() && shown < 3; ++i) {
        const uint64_t want = container_of(c.to, convert(c.to, c.from, codes[i], {c.round, c.overflow, random ? bits[i] : 0}));
        const uint64_t got = container_at(c.to, result, i);
        if (got == want) continue;
        ++shown;
        ADD_FAILURE() << c.from.name << " -> " << c.to.name << ", round " << static_cast<int>(c.round) << ", overflow "
                      << static_cast<int>(c.overflow) << ": " << std::hex << codes[i] << " gave " << got << ", not " << want;
    }
}

/// The identity of a non-float keeps every code (also a code of a codebook that names the same value as a lower one).
bool keeps_codes(const CastCase& c) { return c.from == c.to && !c.to.is_float() && c.round == Round::rne && c.overflow == Overflow::automatic; }

void check_casts(const std::vector<CastCase>& cases, unsigned lanes, bool plain) {
    for (size_t at = 0; at < cases.size(); at += 64) {
        ArrayJit jit(plain);
        std::vector<ArrayFunction> functions;
        const size_t end = std::min(cases.size(), at + 64);
        for (size_t i = at; i < end; ++i) {
            const CastCase& c = cases[i];
            functions.push_back({{c.from, int_format(64, false)}, c.to, [c](Scalars& s, std::vector<Value*> x) {
                                     return s.cast(x[0], c.from, c.to, c.round, c.overflow, c.round == Round::stochastic ? x[1] : nullptr);
                                 }});
        }
        const auto entries = jit.compile(functions, lanes);
        for (size_t i = at; i < end; ++i)
            if (!keeps_codes(cases[i])) check_cast(cases[i], entries[i - at], std::max(lanes, 1u));
    }
}

TEST(CpuScalars, CastsBetweenAllFormats) {
    std::vector<CastCase> cases;
    const size_t builtin = builtin_count();
    const std::vector<Format> formats = all_formats();
    for (size_t i = 0; i < formats.size(); ++i)
        for (size_t j = 0; j < formats.size(); ++j)
            if ((i < builtin && j < builtin) || i == j || test::is_sampled(i * formats.size() + j))
                cases.push_back({formats[i], formats[j], Round::rne, Overflow::automatic});
    check_casts(cases, 16, false);
}

TEST(CpuScalars, CastsOnSingleElements) {
    std::vector<CastCase> cases;
    for (const Format& from : builtin_formats())
        for (const Format& to : builtin_formats())
            if (from.bits && to.bits) cases.push_back({from, to, Round::rne, Overflow::automatic});
    check_casts(cases, 0, false);
    check_casts(cases, 4, true);
}

TEST(CpuScalars, EveryRoundingAndOverflow) {
    std::vector<CastCase> cases;
    const bool all = test::is_long();  // else a sixth of them, some of every pair of formats
    std::mt19937 draw(1);
    for (const Format& from : all_formats()) {
        bool chosen = false;
        for (const char* name : {"f64", "f32", "f16", "f8e4m3", "i64", "u64", "i32", "fixed<12, 20>", "lns<6, 5>", "codebook<4>[-1, 0, 1, 0]"})
            chosen |= from.name == name;
        if (!chosen) continue;
        for (const Format& to : all_formats()) {
            const bool prefix = from.name == "f32" && (to.name == "bf16" || to.name == "tf32");  // a few lines of their own for each rounding
            for (Round round : {Round::rne, Round::rna, Round::rtz, Round::ru, Round::rd, Round::stochastic})
                for (Overflow overflow : {Overflow::automatic, Overflow::sat, Overflow::ieee}) {
                    const bool wide = to.is_float() || overflow == Overflow::sat || (to.is_int() && overflow == Overflow::automatic);
                    if (wide && (draw() % 6 == 0 || prefix || all)) cases.push_back({from, to, round, overflow});
                }
        }
    }
    check_casts(cases, 8, false);
}

TEST(CpuScalars, OrderAgainstConstants) {
    for (Fmt id : {Fmt::f32, Fmt::f64, Fmt::bf16, Fmt::i32}) {
        const Format f = builtin_formats()[static_cast<size_t>(id)];
        ArrayJit jit;
        std::vector<uint64_t> constants = {0, extend_code(f, uint64_t{1} << (f.bits - 1)), extend_code(f, ~uint64_t{0})};
        if (f.is_float()) constants.insert(constants.end(), {encode(f, 1.5), encode(f, -3.0), inf_code(f, true), nan_code(f)});
        const ir::Op ops[] = {ir::Op::min, ir::Op::max, ir::Op::minnum, ir::Op::maxnum};
        std::vector<ArrayFunction> functions;
        for (uint64_t c : constants)
            for (ir::Op op : ops)
                for (int side = 0; side < 2; ++side)
                    functions.push_back({{f}, f, [=](Scalars& s, std::vector<Value*> x) {
                                             Value* both[] = {x[0], x[0]};
                                             both[side] = s.constant(f, c, 16);
                                             return s.elementwise(op, f, both);
                                         }});
        const auto entries = jit.compile(functions, 16);
        std::vector<uint64_t> codes = codes_of(f);
        codes.insert(codes.end(), {0, extend_code(f, uint64_t{1} << (f.bits - 1))});
        codes.insert(codes.end(), constants.begin(), constants.end());
        while (codes.size() % 16) codes.push_back(0);
        const std::vector<uint8_t> data = pack_containers(f, codes);
        const void* in[] = {data.data()};
        std::vector<uint8_t> result(data.size());
        size_t entry = 0;
        for (uint64_t c : constants)
            for (ir::Op op : ops)
                for (size_t side = 0; side < 2; ++side) {
                    entries[entry++](in, result.data(), static_cast<int64_t>(codes.size()));
                    for (size_t i = 0; i < codes.size(); ++i) {
                        uint64_t pair[2] = {codes[i], codes[i]};
                        pair[side] = c;
                        ASSERT_EQ(container_at(f, result, i), container_of(f, scalar::eval_elementwise(op, f, pair)))
                            << f.name << " " << ir::op_row(op).name << " " << std::hex << pair[0] << ", " << pair[1];
                    }
                }
    }
}

TEST(CpuScalars, StochasticBits) {
    ArrayJit jit;
    const Format u64 = int_format(64, false);
    const auto entry = jit.compile({{{u64, u64}, u64, [](Scalars& s, std::vector<Value*> x) { return s.stochastic_bits(x[0], x[1]); }}}, 8)[0];
    std::mt19937_64 rng(3);
    std::vector<uint64_t> seeds(512), indices(512), out(512);
    for (size_t i = 0; i < 512; ++i) seeds[i] = rng(), indices[i] = i % 2 ? i : rng();
    const void* in[] = {seeds.data(), indices.data()};
    entry(in, out.data(), 512);
    for (size_t i = 0; i < 512; ++i) EXPECT_EQ(out[i], stochastic_bits(seeds[i], indices[i]));
}

TEST(CpuScalars, NanSeenByBitcast) {
    ArrayJit jit;
    const Format f32 = builtin_formats()[static_cast<size_t>(Fmt::f32)], u32 = int_format(32, false);
    const auto entry = jit.compile({{{f32, f32},
                                     u32,
                                     [=](Scalars& s, std::vector<Value*> x) {
                                         Value* sum = s.elementwise(ir::Op::add, f32, x);
                                         Value* both[] = {sum, x[0]};
                                         return s.bitcast(s.elementwise(ir::Op::mul, f32, both), f32, u32);
                                     }}},
                                   16)[0];
    std::vector<uint32_t> a(16, 0xffc12345u), b(16, 0x3f800000u), out(16);
    b[3] = 0x7fa00001u;
    const void* in[] = {a.data(), b.data()};
    entry(in, out.data(), 16);
    for (uint32_t v : out) EXPECT_EQ(v, 0x7fc00000u);
}

/// The bounds that ops.def states, as multiples of 2^-24 relative (or absolute for the circular functions).
TEST(CpuScalars, FastRowsKeepTheirBounds) {
    ArrayJit jit;
    const Format f32 = builtin_formats()[static_cast<size_t>(Fmt::f32)];
    const ir::Op ops[] = {ir::Op::fast_exp2, ir::Op::fast_log2, ir::Op::fast_sin,  ir::Op::fast_cos,
                          ir::Op::fast_tanh, ir::Op::fast_rcp,  ir::Op::fast_rsqrt};
    std::vector<ArrayFunction> functions;
    for (ir::Op op : ops) functions.push_back({{f32}, f32, [op, f32](Scalars& s, std::vector<Value*> x) { return s.elementwise(op, f32, x); }});
    const auto entries = jit.compile(functions, 16);
    std::vector<float> x;
    for (int i = -160000; i <= 160000; ++i) x.push_back(static_cast<float>(i) * 1e-3f), x.push_back(static_cast<float>(i) * 2e-5f);
    for (float v : {0.0f, -0.0f, HUGE_VALF, -HUGE_VALF, NAN, 1e-42f, 3e38f, 1e-38f, -3e38f}) x.push_back(v);
    while (x.size() % 16) x.push_back(1);
    std::vector<float> out(x.size());
    const void* in[] = {x.data()};
    for (size_t k = 0; k < std::size(ops); ++k) {
        entries[k](in, out.data(), static_cast<int64_t>(x.size()));
        for (size_t i = 0; i < x.size(); ++i) {
            const double a = x[i], r = out[i];
            const double want = k == 0   ? std::exp2(a)
                                : k == 1 ? std::log2(a)
                                : k == 2 ? std::sin(a)
                                : k == 3 ? std::cos(a)
                                : k == 4 ? std::tanh(a)
                                : k == 5 ? 1 / a
                                         : 1 / std::sqrt(a);
            if (std::isnan(want) || std::isinf(static_cast<float>(want))) {
                EXPECT_TRUE(std::isnan(want) ? std::isnan(r) : r == static_cast<double>(static_cast<float>(want)))
                    << ir::op_row(ops[k]).name << " " << a << " " << r;
                continue;
            }
            if ((k == 2 || k == 3) && std::fabs(a) > 3.2) continue;
            const double ulp = std::ldexp(1.0, std::max(std::ilogb(want == 0 ? 1e-300 : want), -126) - 23);
            double bound = k == 0 ? 2 * ulp + std::fabs(want) * 0x1p-22 : k == 1 ? (a >= 0.5 && a <= 2 ? 0x1p-22 : 2 * ulp) : 2 * ulp;
            if (k == 2 || k == 3) bound = 0x1p-20;
            if (k == 4) bound = std::fabs(want) * 0x1p-10;
            ASSERT_LE(std::fabs(r - want), bound) << ir::op_row(ops[k]).name << " " << a << " gave " << r << ", not " << want;
        }
    }
}

}  // namespace
}  // namespace tegula::testing
