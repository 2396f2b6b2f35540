// The device's scalar text against the definitions of lang/: the prelude's text for many formats and ops is compiled once by the system's compiler
// (device_on_host.h), loaded, and compared with eval_elementwise and convert: all codes of narrow formats, all pairs of 8-bit ones, every boundary
// between codes.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "jit/cuda/device_text.h"
#include "lang/scalar.h"
#include "lower/kernel/formats/formats.h"
#include "tests/unit/device_on_host.h"
#include "tests/unit/guarded.h"
#include "tests/unit/hard_operands.h"

namespace tegula {
namespace {

using lower::Formats;
using ir::Op;

Format codebook(std::vector<double> table) {
    Format f;
    f.kind = FormatKind::codebook;
    f.is_signed = false;
    f.bits = static_cast<uint8_t>(std::countr_zero(table.size()));
    f.table = std::move(table);
    return canonical(f);
}
Format fixed(unsigned i, unsigned frac, bool is_signed) {
    Format f;
    f.kind = FormatKind::fixed;
    f.is_signed = is_signed;
    f.bits = static_cast<uint8_t>(i + frac);
    f.int_bits = static_cast<uint8_t>(i);
    f.frac_bits = static_cast<uint8_t>(frac);
    return canonical(f);
}
Format lns(unsigned i, unsigned frac) {
    Format f;
    f.kind = FormatKind::lns;
    f.bits = static_cast<uint8_t>(1 + i + frac);
    f.int_bits = static_cast<uint8_t>(i);
    f.frac_bits = static_cast<uint8_t>(frac);
    return canonical(f);
}

std::vector<Format> minifloats() {
    std::vector<Format> all = {float_format(3, 2), float_format(5, 12), float_format(11, 4),
                               float_format(0, 4), float_format(4, 0),  float_format(8, 10)};
    const auto add = [&](unsigned e, unsigned m, auto change) {
        Format f = float_format(e, m);
        change(f);
        all.push_back(f);
    };
    add(4, 3, [](Format& f) { f.subnormal = false; });
    add(4, 3, [](Format& f) { f.bias = 30; });
    add(4, 3, [](Format& f) { f.bias = -9; });
    add(3, 3, [](Format& f) { f.has_inf = false, f.nan = NanCode::all_ones; });
    add(5, 3, [](Format& f) { f.has_inf = true, f.nan = NanCode::all_ones; });
    add(4, 4, [](Format& f) { f.is_signed = false, f.negative_zero = false, f.bits = 8; });
    add(5, 3, [](Format& f) { f.is_signed = false, f.negative_zero = false, f.bits = 8; });
    add(4, 2, [](Format& f) { f.is_signed = false, f.negative_zero = false, f.has_inf = true, f.nan = NanCode::all_ones, f.bits = 6; });
    add(8, 7, [](Format& f) { f.has_inf = false, f.nan = NanCode::none; });
    add(2, 4, [](Format& f) { f.has_inf = false, f.nan = NanCode::none, f.negative_zero = false; });
    add(8, 3, [](Format& f) { f.bias = 140; });
    return all;
}

std::vector<Format> formats() {
    std::vector<Format> all = builtin_formats();
    all.erase(all.begin());
    for (const Format& f : minifloats()) all.push_back(f);
    for (unsigned bits : {1u, 5u, 13u, 24u, 33u, 57u})
        for (bool is_signed : {false, true}) all.push_back(int_format(bits, is_signed));
    for (bool is_signed : {false, true})
        for (auto [i, f] : {std::pair(4u, 4u), std::pair(8u, 8u), std::pair(1u, 31u), std::pair(3u, 4u)}) all.push_back(fixed(i, f, is_signed));
    all.push_back(lns(4, 3));
    all.push_back(lns(5, 10));
    all.push_back(codebook({0.0, -1.0, 0.5, 7.25}));
    all.push_back(codebook({-1.0, -0.6961928, -0.5250731, -0.3949175, -0.2844414, -0.1847734, -0.09105, 0.0, 0.0795803, 0.1609302, 0.2461123,
                            0.3379152, 0.4407098, 0.562617, 0.7229568, 1.0}));
    for (Format& f : all) {
        EXPECT_EQ(format_problem(f), "") << f.name;
        f.name = canonical_name(f);
    }
    return all;
}

/// NaN of formats that the hardware computes in: which one is not promised.
bool is_free_nan(const Format& f, uint64_t code) {
    const bool hardware = f.name == "f16" || f.name == "bf16" || f.name == "f32" || f.name == "f64";
    return hardware && decode_exact(f, code).cls == Exact::nan;
}

struct Case {
    std::string symbol, title;
    Format out;
    std::vector<Format> in;
    std::function<uint64_t(const uint64_t*)> expected;
    bool reads_sign = false;  ///< of its last operand
};

class Library : public test::DeviceOnHost {
public:
    /// Compiles text + one loop per case.
    bool build(const std::string& device, const std::string& host = "") {
        static int number = 0;
        return DeviceOnHost::build("cuda_prelude_test_text_" + std::to_string(number++), device, host);
    }
};

/// What the formats asked for, each section and function once.
std::string text_of(const lower::Formats& formats) {
    cuda::DeviceText device(formats.arch());
    for (const std::string& section : formats.sections()) device.need(section);
    return device.text() + formats.functions();
}

class CudaPrelude : public ::testing::Test {
protected:
    Case& add(const Format& out, std::vector<Format> in, std::string title) {
        Case c;
        c.symbol = "case_" + std::to_string(cases.size());
        c.title = std::move(title);
        c.out = out;
        c.in = std::move(in);
        cases.push_back(std::move(c));
        return cases.back();
    }
    /// The loop of a case around an expression on a, b, c.
    void loop(const Case& c, const std::string& expression, const std::string& extra = "") {
        loops += "extern \"C\" void " + c.symbol + "(" + prelude.type(c.out) + "* out, long n";
        for (size_t i = 0; i < c.in.size(); ++i) loops += std::string(", const ") + prelude.type(c.in[i]) + "* p" + static_cast<char>('a' + i);
        loops += ") { for (long i = 0; i < n; ++i) { ";
        for (size_t i = 0; i < c.in.size(); ++i) {
            const std::string v(1, static_cast<char>('a' + i));
            loops += "const auto " + v + " = p" + v + "[i]; ";
        }
        loops += extra + "out[i] = " + expression + "; } }\n";
    }

    void equals_the_definitions(const std::vector<Format>& all, const std::vector<Format>& wide_floats);

    lower::Formats prelude{75};  // what the newer ones have is spelled out
    std::vector<Case> cases;
    std::string loops;
};

std::vector<uint64_t> interesting(const Format& f, std::mt19937_64& random, size_t count) {
    std::vector<uint64_t> codes;
    const uint64_t mask = f.bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << f.bits) - 1;
    if (f.bits <= 8) {
        for (uint64_t c = 0; c <= mask; ++c) codes.push_back(c);
        return codes;
    }
    for (uint64_t c : {uint64_t{0}, uint64_t{1}, uint64_t{2}, mask, mask - 1, mask >> 1, (mask >> 1) + 1, (mask >> 1) + 2, max_code(f),
                       max_code(f) - 1, lowest_code(f), nan_code(f)})
        codes.push_back(c & mask);
    if (f.is_float() && f.has_inf) codes.push_back(inf_code(f, false)), codes.push_back(inf_code(f, true));
    if (f.is_float()) codes.push_back(min_normal_code(f)), codes.push_back(encode(f, 1.0)), codes.push_back(encode(f, -1.5));
    while (codes.size() < count) {
        uint64_t c = random() & mask;
        if (f.is_float() && random() % 2) c = encode(f, std::ldexp(double(int64_t(random() % 4096) - 2048), int(random() % 24) - 16)) & mask;
        if (f.is_int() && random() % 2) c = (random() % 2 ? 0 - random() % 200 : random() % 200) & mask;
        codes.push_back(c);
    }
    return codes;
}

void store(std::vector<uint8_t>& bytes, const Format& f, size_t i, uint64_t code) {
    std::memcpy(bytes.data() + i * f.container_bytes(), &code, f.container_bytes());
}
uint64_t mask_of(const Format& f) { return f.bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << f.bits) - 1; }

/// Containers of codes, sign- or zero-extended.
std::vector<uint8_t> containers(const Format& f, const std::vector<uint64_t>& codes) {
    std::vector<uint8_t> bytes(codes.size() * f.container_bytes());
    for (size_t i = 0; i < codes.size(); ++i) store(bytes, f, i, extend_code(f, codes[i]));
    return bytes;
}

void check(const Library& library, const Case& c, const std::vector<std::vector<uint64_t>>& codes) {
    const size_t n = codes[0].size();
    std::vector<std::vector<uint8_t>> in;
    for (size_t k = 0; k < c.in.size(); ++k) in.push_back(containers(c.in[k], codes[k]));
    std::vector<uint8_t> out(n * c.out.container_bytes());
    void* fn = library.symbol(c.symbol);
    ASSERT_NE(fn, nullptr) << c.title;
    const long count = static_cast<long>(n);
    if (in.size() == 1)
        reinterpret_cast<void (*)(void*, long, const void*)>(fn)(out.data(), count, in[0].data());
    else if (in.size() == 2)
        reinterpret_cast<void (*)(void*, long, const void*, const void*)>(fn)(out.data(), count, in[0].data(), in[1].data());
    else
        reinterpret_cast<void (*)(void*, long, const void*, const void*, const void*)>(fn)(out.data(), count, in[0].data(), in[1].data(),
                                                                                           in[2].data());
    int wrong = 0;
    for (size_t i = 0; i < n; ++i) {
        uint64_t operands[3] = {}, got = 0;
        for (size_t k = 0; k < c.in.size(); ++k) operands[k] = extend_code(c.in[k], codes[k][i]);
        std::memcpy(&got, out.data() + i * c.out.container_bytes(), c.out.container_bytes());
        const uint64_t want = c.expected(operands);
        // The whole container counts: it must be extended as the format says.
        std::vector<uint8_t> expected(8);
        uint64_t full = extend_code(c.out, want);
        const unsigned bits = c.out.container_bytes() * 8;
        if (bits < 64) full &= (uint64_t{1} << bits) - 1;
        if (got == full || (is_free_nan(c.out, want) && is_free_nan(c.out, got))) continue;
        if (c.reads_sign && is_free_nan(c.in.back(), operands[c.in.size() - 1])) continue;  // the sign of a NaN is not promised either
        if (++wrong <= 3) {
            ADD_FAILURE() << c.title << " of " << std::hex << operands[0] << " " << operands[1] << " " << operands[2] << " gives " << got << ", not "
                          << full << " (" << decode(c.in[0], operands[0]) << ", " << (c.in.size() > 1 ? decode(c.in[1], operands[1]) : 0.0) << ")";
        }
    }
    EXPECT_EQ(wrong, 0) << c.title;
}

/// Operands of an op: all pairs of narrow formats, else samples.
std::vector<std::vector<uint64_t>> operands_of(const Case& c, std::mt19937_64& random) {
    std::vector<std::vector<uint64_t>> codes(c.in.size());
    const Format& f = c.in[0];
    if (c.in.size() == 1 && f.bits <= 16) {
        for (uint64_t v = 0; v <= mask_of(f); ++v) codes[0].push_back(v);
        return codes;
    }
    const std::vector<uint64_t> some = interesting(f, random, c.in.size() == 1 ? 20000 : 100);
    if (c.in.size() == 1) return {some};
    if (c.in.size() == 2) {
        for (uint64_t a : some)
            for (uint64_t b : some) codes[0].push_back(a), codes[1].push_back(b);
        return codes;
    }
    for (int i = 0; i < 20000; ++i)
        for (size_t k = 0; k < 3; ++k) codes[k].push_back(some[random() % some.size()]);
    return codes;
}

/// Around every boundary between codes of a narrow format: its values, the midpoints, and their neighbours in double (or float).
std::vector<uint64_t> boundaries(const Format& to, const Format& source, size_t limit, std::mt19937_64& random) {
    std::vector<double> values = {0.0, -0.0, HUGE_VAL, -HUGE_VAL, std::nan(""), 1e300, -1e300, 1e-300, 3e38, 6e38, -1e-45, 0.5, -0.5};
    std::vector<double> grid;
    if (to.bits <= 16)
        for (uint64_t c = 0; c <= mask_of(to); ++c) grid.push_back(decode(to, c));
    else
        for (int i = 0; i < 3000; ++i) grid.push_back(decode(to, extend_code(to, random() >> (random() % 48))));
    std::erase_if(grid, [](double v) { return !std::isfinite(v); });
    std::sort(grid.begin(), grid.end());
    grid.push_back(grid.back() * 2);
    for (size_t i = 0; i + 1 < grid.size(); ++i) {
        const double a = grid[i], mid = a + (grid[i + 1] - a) / 2;
        for (double v : {a, mid})
            for (double w : {v, source.bits == 32 ? double(std::nextafterf(float(v), HUGE_VALF)) : std::nextafter(v, HUGE_VAL),
                             source.bits == 32 ? double(std::nextafterf(float(v), -HUGE_VALF)) : std::nextafter(v, -HUGE_VAL)})
                values.push_back(w);
    }
    std::vector<uint64_t> codes;
    const size_t step = std::max<size_t>(1, values.size() / limit);
    for (size_t i = 0; i < values.size(); i += i < 16 ? 1 : 1 + random() % (2 * step - 1)) codes.push_back(encode(source, values[i]));
    return codes;
}

void CudaPrelude::equals_the_definitions(const std::vector<Format>& all, const std::vector<Format>& wide_floats) {
    const Format f32 = builtin_formats()[static_cast<size_t>(Fmt::f32)], f64 = builtin_formats()[static_cast<size_t>(Fmt::f64)];
    const Format boolean = builtin_formats()[static_cast<size_t>(Fmt::boolean)], u64 = int_format(64, false);
    std::mt19937_64 random(7);
    const char* names[] = {"a", "b", "c"};

    // Elementwise ops.
    std::vector<size_t> ops, casts, wide_casts;
    for (const Format& f : all)
        for (size_t o = 0; o < static_cast<size_t>(Op::count_); ++o) {
            const Op op = static_cast<Op>(o);
            const ir::OpRow& row = ir::op_row(op);
            if (!(row.traits & ir::ELEMWISE) || !ir::in_domain(op, f, false) || scalar::wide_f32(op)) continue;
            const auto arity = static_cast<size_t>(row.operands);
            const std::vector<lower::Known> operands(names, names + arity);
            Case& c = add(row.result == ir::ResultRule::boolean ? boolean : f, std::vector<Format>(arity, f), std::string(row.name) + " " + f.name);
            c.expected = [=](const uint64_t* codes) { return scalar::eval_elementwise(op, f, {codes, arity}); };
            c.reads_sign = op == Op::copysign || op == Op::signbit;
            loop(c, prelude.elementwise(op, f, operands));
            ops.push_back(cases.size() - 1);
        }
    const size_t wide = cases.size();
    for (const Format& f : wide_floats)
        for (Op op : test::kRoundedOps) {
            const auto arity = static_cast<size_t>(ir::op_row(op).operands);
            Case& c = add(f, std::vector<Format>(arity, f), std::string(ir::op_row(op).name) + " " + f.name);
            c.expected = [=](const uint64_t* codes) { return scalar::eval_elementwise(op, f, {codes, arity}); };
            loop(c, prelude.elementwise(op, f, std::vector<lower::Known>(names, names + arity)));
        }
    const size_t wide_end = cases.size();
    // Conversions from f32 and f64 in all modes, between everything and the usual formats in the default mode.
    const auto add_cast = [&](const Format& to, const Format& from, Round round, Overflow overflow) {
        Case& c = add(to, round == Round::stochastic ? std::vector<Format>{from, u64} : std::vector<Format>{from},
                      to.name + " <- " + from.name + " mode " + std::to_string(int(round)) + " overflow " + std::to_string(int(overflow)));
        c.expected = [=](const uint64_t* codes) {
            RoundSpec spec{round, overflow, round == Round::stochastic ? stochastic_bits(codes[1], codes[1] >> 7) : 0};
            return convert(to, from, codes[0], spec);
        };
        lower::Rounding rounding{round, overflow};
        if (round == Round::stochastic) rounding = {round, overflow, "b", "b >> 7"};
        loop(c, prelude.cast(to, from, "a", rounding));
        casts.push_back(cases.size() - 1);
    };
    for (const Format& to : all) {
        for (int round = 0; round < 6; ++round)
            for (int overflow = 0; overflow < 3; ++overflow) add_cast(to, f32, Round(round), Overflow(overflow));
        for (int round = 0; round < 6; ++round) add_cast(to, f64, Round(round), Overflow::automatic);
        for (const Format& from : all) {
            const bool usual =
                from.name == "f16" || from.name == "i32" || from.name == "u64" || from.name == "i8" || from.name == "bool" || from == to;
            const bool target = to.name == "f32" || to.name == "f64" || to.name == "f16" || to.name == "i32" || to.name == "i64" || to.name == "bool";
            if (usual || target || from.kind == to.kind) add_cast(to, from, Round::rne, Overflow::automatic);
            if (usual && to.is_int()) add_cast(to, from, Round::rtz, Overflow::sat);
            if (to.kind == FormatKind::lns && from.kind == FormatKind::lns) add_cast(to, from, Round::rd, Overflow::automatic);
        }
    }
    std::vector<std::pair<Format, std::vector<uint64_t>>> literals;
    for (const Format& f : all) {
        std::vector<uint64_t> codes = interesting(f, random, 20);
        if (codes.size() > 20) codes.resize(20);
        loops += "extern \"C\" void literals_" + std::to_string(literals.size()) + "(" + prelude.type(f) + "* out) {";
        for (size_t i = 0; i < codes.size(); ++i) loops += " out[" + std::to_string(i) + "] = " + prelude.literal(f, codes[i]) + ";";
        loops += " }\n";
        literals.emplace_back(f, codes);
    }

    Library library;
    const bool built = library.build(text_of(prelude), loops);
    if (!library.found()) GTEST_SKIP() << "no system C++ compiler: the text was not run";
    ASSERT_TRUE(built) << "the text does not compile";

    for (size_t i : ops) check(library, cases[i], operands_of(cases[i], random));
    for (size_t i = wide; i < wide_end; ++i) {
        const Case& c = cases[i];
        test::HardOperands operands(c.in[0], 3);
        std::vector<std::vector<uint64_t>> codes(c.in.size());
        for (int n = 0; n < 2000; ++n) {
            const auto some = operands.next(test::kRoundedOps[(i - wide) % std::size(test::kRoundedOps)]);
            for (size_t k = 0; k < codes.size(); ++k) codes[k].push_back(some[k]);
        }
        check(library, c, codes);
    }
    for (size_t i : casts) {
        const Case& c = cases[i];
        std::vector<std::vector<uint64_t>> codes;
        if (c.in[0] == f32 || c.in[0] == f64)
            codes = {boundaries(c.out, c.in[0], c.title.find("mode 0 overflow 0") != std::string::npos ? 100000 : 5000, random)};
        else
            codes = operands_of(Case{"", "", c.out, {c.in[0]}, {}}, random);
        if (c.in.size() == 2) codes.push_back(interesting(u64, random, codes[0].size() + 100)), codes[1].resize(codes[0].size());
        check(library, c, codes);
    }
    for (size_t k = 0; k < literals.size(); ++k) {
        const auto& [f, codes] = literals[k];
        const std::vector<uint8_t> expected = containers(f, codes);
        std::vector<uint8_t> got(expected.size());
        reinterpret_cast<void (*)(void*)>(library.symbol("literals_" + std::to_string(k)))(got.data());
        EXPECT_EQ(got, expected) << "literals of " << f.name;
    }
}

TEST_F(CudaPrelude, EqualsTheDefinitions) { equals_the_definitions(formats(), test::some_wide_floats()); }

TEST_F(CudaPrelude, NewerInstructionsEqualTheDefinitions) {
    prelude = lower::Formats(100);
    std::vector<Format> some;
    for (const Format& f : formats())
        for (const char* name : {"f32", "f16", "bf16", "f8e4m3", "f8e5m2"})
            if (f.name == name) some.push_back(f);
    equals_the_definitions(some, {});
}

/// Each section by itself, with what it includes, as the oldest and the newest architecture get it.
TEST_F(CudaPrelude, EverySectionCompiles) {
    std::string text;
    for (const int arch : {75, 100})
        for (const cuda::DeviceFile& file : cuda::device_files()) {
            cuda::DeviceText own(arch);
            own.need(file.name);
            EXPECT_EQ(own.text().find("#i"), std::string::npos) << file.name;
            text += "namespace " + std::string(file.name) + "_" + std::to_string(arch) + " {\n" + own.text() + "}\n";
        }
    Library library;
    const bool built = library.build(text);
    if (!library.found()) GTEST_SKIP() << "no system C++ compiler: the text was not compiled";
    EXPECT_TRUE(built);
}

/// Packed elements of all formats, and of the widths that reach into a ninth byte or a third word: neighbours stay, and loads read no byte behind the
/// last element.
TEST_F(CudaPrelude, ElementsAtBitOffsets) {
    std::vector<Format> all = formats();
    for (unsigned bits = 58; bits < 64; ++bits)
        for (const bool is_signed : {false, true}) all.push_back(int_format(bits, is_signed));
    for (size_t k = 0; k < all.size(); ++k) {
        Format& f = all[k];
        f.name = canonical_name(f);
        const std::string number = std::to_string(k), offset = "i * " + std::to_string(f.bits);
        loops += "extern \"C\" void load_" + number + "(" + prelude.type(f) + "* out, const unsigned char* base, long n) {" +
                 " for (long i = 0; i < n; ++i) out[i] = " + prelude.load_bits(f, "base", offset) + "; }\n";
        loops += "extern \"C\" void store_" + number + "(const " + prelude.type(f) + "* in, unsigned char* base, long n) {" +
                 " for (long i = 0; i < n; ++i) " + prelude.store_bits(f, "base", offset, "in[i]") + " }\n";
    }
    Library library;
    const bool built = library.build(text_of(prelude), loops);
    if (!library.found()) GTEST_SKIP() << "no system C++ compiler: the text was not run";
    ASSERT_TRUE(built) << "the text does not compile";
    std::mt19937_64 random(13);
    testing::Guarded guarded(256);
    for (size_t k = 0; k < all.size(); ++k) {
        const Format& f = all[k];
        std::vector<uint64_t> codes = interesting(f, random, 20);
        if (codes.size() > 20) codes.resize(20);
        const std::vector<uint8_t> expected = containers(f, codes);
        const size_t bytes = (codes.size() * f.bits + 7) / 8;
        std::vector<uint8_t> packed(bytes + 16, 0xA5), reference = packed, got(expected.size());
        for (size_t i = 0; i < codes.size(); ++i) store_bits(f, codes[i], reference.data(), i * f.bits);
        reinterpret_cast<void (*)(const void*, void*, long)>(library.symbol("store_" + std::to_string(k)))(expected.data(), packed.data(),
                                                                                                           long(codes.size()));
        EXPECT_EQ(packed, reference) << "storing " << f.name;
        uint8_t* const base = guarded.end() - bytes;
        std::copy_n(reference.begin(), bytes, base);
        reinterpret_cast<void (*)(void*, const void*, long)>(library.symbol("load_" + std::to_string(k)))(got.data(), base, long(codes.size()));
        EXPECT_EQ(got, expected) << "loading " << f.name;
    }
}

/// What is -1 or 0 in one width is an ordinary number in another: rewrites of known operands keep to the format.
TEST_F(CudaPrelude, ConstantsAreOfTheirWidth) {
    std::mt19937_64 random(11);
    for (const unsigned bits : {1u, 5u, 8u, 16u, 31u, 32u, 33u, 40u, 63u, 64u})
        for (const bool is_signed : {false, true}) {
            Format f = int_format(bits, is_signed);
            f.name = canonical_name(f);
            for (const Op op : {Op::mul, Op::sub, Op::max, Op::maxnum})
                for (const uint64_t number :
                     {uint64_t{0}, uint64_t{1}, ~uint64_t{0}, uint64_t{0xff}, uint64_t{0xffff}, uint64_t{0xffffffff}, uint64_t{1} << 32})
                    for (const size_t side : {0u, 1u}) {
                        const uint64_t code = extend_code(f, number & mask_of(f));
                        Case& c =
                            add(f, {f},
                                std::string(ir::op_row(op).name) + " " + f.name + " with " + std::to_string(code) + " at " + std::to_string(side));
                        c.expected = [=](const uint64_t* codes) {
                            const uint64_t both[] = {side ? codes[0] : code, side ? code : codes[0]};
                            return scalar::eval_elementwise(op, f, both);
                        };
                        std::vector<lower::Known> operands = {"a", "a"};
                        operands[side] = {prelude.literal(f, code), code};
                        loop(c, prelude.elementwise(op, f, operands));
                    }
        }
    Library library;
    const bool built = library.build(text_of(prelude), loops);
    if (!library.found()) GTEST_SKIP() << "no system C++ compiler: the text was not run";
    ASSERT_TRUE(built) << "the text does not compile";
    for (const Case& c : cases) check(library, c, {interesting(c.in[0], random, 40)});
    // The text alone decides nothing.
    const lower::Known unknown[] = {"a", "4294967295ull"};
    EXPECT_EQ(prelude.elementwise(Op::mul, int_format(64, false), unknown).find("opposite"), std::string::npos);
}

/// Every op and conversion by itself asks for all that it names: one namespace each, checked by the compiler alone.
TEST_F(CudaPrelude, AsksForAllItNeeds) {
    std::string text;
    int number = 0;
    const char* names[] = {"a", "b", "c"};
    const auto add_alone = [&](lower::Formats& own, const Format& result, const std::vector<Format>& in, const std::string& expression) {
        text += "namespace alone" + std::to_string(number++) + " {\n" + text_of(own) + own.type(result) + " f(";
        for (size_t i = 0; i < in.size(); ++i) text += (i ? ", " : "") + own.type(in[i]) + " " + names[i];
        text += ") { return " + expression + "; }\n}\n";
    };
    std::vector<Format> some;
    for (const Format& f : formats())
        for (const char* name :
             {"bool", "i32", "u8", "i57", "f32", "f64", "f16", "f8e4m3", "f4e2m1", "fixed<4, 4>", "lns<4, 3>", "codebook<2>[0, -1, 0.5, 7.25]"})
            if (f.name == name) some.push_back(f);
    ASSERT_EQ(some.size(), 12u);
    some.push_back(test::some_wide_floats().front());
    for (const Format& f : some)
        for (size_t o = 0; o < static_cast<size_t>(Op::count_); ++o) {
            const Op op = static_cast<Op>(o);
            const ir::OpRow& row = ir::op_row(op);
            if (!(row.traits & ir::ELEMWISE) || !ir::in_domain(op, f, false)) continue;
            lower::Formats own(75);
            const auto arity = static_cast<size_t>(row.operands);
            const std::string expression = own.elementwise(op, f, std::vector<lower::Known>(names, names + arity));
            add_alone(own, row.result == ir::ResultRule::boolean ? int_format(8, false) : f, std::vector<Format>(arity, f), expression);
        }
    for (const Format& to : some)
        for (const Format& from : some) {
            lower::Formats own(75), bits(75);
            add_alone(own, to, {from}, own.cast(to, from, "a", {.round = Round::rtz}));
            if (to.bits == from.bits) add_alone(bits, to, {from}, bits.bitcast(to, from, "a"));
        }
    Library library;
    const bool built = library.build(text);
    if (!library.found()) GTEST_SKIP() << "no system C++ compiler: the text was not compiled";
    EXPECT_TRUE(built);
}

}  // namespace
}  // namespace tegula
