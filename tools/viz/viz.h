// Pictures of layouts, formats, kernels: asked from the library as JSON, which is the model, and drawn from it alone.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tegula/tegula.hpp"

namespace tegula_tool::viz {

/// What `tegula viz` and `:viz` are asked for.
struct Request {
    std::string kind;  ///< "layout", ..: kinds() has them
    /// A kernel of the module, or, for kinds that show types, a type as the language writes it: "u4[16, 32] @ tiled<8, 8>", "f8e4m3". Empty: the
    /// module's first kernel.
    std::string what;
    std::vector<tegula::NamedValue> sets;  ///< generics and extents of the kernel
    std::string arch;                      ///< empty: sm_90a
    std::string of;  ///< the parameter, tile, product, machine or pane that is shown, of several; empty: all, as far as there is room
};

/// The model of a picture, as JSON (share/tegula/schema/picture.json).
tegula::Result<std::string> model(tegula::Module& module, const Request& request);

struct Kind {
    std::string_view name, help;
    bool of_types;    ///< a type may be asked for
    bool of_kernels;  ///< a kernel may
};
std::span<const Kind> kinds();

/// `format`: "text", "svg", "html" or "json", which is the model itself. Text has lines of `width` columns where the figure can be cut into such,
/// at least 40, and escapes of a terminal where `colour`. Equal models give equal bytes. A text that is no model gives an empty string.
std::string render(const std::string& model, std::string_view format, int width = 80, bool colour = false);

}  // namespace tegula_tool::viz
