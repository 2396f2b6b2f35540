// Host tensors: sizes, row-major tiles in and out of any layout, and element-wise copies between formats.
#include "jit/engine/tensor.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tegula {

namespace {

constexpr int64_t kMaxBytes = int64_t{1} << 46;
constexpr uint64_t kMaxOwned = uint64_t{1} << 32;  ///< of one tensor of ours, packed or as containers: memory that is promised may not exist

/// Calls fn(element number in row-major order, bit offset, count) for every run of elements that are contiguous in storage.
template <class Fn>
void for_each_run(const TypeTable& types, const TensorView& view, Fn&& fn) {
    const Format& format = types.format(view.elem);
    const unsigned bits = format.is_block() ? types.format(format.elem).bits : format.bits;
    const int rank = view.extents.rank;
    const int64_t total = view.extents.elements();
    if (total == 0) return;
    std::span<const int64_t> extents(view.extents.begin(), rank);
    const Layout& layout = types.layout(view.layout);
    std::optional<std::vector<int64_t>> strides;
    if (view.has_strides) {
        strides.emplace();
        for (int d = 0; d < rank; ++d) strides->push_back(view.strides[d] * static_cast<int64_t>(bits));
    } else {
        strides = layout.bit_strides(extents, bits);
    }
    std::optional<BoundLayout> bound;
    if (!strides) bound.emplace(layout, extents, bits);
    const int64_t inner = rank ? view.extents[rank - 1] : 1;
    const bool contiguous = strides && (rank == 0 || (*strides)[rank - 1] == static_cast<int64_t>(bits));
    std::vector<int64_t> index(static_cast<size_t>(rank), 0);
    for (int64_t at = 0; at < total;) {
        if (strides) {
            int64_t base = 0;
            for (int d = 0; d < rank; ++d) base += index[d] * (*strides)[d];
            if (contiguous) {
                fn(at, base, inner);
            } else {
                for (int64_t j = 0; j < inner; ++j) fn(at + j, base + j * (rank ? (*strides)[rank - 1] : 0), int64_t{1});
            }
        } else {
            for (int64_t j = 0; j < inner; ++j) {
                if (rank) index[rank - 1] = j;
                fn(at + j, bound->bit_offset(index.data()), int64_t{1});
            }
            if (rank) index[rank - 1] = 0;
        }
        at += inner;
        for (int d = rank - 2; d >= 0 && ++index[d] == view.extents[d]; --d) index[d] = 0;
    }
}

const Format& element_format(const TypeTable& types, FormatId id) {
    const Format& format = types.format(id);
    return format.is_block() ? types.format(format.elem) : format;
}

}  // namespace

TensorView HostTensor::view() {
    TensorView v = memory ? memory->view() : TensorView();
    v.elem = elem;
    v.pointee = pointee;
    v.extents = extents;
    v.layout = layout;
    if (memory) return v;
    v.data = data.data();
    v.bytes = data.size();
    v.scales = scales.data();
    v.scales_bytes = scales.size();
    v.tensor_scale = tensor_scale.data();
    v.initialised = initialised.empty() ? nullptr : initialised.data();
    v.scales_initialised = scales_initialised.empty() ? nullptr : scales_initialised.data();
    return v;
}

int block_axis(const TypeTable& types, LayoutId layout, int rank) {
    int axis = types.layout(layout).innermost_dimension(rank);
    return axis < 0 ? rank - 1 : axis;
}

Shape scale_extents(const TypeTable& types, FormatId block, LayoutId layout, const Shape& extents) {
    Shape out = extents;
    int64_t size = types.format(block).block_size;
    int axis = block_axis(types, layout, extents.rank);
    if (axis >= 0) out[axis] = (extents[axis] + size - 1) / size;
    return out;
}

bool tensor_size(TypeTable& types, FormatId elem, LayoutId layout, const Shape& extents, TensorSize& size, std::string* why) {
    const Format& format = types.format(elem);
    const Layout& map = types.layout(layout);
    auto fail = [&](std::string text) {
        if (why) *why = std::move(text);
        return false;
    };
    if (map.rank() >= 0 && map.rank() != extents.rank)
        return fail("layout `" + map.name() + "` is for rank " + std::to_string(map.rank()) + ", the tensor has rank " +
                    std::to_string(extents.rank));
    long double elements = 1;
    for (int64_t e : extents) {
        if (e < 0) return fail("extent " + std::to_string(e) + " is negative");
        elements *= static_cast<long double>(e);
    }
    if (elements * 8 > static_cast<long double>(kMaxBytes)) return fail("a tensor of " + to_string(extents) + " does not fit in memory");
    auto bytes_of = [&](const Format& f, const Shape& s) {
        return s.elements() == 0 ? 0 : map.storage_bytes(std::span<const int64_t>(s.begin(), s.rank), f.bits);
    };
    int64_t bytes = bytes_of(element_format(types, elem), extents);
    if (bytes < 0 || bytes > kMaxBytes) return fail("a tensor of " + to_string(extents) + " in layout `" + map.name() + "` does not fit in memory");
    size = {static_cast<uint64_t>(bytes), 0, 0};
    if (format.is_block()) {
        if (extents.rank == 0) return fail("a block format needs a dimension to lie along");
        if (map.kind() != Layout::Kind::row && map.kind() != Layout::Kind::col) return fail("block formats are stored row- or column-major");
        size.scales_bytes = static_cast<uint64_t>(bytes_of(types.format(format.scale), scale_extents(types, elem, layout, extents)));
        if (format.tensor_scale.v) size.tensor_scale_bytes = types.format(format.tensor_scale).container_bytes();
    }
    return true;
}

bool TensorBudget::take(uint64_t bytes, std::shared_ptr<void>& charge, std::string& why) const {
    if (limit && (bytes > limit || *held > limit - bytes)) {
        why = std::to_string(bytes) + " bytes, and with it all tensors here " + std::to_string(*held + bytes) + ", more than the memory budget of " +
              std::to_string(limit);
        return false;
    }
    *held += bytes;
    charge = std::shared_ptr<void>(nullptr, [of = held, bytes](void*) { *of -= bytes; });  // called, too, where there is no memory for it
    return true;
}

Made<HostTensor> make_tensor(TypeTable& types, FormatId elem, LayoutId layout, const Shape& extents, bool initialised, const TensorBudget* budget) {
    using Result = Made<HostTensor>;
    TensorSize size;
    std::string why;
    if (!tensor_size(types, elem, layout, extents, size, &why)) return Result::failed(std::move(why));
    const uint64_t elements = static_cast<uint64_t>(extents.elements()), width = element_format(types, elem).container_bytes();
    const std::string what = types.format(elem).name + to_string(extents);
    if (size.bytes > kMaxOwned || elements > kMaxOwned / width) {
        // Packed elements are handled in containers of whole bytes, which is what their number is bounded by.
        std::string need = std::to_string(size.bytes) + " bytes";
        if (size.bytes <= kMaxOwned)
            need += " packed, but host statements unpack its " + std::to_string(elements) + " elements to " + std::to_string(width) +
                    (width == 1 ? " byte each" : " bytes each");
        return Result::failed("`" + what + "` takes " + need +
                              ", more than 4 GiB, the limit of host statements; use smaller extents, or make it in the host program");
    }
    const uint64_t bytes = size.bytes + size.scales_bytes + size.tensor_scale_bytes;
    auto t = std::make_shared<HostTensor>();
    if (budget && !budget->take(bytes, t->charge, why)) return Result::failed("`" + what + "` takes " + why);
    t->elem = elem;
    t->layout = layout;
    t->extents = extents;
    try {
        t->data.resize(size.bytes);
        t->scales.resize(size.scales_bytes);
        t->tensor_scale.resize(size.tensor_scale_bytes);
        if (!initialised) {
            t->initialised.resize(size.bytes);
            t->scales_initialised.resize(size.scales_bytes);
        }
    } catch (const std::bad_alloc&) {
        return Result::failed("`" + what + "` takes " + std::to_string((size.bytes + size.scales_bytes) * (initialised ? 1 : 2)) + " bytes" +
                              (initialised ? "" : " (half of them say what is written)") + ", which this machine does not have now; use smaller extents");
    }
    return t;
}

void append_arguments(const TypeTable& types, const TensorView& view, std::vector<Argument>& out) {
    const Format& format = types.format(view.elem);
    Argument a;
    a.kind = Argument::tensor;
    a.t.elem = format.is_block() ? format.elem : view.elem;
    a.t.data = view.data;
    a.t.bytes = view.bytes;
    a.t.extents = view.extents;
    a.t.layout = view.layout;
    a.t.has_strides = view.has_strides;
    a.t.strides = view.strides;
    a.t.initialised = view.initialised;
    a.t.memory = view.memory;
    a.t.device = view.device;
    out.push_back(a);
    if (!format.is_block()) return;
    Argument s;
    s.kind = Argument::tensor;
    s.t.elem = format.scale;
    s.t.data = view.scales;
    s.t.bytes = view.scales_bytes;
    s.t.extents = scale_extents(types, view.elem, view.layout, view.extents);
    s.t.layout = view.layout;
    s.t.initialised = view.scales_initialised;
    s.t.memory = view.memory;
    s.t.device = view.device;
    out.push_back(s);
    if (!format.tensor_scale.v) return;
    Argument one;
    one.kind = Argument::tensor;
    one.t.elem = format.tensor_scale;
    one.t.data = view.tensor_scale;
    one.t.bytes = types.format(format.tensor_scale).container_bytes();
    one.t.extents = Shape{1};
    one.t.memory = view.memory;
    one.t.device = view.device;
    out.push_back(one);
}

std::string see_as(const TypeTable& types, TensorArg& t, FormatId to) {
    const Format &from = types.format(t.elem), &f = types.format(to);
    if (from.is_block() || f.is_block()) return "elements of blocks share scales";
    if (t.extents.rank == 0) return "it has no last dimension to take them from";
    const size_t last = t.extents.rank - 1u;
    const std::string widths = std::to_string(from.bits) + " bits of `" + from.name + "`";
    if (t.has_strides && from.bits != f.bits) {
        if (f.bits % 8 != 0) return "its strides are those of the host, which count whole bytes";
        if (t.extents[last] > 1 && t.strides[last] != 1)
            return "its last dimension has the stride " + std::to_string(t.strides[last]) + ", which leaves gaps between its elements";
        t.strides[last] = 1;
        for (size_t d = 0; d < last; ++d) {
            const __int128 bits = static_cast<__int128>(t.strides[d]) * from.bits;
            if (t.extents[d] > 1 && bits % f.bits != 0)
                return "its stride of " + std::to_string(t.strides[d]) + " times " + widths + " is no whole number of elements of `" + f.name + "`";
            const __int128 stride = bits / f.bits;
            if (stride > INT64_MAX || stride < INT64_MIN) return "its stride of " + std::to_string(t.strides[d]) + " leaves 64 bits";
            t.strides[d] = static_cast<int64_t>(stride);
        }
    } else if (from.bits != f.bits && types.layout(t.layout).kind() != Layout::Kind::row) {
        return "its layout `" + types.layout(t.layout).name() + "` is not `row`, which keeps the bits of the last dimension together";
    }
    const __int128 bits = static_cast<__int128>(t.extents[last]) * from.bits;
    if (bits % f.bits != 0)
        return "its rows of " + std::to_string(t.extents[last]) + " times " + widths + " are no whole number of elements of `" + f.name +
               "`, which take " + std::to_string(f.bits);
    if (bits / f.bits > INT64_MAX) return "its last dimension leaves 64 bits";
    t.extents[last] = static_cast<int64_t>(bits / f.bits);
    t.elem = to;
    return {};
}

bool fully_written(const TypeTable& types, const TensorView& view) {
    const Format& format = types.format(view.elem);
    bool written = true;
    if (view.initialised) {
        const unsigned bits = element_format(types, view.elem).bits;
        for_each_run(types, view, [&](int64_t, int64_t bit, int64_t count) {
            const uint8_t* begin = view.initialised + bit / 8;
            const uint8_t* end = view.initialised + (static_cast<uint64_t>(bit) + static_cast<uint64_t>(count) * bits + 7) / 8;
            written = written && std::find(begin, end, uint8_t{0}) == end;
        });
    }
    if (!written || !view.scales_initialised) return written;
    TensorView scales;
    scales.elem = format.scale;
    scales.extents = scale_extents(types, view.elem, view.layout, view.extents);
    scales.layout = view.layout;
    scales.data = view.scales;
    scales.bytes = view.scales_bytes;
    scales.initialised = view.scales_initialised;
    return fully_written(types, scales);
}

TileData read_tile(const TypeTable& types, const TensorView& view) {
    const Format& format = element_format(types, view.elem);
    const unsigned width = format.container_bytes();
    TileData tile{types.format(view.elem).is_block() ? types.format(view.elem).elem : view.elem, view.extents, {}};
    tile.bytes.resize(static_cast<size_t>(view.extents.elements()) * width);
    for_each_run(types, view, [&](int64_t at, int64_t bit, int64_t count) {
        unpack_bits(format, view.data, static_cast<uint64_t>(bit), static_cast<uint64_t>(count), tile.bytes.data() + at * width);
    });
    return tile;
}

void write_tile(const TypeTable& types, const TensorView& view, const TileData& tile) {
    const Format& format = element_format(types, view.elem);
    const unsigned width = format.container_bytes();
    for_each_run(types, view, [&](int64_t at, int64_t bit, int64_t count) {
        pack_bits(format, tile.bytes.data() + at * width, static_cast<uint64_t>(count), view.data, static_cast<uint64_t>(bit));
        if (view.initialised) {
            auto last = (static_cast<uint64_t>(bit) + static_cast<uint64_t>(count) * format.bits + 7) / 8;
            std::memset(view.initialised + bit / 8, 1, last - static_cast<uint64_t>(bit) / 8);
        }
    });
}

namespace {

/// Calls fn(element, first and last byte of its place) for every element.
template <class Fn>
void for_each_place(const TypeTable& types, const TensorView& view, Fn&& fn) {
    const unsigned bits = element_format(types, view.elem).bits;
    for_each_run(types, view, [&](int64_t at, int64_t bit, int64_t count) {
        for (int64_t i = 0; i < count; ++i) {
            const uint64_t begin = static_cast<uint64_t>(bit) + static_cast<uint64_t>(i) * bits;
            fn(static_cast<size_t>(at + i), begin / 8, (begin + bits - 1) / 8);
        }
    });
}

}  // namespace

std::vector<bool> written_elements(const TypeTable& types, const TensorView& view) {
    std::vector<bool> written;
    if (!view.initialised) return written;
    written.resize(static_cast<size_t>(view.extents.elements()));
    for_each_place(types, view, [&](size_t element, uint64_t first, uint64_t last) {
        bool all = true;
        for (uint64_t byte = first; byte <= last; ++byte) all = all && view.initialised[byte];
        written[element] = all;
    });
    return written;
}

void forget_elements(const TypeTable& types, const TensorView& view, const std::vector<bool>& written) {
    if (!view.initialised) return;
    for_each_place(types, view, [&](size_t element, uint64_t first, uint64_t last) {
        if (!written[element]) std::memset(view.initialised + first, 0, last - first + 1);
    });
}

bool copy_tensor(TypeTable& types, const TensorView& to, const TensorView& from, std::string* why) {
    if (!(to.extents == from.extents)) {
        if (why) *why = "extents differ: " + to_string(to.extents) + " and " + to_string(from.extents);
        return false;
    }
    TileData tile = read_tile(types, from);
    if (!(to.elem == from.elem)) {
        const Format& source = types.format(from.elem);
        const Format& target = types.format(to.elem);
        TileData converted{to.elem, tile.shape, {}};
        const size_t count = static_cast<size_t>(tile.shape.elements());
        const unsigned in = source.container_bytes(), out = target.container_bytes();
        converted.bytes.resize(count * out);
        for (size_t i = 0; i < count; ++i) {
            uint64_t code = load_bits(source, tile.bytes.data() + i * in, 0);
            uint64_t result = convert(target, source, code);
            std::memcpy(converted.bytes.data() + i * out, &result, out);
        }
        tile = std::move(converted);
    }
    write_tile(types, to, tile);
    return true;
}

}  // namespace tegula
