// The table of built-in functions (builtins.def) as data, the small grammar of its signatures, and the matching of a call's arguments to
// them. What each function does is in builtins_*.cpp; what all of them share about arguments (axes, options, operands) is at the end here.
#include <algorithm>
#include <array>

#include "sema/elaborate.h"
#include "sema/flow.h"
#include "sema/words.h"

namespace tegula::sema {

namespace {

constexpr BuiltinRow kRows[] = {
#define BUILTIN(name, signature, doc) {#name, signature, doc, &Elaborator::call_##name},
#include "sema/builtins.def"
};

std::string_view trim(std::string_view text) {
    while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
    while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
    return text;
}

/// "a, b = 1, ..." split at commas; sets `variadic` at "...".
std::vector<Signature::Parameter> parse_parameters(std::string_view text, bool& variadic) {
    std::vector<Signature::Parameter> out;
    while (!trim(text).empty()) {
        const size_t comma = std::min(text.find(','), text.size());
        const std::string_view item = trim(text.substr(0, comma));
        text.remove_prefix(std::min(comma + 1, text.size()));
        if (item == "...") {
            variadic = true;
            continue;
        }
        const size_t equals = item.find('=');
        out.push_back({trim(item.substr(0, equals)), equals != item.npos});
    }
    return out;
}

}  // namespace

std::span<const BuiltinRow> builtin_rows() { return kRows; }

const BuiltinRow* find_builtin(std::string_view name) {
    static constexpr auto kByName = [] {
        std::array<std::pair<std::string_view, size_t>, std::size(kRows)> names;
        for (size_t i = 0; i < names.size(); ++i) names[i] = {kRows[i].name, i};
        std::ranges::sort(names);
        return names;
    }();
    const auto it = std::ranges::lower_bound(kByName, name, {}, &std::pair<std::string_view, size_t>::first);
    return it != kByName.end() && it->first == name ? &kRows[it->second] : nullptr;
}

std::vector<BuiltinDoc> builtin_docs() {
    std::vector<BuiltinDoc> docs;
    for (const BuiltinRow& row : kRows) docs.push_back({row.name, row.signature, row.doc});
    return docs;
}

bool is_option(std::string_view parameter) { return find_word_kind(parameter) != nullptr; }

Signature parse_signature(std::string_view text) {
    Signature out;
    bool ignored = false;
    if (text.starts_with('<')) {
        const size_t close = text.find('>');
        out.generics = parse_parameters(text.substr(1, close - 1), ignored);
        text.remove_prefix(close + 1);
    }
    if (text.starts_with('[')) {
        out.has_shape = true;
        text.remove_prefix(text.find(']') + 1);
    }
    if (text.starts_with('(')) {
        out.has_call = true;
        out.parameters = parse_parameters(text.substr(1, text.rfind(')') - 1), out.variadic);
    }
    return out;
}

// ---- calls ----

namespace {

enum class Builtin : uint16_t {
#define BUILTIN(name, signature, doc) name##_,
#include "sema/builtins.def"
};

/// Does the function see its tiles as a whole (and not element by element), so that dimensions of index forms would be taken for the tile's own?
bool takes_whole_tiles(Builtin function, const Call& call) {
    using enum Builtin;
    static constexpr Builtin kElementwise[] = {zeros_,        ones_,    full_,    iota_,      tile_of_,  cast_,   bitcast_,
                                               select_,       map_,     size_,    rank_,      elem_,     bits_,   max_value_,
                                               min_value_,    epsilon_, is_int_,  is_signed_, is_float_, cdiv_,   program_id_,
                                               num_programs_, load_,    pointer_, print_,     assert_,   assume_, static_assert_};
    if (std::find(std::begin(kElementwise), std::end(kElementwise), function) != std::end(kElementwise)) return false;
    const bool order = function == min_ || function == max_ || function == minnum_ || function == maxnum_;
    return !order || !call.expr || call.expr->args.size() < 2 ||
           std::any_of(call.expr->args.begin(), call.expr->args.end(), [](const ast::Arg& a) { return a.name.text == "axis"; });
}

}  // namespace

/// Is a tile in `v` computed from an index of an index form around the current expression?
bool Elaborator::depends_on_form(Value& v) {
    if (v.kind != Value::tile && v.kind != Value::block_tile && v.kind != Value::tuple && v.kind != Value::structure && v.kind != Value::list)
        return false;
    for (Value& item : v.items)
        if (depends_on_form(item)) return true;
    if (v.kind != Value::tile && v.kind != Value::block_tile) return false;
    const ir::Function& fn = ir().fn();
    std::vector<ir::ValueId> work{v.v};
    std::vector<bool> seen(fn.value_count());
    while (!work.empty()) {
        const ir::ValueId at = work.back();
        work.pop_back();
        if (!at.valid() || seen[at.v]) continue;
        seen[at.v] = true;
        if (std::find(form_indices_.begin(), form_indices_.end(), at) != form_indices_.end()) return true;
        const ir::Inst* def = fn.def(at);
        if (!def) continue;
        const auto operands = fn.operands(*def);
        work.insert(work.end(), operands.begin(), operands.end());
    }
    return false;
}

Value Elaborator::call_builtin(const Value& callee, std::vector<Value> shape, bool has_shape, const ast::CallExpr* e, Span span,
                               ir::Caching caching) {
    const BuiltinRow& row = builtin_rows()[static_cast<size_t>(callee.row)];
    const Signature signature = parse_signature(row.signature);
    Call call;
    call.expr = e;
    call.span = span;
    call.caching = caching;
    call.generics = callee.generics;
    call.shape = std::move(shape);
    call.has_shape = has_shape;
    for (const Value& v : call.generics)
        if (v.kind == Value::poison) return poison(span);
    for (const Value& v : call.shape)
        if (v.kind == Value::poison) return poison(span);
    const auto refuse = [&](const std::string& why) {
        Diagnostic& d = diags_.report(Diag::bad_arguments, span, {row.name, why});
        d.notes.push_back(std::string("signature: ") + row.name + row.signature);
        return poison(span);
    };
    if (call.generics.size() > signature.generics.size())
        return refuse("takes " + std::to_string(signature.generics.size()) + " arguments between < and >, found " +
                      std::to_string(call.generics.size()));
    for (size_t i = call.generics.size(); i < signature.generics.size(); ++i)
        if (!signature.generics[i].optional) return refuse("the type between < and > is missing");
    if (has_shape && !signature.has_shape) return refuse("takes no shape between [ and ]");
    if (e != nullptr && !signature.has_call && !e->args.empty()) return refuse("takes no arguments between ( and )");
    if (!match_arguments(call, signature, row)) return poison(span);
    if (form_rank_ > 0 && takes_whole_tiles(static_cast<Builtin>(callee.row), call)) {
        for (size_t i = 0; i < call.positional.size() + call.named.size(); ++i) {
            Value& v = i < call.positional.size() ? call.positional[i] : call.named[i - call.positional.size()].second;
            if (depends_on_form(v)) return error(Diag::whole_tile_in_index_form, span, row.name);
        }
    }
    ir().set_span(span);
    Value result = (this->*row.call)(call);
    result.span = span;
    return result;
}

bool Elaborator::match_arguments(Call& call, const Signature& signature, const BuiltinRow& row) {
    const auto& parameters = signature.parameters;
    const auto refuse = [&](Span at, const std::string& why) {
        Diagnostic& d = diags_.report(Diag::bad_arguments, at, {row.name, why});
        d.notes.push_back(std::string("signature: ") + row.name + row.signature);
        return false;
    };
    Value nothing;
    nothing.kind = Value::none;
    call.positional.assign(parameters.size(), nothing);
    call.exprs.assign(parameters.size(), nullptr);
    size_t next = 0;
    bool ok = true;
    const std::span<const ast::Arg> args = call.expr ? call.expr->args : std::span<const ast::Arg>{};
    for (const ast::Arg& arg : args) {
        size_t at = parameters.size();
        if (arg.name.text.empty()) {
            at = next++;
            if (at >= parameters.size() && !signature.variadic)
                return refuse(arg.value->span, "takes at most " + std::to_string(parameters.size()) + " arguments");
        } else {
            for (size_t i = 0; i < parameters.size(); ++i)
                if (parameters[i].name == arg.name.text) at = i;
            if (at == parameters.size() && !signature.variadic) return refuse(arg.name.span, "has no argument `" + std::string(arg.name.text) + "`");
        }
        const std::string_view parameter = at < parameters.size() ? parameters[at].name : arg.name.text;
        Value v = nothing;
        if (const WordKind* kind = find_word_kind(parameter)) {
            v = arg.value->kind == ast::ExprKind::none_lit ? nothing : word(*arg.value, *kind);
        } else if (parameter != "where" || arg.value->kind != ast::ExprKind::index) {
            const bool converted = at == 0 && arg.value->kind == ast::ExprKind::else_value && row.call == &Elaborator::call_cast;
            const Restore<const ast::Expr*> outer(converted_else_, converted ? ast::as<ast::ElseExpr>(arg.value).value : nullptr);
            v = expr(*arg.value);
        }
        v.span = arg.value->span;
        ok &= v.kind != Value::poison;
        if (at < parameters.size()) {
            if (call.exprs[at]) return refuse(arg.value->span, "argument `" + std::string(parameter) + "` is given twice");
            call.positional[at] = std::move(v);
            call.exprs[at] = arg.value;
        } else if (arg.name.text.empty()) {
            call.positional.push_back(std::move(v));
            call.exprs.push_back(arg.value);
        } else {
            call.named.emplace_back(arg.name.text, std::move(v));
        }
    }
    for (size_t i = 0; i < parameters.size(); ++i)
        if (!call.exprs[i] && !parameters[i].optional) return refuse(call.span, "argument `" + std::string(parameters[i].name) + "` is missing");
    return ok;
}

// ---- what built-in functions ask of their arguments ----

Span Elaborator::arg_span(const Call& call, size_t i) { return call.given(i) ? call.exprs[i]->span : call.span; }

bool Elaborator::has(const Call& call, size_t i) { return call.given(i) && call.positional[i].kind != Value::none; }

ir::ValueId Elaborator::arg_tile(const Call& call, size_t i) {
    const ir::ValueId v = to_tile(call.positional[i], arg_span(call, i));
    ir().set_span(call.span);
    return v;
}

std::optional<int> Elaborator::normal_axis(const Value& v, int rank, Span span) {
    const auto axis = static_int(v, span, "an axis");
    if (!axis) return std::nullopt;
    const int64_t from_front = *axis < 0 ? *axis + rank : *axis;
    if (from_front < 0 || from_front >= rank) {
        error(Diag::bad_axis, span, std::to_string(*axis), count_text(static_cast<size_t>(rank), "dimension"));
        return std::nullopt;
    }
    return static_cast<int>(from_front);
}

std::optional<int> Elaborator::arg_axis(const Call& call, size_t i, int rank, int fallback) {
    if (has(call, i)) return normal_axis(call.positional[i], rank, arg_span(call, i));
    Value v;
    v.kind = Value::integer;
    v.i = fallback;
    return normal_axis(v, rank, call.span);
}

std::optional<int> Elaborator::arg_option(const Call& call, size_t i, const char* what, std::initializer_list<const char*> names, int fallback) {
    if (!has(call, i)) return fallback;
    const Value& v = call.positional[i];
    std::string list;
    int at = 0;
    for (const char* name : names) {
        if (v.kind == Value::word && v.s == name) return at;
        list += (at++ ? ", " : "") + std::string(name);
    }
    error(Diag::unknown_option, arg_span(call, i), v.kind == Value::word ? std::string(v.s) : describe(v), what, list);
    return std::nullopt;
}

std::optional<bool> Elaborator::arg_flag(const Call& call, size_t i, bool fallback) {
    if (!has(call, i)) return fallback;
    return static_bool(call.positional[i], arg_span(call, i));
}

std::optional<Value> Elaborator::named_arg(const Call& call, std::initializer_list<std::string_view> allowed, std::string_view wanted) {
    std::optional<Value> found;
    for (const auto& [name, value] : call.named) {
        if (std::find(allowed.begin(), allowed.end(), name) == allowed.end()) {
            error(Diag::bad_arguments, value.span, "call", "has no argument `" + std::string(name) + "`");
            return poison(call.span);
        }
        if (name == wanted) found = value;
    }
    return found;
}

Value Elaborator::tuple(std::vector<Value> items, Span span) {
    Value v = poison(span);
    v.kind = Value::tuple;
    v.items = std::move(items);
    return v;
}

Value Elaborator::constant_int(__int128 i, Span span) {
    Value v = poison(span);
    v.kind = Value::integer;
    v.i = i;
    return v;
}

Value Elaborator::constant_bool(bool b, Span span) {
    Value v = poison(span);
    v.kind = Value::boolean;
    v.b = b;
    return v;
}

Value Elaborator::unit(Span span) {
    Value v = poison(span);
    v.kind = Value::unit;
    return v;
}

}  // namespace tegula::sema
