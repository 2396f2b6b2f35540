// Loop nests over the points of a tile (codegen.h). The innermost loop takes whole vectors, several per step, as long as every access of its body has
// all its lanes inside of its tensor; one vector per step, masked, does the rest. How far the whole vectors go is known before the loop: accesses
// hand over their limits while the body is emitted.
#include <algorithm>
#include <bit>
#include <utility>

#include "jit/cpu/codegen.h"

namespace tegula::cpu {

using llvm::BasicBlock;
using llvm::Value;

namespace {
constexpr unsigned kMostCopies = 4;        ///< vectors per step
constexpr size_t kMostInstructions = 256;  ///< of a step
}  // namespace

void Codegen::nest(const Shape& shape, const PointBody& body, const std::function<Value*(const Point& first)>& head) {
    size_t along = shape.rank;
    for (size_t d = shape.rank; d-- > 0 && along == shape.rank;)
        if (shape[d] > 1) along = d;
    Point p;
    p.rank = shape.rank;
    for (size_t d = 0; d < shape.rank; ++d) p.index[d] = uniform(0);
    if (along == shape.rank) return body(p);
    const int64_t extent = shape[along];
    p.lanes = static_cast<unsigned>(std::min<int64_t>(width(), static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(extent)))));
    const std::function<void(size_t)> dimension = [&](size_t d) {
        if (d == along) return row(p, along, extent, body, head);
        if (shape[d] == 1) return dimension(d + 1);
        loop(0, shape[d], 1, [&](Value* i) {
            p.index[d] = uniform(i);
            dimension(d + 1);
        });
    };
    dimension(0);
}

/// One row of a nest: what comes before the first whole vector, whole vectors, the rest.
void Codegen::row(Point p, size_t along, int64_t extent, const PointBody& body, const std::function<Value*(const Point& first)>& head) {
    const auto lanes = static_cast<int64_t>(p.lanes);
    const auto masked = [&](Value* i, Value* end) {
        Point at = p;
        at.index[along] = {Index::consecutive, i, head ? 1 : lanes};
        if (end) at.active = b_.CreateICmpSLT(lane_numbers(p.lanes), splat(b_.CreateTrunc(b_.CreateSub(end, i), b_.getInt32Ty()), p.lanes));
        Whole* const outer = std::exchange(whole_, nullptr);
        body(at);
        whole_ = outer;
    };
    if (extent <= lanes) return masked(i64(0), extent < lanes ? i64(extent) : nullptr);
    Value* from = i64(0);
    if (head) {
        p.index[along] = {Index::consecutive, i64(0), 1};  // where the row would begin, also outside of the tensor
        from = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, head(p), i64(extent));
        loop(i64(0), from, lanes, {}, [&](Value* i, std::vector<Value*>) {
            masked(i, from);
            return std::vector<Value*>{};
        });
    }
    from = whole_vectors(p, along, from, extent, body);
    Value* end = head || extent % lanes ? i64(extent) : nullptr;
    loop(from, i64(extent), lanes, {}, [&](Value* i, std::vector<Value*>) {
        masked(i, end);
        return std::vector<Value*>{};
    });
}

/// Emits the loop over whole vectors from `from` on; where it ends.
Value* Codegen::whole_vectors(const Point& p, size_t along, Value* from, int64_t extent, const PointBody& body) {
    const auto lanes = static_cast<int64_t>(p.lanes);
    Whole whole{b_.GetInsertBlock(), BasicBlock::Create(context_, "whole", function_), nullptr, nullptr, i64(extent)};
    b_.SetInsertPoint(whole.inside);
    llvm::PHINode* i = b_.CreatePHI(b_.getInt64Ty(), 2);
    const bool steady = llvm::isa<llvm::Constant>(from);
    Whole* const outer = std::exchange(whole_, &whole);
    bodies_.emplace_back();
    int64_t copies = 1, made = 0;
    do {
        Point at = p;
        whole.index = made ? b_.CreateNSWAdd(i, i64(made * lanes)) : i;
        at.index[along] = {Index::consecutive, whole.index, steady ? lanes : 1};
        body(at);
        if (++made == 1 && b_.GetInsertBlock() == whole.inside)
            copies = static_cast<int64_t>(std::bit_floor(std::clamp<uint64_t>(kMostInstructions / whole.inside->size(), 1, kMostCopies)));
        while (copies > extent / lanes) copies /= 2;
    } while (made < copies);
    bodies_.pop_back();
    whole_ = outer;
    const int64_t step = copies * lanes;
    BasicBlock* latch = b_.GetInsertBlock();
    Value* next = b_.CreateNSWAdd(i, i64(step));
    auto* after = BasicBlock::Create(context_, "after", function_);
    i->addIncoming(from, whole.before);
    i->addIncoming(next, latch);
    b_.SetInsertPoint(whole.before);
    Value* last = b_.CreateSub(whole.high, i64(step));  // the last index at which a step is whole
    if (whole.low) last = b_.CreateSelect(b_.CreateICmpSLE(whole.low, from), last, i64(-1));
    const bool known = steady && !whole.low && whole.high == i64(extent);
    known ? b_.CreateBr(whole.inside) : b_.CreateCondBr(b_.CreateICmpSLE(from, last), whole.inside, after);
    b_.SetInsertPoint(latch);
    b_.CreateCondBr(b_.CreateICmpSLE(next, last), whole.inside, after);
    b_.SetInsertPoint(after);
    if (known) return i64(extent / step * step);
    llvm::PHINode* reached = b_.CreatePHI(b_.getInt64Ty(), 2);
    reached->addIncoming(from, whole.before);
    reached->addIncoming(next, latch);
    return reached;
}

/// Does the value exist in front of the loop over whole vectors?
bool Codegen::made_before(const Value* value) const {
    const auto* instruction = llvm::dyn_cast_or_null<llvm::Instruction>(value);
    if (!instruction) return true;
    for (auto block = whole_->inside->getIterator(); block != function_->end(); ++block)
        if (&*block == instruction->getParent()) return false;
    return true;
}

bool Codegen::all_inside(const Index& j, const std::function<std::pair<Value*, Value*>()>& limits) {
    if (!whole_ || j.kind != Index::consecutive || j.value != whole_->index) return false;
    llvm::IRBuilderBase::InsertPointGuard guard(b_);
    b_.SetInsertPoint(whole_->before);
    const auto [low, high] = limits();
    whole_->high = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, whole_->high, high);
    auto* zero = llvm::dyn_cast<llvm::ConstantInt>(low);
    if (!zero || !zero->isZero()) whole_->low = whole_->low ? b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, whole_->low, low) : low;
    return true;
}

bool Codegen::always(Value* value, const std::function<Value*()>& condition) {
    if (!whole_ || !made_before(value)) return false;
    llvm::IRBuilderBase::InsertPointGuard guard(b_);
    b_.SetInsertPoint(whole_->before);
    whole_->high = b_.CreateSelect(condition(), whole_->high, i64(0));
    return true;
}

}  // namespace tegula::cpu
