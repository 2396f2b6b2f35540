// Values of generics and extents, as messages and hovers have them.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "tegula/tegula.hpp"
#include "transport.h"

namespace tegula_tool::lsp {

/// "T = f16, BLOCK = 1024" as values.
std::vector<tegula::NamedValue> values_of(std::string_view instance);
/// {T: "f16", BLOCK: 1024} as values, before those of `instance` whose names it lacks. Throws Failure.
std::vector<tegula::NamedValue> values_of(const json& set, std::string_view instance);

}  // namespace tegula_tool::lsp
