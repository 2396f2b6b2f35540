// Which products may run on while their loop goes on (late.h).
#include "lower/gpu/late.h"

#include "lang/tensor_core.h"
#include "lower/gpu/channels.h"

namespace tegula {

using namespace ir;

bool may_be_late(const Function& fn, const Uses& uses, InstId product) {
    const Inst& dot = fn.inst(product);
    const MmaRow& row = product_row(fn, product);
    const bool in_place = row.acc == Fmt::i32 || (row.acc == Fmt::f32 && !promotes(row));
    const InstId loop = fn.block(dot.parent).owner;
    if (dot.op != Op::dot || row.kind != MmaRow::wgmma || !in_place || !loop.valid() || fn.inst(loop).op != Op::for_loop) return false;
    const Block& body = fn.block(dot.parent);
    const ValueId sum = fn.operands(dot)[2], next = fn.result(dot);
    const auto values = fn.operands(fn.inst(body.insts.back()));
    for (size_t k = 0; k < values.size(); ++k)
        if (values[k] == next)
            return body.args[k + 1] == sum && uses.count(sum) == 1 && uses.count(next) == 1 && fn.placement(sum) == fn.placement(next);
    return false;
}

InstId late_stage(const Function& fn, ValueId operand) {
    operand = fn.viewed(operand);
    const Inst* def = fn.def(operand);
    if (!def || def->op != Op::channel_get || !fn.gpu->specialised) return {};
    const GpuChannel* ring = fn.gpu->channel(fn.operands(*def)[0].v);
    return ring && !ring->own && ring->tensor_map >= 0 && ring->stages > 1 ? fn.value(operand).def : InstId{};
}

}  // namespace tegula
