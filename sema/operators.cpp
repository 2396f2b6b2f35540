// Elementwise operations: compile-time folding, promotion of operands to one element type, the check against the op's row, and explicit
// broadcasts to one shape. Integers fold exactly in [-2^63, 2^64), reals in double; typed values fold in the builder of a clause (ir::Builder), else
// in lower/fold.
#include <bit>
#include <cmath>

#include "lang/directed.h"
#include "lang/scalar.h"
#include "sema/elaborate.h"

namespace tegula::sema {

using ir::Op;

namespace {

ir::Op row_of(ast::BinaryOp op) {
    switch (op) {
        case ast::BinaryOp::add:
            return Op::add;
        case ast::BinaryOp::sub:
            return Op::sub;
        case ast::BinaryOp::mul:
            return Op::mul;
        case ast::BinaryOp::div:
            return Op::div;
        case ast::BinaryOp::rem:
            return Op::rem;
        case ast::BinaryOp::bit_and:
            return Op::bit_and;
        case ast::BinaryOp::bit_or:
            return Op::bit_or;
        case ast::BinaryOp::bit_xor:
            return Op::bit_xor;
        case ast::BinaryOp::shl:
            return Op::shl;
        case ast::BinaryOp::shr:
            return Op::shr;
        case ast::BinaryOp::eq:
            return Op::eq;
        case ast::BinaryOp::ne:
            return Op::ne;
        case ast::BinaryOp::lt:
            return Op::lt;
        case ast::BinaryOp::le:
            return Op::le;
        case ast::BinaryOp::gt:
            return Op::gt;
        case ast::BinaryOp::ge:
            return Op::ge;
        case ast::BinaryOp::logical_and:
            return Op::bit_and;
        case ast::BinaryOp::logical_or:
            return Op::bit_or;
    }
    return Op::count_;
}

std::string domain_text(Op op) {
    static constexpr struct {
        uint32_t bit;
        const char* name;
    } kinds[] = {{ir::B, "bool"},   {ir::S, "signed integer"}, {ir::U, "unsigned integer"}, {ir::F, "float"}, {ir::X, "fixed-point or log number"},
                 {ir::P, "pointer"}};
    std::string text;
    for (const auto& kind : kinds)
        if (ir::op_row(op).domain & kind.bit) text += (text.empty() ? "" : ", ") + std::string(kind.name);
    return text;
}

/// As the program writes it.
std::string written(Op op) {
    const auto [base, round] = ir::rounded_op(op);
    const std::string name = ir::op_row(base).name;
    static constexpr const char* kModes[] = {"", "", "rtz", "ru", "rd"};
    return round == Round::rne ? name : name + " with round = " + kModes[static_cast<int>(round)];
}

using Int = __int128;

Int floor_div(Int a, Int b) {
    const Int q = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

/// Exact integers, divisors not 0; nullopt when the result leaves 128 bits or the op has no meaning without a width.
std::optional<Int> fold_int(Op op, Int a, Int b, Int c) {
    Int r = 0;
    switch (op) {
        case Op::add:
            return a + b;
        case Op::sub:
            return a - b;
        case Op::mul:
            return __builtin_mul_overflow(a, b, &r) ? std::nullopt : std::optional(r);
        case Op::fma:
            return __builtin_mul_overflow(a, b, &r) || __builtin_add_overflow(r, c, &r) ? std::nullopt : std::optional(r);
        case Op::div:
            return floor_div(a, b);
        case Op::rem:
            return a - floor_div(a, b) * b;
        case Op::div_trunc:
            return a / b;
        case Op::rem_trunc:
            return a % b;
        case Op::div_ceil:
            return -floor_div(-a, b);
        case Op::neg:
            return -a;
        case Op::abs:
            return a < 0 ? -a : a;
        case Op::min:
        case Op::minnum:
            return a < b ? a : b;
        case Op::max:
        case Op::maxnum:
            return a < b ? b : a;
        case Op::bit_and:
            return a & b;
        case Op::bit_or:
            return a | b;
        case Op::bit_xor:
            return a ^ b;
        case Op::bit_not:
            return ~a;
        case Op::shl:
            if (a == 0) return 0;
            if (b < 0 || b > 64) return std::nullopt;
            return __builtin_mul_overflow(a, static_cast<Int>(1) << b, &r) ? std::nullopt : std::optional(r);
        case Op::shr:
            return b < 0 || b > 126 ? (a < 0 ? -1 : 0) : a >> b;
        default:
            return std::nullopt;
    }
}

std::optional<bool> fold_compare(Op op, auto a, auto b) {
    switch (op) {
        case Op::eq:
            return a == b;
        case Op::ne:
            return a != b;
        case Op::lt:
            return a < b;
        case Op::le:
            return a <= b;
        case Op::gt:
            return a > b;
        case Op::ge:
            return a >= b;
        default:
            return std::nullopt;
    }
}

bool divides(Op op) { return op == Op::div || op == Op::rem || op == Op::div_trunc || op == Op::rem_trunc || op == Op::div_ceil; }

/// "7 / 0", "cdiv(7, 0)".
std::string quotient_text(Op op, Int a) {
    if (op == Op::div || op == Op::rem) return int_text(a) + (op == Op::div ? " / 0" : " % 0");
    return (op == Op::div_ceil ? "cdiv" : std::string(ir::op_row(op).name)) + "(" + int_text(a) + ", 0)";
}

bool needs_width(Op op) { return op == Op::umulhi || op == Op::mulhi || op == Op::popcount || op == Op::clz || op == Op::ctz; }

}  // namespace

Value Elaborator::fold(Op op, const std::vector<Value>& args, Span span) {
    if (!step(span)) return poison(span);
    size_t booleans = 0, reals = 0;
    for (const Value& v : args) {
        booleans += v.kind == Value::boolean;
        reals += v.kind == Value::real;
    }
    Value out = poison(span);
    const auto as_bool = [&](bool b) {
        out.kind = Value::boolean;
        out.b = b;
        return out;
    };
    const uint32_t domain = ir::op_row(op).domain;
    if (booleans != 0) {
        if (booleans != args.size()) return error(Diag::mixed_types, span, describe(args.front()), describe(args.back()));
        if (!(domain & ir::B)) return error(Diag::wrong_element_kind, span, ir::op_row(op).name, "bool", domain_text(op));
        uint64_t codes[3] = {};
        for (size_t i = 0; i < args.size(); ++i) codes[i] = args[i].b;
        return as_bool(scalar::eval_elementwise(op, types_.format(id_of(Fmt::boolean)), {codes, args.size()}) != 0);
    }
    if (needs_width(op)) return error(Diag::needs_typed_operand, span, ir::op_row(op).name, describe(args.front()));
    if (reals == 0 && (domain & ir::S)) {
        const Int a = args[0].i, b = args.size() > 1 ? args[1].i : 0, c = args.size() > 2 ? args[2].i : 0;
        if (const auto truth = fold_compare(op, a, b)) return as_bool(*truth);
        if (divides(op) && b == 0) {
            if (!folding()) return error(Diag::constant_division, span, quotient_text(op, a));
            const FormatId i64 = id_of(Fmt::i64);  // stays as it is: its clause tells
            const ir::ValueId dividend = to_tile(args[0], i64, span);
            return dividend.valid() ? tile(ir().elementwise(op, {dividend, ir().index(0)}), span) : poison(span);
        }
        const auto value = fold_int(op, a, b, c);
        if (!value || *value < -(static_cast<Int>(1) << 63) || *value >= static_cast<Int>(1) << 64)
            return error(Diag::constant_overflow, span, ir::op_row(op).name);
        out.kind = Value::integer;
        out.i = *value;
        return out;
    }
    if (!(domain & ir::F)) return error(Diag::wrong_element_kind, span, ir::op_row(op).name, "real", domain_text(op));
    uint64_t codes[3] = {};
    for (size_t i = 0; i < args.size(); ++i)
        codes[i] = std::bit_cast<uint64_t>(args[i].kind == Value::real ? args[i].r : static_cast<double>(args[i].i));
    const uint64_t code = scalar::eval_elementwise(op, types_.format(id_of(Fmt::f64)), {codes, args.size()});
    if (ir::op_row(op).result == ir::ResultRule::boolean) return as_bool(code != 0);
    out.kind = Value::real;
    out.r = std::bit_cast<double>(code);
    if (op == Op::neg) out.rest = -args[0].rest;
    return out;
}

bool Elaborator::broadcast_all(std::vector<ir::ValueId>& tiles, Span span) {
    Shape shape;
    for (ir::ValueId v : tiles) {
        if (!v.valid()) return false;
        const Shape& own = ir().fn().type(v).shape;
        const auto joint = broadcast(shape, own);
        if (!joint) {
            error(Diag::shapes_do_not_broadcast, span, to_string(shape), to_string(own));
            return false;
        }
        shape = *joint;
    }
    if (!fits_budget(shape, span)) return false;
    ir().set_span(span);
    for (ir::ValueId& v : tiles) v = ir().broadcast(v, shape);
    return true;
}

/// The amount is converted to the type of `a`: amounts of N or more (or negative) stay so.
Value Elaborator::shift(Op op, const Value& a, const Value& amount, Span span) {
    const FormatId elem = elem_of(a);
    const Format& f = types_.format(elem);
    ir::ValueId by;
    if (amount.kind == Value::integer) {
        const uint64_t n = amount.i < 0 || amount.i > f.bits ? f.bits : static_cast<uint64_t>(amount.i);
        by = ir().constant(types_.tile(elem), scalar::wrap(n, f.bits, f.is_signed));
    } else {
        by = to_tile(amount, span);
        if (!by.valid()) return poison(span);
        const FormatId own = ir().fn().type(by).elem;
        const Format& g = types_.format(own);
        if (!g.is_int()) return error(Diag::wrong_element_kind, span, ir::op_row(op).name, "`" + g.name + "`", "integer amounts");
        if (g.bits > f.bits) {
            const Shape shape = ir().fn().type(by).shape;
            const ir::ValueId limit = ir().constant(types_.tile(own, shape), f.bits);
            ir::ValueId small = ir().elementwise(Op::min, {by, limit});
            if (g.is_signed) {
                const ir::ValueId zero = ir().constant(types_.tile(own, shape), 0);
                small = ir().select(ir().elementwise(Op::lt, {by, zero}), limit, small);
            }
            by = small;
        }
        by = ir().cast(by, elem);
    }
    std::vector<ir::ValueId> tiles{to_tile(a, span), by};
    if (!broadcast_all(tiles, span)) return poison(span);
    return tile(ir().elementwise(op, {tiles[0], tiles[1]}), span);
}

Value Elaborator::pointer_op(Op op, const std::vector<Value>& args, Span span) {
    const auto is_pointer = [&](const Value& v) { return v.kind == Value::tile && ir().fn().type(v.v).pointer; };
    const auto refuse = [&] {
        return error(Diag::bad_pointer_operation, span, ir::op_row(op).name, describe(args[0]), args.size() > 1 ? describe(args[1]) : "nothing");
    };
    if (args.size() != 2) return refuse();
    const bool first = is_pointer(args[0]), second = is_pointer(args[1]);
    if (first && second) {
        if ((op != Op::eq && op != Op::ne) || !(elem_of(args[0]) == elem_of(args[1]))) return refuse();
        std::vector<ir::ValueId> tiles{args[0].v, args[1].v};
        if (!broadcast_all(tiles, span)) return poison(span);
        return tile(ir().elementwise(op, {tiles[0], tiles[1]}), span);
    }
    if (op != Op::add && (op != Op::sub || !first)) return refuse();
    const Value& offset = first ? args[1] : args[0];
    if (offset.kind == Value::boolean || offset.kind == Value::real) return refuse();
    if (offset.kind == Value::tile && !ir().fn().elem(offset.v).is_int()) return refuse();
    ir::ValueId by = to_index(offset, span);
    if (!by.valid()) return poison(span);
    if (op == Op::sub) by = ir().elementwise(Op::neg, {by});
    std::vector<ir::ValueId> tiles{(first ? args[0] : args[1]).v, by};
    if (!broadcast_all(tiles, span)) return poison(span);
    return tile(ir().value(Op::ptr_add, {tiles[0], tiles[1]}, ir().fn().type_of(tiles[0])), span);
}

namespace {

/// Does a row compute with numbers, so that `@ subnormals(flush)` is about it? Others move and test bits.
bool computes(Op op) {
    switch (op) {
        case Op::neg:
        case Op::abs:
        case Op::copysign:
        case Op::isnan:
        case Op::isinf:
        case Op::isfinite:
        case Op::signbit:
        case Op::flush_subnormal:
            return false;
        default:
            return true;
    }
}

/// Can a row give a subnormal number of operands none of which is one?
bool makes_subnormals(Op op) {
    switch (op) {
        case Op::floor:
        case Op::ceil:
        case Op::trunc:
        case Op::round:
        case Op::min:
        case Op::max:
        case Op::minnum:
        case Op::maxnum:
            return false;
        default:
            return ir::op_row(op).result == ir::ResultRule::same;
    }
}

}  // namespace

/// Under `@ subnormals(flush)` an f32 with zeros in the place of subnormal numbers; else the value itself.
ir::ValueId Elaborator::flushed(ir::ValueId v) {
    const ir::Function& fn = ir().fn();
    if (!v.valid() || fn.type(v).pointer || !(fn.type(v).elem == Fmt::f32) || ir::hint_argument(fn.hints, "subnormals") != 0) return v;
    const ir::Inst* def = fn.def(v);
    while (def && (def->op == Op::broadcast || ir::has_trait(def->op, ir::VIEW))) def = fn.def(fn.operands(*def)[0]);
    const bool of_integer = def && def->op == Op::cast && fn.elem(fn.operands(*def)[0]).is_int();
    return of_integer || (def && def->op == Op::flush_subnormal) ? v : ir().elementwise(Op::flush_subnormal, {v});
}

/// An elementwise row of operands of one shape, which are flushed already.
ir::ValueId Elaborator::computed(Op op, std::span<const ir::ValueId> v) {
    const ir::ValueId r = v.size() == 1   ? ir().elementwise(op, {v[0]})
                          : v.size() == 2 ? ir().elementwise(op, {v[0], v[1]})
                                          : ir().elementwise(op, {v[0], v[1], v[2]});
    return computes(op) && makes_subnormals(op) ? flushed(r) : r;
}

Value Elaborator::apply(Op op, std::vector<Value> args, Span span) {
    bool all_static = true, pointers = false;
    const Value* typed = nullptr;
    for (const Value& v : args) {
        if (v.kind == Value::poison) return poison(span);
        if (v.is_static_number()) continue;
        if (v.kind != Value::tile) {
            to_tile(v, span);
            return poison(span);
        }
        all_static = false;
        pointers |= ir().fn().type(v.v).pointer;
        if (!typed) typed = &v;
    }
    if (all_static) return fold(op, args, span);
    ir().set_span(span);
    if (pointers) return pointer_op(op, args, span);
    FormatId elem = elem_of(*typed);
    const bool shifts = op == Op::shl || op == Op::shr;
    if (shifts && args[0].is_static_number()) {
        // A literal adapts to the other operand here as everywhere.
        if (args[0].kind != Value::integer)
            return error(Diag::wrong_element_kind, span, ir::op_row(op).name, args[0].kind == Value::real ? "real" : "bool", domain_text(op));
        args[0] = tile(to_tile(args[0], elem, args[0].span.valid() ? args[0].span : span), span);
        if (!args[0].v.valid()) return poison(span);
        typed = &args[0];
        ir().set_span(span);
    }
    for (const Value& v : args) {
        if (v.kind != Value::tile || shifts) continue;
        Value so_far = *typed;
        if (!(elem_of(so_far) == elem)) so_far = tile(ir().constant(types_.tile(elem), 0), span);
        const auto common = common_format(so_far, v, span);
        if (!common) return poison(span);
        elem = *common;
    }
    const Format& f = types_.format(elem);
    if (!ir::in_domain(op, f, false)) {
        Diagnostic& d = diags_.report(Diag::wrong_element_kind, span, {written(op), "`" + f.name + "`", domain_text(op)});
        if (ir::op_row(op).domain & ir::F) {
            d.help("convert with cast<f32>(..)");
            if (args.size() == 1) offer_cast(d, {args[0].span}, "f32");
        }
        return poison(span);
    }
    if (shifts) return shift(op, args[0], args[1], span);
    std::vector<ir::ValueId> tiles;
    for (const Value& v : args) {
        tiles.push_back(to_tile(v, elem, span));
        if (computes(op)) tiles.back() = flushed(tiles.back());
    }
    if (!broadcast_all(tiles, span)) return poison(span);
    return tile(computed(op, tiles), span);
}

Value Elaborator::unary(ast::UnaryOp op, const Value& a, Span span) {
    if (a.kind == Value::poison) return a;
    if (op == ast::UnaryOp::neg) return apply(Op::neg, {a}, span);
    if (op == ast::UnaryOp::bit_not) return apply(Op::bit_not, {a}, span);
    ir::ValueId truth;
    if (a.kind != Value::boolean && !to_bool(a, span, truth)) return poison(span);
    return apply(Op::bit_not, {a}, span);
}

Value Elaborator::binary(ast::BinaryOp op, Value a, Value b, Span span) {
    if (a.kind == Value::poison || b.kind == Value::poison) return poison(span);
    const bool equality = op == ast::BinaryOp::eq || op == ast::BinaryOp::ne;
    if (equality)
        if (std::optional<Value> same = same_choice(a, b, span)) {
            same->b = same->b == (op == ast::BinaryOp::eq);
            return *same;
        }
    if (equality && a.kind == b.kind && (a.kind == Value::type || a.kind == Value::layout || a.kind == Value::text || a.kind == Value::none)) {
        bool same = a.kind == Value::none;
        if (a.kind == Value::type) same = describe(a.t) == describe(b.t) && a.t.elem == b.t.elem;
        if (a.kind == Value::layout) same = a.layout_id == b.layout_id;
        if (a.kind == Value::text) same = a.s == b.s;
        Value out = poison(span);
        out.kind = Value::boolean;
        out.b = same == (op == ast::BinaryOp::eq);
        return out;
    }
    if (op == ast::BinaryOp::logical_and || op == ast::BinaryOp::logical_or) {
        ir::ValueId truth;
        for (const Value* v : {&a, &b})
            if (v->kind != Value::boolean && !to_bool(*v, v->span.valid() ? v->span : span, truth)) return poison(span);
    }
    return apply(row_of(op), {std::move(a), std::move(b)}, span);
}

}  // namespace tegula::sema
