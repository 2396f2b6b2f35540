// The transposed products (narrow_products.h) and the permutations around them.
#include "jit/cpu/narrow_products.h"

#include <numeric>

namespace tegula::cpu {

using namespace ir;

namespace {

bool is_narrow(const Shape& result) {
    constexpr int64_t kMostColumns = 4, kLeastRows = 8;
    return result[result.rank - 1u] <= kMostColumns && result[result.rank - 2u] >= kLeastRows;
}

/// The transpose of a tile's last two dimensions, made in front of an instruction.
ValueId transpose(Function& fn, InstId before, ValueId v) {
    const Type type = fn.type(v);
    Shape shape = type.shape;
    std::vector<int64_t> axes(shape.rank);
    std::iota(axes.begin(), axes.end(), 0);
    std::swap(axes.back(), axes[axes.size() - 2]);
    std::swap(shape[shape.rank - 1u], shape[shape.rank - 2u]);
    const TypeId to = fn.types().tile(type.elem, shape);
    const InstId made = fn.make(Op::permute, {&v, 1}, {&to, 1}, axes, fn.inst(before).span);
    fn.insert_before(before, made);
    return fn.result(made);
}

InstId transposed(Function& fn, InstId dot) {
    const std::vector<ValueId> of(fn.operands(fn.inst(dot)).begin(), fn.operands(fn.inst(dot)).end());
    const std::vector<int64_t> attrs(fn.attrs(fn.inst(dot)).begin(), fn.attrs(fn.inst(dot)).end());
    const ValueId operands[] = {transpose(fn, dot, of[1]), transpose(fn, dot, of[0]), transpose(fn, dot, of[2])};
    const TypeId type = fn.type_of(operands[2]);
    const InstId made = fn.make(Op::dot, operands, {&type, 1}, attrs, fn.inst(dot).span);
    fn.insert_before(dot, made);
    fn.replace_uses(fn.result(dot), transpose(fn, dot, fn.result(made)));
    return made;
}

}  // namespace

std::vector<InstId> transpose_narrow_products(Function& fn) {
    std::vector<InstId> made;
    std::vector<bool> dead(fn.inst_count());
    for (uint32_t i = 0; i < dead.size(); ++i) {
        const Inst& inst = fn.inst(InstId{i});
        if (inst.op != Op::dot || !inst.parent.valid() || !is_narrow(fn.type(fn.result(inst)).shape)) continue;
        made.push_back(transposed(fn, InstId{i}));
        dead[i] = true;
    }
    dead.resize(fn.inst_count());
    if (!made.empty()) fn.remove_if(dead);
    return made;
}

}  // namespace tegula::cpu
