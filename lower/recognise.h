// The two halves of the recognition pass: contractions that are matrix products, and gathers that are slices. Each gives a value that equals
// the old instruction's result bit for bit, made with `b`, or an invalid id when the instruction is not of the wanted form.
#pragma once
#include <string>
#include <vector>

#include "lang/ir.h"

namespace tegula {

/// How one operand of a contraction varies over the contraction's index space.
struct ProductOperand {
    ir::ValueId base;               ///< tile that holds the elements
    std::vector<ir::InstId> casts;  ///< to be applied to `base`, last one first
    std::vector<int> dims;          ///< per dimension of `base`: the index it varies along, or -1 (extent 1)
};
/// A contraction as a matrix product: indices by the operands they appear in.
struct ProductPlan {
    ProductOperand a, b;
    std::vector<int> batch, rows, columns;  ///< indices of both operands, of a only, of b only; ascending
    std::string refusal;                    ///< why it is no matrix product; empty when it is one
};
ProductPlan plan_product(const ir::Function& fn, const ir::Inst& contract);
/// contract -> dot.
ir::ValueId make_product(ir::Builder& b, const ir::Inst& contract, const ProductPlan& plan);

/// extract or load whose gather axes are start + step * iota -> ranges, then permute, reshape and broadcast; extract at constant places -> slice.
ir::ValueId make_slices(ir::Builder& b, const ir::Inst& access);

/// `v` (dimensions = the targets listed in `dims`, of `shape`) brought to `shape`: dimensions sorted, missing ones repeated.
ir::ValueId spread(ir::Builder& b, ir::ValueId v, const std::vector<int>& dims, const Shape& shape);

}  // namespace tegula
