// Spellings of number formats that read back: `format_text` writes one, `parse_format_name` reads it. IR text and file metadata use them.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "lang/type.h"

namespace tegula {

/// The canonical name, with codebook tables written out in full.
std::string format_text(const Format& format);
/// Reads a format from the front of `text` and advances it: "f16", "u3", "float<3, 2, nan = none>", "fixed<4, 4>", "lns<4, 3>",
/// "codebook<2>[0, 1, 2, 3]". nullopt, with `text` anywhere, when there is none or it is not legal. Block formats are no elements.
std::optional<FormatId> parse_format_name(std::string_view& text, TypeTable& types);

}  // namespace tegula
