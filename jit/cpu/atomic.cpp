// Atomics: one element after the other, in row-major order. Elements of 8, 16, 32 and 64 bits at whole addresses are updated by the processor, others
// by the run-time side (abi.h, Support).
#include <cstddef>

#include "jit/cpu/access.h"
#include "lang/joining.h"

namespace tegula::cpu {

using llvm::Value;

/// A register value as a 64-bit code (format.h extend_code), and back.
Value* Codegen::to_code(Value* v, const Format& f) {
    v = scalars_.to_memory(v, f);
    if (!v->getType()->isIntegerTy()) v = b_.CreateBitCast(v, b_.getIntNTy(v->getType()->getScalarSizeInBits()));
    const bool extend = f.is_signed && (f.is_int() || f.kind == FormatKind::fixed);
    return extend ? b_.CreateSExt(v, b_.getInt64Ty()) : b_.CreateZExt(v, b_.getInt64Ty());
}

Value* Codegen::from_code(Value* code, const Format& f) {
    llvm::Type* type = scalars_.memory_type(f, 0);
    Value* v = b_.CreateTrunc(code, b_.getIntNTy(type->getScalarSizeInBits()));
    if (!type->isIntegerTy()) v = b_.CreateBitCast(v, type);
    return scalars_.from_memory(v, f);
}

namespace {

llvm::AtomicRMWInst::BinOp integer_update(ir::AtomicKind kind, bool is_signed) {
    using Op = llvm::AtomicRMWInst;
    switch (kind) {
        case ir::AtomicKind::add:
            return Op::Add;
        case ir::AtomicKind::max:
            return is_signed ? Op::Max : Op::UMax;
        case ir::AtomicKind::min:
            return is_signed ? Op::Min : Op::UMin;
        case ir::AtomicKind::bit_and:
            return Op::And;
        case ir::AtomicKind::bit_or:
            return Op::Or;
        case ir::AtomicKind::bit_xor:
            return Op::Xor;
        default:
            return Op::Xchg;
    }
}

llvm::AtomicOrdering ordering(ir::MemoryOrder order) {
    switch (order) {
        case ir::MemoryOrder::acquire:
            return llvm::AtomicOrdering::Acquire;
        case ir::MemoryOrder::release:
            return llvm::AtomicOrdering::Release;
        case ir::MemoryOrder::acq_rel:
            return llvm::AtomicOrdering::AcquireRelease;
        default:
            return llvm::AtomicOrdering::Monotonic;
    }
}

Value* compare_and_swap(llvm::IRBuilderBase& b, Value* at, Value* old, Value* wanted, llvm::Align align, llvm::AtomicOrdering order) {
    return b.CreateAtomicCmpXchg(at, old, wanted, align, order, llvm::AtomicCmpXchgInst::getStrongestFailureOrdering(order));
}

}  // namespace

/// The old word of an element that is joined with `operand` (a word): tried again until no other program came between.
Value* Codegen::joined_atomic(ir::AtomicKind kind, ir::MemoryOrder order, const Format& f, Value* at, Value* operand) {
    const llvm::Align align(f.bits / 8);
    auto* before = b_.CreateAlignedLoad(operand->getType(), at, align);
    before->setAtomic(llvm::AtomicOrdering::Monotonic);
    auto* again = llvm::BasicBlock::Create(context_, "update", function_);
    auto* after = llvm::BasicBlock::Create(context_, "updated", function_);
    const auto element = [&](Value* word) { return from_code(b_.CreateZExt(word, b_.getInt64Ty()), f); };
    Value* y = element(operand);
    llvm::BasicBlock* start = b_.GetInsertBlock();
    b_.CreateBr(again);
    b_.SetInsertPoint(again);
    llvm::PHINode* old = b_.CreatePHI(operand->getType(), 2);
    old->addIncoming(before, start);
    Value* x[2] = {element(old), y};
    Value* joined = b_.CreateTrunc(to_code(scalars_.elementwise(ir::joining_op(kind), f, x), f), operand->getType());
    Value* pair = compare_and_swap(b_, at, old, joined, align, ordering(order));
    old->addIncoming(b_.CreateExtractValue(pair, 0), b_.GetInsertBlock());
    b_.CreateCondBr(b_.CreateExtractValue(pair, 1), after, again);
    b_.SetInsertPoint(after);
    return old;
}

/// The processor's own update of the element at an aligned address; the old value's code.
Value* Codegen::native_atomic(ir::AtomicKind kind, ir::MemoryOrder order, const Format& f, Value* at, Value* code, Value* expected) {
    const llvm::Align align(f.bits / 8);
    llvm::Type* word = b_.getIntNTy(f.bits);
    Value* v = b_.CreateTrunc(code, word);
    Value* old;
    if (kind == ir::AtomicKind::cas)
        old = b_.CreateExtractValue(compare_and_swap(b_, at, b_.CreateTrunc(expected, word), v, align, ordering(order)), 0);
    else if (f.is_int() || kind == ir::AtomicKind::xchg)
        old = b_.CreateAtomicRMW(integer_update(kind, f.is_signed), at, v, align, ordering(order));
    else
        old = joined_atomic(kind, order, f, at, v);
    return b_.CreateZExt(old, b_.getInt64Ty());
}

/// Updates the element at `data` + `bit` and gives its old value.
Value* Codegen::atomic_element(ir::InstId id, Value* data, Value* bit, ir::ValueId value, ir::ValueId expected, const Point& p) {
    const Format& f = fn_.elem(value);
    const auto attrs = fn_.attrs(fn_.inst(id));
    const auto kind = static_cast<ir::AtomicKind>(attrs[1]);
    const auto order = static_cast<ir::MemoryOrder>(attrs[2]);
    Value* code = to_code(lanes(value, p), f);
    Value* wanted = expected.valid() ? to_code(lanes(expected, p), f) : i64(0);
    const auto call = [&] { return call_support(offsetof(Support, atomic), b_.getInt64Ty(), {i32(id.v), data, bit, code, wanted}); };
    if (!has_byte_address(f.bits)) return from_code(call(), f);
    Value* at = b_.CreateGEP(b_.getInt8Ty(), data, b_.CreateLShr(bit, 3));
    Value* odd = b_.CreateAnd(b_.CreatePtrToInt(at, b_.getInt64Ty()), i64(f.bits / 8 - 1));
    Value* old = choose(
        b_.CreateICmpEQ(odd, i64(0)), [&] { return native_atomic(kind, order, f, at, code, wanted); },
        call);  // a host's tensor may lie anywhere
    return from_code(old, f);
}

/// `update` changes one element and gives its old value, or 0 where the element is left out.
void Codegen::atomic_elements(ir::InstId id, const Shape& shape, const std::function<Value*(const Point& p)>& update) {
    const ir::ValueId result = fn_.result(id);
    nest_elements(shape, [&](const Point& p) {
        Value* old = update(p);
        if (is_stored(result)) write(buffer(result), p, old);
        if (is_scalar(result)) define(result, old);
    });
}

void Codegen::cpu_atomic(ir::InstId id) {
    AccessEmitter access(*this, id);
    atomic_elements(id, access.part(), [&](const Point& p) -> Value* {
        Place place = access.place(p);
        const Address a = access.address(place);
        Value* mask = access.mask(place, p);
        const auto update = [&] {
            Value* bit = a.bytes ? b_.CreateShl(a.offset, 3) : a.offset;
            return atomic_element(id, a.base, bit, access.operands().value.value, access.operands().expected.value, p);
        };
        if (!mask) return update();
        return choose(mask, update, [&]() -> Value* { return llvm::Constant::getNullValue(scalars_.type(access.format(), 0)); });
    });
}

}  // namespace tegula::cpu
