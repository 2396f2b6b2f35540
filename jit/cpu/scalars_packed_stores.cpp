// Packed storage as it is written (scalars_packed.cpp): runs of whole bytes at once, other runs byte by byte, single elements through small functions
// of the module. Of bytes that elements share with neighbours only their own bits change, whatever other threads do to the others meanwhile.
#include <algorithm>
#include <optional>

#include <llvm/IR/Constants.h>
#include <llvm/IR/Module.h>

#include "jit/cpu/scalar_formats.h"
#include "jit/cpu/scalars.h"
#include "lang/check.h"

namespace tegula::cpu {

using llvm::Value;

namespace {

/// A function of the module that returns nothing, made when it is first asked for.
struct Writer {
    llvm::Function* function;
    llvm::BasicBlock *body, *done;
};
std::optional<Writer> new_writer(llvm::Module& module, llvm::IRBuilder<>& b, const std::string& name, llvm::ArrayRef<llvm::Type*> types) {
    if (module.getFunction(name)) return std::nullopt;
    Writer out;
    out.function = llvm::Function::Create(llvm::FunctionType::get(b.getVoidTy(), types, false), llvm::GlobalValue::InternalLinkage, name, module);
    out.function->addFnAttr(llvm::Attribute::NoUnwind);
    out.body = llvm::BasicBlock::Create(module.getContext(), "", out.function);
    out.done = llvm::BasicBlock::Create(module.getContext(), "", out.function);
    llvm::ReturnInst::Create(module.getContext(), out.done);
    b.SetInsertPoint(out.body);
    return out;
}

/// void (ptr, i8 own, i8 bits): the byte's bits in `own` become those of `bits`, which has no others. Neighbours in the byte may be written
/// meanwhile, by any thread.
llvm::Function* byte_function(llvm::Module& module) {
    llvm::IRBuilder<> b(module.getContext());
    llvm::Type* i8 = b.getInt8Ty();
    const auto made = new_writer(module, b, "store.byte", {b.getPtrTy(), i8, i8});
    if (!made) return module.getFunction("store.byte");
    llvm::Function* fn = made->function;
    Value *at = fn->getArg(0), *own = fn->getArg(1), *bits = fn->getArg(2);
    const auto block = [&] { return llvm::BasicBlock::Create(module.getContext(), "", fn); };
    auto *whole = block(), *part = block(), *again = block();
    llvm::SwitchInst* which = b.CreateSwitch(own, part, 2);
    which->addCase(b.getInt8(0), made->done);
    which->addCase(b.getInt8(0xff), whole);
    b.SetInsertPoint(whole);
    b.CreateStore(bits, at);
    b.CreateBr(made->done);
    b.SetInsertPoint(part);
    const auto order = llvm::AtomicOrdering::Monotonic;
    auto* before = b.CreateAlignedLoad(i8, at, llvm::Align(1));
    before->setAtomic(order);
    b.CreateBr(again);
    b.SetInsertPoint(again);
    llvm::PHINode* old = b.CreatePHI(i8, 2);
    old->addIncoming(before, part);
    Value* pair = b.CreateAtomicCmpXchg(at, old, b.CreateOr(b.CreateAnd(old, b.CreateNot(own)), bits), llvm::Align(1), order, order);
    old->addIncoming(b.CreateExtractValue(pair, 0), again);
    b.CreateCondBr(b.CreateExtractValue(pair, 1), made->done, again);
    return fn;
}

/// void (ptr, ptr own, ptr bits, i64 count): store.byte of so many bytes.
llvm::Function* bytes_function(llvm::Module& module) {
    llvm::IRBuilder<> b(module.getContext());
    llvm::Type *i64 = b.getInt64Ty(), *i8 = b.getInt8Ty(), *ptr = b.getPtrTy();
    llvm::Function* byte = byte_function(module);
    const auto made = new_writer(module, b, "store.bytes", {ptr, ptr, ptr, i64});
    if (!made) return module.getFunction("store.bytes");
    llvm::Function* fn = made->function;
    auto* loop = llvm::BasicBlock::Create(module.getContext(), "", fn);
    b.CreateBr(loop);
    b.SetInsertPoint(loop);
    llvm::PHINode* k = b.CreatePHI(i64, 2);
    k->addIncoming(b.getInt64(0), made->body);
    const auto part = [&](unsigned a) { return b.CreateLoad(i8, b.CreateGEP(i8, fn->getArg(a), k)); };
    b.CreateCall(byte, {b.CreateGEP(i8, fn->getArg(0), k), part(1), part(2)});
    Value* next = b.CreateAdd(k, b.getInt64(1));
    k->addIncoming(next, loop);
    b.CreateCondBr(b.CreateICmpULT(next, fn->getArg(3)), loop, made->done);
    return fn;
}

/// void (ptr, i64 bit, i1 wanted, i64 code): neighbours keep their bits.
llvm::Function* store_function(llvm::Module& module, unsigned bits) {
    const std::string name = "store.bits." + std::to_string(bits);
    llvm::IRBuilder<> b(module.getContext());
    llvm::Type *i64 = b.getInt64Ty(), *i128 = b.getInt128Ty(), *i8 = b.getInt8Ty();
    llvm::Function* byte = byte_function(module);
    const auto made = new_writer(module, b, name, {b.getPtrTy(), i64, b.getInt1Ty(), i64});
    if (!made) return module.getFunction(name);
    llvm::Function* fn = made->function;
    const auto block = [&] { return llvm::BasicBlock::Create(module.getContext(), "", fn); };
    auto *wanted = block(), *loop = block();
    b.CreateCondBr(fn->getArg(2), wanted, made->done);
    b.SetInsertPoint(wanted);
    Value *at = b.CreateGEP(i8, fn->getArg(0), b.CreateLShr(fn->getArg(1), 3)), *shift = b.CreateZExt(b.CreateAnd(fn->getArg(1), 7), i128);
    Value* code = b.CreateShl(b.CreateZExt(b.CreateAnd(fn->getArg(3), b.getInt64(low_bits(bits))), i128), shift);
    Value* mask = b.CreateShl(b.CreateZExt(b.getInt64(low_bits(bits)), i128), shift);
    b.CreateBr(loop);
    b.SetInsertPoint(loop);
    const auto through = [&](Value* first) {
        llvm::PHINode* phi = b.CreatePHI(first->getType(), 2);
        phi->addIncoming(first, wanted);
        return phi;
    };
    llvm::PHINode *place = through(at), *own = through(mask), *left = through(code);
    b.CreateCall(byte, {place, b.CreateTrunc(own, i8), b.CreateTrunc(left, i8)});
    Value* rest = b.CreateLShr(own, 8);
    place->addIncoming(b.CreateConstGEP1_64(i8, place, 1), loop);
    own->addIncoming(rest, loop);
    left->addIncoming(b.CreateLShr(left, 8), loop);
    b.CreateCondBr(b.CreateICmpNE(rest, llvm::ConstantInt::get(i128, 0)), loop, made->done);
    return fn;
}

}  // namespace

void Scalars::store_at_here(const Format& f, Value* value, Value* base, Value* bit, Value* mask) {
    llvm::Function* function = store_function(*b_.GetInsertBlock()->getModule(), f.bits);
    Value* codes = resize(low_code(value, f), 64, false);
    for (unsigned l = 0; l < std::max(lanes_of(value), 1u); ++l)
        b_.CreateCall(function, {base, lane(bit, l), mask ? lane(mask, l) : b_.getTrue(), lane(codes, l)});
}

/// Codes of so many bits, in integers of any width, one after the other: the first `bytes` bytes of them.
Value* Scalars::packed_bytes(int bits, Value* codes, unsigned bytes) {
    const int lanes = static_cast<int>(lanes_of(codes));
    const unsigned width = std::max(codes->getType()->getScalarSizeInBits(), 16u);
    codes = resize(codes, width, false);
    llvm::Type *word = b_.getIntNTy(width), *words = llvm::FixedVectorType::get(word, bytes);
    Value* out = nullptr;
    // Byte k holds bits of the codes from 8k / bits on.
    for (int part = 0; part <= 7 / bits + 1; ++part) {
        std::vector<int> from;
        std::vector<llvm::Constant*> left, right;
        bool any = false;
        for (int k = 0; k < static_cast<int>(bytes); ++k) {
            const int code = 8 * k / bits + part, place = code * bits - 8 * k;
            const bool some = place < 8 && code < lanes;
            any |= some;
            from.push_back(some ? code : lanes);  // a lane of zeros
            left.push_back(llvm::ConstantInt::get(word, static_cast<uint64_t>(some && place > 0 ? place : 0)));
            right.push_back(llvm::ConstantInt::get(word, static_cast<uint64_t>(some && place < 0 ? -place : 0)));
        }
        if (!any) break;
        Value* v = b_.CreateShuffleVector(codes, llvm::Constant::getNullValue(codes->getType()), from);
        v = b_.CreateLShr(b_.CreateShl(v, llvm::ConstantVector::get(left)), llvm::ConstantVector::get(right));
        out = out ? b_.CreateOr(out, v) : v;
    }
    TEGULA_CHECK(out && out->getType() == words, "packed storage");
    return resize(out, 8, false);
}

/// Bytes moved up by `shift` bits (i64 below 8), through the one behind them.
Value* Scalars::moved_up(Value* bytes, Value* shift) {
    const auto count = static_cast<int>(lanes_of(bytes));
    std::vector<int> own, before{count};
    for (int k = 0; k < count; ++k) own.push_back(k), before.push_back(k);
    own.push_back(count);  // a byte of zeros
    llvm::Type* pairs = llvm::FixedVectorType::get(b_.getInt16Ty(), own.size());
    const auto wide = [&](llvm::ArrayRef<int> from) {
        return b_.CreateZExt(b_.CreateShuffleVector(bytes, llvm::Constant::getNullValue(bytes->getType()), from), pairs);
    };
    // In sixteen bits: this byte above the one before it, moved up together.
    Value* both = b_.CreateOr(b_.CreateShl(wide(own), 8), wide(before));
    Value* by = b_.CreateVectorSplat(lanes_of(both), b_.CreateTrunc(shift, b_.getInt16Ty()));
    return resize(b_.CreateLShr(b_.CreateShl(both, by), 8), 8, false);
}

/// A run may begin before the tensor, with lanes that are off.
Value* Scalars::byte_of(Value* base, Value* bit) { return b_.CreateGEP(b_.getInt8Ty(), base, b_.CreateAShr(bit, 3)); }

/// A whole run of whole bytes, none of which neighbours share.
void Scalars::store_bytes_here(const Format& f, Value* value, Value* base, Value* bit) {
    b_.CreateAlignedStore(packed_bytes(f.bits, low_code(value, f), lanes_of(value) * f.bits / 8), byte_of(base, bit), llvm::Align(1));
}

/// A whole run of as many bits as bytes have, from the middle of one to the middle of another.
void Scalars::store_whole_run(const Format& f, Value* value, Value* base, Value* bit) {
    const unsigned bytes = lanes_of(value) * f.bits / 8;
    llvm::Type* i8 = b_.getInt8Ty();
    llvm::Function* edge = byte_function(*b_.GetInsertBlock()->getModule());
    Value *at = byte_of(base, bit), *shift = b_.CreateAnd(bit, 7);
    Value* moved = moved_up(packed_bytes(f.bits, low_code(value, f), bytes), shift);
    Value* own = b_.CreateShl(b_.getInt8(0xff), b_.CreateTrunc(shift, i8));
    std::vector<int> inner;
    for (int k = 1; k < static_cast<int>(bytes); ++k) inner.push_back(k);
    if (!inner.empty()) b_.CreateAlignedStore(b_.CreateShuffleVector(moved, inner), b_.CreateConstGEP1_64(i8, at, 1), llvm::Align(1));
    b_.CreateCall(edge, {at, own, b_.CreateExtractElement(moved, uint64_t{0})});
    b_.CreateCall(edge, {b_.CreateConstGEP1_64(i8, at, bytes), b_.CreateNot(own), b_.CreateExtractElement(moved, bytes)});
}

/// Lanes of a run that are on (null: all), a byte after the other.
void Scalars::store_some(const Format& f, Value* value, Value* base, Value* bit, Value* mask) {
    const unsigned lanes = lanes_of(value), bytes = (lanes * f.bits + 7) / 8;
    llvm::Module& module = *b_.GetInsertBlock()->getModule();
    Value *codes = low_code(value, f), *none = llvm::Constant::getNullValue(codes->getType()), *all = i(codes, low_bits(f.bits));
    const auto in_memory = [&](Value* of) -> Value* {
        Value* moved = moved_up(packed_bytes(f.bits, mask ? b_.CreateSelect(mask, of, none) : of, bytes), b_.CreateAnd(bit, 7));
        llvm::BasicBlock& entry = b_.GetInsertBlock()->getParent()->getEntryBlock();
        llvm::Value* slot = new llvm::AllocaInst(moved->getType(), 0, "", entry.begin());
        b_.CreateStore(moved, slot);
        return slot;
    };
    Value *own = in_memory(all), *bits = in_memory(codes);
    b_.CreateCall(bytes_function(module), {byte_of(base, bit), own, bits, b_.getInt64(bytes + 1)});
}

void Scalars::store_run_here(const Format& f, Value* value, Value* base, Value* bit, Value* mask) {
    constexpr unsigned kNarrow = 16;  ///< bits, up to which bytes are fewer than what single elements cost
    const unsigned lanes = lanes_of(value);
    if (lanes == 0) return store_at(f, value, base, bit, mask);
    if (!mask && lanes * f.bits % 8 == 0) return store_whole_run(f, value, base, bit);
    if (f.bits <= kNarrow) return store_some(f, value, base, bit, mask);
    store_at(f, value, base, b_.CreateAdd(b_.CreateVectorSplat(lanes, bit), numbers_to(lanes, f.bits)), mask);
}

}  // namespace tegula::cpu
