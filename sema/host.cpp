// Expressions of host statements: names and calls that the language does not know are the host's; its tiles become parameters of a small
// function whose results are the tiles of the value. Compile-time parts of the value never reach the IR.
#include <algorithm>

#include "sema/elaborate.h"
#include "sema/flow.h"

namespace tegula::sema {

namespace {

const Limits kHostLimits{};

}  // namespace

std::optional<Value> Elaborator::resolve_host(const ast::Expr& e) {
    if (!resolver_ || !*resolver_) return std::nullopt;
    const Scope* root = scope_.get();
    while (root && root->parent) root = root->parent.get();
    if (root != host_root_) return std::nullopt;
    const std::optional<HostOperand> operand = (*resolver_)(e);
    if (!operand) return std::nullopt;
    return host_value(*operand, e.span);
}

ir::ValueId Elaborator::host_param(const TileData* data) {
    const auto it = host_tiles_.find(data);
    if (it != host_tiles_.end()) return it->second;
    ir::Function& fn = *host_->fn;
    ir::Param p;
    p.name = "t" + std::to_string(fn.params.size());
    p.kind = ir::Param::scalar;
    p.value = fn.add_arg(fn.body, types_.tile(data->elem, data->shape));
    fn.params.push_back(p);
    host_->arguments.push_back(data);
    return host_tiles_[data] = p.value;
}

Value Elaborator::host_value(const HostOperand& o, Span span) {
    Value v;
    v.span = span;
    const bool is_tile = o.kind == HostOperand::tile || o.kind == HostOperand::block_tile;
    if (is_tile && (!building() || !host_ || !o.data)) return error(Diag::not_constant, span, "this value", "an array of the host");
    if (is_tile && !fits_budget(o.data->shape, span)) return poison(span);
    switch (o.kind) {
        case HostOperand::tile:
            return tile(host_param(o.data), span);
        case HostOperand::block_tile:
            if (!o.scales) return poison(span);
            v.kind = Value::block_tile;
            v.elem = o.block;
            v.block_axis = o.block_axis;
            v.v = host_param(o.data);
            v.scales = host_param(o.scales);
            if (o.tensor_scale) v.tensor_scale = host_param(o.tensor_scale);
            return v;
        case HostOperand::constant:
            return value_of(o.value, module_scope(*module_here()), span);
        case HostOperand::text:
            v.kind = Value::text;
            texts_.push_back(o.string);
            v.s = texts_.back();
            return v;
        case HostOperand::layout:
            v.kind = Value::layout;
            v.layout_id = o.layout_id;
            return v;
        case HostOperand::unknown:
            return poison(span);
        case HostOperand::tuple:
            v.kind = o.of ? Value::structure : Value::tuple;
            v.decl = o.of.get();
            if (o.of) host_structs_.emplace(v.decl, o.of);
            for (const HostOperand& item : o.items) v.items.push_back(host_value(item, span));
            return v;
    }
    return poison(span);
}

bool Elaborator::host_result(Value& v, Span span, HostOperand& out, std::vector<ir::ValueId>& leaves) {
    out.kind = HostOperand::constant;
    switch (v.kind) {
        case Value::poison:
            return false;
        case Value::integer:
            out.value.v = v.i;
            return true;
        case Value::real:
            out.value.v = v.r;
            return true;
        case Value::boolean:
            out.value.v = v.b;
            return true;
        case Value::text:
            out.kind = HostOperand::text;
            out.string = v.s;
            return true;
        case Value::layout:
            out.kind = HostOperand::layout;
            out.layout_id = v.layout_id;
            return true;
        case Value::type:
            if (v.t.kind != TypeDesc::scalar_format || v.generic_item) break;
            out.value.v = v.t.elem;
            return true;
        case Value::tile:
            if (ir().fn().type(v.v).pointer) break;
            out.kind = HostOperand::tile;
            leaves.push_back(v.v);
            return true;
        case Value::block_tile:
            out.kind = HostOperand::block_tile;
            out.block = v.elem;
            out.block_axis = block_axis(v);
            leaves.push_back(v.v);
            leaves.push_back(v.scales);
            if (v.tensor_scale.valid()) leaves.push_back(v.tensor_scale);
            return true;
        case Value::unit:
        case Value::tuple:
        case Value::list:
        case Value::structure:
            out.kind = HostOperand::tuple;
            if (v.kind == Value::structure && v.decl) {
                const auto known = host_structs_.find(v.decl);
                out.of = known != host_structs_.end() ? known->second : std::shared_ptr<const ast::StructItem>(std::shared_ptr<void>(), v.decl);
            }
            for (Value& item : v.items)
                if (!host_result(item, span, out.items.emplace_back(), leaves)) return false;
            return true;
        case Value::word:
        case Value::function:
        case Value::builtin:
        case Value::elementwise:
            if (auto c = choice_of(v)) {
                out.value.v = std::move(*c);
                return true;
            }
            break;
        default:
            break;
    }
    error(Diag::no_runtime_form, span, describe(v));
    return false;
}

void Elaborator::enter_host(const Module& module, const HostResolver& resolver) {
    stack_base_ = static_cast<const char*>(__builtin_frame_address(0));
    resolver_ = &resolver;
    recorder_ = module.recorder;
    auto root = module_scope(module);
    host_root_ = root.get();
    scope_ = make_scope(root);
}

std::optional<HostExpression> Elaborator::expression(const Module& module, const ast::Expr& e, const HostResolver& resolver) {
    const size_t errors = diags_.error_count();
    HostExpression out;
    host_ = &out;
    out.fn = std::make_unique<ir::Function>(types_);
    ir::Function& fn = *out.fn;
    fn.name = "expression";
    fn.is_kernel = false;
    fn.loop_hints.emplace_back();
    fn.body = fn.add_block();
    builder_ = std::make_unique<ir::Builder>(fn, fn.body);
    enter_host(module, resolver);
    Value v = expr(e);
    std::vector<ir::ValueId> leaves;
    const bool ok = host_result(v, e.span, out.result, leaves);
    host_ = nullptr;
    if (!ok || diags_.error_count() != errors) return std::nullopt;
    bool effects = false;
    for (const ir::InstId i : fn.block(fn.body).insts)
        effects |= ir::has_trait(fn.inst(i).op, ir::EFFECT) || ir::has_trait(fn.inst(i).op, ir::REGIONS);
    ir().emit(ir::Op::ret, leaves, {});
    if (leaves.empty() && !effects) {
        out.fn.reset();
        out.arguments.clear();
    }
    return out;
}

std::optional<FormatId> Elaborator::format(const Module& module, const ast::Expr& e, const HostResolver& resolver) {
    enter_host(module, resolver);
    const std::optional<TypeDesc> t = type_desc(e);
    if (!t) return std::nullopt;
    if (t->kind == TypeDesc::scalar_format) return t->elem;
    error(Diag::not_a_type, e.span, "`" + describe(*t) + "`, which is no number format");
    return std::nullopt;
}

std::optional<LayoutId> Elaborator::layout(const Module& module, const ast::Expr& e, const HostResolver& resolver) {
    enter_host(module, resolver);
    const Value v = layout_expr(e);
    return v.kind == Value::layout ? std::optional<LayoutId>(v.layout_id) : std::nullopt;
}

std::optional<HostExpression> elaborate_expression(const Module& module, const ast::Expr& expr, const HostResolver& resolver, TypeTable& types,
                                                   const Limits& limits, DiagSink& diags) {
    Elaborator e(types, limits, diags);
    return e.expression(module, expr, resolver);
}

std::optional<FormatId> evaluate_format(const Module& module, const ast::Expr& expr, const HostResolver& resolver, TypeTable& types,
                                        DiagSink& diags) {
    Elaborator e(types, kHostLimits, diags);
    return e.format(module, expr, resolver);
}

std::optional<LayoutId> evaluate_layout(const Module& module, const ast::Expr& expr, const HostResolver& resolver, TypeTable& types,
                                        DiagSink& diags) {
    Elaborator e(types, kHostLimits, diags);
    return e.layout(module, expr, resolver);
}

}  // namespace tegula::sema
