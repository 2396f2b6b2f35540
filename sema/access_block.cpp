// Parts of tensors of block formats: the elements and the scales are two tensors in the IR, and one access becomes two (three with a
// tensor scale). Along the block axis only slices are possible: they start at a block and cover whole blocks, the last perhaps in part.
#include "sema/elaborate.h"
#include "sema/part.h"

namespace tegula::sema {

using ir::Access;
using ir::Op;
using ir::ValueId;

bool Elaborator::scale_part(const Part& part, Part& scales) {
    const Tensor& t = *part.base.tensor_ref;
    const Format& f = types_.format(t.elem);
    const auto axis = static_cast<size_t>(t.block_axis);
    const int64_t size = f.block_size;
    scales = part;
    Access::Axis& a = scales.access.axes[axis];
    const auto refuse = [&](const std::string& why) {
        error(Diag::block_alignment, part.span, f.name, why);
        return false;
    };
    if (a.kind == Access::index || a.kind == Access::gather)
        return refuse("dimension " + std::to_string(axis) + " holds the blocks and takes a slice, not single indices");
    if (a.step != 1) return refuse("a slice along the blocks has step 1");
    const int64_t blocks = (a.extent + size - 1) / size;
    if (a.kind == Access::range) {
        if (part.known[axis]) {
            if (*part.known[axis] % size != 0)
                return refuse("the slice starts at " + std::to_string(*part.known[axis]) + ", which is no multiple of the block size " +
                              std::to_string(size));
            scales.indices[axis] = ir().index(*part.known[axis] / size);
        } else {
            const ValueId block = ir().index(size), start = part.indices[axis];
            const ValueId aligned = ir().elementwise(Op::eq, {ir().elementwise(Op::rem, {start, block}), ir().index(0)});
            const int64_t text = ir().fn().add_string("a slice along the blocks of " + f.name + " starts at a multiple of " + std::to_string(size));
            ir().emit(Op::assert, {&aligned, 1}, {}, {&text, 1});
            scales.indices[axis] = ir().elementwise(Op::div, {start, block});
        }
    }
    a.extent = blocks;
    scales.shape[static_cast<size_t>(part.result_dim[axis])] = blocks;
    // The block axis in the plain part: its dimensions are those of `shape` without the inserted ones, in the same order.
    size_t at = 0;
    for (size_t d = 0; d < axis; ++d)
        if (part.access.axes[d].kind == Access::range || part.access.axes[d].kind == Access::all) ++at;
    Shape joint;
    bool before = false;
    for (size_t d = 0; d < part.access.axes.size(); ++d) {
        if (part.access.axes[d].kind != Access::gather) continue;
        before |= joint.rank == 0 && d < axis;
        joint = *broadcast(joint, ir().fn().type(part.indices[d]).shape);
    }
    scales.ir_shape[at + (before ? joint.rank : 0)] = blocks;
    return true;
}

Value Elaborator::read_blocks(const Part& part, const Value* other) {
    const Tensor& t = *part.base.tensor_ref;
    if (other != nullptr)
        return error(Diag::block_alignment, part.span, types_.format(t.elem).name,
                     "`else` has no meaning for blocks: elements out of range decode to 0");
    Part scales;
    if (!scale_part(part, scales)) return poison(part.span);
    Value out = read_object(part, Op::load, t.handle, nullptr);
    if (out.kind == Value::poison) return out;
    out.kind = Value::block_tile;
    out.elem = t.elem;
    out.block_axis = part.result_dim[static_cast<size_t>(t.block_axis)];
    out.scales = read_object(scales, Op::load, t.scales, nullptr).v;
    if (t.tensor_scale.valid()) out.tensor_scale = tensor_scale_access(t, {}, part.span);
    return out;
}

/// Reads the scale of a whole tensor, or writes `value` to it.
ValueId Elaborator::tensor_scale_access(const Tensor& t, ValueId value, Span span) {
    const Type type = ir().fn().type(t.tensor_scale);
    Access access;
    std::vector<ValueId> operands{t.tensor_scale};
    if (type.shape.rank != 0) {
        access.axes.emplace_back();
        operands.push_back(ir().index(0));
    }
    std::vector<int64_t> attrs{0};
    const auto axes = access.encode_axes();
    attrs.insert(attrs.end(), axes.begin(), axes.end());
    ir().set_span(span);
    if (value.valid()) {
        operands.push_back(value);
        ir().emit(Op::store, operands, {}, attrs);
        return {};
    }
    const TypeId result = types_.tile(type.elem);
    return ir().fn().result(ir().emit(Op::load, operands, {&result, 1}, attrs));
}

void Elaborator::write_blocks(const Part& part, const Value& value, Span span) {
    const Tensor& t = *part.base.tensor_ref;
    const std::string& name = types_.format(t.elem).name;
    if (value.kind != Value::block_tile || !(value.elem == t.elem)) {
        Diagnostic& d = diags_.report(Diag::type_mismatch, span, {"a tile of `" + name + "`", describe(value)});
        d.help("quantise with cast<" + name + ">(..), blocks along the last dimension");
        if (value.kind == Value::tile) offer_cast(d, {span}, name);
        return;
    }
    Part scales;
    if (!scale_part(part, scales)) return;
    if (block_axis(value) != part.result_dim[static_cast<size_t>(t.block_axis)]) {
        error(Diag::block_alignment, span, name,
              "blocks lie along dimension " + std::to_string(block_axis(value)) + " of the value, along dimension " +
                  std::to_string(part.result_dim[static_cast<size_t>(t.block_axis)]) + " of the part");
        return;
    }
    const Shape own = shape_of(value);
    if (own != part.shape) {
        error(Diag::part_mismatch, span, to_string(own), to_string(part.shape));
        return;
    }
    write_object(part, t.handle, tile(value.v, span), span);
    write_object(scales, t.scales, tile(value.scales, span), span);
    if (t.tensor_scale.valid() && value.tensor_scale.valid()) tensor_scale_access(t, value.tensor_scale, span);
}

}  // namespace tegula::sema
