// What a literal says beyond the double that is nearest to it, so that a narrower format can be rounded to from the literal itself.
#pragma once
#include <string_view>

namespace tegula {

/// The sign of the number that `text` spells (decimal, or hexadecimal after 0x; without sign and separators) minus `value`, the double nearest to it.
int literal_rest(std::string_view text, double value);

}  // namespace tegula
