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

namespace {

constexpr const char* kPairOfWords = R"(template <class Word>
__device__ __forceinline__ void $(unsigned char* to, Word a, Word b) {
    alignas(8) Word two[2] = {a, b};
    *(uint2*)to = *(const uint2*)two;
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
    int bytes = 0;                   ///< of an element
    std::vector<int> order;          ///< tensor dimensions of the map
    std::vector<std::string> start;  ///< by tensor dimension: the warp's first element
    int along_m = 0, along_n = 0;    ///< tensor dimensions: down the accumulator's rows, along its columns
    std::string map, area, at;  ///< parameter; address of the warp's slabs; where the lane writes in a box at column 0
    std::string send;           ///< function that sends a box
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
                           "__device__ __forceinline__ void $(int lane, const TensorMap* map, unsigned from" +
                               parameters +
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
    const std::string x = ctx.out.fresh("x"), y = ctx.out.fresh("y"), warp = "(t >> 5)";
    std::string &row = s.start[static_cast<size_t>(s.along_m)], &column = s.start[static_cast<size_t>(s.along_n)];
    ctx.out.line("const int " + y + " = " + row +
                 (b.warps_m > 1 ? " + (t >> 5 & " + number(b.warps_m - 1) + ") * " + number(b.rows) : "") + ";");
    ctx.out.line("const int " + x + " = " + column +
                 (b.warps_n > 1 ? " + " + warp + " / " + number(b.warps_m) + " * " + number(b.run) : "") + ";");
    row = y;
    column = x;
    s.area = ctx.out.fresh("area");
    ctx.out.line("const unsigned " + s.area + " = shared_address(" +
                 scratch(ctx, id, "unsigned char", b.warp_bytes() * ctx.fn.gpu->warps) + ") + " + warp + " * " +
                 number(b.warp_bytes()) + ";");
    // Chunk numbers of 16 bytes are XORed with address bits 7 and up: 128 bytes per row, each row its own; 64: two rows
    // share one; 32: four.
    const int keys = b.row_bytes / 16 - 1, shift = b.row_bytes == 128 ? 0 : b.row_bytes == 64 ? 1 : 2;
    std::string lane_row = by_rows ? "(t & 31)" : matrices ? "(t & 15)" : "(t >> 2 & 7)";
    std::string chunk = by_rows        ? ""
                        : matrices     ? b.row_bytes > 16 ? "(t >> 4 & 1)" : ""
                        : s.bytes == 4 ? "(t >> 1 & 1)"
                                       : "";
    std::string inside = matrices || by_rows ? "" : s.bytes == 4 ? " + (t & 1) * 8" : " + (t & 3) * 2";
    if (b.transposed && by_rows) {
        lane_row = "0";
        inside = " + (t & 31) * " + number(s.bytes);
    } else if (b.transposed) {
        lane_row = matrices ? "((t >> 1 & 8) + (t & 7))" : "(t & 3) * 2";
        chunk = matrices ? "(t >> 3 & 1)" : "(t >> 4 & 1)";
        inside = matrices ? "" : " + (t >> 2 & 3) * 4";
    }
    const std::string key =
        keys && swizzled ? "(" + lane_row + (shift ? " >> " + number(shift) : "") + " & " + number(keys) + ")" : "";
    std::string at = lane_row + " * " + number(b.row_bytes);
    if (!chunk.empty() || !key.empty())
        at += " + ((" + chunk + (chunk.empty() || key.empty() ? "" : " ^ ") + key + ") << 4)";
    at += inside;
    s.at = ctx.out.fresh("at");
    ctx.out.line("const unsigned " + s.at + " = " + at + ";");
}

/// One statement that rounds pairs of a sum's registers and writes them: as operands or values of their own they would
/// go through all of the compiler's passes.
std::string stored_sum(const std::string& sum, const std::vector<int>& first, const std::string& pair,
                       const std::string& to, bool transposed) {
    std::string text, words;
    for (size_t i = 0; i < first.size(); ++i) {
        const std::string word = "two" + number(static_cast<int64_t>(i));
        text += "cvt.rn." + pair + ".f32 " + word + ", " + sum + number(first[i] + 1) + ", " + sum + number(first[i]) +
                "; ";
        words += (i ? ", " : "") + word;
    }
    const std::string count = number(static_cast<int64_t>(first.size()));
    return "asm volatile(\"{.reg .b32 two<" + count + ">; " + text + "stmatrix.sync.aligned.m8n8.x" + count +
           (transposed ? ".trans" : "") + ".shared.b16 [%0], {" + words + "};}\" :: \"r\"(" + to + ") : \"memory\");";
}

/// Writes and sends one box, whose first element in the first warp is (row, column).
void bulk_box(Lowering& ctx, const BulkStore& s, int64_t row, int64_t column, int64_t slab) {
    const TileLayout& l = layout(ctx, s.value);
    const std::string tile = name(ctx, s.value),
                      base = slab ? s.area + " + " + number(slab * s.boxes.slab_bytes()) : s.area;
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
    const bool rounds = def && rounded_by_store(ctx, *def);
    const auto sum = rounds ? ctx.values.sums.find(ctx.fn.operands(*def)[0].v) : ctx.values.sums.end();
    if (s.bytes == 2 && sum == ctx.values.sums.end()) ctx.formats.need("pairs");
    const auto pair = [&](int r) {
        if (!rounds) return packed(ctx, tile, f, ctx.pool.number(r));
        const ir::ValueId from = ctx.fn.operands(*def)[0];
        return pair_function(ctx, *def) + "(" + at(ctx, from, ctx.pool.number(r)) + ", " +
               at(ctx, from, ctx.pool.number(r + 1)) + ")";
    };
    const auto place = [&](int64_t c) {
        if (s.boxes.transposed) return c ? s.at + " + " + number(c * s.boxes.row_bytes) : s.at;
        return c ? "(" + s.at + " ^ " + number(c * s.bytes) + ")" : s.at;
    };
    const int64_t offset = slab * s.boxes.slab_bytes();
    const std::string bytes = s.area + "_bytes + " + (offset ? number(offset) + " + " : "");
    if (s.boxes.transposed && (s.boxes.rows == 32 || s.bytes != 2)) {
        const auto put = [&](const std::string& at, const std::string& value) {
            ctx.out.line("*(" + type_of(ctx, s.value) + "*)(" + bytes + at + ") = " + value + ";");
        };
        const std::string low = "(unsigned short)", line_bytes = " + " + number(s.boxes.row_bytes);
        for (int64_t c = 0; c < s.boxes.columns; c += s.boxes.rows == 32 ? 2 : 8)
            for (int64_t r = 0; r < (s.boxes.rows == 32 ? 1 : 16); r += 8) {
                const int first = reg(c, r);
                const std::string at =
                    (r ? "(" + s.at + " ^ 32)" : s.at) + (c ? " + " + number(c * s.boxes.row_bytes) : "");
                std::string one = tile + "[" + number(first) + "]", other = tile + "[" + number(first + 1) + "]";
                if (s.bytes == 2) {
                    const std::string two = ctx.out.fresh("two");
                    ctx.out.line("const unsigned " + two + " = " + pair(first) + ";");
                    one = low + two;
                    other = low + "(" + two + " >> 16)";
                }
                put(at, one);
                put(at + line_bytes, other);
            }
    } else if (s.boxes.rows == 32) {
        const int per = 4 / s.bytes;
        for (int64_t c = 0; c < s.boxes.columns; c += 16 / s.bytes) {
            std::string words;
            const int first = reg(c, 0);
            for (int i = 0; i < 4; ++i)
                words += (i ? ", " : "") +
                         (s.bytes == 2 ? pair(first + 2 * i) : packed(ctx, tile, f, ctx.pool.number(first + i * per)));
            ctx.out.line("*(uint4*)(" + bytes + place(c) + ") = make_uint4(" + words + ");");
        }
    } else if (s.bytes == 2) {
        const int64_t per = s.boxes.columns > 8 ? 4 : 2;
        for (int64_t c = 0; c < s.boxes.columns; c += 4 * per) {
            std::vector<int> first;
            for (int64_t i = 0; i < per; ++i) first.push_back(reg(c + i / 2 * 8, i % 2 * 8));
            const std::string to = base + " + " + place(c);
            if (sum != ctx.values.sums.end()) {
                ctx.out.line(stored_sum(sum->second, first, ctx.fn.type(s.value).elem == Fmt::bf16 ? "bf16x2" : "f16x2",
                                        to, s.boxes.transposed));
                continue;
            }
            std::string words;
            for (int r : first) words += ", " + pair(r);
            ctx.out.line("stmatrix_x" + number(per) + (s.boxes.transposed ? "_trans(" : "(") + to + words + ");");
        }
    } else {
        const std::string to = ctx.out.fresh("to");
        ctx.out.line("unsigned char* const " + to + " = " + s.area + "_bytes" + (offset ? " + " + number(offset) : "") +
                     ";");
        for (int64_t c = 0; c < s.boxes.columns; c += 8)
            for (int64_t r = 0; r < 16; r += 8) {
                const int first = reg(c, r);
                const std::string p = to + " + " + place(c) + (r ? " + " + number(8 * s.boxes.row_bytes) : "");
                if (s.bytes == 4)
                    ctx.out.line(support(ctx, "pair of words", "put_two", kPairOfWords) + "(" + p + ", " + tile +
                                 "[" + number(first) + "], " + tile + "[" + number(first + 1) + "]);");
                else
                    ctx.out.line("*(unsigned short*)(" + p + ") = (unsigned short)((unsigned char)" + tile + "[" +
                                 number(first) + "] | (unsigned char)" + tile + "[" + number(first + 1) + "] << 8);");
            }
    }
    ctx.out.line("fence_async();");
    ctx.out.line("__syncwarp();");
    std::string coordinates;
    for (int d : s.order) {
        const int64_t plus = d == s.along_n ? column : d == s.along_m ? row : 0;
        coordinates += ", " + s.start[static_cast<size_t>(d)] + (plus ? " + " + number(plus) : "");
    }
    ctx.out.line(s.send + "(t & 31, &" + s.map + ", " + base + coordinates + ");");
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
    ctx.out.open("");
    bulk_addresses(ctx, s, id);
    s.send = inst.op == Op::store
                 ? bulk_function(ctx, id, Bulk::store, s.order.size())
                 : bulk_reduction(ctx, static_cast<ir::AtomicKind>(ctx.fn.attrs(inst)[1]), s.order.size());
    if (s.bytes != 2 || s.boxes.rows == 32)
        ctx.out.line("unsigned char* const " + s.area +
                     "_bytes = " + scratch(ctx, id, "unsigned char", s.boxes.warp_bytes() * ctx.fn.gpu->warps) +
                     " + (t >> 5) * " + number(s.boxes.warp_bytes()) + ";");
    const Shape& shape = ctx.fn.type(s.value).shape;
    int sent = 0;
    for (int64_t row = 0; row < shape[s.boxes.turned]; row += int64_t{s.boxes.rows} * s.boxes.warps_m)
        for (int64_t column = 0; column < shape[!s.boxes.turned]; column += s.boxes.columns) {
            if (column % (s.boxes.run * s.boxes.warps_n) >= s.boxes.run) continue;  // of another warp
            if (sent >= s.boxes.slabs) {
                ctx.out.line("tma_store_read<" + number(s.boxes.slabs - 1) + ">();");
                ctx.out.line("__syncwarp();");
            }
            bulk_box(ctx, s, row, column, sent++ % s.boxes.slabs);
        }
    ctx.out.line(is_last_access(ctx, id) ? "tma_store_read<0>();" : "tma_store_done();");
    ctx.out.line("__syncwarp();");
    ctx.out.close();
}

}  // namespace tegula::lower
