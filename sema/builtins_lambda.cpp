// Built-in functions that take a function: reduce, scan and map. The combining lambda is inlined into a block over scalars; it must be
// pure, because how often and in which pairs it runs follows from the shape.
#include "sema/elaborate.h"
#include "sema/spread.h"

namespace tegula::sema {

using ir::Op;
using ir::ValueId;

/// Calls any function value with evaluated arguments.
Value Elaborator::call_with(const Value& f, std::vector<Value> args, Span span) {
    switch (f.kind) {
        case Value::poison:
            return poison(span);
        case Value::function:
            return call_function(f, std::move(args), {}, span);
        case Value::lambda:
            return call_lambda(f, std::move(args), span);
        case Value::elementwise:
        case Value::builtin: {
            const std::string_view name = f.kind == Value::builtin ? builtin_rows()[static_cast<size_t>(f.row)].name : ir::op_row(f.op).name;
            const Op op = ir::find_op(name);
            if (op == Op::count_ || !(ir::op_row(op).traits & ir::ELEMWISE)) break;
            if (args.size() != static_cast<size_t>(ir::op_row(op).operands))
                return error(Diag::bad_arguments, span, std::string(name),
                             "takes " + std::to_string(ir::op_row(op).operands) + " arguments, found " + std::to_string(args.size()));
            return apply(op, std::move(args), span);
        }
        default:
            break;
    }
    return error(Diag::not_callable, span, describe(f));
}

/// A tile or tuple of tiles as operands of one common shape, cast to argument `dtype` where that is given; empty after an error.
std::vector<ValueId> Elaborator::combined_operands(const Call& call, size_t dtype) {
    const Value& x = call.positional[0];
    std::vector<ValueId> tiles;
    if (x.kind == Value::tuple) {
        for (const Value& item : x.items) tiles.push_back(to_tile(item, item.span.valid() ? item.span : call.span));
    } else {
        tiles.push_back(arg_tile(call, 0));
    }
    if (tiles.empty()) shape_error(call, "needs at least one tile");
    if (tiles.empty() || !broadcast_all(tiles, call.span)) return {};
    if (!has(call, dtype)) return tiles;
    const auto to = number_type(call.positional[dtype]);
    if (!to) return {};
    for (ValueId& v : tiles) {
        const Format &from = ir().fn().elem(v), &into = types_.format(*to);
        if (ir().fn().type(v).pointer) return error(Diag::bad_cast, call.span, "a pointer", "`" + into.name + "`"), std::vector<ValueId>{};
        ir().set_span(call.span);
        if (ir().fn().type(v).elem != *to) v = ir().cast(v, *to, into.is_int() && !from.is_int() && !from.is_bool() ? Round::rtz : Round::rne);
    }
    return tiles;
}

/// The block of reduce_region and scan_region over scalars of the tiles' element types; invalid after an error.
ir::BlockId Elaborator::combine_block(const Call& call, const Value& f, const std::vector<ValueId>& tiles, const char* name) {
    ir::Function& fn = ir().fn();
    const ir::BlockId outer = ir().block(), block = fn.add_block();
    const size_t first_inst = fn.inst_count(), n = tiles.size();
    std::vector<Value> args;
    for (size_t i = 0; i < 2 * n; ++i) {
        Type scalar = fn.type(tiles[i % n]);
        scalar.shape = {};
        args.push_back(tile(fn.add_arg(block, types_.intern(scalar)), call.span));
    }
    const size_t errors = diags_.error_count();
    ir().set_block(block);
    const Value result = call_with(f, std::move(args), call.span);
    const auto mismatch = [&](const std::string& found) {
        std::string wanted;
        for (ValueId v : tiles) wanted += (wanted.empty() ? "" : ", ") + fn.elem(v).name;
        error(Diag::bad_combine, call.span, std::to_string(2 * n) + " scalars", n == 1 ? "a `" + wanted + "`" : "a tuple of (" + wanted + ")", found);
    };
    std::vector<ValueId> out;
    const bool bundle = result.kind == Value::tuple;
    if (result.kind != Value::poison && (n > 1 || bundle) && (!bundle || result.items.size() != n)) {
        mismatch(describe(result));
    } else if (result.kind != Value::poison) {
        for (size_t i = 0; i < n; ++i) {
            const Value& item = bundle ? result.items[i] : result;
            const Type& type = fn.type(tiles[i]);
            const bool same = item.kind == Value::tile && fn.type(item.v).shape.rank == 0 && fn.type(item.v).pointer == type.pointer;
            const bool adapts = item.is_static_number() && !type.pointer;
            if (!same && !adapts) {
                mismatch(describe(item));
                break;
            }
            const ValueId v = type.pointer ? item.v : to_tile(item, type.elem, call.span);
            if (v.valid()) out.push_back(v);
        }
    }
    ir().set_span(call.span);
    if (out.size() == n) ir().emit(Op::yield, out, {});
    ir().set_block(outer);
    for (size_t i = first_inst; i < fn.inst_count(); ++i) {
        const Op op = fn.inst(ir::InstId{static_cast<uint32_t>(i)}).op;
        if (op == Op::assert) continue;
        const uint32_t traits = ir::op_row(op).traits;
        if (!(traits & (ir::READS | ir::WRITES | ir::EFFECT))) continue;
        error(Diag::effect_in_combine, call.span, name, traits & ir::EFFECT ? "have effects" : "read memory");
        return {};
    }
    if (out.size() == n && diags_.error_count() == errors) return block;
    return {};
}

/// One tile, or a tuple of them, from the results of an instruction.
Value Elaborator::region_results(ir::InstId inst, size_t n, Span span) {
    std::vector<Value> items;
    for (uint32_t i = 0; i < n; ++i) items.push_back(tile(ir().fn().result(inst, i), span));
    return n == 1 ? items[0] : tuple(std::move(items), span);
}

Value Elaborator::call_reduce(const Call& call) {
    std::vector<ValueId> operands = combined_operands(call, 4);
    if (operands.empty()) return poison(call.span);
    const size_t n = operands.size();
    const Shape shape = ir().fn().type(operands[0]).shape;
    const Value& axis_value = call.positional[1];
    const auto axis = reduced_axis(&axis_value, shape.rank, arg_span(call, 1));
    if (!axis) return poison(call.span);
    const Value& init = call.positional[2];
    if ((n > 1 || init.kind == Value::tuple) && (init.kind != Value::tuple || init.items.size() != n))
        return error(Diag::bad_arguments, arg_span(call, 2), "reduce", "needs " + std::to_string(n) + " initial values, found " + describe(init));
    std::vector<TypeId> results;
    for (size_t i = 0; i < n; ++i) {
        Type type = ir().fn().type(operands[i]);
        const Value& start = init.kind == Value::tuple ? init.items[i] : init;
        const ValueId v = type.pointer ? to_tile(start, call.span) : to_tile(start, type.elem, arg_span(call, 2));
        if (!v.valid()) return poison(call.span);
        Type scalar = type;
        scalar.shape = {};
        if (!(ir().fn().type(v) == scalar))
            return error(Diag::type_mismatch, arg_span(call, 2), "a scalar `" + types_.format(type.elem).name + "`", describe(start));
        operands.push_back(v);
        type.shape = {};
        for (int d = 0; *axis >= 0 && d < shape.rank; ++d)
            if (d != *axis) type.shape.push(shape[static_cast<size_t>(d)]);
        results.push_back(types_.intern(type));
    }
    const ir::BlockId block =
        combine_block(call, call.positional[3], {operands.begin(), operands.begin() + static_cast<std::ptrdiff_t>(n)}, "reduce");
    if (!block.valid()) return poison(call.span);
    const int64_t attr = *axis;
    return region_results(ir().emit(Op::reduce_region, operands, results, {&attr, 1}, {&block, 1}), n, call.span);
}

Value Elaborator::call_scan(const Call& call) {
    const std::vector<ValueId> operands = combined_operands(call, 4);
    if (operands.empty()) return poison(call.span);
    const auto axis = arg_axis(call, 1, ir().fn().type(operands[0]).shape.rank, 0);
    const auto reverse = arg_flag(call, 3, false);
    if (!axis || !reverse) return poison(call.span);
    const ir::BlockId block = combine_block(call, call.positional[2], operands, "scan");
    if (!block.valid()) return poison(call.span);
    std::vector<TypeId> results;
    for (ValueId v : operands) results.push_back(ir().fn().type_of(v));
    const int64_t attrs[] = {*axis, *reverse};
    return region_results(ir().emit(Op::scan_region, operands, results, attrs, {&block, 1}), operands.size(), call.span);
}

/// The tiles in a value, whose elements a mapped function gets one by one.
void Elaborator::mapped_tiles(Value& v, std::vector<Value*>& out) {
    if (v.kind == Value::tile && ir().fn().type(v.v).shape.rank != 0) out.push_back(&v);
    for (Value& item : v.items) mapped_tiles(item, out);
}

/// What is yielded by the block that a mapped function has been elaborated into; false after a report.
bool Elaborator::mapped_results(Value& result, std::vector<ValueId>& leaves, Span span) {
    if (result.kind == Value::poison) return false;
    leaves = flatten(result, span);
    if (leaves.empty() && result.kind != Value::unit)
        return error(Diag::bad_combine, span, "one element of each tile", "numbers", describe(result)), false;
    for (const ValueId v : leaves) {
        if (!v.valid()) return false;
        if (ir().fn().type(v).shape.rank == 0) continue;
        Diagnostic& d = diags_.report(Diag::bad_combine, span, {"one element of each tile", "numbers", describe(result)});
        d.help("what looks at whole tiles is called without `map`");
        return false;
    }
    return true;
}

/// The function is elaborated for one element; what it does is then spread over all of them.
Value Elaborator::call_map(const Call& call) {
    if (!call.named.empty()) return error(Diag::bad_arguments, call.named[0].second.span, "map", "operands have no names");
    return each_element(
        "map", {call.positional.begin() + 1, call.positional.end()},
        [&](std::vector<Value> args) { return call_with(call.positional[0], std::move(args), call.span); }, call.span);
}

/// What `f` gives for the elements of tiles in `args`, one by one.
Value Elaborator::each_element(const char* name, std::vector<Value> args, const std::function<Value(std::vector<Value>)>& f, Span span) {
    std::vector<Value*> places;
    bool in_form = false;
    for (Value& v : args) {
        if (v.kind == Value::block_tile) return poison(to_tile(v, v.span).valid() ? span : v.span);
        in_form = in_form || (form_rank_ > 0 && depends_on_form(v));
        mapped_tiles(v, places);
    }
    if (places.empty() || in_form || folding()) return f(std::move(args));
    std::vector<ValueId> tiles;
    for (const Value* v : places) tiles.push_back(v->v);
    if (!broadcast_all(tiles, span)) return poison(span);
    ir::Function& fn = ir().fn();
    const Shape shape = fn.type(tiles[0]).shape;
    const ir::BlockId outer = ir().block(), block = fn.add_block();
    for (size_t i = 0; i < tiles.size(); ++i) {
        Type scalar = fn.type(tiles[i]);
        scalar.shape = {};
        places[i]->v = fn.add_arg(block, types_.intern(scalar));
    }
    const size_t errors = diags_.error_count();
    ir().set_block(block);
    Value result = f(std::move(args));
    std::vector<ValueId> leaves;
    const bool ok = mapped_results(result, leaves, span) && diags_.error_count() == errors;
    if (ok) ir().emit(Op::yield, leaves, {});
    ir().set_block(outer);
    if (!ok) return poison(span);
    Spread spread(ir(), shape, [&](Span at, const std::string& why) { error(Diag::effect_in_combine, at.valid() ? at : span, name, why); });
    leaves = spread.run(block, tiles);
    ir().set_span(span);
    if (diags_.error_count() != errors) return poison(span);
    return unflatten_numbers(result, leaves);
}

}  // namespace tegula::sema
