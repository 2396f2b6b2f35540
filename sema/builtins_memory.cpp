// Built-in functions that touch memory and the outside: pointers, atomics on parts of tensors and on pointers, print, assert and assume.
#include <algorithm>

#include "lang/print_text.h"
#include "sema/elaborate.h"
#include "sema/part.h"
#include "sema/suggest.h"

namespace tegula::sema {

using ir::Access;
using ir::AtomicKind;
using ir::Op;
using ir::ValueId;

// ---- pointers ----

/// Argument `i` as a tile of pointers; invalid after an error.
ValueId Elaborator::arg_pointer(const Call& call, size_t i) {
    const Value& v = call.positional[i];
    if (v.kind == Value::tile && ir().fn().type(v.v).pointer) return v.v;
    error(Diag::type_mismatch, arg_span(call, i), "pointers", describe(v));
    return {};
}

/// Argument `i` as a bool mask; invalid after an error.
ValueId Elaborator::arg_mask(const Call& call, size_t i) {
    ValueId out;
    to_bool(call.positional[i], arg_span(call, i), out);
    return out;
}

Value Elaborator::call_load(const Call& call) {
    std::vector<ValueId> operands{arg_pointer(call, 0)};
    if (!operands[0].valid()) return poison(call.span);
    const FormatId elem = ir().fn().type(operands[0]).elem;
    int64_t flags = call.caching.flags();
    if (has(call, 1)) {
        operands.push_back(arg_mask(call, 1));
        flags |= Access::has_mask;
    }
    if (has(call, 2)) {
        operands.push_back(to_tile(call.positional[2], elem, arg_span(call, 2)));
        flags |= Access::has_other;
    } else if (has(call, 1)) {
        fill_with_zero(types_.tile(elem), operands, flags);
    }
    if (!broadcast_all(operands, call.span)) return poison(call.span);
    const TypeId result = types_.tile(elem, ir().fn().type(operands[0]).shape);
    return tile(ir().fn().result(ir().emit(Op::ptr_load, operands, {&result, 1}, {&flags, 1})), call.span);
}

Value Elaborator::call_store(const Call& call) {
    std::vector<ValueId> operands{arg_pointer(call, 0)};
    if (!operands[0].valid()) return poison(call.span);
    const FormatId elem = ir().fn().type(operands[0]).elem;
    const Shape before = ir().fn().type(operands[0]).shape;
    operands.push_back(to_tile(call.positional[1], elem, arg_span(call, 1)));
    int64_t flags = call.caching.flags();
    if (has(call, 2)) {
        operands.push_back(arg_mask(call, 2));
        flags |= Access::has_mask;
    }
    if (!broadcast_all(operands, call.span)) return poison(call.span);
    const Shape& joint = ir().fn().type(operands[0]).shape;
    if (joint != before) return error(Diag::part_mismatch, call.span, to_string(joint), to_string(before));
    ir().emit(Op::ptr_store, operands, {}, {&flags, 1});
    return unit(call.span);
}

Value Elaborator::call_pointer(const Call& call) {
    const Value& v = call.positional[0];
    if (v.kind != Value::tensor) return error(Diag::type_mismatch, arg_span(call, 0), "a tensor", describe(v));
    const Type& type = ir().fn().type(v.tensor_ref->handle);
    if (v.tensor_ref->pointee.v) return error(Diag::type_mismatch, arg_span(call, 0), "a tensor of numbers", describe(v));
    return tile(ir().value(Op::tensor_ptr, {v.tensor_ref->handle}, types_.pointer(type.elem)), call.span);
}

// ---- atomics ----

Value Elaborator::atomic(AtomicKind kind, const Call& call) {
    const bool cas = kind == AtomicKind::cas;
    const size_t value = cas ? 2 : 1, mask = value + 1;
    const auto order = arg_option(call, mask + 1, "memory order", {"relaxed", "acquire", "release", "acq_rel"}, 0);
    const auto scope = arg_option(call, mask + 2, "memory scope", {"gpu", "cta", "sys"}, 0);
    if (!order || !scope) return poison(call.span);
    Part part;
    ValueId object;
    bool on_tensor = false;
    if (call.exprs[0]->kind == ast::ExprKind::index) {
        const auto& target = ast::as<ast::IndexExpr>(call.exprs[0]);
        const Value base = expr(*target.base);
        if (base.kind == Value::poison) return poison(call.span);
        if (base.kind == Value::tensor) {
            const Tensor& t = *base.tensor_ref;
            if (t.scales.valid())
                return error(Diag::block_alignment, target.span, types_.format(t.elem).name, "elements of blocks cannot be updated one by one");
            if (t.mode != ast::ParamMode::inout) return mode_error("update", t, target.span);
            if (!resolve_part(target, base, part)) return poison(call.span);
            object = t.handle;
            on_tensor = true;
        } else {
            Value pointers = index(target, nullptr);
            if (pointers.kind == Value::poison) return poison(call.span);
            if (pointers.kind == Value::tile && ir().fn().type(pointers.v).pointer) object = pointers.v;
            if (!object.valid()) return error(Diag::type_mismatch, target.span, "a part of a tensor or pointers", describe(pointers));
        }
    } else {
        object = arg_pointer(call, 0);
        if (!object.valid()) return poison(call.span);
    }
    const FormatId elem = ir().fn().type(object).elem;
    const Format& f = types_.format(elem);
    const bool bits = kind == AtomicKind::bit_and || kind == AtomicKind::bit_or || kind == AtomicKind::bit_xor;
    if ((bits && !f.is_int()) || (!bits && kind <= AtomicKind::min && !f.is_int() && !f.is_float()))
        return error(Diag::wrong_element_kind, call.span, std::string("atomic_") + ir::to_string(kind), "`" + f.name + "`",
                     bits ? "integers" : "integers and floats");
    if (!on_tensor) {
        part.ir_shape = part.shape = ir().fn().type(object).shape;
        part.span = call.span;
    }
    std::vector<ValueId> operands = on_tensor ? part.operands(object) : std::vector<ValueId>{object};
    for (size_t i : cas ? std::vector<size_t>{value, 1} : std::vector<size_t>{value}) {
        const ValueId v = fit_part(part, call.positional[i], elem, false, arg_span(call, i));
        if (!v.valid()) return poison(call.span);
        operands.push_back(v);
    }
    Access access = part.access;
    if (has(call, mask)) {
        const ValueId v = fit_part(part, call.positional[mask], id_of(Fmt::boolean), false, arg_span(call, mask));
        if (!v.valid()) return poison(call.span);
        operands.push_back(v);
        access.flags |= Access::has_mask;
    }
    std::vector<int64_t> attrs{access.flags, static_cast<int64_t>(kind), *order, *scope};
    if (on_tensor) {
        const auto axes = access.encode_axes();
        attrs.insert(attrs.end(), axes.begin(), axes.end());
    }
    ir().set_span(call.span);
    const TypeId result = types_.tile(elem, part.ir_shape);
    const ValueId old = ir().fn().result(ir().emit(on_tensor ? Op::atomic : Op::ptr_atomic, operands, {&result, 1}, attrs));
    return tile(ir().reshape(old, part.shape), call.span);
}

Value Elaborator::call_atomic_add(const Call& call) { return atomic(AtomicKind::add, call); }
Value Elaborator::call_atomic_max(const Call& call) { return atomic(AtomicKind::max, call); }
Value Elaborator::call_atomic_min(const Call& call) { return atomic(AtomicKind::min, call); }
Value Elaborator::call_atomic_and(const Call& call) { return atomic(AtomicKind::bit_and, call); }
Value Elaborator::call_atomic_or(const Call& call) { return atomic(AtomicKind::bit_or, call); }
Value Elaborator::call_atomic_xor(const Call& call) { return atomic(AtomicKind::bit_xor, call); }
Value Elaborator::call_atomic_xchg(const Call& call) { return atomic(AtomicKind::xchg, call); }
Value Elaborator::call_atomic_cas(const Call& call) { return atomic(AtomicKind::cas, call); }

// ---- programs ----

Value Elaborator::grid_query(const Call& call, Op op) {
    const auto axis = arg_axis(call, 0, 3, 0);
    if (!axis) return poison(call.span);
    return tile(ir().value(op, {}, types_.tile(Fmt::i64), {*axis}), call.span);
}

Value Elaborator::call_program_id(const Call& call) { return grid_query(call, Op::program_id); }
Value Elaborator::call_num_programs(const Call& call) { return grid_query(call, Op::num_programs); }

Value Elaborator::call_grid_barrier(const Call& call) {
    if (!ir().fn().is_kernel || !ir::find_hint(ir().fn().hints, "cooperative")) return error(Diag::needs_cooperative, call.span);
    ir().set_span(call.span);
    ir().emit(Op::grid_barrier, {}, {});
    return unit(call.span);
}

// ---- print and conditions ----

bool Elaborator::printed(Value v, Span span, std::string_view hole, std::vector<ValueId>& values, std::string& text) {
    if (v.kind == Value::block_tile) v = decode_blocks(v, id_of(Fmt::f32), span);
    if (v.kind == Value::tuple) {
        text += "(";
        for (size_t i = 0; i < v.items.size(); ++i) {
            if (i) text += ", ";
            if (!printed(v.items[i], span, hole, values, text)) return false;
        }
        text += ")";
        return true;
    }
    if (v.kind == Value::text || v.kind == Value::type) {
        for (const char c : v.kind == Value::text ? std::string(v.s) : describe(v.t)) text += c == '{' ? "{{" : std::string(1, c);
        return true;
    }
    const ValueId tile = to_tile(v, span);
    if (!tile.valid()) return false;
    values.push_back(tile);
    text += hole;
    return true;
}

Value Elaborator::call_print(const Call& call) {
    if (!call.named.empty()) return error(Diag::bad_arguments, call.named[0].second.span, "print", "values have no names");
    std::vector<ValueId> values;
    std::string text;
    size_t first = 0;
    if (call.positional[0].kind == Value::text) {
        text = call.positional[0].s;
        first = 1;
        const size_t holes = count_holes(text), given = call.positional.size() - 1;
        if (holes != given) {
            const Span literal = arg_span(call, 0);
            suggest_format_text(diags_.report(Diag::bad_format_text, literal, {std::to_string(holes), std::to_string(given)}), module_here(),
                                literal);
            return poison(call.span);
        }
    } else {
        for (size_t i = 0; i < call.positional.size(); ++i) text += i ? " {}" : "{}";
    }
    std::string filled;
    size_t at = first;
    for (size_t i = 0; i < text.size(); ++i) {
        if (text.compare(i, 2, "{{") == 0) {
            filled += "{{";
            ++i;
        } else if (const auto hole = hole_at(text, i)) {
            const std::string_view written = std::string_view(text).substr(i, hole->length);
            if (!printed(call.positional[at], arg_span(call, at), written, values, filled)) return poison(call.span);
            ++at;
            i += hole->length - 1;
        } else {
            filled += text[i];
        }
    }
    const int64_t id = ir().fn().add_string(std::move(filled));
    ir().set_span(call.span);
    ir().emit(Op::print, values, {}, {&id, 1});
    return unit(call.span);
}

Value Elaborator::call_assert(const Call& call) {
    ValueId condition;
    if (!to_bool(call.positional[0], arg_span(call, 0), condition)) return poison(call.span);
    std::string text;
    if (has(call, 1)) {
        if (call.positional[1].kind != Value::text) return error(Diag::type_mismatch, arg_span(call, 1), "a text", describe(call.positional[1]));
        text = call.positional[1].s;
    }
    const int64_t id = ir().fn().add_string(std::move(text));
    ir().set_span(call.span);
    ir().emit(Op::assert, {&condition, 1}, {}, {&id, 1});
    return unit(call.span);
}

Value Elaborator::call_assume(const Call& call) {
    ValueId condition;
    if (!to_bool(call.positional[0], arg_span(call, 0), condition)) return poison(call.span);
    if (ir().fn().type(condition).shape.rank != 0) condition = ir().reduce(condition, ir::ReduceKind::all, -1, false, id_of(Fmt::boolean));
    ir().set_span(call.span);
    ir().emit(Op::assume, {&condition, 1}, {});
    return unit(call.span);
}

Value Elaborator::call_static_assert(const Call& call) {
    const auto holds = static_bool(call.positional[0], arg_span(call, 0));
    if (!holds) return poison(call.span);
    if (*holds) return unit(call.span);
    std::string text;
    if (has(call, 1) && call.positional[1].kind == Value::text) text = ": " + std::string(call.positional[1].s);
    return error(Diag::static_assert_failed, arg_span(call, 0), text);
}

}  // namespace tegula::sema
