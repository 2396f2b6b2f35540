// Channels: rings of tiles that are copied ahead, clusters that share them, and bulk stores.
#pragma once
#include "lower/kernel/lowering.h"

namespace tegula::lower {

// ---- bulk stores ----
struct BulkStore;
void bulk_store(Lowering& ctx, ir::InstId id);
std::string bulk_reduction(Lowering& ctx, ir::AtomicKind kind, size_t rank);
void bulk_addresses(Lowering& ctx, BulkStore& s, ir::InstId id);
void bulk_box(Lowering& ctx, const BulkStore& s, int64_t row, int64_t column, int64_t slab);
bool reads_memory(const Lowering& ctx, ir::BlockId block,
                  size_t from);                              ///< does an instruction of the block, from that place on?
bool is_last_access(const Lowering& ctx, ir::InstId store);  ///< nothing in the program waits for what it writes

// ---- channels ----
inline Ring& ring(Lowering& ctx, ir::ValueId channel) { return ctx.channels.rings.at(channel.v); }
bool always_paired(const Lowering& ctx, ir::ValueId channel);
bool touches(const Lowering& ctx, ir::InstId region, ir::ValueId channel);
void wait_for_copies(Lowering& ctx, ir::InstId id);
std::vector<Ex> put_coordinates(Lowering& ctx, ir::InstId id, const SharedLayout& l, Ex row, Ex column);
Ex put_condition(Lowering& ctx, ir::InstId id, const std::vector<Ex>& coordinates, int except);
void ring_state(Lowering& ctx, bool producer, bool consumer);  ///< declares the counters of all rings
void advance(Lowering& ctx, Ex stage, Ex phase, int stages);
void give_back(Lowering& ctx, ir::InstId release);  ///< the oldest stage taken
/// Gives back the oldest stage taken under a condition, which says that more than `beyond` stages are taken.
void give_back_if(Lowering& ctx, ir::InstId release, Ex condition, int beyond);
Ex stage_address(const Ring& ring, Ex stage);  ///< unsigned char*
/// C int coordinates of a part's first element, by tensor dimension.
std::vector<Ex> bulk_start(Lowering& ctx, const ir::Inst& access);
/// Name of the tensor map that cuts the access's tensor into boxes of `box` elements: contiguous dimension, then across
/// (-1: none).
std::string bulk_map(Lowering& ctx, const ir::Inst& access, size_t slot, std::array<int, 2> dims,
                     std::array<int64_t, 2> box, int swizzle);
inline Ex address_of_map(Lowering& ctx, const std::string& map) {
    return ctx.pool.text(kernel::Type::other, "&" + map, true);
}
void tma_put(Lowering& ctx, ir::InstId id, Ring& ring);
void thread_put(Lowering& ctx, ir::InstId id, Ring& ring);
// Own rings (channel/own.cpp).
void own_put(Lowering& ctx, ir::InstId id, const Ring& ring, Ex to);
void own_vectors(Lowering& ctx, const Part& part, bool checked, Ex to, const std::string& fill);
void own_get(Lowering& ctx, ir::InstId id, Ring& ring);
Ex own_slot(Lowering& ctx, ir::ValueId tile, Ex stage, Ex r);
ir::ValueId taken_from(const Lowering& ctx, ir::ValueId channel);  ///< the tile that the channel's one get gives
void shared_put(Lowering& ctx, ir::InstId id, const Ring& ring, Ex to);
void copy_chunks(Lowering& ctx, ir::InstId id, const Ring& ring, Ex to);
void copy_elements(Lowering& ctx, ir::InstId id, const Ring& ring, Ex to);
/// Starts the copy of a put to shared memory: `bytes` in all, of which `count` are read.
void start_copy(Lowering& ctx, ir::InstId put, int bytes, Ex to, Ex from, Ex count);
/// Writes text of an element of the type that `like` has.
void store_to_shared(Lowering& ctx, ir::ValueId like, Ex to, const std::string& element);
bool continues(const Lowering& ctx, ir::InstId id,
               bool forward);  ///< does the same op on a copied channel stand next to it?

// ---- clusters ----
bool clustered(const Lowering& ctx);
std::string cluster_rank(Lowering& ctx);             ///< of the program
std::string cluster_place(Lowering& ctx, int axis);  ///< along a grid axis
std::string cluster_number(Lowering& ctx);           ///< of its cluster in the launch
std::string clusters_along(Lowering& ctx, int axis);
std::string clusters_reciprocal(Lowering& ctx, int axis);  ///< KernelParam::grid_reciprocal (control/raster.cpp)
std::string quotient_by_reciprocal(Lowering& ctx);         ///< the function that divides by such a number
std::string over_clusters(Lowering& ctx, const std::string& number,
                          int axis);  ///< the number divided by the clusters along an axis
void share_ring(Lowering& ctx, Ring& ring);
void block_in_cluster(Lowering& ctx, ir::BlockId id);

}  // namespace tegula::lower
