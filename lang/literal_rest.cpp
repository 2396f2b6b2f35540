// Both numbers as digits, decimal or binary, of any length: a double has at most 767 decimal ones.
#include "lang/literal_rest.h"

#include <charconv>
#include <cmath>
#include <optional>
#include <string>

namespace tegula {

namespace {

/// 0.digits * base^point, without zeros at the ends; base 10, or 2 for hexadecimal text.
struct Digits {
    std::string digits;
    int64_t point = 0;
    bool known = true;
};

Digits parse(std::string_view text, bool hexadecimal) {
    Digits out;
    const size_t end = std::min(text.find_first_of(hexadecimal ? "pP" : "eE"), text.size());
    bool fraction = false;
    for (char c : text.substr(0, end)) {
        if (c == '.') {
            fraction = true;
            continue;
        }
        const int digit = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
        for (int bit = hexadecimal ? 3 : 0; bit >= 0; --bit) out.digits += hexadecimal ? char('0' + (digit >> bit & 1)) : c;
        if (!fraction) out.point += hexadecimal ? 4 : 1;
    }
    if (end < text.size()) {
        std::string_view exponent = text.substr(end + 1);
        if (exponent.starts_with('+')) exponent.remove_prefix(1);
        int64_t power = 0;
        out.known = std::from_chars(exponent.data(), exponent.data() + exponent.size(), power).ec == std::errc() && power > -100'000'000'000;
        out.point += power;
    }
    const size_t first = std::min(out.digits.find_first_not_of('0'), out.digits.size());
    out.digits.erase(0, first);
    out.point -= static_cast<int64_t>(first);
    out.digits.erase(out.digits.find_last_not_of('0') + 1);
    return out;
}

/// The same of a decimal number of few digits, which are most; nullopt: it is none.
std::optional<int> rest_of_short(std::string_view text, double value) {
    constexpr size_t kDigits = 18;  // 10^18 < 2^60: products with 53 and 63 bits more fit into 128
    constexpr int kBits = 53, kShift = 63;
    __int128 number = 0, scale = 1;
    bool fraction = false;
    if (text.size() > kDigits) return std::nullopt;
    for (const char c : text) {
        if (c != '.' && (c < '0' || c > '9')) return std::nullopt;
        if (c == '.') {
            fraction = true;
            continue;
        }
        number = 10 * number + (c - '0');
        if (fraction) scale *= 10;
    }
    int exponent = 0;
    auto bits = static_cast<__int128>(std::ldexp(std::frexp(value, &exponent), kBits));
    int shift = kBits - exponent;
    for (; shift > kShift && bits % 2 == 0; --shift) bits /= 2;
    if (shift < 0 || shift > kShift) return std::nullopt;
    const __int128 exact = number << shift, nearest = bits * scale;
    return exact < nearest ? -1 : exact > nearest;
}

}  // namespace

int literal_rest(std::string_view text, double value) {
    if (value == 0 || !std::isfinite(value)) return 0;
    if (const auto rest = rest_of_short(text, value)) return *rest;
    const bool hexadecimal = text.starts_with("0x") || text.starts_with("0X");
    char buffer[800];
    const auto end = hexadecimal ? std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::hex)
                                 : std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific, 766);
    const Digits exact = parse(text.substr(hexadecimal ? 2 : 0), hexadecimal), nearest = parse({buffer, end.ptr}, hexadecimal);
    if (!exact.known) return 0;
    if (exact.point != nearest.point) return exact.point < nearest.point ? -1 : 1;
    return exact.digits == nearest.digits ? 0 : exact.digits < nearest.digits ? -1 : 1;
}

}  // namespace tegula
