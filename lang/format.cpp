// What formats there are: the built-in table, the constructors of user declarations, their legality, their names and their
// special codes (format.h). The meaning of codes is in round.cpp.
#include "lang/format.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "lang/check.h"

namespace tegula {

namespace {

constexpr unsigned kMaxCodebookBits = 16;

/// Bits below the mantissa: 13 for tf32, else 0.
unsigned padding_of(const Format& f) { return f.bits - f.is_signed - f.exp_bits - f.man_bits; }

/// Largest finite magnitude, without sign and padding.
uint64_t max_magnitude(const Format& f) {
    uint64_t top = low_bits(f.exp_bits + f.man_bits);
    uint64_t top_exponent = low_bits(f.exp_bits) << f.man_bits;
    switch (f.nan) {
        case NanCode::ieee:
            return f.has_inf ? top_exponent - 1 : top_exponent;
        case NanCode::all_ones:
            return top - 1 - f.has_inf;
        case NanCode::negative_zero:
        case NanCode::none:
            break;
    }
    return top - f.has_inf;
}

uint64_t sign_code(const Format& f) { return f.is_signed ? uint64_t{1} << (f.bits - 1) : 0; }

size_t extreme_entry(const Format& f, bool largest) {
    auto begin = f.table.begin();
    return static_cast<size_t>((largest ? std::max_element(begin, f.table.end()) : std::min_element(begin, f.table.end())) - begin);
}

const char* spelling(NanCode nan) {
    switch (nan) {
        case NanCode::ieee:
            return "ieee";
        case NanCode::all_ones:
            return "all_ones";
        case NanCode::negative_zero:
            return "negative_zero";
        case NanCode::none:
            return "none";
    }
    return "";
}

std::string float_problem(const Format& f) {
    unsigned fields = f.is_signed + f.exp_bits + f.man_bits;
    bool is_tf32 = f.bits == 32 && f.is_signed && f.exp_bits == 8 && f.man_bits == 10;
    if (f.exp_bits > 11) return "a float has at most 11 exponent bits";
    if (f.man_bits > 52) return "a float has at most 52 mantissa bits";
    if (fields != f.bits && !is_tf32) return "sign, exponent and mantissa bits do not add up to the width";
    if (f.bits < 2) return "a float has at least 2 bits";
    if (f.exp_bits + f.man_bits == 0) return "a float has at least one exponent or mantissa bit";
    if (f.nan == NanCode::ieee && (f.exp_bits < 2 || f.man_bits == 0)) return "IEEE NaN needs at least 2 exponent bits and 1 mantissa bit";
    if (f.nan == NanCode::negative_zero && (f.negative_zero || !f.is_signed))
        return "the code of -0 cannot be both NaN and a zero; it needs a sign bit";
    if (f.negative_zero && !f.is_signed) return "an unsigned float has no negative zero";
    if (f.scale_only && (f.is_signed || f.exp_bits == 0)) return "a scale format is unsigned and has exponent bits";
    if (f.exp_bits == 0 && !f.subnormal) return "without exponent bits every value is subnormal";
    if (max_magnitude(f) == 0 || max_magnitude(f) > low_bits(f.exp_bits + f.man_bits)) return "no finite value except zero is left";
    if (f.bias < -2048 || f.bias > 2048) return "the bias must lie in -2048 .. 2048";
    int largest = static_cast<int>(max_magnitude(f) >> f.man_bits) - f.bias;
    int quantum = (f.scale_only ? 0 : 1) - f.bias - f.man_bits;
    if (largest > 1023 || quantum < -1074) return "its values do not fit into f64: change the bias";
    return {};
}

}  // namespace

std::vector<Format> builtin_formats() {
    std::vector<Format> all(1);
#define FORMAT(id, kind_, signed_, bits_, exp_, man_, bias_, has_inf_, nan_, negative_zero_, doc) \
    {                                                                                             \
        Format f;                                                                                 \
        f.kind = FormatKind::kind_;                                                               \
        f.is_signed = signed_;                                                                    \
        f.bits = bits_;                                                                           \
        f.exp_bits = exp_;                                                                        \
        f.man_bits = man_;                                                                        \
        f.bias = bias_;                                                                           \
        f.has_inf = has_inf_;                                                                     \
        f.nan = NanCode::nan_;                                                                    \
        f.negative_zero = negative_zero_;                                                         \
        f.scale_only = Fmt::id == Fmt::f8e8m0;                                                    \
        f.name = Fmt::id == Fmt::boolean ? "bool" : #id;                                          \
        all.push_back(canonical(f));                                                              \
    }
#include "lang/formats.def"
#undef FORMAT
    return all;
}

Format canonical(const Format& f) {
    Format out;
    out.kind = f.kind;
    out.name = f.name;
    out.bits = f.bits;
    out.is_signed = f.is_signed;
    out.subnormal = out.negative_zero = false;
    switch (f.kind) {
        case FormatKind::boolean:
            out.is_signed = false;
            break;
        case FormatKind::integer:
            break;
        case FormatKind::floating: {
            Format all = f;
            all.int_bits = all.frac_bits = 0;
            all.table.clear();
            all.elem = all.scale = all.tensor_scale = {};
            all.block_size = 0;
            all.scale_rule = ScaleRule::floor;
            return all;
        }
        case FormatKind::fixed:
            out.int_bits = f.int_bits, out.frac_bits = f.frac_bits;
            break;
        case FormatKind::lns:
            out.is_signed = true, out.int_bits = f.int_bits, out.frac_bits = f.frac_bits;
            break;
        case FormatKind::codebook:
            out.is_signed = false, out.table = f.table;
            break;
        case FormatKind::block:
            out.elem = f.elem, out.scale = f.scale, out.tensor_scale = f.tensor_scale;
            out.block_size = f.block_size, out.scale_rule = f.scale_rule;
            break;
    }
    return out;
}

Format int_format(unsigned bits, bool is_signed) {
    TEGULA_CHECK(bits >= 1 && bits <= 64);
    Format f;
    f.is_signed = is_signed;
    f.bits = static_cast<uint8_t>(bits);
    f.name = (is_signed ? "i" : "u") + std::to_string(bits);
    return canonical(f);
}

Format float_format(unsigned exp_bits, unsigned man_bits) {
    TEGULA_CHECK(exp_bits <= 11 && man_bits <= 52);
    Format f;
    f.kind = FormatKind::floating;
    f.bits = static_cast<uint8_t>(1 + exp_bits + man_bits);
    f.exp_bits = static_cast<uint8_t>(exp_bits);
    f.man_bits = static_cast<uint8_t>(man_bits);
    f.bias = exp_bits == 0 ? 1 : (1 << (exp_bits - 1)) - 1;
    f.has_inf = exp_bits >= 2 && man_bits >= 1;
    f.nan = f.has_inf ? NanCode::ieee : NanCode::none;
    return f;
}

std::string format_problem(const Format& f) {
    if (f.bits < 1 || f.bits > 64) return "an element has 1 to 64 bits";
    switch (f.kind) {
        case FormatKind::boolean:
            return f.bits == 1 ? "" : "bool has one bit";
        case FormatKind::integer:
            return {};
        case FormatKind::floating:
            return float_problem(f);
        case FormatKind::fixed:
            if (f.int_bits + f.frac_bits != f.bits) return "integer and fraction bits do not add up to the width";
            if (f.bits > 32) return "fixed point has at most 32 bits";
            return f.is_signed && f.int_bits == 0 ? "signed fixed point needs an integer bit for its sign" : "";
        case FormatKind::lns:
            if (1 + f.int_bits + f.frac_bits != f.bits) return "sign, integer and fraction bits do not add up to the width";
            if (f.bits > 16) return "a log number has at most 16 bits";
            if (f.int_bits > 11) return "the logarithm has at most 11 integer bits, so that values fit into f64";
            return f.int_bits + f.frac_bits < 2 ? "the logarithm needs at least 2 bits" : "";
        case FormatKind::codebook:
            if (f.bits > kMaxCodebookBits) return "a codebook index has at most 16 bits";
            if (f.table.size() != size_t{1} << f.bits)
                return "a codebook of " + std::to_string(f.bits) + "-bit indices has " + std::to_string(size_t{1} << f.bits) + " values, not " +
                       std::to_string(f.table.size());
            if (!std::all_of(f.table.begin(), f.table.end(), [](double v) { return std::isfinite(v); })) return "codebook values are finite";
            return {};
        case FormatKind::block:
            if (f.elem.v == 0 || f.scale.v == 0) return "a block format names its element and its scale format";
            return f.block_size == 0 || f.block_size > 65536 ? "a block has 1 to 65536 elements" : "";
    }
    return "unknown kind of format";
}

namespace {

const std::vector<Format>& builtins() {
    static const std::vector<Format> all = builtin_formats();
    return all;
}

}  // namespace

Fmt builtin_of(const Format& format) {
    Format plain = canonical(format);
    for (size_t id = 1; id < builtins().size(); ++id) {
        plain.name = builtins()[id].name;
        if (plain == builtins()[id]) return static_cast<Fmt>(id);
    }
    return Fmt::none_;
}

std::string canonical_name(const Format& f) {
    if (const Fmt known = builtin_of(f); known != Fmt::none_) return builtins()[static_cast<size_t>(known)].name;
    auto pair = [](unsigned a, unsigned b) { return std::to_string(a) + ", " + std::to_string(b); };
    switch (f.kind) {
        case FormatKind::boolean:
            return "bool";
        case FormatKind::integer:
            return (f.is_signed ? "i" : "u") + std::to_string(f.bits);
        case FormatKind::fixed:
            return (f.is_signed ? "fixed<" : "ufixed<") + pair(f.int_bits, f.frac_bits) + ">";
        case FormatKind::lns:
            return "lns<" + pair(f.int_bits, f.frac_bits) + ">";
        case FormatKind::floating: {
            Format usual = float_format(f.exp_bits, f.man_bits);
            std::string out = "float<" + pair(f.exp_bits, f.man_bits);
            if (f.bias != usual.bias) out += ", bias = " + std::to_string(f.bias);
            if (f.has_inf != usual.has_inf) out += f.has_inf ? ", inf = true" : ", inf = false";
            if (f.nan != usual.nan) out += std::string(", nan = ") + spelling(f.nan);
            if (!f.subnormal) out += ", subnormal = false";
            if (!f.is_signed) out += ", signed = false";
            return out + ">";
        }
        case FormatKind::codebook: {
            std::string out = "codebook<" + std::to_string(f.bits) + ">[";
            for (size_t i = 0; i < f.table.size(); ++i) {
                if (i == 16) return out + ", ..]";
                char text[32];
                char* end = std::to_chars(text, text + sizeof text, f.table[i]).ptr;
                out.append(i ? ", " : "").append(text, end);
            }
            return out + "]";
        }
        case FormatKind::block:
            return "block";
    }
    return "";
}

uint64_t extend_code(const Format& f, uint64_t code) {
    unsigned spare = 64 - f.bits;
    bool sign = f.is_signed && (f.kind == FormatKind::integer || f.kind == FormatKind::fixed);
    return sign ? static_cast<uint64_t>(static_cast<int64_t>(code << spare) >> spare) : code << spare >> spare;
}

uint64_t max_code(const Format& f) {
    switch (f.kind) {
        case FormatKind::boolean:
            return 1;
        case FormatKind::integer:
        case FormatKind::fixed:
            return low_bits(f.bits - f.is_signed);
        case FormatKind::floating:
            return max_magnitude(f) << padding_of(f);
        case FormatKind::lns:
            return low_bits(f.bits - 2);
        case FormatKind::codebook:
            return extreme_entry(f, true);
        case FormatKind::block:
            break;
    }
    TEGULA_CHECK(false, "a block has no codes");
}

uint64_t lowest_code(const Format& f) {
    switch (f.kind) {
        case FormatKind::boolean:
            return 0;
        case FormatKind::integer:
        case FormatKind::fixed:
            return f.is_signed ? ~low_bits(f.bits - 1) : 0;
        case FormatKind::floating:
            return f.is_signed ? max_code(f) | sign_code(f) : 0;
        case FormatKind::lns:
            return max_code(f) | uint64_t{1} << (f.bits - 1);
        case FormatKind::codebook:
            return extreme_entry(f, false);
        case FormatKind::block:
            break;
    }
    TEGULA_CHECK(false, "a block has no codes");
}

uint64_t min_normal_code(const Format& f) {
    TEGULA_CHECK(f.kind == FormatKind::floating);
    return f.scale_only ? 0 : (f.exp_bits ? uint64_t{1} << f.man_bits : 1) << padding_of(f);
}

bool has_nan(const Format& f) { return f.kind == FormatKind::lns || (f.kind == FormatKind::floating && f.nan != NanCode::none); }

uint64_t nan_code(const Format& f) {
    if (f.kind == FormatKind::lns) return uint64_t{3} << (f.bits - 2);
    if (f.kind == FormatKind::floating) {
        unsigned width = f.exp_bits + f.man_bits;
        switch (f.nan) {
            case NanCode::ieee:
                return (low_bits(f.exp_bits) << f.man_bits | uint64_t{1} << (f.man_bits - 1)) << padding_of(f);
            case NanCode::all_ones:
                return low_bits(width) << padding_of(f);
            case NanCode::negative_zero:
                return sign_code(f);
            case NanCode::none:
                break;
        }
    }
    return f.kind == FormatKind::integer || f.kind == FormatKind::fixed ? 0 : max_code(f);
}

uint64_t inf_code(const Format& f, bool negative) {
    TEGULA_CHECK(f.kind == FormatKind::floating && f.has_inf);
    return (max_magnitude(f) + 1) << padding_of(f) | (negative ? sign_code(f) : 0);
}

}  // namespace tegula
