// What instructions of targets.def demand of their operands' places, and which shape ops are mere views of a tile in shared memory.
#include <algorithm>
#include <set>

#include "lower/gpu/place_groups.h"
#include "lower/rewrite.h"

namespace tegula {

using namespace ir;

uint32_t placement_index(GpuForm& gpu, const Placement& placement) {
    const auto it = std::find(gpu.placements.begin(), gpu.placements.end(), placement);
    const auto index = static_cast<uint32_t>(it - gpu.placements.begin());
    if (it == gpu.placements.end()) gpu.placements.push_back(placement);
    return index;
}

Placement in_registers(TileLayout layout) {
    Placement p;
    p.kind = Placement::registers;
    p.regs = std::move(layout);
    return p;
}

namespace {

constexpr size_t kMaxProductsAsked = 16;  ///< whose results are followed: a large function gets the plain grid

bool rows_first(const Function& fn) {
    std::vector<InstId> dots;
    fn.walk([&](InstId id) {
        if (is_product(fn.inst(id).op)) dots.push_back(id);
    });
    if (dots.size() > kMaxProductsAsked) return false;
    return std::any_of(dots.begin(), dots.end(), [&](InstId d) { return rows_stay_together(fn, fn.inst(d)); });
}

}  // namespace

Placement shared_operand(const Function& fn, ValueId v, const MmaRow& row, int which) {
    const Shape& shape = fn.type(v).shape;
    const int k_dim = which == 0 ? shape.rank - 1 : shape.rank - 2, other = which == 0 ? shape.rank - 2 : shape.rank - 1;
    const int bytes = static_cast<int>(fn.elem(v).container_bytes());
    Placement p;
    p.kind = Placement::shared;
    p.smem = shared_layout(shape, k_dim, bytes);
    // Rows that may be contiguous along M or N follow the registers they are copied from, for wide stores.
    const Placement& from = fn.placement(v);
    if (from.kind == Placement::registers && bytes == 2 && vector_width(from.regs, other) > vector_width(from.regs, k_dim)) {
        const SharedLayout across = shared_layout(shape, other, bytes);
        if (row_reads(row, which, across)) p.smem = across;
    }
    return p;
}

Decode decode_hint(const Function& fn) {
    const auto word = hint_argument(fn.hints, "decode");
    return word ? static_cast<Decode>(*word) : Decode::automatic;
}

int decoded_bits(const Function& fn, const Inst& dot, size_t which) {
    const ValueId operand = fn.operands(dot)[which];
    const int bits = fn.elem(operand).bits;
    std::vector<ValueId> work{operand};
    std::set<uint32_t> seen;
    int most = 0;
    while (!work.empty()) {
        const ValueId v = work.back();
        work.pop_back();
        const Inst* def = fn.def(v);
        if (fn.type(v).kind != Type::tile || !seen.insert(v.v).second) continue;
        if (!def) {  // a loop that loads ahead carries the tile
            const InstId owner = fn.value(v).block.valid() ? fn.block(fn.value(v).block).owner : InstId{};
            if (owner.valid() && fn.inst(owner).op == Op::for_loop) work.push_back(fn.operands(fn.inst(owner))[fn.value(v).index + 2]);
            continue;
        }
        const bool loaded = def->op == Op::load || def->op == Op::ptr_load || def->op == Op::channel_get;
        // Scales and the like are small beside the operand: who moves them does not matter.
        if (loaded && fn.type(v).shape.elements() == fn.type(operand).shape.elements()) {
            if (fn.elem(v).bits >= bits) return 0;
            most = std::max(most, static_cast<int>(fn.elem(v).bits));
        }
        const bool moves = has_trait(def->op, VIEW) || def->op == Op::broadcast || def->op == Op::convert;
        if (moves || keeps_layout(def->op)) work.insert(work.end(), fn.operands(*def).begin(), fn.operands(*def).end());
    }
    return most;
}

bool is_decoded(const Function& fn, const Inst& dot, size_t which) { return decoded_bits(fn, dot, which) != 0; }

ProductGrids::ProductGrids(const ir::Function& fn) : rows_first_(rows_first(fn)) {}

WarpGrid ProductGrids::of(const ir::Function& fn, ir::InstId dot) const {
    const MmaRow& row = product_row(fn, dot);
    return warp_grid(product_shape(fn, fn.inst(dot)), row, fn.gpu->warps, rows_first_);
}

std::optional<WarpGrid> placed_grid(const ir::Function& fn, ir::InstId dot) {
    const MmaRow& row = product_row(fn, dot);
    const ValueId result = fn.result(fn.inst(dot));
    const Placement& p = fn.placement(result);
    for (int m = row.kind == MmaRow::wgmma ? 4 : 1; m <= fn.gpu->warps; m *= 2)
        if (p == in_registers(mma_accumulator(fn.type(result).shape, m, fn.gpu->warps / m))) return WarpGrid{m, fn.gpu->warps / m};
    return std::nullopt;
}

ProductPlacements product_placements(const ir::Function& fn, ir::InstId id, WarpGrid grid, bool a_in_registers) {
    const Inst& dot = fn.inst(id);
    const MmaRow& row = product_row(fn, id);
    const auto operands = fn.operands(dot);
    const int bits = static_cast<int>(fn.elem(operands[0]).container_bytes()) * 8;
    ProductPlacements out;
    out.acc = mma_accumulator(fn.type(fn.result(dot)).shape, grid.m, grid.n);
    out.a = in_registers(mma_operand_a(fn.type(operands[0]).shape, bits, grid.m, grid.n));
    out.b = in_registers(mma_operand_b(fn.type(operands[1]).shape, bits, grid.m, grid.n));
    if (row.kind == MmaRow::tcgen05) out.acc = tensor_memory_rows(fn.type(fn.result(dot)).shape, fn.gpu->warps);
    if (row.from_shared()) {
        out.b = shared_operand(fn, operands[1], row, 1);
        if (!a_in_registers || row.kind == MmaRow::tcgen05) out.a = shared_operand(fn, operands[0], row, 0);
    }
    return out;
}

std::optional<SharedLayout> shared_view(const ir::Function& fn, const ir::Inst& view, const SharedLayout& from) {
    const Shape& to = fn.type(fn.result(view)).shape;
    SharedLayout out = from;
    out.shape = to;
    if (view.op == Op::permute) {
        const auto axes = fn.attrs(view);
        for (size_t d = 0; d + 2 < axes.size(); ++d)
            if (axes[d] != static_cast<int64_t>(d)) return std::nullopt;
        for (size_t d = 0; d < axes.size(); ++d)
            if (axes[d] == from.contiguous) out.contiguous = static_cast<int>(d);
        return out;
    }
    if (view.op != Op::reshape || from.shape.rank < 2 || to.rank < 2) return std::nullopt;
    // Leading dimensions of extent 1 come and go.
    const int drop = from.shape.rank - to.rank;
    const Shape &longer = drop > 0 ? from.shape : to, &shorter = drop > 0 ? to : from.shape;
    const size_t extra = static_cast<size_t>(longer.rank - shorter.rank);
    for (size_t d = 0; d < longer.rank; ++d)
        if (longer[d] != (d < extra ? 1 : shorter[d - extra])) return std::nullopt;
    out.contiguous = from.contiguous - drop;
    return out;
}

bool row_reads(const MmaRow& row, int which, const SharedLayout& layout) {
    const int rank = layout.shape.rank;
    if (rank < 2 || (rank > 2 && row.kind != MmaRow::wgmma) || layout.swizzle == 0) return false;
    const int k_dim = which == 0 ? rank - 1 : rank - 2;
    return layout.contiguous == k_dim || row.a == Fmt::f16 || row.a == Fmt::bf16;
}

}  // namespace tegula
