// Exact values beyond the codes of formats: of integers of any width here, and their order.
#pragma once
#include <optional>

#include "lang/format.h"

namespace tegula {

/// Exact below 2^64; larger numbers keep their highest 64 bits, and whether others follow.
Exact exact_from_wide(__int128 value);
/// The integer that a value is, below 2^127; nullopt where it is none.
std::optional<__int128> whole_value(const Exact& value);
/// -1, 0 or 1 as a is less than, equal to or greater than b. Zeros are equal, infinities are the largest; no NaN.
int compare(const Exact& a, const Exact& b);

}  // namespace tegula
