// Values to declared types: `let x: T`, parameters, results, fields, and assignment to a `var`. Also deduction: binding generics and shape
// names by laying a declared type over an actual value.
#include <algorithm>
#include <cmath>

#include "sema/elaborate.h"
#include "sema/flow.h"
#include "sema/walk.h"
#include "sema/words.h"

namespace tegula::sema {

Value Elaborator::mismatch(const std::string& expected, const Value& v, Span span) { return error(Diag::type_mismatch, span, expected, describe(v)); }

/// A literal under a declared scalar type, at compile time: the number itself, once it fits.
Value Elaborator::fit_literal(Value v, FormatId elem, Span span) {
    if (!literal_code(v, elem, span)) return poison(span);
    const Format& f = types_.format(elem);
    if (f.is_int() && v.kind == Value::real) v = integer_value(static_cast<__int128>(v.r), v.span);
    if (!f.is_int() && v.kind == Value::integer) v = real_of_integer(v.i, v.span);
    return v;
}

Value Elaborator::coerce_element(const Value& v, FormatId elem, Span span) {
    const Format& f = types_.format(elem);
    if (f.is_block()) return v.kind == Value::block_tile && v.elem == elem ? v : mismatch("`" + f.name + "`", v, span);
    if (v.is_static_number() && !building()) return fit_literal(v, elem, span);
    return tile(to_tile(v, elem, span), v.span);
}

Value Elaborator::coerce_trait(const Value& v, std::string_view trait, Span span) {
    if (trait == "any") return v;
    if (const WordKind* kind = find_word_kind(trait)) return as_word(v, *kind, span);
    if (trait == kFunctionBound) return is_callable(v) ? v : mismatch("a function, an operation or a lambda", v, span);
    if (trait == "int") return v.kind == Value::integer ? v : mismatch("an integer constant", v, span);
    bool ok = false;
    if (v.kind == Value::integer)
        ok = trait != "uint" || v.i >= 0;
    else if (v.kind == Value::real)
        ok = trait == "float" || trait == "number";
    else if (v.kind == Value::tile || v.kind == Value::block_tile || v.kind == Value::tensor) {
        TypeDesc t;
        t.kind = TypeDesc::scalar_format;
        t.elem = elem_of(v);
        ok = satisfies(t, trait) && !(v.kind == Value::tile && ir().fn().type(v.v).pointer);
    }
    if (!ok) {
        Diagnostic& d = diags_.report(Diag::type_mismatch, span, {"a value of `" + std::string(trait) + "` type", describe(v)});
        if (trait == "float" && v.kind == Value::tile) offer_cast(d, {span}, "f32");
        return poison(span);
    }
    if (trait == "float" && v.kind == Value::integer) return real_of_integer(v.i, v.span);
    return v;
}

Value Elaborator::coerce(const Value& v, const TypeDesc& t, Span span) {
    if (v.kind == Value::poison) return v;
    const bool is_pointer = v.kind == Value::tile && ir().fn().type(v.v).pointer;
    switch (t.kind) {
        case TypeDesc::any:
            return v;
        case TypeDesc::trait:
            return coerce_trait(v, t.trait_name, span);
        case TypeDesc::scalar_format:
            return coerce_element(v, t.elem, span);
        case TypeDesc::tile: {
            const Value out = coerce_element(v, t.elem, span);
            if (out.kind == Value::poison || shape_of(out) == t.shape) return out;
            if (out.is_static_number() && t.shape.rank == 0) return out;
            return mismatch("`" + describe(t) + "`", out, span);
        }
        case TypeDesc::tensor:
            return v.kind == Value::tensor && elem_of(v) == t.elem && v.tensor_ref->pointee == t.pointee ? v
                                                                                                         : mismatch("`" + describe(t) + "`", v, span);
        case TypeDesc::pointer:
            return is_pointer && elem_of(v) == t.elem ? v : mismatch("`" + describe(t) + "`", v, span);
        case TypeDesc::structure:
            if (v.kind != Value::structure || v.decl != t.decl) return mismatch("`" + describe(t) + "`", v, span);
            if (t.fields) {
                Value out = v;
                for (size_t i = 0; i < out.items.size(); ++i) {
                    out.items[i] = coerce(v.items[i], (*t.fields)[i], span);
                    if (out.items[i].kind == Value::poison) return poison(span);
                }
                return out;
            }
            return v;
        case TypeDesc::tuple:
            break;
    }
    if (v.kind != Value::tuple || v.items.size() != t.items.size()) return mismatch("`" + describe(t) + "`", v, span);
    Value out = v;
    for (size_t i = 0; i < out.items.size(); ++i) {
        out.items[i] = coerce(v.items[i], t.items[i], v.items[i].span.valid() ? v.items[i].span : span);
        if (out.items[i].kind == Value::poison) return poison(span);
    }
    return out;
}

/// What turns `v` into the type of a variable that holds `like`; empty when nothing simple does.
std::string Elaborator::assignment_cure(const Value& v, const Value& like) {
    if (v.kind != Value::tile && !v.is_static_number()) return {};
    if (like.kind != Value::tile) return {};
    const Type& to = ir().fn().type(like.v);
    if (to.pointer) return {};
    const std::string& elem = types_.format(to.elem).name;
    if (v.is_static_number()) return "write `full<" + elem + ">" + to_string(to.shape) + "(..)` for a tile of one number";
    const Type& own = ir().fn().type(v.v);
    if (own.pointer) return {};
    const bool same_elements = own.shape.elements() == to.shape.elements();
    const std::string shape = own.shape == to.shape ? ""
                              : same_elements       ? "its shape is changed by `reshape`"
                                                    : "its shape is changed by `broadcast`, a slice or a reduction";
    const std::string cast = own.elem == to.elem ? "" : "`cast<" + elem + ">(..)` converts it";
    return cast + (cast.empty() || shape.empty() ? "" : ", and ") + shape;
}

Value Elaborator::coerce_like(const Value& v, const Value& like, std::string_view name, Span span) {
    if (v.kind == Value::poison || like.kind == Value::poison) return poison(span);
    if (!building()) return v;
    const auto refuse = [&] {
        Diagnostic& d = diags_.report(Diag::assigned_type, span, {describe(v), std::string(name), describe(like)});
        if (const std::string cure = assignment_cure(v, like); !cure.empty()) d.help("" + cure);
        const auto is_number = [&](const Value& x) { return x.kind == Value::tile && !ir().fn().type(x.v).pointer; };
        const bool placed = v.span.file == span.file && span.begin <= v.span.begin && v.span.end <= span.end;
        if (placed && is_number(v) && is_number(like) && elem_of(v) != elem_of(like)) offer_cast(d, {v.span}, types_.format(elem_of(like)).name);
        return poison(span);
    };
    if (like.kind == Value::tile) {
        const Type type = ir().fn().type(like.v);
        if (v.is_static_number()) {
            if (type.shape.rank != 0 || type.pointer) return refuse();
            return tile(to_tile(v, type.elem, span), span);
        }
        if (v.kind != Value::tile) return refuse();
        const Type& own = ir().fn().type(v.v);
        if (!(own.shape == type.shape) || own.pointer != type.pointer) return refuse();
        if (own.elem == type.elem) return v;
        if (type.pointer || !widens(types_.format(own.elem), types_.format(type.elem))) return refuse();
        return tile(ir().cast(v.v, type.elem), span);
    }
    if (like.kind == Value::block_tile) {
        const bool same = v.kind == Value::block_tile && v.elem == like.elem && shape_of(v) == shape_of(like) &&
                          v.tensor_scale.valid() == like.tensor_scale.valid();
        return same ? v : refuse();
    }
    if (v.kind != like.kind || v.items.size() != like.items.size() || v.decl != like.decl) return refuse();
    Value out = v;
    for (size_t i = 0; i < out.items.size(); ++i) {
        out.items[i] = coerce_like(v.items[i], like.items[i], name, span);
        if (out.items[i].kind == Value::poison) return poison(span);
    }
    return out;
}

bool Elaborator::same_value(const Value& a, const Value& b) {
    if (a.kind != b.kind || a.items.size() != b.items.size()) return false;
    for (size_t i = 0; i < a.items.size(); ++i)
        if (!same_value(a.items[i], b.items[i])) return false;
    switch (a.kind) {
        case Value::integer:
            return a.i == b.i;
        case Value::real:
            return (a.r == b.r && a.rest == b.rest) || (std::isnan(a.r) && std::isnan(b.r));
        case Value::boolean:
            return a.b == b.b;
        case Value::text:
        case Value::word:
            return a.s == b.s;
        case Value::tile:
            return a.v == b.v;
        case Value::layout:
            return a.layout_id == b.layout_id;
        case Value::type:
            return a.t.kind == b.t.kind && a.t.elem == b.t.elem && a.t.shape == b.t.shape && a.t.decl == b.t.decl;
        case Value::function:
            return a.fn == b.fn && same_generics(a, b);
        case Value::builtin:
            return a.row == b.row;
        case Value::elementwise:
            return a.op == b.op;
        case Value::unit:
        case Value::none:
        case Value::tuple:
        case Value::list:
            return true;
        default:
            return false;
    }
}

/// Gives an open generic or a new shape name its value. Names that mean something already are left alone.
bool Elaborator::bind_name(std::string_view name, const Value& v, const std::shared_ptr<Scope>& scope, Span span) {
    if (Local* l = scope->find(name)) {
        if (l->value.kind == Value::none) {
            l->value = v;
            l->value.span = span;
        } else if (v.kind == Value::integer && l->value.kind == Value::integer && v.i != l->value.i) {
            error(Diag::shape_mismatch, span, name, "is " + describe(l->value) + " elsewhere, here it is " + describe(v));
            return false;
        }
        return true;
    }
    const Scope* root = scope.get();
    while (root->parent) root = root->parent.get();
    if (root->module && is_item(*root->module, name)) return true;
    define(*scope, name, v);
    return true;
}

bool Elaborator::match_shape(const ast::IndexExpr& declared, size_t rank, const std::function<Value(size_t)>& actual,
                             const std::shared_ptr<Scope>& scope, Span span) {
    if (declared.items.size() != rank) {
        error(Diag::shape_mismatch, span, source_text(*declared.base),
              "expected rank " + std::to_string(declared.items.size()) + ", found rank " + std::to_string(rank));
        return false;
    }
    bool ok = true;
    for (size_t d = 0; d < rank; ++d) {
        const ast::IndexItem& item = declared.items[d];
        if (item.kind != ast::IndexItem::value || item.start->kind != ast::ExprKind::name) continue;
        ok &= bind_name(ast::as<ast::NameExpr>(item.start).name, actual(d), scope, span);
    }
    return ok;
}

bool Elaborator::match_element(const ast::Expr& declared, FormatId elem, const std::shared_ptr<Scope>& scope, Span span) {
    if (declared.kind != ast::ExprKind::name) return true;
    Local* l = scope->find(ast::as<ast::NameExpr>(&declared).name);
    if (!l || l->value.kind != Value::none) return true;
    TypeDesc t;
    t.kind = TypeDesc::scalar_format;
    t.elem = elem;
    l->value = type_value(t, span);
    return true;
}

bool Elaborator::match_param(const ast::Expr& declared, const Value& actual, const std::shared_ptr<Scope>& scope, Span span) {
    using K = ast::ExprKind;
    if (actual.kind == Value::poison) return false;
    if (declared.kind == K::annotated) return match_param(*ast::as<ast::AnnotatedExpr>(&declared).base, actual, scope, span);
    if (declared.kind == K::name) {
        FormatId elem = elem_of(actual);
        if (actual.kind == Value::integer) elem = id_of(actual.i > INT64_MAX ? Fmt::u64 : Fmt::i64);
        if (actual.kind == Value::real) elem = id_of(Fmt::f32);
        if (actual.kind == Value::boolean) elem = id_of(Fmt::boolean);
        return elem.v == 0 || match_element(declared, elem, scope, span);
    }
    if (declared.kind == K::tuple) {
        const auto& items = ast::as<ast::TupleExpr>(&declared).items;
        bool ok = true;
        if (actual.kind == Value::tuple && actual.items.size() == items.size())
            for (size_t i = 0; i < items.size(); ++i) ok &= match_param(*items[i], actual.items[i], scope, span);
        return ok;
    }
    const ast::Expr* head = declared.kind == K::index ? ast::as<ast::IndexExpr>(&declared).base : &declared;
    if (head->kind != K::instantiate) return true;
    const auto& form = ast::as<ast::InstantiateExpr>(head);
    const std::string_view name = base_name(form);
    if (actual.kind == Value::structure && declared.kind != K::index) {
        // The fields tell the struct's own generics, and those what stands for them here.
        Value type;
        {
            const ScopeSwitch in(scope_, scope);
            type = expr(*form.base);
        }
        if (type.kind != Value::type || type.t.decl != actual.decl || !type.home) return true;
        const auto own = make_scope(module_scope(*type.home));
        Value open;
        open.kind = Value::none;
        for (const ast::GenericParam& p : actual.decl->generics) define(*own, p.name.text, open);
        bool ok = true;
        for (size_t i = 0; i < actual.items.size(); ++i) ok &= match_param(*actual.decl->fields[i].type, actual.items[i], own, span);
        for (size_t i = 0; i < form.args.size() && i < actual.decl->generics.size(); ++i) {
            const ast::Arg& arg = form.args[i];
            if (arg.value->kind != K::name) continue;
            const Local* known = own->find(arg.name.text.empty() ? actual.decl->generics[i].name.text : arg.name.text);
            Local* l = scope->find(ast::as<ast::NameExpr>(arg.value).name);
            if (known && l && l->value.kind == Value::none) l->value = known->value;
        }
        return ok;
    }
    if ((name != "tile" && name != "tensor" && name != "ptr") || form.args.size() != 1) return true;
    if (const FormatId elem = elem_of(actual); elem.v != 0) match_element(*form.args[0].value, elem, scope, span);
    if (declared.kind != K::index) return true;
    const auto& dims = ast::as<ast::IndexExpr>(&declared);
    if (actual.kind == Value::tensor && name == "tensor") {
        const Tensor& t = *actual.tensor_ref;
        return match_shape(
            dims, t.extents.size(), [&](size_t d) { return t.extents[d]; }, scope, span);
    }
    if (name != "tile" || (actual.kind != Value::tile && actual.kind != Value::block_tile)) return true;
    const Shape shape = shape_of(actual);
    return match_shape(
        dims, shape.rank, [&](size_t d) { return integer_value(shape[d], span); }, scope, span);
}

}  // namespace tegula::sema
