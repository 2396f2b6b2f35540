// Shape operations on tiles: none of these computes, most become views. Extents, axes and starts are compile-time arguments; whatever
// does not fit is reported with the extents involved.
#include <algorithm>

#include "sema/elaborate.h"

namespace tegula::sema {

using ir::Op;
using ir::ValueId;

namespace {

Shape insert_axis(const Shape& shape, size_t axis, int64_t extent) {
    Shape out;
    for (size_t d = 0; d <= shape.rank; ++d) {
        if (d == axis) out.push(extent);
        if (d < shape.rank) out.push(shape[d]);
    }
    return out;
}

}  // namespace

Value Elaborator::shape_error(const Call& call, const std::string& why) {
    const auto at = [&]() -> std::string {
        const ast::Expr* callee = call.expr ? call.expr->callee : nullptr;
        while (callee != nullptr && callee->kind == ast::ExprKind::instantiate) callee = ast::as<ast::InstantiateExpr>(callee).base;
        return callee != nullptr && callee->kind == ast::ExprKind::name ? std::string(ast::as<ast::NameExpr>(callee).name) : "call";
    };
    return error(Diag::shape_mismatch, call.span, at(), why);
}

ValueId Elaborator::slice_tile(ValueId v, const Shape& start, const Shape& to, const Shape& step) {
    Type type = ir().fn().type(v);
    std::vector<int64_t> start_step;
    for (size_t d = 0; d < to.rank; ++d) start_step.insert(start_step.end(), {start[d], step[d]});
    type.shape = to;
    const TypeId result = types_.intern(type);
    return ir().fn().result(ir().emit(Op::slice, {&v, 1}, {&result, 1}, start_step));
}

/// [start, start + extent) along one axis.
ValueId Elaborator::slice_axis(ValueId v, size_t axis, int64_t at, int64_t extent, int64_t stride) {
    Shape start, to = ir().fn().type(v).shape, step;
    for (size_t d = 0; d < to.rank; ++d) {
        start.push(d == axis ? at : 0);
        step.push(d == axis ? stride : 1);
    }
    to[axis] = extent;
    return slice_tile(v, start, to, step);
}

Value Elaborator::call_reshape(const Call& call) {
    const ValueId v = arg_tile(call, 0);
    const auto shape = static_shape(call.positional[1], arg_span(call, 1));
    if (!v.valid() || !shape) return poison(call.span);
    const Shape& from = ir().fn().type(v).shape;
    if (from.elements() != shape->elements())
        return shape_error(call, to_string(from) + " has " + std::to_string(from.elements()) + " elements, " + to_string(*shape) + " has " +
                                     std::to_string(shape->elements()));
    return tile(ir().reshape(v, *shape), call.span);
}

Value Elaborator::permuted(const Value& x, const std::vector<int64_t>& axes, Span span) {
    Value out = x;
    out.span = span;
    out.v = ir().permute(x.v, axes);
    if (x.kind == Value::block_tile) {
        out.scales = ir().permute(x.scales, axes);
        out.block_axis = static_cast<int>(std::find(axes.begin(), axes.end(), block_axis(x)) - axes.begin());
    }
    return out;
}

Value Elaborator::call_trans(const Call& call) {
    Value x = call.positional[0];
    if (x.kind != Value::block_tile) x = tile(arg_tile(call, 0), call.span);
    if (x.kind == Value::poison) return x;
    const Shape shape = shape_of(x);
    if (shape.rank < 2) return shape_error(call, "a tile of shape " + to_string(shape) + " has no last two dimensions");
    std::vector<int64_t> axes;
    for (int64_t d = 0; d < shape.rank; ++d) axes.push_back(d);
    std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
    return permuted(x, axes, call.span);
}

Value Elaborator::call_permute(const Call& call) {
    Value x = call.positional[0];
    if (x.kind != Value::block_tile) x = tile(arg_tile(call, 0), call.span);
    if (x.kind == Value::poison) return x;
    const Shape shape = shape_of(x);
    const Value& list = call.positional[1];
    if (list.kind != Value::list && list.kind != Value::tuple)
        return error(Diag::type_mismatch, arg_span(call, 1), "an array of axes", describe(list));
    std::vector<int64_t> axes;
    for (const Value& item : list.items) {
        const auto axis = normal_axis(item, shape.rank, item.span.valid() ? item.span : call.span);
        if (!axis) return poison(call.span);
        if (std::find(axes.begin(), axes.end(), *axis) != axes.end()) return shape_error(call, "axis " + std::to_string(*axis) + " is named twice");
        axes.push_back(*axis);
    }
    if (axes.size() != shape.rank) return shape_error(call, std::to_string(axes.size()) + " axes for a tile of shape " + to_string(shape));
    return permuted(x, axes, call.span);
}

Value Elaborator::call_expand(const Call& call) {
    const ValueId v = arg_tile(call, 0);
    if (!v.valid()) return poison(call.span);
    const Shape& shape = ir().fn().type(v).shape;
    if (shape.rank == kMaxRank) return error(Diag::bad_shape, call.span, "a tile has at most 8 dimensions");
    const auto axis = arg_axis(call, 1, shape.rank + 1, 0);
    return axis ? tile(ir().reshape(v, insert_axis(shape, static_cast<size_t>(*axis), 1)), call.span) : poison(call.span);
}

Value Elaborator::call_squeeze(const Call& call) {
    const ValueId v = arg_tile(call, 0);
    if (!v.valid()) return poison(call.span);
    const Shape& shape = ir().fn().type(v).shape;
    const auto axis = arg_axis(call, 1, shape.rank, 0);
    if (!axis) return poison(call.span);
    Shape to;
    for (int d = 0; d < shape.rank; ++d)
        if (d != *axis) to.push(shape[static_cast<size_t>(d)]);
    if (shape[static_cast<size_t>(*axis)] != 1)
        return shape_error(call, "dimension " + std::to_string(*axis) + " of " + to_string(shape) + " is not 1");
    return tile(ir().reshape(v, to), call.span);
}

Value Elaborator::call_broadcast(const Call& call) {
    const ValueId v = arg_tile(call, 0);
    const auto shape = static_shape(call.positional[1], arg_span(call, 1));
    if (!v.valid() || !shape) return poison(call.span);
    const Shape& from = ir().fn().type(v).shape;
    if (broadcast(from, *shape) != *shape) return error(Diag::shapes_do_not_broadcast, call.span, to_string(from), to_string(*shape));
    return tile(ir().broadcast(v, *shape), call.span);
}

Value Elaborator::call_repeat(const Call& call) {
    const ValueId v = arg_tile(call, 0);
    const auto times = static_int(call.positional[1], arg_span(call, 1), "the number of repetitions");
    if (!v.valid() || !times) return poison(call.span);
    Shape shape = ir().fn().type(v).shape;
    const auto axis = arg_axis(call, 2, shape.rank, 0);
    if (!axis) return poison(call.span);
    if (*times < 1 || *times > kMaxTileElements)
        return shape_error(call, "elements are repeated at least once, here " + std::to_string(*times) + " times");
    if (shape.rank == kMaxRank) return error(Diag::bad_shape, call.span, "repeat takes a tile of at most 7 dimensions");
    shape[static_cast<size_t>(*axis)] *= *times;
    if (!fits_budget(shape, call.span)) return poison(call.span);
    return tile(repeat_axis(v, static_cast<size_t>(*axis), *times), call.span);
}

// ---- joining and splitting ----

/// The positional arguments as tiles of one element type (no broadcasting).
std::vector<ValueId> Elaborator::joined_operands(const Call& call) {
    std::vector<ValueId> tiles;
    if (call.positional.empty()) {
        shape_error(call, "needs at least one tile");
        return tiles;
    }
    FormatId elem{};
    bool pointers = false;
    for (const Value& v : call.positional) {
        if (v.kind != Value::tile) continue;
        pointers |= ir().fn().type(v.v).pointer;
        Value so_far = v;
        if (elem.v != 0 && !(elem_of(v) == elem)) so_far = tile(ir().constant(types_.tile(elem), 0), call.span);
        const auto common = common_format(so_far, v, call.span);
        if (!common) return {};
        elem = *common;
    }
    for (size_t i = 0; i < call.positional.size(); ++i) {
        const ValueId v =
            elem.v == 0 || pointers ? to_tile(call.positional[i], arg_span(call, i)) : to_tile(call.positional[i], elem, arg_span(call, i));
        if (!v.valid()) return {};
        if (pointers && (ir().fn().type(v).pointer == false || !(ir().fn().type(v).elem == elem))) {
            error(Diag::mixed_types, call.span, describe(call.positional[0]), describe(call.positional[i]));
            return {};
        }
        tiles.push_back(v);
    }
    ir().set_span(call.span);
    return tiles;
}

Value Elaborator::concat(const Call& call, const std::vector<ValueId>& tiles, size_t axis) {
    Type type = ir().fn().type(tiles[0]);
    int64_t total = 0;
    for (ValueId v : tiles) {
        const Shape& shape = ir().fn().type(v).shape;
        bool fits = shape.rank == type.shape.rank;
        for (size_t d = 0; fits && d < shape.rank; ++d) fits = d == axis || shape[d] == type.shape[d];
        if (!fits)
            return shape_error(call, "shapes " + to_string(type.shape) + " and " + to_string(shape) + " differ outside axis " + std::to_string(axis));
        total += shape[axis];
    }
    type.shape[axis] = total;
    if (!fits_budget(type.shape, call.span)) return poison(call.span);
    const TypeId result = types_.intern(type);
    const auto attr = static_cast<int64_t>(axis);
    return tile(ir().fn().result(ir().emit(Op::cat, tiles, {&result, 1}, {&attr, 1})), call.span);
}

Value Elaborator::call_cat(const Call& call) {
    const auto named = named_arg(call, {"axis"}, "axis");
    const std::vector<ValueId> tiles = joined_operands(call);
    if (tiles.empty() || (named && named->kind == Value::poison)) return poison(call.span);
    const auto axis = normal_axis(named.value_or(constant_int(0, call.span)), ir().fn().type(tiles[0]).shape.rank, call.span);
    return axis ? concat(call, tiles, static_cast<size_t>(*axis)) : poison(call.span);
}

Value Elaborator::call_stack(const Call& call) {
    const auto named = named_arg(call, {"axis"}, "axis");
    std::vector<ValueId> tiles = joined_operands(call);
    if (tiles.empty() || (named && named->kind == Value::poison)) return poison(call.span);
    const Shape shape = ir().fn().type(tiles[0]).shape;
    if (shape.rank == kMaxRank) return error(Diag::bad_shape, call.span, "a tile has at most 8 dimensions");
    const auto axis = normal_axis(named.value_or(constant_int(0, call.span)), shape.rank + 1, call.span);
    if (!axis) return poison(call.span);
    for (ValueId& v : tiles) {
        const Shape& own = ir().fn().type(v).shape;
        if (own != shape) return shape_error(call, "shapes " + to_string(shape) + " and " + to_string(own) + " differ");
        v = ir().reshape(v, insert_axis(own, static_cast<size_t>(*axis), 1));
    }
    return concat(call, tiles, static_cast<size_t>(*axis));
}

Value Elaborator::call_join(const Call& call) {
    std::vector<ValueId> tiles = joined_operands(call);
    if (tiles.empty() || !broadcast_all(tiles, call.span)) return poison(call.span);
    const Shape shape = ir().fn().type(tiles[0]).shape;
    if (shape.rank == kMaxRank) return error(Diag::bad_shape, call.span, "a tile has at most 8 dimensions");
    for (ValueId& v : tiles) v = ir().reshape(v, insert_axis(shape, shape.rank, 1));
    return concat(call, tiles, shape.rank);
}

Value Elaborator::call_unjoin(const Call& call) {
    const ValueId v = arg_tile(call, 0);
    if (!v.valid()) return poison(call.span);
    const Shape shape = ir().fn().type(v).shape;
    if (shape.rank == 0 || shape[shape.rank - 1u] != 2) return shape_error(call, "the last extent of " + to_string(shape) + " is not 2");
    Shape to;
    for (size_t d = 0; d + 1 < shape.rank; ++d) to.push(shape[d]);
    std::vector<Value> halves;
    for (int64_t i = 0; i < 2; ++i) halves.push_back(tile(ir().reshape(slice_axis(v, shape.rank - 1u, i, 1, 1), to), call.span));
    return tuple(std::move(halves), call.span);
}

Value Elaborator::call_split(const Call& call) {
    const ValueId v = arg_tile(call, 0);
    const auto parts = static_int(call.positional[1], arg_span(call, 1), "the number of parts");
    if (!v.valid() || !parts) return poison(call.span);
    const Shape shape = ir().fn().type(v).shape;
    const auto axis = arg_axis(call, 2, shape.rank, 0);
    if (!axis) return poison(call.span);
    const int64_t extent = shape[static_cast<size_t>(*axis)];
    if (*parts < 1 || extent % *parts != 0)
        return shape_error(call, "extent " + std::to_string(extent) + " of axis " + std::to_string(*axis) + " is not divisible into " +
                                     std::to_string(*parts) + " parts");
    std::vector<Value> items;
    const int64_t each = extent / *parts;
    for (int64_t i = 0; i < *parts; ++i) {
        if (!step(call.span)) return poison(call.span);
        items.push_back(tile(slice_axis(v, static_cast<size_t>(*axis), i * each, each, 1), call.span));
    }
    return tuple(std::move(items), call.span);
}

}  // namespace tegula::sema
