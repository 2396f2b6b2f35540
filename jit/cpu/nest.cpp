// Loop nests over the points of a tile (codegen.h). The innermost loop takes whole vectors, several per step, as long as every access of its body has
// all its lanes inside of its tensor; one vector per step, masked, does the rest, and what is behind all tensors goes apart, with nothing to load.
// How far the whole vectors go is known before the loop: accesses hand over their limits while the body is emitted.
#include <algorithm>
#include <bit>
#include <utility>

#include <llvm/IR/MDBuilder.h>

#include "jit/cpu/codegen.h"
#include "jit/cpu/interleave.h"

namespace tegula::cpu {

using llvm::BasicBlock;
using llvm::Value;

namespace {
constexpr int64_t kMostCopies = 4;         ///< vectors per step
constexpr size_t kMostInstructions = 256;  ///< of a step
}  // namespace

void Codegen::nest(const Shape& shape, const PointBody& body, const NestOptions& options) {
    const NestOrder natural = row_major(shape), &order = options.order ? *options.order : natural;
    Point p;
    p.rank = shape.rank;
    for (size_t d = 0; d < shape.rank; ++d) p.index[d] = uniform(0);
    if (order.dims.empty()) return body(p);
    const size_t along = order.dims.back(), inner = order.dims.size() - (order.blocks ? 2 : 1);
    const int64_t extent = shape[along];
    p.lanes = static_cast<unsigned>(
        std::min<int64_t>(width() * int64_t{options.vectors}, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(extent)))));
    const std::function<void(size_t)> dimension = [&](size_t i) {
        if (i == inner) return order.blocks ? nest_blocks(p, shape, order, body) : row(p, along, extent, body, options);
        loop(0, shape[order.dims[i]], 1, [&](Value* at) {
            p.index[order.dims[i]] = uniform(at);
            dimension(i + 1);
        });
    };
    dimension(0);
}

/// The innermost two dimensions: the lanes of one vector all along the other dimension, then the next vector.
void Codegen::nest_blocks(Point p, const Shape& shape, const NestOrder& order, const PointBody& body) {
    const size_t along = order.dims.back(), across = order.dims[order.dims.size() - 2];
    const int64_t extent = shape[along], depth = shape[across], lanes = p.lanes;
    const bool squares = !order.turned.empty();
    const int64_t side = squares ? order.side : 1, full = depth / side * side;
    loop(0, extent, lanes, [&](Value* i) {
        single_vector(p, along, {Index::consecutive, i, lanes}, extent % lanes ? i64(extent) : nullptr, [&](const Point& at) {
            const auto part = [&](Value* k, int64_t count) {
                if (squares) return square(at, order, k, count, body);
                Point q = at;
                q.index[across] = uniform(k);
                body(q);
            };
            loop(0, full, side, [&](Value* k) { part(k, side); });
            if (full < depth) part(i64(full), depth - full);
        });
    });
}

/// `count` elements from k on for the lanes of p: the rows of all turned loads, then the body for as many elements at a time as fill whole words.
void Codegen::square(const Point& p, const NestOrder& order, Value* k, int64_t count, const PointBody& body) {
    const size_t across = order.dims[order.dims.size() - 2];
    auto* words = llvm::FixedVectorType::get(b_.getInt32Ty(), p.lanes);
    const auto load_point = [&](const TurnedLoad& load, const Point& of) {
        Point out = of;
        out.rank = static_cast<uint8_t>(load.dims.size());
        for (size_t d = 0; d < load.dims.size(); ++d) out.index[d] = load.dims[d] < 0 ? uniform(0) : of.index[static_cast<size_t>(load.dims[d])];
        return out;
    };
    for (size_t t = 0; t < order.turned.size(); ++t) {
        const TurnedLoad& load = order.turned[t];
        if (squares_.size() == t) squares_.push_back(local(words, width()));
        Point first = load_point(load, p);
        first.lanes = 0;
        first.active = nullptr;
        first.index[load.k] = uniform(k);
        first.index[load.n].kind = Index::uniform;
        if (load.load.valid())
            turn_rows(load.load, load.k, load.n, first, count, p.lanes, squares_[t]);
        else
            turn_tile(load.tile, load.n, first, count, p.lanes, squares_[t]);
    }
    const auto some = [&](Value* from, int64_t number) {
        std::vector<Value*> at;
        for (int64_t j = 0; j < number; ++j) at.push_back(b_.CreateAdd(k, j ? b_.CreateAdd(from, i64(j)) : from));
        std::vector<TurnedRun> runs;
        for (size_t t = 0; t < order.turned.size(); ++t) {
            const TurnedLoad& load = order.turned[t];
            const Point q = load_point(load, p);
            const bool stored = !load.load.valid();
            TurnedRun run{stored ? load.tile : fn_.result(load.load), stored, {q.index.begin(), q.index.begin() + q.rank}, load.k, at, {}};
            Value* word = b_.CreateLShr(b_.CreateMul(from, i64(load.bits)), 5);
            for (int64_t w = 0; w < (number * load.bits + 31) / 32; ++w)
                run.words.push_back(b_.CreateAlignedLoad(words, b_.CreateGEP(words, squares_[t], b_.CreateAdd(word, i64(w))), llvm::Align(4)));
            runs.push_back(std::move(run));
        }
        with_turned(std::move(runs), [&] {
            for (Value* j : at) {
                Point q = p;
                q.index[across] = uniform(j);
                body(q);
            }
        });
    };
    const int64_t full = count / order.step * order.step;
    loop(0, full, order.step, [&](Value* from) { some(from, order.step); });
    if (full < count) some(i64(full), count - full);
}

/// One vector on its own: lanes from `end` on (null: none) are inactive.
void Codegen::single_vector(Point p, size_t along, const Index& at, Value* end, const PointBody& body) {
    p.index[along] = at;
    if (end) p.active = b_.CreateICmpSLT(lane_numbers(p.lanes), splat(b_.CreateTrunc(b_.CreateSub(end, at.value), b_.getInt32Ty()), p.lanes));
    Whole* const outer = std::exchange(whole_, nullptr);
    body(p);
    whole_ = outer;
}

/// One row of a nest: what comes before the first whole vector, whole vectors, the rest.
void Codegen::row(Point p, size_t along, int64_t extent, const PointBody& body, const NestOptions& options) {
    const auto lanes = static_cast<int64_t>(p.lanes);
    elements_ += extent;
    if (extent <= lanes) return single_vector(p, along, {Index::consecutive, i64(0), lanes}, extent < lanes ? i64(extent) : nullptr, body);
    const int64_t multiple = options.head ? 1 : lanes;
    const auto single = [&](Value* i, Value* end) {
        const bool before = scalars_.expect_seldom(true);
        single_vector(p, along, {Index::consecutive, i, multiple}, end, body);
        scalars_.expect_seldom(before);
    };
    /// The index behind the last vector.
    const auto singles = [&](Value* from, Value* to, Value* end) {
        return loop(from, to, lanes, {from}, [&](Value* i, std::vector<Value*>) {
            single(i, end);
            count_long_loop(b_.CreateSub(i, from), lanes, lanes, extent / lanes);
            return std::vector<Value*>{b_.CreateNSWAdd(i, i64(lanes))};
        })[0];
    };
    Value* from = i64(0);
    if (options.head) {
        p.index[along] = {Index::consecutive, i64(0), 1};  // where the row would begin, also outside of the tensor
        from = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, options.head(p), i64(extent));
        singles(i64(0), from, from);
    }
    Value* const end = options.head || extent % lanes ? i64(extent) : nullptr;
    const auto rest = [&](Value* behind, Value* reach) {
        if (!reach || options.unreached == NestOptions::masked) {
            singles(behind, i64(extent), end);
            return;
        }
        // A part of a loaded tile ends before its loads do.
        behind = singles(behind, b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, reach, i64(extent)), end);
        if (options.unreached == NestOptions::skipped) return;
        loop(behind, i64(extent), lanes, {}, [&](Value* i, std::vector<Value*>) {
            Value* const outer = std::exchange(beyond_, i);
            single(i, end);
            beyond_ = outer;
            count_long_loop(b_.CreateSub(i, behind), lanes, lanes, extent / lanes);
            return std::vector<Value*>{};
        });
    };
    const auto wholes = [&](int64_t most, const std::function<void(Value*, Value*)>& first) {
        Whole whole{b_.GetInsertBlock(), BasicBlock::Create(context_, "whole", function_), bodies_.size(), nullptr, nullptr, i64(extent)};
        from = whole_vectors(whole, p, along, from, extent, body, most, options.mixed, first);
        return whole.reach;
    };
    if (options.any_order) {
        wholes(kMostCopies, rest);
        return;
    }
    Value* const reach = wholes(kMostCopies, {});
    if (options.head) wholes(options.least, {});
    rest(from, reach);
}

/// Emits the loop over whole vectors from `from` on; where it ends. `first` (null: nothing) is emitted in front of it, given that and the reach.
Value* Codegen::whole_vectors(Whole& whole, const Point& p, size_t along, Value* from, int64_t extent, const PointBody& body, int64_t most,
                              bool mixed, const std::function<void(Value* behind, Value* reach)>& first) {
    const auto lanes = static_cast<int64_t>(p.lanes);
    b_.SetInsertPoint(whole.inside);
    llvm::PHINode* i = b_.CreatePHI(b_.getInt64Ty(), 2);
    const bool steady = llvm::isa<llvm::Constant>(from);
    Whole* const outer = std::exchange(whole_, &whole);
    bodies_.emplace_back();
    int64_t copies = 1, made = 0;
    const size_t calls = scalars_.calls();
    std::vector<llvm::Instruction*> ends;  // of the copies
    Speculation speculation{whole.inside, {}, {}, {}, {}};
    Speculation* const allowed = scalars_.speculate(mixed && most == kMostCopies ? &speculation : nullptr);
    do {
        Point at = p;
        whole.index = made ? b_.CreateNSWAdd(i, i64(made * lanes)) : i;
        at.index[along] = {Index::consecutive, whole.index, steady ? lanes : 1};
        const Whole asked = whole;
        body(at);
        if (made) whole.low = asked.low, whole.high = asked.high, whole.reach = asked.reach;  // each copy asks for the same
        if (++made == 1 && b_.GetInsertBlock() == whole.inside && scalars_.calls() == calls)
            copies =
                static_cast<int64_t>(std::bit_floor(std::clamp<uint64_t>(kMostInstructions / whole.inside->size(), 1, static_cast<uint64_t>(most))));
        while (copies > extent / lanes) copies /= 2;
        ends.push_back(&whole.inside->back());
    } while (made < copies);
    if (mixed && b_.GetInsertBlock() == whole.inside) interleave(*whole.inside, ends, target_.vectors.registers, target_.vectors.bytes);
    scalars_.speculate(allowed);
    bodies_.pop_back();
    const int64_t step = copies * lanes;
    if (!speculation.empty())
        repeat_odd_step(whole, speculation, i, step, lanes, [&](Value* index) {
            Point at = p;
            at.index[along] = {Index::consecutive, index, steady ? lanes : 1};
            body(at);
        });
    whole_ = outer;
    count_long_loop(b_.CreateSub(i, from), step, step, extent / step);
    BasicBlock* latch = b_.GetInsertBlock();
    Value* next = b_.CreateNSWAdd(i, i64(step));
    auto* after = BasicBlock::Create(context_, "after", function_);
    b_.SetInsertPoint(whole.before);
    Value* last = b_.CreateSub(whole.high, i64(step));  // the last index at which a step is whole
    if (whole.low) last = b_.CreateSelect(b_.CreateICmpSLE(whole.low, from), last, i64(-1));
    const bool known = steady && !whole.low && whole.high == i64(extent);
    if (first) {  // from 0 on, and steps are powers of two
        Value* behind = b_.CreateAnd(b_.CreateAdd(last, i64(step)), i64(-step));
        first(known ? i64(extent / step * step) : b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, behind, i64(0)), whole.reach);
        whole.before = b_.GetInsertBlock();
    }
    i->addIncoming(from, whole.before);
    i->addIncoming(next, latch);
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

/// A step whose operands were not what its quick forms take them for is made again, vector by vector, before anything is written.
void Codegen::repeat_odd_step(Whole& whole, const Speculation& speculation, Value* from, int64_t step, int64_t lanes,
                              const std::function<void(Value* index)>& body) {
    BasicBlock* end = b_.GetInsertBlock();
    BasicBlock* const writes = split_writes(*whole.inside);
    if (end == whole.inside) end = writes;
    auto *again = BasicBlock::Create(context_, "again", function_), *made = BasicBlock::Create(context_, "made", function_);
    b_.SetInsertPoint(whole.inside);
    b_.CreateCondBr(b_.CreateOrReduce(odd_lanes(b_, speculation)), again, writes, llvm::MDBuilder(context_).createUnlikelyBranchWeights());
    b_.SetInsertPoint(end);
    b_.CreateBr(made);
    b_.SetInsertPoint(again);
    const Whole asked = whole;
    const bool before = scalars_.expect_seldom(true);
    loop(from, b_.CreateNSWAdd(from, i64(step)), lanes, {}, [&](Value* index, std::vector<Value*>) {
        whole.index = index;
        body(index);
        return std::vector<Value*>{};
    });
    scalars_.expect_seldom(before);
    whole.low = asked.low, whole.high = asked.high, whole.reach = asked.reach;
    b_.CreateBr(made);
    b_.SetInsertPoint(made);
}

void Codegen::loop_inside(int64_t lo, int64_t hi, const std::function<void(Value* i)>& body) {
    Point p;
    p.lanes = p.rank = 1;
    Whole whole{b_.GetInsertBlock(), BasicBlock::Create(context_, "whole", function_), bodies_.size(), nullptr, nullptr, i64(hi)};
    Value* from = whole_vectors(whole, p, 0, i64(lo), hi, [&](const Point& at) { body(at.index[0].value); }, 1, false, {});
    elements_ += hi - lo;
    if (!whole.reach && whole.high == i64(hi)) return;
    Whole* const outer = std::exchange(whole_, nullptr);
    const auto rest = [&](Value* to, bool beyond) {
        from = loop(from, to, 1, {from}, [&](Value* i, std::vector<Value*>) {
            Value* const before = std::exchange(beyond_, beyond ? i : beyond_);
            body(i);
            beyond_ = before;
            return std::vector<Value*>{b_.CreateNSWAdd(i, i64(1))};
        })[0];
    };
    if (whole.reach) rest(b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, whole.reach, i64(hi)), false);
    rest(i64(hi), whole.reach != nullptr);
    whole_ = outer;
}

void Codegen::counts(Value* first, Value* index, int64_t size, int64_t offset) {
    const auto of = counted_.find(index);
    // A group of groups: what is beside the first of them belongs to it.
    counted_[first] = of == counted_.end() ? Counted{index, size, offset} : Counted{of->second.index, of->second.size * size, of->second.offset};
}

/// Does the value exist in front of the loop over whole vectors?
bool Codegen::made_before(const Value* value) const {
    const auto* instruction = llvm::dyn_cast_or_null<llvm::Instruction>(value);
    if (!instruction) return true;
    for (auto block = whole_->inside->getIterator(); block != function_->end(); ++block)
        if (&*block == instruction->getParent()) return false;
    return true;
}

bool Codegen::made_in_front(const Point& p) const {
    for (size_t d = 0; d < p.rank; ++d)
        if (p.index[d].kind == Index::vector || (p.index[d].kind == Index::uniform && !made_before(p.index[d].value))) return false;
    return true;
}

void Codegen::in_front(const std::function<void()>& make) {
    llvm::IRBuilderBase::InsertPointGuard guard(b_);
    b_.SetInsertPoint(whole_->before);
    Whole* const whole = std::exchange(whole_, nullptr);
    const auto open = bodies_.begin() + static_cast<std::ptrdiff_t>(whole->bodies);
    std::vector<Body> inside(std::make_move_iterator(open), std::make_move_iterator(bodies_.end()));
    bodies_.erase(open, bodies_.end());
    make();
    bodies_.insert(bodies_.end(), std::make_move_iterator(inside.begin()), std::make_move_iterator(inside.end()));
    whole_ = whole;
    whole->before = b_.GetInsertBlock();
}

Codegen::Counted Codegen::counted_by(const Index& j) const {
    if (j.kind == Index::vector && j.counter && 0 <= j.plus && j.plus < j.step) {
        const Counted by = counted_by({Index::consecutive, j.counter, 1});
        return by.size == 1 ? Counted{by.index, j.step, by.offset} : Counted{};
    }
    const auto known = counted_.find(j.value);
    return j.kind != Index::consecutive ? Counted{} : known == counted_.end() ? Counted{j.value} : known->second;
}

bool Codegen::all_inside(const Index& j, const std::function<std::pair<Value*, Value*>()>& limits) {
    const Counted by = counted_by(j);
    if (!whole_ || by.index != whole_->index) return false;
    llvm::IRBuilderBase::InsertPointGuard guard(b_);
    b_.SetInsertPoint(whole_->before);
    const auto [low, high] = limits();
    const auto steps = [&](Value* v, bool up) {  // of the index
        if (up && by.size > 1) v = b_.CreateAdd(v, i64(by.size - 1));
        if (by.size > 1) v = b_.CreateUDiv(v, i64(by.size));  // limits are not negative
        return by.offset ? b_.CreateSub(v, i64(by.offset)) : v;
    };
    Value* const reach = steps(high, true);
    whole_->high = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, whole_->high, steps(high, false));
    whole_->reach = whole_->reach ? b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, whole_->reach, reach) : reach;
    auto* zero = llvm::dyn_cast<llvm::ConstantInt>(low);
    if (!zero || !zero->isZero()) {
        Value* const first = steps(low, true);
        whole_->low = whole_->low ? b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, whole_->low, first) : first;
    }
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
