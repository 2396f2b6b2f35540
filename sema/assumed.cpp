// Bodies that nothing calls or launches, checked under assumptions: what the caller chooses is assumed in several ways, and an error counts that
// every one of them has. What no assumption can stand for (a parameter without type, a generic that takes anything) is without meaning, and so is
// what is made of it.
#include <algorithm>

#include "sema/elaborate.h"
#include "sema/flow.h"
#include "sema/recovery.h"
#include "sema/walk.h"
#include "sema/words.h"

namespace tegula::sema {

/// What callers choose.
struct Assumption {
    size_t format;   ///< which of the formats of a trait
    Shape shape;     ///< of values whose declared type says nothing of it
    int64_t number;  ///< of integer constants and extents
};

namespace {

constexpr size_t kFormats = 3;
struct TraitFormats {
    std::string_view trait;
    Fmt formats[kFormats];
};
constexpr TraitFormats kTraitFormats[] = {{"float", {Fmt::f32, Fmt::f16, Fmt::f64}},
                                          {"number", {Fmt::f32, Fmt::i32, Fmt::u8}},
                                          {"sint", {Fmt::i32, Fmt::i8, Fmt::i64}},
                                          {"uint", {Fmt::u32, Fmt::u8, Fmt::u64}},
                                          {"integer", {Fmt::i32, Fmt::u8, Fmt::i64}}};

const Assumption kAssumptions[] = {{0, Shape{}, 16}, {1, Shape{16}, 4}, {2, Shape{4, 8}, 128}, {0, Shape{1}, 1}};

/// Shapes, layouts, budgets, conditions on constants, and whether a value is one: other choices of the caller may be right.
bool depends_on_choice(const Diagnostic& d) {
    static constexpr int kSections[] = {
        // the first two digits of the codes
#define DIAG(code, name, severity, message, explanation) 10 * ((code)[1] - '0') + (code)[2] - '0',
#include "lang/diags.def"
#undef DIAG
    };
    const int section = kSections[static_cast<size_t>(d.id)];
    return (section >= 4 && section <= 6) || d.id == Diag::static_assert_failed || d.id == Diag::bad_format || d.id == Diag::bitcast_width ||
           d.id == Diag::missing_generic || d.id == Diag::not_constant || d.id == Diag::no_runtime_form;
}

/// The errors of `found` that the others are, too.
std::vector<Diagnostic> common(std::vector<Diagnostic> found, const std::vector<Diagnostic>& others) {
    std::erase_if(found, [&](const Diagnostic& d) {
        return std::ranges::none_of(others, [&](const Diagnostic& o) { return o.id == d.id && o.span == d.span; });
    });
    return found;
}

/// Names that stand alone as an extent in a type of a parameter, and are neither generics nor parameters nor items: the value tells them.
void shape_names(const Module& module, const ast::FnItem& fn, const ast::Expr& type, std::vector<std::string_view>& out) {
    if (type.kind == ast::ExprKind::annotated) return shape_names(module, fn, *ast::as<ast::AnnotatedExpr>(&type).base, out);
    if (type.kind == ast::ExprKind::tuple)
        for (const ast::Expr* item : ast::as<ast::TupleExpr>(&type).items) shape_names(module, fn, *item, out);
    if (type.kind != ast::ExprKind::index) return;
    for (const ast::IndexItem& item : ast::as<ast::IndexExpr>(&type).items) {
        if (item.kind != ast::IndexItem::value || item.start->kind != ast::ExprKind::name) continue;
        const std::string_view name = ast::as<ast::NameExpr>(item.start).name;
        const auto named = [name](const auto& p) { return p.name.text == name; };
        if (!std::ranges::any_of(fn.generics, named) && !std::ranges::any_of(fn.params, named) && !is_item(module, name)) out.push_back(name);
    }
}

/// Reports the errors that all trials find which have a verdict.
template <class Trial>
void report_common(const Trial& trial, DiagSink& diags) {
    std::optional<std::vector<Diagnostic>> all;
    for (size_t i = 0; i < std::size(kAssumptions) && !(all && all->empty()); ++i) {
        std::optional<std::vector<Diagnostic>> found = trial(i);
        if (!found) continue;
        std::erase_if(*found, [](const Diagnostic& d) { return d.severity != Severity::error || depends_on_choice(d); });
        all = all ? common(std::move(*all), *found) : std::move(found);
    }
    for (size_t i = 0; all && i < all->size(); ++i) diags.add(std::move((*all)[i]));
}

}  // namespace

Value Elaborator::assumed_format(std::string_view trait, const Assumption& a, Span span) {
    if (const WordKind* kind = find_word_kind(trait))
        return chosen({std::string(kind->words[a.format % kind->words.size()]), false, kind->name}, scope_, span);
    const auto row = std::ranges::find(kTraitFormats, trait, &TraitFormats::trait);
    if (row == std::end(kTraitFormats)) return poison(span);
    TypeDesc t;
    t.kind = TypeDesc::scalar_format;
    t.elem = id_of(row->formats[a.format]);
    return type_value(t, span);
}

Value Elaborator::assumed_element(FormatId elem, const Shape& shape, Span span) {
    if (types_.format(elem).is_block()) return poison(span);
    return tile(ir().fn().add_arg(ir().fn().body, types_.tile(elem, shape)), span);
}

Value Elaborator::assumed_value(const TypeDesc& t, const Assumption& a, Span span) {
    switch (t.kind) {
        case TypeDesc::trait: {
            if (t.trait_name == "int") return integer_value(a.number, span);
            const Value format = assumed_format(t.trait_name, a, span);
            return format.kind == Value::poison || format.kind == Value::word ? format : assumed_element(format.t.elem, a.shape, span);
        }
        case TypeDesc::scalar_format:
            return assumed_element(t.elem, a.shape, span);
        case TypeDesc::tile:
            return assumed_element(t.elem, t.shape, span);
        case TypeDesc::pointer:
            return tile(ir().fn().add_arg(ir().fn().body, types_.pointer(t.elem)), span);
        case TypeDesc::tuple:
        case TypeDesc::structure: {
            const bool is_tuple = t.kind == TypeDesc::tuple;
            if (!is_tuple && !t.fields) return poison(span);
            Value out;
            out.kind = is_tuple ? Value::tuple : Value::structure;
            out.decl = t.decl;
            out.span = span;
            for (const TypeDesc& item : is_tuple ? t.items : *t.fields) {
                out.items.push_back(assumed_value(item, a, span));
                if (out.items.back().kind == Value::poison) return poison(span);
            }
            return out;
        }
        case TypeDesc::any:
        case TypeDesc::tensor:
            break;
    }
    return poison(span);
}

Value Elaborator::assumed_param(const ast::Param& p, const std::vector<std::string_view>& dynamic, const Assumption& a) {
    Value v = poison(p.name.span);
    if (!p.type) return v;
    if (const ast::IndexExpr* form = tensor_form(*p.type)) {
        ast::Param written = p;
        written.mode = ast::ParamMode::inout;
        KernelParam made;
        if (!tensor_param(written, *form, dynamic, made, v)) return poison(p.name.span);
        tensor_extents(*form, made, *v.tensor_ref);
        instance_->params.push_back(std::move(made));
        return v;
    }
    const std::optional<TypeDesc> t = type_desc(*p.type);
    return t ? assumed_value(*t, a, p.name.span) : v;
}

void Elaborator::assumed_call(const Module& module, const ast::FnItem& fn, const Assumption& a) {
    stack_base_ = static_cast<const char*>(__builtin_frame_address(0));
    assumed_ = true;
    recorder_ = module.recorder;
    Instance made;
    instance_ = &made;
    made.fn = std::make_unique<ir::Function>(types_);
    made.fn->loop_hints.emplace_back();
    made.fn->body = made.fn->add_block();
    builder_ = std::make_unique<ir::Builder>(*made.fn, made.fn->body);
    scope_ = make_scope(module_scope(module));
    enter_lost(module, fn);
    for (const ast::GenericParam& p : fn.generics) {
        const std::string_view bound = p.bound ? base_name(*p.bound) : std::string_view();
        define(*scope_, p.name.text, bound == "int" ? integer_value(a.number, p.name.span) : assumed_format(bound, a, p.name.span));
        record(p.name.span, scope_->find(p.name.text)->value);
    }
    std::vector<std::string_view> of_tensors, of_tiles;
    for (const ast::Param& p : fn.params)
        if (p.type) shape_names(module, fn, *p.type, tensor_form(*p.type) ? of_tensors : of_tiles);
    for (const std::string_view name : of_tiles) define(*scope_, name, integer_value(a.number, fn.name.span));
    std::erase_if(of_tensors, [&](std::string_view n) { return scope_->find(n) != nullptr; });
    for (const std::string_view name : of_tensors) define(*scope_, name, tile(made.fn->add_arg(made.fn->body, types_.tile(Fmt::i64)), fn.name.span));
    std::vector<Value> params;
    for (const ast::Param& p : fn.params) {
        ast::Param plain = p;
        if (p.type) plain.type = &plain_type(fn, *p.type);
        params.push_back(assumed_param(plain, of_tensors, a));
        define(*scope_, p.name.text, params.back());
        record(p.name.span, params.back());
    }
    const size_t first_inst = made.fn->inst_count();
    const Value meaning = run_body(fn, fn.name.span);
    if (is_instruction(fn)) as_instruction(fn, params, meaning, first_inst, fn.name.span);
    instance_ = nullptr;
}

void check_function(const Module& module, const ast::FnItem& fn, TypeTable& types, const Limits& limits, DiagSink& diags) {
    const auto trial = [&](size_t i) {
        DiagSink found;
        found.push_context({"in function `" + std::string(fn.name.text) + "`", DiagNote::call});
        Elaborator(types, limits, found).assumed_call(module, fn, kAssumptions[i]);
        return std::optional(found.take());
    };
    report_common(trial, diags);
}

/// Generic parameters that only a launch has values for.
bool is_open(const ast::KernelItem& kernel, const ast::GenericParam& p) {
    return !p.default_value && std::ranges::none_of(kernel.tune, [&](const ast::TuneChoice& c) { return c.name.text == p.name.text; });
}

void check_kernel(const Module& module, const ast::KernelItem& kernel, TypeTable& types, const Limits& limits, DiagSink& diags) {
    const auto trial = [&](size_t i) -> std::optional<std::vector<Diagnostic>> {
        StaticValues given;
        std::vector<std::string_view> without;  // any type may stand there
        for (const ast::GenericParam& p : kernel.generics) {
            if (!is_open(kernel, p)) continue;
            const std::string_view bound = p.bound ? base_name(*p.bound) : std::string_view();
            const auto row = std::ranges::find(kTraitFormats, bound, &TraitFormats::trait);
            if (bound == "int")
                given.emplace(p.name.text, StaticValue{__int128{kAssumptions[i].number}});
            else if (const WordKind* kind = find_word_kind(bound))
                given.emplace(p.name.text, StaticValue{Choice{std::string(kind->words[i % kind->words.size()]), false, {}}});
            else if (row != std::end(kTraitFormats))
                given.emplace(p.name.text, StaticValue{id_of(row->formats[kAssumptions[i].format])});
            else
                without.push_back(p.name.text);
        }
        DiagSink found;
        std::optional<StaticValues> generics = bind_static(module, kernel, given, types, found, false);
        if (!generics) return std::nullopt;
        for (const std::string_view name : without) generics->erase(std::string(name));
        Elaborator(types, limits, found).assumed_kernel(module, kernel, *generics);
        std::vector<Diagnostic> all = found.take();
        if (std::ranges::any_of(all, [](const Diagnostic& d) { return d.id == Diag::where_false; })) return std::nullopt;
        return all;
    };
    report_common(trial, diags);
}

bool is_generic(const ast::KernelItem& kernel) {
    return std::ranges::any_of(kernel.generics, [&](const ast::GenericParam& p) { return is_open(kernel, p); });
}

}  // namespace tegula::sema
