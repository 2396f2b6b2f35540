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
using kernel::KernelOp;

namespace {

constexpr int64_t kStageAlign = 1024;

/// Tensor dimension of each tile dimension.
std::vector<int> tile_axes(const ir::Access& access) {
    std::vector<int> out;
    for (size_t d = 0; d < access.axes.size(); ++d)
        if (access.axes[d].kind != ir::Access::index) out.push_back(static_cast<int>(d));
    return out;
}

/// The barrier of a stage.
Ex barrier_of(const Ring& ring, Ex first, Ex stage) { return ring.form->stages == 1 ? first : first + stage * 8; }

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

Ex stage_address(const Ring& ring, Ex stage) {
    const Ex base = stage->pool->name(kernel::Type::other, "shared") + ring.form->offset;
    return ring.form->stages == 1 ? base : base + stage * ring.pitch;
}

void advance(Lowering& ctx, Ex stage, Ex phase, int stages) {
    if (stages > 1 && phase)
        ctx.out.call(KernelOp::advance, {stage, ctx.pool.number(stages), phase});
    else if (stages > 1)
        ctx.out.call(KernelOp::advance_stage, {stage, ctx.pool.number(stages)});
    else if (phase)
        ctx.out.call(KernelOp::advance_phase, {phase});
}

void ring_state(Lowering& ctx, bool producer, bool consumer) {
    for (auto& [value, r] : ctx.channels.rings) {
        const bool tma = r.form->tensor_map >= 0, several = r.form->stages > 1;
        kernel::Ring& form = ctx.kernel.form.rings[r.number];
        const auto counter = [&](const std::string& stem, bool wanted, std::string& name) {
            name = ctx.out.fresh(stem);
            if (wanted) ctx.out.var("[[maybe_unused]] unsigned", name, ctx.pool.number(0));
            return ctx.pool.name(kernel::Type::u32, name);
        };
        if (producer) {
            r.put = counter("put", several, form.put);
            if (tma) r.put_phase = counter("put_phase", true, form.put_phase);
            if (!tma) r.ahead = counter("ahead", true, form.ahead);
        }
        if (consumer) {
            r.get = counter("get", several, form.get);
            if (tma) r.get_phase = counter("get_phase", true, form.get_phase);
            if (!r.paired) r.release = counter("release", several, form.release);
        }
    }
}

namespace {

/// One barrier that says that a stage is full and one that says that it is empty.
void initialise_barriers(Lowering& ctx, Ring& r, ir::ValueId channel) {
    const int stages = r.form->stages;
    const int64_t at = take_shared(ctx, explain::Buffer::barriers, "a ring", int64_t{16} * stages, 8);
    TEGULA_CHECK(ctx.kernel.shared_bytes <= ctx.fn.gpu->arch->shared_bytes, "no room for the barriers of channels");
    const auto variable = [&](const char* stem) { return ctx.pool.name(kernel::Type::u32, ctx.out.fresh(stem)); };
    r.full = variable("full");
    r.empty = variable("empty");
    ctx.out.let("unsigned", r.full.text(), address_of(ctx.pool.name(kernel::Type::other, "shared") + at));
    ctx.out.let("unsigned", r.empty.text(), r.full + 8 * stages);
    const int arrivals = ctx.late.products.gives_back(channel) ? 1 : ctx.fn.gpu->warps * ctx.fn.gpu->sharers(*r.form);
    ctx.out.open_if(eq(ctx.thread, 0));
    const Ex s = ctx.out.open_count("s", stages, 1);
    ctx.out.call(KernelOp::mbarrier_init, {r.full + s * 8, ctx.pool.number(1)});
    ctx.out.call(KernelOp::mbarrier_init, {r.empty + s * 8, ctx.pool.number(arrivals)});
    ctx.out.close();
    ctx.out.call(KernelOp::mbarrier_init_fence);
    ctx.out.close();
    kernel::Ring& form = ctx.kernel.form.rings[r.number];
    form.full = r.full.text();
    form.empty = r.empty.text();
}

}  // namespace

void lower_channel(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const ir::ValueId v = ctx.fn.result(inst);
    Ring& r = ctx.channels.rings[v.v];
    for (const auto& [value, form] : ctx.fn.gpu->channels)
        if (value == v.v) r.form = &form;
    TEGULA_CHECK(r.form && r.form->offset % kStageAlign == 0, "a channel without a place");
    r.pitch = (r.form->layout.bytes() + kStageAlign - 1) / kStageAlign * kStageAlign;
    r.paired = always_paired(ctx, v);
    r.number = ctx.kernel.form.rings.size();
    kernel::Ring form;
    form.name = "channel" + number(v.v);
    form.stages = r.form->stages;
    form.own = r.form->own.has_value();
    ctx.kernel.form.rings.push_back(std::move(form));
    if (r.form->tensor_map >= 0) {
        for (const char* section : {"shared", "mbarrier", "tma"}) ctx.formats.need(section);
        initialise_barriers(ctx, r, v);
        if (r.form->multicast) share_ring(ctx, r);
    }
    const std::vector<ir::InstId>& list = ctx.fn.block(inst.parent).insts;
    const auto next = std::find(list.begin(), list.end(), id) + 1;
    if (next != list.end() && ctx.fn.inst(*next).op == Op::channel) return;
    const bool tma = std::any_of(ctx.channels.rings.begin(), ctx.channels.rings.end(),
                                 [](const auto& e) { return e.second.form->tensor_map >= 0; });
    if (clustered(ctx)) {  // barriers of peers are there, too
        ctx.out.call(KernelOp::cluster_arrive);
        ctx.out.call(KernelOp::cluster_wait);
    } else if (tma) {
        ctx.out.call(KernelOp::meet_cta);
    }
    if (!ctx.fn.gpu->specialised) ring_state(ctx, true, true);
}

void lower_specialise(Lowering& ctx, ir::InstId id) {
    const ir::Inst& inst = ctx.fn.inst(id);
    const auto exchange = register_exchange(ctx.fn);
    const int first = group_threads(ctx);
    // Compilers have to see that all lanes take the same side, to keep scalars of a role in uniform registers: as warps
    // that exchange registers do.
    const bool apart = exchange || shared_programs(ctx.fn) == 1;
    const Ex all_lanes = ctx.pool.text(kernel::Type::u32, "0xffffffffu", true);
    const Ex condition =
        apart ? ge(ctx.thread, first)
              : ge(ctx.pool.uniform(kernel::Type::i32, "__shfl_sync", {all_lanes, ctx.thread >> 5, ctx.pool.number(0)}),
                   first / 32);
    ctx.out.open_role({"producer", first, ctx.kernel.threads, exchange ? exchange->producer : 0, condition, {}});
    if (exchange) ctx.out.call(KernelOp::fewer_registers, {ctx.pool.number(exchange->producer)});
    ctx.out.open_if(eq(ctx.thread, first));
    ring_state(ctx, true, false);
    block(ctx, ctx.fn.blocks(inst)[0]);
    ctx.out.close();
    if (clustered(ctx)) ctx.out.call(KernelOp::cluster_arrive);
    ctx.out.next_role({"consumers", 0, first, exchange ? exchange->others : 0, {}, {}});
    if (exchange) ctx.out.call(KernelOp::more_registers, {ctx.pool.number(exchange->others)});
    ring_state(ctx, false, true);
    clustered(ctx) ? block_in_cluster(ctx, ctx.fn.blocks(inst)[1]) : block(ctx, ctx.fn.blocks(inst)[1]);
    ctx.out.close();
    if (clustered(ctx)) ctx.out.call(KernelOp::cluster_wait);
}

// ---- puts, gets, releases ----

void lower_channel_put(Lowering& ctx, ir::InstId id) {
    Ring& r = ring(ctx, ctx.fn.operands(ctx.fn.inst(id)).back());
    if (r.form->tensor_map >= 0)
        tma_put(ctx, id, r);
    else
        thread_put(ctx, id, r);
}

std::vector<Ex> bulk_start(Lowering& ctx, const ir::Inst& inst) {
    const ir::Access access = ctx.fn.access(inst);
    std::vector<Ex> start(access.axes.size(), ctx.pool.number(0));
    size_t operand = 1;
    for (size_t d = 0; d < access.axes.size(); ++d) {
        if (access.axes[d].kind == ir::Access::all) continue;
        const Ex index = element_at(ctx, ctx.fn.operands(inst)[operand++], {});
        start[d] = access.axes[d].in_bounds ? i32(index) : ctx.pool.call(kernel::Type::i32, "tma_coordinate", {index});
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
    const std::vector<Ex> start = bulk_start(ctx, inst);
    const std::string map = bulk_map(ctx, inst, static_cast<size_t>(r.form->tensor_map), {contiguous, across},
                                     {boxes->columns, boxes->rows}, l.swizzle);
    const std::vector<int>& order = ctx.kernel.tensor_maps[static_cast<size_t>(r.form->tensor_map)].order;

    const bool alone = !ctx.fn.gpu->specialised, several = r.sharers > 1;
    if (alone) ctx.out.open_if(eq(ctx.thread, 0));
    const Ex full = barrier_of(r, r.full, r.put);
    ctx.out.call(KernelOp::mbarrier_wait, {barrier_of(r, r.empty, r.put), r.put_phase ^ 1});
    ctx.out.call(KernelOp::mbarrier_expect, {full, ctx.pool.number(l.shape.elements() * l.elem_bytes)});
    const Ex to = ctx.pool.name(kernel::Type::u32, ctx.out.fresh("to"));
    const Ex stage = address_of(stage_address(r, r.put));
    ctx.out.let("unsigned", to.text(), several ? stage + r.part * boxes->part_bytes : stage);
    const Ex function = ctx.pool.name(kernel::Type::other,
                                      bulk_function(ctx, id, several ? Bulk::multicast : Bulk::load, order.size()));
    const auto box = [&](const TileLayout::Point& batch, int64_t panel, int64_t row) {
        const int64_t offset = l.address(batch) + panel * l.panel_bytes() + row * boxes->rows * l.row_bytes();
        std::vector<int64_t> plus(start.size());
        for (size_t d = 0; d + 2 < l.shape.rank; ++d) plus[static_cast<size_t>(axes[d])] = batch[d];
        plus[static_cast<size_t>(contiguous)] = panel * boxes->columns;
        if (across >= 0) plus[static_cast<size_t>(across)] = row * boxes->rows;
        std::vector<Ex> operands{function};
        if (several) operands.push_back(r.mask);
        operands.insert(operands.end(), {to + offset, address_of_map(ctx, map), full});
        for (int d : order) {
            const int64_t step = d == contiguous ? boxes->part_columns : d == across ? boxes->part_rows : 0;
            const Ex at = start[static_cast<size_t>(d)] + plus[static_cast<size_t>(d)];
            operands.push_back(several && step ? at + i32(r.part) * step : at);
        }
        ctx.out.call(several ? KernelOp::tma_multicast : KernelOp::tma_load, std::move(operands));
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
    if (r.form->tensor_map >= 0) {
        if (by_product) ctx.out.when(eq(ctx.thread, 0));
        ctx.out.call(KernelOp::mbarrier_wait, {barrier_of(r, r.full, r.get), r.get_phase});
    } else if (!continues(ctx, id, false)) {
        wait_for_copies(ctx, id);
    }
    if (r.form->own)
        own_get(ctx, id, r);
    else
        ctx.out.let_pointer("unsigned char", name(ctx, ctx.fn.result(inst)), stage_address(r, r.get));
    if (r.form->tensor_map < 0) ctx.out.call(KernelOp::count_get, {r.ahead});
    if (!r.paired) advance(ctx, r.get, r.get_phase, r.form->stages);
}

void lower_channel_release(Lowering& ctx, ir::InstId id) {
    if (ctx.channels.released.erase(id.v)) return;
    const bool first = ctx.fn.gpu_inst(id).late && ctx.late.later_trip;
    first ? give_back_if(ctx, id, ctx.late.later_trip, 1) : give_back(ctx, id);
}

void give_back_if(Lowering& ctx, ir::InstId release, Ex condition, int beyond) {
    const Ring& r = ring(ctx, ctx.fn.operands(ctx.fn.inst(release))[0]);
    ctx.out.open_if(condition, ctx.kernel.form.rings[r.number].name, beyond);
    give_back(ctx, release);
    ctx.out.close();
}

void give_back(Lowering& ctx, ir::InstId id) {
    Ring& r = ring(ctx, ctx.fn.operands(ctx.fn.inst(id))[0]);
    const Ex stage = r.paired ? r.get : r.release;
    if (ctx.late.products.gives_back(ctx.fn.operands(ctx.fn.inst(id))[0])) {
        ctx.out.when(eq(ctx.thread, 0));
        ctx.out.call(KernelOp::products_commit, {barrier_of(r, r.empty, stage)});
    } else if (r.form->tensor_map >= 0) {
        ctx.out.call(KernelOp::meet_warp);
        const Ex lane = ctx.thread & 31;
        if (r.sharers > 1) {
            ctx.out.when(lt(lane, r.sharers));
            ctx.out.call(KernelOp::mbarrier_arrive_at, {barrier_of(r, r.peer_empty, stage)});
        } else {
            ctx.out.when(eq(lane, 0));
            ctx.out.call(KernelOp::mbarrier_arrive, {barrier_of(r, r.empty, stage)});
        }
    }
    advance(ctx, stage, r.paired ? r.get_phase : Ex(), r.form->stages);
}

}  // namespace tegula::lower
