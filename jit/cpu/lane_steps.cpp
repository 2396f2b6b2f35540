// Steps from lane to lane (lane_steps.h).
#include "jit/cpu/lane_steps.h"

#include <algorithm>

namespace tegula::cpu {

using ir::Op;
using llvm::Value;

namespace {

bool is_number(const Value* v, uint64_t number) {
    const auto* c = llvm::dyn_cast<llvm::ConstantInt>(v);
    return c && c->getValue() == number;
}

}  // namespace

Point LaneSteps::first(Point p) {
    p.lanes = 0;
    p.active = nullptr;
    for (size_t d = 0; d < p.rank; ++d)
        if (p.index[d].kind == Index::consecutive) p.index[d].kind = Index::uniform;
    return p;
}

int LaneSteps::dimension(const Point& p) {
    int along = -1;
    for (size_t d = 0; d < p.rank; ++d) {
        if (p.index[d].kind == Index::uniform) continue;
        if (p.index[d].kind == Index::vector || along >= 0) return -1;
        along = static_cast<int>(d);
    }
    return along;
}

bool LaneSteps::keeps_lanes(const ir::Function& fn, const ir::Inst& reshape, const Point& p) {
    const Shape &to = fn.type(fn.result(reshape)).shape, &from = fn.type(fn.operands(reshape)[0]).shape;
    for (const ReshapeGroup& g : reshape_groups(to, from)) {
        const auto many = [](const Shape& s, size_t begin, size_t end) {
            return std::count_if(s.begin() + begin, s.begin() + end, [](int64_t extent) { return extent > 1; });
        };
        bool moves = false;
        for (size_t d = g.to; d < g.to_end; ++d) moves = moves || p.index[d].kind != Index::uniform;
        if (moves && (many(to, g.to, g.to_end) > 1 || many(from, g.from, g.from_end) > 1)) return false;
    }
    return true;
}

Value* LaneSteps::of(ir::ValueId v, const Point& at) {
    const Type& type = fn_.type(v);
    if (!type.pointer && !is_plain(fn_.elem(v))) return nullptr;
    Point p = at;
    bool same = true;
    for (size_t d = 0; d < type.shape.rank; ++d) {
        if (type.shape[d] == 1) p.index[d] = g_.uniform(0);
        if (p.index[d].kind == Index::vector) return nullptr;
        same = same && p.index[d].kind == Index::uniform;
    }
    const auto number = [&](uint64_t n) { return llvm::ConstantInt::get(g_.type_of(v, 0), n); };
    if (same) return ahead_ && g_.reports(v) ? nullptr : number(0);
    if (!g_.is_fused(v) || left_-- <= 0) return nullptr;
    const ir::InstId id = fn_.value(v).def;
    const ir::Inst& inst = fn_.inst(id);
    switch (inst.op) {
        case Op::constant:
            return number(0);
        case Op::iota:  // lanes may run along another axis
            return number(p.index[static_cast<size_t>(fn_.attrs(inst)[0])].kind == Index::consecutive);
        case Op::add:
        case Op::sub: {
            Value *x = of(fn_.operands(inst)[0], p), *y = x ? of(fn_.operands(inst)[1], p) : nullptr;
            return !y ? nullptr : inst.op == Op::add ? b_.CreateAdd(x, y) : b_.CreateSub(x, y);
        }
        case Op::mul:
            return product(inst, p);
        case Op::cast:
            return widened(inst, p);
        case Op::ptr_add:
            return moved(inst, p);
        case Op::reshape:
            if (!keeps_lanes(fn_, inst, p)) return nullptr;
            [[fallthrough]];
        case Op::broadcast:
        case Op::permute:
        case Op::slice:
            return of(fn_.operands(inst)[0], g_.source_point(id, p));
        default:
            return nullptr;
    }
}

Value* LaneSteps::product(const ir::Inst& inst, const Point& p) {
    const ir::ValueId x = fn_.operands(inst)[0], y = fn_.operands(inst)[1];
    Value *dx = of(x, p), *dy = dx ? of(y, p) : nullptr;
    if (!dy) return nullptr;
    if (is_number(dx, 0)) return b_.CreateMul(dy, g_.lanes(x, first(p)));
    return is_number(dy, 0) ? b_.CreateMul(dx, g_.lanes(y, first(p))) : nullptr;
}

/// A cast that keeps values: right as long as the narrow numbers do not wrap on their way from the first to the last.
Value* LaneSteps::widened(const ir::Inst& inst, const Point& p) {
    const ir::ValueId x = fn_.operands(inst)[0];
    const Format &from = fn_.elem(x), &to = fn_.elem(fn_.result(inst));
    if (!is_plain(from) || fn_.operands(inst).size() != 1 || to.bits < from.bits) return nullptr;
    if (from.is_signed != to.is_signed && (from.is_signed || to.bits == from.bits)) return nullptr;
    Value* narrow = of(x, p);
    if (!narrow || to.bits == from.bits) return narrow;
    llvm::Type* type = b_.getInt64Ty();
    Value* step = b_.CreateSExt(narrow, type);
    if (!is_number(step, 0)) {
        Value* low = g_.lanes(x, first(p));
        low = from.is_signed ? b_.CreateSExt(low, type) : b_.CreateZExt(low, type);
        Value* last = b_.CreateAdd(low, b_.CreateMul(step, g_.i64(count_ - 1)));
        const int64_t most = (int64_t{1} << (from.bits - from.is_signed)) - 1;
        need(b_.CreateAnd(b_.CreateICmpSLE(last, g_.i64(most)), b_.CreateICmpSGE(last, g_.i64(from.is_signed ? -most - 1 : 0))));
    }
    return b_.CreateTrunc(step, b_.getIntNTy(to.bits));
}

/// A pointer that leaves its 48 bits comes to nothing for good, also where later offsets would lead back.
Value* LaneSteps::moved(const ir::Inst& inst, const Point& p) {
    const ir::ValueId pointer = fn_.operands(inst)[0];
    Value *from = of(pointer, p), *by = from ? of(fn_.operands(inst)[1], p) : nullptr;
    if (!by) return nullptr;
    if (!is_number(from, 0)) {
        Value* low = g_.lanes(pointer, first(p));
        Value* room = b_.CreateICmpULT(b_.CreateAnd(low, kPointerOffset), b_.getInt64(kPointerOffset - static_cast<uint64_t>(count_)));
        need(b_.CreateAnd(b_.CreateICmpULE(from, g_.i64(1)), b_.CreateAnd(b_.CreateICmpNE(low, g_.i64(0)), room)));
    }
    return b_.CreateAdd(from, by);
}

// ---- masks ----

namespace {

class MaskLimits {
public:
    explicit MaskLimits(Codegen& g) : g_(g), b_(g.b()), fn_(g.fn()) {}

    Value* rest(ir::ValueId mask, const Point& at) {
        const Shape& shape = fn_.type(mask).shape;
        Point p = at;
        bool same = true;
        for (size_t d = 0; d < shape.rank; ++d) {
            if (shape[d] == 1) p.index[d] = g_.uniform(0);
            same = same && p.index[d].kind == Index::uniform;
        }
        if (left_-- <= 0 || !g_.made_in_front(p)) return g_.lanes(mask, at);
        if (same) return uniform(mask, p) ? nullptr : g_.lanes(mask, at);
        if (!g_.is_fused(mask)) return g_.lanes(mask, at);
        const ir::InstId id = fn_.value(mask).def;
        const ir::Inst& inst = fn_.inst(id);
        switch (inst.op) {
            case Op::bit_and: {
                Value *x = rest(fn_.operands(inst)[0], p), *y = rest(fn_.operands(inst)[1], p);
                return x && y ? b_.CreateAnd(x, y) : x ? x : y;
            }
            case Op::reshape:
                if (!LaneSteps::keeps_lanes(fn_, inst, p)) break;
                [[fallthrough]];
            case Op::broadcast:
            case Op::permute:
                return rest(fn_.operands(inst)[0], g_.source_point(id, p));
            case Op::lt:
            case Op::le:
            case Op::gt:
            case Op::ge:
                if (limits(inst, p)) return nullptr;
                break;
            default:
                break;
        }
        return g_.lanes(mask, at);
    }

private:
    /// A condition that all lanes share.
    bool uniform(ir::ValueId mask, const Point& p) {
        if (g_.reports(mask)) return false;
        Value* on = nullptr;
        g_.in_front([&] { on = g_.lanes(mask, LaneSteps::first(p)); });
        g_.always(nullptr, [&] { return on; });
        return true;
    }

    bool limits(const ir::Inst& inst, const Point& p) {
        ir::ValueId x = fn_.operands(inst)[0], y = fn_.operands(inst)[1];
        const int along = LaneSteps::dimension(p);
        const Format& f = fn_.elem(x);
        if (along < 0 || fn_.type(x).pointer || !LaneSteps::is_plain(f) || (f.bits == 64 && !f.is_signed)) return false;
        const Index& j = p.index[static_cast<size_t>(along)];
        if (!g_.in_whole_vectors(j)) return false;
        const int64_t count = fn_.type(x).shape[static_cast<size_t>(along)];
        bool up = inst.op == Op::gt || inst.op == Op::ge;  // true from some number on
        Value *holds = nullptr, *low = nullptr, *high = nullptr;
        g_.in_front([&] {
            Point row = p;
            row.index[static_cast<size_t>(along)].value = g_.i64(0);
            LaneSteps steps(g_, count, true);
            Value *dx = steps.of(x, row), *dy = dx ? steps.of(y, row) : nullptr;
            if (!dy) return;
            if (is_number(dx, 0)) std::swap(x, y), std::swap(dx, dy), up = !up;
            Value* one = b_.CreateICmpEQ(dx, llvm::ConstantInt::get(dx->getType(), 1));
            if (!is_number(dy, 0) || is_number(one, 0)) return;
            const auto wide = [&](ir::ValueId v) {
                Value* n = g_.lanes(v, LaneSteps::first(row));
                return f.is_signed ? b_.CreateSExt(n, b_.getInt64Ty()) : b_.CreateZExt(n, b_.getInt64Ty());
            };
            holds = b_.CreateAnd(one, steps.sound());
            std::tie(low, high) = up ? from(wide(x), wide(y), inst, f, count) : until(wide(x), wide(y), inst, count);
        });
        if (!holds || (!is_number(low, 0) && llvm::isa<llvm::Constant>(low))) return false;
        g_.always(nullptr, [&] { return holds; });
        return g_.all_inside(j, [&] { return std::pair{low, high}; });
    }

    static bool or_equal(const ir::Inst& inst) { return inst.op == Op::le || inst.op == Op::ge; }
    Value* least(Value* x, int64_t most) { return b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, x, g_.i64(most)); }

    /// first + j < end (or <=), which implies that it has not wrapped.
    std::pair<Value*, Value*> until(Value* first, Value* end, const ir::Inst& inst, int64_t count) {
        Value *zero = g_.i64(0), *room = b_.CreateSub(end, first);
        if (!or_equal(inst)) return {zero, b_.CreateSelect(b_.CreateICmpSLT(first, end), least(room, count), zero)};
        return {zero, b_.CreateSelect(b_.CreateICmpSLE(first, end), b_.CreateAdd(least(room, count - 1), g_.i64(1)), zero)};
    }

    /// first + j > begin (or >=) where no number of the row wraps.
    std::pair<Value*, Value*> from(Value* first, Value* begin, const ir::Inst& inst, const Format& f, int64_t count) {
        Value *zero = g_.i64(0), *way = b_.CreateSub(begin, first);
        Value* low = or_equal(inst) ? b_.CreateSelect(b_.CreateICmpSGE(first, begin), zero, least(way, count))
                                    : b_.CreateSelect(b_.CreateICmpSGT(first, begin), zero, b_.CreateAdd(least(way, count), g_.i64(1)));
        const auto largest = static_cast<int64_t>(low_bits(f.bits - (f.is_signed ? 1u : 0u)));
        return {low, b_.CreateSelect(b_.CreateICmpSLE(first, g_.i64(largest - (count - 1))), g_.i64(count), zero)};
    }

    Codegen& g_;
    llvm::IRBuilder<>& b_;
    const ir::Function& fn_;
    int left_ = 32;
};

}  // namespace

Value* mask_beside_limits(Codegen& g, ir::ValueId mask, const Point& p) { return MaskLimits(g).rest(mask, p); }

}  // namespace tegula::cpu
