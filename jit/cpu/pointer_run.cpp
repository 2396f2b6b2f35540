// Pointers that lie side by side (pointer.h): proved from how they are made, checked by two comparisons of a vector, or once in front of a loop.
#include <cstddef>

#include "jit/cpu/lane_steps.h"
#include "jit/cpu/pointer.h"

namespace tegula::cpu {

using llvm::Value;

Value* PointerEmitter::reachable() {
    Value* bytes = g_.argument_slot(slots().first + ParamSlots::bytes);
    Value* whole =
        format_.bits % 8 == 0 ? b_.CreateUDiv(bytes, g_.i64(format_.bits / 8)) : b_.CreateUDiv(b_.CreateShl(bytes, 3), g_.i64(format_.bits));
    return b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, whole, g_.argument_slot(slots().first + ParamSlots::limit));
}

Value* PointerEmitter::pointer_to(Value* element) {
    return b_.CreateGEP(b_.getInt8Ty(), g_.param_data(slots()), b_.CreateMul(element, g_.i64(format_.bits / 8)));
}

/// Elements from the argument's first one on; of pointers that belong to no argument a number beyond any storage.
Value* PointerEmitter::number(Value* pointers) {
    return b_.CreateSub(pointers, llvm::ConstantInt::get(pointers->getType(), (static_cast<uint64_t>(root_) + 1) << 48 | kPointerBias));
}

std::optional<PointerEmitter::Run> PointerEmitter::run(const Point& p, int64_t count, bool ahead) {
    if (root_ < 0 || !whole_) return {};
    LaneSteps steps(g_, count, ahead);
    Value* step = steps.of(pointers_, p);
    if (!step) return {};
    Value* one = b_.CreateICmpEQ(step, g_.i64(1));
    if (one == b_.getFalse()) return {};
    // Where lane 0 belongs to no argument, and its number is far below 0, it lies so far away that no other lane reaches an element either.
    return Run{number(g_.lanes(pointers_, LaneSteps::first(p))), b_.CreateAnd(one, steps.sound())};
}

/// In whole vectors, which the storage then ends, as far as that is known before they begin.
std::optional<PointerEmitter::Whole> PointerEmitter::in_whole(const Point& p) {
    const int along = LaneSteps::dimension(p);
    if (along < 0) return {};
    const auto d = static_cast<size_t>(along);
    const Index j = p.index[d];
    if (!g_.in_whole_vectors(j) || !g_.made_in_front(p)) return {};
    const int64_t count = shape()[d];
    std::optional<Run> row;
    Value *low = nullptr, *high = nullptr;
    g_.in_front([&] {
        Point begin = p;
        begin.index[d].value = g_.i64(0);
        row = run(begin, count, true);
        if (!row) return;
        const auto clamp = [&](Value* v) {
            v = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, v, g_.i64(0));
            return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, v, g_.i64(count));
        };
        low = clamp(b_.CreateNeg(row->element));
        high = clamp(b_.CreateSub(reachable(), row->element));
    });
    if (!row) return {};
    g_.all_inside(j, [&] { return std::pair{low, high}; });
    g_.always(nullptr, [&] { return row->holds; });
    Value* on = mask_.valid() ? mask_beside_limits(g_, mask_, p) : nullptr;
    if (p.active) on = on ? b_.CreateAnd(on, p.active) : p.active;
    return Whole{pointer_to(b_.CreateAdd(row->element, j.value)), on};
}

/// Lanes of a run that reach elements and are asked for; those that reach none are reported.
Value* PointerEmitter::within(const Run& run, Value* mask, const Point& p) {
    const auto limit = [&](Value* v) {
        v = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, v, g_.i64(0));
        v = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, v, g_.i64(p.lanes));
        return g_.splat(b_.CreateTrunc(v, b_.getInt32Ty()), p.lanes);
    };
    Value* lane = g_.lane_numbers(p.lanes);
    Value* good = b_.CreateICmpSLT(lane, limit(b_.CreateSub(reachable(), run.element)));
    good = b_.CreateAnd(good, b_.CreateICmpSGE(lane, limit(b_.CreateNeg(run.element))));
    Value* bad = b_.CreateNot(good);
    report(mask ? b_.CreateAnd(bad, mask) : bad, p);
    return mask ? b_.CreateAnd(good, mask) : good;
}

/// One access of a vector: to memory that lies side by side, or to each lane's own place.
Value* PointerEmitter::each(Value* mask, const std::optional<Run>& run, const Point& p,
                            const std::function<Value*(Value* first, Value* on)>& side_by_side,
                            const std::function<Value*(Value* pointers, Value* on)>& apart) {
    const auto by_lanes = [&](const Lanes& l) { return apart(b_.CreateGEP(b_.getInt8Ty(), g_.param_data(slots()), l.offset), l.on); };
    if (!run) {
        const Lanes l = resolve(mask, p);
        return g_.choose(
            l.together, [&] { return side_by_side(l.first, l.on); }, [&] { return by_lanes(l); });
    }
    const auto together = [&] { return side_by_side(pointer_to(run->element), within(*run, mask, p)); };
    if (run->holds == b_.getTrue()) return together();
    return g_.choose(run->holds, together, [&] { return by_lanes(resolve(mask, p)); });
}

}  // namespace tegula::cpu
