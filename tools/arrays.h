// Array files of the command: .npy (versions 1 to 3), .npz and .safetensors, read and, but for .npz, written. Files are hostile input: every length
// is checked against the file's size before use, and every error names the file and the field.
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

/// Who names the file. `line`: the command line, where `<(..)` of a shell is a pipe and `-` is standard input. `source`: text that is read must not
/// make the reader wait: no pipes. `confined`: nor does what a file names lead elsewhere by a symbolic link.
enum class Access : uint8_t { line, source, confined };
/// Reads a .npy file, the array `name` of a .npz file, or the tensor `name` of a .safetensors file, of a model's .safetensors.index.json or of a
/// directory of such files (name may be empty where there is one). nullopt: `error` says which file and which field. Devices are refused, and so are
/// pipes that have a name.
std::optional<Array> read_array(const std::string& path, const std::string& name, std::string& error, Access access = Access::line);

/// A packed array is tensors of bytes in a .safetensors file, NAME, NAME.scales and NAME.tensor_scale, that `__metadata__` describes under
/// "tegula.NAME": JSON text {"type", "extents", "layout", "order"}, the last one 16 hexadecimal digits.
///
/// Writes `path` (.npy or, with `name`, .safetensors) as `write_file` does; `-` is standard output, and takes .npy.
bool write_array(const std::string& path, const std::string& name, const Array& array, std::string& error);
/// Several arrays in one .safetensors file.
using NamedArrays = std::vector<std::pair<std::string, Array>>;
bool write_arrays(const std::string& path, const NamedArrays& arrays, std::string& error);

/// Has such an array a type of its own in a file of this ending?
bool has_dtype(const std::string& type, const std::vector<int64_t>& extents, bool safetensors);
bool is_safetensors(const std::string& path);

}  // namespace tegula_tool
