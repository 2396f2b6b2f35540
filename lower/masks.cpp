// Masks: proves access axes in bounds from `where` facts, grid and loop bounds (bounds.h), so that back ends need no check there; drops masks
// that are surely true, `else` values that nothing can read, and remainders that are surely zero (is a slice along blocks aligned to them?).
#include <algorithm>

#include "lang/access_operands.h"
#include "lower/bounds.h"
#include "lower/lower.h"
#include "lower/rewrite.h"

namespace tegula {

namespace {

using namespace ir;

class MaskPass {
public:
    MaskPass(Function& fn, const PassOptions& options) : fn_(fn), bounds_(fn, options) {}

    bool run() {
        fn_.walk([&](InstId i) {
            switch (fn_.inst(i).op) {
                case Op::load:
                case Op::store:
                case Op::atomic:
                case Op::extract:
                case Op::deposit:
                    access(i);
                    break;
                case Op::ptr_load:
                case Op::ptr_store:
                case Op::ptr_atomic:
                    pointer_mask(i);
                    break;
                case Op::rem:
                    if (is_zero(i)) zeros_.push_back(i);
                    break;
                default:
                    break;
            }
        });
        for (const InstId i : zeros_) {
            const ValueId old = fn_.result(fn_.inst(i));
            fn_.replace_uses(old, insert_constant(fn_, i, fn_.type_of(old), 0));
            changed_ = true;
        }
        return changed_;
    }

private:
    using Operand = AccessOperands::Operand;

    bool proved(ValueId object, size_t d, const Access::Axis& axis, ValueId start) {
        const auto first = bounds_.exact(start), extent = bounds_.extent(object, d);
        if (!first || !extent) return false;
        int64_t reach = 0;
        if (axis.kind == Access::range && __builtin_mul_overflow(axis.extent - 1, axis.step, &reach)) return false;
        const int64_t low = std::min<int64_t>(reach, 0), high = std::max<int64_t>(reach, 0);
        return bounds_.at_least(*first, {}, -low) && bounds_.at_least(*extent, *first, high + 1);
    }
    bool is_zero(InstId id) {
        int64_t by = 0;
        const auto operands = fn_.operands(fn_.inst(id));
        return constant_int(fn_, operands[1], by) && by > 0 && bounds_.divisible(operands[0], by);
    }
    void access(InstId id);
    void pointer_mask(InstId id);
    /// Takes a mask and an other value, where they are given, from an access.
    void drop(InstId id, Operand mask, Operand other) {
        if (!mask && !other) return;
        std::vector<ValueId> operands(fn_.operands(fn_.inst(id)).begin(), fn_.operands(fn_.inst(id)).end());
        std::vector<int64_t> attrs(fn_.attrs(fn_.inst(id)).begin(), fn_.attrs(fn_.inst(id)).end());
        for (const uint32_t at : {std::max(mask.at, other.at), std::min(mask.at, other.at)})
            if (at) operands.erase(operands.begin() + at);
        attrs[0] &= ~((mask ? int64_t{Access::has_mask} : 0) | (other ? int64_t{Access::has_other} : 0));
        fn_.set_operands(id, operands);
        fn_.set_attrs(id, attrs);
        changed_ = true;
    }

    Function& fn_;
    Bounds bounds_;
    std::vector<InstId> zeros_;
    bool changed_ = false;
};

void MaskPass::access(InstId id) {
    const Inst inst = fn_.inst(id);
    const AccessOperands operands(fn_, inst);
    bool all_inside = true;
    std::vector<int64_t> attrs(fn_.attrs(inst).begin(), fn_.attrs(inst).end());
    const size_t first = inst.op == Op::atomic ? 4 : 1;
    for (size_t d = 0; d < operands.access.axes.size(); ++d) {
        const Access::Axis& axis = operands.access.axes[d];
        const bool scalar = axis.kind == Access::index || axis.kind == Access::range;
        const bool newly = scalar && !axis.in_bounds && proved(operands.object, d, axis, operands.index[d].value);
        if (newly) attrs[first + 4 * d + 3] = 1;
        changed_ |= newly;
        all_inside &= newly || axis.in_bounds || axis.kind == Access::all;
    }
    fn_.set_attrs(id, attrs);
    const bool always = operands.mask && bounds_.always_true(operands.mask.value);
    drop(id, always ? operands.mask : Operand(), all_inside && (always || !operands.mask) ? operands.other : Operand());
}

/// A true mask goes, and with it the value for masked lanes.
void MaskPass::pointer_mask(InstId id) {
    const AccessOperands operands(fn_, fn_.inst(id));
    if (!operands.mask || bounds_.always_true(operands.mask.value)) drop(id, operands.mask, operands.other);
}

}  // namespace

bool masks(ir::Function& fn, const PassOptions& options) { return MaskPass(fn, options).run(); }

}  // namespace tegula
