// Sizes and the zeros that are not stored (tensor_memory.h).
#include "lang/gpu/tensor_memory.h"

#include <algorithm>
#include <bit>

namespace tegula {

using namespace ir;

namespace {

constexpr int kLeastColumns = 32;  ///< of an allocation

bool is_zero(const Function& fn, ValueId v) {
    const Inst* def = fn.def(v);
    return def && def->op == Op::constant && fn.attrs(*def)[0] == 0;
}

}  // namespace

int allocated_columns(const GpuForm& form) {
    int64_t end = 0;
    for (const Placement& p : form.placements)
        if (p.kind == Placement::tensor) end = std::max(end, p.tmem.column + tensor_columns(p.tmem.shape));
    return end ? std::max(kLeastColumns, static_cast<int>(std::bit_ceil(static_cast<uint64_t>(end)))) : 0;
}

bool is_skipped_zero(const Function& fn, const Uses& uses, InstId convert) {
    const Inst& inst = fn.inst(convert);
    if (inst.op != Op::convert || !in_tensor_memory(fn, fn.result(inst)) || !is_zero(fn, fn.operands(inst)[0])) return false;
    const InstId user = uses.only_user(fn.result(inst));
    return user.valid() && fn.inst(user).op == Op::dot && fn.inst(user).parent == inst.parent;
}

bool starts_from_zero(const Function& fn, const Uses& uses, InstId dot) {
    const ValueId acc = fn.operands(fn.inst(dot))[2];
    const InstId def = fn.value(acc).def;
    return def.valid() && is_skipped_zero(fn, uses, def);
}

}  // namespace tegula
