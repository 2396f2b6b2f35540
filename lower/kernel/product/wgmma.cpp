// Products on wgmma: groups of four warps multiply 64 rows and up to 256 columns at a time, B (and A, unless it is
// computed) straight from shared memory through descriptors of the swizzled tile (PTX ISA, "Asynchronous warpgroup
// level matrix instructions"). A product, batches included, is a fence, its instructions, a commit and a wait, with
// nothing between them. Sums that are made anew on the way are in product/wgmma_parts.cpp.
#include <algorithm>
#include <bit>
#include <numeric>

#include "lang/tensor_core.h"
#include "lower/kernel/access/access.h"
#include "lower/kernel/control/control.h"
#include "lower/kernel/elementwise/elementwise.h"
#include "lower/kernel/move/move.h"
#include "lower/kernel/packed/packed.h"
#include "lower/kernel/product/product.h"
#include "lower/kernel/product/warp_groups.h"
#include "lower/kernel/values.h"

namespace tegula::lower {

using kernel::KernelOp;

namespace {

/// Columns of one instruction: 256, or as many as leave a thread of a large program registers for their sums and for
/// what ptxas wants beside them.
int64_t most_columns(int threads, int sum_bits) {
    constexpr int64_t kRegisterFile = 65536, kBeside = 26;
    const int64_t left = kRegisterFile / threads / 8 * 8 - kBeside;
    return std::min<int64_t>(
        256, static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(left * 64 / sum_bits, 8)))));
}

/// The largest legal number of columns <= n; integers beyond 32 columns come in steps of 16.
int64_t legal_columns(int64_t n, bool integers) { return integers && n > 32 ? n / 16 * 16 : n / 8 * 8; }

/// Few parts, equal ones if twice as few do, which begin at multiples of `align` or lie within `align` columns.
std::vector<int64_t> split_columns(int64_t n, bool integers, int64_t align, int64_t most) {
    const auto power = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(most)));
    const int64_t step = std::min(std::max<int64_t>(align, integers ? 16 : 8), power),
                  least = (n + most / step * step - 1) / (most / step * step);
    for (int64_t parts = least; parts <= 2 * least; ++parts)
        if (n % (parts * step) == 0) return std::vector<int64_t>(static_cast<size_t>(parts), n / parts);
    std::vector<int64_t> out;
    for (int64_t parts = least; n > 0; n -= out.back(), parts = std::max<int64_t>(parts - 1, 1)) {
        const int64_t even = ((n + parts - 1) / parts + step - 1) / step * step;
        out.push_back(legal_columns(std::min({n, most / step * step, even}), integers));
    }
    return out;
}

/// Descriptor fields of a swizzled tile: `across` is the distance of 8 rows of the tile, `panels` that of its panels.
Ex descriptor(Ex address, const SharedLayout& l, bool k_major) {
    kernel::Pool& pool = *address->pool;
    const int64_t across = 8 * l.row_bytes();
    const int swizzle = l.swizzle == 128 ? 1 : l.swizzle == 64 ? 2 : 3;
    return pool.call(kernel::Type::u64, "wgmma_descriptor",
                     {address, pool.number(k_major ? 16 : l.panel_bytes()), pool.number(across), pool.number(swizzle)});
}

/// The instruction for so many columns, with its immediate operands.
Ex form(Lowering& ctx, const WarpGroups& w, int64_t columns) {
    const MmaRow& row = *w.row;
    const bool sixteen = row.a == Fmt::f16 || row.a == Fmt::bf16;
    std::vector<Ex> immediates;
    const auto add = [&](int64_t v) { immediates.push_back(ctx.pool.number(v)); };
    if (row.acc != Fmt::i32) add(1), add(1);  // neither operand is negated
    if (sixteen && w.smem_a) add(!w.k_major(*w.smem_a, true));
    if (sixteen) add(!w.k_major(*w.smem_b, false));
    const std::string name = "m64n" + number(columns) + "k" + number(row.k) + "." + ptx_type(row.acc) + "." +
                             ptx_type(row.a) + "." + ptx_type(row.b);
    return ctx.pool.call(kernel::Type::other, name, std::span<const Ex>(immediates));
}

/// Runs of registers that follow one another, all of one length.
struct Runs {
    std::vector<int64_t> first;
    int64_t length = 0;
};

/// Registers of the piece's sum; `part` gives those of each 8 columns.
Runs runs_of(const WarpGroups::Piece& piece, int64_t length, const std::function<int64_t(int64_t column)>& part) {
    std::vector<int64_t> first, ends;
    for (int64_t c = 0; c < piece.columns; c += 8) {
        const int64_t r = part(piece.column + c);
        if (!ends.empty() && ends.back() == r)
            ends.back() += length;
        else
            first.push_back(r), ends.push_back(r + length);
    }
    Runs out;
    for (size_t i = 0; i < first.size(); ++i) out.length = std::gcd(out.length, ends[i] - first[i]);
    for (size_t i = 0; i < first.size(); ++i)
        for (int64_t r = first[i]; r < ends[i]; r += out.length) out.first.push_back(r);
    return out;
}

}  // namespace

/// Where B is contiguous along its columns, an instruction reads whole panels of them from its first column on, so that
/// it begins with a panel.
void WarpGroups::cut(int64_t most) {
    const int64_t align = k_major(*smem_b, false) ? 8 : smem_b->row_bytes() / smem_b->elem_bytes;
    pieces.clear();
    for (size_t tile = 0; tile < tiles.size(); ++tile) {
        int64_t column = 0;
        for (const int64_t columns : split_columns(n / split.n, row->acc == Fmt::i32, align, most)) {
            pieces.push_back({tile, column, columns});
            column += columns;
        }
    }
}

/// The part added to the array `to`, or to the sum that PTX knows by name.
void wgmma_run(Lowering& ctx, const WarpGroups& w, const std::string& to, const WarpGroups::Part& p) {
    const Ex sum = ctx.pool.name(w.sum_type(), w.sum.empty() ? to : w.sum);
    const TileLayout& out = layout(ctx, w.result);
    const int scale = w.packed_sum() ? 2 : 1;
    ctx.out.call(KernelOp::wgmma_fence);
    for (size_t i = p.begin; i < p.end; ++i) {
        const WarpGroups::Piece& piece = w.pieces[i];
        const TileLayout::Point& tile = w.tiles[piece.tile];
        const Runs runs = runs_of(piece, 4 / scale, [&](int64_t column) -> int64_t {
            const int r = w.sum_register(out, tile, column) / scale;
            return p.sums.empty() ? r : std::lower_bound(p.sums.begin(), p.sums.end(), r) - p.sums.begin();
        });
        for (int s = p.first; s < p.last; ++s) {
            std::vector<Ex> operands{form(ctx, w, piece.columns), ctx.pool.number(runs.length)};
            for (const int64_t first : runs.first) operands.push_back(sum + first);
            operands.push_back(w.smem_a ? w.desc_a + w.at_a(tile, tile[w.rank - 2], s) / 16
                                        : w.fragments + (static_cast<int64_t>(piece.tile) * w.steps() + s) * 4);
            operands.push_back(w.desc_b + w.at_b(tile, piece.column, s) / 16);
            ctx.out.call(p.from_zero && s == p.first ? KernelOp::wgmma_start : KernelOp::wgmma_issue, operands);
        }
    }
    ctx.out.call(KernelOp::wgmma_commit);
    if (p.wait >= 0) ctx.out.call(KernelOp::wgmma_wait, {ctx.pool.number(p.wait)});
}

/// Moves A to registers that PTX knows by name, for a product that is not waited for at once: those of C++ are
/// anybody's behind their last use.
void wgmma_hold(Lowering& ctx, WarpGroups& w, const std::string& registers) {
    const Ex named = ctx.pool.name(kernel::Type::u32, registers);
    ctx.out.call(KernelOp::named_set, {named, w.fragments});
    w.fragments = named;
}

/// Operand A's registers, packed for all steps before anything is issued.
void wgmma_fragments(Lowering& ctx, WarpGroups& w) {
    const TileLayout& l = layout(ctx, w.a);
    TEGULA_CHECK(l == mma_operand_a(ctx.fn.type(w.a).shape, ctx.fn.elem(w.a).bits, w.split.m, w.split.n),
                 "operand A in another layout than its instruction's");
    const Fragment f = fragment_of(*w.row);
    std::vector<int> starts;
    for (const TileLayout::Point& tile : w.tiles)
        for (int s = 0; s < w.steps(); ++s) {
            const int first = l.find_register(element(tile, w.rank, tile[w.rank - 2], int64_t{s} * f.k), 0, 0);
            for (int i = 0; i < 4; ++i) starts.push_back(first + i * f.packed);
        }
    w.fragments = declare_array(ctx, kernel::Type::u32, "a", static_cast<int64_t>(starts.size()));
    each(ctx, static_cast<int>(starts.size()), [&](Ex r) {
        ctx.out.assign(ctx.pool.index(kernel::Type::u32, w.fragments, r),
                       spelled(ctx, fragment_word(ctx, w.a, rename(ctx, starts, r))));
    });
}

/// Variables with the descriptors of the warp group's part of the operands.
void wgmma_descriptors(Lowering& ctx, WarpGroups& w) {
    ctx.formats.need("wgmma");
    const int groups_m = w.split.m / 4, groups_n = w.split.n;
    const Ex group = ctx.pool.name(kernel::Type::i32, ctx.out.fresh("group"));
    if (groups_m * groups_n > 1)
        ctx.out.let("int", group.text(), ctx.pool.uniform(kernel::Type::i32, "uniform", {ctx.thread >> 7}));
    const auto operand = [&](ir::ValueId v, const SharedLayout& l, bool is_a, Ex index, int64_t bytes) {
        TEGULA_CHECK(l.swizzle != 0 && l.shape.rank == w.rank, "wgmma reads swizzled tiles only");
        Ex address =
            ctx.pool.call(kernel::Type::u32, "shared_address", {ctx.pool.name(kernel::Type::other, name(ctx, v))});
        // Where lanes go different ways to start copies, compilers no longer see that they agree on a stage.
        if (!ctx.packed.rings.empty()) address = u32(ctx.pool.uniform(kernel::Type::i32, "uniform", {i32(address)}));
        if (index) address = address + index * bytes;
        const Ex variable = ctx.pool.name(kernel::Type::u64, ctx.out.fresh("operand"));
        ctx.out.let("unsigned long long", variable.text(), descriptor(address, l, w.k_major(l, is_a)));
        return variable;
    };
    if (w.smem_a) {
        const Ex index = groups_m == 1 ? Ex() : groups_n == 1 ? group : group & (groups_m - 1);
        w.desc_a = operand(w.a, *w.smem_a, true, index, groups_m > 1 ? w.at_a(w.tiles[0], 64, 0) : 0);
    }
    const Ex index = groups_n == 1 ? Ex() : groups_m == 1 ? group : group / groups_m;
    w.desc_b = operand(w.b, *w.smem_b, false, index, groups_n > 1 ? w.at_b(w.tiles[0], w.n / groups_n, 0) : 0);
}

/// A sum of packed pairs, whose result has an element in a register.
void wgmma_packed(Lowering& ctx, const WarpGroups& w) {
    const std::string result = name(ctx, w.result);
    const int count = registers(ctx, w.result) / 2;
    const Ex sum = declare_array(ctx, kernel::Type::u32, "sum", count),
             halves = ctx.pool.name(kernel::Type::other, result);
    each(ctx, count, [&](Ex r) {
        ctx.out.assign(ctx.pool.index(kernel::Type::u32, sum, r),
                       spelled(ctx, packed(ctx, result, ctx.fn.elem(w.result), r * 2)));
    });
    wgmma_run(ctx, w, sum.text(), {0, w.pieces.size(), 0, w.steps(), false, {}, 0});
    each(ctx, count, [&](Ex r) {
        const std::string pair = ctx.pool.index(kernel::Type::u32, sum, r).text();
        const auto half = [&](int i) { return ctx.pool.index(kernel::Type::other, halves, r * 2 + i); };
        ctx.out.assign(half(0), spelled(ctx, "(unsigned short)" + pair));
        ctx.out.assign(half(1), spelled(ctx, "(unsigned short)(" + pair + " >> 16)"));
    });
}

void wgmma_product(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    WarpGroups w;
    w.row = &product_row(ctx.fn, id);
    w.a = ctx.fn.operands(inst)[0];
    w.b = ctx.fn.operands(inst)[1];
    w.result = ctx.fn.result(inst);
    w.unsigned_sum = ctx.fn.type(w.result).elem == Fmt::u32;
    const Shape &sa = ctx.fn.type(w.a).shape, &sd = ctx.fn.type(w.result).shape;
    w.rank = sd.rank;
    TEGULA_CHECK(takes_codes(ctx, w.row->a, w.a) && takes_codes(ctx, w.row->b, w.b),
                 "a product that its instruction does not compute");
    w.m = sd[w.rank - 2];
    w.n = sd[w.rank - 1];
    w.k = sa[w.rank - 1];
    w.split = warp_split(layout(ctx, w.result), ctx.fn.gpu->warps);
    TEGULA_CHECK(w.split.m >= 4 && w.m % (16 * w.split.m) == 0 && w.n % 8 == 0 && w.k % w.row->k == 0,
                 "extents that wgmma does not have");
    if (!in_registers(ctx, w.a)) w.smem_a = &ctx.fn.placement(w.a).smem;
    TEGULA_CHECK(ctx.fn.placement(w.b).kind == Placement::shared, "operand B of wgmma lies in shared memory");
    w.smem_b = &ctx.fn.placement(w.b).smem;
    const std::vector<TileLayout::Point> batches = batch_points(sd);
    w.batches = batches.size();
    for (const TileLayout::Point& z : batches)
        for (int64_t m = 0; m < w.m; m += 16 * w.split.m) w.tiles.push_back(element(z, w.rank, m, 0));
    w.cut(most_columns(ctx.kernel.threads, ctx.fn.elem(w.result).bits));

    const bool promoted = promotes(*w.row), scaled = inst.op == ir::Op::dot_scaled;
    bool from_zero = false;
    if (const auto kept = ctx.values.sums.find(ctx.fn.operands(inst)[2].v); kept != ctx.values.sums.end())
        w.sum = ctx.values.sums[w.result.v] = kept->second;
    else
        accumulate_in(ctx, w.result, ctx.fn.operands(inst)[2],
                      promoted || scaled || w.packed_sum() ? nullptr : &from_zero);
    converge(ctx);
    ctx.out.open_block();  // the operands' names end here
    wgmma_descriptors(ctx, w);
    if (!w.smem_a) wgmma_fragments(ctx, w);
    if (scaled) {
        wgmma_scaled(ctx, w, id);
    } else if (promoted) {
        wgmma_promoted(ctx, w, id);
    } else if (w.packed_sum()) {
        TEGULA_CHECK(!ctx.fn.gpu_inst(id).late, "a packed sum is waited for");
        wgmma_packed(ctx, w);
    } else {
        const GpuInst& gpu = ctx.fn.gpu_inst(id);
        TEGULA_CHECK(!gpu.late || !w.sum.empty(),
                     "a product that is not waited for has its sum in registers of its own");
        if (gpu.late && !w.smem_a) wgmma_hold(ctx, w, held_factor(ctx, w, id));
        wgmma_run(ctx, w, name(ctx, w.result),
                  {0, w.pieces.size(), 0, w.steps(), from_zero, {}, gpu.late ? gpu.wait : 0});
    }
    ctx.out.close();
}

}  // namespace tegula::lower
