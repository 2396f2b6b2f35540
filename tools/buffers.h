// Arrays of files as tensors of a launch or a conversion.
#pragma once
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

struct Spec {  ///< NAME=file[#tensor][:type]
    std::string name, path, tensor, type;
};
Spec file_spec(const std::string& name, std::string text);

Buffer buffer_of(const Array& array);
std::string shape_text(const Buffer& buffer);  ///< "2, 3"
/// What a file holds of `buffer`: plain where the file's format knows the type and `packed`, which other orders than row need, is off.
tegula::Result<Array> array_of(const tegula::Module& module, const Buffer& buffer, bool packed, const std::string& path);

/// Gives `buffer` zeroed storage for its type, layout and extents.
tegula::Result<tegula::Unit> allocate(const tegula::Module& module, Buffer& buffer);
/// `from` in another type and layout.
tegula::Result<tegula::Unit> convert(const tegula::Module& module, Buffer& from, const std::string& type, const std::string& layout, Buffer& to);

}  // namespace tegula_tool
