// Loops and branches of the emitted function (codegen.h).
#include <bit>

#include "jit/cpu/codegen.h"

namespace tegula::cpu {

using llvm::BasicBlock;
using llvm::Value;

namespace {

// What a body handles at least before it is worth to count it down (some ten nanoseconds of work), and how often loops run whose ends are not known.
constexpr int64_t kPolledElements = 1024, kUnknownTrips = 64;
// Elements of a loop that nobody else would count down in time.
constexpr int64_t kLongLoop = int64_t{1} << 17;

}  // namespace

std::vector<Value*> Codegen::loop(Value* lo, Value* hi, int64_t step, std::vector<Value*> carried,
                                  const std::function<std::vector<Value*>(Value* i, std::vector<Value*> carried)>& body) {
    auto* low = llvm::dyn_cast<llvm::ConstantInt>(lo);
    auto* high = llvm::dyn_cast<llvm::ConstantInt>(hi);
    const bool constant = low && high;
    if (constant && low->getSExtValue() >= high->getSExtValue()) return carried;
    if (constant && high->getSExtValue() - low->getSExtValue() <= step) {
        bodies_.emplace_back();
        carried = body(lo, std::move(carried));
        bodies_.pop_back();
        return carried;
    }
    BasicBlock* before = b_.GetInsertBlock();
    auto* inside = BasicBlock::Create(context_, "loop", function_);
    auto* after = BasicBlock::Create(context_, "after", function_);
    if (constant)
        b_.CreateBr(inside);
    else
        b_.CreateCondBr(b_.CreateICmpSLT(lo, hi), inside, after);
    b_.SetInsertPoint(inside);
    llvm::PHINode* i = b_.CreatePHI(b_.getInt64Ty(), 2);
    i->addIncoming(lo, before);
    std::vector<llvm::PHINode*> phis;
    std::vector<Value*> now;
    for (Value* c : carried) {
        phis.push_back(b_.CreatePHI(c->getType(), 2));
        phis.back()->addIncoming(c, before);
        now.push_back(phis.back());
    }
    const int64_t before_it = std::exchange(elements_, 0);
    bodies_.emplace_back();
    const std::vector<Value*> next = body(i, now);
    bodies_.pop_back();
    if (elements_ >= kPolledElements) {
        count_down(offsetof(State, elements_left), elements_);
        elements_ = 0;
    }
    const int64_t trips = constant ? (high->getSExtValue() - low->getSExtValue() + step - 1) / step : kUnknownTrips;
    if (constant) count_long_loop(b_.CreateSub(i, lo), step, std::max<int64_t>(elements_, 1), trips);
    elements_ = before_it + std::max<int64_t>(elements_, 1) * trips;
    BasicBlock* latch = b_.GetInsertBlock();
    Value* following = b_.CreateNSWAdd(i, i64(step));
    i->addIncoming(following, latch);
    for (size_t k = 0; k < phis.size(); ++k) phis[k]->addIncoming(next[k], latch);
    b_.CreateCondBr(b_.CreateICmpSLT(following, hi), inside, after);
    b_.SetInsertPoint(after);
    if (constant) return next;
    std::vector<Value*> out;
    for (size_t k = 0; k < carried.size(); ++k) {
        llvm::PHINode* phi = b_.CreatePHI(carried[k]->getType(), 2);
        phi->addIncoming(carried[k], before);
        phi->addIncoming(next[k], latch);
        out.push_back(phi);
    }
    return out;
}

/// At the end of a body whose trips are many and short: every so many of them are counted down together. `from_start`: a multiple of `step`.
void Codegen::count_long_loop(Value* from_start, int64_t step, int64_t elements, int64_t trips) {
    if (trips <= kLongLoop / elements) return;
    const int64_t together = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(kPolledElements / elements)));
    when(b_.CreateICmpEQ(b_.CreateURem(from_start, i64(step * together)), i64(0)),
         [&] { count_down(offsetof(State, elements_left), elements * together); });
}

void Codegen::loop(int64_t lo, int64_t hi, int64_t step, const std::function<void(Value* i)>& body) {
    loop(i64(lo), i64(hi), step, {}, [&](Value* i, std::vector<Value*>) {
        body(i);
        return std::vector<Value*>{};
    });
}

void Codegen::nest_elements(const Shape& shape, const std::function<void(const Point& p)>& body) {
    Point p;
    p.rank = shape.rank;
    const std::function<void(size_t)> dimension = [&](size_t d) {
        if (d == shape.rank) return body(p);
        p.index[d] = uniform(0);
        if (shape[d] == 1) return dimension(d + 1);
        loop(0, shape[d], 1, [&](Value* i) {
            p.index[d] = uniform(i);
            dimension(d + 1);
        });
    };
    dimension(0);
}

void Codegen::when(Value* condition, const std::function<void()>& body) {
    auto* then = BasicBlock::Create(context_, "then", function_);
    auto* after = BasicBlock::Create(context_, "after", function_);
    b_.CreateCondBr(condition, then, after);
    b_.SetInsertPoint(then);
    bodies_.emplace_back();
    body();
    bodies_.pop_back();
    b_.CreateBr(after);
    b_.SetInsertPoint(after);
}

void Codegen::each_lane(Value* mask, unsigned lanes, const std::function<void(Value* lane)>& body) {
    llvm::Type* bytes = llvm::FixedVectorType::get(b_.getInt8Ty(), lanes);
    Value* on = local(b_.getInt8Ty(), lanes);
    if (!mask) mask = splat(b_.getTrue(), lanes);
    b_.CreateAlignedStore(b_.CreateZExt(mask, bytes), on, llvm::Align(1));
    loop(0, lanes, 1, [&](Value* lane) {
        Value* set = b_.CreateLoad(b_.getInt8Ty(), b_.CreateGEP(b_.getInt8Ty(), on, lane));
        when(b_.CreateICmpNE(set, b_.getInt8(0)), [&] { body(lane); });
    });
}

Value* Codegen::choose(Value* condition, const std::function<Value*()>& then, const std::function<Value*()>& otherwise) {
    auto* yes = BasicBlock::Create(context_, "then", function_);
    auto* no = BasicBlock::Create(context_, "else", function_);
    auto* after = BasicBlock::Create(context_, "after", function_);
    b_.CreateCondBr(condition, yes, no);
    const auto side = [&](BasicBlock* block, const std::function<Value*()>& make) {
        b_.SetInsertPoint(block);
        bodies_.emplace_back();
        Value* v = make();
        bodies_.pop_back();
        BasicBlock* end = b_.GetInsertBlock();
        b_.CreateBr(after);
        return std::pair{v, end};
    };
    const auto a = side(yes, then);
    const auto c = side(no, otherwise);
    b_.SetInsertPoint(after);
    llvm::PHINode* phi = b_.CreatePHI(a.first->getType(), 2);
    phi->addIncoming(a.first, a.second);
    phi->addIncoming(c.first, c.second);
    return phi;
}

}  // namespace tegula::cpu
