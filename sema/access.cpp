// Indexing: x[..] on tensors becomes a load, a store or an atomic with an Access; on tiles a static slice where every start is a constant,
// else extract and deposit. Masks come from extents (ir::Access); constant indices outside a tile are errors here.
#include <algorithm>

#include "sema/elaborate.h"
#include "sema/flow.h"
#include "sema/modifiers.h"
#include "sema/part.h"
#include "sema/walk.h"

namespace tegula::sema {

using ir::Access;
using ir::Op;
using ir::ValueId;

namespace {

bool names_type_form(const ast::IndexExpr& e) {
    if (e.base->kind != ast::ExprKind::instantiate) return false;
    const ast::Expr* base = ast::as<ast::InstantiateExpr>(e.base).base;
    if (base->kind != ast::ExprKind::name) return false;
    const std::string_view name = ast::as<ast::NameExpr>(base).name;
    return name == "tile" || name == "tensor" || name == "codebook";
}

std::string indices_text(size_t n) { return n == 1 ? "1 index is" : std::to_string(n) + " indices are"; }

}  // namespace

// ---- resolving index lists ----

int64_t Elaborator::known_extent(const Value& base, size_t axis) {
    if (base.kind == Value::tile) return ir().fn().type(base.v).shape[axis];
    const Value& extent = base.tensor_ref->extents[axis];
    return extent.kind == Value::integer ? static_cast<int64_t>(extent.i) : kDynamic;
}

/// `start +: extent step s` and `:` on dimension `d`.
bool Elaborator::resolve_slice(const ast::IndexItem& item, size_t d, Part& part) {
    Access::Axis axis;
    const int64_t whole = known_extent(part.base, d);
    const bool on_tile = part.base.kind == Value::tile;
    if (item.kind == ast::IndexItem::all) {
        if (whole == kDynamic) {
            error(Diag::dynamic_all, item.span, std::to_string(d), part.base.tensor_ref->name);
            return false;
        }
        if (whole == 0) {
            error(Diag::bad_shape, item.span, "dimension " + std::to_string(d) + " has extent 0; a tile has extents of at least 1");
            return false;
        }
        axis.kind = Access::all;
        axis.extent = whole;
        part.access.axes.push_back(axis);
        part.indices.emplace_back();
        part.known.push_back(0);
        part.ir_shape.push(whole);
        return true;
    }
    axis.kind = Access::range;
    const Value start = expr(*item.start), extent = expr(*item.extent);
    if (start.kind == Value::poison || extent.kind == Value::poison) return false;
    if (extent.kind == Value::tile) {
        Diagnostic& d = diags_.report(Diag::dynamic_extent, item.extent->span, {describe(extent) + ", a run-time value"});
        note_hidden(d);
        d.help("write a constant, or a generic parameter such as `BLOCK: int = 128` of the kernel: what a slice has beyond the end of "
                          "a tensor reads as 0, or as `else v`, and is not written");
        return false;
    }
    const auto length = static_int(extent, item.extent->span, "the extent of a slice");
    if (!length) return false;
    if (*length < 1 || *length > kMaxTileElements) {
        error(Diag::bad_shape, item.extent->span, "the extent of a slice is between 1 and 16777216, here is " + std::to_string(*length));
        return false;
    }
    axis.extent = *length;
    if (item.step != nullptr) {
        const auto step = static_int(expr(*item.step), item.step->span, "the step of a slice");
        if (!step) return false;
        if (*step == 0 || (*step < 0 && !on_tile) || *step > INT32_MAX || *step < -INT32_MAX) {
            error(Diag::bad_step, item.step->span, "the step of this slice cannot be " + std::to_string(*step));
            return false;
        }
        axis.step = *step;
    }
    const ValueId index = to_index(start, item.start->span);
    if (!index.valid()) return false;
    if (ir().fn().type(index).shape.rank != 0) {
        error(Diag::not_an_index, item.start->span, describe(start) + " as the start of a slice, which is a scalar");
        return false;
    }
    std::optional<int64_t> known;
    if (start.kind == Value::integer) known = static_cast<int64_t>(start.i);
    if (on_tile && known) {
        const __int128 last = static_cast<__int128>(*known) + static_cast<__int128>(axis.extent - 1) * axis.step;
        if (*known < 0 || *known >= whole || last < 0 || last >= whole) {
            error(Diag::index_out_of_range, item.span, int_text(*known < 0 || *known >= whole ? *known : last), std::to_string(whole));
            return false;
        }
    }
    part.access.axes.push_back(axis);
    part.indices.push_back(index);
    part.known.push_back(known);
    part.ir_shape.push(axis.extent);
    return true;
}

/// A scalar index, a tile of indices, or an array of constants, on dimension `d`. `joint` collects the shape of index tiles.
bool Elaborator::resolve_index(const ast::IndexItem& item, size_t d, Part& part, std::optional<Shape>& joint) {
    Value v = expr(*item.start);
    if (v.kind == Value::poison) return false;
    if (v.kind == Value::list) {
        v = constant_indices(v, item.span);
        if (v.kind == Value::poison) return false;
    }
    const ValueId index = to_index(v, item.span);
    if (!index.valid()) return false;
    Access::Axis axis;
    std::optional<int64_t> known;
    if (v.kind == Value::integer) {
        known = static_cast<int64_t>(v.i);
        const int64_t whole = known_extent(part.base, d);
        if (part.base.kind == Value::tile && (*known < 0 || *known >= whole)) {
            error(Diag::index_out_of_range, item.span, int_text(v.i), std::to_string(whole));
            return false;
        }
    }
    const Shape& shape = ir().fn().type(index).shape;
    if (shape.rank != 0) {
        axis.kind = Access::gather;
        const auto together = joint ? broadcast(*joint, shape) : std::optional(shape);
        if (!together) {
            error(Diag::shapes_do_not_broadcast, item.span, to_string(*joint), to_string(shape));
            return false;
        }
        joint = together;
    }
    part.access.axes.push_back(axis);
    part.indices.push_back(index);
    part.known.push_back(known);
    return true;
}

Value Elaborator::constant_indices(const Value& list, Span span) {
    std::vector<int64_t> codes;
    for (const Value& item : list.items) {
        const auto index = static_int(item, item.span, "an index of an array");
        if (!index) return poison(span);
        codes.push_back(*index);
    }
    if (codes.empty()) return error(Diag::bad_shape, span, "an array of indices has at least one entry");
    const TypeId type = types_.tile(Fmt::i64, {static_cast<int64_t>(codes.size())});
    return tile(ir().fn().result(ir().emit(Op::constant_tile, {}, {&type, 1}, codes)), span);
}

bool Elaborator::resolve_part(const ast::IndexExpr& e, const Value& base, Part& part) {
    part.base = base;
    part.span = e.span;
    const size_t rank = base.kind == Value::tensor ? base.tensor_ref->extents.size() : ir().fn().type(base.v).shape.rank;
    const auto given =
        static_cast<size_t>(std::count_if(e.items.begin(), e.items.end(), [](const auto& i) { return i.kind != ast::IndexItem::new_axis; }));
    if (given != rank) {
        error(Diag::wrong_index_count, e.span, describe(base), count_text(rank, "dimension"), indices_text(given));
        return false;
    }
    std::vector<int64_t> dims;
    std::optional<Shape> joint;
    size_t joint_at = 0, joint_ir_at = 0, d = 0;
    for (const ast::IndexItem& item : e.items) {
        if (item.kind == ast::IndexItem::new_axis) {
            dims.push_back(1);
            continue;
        }
        const bool had_joint = joint.has_value();
        const bool ok = item.kind == ast::IndexItem::value ? resolve_index(item, d, part, joint) : resolve_slice(item, d, part);
        if (!ok) return false;
        const bool makes_dim = item.kind != ast::IndexItem::value;
        part.result_dim.push_back(makes_dim ? static_cast<int>(dims.size()) : -1);
        if (makes_dim) dims.push_back(part.access.axes.back().extent);
        if (joint && !had_joint) {
            joint_at = dims.size();
            joint_ir_at = part.ir_shape.rank;
        }
        ++d;
    }
    return finish_part(part, dims, joint, joint_at, joint_ir_at);
}

/// The shapes of a part: `dims` with the joint shape of the index tiles put in.
bool Elaborator::finish_part(Part& part, std::vector<int64_t> dims, const std::optional<Shape>& joint, size_t joint_at, size_t joint_ir_at) {
    std::vector<int64_t> plain(part.ir_shape.begin(), part.ir_shape.end());
    if (joint) {
        dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(joint_at), joint->begin(), joint->end());
        plain.insert(plain.begin() + static_cast<std::ptrdiff_t>(joint_ir_at), joint->begin(), joint->end());
        for (int& at : part.result_dim)
            if (at >= static_cast<int>(joint_at)) at += joint->rank;
    }
    if (dims.size() > kMaxRank) {
        error(Diag::bad_shape, part.span, "a tile has at most 8 dimensions, this part has " + std::to_string(dims.size()));
        return false;
    }
    part.ir_shape = {};
    for (int64_t extent : plain) part.ir_shape.push(extent);
    for (int64_t extent : dims) part.shape.push(extent);
    return fits_budget(part.shape, part.span);
}

// ---- reading ----

Value Elaborator::member_at(const ast::IndexExpr& e, const Value& array) {
    if (e.items.size() != 1 || e.items[0].kind != ast::IndexItem::value)
        return error(Diag::wrong_index_count, e.span, describe(array), count_text(1, "dimension"), indices_text(e.items.size()));
    const auto at = static_int(expr(*e.items[0].start), e.items[0].span, "the index of an array");
    if (!at) return poison(e.span);
    if (*at < 0 || *at >= static_cast<int64_t>(array.items.size()))
        return error(Diag::index_out_of_range, e.items[0].span, std::to_string(*at), std::to_string(array.items.size()));
    return copy(array.items[static_cast<size_t>(*at)], e.span);
}

Value Elaborator::index(const ast::IndexExpr& e, const ast::Expr* otherwise, const ast::Expr* modified) {
    if (names_type_form(e)) {
        const auto type = type_desc(e);
        Value v = poison(e.span);
        if (type) {
            v.kind = Value::type;
            v.t = *type;
        }
        return v;
    }
    const Around within(around_, e);
    if (const Value* array = array_of(*e.base); array && !modified && !otherwise) return member_at(e, *array);
    Value base = expr(*e.base);
    const bool has_parts = base.kind == Value::tensor || base.kind == Value::tile || base.kind == Value::block_tile || base.kind == Value::poison;
    if (otherwise && !has_parts) return no_part(e.span);
    if (form_rank_ > 0 && base.kind == Value::tile && depends_on_form(base)) return error(Diag::whole_tile_in_index_form, e.span, source_text(e));
    if (modified && base.kind != Value::tensor && base.kind != Value::poison)
        return modifier_error(*modified, "it reads " + describe(base) + ", no memory");
    switch (base.kind) {
        case Value::poison:
            return poison(e.span);
        case Value::builtin:
            return call_builtin(base, shape_items(e), true, nullptr, e.span);
        case Value::list:
        case Value::tuple:
            return member_at(e, base);
        case Value::tensor:
        case Value::tile:
            break;
        case Value::block_tile:
            return error(Diag::block_alignment, e.span, types_.format(base.elem).name,
                         "a tile of blocks has no single elements; decode it with cast<f32>(..)");
        default:
            return error(Diag::cannot_index, e.base->span, describe(base));
    }
    Part part;
    if (!resolve_part(e, base, part)) return poison(e.span);
    if (modified) part.access.flags = caching_of(*modified).flags();
    Value other = poison(e.span);
    if (otherwise != nullptr) {
        other = expr(*otherwise);
        if (other.kind == Value::poison) return poison(e.span);
    }
    if (otherwise != nullptr && otherwise == converted_else_) return read_converted(part, other);
    return read_part(part, otherwise != nullptr ? &other : nullptr);
}

Value Elaborator::read_part(const Part& part, const Value* other) {
    ir().set_span(part.span);
    if (part.base.kind == Value::tensor) {
        const Tensor& t = *part.base.tensor_ref;
        if (t.mode == ast::ParamMode::out) return mode_error("read", t, part.span);
        if (t.scales.valid()) return read_blocks(part, other);
        if (!t.pointee.v) return read_object(part, Op::load, t.handle, other);
        if (other) return error(Diag::bad_pointer_operation, other->span, "else", describe(*other), "pointers of a tensor");
        const Value addresses = read_object(part, Op::load, t.handle, nullptr);
        return addresses.kind == Value::tile ? tile(pointers_at(addresses.v, t.pointee), part.span) : addresses;
    }
    if (part.is_static()) {
        const Shape& from = ir().fn().type(part.base.v).shape;
        std::vector<int64_t> start_step;
        Shape to;
        for (size_t d = 0; d < from.rank; ++d) {
            start_step.push_back(*part.known[d]);
            start_step.push_back(part.access.axes[d].step);
            to.push(part.access.axes[d].extent);
        }
        Type type = ir().fn().type(part.base.v);
        type.shape = to;
        const TypeId id = types_.intern(type);
        ValueId v = part.base.v;
        const bool whole = std::all_of(part.access.axes.begin(), part.access.axes.end(), [](const auto& a) { return a.kind == Access::all; });
        if (!whole) v = ir().fn().result(ir().emit(Op::slice, {&part.base.v, 1}, {&id, 1}, start_step));
        return tile(ir().reshape(v, part.shape), part.span);
    }
    return read_object(part, Op::extract, part.base.v, other);
}

Value Elaborator::read_object(const Part& part, Op op, ValueId object, const Value* other) {
    Type type = ir().fn().type(object);
    const FormatId elem = type.elem;
    type.kind = Type::tile;
    type.mode = Mode::in;
    type.layout = {};
    type.shape = part.ir_shape;
    const TypeId result = types_.intern(type);
    std::vector<ValueId> operands = part.operands(object);
    Access access = part.access;
    if (other != nullptr) {
        ValueId v = to_tile(*other, elem, other->span);
        if (!v.valid()) return poison(part.span);
        const Shape& own = ir().fn().type(v).shape;
        if (broadcast(own, part.ir_shape) != part.ir_shape) return error(Diag::part_mismatch, other->span, to_string(own), to_string(part.ir_shape));
        ir().set_span(part.span);
        operands.push_back(ir().broadcast(v, part.ir_shape));
        access.flags |= Access::has_other;
    } else {
        fill_with_zero(result, operands, access.flags);
    }
    ir().set_span(part.span);
    std::vector<int64_t> attrs{access.flags};
    const auto axes = access.encode_axes();
    attrs.insert(attrs.end(), axes.begin(), axes.end());
    const ValueId v = ir().fn().result(ir().emit(op, operands, {&result, 1}, attrs));
    return tile(ir().reshape(v, part.shape), part.span);
}

void Elaborator::fill_with_zero(TypeId type, std::vector<ValueId>& operands, int64_t& flags) {
    const uint64_t zero = types_.type(type).pointer ? 0 : encode(types_.elem(type), 0.0);
    if (zero == 0) return;
    operands.push_back(ir().constant(type, zero));
    flags |= Access::has_other;
}

Value Elaborator::mode_error(const char* verb, const Tensor& t, Span span) {
    report_mode(diags_, span, verb, t.name, t.mode);
    return poison(span);
}

// ---- writing ----

void Elaborator::store(const ast::Expr& place, const Value& value, ast::AssignOp op, Span span) {
    if (value.kind == Value::poison) return;
    const auto& target = ast::as<ast::IndexExpr>(&without_modifiers(place));
    const ir::Caching caching = caching_of(place);
    Local* local = nullptr;
    if (target.base->kind == ast::ExprKind::name) local = scope_->find(ast::as<ast::NameExpr>(target.base).name);
    const Value base = expr(*target.base);
    if (base.kind == Value::poison) return;
    const bool is_tensor = base.kind == Value::tensor;
    if (!is_tensor && (base.kind != Value::tile || local == nullptr || !local->is_var)) {
        Diagnostic& d = diags_.report(Diag::not_assignable, target.base->span, {describe(base)});
        if (local != nullptr && base.kind == Value::tile) d.help("declare it with `var " + std::string(local->name) + "`");
        return;
    }
    if (is_tensor && base.tensor_ref->mode == ast::ParamMode::in) {
        mode_error("write to", *base.tensor_ref, target.span);
        return;
    }
    if (caching.any() && !is_tensor) {
        modifier_error(place, "it writes " + describe(base) + ", no memory");
        return;
    }
    Part part;
    if (!resolve_part(target, base, part)) return;
    part.access.flags = caching.flags();
    Value stored = value;
    if (op != ast::AssignOp::set) stored = binary(binary_of(op), read_part(part, nullptr), value, span);
    if (stored.kind == Value::poison) return;
    if (is_tensor && base.tensor_ref->scales.valid()) return write_blocks(part, stored, span);
    const ValueId written = write_object(part, is_tensor ? base.tensor_ref->handle : base.v, stored, span);
    if (!is_tensor && written.valid()) local->value = tile(written, local->value.span);
}

/// `v` as a tile of exactly the shape of the part; invalid after an error.
ValueId Elaborator::fit_part(const Part& part, const Value& v, FormatId elem, bool pointer, Span span) {
    ValueId out;
    if (pointer) {
        out = v.kind == Value::tile && ir().fn().type(v.v).pointer && ir().fn().type(v.v).elem == elem ? v.v : ValueId{};
        if (!out.valid()) error(Diag::type_mismatch, span, "ptr<" + types_.format(elem).name + ">", describe(v));
    } else {
        out = to_tile(v, elem, span);
    }
    if (!out.valid()) return {};
    const Shape& own = ir().fn().type(out).shape;
    if (broadcast(own, part.shape) != part.shape) {
        error(Diag::part_mismatch, span, to_string(own), to_string(part.shape));
        return {};
    }
    ir().set_span(span);
    return ir().reshape(ir().broadcast(out, part.shape), part.ir_shape);
}

/// Emits store or deposit; the new tile for the latter.
ValueId Elaborator::write_object(const Part& part, ValueId object, const Value& value, Span span) {
    const Type type = ir().fn().type(object);
    const ValueId v = fit_part(part, value, type.elem, type.pointer, value.span.valid() ? value.span : span);
    if (!v.valid()) return {};
    std::vector<ValueId> operands = part.operands(object);
    operands.push_back(v);
    std::vector<int64_t> attrs{part.access.flags};
    const auto axes = part.access.encode_axes();
    attrs.insert(attrs.end(), axes.begin(), axes.end());
    ir().set_span(span);
    if (type.kind == Type::tensor) {
        ir().emit(Op::store, operands, {}, attrs);
        return {};
    }
    const TypeId result = ir().fn().type_of(object);
    return ir().fn().result(ir().emit(Op::deposit, operands, {&result, 1}, attrs));
}

}  // namespace tegula::sema
