// Bits as elements of another type. Of tiles, bitcast: between widths it regroups a little-endian bit stream along the last axis, the one that
// elements narrower than a byte are stored in, by shifts, casts and reshapes, so that every machine and every pass has it. Of tensors, view: one
// more parameter of the function, for the same memory. So accesses, their proofs and the race check see what they see of tensors that overlap.
#include <algorithm>
#include <numeric>

#include "sema/elaborate.h"
#include "sema/flow.h"

namespace tegula::sema {

using ir::Op;
using ir::ValueId;

namespace {

constexpr unsigned kWidest = 64;  ///< bits of an integer type

bool is_word(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// The width that codes take between two widths: the smallest that both divide, where there is such a type (three u8 are a u24 and eight u3), else
/// the largest that divides both.
unsigned between(unsigned from, unsigned to) {
    const unsigned multiple = std::lcm(from, to);
    return multiple <= kWidest ? multiple : std::gcd(from, to);
}

}  // namespace

/// [.., N] codes of unsigned integers as [.., N * k] codes of `bits`, a k-th of their width; the low bits come first.
ValueId Elaborator::split_codes(ValueId codes, unsigned bits) {
    const Type type = ir().fn().type(codes);
    const unsigned from = types_.format(type.elem).bits;
    if (from == bits) return codes;
    const int axis = type.shape.rank;
    const int64_t last = type.shape[type.shape.rank - 1u];
    const Shape parts = with_last(type.shape, last, from / bits);
    codes = ir().reshape(codes, with_last(type.shape, last, 1));
    const ValueId steps = ir().iota(type.elem, parts, axis);
    const ValueId shifts = ir().elementwise(Op::mul, {steps, ir().broadcast(ir().constant(types_.tile(type.elem), bits), parts)});
    const ValueId shifted = ir().elementwise(Op::shr, {ir().broadcast(codes, parts), shifts});
    return ir().reshape(ir().cast(shifted, code_format(bits)), with_last(type.shape, last * (from / bits)));
}

/// The inverse: [.., N * k] codes as [.., N] codes of `bits`, k times their width.
ValueId Elaborator::joined_codes(ValueId codes, unsigned bits) {
    const Type type = ir().fn().type(codes);
    const unsigned from = types_.format(type.elem).bits;
    if (from == bits) return codes;
    const int axis = type.shape.rank;
    const int64_t each = bits / from;
    const Shape parts = with_last(type.shape, type.shape[type.shape.rank - 1u] / each, each);
    const FormatId to = code_format(bits);
    const ValueId steps = ir().iota(to, parts, axis);
    const ValueId shifts = ir().elementwise(Op::mul, {steps, ir().broadcast(ir().constant(types_.tile(to), from), parts)});
    const ValueId shifted = ir().elementwise(Op::shl, {ir().cast(ir().reshape(codes, parts), to), shifts});
    return ir().reduce(shifted, ir::ReduceKind::bit_or, axis, false, to);
}

ValueId Elaborator::regrouped(ValueId v, FormatId to) {
    const unsigned from = ir().fn().elem(v).bits, bits = types_.format(to).bits;
    if (from == bits) return ir().bitcast(v, to);
    const unsigned common = between(from, bits);
    const Shape shape = ir().fn().type(v).shape;
    if (shape.rank == kMaxRank) v = ir().reshape(v, {shape.elements() / shape[kMaxRank - 1], shape[kMaxRank - 1]});  // room for an axis of parts
    ValueId codes = ir().bitcast(v, code_format(from));
    codes = common >= from ? joined_codes(codes, common) : split_codes(codes, common);
    codes = common >= bits ? split_codes(codes, bits) : joined_codes(codes, bits);
    return ir().bitcast(ir().reshape(codes, with_last(shape, shape[shape.rank - 1u] * from / bits)), to);
}

/// A tile, or a scalar as a tile of one element, as elements of `to`.
Value Elaborator::regrouped_call(const Call& call, FormatId to, const char* name) {
    Value x = call.positional[0];
    if (x.is_static_number()) return error(Diag::needs_typed_operand, arg_span(call, 0), name, describe(x));
    ValueId v = arg_tile(call, 0);
    if (!v.valid()) return poison(call.span);
    const Format &f = types_.format(to), &from = ir().fn().elem(v);
    if (ir().fn().type(v).pointer || f.is_block()) return error(Diag::bad_cast, call.span, describe(x), "`" + f.name + "`");
    if (f.bits == from.bits) return tile(ir().bitcast(v, to), call.span);
    const Shape own = ir().fn().type(v).shape, shape = own.rank == 0 ? Shape{1} : own;
    const int64_t last = shape[shape.rank - 1u], bits = last * from.bits;
    if (bits % f.bits != 0)
        return error(Diag::bitcast_width, call.span, describe(x), f.name,
                     std::to_string(last) + " * " + std::to_string(from.bits) + " bits are no multiple of " + std::to_string(f.bits));
    if (form_rank_ > 0 && depends_on_form(x)) return error(Diag::whole_tile_in_index_form, call.span, name);
    const unsigned narrowest = std::min({unsigned{from.bits}, unsigned{f.bits}, between(from.bits, f.bits)});
    if (!fits_budget(with_last(shape, bits / narrowest), call.span)) return poison(call.span);
    return tile(regrouped(ir().reshape(v, shape), to), call.span);
}

Value Elaborator::call_bitcast(const Call& call) {
    if (auto pointers = cast_pointers(call)) return *pointers;
    const auto to = format_arg(call, 0);
    return to ? regrouped_call(call, *to, "bitcast") : poison(call.span);
}

// ---- views of tensors ----

ValueId Elaborator::view_param(const Tensor& tensor, FormatId to) {
    Instance& instance = *instance_;
    const auto handle_of = [&](int param) { return instance.fn->params[static_cast<size_t>(param)].value; };
    // A view of a view is one of the tensor.
    size_t of = 0;
    while (of < instance.params.size() && (instance.params[of].ir_params.empty() || handle_of(instance.params[of].ir_params[0]) != tensor.handle))
        ++of;
    for (const KernelView& v : instance.views)
        if (handle_of(v.ir_param) == tensor.handle) of = v.of;
    for (const KernelView& v : instance.views)
        if (v.of == of && v.elem == to) return handle_of(v.ir_param);
    if (of < instance.params.size() && instance.params[of].elem == to) return handle_of(instance.params[of].ir_params[0]);

    Type type = ir().fn().type(tensor.handle);
    const size_t last = type.shape.rank - 1u;
    const int64_t from = types_.format(type.elem).bits, bits = types_.format(to).bits, common = std::gcd(from, bits);
    const std::string base = instance.fn->params[static_cast<size_t>(instance.params[of].ir_params[0])].name;
    std::string name = base + "__as_";
    for (const char c : types_.format(to).name) name += is_word(c) ? c : '_';
    while (std::ranges::any_of(instance.fn->params, [&](const ir::Param& p) { return p.name == name; })) name += '_';
    std::vector<LaunchFacts::DimFact> dims;
    for (LaunchFacts::DimFact dim : instance.facts.dims) {
        if (dim.tensor != base) continue;
        dim.tensor = name;
        const int64_t own = types_.format(instance.params[of].elem).bits;
        if (static_cast<size_t>(dim.axis) == last) dim.times = own / std::gcd(own, bits), dim.by = bits / std::gcd(own, bits);
        dims.push_back(dim);
    }
    instance.facts.dims.insert(instance.facts.dims.end(), dims.begin(), dims.end());
    type.elem = to;
    if (type.shape[last] != kDynamic) type.shape[last] = type.shape[last] * (from / common) / (bits / common);
    instance.views.push_back({of, to, static_cast<int>(instance.fn->params.size())});
    return add_param(name, ir::Param::tensor, types_.intern(type));
}

/// extent * times / by, which has no remainder: constants here, other extents when they are launched.
Value Elaborator::view_extent(const Value& extent, int64_t times, int64_t by, Span span) {
    if (extent.kind == Value::integer) return integer_value(extent.i * times / by, span);
    Value out = times == 1 ? extent : apply(Op::mul, {extent, constant_int(times, span)}, span);
    return by == 1 ? out : apply(Op::div, {out, constant_int(by, span)}, span);
}

Value Elaborator::call_view(const Call& call) {
    const auto to = format_arg(call, 0);
    if (!to) return poison(call.span);
    const Value& x = call.positional[0];
    if (x.kind == Value::poison) return poison(call.span);
    const Format& f = types_.format(*to);
    const auto refuse = [&](const std::string& why) { return error(Diag::bad_view, call.span, describe(x), f.name, why); };
    if (f.is_block()) return refuse("elements of blocks share scales; view<T> takes plain types");
    if (x.kind == Value::tile && host_) {  // of the host: what it would be read as
        if (shape_of(x).rank == 0) return refuse("it has no last axis to take them from");
        return regrouped_call(call, *to, "view");
    }
    if (x.kind != Value::tensor) return refuse("it is no tensor; bitcast<" + f.name + ">(..) regroups the bits of a tile");
    const Tensor& tensor = *x.tensor_ref;
    const Format& from = types_.format(tensor.elem);
    if (from.is_block()) return refuse("its blocks have their scales elsewhere; view the tensors of its elements and scales");
    if (*to == tensor.elem) return x;
    if (tensor.extents.empty()) return refuse("it has no last axis to take them from");
    if (const Layout& layout = types_.layout(tensor.layout); layout.kind() != Layout::Kind::row && f.bits != from.bits)
        return refuse("its layout `" + layout.name() + "` is not `row`, which keeps the bits of the last axis together");
    const int64_t common = std::gcd(from.bits, f.bits), times = from.bits / common, by = f.bits / common;
    const Value& last = tensor.extents.back();
    if (last.kind == Value::integer && last.i % by != 0)
        return refuse(int_text(last.i) + " * " + std::to_string(from.bits) + " bits of its rows are no multiple of " + std::to_string(f.bits));
    auto seen = std::make_shared<Tensor>(tensor);
    seen->handle = view_param(tensor, *to);
    seen->elem = *to;
    seen->extents.back() = view_extent(last, times, by, call.span);
    Value out = x;
    out.span = call.span;
    out.tensor_ref = std::move(seen);
    return out;
}

/// Views that nothing reads or writes need no parameter; a tensor that is used through a view alone is given as that view, and so overlaps nothing.
void Elaborator::settle_views() {
    if (instance_->views.empty()) return;
    ir::Function& fn = *instance_->fn;
    std::vector<bool> used(fn.value_count());
    for (const ValueId v : fn.operand_pool)
        if (v.valid()) used[v.v] = true;
    const auto handle_of = [&](int param) { return fn.params[static_cast<size_t>(param)].value; };
    const auto remove = [&](KernelView& view) {
        const auto at = static_cast<size_t>(view.ir_param);
        std::erase_if(instance_->facts.dims, [&](const LaunchFacts::DimFact& dim) { return dim.tensor == fn.params[at].name; });
        fn.params.erase(fn.params.begin() + view.ir_param);
        std::vector<ValueId>& args = fn.block(fn.body).args;
        args.erase(args.begin() + view.ir_param);
        for (size_t i = at; i < args.size(); ++i) fn.value(args[i]).index = static_cast<uint32_t>(i);
        for (KernelView& other : instance_->views)
            if (other.ir_param > view.ir_param) --other.ir_param;
        view.ir_param = -1;
    };
    for (KernelView& view : instance_->views) {
        const ValueId handle = handle_of(view.ir_param);
        const int own = instance_->params[view.of].ir_params[0];
        if (used[handle.v] && !used[handle_of(own).v]) {
            const std::string name = fn.params[static_cast<size_t>(view.ir_param)].name, base = fn.params[static_cast<size_t>(own)].name;
            std::erase_if(instance_->facts.dims, [&](const LaunchFacts::DimFact& dim) { return dim.tensor == base; });
            for (LaunchFacts::DimFact& dim : instance_->facts.dims)
                if (dim.tensor == name) dim.tensor = base;
            fn.value(handle_of(own)).type = fn.type_of(handle);
            fn.replace_uses(handle, handle_of(own));
            used[handle_of(own).v] = true;
            used[handle.v] = false;
            remove(view);
            view.ir_param = own;
        } else if (!used[handle.v]) {
            remove(view);
        }
    }
}

}  // namespace tegula::sema
