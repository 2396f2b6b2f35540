// Builder: makes instructions at the end of a block and infers result types. It trusts its callers: a type error here is a broken invariant
// (TEGULA_CHECK), never a diagnostic. Identity broadcasts, reshapes and casts give back their operand; nothing else is folded unless asked for.
#include <algorithm>

#include "lang/evaluate.h"
#include "lang/ir.h"

namespace tegula::ir {

InstId Builder::emit(Op op, std::span<const ValueId> operands, std::span<const TypeId> results, std::span<const int64_t> attrs,
                     std::span<const BlockId> blocks) {
    for (ValueId v : operands) TEGULA_CHECK(v.v < fn_->value_count(), op_row(op).name);
    const InstId id = fn_->make(op, operands, results, attrs, span_, blocks);
    fn_->append(block_, id);
    return id;
}

ValueId Builder::value(Op op, std::initializer_list<ValueId> operands, TypeId result, std::initializer_list<int64_t> attrs) {
    const std::span<const ValueId> ops(operands.begin(), operands.size());
    const std::span<const int64_t> all(attrs.begin(), attrs.size());
    if (folds_)
        if (const auto code = folded(op, ops, result, all)) return constant(result, *code);
    return fn_->result(emit(op, ops, {&result, 1}, all));
}

/// The code of a scalar whose operands are constants.
std::optional<uint64_t> Builder::folded(Op op, std::span<const ValueId> operands, TypeId result, std::span<const int64_t> attrs) const {
    uint64_t codes[3] = {};
    if (operands.empty() || operands.size() > 3 || fn_->types().type(result).kind != Type::tile || fn_->types().type(result).shape.rank != 0)
        return std::nullopt;
    for (size_t i = 0; i < operands.size(); ++i) {
        const auto code = scalar_constant(*fn_, operands[i]);
        if (!code) return std::nullopt;
        codes[i] = *code;
    }
    return evaluate_scalar(op, attrs, fn_->elem(operands[0]), fn_->types().format(fn_->types().type(result).elem), {codes, operands.size()});
}

ValueId Builder::constant(TypeId type, uint64_t code) {
    const auto make = [&] {
        const auto attr = static_cast<int64_t>(code);
        return fn_->result(emit(Op::constant, {}, {&type, 1}, {&attr, 1}));
    };
    if (!folds_) return make();
    ValueId& known = constants_[{type.v, code}];
    if (!known.valid()) known = make();
    return known;
}

ValueId Builder::index(int64_t v) { return constant(fn_->types().tile(Fmt::i64), static_cast<uint64_t>(v)); }

ValueId Builder::elementwise(Op op, std::initializer_list<ValueId> operands) {
    const OpRow& row = op_row(op);
    TEGULA_CHECK(row.traits & ELEMWISE, row.name);
    TEGULA_CHECK(operands.size() == static_cast<size_t>(row.operands), row.name);
    const TypeId first = fn_->type_of(*operands.begin());
    for (ValueId v : operands) TEGULA_CHECK(fn_->type_of(v) == first, row.name);
    const Type& t = fn_->types().type(first);
    TEGULA_CHECK(t.kind == Type::tile && in_domain(op, fn_->types().format(t.elem), t.pointer), row.name);
    TypeId result = first;
    if (row.result == ResultRule::boolean) result = fn_->types().tile(Fmt::boolean, t.shape);
    if (row.result == ResultRule::i32) result = fn_->types().tile(Fmt::i32, t.shape);
    return value(op, operands, result);
}

namespace {

TypeId with_shape(Function& fn, ValueId v, const Shape& shape) {
    Type t = fn.type(v);
    TEGULA_CHECK(t.kind == Type::tile);
    t.shape = shape;
    return fn.types().intern(t);
}

TypeId with_elem(Function& fn, ValueId v, FormatId elem) {
    Type t = fn.type(v);
    TEGULA_CHECK(t.kind == Type::tile);
    t.elem = elem;
    t.pointer = false;
    return fn.types().intern(t);
}

}  // namespace

ValueId Builder::broadcast(ValueId v, const Shape& shape) {
    if (fn_->type(v).shape == shape) return v;
    const TypeId result = with_shape(*fn_, v, shape);
    TEGULA_CHECK(tegula::broadcast(fn_->type(v).shape, shape) == shape, "broadcast");
    return value(Op::broadcast, {v}, result);
}

ValueId Builder::reshape(ValueId v, const Shape& shape) {
    if (fn_->type(v).shape == shape) return v;
    const TypeId result = with_shape(*fn_, v, shape);
    TEGULA_CHECK(fn_->type(v).shape.elements() == shape.elements(), "reshape");
    return value(Op::reshape, {v}, result);
}

ValueId Builder::permute(ValueId v, std::span<const int64_t> axes) {
    const Shape& from = fn_->type(v).shape;
    TEGULA_CHECK(axes.size() == from.rank, "permute");
    Shape to;
    for (int64_t a : axes) {
        TEGULA_CHECK(a >= 0 && a < from.rank && std::count(axes.begin(), axes.end(), a) == 1, "permute");
        to.push(from[static_cast<size_t>(a)]);
    }
    const TypeId result = with_shape(*fn_, v, to);
    return fn_->result(emit(Op::permute, {&v, 1}, {&result, 1}, axes));
}

ValueId Builder::cast(ValueId v, FormatId to, Round round, Overflow overflow) {
    const bool clamps = overflow == Overflow::sat && fn_->types().format(to).has_inf;  // Inf becomes finite
    if (!fn_->type(v).pointer && fn_->type(v).elem == to && !clamps) return v;
    return value(Op::cast, {v}, with_elem(*fn_, v, to), {static_cast<int64_t>(round), static_cast<int64_t>(overflow)});
}

ValueId Builder::bitcast(ValueId v, FormatId to) {
    if (!fn_->type(v).pointer && fn_->type(v).elem == to) return v;
    TEGULA_CHECK(fn_->elem(v).bits == fn_->types().format(to).bits, "bitcast");
    return value(Op::bitcast, {v}, with_elem(*fn_, v, to));
}

ValueId Builder::select(ValueId c, ValueId a, ValueId b) {
    TEGULA_CHECK(fn_->type_of(a) == fn_->type_of(b), "select");
    TEGULA_CHECK(fn_->elem(c).is_bool() && fn_->type(c).shape == fn_->type(a).shape, "select");
    return value(Op::select, {c, a, b}, fn_->type_of(a));
}

ValueId Builder::iota(FormatId elem, const Shape& shape, int axis) {
    TEGULA_CHECK(axis >= 0 && axis < shape.rank, "iota");
    return value(Op::iota, {}, fn_->types().tile(elem, shape), {axis});
}

ValueId Builder::reduce(ValueId v, ReduceKind kind, int axis, bool chain, FormatId result) {
    const Shape& from = fn_->type(v).shape;
    TEGULA_CHECK(axis >= -1 && axis < from.rank, "reduce");
    Shape to;
    for (int d = 0; axis >= 0 && d < from.rank; ++d)
        if (d != axis) to.push(from[static_cast<size_t>(d)]);
    return value(Op::reduce, {v}, fn_->types().tile(result, to), {static_cast<int64_t>(kind), chain, axis});
}

ValueId Builder::dot(ValueId a, ValueId b, ValueId acc, Precision precision) {
    const Shape &x = fn_->type(a).shape, &y = fn_->type(b).shape, &z = fn_->type(acc).shape;
    TEGULA_CHECK(x.rank >= 2 && x.rank == y.rank && x.rank == z.rank, "dot");
    const size_t r = x.rank;
    TEGULA_CHECK(x[r - 1] == y[r - 2] && x[r - 2] == z[r - 2] && y[r - 1] == z[r - 1], "dot");
    return value(Op::dot, {a, b, acc}, fn_->type_of(acc), {static_cast<int64_t>(precision)});
}

}  // namespace tegula::ir
