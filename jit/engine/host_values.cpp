// Values of host statements: as arguments of a launch, as operands of an expression of the language, and back. See host.h.
#include <algorithm>

#include "jit/engine/compare.h"
#include "jit/engine/host.h"
#include "jit/engine/host_kernel.h"
#include "jit/engine/kept_prints.h"
#include "lower/lower.h"

namespace tegula {

std::string host_kind_name(HostValue::Kind kind) {
    static constexpr const char* kNames[] = {"nothing", "a tensor", "an integer", "a number", "a bool",
                                             "text",    "a tuple",  "a layout",   "a type",   "a word or function"};
    return kNames[kind];
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
            arg.kind = LaunchArgument::boolean, arg.i = value.b;
            return arg;
        case HostValue::real:
            arg.kind = LaunchArgument::real, arg.r = value.r;
            return arg;
        default:
            diags_->report(Diag::host_kind, span, {"a tensor or a number", host_kind_name(value.kind)});
            return std::nullopt;
    }
}

bool HostRunner::new_tensor(std::shared_ptr<HostTensor>& out, FormatId elem, LayoutId layout, const Shape& extents, bool initialised, Span span) {
    std::string why;
    if (make_tensor(module_.types(), elem, layout, extents, initialised, &budget_).into(out, why)) return true;
    diags_->report(Diag::host_tensor, span, {why});
    return false;
}

std::optional<__int128> HostRunner::integer_in(const HostValue& value) {
    if (value.kind == HostValue::integer) return value.i;
    const bool number = value.kind == HostValue::tensor && value.t->extents.rank == 0 && module_.types().format(value.t->elem).is_int();
    const auto exact = number ? number_in(value) : std::nullopt;
    return exact ? whole_value(*exact) : std::nullopt;
}

std::optional<Exact> HostRunner::number_in(const HostValue& value) {
    if (value.kind == HostValue::integer) return exact_from_wide(value.i);
    if (value.kind == HostValue::real) return exact_from_double(value.r);
    if (value.kind != HostValue::tensor || value.t->extents.rank) return std::nullopt;
    const Format& format = module_.types().format(value.t->elem);
    if (format.is_bool() || format.is_block() || !fully_written(module_.types(), value.t->view())) return std::nullopt;
    const uint64_t code = load_bits(format, value.t->data.data(), 0);
    if (format.kind == FormatKind::lns) return exact_from_double(decode(format, code));
    return decode_exact(format, code);
}

bool HostRunner::written(const HostValue& value, Span span) {
    if (value.kind == HostValue::tuple) return std::ranges::all_of(value.items, [&](const HostValue& item) { return written(item, span); });
    if (value.kind != HostValue::tensor || fully_written(module_.types(), value.t->view())) return true;
    diags_->report(Diag::host_uninitialised, span);
    fail(Status::run);
    return false;
}

std::optional<TileData> HostRunner::as_tile(const HostValue& value, Span span) {
    if (!written(value, span)) return std::nullopt;
    return read_tile(module_.types(), value.t->view());
}

const HostValue* member_of(const HostValue& value, std::string_view name) {
    size_t i = 0;
    if (value.of) {
        const auto& fields = value.of->fields;
        i = static_cast<size_t>(std::ranges::find(fields, name, [](const ast::Field& f) { return f.name.text; }) - fields.begin());
    } else {
        const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), i);
        if (error != std::errc() || end != name.data() + name.size()) return nullptr;
    }
    return i < value.items.size() ? &value.items[i] : nullptr;
}

bool constant_operand(const HostValue& value, sema::HostOperand& out) {
    const auto is = [&](sema::HostOperand::Kind kind) { return out.kind = kind, true; };
    switch (value.kind) {
        case HostValue::integer:
            out.value.v = value.i;
            return is(sema::HostOperand::constant);
        case HostValue::real:
            out.value.v = value.r;
            return is(sema::HostOperand::constant);
        case HostValue::boolean:
            out.value.v = value.b;
            return is(sema::HostOperand::constant);
        case HostValue::type:
            out.value.v = value.format;
            return is(sema::HostOperand::constant);
        case HostValue::choice:
            out.value.v = value.choice_of;
            return is(sema::HostOperand::constant);
        case HostValue::text:
            out.string = value.s;
            return is(sema::HostOperand::text);
        case HostValue::layout:
            out.layout_id = value.layout_id;
            return is(sema::HostOperand::layout);
        default:
            return false;
    }
}

sema::HostOperand HostRunner::to_operand(const HostValue& value, Span span) {
    sema::HostOperand out;
    if (constant_operand(value, out)) return out;
    switch (value.kind) {
        case HostValue::unit:
        case HostValue::tuple:
            out.kind = sema::HostOperand::tuple;
            out.of = value.of;
            for (const HostValue& item : value.items) out.items.push_back(to_operand(item, span));
            break;
        case HostValue::tensor:
            tensor_operand(value, span, out);
            break;
        default:  // constants
            break;
    }
    return out;
}

void HostRunner::tensor_operand(const HostValue& value, Span span, sema::HostOperand& out) {
    TypeTable& types = module_.types();
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

bool HostRunner::compare_on_machine(const ir::Function& expression, const std::vector<TileData>& args, Span span) {
    std::string why;
    sema::Instance instance;
    auto kernel = as_kernel(expression);
    if (!kernel || !same_bits_everywhere(expression)) return true;
    TypeTable& types = module_.types();
    instance.fn = std::make_unique<ir::Function>(std::move(*kernel));
    keep_plain(instance);
    std::vector<std::shared_ptr<HostTensor>> storage;
    std::vector<Argument> values;
    for (size_t i = 0; i < instance.fn->params.size(); ++i) {
        const bool result = i >= args.size();
        if (!result && args[i].shape.rank == 0) {
            const TileData& tile = args[i];
            Argument scalar;
            std::memcpy(&scalar.code, tile.bytes.data(), tile.bytes.size());
            scalar.code = extend_code(types.format(tile.elem), scalar.code);
            values.push_back(scalar);
            continue;
        }
        const Type& type = instance.fn->type(instance.fn->params[i].value);
        if (!make_tensor(types, type.elem, {}, type.shape, true).into(storage.emplace_back(), why)) {
            diags_->report(Diag::host_tensor, span, {why});
            return false;
        }
        if (!result) write_tile(types, storage.back()->view(), args[i]);
        append_arguments(types, storage.back()->view(), values);
    }
    const auto program = options_.machine->prepare(instance, options_.disabled_passes);
    std::vector<TileData> expected;
    RunResult reference;
    RunOptions quiet = options_;
    quiet.print = nullptr;  // it has been evaluated before, and printed
    if (options_.machine->is_gpu()) {
        const GpuOptions form = options_.machine->form_options(instance, options_.disabled_passes, *program, values, options_.stream);
        reference = model_of(expression, *instance.fn, form).program->evaluate(args, expected, quiet);
    } else {
        reference = interp::Program::prepare(expression)->evaluate(args, expected, quiet);
    }
    RunOptions run;
    run.cancel = options_.cancel;
    run.step_budget = options_.step_budget;
    run.memory_budget = options_.memory_budget;
    run.progress = [this](uint64_t, uint64_t) { return look_up(), true; };
    const uint64_t grid[3] = {1, 1, 1};
    RunResult got = program->run(values, grid, run);
    report_warning(*options_.machine, *diags_);
    for (Diagnostic& d : got.diagnostics)
        if (d.id != Diag::registers_spilled) diags_->add(std::move(d));  // an expression is a kernel for the comparison only
    if (got.status == RunResult::cancelled) throw HostStopped{Status::cancelled};
    if (got.status != RunResult::ok || reference.status != RunResult::ok) return false;
    const Snapshot machine(values);
    for (size_t r = 0; r < expected.size(); ++r) {
        TileData tile = expected[r];
        if (tile.shape.rank == 0) tile.shape = Shape{1};
        const size_t at = args.size() + r;
        HostTensor& t = *storage[storage.size() - expected.size() + r];
        write_tile(types, t.view(), tile);
        std::string difference = machine.difference(types, values, at, true);
        if (difference.empty()) continue;
        diags_->report(Diag::machine_differs, span, {options_.machine->name(), instance.fn->params[at].name, difference});
        return false;
    }
    return true;
}

std::optional<sema::HostOperand> HostRunner::computed(const ast::Expr& expr, const sema::HostResolver& resolver, std::vector<TileData>& results) {
    size_t errors = diags_->error_count();
    const size_t outer = temporaries_.size();  // of the expressions around this one
    sema::Limits limits;
    limits.cancel = options_.cancel;
    limits.tick = &tick_;
    auto host = sema::elaborate_expression(module_, expr, resolver, module_.types(), limits, *diags_);
    if (!host || diags_->error_count() != errors) return std::nullopt;
    if (host->fn) {
        for (const TileData* tile : host->arguments) {  // sizes are known without a function; whatever computes needs elements
            if (tile->shape.elements() > 0) continue;
            diags_->report(Diag::host_kind, expr.span, {"an array with elements", "one of extents " + to_string(tile->shape)});
            return std::nullopt;
        }
        PassOptions passes;
        passes.disabled = options_.disabled_passes;
        passes.cancel = options_.cancel;
        if (engine_.options().on_elaborated) engine_.options().on_elaborated(*host->fn);
        run_passes(*host->fn, passes);
        auto program = interp::Program::prepare(*host->fn);
        std::vector<TileData> args;
        for (const TileData* tile : host->arguments) args.push_back(*tile);
        RunOptions run = options_;
        run.print = with_line_ends(options_.print);
        run.progress = [this](uint64_t, uint64_t) { return look_up(), true; };
        RunResult ran = program->evaluate(args, results, run);
        for (Diagnostic& d : ran.diagnostics) diags_->add(std::move(d));
        steps_ += ran.steps;
        if (ran.status == RunResult::cancelled) throw HostStopped{Status::cancelled};
        if (ran.status != RunResult::ok) {
            fail(Status::run);
            return std::nullopt;
        }
        step(expr.span);  // it may have taken more steps than are left
        if (options_.machine && options_.compare && options_.compare_expressions && !compare_on_machine(*host->fn, args, expr.span)) {
            fail(Status::mismatch);
            return std::nullopt;
        }
    }
    temporaries_.resize(outer);
    return std::move(host->result);
}

std::optional<HostValue> HostRunner::elaborated(const ast::Expr& expr) {
    std::vector<TileData> results;
    const auto shape = computed(expr, resolver(), results);
    if (!shape) return std::nullopt;
    size_t at = 0;
    return from_operand(*shape, results, at, expr.span);
}

std::optional<HostValue> HostRunner::from_operand(const sema::HostOperand& shape, std::vector<TileData>& results, size_t& at, Span span) {
    HostValue value;
    const auto tensor = [&](FormatId elem, const Shape& extents, const Layout& layout = Layout::row()) {
        value.kind = HostValue::tensor;
        return new_tensor(value.t, elem, module_.types().intern(layout), extents, true, span);
    };
    switch (shape.kind) {
        case sema::HostOperand::tile: {
            const TileData& tile = results.at(at++);
            if (!tensor(tile.elem, tile.shape)) return std::nullopt;
            write_tile(module_.types(), value.t->view(), tile);
            return value;
        }
        case sema::HostOperand::block_tile: {
            const TileData& elements = results.at(at++);
            // Blocks lie along the innermost storage dimension: rows, or columns after a transposition.
            const int axis = shape.block_axis < 0 ? elements.shape.rank - 1 : shape.block_axis;
            if (axis != 0 && axis != elements.shape.rank - 1) {
                diags_->report(Diag::host_tensor, span,
                               {"blocks along dimension " + std::to_string(axis) + " of a value of rank " + std::to_string(elements.shape.rank) +
                                " have no order of storage; decode them first"});
                return std::nullopt;
            }
            if (!tensor(shape.block, elements.shape, axis == elements.shape.rank - 1 ? Layout::row() : Layout::col())) return std::nullopt;
            write_tile(module_.types(), value.t->view(), elements);
            std::vector<Argument> parts;
            append_arguments(module_.types(), value.t->view(), parts);
            for (size_t i = 1; i < parts.size(); ++i) {
                TileData part = results.at(at++);
                TensorView view;
                view.elem = part.elem;
                view.extents = part.shape;
                if (i == 1) view.layout = value.t->layout;
                view.data = static_cast<uint8_t*>(parts[i].t.data);
                view.bytes = parts[i].t.bytes;
                write_tile(module_.types(), view, part);
            }
            return value;
        }
        case sema::HostOperand::constant:
            if (auto* i = std::get_if<__int128>(&shape.value.v)) value.kind = HostValue::integer, value.i = *i;
            if (auto* r = std::get_if<double>(&shape.value.v)) value.kind = HostValue::real, value.r = *r;
            if (auto* b = std::get_if<bool>(&shape.value.v)) value.kind = HostValue::boolean, value.b = *b;
            if (auto* f = std::get_if<FormatId>(&shape.value.v)) value.kind = HostValue::type, value.format = *f;
            if (auto* c = std::get_if<sema::Choice>(&shape.value.v)) value.kind = HostValue::choice, value.choice_of = *c;
            return value;
        case sema::HostOperand::text:
            value.kind = HostValue::text, value.s = shape.string;
            return value;
        case sema::HostOperand::layout:
            value.kind = HostValue::layout, value.layout_id = shape.layout_id;
            return value;
        case sema::HostOperand::unknown:
            return value;
        case sema::HostOperand::tuple:
            if (shape.items.empty()) return value;
            value.kind = HostValue::tuple, value.of = shape.of;
            if (value.of && value.of.use_count() == 0) value.of = {module_.shared_from_this(), value.of.get()};
            for (const sema::HostOperand& item : shape.items) {
                auto part = from_operand(item, results, at, span);
                if (!part) return std::nullopt;
                value.items.push_back(std::move(*part));
            }
            return value;
    }
    return value;
}

std::optional<HostValue> HostRunner::view_of(const ast::Expr& call) {
    HostArgs args;
    if (!host_args("<T>(x)", call, args)) return std::nullopt;
    const HostValue& x = *args.values[0];
    if (x.kind != HostValue::tensor) return refuse(args, 0, "a tensor"), std::nullopt;
    std::vector<Argument> parts;
    append_arguments(module_.types(), x.t->view(), parts);
    parts[0].t.elem = x.t->elem;  // also of blocks, which have more parts
    const std::string why = see_as(module_.types(), parts[0].t, args.format);
    if (!why.empty()) {
        diags_->report(Diag::bad_view, call.span, {found(x), module_.types().format(args.format).name, why});
        return std::nullopt;
    }
    HostValue out;
    out.kind = HostValue::tensor;
    out.t = std::make_shared<HostTensor>();
    out.t->elem = args.format;
    out.t->extents = parts[0].t.extents;
    out.t->layout = x.t->layout;
    out.t->memory = owner(x.t);
    return out;
}

std::optional<HostValue> HostRunner::relayout(const ast::AnnotatedExpr& expr) {
    auto value = evaluate(*expr.base);
    if (!value) return std::nullopt;
    if (value->kind != HostValue::tensor) {
        diags_->report(Diag::host_kind, expr.base->span, {"a tensor", host_kind_name(value->kind)});
        return std::nullopt;
    }
    auto layout = sema::evaluate_layout(module_, *expr.layout, resolver(), module_.types(), *diags_);
    if (!layout) return std::nullopt;
    const Shape& extents = value->t->extents;
    const Layout& map = module_.types().layout(*layout);
    const bool fits = map.rank() < 0 || map.rank() == extents.rank;  // make_tensor says what does not
    if (auto conflict = fits ? map.find_conflict({extents.begin(), extents.rank}) : std::nullopt) {
        diags_->report(Diag::layout_conflict, expr.layout->span, {map.name(), to_string(extents), conflict->text()});
        return std::nullopt;
    }
    const bool initialised = fully_written(module_.types(), value->t->view());
    HostValue out;
    out.kind = HostValue::tensor;
    if (!new_tensor(out.t, value->t->elem, *layout, extents, initialised, expr.span)) return std::nullopt;
    step(expr.span, static_cast<uint64_t>(extents.elements()));
    std::string why;
    if (initialised && !copy_converted(engine_, module_, out.t->view(), value->t->view(), *diags_, &why)) {
        diags_->report(Diag::host_tensor, expr.span, {why});
        return std::nullopt;
    }
    return out;
}

}  // namespace tegula
