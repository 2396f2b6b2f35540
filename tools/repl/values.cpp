// See values.h.
#include "values.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "tools/terminal.h"
#include "tools/tool.h"

namespace tegula_tool::repl {

namespace {

constexpr const char* kNone = "\033[0m";
constexpr size_t kMostText = 2000;  ///< bytes of a text value in one line of a table

/// Binary digits of a code; of floats sign, exponent and mantissa apart.
std::string bits_text(uint64_t code, const Json& format) {
    const auto bits = format.value("bits", uint64_t{0});
    std::string out;
    const uint64_t mantissa = format.value("mantissa_bits", uint64_t{0}), exponent = format.value("exponent_bits", uint64_t{0});
    for (uint64_t i = bits; i-- > 0;) {
        out += code >> i & 1 ? '1' : '0';
        if (format.value("kind", "") == "floating" && i > 0 && ((i == mantissa && exponent) || (i == mantissa + exponent && bits > i))) out += '_';
    }
    return out;
}

std::string code_text(uint64_t code, const Json& format, Form form) {
    if (form == Form::bits) return bits_text(code, format);
    if (form == Form::code) return std::to_string(code);
    const size_t digits = (format.value("bits", size_t{8}) + 3) / 4;
    char text[20];
    const auto end = std::to_chars(text, text + sizeof text, code, 16).ptr;
    std::string out(text, end);
    return "0x" + std::string(digits > out.size() ? digits - out.size() : 0, '0') + out;
}

bool is_number(const Json& v) { return v.is_number() && !v.is_boolean(); }

std::string extents_text(const Json& extents) {
    std::string out;
    for (const Json& extent : extents) out += (out.empty() ? "" : ", ") + extent.dump();
    return "[" + out + "]";
}

/// The escape sequence for what is special about an element, or empty.
const char* colour_of(const Json& element, const Json& format) {
    constexpr const char *kNan = "\033[1;31m", *kInfinite = "\033[1;35m", *kSubnormal = "\033[36m", *kSaturated = "\033[33m";
    constexpr uint64_t kSmallest = 4;  // bits of integers whose ends are rare
    if (element.is_string()) return element == "nan" || element == "-nan" ? kNan : kInfinite;
    if (!is_number(element) || !format.is_object()) return "";
    const std::string kind = format.value("kind", "");
    const bool ends = kind == "floating" || kind == "fixed" || kind == "lns" || (kind == "integer" && format.value("bits", uint64_t{0}) >= kSmallest);
    if (ends && (element == format["largest"] || (element == format["lowest"] && element != 0))) return kSaturated;
    if (kind != "floating" || element == 0 || !is_number(format["smallest_normal"])) return "";
    return std::fabs(element.get<double>()) < format["smallest_normal"].get<double>() ? kSubnormal : "";
}

size_t before_point(const std::string& text) { return std::min(text.find_first_of(".e"), text.size()); }

/// A tensor as rows of cells. Where a dimension is cut, the cells are those at its ends.
class Grid {
public:
    Grid(const Json& tensor, const Style& style) : style_(style) {
        format_ = tensor.value("format", Json());
        if (format_.is_object() && format_.contains("element")) format_ = Json(format_["element"]);
        all_ = tensor["extents"].get<std::vector<int64_t>>();
        const bool cut = tensor.contains("edge");
        int64_t count = 1;
        for (const int64_t extent : all_) count *= extent;
        edge_ = cut ? tensor["edge"].get<int64_t>() : count > style.threshold ? style.edge : 0;
        kept_ = all_;
        if (edge_)
            for (int64_t& extent : kept_) extent = std::min(extent, 2 * edge_);
        const std::vector<int64_t> stored = cut ? kept_ : all_;
        const Json& values = tensor.contains("edges") ? tensor["edges"] : tensor.contains("elements") ? tensor["elements"] : empty_;
        const Json& codes = tensor.contains("codes") ? tensor["codes"] : empty_;
        int64_t cells = 1;
        for (const int64_t extent : kept_) cells *= extent;
        for (int64_t i = 0; i < cells; ++i) add(values, codes, place(i, stored));
    }
    std::string text() {
        if (all_.empty()) return cells_.empty() ? "" : coloured(0);
        if (cells_.empty()) return "[]";
        for (const std::string& cell : cells_) {
            before_ = std::max(before_, front(cell));
            behind_ = std::max(behind_, cell.size() - front(cell));
        }
        print(0, 0);
        return out_;
    }

private:
    /// Where cell `i` lies in a list of elements of these extents.
    size_t place(int64_t i, const std::vector<int64_t>& stored) const {
        int64_t at = 0, stride = 1;
        for (size_t d = kept_.size(); d-- > 0; stride *= stored[d]) {
            const int64_t index = i % kept_[d];
            i /= kept_[d];
            at += stride * (kept_[d] == stored[d] || index < edge_ ? index : stored[d] - kept_[d] + index);
        }
        return static_cast<size_t>(at);
    }
    void add(const Json& values, const Json& codes, size_t at) {
        const bool coded = style_.form != Form::value && at < codes.size();
        if (at >= values.size() && !coded) return;
        cells_.push_back(coded ? code_text(codes[at].get<uint64_t>(), format_, style_.form) : element_text(values[at], style_.digits));
        marks_.push_back(style_.colour && at < values.size() ? colour_of(values[at], format_) : "");
    }
    size_t front(const std::string& cell) const { return style_.form == Form::value ? before_point(cell) : cell.size(); }
    std::string coloured(size_t i) const { return *marks_[i] ? marks_[i] + cells_[i] + kNone : cells_[i]; }
    std::string cell(size_t i) const {
        const size_t in_front = before_ - front(cells_[i]), behind = behind_ - (cells_[i].size() - front(cells_[i]));
        return std::string(in_front, ' ') + coloured(i) + std::string(behind, ' ');
    }
    void row(size_t depth, size_t first) {
        const size_t width = before_ + behind_, count = static_cast<size_t>(kept_[depth]), margin = depth + 1;
        size_t column = margin;
        const auto put = [&](const std::string& text, size_t size, bool more) {
            if (column > margin) {
                if (column + 2 + size + (more ? 0 : all_.size()) > style_.width)
                    out_ += "\n" + std::string(margin, ' '), column = margin;
                else
                    out_ += "  ", column += 2;
            }
            out_ += text, column += size;
        };
        for (size_t i = 0; i < count; ++i) {
            if (kept_[depth] < all_[depth] && i == static_cast<size_t>(edge_)) put("..", 2, true);
            put(cell(first + i), width, i + 1 < count);
        }
    }
    void print(size_t depth, size_t first) {
        out_ += '[';
        size_t stride = 1;
        for (size_t d = depth + 1; d < kept_.size(); ++d) stride *= static_cast<size_t>(kept_[d]);
        if (depth + 1 == kept_.size()) {
            row(depth, first);
        } else {
            const std::string gap = std::string(std::max<size_t>(kept_.size() - depth - 1, 1), '\n') + std::string(depth + 1, ' ');
            for (int64_t i = 0; i < kept_[depth]; ++i) {
                if (i) out_ += gap;
                if (kept_[depth] < all_[depth] && i == edge_) out_ += ".." + gap;
                print(depth + 1, first + static_cast<size_t>(i) * stride);
            }
        }
        out_ += ']';
    }
    const Style& style_;
    Json format_, empty_ = Json::array();
    std::vector<int64_t> all_, kept_;
    int64_t edge_ = 0;
    std::vector<std::string> cells_;
    std::vector<const char*> marks_;
    size_t before_ = 0, behind_ = 0;
    std::string out_;
};

std::string tensor_text(const Json& value, const Style& style) {
    if (!value.value("written", true)) return "(not all of it is written)";
    if (!value.contains("elements") && !value.contains("edges")) return value.value("text", "");
    std::string out = Grid(value, style).text();
    if (value.contains("scales")) {
        Json scales = value["scales"];
        Style plain = style;
        plain.form = Form::value;
        out += "\nscales " + scales["type"].get<std::string>() + extents_text(scales["extents"]) + "\n" + Grid(scales, plain).text();
    }
    if (value.contains("tensor_scale")) out += "\ntensor scale " + element_text(value["tensor_scale"], style.digits);
    return out;
}

/// Without the elements of large tensors: a tuple is one line as long as its members are.
std::string tuple_text(const Json& value, const Style& style) {
    if (!value.contains("items")) return value.value("text", "");
    const Json& items = value["items"];
    const bool named = value.contains("names");
    std::vector<std::string> parts;
    bool lines = false;
    for (size_t i = 0; i < items.size(); ++i) {
        const std::string name = named ? value["names"][i].get<std::string>() + " = " : std::string();
        std::string text = value_text(items[i], style);
        if (items[i]["kind"] == "tensor" && !items[i]["extents"].empty()) {
            const size_t line = text.find('\n');
            lines |= line != text.npos;
            text = items[i]["type"].get<std::string>() + (line == text.npos ? " " : "\n") + text;
        }
        parts.push_back(name + text);
    }
    const std::string head = named ? value["type"].get<std::string>() : std::string();
    std::string out = head + "(";
    size_t size = out.size();
    for (const std::string& part : parts) size += part.size() + 2;
    lines |= size > style.width && parts.size() > 1;
    if (!lines) {
        for (size_t i = 0; i < parts.size(); ++i) out += (i ? ", " : "") + parts[i];
        return out + (parts.size() == 1 && !named ? ",)" : ")");
    }
    for (const std::string& part : parts) {
        out += "\n    ";
        for (const char c : part) out += c == '\n' ? std::string("\n    ") : std::string(1, c);
        out += ",";
    }
    return out + "\n)";
}

}  // namespace

std::string element_text(const Json& element, uint64_t digits) {
    if (element.is_string()) return element.get<std::string>();
    if (!element.is_number_float()) return element.dump();
    char text[40];
    const double v = element.get<double>();
    if (digits) return decimal(v, static_cast<int>(std::min<uint64_t>(digits, 30)));
    return {text, std::to_chars(text, text + sizeof text, v).ptr};
}

std::string format_text(const Json& f) {
    const std::string kind = f["kind"];
    const auto number = [&](const char* key) { return element_text(f[key]); };
    std::string out = f["name"].get<std::string>() + ": ";
    if (kind == "block")
        return out + "blocks of " + std::to_string(f["block"].get<int64_t>()) + "\n  elements " + format_text(f["element"]) + "\n  scales   " +
               format_text(f["scale"]) + (f.contains("tensor_scale") ? "\n  tensor   " + format_text(f["tensor_scale"]) : "");
    out += std::to_string(f["bits"].get<int64_t>()) + (f["bits"] == 1 ? " bit" : " bits");
    if (kind == "boolean") return out;
    if (kind == "floating")
        out += ", " + std::string(f["signed"].get<bool>() ? "sign, " : "") + std::to_string(f["exponent_bits"].get<int64_t>()) + " of exponent, " +
               std::to_string(f["mantissa_bits"].get<int64_t>()) + " of mantissa, bias " + std::to_string(f["bias"].get<int64_t>());
    if (f.contains("integer_bits"))
        out += ", " + std::to_string(f["integer_bits"].get<int64_t>()) + " before and " + std::to_string(f["fraction_bits"].get<int64_t>()) +
               " behind the point";
    out += "; " + number("lowest") + " to " + number("largest");
    if (kind == "floating") {
        out += ", smallest normal " + number("smallest_normal");
        out += f["subnormals"].get<bool>() ? "; subnormal numbers" : "; no subnormal numbers";
        out += f["infinities"].get<bool>() ? ", Inf" : ", no Inf";
        out += f["nan"].get<bool>() ? ", NaN" : ", no NaN";
    }
    if (f.contains("values")) {
        out += "\n  values ";
        for (size_t i = 0; i < f["values"].size(); ++i) out += (i ? ", " : "") + element_text(f["values"][i]);
    }
    return out;
}

std::string value_text(const Json& value, const Style& style) {
    const std::string kind = value["kind"];
    if (kind == "tensor") return tensor_text(value, style);
    if (kind == "tuple") return tuple_text(value, style);
    if (kind == "type" && value.contains("format")) return format_text(value["format"]);
    if (kind == "text") return visible(value.value("text", Json(value["value"]).dump()));
    return value.contains("value") ? element_text(value["value"], style.digits) : value.value("text", "");
}

std::string full_type(const Json& tensor) {
    return tensor["type"].get<std::string>() + (tensor["layout"] == "row" && !tensor["extents"].empty() ? " @ row" : "");
}

std::string value_block(const Json& value, const Style& style, const std::string& suffix) {
    const std::string text = value_text(value, style);
    if (value["kind"] != "tensor") return text;
    const std::string type = full_type(value);
    if (value["extents"].empty()) return text + "  " + (style.colour ? "\033[2m" : "") + type + suffix + (style.colour ? kNone : "");
    return (style.colour ? "\033[2m" : "") + type + suffix + (style.colour ? kNone : "") + "\n" + text;
}

std::string table_text(const std::vector<std::vector<std::string>>& rows) {
    std::vector<size_t> widths;
    for (const auto& row : rows)
        for (size_t i = 0; i < row.size(); ++i) {
            if (widths.size() <= i) widths.push_back(0);
            if (i + 1 < row.size()) widths[i] = std::max(widths[i], row[i].size());
        }
    std::string out;
    for (const auto& row : rows) {
        for (size_t i = 0; i < row.size(); ++i) {
            const std::string cell = visible(row[i].substr(0, kMostText));
            out += (i ? "  " : "") + cell;
            if (i + 1 < row.size() && widths[i] > cell.size()) out += std::string(widths[i] - cell.size(), ' ');
        }
        while (out.ends_with(' ')) out.pop_back();
        out += '\n';
    }
    return out;
}

}  // namespace tegula_tool::repl
