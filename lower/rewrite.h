// What passes share: walking a function in program order, and replacing values. A replaced value's uses all come later in program order
// (structured dominance), so a pass that maps operands while it walks sees only final values.
#pragma once
#include <vector>

#include "lang/ir.h"

namespace tegula {

/// Calls `visit(InstId)` for every instruction in `block` and, after an instruction, for those in its blocks.
template <class Visit>
void for_each_inst(const ir::Function& fn, ir::BlockId block, const Visit& visit) {
    for (ir::InstId i : fn.block(block).insts) {
        visit(i);
        const ir::Inst inst = fn.inst(i);
        for (uint32_t b = 0; b < inst.blocks.count; ++b) for_each_inst(fn, fn.blocks(inst)[b], visit);
    }
}

/// Value -> its replacement, followed to the end.
class Replacements {
public:
    void set(ir::ValueId from, ir::ValueId to) {
        if (map_.size() <= from.v) map_.resize(size_t{from.v} + 1);
        map_[from.v] = to;
    }
    ir::ValueId of(ir::ValueId v) const {
        while (v.v < map_.size() && map_[v.v].valid()) v = map_[v.v];
        return v;
    }
    /// Maps the operands of `inst` in place.
    void apply(ir::Function& fn, ir::InstId inst) const {
        for (ir::ValueId& v : fn.operands(fn.inst(inst))) v = of(v);
    }

private:
    std::vector<ir::ValueId> map_;
};

/// Does the instruction, or one in its blocks, have one of these traits?
bool has_trait_within(const ir::Function& fn, ir::InstId inst, uint32_t traits);
/// The code of a constant with equal elements; false when `v` is none.
bool splat_code(const ir::Function& fn, ir::ValueId v, uint64_t& code);
/// A constant of that code (of every element), in front of an instruction.
ir::ValueId insert_constant(ir::Function& fn, ir::InstId before, TypeId type, uint64_t code);
/// The value of a scalar or splat integer constant of at most 64 bits, as i64.
bool constant_int(const ir::Function& fn, ir::ValueId v, int64_t& value);

}  // namespace tegula
