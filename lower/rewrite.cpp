// Look-ups that several passes need (rewrite.h).
#include "lower/rewrite.h"

namespace tegula {

void Rewriter::rebuild(ir::BlockId block) {
    std::vector<ir::InstId> list;
    list.swap(fn_.block(block).insts);
    take(list, block);
}

void Rewriter::take(const std::vector<ir::InstId>& list, ir::BlockId into) {
    for (const ir::InstId id : list) {
        fn_.inst(id).parent = into;
        replaced_.apply(fn_, id);
        if (replace(id, into)) {
            fn_.inst(id).parent = {};
            changed_ = true;
            continue;
        }
        fn_.append(into, id);
        for (uint32_t b = 0; b < fn_.inst(id).blocks.count; ++b) rebuild(fn_.blocks(fn_.inst(id))[b]);
    }
}

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
