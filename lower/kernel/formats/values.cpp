// Formats, formats: C types, literals, the value of a code and the code of a value as C++ expressions. Formats with
// instructions of their own use sections of device text; all others get a decoder and an encoder written from the
// fields of lang/format.h.
#include <bit>
#include <cmath>

#include "lang/check.h"
#include "lang/fast_float.h"
#include "lang/plain_text.h"
#include "lower/kernel/formats/formats.h"
#include "lower/kernel/formats/text.h"

namespace tegula::lower {

namespace text {

void replace_all(std::string& s, std::string_view from, std::string_view to) {
    for (size_t at = 0; (at = s.find(from, at)) != std::string::npos; at += to.size()) s.replace(at, from.size(), to);
}

void replace_word(std::string& s, std::string_view word, std::string_view to) {
    for (size_t at = 0; (at = s.find(word, at)) != std::string::npos;) {
        const size_t end = at + word.size();
        const bool alone = (at == 0 || !is_identifier(s[at - 1])) && (end == s.size() || !is_identifier(s[end]));
        if (alone) s.replace(at, word.size(), to);
        at += alone ? to.size() : word.size();
    }
}

std::string atom(const std::string& e) {
    size_t i = 0;
    int depth = 0;
    bool simple = !e.empty() && (is_identifier(e[0]) || e[0] == '(');
    for (; i < e.size() && simple; ++i) {
        depth += e[i] == '(' || e[i] == '[' ? 1 : e[i] == ')' || e[i] == ']' ? -1 : 0;
        simple = depth > 0 || is_identifier(e[i]) || e[i] == '.' || e[i] == ']' ||
                 (e[i] == ')' && (e[0] != '(' || i + 1 == e.size()));
    }
    return simple ? e : "(" + e + ")";
}

bool is_native_float(const Format& f) {
    return (is_ieee_binary(f, 32) || is_ieee_binary(f, 64)) && f.is_signed && f.negative_zero;
}

const char* own_section(const Format& f) {
    switch (builtin_of(f)) {
        case Fmt::f16:
            return "f16";
        case Fmt::bf16:
            return "bf16";
        case Fmt::f8e4m3:
        case Fmt::f8e5m2:
            return "fp8";
        default:
            return nullptr;
    }
}

bool has_instruction(ir::Op op, const Format& f) {
    const bool arithmetic = op == ir::Op::add || op == ir::Op::sub || op == ir::Op::mul || op == ir::Op::fma;
    return arithmetic && f.bits == 16 && own_section(f);
}

std::string hex(uint64_t v, bool wide) { return "0x" + hex_text(v) + (wide ? "ull" : "u"); }

}  // namespace text

using text::hex;
using text::is_native_float;

namespace {

uint64_t low(unsigned n) { return n >= 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1; }
unsigned padding(const Format& f) { return f.bits - f.is_signed - f.exp_bits - f.man_bits; }
int min_exponent(const Format& f) { return (f.scale_only ? 0 : 1) - f.bias; }
const char* truth(bool b) { return b ? "true" : "false"; }

/// Every value is exact in float, and a sum, product, quotient or root in float rounds once more to the format as if
/// rounded once: 24 bits are enough for precisions up to 11, and products stay above float's smallest number wherever
/// they matter.
bool works_in_float(const Format& f) {
    const int precision = f.man_bits + 1, quantum = min_exponent(f) - f.man_bits;
    const int largest =
        static_cast<int>((max_code(f) >> padding(f)) >> f.man_bits) + min_exponent(f) - (f.scale_only ? 0 : 1);
    return f.bits <= 16 && precision <= 11 && largest <= 127 && quantum - (2 * precision - 1) >= -149;
}

/// Has the short path of encode_rne (device/encode_rne.cuh).
bool has_short_encoder(const Format& f) {
    return works_in_float(f) && f.subnormal && f.man_bits > 0 && !f.scale_only && f.bias <= 127 && f.bias >= -80;
}

/// The value is the code among the bits of a float, times a power of two.
bool has_short_decoder(const Format& f) {
    return works_in_float(f) && f.exp_bits < 8 && f.subnormal && !f.scale_only && f.bias >= 0 && f.bias <= 250;
}

/// The exponent of a float, as f8e8m0 is.
bool is_exponent(const Format& f) {
    return f.scale_only && f.man_bits == 0 && f.exp_bits == 8 && f.bias == 127 && f.nan == NanCode::all_ones;
}

bool is_sat(const Format& f, Overflow overflow) {
    return overflow == Overflow::sat || (overflow == Overflow::automatic && !f.has_inf);
}

/// An initialiser of FloatFormat.
std::string float_format_text(const Format& f, Overflow overflow) {
    const auto n = [](int64_t v) { return std::to_string(v) + ", "; };
    const uint64_t sign = f.is_signed ? uint64_t{1} << (f.bits - 1) : 0;
    const auto code = [](uint64_t v) { return hex(v, true) + ", "; };
    return "{" + n(f.man_bits) + n(f.exp_bits) + n(min_exponent(f)) + n(padding(f)) + code(sign) +
           code(max_code(f) >> padding(f)) + code(nan_code(f)) + code(f.has_inf ? inf_code(f, false) : 0) +
           truth(f.has_inf) + ", " + truth(f.nan != NanCode::none) + ", " + truth(f.subnormal) + ", " +
           truth(f.negative_zero) + ", " + truth(f.scale_only) + ", " + truth(is_sat(f, overflow)) + "}";
}

const char* unsigned_container(const Format& f) {
    switch (f.container_bytes()) {
        case 1:
            return "unsigned char";
        case 2:
            return "unsigned short";
        case 4:
            return "unsigned";
        default:
            return "unsigned long long";
    }
}

}  // namespace

Formats::Work Formats::work(const Format& f) {
    switch (f.kind) {
        case FormatKind::boolean:
            return Work::boolean;
        case FormatKind::integer:
            return Work::integer;
        case FormatKind::fixed:
            return Work::fixed;
        case FormatKind::floating:
            return is_native_float(f)  ? (f.bits == 32 ? Work::real32 : Work::real64)
                   : works_in_float(f) ? Work::real32
                                       : Work::real64;
        case FormatKind::lns:
        case FormatKind::codebook:
            return Work::real64;
        case FormatKind::block:
            break;
    }
    TEGULA_CHECK(false, "a block has no codes");
}

int64_t Formats::emulation(const Format& f) {
    if (f.is_bool() || f.is_int() || is_native_float(f) || is_ieee_binary(f, 16) ||
        (f.bits == 16 && f.exp_bits == 8 && f.man_bits == 7))
        return 0;
    if (f.kind == FormatKind::fixed || (f.is_float() && has_short_encoder(f) && has_short_decoder(f))) return 48;
    return 512;
}

bool Formats::has_long_value(const Format& f) {
    if (f.kind == FormatKind::codebook || f.kind == FormatKind::lns) return true;
    return f.is_float() && !is_native_float(f) && !has_short_decoder(f) && !is_exponent(f);
}

std::string Formats::type(const Format& f) const {
    if (f.is_bool()) return "bool";
    if (is_native_float(f)) return f.bits == 32 ? "float" : "double";
    if (!text::extends_sign(f)) return unsigned_container(f);
    static constexpr const char* names[] = {"signed char", "short", "int", "long long"};
    return names[std::countr_zero(f.container_bytes())];
}

const std::string& Formats::tag(const Format& f) {
    for (const auto& [format, tag] : tags_)
        if (format == f) return tag;
    std::string name = canonical_name(f), out;
    if (f.kind == FormatKind::codebook) name = "codebook" + std::to_string(f.bits);
    for (char c : name) {
        if (text::is_identifier(c))
            out += c;
        else if (c == '-')
            out += 'm';
        else if (!out.empty() && out.back() != '_')
            out += '_';
    }
    while (out.ends_with('_')) out.pop_back();
    for (const auto& known : tags_)
        if (known.second == out) {
            out += "_n" + std::to_string(tags_.size());
            break;
        }
    tags_.emplace_back(f, out);
    return tags_.back().second;
}

std::string Formats::literal(const Format& f, uint64_t code) {
    if (f.is_bool()) return truth(code & 1);
    if (f.is_int() || f.kind == FormatKind::fixed) {
        const uint64_t v = extend_code(f, code);
        const bool wide = f.bits > 32;
        if (!f.is_signed) return wide ? std::to_string(v) + "ull" : std::to_string(v) + "u";
        const int64_t s = static_cast<int64_t>(v);
        if (s == INT64_MIN) return "(-9223372036854775807ll - 1)";
        if (s == INT32_MIN && !wide) return "(-2147483647 - 1)";
        const std::string digits = std::to_string(s) + (wide ? "ll" : "");
        return s < 0 ? "(" + digits + ")" : digits;
    }
    if (!is_native_float(f)) return hex(code & low(f.bits), f.bits > 32);
    const double v = decode(f, code);
    if (!std::isfinite(v)) return from_bits(f, hex(code & low(f.bits), f.bits == 64));
    // Short decimals that read back exactly are easier on the eye.
    std::string digits = decimal_text(v, 6);
    if (double back = 0; !read_number(digits, back) || back != v) digits = hex_float_text(v);
    if (digits.find_first_of(".exp") == std::string::npos) digits += ".0";
    if (f.bits == 32) digits += "f";
    return std::signbit(v) ? "(" + digits + ")" : digits;
}

std::string Formats::from_bits(const Format& f, const std::string& code) {
    if (is_native_float(f)) {
        need("bits");
        return f.bits == 32 ? "as_float((unsigned)" + text::atom(code) + ")" : "as_double(" + code + ")";
    }
    if (f.is_bool()) return "((" + text::atom(code) + " & 1) != 0)";
    const unsigned container = f.container_bytes() * 8, spare = (container < 32 ? 32u : container) - f.bits;
    const std::string T = type(f);
    if (f.bits == container) return "(" + T + ")" + text::atom(code);
    if (text::extends_sign(f)) {
        const std::string wide = container == 64 ? "long long" : "int", n = std::to_string(spare);
        return "(" + T + ")((" + wide + ")((unsigned " + (container == 64 ? "long long" : "int") + ")" +
               text::atom(code) + " << " + n + ") >> " + n + ")";
    }
    return "(" + T + ")(" + text::atom(code) + " & " + hex(low(f.bits), f.bits > 32) + ")";
}

std::string Formats::to_bits(const Format& f, const std::string& value) {
    if (is_native_float(f)) {
        need("bits");
        return (f.bits == 32 ? "float_bits(" : "double_bits(") + value + ")";
    }
    if (f.is_bool()) return "(unsigned)" + text::atom(value);
    return std::string("(") + unsigned_container(f) + ")" + text::atom(value);
}

// ---- value of a code ----

std::string Formats::value(const Format& f, const std::string& code) {
    if (f.is_int() || f.is_bool() || is_native_float(f)) return code;
    if (f.kind == FormatKind::fixed)
        return "((double)" + text::atom(code) + " * " + hex_float_text(std::ldexp(1.0, -int{f.frac_bits})) + ")";
    const std::string name = "decode_" + tag(f), call = name + "(" + code + ")";
    if (const char* section = text::own_section(f)) {
        need(section);
        return call;
    }
    if (!first(name)) return call;
    const std::string head = "__device__ __forceinline__ " +
                             std::string(work(f) == Work::real32 ? "float " : "double ") + name + "(" + type(f) +
                             " code) {";
    if (f.kind == FormatKind::codebook || f.kind == FormatKind::lns) {
        functions_ += decode_by_table(f, head);
        return call;
    }
    const uint64_t max = max_code(f) >> padding(f);
    if (has_short_decoder(f)) {
        need("bits");
        const std::string shift = std::to_string(23 - f.man_bits), m = hex(low(f.exp_bits + f.man_bits), false);
        std::string body = " const unsigned m = code & " + m + "; float v = as_float(m << " + shift + ") * " +
                           hex_float_text(std::ldexp(1.0, 127 - f.bias)) + "f;";
        if (f.has_inf) body += " v = m == " + hex(max + 1, false) + " ? as_float(0x7f800000u) : v;";
        if (f.is_signed) {
            const std::string sign = hex(uint64_t{1} << (f.bits - 1), false);
            body += std::string(f.negative_zero ? " v = " : " v = m == 0 ? v : ") +
                    "as_float(float_bits(v) | (code & " + sign + ") << " + std::to_string(32 - f.bits) + ");";
            if (f.nan == NanCode::negative_zero) body += " v = code == " + sign + " ? as_float(0x7fc00000u) : v;";
        }
        if (max + f.has_inf < low(f.exp_bits + f.man_bits))
            body += " v = m > " + hex(max + f.has_inf, false) + " ? as_float(0x7fc00000u) : v;";
        functions_ += head + body + " return v; }\n";
        return call;
    }
    if (is_exponent(f)) {
        need("bits");
        functions_ +=
            head + " return as_float(code == 0 ? 0x400000u : code == 0xff ? 0x7fc00000u : (unsigned)code << 23); }\n";
        return call;
    }
    need("decode_float");
    functions_ += head + " const FloatFormat f = " + float_format_text(f, Overflow::automatic) + "; return " +
                  (work(f) == Work::real32 ? "(float)" : "") + "decode_float(code, f); }\n";
    return call;
}

std::string Formats::decode_by_table(const Format& f, const std::string& head) {
    const std::string table = "table_" + tag(f);
    const bool lns = f.kind == FormatKind::lns;
    if (!lns) {
        std::string entries;
        for (size_t i = 0; i < f.table.size(); ++i) entries += (i ? ", " : "") + hex_float_text(f.table[i]);
        return "static __device__ const double " + table + "[" + std::to_string(f.table.size()) + "] = {" + entries +
               "};\n" + head + " return " + table + "[code & " + hex(low(f.bits), false) + "]; }\n";
    }
    // The significands of 2^(k / 2^F), rounded as lang/round.cpp has them.
    std::string entries;
    for (uint64_t part = 0; part < uint64_t{1} << f.frac_bits; ++part)
        entries += (part ? ", " : "") + hex(decode_exact(f, part).significand, true);
    need("lns");
    const std::string facts = std::to_string(f.bits) + ", " + std::to_string(f.frac_bits);
    return "static __device__ const unsigned long long " + table + "[" + std::to_string(uint64_t{1} << f.frac_bits) +
           "] = {" + entries + "};\n__device__ __forceinline__ Number number_" + tag(f) +
           "(unsigned code) { return lns_number(code, " + table + ", " + facts + "); }\n" + head +
           " return lns_value(number_" + tag(f) + "(code)); }\n";
}

/// The results of all codes, which the library computes, in a table: for conversions that would take more than a few
/// instructions.
std::string Formats::table_cast(const Format& to, const Format& from, const std::string& v, Round round,
                                Overflow overflow) {
    const std::string name = cast_name(to, from, round, overflow), call = name + "(" + v + ")";
    if (!first(name)) return call;
    const uint64_t codes = uint64_t{1} << from.bits;
    const bool wide = to.container_bytes() == 8;
    std::string entries;
    for (uint64_t code = 0; code < codes; ++code)
        entries +=
            (code ? ", " : "") +
            hex(convert(to, from, extend_code(from, code), {round, overflow}) & low(8 * to.container_bytes()), wide);
    const std::string table = "table_of_" + name;
    functions_ += std::string("static __device__ const ") + unsigned_container(to) + " " + table + "[" +
                  std::to_string(codes) + "] = {" + entries + "};\n__device__ __forceinline__ " + type(to) + " " +
                  name + "(" + type(from) + " code) { return " +
                  from_bits(to, table + "[(unsigned)code & " + hex(codes - 1, false) + "]") + "; }\n";
    return call;
}

// ---- code of a value ----

std::string Formats::nearest(const Format& f, const std::string& value, bool value_is_float) {
    const bool short_path = has_short_encoder(f);
    std::string v = value;
    if (short_path && !value_is_float) {
        // Rounded to odd, the float still decides every rounding to the format.
        need("float_round_odd");
        v = "float_round_odd(" + value + ")";
    }
    const std::string name = "encode_" + tag(f), call = name + "(" + v + ")";
    if (const char* section = text::own_section(f)) {
        need(section);
        return call;
    }
    if (!first(name)) return call;
    const std::string head = "__device__ __forceinline__ " + type(f) + " " + name + "(" +
                             (short_path ? "float" : "double") + " v) { return (" + type(f) + ")";
    if (!short_path) {
        need("number");
        const std::string code = rounded(f, "number_of(v)", Round::rne, Overflow::automatic, "0");
        functions_ += head + text::atom(code) + "; }\n";
        return call;
    }
    need("encode_rne");
    const uint64_t max = max_code(f), above = f.has_inf ? inf_code(f, false) : max;
    const std::string facts = std::to_string(f.man_bits) + ", " + std::to_string(min_exponent(f)) + ", " +
                              hex(max, false) + ", " + hex(above, false) + ", " + hex(nan_code(f), false);
    const uint64_t below =
        f.has_inf && f.nan != NanCode::none ? nan_code(f) : 0;  // what a format without signs has for negative numbers
    functions_ +=
        head +
        (f.is_signed ? "encode_rne<" + facts + ", " + std::to_string(f.bits - 1) + ", " + truth(f.negative_zero)
                     : "encode_unsigned_rne<" + facts + ", " + hex(below, false)) +
        ">(v); }\n";
    return call;
}

std::string Formats::number(const Format& f, const std::string& code) {
    need("number");
    if (f.kind == FormatKind::lns) {
        value(f, code);  // makes the table
        return "number_" + tag(f) + "(" + code + ")";
    }
    if (f.is_int() || f.is_bool())
        return std::string("number_of((") + (f.is_signed && f.is_int() ? "long long)" : "unsigned long long)") +
               text::atom(code) + ")";
    return "number_of((double)" + text::atom(value(f, code)) + ")";
}

std::string Formats::rounded(const Format& to, const std::string& number, Round round, Overflow overflow,
                             const std::string& random) {
    const std::string mode = std::to_string(static_cast<int>(round)), tail = ", " + mode + ", " + random + ")";
    const auto n = [](int64_t v) { return ", " + std::to_string(v); };
    switch (to.kind) {
        case FormatKind::floating: {
            need("round_float");
            const std::string facts = "format_" + tag(to) + (is_sat(to, overflow) ? "_sat" : "");
            if (first(facts))
                functions_ += "__device__ __forceinline__ FloatFormat " + facts +
                              "() { const FloatFormat f = " + float_format_text(to, overflow) + "; return f; }\n";
            return "round_float(" + number + ", " + facts + "()" + tail;
        }
        case FormatKind::integer:
        case FormatKind::fixed:
            need("round_integer");
            return "round_integer(" + number + n(to.bits) + ", " + truth(to.is_signed) +
                   n(to.kind == FormatKind::fixed ? to.frac_bits : 0) + tail;
        case FormatKind::lns:
            need("lns");
            return "lns_round(" + number + n(to.bits) + n(to.frac_bits) + tail;
        case FormatKind::codebook:
            need("nearest");
            value(to, "0");  // makes the table
            return "nearest(" + number + ", table_" + tag(to) + n(static_cast<int64_t>(to.table.size())) +
                   n(static_cast<int64_t>(max_code(to))) + n(static_cast<int64_t>(lowest_code(to))) + ")";
        case FormatKind::boolean:
            return "!is_zero(" + number + ")";
        case FormatKind::block:
            break;
    }
    TEGULA_CHECK(false, "a block has no codes");
}

}  // namespace tegula::lower
