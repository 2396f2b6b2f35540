// convert to and from tiles in shared memory (SharedLayout): 16-byte accesses where a thread's registers are neighbours
// in a swizzle chunk.
#include "lang/gpu/scratch.h"
#include "lower/kernel/access/access.h"
#include "lower/kernel/move/move.h"
#include "lower/kernel/values.h"

namespace tegula::lower {

namespace {

/// Bytes of the widest access: consecutive registers along the unit stride, at most a 16-byte chunk, all inside or all
/// ghosts.
int access_elements(const TileLayout& l, const SharedLayout& s) {
    int vector = std::min(vector_width(l, s.contiguous), 16 / s.elem_bytes);
    while (l.shape[static_cast<size_t>(s.contiguous)] % vector != 0) vector /= 2;
    return vector;
}

/// Addresses as (that of a thread's first register ^ crossing[i]) + above[i], for every `vector` registers: few sums
/// are left, which several of them share, where the whole address of each would be computed. Empty: not of this tile.
struct SplitAddresses {
    std::vector<int> crossing, above;
};

SplitAddresses split_addresses(const TileLayout& l, const SharedLayout& s, int vector) {
    const int registers = l.registers(), threads = 32 * l.warps();
    if (l.has_ghosts() || registers <= vector) return {};
    std::vector<int64_t> of_thread;
    int64_t moved = 0;
    for (int t = 0; t < threads; ++t) moved |= of_thread.emplace_back(s.address(l.point(0, t % 32, t / 32)));
    SplitAddresses out;
    for (int r = 0; r < registers; r += vector) {
        const int64_t first = s.address(l.point(r, 0, 0)), crossing = first & moved, above = first - crossing;
        for (int t = 0; t < threads; ++t)
            if (s.address(l.point(r, t % 32, t / 32)) != (of_thread[static_cast<size_t>(t)] ^ crossing) + above)
                return {};
        out.crossing.push_back(static_cast<int>(crossing));
        out.above.push_back(static_cast<int>(above));
    }
    return out;
}

}  // namespace

Ex shared_address(Lowering& ctx, const SharedLayout& l, const std::vector<Ex>& c) {
    const size_t rank = l.shape.rank;
    Ex batch = ctx.pool.number(0);
    if (rank == 0) return batch;
    const auto contiguous = static_cast<size_t>(l.contiguous);
    int64_t batches = 1;
    for (size_t d = 0; d + 2 < rank; ++d) {
        batch = batch * l.shape[d] + c[d];
        batches *= l.shape[d];
    }
    const Ex byte = c[contiguous] * l.elem_bytes;
    Ex plain = byte;
    if (l.shape[contiguous] * l.elem_bytes > l.row_bytes())
        plain = byte / l.row_bytes() * l.panel_bytes() + byte % l.row_bytes();
    if (rank >= 2) plain = plain + c[static_cast<size_t>(l.across())] * l.row_bytes();
    plain = plain + batch * (l.bytes() / batches);
    if (!l.swizzle) return plain;
    const std::string name = support(ctx, "swizzle " + std::to_string(l.swizzle), "swizzle",
                                     "__device__ __forceinline__ int $(int a) { return a ^ (a >> 3 & " +
                                         std::to_string((l.swizzle - 1) & ~15) + "); }\n");
    return ctx.pool.call(kernel::Type::i32, name, {plain});
}

void to_shared(Lowering& ctx, ir::InstId id) {
    const ir::ValueId from = ctx.fn.operands(ctx.fn.inst(id))[0], to = ctx.fn.result(id);
    const SharedLayout& s = ctx.fn.placement(to).smem;
    const TileLayout& l = layout(ctx, from);
    const Ex area = raw(ctx, scratch(ctx, id, "unsigned char", s.bytes()));
    ctx.out.let_pointer("unsigned char", name(ctx, to), area);
    const int vector = access_elements(l, s), bytes = vector * s.elem_bytes;
    const std::string type = type_of(ctx, from), word = vector == 1 ? type : wide_type(static_cast<size_t>(bytes));
    each(ctx, registers(ctx, from) / vector, [&](Ex i) {
        const Ex r = i * vector, mine = owns(ctx, l, r);
        if (!mine.is_true()) ctx.out.open_if(mine);
        Ex value = element(ctx, name(ctx, from), r);
        if (vector > 1) {
            std::string list;
            for (int k = 0; k < vector; ++k) list += (k ? ", " : "") + name(ctx, from) + "[" + (r + k).text() + "]";
            ctx.out.declare("alignas(16) " + type, "p", vector, " = {" + list + "}");
            value = pointee("const " + word, named(ctx, "p"));
        }
        const std::string address = shared_address(ctx, s, coordinates_of(ctx, from, r)).atom();
        ctx.out.assign(pointee(word, raw(ctx, name(ctx, to) + " + " + address)), value);
        if (!mine.is_true()) ctx.out.close();
    });
}

void from_shared(Lowering& ctx, ir::InstId id) {
    const ir::ValueId from = ctx.fn.operands(ctx.fn.inst(id))[0], to = ctx.fn.result(id);
    const SharedLayout& s = ctx.fn.placement(from).smem;
    const TileLayout& l = layout(ctx, to);
    const int vector = access_elements(l, s), bytes = vector * s.elem_bytes;
    const std::string type = type_of(ctx, to), word = vector == 1 ? type : wide_type(static_cast<size_t>(bytes));
    declare(ctx, to);
    const SplitAddresses split = split_addresses(l, s, vector);
    const std::string start = split.above.empty() ? std::string() : ctx.out.fresh("start");
    if (!start.empty()) ctx.out.let("int", start, shared_address(ctx, s, coordinates_of(ctx, to, ctx.pool.number(0))));
    each(ctx, registers(ctx, to) / vector, [&](Ex i) {
        const Ex r = i * vector, ok = inside(ctx, l, r);
        const Ex above = start.empty() ? Ex() : rename(ctx, split.above, i);
        const Ex address = start.empty() ? shared_address(ctx, s, coordinates_of(ctx, to, r))
                                         : (int32(ctx, start) ^ rename(ctx, split.crossing, i)) + above;
        const Ex place = pointee("const " + word, raw(ctx, name(ctx, from) + " + " + address.atom()));
        if (vector == 1) return assign_to(ctx, to, r, chosen(ok, place.text(), zero(ctx, to)));
        ctx.out.declare("alignas(16) " + type, "p", vector, ok.is_true() ? "" : " = {}");
        assign_if(ctx, ok, pointee(word, named(ctx, "p")), place);
        for (int k = 0; k < vector; ++k) assign_to(ctx, to, r + k, "p[" + std::to_string(k) + "]");
    });
}

/// Element by element: another swizzle or another dimension of unit stride.
void between_shared(Lowering& ctx, ir::InstId id) {
    const ir::ValueId from = ctx.fn.operands(ctx.fn.inst(id))[0], to = ctx.fn.result(id);
    const SharedLayout &a = ctx.fn.placement(from).smem, &b = ctx.fn.placement(to).smem;
    const Ex area = raw(ctx, scratch(ctx, id, "unsigned char", b.bytes()));
    ctx.out.let_pointer("unsigned char", name(ctx, to), area);
    const std::string e = ctx.out.fresh("e"), type = type_of(ctx, to);
    open_elements(ctx, e, a.shape.elements());
    const std::vector<Ex> c = coordinates_in(a.shape, ctx.pool.counter(e, a.shape.elements()));
    const auto place = [&](ir::ValueId v, const SharedLayout& l) {
        return raw(ctx, name(ctx, v) + " + " + shared_address(ctx, l, c).atom());
    };
    ctx.out.assign(pointee(type, place(to, b)), pointee("const " + type, place(from, a)));
    ctx.out.close();
}

}  // namespace tegula::lower
