// Shapes and the TypeTable (type.h): one interned copy of every format, type and layout. Formats are equal when their
// meaning is (the name is not part of the key), so that float<5, 10> is f16; layouts are equal when their text is.
#include "lang/type.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "lang/layout.h"

namespace tegula {

std::string to_string(const Shape& shape) {
    std::string out = "[";
    for (size_t i = 0; i < shape.rank; ++i) {
        if (i) out += ", ";
        out += shape[i] == kDynamic ? std::string("?") : std::to_string(shape[i]);
    }
    return out + "]";
}

std::optional<Shape> broadcast(const Shape& a, const Shape& b) {
    const Shape& longer = a.rank >= b.rank ? a : b;
    const Shape& shorter = a.rank >= b.rank ? b : a;
    Shape out = longer;
    size_t skip = longer.rank - shorter.rank;
    for (size_t i = 0; i < shorter.rank; ++i) {
        int64_t x = longer[i + skip], y = shorter[i];
        if (x != y && x != 1 && y != 1) return std::nullopt;
        out[i + skip] = x == 1 ? y : x;
    }
    return out;
}

namespace {

template <class T>
void append_raw(std::string& key, const T& value) {
    char bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof(T));
    key.append(bytes, sizeof(T));
}

/// Everything of a format but its name.
std::string key_of(const Format& f) {
    std::string key;
    const uint8_t fields[] = {static_cast<uint8_t>(f.kind),
                              f.is_signed,
                              f.bits,
                              f.exp_bits,
                              f.man_bits,
                              f.has_inf,
                              f.subnormal,
                              f.negative_zero,
                              f.scale_only,
                              static_cast<uint8_t>(f.nan),
                              f.int_bits,
                              f.frac_bits,
                              static_cast<uint8_t>(f.scale_rule)};
    key.append(reinterpret_cast<const char*>(fields), sizeof fields);
    for (uint32_t v : {static_cast<uint32_t>(f.bias), f.elem.v, f.scale.v, f.tensor_scale.v, f.block_size}) append_raw(key, v);
    for (double v : f.table) append_raw(key, v);
    return key;
}

std::string key_of(const Type& t) {
    std::string key;
    const uint8_t fields[] = {static_cast<uint8_t>(t.kind), t.pointer, static_cast<uint8_t>(t.mode), t.shape.rank};
    key.append(reinterpret_cast<const char*>(fields), sizeof fields);
    append_raw(key, t.elem.v);
    append_raw(key, t.layout.v);
    for (int64_t extent : t.shape) append_raw(key, extent);
    return key;
}

const char* spelling(ScaleRule rule) {
    switch (rule) {
        case ScaleRule::floor:
            return "floor";
        case ScaleRule::ceil:
            return "ceil";
        case ScaleRule::even:
            return "even";
        case ScaleRule::rceil:
            return "rceil";
    }
    return "";
}

}  // namespace

TypeTable::TypeTable() {
    for (Format& format : builtin_formats()) {
        format_index_.emplace(key_of(format), static_cast<uint32_t>(formats_.size()));
        formats_.push_back(std::move(format));
    }
    types_.push_back({});
    type_index_.emplace(key_of(types_[0]), 0);
    layouts_.push_back(std::make_unique<Layout>(Layout::row()));
    layout_index_.emplace(layouts_[0]->text(), 0);
}

TypeTable::~TypeTable() = default;

FormatId TypeTable::intern(const Format& format) {
    Format copy = canonical(format);
    std::string key = key_of(copy);
    std::lock_guard lock(mutex_);
    auto [it, fresh] = format_index_.try_emplace(std::move(key), static_cast<uint32_t>(formats_.size()));
    if (!fresh) return {it->second};
    if (copy.name.empty() && copy.is_block()) {
        auto part = [&](FormatId id) { return formats_[id.v].name; };
        copy.name = "block<" + part(copy.elem) + ", " + std::to_string(copy.block_size) + ", scale = " + part(copy.scale);
        if (copy.tensor_scale.v) copy.name += ", tensor_scale = " + part(copy.tensor_scale);
        if (copy.scale_rule != ScaleRule::floor) copy.name += std::string(", rule = ") + spelling(copy.scale_rule);
        copy.name += ">";
    } else if (copy.name.empty()) {
        copy.name = canonical_name(copy);
    }
    formats_.push_back(std::move(copy));
    return {it->second};
}

TypeId TypeTable::intern(const Type& type) {
    Type canonical = type;
    std::fill(canonical.shape.dims.begin() + canonical.shape.rank, canonical.shape.dims.end(), 0);
    std::string key = key_of(canonical);
    std::lock_guard lock(mutex_);
    auto [it, fresh] = type_index_.try_emplace(std::move(key), static_cast<uint32_t>(types_.size()));
    if (fresh) types_.push_back(canonical);
    return {it->second};
}

LayoutId TypeTable::intern(const Layout& layout) {
    std::string key = layout.text();
    std::lock_guard lock(mutex_);
    auto [it, fresh] = layout_index_.try_emplace(std::move(key), static_cast<uint32_t>(layouts_.size()));
    if (fresh) layouts_.push_back(std::make_unique<Layout>(layout));
    return {it->second};
}

TypeId TypeTable::tile(FormatId elem, const Shape& shape) {
    Type t;
    t.kind = Type::tile;
    t.elem = elem;
    t.shape = shape;
    return intern(t);
}

TypeId TypeTable::pointer(FormatId elem, const Shape& shape) {
    Type t;
    t.kind = Type::tile;
    t.pointer = true;
    t.elem = elem;
    t.shape = shape;
    return intern(t);
}

TypeId TypeTable::channel(FormatId elem, const Shape& shape) {
    Type t;
    t.kind = Type::channel;
    t.elem = elem;
    t.shape = shape;
    return intern(t);
}

std::string TypeTable::name(TypeId id) const {
    const Type& t = type(id);
    if (t.kind == Type::none) return "none";
    std::string elem = format(t.elem).name;
    if (t.kind == Type::tensor) {
        std::string out = "tensor<" + elem + ">" + to_string(t.shape);
        if (t.layout.v) out += " @ " + layout(t.layout).name();
        return out;
    }
    if (t.kind == Type::channel) return "channel<" + elem + ">" + to_string(t.shape);
    if (t.pointer) elem = "ptr<" + elem + ">";
    return t.shape.rank == 0 ? elem : "tile<" + elem + ">" + to_string(t.shape);
}

std::optional<FormatId> TypeTable::builtin(std::string_view name) {
    for (uint32_t id = 1; id < static_cast<uint32_t>(Fmt::builtin_count_); ++id)
        if (formats_[id].name == name) return FormatId{id};
    if (name.size() < 2 || name.size() > 3 || (name[0] != 'i' && name[0] != 'u') || name[1] == '0') return std::nullopt;
    unsigned bits = 0;
    auto [end, error] = std::from_chars(name.data() + 1, name.data() + name.size(), bits);
    if (error != std::errc() || end != name.data() + name.size() || bits > 64) return std::nullopt;
    return intern(int_format(bits, name[0] == 'i'));
}

}  // namespace tegula
