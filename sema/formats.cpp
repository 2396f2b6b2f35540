// Number format constructors of type expressions: float<..>, fixed<..>, ufixed<..>, lns<..>, codebook<N>[..], block<..>, and ptr<T>, tile<T>.
// The arguments are compile-time values; what a format may be is format_problem's to say.
#include <algorithm>
#include <cmath>
#include <utility>

#include "sema/elaborate.h"
#include "sema/flow.h"
#include "sema/walk.h"

namespace tegula::sema {

namespace {

constexpr int64_t kMaxField = 64;  // bits of any field of a format; format_problem has the exact rules

const ast::Expr* option_arg(const ast::InstantiateExpr& e, std::string_view name) {
    for (const ast::Arg& a : e.args)
        if (a.name.text == name) return a.value;
    return nullptr;
}

std::vector<const ast::Expr*> positional_args(const ast::InstantiateExpr& e) {
    std::vector<const ast::Expr*> out;
    for (const ast::Arg& a : e.args)
        if (a.name.text.empty()) out.push_back(a.value);
    return out;
}

std::string_view word_of(const ast::Expr& e) { return e.kind == ast::ExprKind::none_lit ? std::string_view("none") : base_name(e); }

}  // namespace

Value Elaborator::format_type(Format f, Span span) {
    if (const std::string problem = format_problem(f); !problem.empty()) return error(Diag::bad_format, span, problem);
    TypeDesc t;
    t.kind = TypeDesc::scalar_format;
    t.elem = types_.intern(f);
    return type_value(t, span);
}

/// The first arguments as numbers of bits; nullopt after a report.
std::optional<std::vector<int64_t>> Elaborator::field_widths(std::string_view name, const ast::InstantiateExpr& e, size_t count,
                                                             std::initializer_list<std::string_view> options) {
    for (const ast::Arg& a : e.args) {
        if (a.name.text.empty() || std::find(options.begin(), options.end(), a.name.text) != options.end()) continue;
        error(Diag::unexpected_generic, a.name.span, name, a.name.text);
        return std::nullopt;
    }
    const std::vector<const ast::Expr*> args = positional_args(e);
    if (args.size() != count) {
        error(Diag::wrong_argument_count, e.span, name, std::to_string(count) + " numbers", std::to_string(args.size()));
        return std::nullopt;
    }
    std::vector<int64_t> out;
    for (const ast::Expr* a : args) {
        const auto n = static_int(constant(*a, scope_), a->span, "a number of bits");
        if (!n) return std::nullopt;
        if (*n < 0 || *n > kMaxField) {
            error(Diag::bad_format, a->span, std::to_string(*n) + " bits");
            return std::nullopt;
        }
        out.push_back(*n);
    }
    return out;
}

Value Elaborator::minifloat(const ast::InstantiateExpr& e) {
    const auto widths = field_widths("float", e, 2, {"bias", "inf", "nan", "subnormal", "signed"});
    if (!widths) return poison(e.span);
    if ((*widths)[0] > 11)
        return error(Diag::bad_format, e.span, std::to_string((*widths)[0]) + " exponent bits; f64, which must hold every value, has 11");
    if ((*widths)[1] > 52)
        return error(Diag::bad_format, e.span, std::to_string((*widths)[1]) + " mantissa bits; f64, which must hold every value, has 52");
    Format f = float_format(static_cast<unsigned>((*widths)[0]), static_cast<unsigned>((*widths)[1]));
    const auto flag = [&](const char* name, bool otherwise) {
        const ast::Expr* a = option_arg(e, name);
        return a ? static_bool(constant(*a, scope_), a->span) : std::optional<bool>(otherwise);
    };
    if (const ast::Expr* bias = option_arg(e, "bias")) {
        const auto n = static_int(constant(*bias, scope_), bias->span, "the bias");
        if (!n) return poison(e.span);
        if (*n < INT16_MIN || *n > INT16_MAX) return error(Diag::bad_format, bias->span, "bias " + std::to_string(*n));
        f.bias = static_cast<int32_t>(*n);
    }
    if (const ast::Expr* nan = option_arg(e, "nan")) {
        static constexpr std::string_view kWords[] = {"ieee", "all_ones", "negative_zero", "none"};
        const auto it = std::find(std::begin(kWords), std::end(kWords), word_of(*nan));
        if (it == std::end(kWords)) {
            return error(Diag::unknown_option, nan->span, source_text(*nan), "NaN encoding", "ieee, all_ones, negative_zero, none");
        }
        f.nan = static_cast<NanCode>(it - std::begin(kWords));
        if (f.nan == NanCode::negative_zero) f.negative_zero = false;
        if (f.nan != NanCode::ieee) f.has_inf = false;
    }
    const auto inf = flag("inf", f.has_inf), subnormal = flag("subnormal", f.subnormal), sign = flag("signed", true);
    if (!inf || !subnormal || !sign) return poison(e.span);
    f.has_inf = *inf;
    f.subnormal = *subnormal;
    if (!*sign) {
        f.is_signed = f.negative_zero = false;
        f.bits = static_cast<uint8_t>(f.exp_bits + f.man_bits);
    }
    f.name.clear();
    return format_type(f, e.span);
}

Value Elaborator::fixed_point(std::string_view name, const ast::InstantiateExpr& e) {
    const auto widths = field_widths(name, e, 2, {});
    if (!widths) return poison(e.span);
    Format f;
    f.kind = name == "lns" ? FormatKind::lns : FormatKind::fixed;
    f.is_signed = name != "ufixed";
    f.int_bits = static_cast<uint8_t>((*widths)[0]);
    f.frac_bits = static_cast<uint8_t>((*widths)[1]);
    f.bits = static_cast<uint8_t>((*widths)[0] + (*widths)[1] + (name == "lns" ? 1 : 0));
    f.negative_zero = false;
    return format_type(f, e.span);
}

Value Elaborator::codebook(const ast::InstantiateExpr& e, const ast::IndexExpr* values) {
    const auto widths = field_widths("codebook", e, 1, {});
    if (!widths) return poison(e.span);
    const int64_t bits = (*widths)[0];
    if (bits < 1 || bits > 16) return error(Diag::bad_format, e.span, "a codebook index has 1 to 16 bits, here are " + std::to_string(bits));
    Format f;
    f.kind = FormatKind::codebook;
    f.bits = static_cast<uint8_t>(bits);
    f.negative_zero = false;
    f.is_signed = false;
    std::vector<Value> entries;
    for (size_t i = 0; values && i < values->items.size(); ++i) {
        const ast::IndexItem& item = values->items[i];
        if (item.kind != ast::IndexItem::value) return error(Diag::bad_format, item.span, "a codebook lists values");
        entries.push_back(constant(*item.start, scope_));
    }
    if (entries.size() == 1 && entries[0].kind == Value::list) entries = std::vector<Value>(entries[0].items);
    for (const Value& v : entries) {
        if (v.kind == Value::poison) return poison(e.span);
        if (v.kind != Value::integer && v.kind != Value::real) return error(Diag::not_constant, e.span, "a value of a codebook", describe(v));
        f.table.push_back(v.kind == Value::integer ? static_cast<double>(v.i) : v.r);
    }
    if (f.table.size() != size_t{1} << bits) {
        return error(Diag::bad_format, e.span,
                     "codebook<" + std::to_string(bits) + "> has " + std::to_string(size_t{1} << bits) + " values, here are " +
                         std::to_string(f.table.size()));
    }
    return format_type(f, e.span);
}

Value Elaborator::block_type(const ast::InstantiateExpr& e) {
    const std::vector<const ast::Expr*> args = positional_args(e);
    const ast::Expr* scale_arg = option_arg(e, "scale");
    for (const ast::Arg& a : e.args) {
        const std::string_view n = a.name.text;
        if (!n.empty() && n != "scale" && n != "tensor_scale" && n != "rule") return error(Diag::unexpected_generic, a.name.span, "block", n);
    }
    if (args.size() != 2 || !scale_arg)
        return error(Diag::wrong_argument_count, e.span, "block", "an element type, a size and `scale = ..`", std::to_string(args.size()));
    const auto format_of = [&](const ast::Expr& x) -> std::optional<FormatId> {
        const std::optional<TypeDesc> t = type_desc(x);
        if (t && t->kind == TypeDesc::scalar_format && !types_.format(t->elem).is_block()) return t->elem;
        if (t) error(Diag::not_a_type, x.span, "`" + describe(*t) + "`, which is no plain number format");
        return std::nullopt;
    };
    const auto elem = format_of(*args[0]), scale = format_of(*scale_arg);
    const auto size = static_int(constant(*args[1], scope_), args[1]->span, "the block size");
    if (!elem || !scale || !size) return poison(e.span);
    if (*size < 1 || *size > kMaxTileElements) return error(Diag::bad_format, args[1]->span, "block size " + std::to_string(*size));
    Format f;
    f.kind = FormatKind::block;
    f.elem = *elem;
    f.scale = *scale;
    f.bits = types_.format(*elem).bits;
    f.is_signed = types_.format(*elem).is_signed;
    f.negative_zero = false;
    f.block_size = static_cast<uint32_t>(*size);
    if (const ast::Expr* t = option_arg(e, "tensor_scale"); t && t->kind != ast::ExprKind::none_lit) {
        const auto tensor_scale = format_of(*t);
        if (!tensor_scale) return poison(e.span);
        f.tensor_scale = *tensor_scale;
    }
    if (const ast::Expr* rule = option_arg(e, "rule")) {
        static constexpr std::string_view kWords[] = {"floor", "ceil", "even", "rceil"};
        const auto it = std::find(std::begin(kWords), std::end(kWords), word_of(*rule));
        if (it == std::end(kWords)) return error(Diag::unknown_option, rule->span, source_text(*rule), "scale rule", "floor, ceil, even, rceil");
        f.scale_rule = static_cast<ScaleRule>(it - std::begin(kWords));
    }
    return format_type(f, e.span);
}

Value Elaborator::type_constructor(std::string_view name, const ast::InstantiateExpr& e) {
    if (name == "float") return minifloat(e);
    if (name == "fixed" || name == "ufixed" || name == "lns") return fixed_point(name, e);
    if (name == "block") return block_type(e);
    if (name == "codebook") return codebook(e, nullptr);
    if (e.args.size() != 1) return error(Diag::wrong_argument_count, e.span, name, "1 element type", std::to_string(e.args.size()));
    const std::optional<TypeDesc> t = type_desc(*e.args[0].value);
    if (!t) return poison(e.span);
    const bool pointers = name == "tensor" && t->kind == TypeDesc::pointer;
    if (t->kind != TypeDesc::scalar_format && !pointers)
        return error(Diag::not_a_type, e.args[0].value->span, "`" + describe(*t) + "`, which is no number format");
    TypeDesc out = *t;
    if (name == "ptr") {
        if (types_.format(t->elem).is_block()) return error(Diag::not_a_type, e.span, "a pointer to a block format");
        out.kind = TypeDesc::pointer;
    }
    if (name == "tensor") out.kind = TypeDesc::tensor;
    if (pointers) out.pointee = std::exchange(out.elem, id_of(Fmt::u64));
    return type_value(out, e.span);
}

}  // namespace tegula::sema
