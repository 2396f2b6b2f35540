// Which sums of products lie in tensor memory, and in which columns of it (private to lower/gpu). tcgen05 overwrites the sum that it adds to, so a
// sum is handed on in place: from product to product, and around a loop that does nothing else with it. Reads in between are fine: each value is
// read right behind its definition.
#pragma once
#include <functional>
#include <vector>

#include "lang/ir.h"

namespace tegula {

class TensorSlots {
public:
    /// `row_of`: the row of a dot, 0: none yet.
    TensorSlots(const ir::Function& fn, const std::function<int(ir::InstId)>& row_of);
    /// First column of the slot that the value lies in; -1: it lies in registers.
    int column(ir::ValueId v) const { return v.v < column_.size() ? column_[v.v] : -1; }
    int64_t columns() const { return next_; }  ///< of all slots

private:
    struct Use {
        ir::InstId inst;
        uint32_t operand = 0;
    };
    bool in_place(ir::InstId dot) const { return products_[dot.v]; }
    ir::BlockId home(ir::ValueId v) const;
    bool handed_on(ir::ValueId v, ir::InstId to) const;
    bool carried(ir::InstId loop, uint32_t k) const;
    int fresh(ir::ValueId v);

    const ir::Function& fn_;
    std::vector<bool> products_;            ///< by instruction
    std::vector<std::vector<Use>> takers_;  ///< by value: products that add to it, loops that start with it, yields
    std::vector<int> column_;
    int64_t next_ = 0;
};

}  // namespace tegula
