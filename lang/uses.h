// Who uses which value: lists made in one walk over a function, for a pass or an analysis that asks often.
#pragma once
#include <span>
#include <vector>

#include "lang/ir.h"

namespace tegula::ir {

/// An operand of an instruction.
struct Use {
    InstId inst;
    uint32_t operand = 0;
    friend bool operator==(const Use&, const Use&) = default;
};

/// The uses of every value in the function's blocks, as they were when the lists were made: values that were made later have none, and operands that
/// were set later are not followed.
class Uses {
public:
    explicit Uses(const Function& fn);
    /// In program order; an instruction that takes the value twice stands there twice.
    std::span<const Use> of(ValueId v) const {
        if (v.v + size_t{1} >= first_.size()) return {};
        return {uses_.data() + first_[v.v], first_[v.v + 1] - first_[v.v]};
    }
    size_t count(ValueId v) const { return of(v).size(); }
    /// The instruction of the value's only use; invalid where it has none or several.
    InstId only_user(ValueId v) const { return count(v) == 1 ? of(v)[0].inst : InstId{}; }

private:
    std::vector<uint32_t> first_;  ///< by value, and one behind the last: where its uses begin
    std::vector<Use> uses_;
};

}  // namespace tegula::ir
