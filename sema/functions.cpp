// Calls of functions and lambdas (inlined) and construction of structs: arguments to parameters, deduction of generics, the body, its result.
#include <algorithm>

#include "sema/elaborate.h"
#include "sema/flow.h"
#include "sema/walk.h"

namespace tegula::sema {

namespace {

constexpr uint64_t kCallSteps = 256;  // cost of an inlined call against limits.const_steps

std::string count_text(size_t least, size_t most) {
    std::string out = least == most ? std::to_string(most) : std::to_string(least) + " to " + std::to_string(most);
    return out + (most == 1 ? " argument" : " arguments");
}

constexpr unsigned kToldCalls = 4;  // levels of inlined calls that a message lists

struct Slot {
    std::string_view name;
    bool optional = false;
};

/// Arguments in declaration order; empty where none was given. nullopt after a report.
std::optional<std::vector<std::optional<Value>>> match_slots(DiagSink& diags, std::string_view owner, const std::vector<Slot>& slots,
                                                             std::vector<Value>& args, const std::vector<std::pair<std::string_view, Value>>& named,
                                                             Span span) {
    std::vector<std::optional<Value>> out(slots.size());
    const auto least = static_cast<size_t>(std::count_if(slots.begin(), slots.end(), [](const Slot& s) { return !s.optional; }));
    const auto wrong_count = [&] {
        diags.report(Diag::wrong_argument_count, span,
                     {std::string(owner), count_text(least, slots.size()), std::to_string(args.size() + named.size())});
        return std::nullopt;
    };
    if (args.size() > slots.size()) return wrong_count();
    for (size_t i = 0; i < args.size(); ++i) out[i] = std::move(args[i]);
    for (const auto& [name, value] : named) {
        const auto it = std::find_if(slots.begin(), slots.end(), [&, n = name](const Slot& s) { return s.name == n; });
        if (it == slots.end() || out[static_cast<size_t>(it - slots.begin())]) {
            std::vector<std::string_view> names;
            for (const Slot& s : slots) names.push_back(s.name);
            Diagnostic& d =
                diags.report(Diag::unknown_argument_name, value.span.valid() ? value.span : span, {std::string(owner), std::string(name)});
            if (it != slots.end())
                d.notes.push_back("it was given before");
            else if (const auto near = closest(name, names); !near.empty())
                d.notes.push_back("did you mean `" + std::string(near) + "`?");
            return std::nullopt;
        }
        out[static_cast<size_t>(it - slots.begin())] = value;
    }
    for (size_t i = 0; i < slots.size(); ++i)
        if (!out[i] && !slots[i].optional) return wrong_count();
    return out;
}

bool any_poison(const std::vector<Value>& args, const std::vector<std::pair<std::string_view, Value>>& named) {
    return std::any_of(args.begin(), args.end(), [](const Value& v) { return v.kind == Value::poison; }) ||
           std::any_of(named.begin(), named.end(), [](const auto& n) { return n.second.kind == Value::poison; });
}

}  // namespace

/// Binds what is still open of `params` in `scope`: arguments first deduce (typed values before literals), then defaults apply.
bool Elaborator::deduce(std::string_view owner, Generics params, const std::vector<std::pair<const ast::Expr*, const Value*>>& pairs,
                        const std::shared_ptr<Scope>& scope, Span span) {
    bool ok = true;
    for (const bool literals : {false, true})
        for (const auto& [declared, actual] : pairs)
            if (actual->is_static_number() == literals) ok &= match_param(*declared, *actual, scope, actual->span.valid() ? actual->span : span);
    for (const ast::GenericParam& p : params) {
        Local* l = scope->find(p.name.text);
        if (!l) continue;
        if (l->value.kind == Value::none) {
            if (!p.default_value) {
                error(Diag::missing_generic, span, owner, p.name.text);
                ok = false;
                continue;
            }
            l->value = generic_value(p, *p.default_value, scope);
        }
        const size_t before = diags_.all().size();
        if (check_generic(p, l->value, span)) continue;
        ok = false;
        if (diags_.all().size() == before || bound_of(p) != "float") continue;
        std::vector<Span> given;  // the arguments that the type is that of
        for (const auto& [declared, actual] : pairs) {
            const std::vector<ast::Name> names = names_in(*declared);
            const bool mentioned = std::ranges::any_of(names, [&](const ast::Name& n) { return n.text == p.name.text; });
            if (mentioned && actual->kind == Value::tile && !ir().fn().type(actual->v).pointer) given.push_back(actual->span);
        }
        Diagnostic& d = diags_.recorded().back();
        if (given.size() == 1) offer_cast(d, {given[0]}, "f32");
        if (given.size() == 2) offer_cast(d, {given[0], given[1]}, "f32");
    }
    return ok;
}

Value Elaborator::call_function(const Value& function, std::vector<Value> args, std::vector<std::pair<std::string_view, Value>> named, Span span) {
    const Span callee_end = std::exchange(callee_end_, {});
    if (too_deep(span) || !step(span, kCallSteps) || any_poison(args, named) || !function.fn || !function.home) return poison(span);
    const ast::FnItem& fn = *function.fn;
    if (function.home->recovery.broken.contains(&fn)) return poison(span);
    if (depth_ >= limits_.call_depth) return error(Diag::call_budget, span, std::to_string(limits_.call_depth));
    std::vector<Slot> slots;
    for (const ast::Param& p : fn.params) slots.push_back({p.name.text, p.default_value != nullptr});
    auto given = match_slots(diags_, fn.name.text, slots, args, named, span);
    if (!given || (is_instruction(fn) && !split_groups(fn, *given, span))) return poison(span);
    auto scope = make_scope(module_scope(*function.home));
    for (size_t i = 0; i < fn.generics.size(); ++i) {
        Value open;
        open.kind = Value::none;
        define(*scope, fn.generics[i].name.text, i < function.generics.size() ? function.generics[i] : open);
    }
    std::vector<std::pair<const ast::Expr*, const Value*>> pairs;
    for (size_t i = 0; i < fn.params.size(); ++i)
        if ((*given)[i] && fn.params[i].type) pairs.push_back({&plain_type(fn, *fn.params[i].type), &*(*given)[i]});
    if (!deduce(fn.name.text, fn.generics, pairs, scope, span)) return poison(span);
    record_generics(fn, *scope, callee_end);

    std::string context = "in function `" + std::string(fn.name.text);
    for (size_t i = 0; i < fn.generics.size(); ++i) {
        context += (i ? ", " : "<") + std::string(fn.generics[i].name.text) + " = " + describe_plain(scope->find(fn.generics[i].name.text)->value);
    }
    const bool told = depth_ < kToldCalls;
    if (told) diags_.push_context({context + (fn.generics.empty() ? "`" : ">`"), DiagNote::call});
    ++depth_;
    Value result = poison(span);
    auto lost = std::exchange(lost_, {});  // of the caller's text
    {
        const ScopeSwitch in(scope_, scope);
        bool ok = true;
        std::vector<Value> operands;
        for (size_t i = 0; i < fn.params.size(); ++i) {
            const ast::Param& p = fn.params[i];
            Value v = (*given)[i] ? *(*given)[i] : expr(*p.default_value);
            const ir::ValueId whole = v.kind == Value::tuple ? v.v : ir::ValueId();
            if (p.type) {
                const std::optional<TypeDesc> t = type_desc(plain_type(fn, *p.type));
                v = t ? coerce(v, *t, v.span.valid() ? v.span : span) : poison(span);
            }
            ok &= v.kind != Value::poison;
            record(p.name.span, v);
            define(*scope_, p.name.text, v);
            if (v.kind == Value::tuple) v.v = whole;
            operands.push_back(std::move(v));
        }
        const size_t first_inst = ir().fn().inst_count();
        const auto body = [&](std::vector<Value> elements) {
            for (size_t i = 0; i < elements.size(); ++i) scope_->find(fn.params[i].name.text)->value = std::move(elements[i]);
            return run_body(fn, span);
        };
        if (ok) result = is_elementwise(fn) ? each_element("ptx", operands, body, span) : run_body(fn, span);
        if (ok && is_instruction(fn)) result = as_instruction(fn, operands, result, first_inst, span);
    }
    lost_ = std::move(lost);
    --depth_;
    if (told) diags_.pop_context();
    if (building()) ir().set_span(span);
    result.span = span;
    return result;
}

Value Elaborator::run_body(const ast::FnItem& fn, Span span) {
    Frame frame(Frame::function, fn.name.text);
    frame.declared_result = fn.result ? &plain_type(fn, *fn.result) : nullptr;
    frames_.push_back(&frame);
    block(fn.body);
    frames_.pop_back();
    const bool returned = frame.stop->value.kind == Value::boolean && frame.stop->value.b;
    const bool needs_value = fn.result || (frame.result && frame.result->kind != Value::unit);
    const Recovery* told = recovery();
    if (frame.unknown || (told && told->broken.contains(&fn))) return poison(span);  // a `return` may be among what is lost
    if (!returned && needs_value && !aborted_ && !(frame.result && frame.result->kind == Value::poison)) {
        return error(Diag::missing_return, fn.name.span, fn.name.text);
    }
    if (frame.result) return *frame.result;
    Value unit;
    unit.kind = Value::unit;
    unit.span = span;
    return unit;
}

Value Elaborator::call_lambda(const Value& lambda, std::vector<Value> args, Span span) {
    if (too_deep(span) || !step(span, kCallSteps) || any_poison(args, {}) || !lambda.lambda_expr) return poison(span);
    if (depth_ >= limits_.call_depth) return error(Diag::call_budget, span, std::to_string(limits_.call_depth));
    const ast::LambdaExpr& e = *lambda.lambda_expr;
    if (args.size() != e.params.size()) {
        return error(Diag::wrong_argument_count, span, "lambda", count_text(e.params.size(), e.params.size()), std::to_string(args.size()));
    }
    ++depth_;
    const ScopeSwitch in(scope_, make_scope(lambda.scope));
    for (size_t i = 0; i < args.size(); ++i) {
        record(e.params[i].span, args[i]);
        define(*scope_, e.params[i].text, std::move(args[i]));
    }
    Value result = expr(*e.body);
    --depth_;
    return result;
}

Value Elaborator::construct_struct(const Value& type, std::vector<Value> args, std::vector<std::pair<std::string_view, Value>> named, Span span) {
    const ast::StructItem* item = type.t.decl;
    if (!item || any_poison(args, named)) return poison(span);
    std::vector<Slot> slots;
    for (const ast::Field& f : item->fields) slots.push_back({f.name.text, false});
    auto given = match_slots(diags_, item->name.text, slots, args, named, span);
    if (!given) return poison(span);
    std::shared_ptr<const std::vector<TypeDesc>> fields = type.t.fields;
    if (!fields) {
        if (!type.home) return poison(span);
        auto scope = make_scope(module_scope(*type.home));
        Value open;
        open.kind = Value::none;
        for (const ast::GenericParam& p : item->generics) define(*scope, p.name.text, open);
        std::vector<std::pair<const ast::Expr*, const Value*>> pairs;
        for (size_t i = 0; i < slots.size(); ++i) pairs.push_back({item->fields[i].type, &*(*given)[i]});
        if (!deduce(item->name.text, item->generics, pairs, scope, span)) return poison(span);
        std::vector<Value> values;
        for (const ast::GenericParam& p : item->generics) values.push_back(scope->find(p.name.text)->value);
        fields = struct_type(*type.home, *item, values, span).t.fields;
        if (!fields) return poison(span);
    }
    Value out;
    out.kind = Value::structure;
    out.decl = item;
    out.span = span;
    for (size_t i = 0; i < slots.size(); ++i) {
        Value v = coerce(*(*given)[i], (*fields)[i], (*given)[i]->span.valid() ? (*given)[i]->span : span);
        if (v.kind == Value::poison) return poison(span);
        out.items.push_back(std::move(v));
    }
    return out;
}

}  // namespace tegula::sema
