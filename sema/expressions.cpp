// Expressions: one switch over the node kinds, names and members, and what a call means for each kind of callee. Long chains of binary
// operators are walked along their left spine, so that depth of native recursion follows nesting of the source only.
#include <algorithm>
#include <charconv>

#include "lang/directed.h"
#include "sema/elaborate.h"
#include "sema/flow.h"
#include "sema/modifiers.h"
#include "sema/suggest.h"
#include "sema/walk.h"
#include "sema/words.h"

namespace tegula::sema {

namespace {

Value of_kind(Value::Kind kind, Span span) {
    Value v;
    v.kind = kind;
    v.span = span;
    return v;
}

/// The name a call or instantiation starts with: `f` of f<T>[M, N](x); empty when it starts with something else.
std::string_view root_name(const ast::Expr* e) {
    for (;;) {
        switch (e->kind) {
            case ast::ExprKind::name:
                return ast::as<ast::NameExpr>(e).name;
            case ast::ExprKind::instantiate:
                e = ast::as<ast::InstantiateExpr>(e).base;
                break;
            case ast::ExprKind::index:
                e = ast::as<ast::IndexExpr>(e).base;
                break;
            case ast::ExprKind::member:
                e = ast::as<ast::MemberExpr>(e).base;
                break;
            case ast::ExprKind::call:
                e = ast::as<ast::CallExpr>(e).callee;
                break;
            case ast::ExprKind::annotated:
                e = ast::as<ast::AnnotatedExpr>(e).base;
                break;
            default:
                return {};
        }
    }
}

bool is_type_form(const ast::Expr& e) {
    const std::string_view root = root_name(&e);
    return root == "tile" || root == "tensor" || root == "codebook";
}

Value literal(const ast::Expr& e) {
    Value v = of_kind(Value::none, e.span);
    if (e.kind == ast::ExprKind::int_lit) v.kind = Value::integer, v.i = ast::as<ast::IntLit>(&e).value;
    if (e.kind == ast::ExprKind::float_lit) {
        const auto& real = ast::as<ast::FloatLit>(&e);
        v.kind = Value::real, v.r = real.value, v.rest = real.rest;
    }
    if (e.kind == ast::ExprKind::bool_lit) v.kind = Value::boolean, v.b = ast::as<ast::BoolLit>(&e).value;
    if (e.kind == ast::ExprKind::string_lit) v.kind = Value::text, v.s = ast::as<ast::StringLit>(&e).value;
    return v;
}

}  // namespace

Value Elaborator::expr(const ast::Expr& e) {
    if (too_deep(e.span)) return poison(e.span);
    if (auto value = host_value(e)) return *value;
    switch (e.kind) {
        case ast::ExprKind::int_lit:
        case ast::ExprKind::float_lit:
        case ast::ExprKind::bool_lit:
        case ast::ExprKind::string_lit:
        case ast::ExprKind::none_lit:
            return literal(e);
        case ast::ExprKind::name: {
            Value v = lookup(ast::as<ast::NameExpr>(&e).name, e.span);
            v.span = e.span;
            record(e.span, v);
            return v;
        }
        case ast::ExprKind::member:
            return member(ast::as<ast::MemberExpr>(&e));
        case ast::ExprKind::instantiate:
            return instantiate(ast::as<ast::InstantiateExpr>(&e));
        case ast::ExprKind::index:
            return index(ast::as<ast::IndexExpr>(&e), nullptr);
        case ast::ExprKind::call:
            return call(ast::as<ast::CallExpr>(&e));
        case ast::ExprKind::unary:
            return unary(ast::as<ast::UnaryExpr>(&e).op, expr(*ast::as<ast::UnaryExpr>(&e).operand), e.span);
        case ast::ExprKind::binary:
            return binary_chain(ast::as<ast::BinaryExpr>(&e));
        case ast::ExprKind::else_value: {
            const auto& other = ast::as<ast::ElseExpr>(&e);
            const ast::Expr& part = without_modifiers(*other.access);
            if (part.kind == ast::ExprKind::index)
                return index(ast::as<ast::IndexExpr>(&part), other.value, &part == other.access ? nullptr : other.access);
            return no_part(other.access->span);
        }
        case ast::ExprKind::tuple:
            return sequence(Value::tuple, ast::as<ast::TupleExpr>(&e).items, e.span);
        case ast::ExprKind::array:
            return sequence(Value::list, ast::as<ast::ArrayExpr>(&e).items, e.span);
        case ast::ExprKind::set:
        case ast::ExprKind::range:
            return error(Diag::not_a_tile, e.span, "a set or range, which stands after `in` only");
        case ast::ExprKind::index_form:
            return index_form(ast::as<ast::IndexFormExpr>(&e));
        case ast::ExprKind::lambda: {
            Value v = of_kind(Value::lambda, e.span);
            v.lambda_expr = &ast::as<ast::LambdaExpr>(&e);
            v.scope = scope_;
            closures_.push_back(scope_);
            return v;
        }
        case ast::ExprKind::annotated:
            return annotated(ast::as<ast::AnnotatedExpr>(&e));
    }
    return poison(e.span);
}

std::optional<Value> Elaborator::host_value(const ast::Expr& e) {
    const bool named = e.kind == ast::ExprKind::name || e.kind == ast::ExprKind::member || e.kind == ast::ExprKind::index ||
                       e.kind == ast::ExprKind::call || e.kind == ast::ExprKind::annotated;
    if (resolver_ == nullptr || !named) return std::nullopt;
    const std::string_view root = root_name(&e);
    if (root.empty() || known(root) || is_type_form(e)) return std::nullopt;
    return resolve_host(e);
}

Value Elaborator::sequence(Value::Kind kind, std::span<const ast::Expr* const> items, Span span) {
    Value v = of_kind(kind, span);
    for (const ast::Expr* item : items) {
        v.items.push_back(expr(*item));
        if (v.items.back().kind == Value::poison) return poison(span);
    }
    return v;
}

/// A type and its layout, or a value and where it should live: tiles have such a wish, and it never changes them.
Value Elaborator::annotated(const ast::AnnotatedExpr& e) {
    if (is_modifier(*e.layout)) return modified(e);
    if (const auto type = type_form(e)) return *type;
    const Value v = expr(*e.base);
    if (v.kind == Value::poison) return v;
    if (v.kind != Value::tile && v.kind != Value::block_tile) {
        Diagnostic& d = diags_.report(Diag::not_a_type, e.span, {describe(v)});
        if (v.kind == Value::tensor) suggest_product(d, module_here(), e);
        return poison(e.span);
    }
    check_tile_annotation(*e.layout, &e);
    return v;
}

Value Elaborator::modifier_error(const ast::Expr& e, const std::string& why) {
    const ir::Caching asked = caching_of(e);
    const std::string cache = to_string(asked.cache), evict = to_string(asked.evict);
    return error(Diag::bad_modifier, e.span, cache.empty() ? evict : cache, why);
}

Value Elaborator::modified(const ast::AnnotatedExpr& e) {
    const ast::Expr& access = without_modifiers(e);
    if (access.kind == ast::ExprKind::index && !is_type_form(access)) return index(ast::as<ast::IndexExpr>(&access), nullptr, &e);
    if (access.kind == ast::ExprKind::else_value) {
        const auto& other = ast::as<ast::ElseExpr>(&access);
        if (other.access->kind == ast::ExprKind::index) return index(ast::as<ast::IndexExpr>(other.access), other.value, &e);
    }
    if (access.kind == ast::ExprKind::call) {
        const auto& c = ast::as<ast::CallExpr>(&access);
        const std::string_view name = base_name(*c.callee);
        const Value callee = name == "load" || name == "store" ? expr(*c.callee) : poison(e.span);
        if (callee.kind == Value::builtin) return call_builtin(callee, {}, false, &c, c.span, caching_of(e));
    }
    return modifier_error(e, "it stands behind x[..], load(..) or store(..), not behind `" + source_text(access) + "`");
}

bool Elaborator::known(std::string_view name) {
    if (scope_->find(name)) return true;
    const Scope* root = scope_.get();
    while (root && root->parent) root = root->parent.get();
    if (root && root->module && is_item(*root->module, name)) return true;
    if (find_builtin(name)) return true;
    if (ir::find_function(name) != ir::Op::count_) return true;
    return name == "inf" || name == "nan" || name == "pi" || is_type_constructor(name) || named_type(name, {}, false).kind != Value::poison;
}

Value Elaborator::binary_chain(const ast::BinaryExpr& e) {
    std::vector<const ast::BinaryExpr*> spine{&e};
    while (spine.back()->lhs->kind == ast::ExprKind::binary) spine.push_back(&ast::as<ast::BinaryExpr>(spine.back()->lhs));
    Value value = expr(*spine.back()->lhs);
    for (size_t i = spine.size(); i-- > 0;) {
        const Value right = expr(*spine[i]->rhs);
        value = binary(spine[i]->op, std::move(value), right, spine[i]->span);
    }
    return value;
}

Value Elaborator::member(const ast::MemberExpr& e) {
    const Around within(around_, e);
    const Value base = expr(*e.base);
    const auto unknown = [&](const std::vector<std::string_view>& names) {
        Diagnostic& d = diags_.report(Diag::unknown_member, e.member.span, {describe(base), std::string(e.member.text)});
        note_hidden(d);
        if (!suggest_member(d, module_here(), e, around_)) suggest_spelling(d, e.member.text, e.member.span, names);
        return poison(e.span);
    };
    switch (base.kind) {
        case Value::poison:
            return poison(e.span);
        case Value::layout:
            return layout_expr(e);
        case Value::module: {
            if (const ast::Item* item = base.home->find(e.member.text)) return item_value(*base.home, *item);
            return unknown(base.home->item_names());
        }
        case Value::structure: {
            std::vector<std::string_view> names;
            for (size_t i = 0; i < base.decl->fields.size() && i < base.items.size(); ++i) {
                if (base.decl->fields[i].name.text == e.member.text) {
                    record_field(base, e.member);
                    record(e.member.span, base.items[i]);
                    return base.items[i];
                }
                names.push_back(base.decl->fields[i].name.text);
            }
            return unknown(names);
        }
        case Value::tuple: {
            size_t at = 0;
            const std::string_view text = e.member.text;
            const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), at);
            if (problem == std::errc() && end == text.data() + text.size() && at < base.items.size()) return base.items[at];
            return unknown({});
        }
        default:
            return unknown({});
    }
}

// ---- calls ----

Value Elaborator::call(const ast::CallExpr& e) {
    const Around within(around_, e);
    if (e.callee->kind == ast::ExprKind::name) {
        const std::string_view name = ast::as<ast::NameExpr>(e.callee).name;
        if (is_layout_call(name) && !known(name)) return layout_expr(e);
    }
    if (e.callee->kind == ast::ExprKind::index) {
        const auto& indexed = ast::as<ast::IndexExpr>(e.callee);
        const auto base_kind = indexed.base->kind;
        if ((base_kind == ast::ExprKind::instantiate || base_kind == ast::ExprKind::name) && !is_type_form(*e.callee)) {
            const Value base = expr(*indexed.base);
            if (base.kind == Value::poison) return poison(e.span);
            if (base.kind == Value::builtin) return call_builtin(base, shape_items(indexed), true, &e, e.span);
        }
    }
    return call_value(expr(*e.callee), e);
}

std::vector<Value> Elaborator::shape_items(const ast::IndexExpr& e) {
    std::vector<Value> shape;
    for (const ast::IndexItem& item : e.items) {
        if (item.kind == ast::IndexItem::value)
            shape.push_back(expr(*item.start));
        else
            shape.push_back(error(Diag::bad_shape, item.span, "a shape is a list of extents, not of slices"));
    }
    return shape;
}

Value Elaborator::call_value(Value callee, const ast::CallExpr& e) {
    if (callee.kind == Value::poison) return poison(e.span);
    if (callee.kind == Value::builtin) return call_builtin(callee, {}, false, &e, e.span);
    const bool fast = !e.args.empty() && e.args.back().name.text.empty() && e.args.back().value->kind == ast::ExprKind::name &&
                      ast::as<ast::NameExpr>(e.args.back().value).name == "fast" && !scope_->find("fast");
    std::vector<Value> args;
    std::vector<std::pair<std::string_view, Value>> named;
    bool poisoned = false;
    for (const ast::Arg& arg : e.args.first(e.args.size() - (fast ? 1 : 0))) {
        const bool mode = callee.kind == Value::elementwise && arg.name.text == "round";
        Value v = mode ? word(*arg.value, *find_word_kind("round")) : expr(*arg.value);
        poisoned |= v.kind == Value::poison;
        if (arg.name.text.empty()) {
            if (!named.empty())
                return error(Diag::bad_arguments, arg.value->span, describe_callee(callee), "a positional argument follows a named one");
            args.push_back(std::move(v));
        } else {
            named.emplace_back(arg.name.text, std::move(v));
        }
    }
    if (poisoned) return poison(e.span);
    if (fast)
        callee = fast_version(callee, e.args.back().value->span);
    else if (callee.kind == Value::function && callee.home && callee.fn && fast_math()) {
        const std::string name = "fast_" + std::string(callee.fn->name.text);
        const bool hardware = callee.home->name == "std.math" && ir::find_op(name) != ir::Op::count_;
        if (hardware || callee.home->find(name)) callee = fast_version(callee, e.span);
    }
    switch (callee.kind) {
        case Value::poison:
            return poison(e.span);
        case Value::elementwise: {
            const ir::OpRow& row = ir::op_row(callee.op);
            const auto op = named.empty() ? callee.op : in_named_mode(callee.op, named, e.span);
            if (op == ir::Op::count_) return poison(e.span);
            if (args.size() != static_cast<size_t>(row.operands))
                return error(Diag::bad_arguments, e.span, row.name,
                             "takes " + std::to_string(row.operands) + " arguments, found " + std::to_string(args.size()));
            return apply(op, std::move(args), e.span);
        }
        case Value::function:
            if (recorder_ && callee.generics.empty()) callee_end_ = {e.callee->span.file, e.callee->span.end, e.callee->span.end};
            return call_function(callee, std::move(args), std::move(named), e.span);
        case Value::lambda:
            if (!named.empty()) return error(Diag::bad_arguments, e.span, "a lambda", "arguments have no names");
            return call_lambda(callee, std::move(args), e.span);
        case Value::type:
            if (callee.t.kind == TypeDesc::structure) return construct_struct(callee, std::move(args), std::move(named), e.span);
            break;
        default:
            break;
    }
    Diagnostic& d = diags_.report(Diag::not_callable, e.callee->span, {describe(callee)});
    note_hidden(d);
    if (callee.kind == Value::type && !suggest_use(d, module_here(), e))
        d.propose({{e.callee->span, "cast<" + describe(callee.t) + ">"}}, "values are converted by `cast<" + describe(callee.t) + ">(x)`");
    return poison(e.span);
}

/// The row of `op` that rounds as `round = ..` says; Op::count_ after an error.
ir::Op Elaborator::in_named_mode(ir::Op op, const std::vector<std::pair<std::string_view, Value>>& named, Span span) {
    const std::string name = ir::op_row(op).name;
    for (const auto& [argument, value] : named) {
        if (argument == "round") continue;
        error(Diag::bad_arguments, span, name, "arguments have no names, found `" + std::string(argument) + "`");
        return ir::Op::count_;
    }
    const Value& mode = named.front().second;
    if (!ir::has_directed(op)) {
        std::string others;
        for (const ir::Op base : ir::directed::kBases) others += (others.empty() ? "" : ", ") + std::string(ir::op_row(base).name);
        error(Diag::bad_arguments, mode.span, name, "has no argument `round`, which " + others + " and cast have");
        return ir::Op::count_;
    }
    if (named.size() > 1) {
        error(Diag::bad_arguments, named[1].second.span, name, "argument `round` is given twice");
        return ir::Op::count_;
    }
    static constexpr std::pair<std::string_view, Round> kModes[] = {{"rne", Round::rne}, {"rtz", Round::rtz}, {"ru", Round::ru}, {"rd", Round::rd}};
    for (const auto& [word, round] : kModes)
        if (mode.kind == Value::word && mode.s == word) return ir::in_mode(op, round);
    const std::string found = mode.kind == Value::word ? std::string(mode.s) : describe(mode);
    error(Diag::unknown_option, mode.span, found, "rounding of " + name, "rne, rtz, ru, rd");
    return ir::Op::count_;
}

std::string Elaborator::describe_callee(const Value& callee) {
    if (callee.kind == Value::function && callee.fn) return std::string(callee.fn->name.text);
    if (callee.kind == Value::elementwise) return ir::op_row(callee.op).name;
    return "call";
}

/// Is the kernel marked `@ math(fast)`? (Word 0 of that hint.)
bool Elaborator::fast_math() { return ir::hint_argument(ir().fn().hints, "math") == 0; }

/// `f(x, fast)`: the operation or library function named fast_f.
Value Elaborator::fast_version(const Value& callee, Span span) {
    const std::string plain = describe_callee(callee), name = "fast_" + plain;
    const ir::Op op = ir::find_op(name);
    Value out = of_kind(Value::elementwise, span);
    out.op = op;
    if (op != ir::Op::count_) return out;
    if (callee.kind == Value::function && callee.home) {
        if (const ast::Item* item = callee.home->find(name)) return item_value(*callee.home, *item);
    }
    return error(Diag::bad_arguments, span, plain, "has no fast version");
}

}  // namespace tegula::sema
