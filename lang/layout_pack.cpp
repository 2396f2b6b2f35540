// Host-side packing: copies a tensor between plain row-major storage and the storage of a layout, element by element where the layout
// permutes, row by row where rows stay contiguous whole bytes. Both directions start from zeroed output, so padding is deterministic.
#include <algorithm>
#include <cstring>

#include "lang/layout.h"

namespace tegula {
namespace {

/// One direction of the copy: `logical` is row-major storage, `stored` the layout's.
struct Copy {
    const Layout& layout;
    std::span<const int64_t> extents;
    unsigned bits;
    bool to_layout;
    const uint8_t* from;
    uint8_t* to;
};

template <size_t kBytes>
void copy_elements(const Copy& c, const BoundLayout& plain, const BoundLayout& stored, std::vector<int64_t>& p) {
    const int64_t row = p.empty() ? 1 : c.extents.back();
    int64_t logical = plain.bit_offset(p.data()) / 8;
    for (int64_t j = 0; j < row; ++j, logical += kBytes) {
        if (!p.empty()) p.back() = j;
        const int64_t physical = stored.bit_offset(p.data()) / 8;
        std::memcpy(c.to + (c.to_layout ? physical : logical), c.from + (c.to_layout ? logical : physical), kBytes);
    }
}

void copy_bits(const Copy& c, const Format& format, const BoundLayout& plain, const BoundLayout& stored, std::vector<int64_t>& p) {
    const int64_t row = p.empty() ? 1 : c.extents.back();
    auto logical = static_cast<uint64_t>(plain.bit_offset(p.data()));
    for (int64_t j = 0; j < row; ++j, logical += c.bits) {
        if (!p.empty()) p.back() = j;
        const auto physical = static_cast<uint64_t>(stored.bit_offset(p.data()));
        store_bits(format, load_bits(format, c.from, c.to_layout ? logical : physical), c.to, c.to_layout ? physical : logical);
    }
}

void copy(const Copy& c) {
    const BoundLayout plain(Layout::row(), c.extents, c.bits), stored(c.layout, c.extents, c.bits);
    const int64_t bytes = (c.to_layout ? stored : plain).storage_bytes();
    TEGULA_CHECK(plain.storage_bytes() >= 0 && bytes >= 0, "a tensor too large for memory");
    if (plain.elements() == 0) return;
    std::memset(c.to, 0, static_cast<size_t>(bytes));
    const Format format = int_format(c.bits, false);
    const int64_t row_bits = (c.extents.empty() ? 1 : c.extents.back()) * static_cast<int64_t>(c.bits);
    const auto strides = c.layout.bit_strides(c.extents, c.bits);
    const bool whole_rows = strides && row_bits % 8 == 0 && !strides->empty() && (strides->back() == c.bits || c.extents.back() == 1) &&
                            std::all_of(strides->begin(), strides->end() - 1, [](int64_t s) { return s % 8 == 0; });
    std::vector<int64_t> p(c.extents.size(), 0);
    for (;;) {
        if (!p.empty()) p.back() = 0;
        if (whole_rows) {
            const int64_t logical = plain.bit_offset(p.data()) / 8, physical = stored.bit_offset(p.data()) / 8;
            std::memcpy(c.to + (c.to_layout ? physical : logical), c.from + (c.to_layout ? logical : physical), static_cast<size_t>(row_bits / 8));
        } else {
            switch (c.bits) {
                case 8:
                    copy_elements<1>(c, plain, stored, p);
                    break;
                case 16:
                    copy_elements<2>(c, plain, stored, p);
                    break;
                case 32:
                    copy_elements<4>(c, plain, stored, p);
                    break;
                case 64:
                    copy_elements<8>(c, plain, stored, p);
                    break;
                default:
                    copy_bits(c, format, plain, stored, p);
            }
        }
        size_t d = p.size() > 1 ? p.size() - 1 : 0;
        while (d-- > 0) {
            if (++p[d] < c.extents[d]) break;
            p[d] = 0;
        }
        if (d == static_cast<size_t>(-1)) return;
    }
}

}  // namespace

void pack(const Layout& layout, std::span<const int64_t> extents, unsigned bits, const uint8_t* row_major, uint8_t* out) {
    copy({layout, extents, bits, true, row_major, out});
}

void unpack(const Layout& layout, std::span<const int64_t> extents, unsigned bits, const uint8_t* packed, uint8_t* row_major) {
    copy({layout, extents, bits, false, packed, row_major});
}

}  // namespace tegula
