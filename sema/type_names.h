// Names of types that no item declares, for suggestions.
#pragma once
#include <string_view>
#include <vector>

namespace tegula::sema {

/// Formats, type constructors and traits.
std::vector<std::string_view> type_names();

}  // namespace tegula::sema
