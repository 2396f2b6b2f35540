// Groups of values that want one layout, and what they get (place_groups.h): accumulators first, then by bytes moved from and to memory; shape ops
// carry a decision on to groups that have none. What is left gets a plain layout.
#include "lower/gpu/place_groups.h"

#include <algorithm>
#include <cmath>

#include "lang/access_operands.h"
#include "lang/gpu/scratch.h"
#include "lower/rewrite.h"

namespace tegula {

using namespace ir;

namespace {

constexpr int kCheapCost = 8;    ///< instructions of an expression that is made again rather than converted
constexpr int64_t kPadding = 4;  ///< registers of a fragment per element from which on it is mostly padding

bool is_relation(Op op) { return op == Op::broadcast || has_trait(op, VIEW) || op == Op::reduce || op == Op::arg_reduce || op == Op::reduce_region; }

/// Is a scalar the same in every program? Not when it cannot be told.
bool same_in_programs(const Function& fn, ValueId v, int depth) {
    const Inst* def = fn.def(v);
    if (!def) return !fn.value(v).block.valid() || fn.value(v).block == fn.body;
    if (def->op == Op::constant || def->op == Op::dim) return true;
    if (depth == 0 || (!has_trait(def->op, ELEMWISE) && def->op != Op::cast)) return false;
    const auto operands = fn.operands(*def);
    return std::all_of(operands.begin(), operands.end(), [&](ValueId o) { return same_in_programs(fn, o, depth - 1); });
}

}  // namespace

bool reads_the_same(const Function& fn, const Inst& inst) {
    if (inst.op != Op::load) return false;
    const AccessOperands access(fn, inst);
    const auto indices = fn.operands(inst).first(access.first).subspan(1);
    return !access.access.gathers() && std::ranges::all_of(indices, [&](ValueId v) { return same_in_programs(fn, v, kCheapCost); });
}

Groups::Groups(const Function& fn, const ProductGrids& grids, bool simple)
    : fn_(fn), grids_(grids), simple_(simple), cost_(fn.value_count()), parent_(fn.value_count()) {
    for (uint32_t v = 0; v < parent_.size(); ++v) parent_[v] = v;
    fn.walk([&](InstId id) {
        programs_ |= fn.inst(id).op == Op::program_id;
        measure(id);
    });
    fn.walk([&](InstId id) { connect(id); });
    for (uint32_t v = 0; v < fn.value_count(); ++v) {
        if (!is_tile(ValueId{v}) || cheap(ValueId{v})) continue;
        layouts_.try_emplace(find(ValueId{v}));
        member_.try_emplace(find(ValueId{v}), ValueId{v});
    }
    if (!simple)
        fn.walk([&](InstId id) {
            int depth = 0;
            for (InstId owner = fn.block(fn.inst(id).parent).owner; owner.valid(); owner = fn.block(fn.inst(owner).parent).owner)
                depth += fn.inst(owner).op == Op::for_loop || fn.inst(owner).op == Op::while_loop;
            anchors(id, depth);
        });
    if (!simple) fn.walk([&](InstId id) { decoded(id); });
    choose();
}

bool Groups::is_tile(ValueId v) const { return fn_.type(v).kind == Type::tile && fn_.type(v).shape.rank > 0; }

uint32_t Groups::find(ValueId v) const {
    uint32_t g = v.v;
    while (parent_[g] != g) g = parent_[g] = parent_[parent_[g]];
    return g;
}

void Groups::join(ValueId a, ValueId b) {
    if (!is_tile(a) || !is_tile(b) || cheap(a) || cheap(b) || fn_.type(a).shape != fn_.type(b).shape) return;
    const uint32_t x = find(a), y = find(b);
    parent_[std::max(x, y)] = std::min(x, y);
}

/// Cost of making a value again. Values come after what they are made of, so one walk settles all.
void Groups::measure(InstId id) {
    const Inst& inst = fn_.inst(id);
    if (inst.results.count != 1 || !is_tile(fn_.result(inst))) return;
    if (!has_trait(inst.op, FREE | VIEW) && !keeps_layout(inst.op)) return;
    int cost = 1;
    for (const ValueId v : fn_.operands(inst)) {
        if (!is_tile(v)) continue;
        if (!cheap(v)) return;
        cost += cost_[v.v];
    }
    if (cost <= kCheapCost) cost_[fn_.result(inst).v] = cost;
}

void Groups::connect(InstId id) {
    const Inst& inst = fn_.inst(id);
    const auto operands = fn_.operands(inst);
    const Alike a = alike(fn_, inst);
    if (a.like.valid())
        for (const size_t i : a.operands) join(operands[i], a.like);
    if (inst.op == Op::for_loop || inst.op == Op::while_loop || inst.op == Op::if_else) connect_carried(inst);
    if (inst.op == Op::ptx_tile && !instruction_on_tiles(fn_, inst)) {
        for (const ValueId v : operands) relations_.emplace(v.v, id);
        relations_.emplace(fn_.result(inst).v, id);
    }
    if (is_relation(inst.op) && operands.size() && is_tile(operands[0]) && is_tile(fn_.result(inst))) {
        relations_.emplace(operands[0].v, id);
        relations_.emplace(fn_.result(inst).v, id);
    }
}

void Groups::connect_carried(const Inst& inst) {
    const auto blocks = fn_.blocks(inst);
    const auto last = [&](size_t b) { return fn_.operands(fn_.inst(fn_.block(blocks[b]).insts.back())); };
    for (uint32_t r = 0; r < inst.results.count; ++r) {
        const ValueId result = fn_.result(inst, r);
        if (inst.op == Op::for_loop) {
            const ValueId arg = fn_.block(blocks[0]).args[r + 1];
            join(arg, result);
            join(arg, last(0)[r]);
            join(arg, fn_.operands(inst)[r + 3]);
        } else if (inst.op == Op::while_loop) {
            const ValueId arg = fn_.block(blocks[0]).args[r];
            join(arg, result);
            join(arg, fn_.operands(inst)[r]);
            join(arg, last(0)[r + 1]);
            join(arg, fn_.block(blocks[1]).args[r]);
            join(arg, last(1)[r]);
        } else {
            join(result, last(0)[r]);
            join(result, last(1)[r]);
        }
    }
}

void Groups::anchors(InstId id, int depth) {
    const Inst& inst = fn_.inst(id);
    const double often = std::pow(8.0, std::min(depth, 4));
    if (is_product(inst.op) && product_row(fn_, id).tensor_core()) {
        const TileLayout sums = product_placements(fn_, id, grids_.of(fn_, id), true).acc;
        products_.push_back({fn_.result(inst), sums});
        for (uint32_t o = 3; o < inst.operands.count; ++o) {
            const ValueId scales = fn_.operands(inst)[o];
            const auto l = is_tile(scales) && !cheap(scales) ? scale_layout(sums, fn_.type(scales).shape, o) : std::nullopt;
            if (l) products_.push_back({scales, *l});
        }
        return;
    }
    if (inst.op == Op::ptx_tile) {
        if (!instruction_on_tiles(fn_, inst)) return;
        const InstructionPlacements want = instruction_placements(fn_, inst);
        products_.push_back({fn_.result(inst), want.result.regs});
        for (size_t o = 0; o < want.operands.size(); ++o)
            if (const ValueId v = fn_.operands(inst)[o]; !cheap(v)) products_.push_back({v, want.operands[o].regs});
        return;
    }
    const bool memory = inst.op == Op::load || inst.op == Op::store || inst.op == Op::atomic || inst.op == Op::ptr_load || inst.op == Op::ptr_store ||
                        inst.op == Op::ptr_atomic;
    const bool own = inst.op == Op::channel_get && fn_.gpu->is_own(fn_.operands(inst)[0].v);
    if (!memory && !own) return;
    const ValueId like = own ? fn_.result(inst) : alike(fn_, inst).like;
    if (!is_tile(like) || cheap(like)) return;
    const double share = programs_ && reads_the_same(fn_, inst) ? 0.125 : 1;
    const double weight = share * often * static_cast<double>(fn_.type(like).shape.elements()) * fn_.elem(like).bits;
    Anchor& anchor = anchors_[find(like)];
    anchor.bits = std::max<int>(anchor.bits, fn_.elem(like).bits);
    if (weight > anchor.weight) anchor.access = id, anchor.weight = weight;
}

/// An operand that is decoded from narrower elements is decoded where the product wants it in registers: what moves between threads then is narrow,
/// and the instruction reads it from there. Not when several warps would have to decode the same elements, or most registers hold padding, unless the
/// author says so.
void Groups::decoded(InstId id) {
    const Inst& dot = fn_.inst(id);
    const Decode where = decode_hint(fn_);
    if (!is_product(dot.op) || !product_row(fn_, id).tensor_core() || where == Decode::through_shared) return;
    const bool mma = product_row(fn_, id).kind == MmaRow::mma;
    const ProductPlacements want = product_placements(fn_, id, grids_.of(fn_, id), true);
    for (size_t o = 0; o < 2; ++o) {
        const Placement& place = o == 0 ? want.a : want.b;
        if (place.kind != Placement::registers || !is_decoded(fn_, dot, o)) continue;
        if (!mma && o == 1) continue;  // which wgmma and tcgen05 take from shared memory alone
        const bool padded = int64_t{place.regs.registers()} * 32 * fn_.gpu->warps > kPadding * fn_.type(fn_.operands(dot)[o]).shape.elements();
        if ((place.regs.warp_copies() || padded) && where != Decode::in_registers) continue;
        std::optional<TileLayout> l = place.regs;
        ValueId v = fn_.operands(dot)[o];
        for (const Inst* def = fn_.def(v); l && def && has_trait(def->op, VIEW); def = fn_.def(v)) {
            l = operand_layout(fn_, *def, *l);
            v = fn_.operands(*def)[0];
        }
        if (l && !cheap(v)) products_.push_back({v, *l});
    }
}

void Groups::give(uint32_t group, TileLayout layout) {
    std::optional<TileLayout>& place = layouts_[group];
    if (place) return;
    place = std::move(layout);
    spread(group);
}

/// Carries a group's layout over shape ops, and over instructions that take several elements at once, to groups without one, nearest first.
void Groups::spread(uint32_t group) {
    std::vector<uint32_t> work{group};
    const auto reach = [&](ValueId v, std::optional<TileLayout> l) {
        if (!l || !is_tile(v) || cheap(v) || layouts_[find(v)]) return;
        // A group that moves more memory than the one that asks decides for itself.
        const uint32_t target = find(v);
        const auto heavy = anchors_.find(target), light = anchors_.find(work[0]);
        if (heavy != anchors_.end() && light != anchors_.end() && heavy->second.weight > light->second.weight) return;
        layouts_[target] = std::move(l);
        work.push_back(target);
    };
    for (size_t at = 0; at < work.size(); ++at) {
        const auto [begin, end] = relations_.equal_range(work[at]);
        for (auto it = begin; it != end; ++it) {
            const Inst& inst = fn_.inst(it->second);
            const TileLayout from = *layouts_[work[at]];
            std::vector<ValueId> values(fn_.operands(inst).begin(), fn_.operands(inst).end());
            const ValueId result = fn_.result(inst);
            if (inst.op != Op::ptx_tile) {
                if (cheap(values[0]) || cheap(result)) continue;
                if (find(values[0]) == work[at]) reach(result, result_layout(fn_, inst, from));
                if (find(result) == work[at]) reach(values[0], operand_layout(fn_, inst, from));
                continue;
            }
            values.push_back(result);
            std::optional<TileLayout> groups;
            for (size_t i = 0; i < values.size() && !groups; ++i)
                if (!cheap(values[i]) && find(values[i]) == work[at]) groups = instruction_groups(fn_, inst, i, from);
            if (!groups) continue;
            const InstructionPlacements want = instruction_placements(fn_, inst, groups);
            for (size_t i = 0; i < values.size(); ++i) reach(values[i], i + 1 < values.size() ? want.operands[i].regs : want.result.regs);
        }
    }
}

TileLayout Groups::anchor_layout(const Anchor& anchor) const {
    const Inst& inst = fn_.inst(anchor.access);
    return inst.op == Op::channel_get ? *fn_.gpu->channel(fn_.operands(inst)[0].v)->own : memory_layout(fn_, inst, anchor.bits);
}

void Groups::choose() {
    // Relations were noted by value; groups are known now.
    std::multimap<uint32_t, InstId> by_group;
    for (const auto& [value, id] : relations_)
        if (!cheap(ValueId{value})) by_group.emplace(find(ValueId{value}), id);
    relations_ = std::move(by_group);
    for (const auto& [value, layout] : products_) {
        auto& place = layouts_[find(value)];
        if (!place) place = layout;
    }
    for (const auto& [value, layout] : products_) spread(find(value));
    std::vector<std::pair<double, uint32_t>> order;
    for (const auto& [group, layout] : layouts_) {
        const auto anchor = anchors_.find(group);
        const double size = static_cast<double>(fn_.type(member_.at(group)).shape.elements());
        order.push_back({anchor == anchors_.end() ? size * 1e-9 : anchor->second.weight, group});
    }
    std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first != b.first ? a.first > b.first : a.second < b.second; });
    for (const auto& [weight, group] : order) {
        const auto anchor = anchors_.find(group);
        const Shape& shape = fn_.type(member_.at(group)).shape;
        give(group, simple_ || anchor == anchors_.end() ? plain_layout(shape, fn_.gpu->warps) : anchor_layout(anchor->second));
    }
}

}  // namespace tegula
