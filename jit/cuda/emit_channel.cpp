// Channels and the two roles around them. A channel copied by TMA has a full and an empty mbarrier per stage: the producer (one thread of the last
// warp group) waits for an empty stage, says how many bytes will land and starts the copies; every thread that computes waits for them, and one
// lane per warp gives the stage back. Both sides count stages and phases themselves, so that any control flow around puts and gets works.
// Channels copied by the threads that compute are in emit_copy.cpp.
#include <algorithm>

#include "jit/cuda/emitter.h"
#include "jit/cuda/fragments.h"
#include "lang/gpu/bulk_boxes.h"
#include "lang/gpu/hints.h"

namespace tegula::cuda {

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
bool Emitter::always_paired(ir::ValueId channel) const {
    for (uint32_t b = 0; b < fn_.block_count(); ++b) {
        bool taken = false;
        for (ir::InstId id : fn_.block(ir::BlockId{b}).insts) {
            const ir::Inst& inst = fn_.inst(id);
            const bool get = inst.op == Op::channel_get, release = inst.op == Op::channel_release;
            if ((get || release) && fn_.operands(inst)[0] == channel) {
                if (taken == get || (release && fn_.gpu_inst(id).late)) return false;
                taken = get;
            } else if (taken && inst.blocks.count > 0 && touches(id, channel)) {
                return false;
            }
        }
        // What a block that runs once keeps to its end is never asked for again.
        const ir::InstId owner = fn_.block(ir::BlockId{b}).owner;
        if (taken && owner.valid() && fn_.inst(owner).op != Op::specialise) return false;
    }
    return true;
}

bool Emitter::touches(ir::InstId region, ir::ValueId channel) const {
    for (ir::BlockId b : fn_.blocks(fn_.inst(region)))
        for (ir::InstId id : fn_.block(b).insts) {
            const ir::Inst& inst = fn_.inst(id);
            if ((inst.op == Op::channel_get || inst.op == Op::channel_release) && fn_.operands(inst)[0] == channel) return true;
            if (inst.blocks.count > 0 && touches(id, channel)) return true;
        }
    return false;
}

std::string Emitter::stage_address(const Ring& ring, const std::string& stage) {
    const std::string base = "shared + " + number(ring.form->offset);
    return ring.form->stages == 1 ? base : base + " + " + stage + " * " + number(ring.pitch);
}

void Emitter::advance(const std::string& stage, const std::string& phase, int stages) {
    if (stages == 1) {
        if (!phase.empty()) line(phase + " ^= 1;");
        return;
    }
    line("if (++" + stage + " == " + number(stages) + ") " + stage + " = 0" + (phase.empty() ? "" : ", " + phase + " ^= 1") + ";");
}

void Emitter::ring_state(bool producer, bool consumer) {
    for (auto& [value, r] : rings_) {
        const bool tma = r.form->tensor_map >= 0, several = r.form->stages > 1;
        const auto counter = [&](const std::string& stem, bool wanted) {
            const std::string v = fresh(stem);
            if (wanted) line("[[maybe_unused]] unsigned " + v + " = 0;");
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

void Emitter::cuda_channel(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    const ir::ValueId v = fn_.result(inst);
    Ring& r = rings_[v.v];
    for (const auto& [value, form] : fn_.gpu->channels)
        if (value == v.v) r.form = &form;
    TEGULA_CHECK(r.form && r.form->offset % kStageAlign == 0, "a channel without a place");
    r.pitch = (r.form->layout.bytes() + kStageAlign - 1) / kStageAlign * kStageAlign;
    r.paired = always_paired(v);
    if (r.form->tensor_map >= 0) {
        for (const char* section : {"shared", "mbarrier", "tma"}) prelude_.need(section);
        const int64_t stages = r.form->stages, at = take_shared("barriers", "a ring", 16 * stages, 8);
        TEGULA_CHECK(kernel_.shared_bytes <= fn_.gpu->arch->shared_bytes, "no room for the barriers of channels");
        r.full = fresh("full");
        r.empty = fresh("empty");
        line("const unsigned " + r.full + " = shared_address(shared + " + number(at) + "), " + r.empty + " = " + r.full + " + " + number(8 * stages) +
             ";");
        open("if (t == 0)");
        line("#pragma unroll 1");
        open("for (int s = 0; s < " + number(stages) + "; ++s)");
        line("mbarrier_init(" + r.full + " + 8 * s, 1);");
        const int arrivals = overlapped_.gives_back(v) ? 1 : fn_.gpu->warps * fn_.gpu->sharers(*r.form);
        line("mbarrier_init(" + r.empty + " + 8 * s, " + number(arrivals) + ");");
        close();
        line("mbarrier_init_fence();");
        close();
        if (r.form->multicast) share_ring(r);
    }
    const std::vector<ir::InstId>& list = fn_.block(inst.parent).insts;
    const auto next = std::find(list.begin(), list.end(), id) + 1;
    if (next != list.end() && fn_.inst(*next).op == Op::channel) return;
    const bool tma = std::any_of(rings_.begin(), rings_.end(), [](const auto& e) { return e.second.form->tensor_map >= 0; });
    if (clustered()) {  // barriers of peers are there, too
        line("cluster_arrive();");
        line("cluster_wait();");
    } else if (tma) {
        line("__syncthreads();");
    }
    if (!fn_.gpu->specialised) ring_state(true, true);
}

void Emitter::cuda_specialise(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    const auto exchange = register_exchange(fn_);
    if (exchange) prelude_.need("registers");
    // Compilers have to see that all lanes take the same side, to keep scalars of a role in uniform registers: as warps that exchange registers do.
    const bool apart = exchange || shared_programs(fn_) == 1;
    open(apart ? "if (t >= " + number(group_threads()) + ")" : "if (__shfl_sync(0xffffffffu, t >> 5, 0) >= " + number(group_threads() / 32) + ")");
    if (exchange) line("fewer_registers<" + number(exchange->producer) + ">();");
    open("if (t == " + number(group_threads()) + ")");
    ring_state(true, false);
    block(fn_.blocks(inst)[0]);
    close();
    if (clustered()) line("cluster_arrive();");
    depth_ -= 1;
    line("} else {");
    depth_ += 1;
    if (exchange) line("more_registers<" + number(exchange->others) + ">();");
    ring_state(false, true);
    clustered() ? block_in_cluster(fn_.blocks(inst)[1]) : block(fn_.blocks(inst)[1]);
    close();
    if (clustered()) line("cluster_wait();");
}

// ---- puts, gets, releases ----

void Emitter::cuda_channel_put(ir::InstId id) {
    Ring& r = ring(fn_.operands(fn_.inst(id)).back());
    if (r.form->tensor_map >= 0)
        tma_put(id, r);
    else
        thread_put(id, r);
}

std::vector<std::string> Emitter::bulk_start(const ir::Inst& inst) {
    const ir::Access access = fn_.access(inst);
    std::vector<std::string> start(access.axes.size(), "0");
    size_t operand = 1;
    for (size_t d = 0; d < access.axes.size(); ++d) {
        if (access.axes[d].kind == ir::Access::all) continue;
        const std::string index = name(fn_.operands(inst)[operand++]);
        start[d] = access.axes[d].in_bounds ? "(int)" + index : "tma_coordinate(" + index + ")";
    }
    return start;
}

std::string Emitter::bulk_map(const ir::Inst& inst, size_t slot, std::array<int, 2> dims, std::array<int64_t, 2> box, int swizzle) {
    TensorMap map;
    map.param = param_number(fn_.operands(inst)[0]);
    map.swizzle = swizzle;
    const auto dimension = [&](int d, int64_t extent) {
        map.order.push_back(d);
        map.box.push_back(static_cast<uint32_t>(extent));
    };
    dimension(dims[0], box[0]);
    if (dims[1] >= 0) dimension(dims[1], box[1]);
    for (int d = static_cast<int>(fn_.access(inst).axes.size()) - 1; d >= 0; --d)
        if (d != dims[0] && d != dims[1]) dimension(d, 1);
    if (kernel_.tensor_maps.size() <= slot) kernel_.tensor_maps.resize(slot + 1);
    kernel_.tensor_maps[slot] = map;
    return parameter(KernelParam::tensor_map, map.param, static_cast<int>(slot), "const __grid_constant__ TensorMap", "map");
}

void Emitter::tma_put(ir::InstId id, Ring& r) {
    const ir::Inst& inst = fn_.inst(id);
    const SharedLayout& l = r.form->layout;
    const std::vector<int> axes = tile_axes(fn_.access(inst));
    const auto boxes = bulk_boxes(l, r.sharers);
    TEGULA_CHECK(boxes && axes.size() == l.shape.rank, "a bulk copy that no boxes make");
    const int contiguous = axes[static_cast<size_t>(l.contiguous)], across = l.shape.rank == 1 ? -1 : axes[static_cast<size_t>(l.across())];
    const std::vector<std::string> start = bulk_start(inst);
    const std::string parameter_name =
        bulk_map(inst, static_cast<size_t>(r.form->tensor_map), {contiguous, across}, {boxes->columns, boxes->rows}, l.swizzle);
    const std::vector<int>& order = kernel_.tensor_maps[static_cast<size_t>(r.form->tensor_map)].order;

    const bool alone = !fn_.gpu->specialised;
    if (alone) open("if (t == 0)");
    const std::string at = r.form->stages == 1 ? "" : " + 8 * " + r.put;
    line("mbarrier_wait(" + r.empty + at + ", " + r.put_phase + " ^ 1);");
    line("mbarrier_expect(" + r.full + at + ", " + number(l.shape.elements() * l.elem_bytes) + ");");
    const std::string to = fresh("to"), part = r.sharers > 1 ? " + " + r.part + " * " + number(boxes->part_bytes) : "";
    line("const unsigned " + to + " = shared_address(" + stage_address(r, r.put) + ")" + part + ";");
    const std::string copy =
        bulk_function(id, r.sharers > 1 ? Bulk::multicast : Bulk::load, order.size()) + (r.sharers > 1 ? "(" + r.mask + ", " : "(");
    const auto box = [&](const TileLayout::Point& batch, int64_t panel, int64_t row) {
        const int64_t offset = l.address(batch) + panel * l.panel_bytes() + row * boxes->rows * l.row_bytes();
        std::vector<int64_t> plus(start.size());
        for (size_t d = 0; d + 2 < l.shape.rank; ++d) plus[static_cast<size_t>(axes[d])] = batch[d];
        plus[static_cast<size_t>(contiguous)] = panel * boxes->columns;
        if (across >= 0) plus[static_cast<size_t>(across)] = row * boxes->rows;
        std::string coordinates;
        for (int d : order) {
            const int64_t step = r.sharers == 1 ? 0 : d == contiguous ? boxes->part_columns : d == across ? boxes->part_rows : 0;
            const int64_t more = plus[static_cast<size_t>(d)];
            coordinates +=
                ", " + start[static_cast<size_t>(d)] + (step ? " + (int)" + r.part + " * " + number(step) : "") + (more ? " + " + number(more) : "");
        }
        line(copy + to + (offset ? " + " + number(offset) : "") + ", &" + parameter_name + ", " + r.full + at + coordinates + ");");
    };
    for (const TileLayout::Point& batch : batch_points(l.shape))
        for (int64_t panel = 0; panel < boxes->panels; ++panel)
            for (int64_t row = 0; row < boxes->row_boxes; ++row) box(batch, panel, row);
    if (alone) close();
    advance(r.put, r.put_phase, r.form->stages);
}

void Emitter::cuda_channel_get(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    Ring& r = ring(fn_.operands(inst)[0]);
    const bool by_product = overlapped_.gives_back(fn_.operands(inst)[0]);  // its thread alone waits
    if (r.form->tensor_map >= 0)
        line(std::string(by_product ? "if (t == 0) " : "") + "mbarrier_wait(" + r.full + (r.form->stages == 1 ? "" : " + 8 * " + r.get) + ", " +
             r.get_phase + ");");
    else if (!continues(id, false))
        wait_for_copies(id);
    if (r.form->own)
        own_get(id, r);
    else
        line("unsigned char* const " + name(fn_.result(inst)) + " = " + stage_address(r, r.get) + ";");
    if (r.form->tensor_map < 0) line("--" + r.ahead + ";");
    if (!r.paired) advance(r.get, r.get_phase, r.form->stages);
}

void Emitter::cuda_channel_release(ir::InstId id) {
    if (released_.erase(id.v)) return;
    const bool first = fn_.gpu_inst(id).late && !later_trip_.empty();
    if (first) open("if (" + later_trip_ + ")");
    give_back(id);
    if (first) close();
}

void Emitter::give_back(ir::InstId id) {
    Ring& r = ring(fn_.operands(fn_.inst(id))[0]);
    const std::string stage = r.paired ? r.get : r.release;
    const std::string empty = r.empty + (r.form->stages == 1 ? "" : " + 8 * " + stage);
    if (overlapped_.gives_back(fn_.operands(fn_.inst(id))[0])) {
        line("if (t == 0) products_commit(" + empty + ");");
    } else if (r.form->tensor_map >= 0) {
        line("__syncwarp();");
        if (r.sharers > 1)
            line("if ((t & 31) < " + number(r.sharers) + ") mbarrier_arrive_at(" + r.peer_empty + (r.form->stages == 1 ? "" : " + 8 * " + stage) +
                 ");");
        else
            line("if ((t & 31) == 0) mbarrier_arrive(" + empty + ");");
    }
    advance(stage, r.paired ? r.get_phase : "", r.form->stages);
}

}  // namespace tegula::cuda
