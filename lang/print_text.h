// What `print` and diagnostics of tiles show, the same on every machine: numbers, tiles in brackets, the holes of a text, and places in tiles.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "lang/format.h"
#include "lang/type.h"

namespace tegula {

constexpr int64_t kPrintElements = 1000;                 ///< a longer tile is cut
constexpr uint64_t kKeptPrintBytes = uint64_t{1} << 30;  ///< kept for later at most, when programs run out of order

/// How a number is written.
struct PrintSpec {
    enum Form : uint8_t { shortest, fixed, hex, binary } form = shortest;
    int digits = 0;  ///< fixed: behind the point
};
/// A place for a value in a text: `{}`, `{:.3}` for three digits behind the point, `{:x}` and `{:b}` for the bits of the code.
struct Hole {
    size_t length;
    PrintSpec spec;
};
/// The hole that begins at `at`, if one does. `{{` is none: it stands for a brace.
std::optional<Hole> hole_at(std::string_view text, size_t at);
size_t count_holes(std::string_view text);

/// `code` as load_bits and extend_code give it. Floats: the shortest text that reads back as the same number, where the spec does not say otherwise.
std::string number_text(const Format& format, uint64_t code, const PrintSpec& spec = {});
/// Nested brackets around min(elements, kPrintElements) elements, row-major; a scalar is its element alone.
std::string tile_text(const Shape& shape, const std::function<std::string(int64_t element)>& element);
/// `text` with each hole replaced by the next of `count` values and `{{` by `{`; values without a hole follow behind spaces.
std::string filled_text(std::string_view text, size_t count, const std::function<std::string(size_t value, const PrintSpec& spec)>& value);
/// Coordinates of a row-major element number: "(2, 0, 5)".
std::string point_text(int64_t element, const Shape& shape);

}  // namespace tegula
