// Parts of tensors (access/part.h): bounds and offsets. Bounds of a range become two 32-bit numbers per access, `low`
// and `count`, so that an element costs one comparison, unless there are so few that 64-bit ones are shorter; offsets
// are unsigned 64-bit sums, the part that no register changes hoisted into a variable.
#include <algorithm>
#include <bit>

#include "lang/divisor.h"
#include "lang/gpu/wide_access.h"
#include "lower/kernel/access/access.h"
#include "lower/kernel/access/part.h"
#include "lower/kernel/channel/channel.h"
#include "lower/kernel/move/move.h"
#include "lower/kernel/product/product.h"
#include "lower/kernel/values.h"

namespace tegula::lower {

using ir::Access;

namespace {

constexpr int kFewTests = 4;                        ///< of a thread, for which `low` and `count` do not pay
constexpr uint64_t kLargeStep = uint64_t{1} << 38;  ///< from here on coordinate * step may leave 64 bits

/// |step| without overflow.
uint64_t size_of(int64_t step) { return step < 0 ? 0 - static_cast<uint64_t>(step) : static_cast<uint64_t>(step); }

/// c * step in u64.
Ex stepped(Ex c, int64_t step) { return step == 1 ? c : u64(c) * step; }

bool is_range(const Access::Axis& a) { return a.kind == Access::range || a.kind == Access::all; }

constexpr const char* kFirstInside =
    R"(// Coordinates c of a range with start + c in [0, size) are first <= c < first + count.
__device__ __forceinline__ int $(long long start, int extent) {
    return start >= 0 ? 0 : start <= -extent ? extent : (int)-start;
}
)";
constexpr const char* kCountInside =
    R"(__device__ __forceinline__ int $(long long start, long long size, int extent, int first) {
    const unsigned long long rest = (unsigned long long)size - (unsigned long long)start;
    return start >= size ? 0 : (rest < (unsigned long long)extent ? (int)rest : extent) - first;
}
)";

}  // namespace

Part part_access(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const ir::AccessOperands in(ctx.fn, inst);
    Part part;
    part.fixed = part.whole = ctx.pool.truth(true);
    part.inst = id;
    part.tensor = in.object;
    part.access = in.access;
    part.caching = plain_caching(ctx, id);
    part.axes.resize(part.access.axes.size());
    part.pointers = stage_operands(ctx, id);
    if (std::any_of(part.pointers.begin(), part.pointers.end(), [](const std::string& p) { return !p.empty(); }))
        sync(ctx);
    const ir::AccessPart where(ctx.fn, in);
    for (size_t a = 0; a < part.axes.size(); ++a) {
        part.axes[a].operand = in.index[a].at;
        part.axes[a].index = in.index[a].value;
        part.axes[a].dim = where.dim[a];
    }
    part.joint_rank = where.joint.rank;
    part.value = inst.results.count               ? ctx.fn.result(inst)
                 : inst.op == ir::Op::channel_put ? taken_from(ctx, in.channel.value)
                                                  : in.value.value;
    part.expected = in.expected;
    part.other = in.other;
    part.mask = in.mask;
    for (size_t a = 0; a < part.axes.size(); ++a) part_axis(ctx, part, a);
    part_vector(ctx, part);
    return part;
}

/// part_access with the variables of what no register changes.
Part part_of(Lowering& ctx, ir::InstId id) {
    Part part = part_access(ctx, id);
    part_base(ctx, part);
    for (size_t a = 0; a < part.axes.size(); ++a) part_bounds(ctx, part, a);
    return part;
}

void part_axis(Lowering& ctx, Part& part, size_t number) {
    const Access::Axis& a = part.access.axes[number];
    Part::Axis& axis = part.axes[number];
    const bool checked = !a.in_bounds && a.kind != Access::all;
    if (checked) axis.size = extent(ctx, part.tensor, static_cast<int>(number));
    if (a.kind == Access::gather) return;
    axis.start = a.kind == Access::all ? int64(ctx, 0) : element_at(ctx, axis.index, {});
    if (!checked) return;
    if (a.kind == Access::index)
        part.fixed = both(part.fixed, within(axis.start, axis.size));
    else
        part.narrow = part.narrow || size_of(a.step) >= kLargeStep;
}

/// When all of a range is inside.
Ex is_whole(Lowering& ctx, const Part& part, size_t number) {
    const Access::Axis& a = part.access.axes[number];
    const Part::Axis& axis = part.axes[number];
    if (a.kind != Access::range || !axis.size) return ctx.pool.truth(true);
    const Ex last = ctx.pool.constant(
        kernel::Type::u64, static_cast<int64_t>(static_cast<uint64_t>(a.extent - 1) * static_cast<uint64_t>(a.step)));
    return both(within(axis.start, axis.size), within(axis.start + last, axis.size));
}

/// What the tests of a range compare with, and when all of it is inside.
void part_bounds(Lowering& ctx, Part& part, size_t number) {
    const Access::Axis& a = part.access.axes[number];
    Part::Axis& axis = part.axes[number];
    if (a.kind != Access::range || !axis.size) return;
    const bool few = registers(ctx, part.value) <= kFewTests * part.vectors.length && !part.vectors.shifted &&
                     part.vectors.inside != Vectors::first;
    if (a.step != 1 || few) {
        part.whole = both(part.whole, is_whole(ctx, part, number));
        return;
    }
    const std::string first = support(ctx, "first_inside", "first_inside", kFirstInside),
                      count = support(ctx, "count_inside", "count_inside", kCountInside);
    const Ex extent = ctx.pool.number(a.extent);
    const auto declared = [&](const char* stem, const std::string& function, std::initializer_list<Ex> operands) {
        const std::string name = ctx.out.fresh(stem);
        ctx.out.let("int", name, ctx.pool.call(kernel::Type::i32, function, operands));
        return int32(ctx, name);
    };
    axis.low = declared("low", first, {axis.start, extent});
    axis.count = declared("count", count, {axis.start, axis.size, extent, axis.low});
    // Not the count compared, which only the guarded path takes then.
    part.whole = both(part.whole, both(ge(axis.start, 0), le(axis.start, axis.size - a.extent)));
}

/// i64: an axis' index at register r.
Ex part_index(Lowering& ctx, const Part& part, size_t number, Ex r) {
    const Access::Axis& a = part.access.axes[number];
    const Part::Axis& axis = part.axes[number];
    if (a.kind == Access::index) return axis.start;
    if (a.kind == Access::gather) {
        const Shape& own = ctx.fn.type(axis.index).shape;
        if (own.rank == 0) return element_at(ctx, axis.index, {});
        std::vector<Ex> c;
        for (int d = 0; d < own.rank; ++d)
            c.push_back(own[static_cast<size_t>(d)] == 1
                            ? ctx.pool.number(0)
                            : coordinate(ctx, layout(ctx, part.value), axis.dim + part.joint_rank - own.rank + d, r));
        return staged(ctx, axis.index, part.pointers[axis.operand], part.value, r, number_of(ctx, own, c));
    }
    const Ex at = stepped(coordinate(ctx, layout(ctx, part.value), axis.dim, r), a.step);
    return axis.start.is(0) ? at : kernel::cast(kernel::Type::i64, u64(axis.start) + at);
}

/// `checked`: with the bounds of ranges, but of axis `except`; ghosts, gathered indices and the mask are looked at in
/// any case.
Ex part_condition(Lowering& ctx, const Part& part, Ex r, bool checked, int except) {
    Ex out = checked ? part.fixed : ctx.pool.truth(true);
    if (!is_scalar(ctx, part.value)) {
        const TileLayout& l = layout(ctx, part.value);
        std::vector<bool> bounded(l.shape.rank);
        Ex ranges = ctx.pool.truth(true);
        for (size_t a = 0; a < part.axes.size() && checked; ++a) {
            const Part::Axis& axis = part.axes[a];
            const Access::Axis& kind = part.access.axes[a];
            if (!is_range(kind) || !axis.size || static_cast<int>(a) == except) continue;
            const Ex c = coordinate(ctx, l, axis.dim, r);
            if (axis.count) {
                bounded[static_cast<size_t>(axis.dim)] = true;
                ranges = both(ranges, lt(u32(c - axis.low), u32(axis.count)));
                continue;
            }
            if (size_of(kind.step) >= kLargeStep)
                ranges = both(
                    ranges,
                    le(c, int64(ctx, static_cast<int64_t>(static_cast<uint64_t>(INT64_MAX) / size_of(kind.step)))));
            ranges = both(ranges, within(part_index(ctx, part, a, r), axis.size));
        }
        for (int d = 0; d < l.shape.rank; ++d)
            if (!bounded[static_cast<size_t>(d)] && l.padded(d) != l.shape[static_cast<size_t>(d)])
                out = both(out, lt(coordinate(ctx, l, d, r), l.shape[static_cast<size_t>(d)]));
        out = both(out, ranges);
    }
    for (size_t a = 0; a < part.axes.size(); ++a)
        if (part.access.axes[a].kind == Access::gather && part.axes[a].size)
            out = both(out, within(part_index(ctx, part, a, r), part.axes[a].size));
    if (!part.last.empty())
        out = both(out, ctx.pool.index(
                            kernel::Type::pred, ctx.pool.name(kernel::Type::other, part.last),
                            part.mask ? logical_number(ctx, layout(ctx, part.value), r) : joint_number(ctx, part, r)));
    if (part.mask)
        out = both(out, staged(ctx, part.mask.value, part.pointers[part.mask.at], part.value, r,
                               number_at(ctx, part.value, r)));
    return out;
}

Shape joint_shape(Lowering& ctx, const Part& part) {
    Shape joint;
    for (size_t a = 0; a < part.axes.size(); ++a)
        if (part.access.axes[a].kind == Access::gather)
            joint = *broadcast(joint, ctx.fn.type(part.axes[a].index).shape);
    return joint;
}

/// Row-major number of a register's gathered indices in their joint shape.
Ex joint_number(Lowering& ctx, const Part& part, Ex r) {
    std::vector<Ex> c;
    int first = 0;
    for (size_t a = 0; a < part.axes.size(); ++a)
        if (part.access.axes[a].kind == Access::gather) first = part.axes[a].dim;
    for (int d = 0; d < part.joint_rank; ++d) c.push_back(coordinate(ctx, layout(ctx, part.value), first + d, r));
    return number_of(ctx, joint_shape(ctx, part), c);
}

/// Element of a staged index tile at joint number `j`.
Ex joint_index(Lowering& ctx, const Part& part, size_t axis, Ex j) {
    const Shape joint = joint_shape(ctx, part), &own = ctx.fn.type(part.axes[axis].index).shape;
    if (own.rank == 0) return element_at(ctx, part.axes[axis].index, {});
    std::vector<Ex> c;
    int64_t below = 1;
    for (size_t d = own.rank, k = joint.rank; d-- > 0;) {
        const Ex digit = j / below;
        c.insert(c.begin(), own[d] == 1 ? ctx.pool.number(0) : k == 1 ? digit : digit % joint[k - 1]);
        below *= joint[--k];
    }
    return ctx.pool.index(kernel::Type::i64, ctx.pool.name(kernel::Type::other, part.pointers[part.axes[axis].operand]),
                          number_of(ctx, own, c));
}

/// Of several elements of a store for one place the last one stays: each looks for a later one with the same indices
/// that is not masked away.
void part_last(Lowering& ctx, Part& part) {
    const Shape joint = joint_shape(ctx, part), &shape = ctx.fn.type(part.value).shape;
    const bool masked = part.mask.value.valid();
    int64_t inner = 1;
    if (masked) {
        int after = 0;
        for (size_t a = 0; a < part.axes.size(); ++a)
            if (part.access.axes[a].kind == Access::gather) after = part.axes[a].dim + part.joint_rank;
        for (size_t d = static_cast<size_t>(after); d < shape.rank; ++d) inner *= shape[d];
    }
    part.last = scratch_area(ctx, part.inst, "bool", scratch_plan(ctx.fn, part.inst).work.at(0));
    const std::string e_name = ctx.out.fresh("e"), j_name = ctx.out.fresh("j"), k_name = ctx.out.fresh("k");
    const Ex e = open_elements(ctx, e_name, masked ? shape.elements() : joint.elements()), j = int32(ctx, j_name),
             last = ctx.pool.name(kernel::Type::pred, ctx.out.fresh("last")), n = ctx.pool.number(joint.elements());
    ctx.out.let("int", j_name, e / inner % n);
    ctx.out.var("bool", last.text(), ctx.pool.truth(true));
    const Ex k = open_rolled(ctx, k_name, j + 1, n);
    Ex same = ctx.pool.truth(true);
    for (size_t a = 0; a < part.axes.size(); ++a)
        if (part.access.axes[a].kind == Access::gather)
            same = both(same, eq(joint_index(ctx, part, a, k), joint_index(ctx, part, a, j)));
    if (masked)
        same = both(same,
                    ctx.pool.index(kernel::Type::pred, named(ctx, part.pointers[part.mask.at]), e + (k - j) * inner));
    ctx.out.assign(last, both(last, negation(same)));
    ctx.out.close();
    ctx.out.assign(element(ctx, part.last, e), last);
    ctx.out.close();
    sync(ctx);
}

/// Sums up what no register changes.
void part_base(Lowering& ctx, Part& part) {
    if (!affine(ctx, part.tensor)) {
        part_pieces(ctx, part);
        return;
    }
    Ex sum = ctx.pool.constant(kernel::Type::u64, 0), grows = sum;
    const auto walk = ctx.packed.walks.find(part.inst.v);
    for (size_t a = 0; a < part.axes.size(); ++a) {
        const Access::Axis& kind = part.access.axes[a];
        if (kind.kind == Access::gather) continue;
        const Ex by = stride(ctx, part.tensor, static_cast<int>(a));
        sum = sum + u64(part.axes[a].start) * by;
        if (walk != ctx.packed.walks.end()) grows = grows + u64(int64(ctx, walk->second->load.starts[a].by)) * by;
        if (kind.kind == Access::index) continue;
        const TileLayout& l = layout(ctx, part.value);
        if (is_additive(l, part.axes[a].dim))
            sum = sum + u64(stepped(thread_part(ctx, l, part.axes[a].dim), kind.step)) * by;
    }
    part.base = declare_base(ctx, part.inst, sum, walk == ctx.packed.walks.end() ? Ex() : grows);
}

/// Offset of register r: elements, or bits where the format is bit-addressed.
Ex part_offset(Lowering& ctx, const Part& part, Ex r) {
    if (!part.base) {
        std::vector<Ex> c;
        for (size_t a = 0; a < part.axes.size(); ++a) c.push_back(part_index(ctx, part, a, r));
        return offset(ctx, part.tensor, c);
    }
    Ex sum = part.base;
    if (part.in_pieces) {
        const std::vector<Ex> indices = piece_indices(ctx, part, ctx.thread, r);
        for (const auto& [of_register, by] : part.terms)
            sum = sum + u64(layout_value(ctx, of_register, part.tensor, indices)) * by;
        return sum;
    }
    for (size_t a = 0; a < part.axes.size(); ++a) {
        const Access::Axis& kind = part.access.axes[a];
        if (kind.kind == Access::index) continue;
        const TileLayout& l = layout(ctx, part.value);
        const int d = part.axes[a].dim;
        const Ex at = kind.kind == Access::gather
                          ? part_index(ctx, part, a, r)
                          : stepped(is_additive(l, d) ? register_part(l, d, r) : coordinate(ctx, l, d, r), kind.step);
        sum = sum + u64(at) * stride(ctx, part.tensor, static_cast<int>(a));
    }
    return sum;
}

/// Wide accesses: consecutive registers hold consecutive elements along the contiguous dimension, and addresses are
/// aligned.
void part_vector(Lowering& ctx, Part& part) {
    const WideAccess wide = wide_access(ctx.fn, part.inst, part.value);
    if (wide.vector == 1) return;
    const auto p = static_cast<size_t>(param_number(ctx, part.tensor));
    const size_t element = ctx.fn.elem(part.tensor).container_bytes();
    const Part::Axis& axis = part.axes[static_cast<size_t>(wide.axis)];
    const int vector = wide.vector;
    part.vectors = {.length = vector, .axis = wide.axis, .shifted = wide.shifted};
    if (axis.index.valid() && power_of_two_divisor(ctx.fn, axis.index) % vector)
        part.whole = both(part.whole, eq(axis.start & (vector - 1), 0));
    else if (!axis.size || ctx.fn.gpu->tensors[p].whole)
        part.vectors.inside = Vectors::whole;
    else if (static_cast<size_t>(vector) * element >= 8 && !part.other.value.valid())
        part.vectors.inside = Vectors::first;
    part.whole = both(part.fixed, part.whole);
}

}  // namespace tegula::lower
