// What tells that quick forms were right (speculation.h).
#include "jit/cpu/speculation.h"

#include <algorithm>

#include <llvm/IR/IntrinsicInst.h>

namespace tegula::cpu {

using llvm::Instruction;
using llvm::Value;

namespace {

/// One comparison looks at two vectors.
void add_nans(llvm::IRBuilderBase& b, std::vector<Value*> numbers, std::vector<Value*>& odd) {
    while (!numbers.empty()) {
        Value* a = numbers.back();
        numbers.pop_back();
        const auto like = std::find_if(numbers.begin(), numbers.end(), [&](const Value* v) { return v->getType() == a->getType(); });
        Value* other = like == numbers.end() ? a : *like;
        if (like != numbers.end()) numbers.erase(like);
        odd.push_back(b.CreateFCmpUNO(a, other));
    }
}

/// One comparison looks at all vectors of a limit.
void add_limited(llvm::IRBuilderBase& b, std::vector<std::pair<Value*, Value*>> limited, std::vector<Value*>& odd) {
    while (!limited.empty()) {
        auto [least, limit] = limited.front();
        for (auto at = limited.begin() + 1; at != limited.end();)
            if (at->second == limit) {
                least = b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, least, at->first);
                at = limited.erase(at);
            } else {
                ++at;
            }
        odd.push_back(b.CreateICmpULT(least, limit));
        limited.erase(limited.begin());
    }
}

}  // namespace

Value* odd_lanes(llvm::IRBuilderBase& b, const Speculation& speculation) {
    std::vector<Value*> odd;
    add_limited(b, speculation.limited, odd);
    add_nans(b, speculation.numbers, odd);
    Value* any = odd.front();
    for (size_t k = 1; k < odd.size(); ++k) any = b.CreateOr(any, odd[k]);
    return any;
}

llvm::BasicBlock* split_writes(llvm::BasicBlock& block) {
    auto* writes = llvm::BasicBlock::Create(block.getContext(), "writes", block.getParent());
    // What gives a value is no store.
    for (auto at = block.begin(); at != block.end();) {
        Instruction& i = *at++;
        const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&i);
        const bool prefetch = call && call->getIntrinsicID() == llvm::Intrinsic::prefetch;
        if (i.isTerminator() || (i.mayHaveSideEffects() && i.getType()->isVoidTy() && !prefetch)) i.moveBefore(*writes, writes->end());
    }
    if (writes->getTerminator()) writes->replaceSuccessorsPhiUsesWith(&block, writes);
    return writes;
}

}  // namespace tegula::cpu
