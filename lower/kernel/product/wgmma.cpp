// Products on wgmma: groups of four warps multiply 64 rows and up to 256 columns at a time, B (and A, unless it is
// computed) straight from shared memory through descriptors of the swizzled tile (PTX ISA, "Asynchronous warpgroup
// level matrix instructions"). A product, batches included, is one asm statement with every accumulator as an operand,
// so that the accumulators keep their registers: fence, issue, commit, wait. Sums that are made anew on the way are in
// product/wgmma_parts.cpp.
#include <algorithm>
#include <bit>

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
std::string descriptor(const std::string& address, const SharedLayout& l, bool k_major) {
    const int64_t across = 8 * l.row_bytes();
    const int swizzle = l.swizzle == 128 ? 1 : l.swizzle == 64 ? 2 : 3;
    return "wgmma_descriptor(" + address + ", " + number(k_major ? 16 : l.panel_bytes()) + ", " + number(across) +
           ", " + number(swizzle) + ")";
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

/// The part, appended to a statement whose operands are its sums, then A, then B. Descriptors are those of its first
/// tile and step.
void wgmma_issue(const Lowering& ctx, const WarpGroups& w, const WarpGroups::Part& p, std::string& text) {
    const MmaRow& row = *w.row;
    const bool sixteen = row.a == Fmt::f16 || row.a == Fmt::bf16, integers = row.acc == Fmt::i32;
    const int scale = w.packed_sum() ? 2 : 1, ia = w.sum.empty() ? static_cast<int>(p.sums.size()) : 0,
              ib = ia + w.a_operands(p);
    const std::string sum = integers ? "s32" : w.packed_sum() ? "f16" : "f32";
    std::string flags = integers ? "" : ", 1, 1";
    if (sixteen && w.smem_a) flags += w.k_major(*w.smem_a, true) ? ", 0" : ", 1";
    if (sixteen) flags += w.k_major(*w.smem_b, false) ? ", 0" : ", 1";
    const auto step = [&](const WarpGroups::Piece& piece, const std::string& registers, int s) {
        std::string a = "%" + number(ia), b = "%" + number(ib), shifts;
        const auto shift = [&](const char* to, std::string& operand, int64_t bytes) {
            if (!bytes) return;
            shifts += (shifts.empty() ? "add.s64 " : " add.s64 ") + std::string(to) + ", " + operand + ", " +
                      number(bytes / 16) + ";";
            operand = to;
        };
        const TileLayout::Point& tile = w.tiles[piece.tile];
        if (w.smem_a) {
            shift("a", a, w.at_a(tile, tile[w.rank - 2], s) - w.start_a(p));
        } else {
            const int given =
                ia + (static_cast<int>(piece.tile - w.pieces[p.begin].tile) * (p.last - p.first) + s - p.first) * 4;
            const int held = (static_cast<int>(piece.tile) * w.steps() + s) * 4;
            a.clear();
            for (int i = 0; i < 4; ++i)
                a += (i ? ", " : "{") + (w.held.empty() ? "%" + number(given + i) : w.held + number(held + i));
            a += "}";
        }
        shift("b", b, w.at_b(tile, piece.column, s) - w.start_b(p));
        if (!shifts.empty()) text += "        \"" + shifts + "\\n\"\n";
        text += "        \"wgmma.mma_async.sync.aligned.m64n" + number(piece.columns) + "k" + number(row.k) + "." +
                sum + "." + ptx_type(row.a) + "." + ptx_type(row.b) + " \"\n        \"{" + registers + "}, " + a +
                ", " + b + ", " + (p.from_zero && s == p.first ? "no" : "yes") + flags + ";\\n\"\n";
    };
    const TileLayout& out = layout(ctx, w.result);
    const auto operand = [&](int r) {
        const auto n = p.sums.empty() ? r : std::lower_bound(p.sums.begin(), p.sums.end(), r) - p.sums.begin();
        return (w.sum.empty() ? "%" : w.sum) + number(n);
    };
    for (size_t i = p.begin; i < p.end; ++i) {
        const WarpGroups::Piece& piece = w.pieces[i];
        std::string registers;
        for (int64_t c = 0; c < piece.columns; c += 8) {
            const int r = w.sum_register(out, w.tiles[piece.tile], piece.column + c);
            for (int j = 0; j < 4; j += scale) registers += (registers.empty() ? "" : ", ") + operand((r + j) / scale);
        }
        for (int s = p.first; s < p.last; ++s) step(piece, registers, s);
    }
}

/// The part added to the array `to`, or to the sum that PTX knows by name: one statement from the fence to the wait,
/// which names every register once. Several statements would each carry all of them through the compiler.
void wgmma_run(Lowering& ctx, const WarpGroups& w, const std::string& to, const WarpGroups::Part& p) {
    std::string text =
        "    asm volatile(\n        \"{\\n.reg .pred no, yes;\\n.reg .b64 a, b;\\nsetp.ne.b32 no, 0, 0;\\nsetp.ne.b32 "
        "yes, 1, 0;\\n\"\n";
    text += "        \"wgmma.fence.sync.aligned;\\n\"\n";
    wgmma_issue(ctx, w, p, text);
    text += std::string("        \"wgmma.commit_group.sync.aligned;\\n") +
            (p.wait < 0 ? "" : "wgmma.wait_group.sync.aligned " + number(p.wait) + ";\\n") + "}\"\n        : ";
    const size_t operands = w.sum.empty() ? p.sums.size() : 0;
    const std::string constraint = std::string(p.from_zero ? "\"=" : "\"+") + (w.type == "float" ? "f" : "r") + "\"(d[";
    for (size_t i = 0; i < operands; ++i) text += (i ? ", " : "") + constraint + number(static_cast<int64_t>(i)) + "])";
    text += "\n        : ";
    if (w.smem_a) text += "\"l\"(a), ";
    const auto tiles = static_cast<int64_t>(w.tiles_of(p));
    for (int64_t t = 0; t < tiles && w.a_operands(p) > 1; ++t)
        for (int i = 0; i < 4 * (p.last - p.first); ++i) text += "\"r\"(a[" + number(t * w.steps() * 4 + i) + "]), ";
    text += "\"l\"(b)\n        : \"memory\");\n";
    const std::string factor = w.smem_a ? "unsigned long long a, " : w.held.empty() ? "const unsigned* a, " : "";
    const std::string head = "__device__ __forceinline__ void $(" + (operands ? w.type + "* d, " : "") + factor +
                             "unsigned long long b) {\n";
    const std::string stem =
        "wgmma_m" + number(64 * tiles) + "k" + number((p.last - p.first) * int64_t{w.row->k}) + "_";
    const std::string function = support(ctx, 
        text, stem,
        "// " + std::string(w.row->name) + ", " + number(p.last - p.first) + " steps of k\n" + head + text + "}\n");
    const auto plus = [](const std::string& v, int64_t n) { return n ? v + " + " + number(n) : v; };
    const auto first = static_cast<int64_t>(w.pieces[p.begin].tile);
    const std::string a =
        w.smem_a ? plus(w.desc_a, w.start_a(p) / 16) : plus(w.fragments, first * w.steps() * 4 + 4 * p.first);
    ctx.out.line(function + "(" + (operands ? to + ", " : "") + (factor.empty() ? "" : a + ", ") +
                 plus(w.desc_b, w.start_b(p) / 16) + ");");
}

/// Moves A to registers that PTX knows by name, for a product that is not waited for at once: those of C++ are
/// anybody's behind their last use.
void wgmma_hold(Lowering& ctx, WarpGroups& w, const std::string& registers) {
    w.held = registers;
    std::string moves, operands;
    for (int64_t i = 0; i < static_cast<int64_t>(w.tiles.size()) * w.steps() * 4; ++i) {
        moves += "mov.b32 " + w.held + number(i) + ", %" + number(i) + "; ";
        operands += (i ? ", \"r\"(" : "\"r\"(") + w.fragments + "[" + number(i) + "])";
    }
    ctx.out.line("asm volatile(\"" + moves + "\" : : " + operands + ");");
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
    w.fragments = ctx.out.fresh("a");
    ctx.out.line("unsigned " + w.fragments + "[" + number(static_cast<int64_t>(starts.size())) + "];");
    each(ctx, static_cast<int>(starts.size()), [&](Ex r) {
        ctx.out.line(w.fragments + "[" + r + "] = " + fragment_word(ctx, w.a, rename(ctx, starts, r)) + ";");
    });
}

/// Variables with the descriptors of the warp group's part of the operands.
void wgmma_descriptors(Lowering& ctx, WarpGroups& w) {
    ctx.formats.need("wgmma");
    const int groups_m = w.split.m / 4, groups_n = w.split.n;
    const std::string group = ctx.out.fresh("group");
    if (groups_m * groups_n > 1) ctx.out.line("const int " + group + " = uniform(t >> 7);");
    const auto with_offset = [&](ir::ValueId v, const std::string& index, int64_t bytes) {
        // Where lanes go different ways to start copies, compilers no longer see that they agree on a stage.
        const std::string own = "shared_address(" + name(ctx, v) + ")",
                          address = ctx.packed.rings.empty() ? own : "(unsigned)uniform((int)" + own + ")";
        return index.empty() ? address : address + " + " + index + " * " + number(bytes);
    };
    const auto operand = [&](ir::ValueId v, const SharedLayout& l, bool is_a, const std::string& index, int64_t bytes) {
        TEGULA_CHECK(l.swizzle != 0 && l.shape.rank == w.rank, "wgmma reads swizzled tiles only");
        const std::string variable = ctx.out.fresh("operand");
        ctx.out.line("const unsigned long long " + variable + " = " +
                     descriptor(with_offset(v, index, bytes), l, w.k_major(l, is_a)) + ";");
        return variable;
    };
    if (w.smem_a) {
        const std::string index = groups_m == 1   ? ""
                                  : groups_n == 1 ? group
                                                  : "(" + group + " & " + number(groups_m - 1) + ")";
        w.desc_a = operand(w.a, *w.smem_a, true, index, groups_m > 1 ? w.at_a(w.tiles[0], 64, 0) : 0);
    }
    const std::string index = groups_n == 1 ? "" : groups_m == 1 ? group : group + " / " + number(groups_m);
    w.desc_b = operand(w.b, *w.smem_b, false, index, groups_n > 1 ? w.at_b(w.tiles[0], w.n / groups_n, 0) : 0);
}

void wgmma_product(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    WarpGroups w;
    w.row = &product_row(ctx.fn, id);
    w.a = ctx.fn.operands(inst)[0];
    w.b = ctx.fn.operands(inst)[1];
    w.result = ctx.fn.result(inst);
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
    w.type = w.packed_sum() ? "unsigned" : !scaled ? type_of(ctx, w.result) : w.row->acc == Fmt::i32 ? "int" : "float";
    bool from_zero = false;
    if (const auto kept = ctx.values.sums.find(ctx.fn.operands(inst)[2].v); kept != ctx.values.sums.end())
        w.sum = ctx.values.sums[w.result.v] = kept->second;
    else
        accumulate_in(ctx, w.result, ctx.fn.operands(inst)[2],
                      promoted || scaled || w.packed_sum() ? nullptr : &from_zero);
    converge(ctx);
    ctx.out.open("");  // the operands' names end here
    wgmma_descriptors(ctx, w);
    if (!w.smem_a) wgmma_fragments(ctx, w);
    if (scaled) {
        wgmma_scaled(ctx, w, id);
    } else if (promoted) {
        wgmma_promoted(ctx, w, id);
    } else {
        std::string sum = name(ctx, w.result);
        const int count = registers(ctx, w.result) / 2;
        if (w.packed_sum()) {
            sum = ctx.out.fresh("sum");
            ctx.out.line("unsigned " + sum + "[" + number(count) + "];");
            each(ctx, count, [&](Ex r) {
                ctx.out.line(sum + "[" + r + "] = " + packed(ctx, name(ctx, w.result), ctx.fn.elem(w.result), r * 2) +
                             ";");
            });
        }
        std::vector<int> sums = w.sum.empty() ? all_registers(ctx, w.result) : std::vector<int>{};
        if (w.packed_sum()) sums.resize(sums.size() / 2);
        const GpuInst& gpu = ctx.fn.gpu_inst(id);
        TEGULA_CHECK(!gpu.late || (!w.sum.empty() && !w.packed_sum()),
                     "a product that is not waited for has its sum in registers of its own");
        if (gpu.late && !w.smem_a) wgmma_hold(ctx, w, held_factor(ctx, w, id));
        wgmma_run(ctx, w, sum, {0, w.pieces.size(), 0, w.steps(), from_zero, std::move(sums), gpu.late ? gpu.wait : 0});
        if (w.packed_sum())
            each(ctx, count, [&](Ex r) {
                ctx.out.line(name(ctx, w.result) + "[2 * " + r + "] = (unsigned short)" + sum + "[" + r + "];");
                ctx.out.line(name(ctx, w.result) + "[2 * " + r + " + 1] = (unsigned short)(" + sum + "[" + r +
                             "] >> 16);");
            });
    }
    ctx.out.close();
}

}  // namespace tegula::lower
