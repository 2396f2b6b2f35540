// What a session tells of a value, as text and as JSON: its type, its elements or of many those at the ends, their codes and places in storage, the
// scales of blocks. See session.h.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "jit/engine/session.h"
#include "lang/plain_text.h"

namespace tegula {

namespace {

constexpr int64_t kWhole = 1000;                  ///< values that are told one by one
constexpr int64_t kEdge = 3;                      ///< at each end of what is longer
constexpr int64_t kMostEdges = 1296;              ///< of tensors of many dimensions the ends are shorter
constexpr int64_t kMostCodes = int64_t{1} << 20;  ///< elements that are told one by one where codes are asked for
constexpr size_t kMostItems = 1000;               ///< of tuples whose tensors are not told whole

const char* kind_word(HostValue::Kind kind) {
    static constexpr const char* kWords[] = {"unit", "tensor", "integer", "real", "bool", "text", "tuple", "layout", "type", "word"};
    return kWords[kind];
}

/// JSON has no NaN and no infinity: texts.
std::string real_json(double value, const std::string& text) {
    if (value == 0 && std::signbit(value)) return "-0.0";  // as an integer it would lose its sign
    return std::isfinite(value) ? text : json_quote(text);
}

std::string number_json(const Format& f, uint64_t code) {
    const uint64_t extended = extend_code(f, code);
    const std::string text = number_text(f, extended);
    return f.is_bool() || f.is_int() ? text : real_json(decode(f, extended), text);
}

/// The elements that stand for a tensor: all of them, or `edge` at both ends of each dimension.
struct Sample {
    std::vector<int64_t> elements;  ///< in row-major order
    int64_t edge = 0;               ///< 0: all of them
};

Sample sample_of(const Shape& extents, int64_t most) {
    Sample out;
    const int64_t all = extents.elements();
    if (all <= most) {
        out.elements.resize(static_cast<size_t>(all));
        std::iota(out.elements.begin(), out.elements.end(), int64_t{0});
        return out;
    }
    Shape kept = extents;
    for (out.edge = kEdge;; --out.edge) {
        for (size_t d = 0; d < extents.rank; ++d) kept[d] = std::min(extents[d], 2 * out.edge);
        if (out.edge == 1 || kept.elements() <= kMostEdges) break;
    }
    for (int64_t i = 0; i < kept.elements(); ++i) {
        int64_t rest = i, element = 0, stride = 1;
        for (size_t d = extents.rank; d-- > 0; stride *= extents[d]) {
            const int64_t at = rest % kept[d];
            rest /= kept[d];
            element += stride * (at < out.edge || kept[d] == extents[d] ? at : extents[d] - kept[d] + at);
        }
        out.elements.push_back(element);
    }
    return out;
}

uint64_t code_of(const TileData& tile, const Format& format, int64_t element) {
    uint64_t code = 0;
    const size_t width = format.container_bytes();
    std::copy_n(tile.bytes.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(element) * width), width, reinterpret_cast<uint8_t*>(&code));
    return code & low_bits(format.bits);
}

template <class Fn>
std::string list_json(const std::vector<int64_t>& elements, Fn&& text) {
    std::string out = "[";
    for (const int64_t element : elements) (out += out.size() > 1 ? "," : "") += text(element);
    return out + "]";
}

std::string list_json(const Shape& extents) {
    return list_json({extents.begin(), extents.end()}, [](int64_t e) { return std::to_string(e); });
}

/// "elements" or, of what is not told whole, "edges".
std::string elements_json(const Format& format, const TileData& tile, const Sample& sample) {
    const auto text = [&](int64_t i) { return number_json(format, code_of(tile, format, i)); };
    return (sample.edge ? "\"edge\":" + std::to_string(sample.edge) + ",\"edges\":" : std::string("\"elements\":")) +
           list_json(sample.elements, text);
}

/// What all numbers of a format have in common.
std::string format_json(const TypeTable& types, const Format& f) {
    static constexpr const char* kKinds[] = {"boolean", "integer", "floating", "fixed", "lns", "codebook", "block"};
    const auto number = [&](uint64_t code) { return number_json(f, code); };
    std::string out = "{\"name\":" + json_quote(f.name) + ",\"kind\":\"" + kKinds[static_cast<int>(f.kind)] + "\"";
    if (f.is_block()) {
        out += ",\"block\":" + std::to_string(f.block_size) + ",\"element\":" + format_json(types, types.format(f.elem)) +
               ",\"scale\":" + format_json(types, types.format(f.scale));
        return out + (f.tensor_scale.v ? ",\"tensor_scale\":" + format_json(types, types.format(f.tensor_scale)) : "") + "}";
    }
    out += ",\"bits\":" + std::to_string(f.bits) + ",\"signed\":" + (f.is_signed ? "true" : "false");
    if (f.is_bool()) return out + "}";
    out += ",\"lowest\":" + number(lowest_code(f)) + ",\"largest\":" + number(max_code(f));
    if (f.is_float())
        out += ",\"exponent_bits\":" + std::to_string(f.exp_bits) + ",\"mantissa_bits\":" + std::to_string(f.man_bits) +
               ",\"bias\":" + std::to_string(f.bias) + ",\"smallest_normal\":" + number(min_normal_code(f)) +
               ",\"subnormals\":" + (f.subnormal && f.man_bits ? "true" : "false") + ",\"infinities\":" + (f.has_inf ? "true" : "false") +
               ",\"nan\":" + (has_nan(f) ? "true" : "false");
    if (f.kind == FormatKind::fixed || f.kind == FormatKind::lns)
        out += ",\"integer_bits\":" + std::to_string(f.int_bits) + ",\"fraction_bits\":" + std::to_string(f.frac_bits);
    if (f.kind == FormatKind::codebook && f.bits <= 8) {
        out += ",\"values\":[";
        for (uint64_t code = 0; code < f.table.size(); ++code) out += (code ? "," : "") + number(code);
        out += "]";
    }
    return out + "}";
}

/// Places of elements in storage, in bits.
std::string places_json(const TypeTable& types, const HostTensor& t, unsigned bits, const Sample& sample) {
    const BoundLayout bound(types.layout(t.layout), {t.extents.begin(), t.extents.rank}, bits);
    return list_json(sample.elements, [&](int64_t element) {
        std::array<int64_t, kMaxRank> index{};
        for (size_t d = t.extents.rank; d-- > 0; element /= t.extents[d]) index[d] = element % t.extents[d];
        return std::to_string(bound.bit_offset(index.data()));
    });
}

/// Of a tensor of blocks: its scales as a tensor of their own.
TensorView scales_of(const TypeTable& types, const TensorView& t) {
    TensorView out;
    out.elem = types.format(t.elem).scale;
    out.extents = scale_extents(types, t.elem, t.layout, t.extents);
    out.layout = t.layout;
    out.data = t.scales;
    out.bytes = t.scales_bytes;
    return out;
}

}  // namespace

size_t Session::leaves(const HostValue& value) {
    if (value.kind == HostValue::tensor) return static_cast<size_t>(value.t->extents.elements());
    size_t count = value.kind == HostValue::tuple ? 0 : 1;
    for (const HostValue& item : value.items) count += leaves(item);
    return count;
}

std::string Session::type_text(const HostValue& value) const {
    TypeTable& types = now_.module->types();
    switch (value.kind) {
        case HostValue::tensor: {
            std::string out = types.format(value.t->elem).name;
            if (value.t->extents.rank) out += to_string(value.t->extents);
            if (value.t->layout.v) out += " @ " + types.layout(value.t->layout).name();
            return out;
        }
        case HostValue::integer:
            return "int";
        case HostValue::real:
            return "real";
        case HostValue::boolean:
            return "bool";
        case HostValue::tuple: {
            if (value.of) return std::string(value.of->name.text);
            std::string out;
            for (size_t i = 0; i < value.items.size(); ++i) {
                const bool cut = value.items.size() > 2 * kEdge + 1;
                if (cut && i == kEdge) out += ", ..";
                if (!cut || i < kEdge || i >= value.items.size() - kEdge) out += (out.empty() ? "" : ", ") + type_text(value.items[i]);
            }
            return "(" + out + (value.items.size() == 1 ? ",)" : ")");
        }
        default:
            return kind_word(value.kind);
    }
}

std::string Session::value_text(HostRunner& runner, const HostValue& value, bool whole) const {
    if (value.kind == HostValue::tensor) {
        if (!fully_written(now_.module->types(), value.t->view())) return "(not all of it is written)";
        const auto elements = runner.elements_of(value);
        return elements ? tile_text(now_.module->types(), *elements) : "(block format)";
    }
    if (value.kind == HostValue::text) return json_quote(value.s);
    if (value.kind != HostValue::tuple) return runner.text_of(value);
    std::string out;
    for (size_t i = 0; i < value.items.size(); ++i) {
        const bool cut = !whole && value.items.size() > 2 * kEdge + 1;
        if (cut && i == kEdge) out += ", ..";
        if (!cut || i < kEdge || i >= value.items.size() - kEdge)
            out += (out.empty() ? "" : ", ") + (value.of ? std::string(value.of->fields[i].name.text) + " = " : std::string()) +
                   value_text(runner, value.items[i], whole);
    }
    return std::string(value.of ? value.of->name.text : "") + "(" + out + (value.items.size() == 1 && !value.of ? ",)" : ")");
}

std::string Session::type_json(const HostValue& value) const {
    TypeTable& types = now_.module->types();
    std::string out = "\"kind\":\"" + std::string(kind_word(value.kind)) + "\",\"type\":" + json_quote(type_text(value));
    if (value.kind != HostValue::tensor) return out;
    return out + ",\"element\":" + json_quote(types.format(value.t->elem).name) + ",\"layout\":" + json_quote(types.layout(value.t->layout).name()) +
           ",\"extents\":" + list_json(value.t->extents);
}

std::string Session::tensor_json(HostRunner& runner, const HostTensor& tensor, const HostValue& value, ShownAs as) const {
    TypeTable& types = now_.module->types();
    const TensorView view = value.t->view();
    const Format& format = types.format(tensor.elem);
    const Format& element = format.is_block() ? types.format(format.elem) : format;
    const bool written = fully_written(types, view);
    std::string out =
        ",\"bytes\":" + std::to_string(view.bytes + view.scales_bytes + tensor.tensor_scale.size()) + ",\"written\":" + (written ? "true" : "false");
    if (as == ShownAs::kind) return out;
    const bool codes = as == ShownAs::codes;
    const Sample sample = sample_of(tensor.extents, codes ? kMostCodes : kWhole);
    const std::string about = ",\"format\":" + format_json(types, format);
    if (codes && sample.edge) out += ",\"edge\":" + std::to_string(sample.edge);
    if (codes) out += ",\"places\":" + places_json(types, tensor, element.bits, sample);
    if (!written) return out + about;
    if (const auto values = runner.elements_of(value)) out += "," + elements_json(types.format(values->elem), *values, sample);
    if (codes) {
        const TileData tile = read_tile(types, view);
        out += ",\"codes\":" + list_json(sample.elements, [&](int64_t i) { return std::to_string(code_of(tile, element, i)); });
    }
    out += about;
    if (!format.is_block()) return out;
    const TensorView scales = scales_of(types, view);
    const Format& scale = types.format(scales.elem);
    out += ",\"scales\":{\"type\":" + json_quote(scale.name) + ",\"extents\":" + list_json(scales.extents) + "," +
           elements_json(scale, read_tile(types, scales), sample_of(scales.extents, codes ? kMostCodes : kWhole)) + "}";
    if (!format.tensor_scale.v) return out;
    const TileData whole{format.tensor_scale, {}, tensor.tensor_scale};
    return out + ",\"tensor_scale\":" + number_json(types.format(format.tensor_scale), code_of(whole, types.format(format.tensor_scale), 0));
}

std::string Session::value_json(HostRunner& runner, const HostValue& value, ShownAs as) const {
    TypeTable& types = now_.module->types();
    std::string out = "{" + type_json(value);
    switch (value.kind) {
        case HostValue::tensor:
            out += tensor_json(runner, *value.t, value, as);
            break;
        case HostValue::real:
            out += ",\"value\":" + real_json(value.r, runner.text_of(value));
            break;
        case HostValue::integer:
        case HostValue::boolean:
            out += ",\"value\":" + runner.text_of(value);
            break;
        case HostValue::type:
            if (as != ShownAs::kind) out += ",\"format\":" + format_json(types, types.format(value.format));
            [[fallthrough]];
        case HostValue::text:
        case HostValue::layout:
        case HostValue::choice:
            out += ",\"value\":" + json_quote(runner.text_of(value));
            break;
        case HostValue::tuple: {
            out += ",\"count\":" + std::to_string(value.items.size());
            if (as == ShownAs::kind) break;
            if (value.of) {
                out += ",\"names\":[";
                for (size_t i = 0; i < value.items.size(); ++i) out += (i ? "," : "") + json_quote(value.of->fields[i].name.text);
                out += "]";
            }
            out += ",\"items\":[";
            for (size_t i = 0; i < value.items.size(); ++i) out += (i ? "," : "") + value_json(runner, value.items[i], as);
            out += "]";
            break;
        }
        case HostValue::unit:
            break;
    }
    return out + "}";
}

std::string Session::shown_json(HostRunner& runner, const HostValue& value, ShownAs as) const {
    // Of a tuple with many items in it the text is enough.
    std::vector<const HostValue*> rest{&value};
    size_t items = 0;
    for (; !rest.empty() && items <= kMostItems; ++items) {
        const HostValue& one = *rest.back();
        rest.pop_back();
        for (const HostValue& item : one.items) rest.push_back(&item);
    }
    const bool many = value.kind == HostValue::tuple && (items > kMostItems || !rest.empty());
    std::string out = value_json(runner, value, many ? ShownAs::kind : as);
    out.pop_back();
    return out + ",\"text\":" + json_quote(value_text(runner, value, leaves(value) <= static_cast<size_t>(kWhole))) + "}";
}

}  // namespace tegula
