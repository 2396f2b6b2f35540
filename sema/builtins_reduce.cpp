// Reductions, scans and order along an axis. Sums and products of types narrower than 32 bits accumulate in i32, u32 or f32 unless dtype
// says otherwise. Without an axis a reduction covers all elements. The lambdas of reduce and scan become one block of the IR, inlined.
#include "sema/elaborate.h"

namespace tegula::sema {

using ir::Op;
using ir::ReduceKind;
using ir::ValueId;

FormatId Elaborator::accumulator(FormatId elem) {
    const Format& f = types_.format(elem);
    if (f.is_bool()) return id_of(Fmt::i32);
    if (f.is_int() && f.bits < 32) return id_of(f.is_signed ? Fmt::i32 : Fmt::u32);
    if (f.is_float() && (f.bits < 32 || elem == Fmt::tf32)) return id_of(Fmt::f32);
    return elem;
}

/// Argument `i` as an axis, -1 when it is left out (all elements). nullopt after an error.
std::optional<int> Elaborator::reduced_axis(const Value* axis, int rank, Span span) {
    if (axis == nullptr || axis->kind == Value::none) return -1;
    return normal_axis(*axis, rank, axis->span.valid() ? axis->span : span);
}

/// The argument `dtype`; nullopt after an error.
std::optional<FormatId> Elaborator::number_type(const Value& dtype) {
    const auto type = type_desc(dtype, dtype.span);
    if (!type) return std::nullopt;
    const Format& g = types_.format(type->elem);
    if (type->kind == TypeDesc::scalar_format && !g.is_block() && !g.is_bool() && g.kind != FormatKind::codebook) return type->elem;
    error(Diag::type_mismatch, dtype.span, "a number type", describe(dtype));
    return std::nullopt;
}

/// The operand of sum, prod and their scans: elements that accumulate in the returned format.
std::optional<FormatId> Elaborator::accumulation(const Call& call, ValueId& v, const Value* dtype) {
    const FormatId elem = ir().fn().type(v).elem;
    const Format& f = types_.format(elem);
    if (ir().fn().type(v).pointer || f.kind == FormatKind::codebook) {
        error(Diag::wrong_element_kind, call.span, "sum", ir().fn().type(v).pointer ? "pointer" : "`" + f.name + "`", "numbers");
        return std::nullopt;
    }
    FormatId to = accumulator(elem);
    if (dtype != nullptr && dtype->kind != Value::none) {
        const auto given = number_type(*dtype);
        if (!given) return std::nullopt;
        to = *given;
    }
    const Format& g = types_.format(to);
    const bool direct = f.kind == g.kind && f.bits <= g.bits && (!f.is_int() || f.is_signed == g.is_signed);
    if (!direct) v = ir().cast(v, to, g.is_int() && !f.is_int() && !f.is_bool() ? Round::rtz : Round::rne);
    return to;
}

Value Elaborator::widened_reduction(const Call& call, ReduceKind kind) {
    ValueId v = arg_tile(call, 0);
    if (!v.valid()) return poison(call.span);
    const auto axis = reduced_axis(call.given(1) ? &call.positional[1] : nullptr, ir().fn().type(v).shape.rank, call.span);
    const auto to = accumulation(call, v, call.given(2) ? &call.positional[2] : nullptr);
    if (!axis || !to) return poison(call.span);
    ir().set_span(call.span);
    return tile(flushed(ir().reduce(flushed(v), kind, *axis, false, *to)), call.span);
}

Value Elaborator::call_sum(const Call& call) { return widened_reduction(call, ReduceKind::sum); }
Value Elaborator::call_prod(const Call& call) { return widened_reduction(call, ReduceKind::prod); }

/// min(x), min(x, axis = a): reduction. min(a, b, ..): elementwise.
Value Elaborator::extremum(const Call& call, ReduceKind kind, Op op) {
    const auto named = named_arg(call, {"axis"}, "axis");
    if (named && named->kind == Value::poison) return *named;
    if (call.positional.size() > 1) {
        if (named)
            return error(Diag::bad_arguments, named->span, ir::op_row(op).name,
                         "axis goes with one operand only: " + std::string(ir::op_row(op).name) + "(x, axis = 0)");
        Value so_far = call.positional[0];
        for (size_t i = 1; i < call.positional.size(); ++i) so_far = apply(op, {so_far, call.positional[i]}, call.span);
        return so_far;
    }
    const ValueId v = arg_tile(call, 0);
    if (!v.valid()) return poison(call.span);
    const Format& f = ir().fn().elem(v);
    if (!ir::in_domain(op, f, ir().fn().type(v).pointer))
        return error(Diag::wrong_element_kind, call.span, ir::op_row(op).name, "`" + f.name + "`", "ordered numbers");
    const auto axis = reduced_axis(named ? &*named : nullptr, ir().fn().type(v).shape.rank, call.span);
    if (!axis) return poison(call.span);
    return tile(ir().reduce(flushed(v), kind, *axis, false, ir().fn().type(v).elem), call.span);
}

Value Elaborator::call_min(const Call& call) { return extremum(call, ReduceKind::min, Op::min); }
Value Elaborator::call_max(const Call& call) { return extremum(call, ReduceKind::max, Op::max); }
Value Elaborator::call_minnum(const Call& call) { return extremum(call, ReduceKind::minnum, Op::minnum); }
Value Elaborator::call_maxnum(const Call& call) { return extremum(call, ReduceKind::maxnum, Op::maxnum); }

Value Elaborator::truth(const Call& call, ReduceKind kind) {
    ValueId v;
    if (!to_bool(call.positional[0], arg_span(call, 0), v)) return poison(call.span);
    const auto axis = reduced_axis(call.given(1) ? &call.positional[1] : nullptr, ir().fn().type(v).shape.rank, call.span);
    if (!axis) return poison(call.span);
    ir().set_span(call.span);
    return tile(ir().reduce(v, kind, *axis, false, id_of(Fmt::boolean)), call.span);
}

Value Elaborator::call_any(const Call& call) { return truth(call, ReduceKind::any); }
Value Elaborator::call_all(const Call& call) { return truth(call, ReduceKind::all); }

// ---- order ----

/// Argument 0 as a tile whose elements have an order; invalid after an error.
ValueId Elaborator::arg_ordered(const Call& call, const char* name) {
    const ValueId v = arg_tile(call, 0);
    if (!v.valid()) return {};
    const Format& f = ir().fn().elem(v);
    if (!ir().fn().type(v).pointer && (ir::in_domain(Op::lt, f, false) || f.is_bool())) return v;
    error(Diag::wrong_element_kind, call.span, name, ir().fn().type(v).pointer ? "pointer" : "`" + f.name + "`", "ordered numbers");
    return {};
}

Value Elaborator::arg_extremum(const Call& call, ReduceKind kind) {
    const ValueId v = arg_ordered(call, kind == ReduceKind::min ? "argmin" : "argmax");
    if (!v.valid()) return poison(call.span);
    const Type type = ir().fn().type(v);
    const auto axis = reduced_axis(call.given(1) ? &call.positional[1] : nullptr, type.shape.rank, call.span);
    if (!axis) return poison(call.span);
    Shape to;
    for (int d = 0; *axis >= 0 && d < type.shape.rank; ++d)
        if (d != *axis) to.push(type.shape[static_cast<size_t>(d)]);
    const TypeId results[] = {types_.tile(type.elem, to), types_.tile(Fmt::i32, to)};
    const int64_t attrs[] = {static_cast<int64_t>(kind), *axis};
    return tile(ir().fn().result(ir().emit(Op::arg_reduce, {&v, 1}, results, attrs), 1), call.span);
}

Value Elaborator::call_argmin(const Call& call) { return arg_extremum(call, ReduceKind::min); }
Value Elaborator::call_argmax(const Call& call) { return arg_extremum(call, ReduceKind::max); }

/// (values, indices) of a stable sort; invalid ids after an error.
std::pair<ValueId, ValueId> Elaborator::sorted(const Call& call, size_t axis_at, std::optional<bool> descending, const char* name, int& axis) {
    const ValueId v = arg_ordered(call, name);
    if (!v.valid() || !descending) return {};
    const Type type = ir().fn().type(v);
    const auto along = arg_axis(call, axis_at, type.shape.rank, -1);
    if (!along) return {};
    axis = *along;
    const TypeId results[] = {types_.tile(type.elem, type.shape), types_.tile(Fmt::i32, type.shape)};
    const int64_t attrs[] = {axis, *descending};
    ir().set_span(call.span);
    const ir::InstId inst = ir().emit(Op::sort, {&v, 1}, results, attrs);
    return {ir().fn().result(inst, 0), ir().fn().result(inst, 1)};
}

Value Elaborator::call_sort(const Call& call) {
    int axis = 0;
    return tile(sorted(call, 1, arg_flag(call, 2, false), "sort", axis).first, call.span);
}

Value Elaborator::call_argsort(const Call& call) {
    int axis = 0;
    return tile(sorted(call, 1, arg_flag(call, 2, false), "argsort", axis).second, call.span);
}

Value Elaborator::call_topk(const Call& call) {
    const auto k = static_int(call.positional[1], arg_span(call, 1), "the number of values");
    int axis = 0;
    if (!k) return poison(call.span);
    const auto largest = arg_flag(call, 3, true);
    const auto [values, indices] = sorted(call, 2, largest, "topk", axis);
    if (!values.valid()) return poison(call.span);
    const auto along = static_cast<size_t>(axis);
    const int64_t extent = ir().fn().type(values).shape[along];
    if (*k < 1 || *k > extent)
        return shape_error(call, std::to_string(*k) + " of " + std::to_string(extent) + " values along axis " + std::to_string(axis));
    return tuple({tile(slice_axis(values, along, 0, *k, 1), call.span), tile(slice_axis(indices, along, 0, *k, 1), call.span)}, call.span);
}

Value Elaborator::call_histogram(const Call& call) {
    const ValueId v = arg_tile(call, 0);
    const auto bins = static_int(call.positional[1], arg_span(call, 1), "the number of bins");
    if (!v.valid() || !bins) return poison(call.span);
    if (ir().fn().type(v).pointer || !ir().fn().elem(v).is_int())
        return error(Diag::wrong_element_kind, call.span, "histogram", "`" + ir().fn().elem(v).name + "`", "integer");
    if (*bins < 1 || *bins > kMaxTileElements) return error(Diag::bad_shape, arg_span(call, 1), "a histogram has between 1 and 16777216 bins");
    std::vector<ValueId> operands{v};
    if (has(call, 2)) {
        const ValueId mask = arg_mask(call, 2);
        if (!mask.valid()) return poison(call.span);
        const Shape &shape = ir().fn().type(v).shape, &own = ir().fn().type(mask).shape;
        if (broadcast(own, shape) != shape) return error(Diag::part_mismatch, arg_span(call, 2), to_string(own), to_string(shape));
        operands.push_back(ir().broadcast(mask, shape));
    }
    const TypeId result = types_.tile(Fmt::i32, {*bins});
    ir().set_span(call.span);
    return tile(ir().fn().result(ir().emit(Op::histogram, operands, {&result, 1})), call.span);
}

// ---- running sums ----

Value Elaborator::running(const Call& call, ReduceKind kind) {
    ValueId v = arg_tile(call, 0);
    if (!v.valid()) return poison(call.span);
    const auto axis = arg_axis(call, 1, ir().fn().type(v).shape.rank, 0);
    const auto reverse = arg_flag(call, 2, false);
    const bool chosen = has(call, 3);
    const auto to = accumulation(call, v, chosen ? &call.positional[3] : nullptr);
    if (!axis || !reverse || !to) return poison(call.span);
    ir().set_span(call.span);
    if (chosen && ir().fn().type(v).elem != *to) v = ir().cast(v, *to);
    const TypeId result = types_.tile(*to, ir().fn().type(v).shape);
    return tile(flushed(ir().value(Op::scan, {flushed(v)}, result, {static_cast<int64_t>(kind), *axis, *reverse})), call.span);
}

Value Elaborator::call_cumsum(const Call& call) { return running(call, ReduceKind::sum); }
Value Elaborator::call_cumprod(const Call& call) { return running(call, ReduceKind::prod); }

}  // namespace tegula::sema
