// Facts about order among programs (program_order.h).
#include "lang/program_order.h"

namespace tegula::ir {

bool orders_accesses(const Function& fn, const Inst& inst) {
    if (inst.op == Op::grid_barrier) return true;
    return is_atomic(inst.op) && static_cast<MemoryOrder>(fn.attrs(inst)[2]) != MemoryOrder::relaxed;
}

ProgramOrder program_order(const Function& fn) {
    ProgramOrder out;
    out.together = find_hint(fn.hints, "cooperative") != nullptr;
    fn.walk([&](InstId id) {
        const Inst& inst = fn.inst(id);
        if (inst.op == Op::grid_barrier) out.meets = out.orders = true;
        if (!is_atomic(inst.op)) return;
        out.atomics = true;
        out.orders = out.orders || (orders_accesses(fn, inst) && static_cast<MemoryScope>(fn.attrs(inst)[3]) != MemoryScope::cta);
        for (BlockId at = inst.parent; at.valid();) {
            const InstId owner = fn.block(at).owner;
            if (!owner.valid()) break;
            out.polls = out.polls || fn.inst(owner).op == Op::while_loop;
            at = fn.inst(owner).parent;
        }
    });
    return out;
}

}  // namespace tegula::ir
