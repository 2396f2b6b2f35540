// Tiles of pointers (abi.h): every access checks that its pointer reaches an element of some argument, and reports those that do not.
#include "jit/cpu/pointer.h"

#include <cstddef>

#include "lang/access_operands.h"
#include "lang/tensor_strides.h"

namespace tegula::cpu {

using ir::Access;
using ir::Op;
using llvm::Align;
using llvm::Value;

PointerEmitter::PointerEmitter(Codegen& g, ir::InstId id)
    : g_(g),
      b_(g.b()),
      fn_(g.fn()),
      id_(id),
      pointers_(fn_.operands(fn_.inst(id))[0]),
      format_(fn_.elem(pointers_)),
      root_(pointer_root(fn_, pointers_)),
      whole_(has_byte_address(format_.bits)) {
    const ir::AccessOperands in(fn_, fn_.inst(id));
    value_ = in.value.value;
    mask_ = in.mask.value;
    other_ = in.other.value;
}

Value* PointerEmitter::mask(const Point& p) {
    Value* own = mask_.valid() ? g_.lanes(mask_, p) : nullptr;
    if (!own || !p.active) return own ? own : p.active;
    return b_.CreateAnd(own, p.active);
}

Value* PointerEmitter::element(const Point& p) { return g_.linear(p, shape()).value; }

/// The numbers of a vector's elements, which may run along any dimension, by lane.
std::function<Value*(Value*)> PointerEmitter::elements(const Point& p) {
    Value* numbers = g_.as_vector(g_.linear(p, shape()), p.lanes);
    Value* all = g_.local(numbers->getType());
    b_.CreateStore(numbers, all);
    return
        [this, all](Value* lane) { return b_.CreateZExt(b_.CreateLoad(b_.getInt32Ty(), b_.CreateGEP(b_.getInt32Ty(), all, lane)), b_.getInt64Ty()); };
}

void PointerEmitter::report(Value* bad, const Point& p) {
    g_.when(b_.CreateOrReduce(bad), [&] {
        Value* pointers = g_.lanes(pointers_, p);
        Value* all = g_.local(pointers->getType());
        b_.CreateStore(pointers, all);
        const auto number_of = elements(p);
        g_.each_lane(bad, p.lanes, [&](Value* lane) {
            Value* one = b_.CreateLoad(b_.getInt64Ty(), b_.CreateGEP(b_.getInt64Ty(), all, lane));
            g_.call_support(offsetof(Support, bad_pointer), b_.getVoidTy(), {g_.i32(id_.v), number_of(lane), one});
        });
    });
}

PointerEmitter::Lanes PointerEmitter::resolve(Value* mask, const Point& p) {
    Value* element = number(g_.lanes(pointers_, p));
    llvm::Type* type = element->getType();
    Value* good = b_.CreateICmpULT(element, g_.splat(reachable(), p.lanes));
    Value* bad = b_.CreateNot(good);
    report(mask ? b_.CreateAnd(bad, mask) : bad, p);
    Lanes out;
    out.on = mask ? b_.CreateAnd(good, mask) : good;
    out.offset = b_.CreateMul(element, llvm::ConstantInt::get(type, format_.bits / 8));
    Value* first = b_.CreateExtractElement(element, uint64_t{0});
    Value* row = b_.CreateAdd(g_.splat(first, p.lanes), b_.CreateZExt(g_.lane_numbers(p.lanes), type));
    out.together = b_.CreateAndReduce(b_.CreateICmpEQ(element, row));
    out.first = pointer_to(first);
    return out;
}

Value* PointerEmitter::slot_at(Value* slot) { return b_.CreateAlignedLoad(b_.getInt64Ty(), b_.CreateGEP(b_.getInt64Ty(), g_.args_, slot), Align(8)); }

Value* PointerEmitter::reach(Value* pointer, Value* lane, const std::function<Value*(Value* data, Value* bit)>& body, Value* otherwise) {
    const auto& params = g_.args_layout_.params;
    // The number of the argument's first slot, by argument; -1: none that pointers reach.
    std::vector<llvm::Constant*> table{b_.getInt64(UINT64_MAX)};
    for (const ParamSlots& p : params) table.push_back(b_.getInt64(p.kind == ParamSlots::scalar ? UINT64_MAX : p.first));
    auto* type = llvm::ArrayType::get(b_.getInt64Ty(), table.size());
    auto* global =
        new llvm::GlobalVariable(g_.module_, type, true, llvm::GlobalValue::PrivateLinkage, llvm::ConstantArray::get(type, table), "objects");
    Value* argument = b_.CreateLShr(pointer, 48);
    Value* known = b_.CreateICmpULT(argument, g_.i64(static_cast<int64_t>(table.size())));
    Value* safe = b_.CreateSelect(known, argument, g_.i64(0));
    Value* first = b_.CreateLoad(b_.getInt64Ty(), b_.CreateGEP(b_.getInt64Ty(), global, safe));
    if (follows_addresses(fn_)) {  // behind the arguments
        Value* behind = b_.CreateSub(argument, g_.i64(static_cast<int64_t>(table.size())));
        Value* slot = b_.CreateAdd(b_.CreateMul(behind, g_.i64(3)), g_.i64(int64_t{g_.args_layout_.slots} + 1));
        first = b_.CreateSelect(b_.CreateICmpULT(behind, slot_at(g_.i64(g_.args_layout_.slots))), slot, first);
    }
    Value* element = b_.CreateSub(b_.CreateAnd(pointer, kPointerOffset), g_.i64(static_cast<int64_t>(kPointerBias)));
    const auto fail = [&] {
        g_.call_support(offsetof(Support, bad_pointer), b_.getVoidTy(), {g_.i32(id_.v), lane, pointer});
        return otherwise;
    };
    return g_.choose(
        b_.CreateICmpNE(first, g_.i64(-1)),
        [&] {
            Value* bytes = slot_at(b_.CreateAdd(first, g_.i64(ParamSlots::bytes)));
            Value* whole = b_.CreateUDiv(b_.CreateShl(bytes, 3), g_.i64(format_.bits));
            Value* limit = b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, whole, slot_at(b_.CreateAdd(first, g_.i64(ParamSlots::limit))));
            return g_.choose(
                b_.CreateICmpULT(element, limit),
                [&] { return body(b_.CreateIntToPtr(slot_at(first), b_.getPtrTy()), b_.CreateMul(element, g_.i64(format_.bits))); }, fail);
        },
        fail);
}

Value* PointerEmitter::load_one(Value* data, Value* bit) {
    Scalars& s = g_.scalars();
    if (!whole_) return s.load_at(format_, data, bit, nullptr, 0);
    Value* at = b_.CreateGEP(b_.getInt8Ty(), data, b_.CreateLShr(bit, 3));
    return s.from_memory(b_.CreateAlignedLoad(s.memory_type(format_, 0), at, Align(1)), format_);
}

Value* PointerEmitter::store_one(Value* value, Value* data, Value* bit) {
    Scalars& s = g_.scalars();
    if (!whole_)
        s.store_at(format_, value, data, bit, nullptr);
    else
        b_.CreateAlignedStore(s.to_memory(value, format_), b_.CreateGEP(b_.getInt8Ty(), data, b_.CreateLShr(bit, 3)), Align(1));
    return b_.getTrue();
}

Value* PointerEmitter::load_one_by_one(Value* mask, Value* other, const Point& p) {
    Scalars& s = g_.scalars();
    llvm::Type *memory = s.memory_type(format_, p.lanes), *element = s.memory_type(format_, 0);
    Value* pointers = g_.lanes(pointers_, p);
    Value *all = g_.local(pointers->getType()), *out = g_.local(memory);
    b_.CreateStore(pointers, all);
    b_.CreateStore(s.to_memory(other, format_), out);
    const auto number_of = elements(p);
    g_.each_lane(mask, p.lanes, [&](Value* lane) {
        Value* at = b_.CreateGEP(element, out, lane);
        Value* instead = s.from_memory(b_.CreateLoad(element, at), format_);
        Value* pointer = b_.CreateLoad(b_.getInt64Ty(), b_.CreateGEP(b_.getInt64Ty(), all, lane));
        Value* v = reach(
            pointer, number_of(lane), [&](Value* data, Value* bit) { return load_one(data, bit); }, instead);
        b_.CreateStore(s.to_memory(v, format_), at);
    });
    return s.from_memory(b_.CreateLoad(memory, out), format_);
}

void PointerEmitter::store_one_by_one(Value* mask, Value* value, const Point& p) {
    Scalars& s = g_.scalars();
    Value *pointers = g_.lanes(pointers_, p), *memory = s.to_memory(value, format_);
    Value *all = g_.local(pointers->getType()), *values = g_.local(memory->getType());
    b_.CreateStore(pointers, all);
    b_.CreateStore(memory, values);
    const auto number_of = elements(p);
    llvm::Type* element = s.memory_type(format_, 0);
    g_.each_lane(mask, p.lanes, [&](Value* lane) {
        Value* v = s.from_memory(b_.CreateLoad(element, b_.CreateGEP(element, values, lane)), format_);
        Value* pointer = b_.CreateLoad(b_.getInt64Ty(), b_.CreateGEP(b_.getInt64Ty(), all, lane));
        reach(
            pointer, number_of(lane), [&](Value* data, Value* bit) { return store_one(v, data, bit); }, b_.getFalse());
    });
}

Value* PointerEmitter::load(const Point& p) {
    Scalars& s = g_.scalars();
    Value* other = other_.valid() ? g_.lanes(other_, p) : llvm::Constant::getNullValue(s.type(format_, p.lanes));
    if (!p.lanes) {
        const auto read = [&] {
            return reach(
                g_.lanes(pointers_, p), element(p), [&](Value* data, Value* bit) { return load_one(data, bit); }, other);
        };
        Value* on = mask(p);
        return on ? g_.choose(on, read, [&] { return other; }) : read();
    }
    llvm::Type* memory = s.memory_type(format_, p.lanes);
    Value* instead = s.to_memory(other, format_);
    if (const auto whole = in_whole(p)) {
        if (!whole->on) return s.from_memory(b_.CreateAlignedLoad(memory, whole->first, Align(1)), format_);
        return s.from_memory(g_.masked_load(memory, whole->first, whole->on, instead, Align(1)), format_);
    }
    Value* on = mask(p);
    if (root_ < 0 || !whole_) return load_one_by_one(on, other, p);
    Value* v = each(
        on, run(p, p.lanes, false), p, [&](Value* first, Value* lanes) { return g_.masked_load(memory, first, lanes, instead, Align(1)); },
        [&](Value* pointers, Value* lanes) -> Value* { return b_.CreateMaskedGather(memory, pointers, Align(1), lanes, instead); });
    return s.from_memory(v, format_);
}

void PointerEmitter::store(const Point& p) {
    Value* value = g_.lanes(value_, p);
    if (!p.lanes) {
        const auto write = [&] {
            reach(
                g_.lanes(pointers_, p), element(p), [&](Value* data, Value* bit) { return store_one(value, data, bit); }, b_.getFalse());
        };
        Value* on = mask(p);
        return on ? g_.when(on, write) : write();
    }
    Value* v = g_.scalars().to_memory(value, format_);
    if (const auto whole = in_whole(p)) {
        if (whole->on) return g_.masked_store(v, whole->first, whole->on, Align(1));
        b_.CreateAlignedStore(v, whole->first, Align(1));
        return;
    }
    Value* on = mask(p);
    if (root_ < 0 || !whole_) return store_one_by_one(on, value, p);
    const auto in_row = [&](Value* first, Value* lanes) -> Value* {
        g_.masked_store(v, first, lanes, Align(1));
        return b_.getTrue();
    };
    const auto apart = [&](Value* pointers, Value* lanes) -> Value* {
        b_.CreateMaskedScatter(v, pointers, Align(1), lanes);
        return b_.getTrue();
    };
    each(on, run(p, p.lanes, false), p, in_row, apart);
}

// ---- instructions ----

Value* Codegen::at_ptr_load(ir::InstId id, const Point& p) { return PointerEmitter(*this, id).load(p); }

void Codegen::cpu_ptr_store(ir::InstId id) {
    PointerEmitter pointer(*this, id);
    NestOptions options;
    options.mixed = pointer.whole_bytes();
    nest(
        pointer.shape(), [&](const Point& p) { pointer.store(p); }, options);
}

void Codegen::cpu_ptr_atomic(ir::InstId id) {
    const ir::AccessOperands in(fn_, fn_.inst(id));
    PointerEmitter pointer(*this, id);
    atomic_elements(id, pointer.shape(), [&](const Point& p) -> Value* {
        Value* none = llvm::Constant::getNullValue(scalars_.type(fn_.elem(in.object), 0));
        Value* address = lanes(in.object, p);
        const auto update = [&] {
            const auto at = [&](Value* data, Value* bit) { return atomic_element(id, data, bit, in.value.value, in.expected.value, p); };
            return pointer.reach(address, pointer.element(p), at, none);
        };
        Value* on = pointer.mask(p);
        return on ? choose(on, update, [&] { return none; }) : update();
    });
}

void Codegen::cpu_ptr_load(ir::InstId id) { emit_root(id); }

/// Objects are looked up by the run-time side.
void Codegen::convert_pointers(ir::InstId id) {
    const ir::ValueId from = fn_.operands(fn_.inst(id))[0], to = fn_.result(id);
    const auto call = [&](Value* in, Value* out) { call_support(offsetof(Support, convert_pointers), b_.getVoidTy(), {i32(id.v), in, out}); };
    if (!is_scalar(to)) return call(buffer(from).base, buffer(to).base);
    Value *in = local(b_.getInt64Ty()), *out = local(b_.getInt64Ty());
    b_.CreateStore(scalar(from), in);
    call(in, out);
    define(to, b_.CreateLoad(b_.getInt64Ty(), out));
}

void Codegen::cpu_ptr_at(ir::InstId id) { convert_pointers(id); }
void Codegen::cpu_ptr_address(ir::InstId id) { convert_pointers(id); }

void Codegen::cpu_tensor_ptr(ir::InstId id) {
    const uint64_t number = static_cast<uint64_t>(param_of_[fn_.operands(fn_.inst(id))[0].v]) + 1;
    define(fn_.result(id), i64(static_cast<int64_t>(number << 48 | kPointerBias)));
}

}  // namespace tegula::cpu
