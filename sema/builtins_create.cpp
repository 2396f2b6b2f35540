// Tiles from nothing: zeros, ones, full, iota, nested array literals; and questions about shapes (size, rank).
#include "sema/elaborate.h"

namespace tegula::sema {

using ir::Op;
using ir::ValueId;

std::optional<Shape> Elaborator::call_shape(const Call& call) {
    Value list = poison(call.span);
    list.kind = Value::list;
    list.items = call.shape;
    return static_shape(list, call.span);
}

Value Elaborator::filled(const Call& call, const Value& value) {
    const auto elem = format_arg(call, 0);
    const auto shape = call_shape(call);
    if (!elem || !shape) return poison(call.span);
    const Format& f = types_.format(*elem);
    if (f.is_block() && shape->rank == 0) return error(Diag::block_alignment, call.span, f.name, "a scalar holds no block");
    const ValueId v = to_tile(value, f.is_block() ? id_of(Fmt::f32) : *elem, value.span.valid() ? value.span : call.span);
    if (!v.valid()) return poison(call.span);
    const Shape& own = ir().fn().type(v).shape;
    if (broadcast(own, *shape) != *shape) return error(Diag::part_mismatch, call.span, to_string(own), to_string(*shape));
    ir().set_span(call.span);
    if (f.is_block()) return quantise_blocks(tile(ir().broadcast(v, *shape), call.span), *elem, call.span);
    if (value.is_static_number()) {
        const auto code = literal_code(value, *elem, call.span);
        return code ? tile(ir().constant(types_.tile(*elem, *shape), *code), call.span) : poison(call.span);
    }
    return tile(ir().broadcast(v, *shape), call.span);
}

Value Elaborator::call_zeros(const Call& call) {
    const auto elem = format_arg(call, 0);
    const auto shape = call_shape(call);
    if (!elem || !shape) return poison(call.span);
    const Format& f = types_.format(*elem);
    // Code 0 is the value 0 except in formats without a zero and in some codebooks.
    if (!f.is_block() && (f.is_int() || f.is_bool() || decode(f, 0) == 0)) return tile(ir().constant(types_.tile(*elem, *shape), 0), call.span);
    return filled(call, constant_int(0, call.span));
}

Value Elaborator::call_ones(const Call& call) { return filled(call, constant_int(1, call.span)); }
Value Elaborator::call_full(const Call& call) { return filled(call, call.positional[0]); }

Value Elaborator::call_iota(const Call& call) {
    const auto elem = format_arg(call, 0, id_of(Fmt::i64));
    const auto shape = call_shape(call);
    if (!elem || !shape) return poison(call.span);
    if (shape->rank == 0) return error(Diag::bad_shape, call.span, "iota needs at least one extent, as in iota[8]");
    const auto axis = arg_axis(call, 0, shape->rank, 0);
    if (!axis) return poison(call.span);
    const Format& f = types_.format(*elem);
    if (f.is_block() || f.is_bool()) return error(Diag::wrong_element_kind, call.span, "iota", "`" + f.name + "`", "numbers");
    if (f.is_int()) return tile(ir().iota(*elem, *shape, *axis), call.span);
    return tile(ir().cast(ir().iota(id_of(Fmt::i64), *shape, *axis), *elem), call.span);
}

// ---- array literals ----

/// Shape of nested arrays by their first entries; entries must agree, which collect_codes checks.
bool Elaborator::literal_shape(const Value& v, Shape& shape, Span span) {
    const Value* at = &v;
    while (at->kind == Value::list || at->kind == Value::tuple) {
        if (at->items.empty() || shape.rank == kMaxRank) {
            error(Diag::bad_shape, span, at->items.empty() ? "an array literal of a tile is not empty" : "a tile has at most 8 dimensions");
            return false;
        }
        shape.push(static_cast<int64_t>(at->items.size()));
        at = &at->items.front();
    }
    return true;
}

bool Elaborator::collect_codes(const Value& v, const Shape& shape, size_t d, FormatId elem, std::vector<int64_t>& codes, Span span) {
    const bool is_list = v.kind == Value::list || v.kind == Value::tuple;
    const Span at = v.span.valid() ? v.span : span;
    if (is_list != (d < shape.rank) || (is_list && static_cast<int64_t>(v.items.size()) != shape[d])) {
        error(Diag::shape_mismatch, at, "tile_of", "the rows of an array literal have equal lengths; expected shape " + to_string(shape));
        return false;
    }
    if (!is_list) {
        if (!v.is_static_number()) {
            error(Diag::not_constant, at, "an entry of tile_of", describe(v));
            return false;
        }
        const auto code = literal_code(v, elem, at);
        if (code) codes.push_back(static_cast<int64_t>(*code));
        return code.has_value();
    }
    for (const Value& item : v.items)
        if (!collect_codes(item, shape, d + 1, elem, codes, span)) return false;
    return true;
}

namespace {

bool constant_entries(const Value& v) { return v.kind != Value::tile && std::all_of(v.items.begin(), v.items.end(), constant_entries); }

}  // namespace

/// The entries of an array literal as scalars of that type, in order; false after a report.
bool Elaborator::collect_scalars(const Value& v, const Shape& shape, size_t d, FormatId elem, std::vector<ValueId>& scalars, Span span) {
    const bool is_list = v.kind == Value::list || v.kind == Value::tuple;
    const Span at = v.span.valid() ? v.span : span;
    if (is_list != (d < shape.rank) || (is_list && static_cast<int64_t>(v.items.size()) != shape[d])) {
        error(Diag::shape_mismatch, at, "tile_of", "the rows of an array literal have equal lengths; expected shape " + to_string(shape));
        return false;
    }
    for (const Value& item : v.items)
        if (is_list && !collect_scalars(item, shape, d + 1, elem, scalars, span)) return false;
    if (is_list) return true;
    const ValueId scalar = to_tile(v, elem, at);
    if (!scalar.valid()) return false;
    if (ir().fn().type(scalar).shape.rank != 0) {
        error(Diag::shape_mismatch, at, "tile_of", "an entry is one number, found " + describe(v));
        return false;
    }
    scalars.push_back(scalar);
    return true;
}

/// A tile of entries of which some are computed when the program runs.
Value Elaborator::tile_of_computed(const Value& entries, const Shape& shape, FormatId elem, Span span) {
    std::vector<ValueId> scalars;
    if (!collect_scalars(entries, shape, 0, elem, scalars, span)) return poison(span);
    if (!step(span, scalars.size())) return poison(span);
    ir().set_span(span);
    for (ValueId& v : scalars) v = ir().reshape(v, Shape{1});
    if (scalars.size() == 1) return tile(ir().reshape(scalars[0], shape), span);
    const TypeId line = types_.tile(elem, Shape{static_cast<int64_t>(scalars.size())});
    const int64_t axis = 0;
    return tile(ir().reshape(ir().fn().result(ir().emit(Op::cat, scalars, {&line, 1}, {&axis, 1})), shape), span);
}

Value Elaborator::call_tile_of(const Call& call) {
    const auto elem = format_arg(call, 0);
    if (!elem) return poison(call.span);
    const Format& f = types_.format(*elem);
    if (f.is_block()) return error(Diag::wrong_element_kind, call.span, "tile_of", "`" + f.name + "`", "single elements; cast its result");
    Shape shape;
    std::vector<int64_t> codes;
    const Span span = arg_span(call, 0);
    if (!literal_shape(call.positional[0], shape, span) || !fits_budget(shape, span)) return poison(call.span);
    if (!constant_entries(call.positional[0])) return tile_of_computed(call.positional[0], shape, *elem, call.span);
    if (!collect_codes(call.positional[0], shape, 0, *elem, codes, span)) return poison(call.span);
    const TypeId type = types_.tile(*elem, shape);
    ir().set_span(call.span);
    return tile(ir().fn().result(ir().emit(Op::constant_tile, {}, {&type, 1}, codes)), call.span);
}

// ---- shapes of values ----

Value Elaborator::call_size(const Call& call) {
    const Value& x = call.positional[0];
    std::vector<Value> extents;
    if (x.kind == Value::tensor) {
        extents = x.tensor_ref->extents;
    } else if (x.kind == Value::tile || x.kind == Value::block_tile) {
        for (int64_t extent : shape_of(x)) extents.push_back(constant_int(extent, call.span));
    } else if (x.kind == Value::list || x.kind == Value::tuple) {
        extents = {constant_int(static_cast<__int128>(x.items.size()), call.span)};
    } else if (!x.is_static_number()) {
        to_tile(x, arg_span(call, 0));
        return poison(call.span);
    }
    if (has(call, 1)) {
        const auto axis = arg_axis(call, 1, static_cast<int>(extents.size()), 0);
        return axis ? extents[static_cast<size_t>(*axis)] : poison(call.span);
    }
    Value product = constant_int(1, call.span);
    for (const Value& extent : extents) product = apply(Op::mul, {product, extent}, call.span);
    return product;
}

Value Elaborator::call_rank(const Call& call) {
    const Value& x = call.positional[0];
    if (x.kind == Value::tensor) return constant_int(static_cast<__int128>(x.tensor_ref->extents.size()), call.span);
    if (x.kind == Value::tile || x.kind == Value::block_tile) return constant_int(shape_of(x).rank, call.span);
    if (x.is_static_number()) return constant_int(0, call.span);
    to_tile(x, arg_span(call, 0));
    return poison(call.span);
}

Value Elaborator::call_cdiv(const Call& call) { return apply(Op::div_ceil, {call.positional[0], call.positional[1]}, call.span); }

}  // namespace tegula::sema
