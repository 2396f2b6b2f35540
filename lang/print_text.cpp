// Texts of values (print_text.h).
#include "lang/print_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace tegula {

std::string number_text(const Format& f, uint64_t code) {
    if (f.is_bool()) return code ? "true" : "false";
    if (f.is_int()) return f.is_signed ? std::to_string(static_cast<int64_t>(code)) : std::to_string(code);
    const double v = decode(f, code);
    if (std::isnan(v)) return "nan";
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

std::string filled_text(std::string_view text, std::span<const std::string> values) {
    std::string out;
    size_t next = 0;
    for (size_t i = 0; i < text.size(); ++i) {
        if (text.substr(i, 2) == "{}" && next < values.size()) {
            out += values[next++];
            ++i;
        } else {
            out += text[i];
            i += text.substr(i, 2) == "{{";
        }
    }
    for (; next < values.size(); ++next) out += ' ' + values[next];
    return out;
}

std::string point_text(int64_t element, const Shape& shape) {
    std::string out;
    for (size_t d = shape.rank; d-- > 0; element /= shape[d]) out = std::to_string(element % shape[d]) + (out.empty() ? "" : ", " + out);
    return "(" + out + ")";
}

}  // namespace tegula
