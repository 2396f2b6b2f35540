// Shape ops: they map points (codegen.h). cat writes its operands one after the other, gather reads a stored tile.
#include <algorithm>

#include "jit/cpu/apart.h"
#include "jit/cpu/codegen.h"

#include "lang/scalar.h"

namespace tegula::cpu {

using ir::Op;
using llvm::Value;

Value* Codegen::evaluate(ir::ValueId v, const Point& p) {
    const ir::InstId id = fn_.value(v).def;
    const ir::Inst& inst = fn_.inst(id);
    if (lines_) {
        const llvm::DebugLoc consumer = b_.getCurrentDebugLocation();
        b_.SetCurrentDebugLocation(lines_->at(inst.span));
        Value* value = evaluate_here(id, p);
        b_.SetCurrentDebugLocation(consumer);
        return value;
    }
    return evaluate_here(id, p);
}

Value* Codegen::evaluate_here(ir::InstId id, const Point& p) {
    const ir::Inst& inst = fn_.inst(id);
    if (ir::has_trait(inst.op, ir::ELEMWISE)) return at_pointwise(id, p);
    switch (inst.op) {
        case Op::select:
        case Op::cast:
        case Op::bitcast:
        case Op::ptr_add:
            return at_pointwise(id, p);
        case Op::constant:
            return apply(id, {}, p.lanes, nullptr);
        case Op::constant_tile:
            return at_constant_tile(id, p);
        case Op::iota:
            return at_iota(id, p);
        case Op::reshape:
            return at_reshape(id, p);
        case Op::broadcast:
        case Op::permute:
        case Op::slice:
            return lanes(fn_.operands(inst)[0], source_point(id, p));
        case Op::gather:
            return at_gather(id, p);
        case Op::extract:
            return at_extract(id, p);
        case Op::load:
            return at_load(id, p);
        case Op::ptr_load:
            return at_ptr_load(id, p);
        default:
            TEGULA_CHECK(false, std::string("not evaluated at points: ") + ir::op_row(inst.op).name);
    }
}

Value* Codegen::at_constant_tile(ir::InstId id, const Point& p) {
    const ir::ValueId v = fn_.result(id);
    const Format& f = fn_.elem(v);
    llvm::Constant*& table = tables_[id.v];
    if (!table) {
        std::vector<llvm::Constant*> codes;
        llvm::Type* type = scalars_.memory_type(f, 0);
        const auto bits = static_cast<unsigned>(type->getScalarSizeInBits());
        for (int64_t code : fn_.attrs(fn_.inst(id))) {
            const llvm::APInt value(bits, scalar::wrap(static_cast<uint64_t>(code), bits, false));
            if (type->isIntegerTy())
                codes.push_back(llvm::ConstantInt::get(type, value));
            else
                codes.push_back(llvm::ConstantFP::get(type, llvm::APFloat(type->getFltSemantics(), value)));
        }
        // Whole vectors may be read from any element on.
        for (int i = 0; i < 16; ++i) codes.push_back(llvm::Constant::getNullValue(type));
        auto* array = llvm::ConstantArray::get(llvm::ArrayType::get(type, codes.size()), codes);
        auto* global = new llvm::GlobalVariable(module_, array->getType(), true, llvm::GlobalValue::PrivateLinkage, array, "tile");
        global->setAlignment(llvm::Align(64));
        table = global;
    }
    return read({&f, false, fn_.type(v).shape, table, nullptr, nullptr}, p);
}

Value* Codegen::at_iota(ir::InstId id, const Point& p) {
    const ir::ValueId v = fn_.result(id);
    const Format& f = fn_.elem(v);
    const Shape& shape = fn_.type(v).shape;
    const auto axis = static_cast<size_t>(fn_.attrs(fn_.inst(id))[0]);
    const Index& i = shape[axis] == 1 ? uniform(0) : p.index[axis];
    llvm::Type* type = scalars_.type(f, p.lanes);
    Value* number;
    if (i.kind == Index::vector)
        number = b_.CreateZExtOrTrunc(i.value, type);
    else
        number = splat(b_.CreateZExtOrTrunc(i.value, type->getScalarType()), p.lanes);
    if (i.kind == Index::consecutive) number = b_.CreateAdd(number, b_.CreateZExtOrTrunc(lane_numbers(p.lanes), type));
    const unsigned spare = type->getScalarSizeInBits() - f.bits;
    if (spare == 0 || (f.bits < 63 && shape[axis] <= int64_t{1} << (f.bits - (f.is_signed ? 1 : 0)))) return number;
    Value* up = b_.CreateShl(number, uint64_t{spare});
    return f.is_signed ? b_.CreateAShr(up, uint64_t{spare}) : b_.CreateLShr(up, uint64_t{spare});
}

Point Codegen::source_point(ir::InstId id, const Point& p) {
    const ir::Inst& inst = fn_.inst(id);
    const Shape &to = fn_.type(fn_.result(inst)).shape, &own = fn_.type(fn_.operands(inst)[0]).shape;
    const auto attrs = fn_.attrs(inst);
    Point q = p;
    q.rank = own.rank;
    switch (inst.op) {
        case Op::broadcast:
            for (size_t d = 0; d < own.rank; ++d) q.index[d] = own[d] == 1 ? uniform(0) : p.index[d + p.rank - own.rank];
            break;
        case Op::permute:
            for (size_t d = 0; d < p.rank; ++d) q.index[static_cast<size_t>(attrs[d])] = p.index[d];
            break;
        case Op::slice:
            for (size_t d = 0; d < p.rank; ++d)
                q.index[d] = to[d] == 1 ? uniform(attrs[2 * d]) : scale_add(p.index[d], attrs[2 * d + 1], attrs[2 * d], p.lanes);
            break;
        default:  // groups of dimensions with equal products are renumbered among themselves; the others stay as they are
            for (const ReshapeGroup& g : reshape_groups(to, own)) {
                Shape outer, inner;
                Point part = p;
                part.rank = 0;
                for (size_t d = g.to; d < g.to_end; ++d) outer.push(to[d]), part.index[part.rank++] = p.index[d];
                for (size_t d = g.from; d < g.from_end; ++d) inner.push(own[d]);
                const Point moved = delinear(linear(part, outer), inner, part);
                for (size_t d = g.from; d < g.from_end; ++d) q.index[d] = moved.index[d - g.from];
            }
    }
    return q;
}

Value* Codegen::at_reshape(ir::InstId id, const Point& p) {
    const ir::ValueId from = fn_.operands(fn_.inst(id))[0];
    if (fn_.type(from).shape.rank == 0) return splat(scalar(from), p.lanes);
    if (!is_stored(from)) return lanes(from, source_point(id, p));
    Buffer flat = buffer(from);
    flat.shape = fn_.type(fn_.result(id)).shape;
    return read(flat, p);
}

Value* Codegen::at_gather(ir::InstId id, const Point& p) {
    const ir::Inst& inst = fn_.inst(id);
    const ir::ValueId a = fn_.operands(inst)[0], index = fn_.operands(inst)[1];
    const auto axis = static_cast<size_t>(fn_.attrs(inst)[0]);
    const Format& f = fn_.elem(index);
    Value* at = lanes(index, p);
    llvm::Type* wide = p.lanes ? static_cast<llvm::Type*>(llvm::FixedVectorType::get(b_.getInt64Ty(), p.lanes)) : b_.getInt64Ty();
    at = f.is_signed ? b_.CreateSExtOrTrunc(at, wide) : b_.CreateZExtOrTrunc(at, wide);
    Value* inside = b_.CreateICmpULT(at, splat(i64(fn_.type(a).shape[axis]), p.lanes));
    at = b_.CreateSelect(inside, at, llvm::Constant::getNullValue(wide));
    Point q = p;
    q.index[axis] = p.lanes ? Index{Index::vector, b_.CreateTrunc(at, llvm::FixedVectorType::get(b_.getInt32Ty(), p.lanes)), 1} : uniform(at);
    Value* v = lanes(a, q);
    return b_.CreateSelect(inside, v, llvm::Constant::getNullValue(v->getType()));
}

/// A few columns, as join gives them: one element of each part lies beside those of the others.
static bool side_by_side(const ir::Function& fn, ir::InstId cat) {
    const ir::Inst& inst = fn.inst(cat);
    const auto axis = static_cast<size_t>(fn.attrs(inst)[0]);
    const auto parts = fn.operands(inst);
    if (static_cast<int64_t>(parts.size()) > kMostApart || fn.type(fn.result(inst)).shape[axis] != static_cast<int64_t>(parts.size())) return false;
    const Shape& shape = fn.type(parts[0]).shape;
    return std::all_of(shape.begin() + axis, shape.end(), [](int64_t e) { return e == 1; });
}

void Codegen::cpu_cat(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    const auto axis = static_cast<size_t>(fn_.attrs(inst)[0]);
    const Buffer to = buffer(fn_.result(inst));
    if (side_by_side(fn_, id)) {
        const Shape& shape = fn_.type(fn_.operands(inst)[0]).shape;
        NestOrder order = row_major(shape);
        order.few = static_cast<int>(axis);
        NestOptions options;
        options.order = &order;
        const auto make = [&](const Point& p) {
            std::vector<Value*> values;
            for (ir::ValueId part : fn_.operands(inst)) values.push_back(lanes(part, p));
            write(to, points_of(order, to.shape, p), values);
        };
        return nest(shape, make, options);
    }
    int64_t start = 0;
    for (ir::ValueId part : fn_.operands(inst)) {
        const Shape& shape = fn_.type(part).shape;
        nest(shape, [&](const Point& p) {
            Point q = p;
            if (shape[axis] == 1) q.index[axis] = uniform(0);
            q.index[axis] = add(q.index[axis], start, p.lanes);
            write(to, q, lanes(part, p));
        });
        start += shape[axis];
    }
}

void Codegen::cpu_constant_tile(ir::InstId id) { emit_root(id); }
void Codegen::cpu_iota(ir::InstId id) { emit_root(id); }
void Codegen::cpu_broadcast(ir::InstId id) { emit_root(id); }
void Codegen::cpu_reshape(ir::InstId id) { emit_root(id); }
void Codegen::cpu_permute(ir::InstId id) { emit_root(id); }
void Codegen::cpu_slice(ir::InstId id) { emit_root(id); }
void Codegen::cpu_gather(ir::InstId id) { emit_root(id); }

}  // namespace tegula::cpu
