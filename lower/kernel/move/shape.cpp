// broadcast, reshape, permute, slice, cat and gather. Where every result register is an operand's register
// (lang/register_moves.h) nothing moves; otherwise the operands go through row-major scratch and each result register
// reads its element.
#include "lang/gpu/register_moves.h"
#include "lang/gpu/scratch.h"
#include "lower/kernel/access/access.h"
#include "lower/kernel/control/control.h"
#include "lower/kernel/elementwise/elementwise.h"
#include "lower/kernel/move/move.h"
#include "lower/kernel/values.h"

namespace tegula::lower {

using ir::Op;

/// Views of shared memory, scalars, and tiles of one element.
bool view_or_trivial(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const ir::ValueId from = ctx.fn.operands(inst)[0], to = ctx.fn.result(inst);
    if (ctx.fn.placement(to).kind == Placement::shared) {
        TEGULA_CHECK(ctx.fn.placement(from).kind == Placement::shared,
                     "a tile gets into shared memory by convert only");
        ctx.out.let_pointer("unsigned char", name(ctx, to), named(ctx, name(ctx, from)));
        return true;
    }
    if (!scratch_plan(ctx.fn, id).bytes && (is_scalar(ctx, from) || is_scalar(ctx, to))) {
        assign(ctx, to, [&](Ex) { return text_at(ctx, from, ctx.pool.number(0)); });
        return true;
    }
    return false;
}

void move_registers(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const ir::ValueId to = ctx.fn.result(inst);
    const auto sources = register_sources(ctx.fn, id);
    TEGULA_CHECK(sources.has_value());
    const auto operands = ctx.fn.operands(inst);
    if (operands.size() == 1) {
        std::vector<int> from;
        for (const auto& source : *sources)
            if (source.operand == 0) from.push_back(source.reg);
        if (from.size() == sources->size())
            return assign(ctx, to, [&](Ex r) { return text_at(ctx, operands[0], rename(ctx, from, r)); });
    }
    declare(ctx, to);
    for (size_t i = 0; i < operands.size(); ++i) {
        std::vector<int> mine, from;
        for (size_t r = 0; r < sources->size(); ++r) {
            if ((*sources)[r].operand != static_cast<int>(i)) continue;
            mine.push_back(static_cast<int>(r));
            from.push_back((*sources)[r].reg);
        }
        if (mine.empty()) continue;
        each(ctx, static_cast<int>(mine.size()), [&](Ex r) {
            const std::string value = text_at(ctx, operands[i], rename(ctx, from, r));
            assign_to(ctx, to, rename(ctx, mine, r), value);
        });
    }
}

void move_through_scratch(Lowering& ctx, ir::InstId id, const std::function<Ex(Ex)>& number) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const ir::ValueId to = ctx.fn.result(inst);
    declare(ctx, to);
    ctx.out.open_block();
    const std::string pointer = stage_operands(ctx, id)[0];
    sync(ctx);
    fill(ctx, to, [&](Ex r) { return pointer + "[" + number(r).text() + "]"; });
    ctx.out.close();
}

void lower_broadcast(Lowering& ctx, ir::InstId id) {
    if (splat(ctx, ctx.fn.result(id)) || view_or_trivial(ctx, id)) return;
    if (!scratch_plan(ctx.fn, id).bytes) return move_registers(ctx, id);
    const ir::ValueId from = ctx.fn.operands(ctx.fn.inst(id))[0], to = ctx.fn.result(id);
    const Shape &in = ctx.fn.type(from).shape, &out = ctx.fn.type(to).shape;
    move_through_scratch(ctx, id, [&](Ex r) {
        std::vector<Ex> c = coordinates_of(ctx, to, r);
        c.erase(c.begin(), c.begin() + (out.rank - in.rank));
        for (size_t d = 0; d < in.rank; ++d)
            if (in[d] == 1) c[d] = ctx.pool.number(0);
        return number_of(ctx, in, c);
    });
}

void lower_reshape(Lowering& ctx, ir::InstId id) {
    if (view_or_trivial(ctx, id)) return;
    if (!scratch_plan(ctx.fn, id).bytes) return move_registers(ctx, id);
    move_through_scratch(ctx, id, [&](Ex r) { return number_at(ctx, ctx.fn.result(id), r); });
}

void lower_permute(Lowering& ctx, ir::InstId id) {
    if (view_or_trivial(ctx, id)) return;
    if (!scratch_plan(ctx.fn, id).bytes) return move_registers(ctx, id);
    const ir::Inst& inst = ctx.fn.inst(id);
    const ir::ValueId to = ctx.fn.result(inst);
    const auto axes = ctx.fn.attrs(inst);
    move_through_scratch(ctx, id, [&](Ex r) {
        const std::vector<Ex> c = coordinates_of(ctx, to, r);
        std::vector<Ex> from(c.size());
        for (size_t d = 0; d < c.size(); ++d) from[static_cast<size_t>(axes[d])] = c[d];
        return number_of(ctx, ctx.fn.type(ctx.fn.operands(inst)[0]).shape, from);
    });
}

void lower_slice(Lowering& ctx, ir::InstId id) {
    if (view_or_trivial(ctx, id)) return;
    if (!scratch_plan(ctx.fn, id).bytes) return move_registers(ctx, id);
    const ir::Inst& inst = ctx.fn.inst(id);
    const auto start_step = ctx.fn.attrs(inst);
    move_through_scratch(ctx, id, [&](Ex r) {
        std::vector<Ex> c = coordinates_of(ctx, ctx.fn.result(inst), r);
        for (size_t d = 0; d < c.size(); ++d) c[d] = c[d] * start_step[2 * d + 1] + start_step[2 * d];
        return number_of(ctx, ctx.fn.type(ctx.fn.operands(inst)[0]).shape, c);
    });
}

void lower_cat(Lowering& ctx, ir::InstId id) {
    if (!scratch_plan(ctx.fn, id).bytes) return move_registers(ctx, id);
    const ir::Inst& inst = ctx.fn.inst(id);
    const ir::ValueId to = ctx.fn.result(inst);
    const auto axis = static_cast<size_t>(ctx.fn.attrs(inst)[0]);
    declare(ctx, to);
    ctx.out.open_block();
    const std::string pointer = scratch_area(ctx, id, type_of(ctx, to), 0);
    int64_t begin = 0;
    for (ir::ValueId v : ctx.fn.operands(inst)) {
        each_register(ctx, v, [&](Ex r) {
            std::vector<Ex> c = coordinates_of(ctx, v, r);
            c[axis] = c[axis] + begin;
            const Ex place = element(ctx, pointer, number_of(ctx, ctx.fn.type(to).shape, c)),
                     value = element_at(ctx, v, r);
            assign_if(ctx, owns(ctx, layout(ctx, v), r), place, value);
        });
        begin += ctx.fn.type(v).shape[axis];
    }
    sync(ctx);
    fill(ctx, to, [&](Ex r) { return pointer + "[" + number_at(ctx, to, r).text() + "]"; });
    ctx.out.close();
}

void lower_gather(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const ir::ValueId from = ctx.fn.operands(inst)[0], index = ctx.fn.operands(inst)[1], to = ctx.fn.result(inst);
    const auto axis = static_cast<size_t>(ctx.fn.attrs(inst)[0]);
    const Shape& shape = ctx.fn.type(from).shape;
    declare(ctx, to);
    ctx.out.open_block();
    const std::vector<std::string> pointers = stage_operands(ctx, id);
    sync(ctx);
    each_register(ctx, to, [&](Ex r) {
        const std::string i = ctx.out.fresh("i");
        const Ex value = kernel::cast(kernel::Type::i64, staged(ctx, index, pointers[1], to, r, number_at(ctx, to, r)));
        ctx.out.let("long long", i, ctx.pool.select(inside(ctx, layout(ctx, to), r), value, int64(ctx, -1)));
        std::vector<Ex> c = coordinates_of(ctx, to, r);
        const Ex at = ctx.pool.name(kernel::Type::i64, i);
        c[axis] = u32(at);
        assign_to(ctx, to, r,
                  chosen(both(ge(at, 0), lt(at, shape[axis])),
                         pointers[0] + "[" + number_of(ctx, shape, c).text() + "]", zero(ctx, to)));
    });
    ctx.out.close();
}

}  // namespace tegula::lower
