// Texts of values (print_text.h).
#include "lang/print_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace tegula {

namespace {

constexpr int kMostDigits = 17;  ///< behind the point: doubles tell no more apart

std::string bits_text(const Format& f, uint64_t code, bool hex) {
    const unsigned width = hex ? 4 : 1;
    std::string text = hex ? "0x" : "0b";
    for (unsigned digit = (f.bits + width - 1) / width; digit-- > 0;) text += "0123456789abcdef"[code >> (digit * width) & ((1u << width) - 1)];
    return text;
}

std::string fixed_text(double v, int digits) {
    constexpr size_t kLongest = 400;  // of the largest double, with its digits behind the point
    char text[kLongest];
    return std::string(text, std::to_chars(text, text + sizeof text, v, std::chars_format::fixed, digits).ptr);
}

}  // namespace

std::optional<Hole> hole_at(std::string_view text, size_t at) {
    text.remove_prefix(std::min(at, text.size()));
    if (text.starts_with("{}")) return Hole{2, {}};
    if (text.starts_with("{:x}")) return Hole{4, {PrintSpec::hex}};
    if (text.starts_with("{:b}")) return Hole{4, {PrintSpec::binary}};
    if (!text.starts_with("{:.")) return std::nullopt;
    int digits = 0;
    const char* begin = text.data() + 3;
    const auto [end, error] = std::from_chars(begin, text.data() + text.size(), digits);
    if (error != std::errc() || digits < 0 || digits > kMostDigits || end == text.data() + text.size() || *end != '}') return std::nullopt;
    return Hole{static_cast<size_t>(end - text.data()) + 1, {PrintSpec::fixed, digits}};
}

size_t count_holes(std::string_view text) {
    size_t holes = 0;
    for (size_t i = 0; i < text.size(); ++i) {
        const auto hole = hole_at(text, i);
        holes += hole.has_value();
        i += hole ? hole->length - 1 : text.substr(i, 2) == "{{";
    }
    return holes;
}

std::string number_text(const Format& f, uint64_t code, const PrintSpec& spec) {
    if (spec.form == PrintSpec::hex || spec.form == PrintSpec::binary) return bits_text(f, code, spec.form == PrintSpec::hex);
    if (f.is_bool()) return code ? "true" : "false";
    if (f.is_int()) return f.is_signed ? std::to_string(static_cast<int64_t>(code)) : std::to_string(code);
    const double v = decode(f, code);
    if (std::isnan(v)) return "nan";
    if (spec.form == PrintSpec::fixed && std::isfinite(v)) return fixed_text(v, spec.digits);
    char text[40];
    const bool narrow = f.bits <= 32 && static_cast<double>(static_cast<float>(v)) == v;
    const auto end = narrow ? std::to_chars(text, text + sizeof text, static_cast<float>(v)) : std::to_chars(text, text + sizeof text, v);
    return std::string(text, end.ptr);
}

std::string tile_text(const Shape& shape, const std::function<std::string(int64_t element)>& element) {
    if (shape.rank == 0) return element(0);
    const int64_t all = shape.elements(), shown = std::min(all, kPrintElements);
    std::string out;
    for (int64_t i = 0; i < shown; ++i) {
        int64_t block = 1;
        std::string open, closed;
        for (size_t d = shape.rank; d-- > 0;) {
            block *= shape[d];
            if (i % block == 0) open += '[';
            if ((i + 1) % block == 0) closed += ']';
        }
        out += (i ? ", " : "") + open + element(i) + closed;
    }
    return shown < all ? out + ", ...]" : out;
}

std::string filled_text(std::string_view text, size_t count, const std::function<std::string(size_t value, const PrintSpec& spec)>& value) {
    std::string out;
    size_t next = 0;
    for (size_t i = 0; i < text.size(); ++i) {
        if (const auto hole = hole_at(text, i); hole && next < count) {
            out += value(next++, hole->spec);
            i += hole->length - 1;
        } else {
            out += text[i];
            i += text.substr(i, 2) == "{{";
        }
    }
    for (; next < count; ++next) out += ' ' + value(next, {});
    return out;
}

std::string point_text(int64_t element, const Shape& shape) {
    std::string out;
    for (size_t d = shape.rank; d-- > 0; element /= shape[d]) out = std::to_string(element % shape[d]) + (out.empty() ? "" : ", " + out);
    return "(" + out + ")";
}

}  // namespace tegula
