// Words and functions as compile-time values: what an expression is where a word of some kind is wanted, generic parameters that take words or
// functions, and choices, in which form hosts and launches hold them.
#include <algorithm>

#include "sema/elaborate.h"
#include "sema/flow.h"
#include "sema/walk.h"
#include "sema/words.h"

namespace tegula::sema {

namespace {

Value word_value(std::string_view text, std::string_view kind, Span span) {
    Value v;
    v.kind = Value::word;
    v.s = text;
    v.t.trait_name = kind;
    v.span = span;
    return v;
}

/// Of a word, a text, and what else has a name: some words are also the names of operations.
std::string_view spelled(const Value& v) {
    if (v.kind == Value::elementwise) return ir::op_row(v.op).name;
    return v.kind == Value::word || v.kind == Value::text || v.kind == Value::builtin ? v.s : std::string_view();
}

}  // namespace

bool is_callable(const Value& v) {
    return v.kind == Value::function || v.kind == Value::builtin || v.kind == Value::elementwise || v.kind == Value::lambda;
}

std::string_view bound_of(const ast::GenericParam& p) { return p.bound ? base_name(*p.bound) : std::string_view("any"); }

bool takes_choice(std::string_view bound) { return bound == kFunctionBound || find_word_kind(bound); }

std::string key_text(const StaticValue& value, const TypeTable& types) {
    std::string out = to_string(value, types);
    const auto* c = std::get_if<Choice>(&value.v);
    if (c && c->scope) out += '@' + std::to_string(c->scope->serial);
    if (c && c->expr) out += '@' + std::to_string(c->expr->span.file) + ':' + std::to_string(c->expr->span.begin);
    return out;
}

Value Elaborator::as_word(const Value& v, const WordKind& kind, Span span) {
    if (v.kind == Value::poison) return v;
    const bool other = v.kind == Value::word && !v.t.trait_name.empty() && v.t.trait_name != kind.name;
    std::string_view text = spelled(v);
    if (v.kind == Value::type && v.t.kind == TypeDesc::scalar_format) text = types_.format(v.t.elem).name;  // `tf32` is a precision, too
    const auto word = std::ranges::find(kind.words, text);
    if (word != kind.words.end() && !other) return word_value(*word, kind.name, span);
    Diagnostic& d =
        diags_.report(Diag::unknown_option, span, {text.empty() ? describe(v) : std::string(text), std::string(kind.title), list_of(kind)});
    if (other) d.notes.push_back("it is of the kind `" + std::string(v.t.trait_name) + "`, and `" + std::string(kind.name) + "` is wanted");
    return poison(span);
}

Value Elaborator::word(const ast::Expr& e, const WordKind& kind) {
    if (e.kind == ast::ExprKind::name) {
        const std::string_view name = ast::as<ast::NameExpr>(&e).name;
        std::optional<Value> variable;
        if (scope_->find(name))
            variable = expr(e);
        else
            variable = resolve_host(e);
        if (variable) return as_word(*variable, kind, e.span);
        if (const auto word = std::ranges::find(kind.words, name); word != kind.words.end()) return word_value(*word, kind.name, e.span);
        if (!known(name)) {
            Diagnostic& d = diags_.report(Diag::unknown_option, e.span, {std::string(name), std::string(kind.title), list_of(kind)});
            suggest_spelling(d, name, e.span, {kind.words.begin(), kind.words.end()});
            return poison(e.span);
        }
    }
    return as_word(expr(e), kind, e.span);
}

/// A generic argument or default: a word where the parameter takes words.
Value Elaborator::generic_value(const ast::GenericParam& p, const ast::Expr& e, const std::shared_ptr<Scope>& scope) {
    const WordKind* kind = p.bound ? find_word_kind(base_name(*p.bound)) : nullptr;
    if (!kind) return constant(e, scope);
    const StaticMode mode(*this, scope);
    return word(e, *kind);
}

/// `==` of words and functions; nullopt of anything else.
std::optional<Value> Elaborator::same_choice(const Value& a, const Value& b, Span span) {
    if (a.kind == Value::word || b.kind == Value::word) {
        const Value& typed = a.kind == Value::word && !a.t.trait_name.empty() ? a : b;
        const WordKind* kind = find_word_kind(typed.t.trait_name);
        const Value x = kind ? as_word(a, *kind, a.span.valid() ? a.span : span) : a;
        const Value y = kind ? as_word(b, *kind, b.span.valid() ? b.span : span) : b;
        if (x.kind == Value::poison || y.kind == Value::poison) return poison(span);
        return constant_bool(spelled(x) == spelled(y), span);
    }
    if (!is_callable(a) || !is_callable(b) || a.kind == Value::lambda || b.kind == Value::lambda) return std::nullopt;
    if (spelled(a).empty() || spelled(b).empty()) return constant_bool(a.fn == b.fn && a.fn && same_generics(a, b), span);
    return constant_bool(spelled(a) == spelled(b), span);
}

bool Elaborator::same_generics(const Value& a, const Value& b) {
    return a.generics.size() == b.generics.size() &&
           std::equal(a.generics.begin(), a.generics.end(), b.generics.begin(), [&](const Value& x, const Value& y) { return same_value(x, y); });
}

/// A function by its name, `relu` or `nn.relu`, as seen in the current scope. `none`: there is none, and nothing is reported.
Value Elaborator::named_function(std::string_view path, Span span) {
    Value none = poison(span);
    none.kind = Value::none;
    const size_t dot = path.find('.');
    const std::string_view first = path.substr(0, dot);
    const Module* here = module_here();
    if (dot == path.npos) {
        const bool prelude = here && std::ranges::any_of(here->prelude, [&](const auto& p) { return p->has(first); });
        if (!known(first) && !prelude) return none;
        const ast::Item* item = here ? here->find(first) : nullptr;
        return item && item->kind == ast::ItemKind::kernel ? none : lookup(first, span);
    }
    if (here)
        for (const Module::Import& import : here->imports)
            if (import.alias == first && import.module)
                if (const ast::Item* item = import.module->find(path.substr(dot + 1)); item && item->kind == ast::ItemKind::fn)
                    return item_value(*import.module, *item);
    return none;
}

/// What a choice stands for; `in`: where its names are looked up, unless it says. `none`: no function has that name, and nothing is reported.
Value Elaborator::chosen(const Choice& c, const std::shared_ptr<Scope>& in, Span span) {
    if (!c.is_function) {
        const std::string_view word = find_word(c.text);
        return word.empty() ? poison(span) : word_value(word, c.kind, span);
    }
    const std::shared_ptr<Scope> scope = c.scope ? module_scope(*c.scope) : in;
    if (c.expr) return constant(*c.expr, scope);
    const StaticMode mode(*this, scope);
    return named_function(c.text, span);
}

Value Elaborator::value_of(const StaticValue& v, const std::shared_ptr<Scope>& in, Span span) {
    if (const auto* i = std::get_if<__int128>(&v.v)) return integer_value(*i, span);
    if (const auto* d = std::get_if<double>(&v.v)) return real_value(*d, span);
    if (const auto* b = std::get_if<bool>(&v.v)) return constant_bool(*b, span);
    if (const auto* c = std::get_if<Choice>(&v.v)) return chosen(*c, in, span);
    TypeDesc t;
    t.kind = TypeDesc::scalar_format;
    t.elem = std::get<FormatId>(v.v);
    return type_value(t, span);
}

/// A word or function that has a name here as a choice; nullopt of anything else.
std::optional<Choice> Elaborator::choice_of(const Value& v) {
    Choice out;
    out.text = spelled(v);
    out.is_function = v.kind != Value::word;
    if (v.kind == Value::word) out.kind = v.t.trait_name;
    if (v.kind == Value::word || v.kind == Value::builtin || v.kind == Value::elementwise) return out;
    const bool plain = v.kind == Value::function && std::ranges::all_of(v.generics, [](const Value& g) { return g.kind == Value::none; });
    if (!plain || !v.fn) return std::nullopt;
    out.text = v.fn->name.text;
    if (const Module* here = module_here())
        for (const Module::Import& import : here->imports)
            if (import.module == v.home && v.home != here) out.text = std::string(import.alias) + "." + out.text;
    return out;
}

std::optional<Choice> Elaborator::choice(const Module& module, const ast::Expr& e, std::string_view bound, const HostResolver& resolver) {
    enter_host(module, resolver);
    if (const WordKind* kind = find_word_kind(bound)) {
        const Value v = word(e, *kind);
        return v.kind == Value::word ? choice_of(v) : std::nullopt;
    }
    Choice out;
    out.is_function = true;
    out.scope = &module;
    if (e.kind == ast::ExprKind::name || e.kind == ast::ExprKind::member || e.kind == ast::ExprKind::index) {
        if (const auto variable = resolver(e)) {
            if (variable->kind == HostOperand::unknown) return std::nullopt;
            const auto* c = variable->kind == HostOperand::constant ? std::get_if<Choice>(&variable->value.v) : nullptr;
            if (!c || !c->is_function) return error(Diag::trait_not_satisfied, e.span, "`" + source_text(e) + "`", "fn"), std::nullopt;
            out.text = c->text;
            return out;
        }
    }
    if (e.kind == ast::ExprKind::lambda) {
        const auto& lambda = ast::as<ast::LambdaExpr>(&e);
        for (const ast::Name& n : names_in(*lambda.body)) {
            if (std::ranges::any_of(lambda.params, [&](const ast::Name& p) { return p.text == n.text; }) || known(n.text)) continue;
            const ast::NameExpr name{{ast::ExprKind::name, n.span}, n.text};
            if (resolver(name)) {
                error(Diag::not_constant, n.span, "a lambda that a launch is given", "`" + std::string(n.text) + "`, a variable of the host");
                return std::nullopt;
            }
        }
    }
    const Value v = expr(e);
    if (v.kind == Value::poison) return std::nullopt;
    if (!is_callable(v)) return error(Diag::trait_not_satisfied, e.span, describe(v), "fn"), std::nullopt;
    out.text = source_text(e);
    if (e.kind != ast::ExprKind::name && e.kind != ast::ExprKind::member) out.expr = &e;
    return out;
}

std::optional<Choice> evaluate_choice(const Module& module, const ast::Expr& expr, std::string_view bound, const HostResolver& resolver,
                                      TypeTable& types, DiagSink& diags) {
    const Limits limits;
    Elaborator e(types, limits, diags);
    return e.choice(module, expr, bound, resolver);
}

}  // namespace tegula::sema
