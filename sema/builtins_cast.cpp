// cast, select and the facts of types. A cast is one rounding; floats go to integers by truncation unless a rounding is named;
// block formats are decoded and quantised by builtins_block.cpp.
#include <bit>
#include <cmath>

#include "lang/scalar.h"
#include "sema/elaborate.h"

namespace tegula::sema {

using ir::Op;
using ir::ValueId;

namespace {

/// The code of a compile-time number under an explicit conversion; `overflowed` is set when it lies outside the range of `to`.
uint64_t cast_code(const Value& v, const Format& to, RoundSpec spec, bool& overflowed) {
    if (v.kind == Value::boolean) return to.is_bool() || to.is_int() ? scalar::wrap(v.b, to.bits, to.is_signed) : encode(to, v.b ? 1.0 : 0.0, spec);
    if (v.kind == Value::real) return to.is_bool() ? v.r != 0 : round_exact(exact_real(v), to, spec, &overflowed);
    if (to.is_bool()) return v.i != 0;
    if (to.is_int() && spec.overflow == Overflow::automatic) return scalar::wrap(static_cast<uint64_t>(v.i), to.bits, to.is_signed);
    return round_exact({.negative = v.i < 0, .significand = static_cast<uint64_t>(v.i < 0 ? -v.i : v.i)}, to, spec, &overflowed);
}

}  // namespace

ValueId Elaborator::pointers_at(ValueId addresses, FormatId elem) {
    return ir().value(Op::ptr_at, {addresses}, types_.pointer(elem, ir().fn().type(addresses).shape));
}

/// cast or bitcast to or from pointers: 64 bits are the address of the element. Nothing: neither type is one of pointers.
std::optional<Value> Elaborator::cast_pointers(const Call& call) {
    const Value& x = call.positional[0];
    const bool from = x.kind == Value::tile && ir().fn().type(x.v).pointer;
    std::optional<TypeDesc> to;
    if (!call.generics.empty() && call.generics[0].kind == Value::type && (from || call.generics[0].t.kind == TypeDesc::pointer))
        to = call.generics[0].t;
    if (!to || (!from && to->kind != TypeDesc::pointer)) return std::nullopt;
    if (has(call, 1) || has(call, 2)) return error(Diag::bad_arguments, call.span, "cast", "addresses are neither rounded nor out of range");
    ir().set_span(call.span);
    ValueId address;
    if (from) {
        address = ir().value(Op::ptr_address, {x.v}, types_.tile(id_of(Fmt::u64), ir().fn().type(x.v).shape));
        if (to->kind == TypeDesc::scalar_format && (to->elem == Fmt::u64 || to->elem == Fmt::i64))
            return tile(ir().cast(address, to->elem), call.span);
    } else if (x.kind == Value::integer && x.i >= 0 && x.i <= static_cast<__int128>(UINT64_MAX)) {
        address = ir().constant(types_.tile(Fmt::u64), static_cast<uint64_t>(x.i));
    } else if (x.kind == Value::tile && (elem_of(x) == Fmt::u64 || elem_of(x) == Fmt::i64)) {
        address = ir().cast(x.v, id_of(Fmt::u64));
    }
    if (!address.valid() || to->kind != TypeDesc::pointer) {
        Diagnostic& d = diags_.report(Diag::bad_cast, arg_span(call, 0), {describe(x), "`" + describe(*to) + "`"});
        d.help("addresses are numbers of 64 bits: cast<u64>(..) of a pointer, cast<ptr<T>>(..) of a u64");
        return poison(call.span);
    }
    return tile(pointers_at(address, to->elem), call.span);
}

Value Elaborator::call_cast(const Call& call) { return with_outside(converted(call), call.positional[0].v, call.span); }

Value Elaborator::converted(const Call& call) {
    if (auto pointers = cast_pointers(call)) return *pointers;
    const auto to = format_arg(call, 0);
    const auto round = arg_option(call, 1, "rounding", {"rne", "rna", "rtz", "ru", "rd", "stochastic"}, -1);
    const auto overflow = arg_option(call, 2, "overflow rule", {"auto", "ieee", "sat", "trap"}, 0);
    if (!to || !round || !overflow) return poison(call.span);
    const Value& x = call.positional[0];
    const Span span = arg_span(call, 0);
    const Format& f = types_.format(*to);
    const bool blocks = f.is_block() || x.kind == Value::block_tile;
    if (has(call, 4) && !blocks && *round != static_cast<int>(Round::stochastic))
        return error(Diag::bad_arguments, arg_span(call, 4), "cast", "`bits` go with `round = stochastic`");
    if (blocks) {
        if (*round >= 0 || *overflow != 0 || has(call, 4))
            return error(Diag::bad_arguments, call.span, "cast", "block formats have their rounding in the type, not in the call");
        if (x.kind != Value::block_tile) return quantise_blocks(x, *to, call.span);
        if (!f.is_block()) return decode_blocks(x, *to, call.span);
        return x.elem == *to ? x : quantise_blocks(decode_blocks(x, id_of(Fmt::f32), call.span), *to, call.span);
    }
    const auto rule = static_cast<Overflow>(*overflow);
    if (x.is_static_number()) {
        if (*round == static_cast<int>(Round::stochastic)) return error(Diag::needs_typed_operand, span, "stochastic rounding", describe(x));
        const Round mode = *round >= 0 ? static_cast<Round>(*round) : f.is_int() ? Round::rtz : Round::rne;
        bool overflowed = false;
        const uint64_t code = cast_code(x, f, {mode, rule}, overflowed);
        if (overflowed && rule == Overflow::trap) return error(Diag::literal_inexact, span, describe(x), f.name);
        return tile(ir().constant(types_.tile(*to), code), call.span);
    }
    const ValueId v = arg_tile(call, 0);
    if (!v.valid()) return poison(call.span);
    if (ir().fn().type(v).pointer) return error(Diag::bad_cast, span, describe(x), "`" + f.name + "`");
    const Format& from = ir().fn().elem(v);
    const bool from_fraction = !from.is_int() && !from.is_bool();
    const Round mode = *round >= 0 ? static_cast<Round>(*round) : f.is_int() && from_fraction ? Round::rtz : Round::rne;
    if (mode != Round::stochastic) return tile(ir().cast(v, *to, mode, rule), call.span);
    if (has(call, 4)) return cast_by_bits(call, v, *to, rule);
    ValueId seed = ir().constant(types_.tile(Fmt::u64), 0);
    if (has(call, 3)) {
        const Value& given = call.positional[3];
        seed = to_index(given, arg_span(call, 3));
        if (!seed.valid()) return poison(call.span);
        if (ir().fn().type(seed).shape.rank != 0)
            return error(Diag::part_mismatch, arg_span(call, 3), to_string(ir().fn().type(seed).shape), "[] (one seed)");
        seed = ir().cast(given.kind == Value::tile ? given.v : seed, id_of(Fmt::u64));
    }
    ir().set_span(call.span);
    const TypeId result = types_.tile(*to, ir().fn().type(v).shape);
    return tile(ir().value(Op::cast, {v, seed}, result, {static_cast<int64_t>(mode), static_cast<int64_t>(rule)}), call.span);
}

/// Stochastic rounding by a number for each element, which the program gives.
Value Elaborator::cast_by_bits(const Call& call, ValueId v, FormatId to, Overflow rule) {
    const Value& given = call.positional[4];
    const Span span = arg_span(call, 4);
    if (has(call, 3)) return error(Diag::bad_arguments, span, "cast", "takes a seed or `bits`, not both");
    if (given.is_static_number()) return error(Diag::needs_typed_operand, span, "stochastic rounding", describe(given));
    const ValueId bits = to_tile(given, span);
    if (!bits.valid()) return poison(call.span);
    const Format& f = ir().fn().elem(bits);
    if (ir().fn().type(bits).pointer || !f.is_int() || f.is_signed) {
        Diagnostic& d = diags_.report(Diag::wrong_element_kind, span,
                                      {"cast by bits", ir().fn().type(bits).pointer ? "pointer" : "`" + f.name + "`", "unsigned integers"});
        if (f.is_int()) d.help("bitcast<u" + std::to_string(f.bits) + ">(..) has the same bits");
        return poison(call.span);
    }
    std::vector<ValueId> both{v, bits};
    if (!broadcast_all(both, call.span)) return poison(call.span);
    const TypeId result = types_.tile(to, ir().fn().type(both[0]).shape);
    return tile(ir().value(Op::cast, {both[0], both[1]}, result, {static_cast<int64_t>(Round::bits), static_cast<int64_t>(rule)}), call.span);
}

Value Elaborator::call_select(const Call& call) {
    const Value &c = call.positional[0], &a = call.positional[1], &b = call.positional[2];
    if (c.kind == Value::boolean) return c.b ? a : b;
    ValueId condition;
    if (!to_bool(c, arg_span(call, 0), condition)) return poison(call.span);
    const auto is_pointer = [&](const Value& v) { return v.kind == Value::tile && ir().fn().type(v.v).pointer; };
    std::vector<ValueId> tiles{condition};
    if (is_pointer(a) || is_pointer(b)) {
        if (!is_pointer(a) || !is_pointer(b) || !(elem_of(a) == elem_of(b)))
            return error(Diag::bad_pointer_operation, call.span, "select", describe(a), describe(b));
        tiles.insert(tiles.end(), {a.v, b.v});
    } else {
        const auto elem = meet(a, b, call.span);
        if (!elem) return poison(call.span);
        tiles.push_back(to_tile(a, *elem, arg_span(call, 1)));
        tiles.push_back(to_tile(b, *elem, arg_span(call, 2)));
    }
    if (!broadcast_all(tiles, call.span)) return poison(call.span);
    return tile(ir().select(tiles[0], tiles[1], tiles[2]), call.span);
}

/// The element type two values meet in, constants included.
std::optional<FormatId> Elaborator::meet(const Value& a, const Value& b, Span span) {
    if (a.kind == Value::tile && b.kind == Value::tile) return common_format(a, b, span);
    if (a.kind == Value::tile) return elem_of(a);
    if (b.kind == Value::tile) return elem_of(b);
    if (a.kind == Value::boolean && b.kind == Value::boolean) return id_of(Fmt::boolean);
    if (a.kind == Value::integer && b.kind == Value::integer) return id_of(Fmt::i64);
    if (a.is_static_number() && b.is_static_number() && a.kind != Value::boolean && b.kind != Value::boolean) return id_of(Fmt::f32);
    if (a.is_static_number() && b.is_static_number())
        error(Diag::mixed_types, span, describe(a), describe(b));
    else
        to_tile(a.is_static_number() ? b : a, span);
    return std::nullopt;
}

// ---- facts of types ----

Value Elaborator::call_elem(const Call& call) {
    const Value& x = call.positional[0];
    FormatId elem = elem_of(x);
    if (x.kind == Value::type) elem = x.t.elem;
    if (elem.v == 0) return x.kind == Value::poison ? poison(call.span) : error(Diag::no_bit_width, arg_span(call, 0), "elem", describe(x));
    Value v = poison(call.span);
    v.kind = Value::type;
    v.t.kind = TypeDesc::scalar_format;
    v.t.elem = elem;
    return v;
}

Value Elaborator::call_bits(const Call& call) {
    const auto f = format_arg(call, 0);
    return f ? constant_int(types_.format(*f).bits, call.span) : poison(call.span);
}

/// A code as a compile-time number: integers exactly, everything else as a real.
Value Elaborator::static_code(FormatId elem, uint64_t code, Span span) {
    const Format& f = types_.format(elem);
    if (f.is_int()) return constant_int(f.is_signed ? static_cast<__int128>(static_cast<int64_t>(code)) : static_cast<__int128>(code), span);
    Value v = poison(span);
    v.kind = Value::real;
    v.r = decode(f, code);
    return v;
}

Value Elaborator::extreme_value(const Call& call, bool largest) {
    const auto id = format_arg(call, 0);
    if (!id) return poison(call.span);
    const Format& f = types_.format(*id);
    if (f.is_block() || f.is_bool())
        return error(Diag::wrong_element_kind, call.span, largest ? "max_value" : "min_value", "`" + f.name + "`", "numbers");
    return static_code(*id, largest ? max_code(f) : lowest_code(f), call.span);
}

Value Elaborator::call_max_value(const Call& call) { return extreme_value(call, true); }
Value Elaborator::call_min_value(const Call& call) { return extreme_value(call, false); }

Value Elaborator::call_epsilon(const Call& call) {
    const auto id = format_arg(call, 0);
    if (!id) return poison(call.span);
    const Format& f = types_.format(*id);
    if (!f.is_float()) return error(Diag::wrong_element_kind, call.span, "epsilon", "`" + f.name + "`", "float");
    Value v = poison(call.span);
    v.kind = Value::real;
    v.r = std::ldexp(1.0, -f.man_bits);
    return v;
}

Value Elaborator::call_is_int(const Call& call) {
    const auto f = format_arg(call, 0);
    return f ? constant_bool(types_.format(*f).is_int(), call.span) : poison(call.span);
}

Value Elaborator::call_is_signed(const Call& call) {
    const auto f = format_arg(call, 0);
    if (!f) return poison(call.span);
    const Format& format = types_.format(*f);
    if (format.kind != FormatKind::codebook) return constant_bool(format.is_signed && !format.is_bool(), call.span);
    bool negative = false;
    for (double value : format.table) negative |= value < 0;
    return constant_bool(negative, call.span);
}

Value Elaborator::call_is_float(const Call& call) {
    const auto f = format_arg(call, 0);
    return f ? constant_bool(types_.format(*f).is_float(), call.span) : poison(call.span);
}

}  // namespace tegula::sema
