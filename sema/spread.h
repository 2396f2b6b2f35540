// From one element to all: a block of IR over scalars becomes operations on tiles, whose every element is what the block makes of one (internal to
// sema). What `map` is given is elaborated for one element, with branches and loops, and spread by this.
#pragma once
#include <functional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "lang/ir.h"

namespace tegula::sema {

/// A value is uniform when no element of the mapped tiles takes part in it: it is computed once, whatever its shape. All others vary, and each
/// becomes a tile of the common shape. Branches are taken by all elements under a predicate, and what each way gives is selected; a loop runs
/// until no element wants another pass. An operation that may fail, or touch memory, sees operands that are harmless, or a mask, where the
/// predicate is false.
class Spread {
public:
    using Refuse = std::function<void(Span span, const std::string& why)>;
    Spread(ir::Builder& to, const Shape& shape, Refuse refuse) : to_(to), fn_(to.fn()), shape_(shape), refuse_(std::move(refuse)) {}
    /// Emits what `block` does where the builder stands, with `tiles` for its arguments, and gives what it yields, as tiles of the common shape.
    /// Empty after a report. The block is emptied: nothing runs it.
    std::vector<ir::ValueId> run(ir::BlockId block, const std::vector<ir::ValueId>& tiles);

private:
    std::vector<ir::ValueId> body(ir::BlockId block, ir::ValueId mask);
    void inst(ir::InstId id);
    void clone(const ir::Inst& inst);
    void once(const ir::Inst& inst);
    ir::BlockId cloned_block(ir::BlockId from);
    bool depends(const ir::Inst& inst) const;
    ir::ValueId of(ir::ValueId v) const;
    void set(ir::ValueId from, ir::ValueId to, bool varies);
    bool varies(ir::ValueId v) const { return varying_.contains(v.v); }
    ir::ValueId wide(ir::ValueId v);
    TypeId wide_type(ir::ValueId v) const;
    ir::ValueId number(ir::ValueId like, int64_t n);
    ir::ValueId both(ir::ValueId a, ir::ValueId b);
    ir::ValueId any_element();
    ir::ValueId mask_of(const Shape& shape, bool varying);
    ir::ValueId harmless(ir::ValueId v, int64_t instead, bool varying);
    bool fail(Span span, const std::string& why);
    std::vector<ir::ValueId> operands(const ir::Inst& inst, bool varying);
    void guard_operands(const ir::Inst& inst, std::vector<ir::ValueId>& operands, bool varying);
    void pointwise(const ir::Inst& inst);
    void access(const ir::Inst& inst);
    void pointers(const ir::Inst& inst);
    void claim(const ir::Inst& inst);
    void choice(const ir::Inst& inst);
    void while_loop(const ir::Inst& inst);
    void counted(const ir::Inst& inst);
    void passes(const ir::Inst& inst);
    std::vector<ir::ValueId> carried(const ir::Inst& inst, size_t skip);
    void kept(const std::vector<ir::ValueId>& before, std::vector<ir::ValueId>& next, ir::ValueId where);

    ir::Builder& to_;
    ir::Function& fn_;
    const Shape shape_;
    Refuse refuse_;
    bool failed_ = false;
    ir::ValueId mask_;  ///< elements that get here; invalid: all
    std::unordered_map<uint32_t, ir::ValueId> made_;
    std::unordered_set<uint32_t> varying_;  ///< of the scalar block's values
};

}  // namespace tegula::sema
