// One launch: arguments against parameters, layouts at the extents in use, segments of `dispatch`, `where` and `grid`. Everything that does
// not fit is one line of one diagnostic.
#include <algorithm>
#include <cmath>

#include "lang/exact.h"
#include "sema/binder.h"
#include "sema/flow.h"
#include "sema/walk.h"

namespace tegula::sema {

namespace {

constexpr int64_t kMaxGrid = INT32_MAX;

const char* kind_text(ArgumentType::Kind kind) {
    switch (kind) {
        case ArgumentType::tensor:
            return "a tensor";
        case ArgumentType::pointer:
            return "a pointer";
        case ArgumentType::scalar:
            return "a scalar";
        case ArgumentType::absent:
        case ArgumentType::inferred:
            break;
    }
    return "nothing";
}

}  // namespace

void Binder::check_layout(const ast::Param& p, const TypeDesc& declared, const ArgumentType& a) {
    const Layout &want = types_.layout(declared.layout), &have = types_.layout(a.layout);
    const bool plain = want.kind() == Layout::Kind::row || want.kind() == Layout::Kind::col;
    const bool line = a.extents.rank <= 1 && plain && (have.kind() == Layout::Kind::row || have.kind() == Layout::Kind::col);
    const std::span<const int64_t> extents(a.extents.begin(), a.extents.rank);
    // Layouts of the same strides are one layout at these extents, however they are written.
    const Format& f = types_.format(a.elem);
    const auto steps = [&](const Layout& l) {
        const bool fits = !f.is_block() && (l.rank() < 0 || l.rank() == a.extents.rank) && a.extents.elements() > 0;
        return fits ? l.bit_strides(extents, f.bits) : std::nullopt;
    };
    const auto strided_so = [&](const std::vector<int64_t>& wanted) {
        for (size_t d = 0; d < wanted.size(); ++d)
            if (int64_t bits = 0; extents[d] > 1 && (__builtin_mul_overflow(a.strides[d], int64_t{f.bits}, &bits) || bits != wanted[d])) return false;
        return true;
    };
    bool same = declared.layout == a.layout || line;
    if (a.has_strides)
        same = want.kind() != Layout::Kind::exprs || (steps(want) && strided_so(*steps(want)));
    else if (!same && !plain)
        same = steps(want) && steps(want) == steps(have);
    if (!same) {
        note(p.name.text, "layout is " + want.name() + ", got " + (a.has_strides ? std::string("explicit strides") : have.name()));
        return;
    }
    if (plain || (a.has_strides && want.kind() == Layout::Kind::strides)) return;
    if (const auto conflict = want.find_conflict(extents)) {
        diags_.report(Diag::layout_conflict, p.type->span, {want.name(), to_string(a.extents), conflict->text()});
    }
}

void Binder::check_tensor(const ast::Param& p, const ast::IndexExpr& form, ArgumentType& a) {
    if (is_open(*form.base)) return;
    std::optional<Value> declared;
    {
        const StaticMode mode(e_, scope_);
        declared = e_.type_form(*p.type);
    }
    if (!declared || declared->kind != Value::type) return;
    if (a.open_type) a.elem = declared->t.elem;
    if (declared->t.pointee.v && a.elem == declared->t.elem && (a.pointee.v == 0 || a.pointee == declared->t.pointee)) {
        // addresses, of the right elements as far as the host says
    } else if (declared->t.pointee.v) {
        const std::string got = types_.format(a.pointee.v ? a.pointee : a.elem).name;
        note(p.name.text, "element type is ptr<" + types_.format(declared->t.pointee).name + ">, got " + (a.pointee.v ? "ptr<" + got + ">" : got));
    } else if (!(declared->t.elem == a.elem)) {
        note(p.name.text, "element type is " + types_.format(declared->t.elem).name + ", got " + types_.format(a.elem).name);
    }
    if (form.items.size() != a.extents.rank) {
        note(p.name.text,
             "rank is " + std::to_string(form.items.size()) + ", got " + std::to_string(a.extents.rank) + " with extents " + to_string(a.extents));
        return;
    }
    bool fits = true;
    for (size_t d = 0; d < form.items.size(); ++d) {
        const ast::Expr& e = *form.items[d].start;
        if (is_open(e)) {
            note_memory(e, p.name.text);
            fits = false;
            continue;
        }
        const auto named = e.kind == ast::ExprKind::name ? plan_.extents.find(base_name(e)) : plan_.extents.end();
        if (named != plan_.extents.end() && named->second == a.extents[d] && a.extents[d] >= 0) continue;  // mostly so: nothing to evaluate
        const std::string axis = "extent " + std::to_string(d);
        const auto wanted = e_.folded_int(value(e, (axis + " ").c_str(), p.name.text));
        if (wanted && *wanted == a.extents[d] && a.extents[d] >= 0) continue;
        fits = false;
        if (!wanted) continue;
        std::string text = axis + " is ";
        if (e.kind != ast::ExprKind::int_lit) text += source_text(e) + " = ";
        text += int_text(*wanted);
        if (const auto from = extent_from_.find(base_name(e)); from != extent_from_.end()) text += " from `" + std::string(from->second) + "`";
        note(p.name.text, *wanted == a.extents[d] ? axis + " is negative" : text + ", got " + std::to_string(a.extents[d]));
    }
    if (a.open_layout) a.layout = declared->t.layout;
    if (fits) check_layout(p, declared->t, a);
}

std::optional<uint64_t> Binder::scalar_code(const Format& f, const StaticValue& v, bool exact) {
    if (const auto* b = std::get_if<bool>(&v.v)) return f.is_bool() ? std::optional<uint64_t>(*b) : std::nullopt;
    if (f.is_bool() || std::holds_alternative<FormatId>(v.v) || std::holds_alternative<Choice>(v.v)) return std::nullopt;
    const auto* i = std::get_if<__int128>(&v.v);
    const double d = i ? 0 : std::get<double>(v.v);
    if (f.is_int() && !i) {
        if (!(std::fabs(d) < 0x1p64) || d != std::trunc(d)) return std::nullopt;
        return scalar_code(f, StaticValue{static_cast<__int128>(d)}, exact);
    }
    const Exact value = i ? exact_from_wide(*i) : exact_from_double(d);
    bool overflowed = false;
    const uint64_t code = round_exact(value, f, {}, &overflowed);
    if (overflowed) return std::nullopt;
    // Reals of the source and of hosts take one rounding, as literals do; integers and numbers that have a type are held exactly.
    if ((i || exact) && value.cls != Exact::nan) {
        Exact held = decode_exact(f, code);
        held.sticky = false;  // a logarithm's, whose value is as near as it gets
        if (compare(held, value) != 0) return std::nullopt;
    }
    return code;
}

void Binder::bind_scalar(const ast::Param& p, const ArgumentType* a) {
    std::optional<TypeDesc> t;
    {
        const StaticMode mode(e_, scope_);
        t = e_.type_desc(*p.type);
    }
    if (!t || t->kind != TypeDesc::scalar_format) return;
    StaticValue given;
    if (a) {
        given = a->value;
    } else {
        const Value v = value(*p.default_value, "default ", p.name.text);
        if (v.kind == Value::poison) return;
        const auto known = static_of(v);
        if (!known) return note(p.name.text, "the default is no scalar");
        given = *known;
    }
    const Format& f = types_.format(t->elem);
    const std::optional<uint64_t> code = scalar_code(f, given, a && a->elem.v != 0);
    if (!code) {
        const std::string type = a && a->elem.v ? " of type " + types_.format(a->elem).name : "";
        return note(p.name.text, "expected " + f.name + ", got " + to_string(given, types_) + type);
    }
    Argument out;
    out.kind = Argument::scalar;
    out.code = *code;
    plan_.scalars.push_back(out);
    define(*scope_, p.name.text, e_.typed(t->elem, *code, p.name.span));
}

void Binder::check_param(const ast::Param& p, ArgumentType& a) {
    const ast::IndexExpr* form = tensor_form(*p.type);
    const bool pointer = !form && base_name(*p.type) == "ptr";
    const ArgumentType::Kind want = form ? ArgumentType::tensor : pointer ? ArgumentType::pointer : ArgumentType::scalar;
    if (a.kind != want) return note(p.name.text, std::string("expected ") + kind_text(want) + ", got " + kind_text(a.kind));
    if (form) return check_tensor(p, *form, a);
    if (!pointer) return;
    std::optional<TypeDesc> t;
    {
        const StaticMode mode(e_, scope_);
        t = e_.type_desc(*p.type);
    }
    if (t && t->kind == TypeDesc::pointer && a.open_type) a.elem = t->elem;
    if (t && t->kind == TypeDesc::pointer && !(t->elem == a.elem)) {
        note(p.name.text, "element type is " + types_.format(t->elem).name + ", got " + types_.format(a.elem).name);
    }
}

/// The tensor that an `out` parameter asks for, once everything else is bound; reported when that leaves something open.
std::optional<ArgumentType> Binder::infer(const ast::Param& p) {
    const ast::IndexExpr* form = tensor_form(*p.type);
    const auto open = [&](const ast::IndexItem& item) { return item.kind != ast::IndexItem::value || is_open(*item.start); };
    if (!form || is_open(*form->base) || std::any_of(form->items.begin(), form->items.end(), open)) {
        if (own_problems_ == problems_.size()) {
            note(p.name.text, "type and extents do not follow from the other arguments");
            ++own_problems_;
        }
        return std::nullopt;
    }
    std::optional<Value> declared;
    {
        const StaticMode mode(e_, scope_);
        declared = e_.type_form(*p.type);
    }
    if (!declared || declared->kind != Value::type || form->items.size() > kMaxRank) return std::nullopt;
    ArgumentType out;
    out.kind = ArgumentType::tensor;
    out.elem = declared->t.elem;
    out.layout = declared->t.layout;
    for (const ast::IndexItem& item : form->items) {
        const Value v = value(*item.start, "extent ", p.name.text);
        const auto extent = v.kind == Value::poison ? std::nullopt : e_.static_int(v, item.span, "an extent");
        if (!extent) return std::nullopt;
        out.extents.push(*extent);
    }
    return out;
}

/// `dispatch M in {..}`: the first segment that holds the extent, else the last, becomes part of the instance.
void Binder::choose_segments() {
    for (const ast::TuneChoice& c : kernel_.dispatch) {
        const Local* l = scope_->find(c.name.text);
        const auto actual = l ? e_.folded_int(l->value) : std::nullopt;
        if (!actual || c.values.empty()) continue;
        int64_t chosen = 0;
        for (const ast::Expr* e : c.values) {
            const auto n = e_.static_int(value(*e, "dispatch: "), e->span, "a segment of `dispatch`");
            if (!n) return;
            chosen = *n;
            if (*actual <= *n) break;
        }
        plan_.generics["dispatch." + std::string(c.name.text)] = StaticValue{chosen};
    }
}

void Binder::grid() {
    for (size_t i = 0; i < kernel_.grid.size() && i < 3; ++i) {
        const ast::Expr& e = *kernel_.grid[i];
        const std::string extent = "grid extent " + std::to_string(i) + " ";
        if (is_open(e)) continue;
        const Value v = value(e, extent.c_str());
        if (v.kind == Value::poison) continue;
        const auto n = e_.folded_int(v);
        if (!n) {
            e_.static_int(v, e.span, "an extent of the grid");
            continue;
        }
        if (*n < 0 || *n > kMaxGrid) {
            note({}, extent + "is " + source_text(e) + " = " + int_text(*n) + ", outside [0, " + std::to_string(kMaxGrid) + "]");
            continue;
        }
        plan_.grid[i] = static_cast<uint64_t>(*n);
    }
}

std::optional<LaunchPlan> Binder::launch(const StaticValues& given, std::span<const ArgumentType> arguments) {
    const size_t errors = diags_.error_count();
    StaticValues generics = given;
    take_extents(generics);
    take_given(generics);
    own_problems_ = problems_.size();
    if (arguments.size() > kernel_.params.size()) {
        note({}, std::to_string(arguments.size()) + " arguments were given, the kernel takes " + std::to_string(kernel_.params.size()));
    }
    const auto argument = [&](size_t i) -> const ArgumentType* {
        return i < arguments.size() && arguments[i].kind != ArgumentType::absent ? &arguments[i] : nullptr;
    };
    // Numbers adapt to the type that tensors settle, so they come second.
    for (const bool numbers : {false, true})
        for (size_t i = 0; i < kernel_.params.size(); ++i) {
            const ArgumentType* a = argument(i);
            if (a && a->kind != ArgumentType::inferred && (a->kind == ArgumentType::scalar) == numbers) deduce_from(kernel_.params[i], *a);
            if (!a && !numbers && !kernel_.params[i].default_value) note(kernel_.params[i].name.text, "missing argument");
        }
    solve_extents(arguments);
    // Scalars of known type first: extents, `where`, `tune` and `grid` may use them.
    const bool generics_first = kernel_.tune.empty();
    if (generics_first) complete_generics(problems_.empty(), false);
    for (size_t i = 0; i < kernel_.params.size(); ++i) {
        const ast::Param& p = kernel_.params[i];
        const bool scalar = !tensor_form(*p.type) && base_name(*p.type) != "ptr";
        if (!scalar || is_open(*p.type)) continue;
        const ArgumentType* a = argument(i);
        if ((a && a->kind == ArgumentType::scalar) || (!a && p.default_value)) bind_scalar(p, a);
    }
    if (!generics_first) complete_generics(problems_.empty(), false);
    solve_extents(arguments);  // once more, with defaults and scalars
    plan_.arguments.resize(kernel_.params.size());
    for (size_t i = 0; i < kernel_.params.size(); ++i) {
        const ArgumentType* a = argument(i);
        if (!a) continue;
        plan_.arguments[i] = *a;
        if (a->kind != ArgumentType::inferred)
            check_param(kernel_.params[i], plan_.arguments[i]);
        else if (const auto inferred = infer(kernel_.params[i]))
            plan_.arguments[i] = *inferred;
    }
    for (const std::string_view name : extent_names_)
        if (problems_.empty() && !plan_.extents.count(name)) note({}, "extent `" + std::string(name) + "` does not follow from the arguments");
    choose_segments();
    where_holds(true);
    if (problems_.empty()) grid();
    if (!problems_.empty()) {
        Diagnostic& d = diags_.report(Diag::launch_mismatch, at_, {std::string(kernel_.name.text)});
        d.notes.insert(d.notes.end(), problems_.begin(), problems_.end());
    }
    if (diags_.error_count() != errors) return std::nullopt;
    return std::move(plan_);
}

}  // namespace tegula::sema
