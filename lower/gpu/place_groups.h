// The first half of place_tiles (private to lower/gpu): values that belong together, and the layout each group gets.
#pragma once
#include <map>
#include <optional>
#include <vector>

#include "lower/gpu/place.h"

namespace tegula {

/// Elementwise and other ops that want all their tiles in one layout.
bool keeps_layout(ir::Op op);
/// The operands of an instruction that lie as its (first) result or its stored value does: elementwise operands, masks, other values.
struct Alike {
    ir::ValueId like;              ///< the result or the stored value; invalid when the op has no such rule
    std::vector<size_t> operands;  ///< indices of operands with the same shape that lie likewise
};
Alike alike(const ir::Function& fn, const ir::Inst& inst);

/// The best layout for an access to memory: 16 bytes per thread along the contiguous dimension, but no more than each thread has to do.
/// `widest`: bits of elements that are accessed in the same layout; 16 bytes of these per thread then, since with gaps between the threads' vectors
/// caches give half of what they can.
TileLayout memory_layout(const ir::Function& fn, const ir::Inst& access, int widest = 0);
/// The tile dimension whose neighbours are neighbours in memory for a load, store or atomic; -1: none.
int contiguous_dimension(const ir::Function& fn, const ir::Inst& access);
/// Does a warp touch whole 32-byte sectors of memory when a tile in layout `l` is loaded or stored by `access`?
bool whole_sectors(const ir::Function& fn, const ir::Inst& access, const TileLayout& l);
/// Is it known that rows of the tensor start anywhere? Then elements of 8 and 16 bits are read and written as words that are shifted, wider ones
/// singly.
bool unaligned(const ir::Function& fn, const ir::Inst& access);
/// For a store of 8- or 16-bit elements whose layout spreads 16 contiguous bytes over neighbouring lanes (accumulators): the layout in which a thread
/// holds them, reached by exchanging registers with these lanes; nullopt when there is no such layout, or 8 bytes lie together as it is.
std::optional<TileLayout> exchanged_layout(const ir::Function& fn, const ir::Inst& store, const TileLayout& l);
/// Any layout: consecutive elements in consecutive threads.
TileLayout plain_layout(const Shape& shape, int warps);

/// Layouts of shape ops: of the operand when the result lies in `l`, and the other way round. nullopt: not related.
std::optional<TileLayout> operand_layout(const ir::Function& fn, const ir::Inst& inst, const TileLayout& l);
std::optional<TileLayout> result_layout(const ir::Function& fn, const ir::Inst& inst, const TileLayout& l);

/// Does every program of the grid load the same elements? They come from caches then.
bool reads_the_same(const ir::Function& fn, const ir::Inst& load);

class Groups {
public:
    /// `simple`: every group gets a plain layout.
    Groups(const ir::Function& fn, const ProductGrids& grids, bool simple);
    /// Is the value cheaper to make again than to convert? (Constants, iota, and short expressions of them.)
    bool cheap(ir::ValueId v) const { return v.v < cost_.size() && cost_[v.v] > 0; }  // placement adds values: they are not
    /// The layout of the value's group.
    const TileLayout& layout(ir::ValueId v) const { return *layouts_.at(find(v)); }

private:
    uint32_t find(ir::ValueId v) const;
    void join(ir::ValueId a, ir::ValueId b);
    bool is_tile(ir::ValueId v) const;
    void measure(ir::InstId id);
    void connect(ir::InstId id);
    void connect_carried(const ir::Inst& inst);
    void anchors(ir::InstId id, int depth);
    void decoded(ir::InstId dot);
    struct Anchor {
        ir::InstId access;  ///< the heaviest
        double weight = 0;
        int bits = 0;  ///< of the widest element that is loaded or stored
    };
    TileLayout anchor_layout(const Anchor& anchor) const;
    void choose();
    void give(uint32_t group, TileLayout layout);
    void spread(uint32_t group);

    const ir::Function& fn_;
    const ProductGrids& grids_;
    bool simple_;
    bool programs_ = false;  ///< do programs ask for their numbers?
    std::vector<int> cost_;  ///< by value: instructions to make it again; 0: not cheap
    mutable std::vector<uint32_t> parent_;
    std::map<uint32_t, std::optional<TileLayout>> layouts_;  ///< by group
    std::map<uint32_t, Anchor> anchors_;
    std::vector<std::pair<ir::ValueId, TileLayout>> products_;
    std::multimap<uint32_t, ir::InstId> relations_;  ///< group -> shape ops that touch it
    std::map<uint32_t, ir::ValueId> member_;         ///< group -> one value
};

}  // namespace tegula
