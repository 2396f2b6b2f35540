// Slots of tensor memory (tensor_slots.h): one walk in program order, in which a product or loop takes over the slot of the value it starts from.
// Slots lie side by side: a kernel's sums are few, and those that do not fit go to mma.sync.
#include "lower/gpu/tensor_slots.h"

#include "lang/gpu/tensor_memory.h"
#include "lang/target.h"
#include "lower/rewrite.h"

namespace tegula {

using namespace ir;

TensorSlots::TensorSlots(const Function& fn, const std::function<int(InstId)>& row_of)
    : fn_(fn), products_(fn.inst_count()), takers_(fn.value_count()), column_(fn.value_count(), -1) {
    fn.walk([&](InstId id) {
        const Inst& inst = fn.inst(id);
        products_[id.v] =
            inst.op == Op::dot && fn.type(fn.result(inst)).shape.rank == 2 && fn.row(row_of(id)).kind == MmaRow::tcgen05;
        const auto operands = fn.operands(inst);
        for (uint32_t o = 0; o < operands.size(); ++o)
            if ((in_place(id) && o == 2) || inst.op == Op::for_loop || inst.op == Op::yield) takers_[operands[o].v].push_back({id, o});
    });
    fn.walk([&](InstId id) {
        const Inst& inst = fn.inst(id);
        const auto operands = fn.operands(inst);
        if (in_place(id)) column_[fn.result(inst).v] = handed_on(operands[2], id) ? column(operands[2]) : fresh(fn.result(inst));
        if (inst.op != Op::for_loop) return;
        for (uint32_t k = 0; k < inst.results.count; ++k) {
            if (!carried(id, k)) continue;
            const ValueId arg = fn.block(fn.blocks(inst)[0]).args[k + 1], start = operands[k + 3];
            column_[arg.v] = column_[fn.result(inst, k).v] = handed_on(start, id) ? column(start) : fresh(arg);
        }
    });
}

BlockId TensorSlots::home(ValueId v) const {
    const InstId def = fn_.value(v).def;
    return def.valid() ? fn_.inst(def).parent : fn_.value(v).block;
}

/// Does the value lie in a slot, and does `to`, in the same block, take it and nobody else?
bool TensorSlots::handed_on(ValueId v, InstId to) const { return column(v) >= 0 && takers_[v.v].size() == 1 && home(v) == fn_.inst(to).parent; }

/// Is carried value k handed from product to product through the loop's body, to the next trip?
bool TensorSlots::carried(InstId loop, uint32_t k) const {
    ValueId v = fn_.block(fn_.blocks(fn_.inst(loop))[0]).args[k + 1];
    for (bool product = false;; product = true) {
        if (takers_[v.v].size() != 1) return false;
        const Use use = takers_[v.v][0];
        const Inst& inst = fn_.inst(use.inst);
        if (home(v) != inst.parent) return false;
        if (inst.op == Op::yield) return product && fn_.block(inst.parent).owner == loop && use.operand == k;
        if (inst.op == Op::for_loop && (use.operand < 3 || !carried(use.inst, use.operand - 3))) return false;
        v = fn_.result(inst, inst.op == Op::for_loop ? use.operand - 3 : 0);
    }
}

int TensorSlots::fresh(ValueId v) {
    const int64_t at = next_;
    next_ += tensor_columns(fn_.type(v).shape);
    return static_cast<int>(at);
}

}  // namespace tegula
