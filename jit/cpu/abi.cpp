// The argument block's shape (abi.h).
#include "jit/cpu/abi.h"

#include "jit/cpu/memory_order.h"

namespace tegula::cpu {

ArgLayout make_arg_layout(const ir::Function& fn, const std::vector<TensorTrait>& traits) {
    ArgLayout out;
    for (size_t i = 0; i < fn.params.size(); ++i) {
        const Type& t = fn.type(fn.params[i].value);
        ParamSlots p;
        p.first = out.slots;
        if (t.kind == Type::tensor) {
            p.kind = ParamSlots::tensor;
            const uint32_t rank = t.shape.rank;
            const Layout& layout = fn.types().layout(t.layout);
            p.affine = layout.kind() == Layout::Kind::strides || permutation(layout, rank) || (i < traits.size() && traits[i].strided);
            p.members = p.affine ? rank : static_cast<uint32_t>(layout.physical(static_cast<int>(rank)).size());
            p.extents = p.first + 3;
            p.strides = p.extents + rank;
            p.count = 3 + rank + p.members;
        } else if (t.pointer) {
            p.kind = ParamSlots::pointer;
            p.count = 3;
        }
        out.slots += p.count;
        out.params.push_back(p);
    }
    return out;
}

}  // namespace tegula::cpu
