// extract and deposit: parts of tiles at run-time indices (ir::Access). The tile lies row-major in scratch; each
// element of the part finds its place there, or that it has none. Where elements of a deposit may meet, the last in
// row-major order wins.
#include "lang/gpu/scratch.h"
#include "lower/kernel/access/access.h"
#include "lower/kernel/move/move.h"
#include "lower/kernel/values.h"

namespace tegula::lower {

using ir::Access;

/// The accessed part while it is emitted. `part` has the part's shape and layout.
struct TilePart {
    ir::ValueId tile, part;
    Access access;
    struct Axis {
        ir::ValueId index;    ///< invalid for `all`
        std::string pointer;  ///< staged index tile
        int dim = -1;         ///< of the part; gather: the first joint dimension
    };
    std::vector<Axis> axes;
    int joint_rank = 0;
};

TilePart tile_part(Lowering& ctx, const ir::AccessOperands& in, ir::ValueId part,
                   const std::vector<std::string>& pointers) {
    const ir::AccessPart where(ctx.fn, in);
    TilePart p{in.object, part, in.access, {}, where.joint.rank};
    for (size_t a = 0; a < in.access.axes.size(); ++a)
        p.axes.push_back({in.index[a].value, in.index[a] ? pointers[in.index[a].at] : "", where.dim[a]});
    return p;
}

/// Emits the index variables of element r of the part; gives the element's number in the tile, and adds to `condition`
/// what must hold for it.
Ex place_in_tile(Lowering& ctx, const TilePart& p, Ex r, Ex& condition) {
    constexpr int64_t kLargeStep = int64_t{1} << 38;
    const Shape& shape = ctx.fn.type(p.tile).shape;
    const std::vector<Ex> own = coordinates_of(ctx, p.part, r);
    std::vector<Ex> c;
    for (size_t a = 0; a < p.axes.size(); ++a) {
        const Access::Axis& kind = p.access.axes[a];
        const TilePart::Axis& axis = p.axes[a];
        if (kind.kind == Access::all) {
            c.push_back(own[static_cast<size_t>(axis.dim)]);
            continue;
        }
        Ex value;
        if (kind.kind == Access::gather && !is_scalar(ctx, axis.index)) {
            const Shape& joint = ctx.fn.type(axis.index).shape;
            std::vector<Ex> at;
            for (size_t d = 0; d < joint.rank; ++d)
                at.push_back(joint[d] == 1 ? ctx.pool.number(0)
                                           : own[static_cast<size_t>(axis.dim + p.joint_rank - joint.rank) + d]);
            value = ctx.pool.index(kernel::Type::i64, ctx.pool.name(kernel::Type::other, axis.pointer),
                                   number_of(ctx, joint, at));
        } else if (kind.kind == Access::range) {
            const Ex at = own[static_cast<size_t>(axis.dim)];
            // Unsigned: it may wrap, and what wraps is outside, unless the product itself leaves 64 bits.
            value = kernel::cast(kernel::Type::i64, u64(element_at(ctx, axis.index, {})) + u64(at) * kind.step);
            if (kind.step >= kLargeStep || kind.step <= -kLargeStep) {
                const uint64_t magnitude =
                    kind.step < 0 ? 0 - static_cast<uint64_t>(kind.step) : static_cast<uint64_t>(kind.step);
                condition = both(condition, le(at, static_cast<int64_t>(static_cast<uint64_t>(INT64_MAX) / magnitude)));
            }
        } else {
            value = element_at(ctx, axis.index, {});
        }
        const std::string i = ctx.out.fresh("i");
        ctx.out.let("long long", i, value);
        const Ex variable = ctx.pool.name(kernel::Type::i64, i);
        c.push_back(u32(variable));  // ptxas takes one of several like sums of sign extensions for another
        if (!kind.in_bounds) condition = both(condition, within(variable, int64(ctx, shape[a])));
    }
    return number_of(ctx, shape, c);
}

void lower_extract(Lowering& ctx, ir::InstId id) {
    const ir::AccessOperands in(ctx.fn, ctx.fn.inst(id));
    const ir::ValueId to = ctx.fn.result(id);
    declare(ctx, to);
    ctx.out.open_block();
    const std::vector<std::string> pointers = stage_operands(ctx, id);
    if (!pointers[0].empty()) sync(ctx);
    const TilePart p = tile_part(ctx, in, to, pointers);
    each_register(ctx, to, [&](Ex r) {
        const Ex real = is_real(ctx, to, r);
        if (!real.is_true()) {
            assign_to(ctx, to, r, zero(ctx, to));
            ctx.out.open_if(real);
        }
        Ex condition = in.mask ? staged(ctx, in.mask.value, pointers[in.mask.at], to, r, number_at(ctx, to, r))
                               : ctx.pool.truth(true);
        const Ex number = place_in_tile(ctx, p, r, condition);
        const std::string element = pointers[0].empty() ? name(ctx, p.tile) : pointers[0] + "[" + number.text() + "]";
        const std::string otherwise =
            in.other ? staged(ctx, in.other.value, pointers[in.other.at], to, r, number_at(ctx, to, r)).text()
                     : zero(ctx, to);
        assign_to(ctx, to, r, chosen(condition, element, otherwise));
        if (!real.is_true()) ctx.out.close();
    });
    ctx.out.close();
}

void lower_deposit(Lowering& ctx, ir::InstId id) {
    const ir::AccessOperands in(ctx.fn, ctx.fn.inst(id));
    const ir::ValueId to = ctx.fn.result(id), value = in.value.value;
    declare(ctx, to);
    ctx.out.open_block();
    const std::vector<std::string> pointers = stage_operands(ctx, id);
    const TilePart p = tile_part(ctx, in, value, pointers);
    if (pointers[0].empty()) {  // a scalar tile: no axes, one element
        const std::string mask = in.mask ? name(ctx, in.mask.value) : "true";
        const std::string old = name(ctx, in.object), put = name(ctx, value);
        ctx.out.assign(named(ctx, name(ctx, to)), raw(ctx, mask + " ? " + put + " : " + old));
        return ctx.out.close();
    }
    const bool collides = deposit_collides(ctx.fn, id);
    const int64_t n = ctx.fn.type(to).shape.elements();
    std::string last;
    if (collides) {
        last = scratch_area(ctx, id, "int", scratch_plan(ctx.fn, id).work[0]);
        const Ex e = open_elements(ctx, ctx.out.fresh("e"), n);
        ctx.out.assign(element(ctx, last, e), ctx.pool.number(-1));
        ctx.out.close();
    }
    sync(ctx);
    const auto each_element = [&](const std::function<void(Ex r, Ex place)>& body) {
        each_register(ctx, value, [&](Ex r) {
            const Ex mine = stores(ctx, value, r);
            if (!mine.is_true()) ctx.out.open_if(mine);
            Ex holds = in.mask ? staged(ctx, in.mask.value, pointers[in.mask.at], value, r, number_at(ctx, value, r))
                               : ctx.pool.truth(true);
            const Ex place = place_in_tile(ctx, p, r, holds);
            if (!holds.is_true()) ctx.out.open_if(holds);
            body(r, place);
            if (!holds.is_true()) ctx.out.close();
            if (!mine.is_true()) ctx.out.close();
        });
    };
    if (collides) {
        each_element([&](Ex r, Ex place) {
            ctx.out.call(kernel::KernelOp::atomic, {named(ctx, "atomicMax"), raw(ctx, "&" + element(ctx, last, place)),
                                                    number_at(ctx, value, r)});
        });
        sync(ctx);
    }
    each_element([&](Ex r, Ex place) {
        const Ex wins = collides
                            ? eq(ctx.pool.index(kernel::Type::i32, named(ctx, last), place), number_at(ctx, value, r))
                            : ctx.pool.truth(true);
        assign_if(ctx, wins, element(ctx, pointers[0], place), element_at(ctx, value, r));
    });
    sync(ctx);
    fill(ctx, to, [&](Ex r) { return pointers[0] + "[" + number_at(ctx, to, r).text() + "]"; });
    ctx.out.close();
}

}  // namespace tegula::lower
