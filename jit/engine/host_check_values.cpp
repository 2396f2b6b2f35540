// Checking host statements without running them: values of expressions. See host_checker.h.
#include <charconv>

#include "jit/engine/host_checker.h"
#include "lang/print_text.h"
#include "sema/signature.h"
#include "sema/suggest.h"

namespace tegula {

HostValue HostChecker::tensor(FormatId elem, const Shape& extents, LayoutId layout) {
    HostValue out;
    out.kind = HostValue::tensor;
    out.t = std::make_shared<HostTensor>();
    out.t->elem = elem;
    out.t->extents = extents;
    out.t->layout = layout.v ? layout : module_.types().intern(Layout::row());
    return out;
}

HostValue* HostChecker::find(std::string_view name) {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
        if (auto it = scope->find(name); it != scope->end()) return &it->second;
    return nullptr;
}

/// The variable, or the known member or element of a tuple, that an expression names; null: the language says what it is.
HostValue* HostChecker::place(const ast::Expr& expr) {
    if (expr.kind == ast::ExprKind::name) return find(ast::as<ast::NameExpr>(&expr).name);
    const bool is_member = expr.kind == ast::ExprKind::member;
    if (!is_member && expr.kind != ast::ExprKind::index) return nullptr;
    HostValue* base = place(is_member ? *ast::as<ast::MemberExpr>(&expr).base : *ast::as<ast::IndexExpr>(&expr).base);
    if (!base || is_unknown(*base)) return base;
    if (base->kind != HostValue::tuple) return nullptr;
    if (is_member) return member_of(*base, ast::as<ast::MemberExpr>(&expr).member.text);
    const auto& index = ast::as<ast::IndexExpr>(&expr);
    if (base->of || index.items.size() != 1 || index.items[0].kind != ast::IndexItem::value) return nullptr;
    const HostValue at = value(*index.items[0].start);
    if (at.kind != HostValue::integer || at.i < 0 || at.i >= static_cast<__int128>(base->items.size())) return nullptr;
    return &base->items[static_cast<size_t>(at.i)];
}

HostValue HostChecker::value(const ast::Expr& expr) {
    if (depth_ >= kMaxDepth) return {};
    ++depth_;
    std::optional<HostValue> made = own(expr);
    if (!made) made = elaborated(expr);
    --depth_;
    return std::move(*made);
}

/// The host's own reading of an expression; nullopt: the language's.
std::optional<HostValue> HostChecker::own(const ast::Expr& expr) {
    switch (expr.kind) {
        case ast::ExprKind::name:
        case ast::ExprKind::member:
        case ast::ExprKind::index:
            if (const HostValue* at = place(expr)) return *at;
            break;
        case ast::ExprKind::string_lit: {
            HostValue text;
            text.kind = HostValue::text;
            text.s = ast::as<ast::StringLit>(&expr).value;
            return text;
        }
        case ast::ExprKind::tuple:
        case ast::ExprKind::array: {
            HostValue tuple;
            tuple.kind = HostValue::tuple;
            const bool is_tuple = expr.kind == ast::ExprKind::tuple;
            for (const ast::Expr* item : is_tuple ? ast::as<ast::TupleExpr>(&expr).items : ast::as<ast::ArrayExpr>(&expr).items)
                tuple.items.push_back(value(*item));
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
    const std::string_view name = called_name(expr);
    if (name.empty() || module_.find(name) || find(name)) return std::nullopt;
#define HOST_CALL(row, signature, doc) \
    if (name == #row) return host_call(name, signature, expr);
#include "lang/host_calls.def"
    if (expr.kind != ast::ExprKind::call || (name != "print" && name != "assert")) return std::nullopt;
    const std::span<const ast::Arg> args = ast::as<ast::CallExpr>(&expr).args;
    if (name == "print" && !args.empty() && args[0].value->kind == ast::ExprKind::string_lit) {
        const size_t holes = count_holes(ast::as<ast::StringLit>(args[0].value).value);
        if (holes != args.size() - 1) {
            auto& d = diags_.report(Diag::bad_format_text, args[0].value->span, {std::to_string(holes), std::to_string(args.size() - 1)});
            sema::suggest_format_text(d, &module_, args[0].value->span);
        }
    }
    for (size_t i = 0; i < args.size(); ++i) {
        const HostValue one = value(*args[i].value);
        const bool truth = is_unknown(one) || one.kind == HostValue::boolean || (one.kind == HostValue::tensor && one.t->elem == Fmt::boolean);
        if (name == "assert" && i == 0 && !truth) diags_.report(Diag::host_kind, args[i].value->span, {"a bool", host_kind_name(one.kind)});
    }
    return HostValue{};
}

sema::HostOperand HostChecker::operand(const HostValue& value) {
    sema::HostOperand out;
    if (constant_operand(value, out)) return out;
    switch (value.kind) {
        case HostValue::unit:
            out.kind = sema::HostOperand::unknown;
            break;
        case HostValue::tuple:
            out.kind = sema::HostOperand::tuple;
            out.of = value.of;
            for (const HostValue& item : value.items) out.items.push_back(operand(item));
            break;
        case HostValue::tensor: {
            TypeTable& types = module_.types();
            const auto keep = [&](FormatId elem, const Shape& shape) { return &tiles_.emplace_back(TileData{elem, shape, {}}); };
            const HostTensor& t = *value.t;
            const Format& format = types.format(t.elem);
            out.kind = sema::HostOperand::tile;
            out.data = keep(format.is_block() ? format.elem : t.elem, t.extents);
            if (!format.is_block()) break;
            out.kind = sema::HostOperand::block_tile;
            out.block = t.elem;
            out.block_axis = block_axis(types, t.layout, t.extents.rank);
            out.scales = keep(format.scale, scale_extents(types, t.elem, t.layout, t.extents));
            if (format.tensor_scale.v) out.tensor_scale = keep(format.tensor_scale, {});
            break;
        }
        default:  // constants
            break;
    }
    return out;
}

sema::HostResolver HostChecker::resolver() {
    return [this](const ast::Expr& expr) -> std::optional<sema::HostOperand> {
        const std::optional<HostValue> made = own(expr);
        return made ? std::optional(operand(*made)) : std::nullopt;
    };
}

HostValue HostChecker::elaborated(const ast::Expr& expr) {
    const size_t errors = diags_.error_count();
    const auto made = sema::elaborate_expression(module_, expr, resolver(), module_.types(), limits_, diags_);
    if (!made || diags_.error_count() != errors) return {};
    std::span<const ir::ValueId> leaves;
    if (made->fn) leaves = made->fn->operands(made->fn->inst(made->fn->block(made->fn->body).insts.back()));
    size_t at = 0;
    return result(made->result, made->fn.get(), leaves, at);
}

HostValue HostChecker::result(const sema::HostOperand& shape, const ir::Function* fn, std::span<const ir::ValueId> leaves, size_t& at) {
    HostValue out;
    switch (shape.kind) {
        case sema::HostOperand::tile: {
            const Type& type = fn->type(leaves[at++]);
            return tensor(type.elem, type.shape);
        }
        case sema::HostOperand::block_tile: {
            const Shape extents = fn->type(leaves[at]).shape;
            at += module_.types().format(shape.block).tensor_scale.v ? 3 : 2;
            const bool rows = shape.block_axis < 0 || shape.block_axis == extents.rank - 1;
            return tensor(shape.block, extents, module_.types().intern(rows ? Layout::row() : Layout::col()));
        }
        case sema::HostOperand::constant:
            if (auto* i = std::get_if<__int128>(&shape.value.v)) out.kind = HostValue::integer, out.i = *i;
            if (auto* r = std::get_if<double>(&shape.value.v)) out.kind = HostValue::real, out.r = *r;
            if (auto* b = std::get_if<bool>(&shape.value.v)) out.kind = HostValue::boolean, out.b = *b;
            if (auto* f = std::get_if<FormatId>(&shape.value.v)) out.kind = HostValue::type, out.format = *f;
            if (auto* c = std::get_if<sema::Choice>(&shape.value.v)) out.kind = HostValue::choice, out.choice_of = *c;
            return out;
        case sema::HostOperand::text:
            out.kind = HostValue::text, out.s = shape.string;
            return out;
        case sema::HostOperand::layout:
            out.kind = HostValue::layout, out.layout_id = shape.layout_id;
            return out;
        case sema::HostOperand::tuple:
            if (!shape.items.empty()) out.kind = HostValue::tuple, out.of = shape.of;
            for (const sema::HostOperand& item : shape.items) out.items.push_back(result(item, fn, leaves, at));
            return out;
        case sema::HostOperand::unknown:
            return out;
    }
    return out;
}

HostValue HostChecker::relayout(const ast::AnnotatedExpr& expr) {
    const HostValue base = value(*expr.base);
    if (base.kind != HostValue::tensor && !is_unknown(base)) diags_.report(Diag::host_kind, expr.base->span, {"a tensor", host_kind_name(base.kind)});
    const auto layout = sema::evaluate_layout(module_, *expr.layout, resolver(), module_.types(), diags_);
    if (!layout || base.kind != HostValue::tensor) return {};
    const Shape& extents = base.t->extents;
    const Layout& map = module_.types().layout(*layout);
    const bool fits = map.rank() < 0 || map.rank() == extents.rank;
    if (const auto conflict = fits ? map.find_conflict({extents.begin(), static_cast<size_t>(extents.rank)}) : std::nullopt) {
        diags_.report(Diag::layout_conflict, expr.layout->span, {map.name(), to_string(extents), conflict->text()});
        return {};
    }
    return tensor(base.t->elem, extents, *layout);
}

/// A function of host statements: its arguments, and what is known of the array that it makes.
HostValue HostChecker::host_call(std::string_view name, const char* text, const ast::Expr& expr) {
    const sema::Signature signature = sema::parse_signature(text);
    const auto refuse = [&](Span span, const char* why) {
        diags_.report(Diag::host_arguments, span, {why});
        return HostValue{};
    };
    const ast::Expr* head = &expr;
    if (head->kind == ast::ExprKind::call) {
        const std::span<const ast::Arg> args = ast::as<ast::CallExpr>(head).args;
        // What is wrong with a launch that is to fail is no error.
        for (size_t i = name == "assert_fails" ? 1 : 0; i < args.size(); ++i) value(*args[i].value);
        head = ast::as<ast::CallExpr>(head).callee;
    }
    bool known = true;
    Shape shape;
    if (signature.has_shape) {
        if (head->kind != ast::ExprKind::index) return refuse(expr.span, "a shape is needed: name<type>[extents]");
        for (const ast::IndexItem& item : ast::as<ast::IndexExpr>(head).items) {
            if (item.kind != ast::IndexItem::value) return refuse(item.span, "extents are integers");
            if (shape.rank == kMaxRank) return refuse(item.span, "at most 8 dimensions");
            const HostValue extent = value(*item.start);
            const bool number = extent.kind == HostValue::integer || (extent.kind == HostValue::tensor && extent.t->extents.rank == 0);
            if ((!number && !is_unknown(extent)) || (extent.kind == HostValue::integer && (extent.i < 0 || extent.i > INT64_MAX)))
                return refuse(item.span, "extents are integers >= 0");
            known &= extent.kind == HostValue::integer;
            shape.push(known ? static_cast<int64_t>(extent.i) : 1);
        }
        head = ast::as<ast::IndexExpr>(head).base;
    }
    if (signature.generics.empty()) return {};
    if (head->kind != ast::ExprKind::instantiate || ast::as<ast::InstantiateExpr>(head).args.size() != 1)
        return refuse(expr.span, "an element type is needed: name<type>");
    const auto format = sema::evaluate_format(module_, *ast::as<ast::InstantiateExpr>(head).args[0].value, resolver(), module_.types(), diags_);
    TensorSize size;
    if (!format || !known || !tensor_size(module_.types(), *format, {}, shape, size, nullptr)) return {};
    return tensor(*format, shape);
}

}  // namespace tegula
