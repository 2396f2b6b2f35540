// Do two scalars of the producer and of the consumer, which run at their own speed, have the same value whenever both stand at the same place
// of their copy of the program? Used by the proof that puts and gets match.
#pragma once
#include <map>
#include <set>
#include <vector>

#include "lower/gpu/channels.h"

namespace tegula {

/// Equality by bisimulation: a pair of values is equal when their definitions agree under the assumption that the pairs of their operands are
/// equal; loops are paired one to one, and paired loops run in step because their bounds are such pairs. Soundness: by induction on the number of
/// instructions executed, where every assumption is about a value that was computed before.
class Twins {
public:
    Twins(const ir::Function& fn, const Writes& writes) : fn_(fn), writes_(writes) {}
    /// Adds the claim a == b (a of the producer, b of the consumer); false when it, or what it follows from, does not hold.
    bool same(ir::ValueId a, ir::ValueId b);
    /// Adds the claim that the loops make the same trips.
    bool pair_loops(ir::InstId a, ir::InstId b);

private:
    bool settle();
    bool agree(ir::ValueId a, ir::ValueId b);
    bool agree_results(ir::InstId a, ir::InstId b, uint32_t i, uint32_t j);
    bool agree_carried(const ir::Inst& a, const ir::Inst& b, uint32_t i, uint32_t j);
    bool assume_loops(ir::InstId a, ir::InstId b);
    bool agree_plain(const ir::Inst& a, const ir::Inst& b, ir::InstId b_id);
    ir::ValueId end_of(ir::BlockId block, uint32_t k) const { return fn_.operands(fn_.inst(fn_.block(block).insts.back()))[k]; }

    const ir::Function& fn_;
    const Writes& writes_;
    std::set<std::pair<uint32_t, uint32_t>> claimed_;
    std::vector<std::pair<ir::ValueId, ir::ValueId>> work_;
    std::map<uint32_t, uint32_t> loop_of_a_, loop_of_b_;
};

}  // namespace tegula
