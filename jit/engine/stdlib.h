// The library in the language, embedded at build time: one entry per stdlib/NAME.tile, imported as std.NAME.
#pragma once
#include <span>
#include <string_view>

namespace tegula {

struct StdlibFile {
    std::string_view name, text;
    std::span<const std::string_view> names;  ///< of its items, sorted
};
std::span<const StdlibFile> stdlib_files();

}  // namespace tegula
