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

bool is_skipped_zero(const Function& fn, InstId convert) {
    const Inst& inst = fn.inst(convert);
    if (inst.op != Op::convert || !in_tensor_memory(fn, fn.result(inst)) || !is_zero(fn, fn.operands(inst)[0])) return false;
    const Inst* user = nullptr;
    int64_t uses = 0;
    for (uint32_t b = 0; b < fn.block_count(); ++b)
        for (const InstId id : fn.block(BlockId{b}).insts) {
            const auto operands = fn.operands(fn.inst(id));
            const auto n = std::count(operands.begin(), operands.end(), fn.result(inst));
            if (n) user = &fn.inst(id);
            uses += n;
        }
    return uses == 1 && user->op == Op::dot && user->parent == inst.parent;
}

bool starts_from_zero(const Function& fn, InstId dot) {
    const ValueId acc = fn.operands(fn.inst(dot))[2];
    const InstId def = fn.value(acc).def;
    return def.valid() && is_skipped_zero(fn, def);
}

}  // namespace tegula
