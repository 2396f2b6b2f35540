// Reading and cutting a model (drawing.h), and the table of forms.
#include "tools/viz/drawing.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "tools/viz/viz.h"

namespace tegula_tool::viz {

std::string text_of(const Json& object, const char* name) {
    const auto it = object.find(name);
    return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}

int tone_of(const Json& object) { return std::clamp(object.value("tone", 0), 0, kTones - 1); }

size_t length(std::string_view text) {
    return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string padded(std::string_view text, size_t width, bool right) {
    const size_t n = length(text);
    const std::string fill(n < width ? width - n : 0, ' ');
    return right ? fill + std::string(text) : std::string(text) + fill;
}

bool is_number(std::string_view text) {
    if (text == "-" || text == "nan" || text == "inf" || text == "-inf") return true;
    const bool sign = text.starts_with('-') || text.starts_with('+'), hex = text.starts_with("0x");
    const std::string_view digits = text.substr(hex ? 2 : sign ? 1 : 0);
    return !digits.empty() && (hex || (digits[0] >= '0' && digits[0] <= '9')) &&
           digits.find_first_not_of(hex ? "0123456789abcdef" : "0123456789.,:+-e%") == digits.npos;
}

std::vector<RulerRow> cut_ruler(const Json& figure, int64_t per_row) {
    const int64_t bits = figure.at("bits"), first = figure.value("first_byte", int64_t{0});
    std::vector<RulerRow> rows;
    for (int64_t at = 0; at < bits; at += per_row) rows.push_back({first + at / 8, std::min(per_row, bits - at), {}});
    int64_t done = 0;
    const auto put = [&](int64_t begin, int64_t end, const std::string& text, int tone) {
        for (int64_t at = begin; at < end;) {
            const int64_t row = at / per_row, until = std::min(end, (row + 1) * per_row);
            rows[static_cast<size_t>(row)].pieces.push_back({at - row * per_row, until - at, text, tone, at > begin, until < end});
            at = until;
        }
    };
    for (const Json& field : figure.at("fields")) {
        const int64_t begin = std::clamp<int64_t>(field.at("begin"), done, bits);
        const int64_t end = std::clamp<int64_t>(field.at("begin").get<int64_t>() + field.at("size").get<int64_t>(), begin, bits);
        if (begin > done) put(done, begin, "", kGap);
        put(begin, end, text_of(field, "text"), tone_of(field));
        done = end;
    }
    if (done < bits) put(done, bits, "", kGap);
    return rows;
}

int64_t bits_per_row(const Json& figure, int64_t room) {
    for (const int64_t per_row : {64, 32, 16}) {
        const int64_t each = room / per_row;  // characters of a bit
        if (each == 0) continue;
        bool fits = true;
        for (const RulerRow& row : cut_ruler(figure, per_row))
            for (const Piece& p : row.pieces) fits = fits && (!p.whole() || static_cast<int64_t>(length(p.text)) + 1 <= p.size * each);
        if (fits) return per_row;
    }
    return 8;
}

Scale::Scale(const Json& axis) : begin(axis.value("begin", 0.0)), end(axis.value("end", 1.0)), logarithmic(axis.value("logarithmic", false)) {
    if (logarithmic) begin = std::log10(std::max(begin, 1e-300)), end = std::log10(std::max(end, 1e-300));
    if (!(end > begin)) end = begin + 1;
}

double Scale::place(double v) const {
    if (logarithmic) v = std::log10(std::max(v, 1e-300));
    return std::clamp((v - begin) / (end - begin), 0.0, 1.0);
}

std::vector<double> Scale::ticks() const {
    std::vector<double> out;
    if (logarithmic) {
        const double step = std::max(1.0, std::ceil((end - begin) / 6));
        for (double t = std::ceil(begin - 1e-9); t <= end + 1e-9; t += step) out.push_back(std::pow(10.0, t));
        if (out.size() >= 2) return out;
        out.clear();  // within a decade or two: as on a line, a step for each eighth of the axis at most
        Scale whole(*this);
        whole.begin = std::pow(10.0, begin), whole.end = std::pow(10.0, end), whole.logarithmic = false;
        return whole.ticks();
    }
    double step = std::pow(10.0, std::floor(std::log10((end - begin) / 5)));
    for (const double factor : {2.0, 2.5, 2.0})
        if ((end - begin) / step > 8) step *= factor;
    for (double t = std::ceil(begin / step - 1e-9); t * step <= end + step * 1e-9; ++t) out.push_back(t * step);
    return out;
}

std::string short_number(double v) {
    char text[32];
    if (v == 0) v = 0;  // no sign
    const bool large = std::fabs(v) >= 1000 && std::fabs(v) < 1e7;
    return {text, large ? std::to_chars(text, std::end(text), v, std::chars_format::fixed, 0).ptr
                        : std::to_chars(text, std::end(text), v, std::chars_format::general, 4).ptr};
}

std::string render(const std::string& model, std::string_view format, int width, bool colour) {
    const Json json = Json::parse(model, nullptr, false);
    if (json.is_discarded() || !json.is_object()) return "";
    try {
        if (format == "json") return model;
        if (format == "svg") return paint_svg(json);
        if (format == "html") return text_of(json, "kind") == "source" ? paint_source(json) : paint_html(json);
        return paint_text(json, std::max(width, 40), colour);
    } catch (const Json::exception&) {
        return "";
    }
}

}  // namespace tegula_tool::viz
