// Look-ups that several passes need (rewrite.h).
#include "lower/rewrite.h"

namespace tegula {

bool has_trait_within(const ir::Function& fn, ir::InstId inst, uint32_t traits) {
    if (ir::op_row(fn.inst(inst).op).traits & traits) return true;
    for (ir::BlockId b : fn.blocks(fn.inst(inst)))
        for (ir::InstId i : fn.block(b).insts)
            if (has_trait_within(fn, i, traits)) return true;
    return false;
}

bool splat_code(const ir::Function& fn, ir::ValueId v, uint64_t& code) {
    const ir::Inst* def = fn.def(v);
    if (!def || def->op != ir::Op::constant || fn.type(v).pointer) return false;
    code = static_cast<uint64_t>(fn.attrs(*def)[0]);
    return true;
}

ir::ValueId insert_constant(ir::Function& fn, ir::InstId before, TypeId type, uint64_t code) {
    const int64_t attr = static_cast<int64_t>(code);
    const ir::InstId made = fn.make(ir::Op::constant, {}, {&type, 1}, {&attr, 1}, fn.inst(before).span);
    fn.insert_before(before, made);
    return fn.result(made);
}

bool constant_int(const ir::Function& fn, ir::ValueId v, int64_t& value) {
    uint64_t code = 0;
    if (!splat_code(fn, v, code) || !fn.elem(v).is_int()) return false;
    value = static_cast<int64_t>(code);
    return true;
}

}  // namespace tegula
