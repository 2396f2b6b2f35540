// Decoding of an access' operands (access_operands.h), as the op's row and its flags list them.
#include "lang/access_operands.h"

namespace tegula::ir {

namespace {

bool is_pointer_access(Op op) { return op == Op::ptr_load || op == Op::ptr_store || op == Op::ptr_atomic; }

bool takes_value(Op op) { return op == Op::store || op == Op::deposit || op == Op::atomic || op == Op::ptr_store || op == Op::ptr_atomic; }

}  // namespace

bool is_access(Op op) { return is_pointer_access(op) || takes_value(op) || op == Op::load || op == Op::extract || op == Op::channel_put; }

AccessOperands::AccessOperands(const Function& fn, const Inst& inst) {
    const bool pointers = is_pointer_access(inst.op);
    const std::span<const ValueId> operands = fn.operands(inst);
    if (pointers)
        access.flags = fn.attrs(inst)[0];
    else
        access = fn.access(inst);
    object = operands[0];
    uint32_t at = 1;
    const auto next = [&] {
        const Operand out{operands[at], at};
        ++at;
        return out;
    };
    for (size_t a = 0; a < access.axes.size(); ++a)
        if (access.axes[a].kind != Access::all) index[a] = next();
    first = at;
    if (takes_value(inst.op)) value = next();
    const bool atomic = inst.op == Op::atomic || inst.op == Op::ptr_atomic;
    if (atomic && static_cast<AtomicKind>(fn.attrs(inst)[1]) == AtomicKind::cas) expected = next();
    const bool has_other = access.flags & Access::has_other, has_mask = access.flags & Access::has_mask;
    if (has_other && !pointers) other = next();
    if (has_mask) mask = next();
    if (has_other && pointers) other = next();
    if (inst.op == Op::channel_put) channel = next();
}

AccessPart::AccessPart(const Function& fn, const AccessOperands& operands) {
    const std::vector<Access::Axis>& axes = operands.access.axes;
    for (size_t a = 0; a < axes.size(); ++a)
        if (axes[a].kind == Access::gather) joint = *broadcast(joint, fn.type(operands.index[a].value).shape);
    int gathers = -1;
    for (size_t a = 0; a < axes.size(); ++a) {
        dim[a] = axes[a].kind == Access::index ? -1 : static_cast<int8_t>(shape.rank);
        if (axes[a].kind == Access::range || axes[a].kind == Access::all) shape.push(axes[a].extent);
        if (axes[a].kind != Access::gather) continue;
        if (gathers < 0) {
            gathers = shape.rank;
            for (const int64_t extent : joint) shape.push(extent);
        }
        dim[a] = static_cast<int8_t>(gathers);
    }
}

}  // namespace tegula::ir
