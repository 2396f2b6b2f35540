// Which products may run on while their loop goes on (late.h).
#include "lower/gpu/late.h"

#include "lang/tensor_core.h"
#include "lower/gpu/channels.h"

namespace tegula {

using namespace ir;

size_t uses(const Function& fn, ValueId v) {
    size_t n = 0;
    for (uint32_t b = 0; b < fn.block_count(); ++b)
        for (const InstId i : fn.block(BlockId{b}).insts)
            for (const ValueId operand : fn.operands(fn.inst(i))) n += operand == v;
    return n;
}

bool may_be_late(const Function& fn, InstId product) {
    const Inst& dot = fn.inst(product);
    const MmaRow& row = product_row(fn, product);
    const bool in_place = row.acc == Fmt::i32 || (row.acc == Fmt::f32 && !promotes(row));
    const InstId loop = fn.block(dot.parent).owner;
    if (dot.op != Op::dot || row.kind != MmaRow::wgmma || !in_place || !loop.valid() || fn.inst(loop).op != Op::for_loop) return false;
    const Block& body = fn.block(dot.parent);
    const ValueId sum = fn.operands(dot)[2], next = fn.result(dot);
    const auto values = fn.operands(fn.inst(body.insts.back()));
    for (size_t k = 0; k < values.size(); ++k)
        if (values[k] == next) return body.args[k + 1] == sum && uses(fn, sum) == 1 && uses(fn, next) == 1 && fn.placement(sum) == fn.placement(next);
    return false;
}

InstId late_stage(const Function& fn, ValueId operand) {
    const Inst* def = fn.def(operand);
    while (def && (def->op == Op::permute || def->op == Op::reshape) && fn.placement(operand).kind == Placement::shared) {
        operand = fn.operands(*def)[0];
        def = fn.def(operand);
    }
    if (!def || def->op != Op::channel_get || !fn.gpu->specialised) return {};
    const GpuChannel* ring = fn.gpu->channel(fn.operands(*def)[0].v);
    return ring && !ring->own && ring->tensor_map >= 0 && ring->stages > 1 ? fn.value(operand).def : InstId{};
}

}  // namespace tegula
