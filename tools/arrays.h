// Array files of the command: .npy (versions 1 to 3) and .safetensors, read and written. Files are hostile input: every length is checked
// against the file's size before use, and every error names the file and the field.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "files.h"

namespace tegula_tool {

/// An array in memory. `type` is the language's name of the element type; data is packed as the language stores it, row- or column-major, or in the
/// order of `layout`.
struct Array {
    std::string type;
    std::vector<int64_t> extents;
    bool column_major = false;
    std::string data;
    std::string layout = {};  ///< of a packed array, with `order`, its tegula_layout_hash; else empty
    uint64_t order = 0;
    std::string scales = {}, tensor_scale = {};  ///< packed arrays of block formats
    std::string layout_name() const { return !layout.empty() ? layout : column_major ? "col" : "row"; }
};

/// May an array come through a pipe? Those of the command line may, `<(..)` of a shell; text that is read must not make the reader wait.
enum class Pipes : bool { refused, allowed };
/// Reads a .npy file, or the tensor `name` of a .safetensors file (name may be empty when the file has one tensor). nullopt: `error` says
/// which file and which field. Directories and devices are refused, and so are pipes that have a name.
std::optional<Array> read_array(const std::string& path, const std::string& name, std::string& error, Pipes pipes = Pipes::allowed);

/// A packed array is tensors of bytes in a .safetensors file, NAME, NAME.scales and NAME.tensor_scale, that `__metadata__` describes under
/// "tegula.NAME": JSON text {"type", "extents", "layout", "order"}, the last one 16 hexadecimal digits.
///
/// Writes `path` (.npy or, with `name`, .safetensors) as `write_file` does.
bool write_array(const std::string& path, const std::string& name, const Array& array, std::string& error);

bool has_dtype(const std::string& type);  ///< has the type of an array a name in .safetensors?
bool is_safetensors(const std::string& path);

}  // namespace tegula_tool
