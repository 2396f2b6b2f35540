// How operands of products lie in memory, and whether the micro-kernel reads them there (product.h).
#include "jit/cpu/memory_order.h"
#include "jit/cpu/product.h"

namespace tegula::cpu {

bool is_chain_operand(const ir::Function& fn, ir::ValueId operand, Product::Chain chain) {
    const FormatId id = fn.type(operand).elem;
    const Format& f = fn.elem(operand);
    switch (chain) {
        case Product::f32:
            return id == Fmt::f32;
        case Product::f64:
            return id == Fmt::f64;
        case Product::i32:
            return f.is_int() && f.container_bytes() == 4;
        case Product::i64:
            return f.is_int() && f.container_bytes() == 8;
        default:
            return true;
    }
}

/// Of a loaded part, where memory of its tensor runs; -1: along none of its dimensions, or not from element to element.
static int fast_dimension_of(const ir::Function& fn, const CompileOptions& options, const ir::Inst& load) {
    using ir::Access;
    const MemoryOrder order = memory_order(fn, options, fn.operands(load)[0]);
    const std::vector<Access::Axis> axes = fn.access(load).axes;
    int dimension = 0;
    for (size_t a = 0; a < axes.size(); ++a) {
        if (axes[a].kind == Access::gather) return fn.type(fn.result(load)).shape.rank - 1;
        if (axes[a].kind == Access::index) continue;
        if (static_cast<int>(a) == order.unit) return axes[a].step == 1 ? dimension : -1;
        ++dimension;
    }
    return -1;
}

int fast_dimension(const ir::Function& fn, const CompileOptions& options, ir::ValueId v) {
    for (int depth = 0; depth < 64; ++depth) {
        const ir::Inst* def = fn.def(v);
        const int last = fn.type(v).shape.rank - 1;
        if (!def) return last;
        if (def->op == ir::Op::load) return fast_dimension_of(fn, options, *def);
        const auto operands = fn.operands(*def);
        if (def->op == ir::Op::permute) {
            const int inner = fast_dimension(fn, options, operands[0]);
            const auto axes = fn.attrs(*def);
            for (size_t d = 0; d < axes.size(); ++d)
                if (axes[d] == inner) return static_cast<int>(d);
            return -1;
        }
        if (def->op == ir::Op::broadcast || def->op == ir::Op::constant || def->op == ir::Op::reshape || def->op == ir::Op::iota) return -1;
        if (!ir::has_trait(def->op, ir::ELEMWISE) && def->op != ir::Op::cast && def->op != ir::Op::select && def->op != ir::Op::bitcast) return last;
        // The first operand that knows, the others are scales and masks.
        int found = -1;
        for (ir::ValueId o : operands.subspan(0, operands.size() > 1 ? operands.size() - 1 : 0))
            if (found < 0 && fn.type(o).shape == fn.type(v).shape) found = fast_dimension(fn, options, o);
        if (found >= 0) return found;
        v = operands.back();
        if (!(fn.type(v).shape.rank == last + 1)) return -1;
    }
    return -1;
}

bool is_turned(const ir::Function& fn, const CompileOptions& options, ir::ValueId operand, int64_t width) {
    const Shape& shape = fn.type(operand).shape;
    return fast_dimension(fn, options, operand) == shape.rank - 2 && shape[shape.rank - 2u] >= width && shape[shape.rank - 1u] >= width;
}

}  // namespace tegula::cpu
