// bind_launch and bind_static: generics from given values, from the arguments, from `tune` and from defaults, in this order; extents from the
// first tensor dimension that is just their name. Values live in one scope, so that every other extent, `where` and `grid` are ordinary
// compile-time expressions.
#include <algorithm>
#include <cmath>

#include "sema/binder.h"
#include "sema/flow.h"
#include "sema/walk.h"

namespace tegula::sema {

namespace {

constexpr size_t kMaxTuneCombinations = 4096;

}  // namespace

Binder::Binder(const Module& module, const ast::KernelItem& kernel, TypeTable& types, DiagSink& diags, Span at)
    : module_(module),
      kernel_(kernel),
      types_(types),
      diags_(diags),
      at_(at.valid() ? at : kernel.name.span),
      e_(types_, limits_, diags_),
      extent_names_(extent_names(module, kernel)) {
    scope_ = make_scope(e_.module_scope(module));
    e_.scope_ = scope_;
}

void Binder::note(std::string_view param, const std::string& text) {
    problems_.push_back(param.empty() ? text : "`" + std::string(param) + "`: " + text);
}

const ast::GenericParam* Binder::generic(std::string_view name) const {
    const auto it = std::find_if(kernel_.generics.begin(), kernel_.generics.end(), [&](const auto& p) { return p.name.text == name; });
    return it == kernel_.generics.end() ? nullptr : &*it;
}

Value Binder::value_of(const StaticValue& v) {
    if (const auto* i = std::get_if<int64_t>(&v.v)) return integer_value(*i);
    if (const auto* d = std::get_if<double>(&v.v)) return real_value(*d);
    if (const auto* b = std::get_if<bool>(&v.v)) return flag_value(*b);
    TypeDesc t;
    t.kind = TypeDesc::scalar_format;
    t.elem = std::get<FormatId>(v.v);
    return e_.type_value(t, {});
}

std::optional<StaticValue> Binder::static_of(const Value& v) {
    StaticValue out;
    if (v.kind == Value::integer && v.i >= INT64_MIN && v.i <= INT64_MAX)
        out.v = static_cast<int64_t>(v.i);
    else if (v.kind == Value::real)
        out.v = v.r;
    else if (v.kind == Value::boolean)
        out.v = v.b;
    else if (v.kind == Value::type && v.t.kind == TypeDesc::scalar_format && !v.generic_item)
        out.v = v.t.elem;
    else
        return std::nullopt;
    return out;
}

/// Gives a generic its value; a value that does not fit its bound is a problem.
bool Binder::set_generic(const ast::GenericParam& p, const StaticValue& given, std::string_view from) {
    StaticValue v = given;
    const std::string_view bound = p.bound ? base_name(*p.bound) : std::string_view("any");
    const auto* type = std::get_if<FormatId>(&v.v);
    bool ok = false;
    if (bound != "int" && is_trait(bound)) {
        TypeDesc t;
        t.kind = TypeDesc::scalar_format;
        if (type) t.elem = *type;
        ok = type && e_.satisfies(t, bound);
    } else if (bound == "int") {
        if (const auto* b = std::get_if<bool>(&v.v)) v.v = static_cast<int64_t>(*b);
        ok = std::holds_alternative<int64_t>(v.v);
    } else if (const auto f = types_.builtin(bound)) {
        const Format& format = types_.format(*f);
        if (format.is_float() && std::holds_alternative<int64_t>(v.v)) v.v = static_cast<double>(std::get<int64_t>(v.v));
        // Hosts without a bool of their own give 0 or 1.
        if (const auto* i = std::get_if<int64_t>(&v.v); i && format.is_bool() && (*i == 0 || *i == 1)) v.v = *i == 1;
        ok = format.is_bool()  ? std::holds_alternative<bool>(v.v)
             : format.is_int() ? std::holds_alternative<int64_t>(v.v)
                               : std::holds_alternative<double>(v.v);
    }
    if (!ok) {
        note(p.name.text, "expected " + std::string(bound == "int" ? "an integer constant" : bound) + ", got " + to_string(v, types_) +
                              (from.empty() ? "" : " from `" + std::string(from) + "`"));
    }
    plan_.generics[std::string(p.name.text)] = v;
    define(*scope_, p.name.text, value_of(v));
    return ok;
}

void Binder::take_given(const StaticValues& given) {
    for (const auto& [name, value] : given) {
        const std::string_view view = name;
        if (view.substr(0, 9) == "dispatch.") {
            plan_.generics[name] = value;
            continue;
        }
        if (const ast::GenericParam* p = generic(name)) {
            set_generic(*p, value, {});
            continue;
        }
        std::vector<std::string_view> names;
        for (const ast::GenericParam& p : kernel_.generics) names.push_back(p.name.text);
        const std::string_view near = closest(name, names);
        note(name, "no such generic parameter" + (near.empty() ? std::string() : "; did you mean `" + std::string(near) + "`?"));
    }
}

void Binder::bind_dims(const ast::Param& p, const ast::IndexExpr& form, const ArgumentType& a) {
    if (form.items.size() != a.extents.rank) return;
    for (size_t d = 0; d < form.items.size(); ++d) {
        const ast::IndexItem& item = form.items[d];
        if (item.kind != ast::IndexItem::value || item.start->kind != ast::ExprKind::name) continue;
        const std::string_view name = ast::as<ast::NameExpr>(item.start).name;
        if (const ast::GenericParam* g = generic(name); g && !plan_.generics.count(name)) {
            set_generic(*g, StaticValue{a.extents[d]}, p.name.text);
        } else if (std::find(extent_names_.begin(), extent_names_.end(), name) != extent_names_.end() && !plan_.extents.count(name)) {
            plan_.extents[std::string(name)] = a.extents[d];
            extent_from_[name] = p.name.text;
            define(*scope_, name, integer_value(a.extents[d], item.span));
        }
    }
}

void Binder::deduce_from(const ast::Param& p, const ArgumentType& a) {
    const ast::IndexExpr* form = tensor_form(*p.type);
    const auto bind_type = [&](const ast::Expr& e) {
        const ast::GenericParam* g = e.kind == ast::ExprKind::name ? generic(ast::as<ast::NameExpr>(&e).name) : nullptr;
        if (g && a.elem.v != 0 && !plan_.generics.count(g->name.text)) set_generic(*g, StaticValue{a.elem}, p.name.text);
    };
    if (a.kind == ArgumentType::tensor && form) {
        const auto& args = ast::as<ast::InstantiateExpr>(form->base).args;
        if (args.size() == 1) bind_type(*args[0].value);
        bind_dims(p, *form, a);
    } else if (a.kind == ArgumentType::pointer && p.type->kind == ast::ExprKind::instantiate && base_name(*p.type) == "ptr") {
        const auto& args = ast::as<ast::InstantiateExpr>(p.type).args;
        if (args.size() == 1) bind_type(*args[0].value);
    } else if (a.kind == ArgumentType::scalar && !form && p.type->kind == ast::ExprKind::name) {
        const ast::GenericParam* g = generic(ast::as<ast::NameExpr>(p.type).name);
        if (!g || plan_.generics.count(g->name.text)) return;
        const Fmt f = std::holds_alternative<int64_t>(a.value.v) ? Fmt::i64 : std::holds_alternative<bool>(a.value.v) ? Fmt::boolean : Fmt::f32;
        set_generic(*g, StaticValue{id_of(f)}, p.name.text);
    }
}

bool Binder::is_open(const ast::Expr& e) {
    for (const ast::Name& n : names_in(e)) {
        const auto same = [&](const auto& p) { return p.name.text == n.text; };
        const bool named = std::find(extent_names_.begin(), extent_names_.end(), n.text) != extent_names_.end() ||
                           std::any_of(kernel_.params.begin(), kernel_.params.end(), same) ||
                           std::any_of(kernel_.generics.begin(), kernel_.generics.end(), same);
        if (named && !scope_->find(n.text)) return true;
    }
    return false;
}

std::string Binder::values_in(const ast::Expr& e) {
    std::string out;
    std::vector<std::string_view> seen;
    for (const ast::Name& n : names_in(e)) {
        const Local* l = scope_->find(n.text);
        if (!l || std::find(seen.begin(), seen.end(), n.text) != seen.end()) continue;
        seen.push_back(n.text);
        out += (out.empty() ? "" : ", ") + std::string(n.text) + " = " + e_.describe_plain(l->value);
    }
    return out;
}

/// Do all clauses that can be evaluated hold? nullopt when one is ill-formed (reported).
std::optional<bool> Binder::where_holds(bool report) {
    bool all = true;
    for (const ast::Expr* w : kernel_.where) {
        if (is_open(*w)) continue;
        const std::optional<bool> holds = e_.static_bool(e_.constant(*w, scope_), w->span);
        if (!holds) return std::nullopt;
        if (!*holds && report) note({}, "where " + source_text(*w) + " does not hold: " + values_in(*w));
        all &= *holds;
    }
    return all;
}

/// Sets every tuned generic that has no value to its first choice for which the `where` clauses hold together.
bool Binder::tune(bool require) {
    std::vector<std::pair<const ast::GenericParam*, std::vector<StaticValue>>> open;
    for (const ast::TuneChoice& c : kernel_.tune) {
        const ast::GenericParam* p = generic(c.name.text);
        if (!p || plan_.generics.count(c.name.text) || c.values.empty()) continue;
        std::vector<StaticValue> values;
        for (const ast::Expr* v : c.values)
            if (const auto s = static_of(e_.constant(*v, scope_))) values.push_back(*s);
        if (values.empty()) return false;
        open.push_back({p, std::move(values)});
    }
    if (open.empty()) return true;
    std::vector<size_t> pick(open.size(), 0);
    for (size_t n = 0; n < kMaxTuneCombinations; ++n) {
        for (size_t i = 0; i < open.size(); ++i) {
            if (!set_generic(*open[i].first, open[i].second[pick[i]], "tune")) return false;
        }
        for (const ast::GenericParam& p : kernel_.generics) {  // defaults that `where` may mention
            if (plan_.generics.count(p.name.text) || !p.default_value || is_open(*p.default_value)) continue;
            define(*scope_, p.name.text, e_.constant(*p.default_value, scope_));
        }
        const std::optional<bool> holds = where_holds(false);
        if (!holds) return false;
        if (*holds) return true;
        size_t i = open.size();
        while (i > 0 && ++pick[i - 1] == open[i - 1].second.size()) pick[--i] = 0;
        if (i == 0) break;
    }
    if (require) note({}, "no choice of `tune` satisfies the where clauses");
    return !require;
}

bool Binder::complete_generics(bool require, bool representatives) {
    bool ok = tune(require);
    for (const ast::GenericParam& p : kernel_.generics) {
        if (plan_.generics.count(p.name.text)) continue;
        if (p.default_value) {
            const auto v = static_of(e_.constant(*p.default_value, scope_));
            ok &= v && set_generic(p, *v, {});
            continue;
        }
        const std::string_view bound = p.bound ? base_name(*p.bound) : std::string_view("any");
        if (representatives && bound != "int" && is_trait(bound)) {
            const Fmt f = bound == "sint" || bound == "integer" ? Fmt::i32 : bound == "uint" ? Fmt::u32 : Fmt::f32;
            ok &= set_generic(p, StaticValue{id_of(f)}, {});
        } else if (require) {
            note(p.name.text, "this generic parameter has no default and cannot be deduced from the arguments");
            ok = false;
        }
    }
    return ok;
}

std::optional<StaticValues> Binder::statics(const StaticValues& given, bool require) {
    const size_t errors = diags_.error_count();
    take_given(given);
    complete_generics(require, true);
    for (const ast::TuneChoice& c : kernel_.dispatch) {
        const std::string key = "dispatch." + std::string(c.name.text);
        if (plan_.generics.count(key) || c.values.empty()) continue;
        if (const auto v = static_of(e_.constant(*c.values.back(), scope_))) plan_.generics[key] = *v;
    }
    if (require && problems_.empty()) where_holds(true);
    if (!problems_.empty()) {
        Diagnostic& d = diags_.report(Diag::bad_setting, at_, {std::string(kernel_.name.text)});
        d.notes.insert(d.notes.end(), problems_.begin(), problems_.end());
    }
    if (diags_.error_count() != errors) return std::nullopt;
    return plan_.generics;
}

std::optional<LaunchPlan> bind_launch(const Module& module, const ast::KernelItem& kernel, const StaticValues& given,
                                      std::span<const ArgumentType> arguments, TypeTable& types, DiagSink& diags, Span at) {
    return Binder(module, kernel, types, diags, at).launch(given, arguments);
}

std::optional<StaticValues> bind_static(const Module& module, const ast::KernelItem& kernel, const StaticValues& given, TypeTable& types,
                                        DiagSink& diags, bool require) {
    return Binder(module, kernel, types, diags, {}).statics(given, require);
}

}  // namespace tegula::sema
