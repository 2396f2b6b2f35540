// Channels that the threads which compute fill themselves: puts start cp.async copies of 16 bytes where the tensor's
// rows allow it (seen when the kernel runs), and move single elements otherwise; below sm_80 all is plain loads and
// stores. Neighbouring puts are one group of copies, so that a get knows how many newer groups may still be on their
// way: as many as its channel holds stages that nobody has asked for.
#include <algorithm>

#include "lang/gpu/wide_access.h"
#include "lower/kernel/access/access.h"
#include "lower/kernel/channel/channel.h"
#include "lower/kernel/control/control.h"
#include "lower/kernel/move/move.h"
#include "lower/kernel/values.h"

namespace tegula::lower {

using ir::Op;
using kernel::KernelOp;

namespace {

struct Tile {
    size_t contiguous = 0, across = 0;  ///< tensor dimensions
    bool has_rows = false;
    int64_t rows = 1, columns = 1;
};

Tile tile_of(const SharedLayout& l, const ir::Access& access) {
    std::vector<size_t> axes;
    for (size_t d = 0; d < access.axes.size(); ++d)
        if (access.axes[d].kind != ir::Access::index) axes.push_back(d);
    TEGULA_CHECK(axes.size() == l.shape.rank && l.shape.rank >= 1 && l.shape.rank <= 2,
                 "a copied tile of another rank");
    Tile t;
    t.contiguous = axes[static_cast<size_t>(l.contiguous)];
    t.columns = l.shape[static_cast<size_t>(l.contiguous)];
    if (l.shape.rank == 1) return t;
    t.has_rows = true;
    t.across = axes[static_cast<size_t>(1 - l.contiguous)];
    t.rows = l.shape[static_cast<size_t>(1 - l.contiguous)];
    return t;
}

/// Tile coordinates, for shared_address.
std::vector<Ex> in_tile(const SharedLayout& l, Ex row, Ex column) {
    if (l.shape.rank == 1) return {column};
    return l.contiguous == 1 ? std::vector<Ex>{row, column} : std::vector<Ex>{column, row};
}

/// Opens a loop in which the threads share the elements of a tile, `per` of a row at a time; row and column.
std::pair<Ex, Ex> open_copy(Lowering& ctx, int64_t rows, int64_t in_row, int64_t per, int unroll) {
    const Ex i = ctx.pool.name(kernel::Type::i32, "i");
    ctx.out.open_for({"int", "i", ctx.thread, lt(i, rows * in_row), {counted(i, group_threads(ctx))}, unroll, {}});
    ctx.out.let("int", "row", i / in_row);
    ctx.out.let("int", "column", i % in_row * per);
    return {ctx.pool.counter("row", rows), ctx.pool.counter("column", in_row * per)};
}

}  // namespace

bool continues(const Lowering& ctx, ir::InstId id, bool forward) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const std::vector<ir::InstId>& list = ctx.fn.block(inst.parent).insts;
    const auto here = std::find(list.begin(), list.end(), id);
    for (auto it = here;;) {
        if (forward ? ++it == list.end() : it-- == list.begin()) return false;
        const ir::Inst& other = ctx.fn.inst(*it);
        if (other.op == inst.op) {
            const ir::ValueId channel = ctx.fn.operands(other).back();
            return ctx.channels.rings.at(channel.v).form->tensor_map < 0;
        }
        const bool scalar = ir::has_trait(other.op, ir::PURE) && !ir::has_trait(other.op, ir::REGIONS) &&
                            other.results.count == 1 && is_scalar(ctx, ctx.fn.result(other));
        if (!scalar || ctx.fn.gpu_inst(*it).sync_before) return false;
    }
}

void wait_for_copies(Lowering& ctx, ir::InstId id) {
    if (ctx.fn.gpu->arch->cp_async) {
        // The run of gets that starts here waits once, for the longest of its channels.
        Ex newer;
        const std::vector<ir::InstId>& list = ctx.fn.block(ctx.fn.inst(id).parent).insts;
        for (auto it = std::find(list.begin(), list.end(), id);; ++it) {
            if (ctx.fn.inst(*it).op != Op::channel_get) continue;
            const Ex mine = i32(ring(ctx, ctx.fn.operands(ctx.fn.inst(*it))[0]).ahead) - 1;
            newer = newer ? ctx.pool.call(kernel::Type::i32, "min", {newer, mine}) : mine;
            if (!continues(ctx, *it, true)) break;
        }
        ctx.out.call(KernelOp::copy_wait, {newer});
    }
    if (ring(ctx, ctx.fn.operands(ctx.fn.inst(id))[0]).form->own) return;  // nobody else reads
    if (ctx.fn.gpu->arch->wgmma) ctx.out.call(KernelOp::fence_async);
    sync(ctx);
}

void thread_put(Lowering& ctx, ir::InstId id, Ring& r) {
    ctx.out.open_block();
    const Ex to = ctx.pool.name(kernel::Type::other, ctx.out.fresh("to"));
    ctx.out.let_pointer("unsigned char", to.text(), stage_address(r, r.put));
    r.form->own ? own_put(ctx, id, r, to) : shared_put(ctx, id, r, to);
    ctx.out.close();
    ctx.out.call(KernelOp::count_put, {r.ahead});
    if (ctx.fn.gpu->arch->cp_async && !continues(ctx, id, true)) ctx.out.call(KernelOp::copy_commit);
    advance(ctx, r.put, {}, r.form->stages);
}

void start_copy(Lowering& ctx, ir::InstId put, int bytes, Ex to, Ex from, Ex count) {
    const std::string function = copy_function(ctx, put, bytes);
    if (!function.empty())
        ctx.out.call(KernelOp::copy_async_by, {ctx.pool.name(kernel::Type::other, function), to, from, count});
    else if (bytes == 16)
        ctx.out.call(KernelOp::copy_async, {to, from, count});
    else
        ctx.out.call(KernelOp::copy_async_of, {ctx.pool.number(bytes), to, from, count});
}

void shared_put(Lowering& ctx, ir::InstId id, const Ring& r, Ex to) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const ir::ValueId tensor = ctx.fn.operands(inst)[0];
    const Tile tile = tile_of(r.form->layout, ctx.fn.access(inst));
    const bool whole = !is_bit_addressed(ctx.fn.elem(tensor)) && tile.columns * r.form->layout.elem_bytes % 16 == 0 &&
                       ctx.fn.gpu->arch->cp_async;
    if (whole && affine(ctx, tensor) && contiguous_dimension(ctx, tensor) == static_cast<int>(tile.contiguous)) {
        copy_chunks(ctx, id, r, to);
    } else {
        copy_elements(ctx, id, r, to);
    }
}

/// Index of every tensor dimension, with the given ones of the tile's dimensions.
std::vector<Ex> put_coordinates(Lowering& ctx, ir::InstId id, const SharedLayout& l, Ex row, Ex column) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const ir::Access access = ctx.fn.access(inst);
    const Tile tile = tile_of(l, access);
    std::vector<Ex> out;
    size_t operand = 1;
    for (size_t d = 0; d < access.axes.size(); ++d) {
        Ex at = access.axes[d].kind == ir::Access::all ? int64(ctx, 0)
                                                       : element_at(ctx, ctx.fn.operands(inst)[operand++], {});
        if (d == tile.contiguous) at = at + column;
        if (d != tile.contiguous && tile.has_rows && d == tile.across) at = at + row;
        out.push_back(at);
    }
    return out;
}

/// All indices but dimension `except` lie in the tensor.
Ex put_condition(Lowering& ctx, ir::InstId id, const std::vector<Ex>& coordinates, int except) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const ir::Access access = ctx.fn.access(inst);
    Ex out = ctx.pool.truth(true);
    for (size_t d = 0; d < access.axes.size(); ++d)
        if (static_cast<int>(d) != except && !access.axes[d].in_bounds && access.axes[d].kind != ir::Access::all)
            out = both(out, within(coordinates[d], extent(ctx, ctx.fn.operands(inst)[0], static_cast<int>(d))));
    return out;
}

void copy_chunks(Lowering& ctx, ir::InstId id, const Ring& r, Ex to) {
    const ir::ValueId tensor = ctx.fn.operands(ctx.fn.inst(id))[0];
    const SharedLayout& l = r.form->layout;
    const Tile tile = tile_of(l, ctx.fn.access(ctx.fn.inst(id)));
    const int64_t bytes = l.elem_bytes, per = 16 / bytes, in_row = tile.columns / per, chunks = tile.rows * in_row;
    ctx.formats.need("shared");
    // Rows begin on 16 bytes, and so does the tile: then every chunk does.
    const std::vector<Ex> first = put_coordinates(ctx, id, l, ctx.pool.number(0), ctx.pool.number(0));
    const Ex base = ctx.pool.name(kernel::Type::other, name(ctx, tensor));
    Ex odd = u64(base) | u64(first[tile.contiguous] * bytes);
    for (size_t d = 0; d < first.size(); ++d)
        if (d != tile.contiguous) odd = odd | u64(stride(ctx, tensor, static_cast<int>(d)) * bytes);
    ctx.out.open_if(eq(odd & 15, 0));
    const int64_t trips = (chunks + group_threads(ctx) - 1) / group_threads(ctx);
    const auto [row, column] = open_copy(ctx, tile.rows, in_row, per, trips <= 16 ? kernel::kUnrollAll : 1);
    const std::vector<Ex> at = put_coordinates(ctx, id, l, row, column);
    const Ex x = at[tile.contiguous], left = ctx.pool.name(kernel::Type::i64, "left"),
             some = ctx.pool.name(kernel::Type::pred, "some"), count = ctx.pool.name(kernel::Type::i32, "count"),
             zero = ctx.pool.number(0), all = ctx.pool.number(per);
    ctx.out.let("long long", "left", extent(ctx, tensor, static_cast<int>(tile.contiguous)) - x);
    ctx.out.let("bool", "some",
                both(both(ge(x, 0), gt(left, 0)), put_condition(ctx, id, at, static_cast<int>(tile.contiguous))));
    ctx.out.let("int", "count",
                ctx.pool.select(negation(some), zero, ctx.pool.select(lt(left, per), i32(left), all)));
    const Ex from = base + ctx.pool.select(some, offset(ctx, tensor, at), zero);
    start_copy(ctx, id, 16, address_of(to + shared_address(ctx, l, in_tile(l, row, column))), from, count * bytes);
    ctx.out.close();
    ctx.out.otherwise();
    copy_elements(ctx, id, r, to);
    ctx.out.close();
}

void copy_elements(Lowering& ctx, ir::InstId id, const Ring& r, Ex to) {
    const ir::ValueId tensor = ctx.fn.operands(ctx.fn.inst(id))[0];
    const SharedLayout& l = r.form->layout;
    const Tile tile = tile_of(l, ctx.fn.access(ctx.fn.inst(id)));
    const auto [row, column] = open_copy(ctx, tile.rows, tile.columns, 1, 1);
    const std::vector<Ex> at = put_coordinates(ctx, id, l, row, column);
    const CachingText caching = plain_caching(ctx, id);
    const std::string place = offset(ctx, tensor, at).text();
    const std::string element = read(ctx, ctx.fn.elem(tensor), name(ctx, tensor), place, caching);
    const std::string value = chosen(put_condition(ctx, id, at, -1), element, zero(ctx, tensor));
    store_to_shared(ctx, tensor, to + shared_address(ctx, l, in_tile(l, row, column)), value);
    ctx.out.close();
}

void store_to_shared(Lowering& ctx, ir::ValueId like, Ex to, const std::string& element) {
    const Ex type = ctx.pool.text(kernel::Type::other, type_of(ctx, like), true);
    ctx.out.call(KernelOp::store_shared, {type, to, ctx.pool.text(kernel::Type::other, element, false)});
}

}  // namespace tegula::lower
