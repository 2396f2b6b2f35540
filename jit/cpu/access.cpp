// Access in all its uses (access.h): coordinates and masks, then loads, stores, extract and deposit.
#include "jit/cpu/access.h"

#include <cstddef>

namespace tegula::cpu {

using ir::Access;
using ir::Op;
using llvm::Value;

AccessEmitter::AccessEmitter(Codegen& g, ir::InstId id)
    : g_(g),
      b_(g.b()),
      fn_(g.fn()),
      id_(id),
      access_(fn_.access(fn_.inst(id))),
      object_(fn_.operands(fn_.inst(id))[0]),
      format_(fn_.elem(object_)),
      pointer_(fn_.type(object_).pointer),
      tensor_(fn_.type(object_).kind == Type::tensor),
      out_bytes_(has_byte_address(format_.bits)) {
    const ir::Inst& inst = fn_.inst(id);
    const auto operands = fn_.operands(inst);
    size_t next = 1;
    for (const Access::Axis& axis : access_.axes) {
        index_.push_back(axis.kind == Access::all ? ir::ValueId{} : operands[next++]);
        if (axis.kind == Access::gather) joint_ = *broadcast(joint_, fn_.type(index_.back()).shape);
    }
    bool placed = false;
    size_t joint_at = 0;
    for (const Access::Axis& axis : access_.axes) {
        if (axis.kind == Access::gather && !placed) {
            placed = true;
            joint_at = part_.rank;
            for (int64_t e : joint_) part_.push(e);
        }
        dim_.push_back(axis.kind == Access::gather ? joint_at : part_.rank);
        if (axis.kind == Access::range || axis.kind == Access::all) part_.push(axis.extent);
    }
    if (inst.op == Op::store || inst.op == Op::deposit || inst.op == Op::atomic) value_ = operands[next++];
    if (inst.op == Op::atomic && static_cast<ir::AtomicKind>(fn_.attrs(inst)[1]) == ir::AtomicKind::cas) expected_ = operands[next++];
    if (access_.flags & Access::has_other) other_ = operands[next++];
    if (access_.flags & Access::has_mask) mask_ = operands[next++];
}

void AccessEmitter::both(Value*& all, Value* more) {
    if (more) all = all ? b_.CreateAnd(all, more) : more;
}

Value* AccessEmitter::extent(size_t a) {
    if (tensor_) return g_.extent(object_, a);
    return g_.i64(fn_.type(object_).shape[a]);
}

/// Positions 0 <= j < n of an axis whose index start + j * step is in [0, extent): those from `low` to `high`.
AccessEmitter::Limits AccessEmitter::limits(size_t a) {
    const Access::Axis& axis = access_.axes[a];
    Value *start = g_.scalar(index_[a]), *all = extent(a), *n = g_.i64(axis.extent), *zero = g_.i64(0);
    const auto least = [&](Value* x, Value* y) { return b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, x, y); };
    const auto up = [&](Value* v, uint64_t by) { return b_.CreateUDiv(v, b_.getInt64(by)); };
    Value* negative = b_.CreateICmpSLT(start, zero);
    Value* beyond = b_.CreateICmpSGE(start, all);
    const uint64_t by = axis.step < 0 ? 0 - static_cast<uint64_t>(axis.step) : static_cast<uint64_t>(axis.step);
    Value *low, *high;
    if (axis.step > 0) {
        Value* before = b_.CreateNeg(start);  // unsigned: right for the smallest number as well
        Value* skip = by == 1 ? before : b_.CreateAdd(up(b_.CreateSub(before, g_.i64(1)), by), g_.i64(1));
        Value* room = b_.CreateSub(all, start);
        Value* count = by == 1 ? room : b_.CreateAdd(up(b_.CreateSub(room, g_.i64(1)), by), g_.i64(1));
        low = b_.CreateSelect(negative, least(skip, n), zero);
        high = b_.CreateSelect(beyond, zero, least(count, n));
    } else {
        Value* over = b_.CreateSub(start, all);
        low = b_.CreateSelect(beyond, least(b_.CreateAdd(up(over, by), g_.i64(1)), n), zero);
        high = b_.CreateSelect(negative, zero, least(b_.CreateAdd(up(start, by), g_.i64(1)), n));
    }
    return {low, high};
}

Coordinate AccessEmitter::gathered(size_t a, const Point& p, Place& place) {
    const Shape& own = fn_.type(index_[a]).shape;
    Point q = p;
    q.rank = own.rank;
    bool same = true;
    const size_t skip = dim_[a] + joint_.rank - own.rank;
    for (size_t d = 0; d < own.rank; ++d) {
        q.index[d] = own[d] == 1 ? g_.uniform(0) : p.index[d + skip];
        same = same && q.index[d].kind == Index::uniform;
    }
    if (same) q.lanes = 0, q.active = nullptr;
    Value* v = g_.lanes(index_[a], q);
    if (!access_.axes[a].in_bounds) {
        Value* in = b_.CreateICmpULT(v, g_.splat(extent(a), q.lanes));
        both(q.lanes ? place.lane : place.row, in);
    }
    return {q.lanes ? Index::vector : Index::uniform, v, 1};
}

Coordinate AccessEmitter::axis(size_t a, const Point& p, Place& place, bool known_in) {
    const Access::Axis& axis = access_.axes[a];
    if (axis.kind == Access::gather) return gathered(a, p, place);
    if (axis.kind == Access::index) {
        Value* v = g_.scalar(index_[a]);
        if (!axis.in_bounds) both(place.row, b_.CreateICmpULT(v, extent(a)));
        return {Index::uniform, v, 1};
    }
    const Index j = part_[dim_[a]] == 1 ? g_.uniform(0) : p.index[dim_[a]];
    const unsigned n = p.lanes;
    const bool ranged = axis.kind == Access::range;
    Value* start = ranged ? g_.scalar(index_[a]) : g_.i64(0);
    const int64_t step = ranged ? axis.step : 1;
    if (ranged && !axis.in_bounds && !known_in) {
        const Limits l = limits(a);
        llvm::Type* i32 = b_.getInt32Ty();
        if (j.kind == Index::uniform) {
            both(place.row, b_.CreateAnd(b_.CreateICmpSGE(j.value, l.low), b_.CreateICmpSLT(j.value, l.high)));
        } else {
            Value* base = j.kind == Index::vector ? g_.i64(0) : j.value;
            Value* lane = j.kind == Index::vector ? j.value : g_.lane_numbers(n);
            Value* low = g_.splat(b_.CreateTrunc(b_.CreateSub(l.low, base), i32), n);
            Value* high = g_.splat(b_.CreateTrunc(b_.CreateSub(l.high, base), i32), n);
            both(place.lane, b_.CreateAnd(b_.CreateICmpSGE(lane, low), b_.CreateICmpSLT(lane, high)));
        }
    }
    if (j.kind == Index::vector) {
        Value* wide = b_.CreateZExt(j.value, llvm::FixedVectorType::get(b_.getInt64Ty(), n));
        return {Index::vector, b_.CreateAdd(b_.CreateMul(wide, g_.splat(g_.i64(step), n)), g_.splat(start, n)), 1};
    }
    return {j.kind, b_.CreateAdd(start, b_.CreateMul(j.value, g_.i64(step))), step};
}

Place AccessEmitter::place(const Point& p) {
    Place out;
    out.lanes = p.lanes;
    for (size_t a = 0; a < access_.axes.size(); ++a) out.at.push_back(axis(a, p, out));
    return out;
}

Value* AccessEmitter::mask(const Place& place, const Point& p) {
    Value* all = nullptr;
    if (place.row) all = g_.splat(place.row, p.lanes);
    both(all, place.lane);
    both(all, p.active);
    if (mask_.valid()) both(all, g_.lanes(mask_, p));
    if (!place.inside) return all;
    Value* out = b_.CreateNot(place.inside);
    if (all) out = b_.CreateAnd(out, all);
    g_.when(p.lanes ? b_.CreateOrReduce(out) : out, [&] {
        g_.call_support(offsetof(Support, outside), b_.getVoidTy(), {g_.i32(id_.v), g_.i32(g_.param_of_[object_.v])});
    });
    both(all, place.inside);
    return all;
}

Point AccessEmitter::object_point(const Place& place, Value* mask, const Point& p) {
    Point q = p;
    q.rank = fn_.type(object_).shape.rank;
    q.active = mask;
    llvm::Type* narrow = p.lanes ? static_cast<llvm::Type*>(llvm::FixedVectorType::get(b_.getInt32Ty(), p.lanes)) : nullptr;
    for (size_t a = 0; a < place.at.size(); ++a) {
        const Coordinate& c = place.at[a];
        if (c.kind == Index::uniform) {
            Value* safe = p.lanes ? place.row : mask;
            q.index[a] = g_.uniform(safe ? b_.CreateSelect(safe, c.value, g_.i64(0)) : c.value);
        } else if (c.kind == Index::consecutive && c.step == 1) {
            q.index[a] = {Index::consecutive, c.value, 1};
        } else {
            Value* v = b_.CreateTrunc(wide(c, p.lanes), narrow);
            q.index[a] = {Index::vector, mask ? b_.CreateSelect(mask, v, llvm::Constant::getNullValue(narrow)) : v, 1};
        }
    }
    return q;
}

// ---- in memory ----

/// The first active lane and the one after the last, i64; 0 and 0 when none is.
static std::pair<Value*, Value*> active_lanes(llvm::IRBuilder<>& b, Value* mask, unsigned lanes) {
    Value* bits = b.CreateBitCast(mask, b.getIntNTy(lanes));
    if (lanes < 64) bits = b.CreateZExt(bits, b.getInt64Ty());
    Value* first = b.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, bits, b.getFalse());
    Value* end = b.CreateSub(b.getInt64(64), b.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, bits, b.getFalse()));
    return {b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, first, end), end};
}

AccessEmitter::RunMask AccessEmitter::run_mask(const Place& place, Value* mask, const Point& p) {
    if (!place.row || place.inside || !p.lanes) return {nullptr, mask};
    Place rest = place;
    rest.row = nullptr;
    return {place.row, this->mask(rest, p)};
}

Value* AccessEmitter::load(const Address& a, Value* mask, Value* other, unsigned lanes, std::optional<RunMask> run) {
    Scalars& s = g_.scalars();
    llvm::Type* type = s.type(format_, lanes);
    if (!other) other = llvm::Constant::getNullValue(type);
    if (!lanes) {
        const auto read = [&]() -> Value* {
            if (!a.bytes) return s.load_at(format_, a.base, a.offset, nullptr, 0);
            llvm::Type* memory = s.memory_type(format_, 0);
            return s.from_memory(b_.CreateAlignedLoad(memory, b_.CreateGEP(b_.getInt8Ty(), a.base, a.offset), llvm::Align(1)), format_);
        };
        return mask ? g_.choose(mask, read, [&] { return other; }) : read();
    }
    if (!a.bytes && a.contiguous) {
        if (!mask) return s.load_run(format_, a.base, a.offset, nullptr, lanes);
        const RunMask parts = run.value_or(RunMask{nullptr, mask});
        std::pair<Value*, Value*> active{};
        if (parts.lanes) active = active_lanes(b_, parts.lanes, lanes);
        return s.select(mask, s.load_run(format_, a.base, a.offset, active.second, lanes, active.first, parts.row), other);
    }
    if (!a.bytes) {
        Value* bits = a.lanes ? b_.CreateAdd(g_.splat(a.offset, lanes), a.lanes) : g_.splat(a.offset, lanes);
        Value* v = s.load_at(format_, a.base, bits, mask, lanes);
        return mask ? s.select(mask, v, other) : v;
    }
    llvm::Type* memory = s.memory_type(format_, lanes);
    Value* instead = s.to_memory(other, format_);
    Value* first = b_.CreateGEP(b_.getInt8Ty(), a.base, a.offset);
    if (a.contiguous) {
        if (!mask) return s.from_memory(b_.CreateAlignedLoad(memory, first, llvm::Align(1)), format_);
        return s.from_memory(g_.masked_load(memory, first, mask, instead, llvm::Align(1)), format_);
    }
    if (!a.lanes) {  // one element for all lanes
        llvm::Type* element = s.memory_type(format_, 0);
        const auto read = [&]() -> Value* { return b_.CreateVectorSplat(lanes, b_.CreateAlignedLoad(element, first, llvm::Align(1))); };
        if (!mask) return s.from_memory(read(), format_);
        Value* any = b_.CreateOrReduce(mask);
        Value* v = g_.choose(any, read, [&]() -> Value* { return llvm::Constant::getNullValue(memory); });
        return s.from_memory(b_.CreateSelect(mask, v, instead), format_);
    }
    Value* pointers = b_.CreateGEP(b_.getInt8Ty(), first, a.lanes);
    if (format_.bits < 32) return s.from_memory(one_by_one(pointers, memory, mask, instead), format_);
    Value* on = mask ? mask : g_.splat(b_.getTrue(), lanes);
    return s.from_memory(b_.CreateMaskedGather(memory, pointers, llvm::Align(1), on, instead), format_);
}

/// No processor gathers elements this small: without branches, lanes that are off read the arguments.
Value* AccessEmitter::one_by_one(Value* pointers, llvm::Type* type, Value* mask, Value* instead) {
    if (mask) pointers = b_.CreateSelect(mask, pointers, g_.splat(g_.args_, llvm::cast<llvm::FixedVectorType>(type)->getNumElements()));
    Value* v = llvm::PoisonValue::get(type);
    for (unsigned l = 0; l < llvm::cast<llvm::FixedVectorType>(type)->getNumElements(); ++l)
        v = b_.CreateInsertElement(v, b_.CreateAlignedLoad(type->getScalarType(), b_.CreateExtractElement(pointers, l), llvm::Align(1)), l);
    return mask ? b_.CreateSelect(mask, v, instead) : v;
}

void AccessEmitter::store(const Address& a, Value* mask, Value* value, unsigned lanes) {
    Scalars& s = g_.scalars();
    if (!lanes) {
        const auto put = [&] {
            if (!a.bytes) return s.store_at(format_, value, a.base, a.offset, nullptr);
            b_.CreateAlignedStore(s.to_memory(value, format_), b_.CreateGEP(b_.getInt8Ty(), a.base, a.offset), llvm::Align(1));
        };
        return mask ? g_.when(mask, put) : put();
    }
    if (!a.bytes) {
        const auto each = [&](Value* on) {
            Value* bits = a.lanes ? b_.CreateAdd(g_.splat(a.offset, lanes), a.lanes) : g_.splat(a.offset, lanes);
            if (a.contiguous)
                bits =
                    b_.CreateAdd(bits, b_.CreateMul(b_.CreateZExt(g_.lane_numbers(lanes), bits->getType()), g_.splat(g_.i64(format_.bits), lanes)));
            s.store_at(format_, value, a.base, bits, on);
        };
        if (!a.contiguous) return each(mask);
        if (!mask) return s.store_run(format_, value, a.base, a.offset, nullptr);
        g_.choose(
            b_.CreateAndReduce(mask),
            [&]() -> Value* {
                s.store_run(format_, value, a.base, a.offset, nullptr);
                return b_.getTrue();
            },
            [&]() -> Value* {
                each(mask);
                return b_.getTrue();
            });
        return;
    }
    Value* v = s.to_memory(value, format_);
    Value* first = b_.CreateGEP(b_.getInt8Ty(), a.base, a.offset);
    if (a.contiguous) {
        if (mask)
            g_.masked_store(v, first, mask, llvm::Align(1));
        else
            b_.CreateAlignedStore(v, first, llvm::Align(1));
        return;
    }
    // Lanes are written in order: of several to one place the last stays.
    Value* pointers = a.lanes ? b_.CreateGEP(b_.getInt8Ty(), first, a.lanes) : g_.splat(first, lanes);
    b_.CreateMaskedScatter(v, pointers, llvm::Align(1), mask ? mask : g_.splat(b_.getTrue(), lanes));
}

// ---- instructions ----

Value* Codegen::at_load(ir::InstId id, const Point& p) {
    if (Value* v = at_turned(id, p)) return v;
    AccessEmitter access(*this, id);
    Place place = access.place(p);
    Value* other = access.other().valid() ? lanes(access.other(), p) : nullptr;
    const Address a = access.address(place);
    Value* mask = access.mask(place, p);
    return access.load(a, mask, other, p.lanes, access.run_mask(place, mask, p));
}

Value* Codegen::at_extract(ir::InstId id, const Point& p) {
    AccessEmitter access(*this, id);
    const Place place = access.place(p);
    Value* mask = access.mask(place, p);
    Value* other = access.other().valid() ? lanes(access.other(), p) : nullptr;
    const ir::ValueId object = fn_.operands(fn_.inst(id))[0];
    const Point q = access.object_point(place, mask, p);
    Value* v = is_stored(object) ? read(buffer(object), q, mask != nullptr) : lanes(object, q);
    if (!mask) return v;
    return b_.CreateSelect(mask, v, other ? other : llvm::Constant::getNullValue(v->getType()));
}

void Codegen::cpu_store(ir::InstId id) {
    AccessEmitter access(*this, id);
    const bool serial = access.format().bits % 8 != 0;
    if (serial) call_support(offsetof(Support, lock), b_.getVoidTy(), {});
    nest(access.part(), [&](const Point& p) {
        Value* value = lanes(access.value(), p);
        Place place = access.place(p);
        const Address a = access.address(place);
        access.store(a, access.mask(place, p), value, p.lanes);
    });
    if (serial) call_support(offsetof(Support, unlock), b_.getVoidTy(), {});
}

void Codegen::cpu_deposit(ir::InstId id) {
    AccessEmitter access(*this, id);
    const ir::ValueId result = fn_.result(id), object = fn_.operands(fn_.inst(id))[0];
    if (is_scalar(result)) {
        // A tile of rank 0 has no axes: the part is the element.
        Value* value = lanes(access.value(), Point{});
        Value* mask = access.mask(access.place(Point{}), Point{});
        return define(result, mask ? b_.CreateSelect(mask, value, scalar(object)) : value);
    }
    const Buffer to = buffer(result);
    store_value(object, to);
    nest(access.part(), [&](const Point& p) {
        Value* value = lanes(access.value(), p);
        const Place place = access.place(p);
        Value* mask = access.mask(place, p);
        write(to, access.object_point(place, mask, p), value);
    });
}

void Codegen::cpu_load(ir::InstId id) { emit_root(id); }
void Codegen::cpu_extract(ir::InstId id) { emit_root(id); }

void Codegen::cpu_dim(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    define(fn_.result(inst), extent(fn_.operands(inst)[0], static_cast<size_t>(fn_.attrs(inst)[0])));
}

}  // namespace tegula::cpu
