// Bulk stores and atomics (GpuInst::bulk): every warp writes its rows and columns of an accumulator into boxes of 16
// rows (32 where each lane holds one, after tensor memory) in shared memory, swizzled so that no banks conflict, and
// one lane sends each box by TMA while the next one is written. Where the accumulator's columns are contiguous in
// memory, boxes lie transposed. Nothing is said about the tensor's edges: the hardware leaves out what lies beyond.
// Which registers hold what is lang/tile_layout.h's mma_accumulator and tensor_memory_rows; sizes are store_boxes of
// lang/gpu/scratch.h.
#include <algorithm>

#include "lower/kernel/access/access.h"
#include "lower/kernel/channel/channel.h"
#include "lower/kernel/control/control.h"
#include "lower/kernel/move/move.h"
#include "lower/kernel/packed/packed.h"
#include "lower/kernel/product/product.h"
#include "lower/kernel/values.h"

namespace tegula::lower {

using ir::Op;
using kernel::KernelOp;

namespace {

constexpr const char* kPairOfWords = R"(template <class Word>
__device__ __forceinline__ uint2 $(Word a, Word b) {
    alignas(8) const Word two[2] = {a, b};
    return *(const uint2*)two;
}
)";
/// What comes in its next trip is another program, which must not need what this one writes.
bool is_loop_over_programs(const ir::Function& fn, ir::InstId loop) {
    const ir::InstId around = fn.block(fn.inst(loop).parent).owner;
    return fn.gpu->persistent && (!around.valid() || fn.inst(around).op == Op::specialise);
}

}  // namespace

struct BulkStore {
    StoreBoxes boxes;
    ir::ValueId value;
    int bytes = 0;                 ///< of an element
    std::vector<int> order;        ///< tensor dimensions of the map
    std::vector<Ex> start;         ///< by tensor dimension: the warp's first element
    int along_m = 0, along_n = 0;  ///< tensor dimensions: down the accumulator's rows, along its columns
    std::string map, send;         ///< parameter; function that sends a box
    Ex area, pointer;              ///< the warp's slabs: address, pointer
    Ex at;                         ///< where the lane writes in a box at column 0
};

bool reads_memory(const Lowering& ctx, ir::BlockId block, size_t from) {
    const auto& insts = ctx.fn.block(block).insts;
    return std::any_of(insts.begin() + static_cast<std::ptrdiff_t>(from), insts.end(), [&](ir::InstId id) {
        const auto blocks = ctx.fn.blocks(ctx.fn.inst(id));
        return (ir::op_row(ctx.fn.inst(id).op).traits & ir::READS) ||
               std::any_of(blocks.begin(), blocks.end(), [&](ir::BlockId b) { return reads_memory(ctx, b, 0); });
    });
}

bool is_last_access(const Lowering& ctx, ir::InstId store) {
    for (ir::InstId id = store; id.valid(); id = ctx.fn.block(ctx.fn.inst(id).parent).owner) {
        if (ctx.fn.inst(id).op == Op::for_loop || ctx.fn.inst(id).op == Op::while_loop)
            return is_loop_over_programs(ctx.fn, id);
        const auto& insts = ctx.fn.block(ctx.fn.inst(id).parent).insts;
        if (reads_memory(ctx, ctx.fn.inst(id).parent,
                         static_cast<size_t>(std::find(insts.begin(), insts.end(), id) - insts.begin()) + 1))
            return false;
    }
    return true;
}

/// The function that sends a box to be combined with what is in memory; out-of-range elements are left alone. Its
/// arguments are tma_store's.
std::string bulk_reduction(Lowering& ctx, ir::AtomicKind kind, size_t rank) {
    static constexpr const char* kNames[] = {"add", "max", "min", "and", "or", "xor"};
    const std::string name = kNames[static_cast<size_t>(kind)], dims = number(static_cast<int64_t>(rank)) + "d";
    std::string parameters, coordinates, operands;
    for (size_t i = 0; i < rank; ++i) {
        const std::string x = "x" + number(static_cast<int64_t>(i));
        parameters += ", int " + x;
        coordinates += (i ? ", %" : "%") + number(static_cast<int64_t>(i) + 3);
        operands += ", \"r\"(" + x + ")";
    }
    return support(ctx, "tma_reduce " + name + dims, "tma_reduce_" + name,
                   "__device__ __forceinline__ void $(int lane, const TensorMap* map, unsigned from" + parameters +
                       ") {\n    asm volatile(\n        \"{\\n.reg .pred other;\\nsetp.ne.b32 other, %0, "
                       "0;\\n@!other cp.reduce.async.bulk.tensor." +
                       dims + ".global.shared::cta." + name + ".bulk_group [%1, {" + coordinates +
                       "}], [%2];\\n\"\n        \"@!other cp.async.bulk.commit_group;\\n}\" ::\"r\"(lane), "
                       "\"l\"(map), \"r\"(from)" +
                       operands + "\n        : \"memory\");\n}\n");
}

/// Where the warp's part starts in the tensor, and the lane's in a box.
void bulk_addresses(Lowering& ctx, BulkStore& s, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const ir::Access access = ctx.fn.access(inst);
    const StoreBoxes& b = s.boxes;
    std::vector<int> axes;
    for (size_t d = 0; d < access.axes.size(); ++d)
        if (access.axes[d].kind != ir::Access::index) axes.push_back(static_cast<int>(d));
    s.along_m = axes[b.turned ? 1 : 0];
    s.along_n = axes[b.turned ? 0 : 1];
    const auto is_map = [](const auto& c) { return c.second.tensor_map >= 0; };
    const auto slot =
        std::max(ctx.kernel.tensor_maps.size(),
                 static_cast<size_t>(std::count_if(ctx.fn.gpu->channels.begin(), ctx.fn.gpu->channels.end(), is_map)));
    const bool by_rows = b.rows == 32, matrices = s.bytes == 2,
               swizzled = b.row_bytes > 16 && !(b.transposed && by_rows);
    s.map = b.transposed
                ? bulk_map(ctx, inst, slot, {s.along_m, s.along_n}, {b.rows, b.columns}, swizzled ? b.row_bytes : 0)
                : bulk_map(ctx, inst, slot, {s.along_n, s.along_m}, {b.columns, b.rows}, swizzled ? b.row_bytes : 0);
    s.order = ctx.kernel.tensor_maps[slot].order;
    s.start = bulk_start(ctx, inst);
    const auto variable = [&](kernel::Type type, const char* stem) { return ctx.pool.name(type, ctx.out.fresh(stem)); };
    const Ex x = variable(kernel::Type::i32, "x"), y = variable(kernel::Type::i32, "y"), t = ctx.thread, warp = t >> 5;
    Ex &row = s.start[static_cast<size_t>(s.along_m)], &column = s.start[static_cast<size_t>(s.along_n)];
    ctx.out.let("int", y.text(), b.warps_m > 1 ? row + (warp & (b.warps_m - 1)) * b.rows : row);
    ctx.out.let("int", x.text(), b.warps_n > 1 ? column + warp / b.warps_m * b.run : column);
    row = y;
    column = x;
    s.area = variable(kernel::Type::u32, "area");
    const std::string slabs = scratch(ctx, id, "unsigned char", b.warp_bytes() * ctx.fn.gpu->warps);
    s.pointer = ctx.pool.text(kernel::Type::other, slabs, true);
    ctx.out.let("unsigned", s.area.text(), address_of(s.pointer) + warp * b.warp_bytes());
    // Chunk numbers of 16 bytes are XORed with address bits 7 and up: 128 bytes per row, each row its own; 64: two rows
    // share one; 32: four.
    const int keys = b.row_bytes / 16 - 1, shift = b.row_bytes == 128 ? 0 : b.row_bytes == 64 ? 1 : 2;
    const Ex none = ctx.pool.number(0);
    Ex lane_row = by_rows ? t & 31 : matrices ? t & 15 : t >> 2 & 7;
    Ex chunk = by_rows || (matrices && b.row_bytes <= 16) ? none
               : matrices                                 ? t >> 4 & 1
               : s.bytes == 4                             ? t >> 1 & 1
                                                          : none;
    Ex inside = matrices || by_rows ? none : s.bytes == 4 ? (t & 1) * 8 : (t & 3) * 2;
    if (b.transposed && by_rows) {
        lane_row = none;
        inside = (t & 31) * s.bytes;
    } else if (b.transposed) {
        lane_row = matrices ? (t >> 1 & 8) + (t & 7) : (t & 3) * 2;
        chunk = matrices ? t >> 3 & 1 : t >> 4 & 1;
        inside = matrices ? none : (t >> 2 & 3) * 4;
    }
    if (swizzled) chunk = chunk.is(0) ? lane_row >> shift & keys : chunk ^ (lane_row >> shift & keys);
    s.at = variable(kernel::Type::u32, "at");
    ctx.out.let("unsigned", s.at.text(), lane_row * b.row_bytes + (chunk << 4) + inside);
}

/// One statement that rounds pairs of a sum's registers and writes them: as operands or values of their own they would
/// go through all of the compiler's passes.
void store_sum(Lowering& ctx, const std::string& sum, const std::vector<int>& first, const char* pair, Ex to,
               bool transposed) {
    std::string text, words;
    for (size_t i = 0; i < first.size(); ++i) {
        const std::string word = "two" + number(static_cast<int64_t>(i));
        text += "cvt.rn." + std::string(pair) + ".f32 " + word + ", " + sum + number(first[i] + 1) + ", " + sum +
                number(first[i]) + "; ";
        words += (i ? ", " : "") + word;
    }
    const std::string count = number(static_cast<int64_t>(first.size()));
    const std::string statement = "\"{.reg .b32 two<" + count + ">; " + text + "stmatrix.sync.aligned.m8n8.x" + count +
                                  (transposed ? ".trans" : "") + ".shared.b16 [%0], {" + words + "};}\"";
    ctx.out.call(KernelOp::stmatrix_named,
                 {ctx.pool.text(kernel::Type::other, statement, true), to, ctx.pool.name(kernel::Type::other, sum)});
}

KernelOp stmatrix(bool four, bool transposed) {
    if (four) return transposed ? KernelOp::stmatrix_x4_trans : KernelOp::stmatrix_x4;
    return transposed ? KernelOp::stmatrix_x2_trans : KernelOp::stmatrix_x2;
}

/// Writes and sends one box, whose first element in the first warp is (row, column).
void bulk_box(Lowering& ctx, const BulkStore& s, int64_t row, int64_t column, int64_t slab) {
    const TileLayout& l = layout(ctx, s.value);
    const int64_t offset = slab * s.boxes.slab_bytes();
    const std::string tile = name(ctx, s.value);
    const Ex base = s.area + offset;
    const Format& f = ctx.fn.elem(s.value);
    const auto reg = [&](int64_t c, int64_t r) {
        TileLayout::Point p{};
        p[s.boxes.turned] = row + r;
        p[!s.boxes.turned] = column + c;
        const int found = l.find_register(p, 0, 0);
        TEGULA_CHECK(found >= 0, "a bulk store's tile lies as no product's sums do");
        return found;
    };
    const ir::Inst* def = ctx.fn.def(s.value);
    const bool rounds = ctx.plan.has(KernelPass::round_in_store, s.value);
    const auto sum = rounds ? ctx.values.sums.find(ctx.fn.operands(*def)[0].v) : ctx.values.sums.end();
    if (s.bytes == 2 && sum == ctx.values.sums.end()) ctx.formats.need("pairs");
    const auto pair = [&](int r) {
        if (!rounds) return packed(ctx, tile, f, ctx.pool.number(r));
        const ir::ValueId from = ctx.fn.operands(*def)[0];
        return pair_function(ctx, *def) + "(" + text_at(ctx, from, ctx.pool.number(r)) + ", " +
               text_at(ctx, from, ctx.pool.number(r + 1)) + ")";
    };
    const auto word = [&](int r) { return ctx.pool.text(kernel::Type::u32, pair(r), false); };
    const auto place = [&](int64_t c) {
        return s.boxes.transposed ? s.at + c * s.boxes.row_bytes : s.at ^ c * s.bytes;
    };
    const auto store = [&](const char* type, Ex to, const std::string& value) {
        ctx.out.call(KernelOp::store_shared, {ctx.pool.text(kernel::Type::other, type, true), to,
                                              ctx.pool.text(kernel::Type::other, value, false)});
    };
    const auto one = [&](int r) { return tile + "[" + number(r) + "]"; };
    if (s.boxes.transposed && (s.boxes.rows == 32 || s.bytes != 2)) {
        for (int64_t c = 0; c < s.boxes.columns; c += s.boxes.rows == 32 ? 2 : 8)
            for (int64_t r = 0; r < (s.boxes.rows == 32 ? 1 : 16); r += 8) {
                const int first = reg(c, r);
                const Ex to = s.pointer + offset + (r ? s.at ^ 32 : s.at) + c * s.boxes.row_bytes;
                std::string low = one(first), high = one(first + 1);
                if (s.bytes == 2) {
                    const std::string two = ctx.out.fresh("two");
                    ctx.out.let("unsigned", two, word(first));
                    low = "(unsigned short)" + two;
                    high = "(unsigned short)(" + two + " >> 16)";
                }
                store_to_shared(ctx, s.value, to, low);
                store_to_shared(ctx, s.value, to + s.boxes.row_bytes, high);
            }
    } else if (s.boxes.rows == 32) {
        const int per = 4 / s.bytes;
        for (int64_t c = 0; c < s.boxes.columns; c += 16 / s.bytes) {
            std::string words;
            const int first = reg(c, 0);
            for (int i = 0; i < 4; ++i)
                words += (i ? ", " : "") +
                         (s.bytes == 2 ? pair(first + 2 * i) : packed(ctx, tile, f, ctx.pool.number(first + i * per)));
            store("uint4", s.pointer + offset + place(c), "make_uint4(" + words + ")");
        }
    } else if (s.bytes == 2) {
        const int64_t per = s.boxes.columns > 8 ? 4 : 2;
        for (int64_t c = 0; c < s.boxes.columns; c += 4 * per) {
            std::vector<int> first;
            for (int64_t i = 0; i < per; ++i) first.push_back(reg(c + i / 2 * 8, i % 2 * 8));
            const Ex to = base + place(c);
            if (sum != ctx.values.sums.end()) {
                const bool brain = ctx.fn.type(s.value).elem == Fmt::bf16;
                store_sum(ctx, sum->second, first, brain ? "bf16x2" : "f16x2", to, s.boxes.transposed);
                continue;
            }
            std::vector<Ex> operands{to};
            for (int r : first) operands.push_back(word(r));
            ctx.out.call(stmatrix(per == 4, s.boxes.transposed), std::move(operands));
        }
    } else {
        const Ex to = ctx.pool.name(kernel::Type::other, ctx.out.fresh("to"));
        ctx.out.let_pointer("unsigned char", to.text(), s.pointer + offset);
        for (int64_t c = 0; c < s.boxes.columns; c += 8)
            for (int64_t r = 0; r < 16; r += 8) {
                const int first = reg(c, r);
                const std::string low = one(first), high = one(first + 1);
                const Ex p = to + place(c) + r * s.boxes.row_bytes;
                if (s.bytes == 4)
                    store("uint2", p,
                          support(ctx, "pair of words", "two_words", kPairOfWords) + "(" + low + ", " + high + ")");
                else
                    store("unsigned short", p,
                          "(unsigned short)((unsigned char)" + low + " | (unsigned char)" + high + " << 8)");
            }
    }
    ctx.out.call(KernelOp::fence_async);
    ctx.out.call(KernelOp::meet_warp);
    std::vector<Ex> operands{ctx.pool.name(kernel::Type::other, s.send), ctx.thread & 31, address_of_map(ctx, s.map),
                             base};
    for (int d : s.order)
        operands.push_back(s.start[static_cast<size_t>(d)] + (d == s.along_n ? column : d == s.along_m ? row : 0));
    ctx.out.call(KernelOp::tma_store, std::move(operands));
}

void bulk_store(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    for (const char* section : {"shared", "fence_async", "tma_store"}) ctx.formats.need(section);
    BulkStore s;
    s.value = ctx.fn.operands(inst).back();
    s.bytes = static_cast<int>(ctx.fn.elem(s.value).container_bytes());
    const auto boxes = store_boxes(ctx.fn, inst);
    TEGULA_CHECK(boxes && ctx.fn.access(inst).plain(), "a bulk store of a tile that no boxes hold");
    s.boxes = *boxes;
    if (boxes->transposed) ctx.formats.need("stmatrix_trans");
    converge(ctx);
    ctx.out.open_block();
    bulk_addresses(ctx, s, id);
    s.send = inst.op == Op::store
                 ? bulk_function(ctx, id, Bulk::store, s.order.size())
                 : bulk_reduction(ctx, static_cast<ir::AtomicKind>(ctx.fn.attrs(inst)[1]), s.order.size());
    if (s.bytes != 2 || s.boxes.rows == 32) {
        const Ex slabs = s.pointer;
        s.pointer = ctx.pool.name(kernel::Type::other, s.area.text() + "_bytes");
        ctx.out.let_pointer("unsigned char", s.pointer.text(), slabs + (ctx.thread >> 5) * s.boxes.warp_bytes());
    }
    const Shape& shape = ctx.fn.type(s.value).shape;
    int sent = 0;
    for (int64_t row = 0; row < shape[s.boxes.turned]; row += int64_t{s.boxes.rows} * s.boxes.warps_m)
        for (int64_t column = 0; column < shape[!s.boxes.turned]; column += s.boxes.columns) {
            if (column % (s.boxes.run * s.boxes.warps_n) >= s.boxes.run) continue;  // of another warp
            if (sent >= s.boxes.slabs) {
                ctx.out.call(KernelOp::tma_store_read, {ctx.pool.number(s.boxes.slabs - 1)});
                ctx.out.call(KernelOp::meet_warp);
            }
            bulk_box(ctx, s, row, column, sent++ % s.boxes.slabs);
        }
    if (is_last_access(ctx, id))
        ctx.out.call(KernelOp::tma_store_read, {ctx.pool.number(0)});
    else
        ctx.out.call(KernelOp::tma_store_done);
    ctx.out.call(KernelOp::meet_warp);
    ctx.out.close();
}

}  // namespace tegula::lower
