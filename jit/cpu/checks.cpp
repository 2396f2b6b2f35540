// What the `checked` variant looks at besides accesses: divisors, positions of gathers, casts that trap, assumptions. Each instruction is checked
// where it stands, over its whole tile, before it runs, and the first element in row-major order is reported, as the interpreter does (codegen.h).
#include <cstddef>

#include "jit/cpu/codegen.h"

namespace tegula::cpu {

using ir::Op;
using llvm::Value;

void Codegen::first_bad(const Shape& shape, const std::function<Value*(const Point& p)>& bad, const std::function<void(Value* element)>& report) {
    if (shape.rank == 0) return when(bad(Point{}), [&] { report(i64(0)); });
    Value* first = local(b_.getInt64Ty());
    b_.CreateStore(i64(-1), first);
    nest(shape, [&](const Point& p) {
        Value* here = bad(p);
        if (p.active) here = b_.CreateAnd(here, p.active);
        Point origin = p;
        origin.lanes = 0;
        for (size_t d = 0; d < p.rank; ++d)
            if (origin.index[d].kind == Index::consecutive) origin.index[d].kind = Index::uniform;
        Value* number = linear(origin, shape).value;
        when(p.lanes ? b_.CreateOrReduce(here) : here, [&] {
            Value* lane = i64(0);
            if (p.lanes) {
                Value* bits = b_.CreateZExt(b_.CreateBitCast(here, b_.getIntNTy(p.lanes)), b_.getInt64Ty());
                lane = b_.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, bits, b_.getTrue());
            }
            Value* known = b_.CreateLoad(b_.getInt64Ty(), first);
            b_.CreateStore(b_.CreateSelect(b_.CreateICmpSLT(known, i64(0)), b_.CreateAdd(number, lane), known), first);
        });
    });
    Value* element = b_.CreateLoad(b_.getInt64Ty(), first);
    when(b_.CreateICmpSGE(element, i64(0)), [&] { report(element); });
}

void Codegen::report_check(ir::InstId id, Failure failure, Value* element, Value* code) {
    call_support(offsetof(Support, failed_check), b_.getVoidTy(), {i32(id.v), i32(static_cast<int64_t>(failure)), element, code});
}

void Codegen::check_division(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    const auto operands = fn_.operands(inst);
    const Format& f = fn_.elem(operands[0]);
    const Shape& shape = fn_.type(fn_.result(inst)).shape;
    const auto is = [&](ir::ValueId v, uint64_t code, const Point& p) { return b_.CreateICmpEQ(lanes(v, p), scalars_.constant(f, code, p.lanes)); };
    first_bad(
        shape, [&](const Point& p) { return is(operands[1], 0, p); },
        [&](Value* element) { report_check(id, Failure::division_by_zero, element, i64(0)); });
    if (!f.is_signed || inst.op == Op::rem || inst.op == Op::rem_trunc) return;
    const uint64_t lowest = extend_code(f, uint64_t{1} << (f.bits - 1));
    first_bad(
        shape, [&](const Point& p) { return b_.CreateAnd(is(operands[0], lowest, p), is(operands[1], UINT64_MAX, p)); },
        [&](Value* element) { report_check(id, Failure::division_overflow, element, i64(static_cast<int64_t>(lowest))); });
}

void Codegen::check_gather(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    const auto operands = fn_.operands(inst);
    const Format& f = fn_.elem(operands[1]);
    const int64_t extent = fn_.type(operands[0]).shape[static_cast<size_t>(fn_.attrs(inst)[0])];
    const Shape& shape = fn_.type(fn_.result(inst)).shape;
    const auto position = [&](const Point& p) {
        llvm::Type* wide = p.lanes ? static_cast<llvm::Type*>(llvm::FixedVectorType::get(b_.getInt64Ty(), p.lanes)) : b_.getInt64Ty();
        Value* v = lanes(operands[1], p);
        return f.is_signed ? b_.CreateSExt(v, wide) : b_.CreateZExt(v, wide);
    };
    first_bad(
        shape, [&](const Point& p) { return b_.CreateICmpUGE(position(p), splat(i64(extent), p.lanes)); },
        [&](Value* element) {
            const Point at = delinear(uniform(element), shape, Point{});
            report_check(id, Failure::gather_out_of_range, element, position(at));
        });
}

/// Which values fit is decided by the run-time side, one element after the other: such casts are rare.
void Codegen::check_cast(ir::InstId id) {
    const auto operands = fn_.operands(fn_.inst(id));
    const Shape& shape = fn_.type(operands[0]).shape;
    const bool by_bits = static_cast<Round>(fn_.attrs(fn_.inst(id))[0]) == Round::bits;
    Value* random = i64(0);
    if (operands.size() > 1 && !by_bits) random = to_code(scalar(operands[1]), fn_.elem(operands[1]));
    nest_elements(shape, [&](const Point& p) {
        Value* element = shape.rank ? linear(p, shape).value : i64(0);
        Value* code = to_code(lanes(operands[0], p), fn_.elem(operands[0]));
        if (by_bits) random = to_code(lanes(operands[1], p), fn_.elem(operands[1]));
        call_support(offsetof(Support, check_cast), b_.getVoidTy(), {i32(id.v), element, code, random});
    });
}

/// The program ends there: what follows may have lost its masks to the assumption.
void Codegen::check_assumption(ir::InstId id) {
    auto* fails = llvm::BasicBlock::Create(context_, "fails", function_);
    auto* holds = llvm::BasicBlock::Create(context_, "holds", function_);
    b_.CreateCondBr(scalar(fn_.operands(fn_.inst(id))[0]), holds, fails);
    b_.SetInsertPoint(fails);
    report_check(id, Failure::assumption, i64(-1), i64(0));
    b_.CreateBr(leave_);
    b_.SetInsertPoint(holds);
}

void Codegen::check(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    if (inst.op == Op::gather) return check_gather(id);
    if (inst.op == Op::cast) return check_cast(id);
    if (inst.op != Op::assume) return check_division(id);
    check_assumption(id);
}

}  // namespace tegula::cpu
