// What the GPU passes add to a function: where every tile lives, which instruction every product uses, scratch memory and barriers. Part of
// ir::Function, printed and parsed with it, re-proved by verify_gpu.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lang/target.h"
#include "lang/tile_layout.h"

namespace tegula {

/// A product's sum in tensor memory (sm_100): element (m, n) is the 32-bit cell in lane m % 128 of column `column` + m / 128 * N + n.
struct TensorLayout {
    Shape shape;
    int column = 0;  ///< of the program's own columns
    friend bool operator==(const TensorLayout&, const TensorLayout&) = default;
};
constexpr int kTensorLanes = 128, kTensorColumns = 512;
/// Columns that a tile takes.
inline int64_t tensor_columns(const Shape& shape) { return shape[0] / kTensorLanes * shape[1]; }
/// Is it a matrix of whole lanes within the columns that there are?
inline bool fits_tensor_memory(const TensorLayout& l) {
    const Shape& s = l.shape;
    return s.rank == 2 && s[0] > 0 && s[0] % kTensorLanes == 0 && s[0] <= int64_t{kTensorLanes} * kTensorColumns && s[1] > 0 &&
           s[1] <= kTensorColumns && l.column + tensor_columns(s) <= kTensorColumns;
}

struct Placement {
    enum Kind : uint8_t { none, registers, shared, tensor } kind = none;  ///< none: scalars (every thread holds them), tensors, channels
    TileLayout regs;
    SharedLayout smem;
    TensorLayout tmem;
    const Shape& shape() const { return kind == shared ? smem.shape : kind == tensor ? tmem.shape : regs.shape; }
    friend bool operator==(const Placement&, const Placement&) = default;
};

/// Per instruction.
struct GpuInst {
    int row = 0;                  ///< dot, dot_scaled: number of the row (Function::row)
    int64_t scratch_offset = -1;  ///< bytes of dynamic shared memory that the instruction may use while it runs; -1: none
    int64_t scratch_bytes = 0;
    bool global_scratch = false;  ///< the scratch does not fit and lies in the launch's workspace (one slice per program)
    bool sync_before = false;     ///< all threads of the group meet before the instruction
    bool bulk = false;            ///< store, atomic: by TMA from scratch in shared memory (store_boxes of gpu/scratch.h), no group meets inside
    bool fence_before = false;    ///< generic writes to shared memory are made visible to the async proxy (with sync_before: fence, then meet)
    /// dot on wgmma, in a loop: asked for, and waited for one trip later or behind the loop. channel_release in such a loop: gives back the stage
    /// that the trip before took, if there was one; behind the loop, the last one.
    bool late = false;
    int wait = -1;  ///< behind the instruction threads wait until at most so many late products are under way; -1: for none
};

constexpr int kMostLate = 7;  ///< products under way that threads can be told to leave so

/// A ring of `stages` tiles in shared memory between the producer (TMA or cp.async) and the consumer.
///
/// An own ring belongs to single threads: each copies what it will itself read, register by register, so that nobody meets. A get gives the tile in
/// registers of that layout, and the stage is free at once: there is no release.
struct GpuChannel {
    SharedLayout layout;
    int stages = 1;
    int64_t offset = 0;   ///< bytes of dynamic shared memory, 1024-byte aligned
    int tensor_map = -1;  ///< index of the TMA descriptor among the kernel's; -1: copied by threads
    unsigned multicast = 0;  ///< bit d: programs of a cluster along grid axis d take the same tiles; each copies its part of every tile to all of them
    std::optional<TileLayout> own = {};  ///< an own ring: in which layout threads copy and read the tile
    uint64_t fill = 0;                   ///< own ring: code of elements out of range
};

/// What is known of the memory of one tensor parameter at every launch of the form.
struct GpuTensor {
    bool aligned = false;  ///< base and all strides but the contiguous one are multiples of 16 bytes
    bool strided = false;  ///< the host's strides: nothing is contiguous
    bool whole = false;    ///< aligned, and the contiguous extent (row: last, col: first) is a multiple of 16 bytes
    uint8_t grain = 0;     ///< bytes, 4, 8 or 16, that divide the base and the innermost physical extent of a dense tensor; 0: none does
    /// A dense tensor of narrow elements in a declared layout is so large that its storage has the innermost extents of bounded_extents
    /// (tensor_strides.h), so that the pitches that follow from them are constants.
    bool filled = false;
    /// The host's strides, but 1 along the dimension that is contiguous in the layout, row or col: rows lie further apart than they are long.
    bool pitched = false;
    bool turned = false;  ///< pitched, a view (ir::PointerView) that may turn: it lies by columns
    /// For keys of variants. What is pitched has no grain, what is filled has one.
    char code() const {
        return static_cast<char>('0' + aligned + 2 * strided + 4 * whole + 8 * (grain / 4 - grain / 16) + 8 * turned + 32 * (filled || pitched));
    }
};

struct GpuForm {
    const Arch* arch = find_arch("sm_90a");
    int grid_axes = 3;        ///< of the grid clause: higher axes have one program
    int warps = 4;            ///< that hold tiles: a power of two
    bool specialised = false; ///< one more warp group runs the producer block of `specialise`
    std::array<int, 3> cluster = {1, 1, 1};  ///< by grid axis: neighbouring programs that run at the same time and reach each other's shared memory
    bool persistent = false;  ///< a CTA runs many programs, one after the other: the body says which (cta_id, num_ctas, `program_id` of a number)
    int64_t shared_bytes = 0; ///< dynamic, channels and scratch
    int64_t workspace_bytes = 0;  ///< of global scratch per CTA
    std::vector<Placement> placements;   ///< entry 0 is `none`
    std::vector<uint32_t> of_value;      ///< by ValueId: index into placements
    std::vector<GpuInst> of_inst;        ///< by InstId
    std::vector<GpuTensor> tensors;      ///< by parameter; empty: nothing known
    std::vector<std::pair<uint32_t, GpuChannel>> channels;  ///< by ValueId of the `channel` result

    int cluster_size() const { return cluster[0] * cluster[1] * cluster[2]; }
    /// Programs that take the channel's tiles together; 1: it is private.
    int sharers(const GpuChannel& channel) const {
        int n = 1;
        for (size_t d = 0; d < cluster.size(); ++d) n *= channel.multicast >> d & 1 ? cluster[d] : 1;
        return n;
    }
    /// The ring of the `channel` instruction that gives `value`; null: none.
    const GpuChannel* channel(uint32_t value) const {
        const auto it = std::find_if(channels.begin(), channels.end(), [&](const auto& c) { return c.first == value; });
        return it == channels.end() ? nullptr : &it->second;
    }
    bool is_own(uint32_t value) const {
        const GpuChannel* ring = channel(value);
        return ring && ring->own;
    }
    GpuChannel* channel(uint32_t value) { return const_cast<GpuChannel*>(std::as_const(*this).channel(value)); }
};

constexpr int kMaxCluster = 8;  ///< programs, of every GPU that has clusters

}  // namespace tegula
