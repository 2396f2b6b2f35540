// Squares of vectors turned in registers (turned.cpp; loads through them: codegen.h TurnedRun).
#pragma once
#include <vector>

#include <llvm/IR/IRBuilder.h>

namespace tegula::cpu {

/// As many lines as each has lanes, of 32 bits or more: rows become columns.
void transpose(llvm::IRBuilder<>& b, std::vector<llvm::Value*>& lines);
/// One vector of all, in their order; as many as a power of two.
llvm::Value* joined(llvm::IRBuilder<>& b, std::vector<llvm::Value*> parts);
/// The same where four lanes of a line are already block l / 4 of rows l % 4, l % 4 + 4, ..: what is left to do for whoever reads rows by such
/// blocks.
void transpose_blocks(llvm::IRBuilder<>& b, std::vector<llvm::Value*>& lines);

}  // namespace tegula::cpu
