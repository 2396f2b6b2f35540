// Tiles of pointers (abi.h): every access checks that its pointer reaches an element of some argument, and reports those that do not.
#include <cstddef>

#include "jit/cpu/codegen.h"

namespace tegula::cpu {

using ir::Access;
using ir::Op;
using llvm::Align;
using llvm::Value;

class PointerEmitter {
public:
    PointerEmitter(Codegen& g, ir::InstId id)
        : g_(g),
          b_(g.b()),
          fn_(g.fn()),
          id_(id),
          pointers_(fn_.operands(fn_.inst(id))[0]),
          format_(fn_.elem(pointers_)),
          root_(root(pointers_)),
          whole_(has_byte_address(format_.bits)) {}

    Value* load(Value* pointers, Value* mask, Value* other, const Point& p);
    void store(Value* pointers, Value* mask, Value* value, const Point& p);
    /// Where one pointer leads: body(data, bit) if it reaches an element, else reported and `otherwise`.
    Value* reach(Value* pointer, Value* lane, const std::function<Value*(Value* data, Value* bit)>& body, Value* otherwise);
    const Shape& shape() const { return fn_.type(pointers_).shape; }
    Value* lane_number(const Point& p);

private:
    struct Lanes {
        Value *first, *offset, *on;  ///< ptr of lane 0, byte offsets of the others from the data, mask
        Value* together;             ///< i1: lanes lie side by side
    };
    int root(ir::ValueId v) const;
    Value* reachable(const ParamSlots& slots);
    Lanes resolve(Value* pointers, Value* mask, const Point& p);
    void each_lane(Value* mask, const Point& p, const std::function<void(Value* lane)>& body);
    Value* slot_at(Value* slot);

    Codegen& g_;
    llvm::IRBuilder<>& b_;
    const ir::Function& fn_;
    ir::InstId id_;
    ir::ValueId pointers_;
    const Format& format_;
    int root_;  ///< the only parameter that the pointers can reach, or -1
    bool whole_;
};

/// The parameter that all pointers of a tile are made from, when that can be seen.
int PointerEmitter::root(ir::ValueId v) const {
    for (;;) {
        if (g_.param_of_[v.v] >= 0) return g_.param_of_[v.v];
        const ir::Inst* inst = fn_.def(v);
        if (!inst) return -1;
        switch (inst->op) {
            case Op::ptr_add:
            case Op::broadcast:
            case Op::reshape:
            case Op::permute:
            case Op::slice:
            case Op::tensor_ptr:
                v = fn_.operands(*inst)[0];
                break;
            default:
                return -1;
        }
    }
}

Value* PointerEmitter::reachable(const ParamSlots& slots) {
    Value* bytes = g_.argument_slot(slots.first + ParamSlots::bytes);
    Value* whole =
        format_.bits % 8 == 0 ? b_.CreateUDiv(bytes, g_.i64(format_.bits / 8)) : b_.CreateUDiv(b_.CreateShl(bytes, 3), g_.i64(format_.bits));
    return b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, whole, g_.argument_slot(slots.first + ParamSlots::limit));
}

Value* PointerEmitter::lane_number(const Point& p) {
    Point origin = p;
    origin.lanes = 0;
    for (size_t d = 0; d < p.rank; ++d) {
        TEGULA_CHECK(p.index[d].kind != Index::vector || p.lanes, "a scalar point with lanes");
        if (origin.index[d].kind == Index::consecutive) origin.index[d].kind = Index::uniform;
        if (origin.index[d].kind == Index::vector)
            origin.index[d] = g_.uniform(b_.CreateZExt(b_.CreateExtractElement(p.index[d].value, uint64_t{0}), b_.getInt64Ty()));
    }
    return g_.linear(origin, shape()).value;
}

void PointerEmitter::each_lane(Value* mask, const Point& p, const std::function<void(Value* lane)>& body) {
    llvm::Type* bytes = llvm::FixedVectorType::get(b_.getInt8Ty(), p.lanes);
    Value* on = g_.local(b_.getInt8Ty(), p.lanes);
    if (!mask) mask = g_.splat(b_.getTrue(), p.lanes);
    b_.CreateAlignedStore(b_.CreateZExt(mask, bytes), on, Align(1));
    g_.loop(0, p.lanes, 1, [&](Value* lane) {
        Value* set = b_.CreateLoad(b_.getInt8Ty(), b_.CreateGEP(b_.getInt8Ty(), on, lane));
        g_.when(b_.CreateICmpNE(set, b_.getInt8(0)), [&] { body(lane); });
    });
}

PointerEmitter::Lanes PointerEmitter::resolve(Value* pointers, Value* mask, const Point& p) {
    const ParamSlots& slots = g_.args_layout_.params[static_cast<size_t>(root_)];
    llvm::Type* type = pointers->getType();
    const auto number = [&](uint64_t v) { return llvm::ConstantInt::get(type, v); };
    Value* element = b_.CreateSub(pointers, number((static_cast<uint64_t>(root_) + 1) << 48 | kPointerBias));
    Value* good = b_.CreateICmpULT(element, g_.splat(reachable(slots), p.lanes));
    Value* bad = b_.CreateNot(good);
    if (mask) bad = b_.CreateAnd(bad, mask);
    g_.when(b_.CreateOrReduce(bad), [&] {
        Value* all = g_.local(type);
        b_.CreateStore(pointers, all);
        Value* base = lane_number(p);
        each_lane(bad, p, [&](Value* lane) {
            Value* one = b_.CreateLoad(b_.getInt64Ty(), b_.CreateGEP(b_.getInt64Ty(), all, lane));
            g_.call_support(offsetof(Support, bad_pointer), b_.getVoidTy(), {g_.i32(id_.v), b_.CreateAdd(base, lane), one});
        });
    });
    Lanes out;
    out.on = mask ? b_.CreateAnd(good, mask) : good;
    out.offset = b_.CreateMul(element, number(format_.bits / 8));
    Value* first = b_.CreateExtractElement(element, uint64_t{0});
    Value* row = b_.CreateAdd(g_.splat(first, p.lanes), b_.CreateZExt(g_.lane_numbers(p.lanes), type));
    out.together = b_.CreateAndReduce(b_.CreateICmpEQ(element, row));
    out.first = b_.CreateGEP(b_.getInt8Ty(), g_.param_data(slots), b_.CreateMul(first, g_.i64(format_.bits / 8)));
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

Value* PointerEmitter::load(Value* pointers, Value* mask, Value* other, const Point& p) {
    Scalars& s = g_.scalars();
    llvm::Type* type = s.type(format_, p.lanes);
    if (!other) other = llvm::Constant::getNullValue(type);
    const auto one = [&](Value* data, Value* bit) -> Value* {
        if (!whole_) return s.load_at(format_, data, bit, nullptr, 0);
        Value* at = b_.CreateGEP(b_.getInt8Ty(), data, b_.CreateLShr(bit, 3));
        return s.from_memory(b_.CreateAlignedLoad(s.memory_type(format_, 0), at, Align(1)), format_);
    };
    if (!p.lanes) {
        const auto read = [&] { return reach(pointers, lane_number(p), one, other); };
        return mask ? g_.choose(mask, read, [&] { return other; }) : read();
    }
    llvm::Type* memory = s.memory_type(format_, p.lanes);
    if (root_ < 0 || !whole_) {
        Value *all = g_.local(pointers->getType()), *out = g_.local(memory);
        b_.CreateStore(pointers, all);
        b_.CreateStore(s.to_memory(other, format_), out);
        Value* base = lane_number(p);
        llvm::Type* element = s.memory_type(format_, 0);
        each_lane(mask, p, [&](Value* lane) {
            Value* at = b_.CreateGEP(element, out, lane);
            Value* instead = s.from_memory(b_.CreateLoad(element, at), format_);
            Value* v = reach(b_.CreateLoad(b_.getInt64Ty(), b_.CreateGEP(b_.getInt64Ty(), all, lane)), b_.CreateAdd(base, lane), one, instead);
            b_.CreateStore(s.to_memory(v, format_), at);
        });
        return s.from_memory(b_.CreateLoad(memory, out), format_);
    }
    const Lanes l = resolve(pointers, mask, p);
    Value* instead = s.to_memory(other, format_);
    Value* v = g_.choose(
        l.together, [&] { return g_.masked_load(memory, l.first, l.on, instead, Align(1)); },
        [&]() -> Value* {
            Value* data = g_.param_data(g_.args_layout_.params[static_cast<size_t>(root_)]);
            return b_.CreateMaskedGather(memory, b_.CreateGEP(b_.getInt8Ty(), data, l.offset), Align(1), l.on, instead);
        });
    return s.from_memory(v, format_);
}

void PointerEmitter::store(Value* pointers, Value* mask, Value* value, const Point& p) {
    Scalars& s = g_.scalars();
    const auto put = [&](Value* v) {
        return [this, &s, v](Value* data, Value* bit) -> Value* {
            if (!whole_)
                s.store_at(format_, v, data, bit, nullptr);
            else
                b_.CreateAlignedStore(s.to_memory(v, format_), b_.CreateGEP(b_.getInt8Ty(), data, b_.CreateLShr(bit, 3)), Align(1));
            return b_.getTrue();
        };
    };
    if (!p.lanes) {
        const auto write = [&] { reach(pointers, lane_number(p), put(value), b_.getFalse()); };
        return mask ? g_.when(mask, write) : write();
    }
    if (root_ < 0 || !whole_) {
        Value* memory = s.to_memory(value, format_);
        Value *all = g_.local(pointers->getType()), *values = g_.local(memory->getType());
        b_.CreateStore(pointers, all);
        b_.CreateStore(memory, values);
        Value* base = lane_number(p);
        llvm::Type* element = s.memory_type(format_, 0);
        return each_lane(mask, p, [&](Value* lane) {
            Value* v = s.from_memory(b_.CreateLoad(element, b_.CreateGEP(element, values, lane)), format_);
            reach(b_.CreateLoad(b_.getInt64Ty(), b_.CreateGEP(b_.getInt64Ty(), all, lane)), b_.CreateAdd(base, lane), put(v), b_.getFalse());
        });
    }
    const Lanes l = resolve(pointers, mask, p);
    Value* v = s.to_memory(value, format_);
    g_.choose(
        l.together,
        [&]() -> Value* {
            g_.masked_store(v, l.first, l.on, Align(1));
            return b_.getTrue();
        },
        [&]() -> Value* {
            Value* data = g_.param_data(g_.args_layout_.params[static_cast<size_t>(root_)]);
            b_.CreateMaskedScatter(v, b_.CreateGEP(b_.getInt8Ty(), data, l.offset), Align(1), l.on);
            return b_.getTrue();
        });
}

// ---- instructions ----

namespace {

Value* masks(Codegen& g, ir::ValueId mask, const Point& p) {
    Value* own = mask.valid() ? g.lanes(mask, p) : nullptr;
    if (!own || !p.active) return own ? own : p.active;
    return g.b().CreateAnd(own, p.active);
}

}  // namespace

Value* Codegen::at_ptr_load(ir::InstId id, const Point& p) {
    const ir::Inst& inst = fn_.inst(id);
    const auto operands = fn_.operands(inst);
    const int64_t flags = fn_.attrs(inst)[0];
    size_t next = 1;
    const ir::ValueId mask = flags & Access::has_mask ? operands[next++] : ir::ValueId{};
    Value* other = flags & Access::has_other ? lanes(operands[next++], p) : nullptr;
    Value* pointers = lanes(operands[0], p);
    return PointerEmitter(*this, id).load(pointers, masks(*this, mask, p), other, p);
}

void Codegen::cpu_ptr_store(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    const auto operands = fn_.operands(inst);
    PointerEmitter pointer(*this, id);
    const ir::ValueId mask = fn_.attrs(inst)[0] & Access::has_mask ? operands[2] : ir::ValueId{};
    nest(pointer.shape(), [&](const Point& p) {
        Value *value = lanes(operands[1], p), *pointers = lanes(operands[0], p);
        pointer.store(pointers, masks(*this, mask, p), value, p);
    });
}

void Codegen::cpu_ptr_atomic(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    const auto operands = fn_.operands(inst);
    const auto attrs = fn_.attrs(inst);
    size_t next = 2;
    const ir::ValueId expected = static_cast<ir::AtomicKind>(attrs[1]) == ir::AtomicKind::cas ? operands[next++] : ir::ValueId{};
    const ir::ValueId mask = attrs[0] & Access::has_mask ? operands[next++] : ir::ValueId{};
    PointerEmitter pointer(*this, id);
    atomic_elements(id, pointer.shape(), [&](const Point& p) -> Value* {
        Value* none = llvm::Constant::getNullValue(scalars_.type(fn_.elem(operands[0]), 0));
        Value* address = lanes(operands[0], p);
        const auto update = [&] {
            const auto at = [&](Value* data, Value* bit) { return atomic_element(id, data, bit, operands[1], expected, p); };
            return pointer.reach(address, pointer.lane_number(p), at, none);
        };
        Value* on = masks(*this, mask, p);
        return on ? choose(on, update, [&] { return none; }) : update();
    });
}

void Codegen::cpu_ptr_load(ir::InstId id) { emit_root(id); }

void Codegen::cpu_tensor_ptr(ir::InstId id) {
    const uint64_t number = static_cast<uint64_t>(param_of_[fn_.operands(fn_.inst(id))[0].v]) + 1;
    define(fn_.result(id), i64(static_cast<int64_t>(number << 48 | kPointerBias)));
}

}  // namespace tegula::cpu
