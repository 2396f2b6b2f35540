// Products of few rows (product.h Product::few): each element of the right operand is evaluated once, in registers, where it is multiplied.
#pragma once
#include <functional>

#include "jit/cpu/codegen.h"
#include "jit/cpu/product.h"

namespace tegula::cpu {

struct FewRows {
    const Format& chain;
    Point right;        ///< of the right operand: coordinates of its batch
    llvm::Value* left;  ///< of the chain's format: row i, element k at i * left_row + k
    int64_t left_row;
    llvm::Value* sums;                                                         ///< m x n of them, row-major
    std::function<llvm::Value*(llvm::Value* element, unsigned lanes)> factor;  ///< an element of the right operand in the chain's format
    std::function<llvm::Value*(llvm::Value* sum, llvm::Value* left, llvm::Value* right)> step;
    /// Sums to which those of a stretch of k are added, scaled, at the columns from `column` on; none: stretches are not scaled.
    std::function<std::vector<llvm::Value*>(llvm::Value* k, llvm::Value* column, std::vector<llvm::Value*> sums, std::vector<llvm::Value*> stretch)>
        scale;
};
void few_rows(Codegen& g, ir::InstId dot, const Product& p, const FewRows& of);

}  // namespace tegula::cpu
