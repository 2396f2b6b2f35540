// Rows, casts and runs of packed elements of many instructions: LLVM's time grows faster than a block does, so that what a kernel has of them beyond
// a limit becomes calls of one function per row, format and number of lanes. Most kernels as people write them call nothing.
#include <algorithm>

#include <llvm/IR/Constants.h>
#include <llvm/IR/Module.h>

#include "jit/cpu/scalar_formats.h"
#include "jit/cpu/scalars.h"

namespace tegula::cpu {

using llvm::Value;

namespace {

constexpr size_t kHeavy = 14;   ///< instructions; a call, and what it saves around it, is about as long
constexpr size_t kLight = 40;   ///< below it, as decodings of narrow floats are: a call and what it saves take several times as long
constexpr size_t kHuge = 100;   ///< beside these a call is nothing
constexpr unsigned kShare = 4;  ///< huge ones, and what seldom runs, get this part of the limit; light ones this many times as much

}  // namespace

Value* Scalars::elementwise(ir::Op op, const Format& f, std::span<Value* const> operands) {
    const bool boolean = ir::op_row(op).result == ir::ResultRule::boolean;
    llvm::Type* result = boolean ? like(b_.getInt1Ty(), operands[0]) : operands[0]->getType();
    return here_or_called(std::string(ir::op_row(op).name) + " " + f.name, result, Touches::nothing, operands,
                          [&](std::span<Value* const> x) { return row(op, f, x); });
}

Value* Scalars::cast(Value* v, const Format& from, const Format& to, Round round, Overflow overflow, Value* random) {
    Value* const x[] = {v, random};
    const std::string how = std::to_string(static_cast<int>(round)) + "." + std::to_string(static_cast<int>(overflow));
    return here_or_called("cast " + from.name + " to " + to.name + " " + how, type(to, lanes_of(v)), Touches::nothing, std::span(x, random ? 2 : 1),
                          [&](std::span<Value* const> y) { return cast_here(y[0], from, to, round, overflow, random ? y[1] : nullptr); });
}

/// A product's inner loop calls nothing where a step is short.
Value* Scalars::float_step(const Format& f, Value* a, Value* b, Value* c) {
    if (is_prefix_of_f32(f) || (features_.f16c && is_binary16(f))) return float_step_here(f, a, b, c);
    Value* const x[] = {a, b, c};
    return here_or_called("step of " + f.name, a->getType(), Touches::nothing, x,
                          [&](std::span<Value* const> y) { return float_step_here(f, y[0], y[1], y[2]); });
}

Value* Scalars::load_at(const Format& f, Value* base, Value* bit, Value* mask, unsigned lanes) {
    Value* const x[] = {base, bit, mask};
    const std::string name = "load lanes " + f.name + (mask ? " mask" : "") + " x " + std::to_string(lanes);
    return here_or_called(name, type(f, lanes), Touches::reads, std::span(x, mask ? 3 : 2),
                          [&](std::span<Value* const> y) { return load_at_here(f, y[0], y[1], mask ? y[2] : nullptr, lanes); });
}

void Scalars::store_at(const Format& f, Value* value, Value* base, Value* bit, Value* mask) {
    Value* const x[] = {value, base, bit, mask};
    here_or_called("store lanes " + f.name + (mask ? " mask" : ""), b_.getVoidTy(), Touches::writes, std::span(x, mask ? 4 : 3),
                   [&](std::span<Value* const> y) {
                       store_at_here(f, y[0], y[1], y[2], mask ? y[3] : nullptr);
                       return static_cast<Value*>(nullptr);
                   });
}

Value* Scalars::load_run(const Format& f, Value* base, Value* bit, Value* count, unsigned lanes, Value* first, Value* any) {
    std::vector<Value*> x{base, bit};
    const std::string name =
        "load " + f.name + " x " + std::to_string(lanes) + (count ? " count" : "") + (first ? " first" : "") + (any ? " any" : "");
    for (Value* v : {count, first, any})
        if (v) x.push_back(v);
    return here_or_called(name, type(f, lanes), Touches::reads, x, [&](std::span<Value* const> y) {
        size_t next = 2;
        const auto given = [&](Value* v) { return v ? y[next++] : nullptr; };
        Value *n = given(count), *from = given(first), *some = given(any);
        return load_run_here(f, y[0], y[1], n, lanes, from, some);
    });
}

void Scalars::store_run(const Format& f, Value* value, Value* base, Value* bit, Value* mask) {
    Value* const x[] = {value, base, bit, mask};
    here_or_called("store " + f.name + (mask ? " mask" : ""), b_.getVoidTy(), Touches::writes, std::span(x, mask ? 4 : 3),
                   [&](std::span<Value* const> y) {
                       store_run_here(f, y[0], y[1], y[2], mask ? y[3] : nullptr);
                       return static_cast<Value*>(nullptr);
                   });
}

void Scalars::store_bytes(const Format& f, Value* value, Value* base, Value* bit) {
    Value* const x[] = {value, base, bit};
    here_or_called("store bytes " + f.name, b_.getVoidTy(), Touches::writes, x, [&](std::span<Value* const> y) {
        store_bytes_here(f, y[0], y[1], y[2]);
        return static_cast<Value*>(nullptr);
    });
}

Value* Scalars::here_or_called(const std::string& what, llvm::Type* result, Touches touches, std::span<Value* const> x, Make make) {
    size_t& weight = weights_[what];
    const bool folds = std::all_of(x.begin(), x.end(), [](const Value* v) { return llvm::isa<llvm::Constant>(v); });
    const unsigned all = features_.inlined;
    const unsigned limit = seldom_ || weight >= kHuge ? all / kShare : weight < kLight ? all * kShare : all;
    if (weight >= kHeavy && inlined_ >= limit && !folds) return called(what, result, touches, x, make);
    llvm::BasicBlock& block = *b_.GetInsertBlock();
    const bool first = b_.GetInsertPoint() == block.begin();
    const auto last = first ? block.end() : std::prev(b_.GetInsertPoint());
    Value* out = make(x);
    const auto made = static_cast<size_t>(std::distance(first ? block.begin() : std::next(last), b_.GetInsertPoint()));
    weight = std::max(weight, made);  // operands that are constants make less of it
    if (made >= kHeavy) inlined_ += made;
    return out;
}

/// What is known of a code besides itself, such as its value, is not known of operands and results of calls.
Value* Scalars::called(const std::string& what, llvm::Type* result, Touches touches, std::span<Value* const> x, Make make) {
    llvm::Function& caller = *b_.GetInsertBlock()->getParent();
    llvm::LLVMContext& context = caller.getContext();
    const std::string name = what + (lanes_of(x[0]) ? " x " + std::to_string(lanes_of(x[0])) : "");  // loads say it themselves
    llvm::Function* function = caller.getParent()->getFunction(name);
    if (!function) {
        std::vector<llvm::Type*> types;
        for (const Value* v : x) types.push_back(v->getType());
        function =
            llvm::Function::Create(llvm::FunctionType::get(result, types, false), llvm::GlobalValue::InternalLinkage, name, *caller.getParent());
        // Those of the caller say how wide vectors are passed.
        function->setAttributes(llvm::AttributeList().addFnAttributes(context, llvm::AttrBuilder(context, caller.getAttributes().getFnAttrs())));
        if (touches == Touches::nothing) function->setDoesNotAccessMemory();
        if (touches == Touches::reads) function->setOnlyReadsMemory();
        if (touches != Touches::nothing) function->setOnlyAccessesArgMemory();
        function->setWillReturn();
        llvm::IRBuilderBase::InsertPointGuard guard(b_);
        b_.SetCurrentDebugLocation({});
        b_.SetInsertPoint(llvm::BasicBlock::Create(context, "", function));
        std::vector<Value*> arguments;
        for (llvm::Argument& a : function->args()) arguments.push_back(&a);
        Value* out = make(arguments);
        out ? b_.CreateRet(out) : b_.CreateRetVoid();
    }
    ++calls_;
    return b_.CreateCall(function, llvm::ArrayRef(x.data(), x.size()));
}

}  // namespace tegula::cpu
