// Reads what Layout::text() writes: "row", "col", "strides(1, 64)", "[2]((i0 / 8), i1)". IR text uses it.
#pragma once
#include <optional>
#include <string_view>

#include "lang/layout.h"

namespace tegula {

/// The layout of a text, named `layout` when it is a list of expressions; nullopt when the text is none or the layout has a problem.
std::optional<Layout> parse_layout_text(std::string_view text);

}  // namespace tegula
