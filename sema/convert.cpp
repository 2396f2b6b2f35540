// From values to tiles: how literals take a type, which types widen by themselves, in which type two operands meet, and the checks of
// compile-time arguments. The rules: a constant adapts when the type holds it exactly (reals: one rounding that does not overflow); signed
// integers widen to signed, unsigned to unsigned, floats to floats that hold all their values; everything else needs a `cast`.
#include <cmath>
#include <cstring>

#include "lang/layout.h"
#include "lang/plain_text.h"
#include "lang/scalar.h"
#include "sema/elaborate.h"

namespace tegula::sema {

bool widens(const Format& from, const Format& to) {
    if (from == to) return true;
    if (from.kind != to.kind) return false;
    if (from.is_int()) return from.is_signed == to.is_signed && from.bits <= to.bits;
    if (!from.is_float() || to.scale_only) return false;
    if ((from.is_signed && !to.is_signed) || (from.has_inf && !to.has_inf) || (has_nan(from) && !has_nan(to))) return false;
    if (from.man_bits > to.man_bits || decode(from, max_code(from)) > decode(to, max_code(to))) return false;
    const auto smallest = [](const Format& f) { return f.scale_only ? -f.bias : 1 - f.bias - (f.subnormal ? f.man_bits : 0); };
    return smallest(from) >= smallest(to);
}

std::string int_text(__int128 v) {
    if (v == 0) return "0";
    const bool negative = v < 0;
    std::string digits;
    for (unsigned __int128 u = negative ? -static_cast<unsigned __int128>(v) : static_cast<unsigned __int128>(v); u != 0; u /= 10)
        digits.insert(digits.begin(), static_cast<char>('0' + static_cast<int>(u % 10)));
    return negative ? "-" + digits : digits;
}

std::string real_text(double v) {
    std::string text;
    double back = 0;
    for (int digits = 6; digits <= 17; ++digits)
        if (text = decimal_text(v, digits); read_number(text, back) && back == v) break;
    return text;
}

/// What a literal says, as far as rounding it can tell: where it is more or less than its double, by an eighth of the last place.
Exact exact_real(const Value& v) {
    Exact exact = exact_from_double(v.r);
    if (v.rest == 0) return exact;
    const bool outward = (v.rest > 0) != exact.negative;
    exact.significand = outward ? exact.significand * 8 + 1 : exact.significand * 8 - 1;
    exact.exponent -= 3;
    return exact;
}

// ---- descriptions ----

std::string Elaborator::describe(const Value& v) {
    const auto list = [&](const char* open, const char* close) {
        std::string text = open;
        for (size_t i = 0; i < v.items.size() && i < 8; ++i) text += (i ? ", " : "") + describe(v.items[i]);
        return text + (v.items.size() > 8 ? ", .." : "") + close;
    };
    switch (v.kind) {
        case Value::poison:
            return "an invalid value";
        case Value::unit:
            return "no value";
        case Value::none:
            return "none";
        case Value::integer:
            return "integer constant " + int_text(v.i);
        case Value::real:
            return "real constant " + real_text(v.r);
        case Value::boolean:
            return v.b ? "bool constant true" : "bool constant false";
        case Value::text:
            return "a text";
        case Value::type:
            return "type `" + describe(v.t) + "`";
        case Value::layout:
            return "layout `" + types_.layout(v.layout_id).name() + "`";
        case Value::tile:
            return "`" + types_.name(ir().fn().type_of(v.v)) + "`";
        case Value::block_tile:
            return "`tile<" + types_.format(v.elem).name + ">" + to_string(ir().fn().type(v.v).shape) + "`";
        case Value::tensor:
            return "tensor `" + std::string(v.tensor_ref->name) + "`";
        case Value::tuple:
            return list("(", ")");
        case Value::list:
            return "an array of " + std::to_string(v.items.size());
        case Value::structure:
            return "struct `" + std::string(v.decl ? v.decl->name.text : "") + "`";
        case Value::function:
            return "function `" + std::string(v.fn ? v.fn->name.text : "") + "`";
        case Value::builtin:
            return std::string("built-in `") + builtin_rows()[static_cast<size_t>(v.row)].name + "`";
        case Value::elementwise:
            return std::string("operation `") + ir::op_row(v.op).name + "`";
        case Value::lambda:
            return "a lambda";
        case Value::module:
            return "a module";
        case Value::word:
            return "the word `" + std::string(v.s) + "`";
    }
    return "a value";
}

std::string Elaborator::describe(const TypeDesc& t) {
    switch (t.kind) {
        case TypeDesc::any:
            return "any";
        case TypeDesc::scalar_format:
            return types_.format(t.elem).name;
        case TypeDesc::tile:
            return "tile<" + types_.format(t.elem).name + ">" + to_string(t.shape);
        case TypeDesc::tensor:
            if (t.pointee.v) return "tensor<ptr<" + types_.format(t.pointee).name + ">>";
            return "tensor<" + types_.format(t.elem).name + ">";
        case TypeDesc::pointer:
            return "ptr<" + types_.format(t.elem).name + ">";
        case TypeDesc::tuple: {
            std::string text = "(";
            for (size_t i = 0; i < t.items.size(); ++i) text += (i ? ", " : "") + describe(t.items[i]);
            return text + ")";
        }
        case TypeDesc::structure:
            return std::string(t.decl ? t.decl->name.text : "struct");
        case TypeDesc::trait:
            return std::string(t.trait_name);
    }
    return "type";
}

FormatId Elaborator::elem_of(const Value& v) {
    if (v.kind == Value::tile) return ir().fn().type(v.v).elem;
    if (v.kind == Value::block_tile) return v.elem;
    if (v.kind == Value::tensor) return v.tensor_ref->elem;
    return {};
}

Shape Elaborator::shape_of(const Value& v) {
    if (v.kind == Value::tile || v.kind == Value::block_tile) return ir().fn().type(v.v).shape;
    return {};
}

Value Elaborator::tile(ir::ValueId v, Span span) {
    Value out = poison(span);
    if (!v.valid()) return out;
    out.kind = Value::tile;
    out.v = v;
    return out;
}

// ---- literals ----

std::optional<uint64_t> Elaborator::literal_code(const Value& v, FormatId elem, Span span) {
    const Format& f = types_.format(elem);
    if (f.is_bool() || v.kind == Value::boolean) {
        if (f.is_bool() && v.kind == Value::boolean) return v.b ? 1 : 0;
        error(Diag::type_mismatch, span, "`" + f.name + "`", describe(v));
        return std::nullopt;
    }
    if (const auto code = held_code(v, f)) return code;
    Diagnostic& d = diags_.report(Diag::literal_inexact, span, {describe(v), f.name});
    if (v.kind == Value::real && std::isinf(v.r) && !f.is_int()) {
        const std::string finite = std::string(v.r < 0 ? "min" : "max") + "_value<" + f.name + ">()", infinite = v.r < 0 ? "-inf" : "inf";
        d.help("`" + f.name + "` has no infinity: its last finite value is " + finite +
                          "; or compute in a type that has one, `cast<f32>(x[..] else " + infinite + ")`, `select(.., cast<f32>(x), " + infinite +
                          ")`");
        d.propose({{span, finite}});
    }
    if (v.kind == Value::real && std::isnan(v.r)) d.help("`" + f.name + "` has no NaN");
    return std::nullopt;
}

std::optional<uint64_t> Elaborator::held_code(const Value& v, const Format& f) {
    const auto refuse = [] { return std::optional<uint64_t>(); };
    if (f.is_bool()) return refuse();
    __int128 i = v.i;
    if (v.kind == Value::real && f.is_int()) {
        if (!(std::fabs(v.r) < 0x1p64) || std::trunc(v.r) != v.r || v.rest != 0) return refuse();
        i = static_cast<__int128>(v.r);
    }
    if (f.is_int()) {
        const __int128 high = (static_cast<__int128>(1) << (f.bits - (f.is_signed ? 1 : 0))) - 1;
        if (i > high || i < (f.is_signed ? -high - 1 : 0)) return refuse();
        return static_cast<uint64_t>(static_cast<int64_t>(i));
    }
    if (v.kind == Value::integer) {
        const Exact exact{.negative = i < 0, .significand = static_cast<uint64_t>(i < 0 ? -i : i)};
        const uint64_t code = round_exact(exact, f, {Round::rne, Overflow::ieee});
        const double back = decode(f, code);
        if (!(std::fabs(back) < 0x1p66) || static_cast<__int128>(back) != i || std::trunc(back) != back) return refuse();
        return code;
    }
    const Exact exact = exact_real(v);
    const uint64_t code = round_exact(exact, f, {Round::rne, Overflow::ieee});
    const double back = decode(f, code);
    const bool kept = std::isnan(v.r) ? std::isnan(back) : std::isinf(v.r) ? back == v.r : std::isfinite(back);
    if (!kept) return refuse();
    // A format without Inf clamps: the value must lie within half a step of its range.
    bool overflowed = false;
    round_exact(exact, f, {Round::rne, Overflow::sat}, &overflowed);
    if (overflowed && !std::isinf(v.r)) return refuse();
    return code;
}

// ---- values as tiles ----

ir::ValueId Elaborator::to_tile(const Value& v, FormatId elem, Span span) {
    if (v.kind == Value::poison) return {};
    if (v.is_static_number()) {
        const auto code = literal_code(v, elem, span);
        if (!code) return {};
        ir().set_span(span);
        return ir().constant(types_.tile(elem), *code);
    }
    const ir::ValueId own = to_tile(v, span);
    if (!own.valid()) return {};
    const Type& type = ir().fn().type(own);
    if (!type.pointer && type.elem == elem) return own;
    if (!type.pointer && widens(types_.format(type.elem), types_.format(elem))) return ir().cast(own, elem);
    const std::string& name = types_.format(elem).name;
    Diagnostic& d = diags_.report(Diag::type_mismatch, span, {"`" + name + "`", describe(v)});
    if (type.pointer) return {};
    d.help("convert on purpose with cast<" + name + ">(..)");
    offer_cast(d, {span}, name);
    return {};
}

ir::ValueId Elaborator::to_tile(const Value& v, Span span) {
    switch (v.kind) {
        case Value::poison:
            return {};
        case Value::tile:
            return v.v;
        case Value::integer:
            return to_tile(v, id_of(v.i > INT64_MAX ? Fmt::u64 : Fmt::i64), span);
        case Value::real:
            return to_tile(v, id_of(Fmt::f32), span);
        case Value::boolean:
            return to_tile(v, id_of(Fmt::boolean), span);
        default:
            break;
    }
    Diagnostic& d = diags_.report(Diag::not_a_tile, span, {describe(v)});
    if (v.kind == Value::tensor) d.help("read a part of it by indexing, as in " + std::string(v.tensor_ref->name) + "[i, 0 +: N]");
    if (v.kind == Value::block_tile) {
        d.help("decode the blocks with cast<f32>(..)");
        offer_cast(d, {span}, "f32", true);
    }
    return {};
}

ir::ValueId Elaborator::to_index(const Value& v, Span span) {
    if (v.kind == Value::poison) return {};
    if (v.kind == Value::integer) return to_tile(v, id_of(Fmt::i64), span);
    if (v.kind == Value::tile) {
        const Type& type = ir().fn().type(v.v);
        if (!type.pointer && types_.format(type.elem).is_int()) return ir().cast(v.v, id_of(Fmt::i64));
    }
    Diagnostic& d = diags_.report(Diag::not_an_index, span, {describe(v)});
    if (v.kind == Value::tile && !ir().fn().type(v.v).pointer) offer_cast(d, {span}, "i64");
    return {};
}

bool Elaborator::to_bool(const Value& v, Span span, ir::ValueId& out) {
    out = {};
    if (v.kind == Value::poison) return false;
    if (v.kind == Value::boolean) out = to_tile(v, id_of(Fmt::boolean), span);
    if (v.kind == Value::tile && !ir().fn().type(v.v).pointer && ir().fn().elem(v.v).is_bool()) out = v.v;
    if (out.valid()) return true;
    error(Diag::not_bool, span, "the condition", describe(v));
    return false;
}

// ---- compile-time arguments ----

std::optional<int64_t> Elaborator::static_int(const Value& v, Span span, const char* what) {
    if (v.kind == Value::poison) return std::nullopt;
    if (const auto i = folded_int(v); i && *i >= INT64_MIN && *i <= INT64_MAX) return static_cast<int64_t>(*i);
    error(Diag::not_constant, span, what, v.kind == Value::tile ? describe(v) + ", a run-time value" : describe(v));
    return std::nullopt;
}

std::optional<bool> Elaborator::static_bool(const Value& v, Span span) {
    if (v.kind == Value::poison) return std::nullopt;
    if (v.kind == Value::boolean) return v.b;
    if (const auto code = folded_code(v); code && ir().fn().elem(v.v).is_bool()) return *code != 0;
    if (v.kind == Value::tile)
        error(Diag::not_constant, span, "this condition", describe(v) + ", a run-time value");
    else
        error(Diag::not_bool, span, "this argument", describe(v));
    return std::nullopt;
}

bool Elaborator::fits_budget(const Shape& shape, Span span) {
    int64_t n = 1;
    for (int64_t extent : shape) {
        if (__builtin_mul_overflow(n, extent, &n) || n > kMaxTileElements) {
            error(Diag::tile_too_large, span, to_string(shape));
            return false;
        }
    }
    return true;
}

std::optional<Shape> Elaborator::static_shape(const Value& v, Span span) {
    if (v.kind == Value::poison) return std::nullopt;
    if (v.kind != Value::list && v.kind != Value::tuple) {
        error(Diag::bad_shape, span, "a shape is an array of extents such as [4, 8], found " + describe(v));
        return std::nullopt;
    }
    if (v.items.size() > kMaxRank) {
        error(Diag::bad_shape, span, "a tile has at most 8 dimensions, here are " + std::to_string(v.items.size()));
        return std::nullopt;
    }
    Shape shape;
    for (const Value& item : v.items) {
        const auto extent = static_int(item, item.span.valid() ? item.span : span, "an extent");
        if (!extent) return std::nullopt;
        if (*extent < 1) {
            error(Diag::bad_shape, span, "an extent is at least 1, here is " + std::to_string(*extent));
            return std::nullopt;
        }
        shape.push(*extent);
    }
    if (!fits_budget(shape, span)) return std::nullopt;
    return shape;
}

// ---- promotion ----

void Elaborator::offer_cast(Diagnostic& d, std::initializer_list<Span> spans, const std::string& type, bool lossless) {
    std::vector<FixIt> edits;
    for (const Span at : spans) {
        if (!at.valid() || at.file != d.span.file || at.begin == at.end) return;
        edits.push_back({{at.file, at.begin, at.begin}, "cast<" + type + ">(", Applicability::maybe, !lossless});
        edits.push_back({{at.file, at.end, at.end}, ")", Applicability::maybe, !lossless});
    }
    d.propose(std::move(edits));
}

std::optional<FormatId> Elaborator::common_format(const Value& a, const Value& b, Span span) {
    const FormatId x = elem_of(a), y = elem_of(b);
    if (x == y) return x;
    const Format &f = types_.format(x), &g = types_.format(y);
    if (widens(f, g)) return y;
    if (widens(g, f)) return x;
    const bool one_integer = f.is_int() != g.is_int() && (f.is_float() || g.is_float());
    // The integer alone is marked, and converted, where it has a place of its own.
    const Span integer = f.is_int() ? a.span : b.span;
    const auto has_place = [&](Span s) { return s.file == span.file && span.begin <= s.begin && s.end <= span.end && !(s == span); };
    const bool own = one_integer && has_place(integer), both = has_place(a.span) && has_place(b.span);
    Diagnostic& d = diags_.report(Diag::mixed_types, own ? integer : span, {describe(a), describe(b)});
    if (f.is_int() && g.is_int()) {
        d.help("signed and unsigned do not mix by themselves: choose one with cast<" + f.name + ">(..) or cast<" + g.name + ">(..)");
    } else if (one_integer) {
        const std::string& to = f.is_float() ? f.name : g.name;
        d.help("convert the integer with cast<" + to + ">(..)");
        if (own) offer_cast(d, {integer}, to, true);
        return std::nullopt;
    } else {
        d.help("convert one of them with cast<T>(..), for example to f32");
        const Format& f32 = types_.format(id_of(Fmt::f32));
        if (both && widens(f, f32) && widens(g, f32)) offer_cast(d, {a.span, b.span}, f32.name, true);
    }
    if (both) {
        offer_cast(d, {b.span}, f.name);
        offer_cast(d, {a.span}, g.name);
    }
    return std::nullopt;
}

// ---- leaves ----

std::vector<ir::ValueId> Elaborator::flatten(Value& v, Span span) {
    std::vector<ir::ValueId> leaves;
    if (v.is_static_number()) v = tile(to_tile(v, span), v.span);
    if (v.kind == Value::tile) leaves.push_back(v.v);
    if (v.kind == Value::block_tile) {
        leaves = {v.v, v.scales};
        if (v.tensor_scale.valid()) leaves.push_back(v.tensor_scale);
    }
    if (v.kind == Value::tuple || v.kind == Value::list || v.kind == Value::structure) {
        for (Value& item : v.items) {
            const auto part = flatten(item, span);
            leaves.insert(leaves.end(), part.begin(), part.end());
        }
    }
    return leaves;
}

Value Elaborator::unflatten(const Value& like, const std::vector<ir::ValueId>& leaves, size_t& at) {
    Value out = like;
    if (like.kind == Value::tile) out.v = leaves[at++];
    if (like.kind == Value::block_tile) {
        out.v = leaves[at++];
        out.scales = leaves[at++];
        if (like.tensor_scale.valid()) out.tensor_scale = leaves[at++];
    }
    for (Value& item : out.items) item = unflatten(Value(item), leaves, at);
    return out;
}

}  // namespace tegula::sema
