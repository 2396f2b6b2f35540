// Elaborator: scopes, name look-up, module items, compile-time evaluation and its budgets. Kernels are in kernel.cpp, host expressions in
// host.cpp. Names resolve innermost first: locals, the host's (host expressions), items of the module, imports, built-ins, the prelude.
#include "sema/elaborate.h"

#include <algorithm>
#include <cmath>

#include "lang/evaluate.h"
#include "lang/stack.h"
#include "sema/checker.h"
#include "sema/flow.h"
#include "sema/suggest.h"
#include "sema/type_names.h"
#include "sema/walk.h"
#include "sema/words.h"

namespace tegula::sema {

namespace {

/// Native stack that elaboration may use: well below the 8 MiB that threads mostly have, and two thirds of what there is, as later phases need
/// theirs. What most programs need is not looked at.
constexpr size_t kMostStack = 3 << 20, kFreeStack = 32 << 10;

/// Cost of copying one member of a tuple, list or tuple type: keeps doubling definitions from filling memory.
constexpr uint64_t kCopySteps = 64;

uint64_t count_nodes(const TypeDesc& t) {
    uint64_t n = 1;
    for (const TypeDesc& item : t.items) n += count_nodes(item);
    return n;
}

uint64_t count_nodes(const Value& v) {
    uint64_t n = count_nodes(v.t);
    for (const Value& item : v.items) n += count_nodes(item);
    return n;
}

/// What taking a copy costs against limits.const_steps.
uint64_t copy_cost(const Value& v) { return v.items.empty() && v.t.items.empty() ? 0 : kCopySteps * count_nodes(v); }

const char* frame_address() { return static_cast<const char*>(__builtin_frame_address(0)); }

}  // namespace

Local* Scope::find(std::string_view name) const {
    for (const Scope* s = this; s; s = s->parent.get()) {
        const auto it = s->names.find(name);
        if (it != s->names.end()) return it->second.get();
    }
    return nullptr;
}

std::shared_ptr<Scope> make_scope(std::shared_ptr<Scope> parent) {
    auto s = std::make_shared<Scope>();
    s->parent = std::move(parent);
    return s;
}

void define(Scope& scope, std::string_view name, Value v) {
    auto local = std::make_shared<Local>();
    local->name = name;
    local->span = v.span;
    local->value = std::move(v);
    scope.names[name] = std::move(local);
}

void report_mode(DiagSink& diags, Span span, std::string_view verb, std::string_view name, ast::ParamMode mode) {
    static constexpr const char* kModes[] = {"in", "out", "inout"};
    Diagnostic& d = diags.report(Diag::mode_violation, span, {std::string(verb), std::string(name), kModes[static_cast<int>(mode)]});
    d.help(verb == "write to" ? "declare it `out`, or `inout` if it is read as well" : "declare it `inout`: it is read and written");
}

Value integer_value(__int128 i, Span span) {
    Value v;
    v.kind = Value::integer;
    v.i = i;
    v.span = span;
    return v;
}

Value real_value(double r, Span span) {
    Value v;
    v.kind = Value::real;
    v.r = r;
    v.span = span;
    return v;
}

Value real_of_integer(__int128 i, Span span) {
    Value v = real_value(static_cast<double>(i), span);
    const auto back = static_cast<__int128>(v.r);
    v.rest = i < back ? -1 : i > back;
    return v;
}

bool holds_tile(const Value& v) {
    if (v.kind == Value::tile || v.kind == Value::block_tile) return true;
    return std::any_of(v.items.begin(), v.items.end(), holds_tile);
}

bool Elaborator::is_static(const Value& v, bool allow_functions) {
    switch (v.kind) {
        case Value::tile:
        case Value::block_tile:
        case Value::tensor:
            return false;
        case Value::function:
        case Value::builtin:
        case Value::elementwise:
        case Value::lambda:
            return allow_functions;
        default:
            return std::all_of(v.items.begin(), v.items.end(), [&](const Value& x) { return is_static(x, allow_functions); });
    }
}

StaticMode::StaticMode(Elaborator& e, std::shared_ptr<Scope> scope) : e_(e), builder_(std::move(e.builder_)), scope_(std::move(e.scope_)) {
    e_.scope_ = std::move(scope);
}

StaticMode::~StaticMode() {
    e_.builder_ = std::move(builder_);
    e_.scope_ = std::move(scope_);
}

ir::Function& Elaborator::scratch() {
    if (!scratch_) {
        scratch_ = std::make_unique<ir::Function>(types_);
        scratch_->body = scratch_->add_block();
    }
    return *scratch_;
}

ir::Builder& Elaborator::ir() {
    if (builder_) return *builder_;
    if (!scratch_builder_) scratch_builder_ = std::make_unique<ir::Builder>(scratch(), scratch().body);
    return *scratch_builder_;
}

bool Elaborator::too_deep(Span span) {
    const char* here = frame_address();
    if (!stack_base_) stack_base_ = here;
    if (aborted_) return true;
    const auto used = static_cast<size_t>(std::abs(stack_base_ - here));
    if (used < kFreeStack) return false;
    if (!stack_budget_) stack_budget_ = std::min(kMostStack, used + stack_left() / 3 * 2);
    if (used < stack_budget_) return false;
    diags_.report(Diag::nesting_budget, span);
    aborted_ = true;
    return true;
}

bool Elaborator::step(Span span, uint64_t n) {
    if (aborted_) return false;
    poll(limits_.cancel);
    constexpr uint64_t kBetweenTicks = 1024;
    if (limits_.tick && steps_ % kBetweenTicks + n >= kBetweenTicks) (*limits_.tick)();
    steps_ += n;
    if (steps_ > limits_.const_steps) {
        diags_.report(Diag::step_budget, span, {std::to_string(limits_.const_steps)});
        aborted_ = true;
    } else if (ir().fn().inst_count() > limits_.ir_ops) {
        diags_.report(Diag::ir_budget, span, {std::to_string(limits_.ir_ops)});
        aborted_ = true;
    }
    return !aborted_;
}

Value Elaborator::constant(const ast::Expr& e, const std::shared_ptr<Scope>& scope) {
    // In the body under way run-time names may stand where only their type matters, as in cast<elem(x)>(y).
    std::optional<StaticMode> mode;
    if (!building() || scope != scope_) mode.emplace(*this, scope);
    Value v = expr(e);
    if (!is_static(v)) return error(Diag::not_constant, e.span, "this value", describe(v));
    return v;
}

void Elaborator::fold_scalars() {
    if (!builder_) builder_ = std::make_unique<ir::Builder>(scratch(), scratch().body, true);
}

Value Elaborator::clause(const ast::Expr& e, const std::shared_ptr<Scope>& scope) {
    fold_scalars();
    const ScopeSwitch in(scope_, scope);
    Value v = expr(e);
    v.span = e.span;
    return v;
}

Value Elaborator::typed(FormatId elem, uint64_t code, Span span) {
    fold_scalars();
    return tile(ir().constant(types_.tile(elem), code), span);
}

std::optional<uint64_t> Elaborator::folded_code(const Value& v) {
    return folding() && v.kind == Value::tile ? scalar_constant(ir().fn(), v.v) : std::nullopt;
}

std::optional<__int128> Elaborator::folded_int(const Value& v) {
    if (v.kind == Value::integer) return v.i;
    const auto code = folded_code(v);
    return code && ir().fn().elem(v.v).is_int() ? std::optional(static_code(elem_of(v), *code, v.span).i) : std::nullopt;
}

std::shared_ptr<Scope> Elaborator::module_scope(const Module& module) {
    auto s = std::make_shared<Scope>();
    s->module = &module;
    return s;
}

namespace {

const Scope* root_of(const Scope* s) {
    while (s && s->parent) s = s->parent.get();
    return s;
}

std::optional<Value> builtin_value(std::string_view name, Span span) {
    Value v;
    v.span = span;
    if (name == "inf" || name == "nan" || name == "pi") {
        return real_value(name == "inf" ? HUGE_VAL : name == "nan" ? std::nan("") : 3.14159265358979323846, span);
    }
    if (const BuiltinRow* row = find_builtin(name)) {
        v.kind = Value::builtin;
        v.row = static_cast<int>(row - builtin_rows().data());
        v.s = row->name;
        return v;
    }
    const ir::Op op = ir::find_function(name);
    if (op == ir::Op::count_) return std::nullopt;
    v.kind = Value::elementwise;
    v.op = op;
    v.s = ir::op_row(op).name;
    return v;
}

Value layout_value(LayoutId id, Span span) {
    Value v;
    v.kind = Value::layout;
    v.layout_id = id;
    v.span = span;
    return v;
}

}  // namespace

Value Elaborator::copy(const Value& v, Span span) {
    if (const uint64_t cost = copy_cost(v); cost && !step(span, cost)) return poison(span);
    Value out = v;
    out.span = span;
    return out;
}

void Elaborator::enter_lost(const Module& module, const ast::Item& item) {
    lost_.clear();
    if (!module.recovery.broken.contains(&item)) return;
    const std::span<const Span> damage = module.ast->damage;
    for (const ast::Name& n : module.ast->lost) {
        if (n.span.begin < item.span.begin || item.span.end < n.span.end) continue;
        // What stands behind `=` is used there, not declared.
        const auto stretch = std::ranges::upper_bound(damage, n.span.begin, {}, &Span::end);
        const bool known = stretch != damage.end() && stretch->begin <= n.span.begin && n.span.end <= module.text.size();
        const std::string_view before = known ? module.text.substr(stretch->begin, n.span.begin - stretch->begin) : std::string_view();
        const size_t equals = before.find('=');
        if (equals == before.npos || before.find_first_of("=<>!", equals > 0 ? equals - 1 : 0) != equals || before.substr(equals).starts_with("=="))
            lost_.insert(n.text);
    }
}

Value Elaborator::lookup(std::string_view name, Span span) {
    if (!lost_.empty() && lost_.contains(name)) return poison(span);
    if (const Local* l = scope_->find(name)) {
        note_use(name, span, l->span);
        if (l->value.kind == Value::none) return error(Diag::missing_generic, span, "this use", name);
        if (!building() && holds_tile(l->value)) return error(Diag::not_constant, span, "`" + std::string(name) + "`", "a run-time value");
        return copy(l->value, span);
    }
    const Scope* root = root_of(scope_.get());
    if (resolver_ && root == host_root_) {
        const ast::NameExpr e{{ast::ExprKind::name, span}, name};
        if (std::optional<Value> v = resolve_host(e)) {
            note_use(name, span, {});
            return *v;
        }
    }
    const Module* module = root ? root->module : nullptr;
    if (module) {
        if (const ast::Item* item = module->find(name)) {
            if (item->kind == ast::ItemKind::kernel) return error(Diag::kernel_as_value, span, name);
            return copy(item_value(*module, *item), span);
        }
        for (const Module::Import& i : module->imports) {
            if (i.alias != name || !i.module) continue;
            Value v;
            v.kind = Value::module;
            v.home = i.module;
            v.s = name;
            v.span = span;
            return v;
        }
    }
    if (std::optional<Value> v = builtin_value(name, span)) return *v;
    if (name == "row" || name == "col") return layout_value(types_.intern(name == "row" ? Layout::row() : Layout::col()), span);
    if (Value v = named_type(name, span, false); v.kind != Value::poison) return v;
    if (module) {
        for (const auto& p : module->prelude) {
            if (!p->has(name)) continue;
            const Module& home = p->module();
            Value v = item_value(home, *home.find(name));
            v.span = span;
            return v;
        }
    }
    if (const std::string_view word = find_word(name); !word.empty()) {
        Value v;
        v.kind = Value::word;
        v.s = word;
        v.span = span;
        return v;
    }
    return unknown(name, span);
}

/// What a local name hides: an item, a module, or something built in; empty when nothing.
std::string_view Elaborator::hidden_kind(std::string_view name) {
    static constexpr std::pair<ast::ItemKind, std::string_view> kItems[] = {{ast::ItemKind::const_, "constant"}, {ast::ItemKind::type, "type"},
                                                                            {ast::ItemKind::struct_, "type"},    {ast::ItemKind::layout, "layout"},
                                                                            {ast::ItemKind::fn, "function"},     {ast::ItemKind::kernel, "kernel"}};
    const auto kind_of = [](const ast::Item* item) {
        for (const auto& [kind, text] : kItems)
            if (item && item->kind == kind) return text;
        return std::string_view();
    };
    const Scope* root = root_of(scope_.get());
    if (const Module* module = root ? root->module : nullptr) {
        if (const std::string_view kind = kind_of(module->find(name)); !kind.empty()) return kind;
        for (const Module::Import& i : module->imports)
            if (i.alias == name) return "module";
        for (const auto& p : module->prelude)
            if (p->has(name)) return kind_of(p->module().find(name));
    }
    if (is_type_constructor(name) || named_type(name, {}, false).kind != Value::poison) return "type";
    const std::optional<Value> v = builtin_value(name, {});
    return !v ? std::string_view() : v->kind == Value::real ? "constant" : "function";
}

void Elaborator::note_hidden(Diagnostic& d) {
    // What is said where a number or tensor stands for a type, function, layout or module.
    static constexpr Diag kIds[] = {Diag::not_constant, Diag::not_a_type,   Diag::not_callable,       Diag::unknown_member,
                                    Diag::not_a_layout, Diag::cannot_index, Diag::unexpected_generic, Diag::not_an_index};
    if (std::find(std::begin(kIds), std::end(kIds), d.id) == std::end(kIds)) return;
    for (const Use& use : uses_) {
        const bool begins = use.at.begin == d.span.begin && use.at.end <= d.span.end;
        const bool before = d.id == Diag::unknown_member && use.at.end + 1 == d.span.begin;  // the span is the member's
        if (use.name.empty() || use.at.file != d.span.file || !(begins || before)) continue;
        const std::string_view kind = hidden_kind(use.name);
        if (kind.empty()) continue;
        const std::string name(use.name);
        if (use.declared.valid()) d.labels.push_back({use.declared, "`" + name + "` is declared here"});
        d.help("`" + name + "` is a local name here and hides the " + std::string(kind) + " `" + name +
                          "`: rename it where that is meant");
        return;
    }
}

const Value* Elaborator::array_of(const ast::Expr& e) {
    if (e.kind != ast::ExprKind::name) return nullptr;
    const std::string_view name = ast::as<ast::NameExpr>(&e).name;
    if (lost_.contains(name)) return nullptr;
    const Value* v = nullptr;
    if (const Local* l = scope_->find(name)) {
        v = building() || !holds_tile(l->value) ? &l->value : nullptr;
    } else if (const Scope* root = root_of(scope_.get()); root && root->module && !(resolver_ && root == host_root_)) {
        const auto it = item_cache_.find(root->module->find(name));
        v = it == item_cache_.end() ? nullptr : &it->second;
    }
    return v && (v->kind == Value::list || v->kind == Value::tuple) ? v : nullptr;
}

const Module* Elaborator::module_here() const {
    const Scope* root = root_of(scope_.get());
    return root ? root->module : nullptr;
}

const Recovery* Elaborator::recovery() const {
    const Module* module = module_here();
    return module ? &module->recovery : nullptr;
}

Value Elaborator::unknown(std::string_view name, Span span) {
    // Names in the text of a module are checked before it is elaborated: here it is one of those that have been reported.
    const Module* here = module_here();
    if (here && here->ast && here->ast->file == span.file && (diags_.has_errors() || here->recovery.has_errors)) return poison(span);
    Diagnostic& d = diags_.report(Diag::unknown_name, span, {std::string(name)});
    if (diags_.error_count() > kSuggestionErrors) return poison(span);
    std::vector<std::string_view> names;
    const Scope* root = scope_.get();
    for (const Scope* s = scope_.get(); s; s = s->parent.get()) {
        for (const auto& [n, local] : s->names) names.push_back(n);
        root = s;
    }
    if (root && root->module) {
        for (const auto& [n, item] : root->module->names) names.push_back(n);
        for (const Module::Import& i : root->module->imports) names.push_back(i.alias);
        for (const auto& p : root->module->prelude) names.insert(names.end(), p->names().begin(), p->names().end());
    }
    for (const BuiltinRow& row : builtin_rows()) names.push_back(row.name);
    for (const std::string_view t : type_names()) names.push_back(t);
    suggest_name(d, module_here(), name, span, around_, names);
    return poison(span);
}

Value Elaborator::item_value(const Module& module, const ast::Item& item) {
    const auto it = item_cache_.find(&item);
    if (it != item_cache_.end()) return it->second;
    if (std::find(evaluating_.begin(), evaluating_.end(), &item) != evaluating_.end()) {
        return error(Diag::cyclic_definition, item.name.span, item.name.text);
    }
    if (too_deep(item.name.span) || (item.kind != ast::ItemKind::fn && module.recovery.broken.contains(&item))) return poison(item.name.span);
    evaluating_.push_back(&item);
    Value v;
    {
        StaticMode mode(*this, module_scope(module));
        v = item_value_uncached(module, item);
    }
    evaluating_.pop_back();
    if (module.recorder == recorder_) record(item.name.span, v);
    item_cache_[&item] = v;
    return v;
}

Value Elaborator::item_value_uncached(const Module& module, const ast::Item& item) {
    Value v;
    v.span = item.name.span;
    switch (item.kind) {
        case ast::ItemKind::const_: {
            const auto& c = static_cast<const ast::ConstItem&>(item);
            v = constant(*c.value, scope_);
            if (c.type && v.kind != Value::poison) {
                const std::optional<TypeDesc> t = type_desc(*c.type);
                v = t ? coerce(v, *t, c.value->span) : poison(c.value->span);
            }
            return v;
        }
        case ast::ItemKind::type:
        case ast::ItemKind::struct_:
        case ast::ItemKind::layout:
            v = instantiate_item(module, item, {}, item.name.span);
            if (v.kind == Value::poison || v.generic_item) return v;
            v.made_from = &item;
            v.home = &module;
            return v;
        case ast::ItemKind::fn:
            v.kind = Value::function;
            v.fn = &static_cast<const ast::FnItem&>(item);
            v.home = &module;
            v.s = item.name.text;
            return v;
        default:
            return poison(item.name.span);
    }
}

}  // namespace tegula::sema
