// What passes share: replacing values and instructions. A replaced value's uses all come later in program order (structured dominance), so a pass
// that maps operands while it walks sees only final values.
#pragma once
#include <vector>

#include "lang/ir.h"

namespace tegula {

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

/// A walk that builds every block anew: instruction by instruction, in program order, each with its final operands.
class Rewriter {
public:
    explicit Rewriter(ir::Function& fn) : fn_(fn) {}
    virtual ~Rewriter() = default;
    /// Returns whether it changed anything.
    bool run() {
        rebuild(fn_.body);
        return changed_;
    }

protected:
    /// Looks at the instruction that is next in block `into`. True: it is left out, its results are replaced, and what stands in for it has been
    /// appended to `into`. What it owns is visited where it stays, and later.
    virtual bool replace(ir::InstId id, ir::BlockId into) = 0;
    /// Visits `list`, instructions of blocks that are left out themselves, as if they stood next in `into`.
    void take(const std::vector<ir::InstId>& list, ir::BlockId into);

    ir::Function& fn_;
    Replacements replaced_;
    bool changed_ = false;

private:
    void rebuild(ir::BlockId block);
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
