// Elementwise instructions on register values, and region bodies made of them (codegen.h).
#include "jit/cpu/codegen.h"

namespace tegula::cpu {

using ir::Op;
using llvm::Value;

/// The pointer moved by elements; one that leaves its 48 bits belongs to no argument (as the interpreter's).
static Value* moved_pointer(llvm::IRBuilder<>& b, Value* p, Value* by) {
    llvm::Type* t = p->getType();
    const auto number = [&](uint64_t v) { return llvm::ConstantInt::get(t, v); };
    Value* offset = b.CreateAnd(p, number(kPointerOffset));
    // offset is below 2^48: the sum of it and a number of magnitude below 2^62 is exact, and larger ones are lost anyway.
    Value* sum = b.CreateAdd(offset, by);
    Value* small = b.CreateICmpULT(b.CreateAdd(by, number(uint64_t{1} << 62)), number(uint64_t{1} << 63));
    Value* kept = b.CreateAnd(small, b.CreateICmpULE(sum, number(kPointerOffset)));
    return b.CreateSelect(kept, b.CreateOr(b.CreateAnd(p, number(~kPointerOffset)), sum), number(0));
}

Value* Codegen::apply(ir::InstId id, std::span<Value* const> x, unsigned lanes, Value* element) {
    const ir::Inst& inst = fn_.inst(id);
    const ir::ValueId result = fn_.result(inst);
    const auto operands = fn_.operands(inst);
    if (inst.op == Op::select)
        return fn_.type(result).pointer ? b_.CreateSelect(x[0], x[1], x[2]) : scalars_.select(fn_.elem(result), x[0], x[1], x[2]);
    if (inst.op == Op::ptr_add) return moved_pointer(b_, x[0], x[1]);
    if (inst.op == Op::constant) {
        const auto code = static_cast<uint64_t>(fn_.attrs(inst)[0]);
        return fn_.type(result).pointer ? splat(i64(static_cast<int64_t>(code)), lanes) : scalars_.constant(fn_.elem(result), code, lanes);
    }
    const Type &from = fn_.type(operands[0]), &to = fn_.type(result);
    if (inst.op == Op::bitcast) {
        if (from.pointer == to.pointer && (from.pointer || from.elem == to.elem)) return x[0];
        const Format& u64 = fn_.types().format(id_of(Fmt::u64));
        return scalars_.bitcast(plan_.values[result.v].unseen_nans ? scalars_.raw(x[0]) : x[0], from.pointer ? u64 : fn_.types().format(from.elem),
                                to.pointer ? u64 : fn_.types().format(to.elem));
    }
    if (inst.op == Op::cast) {
        const auto attrs = fn_.attrs(inst);
        const auto round = static_cast<Round>(attrs[0]);
        Value* random = nullptr;
        if (round == Round::stochastic) {
            llvm::Type* wide = lanes ? static_cast<llvm::Type*>(llvm::FixedVectorType::get(b_.getInt64Ty(), lanes)) : b_.getInt64Ty();
            Value* number = element ? b_.CreateZExt(element, wide) : llvm::Constant::getNullValue(wide);
            random = scalars_.stochastic_bits(x[1], number);
        } else if (round == Round::bits) {
            const Format& given = fn_.elem(operands[1]);
            llvm::Type* wide = lanes ? static_cast<llvm::Type*>(llvm::FixedVectorType::get(b_.getInt64Ty(), lanes)) : b_.getInt64Ty();
            random = b_.CreateShl(b_.CreateZExt(x[1], wide), llvm::ConstantInt::get(wide, 64 - given.bits));
        }
        return scalars_.cast(x[0], fn_.types().format(from.elem), fn_.types().format(to.elem), round, static_cast<Overflow>(attrs[1]), random);
    }
    if (from.pointer) {
        TEGULA_CHECK(inst.op == Op::eq || inst.op == Op::ne, "arithmetic on pointers");
        return inst.op == Op::eq ? b_.CreateICmpEQ(x[0], x[1]) : b_.CreateICmpNE(x[0], x[1]);
    }
    return scalars_.elementwise(inst.op, fn_.types().format(from.elem), x);
}

bool Codegen::batchable(ir::BlockId body) const {
    for (ir::InstId id : fn_.block(body).insts) {
        const ir::Inst& inst = fn_.inst(id);
        const bool pointwise = ir::is_pointwise(inst.op) || inst.op == Op::constant || inst.op == Op::ptr_add || inst.op == Op::yield;
        if (!pointwise || (options_.checked && checks(fn_, inst))) return false;
        // The element number of stochastic rounding is that of a scalar: 0.
        for (uint32_t r = 0; r < inst.results.count; ++r)
            if (fn_.type(fn_.result(inst, r)).shape.rank != 0) return false;
    }
    return true;
}

std::vector<Value*> Codegen::region(ir::BlockId body, std::span<Value* const> args, unsigned lanes) {
    const ir::Block& block = fn_.block(body);
    const auto yielded = fn_.operands(fn_.inst(block.insts.back()));
    std::vector<Value*> out;
    if (!batchable(body)) {
        TEGULA_CHECK(lanes == 0, "a region that is not pointwise takes single elements");
        for (size_t i = 0; i < block.args.size(); ++i) define(block.args[i], args[i]);
        emit_block(body);
        for (ir::ValueId v : yielded) out.push_back(scalar(v));
        return out;
    }
    std::unordered_map<uint32_t, Value*> known;
    for (size_t i = 0; i < block.args.size(); ++i) known[block.args[i].v] = args[i];
    const auto get = [&](ir::ValueId v) {
        const auto it = known.find(v.v);
        return it != known.end() ? it->second : splat(scalar(v), lanes);
    };
    for (ir::InstId id : block.insts) {
        if (fn_.inst(id).op == Op::yield) break;
        std::vector<Value*> x;
        for (ir::ValueId o : fn_.operands(fn_.inst(id))) x.push_back(get(o));
        known[fn_.result(id).v] = apply(id, x, lanes, nullptr);
    }
    for (ir::ValueId v : yielded) out.push_back(get(v));
    return out;
}

/// Comparisons of a whole row's numbers with one that all lanes share, as masks are made of: the lanes' own numbers, of 32 bits, with what is left of
/// it. Null: another operation.
Value* Codegen::compare_iota(ir::InstId id, const Point& p) {
    const ir::Inst& inst = fn_.inst(id);
    const auto operands = fn_.operands(inst);
    if (!p.lanes || operands.size() != 2 || ir::op_row(inst.op).result != ir::ResultRule::boolean) return nullptr;
    const ir::Inst *numbers = fn_.def(operands[0]), *other = fn_.def(operands[1]);
    if (!numbers || numbers->op != Op::iota || !is_fused(operands[0]) || !other || other->op != Op::broadcast) return nullptr;
    const ir::ValueId limit = fn_.operands(*other)[0];
    const Format& f = fn_.elem(operands[0]);
    const auto axis = static_cast<size_t>(fn_.attrs(*numbers)[0]);
    const Index& i = p.index[axis];
    if (!is_scalar(limit) || i.kind != Index::consecutive || !f.is_int() || !f.is_signed || f.bits != 64) return nullptr;
    Value* most = i64(fn_.type(operands[0]).shape[axis]);  // numbers are below it
    Value* near = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, scalar(limit), most);
    near = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, near, i64(-1));
    Value* left = b_.CreateTrunc(b_.CreateSub(near, i.value), b_.getInt32Ty());
    Value* both[] = {lane_numbers(p.lanes), splat(left, p.lanes)};
    return scalars_.elementwise(inst.op, fn_.types().format(id_of(Fmt::i32)), both);
}

Value* Codegen::at_pointwise(ir::InstId id, const Point& p) {
    const ir::Inst& inst = fn_.inst(id);
    if (Value* mask = compare_iota(id, p)) return mask;
    std::vector<Value*> x;
    for (ir::ValueId o : fn_.operands(inst)) x.push_back(fn_.type(o).shape.rank == 0 ? splat(scalar(o), p.lanes) : lanes(o, p));
    Value* element = nullptr;
    if (inst.op == Op::cast && static_cast<Round>(fn_.attrs(inst)[0]) == Round::stochastic) {
        element = as_vector(linear(p, fn_.type(fn_.result(inst)).shape), p.lanes);
        if (!p.lanes) element = b_.CreateTrunc(element, b_.getInt32Ty());
        x[1] = scalar(fn_.operands(inst)[1]);
    }
    return apply(id, x, p.lanes, element);
}

// ---- each where it stands: stored, or a scalar ----

void Codegen::cpu_select(ir::InstId id) { emit_root(id); }
void Codegen::cpu_cast(ir::InstId id) { emit_root(id); }
void Codegen::cpu_bitcast(ir::InstId id) { emit_root(id); }
void Codegen::cpu_ptr_add(ir::InstId id) { emit_root(id); }
void Codegen::cpu_constant(ir::InstId id) { emit_root(id); }

}  // namespace tegula::cpu
