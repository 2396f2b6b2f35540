// Elaborator::kernel: the parameters, extents and clauses of one kernel instance, then its body. Order of the IR parameters: the source's
// parameters (block tensors as elements, scales, tensor scale), then one i64 per extent name. `where` clauses that depend on extents become
// `assume`s, so that passes may rely on what the launch has checked.
#include <algorithm>

#include "lang/meetings.h"
#include "sema/elaborate.h"
#include "sema/flow.h"
#include "sema/walk.h"

namespace tegula::sema {

namespace {

Value tensor_value(std::shared_ptr<Tensor> t, Span span) {
    Value v;
    v.kind = Value::tensor;
    v.tensor_ref = std::move(t);
    v.span = span;
    return v;
}

std::string instance_text(std::string_view name, const StaticValues& generics, const TypeTable& types) {
    std::string out = "`" + std::string(name);
    const char* separator = "<";
    for (const auto& [key, value] : generics) {
        out += separator + key + " = " + to_string(value, types);
        separator = ", ";
    }
    return out + (generics.empty() ? "`" : ">`");
}

}  // namespace

ir::ValueId Elaborator::add_param(const std::string& name, ir::Param::Kind kind, TypeId type) {
    ir::Function& fn = *instance_->fn;
    ir::Param p;
    p.name = name;
    p.kind = kind;
    p.value = fn.add_arg(fn.body, type);
    fn.params.push_back(p);
    return p.value;
}

bool Elaborator::bind_generics(const ast::KernelItem& item, const StaticValues& generics, const std::shared_ptr<Scope>& scope) {
    bool ok = true;
    for (const ast::GenericParam& p : item.generics) {
        const auto it = generics.find(p.name.text);
        if (it == generics.end() && assumed_) {
            define(*scope, p.name.text, poison(p.name.span));
            continue;
        }
        if (it == generics.end()) {
            error(Diag::missing_generic, p.name.span, item.name.text, p.name.text);
            ok = false;
            continue;
        }
        Value v = value_of(it->second, scope, p.name.span);
        ok &= check_generic(p, v, p.name.span);
        define(*scope, p.name.text, v);
        record(p.name.span, v);
    }
    return ok;
}

/// The dimension that blocks of a block tensor lie along.
bool Elaborator::block_axis_of(const ast::Param& p, const KernelParam& out, int& axis) {
    axis = types_.layout(out.layout).innermost_dimension(out.rank);
    const Layout::Kind kind = types_.layout(out.layout).kind();
    if (out.rank >= 1 && axis >= 0 && (kind == Layout::Kind::row || kind == Layout::Kind::col)) return true;
    error(Diag::layout_problem, p.type->span, types_.layout(out.layout).name(),
          "tensors of block formats are stored `row` or `col`, with at least one dimension");
    return false;
}

bool Elaborator::tensor_param(const ast::Param& p, const ast::IndexExpr& form, const std::vector<std::string_view>& dynamic, KernelParam& out,
                              Value& v) {
    const std::optional<Value> type = type_form(*p.type);
    if (!type || type->kind != Value::type) return false;
    out.kind = ArgumentType::tensor;
    out.elem = type->t.elem;
    out.pointee = type->t.pointee;
    if (out.pointee.v && p.mode != ast::ParamMode::in && !assumed_) {
        error(Diag::bad_parameter_type, p.type->span, p.name.text,
              "tables of pointers are only read: it must be `in`; what they lead to may be written");
        return false;
    }
    out.layout = type->t.layout;
    out.rank = static_cast<int>(form.items.size());
    Type t;
    t.kind = Type::tensor;
    t.mode = static_cast<Mode>(p.mode);
    t.layout = out.layout;
    for (const ast::IndexItem& item : form.items) {
        const std::vector<ast::Name> names = names_in(*item.start);
        const bool is_dynamic = std::any_of(names.begin(), names.end(),
                                            [&](const ast::Name& n) { return std::find(dynamic.begin(), dynamic.end(), n.text) != dynamic.end(); });
        int64_t extent = kDynamic;
        if (!is_dynamic) {
            const std::optional<int64_t> n = static_int(constant(*item.start, scope_), item.span, "an extent of a tensor");
            if (!n) return false;
            if (*n < 0) {
                error(Diag::bad_shape, item.span, "extent " + std::to_string(*n) + " is negative");
                return false;
            }
            extent = *n;
        }
        out.extents.push_back(extent);
        t.shape.push(extent);
    }
    auto tensor = std::make_shared<Tensor>();
    tensor->elem = out.elem;
    tensor->pointee = out.pointee;
    tensor->layout = out.layout;
    tensor->mode = p.mode;
    tensor->name = p.name.text;
    const std::string name(p.name.text);
    const auto add = [&](const std::string& part, const Type& as) {
        out.ir_params.push_back(static_cast<int>(instance_->fn->params.size()));
        return add_param(part, ir::Param::tensor, types_.intern(as));
    };
    const Format& f = types_.format(out.elem);
    t.elem = f.is_block() ? f.elem : out.elem;
    if (f.is_block() && !block_axis_of(p, out, tensor->block_axis)) return false;
    tensor->handle = add(name, t);
    instance_->fn->params.back().holds_addresses = out.pointee.v != 0;
    if (f.is_block()) {
        const auto axis = static_cast<size_t>(tensor->block_axis);
        Type s = t;
        s.elem = f.scale;
        if (s.shape[axis] != kDynamic) s.shape[axis] = (s.shape[axis] + f.block_size - 1) / f.block_size;
        tensor->scales = add(name + "__scales", s);
        if (f.tensor_scale.v) {
            s.elem = f.tensor_scale;
            s.shape = Shape{1};
            s.layout = {};
            tensor->tensor_scale = add(name + "__tensor_scale", s);
        }
    }
    v = tensor_value(std::move(tensor), p.name.span);
    return true;
}

bool Elaborator::kernel_param(const ast::Param& p, const std::vector<std::string_view>& dynamic, KernelParam& out, Value& v) {
    out.name = p.name.text;
    out.mode = p.mode;
    if (const ast::IndexExpr* form = tensor_form(*p.type)) return tensor_param(p, *form, dynamic, out, v);
    const std::optional<TypeDesc> t = type_desc(*p.type);
    if (!t) return false;
    const bool scalar = t->kind == TypeDesc::scalar_format && !types_.format(t->elem).is_block();
    if (!scalar && t->kind != TypeDesc::pointer) {
        error(Diag::bad_parameter_type, p.type->span, p.name.text, "it is " + describe(*t));
        return false;
    }
    if (p.mode != ast::ParamMode::in) {
        error(Diag::bad_parameter_type, p.type->span, p.name.text, "only tensors can be `out` or `inout`");
        return false;
    }
    out.kind = scalar ? ArgumentType::scalar : ArgumentType::pointer;
    out.elem = t->elem;
    out.ir_params.push_back(static_cast<int>(instance_->fn->params.size()));
    const TypeId type = scalar ? types_.tile(t->elem) : types_.pointer(t->elem);
    v = tile(add_param(out.name, scalar ? ir::Param::scalar : ir::Param::pointer, type), p.name.span);
    return true;
}

void Elaborator::tensor_extents(const ast::IndexExpr& form, const KernelParam& param, Tensor& tensor) {
    for (size_t d = 0; d < form.items.size(); ++d) {
        if (param.extents[d] != kDynamic) {
            tensor.extents.push_back(integer_value(param.extents[d], form.items[d].span));
            continue;
        }
        const ir::ValueId v = to_index(expr(*form.items[d].start), form.items[d].span);
        tensor.extents.push_back(v.valid() ? tile(v, form.items[d].span) : poison(form.items[d].span));
    }
}

void Elaborator::kernel_clauses(const ast::KernelItem& item) {
    for (const ast::Expr* w : item.where) {  // before `@ math(fast)` counts, which launches do not know
        const Value v = expr(*w);
        if (v.kind == Value::boolean) {
            if (!v.b) error(Diag::where_false, w->span, source_text(*w));
            continue;
        }
        if (v.kind == Value::poison) continue;
        ir::ValueId c;
        if (to_bool(v, w->span, c)) ir().emit(ir::Op::assume, {&c, 1}, {});
    }
    ir::Function& fn = *instance_->fn;
    fn.hints = hints(item.attributes, true);
    if (!item.schedule) return;
    const ast::Expr& s = *item.schedule;
    const bool call = s.kind == ast::ExprKind::call;
    const ast::Attribute a{{base_name(call ? *ast::as<ast::CallExpr>(&s).callee : s), s.span},
                           call ? ast::as<ast::CallExpr>(&s).args : std::span<const ast::Arg>()};
    for (ir::Hint& h : hints({&a, 1}, true)) fn.hints.push_back(std::move(h));
    if (ir::find_hint(fn.hints, "cooperative") && ir::find_hint(fn.hints, "split_k"))
        error(Diag::bad_attribute, s.span, "cooperative", "it does not go with `split_k`: the stretches of a sum are no programs that could meet");
}

/// Every program comes to every `grid_barrier`, as far as the kernel tells.
void Elaborator::check_meetings() {
    const ir::Function& fn = *instance_->fn;
    for (const ir::GridMeeting& m : ir::grid_meetings(fn)) {
        if (m.uniformity != ir::Uniformity::program) continue;
        const ir::Inst& control = fn.inst(m.control);
        const std::string what = control.op == ir::Op::if_else ? "branch" : "loop";
        Diagnostic& d = diags_.report(Diag::uneven_meeting, fn.inst(m.at).span, {what});
        if (control.span.valid()) d.labels.push_back({control.span, "the " + what});
    }
}

std::span<const std::string_view> hint_words(std::string_view hint) {
    static constexpr std::string_view kSpecialise[] = {"auto", "on", "off"}, kDecode[] = {"register", "shared", "auto"}, kMath[] = {"fast", "strict"},
                                      kSubnormals[] = {"flush", "keep"};
    if (hint == "specialise") return kSpecialise;
    if (hint == "decode") return kDecode;
    if (hint == "math") return kMath;
    if (hint == "subnormals") return kSubnormals;
    return {};
}

std::vector<ir::Hint> Elaborator::hints(std::span<const ast::Attribute> attributes, bool) {
    std::vector<ir::Hint> out;
    for (const ast::Attribute& a : attributes) {
        if (a.name.text == "instructions") {
            for (const ast::Arg& arg : a.args) take_instruction(*arg.value, *instance_->fn);
            continue;
        }
        ir::Hint h;
        h.name = a.name.text;
        for (const ast::Arg& arg : a.args) {
            h.key = arg.name.text;
            if (const auto words = hint_words(h.name); !words.empty()) {
                h.args.push_back(std::find(words.begin(), words.end(), base_name(*arg.value)) - words.begin());
            } else if (const auto n = static_int(constant(*arg.value, scope_), arg.value->span, "the argument of an attribute")) {
                h.args.push_back(*n);
            }
        }
        out.push_back(std::move(h));
    }
    return out;
}

std::optional<Instance> Elaborator::kernel(const Module& module, const ast::KernelItem& item, const StaticValues& generics) {
    const size_t errors = diags_.error_count();
    recorder_ = module.recorder;
    stack_base_ = static_cast<const char*>(__builtin_frame_address(0));
    diags_.push_context("in instance " + instance_text(item.name.text, generics, types_));
    Instance out;
    instance_ = &out;
    out.fn = std::make_unique<ir::Function>(types_);
    out.fn->name = item.name.text;
    out.fn->span = item.name.span;
    out.fn->loop_hints.emplace_back();
    out.fn->body = out.fn->add_block();
    builder_ = std::make_unique<ir::Builder>(*out.fn, out.fn->body);
    scope_ = make_scope(module_scope(module));
    const std::vector<std::string_view> names = extent_names(module, item);
    std::vector<std::string_view> dynamic = names;
    for (const ast::Param& p : item.params)
        if (p.type && !tensor_form(*p.type)) dynamic.push_back(p.name.text);
    enter_lost(module, item);

    bool ok = bind_generics(item, generics, scope_);
    if (ok) out.facts = launch_facts(module, item, scope_, types_, limits_);
    for (size_t i = 0; ok && i < item.params.size(); ++i) {
        KernelParam param;
        Value v = poison(item.params[i].name.span);
        if (!item.params[i].type || !kernel_param(item.params[i], dynamic, param, v)) v = poison(item.params[i].name.span);
        define(*scope_, item.params[i].name.text, v);
        out.params.push_back(std::move(param));
    }
    for (std::string_view name : names) {
        out.extents.emplace_back(name);
        define(*scope_, name, tile(add_param(std::string(name), ir::Param::extent, types_.tile(Fmt::i64)), item.name.span));
    }
    for (size_t i = 0; ok && i < item.params.size(); ++i) {
        const Local* l = scope_->find(item.params[i].name.text);
        if (l && l->value.kind == Value::tensor) tensor_extents(*tensor_form(*item.params[i].type), out.params[i], *l->value.tensor_ref);
        if (l) record(item.params[i].name.span, l->value);
    }
    if (ok) {
        kernel_clauses(item);
        Frame frame(Frame::function, item.name.text);
        frame.is_kernel = true;
        frames_.push_back(&frame);
        scope_ = make_scope(scope_);
        statements(item.body.stmts);
        frames_.pop_back();
        ir().set_span(item.span);
        ir().emit(ir::Op::ret, {}, {});
        settle_views();
        if (diags_.error_count() == errors) check_meetings();
    }
    diags_.pop_context();
    instance_ = nullptr;
    if (diags_.error_count() != errors) return std::nullopt;
    return out;
}

std::optional<Instance> elaborate_kernel(const Module& module, const ast::KernelItem& kernel, const StaticValues& generics, TypeTable& types,
                                         const Limits& limits, DiagSink& diags) {
    Elaborator e(types, limits, diags);
    return e.kernel(module, kernel, generics);
}

}  // namespace tegula::sema
