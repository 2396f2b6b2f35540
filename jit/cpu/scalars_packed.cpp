// Packed storage: elements of any width at any bit, as they are read; scalars_packed_stores.cpp writes them. Runs of lanes are read as bytes, spread
// by a constant shuffle and aligned by one shift; single elements through small functions of the module. No byte outside the wanted elements is
// touched, so that tensors need no slack.
#include <bit>

#include <llvm/IR/Constants.h>
#include <llvm/IR/Module.h>

#include "jit/cpu/scalar_formats.h"
#include "jit/cpu/scalars.h"
#include "lang/check.h"

namespace tegula::cpu {

using llvm::Value;

namespace {

/// i64 (ptr, i64 bit, i1 wanted): the `bits` bits that start `bit` bits after ptr.
llvm::Function* load_function(llvm::Module& module, unsigned bits) {
    const std::string name = "load.bits." + std::to_string(bits);
    if (llvm::Function* known = module.getFunction(name)) return known;
    llvm::LLVMContext& context = module.getContext();
    llvm::IRBuilder<> b(context);
    llvm::Type *i64 = b.getInt64Ty(), *i128 = b.getInt128Ty(), *i8 = b.getInt8Ty();
    auto* fn = llvm::Function::Create(llvm::FunctionType::get(i64, {b.getPtrTy(), i64, b.getInt1Ty()}, false), llvm::GlobalValue::InternalLinkage,
                                      name, module);
    fn->addFnAttr(llvm::Attribute::NoUnwind);
    auto *entry = llvm::BasicBlock::Create(context, "", fn), *wanted = llvm::BasicBlock::Create(context, "", fn),
         *skip = llvm::BasicBlock::Create(context, "", fn);
    b.SetInsertPoint(entry);
    b.CreateCondBr(fn->getArg(2), wanted, skip);
    b.SetInsertPoint(skip);
    b.CreateRet(b.getInt64(0));
    b.SetInsertPoint(wanted);
    Value *at = b.CreateGEP(i8, fn->getArg(0), b.CreateLShr(fn->getArg(1), 3)), *shift = b.CreateAnd(fn->getArg(1), 7);
    const unsigned sure = (bits + 7) / 8;  // one byte more when the element straddles
    Value* last = b.CreateLShr(b.CreateAdd(shift, b.getInt64(bits - 1)), 3);
    Value* all = llvm::ConstantInt::get(i128, 0);
    for (unsigned k = 0; k <= sure; ++k) {
        // Where there is no byte more, the last one is read again: its bits lie above the element.
        Value* byte = b.CreateLoad(i8, b.CreateGEP(i8, at, k < sure ? static_cast<Value*>(b.getInt64(k)) : last));
        all = b.CreateOr(all, b.CreateShl(b.CreateZExt(byte, i128), 8 * k));
    }
    Value* code = b.CreateTrunc(b.CreateLShr(all, b.CreateZExt(shift, i128)), i64);
    b.CreateRet(b.CreateAnd(code, b.getInt64(low_bits(bits))));
    return fn;
}

}  // namespace

Value* Scalars::lane(Value* v, unsigned l) { return lanes_of(v) ? b_.CreateExtractElement(v, l) : v; }

Value* Scalars::load_at_here(const Format& f, Value* base, Value* bit, Value* mask, unsigned lanes) {
    llvm::Function* function = load_function(*b_.GetInsertBlock()->getModule(), f.bits);
    const auto one = [&](unsigned l) {
        Value* code = b_.CreateCall(function, {base, lane(bit, l), mask ? lane(mask, l) : b_.getTrue()});
        return resize(code, f.container_bytes() * 8, false);
    };
    Value* codes = one(0);
    if (lanes) {
        codes = b_.CreateInsertElement(llvm::PoisonValue::get(llvm::FixedVectorType::get(codes->getType(), lanes)), codes, uint64_t{0});
        for (unsigned l = 1; l < lanes; ++l) codes = b_.CreateInsertElement(codes, one(l), l);
    }
    if (is_native(f)) return as_real(codes, f.bits);
    return f.is_bool() ? from_memory(codes, f) : wrap(codes, f);
}

namespace {

/// Bits of a word that holds an element which starts up to 14 bits behind the word; 0: none does.
unsigned word_of(unsigned bits) { return bits <= 18 ? 32 : bits <= 50 ? 64 : 0; }

}  // namespace

/// 0, step, 2 * step ..
Value* Scalars::numbers_to(unsigned count, unsigned step) {
    std::vector<uint64_t> out(count);
    for (unsigned k = 0; k < count; ++k) out[k] = uint64_t{k} * step;
    return llvm::ConstantDataVector::get(b_.getContext(), out);
}

Value* Scalars::from_words(const Format& f, Value* words) {
    if (is_native(f)) return as_real(resize(words, f.bits, false), f.bits);
    if (f.is_bool()) return b_.CreateTrunc(words, like(b_.getInt1Ty(), words));
    Value* codes = wrap(resize(words, f.container_bytes() * 8, false), f);
    if (words->getType()->getScalarSizeInBits() == 32) know(words_, f, codes, words);
    return codes;
}

/// One load of the bytes that hold existing lanes, one shuffle that gives each lane those from its first on, one shift.
Value* Scalars::load_run_here(const Format& f, Value* base, Value* bit, Value* count, unsigned lanes, Value* first, Value* any) {
    const unsigned bits = f.bits, width = word_of(bits);
    if (lanes == 0) return load_at(f, base, bit, nullptr, 0);
    Value* some = count ? b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, count, b_.getInt64(lanes)) : b_.getInt64(lanes);
    if (!width) {
        Value* number = numbers_to(lanes);
        Value* mask = b_.CreateICmpULT(number, b_.CreateVectorSplat(lanes, some));
        if (first) mask = b_.CreateAnd(mask, b_.CreateICmpUGE(number, b_.CreateVectorSplat(lanes, first)));
        if (any) mask = b_.CreateAnd(mask, b_.CreateVectorSplat(lanes, any));
        return load_at(f, base, b_.CreateAdd(b_.CreateVectorSplat(lanes, bit), numbers_to(lanes, bits)), mask, lanes);
    }
    llvm::Type* i8 = b_.getInt8Ty();
    const unsigned bytes = std::bit_ceil((lanes * bits + 14) / 8);
    Value* phase = b_.CreateAnd(bit, b_.getInt64(7));
    const auto byte_of = [&](Value* element, uint64_t up) {
        Value* at = b_.CreateAdd(phase, b_.CreateAdd(b_.CreateMul(element, b_.getInt64(bits)), b_.getInt64(up)));
        return b_.CreateTrunc(b_.CreateLShr(at, 3), i8);
    };
    std::vector<uint8_t> numbers(bytes);
    for (unsigned k = 0; k < bytes; ++k) numbers[k] = static_cast<uint8_t>(k);
    Value* number = llvm::ConstantDataVector::get(b_.getContext(), numbers);
    Value* exists = b_.CreateICmpULT(number, b_.CreateVectorSplat(bytes, byte_of(some, 7)));
    if (first) exists = b_.CreateAnd(exists, b_.CreateICmpUGE(number, b_.CreateVectorSplat(bytes, byte_of(first, 0))));
    if (any) exists = b_.CreateSelect(any, exists, llvm::Constant::getNullValue(exists->getType()));
    llvm::Type* type = llvm::FixedVectorType::get(i8, bytes);
    Value* stream =
        b_.CreateMaskedLoad(type, b_.CreateGEP(i8, base, b_.CreateAShr(bit, 3)), llvm::Align(1), exists, llvm::Constant::getNullValue(type));
    std::vector<int> from;
    std::vector<llvm::Constant*> shifts;
    llvm::Type* word = b_.getIntNTy(width);
    for (unsigned l = 0; l < lanes; ++l) {
        shifts.push_back(llvm::ConstantInt::get(word, l * bits % 8));
        for (unsigned k = 0; k < width / 8; ++k) from.push_back(static_cast<int>(std::min(l * bits / 8 + k, bytes - 1)));
    }
    Value* words = b_.CreateBitCast(b_.CreateShuffleVector(stream, from), llvm::FixedVectorType::get(word, lanes));
    Value* shift = b_.CreateAdd(b_.CreateVectorSplat(lanes, b_.CreateTrunc(phase, word)), llvm::ConstantVector::get(shifts));
    return from_words(f, b_.CreateLShr(words, shift));
}

}  // namespace tegula::cpu
