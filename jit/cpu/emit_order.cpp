// arg_reduce by integer keys whose order is that of the values; sort and histogram are functions of the run-time side.
#include <algorithm>
#include <cstddef>

#include <llvm/IR/Constants.h>

#include "jit/cpu/emit_tree.h"

namespace tegula::cpu {

using llvm::Value;

namespace {

class ArgReduction {
public:
    ArgReduction(Codegen& g, ir::InstId id)
        : g_(g),
          b_(g.b()),
          inst_(g.fn().inst(id)),
          in_(g.fn().operands(inst_)[0]),
          type_(g.fn().type(in_)),
          format_(g.fn().elem(in_)),
          is_min_(static_cast<ir::ReduceKind>(g.fn().attrs(inst_)[0]) == ir::ReduceKind::min),
          view_(type_.shape, g.fn().attrs(inst_)[1]) {}

    void run() {
        const Shape& shape = g_.fn().type(g_.fn().result(inst_, 1)).shape;
        const auto each = [&](const Point& p) { finish(p, view_.along_lanes() ? along(p) : across(p)); };
        if (shape.rank == 0)
            each(Point{});
        else if (view_.along_lanes())
            g_.nest_elements(shape, each);
        else
            g_.nest(shape, each);
    }

private:
    struct Best {
        Value *key, *index;  ///< i32 or i64; i32
    };

    /// Signed order of the result is the order in which elements win: smallest first. A NaN wins against all else.
    Value* key(Value* v, unsigned lanes) {
        const auto typed = [&](unsigned bits) {
            return lanes ? llvm::FixedVectorType::get(b_.getIntNTy(bits), lanes) : static_cast<llvm::Type*>(b_.getIntNTy(bits));
        };
        const unsigned bits = type_.pointer || v->getType()->getScalarSizeInBits() == 64 ? 64 : 32;
        const bool real = !type_.pointer && !format_.is_int() && !format_.is_bool() && format_.kind != FormatKind::fixed;
        if (!real) {
            const bool is_signed = !type_.pointer && format_.is_signed && !format_.is_bool();
            Value* k = b_.CreateIntCast(v, typed(bits), is_signed);
            if (!is_signed && (type_.pointer || format_.container_bytes() * 8 == bits))
                k = b_.CreateXor(k, llvm::ConstantInt::get(k->getType(), uint64_t{1} << (bits - 1)));
            return is_min_ ? k : b_.CreateNot(k);
        }
        Value* x = g_.scalars().decode(format_, v);
        const unsigned wide = x->getType()->getScalarSizeInBits();
        Value *code = b_.CreateBitCast(x, typed(wide)), *sign = b_.CreateAShr(code, llvm::ConstantInt::get(code->getType(), wide - 1));
        Value* k = b_.CreateXor(code, b_.CreateLShr(sign, llvm::ConstantInt::get(code->getType(), 1)));
        if (!is_min_) k = b_.CreateNot(k);
        return b_.CreateSelect(b_.CreateFCmpUNO(x, x), llvm::ConstantInt::get(k->getType(), uint64_t{1} << (wide - 1)), k);
    }

    Best across(const Point& p) {
        const auto get = [&](Value* k) { return key(g_.lanes(in_, view_.point(g_, p, g_.uniform(k), p.lanes)), p.lanes); };
        Value* first = get(g_.i64(0));
        const Values best = g_.loop(g_.i64(1), g_.i64(view_.n), 1, {first, g_.splat(g_.i32(0), p.lanes)}, [&](Value* k, Values now) {
            Value *x = get(k), *better = b_.CreateICmpSLT(x, now[0]);
            Value* number = g_.splat(b_.CreateTrunc(k, b_.getInt32Ty()), p.lanes);
            return Values{b_.CreateSelect(better, x, now[0]), b_.CreateSelect(better, number, now[1])};
        });
        return {best[0], best[1]};
    }

    /// Each lane keeps its own first best; then lanes are joined, the lower index first.
    Best along(const Point& p) {
        const unsigned lanes = view_.lanes(g_.width());
        if (lanes == 1) return {nullptr, g_.i32(0)};
        const auto get = [&](Value* from) {
            const Point at = view_.run(g_, p, from, lanes);
            Value* k = key(g_.lanes(in_, at), lanes);
            Value* worst = llvm::ConstantInt::get(k->getType(), (uint64_t{1} << (k->getType()->getScalarSizeInBits() - 1)) - 1);
            return at.active ? b_.CreateSelect(at.active, k, worst) : k;
        };
        Value* first = get(g_.i64(0));
        Values best = g_.loop(g_.i64(lanes), g_.i64(view_.n), lanes, {first, g_.lane_numbers(lanes)}, [&](Value* from, Values now) {
            Value *x = get(from), *better = b_.CreateICmpSLT(x, now[0]);
            Value* number = b_.CreateAdd(g_.splat(b_.CreateTrunc(from, b_.getInt32Ty()), lanes), g_.lane_numbers(lanes));
            return Values{b_.CreateSelect(better, x, now[0]), b_.CreateSelect(better, number, now[1])};
        });
        const auto join = [&](const Values& a, const Values& c) {
            Value* better = b_.CreateOr(b_.CreateICmpSLT(c[0], a[0]), b_.CreateAnd(b_.CreateICmpEQ(c[0], a[0]), b_.CreateICmpSLT(c[1], a[1])));
            return Values{b_.CreateSelect(better, c[0], a[0]), b_.CreateSelect(better, c[1], a[1])};
        };
        best = join_lanes(g_, best, lanes, lanes, join);
        return {best[0], best[1]};
    }

    void finish(const Point& p, const Best& best) {
        const ir::ValueId value = g_.fn().result(inst_, 0), index = g_.fn().result(inst_, 1);
        const auto put = [&](ir::ValueId v, Value* x) {
            if (g_.is_scalar(v))
                g_.define(v, x);
            else if (g_.wanted(v))
                g_.write(g_.buffer(v), p, x);
        };
        put(index, best.index);
        if (!g_.wanted(value)) return;
        Index at{p.lanes ? Index::vector : Index::uniform, best.index, 1};
        if (!p.lanes) at.value = b_.CreateSExt(best.index, b_.getInt64Ty());
        put(value, g_.lanes(in_, view_.point(g_, p, at, p.lanes)));
    }

    Codegen& g_;
    llvm::IRBuilder<>& b_;
    const ir::Inst& inst_;
    ir::ValueId in_;
    const Type& type_;
    const Format& format_;
    bool is_min_;
    AxisView view_;
};

/// How many elements of a sort's lines are read, from the first on: slices take a few (topk).
int64_t read_of_sorted(const ir::Function& fn, const ir::Inst& sort) {
    const auto axis = static_cast<size_t>(fn.attrs(sort)[0]);
    const ir::ValueId results[] = {fn.result(sort, 0), fn.result(sort, 1)};
    const int64_t all = fn.type(results[0]).shape[axis];
    int64_t read = 1;
    for (uint32_t k = 0; k < fn.inst_count(); ++k) {
        const ir::Inst& user = fn.inst(ir::InstId{k});
        const auto operands = fn.operands(user);
        if (std::find_first_of(operands.begin(), operands.end(), std::begin(results), std::end(results)) == operands.end()) continue;
        if (user.op != ir::Op::slice) return all;
        const int64_t start = fn.attrs(user)[2 * axis], step = fn.attrs(user)[2 * axis + 1];
        read = std::max({read, start + 1, start + (fn.type(fn.result(user)).shape[axis] - 1) * step + 1});
    }
    return read;
}

}  // namespace

void Codegen::cpu_arg_reduce(ir::InstId id) { ArgReduction(*this, id).run(); }

void Codegen::cpu_sort(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    const ir::ValueId in = fn_.operands(inst)[0], values = fn_.result(inst, 0), indices = fn_.result(inst, 1);
    // Results that nobody wants go to the work area.
    const auto elements = static_cast<uint64_t>(fn_.type(in).shape.elements());
    Value* to = is_stored(values) ? buffer(values).base : work_pointer(id, (elements * 4 + 63) / 64 * 64);
    Value* numbers = is_stored(indices) ? buffer(indices).base : work_pointer(id);
    call_support(offsetof(Support, sort), b_.getVoidTy(), {i32(id.v), buffer(in).base, to, numbers, i64(read_of_sorted(fn_, inst))});
    poll();
}

void Codegen::cpu_histogram(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    const auto operands = fn_.operands(inst);
    Value* mask = operands.size() > 1 ? buffer(operands[1]).base : llvm::ConstantPointerNull::get(b_.getPtrTy());
    call_support(offsetof(Support, histogram), b_.getVoidTy(), {i32(id.v), buffer(operands[0]).base, mask, buffer(fn_.result(inst)).base});
}

}  // namespace tegula::cpu
