// Channels and the two roles around them. A channel copied by TMA has a full and an empty mbarrier per stage: the
// producer (one thread of the last warp group) waits for an empty stage, says how many bytes will land and starts the
// copies; every thread that computes waits for them, and one lane per warp gives the stage back. Both sides count
// stages and phases themselves, so that any control flow around puts and gets works. Channels copied by the threads
// that compute are in channel/copy.cpp.
#include <algorithm>

#include "lang/gpu/bulk_boxes.h"
#include "lang/gpu/hints.h"
#include "lower/kernel/access/access.h"
#include "lower/kernel/channel/channel.h"
#include "lower/kernel/control/control.h"
#include "lower/kernel/move/move.h"
#include "lower/kernel/product/fragments.h"
#include "lower/kernel/values.h"

namespace tegula::lower {

using ir::Op;

namespace {

constexpr int64_t kStageAlign = 1024;

/// Tensor dimension of each tile dimension.
std::vector<int> tile_axes(const ir::Access& access) {
    std::vector<int> out;
    for (size_t d = 0; d < access.axes.size(); ++d)
        if (access.axes[d].kind != ir::Access::index) out.push_back(static_cast<int>(d));
    return out;
}

}  // namespace

// ---- rings ----

/// In every block the channel's gets and releases alternate, and nothing nested between them touches it.
bool always_paired(const Lowering& ctx, ir::ValueId channel) {
    for (uint32_t b = 0; b < ctx.fn.block_count(); ++b) {
        bool taken = false;
        for (ir::InstId id : ctx.fn.block(ir::BlockId{b}).insts) {
            const ir::Inst& inst = ctx.fn.inst(id);
            const bool get = inst.op == Op::channel_get, release = inst.op == Op::channel_release;
            if ((get || release) && ctx.fn.operands(inst)[0] == channel) {
                if (taken == get || (release && ctx.fn.gpu_inst(id).late)) return false;
                taken = get;
            } else if (taken && inst.blocks.count > 0 && touches(ctx, id, channel)) {
                return false;
            }
        }
        // What a block that runs once keeps to its end is never asked for again.
        const ir::InstId owner = ctx.fn.block(ir::BlockId{b}).owner;
        if (taken && owner.valid() && ctx.fn.inst(owner).op != Op::specialise) return false;
    }
    return true;
}

bool touches(const Lowering& ctx, ir::InstId region, ir::ValueId channel) {
    for (ir::BlockId b : ctx.fn.blocks(ctx.fn.inst(region)))
        for (ir::InstId id : ctx.fn.block(b).insts) {
            const ir::Inst& inst = ctx.fn.inst(id);
            if ((inst.op == Op::channel_get || inst.op == Op::channel_release) && ctx.fn.operands(inst)[0] == channel)
                return true;
            if (inst.blocks.count > 0 && touches(ctx, id, channel)) return true;
        }
    return false;
}

std::string stage_address(const Ring& ring, const std::string& stage) {
    const std::string base = "shared + " + number(ring.form->offset);
    return ring.form->stages == 1 ? base : base + " + " + stage + " * " + number(ring.pitch);
}

void advance(Lowering& ctx, const std::string& stage, const std::string& phase, int stages) {
    if (stages == 1) {
        if (!phase.empty()) ctx.out.line(phase + " ^= 1;");
        return;
    }
    ctx.out.line("if (++" + stage + " == " + number(stages) + ") " + stage + " = 0" +
                 (phase.empty() ? "" : ", " + phase + " ^= 1") + ";");
}

void ring_state(Lowering& ctx, bool producer, bool consumer) {
    for (auto& [value, r] : ctx.channels.rings) {
        const bool tma = r.form->tensor_map >= 0, several = r.form->stages > 1;
        const auto counter = [&](const std::string& stem, bool wanted) {
            const std::string v = ctx.out.fresh(stem);
            if (wanted) ctx.out.line("[[maybe_unused]] unsigned " + v + " = 0;");
            return v;
        };
        if (producer) {
            r.put = counter("put", several);
            if (tma) r.put_phase = counter("put_phase", true);
            if (!tma) r.ahead = counter("ahead", true);
        }
        if (consumer) {
            r.get = counter("get", several);
            if (tma) r.get_phase = counter("get_phase", true);
            if (!r.paired) r.release = counter("release", several);
        }
    }
}

void lower_channel(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const ir::ValueId v = ctx.fn.result(inst);
    Ring& r = ctx.channels.rings[v.v];
    for (const auto& [value, form] : ctx.fn.gpu->channels)
        if (value == v.v) r.form = &form;
    TEGULA_CHECK(r.form && r.form->offset % kStageAlign == 0, "a channel without a place");
    r.pitch = (r.form->layout.bytes() + kStageAlign - 1) / kStageAlign * kStageAlign;
    r.paired = always_paired(ctx, v);
    if (r.form->tensor_map >= 0) {
        for (const char* section : {"shared", "mbarrier", "tma"}) ctx.formats.need(section);
        const int64_t stages = r.form->stages, at = take_shared(ctx, "barriers", "a ring", 16 * stages, 8);
        TEGULA_CHECK(ctx.kernel.shared_bytes <= ctx.fn.gpu->arch->shared_bytes, "no room for the barriers of channels");
        r.full = ctx.out.fresh("full");
        r.empty = ctx.out.fresh("empty");
        ctx.out.line("const unsigned " + r.full + " = shared_address(shared + " + number(at) + "), " + r.empty + " = " +
                     r.full + " + " + number(8 * stages) + ";");
        ctx.out.open("if (t == 0)");
        ctx.out.line("#pragma unroll 1");
        ctx.out.open("for (int s = 0; s < " + number(stages) + "; ++s)");
        ctx.out.line("mbarrier_init(" + r.full + " + 8 * s, 1);");
        const int arrivals = ctx.late.products.gives_back(v) ? 1 : ctx.fn.gpu->warps * ctx.fn.gpu->sharers(*r.form);
        ctx.out.line("mbarrier_init(" + r.empty + " + 8 * s, " + number(arrivals) + ");");
        ctx.out.close();
        ctx.out.line("mbarrier_init_fence();");
        ctx.out.close();
        if (r.form->multicast) share_ring(ctx, r);
    }
    const std::vector<ir::InstId>& list = ctx.fn.block(inst.parent).insts;
    const auto next = std::find(list.begin(), list.end(), id) + 1;
    if (next != list.end() && ctx.fn.inst(*next).op == Op::channel) return;
    const bool tma = std::any_of(ctx.channels.rings.begin(), ctx.channels.rings.end(),
                                 [](const auto& e) { return e.second.form->tensor_map >= 0; });
    if (clustered(ctx)) {  // barriers of peers are there, too
        ctx.out.line("cluster_arrive();");
        ctx.out.line("cluster_wait();");
    } else if (tma) {
        ctx.out.line("__syncthreads();");
    }
    if (!ctx.fn.gpu->specialised) ring_state(ctx, true, true);
}

void lower_specialise(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const auto exchange = register_exchange(ctx.fn);
    if (exchange) ctx.formats.need("registers");
    // Compilers have to see that all lanes take the same side, to keep scalars of a role in uniform registers: as warps
    // that exchange registers do.
    const bool apart = exchange || shared_programs(ctx.fn) == 1;
    ctx.out.open(apart ? "if (t >= " + number(group_threads(ctx)) + ")"
                       : "if (__shfl_sync(0xffffffffu, t >> 5, 0) >= " + number(group_threads(ctx) / 32) + ")");
    if (exchange) ctx.out.line("fewer_registers<" + number(exchange->producer) + ">();");
    ctx.out.open("if (t == " + number(group_threads(ctx)) + ")");
    ring_state(ctx, true, false);
    block(ctx, ctx.fn.blocks(inst)[0]);
    ctx.out.close();
    if (clustered(ctx)) ctx.out.line("cluster_arrive();");
    ctx.out.otherwise();
    if (exchange) ctx.out.line("more_registers<" + number(exchange->others) + ">();");
    ring_state(ctx, false, true);
    clustered(ctx) ? block_in_cluster(ctx, ctx.fn.blocks(inst)[1]) : block(ctx, ctx.fn.blocks(inst)[1]);
    ctx.out.close();
    if (clustered(ctx)) ctx.out.line("cluster_wait();");
}

// ---- puts, gets, releases ----

void lower_channel_put(Lowering& ctx, ir::InstId id) {
    Ring& r = ring(ctx, ctx.fn.operands(ctx.fn.inst(id)).back());
    if (r.form->tensor_map >= 0)
        tma_put(ctx, id, r);
    else
        thread_put(ctx, id, r);
}

std::vector<std::string> bulk_start(Lowering& ctx, const ir::Inst& inst) {
    const ir::Access access = ctx.fn.access(inst);
    std::vector<std::string> start(access.axes.size(), "0");
    size_t operand = 1;
    for (size_t d = 0; d < access.axes.size(); ++d) {
        if (access.axes[d].kind == ir::Access::all) continue;
        const std::string index = name(ctx, ctx.fn.operands(inst)[operand++]);
        start[d] = access.axes[d].in_bounds ? "(int)" + index : "tma_coordinate(" + index + ")";
    }
    return start;
}

std::string bulk_map(Lowering& ctx, const ir::Inst& inst, size_t slot, std::array<int, 2> dims,
                     std::array<int64_t, 2> box, int swizzle) {
    TensorMap map;
    map.param = param_number(ctx, ctx.fn.operands(inst)[0]);
    map.swizzle = swizzle;
    const auto dimension = [&](int d, int64_t extent) {
        map.order.push_back(d);
        map.box.push_back(static_cast<uint32_t>(extent));
    };
    dimension(dims[0], box[0]);
    if (dims[1] >= 0) dimension(dims[1], box[1]);
    for (int d = static_cast<int>(ctx.fn.access(inst).axes.size()) - 1; d >= 0; --d)
        if (d != dims[0] && d != dims[1]) dimension(d, 1);
    if (ctx.kernel.tensor_maps.size() <= slot) ctx.kernel.tensor_maps.resize(slot + 1);
    ctx.kernel.tensor_maps[slot] = map;
    return parameter(ctx, KernelParam::tensor_map, map.param, static_cast<int>(slot),
                     "const __grid_constant__ TensorMap", "map");
}

void tma_put(Lowering& ctx, ir::InstId id, Ring& r) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const SharedLayout& l = r.form->layout;
    const std::vector<int> axes = tile_axes(ctx.fn.access(inst));
    const auto boxes = bulk_boxes(l, r.sharers);
    TEGULA_CHECK(boxes && axes.size() == l.shape.rank, "a bulk copy that no boxes make");
    const int contiguous = axes[static_cast<size_t>(l.contiguous)],
              across = l.shape.rank == 1 ? -1 : axes[static_cast<size_t>(l.across())];
    const std::vector<std::string> start = bulk_start(ctx, inst);
    const std::string parameter_name = bulk_map(ctx, inst, static_cast<size_t>(r.form->tensor_map),
                                                {contiguous, across}, {boxes->columns, boxes->rows}, l.swizzle);
    const std::vector<int>& order = ctx.kernel.tensor_maps[static_cast<size_t>(r.form->tensor_map)].order;

    const bool alone = !ctx.fn.gpu->specialised;
    if (alone) ctx.out.open("if (t == 0)");
    const std::string at = r.form->stages == 1 ? "" : " + 8 * " + r.put;
    ctx.out.line("mbarrier_wait(" + r.empty + at + ", " + r.put_phase + " ^ 1);");
    ctx.out.line("mbarrier_expect(" + r.full + at + ", " + number(l.shape.elements() * l.elem_bytes) + ");");
    const std::string to = ctx.out.fresh("to"),
                      part = r.sharers > 1 ? " + " + r.part + " * " + number(boxes->part_bytes) : "";
    ctx.out.line("const unsigned " + to + " = shared_address(" + stage_address(r, r.put) + ")" + part + ";");
    const std::string copy = bulk_function(ctx, id, r.sharers > 1 ? Bulk::multicast : Bulk::load, order.size()) +
                             (r.sharers > 1 ? "(" + r.mask + ", " : "(");
    const auto box = [&](const TileLayout::Point& batch, int64_t panel, int64_t row) {
        const int64_t offset = l.address(batch) + panel * l.panel_bytes() + row * boxes->rows * l.row_bytes();
        std::vector<int64_t> plus(start.size());
        for (size_t d = 0; d + 2 < l.shape.rank; ++d) plus[static_cast<size_t>(axes[d])] = batch[d];
        plus[static_cast<size_t>(contiguous)] = panel * boxes->columns;
        if (across >= 0) plus[static_cast<size_t>(across)] = row * boxes->rows;
        std::string coordinates;
        for (int d : order) {
            const int64_t step = r.sharers == 1    ? 0
                                 : d == contiguous ? boxes->part_columns
                                 : d == across     ? boxes->part_rows
                                                   : 0;
            const int64_t more = plus[static_cast<size_t>(d)];
            coordinates += ", " + start[static_cast<size_t>(d)] +
                           (step ? " + (int)" + r.part + " * " + number(step) : "") +
                           (more ? " + " + number(more) : "");
        }
        ctx.out.line(copy + to + (offset ? " + " + number(offset) : "") + ", &" + parameter_name + ", " + r.full + at +
                     coordinates + ");");
    };
    for (const TileLayout::Point& batch : batch_points(l.shape))
        for (int64_t panel = 0; panel < boxes->panels; ++panel)
            for (int64_t row = 0; row < boxes->row_boxes; ++row) box(batch, panel, row);
    if (alone) ctx.out.close();
    advance(ctx, r.put, r.put_phase, r.form->stages);
}

void lower_channel_get(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    Ring& r = ring(ctx, ctx.fn.operands(inst)[0]);
    const bool by_product = ctx.late.products.gives_back(ctx.fn.operands(inst)[0]);  // its thread alone waits
    if (r.form->tensor_map >= 0)
        ctx.out.line(std::string(by_product ? "if (t == 0) " : "") + "mbarrier_wait(" + r.full +
                     (r.form->stages == 1 ? "" : " + 8 * " + r.get) + ", " + r.get_phase + ");");
    else if (!continues(ctx, id, false))
        wait_for_copies(ctx, id);
    if (r.form->own)
        own_get(ctx, id, r);
    else
        ctx.out.line("unsigned char* const " + name(ctx, ctx.fn.result(inst)) + " = " + stage_address(r, r.get) + ";");
    if (r.form->tensor_map < 0) ctx.out.line("--" + r.ahead + ";");
    if (!r.paired) advance(ctx, r.get, r.get_phase, r.form->stages);
}

void lower_channel_release(Lowering& ctx, ir::InstId id) {
    if (ctx.channels.released.erase(id.v)) return;
    const bool first = ctx.fn.gpu_inst(id).late && !ctx.late.later_trip.empty();
    if (first) ctx.out.open("if (" + ctx.late.later_trip + ")");
    give_back(ctx, id);
    if (first) ctx.out.close();
}

void give_back(Lowering& ctx, ir::InstId id) {
    Ring& r = ring(ctx, ctx.fn.operands(ctx.fn.inst(id))[0]);
    const std::string stage = r.paired ? r.get : r.release;
    const std::string empty = r.empty + (r.form->stages == 1 ? "" : " + 8 * " + stage);
    if (ctx.late.products.gives_back(ctx.fn.operands(ctx.fn.inst(id))[0])) {
        ctx.out.line("if (t == 0) products_commit(" + empty + ");");
    } else if (r.form->tensor_map >= 0) {
        ctx.out.line("__syncwarp();");
        if (r.sharers > 1)
            ctx.out.line("if ((t & 31) < " + number(r.sharers) + ") mbarrier_arrive_at(" + r.peer_empty +
                         (r.form->stages == 1 ? "" : " + 8 * " + stage) + ");");
        else
            ctx.out.line("if ((t & 31) == 0) mbarrier_arrive(" + empty + ");");
    }
    advance(ctx, stage, r.paired ? r.get_phase : "", r.form->stages);
}

}  // namespace tegula::lower
