// Checking host statements without running them: control flow, variables, and launches. See host_checker.h.
#include <algorithm>

#include "jit/engine/host_checker.h"
#include "sema/recorder.h"
#include "sema/signature.h"
#include "sema/walk.h"

namespace tegula {

namespace {

constexpr size_t kMostPasses = 3;             ///< of a loop: its first values
constexpr uint64_t kMostStatements = 20'000;  ///< of a block; nested loops multiply
constexpr uint64_t kMostTicks = 4'000;        ///< of elaboration, each about a thousand steps

/// Variables that the statements assign, those within loops and branches included.
void assigned(std::span<const ast::Stmt* const> stmts, std::set<std::string_view>& names) {
    for (const ast::Stmt* s : stmts) {
        switch (s->kind) {
            case ast::StmtKind::assign:
                if (const ast::Expr* target = ast::as<ast::AssignStmt>(s).target; target->kind == ast::ExprKind::name)
                    names.insert(ast::as<ast::NameExpr>(target).name);
                break;
            case ast::StmtKind::if_:
                assigned(ast::as<ast::IfStmt>(s).then_block.stmts, names);
                if (ast::as<ast::IfStmt>(s).has_else) assigned(ast::as<ast::IfStmt>(s).else_block.stmts, names);
                break;
            case ast::StmtKind::for_:
                assigned(ast::as<ast::ForStmt>(s).body.stmts, names);
                break;
            case ast::StmtKind::while_:
                assigned(ast::as<ast::WhileStmt>(s).body.stmts, names);
                break;
            case ast::StmtKind::block:
                assigned(ast::as<ast::BlockStmt>(s).block.stmts, names);
                break;
            default:
                break;
        }
    }
}

/// For a recorder: "f32[4, 4] @ col", "int = 3".
sema::NameFact fact_of(const HostValue& v, TypeTable& types) {
    using sema::fact_of_constant, sema::fact_of_type;
    constexpr size_t kMost = 8;
    switch (v.kind) {
        case HostValue::tensor: {
            std::string text = types.format(v.t->elem).name + (v.t->extents.rank ? to_string(v.t->extents) : std::string());
            if (!v.t->layout.v) return fact_of_type(std::move(text));
            const std::string layout = types.layout(v.t->layout).name();
            sema::NameFact out = fact_of_type(text + " @ " + layout);
            out.layout = layout;
            out.rank = v.t->extents.rank;
            return out;
        }
        case HostValue::integer:
            return fact_of_constant("int", sema::int_text(v.i));
        case HostValue::tuple: {
            sema::NameFact out{"(", {}, "("};
            for (size_t i = 0; i < v.items.size() && i < kMost; ++i) {
                const sema::NameFact item = fact_of(v.items[i], types);
                const char* separator = i ? ", " : "";
                out.type += separator + item.type;
                out.text += separator + item.text;
            }
            for (std::string* text : {&out.type, &out.text}) *text += v.items.size() > kMost ? ", ..)" : v.items.size() == 1 ? ",)" : ")";
            return out;
        }
        case HostValue::real:
            return fact_of_type("real");
        case HostValue::boolean:
            return fact_of_constant("bool", v.b ? "true" : "false");
        case HostValue::type:
            return fact_of_constant("type", types.format(v.format).name);
        case HostValue::layout:
            return fact_of_constant("layout", types.layout(v.layout_id).name());
        case HostValue::text:
            return fact_of_type("text");
        default:
            return {};
    }
}

}  // namespace

HostChecker::HostChecker(Engine& engine, LoadedModule& module, DiagSink& diags, std::set<const ast::KernelItem*>& checked,
                         const std::atomic<bool>* cancel)
    : engine_(engine), module_(module), diags_(diags), checked_(checked), tick_([this] {
          if (++ticks_ > kMostTicks) throw Spent{};
      }) {
    limits_.cancel = cancel ? cancel : &engine.cancelled();
    limits_.tick = &tick_;
}

void HostChecker::run(const ast::Item& item) {
    try {
        if (item.kind == ast::ItemKind::test) block(ast::as<ast::TestItem>(&item).body);
        if (item.kind == ast::ItemKind::bench) bench(ast::as<ast::BenchItem>(&item));
    } catch (const Spent&) {
    }
}

HostValue HostChecker::run(std::span<const ast::Stmt* const> statements, const ast::Expr* shown) {
    try {
        for (const ast::Stmt* s : statements)
            if (statement(*s) != Flow::next) return {};
        if (shown) return value(*shown);
    } catch (const Spent&) {
    }
    return {};
}

void HostChecker::forget(std::span<const ast::Stmt* const> stmts) {
    std::set<std::string_view> names;
    assigned(stmts, names);
    for (const std::string_view name : names)
        if (HostValue* variable = find(name)) *variable = {};
}

void HostChecker::bench(const ast::BenchItem& item) {
    Values cases(1);
    if (item.iterable) cases = iterate(*item.iterable);
    for (const HostValue& one : cases) {
        scopes_.emplace_back();
        if (item.iterable) bind(item.pattern, one);
        for (const ast::Arg& metric : item.metrics) {
            const HostValue number = value(*metric.value);
            if (is_unknown(number) || number.kind == HostValue::integer || number.kind == HostValue::real || number.kind == HostValue::tensor)
                continue;
            diags_.report(Diag::host_kind, metric.value->span,
                          {"a number for the metric `" + std::string(metric.name.text) + "`", host_kind_name(number.kind)});
        }
        block(item.body);
        scopes_.pop_back();
    }
}

HostChecker::Flow HostChecker::block(const ast::Block& body) {
    scopes_.emplace_back();
    Flow flow = Flow::next;
    for (const ast::Stmt* s : body.stmts)
        if ((flow = statement(*s)) != Flow::next) break;
    scopes_.pop_back();
    return flow;
}

HostChecker::Flow HostChecker::statement(const ast::Stmt& stmt) {
    poll(limits_.cancel);
    if (++statements_ > kMostStatements) throw Spent{};
    Flow flow = Flow::next;
    switch (stmt.kind) {
        case ast::StmtKind::let:
            bind(ast::as<ast::LetStmt>(&stmt).pattern, value(*ast::as<ast::LetStmt>(&stmt).init));
            break;
        case ast::StmtKind::assign: {
            const auto& assign = ast::as<ast::AssignStmt>(&stmt);
            HostValue made = value(*assign.value);
            if (assign.target->kind != ast::ExprKind::name || assign.op != ast::AssignOp::set) break;
            const std::string_view name = ast::as<ast::NameExpr>(assign.target).name;
            HostValue* slot = find(name);
            (slot ? *slot : scopes_.back()[std::string(name)]) = std::move(made);
            break;
        }
        case ast::StmtKind::expr:
            value(*ast::as<ast::ExprStmt>(&stmt).expr);
            break;
        case ast::StmtKind::if_:
            branch(ast::as<ast::IfStmt>(&stmt), flow);
            break;
        case ast::StmtKind::for_:
            loop(ast::as<ast::ForStmt>(&stmt));
            break;
        case ast::StmtKind::while_:
            loop(ast::as<ast::WhileStmt>(&stmt));
            break;
        case ast::StmtKind::block:
            flow = block(ast::as<ast::BlockStmt>(&stmt).block);
            break;
        case ast::StmtKind::return_:
        case ast::StmtKind::break_:
        case ast::StmtKind::continue_:
            return Flow::leaves;
    }
    if (depth_ == 0) tiles_.clear();
    return flow;
}

HostValue HostChecker::condition(const ast::Expr& expr) {
    HostValue truth = value(expr);
    const bool fits = is_unknown(truth) || truth.kind == HostValue::boolean ||
                      (truth.kind == HostValue::tensor && truth.t->extents.rank == 0 && truth.t->elem == Fmt::boolean);
    if (!fits) diags_.report(Diag::host_kind, expr.span, {"a bool", host_kind_name(truth.kind)});
    return truth;
}

void HostChecker::branch(const ast::IfStmt& stmt, Flow& flow) {
    const HostValue truth = condition(*stmt.condition);
    if (truth.kind == HostValue::boolean) {
        if (truth.b) flow = block(stmt.then_block);
        if (!truth.b && stmt.has_else) flow = block(stmt.else_block);
        return;
    }
    const auto before = scopes_;
    block(stmt.then_block);
    scopes_ = before;
    if (stmt.has_else) block(stmt.else_block);
    scopes_ = before;
    forget(stmt.then_block.stmts);
    if (stmt.has_else) forget(stmt.else_block.stmts);
}

void HostChecker::loop(const ast::ForStmt& stmt) {
    for (const HostValue& one : iterate(*stmt.iterable)) {
        scopes_.emplace_back();
        bind(stmt.pattern, one);
        const Flow flow = block(stmt.body);
        scopes_.pop_back();
        if (flow == Flow::leaves) break;
    }
    forget(stmt.body.stmts);
}

void HostChecker::loop(const ast::WhileStmt& stmt) {
    const HostValue first = condition(*stmt.condition);
    if (first.kind == HostValue::boolean && !first.b) return;
    block(stmt.body);
    forget(stmt.body.stmts);
}

void HostChecker::bind(const ast::Pattern& pattern, const HostValue& value) {
    const auto set = [&](const ast::Name& name, HostValue v) {
        if (sema::Recorder* recorder = module_.recorder; recorder && !is_unknown(v) && recorder->asks(name.span))
            recorder->fact(name.span, fact_of(v, module_.types()));
        scopes_.back()[std::string(name.text)] = std::move(v);
    };
    if (!pattern.is_tuple) return set(pattern.names.front(), value);
    const bool fits = value.kind == HostValue::tuple && value.items.size() == pattern.items.size();
    if (!fits && !is_unknown(value)) {
        diags_.report(Diag::host_pattern, pattern.span,
                      {std::to_string(pattern.items.size()),
                       value.kind == HostValue::tuple ? std::to_string(value.items.size()) + " values" : host_kind_name(value.kind)});
    }
    for (size_t i = 0; i < pattern.items.size(); ++i) bind(pattern.items[i], fits ? value.items[i] : HostValue{});
}

/// The first values that a loop goes through, or one unknown value.
HostChecker::Values HostChecker::iterate(const ast::Expr& expr) {
    Values out;
    if (expr.kind == ast::ExprKind::range) {
        const auto& range = ast::as<ast::RangeExpr>(&expr);
        HostValue bounds[3];
        bounds[2].kind = HostValue::integer;
        bounds[2].i = 1;
        const ast::Expr* parts[3] = {range.lo, range.hi, range.step};
        for (int i = 0; i < 3; ++i) {
            if (!parts[i]) continue;
            bounds[i] = value(*parts[i]);
            const HostValue& bound = bounds[i];
            const bool fits =
                is_unknown(bound) || bound.kind == HostValue::integer || (bound.kind == HostValue::tensor && bound.t->extents.rank == 0);
            if (!fits) diags_.report(Diag::host_kind, parts[i]->span, {"an integer of 64 bits", host_kind_name(bound.kind)});
        }
        if (std::ranges::any_of(bounds, [](const HostValue& b) { return b.kind != HostValue::integer; })) return Values(1);
        const __int128 step = bounds[2].i;
        for (__int128 at = bounds[0].i; step != 0 && (step > 0 ? at < bounds[1].i : at > bounds[1].i) && out.size() < kMostPasses; at += step) {
            out.emplace_back().kind = HostValue::integer;
            out.back().i = at;
        }
        return out;
    }
    if (expr.kind == ast::ExprKind::set) {
        for (const ast::Expr* item : ast::as<ast::SetExpr>(&expr).items) out.push_back(value(*item));
    } else {
        const HostValue all = value(expr);
        if (all.kind != HostValue::tuple) {
            if (!is_unknown(all)) diags_.report(Diag::host_kind, expr.span, {"a range, a set or a tuple", host_kind_name(all.kind)});
            return Values(1);
        }
        out = all.items;
    }
    if (out.size() > kMostPasses) out.resize(kMostPasses);
    return out;
}

// ---- launches ----

/// The generics that a launch names. False: not all are known.
bool HostChecker::generic_values(const ast::KernelItem& kernel, const ast::InstantiateExpr& expr, sema::StaticValues& values) {
    bool known = true;
    size_t position = 0;
    for (const ast::Arg& arg : expr.args) {
        const ast::GenericParam* param = nullptr;
        if (arg.name.text.empty())
            param = position < kernel.generics.size() ? &kernel.generics[position++] : nullptr;
        else
            for (const ast::GenericParam& g : kernel.generics)
                if (g.name.text == arg.name.text) param = &g;
        if (!param) {
            diags_.report(Diag::unknown_generic, arg.value->span, {std::string(kernel.name.text), printable(arg.name.text)});
            known = false;
            continue;
        }
        const std::string_view bound = sema::bound_of(*param);
        sema::StaticValue made;
        if (sema::takes_choice(bound)) {
            const auto choice = sema::evaluate_choice(module_, *arg.value, bound, resolver(), module_.types(), diags_);
            known &= choice.has_value();
            if (choice) made.v = *choice;
        } else if (bound == "int" || !sema::is_trait(bound)) {
            const HostValue number = value(*arg.value);
            known &= number.kind == HostValue::integer || number.kind == HostValue::real || number.kind == HostValue::boolean;
            if (number.kind == HostValue::integer) made.v = number.i;
            if (number.kind == HostValue::real) made.v = number.r;
            if (number.kind == HostValue::boolean) made.v = number.b;
        } else {
            const auto format = sema::evaluate_format(module_, *arg.value, resolver(), module_.types(), diags_);
            known &= format.has_value();
            if (format) made.v = *format;
        }
        values[std::string(param->name.text)] = made;
    }
    return known;
}

/// What a kernel writes to must be seen after the launch.
void HostChecker::output(const ast::Expr& expr) {
    const auto is_array = [&](const ast::Name& name) {
        const HostValue* value = find(name.text);
        return value && value->kind == HostValue::tensor;
    };
    if (viewed_base(expr) || expr.kind == ast::ExprKind::member || place(expr) || makes_array(expr)) return;
    if (const ast::Expr* seen = viewed(expr); seen && place(*seen)) return;
    if (std::ranges::any_of(sema::names_in(expr), is_array))
        diags_.report(Diag::host_output, expr.span, {sema::source_text(expr), "a copy that nobody sees after the launch"});
}

HostValue HostChecker::launch(LoadedModule& home, const ast::KernelItem& kernel, const ast::InstantiateExpr* generics, const ast::CallExpr& call) {
    sema::StaticValues given;
    bool known = !home.recovery.broken.contains(&kernel);
    if (generics) known &= generic_values(kernel, *generics, given);
    std::vector<HostValue> keep;
    std::vector<LaunchArgument> args;
    keep.reserve(call.args.size());
    size_t position = 0;
    for (const ast::Arg& arg : call.args) {
        const auto named = std::ranges::find(kernel.params, arg.name.text, [](const ast::Param& p) { return p.name.text; });
        const auto param = arg.name.text.empty() ? kernel.params.begin() + static_cast<ptrdiff_t>(std::min(position++, kernel.params.size())) : named;
        if (param != kernel.params.end() && param->mode != ast::ParamMode::in) output(*arg.value);
        const HostValue& one = keep.emplace_back(value(*arg.value));
        LaunchArgument& as = args.emplace_back();
        as.name = arg.name.text;
        switch (one.kind) {
            case HostValue::tensor:
                as.view.elem = one.t->elem;
                as.view.extents = one.t->extents;
                as.view.layout = one.t->layout;
                as.open_layout = viewed_base(*arg.value) != nullptr;  // its strides are those of what it is a view of
                known &= one.t->extents.rank > 0;                     // a number that only a run gives
                break;
            case HostValue::integer:
                as.kind = LaunchArgument::integer, as.i = one.i;
                break;
            case HostValue::real:
                as.kind = LaunchArgument::real, as.r = one.r;
                break;
            case HostValue::boolean:
                as.kind = LaunchArgument::boolean, as.i = one.b;
                break;
            default:
                known = false;
                if (!is_unknown(one)) diags_.report(Diag::host_kind, arg.value->span, {"a tensor or a number", host_kind_name(one.kind)});
        }
    }
    if (known) engine_.check_launch(home, kernel, given, args, checked_.insert(&kernel).second, diags_, call.span);
    return {};
}

namespace {

void check_item(Engine& engine, LoadedModule& module, const ast::Item& item, DiagSink& diags, std::set<const ast::KernelItem*>& checked,
                const std::atomic<bool>* cancel) {
    sema::check_host_block(module, item, diags);
    if (!module.recovery.broken.contains(&item) && !diags.full()) HostChecker(engine, module, diags, checked, cancel).run(item);
}

}  // namespace

void check_host_block(Engine& engine, LoadedModule& module, const ast::Item& item, DiagSink& diags) {
    std::set<const ast::KernelItem*> checked;
    check_item(engine, module, item, diags, checked, nullptr);
    diags.sort();
}

void check_host_blocks(Engine& engine, LoadedModule& module, DiagSink& diags, const std::atomic<bool>* cancel, const ItemFilter& wanted) {
    std::set<const ast::KernelItem*> checked;
    for (const ast::Item* item : module.ast->items)
        if ((item->kind == ast::ItemKind::test || item->kind == ast::ItemKind::bench) && (!wanted || wanted(*item)))
            check_item(engine, module, *item, diags, checked, cancel);
}

}  // namespace tegula
