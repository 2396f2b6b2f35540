// Host statements: scopes, control flow and expressions. See host.h.
#include "jit/engine/host.h"

#include <chrono>

#include "lower/lower.h"
#include "parser/parse.h"
#include "sema/signature.h"

namespace tegula {

namespace {

constexpr unsigned kMaxDepth = 200;

std::string kind_name(HostValue::Kind kind) {
    static constexpr const char* kNames[] = {"nothing", "a tensor", "an integer", "a number", "a bool", "text", "a tuple", "a layout", "a type"};
    return kNames[kind];
}

}  // namespace

HostValue* HostRunner::find(std::string_view name) {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
        if (auto it = scope->find(name); it != scope->end()) return &it->second;
    return nullptr;
}

Status HostRunner::run(const ast::Block& body) {
    block(body);
    return status_;
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
    if (options_.cancel && options_.cancel->load()) return fail(Status::cancelled);
    switch (stmt.kind) {
        case ast::StmtKind::let: {
            const auto& let = ast::as<ast::LetStmt>(&stmt);
            if (let.type) {
                diags_->report(Diag::host_kind, let.type->span,
                               {"a variable without type (it has that of its value: convert with `cast<T>(..)`)", "a type"});
                return fail(Status::source);
            }
            auto value = evaluate(*let.init);
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
        if (options_.cancel && options_.cancel->load()) return fail(Status::cancelled);
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
        diags_->report(Diag::host_unknown_name, stmt.target->span, {printable(name)});
        return fail(Status::source);
    }
    *slot = std::move(*value);
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
    if (value.kind != HostValue::tuple || value.items.size() != pattern.names.size()) {
        diags_->report(Diag::host_pattern, pattern.span,
                       {std::to_string(pattern.names.size()),
                        value.kind == HostValue::tuple ? std::to_string(value.items.size()) + " values" : kind_name(value.kind)});
        return false;
    }
    for (size_t i = 0; i < value.items.size(); ++i) set(pattern.names[i], std::move(value.items[i]));
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
        diags_->report(Diag::host_kind, expr.span, {"a range, a set or a tuple", kind_name(value->kind)});
        return std::nullopt;
    }
    return std::move(value->items);
}

std::optional<std::vector<HostValue>> HostRunner::iterate_range(const ast::RangeExpr& range) {
    int64_t bounds[3] = {0, 0, 1};
    const ast::Expr* parts[3] = {range.lo, range.hi, range.step};
    for (int i = 0; i < 3; ++i) {
        if (!parts[i]) continue;
        auto value = evaluate(*parts[i]);
        if (!value) return std::nullopt;
        if (value->kind != HostValue::integer) {
            diags_->report(Diag::host_kind, parts[i]->span, {"an integer", kind_name(value->kind)});
            return std::nullopt;
        }
        bounds[i] = value->i;
    }
    constexpr int64_t kMaxTrips = 1'000'000;
    // Distances between 64-bit bounds need more than 64 bits.
    const __int128 step = bounds[2], distance = static_cast<__int128>(bounds[1]) - bounds[0];
    if (step == 0 || distance / step > kMaxTrips) {
        diags_->report(Diag::host_range, range.span, {std::to_string(kMaxTrips)});
        return std::nullopt;
    }
    std::vector<HostValue> out;
    for (__int128 at = 0; step > 0 ? at < distance : at > distance; at += step) {
        HostValue v;
        v.kind = HostValue::integer;
        v.i = static_cast<int64_t>(bounds[0] + at);
        out.push_back(std::move(v));
    }
    return out;
}

std::optional<bool> HostRunner::truth(const ast::Expr& condition) {
    auto value = evaluate(condition);
    if (!value) return std::nullopt;
    if (value->kind == HostValue::boolean) return value->b;
    if (value->kind == HostValue::tensor && value->t->extents.rank == 0 && value->t->elem == Fmt::boolean) return value->t->data[0] != 0;
    diags_->report(Diag::host_kind, condition.span, {"a bool", kind_name(value->kind)});
    return std::nullopt;
}

std::optional<HostValue> HostRunner::evaluate(const ast::Expr& expr) {
    if (++depth_ > kMaxDepth) {
        --depth_;
        diags_->report(Diag::host_depth, expr.span, {std::to_string(kMaxDepth)});
        return std::nullopt;
    }
    bool handled = false;
    std::optional<HostValue> value = own(expr, handled);
    if (!handled) value = elaborated(expr);
    if (--depth_ == 0) temporaries_.clear();
    return value;
}

std::optional<HostValue> HostRunner::own(const ast::Expr& expr, bool& handled) {
    handled = true;
    switch (expr.kind) {
        case ast::ExprKind::name:
            if (HostValue* value = find(ast::as<ast::NameExpr>(&expr).name)) return *value;
            break;
        case ast::ExprKind::string_lit: {
            HostValue text;
            text.kind = HostValue::text;
            text.s = ast::as<ast::StringLit>(&expr).value;
            return text;
        }
        case ast::ExprKind::tuple: {
            HostValue tuple;
            tuple.kind = HostValue::tuple;
            for (const ast::Expr* item : ast::as<ast::TupleExpr>(&expr).items) {
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
            if (auto [home, kernel] = kernel_of(*call.callee); kernel)
                return launch(*home, *kernel, call.callee->kind == ast::ExprKind::instantiate ? &ast::as<ast::InstantiateExpr>(call.callee) : nullptr,
                              call);
            break;
        }
        default:
            break;
    }
    // name, name<T>, name<T>[shape], each possibly called: a function of the host?
    const ast::Expr* head = &expr;
    if (head->kind == ast::ExprKind::call) head = ast::as<ast::CallExpr>(head).callee;
    if (head->kind == ast::ExprKind::index) head = ast::as<ast::IndexExpr>(head).base;
    if (head->kind == ast::ExprKind::instantiate) head = ast::as<ast::InstantiateExpr>(head).base;
    if (head->kind == ast::ExprKind::name && head != &expr) {
        std::string_view name = ast::as<ast::NameExpr>(head).name;
        if (!module_.find(name)) {
#define HOST_CALL(row, signature, doc)                              \
    if (name == #row) {                                             \
        HostArgs args;                                              \
        if (!host_args(signature, expr, args)) return std::nullopt; \
        return host_##row(args);                                    \
    }
#include "lang/host_calls.def"
            if (name == "print" && expr.kind == ast::ExprKind::call) return print(ast::as<ast::CallExpr>(&expr));
            if (name == "assert" && expr.kind == ast::ExprKind::call) return assert_that(ast::as<ast::CallExpr>(&expr));
        }
    }
    handled = false;
    return std::nullopt;
}

std::pair<LoadedModule*, const ast::KernelItem*> HostRunner::kernel_of(const ast::Expr& callee) {
    const ast::Expr* head = callee.kind == ast::ExprKind::instantiate ? ast::as<ast::InstantiateExpr>(&callee).base : &callee;
    if (head->kind == ast::ExprKind::name) return {&module_, module_.kernel(ast::as<ast::NameExpr>(head).name)};
    if (head->kind == ast::ExprKind::member) {
        const auto& member = ast::as<ast::MemberExpr>(head);
        if (member.base->kind == ast::ExprKind::name)
            for (const sema::Module::Import& import : module_.imports)
                if (import.alias == ast::as<ast::NameExpr>(member.base).name)
                    for (const ModulePtr& dependency : module_.dependencies)
                        if (dependency.get() == import.module) return {dependency.get(), dependency->kernel(member.member.text)};
    }
    return {nullptr, nullptr};
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
        const std::string_view bound =
            param->bound && param->bound->kind == ast::ExprKind::name ? ast::as<ast::NameExpr>(param->bound).name : std::string_view("any");
        sema::StaticValue value;
        if (bound == "int" || !sema::is_trait(bound)) {
            auto number = evaluate(*arg.value);
            if (!number) return std::nullopt;
            if (number->kind == HostValue::integer) {
                value.v = number->i;
            } else if (number->kind == HostValue::real) {
                value.v = number->r;
            } else if (number->kind == HostValue::boolean) {
                value.v = number->b;
            } else {
                diags_->report(Diag::host_kind, arg.value->span, {"a constant of `" + std::string(bound) + "`", kind_name(number->kind)});
                return std::nullopt;
            }
        } else {
            auto format = sema::evaluate_format(module_, *arg.value, resolver(), engine_.types(), *diags_);
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
    for (const ast::Arg& arg : call.args) {
        auto value = evaluate(*arg.value);
        if (!value) return std::nullopt;
        keep.push_back(std::move(*value));
        auto converted = to_argument(keep.back(), arg.value->span);
        if (!converted) return std::nullopt;
        converted->name = arg.name.text;
        args.push_back(std::move(*converted));
    }
    auto before = std::chrono::steady_clock::now();
    Status status = engine_.launch(home, kernel, given, args, options_, *diags_, call.span);
    launch_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count();
    if (status != Status::ok) {
        fail(status);
        return std::nullopt;
    }
    return HostValue{};
}

std::optional<LaunchArgument> HostRunner::to_argument(HostValue& value, Span span) {
    LaunchArgument arg;
    switch (value.kind) {
        case HostValue::tensor:
            arg.kind = LaunchArgument::tensor;
            // Of rank 0 where a number is wanted, it is that number: the launch sees by the parameter.
            arg.view = value.t->view();
            return arg;
        case HostValue::integer:
            arg.kind = LaunchArgument::integer, arg.i = value.i;
            return arg;
        case HostValue::boolean:
            arg.kind = LaunchArgument::integer, arg.i = value.b;
            return arg;
        case HostValue::real:
            arg.kind = LaunchArgument::real, arg.r = value.r;
            return arg;
        default:
            diags_->report(Diag::host_kind, span, {"a tensor or a number", kind_name(value.kind)});
            return std::nullopt;
    }
}

std::optional<TileData> HostRunner::as_tile(const HostValue& value, Span span) {
    if (!fully_written(engine_.types(), value.t->view())) {
        diags_->report(Diag::host_uninitialised, span);
        fail(Status::run);
        return std::nullopt;
    }
    return read_tile(engine_.types(), value.t->view());
}

sema::HostOperand HostRunner::to_operand(const HostValue& value, Span span) {
    sema::HostOperand out;
    out.kind = sema::HostOperand::constant;
    switch (value.kind) {
        case HostValue::integer:
            out.value.v = value.i;
            break;
        case HostValue::real:
            out.value.v = value.r;
            break;
        case HostValue::boolean:
            out.value.v = value.b;
            break;
        case HostValue::type:
            out.value.v = value.format;
            break;
        case HostValue::text:
            out.kind = sema::HostOperand::text, out.string = value.s;
            break;
        case HostValue::layout:
            out.kind = sema::HostOperand::layout, out.layout_id = value.layout_id;
            break;
        case HostValue::unit:
        case HostValue::tuple:
            out.kind = sema::HostOperand::tuple;
            for (const HostValue& item : value.items) out.items.push_back(to_operand(item, span));
            break;
        case HostValue::tensor:
            tensor_operand(value, span, out);
            break;
    }
    return out;
}

void HostRunner::tensor_operand(const HostValue& value, Span span, sema::HostOperand& out) {
    TypeTable& types = engine_.types();
    const auto keep = [&](TileData tile) {
        temporaries_.push_back(std::move(tile));
        return &temporaries_.back();
    };
    auto tile = as_tile(value, span);
    if (!tile) {
        // Reported; zeros of the right shape keep the expression going without a second error.
        const Format& format = types.format(value.t->elem);
        const FormatId elem = format.is_block() ? format.elem : value.t->elem;
        tile = TileData{elem, value.t->extents, {}};
        tile->bytes.resize(static_cast<size_t>(tile->shape.elements()) * types.format(elem).container_bytes());
    }
    out.kind = sema::HostOperand::tile;
    out.data = keep(std::move(*tile));
    if (!types.format(value.t->elem).is_block()) return;
    out.kind = sema::HostOperand::block_tile;
    out.block = value.t->elem;
    out.block_axis = block_axis(types, value.t->layout, value.t->extents.rank);
    std::vector<Argument> parts;
    append_arguments(types, value.t->view(), parts);
    const TileData** slots[] = {&out.scales, &out.tensor_scale};
    for (size_t i = 1; i < parts.size(); ++i) {
        TensorView part;
        part.elem = parts[i].t.elem;
        part.extents = i == 2 ? Shape{} : parts[i].t.extents;
        part.layout = i == 2 ? LayoutId{} : parts[i].t.layout;
        part.data = static_cast<uint8_t*>(parts[i].t.data);
        part.bytes = parts[i].t.bytes;
        *slots[i - 1] = keep(read_tile(types, part));
    }
}

sema::HostResolver HostRunner::resolver() {
    return [this](const ast::Expr& expr) -> std::optional<sema::HostOperand> {
        bool handled = false;
        auto value = own(expr, handled);
        if (!handled) return std::nullopt;
        // A failed host call has been reported; a poison-like unit operand would only echo it, so give an empty tuple.
        return to_operand(value ? *value : HostValue{}, expr.span);
    };
}

std::optional<HostValue> HostRunner::elaborated(const ast::Expr& expr) {
    size_t errors = diags_->error_count();
    const size_t outer = temporaries_.size();  // of the expressions around this one
    auto host = sema::elaborate_expression(module_, expr, resolver(), engine_.types(), {}, *diags_);
    if (!host || diags_->error_count() != errors) return std::nullopt;
    std::vector<TileData> results;
    if (host->fn) {
        PassOptions passes;
        passes.disabled = options_.disabled_passes;
        if (engine_.options().on_elaborated) engine_.options().on_elaborated(*host->fn);
        run_passes(*host->fn, passes);
        auto program = interp::Program::prepare(*host->fn);
        std::vector<TileData> args;
        for (const TileData* tile : host->arguments) args.push_back(*tile);
        RunResult run = program->evaluate(args, results, options_);
        for (Diagnostic& d : run.diagnostics) diags_->add(std::move(d));
        if (run.status != RunResult::ok) {
            fail(run.status == RunResult::cancelled ? Status::cancelled : Status::run);
            return std::nullopt;
        }
    }
    temporaries_.resize(outer);
    size_t at = 0;
    return from_operand(host->result, results, at);
}

std::optional<HostValue> HostRunner::from_operand(const sema::HostOperand& shape, std::vector<TileData>& results, size_t& at) {
    HostValue value;
    auto tensor = [&](FormatId elem, const Shape& extents, const Layout& layout = Layout::row()) {
        value.kind = HostValue::tensor;
        value.t = make_tensor(engine_.types(), elem, engine_.types().intern(layout), extents, true, nullptr);
    };
    switch (shape.kind) {
        case sema::HostOperand::tile: {
            const TileData& tile = results.at(at++);
            tensor(tile.elem, tile.shape);
            write_tile(engine_.types(), value.t->view(), tile);
            return value;
        }
        case sema::HostOperand::block_tile: {
            const TileData& elements = results.at(at++);
            // Blocks lie along the innermost storage dimension: rows, or columns after a transposition.
            const int axis = shape.block_axis < 0 ? elements.shape.rank - 1 : shape.block_axis;
            if (axis != 0 && axis != elements.shape.rank - 1) {
                diags_->report(Diag::host_tensor, {},
                               {"blocks along dimension " + std::to_string(axis) + " of a value of rank " + std::to_string(elements.shape.rank) +
                                " have no order of storage; decode them first"});
                return std::nullopt;
            }
            tensor(shape.block, elements.shape, axis == elements.shape.rank - 1 ? Layout::row() : Layout::col());
            write_tile(engine_.types(), value.t->view(), elements);
            std::vector<Argument> parts;
            append_arguments(engine_.types(), value.t->view(), parts);
            for (size_t i = 1; i < parts.size(); ++i) {
                TileData part = results.at(at++);
                TensorView view;
                view.elem = part.elem;
                view.extents = part.shape;
                if (i == 1) view.layout = value.t->layout;
                view.data = static_cast<uint8_t*>(parts[i].t.data);
                view.bytes = parts[i].t.bytes;
                write_tile(engine_.types(), view, part);
            }
            return value;
        }
        case sema::HostOperand::constant:
            if (auto* i = std::get_if<int64_t>(&shape.value.v)) value.kind = HostValue::integer, value.i = *i;
            if (auto* r = std::get_if<double>(&shape.value.v)) value.kind = HostValue::real, value.r = *r;
            if (auto* b = std::get_if<bool>(&shape.value.v)) value.kind = HostValue::boolean, value.b = *b;
            if (auto* f = std::get_if<FormatId>(&shape.value.v)) value.kind = HostValue::type, value.format = *f;
            return value;
        case sema::HostOperand::text:
            value.kind = HostValue::text, value.s = shape.string;
            return value;
        case sema::HostOperand::layout:
            value.kind = HostValue::layout, value.layout_id = shape.layout_id;
            return value;
        case sema::HostOperand::tuple:
            if (shape.items.empty()) return value;
            value.kind = HostValue::tuple;
            for (const sema::HostOperand& item : shape.items) {
                auto part = from_operand(item, results, at);
                if (!part) return std::nullopt;
                value.items.push_back(std::move(*part));
            }
            return value;
    }
    return value;
}

std::optional<HostValue> HostRunner::relayout(const ast::AnnotatedExpr& expr) {
    auto value = evaluate(*expr.base);
    if (!value) return std::nullopt;
    if (value->kind != HostValue::tensor) {
        diags_->report(Diag::host_kind, expr.base->span, {"a tensor", kind_name(value->kind)});
        return std::nullopt;
    }
    auto layout = sema::evaluate_layout(module_, *expr.layout, resolver(), engine_.types(), *diags_);
    if (!layout) return std::nullopt;
    const Shape& extents = value->t->extents;
    const Layout& map = engine_.types().layout(*layout);
    const bool fits = map.rank() < 0 || map.rank() == extents.rank;  // make_tensor says what does not
    if (auto conflict = fits ? map.find_conflict({extents.begin(), extents.rank}) : std::nullopt) {
        diags_->report(Diag::layout_conflict, expr.layout->span, {map.name(), to_string(extents), conflict->text()});
        return std::nullopt;
    }
    std::string why;
    bool initialised = fully_written(engine_.types(), value->t->view());
    HostValue out;
    out.kind = HostValue::tensor;
    out.t = make_tensor(engine_.types(), value->t->elem, *layout, value->t->extents, initialised, &why);
    if (!out.t || (initialised && !copy_converted(engine_, module_, out.t->view(), value->t->view(), *diags_, &why))) {
        diags_->report(Diag::host_tensor, expr.span, {why});
        return std::nullopt;
    }
    return out;
}

}  // namespace tegula
