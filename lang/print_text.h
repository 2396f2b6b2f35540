// What `print` and diagnostics of tiles show, the same on every machine: numbers, tiles in brackets, the holes of a text, and places in tiles.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "lang/format.h"
#include "lang/type.h"

namespace tegula {

constexpr int64_t kPrintElements = 1000;                 ///< a longer tile is cut
constexpr uint64_t kKeptPrintBytes = uint64_t{1} << 30;  ///< kept for later at most, when programs run out of order

/// `code` as load_bits and extend_code give it. Floats: the shortest text that reads back as the same number.
std::string number_text(const Format& format, uint64_t code);
/// Nested brackets around min(elements, kPrintElements) elements, row-major; a scalar is its element alone.
std::string tile_text(const Shape& shape, const std::function<std::string(int64_t element)>& element);
/// `text` with each `{}` replaced by the next value and `{{` by `{`; values without a hole follow behind spaces.
std::string filled_text(std::string_view text, std::span<const std::string> values);
/// Coordinates of a row-major element number: "(2, 0, 5)".
std::string point_text(int64_t element, const Shape& shape);

}  // namespace tegula
