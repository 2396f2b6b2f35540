// Addresses of tensor elements (access.h): affine ones by strides, others by the layout's expressions.
#include <cstddef>

#include "jit/cpu/access.h"

namespace tegula::cpu {

using llvm::Value;

const ParamSlots& Codegen::param(ir::ValueId tensor) {
    TEGULA_CHECK(param_of_[tensor.v] >= 0, "a tensor that is no parameter");
    return args_layout_.params[static_cast<size_t>(param_of_[tensor.v])];
}

Value* Codegen::param_data(const ParamSlots& p) { return b_.CreateIntToPtr(argument_slot(p.first + ParamSlots::data), b_.getPtrTy()); }

Value* Codegen::extent(ir::ValueId tensor, size_t d) {
    const int64_t known = fn_.type(tensor).shape[d];
    return known == kDynamic ? argument_slot(param(tensor).extents + static_cast<uint32_t>(d)) : i64(known);
}

/// Stride of dimension a in bytes (or bits); `known` is it, or -1.
Value* AccessEmitter::stride(size_t a, int64_t& known) {
    known = -1;
    if (order_.unit == static_cast<int>(a)) {
        known = unit();
        return g_.i64(known);
    }
    if (out_bytes_ && !order_.steps.empty() && order_.steps[a] > 0) {
        known = order_.steps[a] * unit();
        return g_.i64(known);
    }
    Value* slot = g_.argument_slot(g_.param(in_.object).strides + static_cast<uint32_t>(a));
    // Said so that the phase of a run does not depend on its row.
    return out_bytes_ || !order_.whole_rows ? slot : b_.CreateAnd(slot, g_.i64(-8));
}

Value* AccessEmitter::wide(const Coordinate& c, unsigned lanes) {
    if (!lanes || c.kind == Index::vector) return c.value;
    Value* base = g_.splat(c.value, lanes);
    if (c.kind == Index::uniform) return base;
    Value* n = b_.CreateZExt(g_.lane_numbers(lanes), base->getType());
    return b_.CreateAdd(base, b_.CreateMul(n, g_.splat(g_.i64(c.step), lanes)));
}

void AccessEmitter::by_strides(const Place& place, Address& out) {
    Value* scalar = g_.i64(0);
    Value* lanes = nullptr;
    size_t moving = 0;
    const auto add = [&](Value* v) { lanes = lanes ? b_.CreateAdd(lanes, v) : v; };
    for (size_t a = 0; a < place.at.size(); ++a) {
        const Coordinate& c = place.at[a];
        int64_t known;
        Value* by = stride(a, known);
        moving += c.kind != Index::uniform;
        if (c.kind == Index::vector) {
            add(b_.CreateMul(c.value, g_.splat(by, place.lanes)));
            continue;
        }
        scalar = b_.CreateAdd(scalar, b_.CreateMul(c.value, by));
        if (c.kind == Index::uniform) continue;
        if (known == unit() && c.step == 1 && !out.contiguous) {  // axes beside one of extent 1 have that stride, too
            out.contiguous = true;
            continue;
        }
        if (known > 0) out.step = known / unit() * c.step;
        llvm::Type* type = llvm::FixedVectorType::get(b_.getInt64Ty(), place.lanes);
        add(b_.CreateMul(b_.CreateZExt(g_.lane_numbers(place.lanes), type), g_.splat(b_.CreateMul(by, g_.i64(c.step)), place.lanes)));
    }
    if (out.contiguous && lanes) {  // a diagonal: lanes move along several axes
        llvm::Type* type = llvm::FixedVectorType::get(b_.getInt64Ty(), place.lanes);
        add(b_.CreateMul(b_.CreateZExt(g_.lane_numbers(place.lanes), type), g_.splat(g_.i64(unit()), place.lanes)));
        out.contiguous = false;
    }
    if (moving > 1 || !out_bytes_) out.step = 0;
    out.offset = scalar;
    out.lanes = lanes;
}

Value* AccessEmitter::expression(const LayoutExpr& e, const std::vector<Value*>& at, unsigned lanes) {
    using E = LayoutExpr;
    if (e.op == E::constant) return g_.splat(g_.i64(e.value), lanes);
    if (e.op == E::index) return at[static_cast<size_t>(e.value)];
    if (e.op == E::extent) return g_.splat(g_.extent(in_.object, static_cast<size_t>(e.value)), lanes);
    TEGULA_CHECK(e.a && e.b, "a layout that is too deep");
    Value *x = expression(*e.a, at, lanes), *y = expression(*e.b, at, lanes);
    return combined(e.op, x, y, lanes);
}

Value* AccessEmitter::combined(LayoutExpr::Op op, Value* x, Value* y, unsigned lanes) {
    using E = LayoutExpr;
    const auto number = [&](int64_t v) { return g_.splat(g_.i64(v), lanes); };
    switch (op) {
        case E::add:
            return b_.CreateAdd(x, y);
        case E::sub:
            return b_.CreateSub(x, y);
        case E::mul:
            return b_.CreateMul(x, y);
        case E::div:
        case E::rem:
            return g_.scalars().divide_row(op == E::div ? ir::Op::div : ir::Op::rem, fn_.types().format(id_of(Fmt::i64)), x, y);
        case E::bit_xor:
            return b_.CreateXor(x, y);
        case E::bit_and:
            return b_.CreateAnd(x, y);
        case E::bit_or:
            return b_.CreateOr(x, y);
        case E::shl: {
            Value* legal = b_.CreateICmpULE(y, number(62));
            return b_.CreateSelect(legal, b_.CreateShl(x, b_.CreateSelect(legal, y, number(0))), number(0));
        }
        case E::shr: {
            Value* low = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, y, number(0));
            return b_.CreateAShr(x, b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, low, number(63)));
        }
        case E::min:
            return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, x, y);
        default:
            return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, x, y);
    }
}

/// An expression whose lanes are next to each other or the same wherever `fits` (i1, null: always) holds: `j / 64` and `j % 64` do while lanes stay
/// within a run of 64. Nothing: others, and runs shorter than the vector.
std::optional<AccessEmitter::Run> AccessEmitter::run_of(const LayoutExpr& e, const Place& place, Value*& fits) {
    using E = LayoutExpr;
    if (e.op == E::constant) return Run{g_.i64(e.value), false};
    if (e.op == E::extent) return Run{g_.extent(in_.object, static_cast<size_t>(e.value)), false};
    if (e.op == E::index) {
        const Coordinate& c = place.at[static_cast<size_t>(e.value)];
        if (c.kind == Index::vector || (c.kind == Index::consecutive && c.step != 1)) return std::nullopt;
        return Run{c.value, c.kind == Index::consecutive};
    }
    const auto x = run_of(*e.a, place, fits), y = run_of(*e.b, place, fits);
    if (!x || !y) return std::nullopt;
    Value* first = combined(e.op, x->first, y->first, 0);
    if (!x->moves && !y->moves) return Run{first, false};
    if (e.op == E::add && !(x->moves && y->moves)) return Run{first, true};
    if (e.op == E::sub && !y->moves) return Run{first, true};
    const bool divided = (e.op == E::div || e.op == E::rem) && e.b->op == E::constant && e.b->value >= static_cast<int64_t>(place.lanes);
    if (!divided) return std::nullopt;
    Value* place_in_run = combined(E::rem, x->first, y->first, 0);
    both(fits, b_.CreateICmpSLE(place_in_run, g_.i64(e.b->value - place.lanes)));
    return Run{first, e.op == E::rem};
}

Value* AccessEmitter::pitch(size_t m, size_t members) {
    return m + 1 == members ? g_.i64(unit()) : g_.argument_slot(g_.param(in_.object).strides + static_cast<uint32_t>(m));
}

bool AccessEmitter::by_run(const std::vector<LayoutExpr>& members, const Place& place, Address& out) {
    if (!place.lanes || g_.options_.bounds || members.empty()) return false;
    Value *fits = nullptr, *sum = g_.i64(0);
    for (size_t m = 0; m < members.size(); ++m) {
        const auto run = run_of(members[m], place, fits);
        if (!run || run->moves != (m + 1 == members.size())) return false;
        sum = b_.CreateAdd(sum, b_.CreateMul(run->first, pitch(m, members.size())));
    }
    if (!fits) {
        out.offset = sum;
        out.contiguous = true;
        return true;
    }
    out.run = fits;
    out.first = sum;
    return false;
}

void AccessEmitter::by_expressions(const Place& place, Address& out) {
    const Type& type = fn_.type(in_.object);
    const std::vector<LayoutExpr> members = fn_.types().layout(type.layout).physical(type.shape.rank);
    if (by_run(members, place, out)) return;
    bool same = true;
    for (const Coordinate& c : place.at) same = same && c.kind == Index::uniform;
    const unsigned lanes = same ? 0 : place.lanes;
    std::vector<Value*> at;
    for (const Coordinate& c : place.at) at.push_back(lanes ? wide(c, lanes) : c.value);
    Value* sum = nullptr;
    for (size_t m = 0; m < members.size(); ++m) {
        Value* part = b_.CreateMul(expression(members[m], at, lanes), g_.splat(pitch(m, members.size()), lanes));
        sum = sum ? b_.CreateAdd(sum, part) : part;
    }
    if (!sum) sum = g_.splat(g_.i64(0), lanes);
    out.offset = lanes ? g_.i64(0) : sum;
    out.lanes = lanes ? sum : nullptr;
}

/// `bounds` variants: elements outside of the storage are reported and treated as out of range.
void AccessEmitter::check_bounds(Place& place, const Address& a) {
    const ParamSlots& slots = g_.param(in_.object);
    const unsigned n = place.lanes;
    // 128 bits hold every product of a 64-bit index and stride.
    llvm::Type* one = b_.getInt128Ty();
    llvm::Type* type = n ? static_cast<llvm::Type*>(llvm::FixedVectorType::get(one, n)) : one;
    Value* offset = llvm::Constant::getNullValue(type);
    if (slots.affine) {
        for (size_t d = 0; d < place.at.size(); ++d) {
            int64_t known;
            Value* by = g_.splat(b_.CreateSExt(stride(d, known), one), n);
            offset = b_.CreateAdd(offset, b_.CreateMul(b_.CreateSExt(wide(place.at[d], n), type), by));
        }
    } else {
        Value* sum = a.lanes ? b_.CreateAdd(a.lanes, g_.splat(a.offset, n)) : g_.splat(a.offset, n);
        offset = b_.CreateSExt(sum, type);
    }
    Value* size = b_.CreateZExt(g_.argument_slot(slots.first + ParamSlots::bytes), one);
    if (!a.bytes) size = b_.CreateMul(size, llvm::ConstantInt::get(one, 8));
    Value* last = b_.CreateSub(size, llvm::ConstantInt::get(one, static_cast<uint64_t>(unit())));
    place.inside = b_.CreateAnd(b_.CreateICmpSGE(offset, llvm::Constant::getNullValue(type)), b_.CreateICmpSLE(offset, g_.splat(last, n)));
}

Address AccessEmitter::address(Place& place) {
    Address out;
    const ParamSlots& slots = g_.param(in_.object);
    out.base = g_.param_data(slots);
    out.bytes = out_bytes_;
    if (slots.affine)
        by_strides(place, out);
    else
        by_expressions(place, out);
    if (g_.options_.bounds) check_bounds(place, out);
    return out;
}

}  // namespace tegula::cpu
