// Pictures of number formats: which numbers the codes stand for, how far apart they are, and which reals are rounded to each.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "jit/picture/builders.h"
#include "lang/plain_text.h"
#include "lang/print_text.h"
#include "lang/stable_sort.h"

namespace tegula::picture {

namespace {

constexpr unsigned kListedBits = 8;  ///< formats whose codes are all looked at
constexpr unsigned kShortBits = 5;   ///< formats whose landmarks are found without a list of them

std::string binary(uint64_t code, unsigned bits) {
    std::string out;
    for (unsigned b = bits; b-- > 0;) out += code >> b & 1 ? '1' : '0';
    return out;
}

/// A code with its fields apart: "0 0111 000".
std::string fields(const Format& f, uint64_t code) {
    std::string out = binary(code, f.bits);
    if (!f.is_float()) return out;
    out.insert(static_cast<size_t>(f.is_signed) + f.exp_bits, f.man_bits ? " " : "");
    if (f.is_signed) out.insert(1, " ");
    return out;
}

std::string hex(uint64_t code, unsigned bits) {
    const std::string digits = hex_text(bits >= 64 ? code : code & ((uint64_t{1} << bits) - 1));
    const size_t width = (bits + 3) / 4;
    return "0x" + std::string(width > digits.size() ? width - digits.size() : 0, '0') + digits;
}

/// The value of a code as it is printed: floats with six digits.
std::string value_of(const Format& f, uint64_t code) { return number_text(f, extend_code(f, code)); }
/// At most six digits.
std::string rounded(double v) { return std::isfinite(v) ? decimal_text(v == 0 ? 0.0 : v, 6) : v != v ? "nan" : v < 0 ? "-inf" : "inf"; }

/// A finite value and the codes that stand for it, neighbours by order.
struct Number {
    double value;
    uint64_t code;
};
/// Of all codes, ascending; zeros of both signs are one (the positive one stays).
std::vector<Number> numbers(const Format& f) {
    std::vector<Number> out;
    for (uint64_t code = 0; code < uint64_t{1} << f.bits; ++code)
        if (const double v = decode(f, extend_code(f, code)); std::isfinite(v)) out.push_back({v, code});
    stable_sort(out, &Number::value);
    const auto last = std::unique(out.begin(), out.end(), [](const Number& a, const Number& b) { return a.value == b.value; });
    out.erase(last, out.end());
    return out;
}

/// The code that a real becomes by the default cast (which truncates to integers), with the bits above the format's cut off.
uint64_t rounds_to(const Format& f, double v) {
    const uint64_t code = encode(f, v, {f.is_int() ? Round::rtz : Round::rne, Overflow::automatic, 0});
    return f.bits >= 64 ? code : code & ((uint64_t{1} << f.bits) - 1);
}

/// One end of an interval; `closed`: it belongs to it.
struct End {
    double value;
    bool closed;
};

/// Doubles by number, in their order; both zeros are 0.
int64_t number_of(double v) {
    const auto bits = std::bit_cast<int64_t>(v);
    return bits >= 0 ? bits : std::numeric_limits<int64_t>::min() - bits;
}
double double_of(__int128 number) {
    const auto bits = static_cast<int64_t>(number);
    return std::bit_cast<double>(bits >= 0 ? bits : std::numeric_limits<int64_t>::min() - bits);
}

/// Where `is_here` ends on the way from `in`, of which it holds, to `out`, of which it does not. Of the two doubles at which it changes the shorter
/// one is the end: ties and whole numbers are short, and where the end is no double either is as near.
End end_of(const auto& is_here, double in, double out) {
    __int128 inside = number_of(in), outside = number_of(out);
    while (inside - outside > 1 || outside - inside > 1) {
        const __int128 middle = (inside + outside) / 2;
        (is_here(double_of(middle)) ? inside : outside) = middle;
    }
    const auto zeros = [](__int128 n) { return n == 0 ? 64 : std::countr_zero(static_cast<uint64_t>(std::bit_cast<int64_t>(double_of(n)))); };
    return zeros(inside) >= zeros(outside) ? End{double_of(inside), true} : End{double_of(outside), false};
}

/// The reals that the default cast brings to number `k`.
std::string interval(const Format& f, const std::vector<Number>& all, size_t k) {
    const auto is_here = [&](double v) { return decode(f, extend_code(f, rounds_to(f, v))) == all[k].value; };
    const double here = all[k].value, kLarge = std::numeric_limits<double>::max();
    const double below = k > 0 ? all[k - 1].value : -kLarge, above = k + 1 < all.size() ? all[k + 1].value : kLarge;
    std::string low = "(-inf", high = "inf)";
    if (here != below && !is_here(below)) {
        const End end = end_of(is_here, here, below);
        low = (end.closed ? "[" : "(") + rounded(end.value);
    }
    if (here != above && !is_here(above)) {
        const End end = end_of(is_here, here, above);
        high = rounded(end.value) + (end.closed ? "]" : ")");
    }
    return low + ", " + high;
}

/// Beyond the largest value by default: "saturates", "inf", "nan".
std::string beyond(const Format& f) {
    const double v = decode(f, extend_code(f, encode(f, std::numeric_limits<double>::max())));
    return v != v ? "NaN" : std::isinf(v) ? "Inf" : "saturates: the largest value";
}

void tell(const std::string& of, const Format& f, Picture& out) {
    const auto fact = [&](const char* name, const std::string& value) { out.facts.push_back({of + name, value}); };
    std::string parts = std::to_string(f.bits) + " bits";
    if (f.is_float())
        parts += std::string(": ") + (f.is_signed ? "sign, " : "") + std::to_string(f.exp_bits) + " of exponent (bias " + std::to_string(f.bias) +
                 "), " + std::to_string(f.man_bits) + " of mantissa";
    if (f.kind == FormatKind::fixed) parts += ": " + std::to_string(f.int_bits) + " integer, " + std::to_string(f.frac_bits) + " fraction";
    if (f.kind == FormatKind::codebook) parts += ": numbers of a table";
    fact("element", parts);
    if (f.is_bool()) return;
    fact("largest", value_of(f, max_code(f)));
    fact("lowest", value_of(f, lowest_code(f)));
    fact("above the largest", beyond(f));
    fact("NaN", has_nan(f) ? hex(nan_code(f), f.bits) + " when made" : "none: " + value_of(f, nan_code(f)) + " instead");
    if (!f.is_float()) return;
    fact("Inf", f.has_inf ? hex(inf_code(f, false), f.bits) : "none");
    if (f.subnormal && f.man_bits) fact("subnormals", "yes, below " + value_of(f, min_normal_code(f)));
    fact("-0", f.negative_zero ? "yes" : "no");
}

/// Every code in rows of sixteen.
Grid codes(const Format& f) {
    const uint64_t all = uint64_t{1} << f.bits, across = std::min<uint64_t>(all, 16);
    Grid grid{"code", "", {}, {}, {}, {}};
    for (uint64_t c = 0; c < across; ++c) grid.column_names.push_back("+" + hex_text(c));
    for (uint64_t begin = 0; begin < all; begin += across) {
        std::vector<std::string> cells;
        std::vector<int> tones;
        for (uint64_t code = begin; code < begin + across; ++code) {
            const double v = decode(f, extend_code(f, code));
            const bool subnormal = f.is_float() && f.subnormal && v != 0 && std::fabs(v) < decode(f, min_normal_code(f));
            cells.push_back(std::isfinite(v) && !f.is_bool() ? rounded(v) : value_of(f, code));
            if (v == 0 && std::signbit(v)) cells.back() = "-0";
            tones.push_back(v != v ? int{bad} : std::isinf(v) ? 6 : subnormal ? 7 : v == 0 ? int{gap} : v < 0 ? 2 : 1);
        }
        grid.add_row(hex(begin, f.bits), std::move(cells), std::move(tones));
    }
    return grid;
}

Table by_value(const Format& f, const std::vector<Number>& all) {
    Table table{{"code", "bits", "value", "to the next", "reals that are rounded to it"}, {}, {}};
    for (size_t k = 0; k < all.size(); ++k) {
        table.rows.push_back({hex(all[k].code, f.bits), fields(f, all[k].code), value_of(f, all[k].code),
                              k + 1 < all.size() ? rounded(all[k + 1].value - all[k].value) : "-", interval(f, all, k)});
        table.tones.push_back(plain);
    }
    for (uint64_t code = 0; code < uint64_t{1} << f.bits; ++code)
        if (const double v = decode(f, extend_code(f, code)); !std::isfinite(v) || (v == 0 && std::signbit(v))) {
            table.rows.push_back(
                {hex(code, f.bits), fields(f, code), v == 0 ? "-0" : value_of(f, code), "-", v == 0 ? "negative ones too small to be others" : "-"});
            table.tones.push_back(v == 0 ? plain : v != v ? bad : 6);
        }
    return table;
}

/// Codes that people ask for, of formats with too many to list them all.
Table landmarks(const Format& f) {
    Table table{{"what", "code", "value"}, {}, {}};
    const auto row = [&](const char* what, uint64_t code) { table.rows.push_back({what, hex(code, f.bits), value_of(f, code)}); };
    row("zero", rounds_to(f, 0.0));
    const uint64_t unit =
        f.is_float() ? uint64_t{1} << (f.bits - f.is_signed - f.exp_bits - f.man_bits) : 1;  // of tf32, whose low bits are zero, more than 1
    if (f.is_float() && f.subnormal && f.man_bits) row("smallest subnormal", unit), row("largest subnormal", min_normal_code(f) - unit);
    if (f.is_float()) row("smallest normal", min_normal_code(f));
    row("one", rounds_to(f, 1.0));
    if (f.is_float()) row("next after one", rounds_to(f, 1.0) + unit);
    row("largest", max_code(f)), row("lowest", lowest_code(f));
    if (f.is_float() && f.has_inf) row("Inf", inf_code(f, false)), row("-Inf", inf_code(f, true));
    if (has_nan(f)) row("NaN", nan_code(f));
    return table;
}

Plot gaps(const std::vector<Number>& all) {
    Plot plot;
    Plot::Series gap_to_next{"gap to the next value", "o", {}, {}, 1};
    for (size_t k = 0; k + 1 < all.size(); ++k) gap_to_next.x.push_back(all[k].value), gap_to_next.y.push_back(all[k + 1].value - all[k].value);
    const double most = *std::ranges::max_element(gap_to_next.y), least = *std::ranges::min_element(gap_to_next.y);
    const bool wide = all.back().value / std::max(all[all.size() / 2].value, 1e-300) > 1e4 && all.front().value > 0;
    plot.x = {"value", wide, all.front().value, all.back().value};
    plot.y = {"gap to the next value", most > 8 * least, most > 8 * least ? least / 2 : 0, most * (most > 8 * least ? 2 : 1.25)};
    plot.series.push_back(std::move(gap_to_next));
    return plot;
}

}  // namespace

Picture format_picture(std::span<const Subject> subjects, const TypeTable& types) {
    Picture out{"format", {}, {}, {}, {}};
    std::vector<FormatId> done;
    const auto show = [&](const std::string& of, const Format& f, FormatId id) {
        if (std::ranges::find(done, id) != done.end()) return;
        done.push_back(id);
        tell(of, f, out);
        if (f.bits > kListedBits) {
            if (!f.is_bool()) out.figures.push_back({of + "landmarks", "", landmarks(f), {}});
            out.notes.push_back(of + f.name + " has 2^" + std::to_string(f.bits) + " codes; all are listed of formats of at most " +
                                std::to_string(kListedBits) + " bits");
            return;
        }
        out.figures.push_back({of + "every code",
                               "the number that it stands for",
                               codes(f),
                               {{1, "positive"}, {2, "negative"}, {7, "subnormal"}, {gap, "zero"}, {6, "Inf"}, {bad, "NaN"}}});
        const std::vector<Number> all = numbers(f);
        if (f.is_bool() || all.size() < 2) return;
        if (f.bits > kShortBits) out.figures.push_back({of + "landmarks", "", landmarks(f), {}});
        out.figures.push_back({of + "by value", "with the interval of reals that the default cast brings there", by_value(f, all), {}});
        if (f.bits > 2) out.figures.push_back({of + "how far apart", "", gaps(all), {}});
    };
    for (const Subject& s : subjects) {
        const Format& f = types.format(s.format);
        const std::string name = f.name.substr(0, 60) + (f.name.size() > 60 ? ".." : "");
        out.title += (out.title.empty() ? "" : "; ") + (s.name.empty() ? "" : s.name + ": ") + name;
        const std::string of = s.name.empty() ? "" : s.name + ": ";
        if (!f.is_block()) {
            show(of, f, s.format);
            continue;
        }
        out.facts.push_back({of + "block", std::to_string(f.block_size) + " elements of " + types.format(f.elem).name + " share a scale of " +
                                               types.format(f.scale).name +
                                               (f.tensor_scale.v ? ", a tensor one of " + types.format(f.tensor_scale).name : "")});
        show(of + "element, ", types.format(f.elem), f.elem);
        show(of + "scale, ", types.format(f.scale), f.scale);
    }
    return out;
}

}  // namespace tegula::picture
