// Host tensors: storage of a logical array in an element type and a layout, and conversion between any two of them.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "jit/engine/made.h"
#include "lang/layout.h"
#include "lang/print_text.h"
#include "lang/runtime.h"

namespace tegula {

/// A borrowed view of a tensor in memory; block formats have their scales beside the elements.
struct TensorView {
    FormatId elem{};  ///< may be a block format
    FormatId pointee{};  ///< of u64: what its numbers are the addresses of, where that is known
    Shape extents{};
    LayoutId layout{};
    bool has_strides = false;
    std::array<int64_t, kMaxRank> strides{};
    uint8_t* data = nullptr;
    uint64_t bytes = 0;
    uint8_t* scales = nullptr;
    uint64_t scales_bytes = 0;
    uint8_t* tensor_scale = nullptr;
    Memory memory = Memory::host;
    int device = 0;
    uint8_t* initialised = nullptr;  ///< optional shadows for checked mode
    uint8_t* scales_initialised = nullptr;
};

/// Bytes that tensors made under one budget hold at a time.
struct TensorBudget {
    uint64_t limit = 0;  ///< 0: none
    std::shared_ptr<uint64_t> held = std::make_shared<uint64_t>(0);
    /// Counts `bytes` for as long as `charge` lives; false, with the reason, when they are too many.
    [[nodiscard]] bool take(uint64_t bytes, std::shared_ptr<void>& charge, std::string& why) const;
};

/// Owned storage behind a TensorView, or the memory of another tensor seen as elements of another type.
struct HostTensor {
    FormatId elem{};
    FormatId pointee{};  ///< as TensorView::pointee
    Shape extents{};
    LayoutId layout{};
    std::vector<std::shared_ptr<HostTensor>> leads_to;  ///< of addresses: the tensors that lie there
    std::vector<uint8_t> data, scales, tensor_scale;
    std::vector<uint8_t> initialised, scales_initialised;  ///< empty: fully initialised
    std::shared_ptr<void> charge;                          ///< gives its bytes back to the budget that it was made under
    std::shared_ptr<HostTensor> memory;                    ///< whose storage it is; null: its own
    TensorView view();
};
/// The tensor that owns the memory of `t`.
inline const std::shared_ptr<HostTensor>& owner(const std::shared_ptr<HostTensor>& t) { return t->memory ? t->memory : t; }

/// Bytes of elements and scales of a tensor; false (with a reason) when extents are negative, too large or do not fit the layout.
struct TensorSize {
    uint64_t bytes = 0, scales_bytes = 0, tensor_scale_bytes = 0;
};
bool tensor_size(TypeTable& types, FormatId elem, LayoutId layout, const Shape& extents, TensorSize& size, std::string* why);
/// Extents of the scales of a block tensor: those of the elements with the block axis divided (rounded up) by the block size.
Shape scale_extents(const TypeTable& types, FormatId block, LayoutId layout, const Shape& extents);
/// The dimension blocks lie along: innermost in storage, the last one where the layout has none.
int block_axis(const TypeTable& types, LayoutId layout, int rank);
Made<HostTensor> make_tensor(TypeTable& types, FormatId elem, LayoutId layout, const Shape& extents, bool initialised,
                             const TensorBudget* budget = nullptr);
/// What a back end gets for the elements, the scales and the tensor scale of a view (1 to 3 arguments).
void append_arguments(const TypeTable& types, const TensorView& view, std::vector<Argument>& out);

/// Makes `t` the same memory as elements of `to`, whose number along the last dimension follows. Why that cannot be; empty: it is done.
std::string see_as(const TypeTable& types, TensorArg& t, FormatId to);

/// Has every element been written, as the shadows of `view` tell? Padding between elements does not count.
bool fully_written(const TypeTable& types, const TensorView& view);
/// A tensor as a row-major tile of containers (non-block formats), and back.
TileData read_tile(const TypeTable& types, const TensorView& view);
void write_tile(const TypeTable& types, const TensorView& view, const TileData& tile);
/// Which elements (row-major) have been written, as the shadow of `view` tells; empty where it has none. And back: no type of blocks.
std::vector<bool> written_elements(const TypeTable& types, const TensorView& view);
void forget_elements(const TypeTable& types, const TensorView& view, const std::vector<bool>& written);
/// Copies values with one rounding per element (rne, automatic overflow); block formats are decoded and quantised (numerics.md 6). Extents
/// must agree. False with a reason otherwise.
bool copy_tensor(TypeTable& types, const TensorView& to, const TensorView& from, std::string* why);

/// Text of a tile: NumPy-like, elided beyond `edge` items per side; numbers as the shortest decimal that reads back.
std::string tile_text(const TypeTable& types, const TileData& tile, int edge = 3, const PrintSpec& spec = {});

}  // namespace tegula
