// Arrays of files and of the command line as tensors of a launch or a conversion.
#pragma once
#include <functional>
#include <tegula/tegula.hpp>

#include "arrays.h"

namespace tegula_tool {

/// Storage of one tensor.
struct Buffer {
    std::string type, layout;
    std::vector<int64_t> extents;
    uint64_t order = 0;  ///< of a packed file
    std::vector<uint8_t> data, scales, tensor_scale;
    tegula::Tensor tensor() {
        tegula::Tensor t(data.data(), data.size(), type, extents);
        t.layout(layout, order);
        if (!scales.empty()) t.scales(scales.data(), scales.size(), tensor_scale.data());
        return t;
    }
};

/// FILE[#TENSOR][:TYPE], of an output also :TYPE[EXTENTS]; or FILE[#TENSOR] as TYPE[EXTENTS] [@ LAYOUT], which takes the file's bytes for the
/// storage of such a tensor.
struct Spec {
    std::string path, tensor, type, layout;
    std::optional<std::vector<int64_t>> extents;
    bool is_view = false;
};
/// Empty: `spec` says what `text` means; else what is wrong with it.
std::string read_spec(const std::string& text, Spec& spec);

Buffer buffer_of(const Array& array);
std::string shape_text(const Buffer& buffer);  ///< "2, 3"
/// What a file holds of `buffer`: plain where the file's format knows the type and `packed`, which other orders than row need, is off.
tegula::Result<Array> array_of(const tegula::Module& module, const Buffer& buffer, bool packed, const std::string& path);

/// Gives `buffer` zeroed storage for its type, layout and extents.
tegula::Result<tegula::Unit> allocate(const tegula::Module& module, Buffer& buffer);
/// `from` in another type and layout.
tegula::Result<tegula::Unit> convert(const tegula::Module& module, Buffer& from, const std::string& type, const std::string& layout, Buffer& to);
/// The tensor that `spec` asks for out of what was read: the same, or a view of its bytes. The last error is of the command.
tegula::Result<tegula::Unit> view(const tegula::Module& module, const Spec& spec, Buffer& read, std::string& error);

/// 1,2,3 or [[1, 2], [3, 4]], with :TYPE behind it: elements of i64, u64 or f64. nullopt: `error` says what is wrong.
struct List {
    Buffer values;
    std::string type;  ///< asked for, or what its elements are by themselves: i32, f32, ..
    bool typed;
};
std::optional<List> read_list(const std::string& text, std::string& error);

/// Is it i8, u3 or such?
bool is_integer(const std::string& type);
/// The elements as text, integers in full; `count` of them, 0: all.
tegula::Result<std::string> elements_text(const tegula::Module& module, Buffer& buffer, size_t count, int digits);

}  // namespace tegula_tool
