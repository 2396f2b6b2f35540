// Widths of accesses to tensors (wide_access.h).
#include "lang/gpu/wide_access.h"

#include <algorithm>

#include "lang/access_operands.h"
#include "lang/gpu/layout_pieces.h"
#include "lang/layout.h"

namespace tegula {

using ir::Access;

namespace {

constexpr uint64_t kLargeStep = uint64_t{1} << 38;  ///< from here on coordinate * step may leave 64 bits, and no bound of a whole tile is told

/// The dimension of unit stride of a tensor's storage; -1: there is none, or the host's strides decide.
int contiguous_axis(const ir::Function& form, size_t param, const Type& type) {
    const Layout::Kind kind = form.types().layout(type.layout).kind();
    const bool strided = param < form.gpu->tensors.size() && form.gpu->tensors[param].strided;
    if (strided || type.shape.rank == 0 || (kind != Layout::Kind::row && kind != Layout::Kind::col)) return -1;
    return kind == Layout::Kind::col ? 0 : type.shape.rank - 1;
}

bool is_range(const Access::Axis& a) { return a.kind == Access::range || a.kind == Access::all; }

}  // namespace

bool is_additive(const TileLayout& l, int d) { return (register_bits(l, d) & thread_bits(l, d)) == 0; }

WideAccess wide_access(const ir::Function& form, ir::InstId id, ir::ValueId value) {
    const ir::Inst& inst = form.inst(id);
    const ir::ValueId tensor = form.operands(inst)[0];
    const auto found = std::find_if(form.params.begin(), form.params.end(), [&](const ir::Param& p) { return p.value == tensor; });
    const auto param = static_cast<size_t>(found - form.params.begin());
    const ir::AccessOperands operands(form, inst);
    const Access& access = operands.access;
    const Format& f = form.elem(tensor);
    const int axis = contiguous_axis(form, param, form.type(tensor));
    if (axis < 0 || param >= form.gpu->tensors.size() || inst.op == ir::Op::atomic || operands.mask) return {};
    if (form.type(value).shape.rank == 0 || is_bit_addressed(f)) return {};
    for (const Access::Axis& a : access.axes) {
        const uint64_t step = a.step < 0 ? 0 - static_cast<uint64_t>(a.step) : static_cast<uint64_t>(a.step);
        if (a.kind == Access::range && !a.in_bounds && step >= kLargeStep) return {};
    }
    const Access::Axis& along = access.axes[static_cast<size_t>(axis)];
    const bool aligned = form.gpu->tensors[param].aligned;
    const auto element = static_cast<int>(f.container_bytes());
    if (!is_range(along) || along.step != 1 || (!aligned && element >= 4)) return {};
    const TileLayout& l = form.placement(value).regs;
    const int d = ir::AccessPart(form, operands).dim[static_cast<size_t>(axis)];
    int vector = std::min(vector_width(l, d), 16 / element);
    while (vector > 1 && l.shape[static_cast<size_t>(d)] % vector) vector /= 2;
    if (vector < 2 || !is_additive(l, d) || (!aligned && vector * element < 4)) return {};
    return {vector, axis, !aligned};
}

}  // namespace tegula
