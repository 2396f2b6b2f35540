// Literals of the scanner: numbers and strings. A malformed literal is reported and still gives a token, so that it causes no second error.
#include <algorithm>
#include <charconv>

#include "lang/foreign.h"
#include "parser/grammar.h"
#include "parser/scanner.h"

namespace tegula::syntax {

using T = Grammar::token;

namespace {

std::string without_separators(std::string_view text) {
    std::string out;
    for (char c : text) {
        if (c != '_') out += c;
    }
    return out;
}

int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

void append_utf8(std::string& out, uint32_t code) {
    if (code < 0x80) {
        out += char(code);
    } else if (code < 0x800) {
        out += {char(0xC0 | code >> 6), char(0x80 | (code & 0x3F))};
    } else if (code < 0x10000) {
        out += {char(0xE0 | code >> 12), char(0x80 | (code >> 6 & 0x3F)), char(0x80 | (code & 0x3F))};
    } else {
        out += {char(0xF0 | code >> 18), char(0x80 | (code >> 12 & 0x3F)), char(0x80 | (code >> 6 & 0x3F)), char(0x80 | (code & 0x3F))};
    }
}

}  // namespace

Token Scanner::integer(const unsigned char* start, int base) {
    // After a member dot only the digits count: t.0.1 is two members, not the float 0.1 (the float rule sends such text here).
    Token token = make(T::INT, start);
    std::string digits = without_separators(token.text.substr(base == 10 ? 0 : 2));
    auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), token.integer, base);
    if (failure == std::errc::result_out_of_range) error(Diag::integer_too_large, token.span, {std::string(token.text.substr(0, 40))});
    return token;
}

Token Scanner::decimal_float(const unsigned char* start) {
    if (previous_ == T::DOT) {
        cursor_ = start;
        while (*cursor_ >= '0' && *cursor_ <= '9') ++cursor_;
        return integer(start, 10);
    }
    Token token = make(T::FLOAT, start);
    std::string text = without_separators(token.text);
    auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), token.number.value);
    if (failure != std::errc()) error(Diag::float_out_of_range, token.span, {text.substr(0, 40)});
    token.number.text = text == token.text ? token.text : arena_.copy(std::string_view(text));
    return token;
}

Token Scanner::hex_float(const unsigned char* start) {
    Token token = make(T::FLOAT, start);
    std::string text = without_separators(token.text);
    auto [end, failure] = std::from_chars(text.data() + 2, text.data() + text.size(), token.number.value, std::chars_format::hex);
    if (failure != std::errc()) error(Diag::float_out_of_range, token.span, {text.substr(0, 40)});
    token.number.text = text == token.text ? token.text : arena_.copy(std::string_view(text));
    return token;
}

Token Scanner::bad_number(const unsigned char* start) {
    Token token = make(T::INT, start);
    Diagnostic& d = error(Diag::bad_number, token.span, {printable(token.text.substr(0, 40))});
    // A number with a type behind it, as other languages have it.
    constexpr std::string_view kSuffixes[] = {"f",   "F",   "h",    "l",  "L",   "u",   "U",   "ul", "UL",  "ll",  "LL",  "ull",   "ULL",  "f16",
                                              "f32", "f64", "bf16", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "usize", "isize"};
    for (const std::string_view suffix : kSuffixes) {
        const std::string_view number = token.text.substr(0, token.text.size() - std::min(suffix.size(), token.text.size()));
        const bool plain = !number.empty() && number.back() != '.' &&
                           std::ranges::all_of(number, [](char c) { return (c >= '0' && c <= '9') || c == '.' || c == '_'; });
        if (!plain || !token.text.ends_with(suffix)) continue;
        d.propose({{token.span, std::string(number)}}, std::string(foreign_form("suffix").note));
        break;
    }
    return token;
}

/// Decodes the escape after a backslash; `cursor_` is behind the backslash and moves past the escape. False when it is none.
bool Scanner::escape(std::string& out) {
    unsigned char c = cursor_ < limit_ ? *cursor_++ : 0;
    switch (c) {
        case 'n':
            out += '\n';
            return true;
        case 't':
            out += '\t';
            return true;
        case '\\':
        case '"':
            out += char(c);
            return true;
        case 'x': {
            int high = cursor_ < limit_ ? hex_digit(char(cursor_[0])) : -1;
            int low = cursor_ + 1 < limit_ ? hex_digit(char(cursor_[1])) : -1;
            if (high < 0 || high > 7 || low < 0) return false;
            cursor_ += 2;
            out += char(high * 16 + low);
            return true;
        }
        case 'u': {
            const unsigned char* at = cursor_;
            if (at >= limit_ || *at++ != '{') return false;
            uint32_t code = 0;
            int digits = 0;
            for (; at < limit_ && hex_digit(char(*at)) >= 0 && digits < 7; ++at, ++digits) code = code * 16 + uint32_t(hex_digit(char(*at)));
            bool scalar = code <= 0x10FFFF && !(code >= 0xD800 && code < 0xE000);
            if (at >= limit_ || *at != '}' || digits == 0 || digits > 6 || !scalar) return false;
            cursor_ = at + 1;
            append_utf8(out, code);
            return true;
        }
        default:
            return false;
    }
}

Token Scanner::string(const unsigned char* start) {
    std::string value;
    bool plain = true;
    for (;;) {
        if (cursor_ >= limit_ || *cursor_ == '\n') {
            error(Diag::unterminated_string, span_from(start));
            break;
        }
        unsigned char c = *cursor_++;
        if (c == '"') break;
        if (c != '\\') {
            value += char(c);
            continue;
        }
        plain = false;
        const unsigned char* backslash = cursor_ - 1;
        if (escape(value)) continue;
        // The span covers whole characters only.
        while (cursor_ < limit_ && (*cursor_ & 0xC0) == 0x80) ++cursor_;
        if (cursor_[-1] == '\n' || cursor_[-1] == '"') --cursor_;
        Token bad = make(T::STRING, backslash);
        if (cursor_ > backslash + 1) error(Diag::bad_escape, bad.span, {printable(bad.text)});
    }
    Token token = make(T::STRING, start);
    token.text = plain && token.text.size() >= value.size() + 2 ? token.text.substr(1, value.size()) : arena_.copy(std::string_view(value));
    return token;
}

}  // namespace tegula::syntax
