// A reader of format spellings (format_name.h): a name, then bracketed numbers and options. It never recurses and trusts nothing.
#include "lang/format_name.h"

#include <charconv>

namespace tegula {

namespace {

constexpr std::string_view kNanNames[] = {"ieee", "all_ones", "negative_zero", "none"};

/// A cursor over the text; every `take` skips spaces first.
struct Cursor {
    std::string_view& text;

    void skip_spaces() {
        while (!text.empty() && (text[0] == ' ' || text[0] == '\t' || text[0] == '\n' || text[0] == '\r')) text.remove_prefix(1);
    }
    bool take(char c) {
        skip_spaces();
        if (text.empty() || text[0] != c) return false;
        text.remove_prefix(1);
        return true;
    }
    std::string_view take_word() {
        skip_spaces();
        size_t n = 0;
        const auto is_word = [](char c) { return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); };
        while (n < text.size() && is_word(text[n])) ++n;
        const std::string_view word = text.substr(0, n);
        text.remove_prefix(n);
        return word;
    }
    template <class T>
    bool take_number(T& out) {
        skip_spaces();
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
        if (error != std::errc()) return false;
        text.remove_prefix(static_cast<size_t>(end - text.data()));
        return true;
    }
    bool take_bool(bool& out) {
        const std::string_view word = take_word();
        out = word == "true";
        return out || word == "false";
    }
};

/// "<a, b" of a format with two sizes.
bool take_pair(Cursor& c, unsigned& a, unsigned& b, unsigned limit) {
    return c.take('<') && c.take_number(a) && c.take(',') && c.take_number(b) && a <= limit && b <= limit;
}

bool take_float_options(Cursor& c, Format& f) {
    while (c.take(',')) {
        const std::string_view option = c.take_word();
        if (!c.take('=')) return false;
        bool ok = false;
        if (option == "bias") {
            ok = c.take_number(f.bias);
        } else if (option == "inf") {
            ok = c.take_bool(f.has_inf);
        } else if (option == "subnormal") {
            ok = c.take_bool(f.subnormal);
        } else if (option == "signed") {
            ok = c.take_bool(f.is_signed);
        } else if (option == "nan") {
            const std::string_view name = c.take_word();
            for (size_t i = 0; i < std::size(kNanNames); ++i)
                if (name == kNanNames[i]) f.nan = static_cast<NanCode>(i), ok = true;
        }
        if (!ok) return false;
    }
    return true;
}

bool take_float(Cursor& c, Format& f) {
    unsigned exp_bits = 0, man_bits = 0;
    if (!take_pair(c, exp_bits, man_bits, 52) || exp_bits > 11) return false;
    f = float_format(exp_bits, man_bits);
    if (!take_float_options(c, f)) return false;
    f.bits = static_cast<uint8_t>(f.is_signed + exp_bits + man_bits);
    f.negative_zero = f.is_signed && f.nan != NanCode::negative_zero;
    return c.take('>');
}

bool take_codebook(Cursor& c, Format& f) {
    unsigned bits = 0;
    if (!c.take('<') || !c.take_number(bits) || bits < 1 || bits > 16 || !c.take('>') || !c.take('[')) return false;
    f.kind = FormatKind::codebook;
    f.bits = static_cast<uint8_t>(bits);
    do {
        double value = 0;
        if (f.table.size() >= (size_t{1} << bits) || !c.take_number(value)) return false;
        f.table.push_back(value);
    } while (c.take(','));
    return c.take(']');
}

bool take_pair_format(Cursor& c, Format& f, FormatKind kind, bool is_signed) {
    unsigned int_bits = 0, frac_bits = 0;
    if (!take_pair(c, int_bits, frac_bits, 64)) return false;
    f.kind = kind;
    f.is_signed = is_signed;
    f.int_bits = static_cast<uint8_t>(int_bits);
    f.frac_bits = static_cast<uint8_t>(frac_bits);
    f.bits = static_cast<uint8_t>(int_bits + frac_bits + (kind == FormatKind::lns));
    return c.take('>');
}

}  // namespace

std::string format_text(const Format& format) {
    if (format.kind != FormatKind::codebook) return canonical_name(format);
    std::string out = "codebook<" + std::to_string(format.bits) + ">[";
    for (size_t i = 0; i < format.table.size(); ++i) {
        char digits[40];
        const auto end = std::to_chars(digits, digits + sizeof digits, format.table[i]).ptr;
        if (i) out += ", ";
        out.append(digits, end);
    }
    return out + "]";
}

std::optional<FormatId> parse_format_name(std::string_view& text, TypeTable& types) {
    Cursor c{text};
    const std::string_view word = c.take_word();
    if (const auto found = types.builtin(word)) return found;
    Format f;
    bool ok = false;
    if (word == "float")
        ok = take_float(c, f);
    else if (word == "fixed" || word == "ufixed")
        ok = take_pair_format(c, f, FormatKind::fixed, word == "fixed");
    else if (word == "lns")
        ok = take_pair_format(c, f, FormatKind::lns, true);
    else if (word == "codebook")
        ok = take_codebook(c, f);
    if (!ok || !format_problem(f).empty()) return std::nullopt;
    return types.intern(f);
}

}  // namespace tegula
