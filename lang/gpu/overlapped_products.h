// Which products in tensor memory nobody waits for when they are asked for: one rule for the table of effects and the emitter. A product whose
// operands are stages of rings that nothing else reads needs no thread to wait: its commit gives the stages back, and whoever moves its sum
// between tensor memory and registers waits before.
#pragma once
#include <set>
#include <utility>
#include <vector>

#include "lang/uses.h"

namespace tegula {

class OverlappedProducts {
public:
    explicit OverlappedProducts(const ir::Function& fn);
    /// Are the channel's stages read by products in tensor memory only, and given back by their commits?
    bool gives_back(ir::ValueId channel) const { return channels_.contains(channel.v); }
    /// Is the product not waited for?
    bool overlapped(ir::InstId dot) const { return dots_.contains(dot.v); }
    /// Must a convert wait for products in the columns that it reads or writes?
    bool waits(const ir::Function& fn, ir::InstId convert) const;
    bool any() const { return !dots_.empty(); }

private:
    bool only_for_products(const ir::Function& fn, ir::ValueId channel) const;
    ir::InstId taker(const ir::Function& fn, ir::InstId get) const;
    ir::ValueId channel_of(const ir::Function& fn, ir::ValueId tile) const;

    ir::Uses uses_;
    std::set<uint32_t> channels_, dots_;  ///< by ValueId, by InstId
    std::vector<std::pair<int64_t, int64_t>> columns_;
};

}  // namespace tegula
