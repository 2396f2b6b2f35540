// Squares of vectors turned in registers (turned.cpp; loads through them: codegen.h TurnedRun).
#pragma once
#include <vector>

#include <llvm/IR/IRBuilder.h>

namespace tegula::cpu {

/// As many lines as each has lanes: rows become columns. Halves of pairs change places, then quarters, and so on.
void transpose(llvm::IRBuilder<>& b, std::vector<llvm::Value*>& lines);

}  // namespace tegula::cpu
