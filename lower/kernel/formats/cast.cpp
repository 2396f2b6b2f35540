// Formats, conversions: one rounding from format to format, bit casts, elements at bit offsets. Instructions and short
// paths where they are equal on every value; else the exact value as `Number` and the general rounding.
#include <cmath>

#include "lang/check.h"
#include "lang/plain_text.h"
#include "lower/kernel/formats/formats.h"
#include "lower/kernel/formats/text.h"

namespace tegula::lower {

using text::atom;
using text::is_native_float;

namespace {

bool is_plain(const Format& to, Round round, Overflow overflow) {
    const bool usual = overflow == Overflow::automatic || (to.is_float() && to.has_inf && overflow != Overflow::sat) ||
                       (to.is_float() && !to.has_inf && overflow == Overflow::sat);
    return round == Round::rne && usual;
}

/// Bits of codes whose results a table holds: 256 entries stay in the first cache.
constexpr unsigned kMostLookedUp = 8;

/// Are all values of a fixed-point format exact as float, the power of two included?
bool is_small_fixed(const Format& f) { return f.kind == FormatKind::fixed && f.bits <= 24 && f.frac_bits <= 64; }

/// The upper bits of a float: bf16, tf32.
bool is_prefix_of_float(const Format& f) {
    return f.is_float() && f.is_signed && f.exp_bits == 8 && f.man_bits > 0 && f.man_bits < 23 && f.bias == 127 &&
           f.has_inf && f.nan == NanCode::ieee && f.subnormal && f.negative_zero;
}

bool is_double(const Format& f) { return is_native_float(f) && f.bits == 64; }

const char* suffix(Round round) {
    switch (round) {
        case Round::rne:
            return "_rne";
        case Round::rna:
            return "_rna";
        case Round::rtz:
            return "_rtz";
        case Round::ru:
            return "_ru";
        case Round::rd:
            return "_rd";
        case Round::stochastic:
            return "_stochastic";
        case Round::bits:
            return "_bits";
    }
    return "";
}

}  // namespace

std::string Formats::cast_name(const Format& to, const Format& from, Round round, Overflow overflow) {
    const char* excess = overflow == Overflow::sat ? "_sat" : overflow == Overflow::automatic ? "" : "_ieee";
    return "cast_" + tag(to) + "_" + tag(from) + suffix(round) + excess;
}

std::string Formats::cast(const Format& to, const Format& from, const std::string& v, const Rounding& rounding) {
    const auto& [round, overflow, random, index] = rounding;
    const bool from_whole = from.is_int() || from.is_bool();
    if (to == from && !to.is_float() && round == Round::rne && overflow == Overflow::automatic) return v;
    if (to.is_bool()) {
        if (from.is_bool()) return v;
        if (from.kind == FormatKind::fixed || from_whole) return "(" + atom(v) + " != 0)";
        return "(" + value(from, v) + " != 0)";
    }
    if (to.is_int() && from_whole && overflow != Overflow::sat) return integer_cast(to, from, v);
    const bool by_bits = is_random(round), by_seed = round == Round::stochastic;
    const bool may_look_up = !by_bits && from.bits <= kMostLookedUp;
    if (may_look_up && has_long_value(from)) return table_cast(to, from, v, round, overflow);
    std::string quick = by_bits       ? ""
                        : to.is_int() ? float_to_integer(to, from, v, round)
                                      : float_cast(to, from, v, round, overflow);
    if (!quick.empty()) return quick;
    if (is_prefix_of_float(to) && is_native_float(from) && from.bits == 32) return prefix_cast(to, v, rounding);
    if (may_look_up) return table_cast(to, from, v, round, overflow);
    const std::string name = cast_name(to, from, round, overflow);
    const std::string call = name + "(" + v + (by_bits ? ", " + random : "") + (by_seed ? ", " + index : "") + ")";
    if (!first(name)) return call;
    if (by_seed) need("philox");
    const std::string bits = by_seed ? "stochastic_bits(random, index)" : by_bits ? "random" : "0";
    std::string code;
    if (to.kind == FormatKind::lns && from.kind == FormatKind::lns) {
        need("lns");
        const auto n = [](int x) { return ", " + std::to_string(x); };
        code = "lns_convert(v" + n(to.bits) + n(to.frac_bits) + n(from.bits) + n(from.frac_bits) +
               n(static_cast<int>(round)) + ", " + bits + ")";
    } else {
        code = rounded(to, number(from, "v"), round, overflow, bits);
    }
    functions_ += "__device__ __forceinline__ " + type(to) + " " + name + "(" + type(from) + " v" +
                  (by_bits ? ", unsigned long long random" : "") + (by_seed ? ", unsigned long long index" : "") +
                  ") { return " + from_bits(to, code) + "; }\n";
    return call;
}

/// A cast from float to its upper bits: something is added below the quantum, and what is below is cut off; a carry out
/// of the largest number makes an infinity.
std::string Formats::prefix_cast(const Format& to, const std::string& v, const Rounding& rounding) {
    const auto& [round, overflow, random, index] = rounding;
    const unsigned cut = 23u - to.man_bits;
    const std::string below = text::hex((uint64_t{1} << cut) - 1, false);
    std::string added = "0u";
    switch (round) {
        case Round::rne:
            added = text::hex((uint64_t{1} << (cut - 1)) - 1, false) + " + (float_bits(v) >> " + std::to_string(cut) +
                    " & 1)";
            break;
        case Round::rna:
            added = text::hex(uint64_t{1} << (cut - 1), false);
            break;
        case Round::rtz:
            break;
        case Round::ru:
            added = "float_bits(v) >> 31 ? 0u : " + below;
            break;
        case Round::rd:
            added = "float_bits(v) >> 31 ? " + below + " : 0u";
            break;
        case Round::stochastic:
            need("philox");
            added = "(unsigned)(stochastic_bits(random, index) >> " + std::to_string(64 - cut) + ")";
            break;
        case Round::bits:
            added = "(unsigned)(random >> " + std::to_string(64 - cut) + ")";
            break;
    }
    const bool by_seed = round == Round::stochastic, by_bits = is_random(round);
    Format wide = float_format(8, 23);
    wide.name = canonical_name(wide);
    const std::string name = cast_name(to, wide, round, overflow);
    const std::string call = name + "(" + v + (by_bits ? ", " + random : "") + (by_seed ? ", " + index : "") + ")";
    if (!first(name)) return call;
    need("bits");
    // An infinity has nothing to round: what is added does not reach the bits that stay.
    std::string sum = "(float_bits(v) & 0x7fffffffu) + (" + added + ")";
    if (overflow == Overflow::sat) {
        need("float_to_integer");
        sum = "at_most(" + sum + ", 0x7f7fffffu)";
    }
    const std::string bits = "((" + sum + ") | (float_bits(v) & 0x80000000u))";
    const std::string code = to.bits == 32 ? bits + " & " + text::hex(~low_bits(cut) & 0xffffffff, false)
                                           : bits + " >> " + std::to_string(32 - to.bits);
    functions_ += "__device__ __forceinline__ " + type(to) + " " + name + "(float v" +
                  (by_bits ? ", unsigned long long random" : "") + (by_seed ? ", unsigned long long index" : "") +
                  ") { return v != v ? " + literal(to, nan_code(to)) + " : (" + type(to) + ")(" + code + "); }\n";
    return call;
}

std::string Formats::integer_cast(const Format& to, const Format& from, const std::string& v) {
    if (from.is_bool())
        return to.is_signed && to.bits == 1 ? "(" + type(to) + ")-(int)" + atom(v) : "(" + type(to) + ")" + atom(v);
    const bool contained = to.is_signed == from.is_signed ? to.bits >= from.bits : to.is_signed && to.bits > from.bits;
    return contained ? (type(to) == type(from) ? v : "(" + type(to) + ")" + atom(v)) : from_bits(to, v);
}

std::string Formats::float_to_integer(const Format& to, const Format& from, const std::string& v, Round round) {
    const bool known = from.is_float() || from.kind == FormatKind::codebook;
    if (!known || round == Round::rna || is_random(round)) return "";
    need("float_to_integer");
    const std::string real = value(from, v), mode = std::string(suffix(round)).substr(1);
    const std::string name = std::string(to.bits > 32 ? "to_long_" : "to_int_") + mode;
    if (to.bits == 32) return std::string(to.is_signed ? "to_int_" : "to_uint_") + mode + "(" + real + ")";
    if (to.bits == 64) return std::string(to.is_signed ? "to_long_" : "to_ulong_") + mode + "(" + real + ")";
    const uint64_t high = max_code(to);
    const std::string suffix = to.bits > 32 ? "ll" : "", top = std::to_string(high) + suffix;
    if (!to.is_signed) {
        const std::string convert = std::string(to.bits > 32 ? "to_ulong_" : "to_uint_") + mode;
        return "(" + type(to) + ")at_most(" + convert + "(" + real + "), " + std::to_string(high) + "u" + suffix + ")";
    }
    const std::string bottom = "-" + std::to_string(high) + suffix + " - 1";
    return "(" + type(to) + ")clamp(" + name + "(" + real + "), " + bottom + ", " + top + ")";
}

/// A cast to a float from any format, where one instruction or the short encoder does it; else empty.
std::string Formats::float_cast(const Format& to, const Format& from, const std::string& v, Round round,
                                Overflow overflow) {
    if (!to.is_float()) return "";
    if (from.kind == FormatKind::lns || !is_plain(to, round, overflow)) return "";
    const bool whole = from.is_int() || from.is_bool(), small_fixed = is_small_fixed(from);
    const bool from_float = small_fixed || (!whole && from.kind != FormatKind::fixed && work(from) == Work::real32);
    const unsigned from_bits = from.is_bool() ? 1 : from.bits;
    if (to == from && is_native_float(to)) return v;
    if (is_prefix_of_float(from) && from.bits == 32 && is_native_float(to) && to.bits == 32) {
        need("bits");
        return "as_float(" + atom(v) + " & " + text::hex(~low_bits(23u - from.man_bits) & 0xffffffff, false) + ")";
    }
    if (whole && from_bits > 53 && !is_native_float(to)) return "";
    const std::string real =
        small_fixed ? "((float)" + atom(v) + " * " + hex_float_text(std::ldexp(1.0, -int{from.frac_bits})) + "f)"
                    : value(from, v);
    if (is_native_float(to)) {
        const bool same = !whole && from_float != is_double(to);
        return same ? real : "(" + type(to) + ")" + atom(real);
    }
    if (whole) return nearest(to, (from_bits <= 24 ? "(float)" : "(double)") + atom(v), from_bits <= 24);
    return nearest(to, real, from_float);
}

std::string Formats::bitcast(const Format& to, const Format& from, const std::string& value) {
    return to == from ? value : from_bits(to, to_bits(from, value));
}

std::string Formats::load_bits(const Format& f, const std::string& base, const std::string& bit) {
    const bool whole = f.bits == f.container_bytes() * 8;
    if (whole) return "*(const " + type(f) + "*)(" + atom(base) + " + (" + bit + ") / 8)";
    need("load_bits");
    return from_bits(f, "load_bits<" + std::to_string(f.bits) + ">(" + base + ", " + bit + ")");
}

std::string Formats::store_bits(const Format& f, const std::string& base, const std::string& bit,
                                const std::string& code) {
    if (f.bits == f.container_bytes() * 8)
        return "*(" + type(f) + "*)(" + atom(base) + " + (" + bit + ") / 8) = " + code + ";";
    need("store_bits");
    return "store_bits<" + std::to_string(f.bits) + ">(" + base + ", " + bit + ", (unsigned long long)" +
           atom(to_bits(f, code)) + ");";
}

}  // namespace tegula::lower
