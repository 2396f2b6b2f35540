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

/// Values that are looked at twice know nothing the second time.
static int fast_dimension(const ir::Function& fn, const CompileOptions& options, ir::ValueId v, std::vector<bool>& seen, int depth) {
    constexpr int kMostDepth = 64;
    const Shape& shape = fn.type(v).shape;
    const ir::Inst* def = fn.def(v);
    if (seen[v.v] || depth > kMostDepth) return -1;
    seen[v.v] = true;
    if (!def) return shape.rank - 1;
    const auto operands = fn.operands(*def);
    if (def->op == ir::Op::load) {
        const int unit = unit_dimension(fn.access(*def), memory_order(fn, options, operands[0]));
        return unit < 0 ? shape.rank - 1 : unit;
    }
    if (ir::has_trait(def->op, ir::FREE) || def->op == ir::Op::reshape) return -1;
    if (def->op == ir::Op::permute) {
        const auto axes = fn.attrs(*def);
        const auto at = std::find(axes.begin(), axes.end(), fast_dimension(fn, options, operands[0], seen, depth + 1));
        return at == axes.end() ? -1 : static_cast<int>(at - axes.begin());
    }
    if (!ir::is_pointwise(def->op)) return shape.rank - 1;
    for (ir::ValueId o : operands)  // the first that knows, the others are scales and masks
        if (fn.type(o).shape == shape)
            if (const int found = fast_dimension(fn, options, o, seen, depth + 1); found >= 0) return found;
    return -1;
}

int fast_dimension(const ir::Function& fn, const CompileOptions& options, ir::ValueId v) {
    std::vector<bool> seen(fn.value_count());
    return fast_dimension(fn, options, v, seen, 0);
}

bool is_turned(const ir::Function& fn, const CompileOptions& options, ir::ValueId operand, int64_t width) {
    const Shape& shape = fn.type(operand).shape;
    return fast_dimension(fn, options, operand) == shape.rank - 2 && shape[shape.rank - 2u] >= width && shape[shape.rank - 1u] >= width;
}

}  // namespace tegula::cpu
