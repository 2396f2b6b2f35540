#include "buffers.h"

namespace tegula_tool {

Spec file_spec(const std::string& name, std::string text) {
    Spec spec{name, std::move(text), {}, {}};
    size_t from = 0;
    for (const char* ending : {".npy", ".safetensors"})
        if (size_t at = spec.path.find(ending); at != std::string::npos) from = at;
    if (size_t colon = spec.path.find(':', from); colon != std::string::npos) {
        spec.type = spec.path.substr(colon + 1);
        spec.path.resize(colon);
    }
    if (size_t hash = spec.path.find('#', from); hash != std::string::npos) {
        spec.tensor = spec.path.substr(hash + 1);
        spec.path.resize(hash);
    }
    return spec;
}

Buffer buffer_of(const Array& array) {
    const auto bytes = [](const std::string& text) { return std::vector<uint8_t>(text.begin(), text.end()); };
    return {array.type, array.layout_name(), array.extents, array.order, bytes(array.data), bytes(array.scales), bytes(array.tensor_scale)};
}

std::string shape_text(const Buffer& buffer) {
    std::string shape;
    for (const int64_t e : buffer.extents) shape += (shape.empty() ? "" : ", ") + std::to_string(e);
    return shape;
}

tegula::Result<Array> array_of(const tegula::Module& module, const Buffer& buffer, bool packed, const std::string& path) {
    const auto text = [](const std::vector<uint8_t>& bytes) { return std::string(bytes.begin(), bytes.end()); };
    Array array;
    array.type = buffer.type;
    array.extents = buffer.extents;
    array.data = text(buffer.data);
    if (!packed && (has_dtype(buffer.type) || !is_safetensors(path))) return {TEGULA_OK, {}, std::move(array)};
    auto hash = module.layout_hash(buffer.layout);
    if (!hash) return {hash.status(), hash.diagnostics(), std::move(array)};
    array.layout = buffer.layout;
    array.order = hash.value();
    array.scales = text(buffer.scales);
    array.tensor_scale = text(buffer.tensor_scale);
    return {TEGULA_OK, {}, std::move(array)};
}

tegula::Result<tegula::Unit> allocate(const tegula::Module& module, Buffer& buffer) {
    auto bytes = module.tensor_bytes(buffer.type, buffer.layout, buffer.extents);
    if (!bytes) return {bytes.status(), bytes.diagnostics()};
    buffer.data.assign(bytes.value().elements, 0);
    buffer.scales.assign(bytes.value().scales, 0);
    buffer.tensor_scale.assign(bytes.value().scales ? 8 : 0, 0);
    return {TEGULA_OK, {}};
}

tegula::Result<tegula::Unit> convert(const tegula::Module& module, Buffer& from, const std::string& type, const std::string& layout, Buffer& to) {
    to.type = type;
    to.layout = layout;
    to.extents = from.extents;
    if (auto room = allocate(module, to); !room) return room;
    return module.copy(to.tensor(), from.tensor());
}

}  // namespace tegula_tool
