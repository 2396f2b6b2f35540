// Spellings shared by the IR printer and parser (ir_literal.h). Writer and reader of one thing stand next to each other here.
#include "lang/ir_literal.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace tegula::ir {

namespace {

#define ATTR(id, ...) constexpr std::string_view k_##id[] = {__VA_ARGS__};
#include "lang/attrs.def"
#undef ATTR
constexpr std::span<const std::string_view> kAttrs[] = {  // a name, and those of its values
#define ATTR(id, ...) k_##id,
#include "lang/attrs.def"
#undef ATTR
};

}  // namespace

std::string_view attr_name(Attr attr) { return kAttrs[static_cast<size_t>(attr)][0]; }

std::span<const std::string_view> attr_value_names(Attr attr) { return kAttrs[static_cast<size_t>(attr)].subspan(1); }

bool is_indexed(Op op) { return op == Op::load || op == Op::store || op == Op::atomic || op == Op::extract || op == Op::deposit; }

namespace {

std::string hex_text(uint64_t code) {
    char digits[20];
    return "0x" + std::string(digits, std::to_chars(digits, digits + sizeof digits, code, 16).ptr);
}

template <class T>
std::optional<T> parse_whole(std::string_view text, int base) {
    T v{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v, base);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return v;
}

std::optional<uint64_t> parse_int_code(const Format& format, std::string_view text) {
    std::optional<uint64_t> code;
    if (format.is_signed) {
        if (const auto v = parse_whole<int64_t>(text, 10)) code = static_cast<uint64_t>(*v);
    } else {
        code = parse_whole<uint64_t>(text, 10);
    }
    if (code && extend_code(format, *code) != *code) return std::nullopt;
    return code;
}

}  // namespace

std::string code_text(const Format& format, bool pointer, uint64_t code) {
    if (pointer) return hex_text(code);
    if (format.is_bool() && code <= 1) return code ? "true" : "false";
    if (format.is_int()) return format.is_signed ? std::to_string(static_cast<int64_t>(code)) : std::to_string(code);
    const double value = format.is_bool() ? std::nan("") : decode(format, code);
    if (std::isnan(value) || encode(format, value) != code) return hex_text(code);
    char digits[40];
    return std::string(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}

std::optional<uint64_t> parse_code(const Format& format, bool pointer, std::string_view text) {
    if (text.starts_with("0x")) return parse_whole<uint64_t>(text.substr(2), 16);
    if (pointer) return std::nullopt;
    if (format.is_bool()) return text == "true" ? std::optional<uint64_t>(1) : text == "false" ? std::optional<uint64_t>(0) : std::nullopt;
    if (format.is_int()) return parse_int_code(format, text);
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || std::isnan(value)) return std::nullopt;
    return encode(format, value);
}

bool is_identifier(std::string_view s) {
    const auto head = [](char c) { return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
    return !s.empty() && head(s[0]) && std::all_of(s.begin(), s.end(), [&](char c) { return head(c) || (c >= '0' && c <= '9'); });
}

std::string quote_text(std::string_view text) {
    static constexpr char kHex[] = "0123456789abcdef";
    std::string out = "\"";
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '\n')
            out += "\\n";
        else if (c == '\t')
            out += "\\t";
        else if (c == '"' || c == '\\')
            out += {'\\', c};
        else if (byte < 0x20 || byte >= 0x7f)
            out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
        else
            out += c;
    }
    return out + '"';
}

std::optional<std::string> unquote_text(std::string_view text) {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '\\') {
            out += text[i];
            continue;
        }
        if (++i == text.size()) return std::nullopt;
        switch (text[i]) {
            case 'n':
                out += '\n';
                break;
            case 't':
                out += '\t';
                break;
            case '"':
            case '\\':
                out += text[i];
                break;
            case 'x': {
                const auto byte = i + 2 < text.size() ? parse_whole<uint8_t>(text.substr(i + 1, 2), 16) : std::nullopt;
                if (!byte) return std::nullopt;
                out += static_cast<char>(*byte);
                i += 2;
                break;
            }
            default:
                return std::nullopt;
        }
    }
    return out;
}

}  // namespace tegula::ir
