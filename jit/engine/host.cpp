// Host statements: scopes, control flow, calls of kernels. See host.h; values and expressions are in host_values.cpp.
#include "jit/engine/host.h"

#include <algorithm>
#include <chrono>

#include "sema/signature.h"

namespace tegula {

namespace {

constexpr size_t kMaxValues = 1'000'000;  ///< of one tuple, those within it included
constexpr uint64_t kElementsPerStep = 1024;
constexpr auto kBetweenReports = std::chrono::milliseconds(100);

struct Size {
    size_t values = 1;
    unsigned depth = 0;
};
Size size_of(const HostValue& value) {
    Size size;
    for (const HostValue& item : value.items) {
        const Size of = size_of(item);
        size.values += of.values;
        size.depth = std::max(size.depth, of.depth + 1);
    }
    return size;
}

bool is_constant(const HostValue& value) { return value.kind != HostValue::tensor && std::ranges::all_of(value.items, is_constant); }

}  // namespace

HostRunner::HostRunner(Engine& engine, LoadedModule& module, const LaunchOptions& options, DiagSink& diags, std::shared_ptr<uint64_t> held)
    : engine_(engine), module_(module), options_(options), diags_(&diags), budget_{options.memory_budget, std::move(held)} {
    options_.steps = &steps_;
}

void HostRunner::stop(Status status, Diag why, std::initializer_list<std::string> args) {
    diags_->report(why, at_, args);
    fail(status);
    throw HostStopped{status};
}

void HostRunner::look_up() {
    if (options_.cancel && options_.cancel->load(std::memory_order_relaxed)) stop(Status::cancelled, Diag::run_cancelled);
    if (!options_.keep_going) return;
    const auto now = std::chrono::steady_clock::now();
    if (now - told_ < kBetweenReports) return;
    told_ = now;
    if (!options_.keep_going(steps_, 0)) stop(Status::cancelled, Diag::run_cancelled);
}

void HostRunner::step(Span span, uint64_t elements) {
    at_ = span;
    steps_ += 1 + elements / kElementsPerStep;
    if (options_.step_budget && steps_ > options_.step_budget) stop(Status::run, Diag::step_budget_spent, {std::to_string(options_.step_budget)});
    look_up();
}

HostValue* HostRunner::find(std::string_view name) {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
        if (auto it = scope->find(name); it != scope->end()) return &it->second;
    return nullptr;
}

template <class Body>
Status HostRunner::guarded(Body&& body) {
    try {
        body();
    } catch (const HostStopped& stopped) {
        fail(stopped.status);
    } catch (const std::bad_alloc&) {
        scopes_.clear();  // what the block held is free for the message
        temporaries_.clear();
        scopes_.resize(1);
        diags_->report(Diag::host_memory, at_);
        fail(Status::run);
    }
    return status_;
}

Status HostRunner::run(const ast::Block& body) {
    return guarded([&] { block(body); });
}

Status HostRunner::run_input(std::span<const ast::Stmt* const> statements, const ast::Expr* shown, HostValue& value) {
    return guarded([&] {
        for (const ast::Stmt* stmt : statements.first(statements.size() - (shown ? 1 : 0)))
            if (statement(*stmt) != Flow::next) return;
        if (!shown) return;
        if (auto made = evaluate(*shown))
            value = std::move(*made);
        else
            fail(Status::source);
    });
}

const HostValue* HostRunner::variable(std::string_view name) const {
    const auto it = scopes_.front().find(name);
    return it == scopes_.front().end() ? nullptr : &it->second;
}

std::string_view called_name(const ast::Expr& expr) {
    const ast::Expr* head = &expr;
    if (head->kind == ast::ExprKind::call) head = ast::as<ast::CallExpr>(head).callee;
    if (head->kind == ast::ExprKind::index) head = ast::as<ast::IndexExpr>(head).base;
    if (head->kind == ast::ExprKind::instantiate) head = ast::as<ast::InstantiateExpr>(head).base;
    return head->kind == ast::ExprKind::name && head != &expr ? ast::as<ast::NameExpr>(head).name : std::string_view();
}

HostRunner::Flow HostRunner::block(const ast::Block& body) {
    scopes_.emplace_back();
    Flow flow = Flow::next;
    for (const ast::Stmt* stmt : body.stmts)
        if ((flow = statement(*stmt)) != Flow::next) break;
    scopes_.pop_back();
    return flow;
}

HostRunner::Flow HostRunner::statement(const ast::Stmt& stmt) {
    step(stmt.span);
    switch (stmt.kind) {
        case ast::StmtKind::let: {
            const auto& let = ast::as<ast::LetStmt>(&stmt);
            if (let.type) {
                diags_->report(Diag::host_kind, let.type->span,
                               {"a variable without type (it has that of its value: convert with `cast<T>(..)`)", "a type"});
                return fail(Status::source);
            }
            auto value = evaluate(*let.init);
            if (value && let.is_const && !is_constant(*value)) {
                diags_->report(Diag::not_constant, let.init->span, {"a `const`", found(*value)});
                return fail(Status::source);
            }
            if (!value || !bind(let.pattern, std::move(*value))) return fail(Status::source);
            return Flow::next;
        }
        case ast::StmtKind::assign:
            return assign(ast::as<ast::AssignStmt>(&stmt));
        case ast::StmtKind::expr:
            return evaluate(*ast::as<ast::ExprStmt>(&stmt).expr) ? Flow::next : fail(Status::source);
        case ast::StmtKind::if_: {
            const auto& branch = ast::as<ast::IfStmt>(&stmt);
            auto condition = truth(*branch.condition);
            if (!condition) return fail(Status::source);
            if (*condition) return block(branch.then_block);
            return branch.has_else ? block(branch.else_block) : Flow::next;
        }
        case ast::StmtKind::for_:
            return loop(ast::as<ast::ForStmt>(&stmt));
        case ast::StmtKind::while_:
            return loop(ast::as<ast::WhileStmt>(&stmt));
        case ast::StmtKind::break_:
            return Flow::break_;
        case ast::StmtKind::continue_:
            return Flow::continue_;
        case ast::StmtKind::return_:
            return Flow::return_;
        case ast::StmtKind::block:
            return block(ast::as<ast::BlockStmt>(&stmt).block);
    }
    return Flow::next;
}

HostRunner::Flow HostRunner::loop(const ast::WhileStmt& stmt) {
    for (;;) {
        step(stmt.span);
        auto condition = truth(*stmt.condition);
        if (!condition) return fail(Status::source);
        if (!*condition) return Flow::next;
        Flow flow = block(stmt.body);
        if (flow == Flow::break_) return Flow::next;
        if (flow == Flow::return_ || flow == Flow::failed) return flow;
    }
}

HostRunner::Flow HostRunner::loop(const ast::ForStmt& stmt) {
    auto values = iterate(*stmt.iterable);
    if (!values) return fail(Status::source);
    for (HostValue& value : *values) {
        step(stmt.span);
        scopes_.emplace_back();
        bool bound = bind(stmt.pattern, std::move(value));
        Flow flow = bound ? block(stmt.body) : fail(Status::source);
        scopes_.pop_back();
        if (flow == Flow::break_) break;
        if (flow == Flow::return_ || flow == Flow::failed) return flow;
    }
    return Flow::next;
}

HostRunner::Flow HostRunner::assign(const ast::AssignStmt& stmt) {
    if (stmt.target->kind != ast::ExprKind::name || stmt.op != ast::AssignOp::set) {
        diags_->report(Diag::host_assignment, stmt.span);
        return fail(Status::source);
    }
    std::string_view name = ast::as<ast::NameExpr>(stmt.target).name;
    auto value = evaluate(*stmt.value);
    if (!value) return fail(Status::source);
    HostValue* slot = find(name);
    if (!slot) {
        diags_->report(Diag::undeclared, stmt.target->span, {printable(name), "let", printable(name) + " = .."});
        return fail(Status::source);
    }
    *slot = std::move(*value);
    if (const HostValue* outermost = variable(name); outermost == slot) assigned_.emplace(name);
    return Flow::next;
}

bool HostRunner::bind(const ast::Pattern& pattern, HostValue value) {
    auto set = [&](const ast::Name& name, HostValue v) {
        if (name.text != "_") scopes_.back()[std::string(name.text)] = std::move(v);
    };
    if (!pattern.is_tuple) {
        if (pattern.names.size() == 1) set(pattern.names[0], std::move(value));
        return true;
    }
    if (value.kind != HostValue::tuple || value.items.size() != pattern.items.size()) {
        diags_->report(Diag::host_pattern, pattern.span,
                       {std::to_string(pattern.items.size()),
                        value.kind == HostValue::tuple ? std::to_string(value.items.size()) + " values" : host_kind_name(value.kind)});
        return false;
    }
    for (size_t i = 0; i < value.items.size(); ++i)
        if (!bind(pattern.items[i], std::move(value.items[i]))) return false;
    return true;
}

std::optional<std::vector<HostValue>> HostRunner::iterate(const ast::Expr& expr) {
    std::vector<HostValue> out;
    auto all = [&](std::span<const ast::Expr* const> items) -> std::optional<std::vector<HostValue>> {
        for (const ast::Expr* item : items) {
            auto value = evaluate(*item);
            if (!value) return std::nullopt;
            out.push_back(std::move(*value));
        }
        return std::move(out);
    };
    if (expr.kind == ast::ExprKind::set) return all(ast::as<ast::SetExpr>(&expr).items);
    if (expr.kind == ast::ExprKind::array) return all(ast::as<ast::ArrayExpr>(&expr).items);
    if (expr.kind == ast::ExprKind::range) return iterate_range(ast::as<ast::RangeExpr>(&expr));
    auto value = evaluate(expr);
    if (!value) return std::nullopt;
    if (value->kind != HostValue::tuple) {
        diags_->report(Diag::host_kind, expr.span, {"a range, a set or a tuple", host_kind_name(value->kind)});
        return std::nullopt;
    }
    return std::move(value->items);
}

std::optional<std::vector<HostValue>> HostRunner::iterate_range(const ast::RangeExpr& range) {
    constexpr __int128 kMostBound = static_cast<__int128>(1) << 64;
    __int128 bounds[3] = {0, 0, 1};
    const ast::Expr* parts[3] = {range.lo, range.hi, range.step};
    for (int i = 0; i < 3; ++i) {
        if (!parts[i]) continue;
        auto value = evaluate(*parts[i]);
        if (!value) return std::nullopt;
        const auto bound = integer_in(*value);
        if (!bound || *bound > kMostBound || *bound < -kMostBound) {
            diags_->report(Diag::host_kind, parts[i]->span, {"an integer of 64 bits", described(*value)});
            return std::nullopt;
        }
        bounds[i] = *bound;
    }
    constexpr int64_t kMaxTrips = 1'000'000;
    const __int128 step = bounds[2], distance = bounds[1] - bounds[0];
    if (step == 0 || distance / step > kMaxTrips) {
        diags_->report(Diag::host_range, range.span, {std::to_string(kMaxTrips)});
        return std::nullopt;
    }
    std::vector<HostValue> out;
    for (__int128 at = 0; step > 0 ? at < distance : at > distance; at += step) {
        HostValue v;
        v.kind = HostValue::integer;
        v.i = bounds[0] + at;
        out.push_back(std::move(v));
    }
    return out;
}

std::optional<bool> HostRunner::truth(const ast::Expr& condition) {
    auto value = evaluate(condition);
    if (!value) return std::nullopt;
    if (value->kind == HostValue::boolean) return value->b;
    if (value->kind == HostValue::tensor && value->t->extents.rank == 0 && value->t->elem == Fmt::boolean) {
        if (!written(*value, condition.span)) return std::nullopt;
        return value->t->data[0] != 0;
    }
    diags_->report(Diag::host_kind, condition.span, {"a bool", host_kind_name(value->kind)});
    return std::nullopt;
}

std::optional<HostValue> HostRunner::evaluate(const ast::Expr& expr) {
    step(expr.span);
    if (++depth_ > kMaxDepth) {
        --depth_;
        diags_->report(Diag::host_depth, expr.span, {std::to_string(kMaxDepth)});
        return std::nullopt;
    }
    bool handled = false;
    std::optional<HostValue> value = own(expr, handled);
    if (!handled) value = elaborated(expr);
    if (--depth_ == 0) temporaries_.clear();
    if (value && value->kind == HostValue::tuple && !bounded(*value, expr.span)) return std::nullopt;
    return value;
}

bool HostRunner::bounded(const HostValue& tuple, Span span) {
    const Size size = size_of(tuple);
    if (size.depth > kMaxDepth) return diags_->report(Diag::host_depth, span, {std::to_string(kMaxDepth)}), false;
    if (size.values > kMaxValues) return refuse(span, "a tuple holds at most " + std::to_string(kMaxValues) + " values");
    step(span, size.values);
    return true;
}

std::optional<HostValue> HostRunner::own(const ast::Expr& expr, bool& handled) {
    handled = true;
    switch (expr.kind) {
        case ast::ExprKind::name:
        case ast::ExprKind::member:
        case ast::ExprKind::index: {
            HostValue* at = nullptr;
            if (!place(expr, at)) return std::nullopt;
            if (at) return *at;
            break;
        }
        case ast::ExprKind::string_lit: {
            HostValue text;
            text.kind = HostValue::text;
            text.s = ast::as<ast::StringLit>(&expr).value;
            return text;
        }
        case ast::ExprKind::tuple:
        case ast::ExprKind::array: {
            const bool is_tuple = expr.kind == ast::ExprKind::tuple;
            HostValue tuple;
            tuple.kind = HostValue::tuple;
            for (const ast::Expr* item : is_tuple ? ast::as<ast::TupleExpr>(&expr).items : ast::as<ast::ArrayExpr>(&expr).items) {
                auto value = evaluate(*item);
                if (!value) return std::nullopt;
                tuple.items.push_back(std::move(*value));
            }
            return tuple;
        }
        case ast::ExprKind::annotated:
            return relayout(ast::as<ast::AnnotatedExpr>(&expr));
        case ast::ExprKind::call: {
            const auto& call = ast::as<ast::CallExpr>(&expr);
            if (auto [home, kernel] = module_.launched(*call.callee); kernel)
                return launch(*home, *kernel, call.callee->kind == ast::ExprKind::instantiate ? &ast::as<ast::InstantiateExpr>(call.callee) : nullptr,
                              call);
            break;
        }
        default:
            break;
    }
    // A function of the host?
    if (const std::string_view name = called_name(expr); !name.empty() && !module_.find(name) && !find(name)) {
#define HOST_CALL(row, signature, doc)                              \
    if (name == #row) {                                             \
        HostArgs args;                                              \
        if (!host_args(signature, expr, args)) return std::nullopt; \
        return host_##row(args);                                    \
    }
#include "lang/host_calls.def"
        if (name == "view" && expr.kind == ast::ExprKind::call) return view_of(expr);
        if (name == "print" && expr.kind == ast::ExprKind::call) return print(ast::as<ast::CallExpr>(&expr));
        if (name == "assert" && expr.kind == ast::ExprKind::call) return assert_that(ast::as<ast::CallExpr>(&expr));
    }
    handled = false;
    return std::nullopt;
}

std::optional<sema::StaticValues> HostRunner::kernel_generics(const ast::KernelItem& kernel, const ast::InstantiateExpr& expr) {
    sema::StaticValues values;
    size_t position = 0;
    for (const ast::Arg& arg : expr.args) {
        const ast::GenericParam* param = nullptr;
        if (arg.name.text.empty()) {
            if (position < kernel.generics.size()) param = &kernel.generics[position++];
        } else {
            for (const ast::GenericParam& g : kernel.generics)
                if (g.name.text == arg.name.text) param = &g;
        }
        if (!param) {
            diags_->report(Diag::unknown_generic, arg.value->span, {std::string(kernel.name.text), printable(arg.name.text)});
            return std::nullopt;
        }
        const std::string_view bound = sema::bound_of(*param);
        sema::StaticValue value;
        if (sema::takes_choice(bound)) {
            const auto choice = sema::evaluate_choice(module_, *arg.value, bound, resolver(), module_.types(), *diags_);
            if (!choice) return std::nullopt;
            value.v = *choice;
        } else if (bound == "int" || !sema::is_trait(bound)) {
            auto number = evaluate(*arg.value);
            if (!number) return std::nullopt;
            const auto i = integer_in(*number);
            if (i) {
                value.v = *i;
            } else if (number->kind == HostValue::real) {
                value.v = number->r;
            } else if (number->kind == HostValue::boolean) {
                value.v = number->b;
            } else {
                diags_->report(Diag::host_kind, arg.value->span, {"a constant of `" + std::string(bound) + "`", found(*number)});
                return std::nullopt;
            }
        } else {
            auto format = sema::evaluate_format(module_, *arg.value, resolver(), module_.types(), *diags_);
            if (!format) return std::nullopt;
            value.v = *format;
        }
        values[std::string(param->name.text)] = value;
    }
    return values;
}

std::optional<HostValue> HostRunner::launch(LoadedModule& home, const ast::KernelItem& kernel, const ast::InstantiateExpr* generics,
                                            const ast::CallExpr& call) {
    sema::StaticValues given;
    if (generics) {
        auto values = kernel_generics(kernel, *generics);
        if (!values) return std::nullopt;
        given = std::move(*values);
    }
    std::vector<HostValue> keep;  // storage of the arguments until the launch has ended
    keep.reserve(call.args.size());
    std::vector<LaunchArgument> args;
    std::vector<WrittenPart> parts;
    std::vector<const HostTensor*> outputs;
    // A part is given in place where no other argument reaches the same tensor; else a copy keeps them apart.
    std::vector<std::shared_ptr<HostTensor>> reached;
    for (const ast::Arg& arg : call.args)
        if (const auto* tensor = rooted(*arg.value)) reached.push_back(*tensor);
    const auto alone = [&](const ast::Expr& e) {
        const auto* tensor = rooted(e);
        return tensor && std::ranges::count(reached, *tensor) == 1;
    };
    size_t position = 0;
    for (const ast::Arg& arg : call.args) {
        const ast::Param* param = nullptr;  // null: the launch says what is wrong
        if (arg.name.text.empty())
            param = position < kernel.params.size() ? &kernel.params[position++] : nullptr;
        else
            for (const ast::Param& p : kernel.params)
                if (p.name.text == arg.name.text) param = &p;
        const bool written = param && param->mode != ast::ParamMode::in;
        if (const auto view = alone(*arg.value) ? strided_part(*arg.value) : std::nullopt) {
            HostValue& whole = keep.emplace_back();
            whole.kind = HostValue::tensor;
            whole.t = *rooted(*arg.value);
            if (written && before_write_) before_write_(whole.t);
            args.emplace_back().name = arg.name.text;
            args.back().view = *view;
            continue;
        }
        auto value = written ? output(*arg.value, parts) : evaluate(*arg.value);
        if (!value) return std::nullopt;
        keep.push_back(std::move(*value));
        if (written && keep.back().kind == HostValue::tensor) {
            outputs.push_back(owner(keep.back().t).get());
            const bool is_part = !parts.empty() && parts.back().part == keep.back().t;
            if (before_write_) before_write_(owner(is_part ? parts.back().whole : keep.back().t));
        }
        auto converted = to_argument(keep.back(), arg.value->span);
        if (!converted) return std::nullopt;
        converted->name = arg.name.text;
        args.push_back(std::move(*converted));
    }
    for (const WrittenPart& part : parts)
        if (std::ranges::find(outputs, owner(part.whole).get()) != outputs.end()) {
            diags_->report(Diag::host_output, call.span, {std::string(kernel.name.text), "a tensor and a part of it"});
            return std::nullopt;
        }
    LaunchOptions options = options_;
    const std::vector<std::shared_ptr<HostTensor>> behind = reachable(keep);
    for (const std::shared_ptr<HostTensor>& t : behind) {
        if (before_write_) before_write_(t);
        options.reachable.push_back(t->view());
    }
    if (options.before_launch) {
        LaunchStatement about{home, kernel, given, args, options, *diags_, call.span};
        if (const Status status = options.before_launch(about); status != Status::ok) {
            if (status == Status::cancelled) throw HostStopped{status};
            return fail(status), std::nullopt;
        }
    }
    if (const Log& log = engine_.options().log) log(LogLevel::launch, std::string(kernel.name.text));
    auto before = std::chrono::steady_clock::now();
    double measured = 0;
    Status status = engine_.launch(home, kernel, given, args, options, *diags_, call.span, &measured);
    launch_seconds_ += measured > 0 ? measured : std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count();
    for (const WrittenPart& part : parts) put_back(part);
    if (status == Status::cancelled) throw HostStopped{status};
    if (status != Status::ok) {
        fail(status);
        return std::nullopt;
    }
    step(call.span);  // it may have taken more steps than are left
    return HostValue{};
}

}  // namespace tegula
