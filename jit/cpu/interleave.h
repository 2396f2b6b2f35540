// Copies of a loop's body that stand one after the other in a block are worked on at the same time: processors look ahead by some hundred
// instructions, which a chain of a few dozen dependent ones fills.
#pragma once
#include <vector>

#include <llvm/IR/Instruction.h>

namespace tegula::cpu {

/// Copy k ends with ends[k]; the first begins behind the phis, and later ones use nothing of the others but what the first one made for all. As many
/// copies are mixed as `registers` of `register_bytes` hold. Writes stay in their order; reads may come before writes of other copies.
void interleave(llvm::BasicBlock& block, const std::vector<llvm::Instruction*>& ends, unsigned registers, unsigned register_bytes);

}  // namespace tegula::cpu
