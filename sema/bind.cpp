// bind_launch and bind_static: generics from given values, from the arguments, from `tune` and from defaults, in this order; extents from the
// arguments (bind_extents.cpp). Values live in one scope, so that every other extent, `where` and `grid` are ordinary compile-time expressions.
#include <algorithm>
#include <cmath>

#include "lang/evaluate.h"
#include "lang/print_text.h"
#include "sema/binder.h"
#include "sema/flow.h"
#include "sema/walk.h"
#include "sema/words.h"

namespace tegula::sema {

namespace {

constexpr size_t kMaxTuneCombinations = 4096;
constexpr size_t kMaxTuneCandidates = 256;  ///< that a chooser is asked about

}  // namespace

Binder::Binder(const Module& module, const ast::KernelItem& kernel, TypeTable& types, DiagSink& diags, Span at, TuneChooser* chooser,
               int64_t nominal_extent)
    : module_(module),
      kernel_(kernel),
      types_(types),
      diags_(diags),
      at_(at.valid() ? at : kernel.name.span),
      e_(types_, limits_, diags_),
      extent_names_(extent_names(module, kernel)),
      chooser_(chooser),
      nominal_extent_(nominal_extent) {
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

/// Why a clause has no value: the quotient that is left in it, or that it needs a run.
std::string Binder::why_unknown(const Value& v) {
    const ir::Function& fn = e_.ir().fn();
    std::vector<ir::ValueId> open{v.v};
    std::vector<bool> seen(fn.value_count());
    while (!open.empty()) {
        const ir::ValueId at = open.back();
        open.pop_back();
        const ir::Inst* def = fn.def(at);
        if (!def || seen[at.v]) continue;
        seen[at.v] = true;
        const std::span<const ir::ValueId> operands = fn.operands(*def);
        if (operands.size() == 2) {
            const auto a = scalar_constant(fn, operands[0]), b = scalar_constant(fn, operands[1]);
            const Undefined quotient = a && b ? undefined_quotient(def->op, fn.elem(operands[0]), *a, *b) : Undefined::no;
            if (quotient == Undefined::by_zero) return "is a division by zero";
            if (quotient == Undefined::overflow) return "divides " + std::to_string(static_cast<int64_t>(*a)) + " by -1, which does not fit";
        }
        open.insert(open.end(), operands.begin(), operands.end());
    }
    return "needs a run: a clause is a number of generics, extents and scalar parameters";
}

/// The value of an expression in `clause`, in the arithmetic of its types. Where it has none that is a problem of `param`, unless `clause` is null.
Value Binder::value(const ast::Expr& e, const char* clause, std::string_view param) {
    Value v = e_.clause(e, scope_);
    if (!holds_tile(v) || e_.folded_code(v)) return v;
    if (clause) {
        const std::string values = values_in(e);
        note(param,
             clause + source_text(e) + " " + (v.kind == Value::tile ? why_unknown(v) : "is no number") + (values.empty() ? "" : ": " + values));
    }
    return e_.poison(e.span);
}

/// A default or choice of a generic: a word where it takes words.
Value Binder::generic_value(const ast::GenericParam& p, const ast::Expr& e, const char* clause) {
    if (!p.bound || !find_word_kind(base_name(*p.bound))) return value(e, clause, p.name.text);
    return e_.generic_value(p, e, scope_);
}

/// An extent that names a tensor or pointer has no value at any launch.
void Binder::note_memory(const ast::Expr& e, std::string_view param) {
    for (const ast::Name& n : names_in(e))
        for (const ast::Param& p : kernel_.params)
            if (p.name.text == n.text && (tensor_form(*p.type) || base_name(*p.type) == "ptr"))
                return note(param, "its extent " + source_text(e) + " names `" + std::string(n.text) + "`, which lies in memory");
}

void Binder::define_index(std::string_view name, int64_t value, Span span) {
    define(*scope_, name, e_.typed(id_of(Fmt::i64), static_cast<uint64_t>(value), span));
}

/// As a host holds it; `e`: what it is the value of, for functions that have no name.
std::optional<StaticValue> Binder::static_of(const Value& v, const ast::Expr* e) {
    StaticValue out;
    const auto code = e_.folded_code(v);
    if (const auto i = e_.folded_int(v))
        out.v = static_cast<__int128>(*i);
    else if (code && e_.ir().fn().elem(v.v).is_bool())
        out.v = *code != 0;
    else if (code && !e_.ir().fn().elem(v.v).is_int())
        out.v = decode(e_.ir().fn().elem(v.v), *code);
    else if (v.kind == Value::real)
        out.v = v.r;
    else if (v.kind == Value::boolean)
        out.v = v.b;
    else if (v.kind == Value::type && v.t.kind == TypeDesc::scalar_format && !v.generic_item)
        out.v = v.t.elem;
    else if (auto choice = e_.choice_of(v))
        out.v = std::move(*choice);
    else if (e && is_callable(v))
        out.v = Choice{source_text(*e), true, {}, nullptr, e};
    else
        return std::nullopt;
    return out;
}

/// Gives a generic its value; a value that does not fit its bound is a problem.
bool Binder::set_generic(const ast::GenericParam& p, const StaticValue& given, std::string_view from) {
    StaticValue v = given;
    const std::string_view bound = bound_of(p);
    const auto* type = std::get_if<FormatId>(&v.v);
    bool ok = false;
    if (auto* choice = std::get_if<Choice>(&v.v); choice && (find_word_kind(bound) || bound == kFunctionBound)) {
        ok = set_choice(p, *choice);
        plan_.generics[std::string(p.name.text)] = v;
        return ok;
    }
    if (bound != "int" && is_trait(bound)) {
        TypeDesc t;
        t.kind = TypeDesc::scalar_format;
        if (type) t.elem = *type;
        ok = type && e_.satisfies(t, bound);
    } else if (bound == "int") {
        ok = std::holds_alternative<__int128>(v.v);
    } else if (const auto f = types_.builtin(bound)) {
        const Format& format = types_.format(*f);
        // Hosts without a bool of their own give 0 or 1.
        if (const auto* i = std::get_if<__int128>(&v.v); i && format.is_bool() && (*i == 0 || *i == 1)) v.v = *i == 1;
        ok = scalar_code(format, v) && (!format.is_int() || std::holds_alternative<__int128>(v.v));
        if (const auto* i = std::get_if<__int128>(&v.v); ok && i && !format.is_int()) v.v = static_cast<double>(*i);
    }
    if (!ok) {
        const WordKind* kind = find_word_kind(bound);
        const std::string wanted = bound == "int" ? "an integer constant" : bound == kFunctionBound ? "a function" : std::string(bound);
        note(p.name.text, "expected " + (kind ? "one of " + list_of(*kind) : wanted) + ", got " + to_string(v, types_) +
                              (from.empty() ? "" : " from `" + std::string(from) + "`"));
    }
    plan_.generics[std::string(p.name.text)] = v;
    define(*scope_, p.name.text, e_.value_of(v, scope_, p.name.span));
    return ok;
}

/// Gives a generic that takes words or functions its value, in canonical form.
bool Binder::set_choice(const ast::GenericParam& p, Choice& choice) {
    if (const WordKind* kind = find_word_kind(base_name(*p.bound))) {
        const std::vector<std::string_view> words(kind->words.begin(), kind->words.end());
        choice = Choice{choice.text, false, kind->name};
        if (std::ranges::find(words, choice.text) == words.end()) {
            const std::string_view near = closest(choice.text, words);
            note(p.name.text, "`" + choice.text + "` is no " + std::string(kind->title) + "; one of " + list_of(*kind) +
                                  (near.empty() ? "" : "; did you mean `" + std::string(near) + "`?"));
            define(*scope_, p.name.text, e_.poison(p.name.span));
            return false;
        }
        define(*scope_, p.name.text, e_.chosen(choice, scope_, p.name.span));
        return true;
    }
    if (choice.scope == &module_) choice.scope = nullptr;
    const Value f = choice.is_function ? e_.chosen(choice, scope_, p.name.span) : e_.poison(p.name.span);
    define(*scope_, p.name.text, is_callable(f) ? f : e_.poison(p.name.span));
    if (is_callable(f)) return true;
    if (f.kind == Value::poison && choice.is_function) return false;  // reported
    const Module& home = choice.scope ? *choice.scope : module_;
    std::vector<std::string_view> names;
    for (const std::string_view name : home.item_names())
        if (const ast::Item* item = home.find(name); item && item->kind == ast::ItemKind::fn) names.push_back(name);
    for (const BuiltinRow& row : builtin_rows()) names.push_back(row.name);
    std::vector<std::string> imported;
    for (const Module::Import& import : home.imports)
        for (const std::string_view name : import.module ? import.module->item_names() : std::vector<std::string_view>())
            if (import.module->find(name)->kind == ast::ItemKind::fn) imported.push_back(std::string(import.alias) + "." + std::string(name));
    names.insert(names.end(), imported.begin(), imported.end());
    const std::string_view near = closest(choice.text, names);
    note(p.name.text, "expected a function, an operation or a lambda, got `" + choice.text + "`" +
                          (near.empty() ? "" : "; did you mean `" + std::string(near) + "`?"));
    return false;
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
        std::vector<std::string_view> names = extent_names_;
        for (const ast::GenericParam& p : kernel_.generics) names.push_back(p.name.text);
        const std::string_view near = closest(name, names);
        note(name, "no such generic parameter" + (near.empty() ? std::string() : "; did you mean `" + std::string(near) + "`?"));
    }
}

void Binder::deduce_from(const ast::Param& p, const ArgumentType& a) {
    const ast::IndexExpr* form = tensor_form(*p.type);
    const auto bind_type = [&](const ast::Expr& e, FormatId elem) {
        const ast::GenericParam* g = e.kind == ast::ExprKind::name ? generic(ast::as<ast::NameExpr>(&e).name) : nullptr;
        if (g && elem.v != 0 && !plan_.generics.count(g->name.text)) set_generic(*g, StaticValue{elem}, p.name.text);
    };
    if (a.kind == ArgumentType::tensor && form) {
        const auto& args = ast::as<ast::InstantiateExpr>(form->base).args;
        const bool pointers = args.size() == 1 && args[0].value->kind == ast::ExprKind::instantiate && base_name(*args[0].value) == "ptr";
        const auto& inner = pointers ? ast::as<ast::InstantiateExpr>(args[0].value).args : args;
        if (inner.size() == 1) bind_type(*inner[0].value, pointers ? a.pointee : a.elem);
        bind_dims(p, *form, a);
    } else if (a.kind == ArgumentType::pointer && p.type->kind == ast::ExprKind::instantiate && base_name(*p.type) == "ptr") {
        const auto& args = ast::as<ast::InstantiateExpr>(p.type).args;
        if (args.size() == 1) bind_type(*args[0].value, a.elem);
    } else if (a.kind == ArgumentType::scalar && !form && p.type->kind == ast::ExprKind::name) {
        const ast::GenericParam* g = generic(ast::as<ast::NameExpr>(p.type).name);
        if (!g || plan_.generics.count(g->name.text)) return;
        const auto* i = std::get_if<__int128>(&a.value.v);
        const Fmt f = i ? (*i > INT64_MAX ? Fmt::u64 : Fmt::i64) : std::holds_alternative<bool>(a.value.v) ? Fmt::boolean : Fmt::f32;
        set_generic(*g, StaticValue{a.elem.v ? a.elem : id_of(f)}, p.name.text);
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
        const auto code = e_.folded_code(l->value);
        out += (out.empty() ? "" : ", ") + std::string(n.text) + " = " +
               (code ? number_text(e_.ir().fn().elem(l->value.v), *code) : e_.describe_plain(l->value));
    }
    return out;
}

/// Do all clauses that can be evaluated hold? nullopt when one is ill-formed (reported).
std::optional<bool> Binder::where_holds(bool report) {
    bool all = true;
    for (const ast::Expr* w : kernel_.where) {
        if (is_open(*w)) continue;
        const size_t errors = diags_.error_count();
        const Value v = value(*w, report ? "where " : nullptr);
        if (v.kind == Value::poison && diags_.error_count() == errors) {  // a quotient without a value
            all = false;
            continue;
        }
        const std::optional<bool> holds = e_.static_bool(v, w->span);
        if (!holds) return std::nullopt;
        if (!*holds && report) note({}, "where " + source_text(*w) + " does not hold" + (values_in(*w).empty() ? "" : ": " + values_in(*w)));
        all &= *holds;
    }
    return all;
}

bool Binder::is_tuned(const ast::GenericParam& p) const {
    return std::any_of(kernel_.tune.begin(), kernel_.tune.end(), [&](const auto& c) { return c.name.text == p.name.text; });
}

/// Defaults of generics that have no value and are not tuned, as far as they have one now.
void Binder::define_defaults() {
    for (const ast::GenericParam& p : kernel_.generics) {
        if (plan_.generics.count(p.name.text) || !p.default_value || is_tuned(p) || is_open(*p.default_value)) continue;
        const Value v = generic_value(p, *p.default_value, "default ");
        const auto known = static_of(v, p.default_value);
        define(*scope_, p.name.text, known ? e_.value_of(*known, scope_, p.name.span) : v);
    }
}

/// Tuned generics without a value, and their choices, which may name generics that are not tuned. nullopt when a list is ill-formed (reported).
std::optional<std::vector<Binder::Tuned>> Binder::open_choices(bool require) {
    std::vector<Tuned> open;
    define_defaults();
    for (const ast::TuneChoice& c : kernel_.tune) {
        const ast::GenericParam* p = generic(c.name.text);
        if (!p || plan_.generics.count(c.name.text) || c.values.empty()) continue;
        Tuned tuned{p, {}};
        // A choice may name what has no value yet, an extent where no launch is looked at: the others are left.
        const bool some = std::any_of(c.values.begin(), c.values.end(), [&](const ast::Expr* v) { return !is_open(*v); });
        if (!some && !require) continue;
        for (const ast::Expr* v : c.values) {
            if (some && is_open(*v)) continue;
            if (const auto s = static_of(generic_value(*p, *v, "tune: "), v)) tuned.values.push_back(*s);
        }
        if (tuned.values.empty()) return std::nullopt;
        open.push_back(std::move(tuned));
    }
    bool ok = true;  // of every choice, so that no machine takes a list that another one refuses
    for (const Tuned& t : open) {
        for (const StaticValue& v : t.values) ok &= set_generic(*t.param, v, "tune");
        plan_.generics.erase(std::string(t.param->name.text));
    }
    if (!ok) return std::nullopt;
    return open;
}

/// Gives the tuned generics these of their choices, and defaults that `where` may mention the values that follow.
bool Binder::set_tuned(const std::vector<Tuned>& open, std::span<const size_t> pick) {
    for (size_t i = 0; i < open.size(); ++i)
        if (!set_generic(*open[i].param, open[i].values[pick[i]], "tune")) return false;
    define_defaults();
    return true;
}

/// What the tuned values in scope make of the launch.
TuneCandidate Binder::candidate(const std::vector<Tuned>& open) {
    TuneCandidate out;
    out.generics = plan_.generics;
    for (const ast::GenericParam& p : kernel_.generics) {
        const Local* l = scope_->find(p.name.text);
        if (const auto v = l ? static_of(l->value) : std::nullopt) out.generics.emplace(p.name.text, *v);
    }
    for (const Tuned& t : open) out.chosen.emplace(t.param->name.text, out.generics.find(t.param->name.text)->second);
    const std::shared_ptr<Scope> outer = scope_;
    scope_ = make_scope(outer);
    for (const auto& [name, value] : plan_.extents) define_index(name, value);
    for (size_t i = 0; i < kernel_.grid.size() && i < 3; ++i) {
        const std::vector<ast::Name> names = names_in(*kernel_.grid[i]);
        const auto unknown = [&](const ast::Name& n) {
            return std::any_of(kernel_.params.begin(), kernel_.params.end(), [&](const auto& p) { return p.name.text == n.text; }) &&
                   !scope_->find(n.text);
        };
        if (std::any_of(names.begin(), names.end(), unknown)) continue;
        const auto n = e_.folded_int(value(*kernel_.grid[i], nullptr));
        if (n && *n >= 0 && *n <= INT64_MAX) out.grid[i] = static_cast<uint64_t>(*n);
    }
    scope_ = outer;
    return out;
}

/// Types, functions and words change results, but for what is asked of caches: only the order of a list chooses among them.
bool same_types(const StaticValues& a, const StaticValues& b) {
    return std::all_of(a.begin(), a.end(), [&](const auto& v) {
        const auto* choice = std::get_if<Choice>(&v.second.v);
        const WordKind* words = choice ? find_word_kind(choice->kind) : nullptr;
        const bool changes = choice ? !words || words->of == WordKind::arguments : std::holds_alternative<FormatId>(v.second.v);
        return !changes || v.second == b.find(v.first)->second;
    });
}

/// Sets every tuned generic that has no value: to the first choices for which the `where` clauses hold together, or those that the chooser takes.
bool Binder::tune(bool require) {
    const auto open = open_choices(require);
    if (!open) return false;
    if (open->empty()) return true;
    if (const auto known = chooser_ && require ? chooser_->known(plan_) : std::nullopt) {
        for (const Tuned& t : *open)
            if (const auto it = known->find(t.param->name.text); it != known->end()) set_generic(*t.param, it->second, "tune");
        return true;
    }
    std::vector<TuneCandidate> candidates;
    std::vector<std::vector<size_t>> picks;
    std::vector<size_t> pick(open->size(), 0);
    bool all = false;
    for (size_t n = 0; n < kMaxTuneCombinations && candidates.size() < kMaxTuneCandidates; ++n) {
        if (!set_tuned(*open, pick)) return false;
        const std::optional<bool> holds = where_holds(false);
        if (!holds) return false;
        if (*holds && (!chooser_ || !require)) return true;
        if (*holds) {
            TuneCandidate c = candidate(*open);
            if (candidates.empty() || same_types(candidates[0].chosen, c.chosen)) {
                candidates.push_back(std::move(c));
                picks.push_back(pick);
            }
        }
        for (const Tuned& t : *open) plan_.generics.erase(std::string(t.param->name.text));
        size_t i = open->size();
        while (i > 0 && ++pick[i - 1] == (*open)[i - 1].values.size()) pick[--i] = 0;
        all = i == 0;
        if (all) break;
    }
    if (!candidates.empty()) {
        const size_t chosen = candidates.size() == 1 ? 0 : chooser_->choose(candidates, plan_);
        TEGULA_CHECK(chosen < picks.size());
        return set_tuned(*open, picks[chosen]);
    }
    if (require)
        note({}, all ? "no choice of `tune` satisfies the where clauses"
                     : "none of the first " + std::to_string(kMaxTuneCombinations) + " combinations of `tune` satisfies the where clauses");
    pick.assign(open->size(), 0);
    return set_tuned(*open, pick) && !require;
}

bool Binder::complete_generics(bool require, bool representatives) {
    bool ok = true;
    for (const ast::GenericParam& p : kernel_.generics) {
        if (!representatives || plan_.generics.count(p.name.text) || p.default_value || is_tuned(p)) continue;
        const std::string_view bound = bound_of(p);
        if (const WordKind* kind = find_word_kind(bound)) ok &= set_generic(p, StaticValue{Choice{std::string(kind->words.front()), false, {}}}, {});
        if (bound == "int" || !is_trait(bound)) continue;
        const Fmt f = bound == "sint" || bound == "integer" ? Fmt::i32 : bound == "uint" ? Fmt::u32 : Fmt::f32;
        ok &= set_generic(p, StaticValue{id_of(f)}, {});
    }
    ok &= tune(require);
    for (const ast::GenericParam& p : kernel_.generics) {
        if (plan_.generics.count(p.name.text)) continue;
        if (p.default_value) {
            const auto v = static_of(generic_value(p, *p.default_value, "default "), p.default_value);
            ok &= v && set_generic(p, *v, {});
        } else if (require) {
            note(p.name.text, "this generic parameter has no default and cannot be deduced from the arguments");
            ok = false;
        }
    }
    return ok;
}

std::optional<StaticValues> Binder::statics(const StaticValues& given, bool require) {
    const size_t errors = diags_.error_count();
    StaticValues generics = given;
    take_extents(generics);  // of the launch that `tune` shall choose for
    for (const std::string_view name : extent_names_)
        if (chooser_ || nominal_extent_ > 1) plan_.extents.emplace(name, nominal_extent_);
    take_given(generics);
    complete_generics(require, true);
    for (const ast::TuneChoice& c : kernel_.dispatch) {
        const std::string key = "dispatch." + std::string(c.name.text);
        if (plan_.generics.count(key) || c.values.empty()) continue;
        if (const auto v = static_of(value(*c.values.back(), "dispatch: "))) plan_.generics[key] = *v;
    }
    if (require && problems_.empty()) where_holds(true);
    if (!problems_.empty()) {
        Diagnostic& d = diags_.report(Diag::bad_setting, at_, {std::string(kernel_.name.text)});
        d.notes.insert(d.notes.end(), problems_.begin(), problems_.end());
    }
    if (diags_.error_count() != errors) return std::nullopt;
    return plan_.generics;
}

std::optional<LaunchPlan> Binder::nominal(const StaticValues& given) {
    if (!statics(given, true)) return std::nullopt;
    const TuneCandidate whole = candidate({});
    std::copy(std::begin(whole.grid), std::end(whole.grid), plan_.grid);
    return plan_;
}

std::optional<LaunchPlan> bind_launch(const Module& module, const ast::KernelItem& kernel, const StaticValues& given,
                                      std::span<const ArgumentType> arguments, TypeTable& types, DiagSink& diags, Span at, TuneChooser* chooser) {
    return Binder(module, kernel, types, diags, at, chooser).launch(given, arguments);
}

std::optional<StaticValues> bind_static(const Module& module, const ast::KernelItem& kernel, const StaticValues& given, TypeTable& types,
                                        DiagSink& diags, bool require, TuneChooser* chooser, int64_t nominal_extent) {
    return Binder(module, kernel, types, diags, {}, chooser, nominal_extent).statics(given, require);
}

std::optional<LaunchPlan> nominal_launch(const Module& module, const ast::KernelItem& kernel, const StaticValues& given, TypeTable& types,
                                         DiagSink& diags, int64_t nominal_extent) {
    return Binder(module, kernel, types, diags, {}, nullptr, nominal_extent).nominal(given);
}

}  // namespace tegula::sema
