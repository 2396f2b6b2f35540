// Lists of uses (uses.h): counted in a first walk, written side by side in a second one.
#include "lang/uses.h"

namespace tegula::ir {

Uses::Uses(const Function& fn) : first_(fn.value_count() + 1) {
    fn.walk([&](InstId id) {
        for (const ValueId v : fn.operands(fn.inst(id))) ++first_[v.v];
    });
    uint32_t behind = 0;
    for (uint32_t& first : first_) first = behind += first;
    uses_.resize(behind);
    // From behind: when all of a value's uses are written, `first_` stands at the first one.
    std::vector<InstId> order;
    fn.walk([&](InstId id) { order.push_back(id); });
    for (auto id = order.rbegin(); id != order.rend(); ++id) {
        const std::span<const ValueId> operands = fn.operands(fn.inst(*id));
        for (uint32_t o = static_cast<uint32_t>(operands.size()); o-- > 0;) uses_[--first_[operands[o].v]] = {*id, o};
    }
}

}  // namespace tegula::ir
