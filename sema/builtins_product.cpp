// Matrix products: dot and dot_scaled. Operands keep their element types, whatever is a number or a codebook: the IR decodes exactly and
// accumulates in the type of acc (default f32, f64 for f64 operands, i32 for integers, u32 when both are unsigned; integers beyond 32 bits take 64).
// Tiles of block formats go to dot_scaled where both have blocks along K that divide it, else they are decoded to f32 first.
#include <algorithm>

#include "sema/elaborate.h"

namespace tegula::sema {

using ir::Op;
using ir::Precision;
using ir::ValueId;

constexpr int kTf32x3 = 3;  ///< of the words that `precision` takes: behind those of ir::Precision

/// The default accumulator of a product of `a` and `b`, or nullopt (reported).
std::optional<FormatId> Elaborator::product_accumulator(FormatId a, FormatId b, const char* name, Span span, Span at_a, Span at_b) {
    const Format &f = types_.format(a), &g = types_.format(b);
    for (const Format* x : {&f, &g}) {
        if (!x->is_bool() && !x->is_block()) continue;
        error(Diag::wrong_element_kind, span, name, "`" + x->name + "`", "numbers and codebooks");
        return std::nullopt;
    }
    if (f.is_int() && g.is_int()) {
        const bool is_signed = f.is_signed || g.is_signed;
        if (std::max(f.bits, g.bits) > 32) return id_of(is_signed ? Fmt::i64 : Fmt::u64);
        return id_of(is_signed ? Fmt::i32 : Fmt::u32);
    }
    if (f.is_int() != g.is_int() && (f.is_float() || g.is_float())) {
        Diagnostic& d = diags_.report(Diag::mixed_types, span, {"`" + f.name + "`", "`" + g.name + "`"});
        d.help("convert the integers with cast<" + (f.is_float() ? f.name : g.name) + ">(..): the product then runs in that type");
        offer_cast(d, {f.is_int() ? at_a : at_b}, f.is_float() ? f.name : g.name);
        return std::nullopt;
    }
    return id_of(a == Fmt::f64 || b == Fmt::f64 ? Fmt::f64 : Fmt::f32);
}

/// A run-time tile, decoded when it is of a block format.
ValueId Elaborator::plain_operand(const Value& v, Span span) {
    return to_tile(v.kind == Value::block_tile ? decode_blocks(v, id_of(Fmt::f32), span) : v, span);
}

/// Checks the shapes of a product; the shape of its result, or nullopt (reported).
std::optional<Shape> Elaborator::product_shape(const Value& a, const Value& b, Span span) {
    const Shape x = shape_of(a), y = shape_of(b);
    const auto refuse = [&](const std::string& why) -> std::optional<Shape> {
        Diagnostic& d = diags_.report(Diag::dot_shape, span, {why});
        if (a.span.valid()) d.labels.push_back({a.span, "a: " + to_string(x)});
        if (b.span.valid()) d.labels.push_back({b.span, "b: " + to_string(y)});
        return std::nullopt;
    };
    if (x.rank != y.rank || (x.rank != 2 && x.rank != 3))
        return refuse("operands have shapes " + to_string(x) + " and " + to_string(y) + ", but both need two or both three dimensions");
    const size_t r = x.rank;
    if (x[r - 1] != y[r - 2])
        return refuse("the K extents differ: a has " + std::to_string(x[r - 1]) + " columns, b has " + std::to_string(y[r - 2]) + " rows");
    if (r == 3 && x[0] != y[0]) return refuse("the batch extents differ: " + std::to_string(x[0]) + " and " + std::to_string(y[0]));
    Shape out;
    for (size_t d = 0; d + 1 < r; ++d) out.push(x[d]);
    out.push(y[r - 1]);
    if (!fits_budget(out, span)) return std::nullopt;
    return out;
}

/// The accumulator operand: `acc` checked against the shape, or zeros of the default type. Invalid after an error.
ValueId Elaborator::arg_accumulator(const Call& call, size_t i, FormatId elem, const Shape& shape) {
    ir().set_span(call.span);
    if (!has(call, i)) return ir().constant(types_.tile(elem, shape), 0);
    const Value& given = call.positional[i];
    const ValueId acc = given.is_static_number() ? to_tile(given, elem, arg_span(call, i)) : arg_tile(call, i);
    if (!acc.valid()) return {};
    const Type& type = ir().fn().type(acc);
    const Format &have = types_.format(type.elem), &want = types_.format(elem);
    const bool both_int = have.is_int() && want.is_int() && have.bits >= 8, both_float = have.is_float() && !want.is_int();
    if (type.pointer || !(type.elem == elem || both_int || (both_float && want.is_float()))) {
        Diagnostic& d = diags_.report(Diag::type_mismatch, arg_span(call, i), {"an accumulator of `" + want.name + "`", describe(given)});
        if (!type.pointer) offer_cast(d, {arg_span(call, i)}, want.name);
        return {};
    }
    if (broadcast(type.shape, shape) != shape) {
        error(Diag::dot_shape, arg_span(call, i), "the accumulator has shape " + to_string(type.shape) + ", the product " + to_string(shape));
        return {};
    }
    return ir().broadcast(acc, shape);
}

Value Elaborator::call_dot(const Call& call) {
    const Value &a = call.positional[0], &b = call.positional[1];
    const auto precision = arg_option(call, 3, "precision", {"ieee", "tf32", "fast", "tf32x3"}, 0);
    if (!precision) return poison(call.span);
    if (a.kind == Value::block_tile && b.kind == Value::block_tile && scales_along_k(a, b)) return scaled_product(call, a, b, 2);
    const ValueId x = plain_operand(a, arg_span(call, 0)), y = plain_operand(b, arg_span(call, 1));
    if (!x.valid() || !y.valid()) return poison(call.span);
    if (ir().fn().type(x).pointer || ir().fn().type(y).pointer)
        return error(Diag::wrong_element_kind, call.span, "dot", "pointer", "numbers and codebooks");
    auto elem = product_accumulator(ir().fn().type(x).elem, ir().fn().type(y).elem, "dot", call.span, arg_span(call, 0), arg_span(call, 1));
    // Fixed point and log numbers may be summed in their own format, where the accumulator asks for it.
    const FormatId own = ir().fn().type(x).elem;
    const FormatKind kind = types_.format(own).kind;
    const bool own_sum = has(call, 2) && call.positional[2].kind == Value::tile && elem_of(call.positional[2]) == own;
    if (own_sum && own == ir().fn().type(y).elem && (kind == FormatKind::fixed || kind == FormatKind::lns)) elem = own;
    const auto shape = product_shape(tile(x, arg_span(call, 0)), tile(y, arg_span(call, 1)), call.span);
    if (!elem || !shape) return poison(call.span);
    const ValueId acc = arg_accumulator(call, 2, *elem, *shape);
    if (!acc.valid()) return poison(call.span);
    ir().set_span(call.span);
    if (*precision == kTf32x3) return dot_in_parts(x, y, acc, call.span);
    return tile(ir().dot(x, y, acc, static_cast<Precision>(*precision)), call.span);
}

/// f32 operands as a tf32 number and the tf32 number next to what is left; of their products all but that of the two rests, the small ones first.
/// What is no f32, or is summed in another format, is as without a precision. The high part saturates: the rest of an infinity is one, and it alone
/// meets the other operand as it is.
Value Elaborator::dot_in_parts(ValueId a, ValueId b, ValueId acc, Span span) {
    const FormatId tf32 = id_of(Fmt::tf32), f32 = id_of(Fmt::f32);
    const auto is_f32 = [&](ValueId v) { return ir().fn().type(v).elem == f32; };
    const auto high = [&](ValueId v) { return ir().cast(v, tf32, Round::rna, Overflow::sat); };
    const auto low = [&](ValueId v, ValueId high_part) {
        return ir().cast(ir().elementwise(Op::sub, {v, ir().cast(high_part, f32)}), tf32, Round::rna);
    };
    if (is_f32(acc) && is_f32(a)) {
        const ValueId a_high = high(a), a_low = low(a, a_high);
        if (is_f32(b)) {
            const ValueId b_high = high(b), b_low = low(b, b_high);
            acc = ir().dot(a_low, b_high, acc, Precision::ieee);
            acc = ir().dot(a_high, b_low, acc, Precision::ieee);
            b = b_high;
        } else {
            acc = ir().dot(a_low, b, acc, Precision::ieee);
        }
        a = a_high;
    } else if (is_f32(acc) && is_f32(b)) {
        const ValueId b_high = high(b);
        acc = ir().dot(a, low(b, b_high), acc, Precision::ieee);
        b = b_high;
    }
    return tile(ir().dot(a, b, acc, Precision::ieee), span);
}

// ---- block-scaled products ----

/// Are both of rank 2 with whole blocks along K, and float scales without a tensor scale?
bool Elaborator::scales_along_k(const Value& a, const Value& b) {
    const Shape x = shape_of(a), y = shape_of(b);
    const Format &f = types_.format(a.elem), &g = types_.format(b.elem);
    if (x.rank != 2 || y.rank != 2 || block_axis(a) != 1 || block_axis(b) != 0) return false;
    if (a.tensor_scale.valid() || b.tensor_scale.valid()) return false;
    return x[1] % f.block_size == 0 && y[0] % g.block_size == 0 && types_.format(f.scale).is_float() && types_.format(g.scale).is_float();
}

Value Elaborator::scaled_product(const Call& call, const Value& a, const Value& b, size_t acc_at) {
    const auto shape = product_shape(a, b, call.span);
    if (!shape) return poison(call.span);
    const ValueId acc = arg_accumulator(call, acc_at, id_of(Fmt::f32), *shape);
    if (!acc.valid()) return poison(call.span);
    ir().set_span(call.span);
    const int64_t a_block = shape_of(a)[1] / ir().fn().type(a.scales).shape[1], b_block = shape_of(b)[0] / ir().fn().type(b.scales).shape[0];
    return tile(ir().value(Op::dot_scaled, {a.v, b.v, acc, a.scales, b.scales}, ir().fn().type_of(acc), {a_block, b_block}), call.span);
}

Value Elaborator::call_dot_scaled(const Call& call) {
    const Value &first = call.positional[0], &second = call.positional[1];
    if (first.kind == Value::block_tile && second.kind == Value::block_tile && !has(call, 2) && !has(call, 3)) {
        if (scales_along_k(first, second)) return scaled_product(call, first, second, 4);
        return error(Diag::dot_shape, call.span,
                     "dot_scaled takes a with blocks along its columns, b with blocks along its rows, whole blocks and no tensor scale; found " +
                         describe(first) + " with blocks along dimension " + std::to_string(block_axis(first)) + " and " + describe(second) +
                         " along dimension " + std::to_string(block_axis(second)));
    }
    if (!has(call, 2) || !has(call, 3))
        return error(Diag::bad_arguments, call.span, "dot_scaled", "takes (a, a_scale, b, b_scale), or two tiles of block formats");
    ValueId parts[4];
    for (size_t i = 0; i < 4; ++i) {
        parts[i] = arg_tile(call, i);
        if (!parts[i].valid()) return poison(call.span);
    }
    for (size_t i : {1u, 3u}) {
        const Type& type = ir().fn().type(parts[i]);
        if (type.pointer || !types_.format(type.elem).is_float())
            return error(Diag::wrong_element_kind, arg_span(call, i), "dot_scaled", "`" + types_.format(type.elem).name + "`", "float scales");
    }
    const Value a = tile(parts[0], arg_span(call, 0)), b = tile(parts[2], arg_span(call, 2));
    for (size_t i : {0u, 2u}) {
        const Format& f = ir().fn().elem(parts[i]);
        if (ir().fn().type(parts[i]).pointer || f.is_bool())
            return error(Diag::wrong_element_kind, arg_span(call, i), "dot_scaled", "`" + f.name + "`", "numbers and codebooks");
    }
    const auto shape = product_shape(a, b, call.span);
    if (!shape) return poison(call.span);
    const Shape x = shape_of(a), y = shape_of(b), sa = ir().fn().type(parts[1]).shape, sb = ir().fn().type(parts[3]).shape;
    if (x.rank != 2 || sa.rank != 2 || sb.rank != 2 || sa[0] != x[0] || sb[1] != y[1] || x[1] % sa[1] != 0 || y[0] % sb[0] != 0)
        return error(Diag::dot_shape, call.span,
                     "scales have shapes [M, K / block] and [K / block, N], found " + to_string(sa) + " for " + to_string(x) + " and " +
                         to_string(sb) + " for " + to_string(y));
    const ValueId acc = arg_accumulator(call, 4, id_of(Fmt::f32), *shape);
    if (!acc.valid()) return poison(call.span);
    ir().set_span(call.span);
    return tile(ir().value(Op::dot_scaled, {parts[0], parts[2], acc, parts[1], parts[3]}, ir().fn().type_of(acc), {x[1] / sa[1], y[0] / sb[0]}),
                call.span);
}

}  // namespace tegula::sema
