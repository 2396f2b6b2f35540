// How bulk copies (TMA) cut a tile in shared memory into boxes, and into equal parts that the programs of a cluster copy for each other: one rule for
// the pass that plans channels, the proof, and the emitter.
#pragma once
#include <optional>

#include "lang/tile_layout.h"

namespace tegula {

/// The boxes of one part of a tile: `panels` of the contiguous dimension by `row_boxes` of the dimension across, of `columns` by `rows` elements
/// each, for each of `batches` matrices (dimensions before the last two).
struct BulkBoxes {
    int64_t rows = 1, columns = 1;
    int64_t row_boxes = 1, panels = 1, batches = 1;
    int64_t part_rows = 0, part_columns = 0, part_bytes = 0;  ///< from one part to the next, of every matrix; one of the first two is 0
};
/// nullopt: the tile cannot be cut so. Boxes have at most 256 elements along each dimension and lie at multiples of 128 bytes, parts at whole
/// repetitions of the swizzle; there are at most 32 matrices.
std::optional<BulkBoxes> bulk_boxes(const SharedLayout& layout, int parts = 1);

}  // namespace tegula
