// Checker: expressions. Unknown names, members of modules, arity and argument names of calls, reads of `out` tensors.
#include <algorithm>
#include <array>

#include "lang/directed.h"
#include "sema/checker.h"
#include "sema/flow.h"
#include "sema/modifiers.h"
#include "sema/suggest.h"
#include "sema/type_names.h"
#include "sema/vocabulary.h"
#include "sema/walk.h"
#include "sema/words.h"

namespace tegula::sema {

namespace {

/// Functions that host statements have besides the language's.
struct HostCall {
    std::string_view name;
    const char* signature;
};
constexpr HostCall kHostCalls[] = {
#define HOST_CALL(name, signature, doc) {#name, signature},
#include "lang/host_calls.def"
};

const HostCall* find_host_call(std::string_view name) {
    const auto row = std::find_if(std::begin(kHostCalls), std::end(kHostCalls), [&](const HostCall& c) { return c.name == name; });
    return row == std::end(kHostCalls) ? nullptr : row;
}

bool is_option_word(std::string_view name) { return std::ranges::find(option_words(), name) != option_words().end(); }

bool is_format_name(std::string_view name) {
    static constexpr std::string_view kFormats[] = {
        "bool",
#define FORMAT(id, ...) #id,
#include "lang/formats.def"
#undef FORMAT
    };
    if (std::find(std::begin(kFormats), std::end(kFormats), name) != std::end(kFormats)) return name != "boolean";
    if (name.size() < 2 || name.size() > 3 || (name[0] != 'i' && name[0] != 'u') || name[1] == '0') return false;
    int bits = 0;
    for (const char c : name.substr(1)) {
        if (c < '0' || c > '9') return false;
        bits = bits * 10 + (c - '0');
    }
    return bits >= 1 && bits <= 64;
}

std::span<const ast::GenericParam> generics_of(const ast::Item* item) {
    if (!item) return {};
    switch (item->kind) {
        case ast::ItemKind::fn:
            return static_cast<const ast::FnItem*>(item)->generics;
        case ast::ItemKind::kernel:
            return static_cast<const ast::KernelItem*>(item)->generics;
        case ast::ItemKind::struct_:
            return static_cast<const ast::StructItem*>(item)->generics;
        case ast::ItemKind::type:
            return static_cast<const ast::TypeItem*>(item)->generics;
        case ast::ItemKind::layout:
            return static_cast<const ast::LayoutItem*>(item)->generics;
        default:
            return {};
    }
}

bool is_builtin(std::string_view name) {
    if (find_builtin(name) || is_trait(name) || is_type_constructor(name) || name == "row" || name == "col" || is_format_name(name)) return true;
    if (std::ranges::find(constant_words(), name) != constant_words().end()) return true;
    return ir::find_function(name) != ir::Op::count_;
}

}  // namespace

const Checker::Known* Checker::find(std::string_view name) const {
    for (auto it = scopes_.rbegin(); it != scopes_.rend(); ++it) {
        const auto found = it->find(name);
        if (found != it->end()) return &found->second;
    }
    return nullptr;
}

bool Checker::known(std::string_view name) const {
    return find(name) || is_item(module_, name) || is_builtin(name) || (in_host_ && (find_host_call(name) || !find_word(name).empty()));
}

void Checker::name(std::string_view text, Span span) {
    if (!known(text) && !reported_.contains(text)) unknown(text, span);
    used(text, span);
}

/// Tells the recorder what a name stands for: what is local, of the module, an import, or of its prelude.
void Checker::used(std::string_view text, Span at) const {
    if (!module_.recorder) return;
    if (const Known* k = find(text)) return record(at, k->span);
    if (const ast::Item* item = module_.find(text)) return record(at, item->name.span);
    for (const Module::Import& i : module_.imports)
        if (i.alias == text && i.item) return record(at, i.item->name.span);
    if (is_builtin(text)) return;
    for (const auto& p : module_.prelude)
        if (p->has(text)) return record(at, p->module().find(text)->name.span);
}

/// The same of the names that arguments are given by.
void Checker::used_names(const ast::Item& item, std::span<const ast::Arg> args) const {
    if (!module_.recorder) return;
    const auto among = [&](const auto& declared) {
        for (const ast::Arg& a : args)
            for (const auto& d : declared)
                if (!a.name.text.empty() && d.name.text == a.name.text) record(a.name.span, d.name.span);
    };
    if (item.kind == ast::ItemKind::fn) among(static_cast<const ast::FnItem&>(item).params);
    if (item.kind == ast::ItemKind::kernel) among(static_cast<const ast::KernelItem&>(item).params);
    if (item.kind == ast::ItemKind::struct_) among(static_cast<const ast::StructItem&>(item).fields);
}

void Checker::unknown(std::string_view text, Span span) {
    Diagnostic& d = diags_.report(Diag::unknown_name, span, {std::string(text)});
    if (diags_.error_count() > kSuggestionErrors) return;
    std::vector<std::string_view> names;
    for (const Names& scope : scopes_)
        for (const auto& [n, k] : scope) names.push_back(n);
    for (const auto& [n, item] : module_.names) names.push_back(n);
    for (const Module::Import& i : module_.imports) names.push_back(i.alias);
    for (const auto& p : module_.prelude) names.insert(names.end(), p->names().begin(), p->names().end());
    for (const BuiltinRow& r : builtin_rows()) names.push_back(r.name);
    for (uint16_t op = 0; op < static_cast<uint16_t>(ir::Op::count_); ++op)
        if (ir::has_trait(ir::Op(op), ir::ELEMWISE)) names.push_back(ir::op_row(ir::Op(op)).name);
    for (const std::string_view t : type_names()) names.push_back(t);
    names.insert(names.end(), constant_words().begin(), constant_words().end());
    for (const std::string_view w : layout_words()) names.push_back(w);
    names.insert(names.end(), {"row", "col"});
    for (const HostCall& c : kHostCalls)
        if (in_host_) names.push_back(c.name);
    suggest_name(d, &module_, text, span, around_, names);
    if (d.notes.empty() && d.fixes.empty()) reported_.insert(text);
}

void Checker::arguments(std::span<const ast::Arg> args) {
    for (const ast::Arg& a : args) {
        if (a.value->kind == ast::ExprKind::name &&
            (is_option(a.name.text) || a.name.text == "nan" || a.name.text == "rule" || is_option_word(ast::as<ast::NameExpr>(a.value).name)))
            continue;
        const std::string_view word = base_name(a.value->kind == ast::ExprKind::call ? *ast::as<ast::CallExpr>(a.value).callee : *a.value);
        const auto words = layout_words();
        if (!find(word) && std::find(words.begin(), words.end(), word) != words.end()) {
            layout_expr(*a.value);
            continue;
        }
        expr(*a.value);
    }
}

/// A place that takes a word of `kind`; null: any value.
void Checker::word(const ast::Expr& e, const WordKind* kind) {
    const std::string_view text = e.kind == ast::ExprKind::name ? base_name(e) : std::string_view();
    if (!kind || text.empty() || known(text)) {
        if (!kind || std::ranges::find(kind->words, text) == kind->words.end()) expr(e);
        return;
    }
    if (std::ranges::find(kind->words, text) != kind->words.end()) return;
    Diagnostic& d = diags_.report(Diag::unknown_option, e.span, {std::string(text), std::string(kind->title), list_of(*kind)});
    suggest_spelling(d, text, e.span, {kind->words.begin(), kind->words.end()});
}

/// A word that no name of the program hides, where the kind follows from elsewhere.
bool Checker::is_word_here(const ast::Expr& e) const {
    return e.kind == ast::ExprKind::name && !find_word(base_name(e)).empty() && !find(base_name(e));
}

const WordKind* Checker::words_of(const ast::Expr& e) const {
    const Known* k = e.kind == ast::ExprKind::name ? find(base_name(e)) : nullptr;
    return k ? k->words : nullptr;
}

/// A generic that takes words beside one of them: `R == rtz`.
void Checker::equality(const ast::BinaryExpr& e) {
    const WordKind *a = words_of(*e.lhs), *b = words_of(*e.rhs);
    if (a || !(b || is_word_here(*e.lhs)))
        word(*e.rhs, a ? a : nullptr);
    else if (!is_word_here(*e.rhs))
        expr(*e.rhs);
    if (b || !is_word_here(*e.lhs)) word(*e.lhs, b);
}

/// Arguments in `<..>` of an item with these parameters.
void Checker::arguments(std::span<const ast::Arg> args, std::span<const ast::GenericParam> params) {
    for (size_t i = 0; i < args.size(); ++i) {
        const std::string_view name = args[i].name.text;
        const auto at = name.empty() ? params.begin() + static_cast<ptrdiff_t>(std::min(i, params.size()))
                                     : std::ranges::find(params, name, [](const ast::GenericParam& p) { return p.name.text; });
        const bool known = at != params.end() && at->bound;
        if (at != params.end() && !name.empty()) record(args[i].name.span, at->name.span);
        if (const WordKind* kind = known ? find_word_kind(base_name(*at->bound)) : nullptr)
            word(*args[i].value, kind);
        else
            arguments(args.subspan(i, 1));
    }
}

/// The item that a callee or instantiated name stands for, through one import; null for anything else.
const ast::Item* Checker::item_of(const ast::Expr& callee) const {
    const ast::Expr* e = &callee;
    while (e->kind == ast::ExprKind::instantiate) e = ast::as<ast::InstantiateExpr>(e).base;
    if (e->kind == ast::ExprKind::member) {
        const auto& m = ast::as<ast::MemberExpr>(e);
        const std::string_view alias = base_name(*m.base);
        if (alias.empty() || find(alias)) return nullptr;
        for (const Module::Import& i : module_.imports)
            if (i.alias == alias && i.module) return i.module->find(m.member.text);
        return nullptr;
    }
    if (e->kind != ast::ExprKind::name) return nullptr;
    const std::string_view text = ast::as<ast::NameExpr>(e).name;
    if (find(text)) return nullptr;
    if (const ast::Item* item = module_.find(text)) return item;
    if (is_builtin(text)) return nullptr;
    for (const auto& p : module_.prelude)
        if (p->has(text)) return p->module().find(text);
    return nullptr;
}

void Checker::match_arguments(std::string_view owner, const std::vector<std::pair<std::string_view, bool>>& params, const ast::CallExpr& e,
                              bool variadic) {
    std::vector<bool> given(params.size(), false);
    size_t count = 0;
    for (const ast::Arg& a : e.args) {
        if (!a.name.text.empty()) continue;
        const bool fast = &a == &e.args.back() && a.value->kind == ast::ExprKind::name && ast::as<ast::NameExpr>(a.value).name == "fast";
        if (count >= params.size() && fast) continue;
        if (count < params.size()) given[count] = true;
        ++count;
    }
    for (const ast::Arg& a : e.args) {
        if (a.name.text.empty() || variadic) continue;
        const auto it = std::find_if(params.begin(), params.end(), [&](const auto& p) { return p.first == a.name.text; });
        const auto at = static_cast<size_t>(it - params.begin());
        if (it != params.end() && !given[at]) {
            given[at] = true;
            continue;
        }
        std::vector<std::string_view> names;
        for (const auto& p : params) names.push_back(p.first);
        Diagnostic& d = diags_.report(Diag::unknown_argument_name, a.name.span, {std::string(owner), std::string(a.name.text)});
        if (it != params.end())
            d.notes.push_back("it was given before");
        else
            suggest_spelling(d, a.name.text, a.name.span, names);
        return;
    }
    const auto least = static_cast<size_t>(std::count_if(params.begin(), params.end(), [](const auto& p) { return !p.second; }));
    bool missing = false;
    for (size_t i = 0; i < params.size(); ++i) missing |= !params[i].second && !given[i] && !variadic;
    if (!missing && (variadic || count <= params.size())) return;
    std::string takes = least == params.size() ? std::to_string(least) : std::to_string(least) + " to " + std::to_string(params.size());
    takes += params.size() == 1 ? " argument" : " arguments";
    diags_.report(Diag::wrong_argument_count, e.span, {std::string(owner), takes, std::to_string(e.args.size())});
}

/// A launch: every parameter has its argument.
void Checker::launch(const ast::KernelItem& kernel, const ast::CallExpr& e) {
    std::vector<std::pair<std::string_view, bool>> params;
    for (const ast::Param& p : kernel.params) params.push_back({p.name.text, p.default_value != nullptr});
    if (failing_) return;
    size_t position = 0;
    std::vector<std::string_view> given, names;
    for (const auto& p : params) names.push_back(p.first);
    for (const ast::Arg& a : e.args) {
        const std::string_view name = !a.name.text.empty() ? a.name.text : position < names.size() ? names[position++] : std::string_view();
        const std::string owner(kernel.name.text), text(name);
        if (name.empty()) continue;
        if (std::find(names.begin(), names.end(), name) == names.end()) {
            Diagnostic& d = diags_.report(Diag::unknown_launch_argument, a.name.span, {owner, text});
            if (const auto near = closest(name, names); !near.empty()) d.notes.push_back("did you mean `" + std::string(near) + "`?");
            return;
        }
        if (std::find(given.begin(), given.end(), name) != given.end()) {
            diags_.report(Diag::repeated_launch_argument, a.name.text.empty() ? a.value->span : a.name.span, {text});
            return;
        }
        given.push_back(name);
    }
    match_arguments(kernel.name.text, params, e, false);
}

void Checker::call_signature(const ast::CallExpr& e) {
    if (const ast::Item* item = item_of(*e.callee)) {
        std::vector<std::pair<std::string_view, bool>> params;
        used_names(*item, e.args);
        if (module_.recovery.broken.contains(item)) return;
        if (item->kind == ast::ItemKind::kernel && in_host_) {
            launch(static_cast<const ast::KernelItem&>(*item), e);
        } else if (item->kind == ast::ItemKind::kernel) {
            diags_.report(Diag::kernel_as_value, e.callee->span, {std::string(item->name.text)});
        } else if (item->kind == ast::ItemKind::fn) {
            for (const ast::Param& p : static_cast<const ast::FnItem*>(item)->params) params.push_back({p.name.text, p.default_value != nullptr});
            match_arguments(item->name.text, params, e, false);
        } else if (item->kind == ast::ItemKind::struct_) {
            for (const ast::Field& f : static_cast<const ast::StructItem*>(item)->fields) params.push_back({f.name.text, false});
            match_arguments(item->name.text, params, e, false);
        }
        return;
    }
    const ast::Expr* callee = e.callee;
    if (callee->kind == ast::ExprKind::index) callee = ast::as<ast::IndexExpr>(callee).base;
    const std::string_view text = base_name(*callee);
    if (text.empty() || find(text) || module_.find(text)) return;
    if (const HostCall* host = in_host_ ? find_host_call(text) : nullptr) {
        std::vector<std::pair<std::string_view, bool>> params;
        const Signature s = parse_signature(host->signature);
        for (const Signature::Parameter& p : s.parameters) params.push_back({p.name, p.optional});
        return match_arguments(text, params, e, s.variadic);
    }
    if (const BuiltinRow* row = find_builtin(text)) {
        const Signature s = parse_signature(row->signature);
        std::vector<std::pair<std::string_view, bool>> params;
        for (const Signature::Parameter& p : s.parameters) params.push_back({p.name, p.optional});
        if (s.has_call) match_arguments(text, params, e, s.variadic);
        return;
    }
    const ir::Op op = ir::find_function(text);
    if (op == ir::Op::count_) return;
    const auto arity = static_cast<size_t>(ir::op_row(op).operands);
    static constexpr std::string_view kNames[] = {"a", "b", "c"};
    std::vector<std::pair<std::string_view, bool>> params;
    for (size_t i = 0; i < arity; ++i) params.push_back({kNames[std::min<size_t>(i, 2)], false});
    if (ir::has_directed(op)) params.push_back({"round", true});
    match_arguments(text, params, e, false);
}

void Checker::call(const ast::CallExpr& e) {
    const auto words = layout_words();
    const std::string_view text = base_name(*e.callee);
    const bool word = e.callee->kind == ast::ExprKind::name && !find(text) && std::find(words.begin(), words.end(), text) != words.end();
    const size_t errors = diags_.error_count();
    if (!word) e.callee->kind == ast::ExprKind::index ? index_callee(ast::as<ast::IndexExpr>(e.callee)) : expr(*e.callee);
    if (diags_.error_count() == errors && !word) call_signature(e);
    const bool of_out = text == "size" || text == "rank" || text == "elem" || text == "pointer";
    const bool fails = in_host_ && text == "assert_fails";
    failing_ += fails;
    if (!of_out) arguments(e.args);
    failing_ -= fails;
    if (!of_out) return;
    for (const ast::Arg& a : e.args) expr(*a.value);
}

void Checker::index_callee(const ast::IndexExpr& e) {
    expr(*e.base);
    index_items(e);
}

void Checker::member(const ast::MemberExpr& e) {
    if (e.base->kind == ast::ExprKind::name) {
        const std::string_view alias = ast::as<ast::NameExpr>(e.base).name;
        for (const Module::Import& i : module_.imports) {
            if (i.alias != alias || find(alias) || !i.module) continue;
            if (i.item) record(e.base->span, i.item->name.span);
            if (const ast::Item* item = i.module->find(e.member.text)) return record(e.member.span, item->name.span);
            std::vector<std::string_view> names = i.module->item_names();
            std::sort(names.begin(), names.end());
            Diagnostic& d = diags_.report(Diag::unknown_member, e.member.span, {"module `" + i.module->name + "`", std::string(e.member.text)});
            suggest_spelling(d, e.member.text, e.member.span, names);
            return;
        }
    }
    expr(*e.base);
}

void Checker::index_items(const ast::IndexExpr& e) {
    for (const ast::IndexItem& item : e.items) {
        if (item.kind == ast::IndexItem::all || item.kind == ast::IndexItem::new_axis) continue;
        optional(item.start);
        optional(item.extent);
        optional(item.step);
    }
}

void Checker::index(const ast::IndexExpr& e) {
    if (e.base->kind == ast::ExprKind::name) {
        const std::string_view text = ast::as<ast::NameExpr>(e.base).name;
        const Known* k = find(text);
        if (k && k->symbol == Symbol::out && in_kernel_) report_mode(diags_, e.span, "read", text, ast::ParamMode::out);
    }
    expr(*e.base);
    index_items(e);
}

void Checker::index_form(const ast::IndexFormExpr& e) {
    optional(e.reducer);
    for (const ast::IndexBinder& b : e.binders) optional(b.extent);
    scopes_.emplace_back();
    for (const ast::IndexBinder& b : e.binders) declare(b.name, Symbol::constant, true);
    expr(*e.body);
    scopes_.pop_back();
}

void Checker::layout_expr(const ast::Expr& e) {
    const auto words = layout_words();
    const auto is_word = [&](std::string_view w) { return !find(w) && std::find(words.begin(), words.end(), w) != words.end(); };
    if (e.kind == ast::ExprKind::name) {
        if (!is_word(ast::as<ast::NameExpr>(&e).name)) expr(e);
        return;
    }
    if (e.kind == ast::ExprKind::call || e.kind == ast::ExprKind::instantiate) {
        const bool call = e.kind == ast::ExprKind::call;
        const ast::Expr& head = call ? *ast::as<ast::CallExpr>(&e).callee : *ast::as<ast::InstantiateExpr>(&e).base;
        if (!is_word(base_name(head))) layout_expr(head);
        for (const ast::Arg& a : call ? ast::as<ast::CallExpr>(&e).args : ast::as<ast::InstantiateExpr>(&e).args) layout_expr(*a.value);
        return;
    }
    if (e.kind != ast::ExprKind::member) return expr(e);
    const auto& m = ast::as<ast::MemberExpr>(&e);
    const auto import = std::find_if(module_.imports.begin(), module_.imports.end(), [&](const auto& i) { return i.alias == base_name(*m.base); });
    if (import != module_.imports.end()) return member(m);
    layout_expr(*m.base);
    if (!is_word(m.member.text)) name(m.member.text, m.member.span);
}

void Checker::type(const ast::Expr& e) {
    const ast::Expr* at = &e;
    if (at->kind == ast::ExprKind::annotated) at = ast::as<ast::AnnotatedExpr>(at).base;
    if (at->kind == ast::ExprKind::tuple) {
        for (const ast::Expr* item : ast::as<ast::TupleExpr>(at).items) type(*item);
        return;
    }
    if (at->kind == ast::ExprKind::index) {
        for (const ast::IndexItem& item : ast::as<ast::IndexExpr>(at).items) {
            if (item.kind != ast::IndexItem::value || item.start->kind != ast::ExprKind::name) continue;
            const std::string_view text = ast::as<ast::NameExpr>(item.start).name;
            if (!known(text)) scopes_.back().emplace(text, Known{Symbol::constant, item.span});
        }
    }
    expr(e);
}

/// An access with modifiers.
void Checker::modified(const ast::Expr& e) {
    check_modifiers(
        e, [this](std::string_view n) { return find(n) || is_item(module_, n); }, diags_);
    const ast::Expr& access = without_modifiers(e);
    if (in_host_)
        diags_.report(Diag::bad_modifier, e.span, {source_text(*ast::as<ast::AnnotatedExpr>(&e).layout), "host statements do not access memory"});
    expr(access);
}

void Checker::expr(const ast::Expr& root) {
    using K = ast::ExprKind;
    const ast::Expr* e = &root;
    while (e->kind == K::binary) {
        poll();
        const auto& b = ast::as<ast::BinaryExpr>(e);
        if ((b.op == ast::BinaryOp::eq || b.op == ast::BinaryOp::ne) && b.lhs->kind != K::binary) return equality(b);
        expr(*b.rhs);
        e = b.lhs;
    }
    switch (e->kind) {
        case K::name:
            return name(ast::as<ast::NameExpr>(e).name, e->span);
        case K::member:
        case K::call:
        case K::index:
            around_.push_back(e);
            e->kind == K::member ? member(ast::as<ast::MemberExpr>(e))
            : e->kind == K::call ? call(ast::as<ast::CallExpr>(e))
                                 : index(ast::as<ast::IndexExpr>(e));
            around_.pop_back();
            return;
        case K::index_form:
            return index_form(ast::as<ast::IndexFormExpr>(e));
        case K::instantiate:
            expr(*ast::as<ast::InstantiateExpr>(e).base);
            return arguments(ast::as<ast::InstantiateExpr>(e).args, generics_of(item_of(*ast::as<ast::InstantiateExpr>(e).base)));
        case K::annotated:
            if (is_modifier(*ast::as<ast::AnnotatedExpr>(e).layout)) return modified(*e);
            expr(*ast::as<ast::AnnotatedExpr>(e).base);
            return layout_expr(*ast::as<ast::AnnotatedExpr>(e).layout);
        case K::lambda:
            scopes_.emplace_back();
            for (const ast::Name& p : ast::as<ast::LambdaExpr>(e).params) declare(p, Symbol::constant, true);
            expr(*ast::as<ast::LambdaExpr>(e).body);
            scopes_.pop_back();
            return;
        default:
            break;
    }
    std::vector<const ast::Expr*> kids;
    children(*e, kids);
    for (const ast::Expr* k : kids) {
        poll();
        expr(*k);
    }
}

}  // namespace tegula::sema
