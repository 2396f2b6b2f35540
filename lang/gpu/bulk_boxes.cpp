// Boxes of bulk copies (bulk_boxes.h): whole panels where a tile has enough of them, so that boxes stay large, else rows.
#include "lang/gpu/bulk_boxes.h"

namespace tegula {

namespace {

constexpr int64_t kMaxBox = 256, kBoxAlign = 128;
constexpr int64_t kMaxBatches = 32;  ///< one thread asks for all boxes
constexpr int64_t kSwizzleRows = 8;  ///< after which every swizzle repeats

}  // namespace

std::optional<BulkBoxes> bulk_boxes(const SharedLayout& l, int parts) {
    if (l.shape.rank < 1) return std::nullopt;
    const int64_t columns = l.shape[static_cast<size_t>(l.contiguous)];
    int64_t rows = l.shape.rank == 1 ? 1 : l.shape[static_cast<size_t>(l.across())];
    BulkBoxes b;
    for (size_t d = 0; d + 2 < l.shape.rank; ++d) b.batches *= l.shape[d];
    if (b.batches > kMaxBatches || (b.batches > 1 && l.bytes() / b.batches % kBoxAlign != 0)) return std::nullopt;
    b.columns = l.row_bytes() / l.elem_bytes;
    if (columns * l.elem_bytes % 16 != 0 || columns % b.columns != 0 || b.columns > kMaxBox) return std::nullopt;
    b.panels = columns / b.columns;
    if (b.panels > 1 && l.panel_bytes() % kBoxAlign != 0) return std::nullopt;
    if (b.panels % parts == 0) {
        b.panels /= parts;
        b.part_columns = parts == 1 ? 0 : b.panels * b.columns;
        b.part_bytes = b.panels * l.panel_bytes();
    } else {
        if (rows % (parts * kSwizzleRows) != 0) return std::nullopt;
        rows /= parts;
        b.part_rows = rows;
        b.part_bytes = rows * l.row_bytes();
    }
    b.row_boxes = (rows + kMaxBox - 1) / kMaxBox;
    while (rows % b.row_boxes) ++b.row_boxes;
    b.rows = rows / b.row_boxes;
    const bool aligned = (b.row_boxes == 1 || b.rows * l.row_bytes() % kBoxAlign == 0) && (parts == 1 || b.part_bytes % kBoxAlign == 0);
    return aligned ? std::optional(b) : std::nullopt;
}

}  // namespace tegula
