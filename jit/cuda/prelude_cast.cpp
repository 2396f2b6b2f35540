// Prelude, conversions: one rounding from format to format, bit casts, elements at bit offsets. Instructions and short paths where they are equal on
// every value; else the exact value as `Number` and the general rounding.
#include <cmath>

#include "jit/cuda/prelude.h"
#include "jit/cuda/prelude_text.h"
#include "lang/check.h"
#include "lang/plain_text.h"

namespace tegula::cuda {

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
    }
    return "";
}

}  // namespace

std::string Prelude::cast_name(const Format& to, const Format& from, Round round, Overflow overflow) {
    const char* excess = overflow == Overflow::sat ? "_sat" : overflow == Overflow::automatic ? "" : "_ieee";
    return "cast_" + tag(to) + "_" + tag(from) + suffix(round) + excess;
}

std::string Prelude::cast(const Format& to, const Format& from, const std::string& v, Round round, Overflow overflow, const std::string& seed,
                          const std::string& index) {
    const bool from_whole = from.is_int() || from.is_bool();
    if (to == from && !to.is_float() && round == Round::rne && overflow == Overflow::automatic) return v;
    if (to.is_bool()) {
        if (from.is_bool()) return v;
        if (from.kind == FormatKind::fixed || from_whole) return "(" + atom(v) + " != 0)";
        return "(" + value(from, v) + " != 0)";
    }
    if (to.is_int() && from_whole && overflow != Overflow::sat) return integer_cast(to, from, v);
    const bool random = round == Round::stochastic;
    const bool may_look_up = !random && from.bits <= kMostLookedUp;
    if (may_look_up && has_long_value(from)) return table_cast(to, from, v, round, overflow);
    std::string quick = random ? "" : to.is_int() ? float_to_integer(to, from, v, round) : float_cast(to, from, v, round, overflow);
    if (!quick.empty()) return quick;
    if (may_look_up) return table_cast(to, from, v, round, overflow);
    const std::string name = cast_name(to, from, round, overflow);
    const std::string call = name + "(" + v + (random ? ", " + seed + ", " + index : "") + ")";
    if (!first(name)) return call;
    if (random) need("philox");
    const std::string bits = random ? "stochastic_bits(seed, index)" : "0";
    std::string code;
    if (to.kind == FormatKind::lns && from.kind == FormatKind::lns) {
        need("lns");
        const auto n = [](int x) { return ", " + std::to_string(x); };
        code = "lns_convert(v" + n(to.bits) + n(to.frac_bits) + n(from.bits) + n(from.frac_bits) + n(static_cast<int>(round)) + ", " + bits + ")";
    } else {
        code = rounded(to, number(from, "v"), round, overflow, bits);
    }
    functions_ += "__device__ __forceinline__ " + type(to) + " " + name + "(" + type(from) + " v" +
                  (random ? ", unsigned long long seed, unsigned long long index" : "") + ") { return " + from_bits(to, code) + "; }\n";
    return call;
}

std::string Prelude::integer_cast(const Format& to, const Format& from, const std::string& v) {
    if (from.is_bool()) return to.is_signed && to.bits == 1 ? "(" + type(to) + ")-(int)" + atom(v) : "(" + type(to) + ")" + atom(v);
    const bool contained = to.is_signed == from.is_signed ? to.bits >= from.bits : to.is_signed && to.bits > from.bits;
    return contained ? (type(to) == type(from) ? v : "(" + type(to) + ")" + atom(v)) : from_bits(to, v);
}

std::string Prelude::float_to_integer(const Format& to, const Format& from, const std::string& v, Round round) {
    const bool known = from.is_float() || from.kind == FormatKind::codebook;
    if (!known || round == Round::rna || round == Round::stochastic) return "";
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

/// To a float from any format, where one instruction or the short encoder does it; else empty.
std::string Prelude::float_cast(const Format& to, const Format& from, const std::string& v, Round round, Overflow overflow) {
    if (!to.is_float()) return "";
    if (from.kind == FormatKind::lns || !is_plain(to, round, overflow)) return "";
    const bool whole = from.is_int() || from.is_bool(), small_fixed = is_small_fixed(from);
    const bool from_float = small_fixed || (!whole && from.kind != FormatKind::fixed && work(from) == Work::real32);
    const unsigned from_bits = from.is_bool() ? 1 : from.bits;
    if (to == from && is_native_float(to)) return v;
    if (whole && from_bits > 53 && !is_native_float(to)) return "";
    const std::string real =
        small_fixed ? "((float)" + atom(v) + " * " + hex_float_text(std::ldexp(1.0, -int{from.frac_bits})) + "f)" : value(from, v);
    if (is_native_float(to)) {
        const bool same = !whole && from_float != is_double(to);
        return same ? real : "(" + type(to) + ")" + atom(real);
    }
    if (whole) return nearest(to, (from_bits <= 24 ? "(float)" : "(double)") + atom(v), from_bits <= 24);
    return nearest(to, real, from_float);
}

std::string Prelude::bitcast(const Format& to, const Format& from, const std::string& value) {
    return to == from ? value : from_bits(to, to_bits(from, value));
}

std::string Prelude::load_bits(const Format& f, const std::string& base, const std::string& bit) {
    const bool whole = f.bits == f.container_bytes() * 8;
    if (whole) return "*(const " + type(f) + "*)(" + atom(base) + " + (" + bit + ") / 8)";
    need("load_bits");
    return from_bits(f, "load_bits<" + std::to_string(f.bits) + ">(" + base + ", " + bit + ")");
}

std::string Prelude::store_bits(const Format& f, const std::string& base, const std::string& bit, const std::string& code) {
    if (f.bits == f.container_bytes() * 8) return "*(" + type(f) + "*)(" + atom(base) + " + (" + bit + ") / 8) = " + code + ";";
    need("store_bits");
    return "store_bits<" + std::to_string(f.bits) + ">(" + base + ", " + bit + ", (unsigned long long)" + atom(to_bits(f, code)) + ");";
}

}  // namespace tegula::cuda
