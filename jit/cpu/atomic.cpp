// Atomics: one element after the other, in row-major order, under the run's lock; the update itself is the run-time side's (abi.h, Support).
#include <cstddef>

#include "jit/cpu/access.h"

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

Value* Codegen::call_atomic(ir::InstId id, Value* data, Value* bit, ir::ValueId value, ir::ValueId expected, const Point& p) {
    const Format& f = fn_.elem(value);
    Value* code = to_code(lanes(value, p), f);
    Value* wanted = expected.valid() ? to_code(lanes(expected, p), f) : i64(0);
    return from_code(call_support(offsetof(Support, atomic), b_.getInt64Ty(), {i32(id.v), data, bit, code, wanted}), f);
}

/// `update` changes one element and gives its old value, or 0 where the element is left out.
void Codegen::atomic_elements(ir::InstId id, const Shape& shape, const std::function<Value*(const Point& p)>& update) {
    const ir::ValueId result = fn_.result(id);
    call_support(offsetof(Support, lock), b_.getVoidTy(), {});
    nest_elements(shape, [&](const Point& p) {
        Value* old = update(p);
        if (is_stored(result)) write(buffer(result), p, old);
        if (is_scalar(result)) define(result, old);
    });
    call_support(offsetof(Support, unlock), b_.getVoidTy(), {});
}

void Codegen::cpu_atomic(ir::InstId id) {
    AccessEmitter access(*this, id);
    atomic_elements(id, access.part(), [&](const Point& p) -> Value* {
        Place place = access.place(p);
        const Address a = access.address(place);
        Value* mask = access.mask(place, p);
        const auto update = [&] {
            Value* bit = a.bytes ? b_.CreateShl(a.offset, 3) : a.offset;
            return call_atomic(id, a.base, bit, access.value(), access.expected(), p);
        };
        if (!mask) return update();
        return choose(mask, update, [&]() -> Value* { return llvm::Constant::getNullValue(scalars_.type(access.format(), 0)); });
    });
}

}  // namespace tegula::cpu
