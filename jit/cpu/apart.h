// Vectors whose lanes find their elements a few apart in memory, as real parts beside imaginary ones or colours of pixels: whole vectors are read and
// written, and put apart and together in registers.
#pragma once
#include <functional>
#include <vector>

#include <llvm/IR/IRBuilder.h>

namespace tegula::cpu {

/// Elements from lane to lane, at most: beyond, a processor's gather does as well.
constexpr int64_t kMostApart = 4;
inline bool few_apart(int64_t step, unsigned lanes) { return step >= 2 && step <= kMostApart && lanes >= step; }

/// <lanes x element>: every step-th one from `first` on. Nothing behind the last lane's is read.
llvm::Value* load_apart(llvm::IRBuilderBase& b, llvm::Type* element, llvm::Value* first, unsigned lanes, int64_t step,
                        const std::function<void(llvm::LoadInst*)>& tag = {});
/// Lane 0 of each part, lane 1 of each, .., side by side from `first` on.
void store_together(llvm::IRBuilderBase& b, const std::vector<llvm::Value*>& parts, llvm::Value* first, llvm::Align align,
                    const std::function<void(llvm::StoreInst*)>& tag = {});
/// Every step-th element from `first` on, by masked stores that leave what is between them alone.
void store_apart(llvm::IRBuilderBase& b, llvm::Value* value, llvm::Value* first, int64_t step);

}  // namespace tegula::cpu
