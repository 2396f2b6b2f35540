// check_module: what can be said of a file without an instance. Items get their names first, then every body is walked with lexical scopes;
// constants, types and layouts without parameters are evaluated at the end, which finds cycles among them.
#include <algorithm>
#include <set>

#include "sema/checker.h"
#include "sema/flow.h"
#include "sema/recovery.h"
#include "sema/vocabulary.h"
#include "sema/walk.h"
#include "sema/words.h"

namespace tegula::sema {

namespace {

struct HintRow {
    std::string_view what, name;
    size_t least, most;
    std::string_view key = {};  ///< name that its argument may be given by, with a meaning of its own
};
constexpr HintRow kHints[] = {
    {"loop attribute", "pipeline", 1, 1},      {"loop attribute", "unroll", 0, 1},       {"loop attribute", "parallel", 0, 0},
    {"kernel attribute", "warps", 1, 1},       {"kernel attribute", "cluster", 1, 3},    {"kernel attribute", "specialise", 1, 1},
    {"kernel attribute", "cooperative", 0, 0}, {"kernel attribute", "registers", 1, 1},  {"kernel attribute", "decode", 1, 1},
    {"kernel attribute", "math", 1, 1},        {"kernel attribute", "subnormals", 1, 1}, {"kernel attribute", "instructions", 1, 16},
    {"function attribute", "ptx", 2, 64},      {"function attribute", "cost", 1, 1},     {"schedule", "swizzle", 1, 1},
    {"schedule", "persistent", 0, 0},          {"schedule", "split_k", 1, 1, "step"},    {"schedule", "stream_k", 0, 0},
};

}  // namespace

std::vector<Word> hint_words() {
    std::vector<Word> out;
    for (const HintRow& row : kHints) out.push_back({row.what == "schedule" ? NameKind::schedule : NameKind::attribute, row.name, {}, row.what});
    return out;
}

namespace {

void index_names(Module& module_, DiagSink& diags_) {
    for (const ast::Item* item : module_.ast->items) {
        poll();
        if (item->kind == ast::ItemKind::import || item->kind == ast::ItemKind::test || item->kind == ast::ItemKind::bench) continue;
        const auto [it, fresh] = module_.names.emplace(item->name.text, item);
        if (fresh || it->second == item) continue;
        Diagnostic& d = diags_.report(Diag::duplicate_name, item->name.span, {std::string(item->name.text)});
        d.labels.push_back({it->second->name.span, "first defined here"});
    }
    for (const Module::Import& i : module_.imports) {
        const ast::Item* other = module_.find(i.alias);
        if (!other) continue;
        Diagnostic& d = diags_.report(Diag::duplicate_name, other->name.span, {std::string(i.alias)});
        if (i.item) d.labels.push_back({i.item->span, "an import has this name"});
    }
}

}  // namespace

void Checker::declare(const ast::Name& n, Symbol symbol, bool fresh) {
    if (n.text == "_") return;
    record(n.span, n.span);
    const auto [it, added] = scopes_.back().emplace(n.text, Known{symbol, n.span});
    if (added) return;
    if (fresh) {
        Diagnostic& d = diags_.report(Diag::duplicate_name, n.span, {std::string(n.text)});
        d.labels.push_back({it->second.span, "first defined here"});
    }
    it->second = {symbol, n.span};
}

void Checker::pattern(const ast::Pattern& p, Symbol symbol) {
    for (size_t i = 0; i < p.names.size(); ++i) {
        const auto same = [&](const ast::Name& n) { return n.text == p.names[i].text && n.text != "_"; };
        if (std::any_of(p.names.begin(), p.names.begin() + static_cast<ptrdiff_t>(i), same)) {
            diags_.report(Diag::duplicate_name, p.names[i].span, {std::string(p.names[i].text)});
        }
        declare(p.names[i], symbol, false);
    }
}

void Checker::generics(std::span<const ast::GenericParam> params) {
    for (const ast::GenericParam& p : params) {
        const std::string_view bound = p.bound ? base_name(*p.bound) : std::string_view();
        const WordKind* words = find_word_kind(bound);
        if (!words && bound != kFunctionBound) optional(p.bound);
        if (p.default_value) word(*p.default_value, words);
        declare(p.name, Symbol::constant, true);
        if (const auto known = scopes_.back().find(p.name.text); known != scopes_.back().end()) known->second.words = words;
    }
}

/// A parameter with extents that is no tensor: the names of its extents count as declared. True: reported.
bool Checker::shape_without_tensor(const ast::Param& p) {
    const ast::Expr* at = p.type->kind == ast::ExprKind::annotated ? ast::as<ast::AnnotatedExpr>(p.type).base : p.type;
    if (at->kind != ast::ExprKind::index || tensor_form(*p.type)) return false;
    const auto& form = ast::as<ast::IndexExpr>(at);
    for (const ast::IndexItem& item : form.items) {
        if (item.kind != ast::IndexItem::value) continue;
        for (const ast::Name& n : names_in(*item.start))
            if (!known(n.text)) scopes_.back().emplace(n.text, Known{Symbol::lost, n.span});
    }
    if (form.base->kind != ast::ExprKind::name) return false;
    const std::string elem(ast::as<ast::NameExpr>(form.base).name);
    Diagnostic& d = diags_.report(Diag::bad_parameter_type, at->span, {std::string(p.name.text), "an array in memory is `tensor<" + elem + ">[..]`"});
    d.propose({{form.base->span, "tensor<" + elem + ">"}});
    return true;
}

void Checker::parameters(std::span<const ast::Param> params, bool kernel) {
    for (const ast::Param& p : params) {
        const bool lost = kernel && p.type && shape_without_tensor(p);
        const WordKind* words = !kernel && p.type ? find_word_kind(base_name(*p.type)) : nullptr;
        const bool function = !kernel && p.type && base_name(*p.type) == kFunctionBound;
        if (kernel && p.type && !lost) expr(*p.type);
        if (!kernel && p.type && !words && !function) type(*p.type);
        if (p.default_value) word(*p.default_value, words);
        const bool tensor = p.type && tensor_form(*p.type);
        if (kernel && !tensor && !lost && p.mode != ast::ParamMode::in) {
            diags_.report(Diag::bad_parameter_type, p.name.span, {std::string(p.name.text), "only tensors can be `out` or `inout`"});
        }
        const Symbol as = p.mode == ast::ParamMode::out ? Symbol::out : p.mode == ast::ParamMode::inout ? Symbol::inout : Symbol::in;
        const bool any_value = !kernel && (!p.type || p.type->kind == ast::ExprKind::tuple || is_trait(base_name(*p.type)));
        declare(p.name, lost ? Symbol::lost : tensor ? as : any_value ? Symbol::value : Symbol::constant, true);
    }
}

void Checker::attributes(std::span<const ast::Attribute> list, const char* what) {
    for (const ast::Attribute& a : list) {
        const auto same = [&](const ast::Attribute& b) { return b.name.text == a.name.text; };
        const ast::Attribute& first = *std::find_if(list.begin(), list.end(), same);
        if (&first != &a && a.name.text != "ptx") {
            diags_.report(Diag::bad_attribute, a.name.span, {std::string(a.name.text), "it is given twice"})
                .labels.push_back({first.name.span, "first given here"});
            continue;
        }
        std::vector<std::string_view> names;
        const HintRow* row = nullptr;
        for (const HintRow& r : kHints) {
            if (r.what != what) continue;
            names.push_back(r.name);
            if (r.name == a.name.text) row = &r;
        }
        if (!row) {
            Diagnostic& d = diags_.report(Diag::unknown_attribute, a.name.span, {what, std::string(a.name.text)});
            suggest_spelling(d, a.name.text, a.name.span, names);
            continue;
        }
        if (a.args.size() < row->least || a.args.size() > row->most) {
            const std::string range = (row->least == row->most ? "" : std::to_string(row->least) + " to ") + std::to_string(row->most);
            diags_.report(Diag::bad_attribute, a.name.span,
                          {std::string(a.name.text),
                           "it takes " + range + (row->most == 1 ? " argument" : " arguments") + ", got " + std::to_string(a.args.size())});
            continue;
        }
        const std::span<const std::string_view> words = hint_words(a.name.text);
        for (const ast::Arg& arg : a.args) {
            if (const std::string_view key = arg.name.text; !key.empty() && key != row->key) {
                Diagnostic& d =
                    diags_.report(Diag::bad_attribute, arg.name.span, {std::string(a.name.text), "it has no argument `" + std::string(key) + "`"});
                if (!row->key.empty()) d.notes.push_back("its argument may be given as `" + std::string(row->key) + " = ..`");
            }
            if (words.empty() && (a.name.text != "ptx" || &arg != &a.args[0])) expr(*arg.value);
            const std::string_view word = base_name(*arg.value);
            if (words.empty() || std::find(words.begin(), words.end(), word) != words.end()) continue;
            std::string list_of;
            for (size_t i = 0; i < words.size(); ++i) list_of += (i == 0 ? "" : i + 1 < words.size() ? ", " : " or ") + std::string(words[i]);
            Diagnostic& d = diags_.report(Diag::bad_attribute, arg.value->span,
                                          {std::string(a.name.text), "it takes " + list_of + ", found `" + source_text(*arg.value) + "`"});
            suggest_spelling(d, word, arg.value->span, {words.begin(), words.end()});
        }
    }
}

/// An expression that must have its value before programs run: memory is not read for it.
void Checker::clause(const char* name, const ast::Expr& e, const ast::KernelItem& k) {
    expr(e);
    for (const ast::Name& n : names_in(e))
        for (const ast::Param& p : k.params)
            if (p.name.text == n.text && p.type && (tensor_form(*p.type) || base_name(*p.type) == "ptr"))
                diags_.report(Diag::bad_attribute, n.span,
                              {name, "`" + std::string(n.text) + "` lies in memory; the clause may use generics, extents and scalar parameters"});
}

void Checker::kernel_clauses(const ast::KernelItem& k) {
    if (k.grid.size() > 3) diags_.report(Diag::bad_attribute, k.grid[3]->span, {"grid", "at most 3 extents"});
    for (const ast::Expr* e : k.grid) clause("grid", *e, k);
    for (const ast::Expr* e : k.where) clause("where", *e, k);
    const std::vector<std::string_view> extents = extent_names(module_, k);
    for (const bool tune : {true, false}) {
        const std::span<const ast::TuneChoice> choices = tune ? k.tune : k.dispatch;
        const char* what = tune ? "tune" : "dispatch";
        for (const ast::TuneChoice& c : choices) {
            std::vector<std::string_view> names;
            if (tune)
                for (const ast::GenericParam& p : k.generics) names.push_back(p.name.text);
            else
                names = extents;
            if (std::find(names.begin(), names.end(), c.name.text) == names.end()) {
                Diagnostic& d = diags_.report(Diag::unknown_name, c.name.span, {std::string(c.name.text)});
                d.notes.push_back(tune ? "`tune` lists choices for generic parameters of the kernel" : "`dispatch` splits an extent of the kernel");
                suggest_spelling(d, c.name.text, c.name.span, names);
            } else {
                used(c.name.text, c.name.span);
            }
            const auto same = [&](const ast::TuneChoice& b) { return b.name.text == c.name.text; };
            const ast::TuneChoice& first = *std::find_if(choices.begin(), choices.end(), same);
            if (&first != &c)
                diags_.report(Diag::bad_attribute, c.name.span, {what, "`" + std::string(c.name.text) + "` is given twice"})
                    .labels.push_back({first.name.span, "first given here"});
            const auto param = std::ranges::find(k.generics, c.name.text, [](const ast::GenericParam& p) { return p.name.text; });
            const WordKind* words = tune && param != k.generics.end() && param->bound ? find_word_kind(base_name(*param->bound)) : nullptr;
            for (const ast::Expr* e : c.values) words ? word(*e, words) : clause(what, *e, k);
        }
    }
    attributes(k.attributes, "kernel attribute");
    if (!k.schedule) return;
    const bool call = k.schedule->kind == ast::ExprKind::call;
    const ast::Expr& word = call ? *ast::as<ast::CallExpr>(k.schedule).callee : *k.schedule;
    const ast::Attribute a{{base_name(word), word.span}, call ? ast::as<ast::CallExpr>(k.schedule).args : std::span<const ast::Arg>()};
    attributes({&a, 1}, "schedule");
}

/// Declares the extents, and reports those to which no dimension gives a value once the others are known.
void Checker::extents(const ast::KernelItem& k) {
    const std::vector<std::string_view> all = extent_names(module_, k);
    const auto first_place = [&](std::string_view extent) {
        for (const ast::Param& p : k.params)
            if (p.type)
                for (const ast::Name& n : names_in(*p.type))
                    if (n.text == extent) return n.span;
        return k.name.span;
    };
    for (const std::string_view e : all) scopes_.back().emplace(e, Known{Symbol::constant, first_place(e)});
    std::set<std::string_view> open(all.begin(), all.end());
    std::vector<std::pair<const ast::Expr*, std::vector<ast::Name>>> dimensions;
    for (const ast::Param& p : k.params)
        if (const ast::IndexExpr* form = p.type ? tensor_form(*p.type) : nullptr)
            for (const ast::IndexItem& item : form->items)
                if (item.kind == ast::IndexItem::value) dimensions.emplace_back(item.start, names_in(*item.start));
    for (size_t before = open.size() + 1; open.size() < before;) {
        before = open.size();
        for (const auto& [e, names] : dimensions) {
            const auto is_open = [&](const ast::Name& n) { return open.count(n.text) != 0; };
            const auto first = std::find_if(names.begin(), names.end(), is_open);
            if (first != names.end() && std::none_of(first + 1, names.end(), is_open) && determines(*e, first->text)) open.erase(first->text);
        }
    }
    for (const std::string_view e : all)
        if (open.count(e)) diags_.report(Diag::undeducible_extent, k.name.span, {std::string(e)});
}

void Checker::kernel(const ast::KernelItem& k) {
    scopes_.emplace_back();
    in_kernel_ = true;
    kernel_ = k.name.text;
    generics(k.generics);
    extents(k);
    for (const ast::Param& p : k.params) {
        const ast::IndexExpr* form = p.type ? tensor_form(*p.type) : nullptr;
        for (size_t i = 0; form && i < form->items.size(); ++i) {
            if (form->items[i].kind == ast::IndexItem::value && i < static_cast<size_t>(kMaxRank)) continue;
            diags_.report(Diag::bad_shape, form->items[i].span, {"a tensor has at most 8 dimensions, each one expression"});
            break;
        }
    }
    parameters(k.params, true);
    kernel_clauses(k);
    block(k.body);
    in_kernel_ = false;
    scopes_.pop_back();
}

void Checker::function(const ast::FnItem& f) {
    scopes_.emplace_back();
    generics(f.generics);
    parameters(f.params, false);
    if (f.result) type(*f.result);
    attributes(f.attributes, "function attribute");
    block(f.body);
    scopes_.pop_back();
}

void Checker::layout(const ast::LayoutItem& l) {
    scopes_.emplace_back();
    generics(l.generics);
    for (const ast::IndexBinder& d : l.dims) {
        declare(d.name, Symbol::constant, true);
        const std::string_view extent = d.extent ? base_name(*d.extent) : std::string_view();
        if (!extent.empty() && !known(extent)) scopes_.back().emplace(extent, Known{Symbol::constant, d.extent->span});
        optional(d.extent);
    }
    l.dims.empty() ? layout_expr(*l.value) : expr(*l.value);
    optional(l.extents);
    scopes_.pop_back();
}

void Checker::bench(const ast::BenchItem& b) {
    scopes_.emplace_back();
    optional(b.iterable);
    if (b.iterable) pattern(b.pattern, Symbol::constant);
    for (const ast::Arg& m : b.metrics) optional(m.value);
    block(b.body);
    scopes_.pop_back();
}

/// The words that were lost in an item, or between items (null): any of them may have been declared there.
void Checker::lost_names(const ast::Item* item) {
    const std::span<const ast::Name> lost = module_.ast->lost;
    const std::span<const ast::Item* const> items = module_.ast->items;
    auto n = std::ranges::lower_bound(lost, item ? item->span.begin : 0, {}, [](const ast::Name& l) { return l.span.begin; });
    for (; n != lost.end() && (!item || n->span.end <= item->span.end); ++n) {
        const auto behind = std::ranges::upper_bound(items, n->span.begin, {}, [](const ast::Item* i) { return i->span.begin; });
        if (item || behind == items.begin() || (*std::prev(behind))->span.end < n->span.end)
            scopes_.back().emplace(n->text, Known{Symbol::lost, n->span});
    }
}

/// Scopes of what errors between items and in this item may have declared.
void Checker::enter(const ast::Item& item) {
    if (scopes_.empty()) {
        scopes_.emplace_back();
        if (!module_.ast->lost.empty()) lost_names(nullptr);
    }
    scopes_.resize(1);
    reported_.clear();
    item_scope_ = scopes_.size();
    scopes_.emplace_back();
    if (module_.recovery.broken.contains(&item)) lost_names(&item);
}

void Checker::items() {
    for (const ast::Item* i : module_.ast->items) {
        poll();
        enter(*i);
        item(*i);
    }
}

void Checker::host_block(const ast::Item& item) {
    enter(item);
    in_host_ = true;
    if (item.kind == ast::ItemKind::bench)
        bench(static_cast<const ast::BenchItem&>(item));
    else
        block(static_cast<const ast::TestItem&>(item).body);
}

void Checker::host_statements(std::span<const HostVariable> variables, std::span<const ast::Stmt* const> statements) {
    scopes_.resize(2);
    item_scope_ = 1;
    in_host_ = true;
    for (const HostVariable& v : variables) declare(v.name, v.is_var ? Symbol::variable : Symbol::let, false);
    const ast::Block body{statements, {}};
    blocks_.push_back(&body);
    for (const ast::Stmt* s : statements) statement(*s);
    blocks_.pop_back();
}

void Checker::item(const ast::Item& item) {
    switch (item.kind) {
        case ast::ItemKind::import:
        case ast::ItemKind::test:
        case ast::ItemKind::bench:
            break;
        case ast::ItemKind::const_: {
            const auto& c = static_cast<const ast::ConstItem&>(item);
            scopes_.emplace_back();
            const WordKind* words = c.type ? find_word_kind(base_name(*c.type)) : nullptr;
            if (!words) optional(c.type);
            if (words || !is_word_here(*c.value)) word(*c.value, words);
            scopes_.pop_back();
            break;
        }
        case ast::ItemKind::type: {
            const auto& t = static_cast<const ast::TypeItem&>(item);
            scopes_.emplace_back();
            generics(t.generics);
            expr(*t.value);
            scopes_.pop_back();
            break;
        }
        case ast::ItemKind::struct_: {
            const auto& s = static_cast<const ast::StructItem&>(item);
            scopes_.emplace_back();
            generics(s.generics);
            for (const ast::Field& f : s.fields) expr(*f.type);
            scopes_.emplace_back();
            for (const ast::Field& f : s.fields) declare(f.name, Symbol::constant, true);
            scopes_.resize(scopes_.size() - 2);
            break;
        }
        case ast::ItemKind::layout:
            layout(static_cast<const ast::LayoutItem&>(item));
            break;
        case ast::ItemKind::fn:
            function(static_cast<const ast::FnItem&>(item));
            break;
        case ast::ItemKind::kernel:
            kernel(static_cast<const ast::KernelItem&>(item));
            break;
    }
}

bool check_module(Module& module, TypeTable& types, DiagSink& diags, const std::atomic<bool>* cancel) {
    const size_t errors = diags.error_count(), before = diags.all().size();
    if (!module.ast) return true;
    if (diags.has_errors()) note_broken(module, diags);
    index_names(module, diags);
    Checker(module, &module.recovery, diags).items();
    module.recovery.has_errors = diags.has_errors();
    if (diags.error_count() != errors) note_broken(module, diags);
    settle_errors(module, diags, before);
    Limits limits;
    limits.cancel = cancel;
    Elaborator e(types, limits, diags);
    e.listen(module.recorder);
    for (const ast::Item* item : module.ast->items) {
        const bool value = item->kind == ast::ItemKind::const_ || item->kind == ast::ItemKind::type || item->kind == ast::ItemKind::struct_ ||
                           item->kind == ast::ItemKind::layout;
        if (value && !module.recovery.broken.contains(item)) e.item_value(module, *item);
    }
    return diags.error_count() == errors;
}

bool check_host_block(const Module& module, const ast::Item& item, DiagSink& diags) {
    const size_t errors = diags.error_count(), before = diags.all().size();
    Checker(module, nullptr, diags).host_block(item);
    settle_errors(module, diags, before);
    return diags.error_count() == errors;
}

bool check_host_statements(const Module& module, std::span<const HostVariable> variables, std::span<const ast::Stmt* const> statements,
                           DiagSink& diags) {
    const size_t errors = diags.error_count(), before = diags.all().size();
    Checker(module, nullptr, diags).host_statements(variables, statements);
    settle_errors(module, diags, before);
    return diags.error_count() == errors;
}

}  // namespace tegula::sema
