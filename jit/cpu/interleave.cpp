// Which copies are mixed, and in which order (interleave.h).
#include "jit/cpu/interleave.h"

#include <algorithm>
#include <span>
#include <unordered_set>

#include <llvm/IR/Constants.h>
#include <llvm/IR/DerivedTypes.h>
#include <llvm/IR/IntrinsicInst.h>

namespace tegula::cpu {

using llvm::Instruction;
using llvm::Value;
using Copy = std::vector<Instruction*>;

namespace {

/// Registers that a value takes; 0 for those of other kinds.
unsigned registers_of(const Value* v, unsigned register_bytes) {
    const auto* type = llvm::dyn_cast<llvm::FixedVectorType>(v->getType());
    if (!type || type->getScalarSizeInBits() == 1) return 0;
    const auto bytes = static_cast<unsigned>(type->getPrimitiveSizeInBits().getFixedValue() / 8);
    return std::max(1u, (bytes + register_bytes - 1) / register_bytes);
}

struct Pressure {
    unsigned shared = 0;  ///< of what comes from outside of the copy
    unsigned own = 0;     ///< most at a time of what the copy makes
};

Pressure pressure(const Copy& copy, unsigned register_bytes) {
    Pressure out;
    const std::unordered_set<const Value*> mine(copy.begin(), copy.end());
    std::unordered_set<const Value*> seen;
    unsigned live = 0;
    for (auto at = copy.rbegin(); at != copy.rend(); ++at) {
        if (seen.erase(*at)) live -= registers_of(*at, register_bytes);
        for (const Value* o : (*at)->operands()) {
            if (!seen.insert(o).second) continue;
            (mine.count(o) ? live : out.shared) += registers_of(o, register_bytes);
        }
        out.own = std::max(out.own, live);
    }
    return out;
}

bool writes(const Instruction* i) {
    const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(i);
    return i->mayHaveSideEffects() && !(call && call->getIntrinsicID() == llvm::Intrinsic::prefetch);
}

/// The instructions of the copies by turns, each behind what it uses, writes in the order of the copies.
std::vector<Instruction*> by_turns(std::span<const Copy> copies) {
    std::unordered_set<const Value*> waiting;
    for (const Copy& copy : copies) waiting.insert(copy.begin(), copy.end());
    std::vector<size_t> next(copies.size());
    std::vector<std::ptrdiff_t> writes_left;
    for (const Copy& copy : copies) writes_left.push_back(std::count_if(copy.begin(), copy.end(), writes));
    const auto ready = [&](size_t c) {
        const Instruction* i = copies[c][next[c]];
        if (writes(i) && std::any_of(writes_left.begin(), writes_left.begin() + static_cast<std::ptrdiff_t>(c), [](auto n) { return n > 0; }))
            return false;
        return std::none_of(i->op_begin(), i->op_end(), [&](const Value* o) { return waiting.count(o) != 0; });
    };
    std::vector<Instruction*> out;
    while (!waiting.empty())
        for (size_t c = 0; c < copies.size(); ++c) {
            if (next[c] == copies[c].size() || !ready(c)) continue;
            Instruction* i = copies[c][next[c]++];
            if (writes(i)) --writes_left[c];
            waiting.erase(i);
            out.push_back(i);
        }
    return out;
}

}  // namespace

void interleave(llvm::BasicBlock& block, const std::vector<Instruction*>& ends, unsigned registers, unsigned register_bytes) {
    std::vector<Copy> copies(1);
    for (Instruction& i : block) {
        if (llvm::isa<llvm::PHINode>(i)) continue;
        copies.back().push_back(&i);
        if (copies.size() <= ends.size() && &i == ends[copies.size() - 1]) copies.emplace_back();
    }
    copies.pop_back();
    if (copies.size() != ends.size() || copies.size() < 2) return;
    constexpr unsigned kSpare = 2;
    const Pressure of_one = pressure(copies.back(), register_bytes);
    size_t group = copies.size();
    while (group > 1 && of_one.shared + group * of_one.own + kSpare > registers) group /= 2;
    if (group == 1) return;
    for (size_t c = 0; c < copies.size(); c += group)
        for (Instruction* i : by_turns(std::span(copies).subspan(c, std::min(group, copies.size() - c)))) i->moveBefore(block, block.end());
}

}  // namespace tegula::cpu
