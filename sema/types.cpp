// Type expressions: names, traits, tile/tensor/ptr forms, generic `type` and `struct` items and how `<..>` fills their parameters. Number
// format constructors are in formats.cpp, layouts in layouts.cpp.
#include <algorithm>
#include <atomic>

#include "sema/elaborate.h"
#include "sema/flow.h"
#include "sema/suggest.h"
#include "sema/type_names.h"
#include "sema/walk.h"
#include "sema/words.h"

namespace tegula::sema {

namespace {

constexpr std::string_view kTraits[] = {"int", "sint", "uint", "integer", "float", "number", "any"};
constexpr std::string_view kConstructors[] = {"tile", "tensor", "ptr", "float", "fixed", "ufixed", "lns", "codebook", "block"};
constexpr uint64_t kInstantiationSteps = 256;

template <size_t N>
bool one_of(const std::string_view (&words)[N], std::string_view name) {
    return std::find(std::begin(words), std::end(words), name) != std::end(words);
}

}  // namespace

bool is_trait(std::string_view name) { return one_of(kTraits, name); }
Module::Module()
    : serial([] {
          static std::atomic<uint64_t> next{0};
          return ++next;
      }()) {}

bool is_type_constructor(std::string_view name) { return one_of(kConstructors, name); }

std::vector<std::string_view> type_names() {
    static const std::vector<Format> formats = builtin_formats();
    std::vector<std::string_view> names;
    for (const Format& f : formats)
        if (!f.name.empty()) names.push_back(f.name);
    names.insert(names.end(), std::begin(kConstructors), std::end(kConstructors));
    names.insert(names.end(), std::begin(kTraits), std::end(kTraits));
    return names;
}

std::string to_string(const StaticValue& value, const TypeTable& types) {
    if (const auto* i = std::get_if<__int128>(&value.v)) return int_text(*i);
    if (const auto* d = std::get_if<double>(&value.v)) return real_text(*d);
    if (const auto* b = std::get_if<bool>(&value.v)) return *b ? "true" : "false";
    if (const auto* c = std::get_if<Choice>(&value.v)) return c->text;
    return types.format(std::get<FormatId>(value.v)).name;
}

Value Elaborator::type_value(TypeDesc t, Span span) {
    Value v;
    v.kind = Value::type;
    v.t = std::move(t);
    v.span = span;
    return v;
}

std::string Elaborator::describe_plain(const Value& v) {
    switch (v.kind) {
        case Value::integer:
            return int_text(v.i);
        case Value::real:
            return real_text(v.r);
        case Value::boolean:
            return v.b ? "true" : "false";
        case Value::type:
            return describe(v.t);
        case Value::word:
            return std::string(v.s);
        case Value::function:
            return std::string(v.fn ? v.fn->name.text : "");
        default:
            return describe(v);
    }
}

Value Elaborator::named_type(std::string_view name, Span span, bool report) {
    TypeDesc t;
    if (is_trait(name)) {
        t.kind = TypeDesc::trait;
        t.trait_name = *std::find(std::begin(kTraits), std::end(kTraits), name);
        return type_value(t, span);
    }
    if (const std::optional<FormatId> f = types_.builtin(name)) {
        t.kind = TypeDesc::scalar_format;
        t.elem = *f;
        return type_value(t, span);
    }
    return report ? unknown(name, span) : poison(span);
}

bool Elaborator::satisfies(const TypeDesc& type, std::string_view trait) {
    if (trait == "any") return true;
    if (type.kind != TypeDesc::scalar_format) return false;
    const Format& f = types_.format(type.elem);
    if (trait == "float") return f.is_float();
    if (trait == "integer" || trait == "int") return f.is_int();
    if (trait == "sint") return f.is_int() && f.is_signed;
    if (trait == "uint") return f.is_int() && !f.is_signed;
    return !f.is_bool();
}

/// Does a value fit the bound of a generic parameter? No bound: any type.
bool Elaborator::check_generic(const ast::GenericParam& p, Value& v, Span span) {
    if (v.kind == Value::poison) return false;
    const std::string_view bound = bound_of(p);
    const auto refuse = [&](const char* what) {
        Diagnostic& d = diags_.report(Diag::trait_not_satisfied, v.span.valid() ? v.span : span, {describe(v), std::string(bound)});
        d.notes.push_back("`" + std::string(p.name.text) + ": " + std::string(bound) + "` takes " + what);
        return false;
    };
    if (bound == "int") return v.kind == Value::integer || refuse("an integer constant");
    if (const WordKind* kind = find_word_kind(bound)) {
        v = as_word(v, *kind, v.span.valid() ? v.span : span);
        return v.kind != Value::poison;
    }
    if (bound == kFunctionBound) return is_callable(v) || refuse("a function, an operation or a lambda");
    if (is_trait(bound)) {
        const bool ok = (v.kind == Value::type && satisfies(v.t, bound)) || (bound == "any" && v.kind != Value::unit);
        return ok || refuse("types of that kind");
    }
    const std::optional<FormatId> f = types_.builtin(bound);
    if (f && types_.format(*f).is_bool()) return v.kind == Value::boolean || refuse("a bool constant");
    if (f && types_.format(*f).is_int()) return v.kind == Value::integer || refuse("an integer constant");
    if (f) return v.is_static_number() || refuse("a number constant");
    error(Diag::trait_not_satisfied, p.bound->span, "`" + source_text(*p.bound) + "`", "a trait");
    return false;
}

std::optional<TypeDesc> Elaborator::type_desc(const ast::Expr& e) {
    if (std::optional<Value> v = type_form(e)) return type_desc(*v, e.span);
    // `any` is a reduction where a value stands, the widest trait where a type stands.
    if (const std::string_view name = base_name(e); e.kind == ast::ExprKind::name && (find_word_kind(name) || name == kFunctionBound)) {
        // So do kinds of words, some of which are also the names of operations.
        if (const WordKind* kind = find_word_kind(name); !scope_->find(name) && !(module_here() && module_here()->find(name))) {
            TypeDesc t;
            t.kind = TypeDesc::trait;
            t.trait_name = kind ? kind->name : kFunctionBound;
            return t;
        }
    }
    if (e.kind == ast::ExprKind::name && ast::as<ast::NameExpr>(&e).name == "any") return type_desc(named_type("any", e.span, true), e.span);
    return type_desc(expr(e), e.span);
}

std::optional<TypeDesc> Elaborator::type_desc(const Value& v, Span span) {
    if (v.kind == Value::poison) return std::nullopt;
    if (v.kind == Value::type && v.generic_item && v.home) {
        const Value complete = instantiate_item(*v.home, *v.generic_item, {}, span);
        if (!complete.generic_item) return type_desc(complete, span);
        const ast::Item& item = *v.generic_item;
        const Generics params = item.kind == ast::ItemKind::struct_ ? static_cast<const ast::StructItem&>(item).generics
                                                                    : static_cast<const ast::TypeItem&>(item).generics;
        for (const ast::GenericParam& p : params) {
            if (p.default_value) continue;
            error(Diag::missing_generic, span, item.name.text, p.name.text);
            break;
        }
        return std::nullopt;
    }
    if (v.kind == Value::type) return v.t;
    if (v.kind == Value::builtin && v.s == "any") return TypeDesc{};  // the trait shares its name with the reduction
    if (v.kind != Value::tuple) {
        error(Diag::not_a_type, span, describe(v));
        return std::nullopt;
    }
    TypeDesc t;
    t.kind = TypeDesc::tuple;
    for (const Value& item : v.items) {
        std::optional<TypeDesc> part = type_desc(item, item.span.valid() ? item.span : span);
        if (!part) return std::nullopt;
        t.items.push_back(std::move(*part));
    }
    return t;
}

std::optional<FormatId> Elaborator::format_arg(const Call& call, size_t i, std::optional<FormatId> fallback) {
    if (i >= call.generics.size() || call.generics[i].kind == Value::none) {
        if (!fallback) error(Diag::no_bit_width, call.span, "this call", "none");
        return fallback;
    }
    const std::optional<TypeDesc> t = type_desc(call.generics[i], call.generics[i].span.valid() ? call.generics[i].span : call.span);
    if (!t) return std::nullopt;
    if (t->kind == TypeDesc::scalar_format) return t->elem;
    const Span at = call.generics[i].span.valid() ? call.generics[i].span : call.span;
    Diagnostic& d = diags_.report(Diag::not_a_type, at, {"`" + describe(*t) + "`, which is no number format"});
    if (t->kind == TypeDesc::trait) suggest_type(d, t->trait_name, at);
    return std::nullopt;
}

std::optional<Value> Elaborator::type_form(const ast::Expr& e) {
    if (e.kind == ast::ExprKind::annotated) {
        const auto& a = ast::as<ast::AnnotatedExpr>(&e);
        if (a.base->kind != ast::ExprKind::index) return std::nullopt;
        std::optional<Value> v = type_form(*a.base);
        if (!v || v->kind != Value::type) return v;
        if (v->t.kind != TypeDesc::tensor) {
            check_tile_annotation(*a.layout);
            return v;
        }
        const auto& form = ast::as<ast::IndexExpr>(a.base);
        const auto id = tensor_layout(*a.layout, v->t.elem, static_cast<int>(form.items.size()), form);
        if (!id) return poison(e.span);
        v->t.layout = *id;
        return v;
    }
    if (e.kind != ast::ExprKind::index) return std::nullopt;
    const auto& index = ast::as<ast::IndexExpr>(&e);
    if (index.base->kind != ast::ExprKind::instantiate) return std::nullopt;
    const auto& form = ast::as<ast::InstantiateExpr>(index.base);
    const std::string_view name = base_name(form);
    if (form.base->kind != ast::ExprKind::name || (name != "tile" && name != "tensor" && name != "codebook") || scope_->find(name))
        return std::nullopt;
    if (name == "codebook") return codebook(form, &index);
    if (form.args.size() != 1) return error(Diag::wrong_argument_count, e.span, name, "1 element type", std::to_string(form.args.size()));
    const std::optional<TypeDesc> elem = type_desc(*form.args[0].value);
    if (!elem) return poison(e.span);
    const bool pointers = name == "tensor" && elem->kind == TypeDesc::pointer;
    if (elem->kind != TypeDesc::scalar_format && !pointers) {
        const ast::Expr& given = *form.args[0].value;
        suggest_use(diags_.report(Diag::not_a_type, given.span, {"`" + describe(*elem) + "`, which is no number format"}), module_here(), given);
        return poison(e.span);
    }
    TypeDesc t;
    t.elem = pointers ? id_of(Fmt::u64) : elem->elem;
    if (pointers) t.pointee = elem->elem;
    for (const ast::IndexItem& item : index.items)
        if (item.kind != ast::IndexItem::value) return error(Diag::bad_shape, item.span, "an extent of a type is one expression");
    if (index.items.size() > kMaxRank) return error(Diag::bad_shape, e.span, "at most 8 dimensions, here are " + std::to_string(index.items.size()));
    if (name == "tensor") {
        t.kind = TypeDesc::tensor;
        return type_value(t, e.span);
    }
    Value dims;
    dims.kind = Value::list;
    for (const ast::IndexItem& item : index.items) {
        dims.items.push_back(constant(*item.start, scope_));
        dims.items.back().span = item.span;
        if (dims.items.back().kind == Value::poison) return poison(e.span);
    }
    const std::optional<Shape> shape = static_shape(dims, e.span);
    if (!shape) return poison(e.span);
    t.kind = TypeDesc::tile;
    t.shape = *shape;
    return type_value(t, e.span);
}

/// Explicit arguments in order of the parameters, kind `none` where not given.
std::optional<std::vector<Value>> Elaborator::generic_values(std::string_view owner, Generics params, std::span<const ast::Arg> args, Span) {
    Value open;
    open.kind = Value::none;
    std::vector<Value> out(params.size(), open);
    bool ok = true;
    for (size_t i = 0; i < args.size(); ++i) {
        size_t at = i;
        const std::string_view name = args[i].name.text;
        if (!name.empty()) {
            at = static_cast<size_t>(std::find_if(params.begin(), params.end(), [&](const auto& p) { return p.name.text == name; }) - params.begin());
        }
        const bool fits = at < params.size() && out[at].kind == Value::none;
        Value v = at < params.size() ? generic_value(params[at], *args[i].value, scope_) : constant(*args[i].value, scope_);
        if (!fits) error(Diag::unexpected_generic, args[i].value->span, owner, name.empty() ? source_text(*args[i].value) : std::string(name));
        ok &= fits && v.kind != Value::poison;
        if (fits) {
            v.span = args[i].value->span;
            out[at] = std::move(v);
        }
    }
    if (!ok) return std::nullopt;
    return out;
}

/// A scope of `module` with all generic parameters bound: given values, else defaults; null after a report.
std::shared_ptr<Scope> Elaborator::generic_scope(std::string_view owner, Generics params, const std::vector<Value>& values, const Module& module,
                                                 Span span) {
    auto scope = make_scope(module_scope(module));
    bool ok = true;
    for (size_t i = 0; i < params.size(); ++i) {
        const ast::GenericParam& p = params[i];
        Value v;
        if (i < values.size() && values[i].kind != Value::none) {
            v = values[i];
        } else if (p.default_value) {
            v = generic_value(p, *p.default_value, scope);
        } else {
            v = error(Diag::missing_generic, span, owner, p.name.text);
        }
        ok &= check_generic(p, v, span);
        define(*scope, p.name.text, v);
    }
    return ok ? scope : nullptr;
}

Value Elaborator::instantiate_item(const Module& module, const ast::Item& item, const std::vector<Value>& values, Span span) {
    if (too_deep(span) || !step(span, kInstantiationSteps)) return poison(span);
    if (item.kind == ast::ItemKind::layout) return layout_item(module, static_cast<const ast::LayoutItem&>(item), values, span);
    const bool is_struct = item.kind == ast::ItemKind::struct_;
    const Generics params = is_struct ? static_cast<const ast::StructItem&>(item).generics : static_cast<const ast::TypeItem&>(item).generics;
    const bool complete = std::all_of(params.begin(), params.end(), [](const ast::GenericParam& p) { return p.default_value != nullptr; });
    if (values.empty() && !complete) {
        Value open = type_value({}, span);
        open.generic_item = &item;
        open.home = &module;
        if (is_struct) {
            open.t.kind = TypeDesc::structure;
            open.t.decl = &static_cast<const ast::StructItem&>(item);
        }
        return open;
    }
    if (is_struct) return struct_type(module, static_cast<const ast::StructItem&>(item), values, span);
    const auto scope = generic_scope(item.name.text, params, values, module, span);
    if (!scope) return poison(span);
    const StaticMode mode(*this, scope);
    const std::optional<TypeDesc> t = type_desc(*static_cast<const ast::TypeItem&>(item).value);
    return t ? type_value(*t, span) : poison(span);
}

Value Elaborator::struct_type(const Module& module, const ast::StructItem& item, const std::vector<Value>& values, Span span) {
    const auto scope = generic_scope(item.name.text, item.generics, values, module, span);
    if (!scope) return poison(span);
    const StaticMode mode(*this, scope);
    auto fields = std::make_shared<std::vector<TypeDesc>>();
    for (const ast::Field& f : item.fields) {
        std::optional<TypeDesc> t = type_desc(*f.type);
        if (!t) return poison(span);
        fields->push_back(std::move(*t));
    }
    Value v = type_value({}, span);
    v.t.kind = TypeDesc::structure;
    v.t.decl = &item;
    v.t.fields = std::move(fields);
    v.home = &module;
    return v;
}

Value Elaborator::instantiate(const ast::InstantiateExpr& e) {
    if (e.base->kind == ast::ExprKind::name) {
        const std::string_view name = ast::as<ast::NameExpr>(e.base).name;
        const Scope* root = scope_.get();
        while (root->parent) root = root->parent.get();
        const bool own = scope_->find(name) || (root->module && root->module->find(name));
        if (is_type_constructor(name) && !own) return type_constructor(name, e);
    }
    Value v = expr(*e.base);
    switch (v.kind) {
        case Value::poison:
            return v;
        case Value::function: {
            auto values = generic_values(v.fn->name.text, v.fn->generics, e.args, e.span);
            if (!values) return poison(e.span);
            v.generics = std::move(*values);
            return v;
        }
        case Value::builtin:
        case Value::elementwise:
            for (const ast::Arg& a : e.args) v.generics.push_back(constant(*a.value, scope_));
            return v;
        case Value::type:
        case Value::layout:
            break;
        default:
            return error(Diag::unexpected_generic, e.span, source_text(*e.base), e.args.empty() ? "" : source_text(*e.args[0].value));
    }
    const ast::Item* item = v.generic_item ? v.generic_item : v.made_from ? v.made_from : v.t.decl;
    if (!item || !v.home) return error(Diag::unexpected_generic, e.span, source_text(*e.base), e.args.empty() ? "" : source_text(*e.args[0].value));
    const Generics params = item->kind == ast::ItemKind::layout    ? static_cast<const ast::LayoutItem*>(item)->generics
                            : item->kind == ast::ItemKind::struct_ ? static_cast<const ast::StructItem*>(item)->generics
                                                                   : static_cast<const ast::TypeItem*>(item)->generics;
    const auto values = generic_values(item->name.text, params, e.args, e.span);
    return values ? instantiate_item(*v.home, *item, *values, e.span) : poison(e.span);
}

}  // namespace tegula::sema
