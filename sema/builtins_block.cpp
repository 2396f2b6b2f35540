// Block-scaled formats as tiles: quantising a tile into elements and scales, and decoding. Blocks lie along the last axis of a quantised
// tile. The scale of a block follows the format's rule (floor by default) from its largest magnitude, read off the exponent bits of f32:
//   power-of-two scales: 2^(floor(log2 amax) - emax), `ceil`, `even` and `rceil` as OCP and its users name them; code 0 for a block of zeros
//   other float scales: amax / largest element, rounded once (up for ceil and rceil); with a tensor scale, relative to that, which is
//   amax of the tile / (largest element * largest scale). Scales of f32 keep 16 mantissa bits, rounded up.
// Elements are x / scale, rounded to nearest and clamped symmetrically. Quantising what a floor-rule block decoded to changes nothing.
// NaN and Inf become NaN: the element where elements have one, else the scale of the block, else the tensor's; where none of them has a NaN, the
// casts' rule for such formats holds. Every scale saturates, so that finite data never makes one that is not.
#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>

#include "sema/elaborate.h"

namespace tegula::sema {

using ir::Op;
using ir::ReduceKind;
using ir::ValueId;

namespace {

/// Largest magnitude of an element.
double largest(const Format& elem) {
    if (elem.kind != FormatKind::codebook) return decode(elem, max_code(elem));
    double top = 0;
    for (double v : elem.table) top = std::fmax(top, std::fabs(v));
    return top;
}

/// Bits after the leading one that a large element holds.
int precision(const Format& elem) { return elem.is_float() ? elem.man_bits : std::max(0, static_cast<int>(elem.bits) - (elem.is_signed ? 2 : 1)); }

bool rounds_up(const Format& block) { return block.scale_rule == ScaleRule::ceil || block.scale_rule == ScaleRule::rceil; }

bool is_power_scale(const Format& scale) { return scale.is_float() && scale.man_bits == 0; }

/// The largest number of a scale format whose product with `largest`, what it multiplies, is finite in f32. Scales with more than 16 mantissa
/// bits keep 16.
double scale_limit(const Format& scale, double largest) {
    const double top = largest > 1 ? FLT_MAX / largest : FLT_MAX;
    const double limit = decode(scale, encode(scale, top, {Round::rtz, Overflow::sat}));
    if (scale.man_bits <= 16 || limit == 0) return limit;
    const double unit = std::ldexp(1.0, std::ilogb(limit) - 16);
    return std::floor(limit / unit) * unit;
}

/// Has the format finite values that f32 does not hold, or that it would round up?
bool exceeds_f32(const Format& f, const Format& f32) {
    if (f.is_float()) return !widens(f, f32);
    const auto beyond = [](double v) { return std::isfinite(v) && std::fabs(v) > FLT_MAX; };
    return f.kind == FormatKind::codebook ? std::any_of(f.table.begin(), f.table.end(), beyond) : f.kind == FormatKind::lns && beyond(largest(f));
}

/// Has the format NaN or Inf?
bool has_special(const Format& f) {
    return has_nan(f) || f.has_inf || !std::all_of(f.table.begin(), f.table.end(), [](double v) { return std::isfinite(v); });
}

}  // namespace

/// A constant of the type of `like`.
ValueId Elaborator::splat(ValueId like, double value) {
    const Type& type = ir().fn().type(like);
    const Format& f = types_.format(type.elem);
    const uint64_t code = f.is_int() ? static_cast<uint64_t>(static_cast<int64_t>(value)) : encode(f, value);
    return ir().constant(types_.tile(type.elem, type.shape), code);
}

/// Each element of `v` `times` times along `axis`.
ValueId Elaborator::repeat_axis(ValueId v, size_t axis, int64_t times) {
    const Shape from = ir().fn().type(v).shape;
    Shape narrow, wide, to;
    for (size_t d = 0; d < from.rank; ++d) {
        narrow.push(from[d]);
        wide.push(from[d]);
        to.push(d == axis ? from[d] * times : from[d]);
        if (d != axis) continue;
        narrow.push(1);
        wide.push(times);
    }
    return ir().reshape(ir().broadcast(ir().reshape(v, narrow), wide), to);
}

/// `v` cut or zero-padded to `extent` along its last axis.
ValueId Elaborator::resize_last(ValueId v, int64_t extent) {
    const Type type = ir().fn().type(v);
    const int64_t have = type.shape[type.shape.rank - 1u];
    if (have == extent) return v;
    const TypeId result = types_.tile(type.elem, with_last(type.shape, extent));
    if (have > extent) {
        std::vector<int64_t> start_step;
        for (size_t d = 0; d < type.shape.rank; ++d) start_step.insert(start_step.end(), {0, 1});
        return ir().fn().result(ir().emit(Op::slice, {&v, 1}, {&result, 1}, start_step));
    }
    const ValueId zeros = ir().constant(types_.tile(type.elem, with_last(type.shape, extent - have)), 0);
    return ir().value(Op::cat, {v, zeros}, result, {int64_t{type.shape.rank} - 1});
}

/// The exponent field that a power-of-two scale takes for `amax` (f32, >= 0, shape of the scales), as an i64 tile in [0, 255]. Found in f64,
/// where amax and its quotients are normal.
ValueId Elaborator::scale_exponent(ValueId amax, const Format& block, const Format& elem) {
    const auto add = [&](ValueId v, double n) { return ir().elementwise(Op::add, {v, splat(v, n)}); };
    ValueId from = ir().cast(amax, id_of(Fmt::f64));
    int shift = std::ilogb(largest(elem));
    if (block.scale_rule == ScaleRule::rceil) {
        from = ir().elementwise(Op::div, {from, splat(from, largest(elem))});
        shift = 0;
    }
    ValueId bits = ir().bitcast(from, id_of(Fmt::i64));
    if (block.scale_rule == ScaleRule::even && precision(elem) < 23) bits = add(bits, std::ldexp(1.0, 51 - precision(elem)));
    ValueId exponent = ir().elementwise(Op::shr, {bits, splat(bits, 52)});
    if (block.scale_rule == ScaleRule::ceil || block.scale_rule == ScaleRule::rceil) {
        const ValueId mantissa = ir().elementwise(Op::bit_and, {bits, splat(bits, 0x1p52 - 1)});
        exponent = ir().elementwise(Op::add, {exponent, ir().cast(ir().elementwise(Op::ne, {mantissa, splat(mantissa, 0)}), id_of(Fmt::i64))});
    }
    exponent = add(exponent, 127 - 1023 - shift);
    const int top = std::clamp(254 - std::ilogb(largest(elem)), 0, 254);  // products with an element are finite in f32
    exponent = ir().elementwise(Op::min, {ir().elementwise(Op::max, {exponent, splat(exponent, 0)}), splat(exponent, top)});
    const ValueId special = ir().elementwise(Op::bit_not, {ir().elementwise(Op::isfinite, {amax})});
    return ir().select(special, splat(exponent, 255), exponent);
}

Value Elaborator::quantise_blocks(const Value& value, FormatId to, Span span) {
    const Format &block = types_.format(to), &elem = types_.format(block.elem), &scale = types_.format(block.scale);
    const ValueId raw = to_tile(value, span);
    if (!raw.valid()) return poison(span);
    const Type type = ir().fn().type(raw);
    const Format& source = types_.format(type.elem);
    if (type.pointer || source.is_bool()) return error(Diag::bad_cast, span, describe(value), "`" + block.name + "`");
    if (type.shape.rank == 0)
        return error(Diag::block_alignment, span, block.name, "a scalar holds no block; quantise a tile of at least one dimension");
    ir().set_span(span);
    const bool up = rounds_up(block);
    const FormatId f32 = id_of(Fmt::f32);
    const int64_t n = type.shape[type.shape.rank - 1u], size = block.block_size, blocks = (n + size - 1) / size;
    const Shape grouped = with_last(type.shape, blocks, size);
    if (grouped.rank > kMaxRank || !fits_budget(with_last(type.shape, blocks * size), span))
        return error(Diag::bad_shape, span, "a tile of a block format has at most 7 dimensions");
    const ValueId padded = ir().reshape(resize_last(raw, blocks * size), grouped);
    const bool wide = exceeds_f32(source, types_.format(f32));
    const ValueId exact = wide && !source.is_float() ? ir().cast(padded, id_of(Fmt::f64)) : padded;
    const ValueId x = ir().cast(exact, f32, Round::rne, wide ? Overflow::sat : Overflow::automatic);
    // The magnitude is rounded so that the chosen exponent is that of the original precision.
    ValueId magnitude =
        ir().elementwise(Op::abs, {wide ? ir().cast(ir().elementwise(Op::abs, {exact}), f32, up ? Round::ru : Round::rtz, Overflow::sat) : x});
    ValueId finite;  // where it has to be asked: Inf of a wide source has become finite
    if (has_special(source) && (wide || has_nan(elem))) {
        finite = ir().elementwise(Op::isfinite, {wide ? exact : x});
        magnitude = ir().select(finite, magnitude, splat(magnitude, has_nan(elem) ? 0 : std::nan("")));
    }
    const ValueId amax = ir().reduce(magnitude, ReduceKind::max, grouped.rank - 1, false, f32);
    Value out = poison(span);
    out.kind = Value::block_tile;
    out.elem = to;
    out.block_axis = type.shape.rank - 1;
    ValueId divisor;  // f32, shape of the scales
    if (is_power_scale(scale)) {
        const ValueId code = ir().bitcast(ir().cast(scale_exponent(amax, block, elem), id_of(Fmt::u8)), id_of(Fmt::f8e8m0));
        out.scales = ir().cast(code, block.scale, Round::rne, Overflow::sat);
        divisor = ir().cast(out.scales, f32);
    } else {
        divisor = fraction_scales(out, amax, block);
    }
    out.v = ir().reshape(block_codes(x, divisor, has_nan(elem) ? finite : ValueId{}, block), with_last(type.shape, blocks * size));
    out.v = resize_last(out.v, n);
    return out;
}

/// An f32 scale >= 0 rounded up to 16 mantissa bits: its products with a block scale and an element are exact, so that quantising the decoded
/// values finds the same scale again. NaNs, whose bits machines choose, become the canonical one before anything is added to them.
ValueId Elaborator::short_scale(ValueId v) {
    const ValueId bits = ir().bitcast(v, id_of(Fmt::u32));
    const ValueId bounded = ir().elementwise(Op::min, {bits, splat(bits, 0x7FC00000)});
    const ValueId raised = ir().elementwise(Op::add, {bounded, splat(bits, 0x7F)});
    return ir().bitcast(ir().elementwise(Op::bit_and, {raised, splat(bits, 0xFFFFFF80)}), id_of(Fmt::f32));
}

/// Scales with a mantissa for blocks of largest magnitude `amax`, written to `out`; gives the divisors of the elements in f32. A block
/// scale is at least its format's smallest normal value: below it, rounding would be too coarse to find the same scale again.
ValueId Elaborator::fraction_scales(Value& out, ValueId amax, const Format& block) {
    const Format &elem = types_.format(block.elem), &scale = types_.format(block.scale);
    const FormatId f32 = id_of(Fmt::f32);
    const Round round = rounds_up(block) ? Round::ru : Round::rne;
    const auto at_most = [&](ValueId v, double top) { return ir().elementwise(Op::min, {v, splat(v, top)}); };
    double limit = scale_limit(scale, largest(elem));
    const ValueId finite = ir().elementwise(Op::isfinite, {amax}), undefined = splat(amax, std::nan(""));
    ValueId unit = splat(amax, largest(elem)), spread;
    if (block.tensor_scale.v != 0) {
        const ValueId counted = ir().select(finite, amax, has_nan(scale) ? splat(amax, 0) : undefined);
        const ValueId top = ir().reduce(counted, ReduceKind::max, -1, false, f32);
        const double product = largest(elem) * largest(scale), most = std::fmin(product, FLT_MAX);
        const ValueId share = ir().elementwise(Op::div, {top, splat(top, most)});
        out.tensor_scale = ir().cast(short_scale(at_most(share, scale_limit(types_.format(block.tensor_scale), most))), block.tensor_scale);
        if (product <= FLT_MAX) limit = scale_limit(scale, 1);
        spread = ir().broadcast(ir().cast(out.tensor_scale, f32), ir().fn().type(amax).shape);
        unit = ir().elementwise(Op::mul, {spread, unit});
    }
    const ValueId none = ir().elementwise(Op::eq, {unit, splat(unit, 0)});
    ValueId target = ir().select(none, splat(unit, 0), ir().elementwise(Op::div, {amax, unit}));
    target = at_most(target, limit);
    if (scale.man_bits > 16) target = short_scale(target);
    if (scale.is_float()) target = ir().elementwise(Op::max, {target, splat(target, decode(scale, min_normal_code(scale)))});
    target = ir().select(finite, target, undefined);
    out.scales = ir().cast(target, block.scale, round, Overflow::sat);
    const ValueId own = ir().cast(out.scales, f32);
    return spread.valid() ? ir().elementwise(Op::mul, {own, spread}) : own;
}

/// x / divisor as elements of the block format: x is [.., blocks, size] in f32, divisor [.., blocks]; where `finite` (if valid) fails, NaN.
ValueId Elaborator::block_codes(ValueId x, ValueId divisor, ValueId finite, const Format& block) {
    const Format& elem = types_.format(block.elem);
    const Shape grouped = ir().fn().type(x).shape;
    const Shape scales = ir().fn().type(divisor).shape;
    Shape spread = scales;
    spread.push(1);
    const ValueId by = ir().broadcast(ir().reshape(divisor, spread), grouped);
    const ValueId zero = splat(by, 0);
    ValueId q = ir().select(ir().elementwise(Op::eq, {by, zero}), zero, ir().elementwise(Op::div, {x, by}));
    if (elem.kind != FormatKind::codebook) {
        const double top = largest(elem);
        q = ir().elementwise(Op::max, {ir().elementwise(Op::min, {q, splat(q, top)}), splat(q, elem.is_signed ? -top : 0)});
    }
    if (finite.valid()) q = ir().select(finite, q, splat(q, std::nan("")));
    return ir().cast(q, block.elem, Round::rne, Overflow::sat);
}

Value Elaborator::decode_blocks(const Value& v, FormatId to, Span span) {
    ir().set_span(span);
    const Format& target = types_.format(to);
    const FormatId work = target.is_float() && target.bits == 64 ? to : id_of(Fmt::f32);
    const Format& block = types_.format(v.elem);
    const auto axis = static_cast<size_t>(block_axis(v));
    const Shape shape = ir().fn().type(v.v).shape;
    ValueId scale = ir().cast(v.scales, work);
    if (v.tensor_scale.valid()) {
        const ValueId whole = ir().broadcast(ir().cast(v.tensor_scale, work), ir().fn().type(scale).shape);
        scale = ir().elementwise(Op::mul, {scale, whole});
    }
    scale = repeat_axis(scale, axis, block.block_size);
    const Shape wide = ir().fn().type(scale).shape;
    if (wide != shape) {
        std::vector<int64_t> start_step;
        for (size_t d = 0; d < shape.rank; ++d) start_step.insert(start_step.end(), {0, 1});
        const TypeId result = types_.tile(work, shape);
        scale = ir().fn().result(ir().emit(Op::slice, {&scale, 1}, {&result, 1}, start_step));
    }
    const ValueId product = ir().elementwise(Op::mul, {ir().cast(v.v, work), scale});
    return tile(ir().cast(product, to, target.is_int() ? Round::rtz : Round::rne), span);
}

// ---- parts of block tiles ----

const Value* Elaborator::arg_blocks(const Call& call, size_t i) {
    const Value& v = call.positional[i];
    if (v.kind == Value::block_tile) return &v;
    error(Diag::type_mismatch, arg_span(call, i), "a tile of a block format", describe(v));
    return nullptr;
}

Value Elaborator::call_block_elements(const Call& call) {
    const Value* v = arg_blocks(call, 0);
    return v ? tile(v->v, call.span) : poison(call.span);
}

Value Elaborator::call_block_scales(const Call& call) {
    const Value* v = arg_blocks(call, 0);
    return v ? tile(v->scales, call.span) : poison(call.span);
}

Value Elaborator::call_make_block(const Call& call) {
    const auto id = format_arg(call, 0);
    if (!id) return poison(call.span);
    const Format& block = types_.format(*id);
    if (!block.is_block()) return error(Diag::type_mismatch, call.span, "a block format", "`" + block.name + "`");
    const ValueId elements = to_tile(call.positional[0], block.elem, arg_span(call, 0)),
                  scales = to_tile(call.positional[1], block.scale, arg_span(call, 1));
    if (!elements.valid() || !scales.valid()) return poison(call.span);
    const Shape shape = ir().fn().type(elements).shape;
    const int64_t size = block.block_size;
    if (shape.rank == 0) return error(Diag::block_alignment, call.span, block.name, "a scalar holds no block");
    const Shape wanted = with_last(shape, (shape[shape.rank - 1u] + size - 1) / size);
    if (ir().fn().type(scales).shape != wanted)
        return error(Diag::part_mismatch, arg_span(call, 1), to_string(ir().fn().type(scales).shape),
                     to_string(wanted) + " (one scale per " + std::to_string(size) + " elements)");
    Value out = poison(call.span);
    out.kind = Value::block_tile;
    out.elem = *id;
    out.block_axis = shape.rank - 1;
    out.v = elements;
    out.scales = scales;
    if (block.tensor_scale.v != 0) out.tensor_scale = ir().constant(types_.tile(block.tensor_scale), encode(types_.format(block.tensor_scale), 1.0));
    return out;
}

}  // namespace tegula::sema
