// Products that nobody waits for (overlapped_products.h).
#include "lang/gpu/overlapped_products.h"

#include <algorithm>

#include "lang/gpu/tensor_memory.h"
#include "lang/target.h"

namespace tegula {

using namespace ir;

namespace {

bool in_place(const Function& fn, InstId id) {
    return fn.inst(id).op == Op::dot && product_row(fn, id).kind == MmaRow::tcgen05;
}

std::pair<int64_t, int64_t> columns_of(const Function& fn, ValueId v) {
    const TensorLayout& l = fn.placement(v).tmem;
    return {l.column, l.column + tensor_columns(l.shape)};
}

}  // namespace

OverlappedProducts::OverlappedProducts(const Function& fn) : uses_(fn) {
    if (!fn.gpu->specialised || !allocated_columns(*fn.gpu)) return;
    std::vector<InstId> products;
    fn.walk([&](InstId id) {
        if (in_place(fn, id)) products.push_back(id);
    });
    for (const auto& [value, channel] : fn.gpu->channels)
        if (channel.tensor_map >= 0 && only_for_products(fn, ValueId{value})) channels_.insert(value);
    for (const InstId id : products) {
        const auto operands = fn.operands(fn.inst(id));
        const ValueId a = channel_of(fn, operands[0]), b = channel_of(fn, operands[1]);
        if (!a.valid() || !b.valid() || !gives_back(a) || !gives_back(b)) continue;
        dots_.insert(id.v);
        columns_.push_back(columns_of(fn, fn.result(fn.inst(id))));
    }
}

ValueId OverlappedProducts::channel_of(const Function& fn, ValueId tile) const {
    const Inst* def = fn.def(fn.viewed(tile));
    return def && def->op == Op::channel_get ? fn.operands(*def)[0] : ValueId{};
}

/// The one product that takes the tile of a get, views included; invalid: something else does, too.
InstId OverlappedProducts::taker(const Function& fn, InstId get) const {
    InstId found;
    std::vector<ValueId> tiles = {fn.result(get)};
    for (size_t n = 0; n < tiles.size(); ++n)
        for (const Use& use : uses_.of(tiles[n])) {
            const InstId user = use.inst;
            if (fn.is_view(fn.inst(user))) {
                tiles.push_back(fn.result(user));
            } else if (!in_place(fn, user) || (found.valid() && found != user)) {
                return {};
            } else {
                found = user;
            }
        }
    return found;
}

/// In every block a get is followed by the product that takes it, then by the stage's release, before the next get.
bool OverlappedProducts::only_for_products(const Function& fn, ValueId channel) const {
    size_t stages = 0;
    for (uint32_t b = 0; b < fn.block_count(); ++b) {
        InstId waited;  // for this product, then for the release
        bool taken = false;
        for (const InstId id : fn.block(BlockId{b}).insts) {
            const Inst& inst = fn.inst(id);
            if (taken && id == waited) waited = {};
            if ((inst.op != Op::channel_get && inst.op != Op::channel_release) || !(fn.operands(inst)[0] == channel)) continue;
            if (taken == (inst.op == Op::channel_get) || waited.valid()) return false;
            taken = !taken;
            if (!taken) continue;
            ++stages;
            waited = taker(fn, id);
            if (!waited.valid() || fn.inst(waited).parent != BlockId{b}) return false;
        }
        if (taken) return false;
    }
    return stages > 0;
}

bool OverlappedProducts::waits(const Function& fn, InstId convert) const {
    const Inst& inst = fn.inst(convert);
    const ValueId to = fn.result(inst), from = fn.operands(inst)[0];
    if ((!in_tensor_memory(fn, to) && !in_tensor_memory(fn, from)) || is_skipped_zero(fn, uses_, convert)) return false;
    const auto [begin, end] = columns_of(fn, in_tensor_memory(fn, to) ? to : from);
    return std::any_of(columns_.begin(), columns_.end(), [&](const auto& c) { return c.first < end && begin < c.second; });
}

}  // namespace tegula
