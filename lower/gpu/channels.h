// How make_channels works (private to channels*.cpp): which loads become channels, what the producer must compute for them, and the two forms
// of the result: a producer and a consumer (channels_slice.cpp), or copies issued ahead in one loop (channels_ahead.cpp).
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "lower/gpu/gpu.h"

namespace tegula {

/// One load that feeds products, or that a persistent form starts early.
struct ChannelPlan {
    ir::InstId load;
    std::string why_not;  ///< empty: it becomes a channel
    bool tma = false;
    std::optional<TileLayout> own;  ///< an own ring: how threads read the tile
    ir::InstId loop;                ///< the innermost one around the load; invalid: none
    ir::InstId last_use;            ///< in the load's own block: the instruction that uses the tile last, or holds that use
    int stages = 1;
    SharedLayout layout;
    unsigned multicast = 0;  ///< GpuChannel::multicast
};
/// Every load whose tile goes to tensor-core products only, in program order, with the decision. In a persistent form without products instead: the
/// loads of whole vectors that depend on the program's number and launch arguments only, each copied ahead by the threads that will read it.
std::vector<ChannelPlan> plan_channels(const ir::Function& fn, const GpuOptions& options);

/// Where the memory behind tensors may change: what is read before a write must not be read ahead of it.
class Writes {
public:
    Writes(const ir::Function& fn, bool may_alias);
    /// May a write reach the tensor that `load` reads before the load on some path, later iterations of common loops included?
    bool may_precede(ir::InstId load) const { return may_precede(fn_.operands(fn_.inst(load))[0], load); }
    /// The same for a read of `tensor` where `at` stands.
    bool may_precede(ir::ValueId tensor, ir::InstId at) const;
    /// May any write of the program, earlier or later, reach `tensor`?
    bool may_reach(ir::ValueId tensor) const;

private:
    struct Write {
        uint32_t order;
        ir::InstId inst;
        ir::ValueId tensor;  ///< invalid: any
    };
    bool common_loop(ir::InstId a, ir::InstId b) const;
    bool may_meet(const Write& w, ir::ValueId tensor) const { return !w.tensor.valid() || w.tensor == tensor || may_alias_; }
    const ir::Function& fn_;
    bool may_alias_;
    std::vector<Write> writes_;
    std::vector<uint32_t> order_;
};

/// The scalar part of a function that decides which copies happen, and where from.
class Slice {
public:
    Slice(const ir::Function& fn, const Writes& writes) : fn_(fn), writes_(writes), inst_(fn.inst_count()), value_(fn.value_count()) {}
    /// Adds what a load's control and indices need. Not empty: why that cannot be computed ahead of the tiles.
    std::string add(ir::InstId load);
    bool needs(ir::InstId i) const { return inst_[i.v]; }
    bool needs(ir::ValueId v) const { return value_[v.v]; }
    /// Is member `k` (of a loop's carried values) kept?
    bool keeps(const ir::Inst& loop, uint32_t k) const;

private:
    void want(ir::ValueId v);
    void want_control(ir::BlockId block);
    void spread(ir::ValueId v);
    void spread_argument(const ir::Value& value);
    void spread_result(const ir::Inst& inst, uint32_t index);
    void want_carried(const ir::Inst& loop, uint32_t k);
    const ir::Function& fn_;
    const Writes& writes_;
    std::vector<bool> inst_, value_;
    std::vector<ir::ValueId> work_;
    std::string problem_;
};

/// Bit d: the tiles that `copy` (a load or a put) brings, their order or their number may differ between programs that differ along grid axis d.
unsigned differing_axes(const ir::Function& fn, const Writes& writes, ir::InstId copy);
/// The size of the cluster, and `multicast` of the plans that share tiles in it; all 1 where the attribute `cluster` cannot be followed.
std::array<int, 3> plan_cluster(const ir::Function& fn, const GpuOptions& options, std::vector<ChannelPlan>& plans);
/// Proves that the programs of a cluster put the same tiles into the channels that they share.
void prove_cluster(const ir::Function& fn, const GpuOptions& options, const Writes& writes,
                   const std::function<void(ir::InstId, const std::string&)>& problem);

struct LoopParts {
    ir::InstId loop;
    ir::BlockId body;
    ir::ValueId lo, hi, counter;
    int64_t step = 0;  ///< 0: not a constant in range
};
/// Of a for_loop.
LoopParts parts_of(const ir::Function& fn, ir::InstId loop);
/// The instructions of the body that compute the indices of `load`, in order; false when they need more than the counter and scalars from outside.
bool index_slice(const ir::Function& fn, const LoopParts& loop, ir::InstId load, std::vector<ir::InstId>& out);

/// Splits the body: block 0 copies, block 1 is the rest with the loads taken from channels.
void split_producer(ir::Function& fn, const std::vector<ChannelPlan>& plans, const Writes& writes);
/// The loads of a persistent form without products that get own rings (channels_own.cpp).
std::vector<ChannelPlan> plan_own_rings(const ir::Function& fn, const GpuOptions& options, const Writes& writes);
/// Can threads whose tile lies in `l` copy it for themselves, by at least `bytes` at a time along dimension `d`, every element once?
bool suits_own_ring(const ir::Function& fn, ir::ValueId tile, const TileLayout& l, int d, int64_t bytes);
/// Can the load's copies be issued ahead of their loop's trips, by the threads that compute? Empty, or why not.
std::string ahead_problem(const ir::Function& fn, const GpuOptions& options, const ChannelPlan& plan);
/// Does that: a trip takes its tiles, then starts the copies of the trip `stages - 1` later (`stages` of an own ring, which is free when it has been
/// read); the first ones start before the loop.
void issue_ahead(ir::Function& fn, const std::vector<ChannelPlan>& plans);
/// Proves of a function in one thread group that copy number n of every channel is the one of trip number n of its loop, and finds a free stage.
void prove_ahead(const ir::Function& fn, const GpuOptions& options, const Writes& writes,
                 const std::function<void(ir::InstId, const std::string&)>& problem);

/// Replaces the load by a get that stands in front of `where`, with the release behind the last use.
void take_from_channel(ir::Function& fn, const ChannelPlan& plan, ir::ValueId channel, ir::InstId where);
/// The `channel` instruction (in no block yet), entered into the function's GpuForm. `tensor_map` -1: copied by threads.
ir::InstId make_channel(ir::Function& fn, const ChannelPlan& plan, int tensor_map);
/// Grows the tables of the GpuForm to the function's present size.
void grow_form(ir::Function& fn);

}  // namespace tegula
