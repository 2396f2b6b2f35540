// Forms that are quick and give the right bits of ordinary operands only. What they need is collected while a step of a loop is emitted, looked at
// once for all vectors of the step, and where an operand is not ordinary the step is made again the general way before anything is written
// (nest.cpp).
#pragma once
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <llvm/IR/IRBuilder.h>

namespace tegula::cpu {

struct Speculation {
    llvm::BasicBlock* block;                                     ///< quick forms are emitted here only
    std::vector<llvm::Value*> numbers;                           ///< vectors of floats: no lane may be NaN
    std::vector<std::pair<llvm::Value*, llvm::Value*>> limited;  ///< vectors of unsigned integers: no lane may be below its limit
    std::unordered_set<const llvm::Value*> ordinary;             ///< floats that are neither NaN nor subnormal where all this holds
    struct Divisor {
        llvm::Value *reciprocal, *limit;  ///< splats
    };
    std::unordered_map<const llvm::Value*, Divisor> divisors;  ///< by the scalar: made once for all vectors

    bool empty() const { return numbers.empty() && limited.empty(); }
};

/// The lanes (i1 per lane) in which something does not hold for one of the vectors; the speculation is not empty.
llvm::Value* odd_lanes(llvm::IRBuilderBase& b, const Speculation& speculation);
/// The block's writes, and how it ends if it does, in their order in a block of their own.
llvm::BasicBlock* split_writes(llvm::BasicBlock& block);

}  // namespace tegula::cpu
