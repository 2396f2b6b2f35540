// Functions with PTX: instructions that programs declare (lang/instruction.h). The body says what they mean and is inlined like that of any function;
// the text stands beside it in the IR, and machines that have a form of it take that instead. Scalar parameters work element by element; tuples are
// groups of consecutive elements along the last dimension of a tile; tiles in fragment layouts belong to a warp.
#include "lang/instruction.h"

#include <algorithm>
#include <bit>

#include "lang/plain_text.h"
#include "sema/elaborate.h"
#include "sema/flow.h"
#include "sema/walk.h"

namespace tegula::sema {

using ir::Op;
using ir::ValueId;

namespace {

constexpr size_t kLanes = 32;
constexpr size_t kMostInGroup = 16;

const ast::Attribute* attribute(const ast::FnItem& fn, std::string_view name) {
    const auto it = std::ranges::find_if(fn.attributes, [&](const ast::Attribute& a) { return a.name.text == name; });
    return it == fn.attributes.end() ? nullptr : &*it;
}

/// Elements of the tuple that the type is; 1: it is none.
size_t group_of(const ast::Expr& type) { return type.kind == ast::ExprKind::tuple ? ast::as<ast::TupleExpr>(&type).items.size() : 1; }

}  // namespace

bool is_instruction(const ast::FnItem& fn) { return attribute(fn, "ptx") != nullptr; }

bool is_elementwise(const ast::FnItem& fn) {
    const auto is_tile = [&](const ast::Param& p) { return p.type && plain_type(fn, *p.type).kind == ast::ExprKind::index; };
    return is_instruction(fn) && std::ranges::none_of(fn.params, is_tile);
}

const ast::Expr& plain_type(const ast::FnItem& fn, const ast::Expr& type) {
    return is_instruction(fn) && type.kind == ast::ExprKind::annotated ? *ast::as<ast::AnnotatedExpr>(&type).base : type;
}

ValueId Elaborator::grouped(const std::vector<ValueId>& parts) {
    const Type type = ir().fn().type(parts[0]);
    Shape one = type.shape, group = type.shape, whole = type.shape;
    one.push(1);
    group.push(static_cast<int64_t>(parts.size()));
    if (whole.rank == 0) whole.push(1);
    whole.dims[whole.rank - 1u] *= static_cast<int64_t>(parts.size());
    std::vector<ValueId> columns;
    for (const ValueId v : parts) columns.push_back(ir().reshape(v, one));
    const TypeId result = types_.tile(type.elem, group);
    const int64_t axis = one.rank - 1;
    return ir().reshape(ir().fn().result(ir().emit(Op::cat, columns, {&result, 1}, {&axis, 1})), whole);
}

std::vector<ValueId> Elaborator::parts_of(ValueId whole, size_t count, bool scalars) {
    const Type type = ir().fn().type(whole);
    Shape groups = type.shape;
    groups.dims[groups.rank - 1u] /= static_cast<int64_t>(count);
    Shape split = groups, one = groups;
    split.push(static_cast<int64_t>(count));
    one.push(1);
    const ValueId columns = ir().reshape(whole, split);
    const TypeId result = types_.tile(type.elem, one);
    std::vector<ValueId> out;
    for (size_t i = 0; i < count; ++i) {
        std::vector<int64_t> start_step;
        for (int d = 0; d < split.rank; ++d) start_step.insert(start_step.end(), {d + 1 == split.rank ? static_cast<int64_t>(i) : 0, 1});
        const ValueId column = ir().fn().result(ir().emit(Op::slice, {&columns, 1}, {&result, 1}, start_step));
        out.push_back(ir().reshape(column, scalars ? Shape{} : groups));
    }
    return out;
}

bool Elaborator::split_groups(const ast::FnItem& fn, std::vector<std::optional<Value>>& given, Span span) {
    for (size_t i = 0; i < given.size(); ++i) {
        const size_t count = fn.params[i].type ? group_of(*fn.params[i].type) : 1;
        if (count == 1 || !given[i] || given[i]->kind != Value::tile) continue;
        Value& v = *given[i];
        const Span at = v.span.valid() ? v.span : span;
        const Shape& shape = ir().fn().type(v.v).shape;
        if (shape.rank == 0 || shape[shape.rank - 1u] % static_cast<int64_t>(count) != 0) {
            error(Diag::bad_instruction, at, fn.name.text,
                  "`" + std::string(fn.params[i].name.text) + "` takes " + std::to_string(count) +
                      " elements at a time along the last dimension, the argument has shape " + to_string(shape));
            return false;
        }
        std::vector<Value> items;
        for (const ValueId part : parts_of(v.v, count, false)) items.push_back(tile(part, at));
        const ValueId whole = v.v;
        v = tuple(std::move(items), at);
        v.v = whole;  // a tile, not a tuple of the caller's
    }
    return true;
}

/// The fragment that a layout of (lane, register) describes.
std::optional<TileLayout> Elaborator::fragment(const ast::FnItem& fn, const ast::Expr* type, const Shape& shape) {
    const auto refuse = [&](Span at, const std::string& why) {
        error(Diag::bad_instruction, at, fn.name.text, why);
        return std::nullopt;
    };
    if (!type || type->kind != ast::ExprKind::annotated)
        return refuse(type ? type->span : fn.name.span,
                      "tiles of an instruction say where their elements lie: `tile<..>[..] @ layout`, a layout of (lane, register)");
    const ast::Expr& e = *ast::as<ast::AnnotatedExpr>(type).layout;
    const Value v = layout_expr(e);
    if (v.kind == Value::poison) return std::nullopt;
    if (v.kind != Value::layout) return refuse(e.span, "`" + source_text(e) + "` is no layout");
    const Layout& layout = types_.layout(v.layout_id);
    const std::vector<int64_t> extents(shape.begin(), shape.end());
    const std::string named = "the layout `" + layout.name() + "` of shape " + to_string(shape);
    if (!layout.problem().empty()) return refuse(e.span, named + ": " + layout.problem());
    if (layout.rank() >= 0 && layout.rank() != shape.rank) return refuse(e.span, named + " has rank " + std::to_string(layout.rank()));
    const LayoutCheck check = layout.check(extents);
    if (check.result != Injectivity::proved)
        return refuse(e.span, named + " is not one-to-one: " + (check.result == Injectivity::refuted ? check.conflict.text() : check.reason));
    const std::vector<int64_t> physical = layout.physical_extents(extents);
    const int64_t elements = shape.elements();
    if (physical.size() != 2 || physical[0] != static_cast<int64_t>(kLanes) || physical[0] * physical[1] != elements)
        return refuse(e.span, named + " does not lead to 32 lanes with as many elements each: its members are the lane and the register");
    const std::optional<LinearLayout> linear = to_linear(layout, extents);
    const std::optional<LinearLayout> inverse = linear ? linear->inverse() : std::nullopt;
    if (!inverse) return refuse(e.span, named + " is not linear over the bits of the indices, as the fragments of instructions are");
    TileLayout out;
    out.shape = shape;
    for (size_t d = 0; d < shape.rank; ++d) {
        out.odd[d] = 1;
        out.bits[d] = static_cast<uint8_t>(std::countr_zero(static_cast<uint64_t>(shape[d])));
    }
    const size_t registers = inverse->columns.size() - 5;
    for (size_t b = 0; b < inverse->columns.size(); ++b)
        if (b < registers)
            out.reg.push_back(inverse->columns[b]);
        else
            out.lane[b - registers] = inverse->columns[b];
    return out;
}

/// The text of a `ptx` attribute, with numbers in place of the function's constants.
std::optional<std::string> Elaborator::ptx_text(const ast::FnItem& fn, const ast::Attribute& a) {
    std::string text;
    for (const ast::Arg& arg : a.args.subspan(1)) {
        const Value v = constant(*arg.value, scope_);
        if (v.kind == Value::poison) return std::nullopt;
        if (v.kind != Value::text) {
            error(Diag::bad_instruction, arg.value->span, fn.name.text, "PTX is text between quotes, found " + describe(v));
            return std::nullopt;
        }
        text += (text.empty() ? "" : " ") + std::string(v.s);
    }
    for (const ast::GenericParam& p : fn.generics) {
        const Local* l = scope_->find(p.name.text);
        if (!l || l->value.kind != Value::integer) continue;
        const std::string name = "%" + std::string(p.name.text), number = std::to_string(static_cast<int64_t>(l->value.i));
        for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
            const char next = at + name.size() < text.size() ? text[at + name.size()] : ' ';
            if (next == '_' || next == '.' || (next >= '0' && next <= '9') || (next >= 'a' && next <= 'z') || (next >= 'A' && next <= 'Z')) continue;
            text.replace(at, name.size(), number);
        }
    }
    return text;
}

/// Reads the forms and the cost of an instruction whose operands are known; false after an error.
bool Elaborator::instruction_forms(const ast::FnItem& fn, const std::vector<ValueId>& operands, FormatId result, Instruction& out) {
    std::vector<PtxOperand> names;
    for (size_t i = 0; i < operands.size(); ++i)
        names.push_back(ptx_registers(out.operands[i], ir().fn().elem(operands[i])).named(out.operands[i].name, false));
    names.push_back(ptx_registers(out.result, types_.format(result)).named("result", true));
    bool ok = true;
    for (const ast::Attribute& a : fn.attributes) {
        const ast::Arg& first = a.args[0];
        if (a.name.text == "cost") {
            const Value v = constant(*first.value, scope_);
            out.clocks = v.kind == Value::integer ? static_cast<double>(v.i) : v.kind == Value::real ? v.r : 0;
            ok &= v.kind == Value::poison || out.clocks > 0;
            if (v.kind != Value::poison && !(out.clocks > 0))
                error(Diag::bad_instruction, first.value->span, fn.name.text, "`cost` is a number of clocks of an SM above 0");
        }
        if (a.name.text != "ptx") continue;
        const std::string arch = source_text(*first.value);
        if (form_number(arch) == 0) {
            error(Diag::bad_instruction, first.value->span, fn.name.text,
                  "`ptx` names an architecture first: sm_80 (and later ones), sm_90a (alone), found `" + arch + "`");
            ok = false;
            continue;
        }
        const std::optional<std::string> text = ptx_text(fn, a);
        if (!text) {
            ok = false;
            continue;
        }
        const PtxText read = read_ptx(*text, names, out.on_tiles());
        if (read.problem) {
            const Span at = a.args.size() == 2 ? problem_span(*read.problem, *text, a.args[1].value->span) : a.args[1].value->span;
            error(Diag::bad_instruction, at, fn.name.text, read.problem->what);
            ok = false;
        }
        const auto same = std::ranges::find(out.forms, arch, &Instruction::Form::arch);
        if (same != out.forms.end()) {
            error(Diag::bad_instruction, first.value->span, fn.name.text, "it has two texts for " + arch);
            ok = false;
        }
        out.forms.push_back({arch, *text});
        std::ranges::replace(out.forms.back().text, '\n', ' ');
    }
    return ok;
}

/// Where in the source the problem stands: a literal without escapes and constants is there as it is.
Span Elaborator::problem_span(const PtxText::Problem& problem, std::string_view text, Span literal) const {
    if (literal.end - literal.begin != text.size() + 2) return literal;
    const auto from = literal.begin + 1 + static_cast<uint32_t>(problem.begin);
    return {literal.file, from, literal.begin + 1 + static_cast<uint32_t>(std::max(problem.end, problem.begin + 1))};
}

bool Elaborator::is_pure(size_t first_inst) {
    for (size_t i = first_inst; i < ir().fn().inst_count(); ++i)
        if (ir::op_row(ir().fn().inst(ir::InstId{static_cast<uint32_t>(i)}).op).traits & (ir::READS | ir::WRITES | ir::EFFECT)) return false;
    return true;
}

Value Elaborator::as_instruction(const ast::FnItem& fn, const std::vector<Value>& params, const Value& meaning, size_t first_inst, Span span) {
    if (meaning.kind == Value::poison || std::ranges::any_of(params, [](const Value& v) { return v.kind == Value::poison; })) return poison(span);
    const auto refuse = [&](Span at, const std::string& why) { return error(Diag::bad_instruction, at, fn.name.text, why); };
    if (!is_pure(first_inst)) return refuse(fn.name.span, "its body may neither read memory nor have effects");
    if (params.empty()) return refuse(fn.name.span, "it has no operand");
    const bool on_tiles = fn.params[0].type && plain_type(fn, *fn.params[0].type).kind == ast::ExprKind::index;
    Instruction out;
    out.name = fn.name.text;
    for (size_t i = 0; i < fn.generics.size(); ++i) out.name += (i ? ", " : "<") + describe_plain(scope_->find(fn.generics[i].name.text)->value);
    if (!fn.generics.empty()) out.name += ">";
    // Operands of one element, and the parts of groups, have one shape.
    std::vector<std::vector<ValueId>> parts(params.size() + 1);
    bool from_tuples = false, from_tiles = false;
    const auto convert = [&](const Value& v, const ast::Expr* type, Span at) {
        const std::optional<TypeDesc> t = type && v.is_static_number() ? type_desc(*type) : std::nullopt;
        return t && t->kind == TypeDesc::scalar_format ? to_tile(v, t->elem, at) : to_tile(v, at);
    };
    const auto take = [&](const Value& v, const ast::Expr* type, std::vector<ValueId>& to, Span at) {
        const auto item_type = [&](size_t i) { return type && type->kind == ast::ExprKind::tuple ? ast::as<ast::TupleExpr>(type).items[i] : type; };
        if (v.kind != Value::tuple) return to.push_back(convert(v, type, at));
        for (size_t i = 0; i < v.items.size(); ++i) to.push_back(convert(v.items[i], item_type(i), at));
    };
    for (size_t i = 0; i <= params.size(); ++i) {
        const bool result = i == params.size();
        const Value& v = result ? meaning : params[i];
        const Span at = result ? fn.name.span : fn.params[i].name.span;
        const std::string_view name = result ? "result" : fn.params[i].name.text;
        const ast::Expr* type = result ? fn.result : fn.params[i].type;
        if (!type) return refuse(at, "operands and result of an instruction have types");
        if (!result && name == "result") return refuse(at, "`result` names what the instruction gives");
        take(v, &plain_type(fn, *type), parts[i], at);
        if (std::ranges::any_of(parts[i], [](ValueId x) { return !x.valid(); })) return poison(span);
        const size_t count = parts[i].size();
        if (v.kind == Value::tuple && (!std::has_single_bit(count) || count < 2 || count > kMostInGroup))
            return refuse(at, "a group has 2, 4, 8 or 16 elements, not " + std::to_string(count));
        for (const ValueId x : parts[i]) {
            const Type& t = ir().fn().type(x);
            if (t.pointer || ir().fn().elem(x).is_block()) return refuse(at, "operands are numbers");
            if (!(t.elem == ir().fn().type(parts[i][0]).elem)) return refuse(at, "the elements of a group have one type");
        }
        if (!result && v.kind == Value::tuple) (v.v.valid() ? from_tiles : from_tuples) = true;
        Instruction::Operand& o = result ? out.result : out.operands.emplace_back();
        o.name = name;
        o.group = on_tiles ? 0 : static_cast<int>(count);
        if (!on_tiles) continue;
        if (count != 1 || v.kind != Value::tile) return refuse(at, "tiles and single elements do not go together");
        o.fragment = fragment(fn, type, ir().fn().type(v.v).shape);
        if (!o.fragment) return poison(span);
    }
    if (from_tuples && from_tiles) return refuse(span, "some groups are tiles, others tuples");
    std::vector<ValueId> units, operands;
    if (!on_tiles) {
        for (const std::vector<ValueId>& p : parts) units.insert(units.end(), p.begin(), p.end());
        if (!broadcast_all(units, span)) return poison(span);
        const bool scalars = ir().fn().type(units[0]).shape.rank == 0;
        size_t at = 0;
        for (std::vector<ValueId>& p : parts) {
            for (ValueId& v : p) v = units[at++];
            if (out.grouped() && p.size() == 1 && scalars) p[0] = ir().reshape(p[0], Shape{1});
            operands.push_back(p.size() == 1 ? p[0] : grouped(p));
        }
        // What was given as a tile is that tile, where nothing was converted or repeated.
        for (size_t i = 0; i < params.size(); ++i)
            if (const ValueId whole = params[i].v; params[i].kind == Value::tuple && whole.valid())
                if (ir().fn().type_of(whole) == ir().fn().type_of(operands[i])) operands[i] = whole;
    } else {
        for (const std::vector<ValueId>& p : parts) operands.push_back(p[0]);
    }
    std::rotate(operands.begin(), operands.end() - 1, operands.end());  // the meaning is operand 0
    const Type type = ir().fn().type(operands[0]);
    if (!instruction_forms(fn, {operands.begin() + 1, operands.end()}, type.elem, out)) return poison(span);
    const int64_t text = ir().fn().add_string(out.text());
    const TypeId result_type = types_.intern(type);
    ir().set_span(span);
    const ValueId whole = ir().fn().result(ir().emit(Op::instruction, operands, {&result_type, 1}, {&text, 1}));
    const bool scalars = out.grouped() && !from_tiles && ir().fn().type(units[0]).shape.rank == 0;
    if (meaning.kind != Value::tuple) return tile(scalars ? ir().reshape(whole, Shape{}) : whole, span);
    if (!from_tuples && !scalars) return tile(whole, span);
    std::vector<Value> items;
    for (const ValueId v : parts_of(whole, meaning.items.size(), scalars)) items.push_back(tile(v, span));
    return tuple(std::move(items), span);
}

/// A function named by the attribute `instructions` of a kernel: an instruction whose body is a product of its operands, for the kernel's own
/// products.
void Elaborator::take_instruction(const ast::Expr& named, ir::Function& kernel) {
    const Value f = expr(named);
    if (f.kind == Value::poison) return;
    if (f.kind != Value::function || !f.fn || !f.home || !is_instruction(*f.fn)) {
        error(Diag::bad_attribute, named.span, "instructions", "it names functions with `@ ptx(..)`, found " + describe(f));
        return;
    }
    const auto scope = generic_scope(f.fn->name.text, f.fn->generics, f.generics, *f.home, named.span);
    if (!scope) return;
    // The body of a call with operands that nothing is known of shows what is multiplied.
    ir::Function trial(types_);
    trial.loop_hints.emplace_back();
    trial.body = trial.add_block();
    auto builder = std::exchange(builder_, std::make_unique<ir::Builder>(trial, trial.body));
    Value result = poison(named.span);
    std::vector<Value> args;
    {
        const ScopeSwitch in(scope_, scope);
        for (const ast::Param& p : f.fn->params) {
            const std::optional<TypeDesc> t = p.type ? type_desc(plain_type(*f.fn, *p.type)) : std::nullopt;
            if (t && t->kind == TypeDesc::tile) args.push_back(tile(trial.add_arg(trial.body, types_.tile(t->elem, t->shape)), named.span));
        }
    }
    if (args.size() == f.fn->params.size()) result = call_function(f, args, {}, named.span);
    builder_ = std::move(builder);
    const auto refuse = [&](const std::string& why) {
        error(Diag::bad_attribute, named.span, "instructions", "`" + std::string(f.fn->name.text) + "`: " + why);
    };
    if (args.size() != f.fn->params.size()) return refuse("products are of two tiles, added to a third one");
    if (result.kind != Value::tile) return;
    const ir::Inst* made = trial.def(result.v);
    const ir::Inst* dot = made && made->op == Op::instruction ? trial.def(trial.operands(*made)[0]) : nullptr;
    const auto is_arg = [&](size_t i) { return trial.operands(*dot)[i] == args[i].v; };
    if (!dot || dot->op != Op::dot || args.size() != 3 || !is_arg(0) || !is_arg(1) || !is_arg(2))
        return refuse("its body is not `return dot(a, b, c);` of its operands, so that products cannot take it");
    const std::optional<Instruction> i = parse_instruction(trial.strings[static_cast<size_t>(trial.attrs(*made)[0])]);
    const FormatId formats[] = {trial.type(args[0].v).elem, trial.type(args[1].v).elem, trial.type(args[2].v).elem};
    std::string why;
    std::optional<ir::OwnRow> row = own_row(*i, formats, types_, why);
    if (!row) return refuse(why);
    kernel.own_rows.push_back(std::move(*row));
}

/// ptx(f, text, ..): the operands have the names of f's parameters, and f says what the text computes of their elements.
Value Elaborator::call_ptx(const Call& call) {
    const Value &f = call.positional[0], &text = call.positional[1];
    const auto refuse = [&](Span at, const std::string& why) { return error(Diag::bad_instruction, at, "ptx", why); };
    if (text.kind != Value::text) return refuse(arg_span(call, 1), "its second argument is PTX between quotes, found " + describe(text));
    std::vector<std::string_view> names;
    if (f.kind == Value::lambda)
        for (const ast::Name& n : f.lambda_expr->params) names.push_back(n.text);
    else if (f.kind == Value::function && f.fn)
        for (const ast::Param& p : f.fn->params) names.push_back(p.name.text);
    else
        return refuse(arg_span(call, 0), "its first argument is a lambda or a function, whose parameters name the operands");
    if (names.size() != call.positional.size() - 2 || names.empty())
        return refuse(call.span, "the function has " + std::to_string(names.size()) + " parameters, " + std::to_string(call.positional.size() - 2) +
                                     " operands are given");
    std::vector<ValueId> operands;
    for (size_t i = 2; i < call.positional.size(); ++i) operands.push_back(arg_tile(call, i));
    if (std::ranges::any_of(operands, [](ValueId v) { return !v.valid(); }) || !broadcast_all(operands, call.span)) return poison(call.span);
    std::vector<Value> args;
    for (size_t i = 0; i < operands.size(); ++i) {
        if (ir().fn().type(operands[i]).pointer) return refuse(arg_span(call, i + 2), "operands are numbers");
        args.push_back(tile(operands[i], arg_span(call, i + 2)));
    }
    const size_t first_inst = ir().fn().inst_count();
    const Value meaning = each_element(
        "ptx", args, [&](std::vector<Value> elements) { return call_with(f, std::move(elements), call.span); }, call.span);
    if (meaning.kind == Value::poison) return meaning;
    if (!is_pure(first_inst)) return refuse(arg_span(call, 0), "the function may neither read memory nor have effects");
    const ValueId value = to_tile(meaning, call.span);
    if (!value.valid()) return poison(call.span);
    Instruction out;
    out.name = "ptx";
    std::vector<PtxOperand> registers;
    for (size_t i = 0; i < names.size(); ++i) {
        out.operands.push_back({std::string(names[i])});
        registers.push_back(ptx_registers(out.operands[i], ir().fn().elem(operands[i])).named(names[i], false));
    }
    out.result.name = "result";
    registers.push_back(ptx_registers(out.result, ir().fn().elem(value)).named("result", true));
    if (const PtxText read = read_ptx(text.s, registers, false); read.problem)
        return refuse(problem_span(*read.problem, text.s, arg_span(call, 1)), read.problem->what);
    out.forms.push_back({"sm_50", std::string(text.s)});
    std::ranges::replace(out.forms[0].text, '\n', ' ');
    operands.insert(operands.begin(), ir().broadcast(value, ir().fn().type(operands[0]).shape));
    const int64_t id = ir().fn().add_string(out.text());
    const TypeId type = ir().fn().type_of(operands[0]);
    ir().set_span(call.span);
    return tile(ir().fn().result(ir().emit(Op::instruction, operands, {&type, 1}, {&id, 1})), call.span);
}

}  // namespace tegula::sema
