// Tiles as text, NumPy-like: aligned columns, long axes elided, each number the shortest decimal that encodes back to its code.
#include <charconv>
#include <cmath>

#include "jit/engine/tensor.h"

namespace tegula {

namespace {

std::string code_text(const Format& format, uint64_t code, const PrintSpec& spec) {
    if (spec.form != PrintSpec::shortest) return number_text(format, code, spec);
    if (format.is_bool()) return code ? "true" : "false";
    if (format.is_int()) return format.is_signed ? std::to_string(static_cast<int64_t>(code)) : std::to_string(code);
    double value = decode(format, code);
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
    char text[48];
    char* end = text;
    const int exponent = value == 0 ? 0 : static_cast<int>(std::floor(std::log10(std::fabs(value))));
    for (int digits = 1; digits <= 17; ++digits) {
        // Plain decimals in the range people read as such, exponents outside of it.
        const bool plain = exponent >= -5 && exponent < 16;
        end = plain ? std::to_chars(text, text + sizeof text, value, std::chars_format::fixed, std::max(0, digits - 1 - exponent)).ptr
                    : std::to_chars(text, text + sizeof text, value, std::chars_format::scientific, digits - 1).ptr;
        double back = 0;
        std::from_chars(text, end, back);
        if (back == value || (format.kind != FormatKind::lns && format.kind != FormatKind::codebook && encode(format, back) == code)) break;
    }
    return {text, end};
}

/// Characters in front of the point of a number, or of its exponent where it has none; all of other texts.
size_t before_point(std::string_view text) { return std::min(text.find_first_of(".e"), text.size()); }

struct Printer {
    const Format& format;
    const TileData& tile;
    int64_t edge;  ///< elements at the ends of long axes; 0: all of them
    PrintSpec spec;
    std::string out;
    size_t before = 0, behind = 0;  ///< the widest in front of the point and from it on

    std::string element(int64_t at) const {
        uint64_t code = load_bits(format, tile.bytes.data() + static_cast<size_t>(at) * format.container_bytes(), 0);
        return code_text(format, code, spec);
    }
    bool shown(int64_t i, int64_t n) const { return edge == 0 || n <= 2 * edge + 1 || i < edge || i >= n - edge; }

    template <class Fn>
    void visit(int axis, int64_t base, Fn&& leaf) {
        int64_t n = tile.shape[axis];
        for (int64_t i = 0; i < n; ++i) {
            if (!shown(i, n)) continue;
            if (axis + 1 == tile.shape.rank)
                leaf(base * n + i);
            else
                visit(axis + 1, base * n + i, leaf);
        }
    }
    /// Elements of the last axis in as many lines as it takes, points below one another.
    void print_row(int64_t base, size_t indent) {
        constexpr size_t kLine = 100;
        const int64_t n = tile.shape[tile.shape.rank - 1];
        size_t column = indent + 1;
        for (int64_t i = 0; i < n; ++i) {
            if (!shown(i, n)) {
                if (i == edge) out += "  ..", column += 4;
                continue;
            }
            const bool wraps = i && column + 2 + before + behind > kLine;
            if (wraps) out += "\n" + std::string(indent + 1, ' '), column = indent + 1;
            if (i && !wraps) out += "  ", column += 2;
            const std::string text = element(base * n + i);
            const size_t front = before_point(text);
            out += std::string(before - front, ' ') + text + std::string(behind - (text.size() - front), ' ');
            column += before + behind;
        }
    }
    void print(int axis, int64_t base, size_t indent) {
        out += '[';
        int64_t n = tile.shape[axis];
        if (axis + 1 == tile.shape.rank) {
            print_row(base, indent);
        } else {
            for (int64_t i = 0; i < n; ++i) {
                if (!shown(i, n) && i != edge) continue;
                if (i) out += "\n" + std::string(indent + 1, ' ');
                if (shown(i, n))
                    print(axis + 1, base * n + i, indent + 1);
                else
                    out += "..";
            }
        }
        out += ']';
    }
};

}  // namespace

std::string tile_text(const TypeTable& types, const TileData& tile, int edge, const PrintSpec& spec) {
    constexpr int64_t kWhole = 1000;  // elements of a tile that is shown whole
    Printer p{types.format(tile.elem), tile, tile.shape.elements() <= kWhole ? 0 : edge, spec, {}, 0, 0};
    if (tile.shape.rank == 0) return p.element(0);
    if (tile.shape.elements() == 0) return "[]";
    p.visit(0, 0, [&](int64_t at) {
        const std::string text = p.element(at);
        const size_t front = before_point(text);
        p.before = std::max(p.before, front);
        p.behind = std::max(p.behind, text.size() - front);
    });
    p.print(0, 0, 0);
    return p.out;
}

}  // namespace tegula
