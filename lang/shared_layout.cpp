// Tiles in shared memory, laid out as TMA writes and wgmma reads them (PTX ISA, "Shared memory matrix layout": 16-byte chunks XORed with the row
// within 8-row atoms).
#include "lang/check.h"
#include "lang/tile_layout.h"

namespace tegula {

namespace {

int64_t extent_across(const SharedLayout& l) {
    if (l.shape.rank < 2) return 1;
    return l.shape[static_cast<size_t>(l.across())];
}
int64_t contiguous_bytes(const SharedLayout& l) { return l.shape.rank ? l.shape[static_cast<size_t>(l.contiguous)] * l.elem_bytes : l.elem_bytes; }
int64_t panels(const SharedLayout& l) { return (contiguous_bytes(l) + l.row_bytes() - 1) / l.row_bytes(); }

}  // namespace

int64_t SharedLayout::row_bytes() const { return swizzle ? swizzle : (contiguous_bytes(*this) + 15) / 16 * 16; }
int64_t SharedLayout::panel_bytes() const { return row_bytes() * extent_across(*this); }

int64_t SharedLayout::bytes() const {
    int64_t n = panels(*this) * panel_bytes();
    for (int d = 0; d + 2 < shape.rank; ++d) n *= shape[static_cast<size_t>(d)];
    return n;
}

int64_t SharedLayout::address(const TileLayout::Point& p) const {
    if (shape.rank == 0) return 0;
    TEGULA_CHECK(contiguous >= shape.rank - 2 && contiguous < shape.rank);
    int64_t batch = 0;
    for (size_t d = 0; d + 2 < shape.rank; ++d) batch = batch * shape[d] + p[d];
    const int64_t row = shape.rank < 2 ? 0 : p[static_cast<size_t>(across())];
    const int64_t byte = p[static_cast<size_t>(contiguous)] * elem_bytes;
    const int64_t plain = (batch * panels(*this) + byte / row_bytes()) * panel_bytes() + row * row_bytes() + byte % row_bytes();
    return swizzle ? plain ^ (plain >> 3 & (swizzle - 1) & ~int64_t{15}) : plain;
}

std::string SharedLayout::text() const {
    return "contiguous " + std::to_string(contiguous) + " swizzle " + std::to_string(swizzle) + " bytes " + std::to_string(elem_bytes);
}

SharedLayout shared_layout(const Shape& shape, int contiguous, int elem_bytes) {
    SharedLayout l{shape, contiguous, 0, elem_bytes};
    if (shape.rank == 0 || extent_across(l) % 8 != 0) return l;
    for (int s = 128; s >= 32; s /= 2) {
        if (contiguous_bytes(l) % s == 0) {
            l.swizzle = s;
            break;
        }
    }
    return l;
}

}  // namespace tegula
