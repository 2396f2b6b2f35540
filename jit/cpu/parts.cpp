// Stretches of a kernel as functions (parts.h).
#include "jit/cpu/parts.h"

#include <algorithm>

#include <llvm/ADT/MapVector.h>
#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/IR/Module.h>

#include "jit/cpu/line_table.h"

namespace tegula::cpu {

using llvm::BasicBlock;
using llvm::Instruction;
using llvm::Value;

namespace {

// Of a stretch, from which on it becomes a function. Most kernels as people write them are shorter and stay one. Blocks: some 20 nests of loops.
constexpr size_t kLongBlocks = 100, kLongInstructions = 4000;
constexpr Parts::Size kCall{2, 8};  ///< about what a call leaves in the caller

Parts::Size& operator+=(Parts::Size& a, const Parts::Size& b) { return a.blocks += b.blocks, a.instructions += b.instructions, a; }
size_t less(size_t a, size_t b) { return a - std::min(a, b); }

}  // namespace

// ---- while the kernel is emitted ----

Parts::Sequence::Sequence(Parts& parts) : parts_(parts), seen_(here()), back_(&seen_.block->getParent()->back()), closed_(parts.closed_) {
    levels_.push_back({seen_, {}});
}

Parts::Sequence::Mark Parts::Sequence::here() const {
    BasicBlock* block = parts_.b_.GetInsertBlock();
    return {block, block->empty() ? nullptr : &block->back()};
}

/// What was emitted since it was last asked, less what became a stretch of its own meanwhile.
Parts::Size Parts::Sequence::made() {
    Size all;
    for (auto i = seen_.last ? std::next(seen_.last->getIterator()) : seen_.block->begin(); i != seen_.block->end(); ++i) ++all.instructions;
    llvm::Function& function = *seen_.block->getParent();
    for (auto block = std::next(back_->getIterator()); block != function.end(); ++block) all += {1, block->size()};
    const Size closed{less(parts_.closed_.blocks, closed_.blocks), less(parts_.closed_.instructions, closed_.instructions)};
    seen_ = here();
    back_ = &function.back();
    closed_ = parts_.closed_;
    return {less(all.blocks, closed.blocks), less(all.instructions, closed.instructions)};
}

void Parts::Sequence::step(bool ends) {
    levels_[0].size += made();
    for (size_t l = 0; ends && l < levels_.size(); ++l) {
        const Level level = levels_[l];
        if (level.size.blocks < kLongBlocks && level.size.instructions < kLongInstructions) break;
        if (l + 1 == levels_.size()) levels_.push_back({level.start, {}});
        levels_[l + 1].size += kCall;
        close(level.start);
        for (size_t below = 0; below <= l; ++below) levels_[below] = {here(), {}};
        if (l == 0) parts_.closed_ += {less(level.size.blocks, kCall.blocks), less(level.size.instructions, kCall.instructions)};
        seen_ = here();
        back_ = &seen_.block->getParent()->back();
        closed_ = parts_.closed_;
    }
}

void Parts::Sequence::close(const Mark& start) {
    llvm::Function* function = start.block->getParent();
    auto* first = BasicBlock::Create(function->getContext(), "part", function);
    first->splice(first->end(), start.block, start.last ? std::next(start.last->getIterator()) : start.block->begin(), start.block->end());
    first->replaceSuccessorsPhiUsesWith(start.block, first);
    llvm::IRBuilder<>& b = parts_.b_;
    if (b.GetInsertBlock() == start.block) b.SetInsertPoint(first);
    llvm::BranchInst::Create(first, start.block)->setDebugLoc(b.getCurrentDebugLocation());
    auto* next = BasicBlock::Create(function->getContext(), "next", function);
    b.CreateBr(next);
    b.SetInsertPoint(next);
    parts_.parts_.push_back({first, next});
}

// ---- afterwards ----

namespace {

class Outliner {
public:
    Outliner(llvm::Function& kernel, BasicBlock& leave, BasicBlock& first, BasicBlock& next)
        : kernel_(kernel), leave_(leave), first_(first), next_(next), from_(*first.getSinglePredecessor()) {}

    llvm::Function& run(const std::string& name, LineTable* lines) {
        find_blocks();
        find_crossing();
        make_function(name);
        if (lines) lines->move(*part_, blocks_);
        take_inputs();
        move_blocks();
        call(lines);
        return *part_;
    }

private:
    bool inside(const Value* v) const {
        const auto* i = llvm::dyn_cast<Instruction>(v);
        return i && set_.contains(i->getParent());
    }

    void find_blocks() {
        blocks_.push_back(&first_);
        set_.insert(&first_);
        for (size_t k = 0; k < blocks_.size(); ++k)
            for (BasicBlock* to : llvm::successors(blocks_[k])) {
                leaves_ = leaves_ || to == &leave_;
                if (to != &leave_ && to != &next_ && set_.insert(to).second) blocks_.push_back(to);
            }
    }

    /// Can the part make the value itself? Constants of the launch, which the kernel reads at its start.
    bool can_remake(const Value* v) const {
        const auto* i = llvm::dyn_cast<Instruction>(v);
        if (!i) return true;
        if (i->getParent() != &kernel_.getEntryBlock() || !(llvm::isa<llvm::LoadInst>(i) || llvm::isa<llvm::GetElementPtrInst>(i))) return false;
        return std::all_of(i->op_begin(), i->op_end(), [&](const Value* operand) { return can_remake(operand); });
    }

    bool is_private(const Value* v) const {
        return llvm::isa<llvm::AllocaInst>(v) && std::all_of(v->user_begin(), v->user_end(), [&](const Value* user) { return inside(user); });
    }

    void find_crossing() {
        for (BasicBlock* block : blocks_)
            for (Instruction& i : *block) {
                for (Value* v : i.operands())
                    if (llvm::isa<Instruction>(v) && !inside(v)) inputs_.insert({v, nullptr});
                if (std::any_of(i.user_begin(), i.user_end(), [&](const Value* user) { return !inside(user); })) outputs_.push_back(&i);
            }
        for (auto& [v, mine] : inputs_)
            if (!is_private(v) && !can_remake(v)) passed_.push_back(v);
    }

    void make_function(const std::string& name) {
        llvm::LLVMContext& context = kernel_.getContext();
        std::vector<llvm::Type*> types(kernel_.getFunctionType()->params());
        for (const Value* v : passed_) types.push_back(v->getType());
        if (!outputs_.empty()) {
            std::vector<llvm::Type*> members;
            for (const Instruction* i : outputs_) members.push_back(i->getType());
            frame_ = llvm::StructType::get(context, members);
            types.push_back(llvm::PointerType::getUnqual(context));
        }
        llvm::Type* result = leaves_ ? llvm::Type::getInt1Ty(context) : llvm::Type::getVoidTy(context);
        part_ = llvm::Function::Create(llvm::FunctionType::get(result, types, false), llvm::GlobalValue::InternalLinkage, name, *kernel_.getParent());
        part_->setAttributes(kernel_.getAttributes());
        for (size_t k = kernel_.arg_size(); k < types.size(); ++k)
            if (types[k]->isPointerTy() && (k + 1 == types.size() || llvm::isa<llvm::AllocaInst>(passed_[k - kernel_.arg_size()])))
                part_->addParamAttr(static_cast<unsigned>(k), llvm::Attribute::NoAlias);
        entry_ = BasicBlock::Create(context, "entry", part_);
    }

    Value* remade(Value* v) {
        if (auto* argument = llvm::dyn_cast<llvm::Argument>(v)) return part_->getArg(argument->getArgNo());
        auto* old = llvm::dyn_cast<Instruction>(v);
        if (!old) return v;
        Value*& mine = inputs_[v];
        if (mine) return mine;
        Instruction* fresh = old->clone();
        for (llvm::Use& use : fresh->operands()) use.set(remade(use.get()));
        fresh->insertInto(entry_, entry_->end());
        return inputs_[v] = fresh;
    }

    void take_inputs() {
        for (size_t k = 0; k < passed_.size(); ++k) inputs_[passed_[k]] = part_->getArg(static_cast<unsigned>(kernel_.arg_size() + k));
        std::vector<Value*> rest;
        for (auto& [v, mine] : inputs_)
            if (!mine) rest.push_back(v);
        for (Value* v : rest) {
            if (auto* local = llvm::dyn_cast<llvm::AllocaInst>(v))
                local->moveBefore(*entry_, entry_->begin()), inputs_[v] = local;
            else
                remade(v);
        }
        for (BasicBlock* block : blocks_)
            for (Instruction& i : *block)
                for (llvm::Use& use : i.operands()) {
                    if (llvm::isa<llvm::Argument>(use.get())) use.set(remade(use.get()));
                    if (const auto known = inputs_.find(use.get()); known != inputs_.end()) use.set(known->second);
                }
    }

    void move_blocks() {
        llvm::LLVMContext& context = kernel_.getContext();
        llvm::IRBuilder<> b(entry_);
        b.CreateBr(&first_);
        for (BasicBlock* block : blocks_) part_->splice(part_->end(), &kernel_, block->getIterator());
        const auto exit = [&](BasicBlock& to, const char* name, bool early) {
            auto* end = BasicBlock::Create(context, name, part_);
            for (BasicBlock* block : blocks_) block->getTerminator()->replaceSuccessorWith(&to, end);
            b.SetInsertPoint(end);
            for (unsigned k = 0; !early && k < outputs_.size(); ++k)
                b.CreateStore(outputs_[k], b.CreateStructGEP(frame_, part_->getArg(static_cast<unsigned>(part_->arg_size() - 1)), k));
            leaves_ ? b.CreateRet(b.getInt1(early)) : b.CreateRetVoid();
        };
        exit(next_, "done", false);
        if (leaves_) exit(leave_, "leave", true);
    }

    void call(LineTable* lines) {
        from_.getTerminator()->eraseFromParent();
        llvm::IRBuilder<> b(&from_);
        if (lines) b.SetCurrentDebugLocation(lines->at({}));
        std::vector<Value*> arguments;
        for (llvm::Argument& a : kernel_.args()) arguments.push_back(&a);
        arguments.insert(arguments.end(), passed_.begin(), passed_.end());
        BasicBlock& entry = kernel_.getEntryBlock();
        Value* frame = frame_ ? llvm::IRBuilder<>(&entry, entry.begin()).CreateAlloca(frame_) : nullptr;
        if (frame) arguments.push_back(frame);
        llvm::CallInst* stop = b.CreateCall(part_, arguments);
        leaves_ ? b.CreateCondBr(stop, &leave_, &next_) : b.CreateBr(&next_);
        b.SetInsertPoint(&next_, next_.begin());
        for (unsigned k = 0; k < outputs_.size(); ++k) {
            Value* v = b.CreateLoad(outputs_[k]->getType(), b.CreateStructGEP(frame_, frame, k));
            outputs_[k]->replaceUsesWithIf(v, [&](const llvm::Use& use) { return !inside(use.getUser()) && !is_exit(use.getUser()); });
        }
    }

    /// A store in the part's own exit.
    bool is_exit(const Value* user) const { return llvm::cast<Instruction>(user)->getFunction() == part_; }

    llvm::Function& kernel_;
    BasicBlock &leave_, &first_, &next_, &from_;
    std::vector<BasicBlock*> blocks_;
    llvm::SmallPtrSet<const BasicBlock*, 32> set_;
    bool leaves_ = false;
    llvm::MapVector<Value*, Value*> inputs_;  ///< from outside -> in the part
    std::vector<Value*> passed_;              ///< of them, as parameters
    std::vector<Instruction*> outputs_;
    llvm::StructType* frame_ = nullptr;  ///< of outputs
    llvm::Function* part_ = nullptr;
    BasicBlock* entry_ = nullptr;
};

}  // namespace

void Parts::outline(llvm::Function& kernel, BasicBlock& leave, LineTable* lines) {
    for (size_t k = 0; k < parts_.size(); ++k) Outliner(kernel, leave, *parts_[k].first, *parts_[k].next).run("part " + std::to_string(k), lines);
}

}  // namespace tegula::cpu
