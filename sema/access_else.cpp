// `cast<T>(x[..] else v)` with a constant that the elements of x cannot hold (an infinity of fp8, any number of a block format): the part is read and
// converted without it, and what lies outside of the tensor is then `v` of type T.
#include "sema/elaborate.h"
#include "sema/part.h"

namespace tegula::sema {

using ir::Access;
using ir::Op;
using ir::ValueId;

/// Which elements of a part lie in its tensor or tile, with the part's shape.
ValueId Elaborator::inside(const Part& part) {
    const auto ones_behind = [&](Shape shape, size_t last) {
        while (last + 1 < part.ir_shape.rank) shape.push(1), ++last;
        return shape;
    };
    ValueId all = ir().broadcast(ir().constant(types_.tile(Fmt::boolean), 1), part.ir_shape);
    Shape joint;
    for (size_t d = 0; d < part.access.axes.size(); ++d)
        if (part.access.axes[d].kind == Access::gather) joint = *broadcast(joint, ir().fn().type(part.indices[d]).shape);
    size_t next = 0, joint_end = 0;  // dimensions of the part that are met, and behind those of the index tiles
    for (size_t d = 0; d < part.access.axes.size(); ++d) {
        const Access::Axis& axis = part.access.axes[d];
        if (axis.kind == Access::all) ++next;
        if (axis.kind == Access::all) continue;
        ValueId at = part.indices[d];
        if (axis.kind == Access::range) {
            const Shape along = ones_behind({axis.extent}, next++);
            const ValueId steps = ir().elementwise(Op::mul, {ir().iota(id_of(Fmt::i64), along, 0), ir().broadcast(ir().index(axis.step), along)});
            at = ir().elementwise(Op::add, {ir().broadcast(at, along), steps});
        } else if (axis.kind == Access::gather) {
            if (joint_end == 0) joint_end = next += joint.rank;
            at = ir().reshape(at, ones_behind(ir().fn().type(at).shape, joint_end - 1));
        }
        const Value extent = part.base.kind == Value::tensor ? part.base.tensor_ref->extents[d] : constant_int(shape_of(part.base)[d], part.span);
        const ValueId end = to_index(extent, part.span);
        if (!end.valid()) return {};
        const Shape& shape = ir().fn().type(at).shape;
        const ValueId in = ir().elementwise(Op::bit_and, {ir().elementwise(Op::ge, {at, ir().broadcast(ir().index(0), shape)}),
                                                          ir().elementwise(Op::lt, {at, ir().broadcast(end, shape)})});
        all = ir().elementwise(Op::bit_and, {all, ir().broadcast(in, part.ir_shape)});
    }
    return ir().reshape(all, part.shape);
}

/// Reads a part that a cast converts; what `other` says of elements outside waits for the cast where the type of the elements does not hold it.
Value Elaborator::read_converted(const Part& part, const Value& other) {
    const bool tensor = part.base.kind == Value::tensor;
    const bool blocks = tensor && part.base.tensor_ref->scales.valid();
    const bool number = other.kind == Value::real || other.kind == Value::integer;
    const FormatId elem = tensor ? part.base.tensor_ref->elem : elem_of(part.base);
    if (!number || (!blocks && held_code(other, types_.format(elem)))) return read_part(part, &other);
    const Value read = read_part(part, nullptr);
    if (read.kind == Value::tile || read.kind == Value::block_tile) outside_[read.v.v] = {inside(part), other};
    return read;
}

/// The value of a cast, with what waits for it.
Value Elaborator::with_outside(Value converted, ValueId read, Span span) {
    const auto found = outside_.find(read.v);
    if (found == outside_.end()) return converted;
    const Outside outside = std::move(found->second);
    outside_.erase(found);
    if (converted.kind == Value::poison || !outside.inside.valid()) return poison(span);
    if (converted.kind != Value::tile)
        return error(Diag::block_alignment, span, types_.format(converted.elem).name,
                     "`else` has no meaning for blocks: elements out of range decode to 0");
    const ValueId other = to_tile(outside.other, elem_of(converted), outside.other.span);
    if (!other.valid()) return poison(span);
    ir().set_span(span);
    return tile(ir().select(outside.inside, converted.v, ir().broadcast(other, ir().fn().type(converted.v).shape)), span);
}

}  // namespace tegula::sema
