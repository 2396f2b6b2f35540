// Moving elements about in tiles: slice, insert, flip, gather, and pack / unpack, which put a tile into the physical order of a layout.
#include "lang/layout.h"
#include "sema/elaborate.h"

namespace tegula::sema {

using ir::Access;
using ir::Op;
using ir::ValueId;

/// Argument `i`: one constant integer per dimension; a single integer stands for all of them.
std::optional<std::vector<int64_t>> Elaborator::arg_numbers(const Call& call, size_t i, size_t count, int64_t fallback, const char* what) {
    if (!has(call, i)) return std::vector<int64_t>(count, fallback);
    const Value& v = call.positional[i];
    std::vector<int64_t> out;
    if (v.kind == Value::list || v.kind == Value::tuple) {
        for (const Value& item : v.items) {
            const auto n = static_int(item, item.span.valid() ? item.span : call.span, what);
            if (!n) return std::nullopt;
            out.push_back(*n);
        }
    } else {
        const auto n = static_int(v, arg_span(call, i), what);
        if (!n) return std::nullopt;
        out.assign(count, *n);
    }
    if (out.size() == count) return out;
    shape_error(call, std::to_string(out.size()) + " numbers for " + std::to_string(count) + " dimensions");
    return std::nullopt;
}

Value Elaborator::call_slice(const Call& call) {
    const ValueId v = arg_tile(call, 0);
    if (!v.valid()) return poison(call.span);
    const Shape from = ir().fn().type(v).shape;
    const auto start = arg_numbers(call, 1, from.rank, 0, "a start"), step = arg_numbers(call, 3, from.rank, 1, "a step");
    const auto shape = static_shape(call.positional[2], arg_span(call, 2));
    if (!start || !step || !shape) return poison(call.span);
    if (shape->rank != from.rank) return shape_error(call, "shape " + to_string(*shape) + " for a tile of shape " + to_string(from));
    Shape starts, steps;
    for (size_t d = 0; d < from.rank; ++d) {
        const int64_t at = (*start)[d], by = (*step)[d];
        if (by == 0 || by > INT32_MAX || by < -INT32_MAX)
            return error(Diag::bad_step, call.span, "the step of dimension " + std::to_string(d) + " cannot be " + std::to_string(by));
        const __int128 last = static_cast<__int128>(at) + static_cast<__int128>((*shape)[d] - 1) * by;
        if (at < 0 || at >= from[d] || last < 0 || last >= from[d])
            return error(Diag::index_out_of_range, call.span, int_text(at < 0 || at >= from[d] ? at : last), std::to_string(from[d]));
        starts.push(at);
        steps.push(by);
    }
    return tile(slice_tile(v, starts, *shape, steps), call.span);
}

Value Elaborator::call_insert(const Call& call) {
    const ValueId v = arg_tile(call, 0);
    if (!v.valid()) return poison(call.span);
    const Type type = ir().fn().type(v);
    const ValueId part = type.pointer ? arg_tile(call, 1) : to_tile(call.positional[1], type.elem, arg_span(call, 1));
    const auto start = arg_numbers(call, 2, type.shape.rank, 0, "a start");
    if (!part.valid() || !start) return poison(call.span);
    const Shape shape = ir().fn().type(part).shape;
    if (shape.rank != type.shape.rank)
        return shape_error(call, "a part of shape " + to_string(shape) + " in a tile of shape " + to_string(type.shape));
    if (type.pointer && (!ir().fn().type(part).pointer || !(ir().fn().type(part).elem == type.elem)))
        return error(Diag::mixed_types, call.span, describe(call.positional[0]), describe(call.positional[1]));
    std::vector<ValueId> operands{v};
    Access access;
    for (size_t d = 0; d < shape.rank; ++d) {
        const __int128 end = static_cast<__int128>((*start)[d]) + shape[d];
        if ((*start)[d] < 0 || end > type.shape[d])
            return error(Diag::index_out_of_range, call.span, int_text((*start)[d] < 0 ? (*start)[d] : end - 1), std::to_string(type.shape[d]));
        access.axes.push_back({Access::range, shape[d], 1, false});
        operands.push_back(ir().index((*start)[d]));
    }
    operands.push_back(part);
    std::vector<int64_t> attrs{0};
    const auto axes = access.encode_axes();
    attrs.insert(attrs.end(), axes.begin(), axes.end());
    const TypeId result = ir().fn().type_of(v);
    ir().set_span(call.span);
    return tile(ir().fn().result(ir().emit(Op::deposit, operands, {&result, 1}, attrs)), call.span);
}

Value Elaborator::call_flip(const Call& call) {
    const ValueId v = arg_tile(call, 0);
    if (!v.valid()) return poison(call.span);
    const Shape shape = ir().fn().type(v).shape;
    const auto axis = arg_axis(call, 1, shape.rank, 0);
    if (!axis) return poison(call.span);
    const int64_t extent = shape[static_cast<size_t>(*axis)];
    return tile(slice_axis(v, static_cast<size_t>(*axis), extent - 1, extent, -1), call.span);
}

Value Elaborator::call_gather(const Call& call) {
    const ValueId v = arg_tile(call, 0);
    if (!v.valid()) return poison(call.span);
    const ValueId index = to_index(call.positional[1], arg_span(call, 1));
    if (!index.valid()) return poison(call.span);
    Type type = ir().fn().type(v);
    const Shape& to = ir().fn().type(index).shape;
    const auto axis = arg_axis(call, 2, type.shape.rank, 0);
    if (!axis) return poison(call.span);
    bool fits = to.rank == type.shape.rank;
    for (int d = 0; fits && d < to.rank; ++d) fits = d == *axis || to[static_cast<size_t>(d)] == type.shape[static_cast<size_t>(d)];
    if (!fits)
        return shape_error(call, "index of shape " + to_string(to) + " and tile of shape " + to_string(type.shape) + " differ outside axis " +
                                     std::to_string(*axis));
    type.shape = to;
    ir().set_span(call.span);
    return tile(ir().value(Op::gather, {v, index}, types_.intern(type), {*axis}), call.span);
}

// ---- pack and unpack ----

const Layout* Elaborator::arg_layout(const Call& call, size_t i, const Shape& shape) {
    const Value& v = call.positional[i];
    if (v.kind != Value::layout) {
        error(Diag::type_mismatch, arg_span(call, i), "a layout", describe(v));
        return nullptr;
    }
    const Layout& layout = types_.layout(v.layout_id);
    const std::vector<int64_t> extents(shape.begin(), shape.end());
    const auto refuse = [&](const std::string& why) -> const Layout* {
        error(Diag::layout_unusable, arg_span(call, i), layout.name(), why);
        return nullptr;
    };
    if (const std::string problem = layout.problem(); !problem.empty()) return refuse(problem);
    if (layout.rank() >= 0 && layout.rank() != shape.rank)
        return refuse("has rank " + std::to_string(layout.rank()) + ", the tile has shape " + to_string(shape));
    const LayoutCheck check = layout.check(extents);
    if (check.result == Injectivity::refuted) return refuse("for shape " + to_string(shape) + ", " + check.conflict.text());
    if (check.result == Injectivity::unknown) return refuse(check.reason);
    return &layout;
}

/// Elements of storage, padding included, as the shape of the packed tile: the physical tuple.
std::optional<Shape> Elaborator::packed_shape(const Call& call, const Layout& layout, const Shape& shape) {
    const std::vector<int64_t> extents(shape.begin(), shape.end());
    const std::vector<int64_t> physical = layout.physical_extents(extents);
    if (physical.size() > kMaxRank) {
        error(Diag::layout_unusable, call.span, layout.name(), "has " + std::to_string(physical.size()) + " physical dimensions, a tile at most 8");
        return std::nullopt;
    }
    Shape out;
    for (int64_t extent : physical) out.push(extent);
    if (!fits_budget(out, call.span)) return std::nullopt;
    return out;
}

/// A rank-1 tile picked from `flat` (rank 1) by constant positions; out-of-range positions read zero.
ValueId Elaborator::pick(ValueId flat, const std::vector<int64_t>& positions) {
    const auto count = static_cast<int64_t>(positions.size());
    const TypeId index_type = types_.tile(Fmt::i64, {count});
    const ValueId index = ir().fn().result(ir().emit(Op::constant_tile, {}, {&index_type, 1}, positions));
    Type type = ir().fn().type(flat);
    type.shape = Shape{count};
    Access access;
    access.axes.push_back({Access::gather, 1, 1, false});
    const TypeId result = types_.intern(type);
    std::vector<ValueId> operands{flat, index};
    fill_with_zero(result, operands, access.flags);
    std::vector<int64_t> attrs{access.flags};
    const auto axes = access.encode_axes();
    attrs.insert(attrs.end(), axes.begin(), axes.end());
    return ir().fn().result(ir().emit(Op::extract, operands, {&result, 1}, attrs));
}

Value Elaborator::call_pack(const Call& call) {
    const ValueId v = arg_tile(call, 0);
    if (!v.valid()) return poison(call.span);
    const Shape shape = ir().fn().type(v).shape;
    const Layout* layout = arg_layout(call, 1, shape);
    if (layout == nullptr) return poison(call.span);
    const auto packed = packed_shape(call, *layout, shape);
    if (!packed) return poison(call.span);
    if (layout->kind() == Layout::Kind::row) return tile(v, call.span);
    const std::vector<int64_t> extents(shape.begin(), shape.end());
    auto table = layout->inverse_table(extents);
    if (!table || !step(call.span, table->size()))
        return error(Diag::layout_unusable, arg_span(call, 1), layout->name(), "its storage is too large to reorder in a tile");
    ir().set_span(call.span);
    const ValueId flat = ir().reshape(v, Shape{shape.elements()});
    return tile(ir().reshape(pick(flat, *table), *packed), call.span);
}

Value Elaborator::call_unpack(const Call& call) {
    const ValueId v = arg_tile(call, 0);
    const auto shape = static_shape(call.positional[2], arg_span(call, 2));
    if (!v.valid() || !shape) return poison(call.span);
    const Layout* layout = arg_layout(call, 1, *shape);
    if (layout == nullptr) return poison(call.span);
    const auto packed = packed_shape(call, *layout, *shape);
    if (!packed) return poison(call.span);
    const Shape from = ir().fn().type(v).shape;
    if (from.elements() != packed->elements())
        return shape_error(call, "layout " + layout->name() + " of shape " + to_string(*shape) + " has " + std::to_string(packed->elements()) +
                                     " elements of storage, the packed tile has shape " + to_string(from));
    if (layout->kind() == Layout::Kind::row) return tile(ir().reshape(v, *shape), call.span);
    if (!step(call.span, static_cast<uint64_t>(shape->elements()))) return poison(call.span);
    const std::vector<int64_t> extents(shape->begin(), shape->end());
    const BoundLayout bound(*layout, extents, 8);
    std::vector<int64_t> positions, index(shape->rank, 0);
    positions.reserve(static_cast<size_t>(shape->elements()));
    for (int64_t i = 0; i < shape->elements(); ++i) {
        positions.push_back(bound.element_offset(index.data()));
        for (size_t d = shape->rank; d-- > 0;) {
            if (++index[d] < (*shape)[d]) break;
            index[d] = 0;
        }
    }
    ir().set_span(call.span);
    const ValueId flat = ir().reshape(v, Shape{from.elements()});
    return tile(ir().reshape(pick(flat, positions), *shape), call.span);
}

}  // namespace tegula::sema
