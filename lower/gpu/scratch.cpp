// Where channels, shared tiles and the scratch of instructions lie in a program's shared memory. Channels come first. A shared tile keeps its place
// from its `convert` to its last use, loops that use it included; scratch is needed while its instruction runs. Neighbouring users of scratch
// get different places while memory is cheap, which saves a barrier each. What does not fit lies in the launch's workspace.
#include <algorithm>
#include <functional>

#include "lang/gpu/scratch.h"
#include "lang/gpu/tensor_memory.h"
#include "lower/gpu/gpu.h"
#include "lower/rewrite.h"

namespace tegula {

namespace {

using namespace ir;

constexpr int64_t kTileAlign = 1024, kScratchAlign = 128;
constexpr int64_t kCheapBytes = 24 << 10;  ///< shared memory that costs no occupancy worth a barrier
constexpr int64_t kRoomyTiles = 96 << 10;  ///< tiles that need not share places
constexpr int64_t kBarrierBytes = 1024;    ///< mbarriers of channels and of products in tensor memory

int64_t rounded(int64_t v, int64_t to) { return (v + to - 1) / to * to; }

struct Item {
    InstId inst;
    int64_t bytes = 0;
    uint32_t from = 0, to = 0;  ///< program positions, both included
    bool tile = false;          ///< holds a shared tile
    bool lasting() const { return tile || to > from; }
    int64_t align = kScratchAlign;
    int64_t offset = -1;
};

/// Program positions, and how far the uses of each shared tile reach.
class Ranges {
public:
    explicit Ranges(const Function& fn) : fn_(fn), position_(fn.inst_count()), last_(fn.inst_count()), end_(fn.value_count()) {
        walk(fn.body);
        fn.walk([&](InstId id) { uses(id); });
    }
    uint32_t position(InstId id) const { return position_[id.v]; }
    /// The last position inside an instruction's blocks, its own without.
    uint32_t last(InstId id) const { return last_[id.v]; }
    uint32_t end(ValueId v) const { return end_[v.v]; }
    /// The instruction at a position; the last one where it is behind all.
    InstId at(uint32_t position) const { return order_[std::min<size_t>(position, order_.size() - 1)]; }

private:
    struct Loop {
        uint32_t from, to;
    };
    void walk(BlockId block) {
        for (const InstId id : fn_.block(block).insts) {
            position_[id.v] = next_++;
            order_.push_back(id);
            const Inst inst = fn_.inst(id);
            const uint32_t from = next_;
            for (const BlockId b : fn_.blocks(inst)) walk(b);
            last_[id.v] = next_ - 1;
            if (inst.op != Op::if_else && inst.op != Op::specialise && inst.blocks.count) loops_.push_back({from, next_});
        }
    }
    void uses(InstId id) {
        const Inst& inst = fn_.inst(id);
        for (const ValueId v : fn_.operands(inst)) extend(v, position_[id.v]);
    }
    void extend(ValueId v, uint32_t at) {
        for (;;) {
            const InstId def = fn_.value(v).def;
            if (!def.valid()) return;
            uint32_t reach = at;
            for (const Loop& l : loops_)
                if (at >= l.from && at < l.to && position_[def.v] < l.from) reach = std::max(reach, l.to);
            end_[v.v] = std::max(end_[v.v], reach);
            const Inst& inst = fn_.inst(def);
            if (!fn_.is_view(inst)) return;
            v = fn_.operands(inst)[0];
        }
    }

    const Function& fn_;
    std::vector<uint32_t> position_, last_, end_;
    std::vector<Loop> loops_;
    std::vector<InstId> order_;
    uint32_t next_ = 0;
};

/// The lowest place that overlaps none of `taken`.
int64_t first_fit(int64_t base, int64_t bytes, int64_t align, std::vector<std::pair<int64_t, int64_t>> taken) {
    std::sort(taken.begin(), taken.end());
    int64_t at = rounded(base, align);
    for (const auto& [begin, end] : taken)
        if (begin < at + bytes && at < end) at = rounded(end, align);
    return at;
}

std::vector<Item> collect(const Function& fn, const Ranges& ranges) {
    std::vector<Item> items;
    const Uses uses(fn);
    fn.walk([&](InstId id) {
        const Inst& inst = fn.inst(id);
        Item item;
        item.inst = id;
        item.bytes = scratch_bytes(fn, id, uses);
        if (fn.gpu_inst(id).bulk) item.align = kTileAlign;
        item.from = ranges.position(id);
        item.to = ranges.last(id);
        if (inst.op == Op::convert && fn.placement(fn.result(inst)).kind == Placement::shared) {
            item.tile = true;
            item.bytes = std::max(item.bytes, fn.placement(fn.result(inst)).smem.bytes());
            item.to = std::max(item.to, ranges.end(fn.result(inst)));
        }
        if (item.bytes > 0) items.push_back(item);
    });
    return items;
}

int64_t place_channels(GpuForm& gpu) {
    int64_t at = 0;
    for (auto& [value, channel] : gpu.channels) {
        channel.offset = at;
        at += rounded(channel.layout.bytes(), kTileAlign) * channel.stages;
    }
    return at;
}

/// Rings give up stages (two stay) for scratch that would lie in the workspace otherwise. Gives the bytes of the channels.
int64_t make_room(Function& fn, int64_t limit, const std::vector<Item>& items) {
    GpuForm& gpu = *fn.gpu;
    int64_t tiles = 0, most = 0;
    for (const Item& item : items) {
        if (item.lasting())
            tiles += rounded(item.bytes, kTileAlign);
        else
            most = std::max(most, item.bytes);
    }
    int64_t base = place_channels(gpu);
    while (gpu.specialised && base + tiles + most > limit && tiles + most < limit) {
        const auto size = [](const auto& c) { return c.second.stages > 2 ? c.second.layout.bytes() * c.second.stages : 0; };
        const auto largest =
            std::max_element(gpu.channels.begin(), gpu.channels.end(), [&](const auto& a, const auto& b) { return size(a) < size(b); });
        if (size(*largest) == 0) break;
        const int64_t stages[] = {--largest->second.stages};
        fn.set_attrs(fn.value(ValueId{largest->first}).def, stages);
        base = place_channels(gpu);
    }
    return base;
}

/// `roomy`: no two tiles share a place, which saves the barrier between the use of one and the arrival of the next.
void place_items(std::vector<Item>& items, int64_t base, bool roomy) {
    std::vector<const Item*> tiles;
    const auto live = [&](const Item& item) {
        std::vector<std::pair<int64_t, int64_t>> taken;
        for (const Item* t : tiles)
            if (t->from <= item.to && item.from <= t->to) taken.push_back({t->offset, t->offset + t->bytes});
        return taken;
    };
    int64_t high = base + kCheapBytes;
    for (Item& item : items) {
        if (!item.lasting()) continue;
        item.offset = first_fit(base, item.bytes, kTileAlign, roomy ? live({item.inst, item.bytes, 0, UINT32_MAX}) : live(item));
        high = std::max(high, item.offset + item.bytes);
        tiles.push_back(&item);
    }
    const Item* previous = nullptr;
    for (Item& item : items) {
        if (item.lasting()) continue;
        auto taken = live(item);
        item.offset = first_fit(base, item.bytes, item.align, taken);
        if (previous) {
            taken.push_back({previous->offset, previous->offset + previous->bytes});
            const int64_t other = first_fit(base, item.bytes, item.align, taken);
            if (other + item.bytes <= high) item.offset = other;
        }
        high = std::max(high, item.offset + item.bytes);
        previous = &item;
    }
}

}  // namespace

void assign_scratch(ir::Function& fn, const GpuOptions& options) {
    GpuForm& gpu = *fn.gpu;
    gpu.of_inst.resize(fn.inst_count());
    const Ranges ranges(fn);
    std::vector<Item> items = collect(fn, ranges);
    const int64_t limit = options.arch->shared_bytes - (gpu.channels.empty() && !allocated_columns(gpu) ? 0 : kBarrierBytes);
    const int64_t base = make_room(fn, limit, items);
    gpu.shared_bytes = base;
    gpu.workspace_bytes = 0;
    // A user that cannot fit must not push others up.
    std::vector<Item> fitting, spilled;
    for (const Item& item : items) (base + item.bytes <= limit ? fitting : spilled).push_back(item);
    int64_t tiles = 0, most = 0;
    for (const Item& item : fitting)
        (item.lasting() ? tiles : most) = item.lasting() ? tiles + rounded(item.bytes, kTileAlign) : std::max(most, item.bytes);
    place_items(fitting, base, base + tiles + most <= limit && tiles <= kRoomyTiles);
    for (GpuInst& g : gpu.of_inst) {
        g.scratch_offset = -1;
        g.scratch_bytes = 0;
        g.global_scratch = false;
    }
    for (const Item& item : fitting) {
        if (item.offset + item.bytes > limit) {
            spilled.push_back(item);
            continue;
        }
        GpuInst& g = gpu.of_inst[item.inst.v];
        g.scratch_offset = item.offset;
        g.scratch_bytes = item.bytes;
        gpu.shared_bytes = std::max(gpu.shared_bytes, item.offset + item.bytes);
    }
    for (const Item& item : spilled) {
        GpuInst& g = gpu.of_inst[item.inst.v];
        if (g.bulk) {  // TMA reads shared memory only; single accesses need no scratch
            g.bulk = false;
            continue;
        }
        g.scratch_offset = 0;
        g.scratch_bytes = item.bytes;
        g.global_scratch = true;
        gpu.workspace_bytes = std::max(gpu.workspace_bytes, rounded(item.bytes, kTileAlign));
    }
}

std::vector<explain::Buffer> explain_memory(const ir::Function& fn) {
    std::vector<explain::Buffer> out;
    const Ranges ranges(fn);
    const auto where = [](bool global) { return global ? explain::Buffer::workspace : explain::Buffer::shared_memory; };
    for (const auto& [value, channel] : fn.gpu->channels) {
        const Span made = fn.inst(fn.value(ValueId{value}).def).span;
        ValueId tensor;  // that fills the ring
        fn.walk([&](InstId id) {
            if (fn.inst(id).op == Op::channel_put && fn.operands(fn.inst(id)).back().v == value) tensor = fn.operands(fn.inst(id))[0];
        });
        out.push_back({.use = explain::Buffer::ring,
                       .where = where(false),
                       .of = param_number(fn, tensor) < 0 ? "a tensor" : "`" + param_name(fn, tensor) + "`",
                       .param = param_number(fn, tensor),
                       .offset = channel.offset,
                       .bytes = rounded(channel.layout.bytes(), kTileAlign),
                       .stages = channel.stages,
                       .live = {},
                       .first = made,
                       .last = made});
    }
    for (const Item& item : collect(fn, ranges)) {
        const GpuInst& g = fn.gpu_inst(item.inst);
        if (g.scratch_bytes == 0) continue;
        const Inst& inst = fn.inst(item.inst);
        const std::string of = item.tile ? to_string(fn.type(fn.result(inst)).shape) : std::string("`") + op_row(inst.op).name + "`";
        out.push_back({.use = item.tile ? explain::Buffer::tile : explain::Buffer::scratch,
                       .where = where(g.global_scratch),
                       .of = of,
                       .param = -1,
                       .offset = g.scratch_offset,
                       .bytes = g.scratch_bytes,
                       .stages = 1,
                       .live = std::array{item.from, item.to},
                       .first = inst.span,
                       .last = fn.inst(ranges.at(item.to)).span});
    }
    return out;
}

}  // namespace tegula
