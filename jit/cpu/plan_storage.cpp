// Storage of stored tiles (planner.h). Carried values are updated in place where nobody wants the old value any more; what lives at different times
// shares slots. Transfers (inits, yields) happen one after the other: a value that would overwrite what a later one reads goes through a buffer.
#include <algorithm>
#include <cmath>
#include <tuple>

#include "jit/cpu/planner.h"
#include "jit/cpu/scalar_formats.h"

namespace tegula::cpu {

using ir::Op;

namespace {
constexpr uint64_t kSlack = 192;  ///< whole vectors of the widest elements may be read from any element on

uint64_t tile_bytes(const ir::Function& fn, ir::ValueId v) {
    const Type& t = fn.type(v);
    return static_cast<uint64_t>(t.shape.elements()) * (t.pointer ? 8 : fn.elem(v).container_bytes());
}
}  // namespace

uint32_t Planner::find(uint32_t v) const {
    while (parent_[v] != v) v = parent_[v];
    return v;
}

void Planner::unite(ir::ValueId a, ir::ValueId b) {
    const uint32_t x = find(a.v), y = find(b.v);
    if (x != y) parent_[y] = x;
}

void Planner::touch(ir::ValueId v, uint32_t at) {
    first_[v.v] = std::min(first_[v.v], at);
    last_[v.v] = std::max(last_[v.v], at);
}

/// `site` evaluates v, and with it every stored value in its tree. What lives outside of a loop that reads it lives until the loop's end.
void Planner::read_tree(ir::ValueId v, ir::InstId site) {
    const auto read = [&](ir::ValueId leaf) {
        if (!stored(leaf)) return;
        const bool region = !fn_.blocks(fn_.inst(site)).empty() && ir::has_trait(fn_.inst(site).op, ir::PURE);
        reads_[leaf.v].push_back(at_[site.v]);
        touch(leaf, region ? end_[site.v] : at_[site.v]);
        for (ir::BlockId b = fn_.inst(site).parent; !(b == home_[leaf.v]) && fn_.block(b).owner.valid();) {
            const ir::InstId owner = fn_.block(b).owner;
            if (fn_.inst(owner).op != Op::if_else) touch(leaf, end_[owner.v]);
            b = fn_.inst(owner).parent;
        }
    };
    read(v);
    if (plan_.values[v.v].kind != Home::fused) return;
    for (const Leaf& leaf : trees_[v.v]) read(ir::ValueId{leaf.first});
}

void Planner::find_transfers() {
    for (ir::InstId id : order_) {
        const ir::Inst& inst = fn_.inst(id);
        const auto operands = fn_.operands(inst);
        Transfer t;
        t.at = id;
        if (inst.op == Op::for_loop || inst.op == Op::while_loop) {
            const size_t skip = inst.op == Op::for_loop ? 3 : 0;
            const auto& args = fn_.block(fn_.blocks(inst)[0]).args;
            t.from.assign(operands.begin() + static_cast<std::ptrdiff_t>(skip), operands.end());
            t.to.assign(args.begin() + (skip ? 1 : 0), args.end());
        } else if (inst.op == Op::yield || inst.op == Op::condition) {
            const ir::InstId owner = fn_.block(inst.parent).owner;
            if (!owner.valid()) continue;
            const ir::Inst& o = fn_.inst(owner);
            const bool test = inst.op == Op::condition;
            t.from.assign(operands.begin() + test, operands.end());
            if (o.op == Op::for_loop) {
                const auto& args = fn_.block(fn_.blocks(o)[0]).args;
                t.to.assign(args.begin() + 1, args.end());
            } else if (o.op == Op::while_loop) {
                t.to = fn_.block(fn_.blocks(o)[test ? 1 : 0]).args;
            } else if (o.op == Op::if_else) {
                for (uint32_t r = 0; r < o.results.count; ++r) t.to.push_back(fn_.result(o, r));
            } else {
                continue;
            }
        } else {
            continue;
        }
        transfers_.push_back(std::move(t));
    }
}

void Planner::live_ranges() {
    for (ir::InstId id : order_) {
        const ir::Inst& inst = fn_.inst(id);
        for (uint32_t r = 0; r < inst.results.count; ++r) {
            touch(fn_.result(inst, r), at_[id.v]);
            if (!fn_.blocks(inst).empty()) touch(fn_.result(inst, r), end_[id.v]);
        }
        for (ir::BlockId b : fn_.blocks(inst))
            for (ir::ValueId arg : fn_.block(b).args) {
                touch(arg, at_[id.v]);
                touch(arg, end_[id.v]);
            }
        if (!is_root(id)) continue;
        for (ir::ValueId o : fn_.operands(inst)) {
            if (is_tile(o)) read_tree(o, id);
        }
        // The tree of a stored result hangs under its own operands; fused ones are read above.
    }
}

/// Results of loops are their carried values, and what the test of a loop hands on unchanged stays where it is.
void Planner::unite_views() {
    for (ir::InstId id : order_) {
        const ir::Inst& inst = fn_.inst(id);
        if (inst.op != Op::for_loop && inst.op != Op::while_loop) continue;
        const bool counted = inst.op == Op::for_loop;
        const auto& args = fn_.block(fn_.blocks(inst)[counted ? 0 : 1]).args;
        for (uint32_t r = 0; r < inst.results.count; ++r)
            if (stored(fn_.result(inst, r))) unite(args[r + counted], fn_.result(inst, r));
        if (counted) continue;
        const auto& carried = fn_.block(fn_.blocks(inst)[0]).args;
        const auto passed = fn_.operands(fn_.inst(fn_.block(fn_.blocks(inst)[0]).insts.back())).subspan(1);
        for (size_t i = 0; i < passed.size() && i < carried.size(); ++i)
            if (stored(args[i]) && passed[i] == carried[i]) unite(args[i], carried[i]);
    }
}

/// Is a value that shares `storage`, but not `except`, read at a position in [from, to]?
bool Planner::read_within(uint32_t storage, uint32_t except, uint32_t from, uint32_t to) const {
    for (uint32_t v = 0; v < parent_.size(); ++v) {
        if (reads_[v].empty() || find(v) != storage || find(v) == except) continue;
        for (uint32_t at : reads_[v])
            if (at >= from && at <= to) return true;
    }
    return false;
}

/// Does evaluating v read `storage` (elsewhere_only: at other points than v's own)?
bool Planner::reads(ir::ValueId v, uint32_t storage, bool elsewhere_only) const {
    if (!is_tile(v)) return false;
    if (stored(v)) return !elsewhere_only && find(v.v) == storage;
    for (const Leaf& leaf : trees_[v.v])
        if (stored(ir::ValueId{leaf.first}) && find(leaf.first) == storage && (!elsewhere_only || leaf.second != 0)) return true;
    return false;
}

/// May `def` write its result over `target`, given that nothing afterwards reads that?
bool Planner::dies_in_place(ir::InstId def, ir::ValueId target) const {
    const ir::Inst& inst = fn_.inst(def);
    const uint32_t storage = find(target.v);
    const auto operands = fn_.operands(inst);
    if (inst.results.count == 1 && fusable(fn_, inst)) {
        for (const Leaf& leaf : trees_[fn_.result(inst).v])
            if (stored(ir::ValueId{leaf.first}) && find(leaf.first) == storage && leaf.second != 0) return false;
        return true;
    }
    for (uint32_t k = 0; k < operands.size(); ++k) {
        const bool direct = stored(operands[k]) && find(operands[k].v) == storage;
        if (direct ? !in_place(fn_, inst, k) : reads(operands[k], storage, false)) return false;
    }
    return true;
}

/// A value made for a carried one (or a branch's result) is made in its place.
void Planner::unite_result(const Transfer& t, size_t i) {
    const ir::ValueId v = t.from[i], target = t.to[i];
    const ir::BlockId block = fn_.inst(t.at).parent;
    if (!stored(v) || !stored(target) || !fn_.def(v) || !(home_[v.v] == block) || std::count(t.from.begin(), t.from.end(), v) != 1) return;
    const uint32_t mine = find(v.v), theirs = find(target.v);
    if (mine == theirs) return;
    const ir::InstId def = fn_.value(v).def, owner = fn_.block(block).owner;
    const bool control = fn_.inst(def).op == Op::for_loop || fn_.inst(def).op == Op::while_loop || fn_.inst(def).op == Op::if_else;
    // Everything that shares v's storage must begin with `def`.
    for (uint32_t w = 0; w < parent_.size(); ++w)
        if (find(w) == mine && first_[w] < at_[def.v]) return;
    if (read_within(theirs, mine, at_[def.v] + 1, end_[owner.v])) return;
    if (read_within(theirs, mine, at_[def.v], at_[def.v]) && (control || !dies_in_place(def, target))) return;
    unite(target, v);
}

/// A loop takes over a value that nobody wants afterwards.
void Planner::unite_init(const Transfer& t, size_t i) {
    const ir::ValueId v = t.from[i], target = t.to[i];
    const ir::BlockId block = fn_.inst(t.at).parent;
    if (!stored(v) || !stored(target) || !(home_[v.v] == block)) return;
    const uint32_t mine = find(v.v), theirs = find(target.v);
    if (mine == theirs) return;
    for (size_t j = 0; j < t.from.size(); ++j)
        if (j != i && reads(t.from[j], mine, false)) return;
    const ir::InstId owner = fn_.block(block).owner;
    const uint32_t end = owner.valid() ? end_[owner.v] : static_cast<uint32_t>(order_.size());
    // Its storage may belong to a carried value of the block around: then that one is made anew before it is read again.
    for (uint32_t w = 0; w < parent_.size(); ++w)
        if (find(w) == mine && !reads_[w].empty())
            for (uint32_t at : reads_[w])
                if (at > at_[t.at.v] && at <= end) return;
    // Who shares the loop's storage must not be alive before.
    for (uint32_t w = 0; w < parent_.size(); ++w)
        if (find(w) == theirs && first_[w] < at_[t.at.v]) return;
    unite(v, target);
}

/// Decides which values of a transfer go through buffers.
void Planner::hold(const Transfer& t) {
    for (size_t i = 0; i < t.from.size(); ++i) {
        if (!is_tile(t.from[i]) || !stored(t.to[i])) continue;
        const uint32_t storage = find(t.to[i].v);
        if (stored(t.from[i]) && find(t.from[i].v) == storage) continue;
        bool late = reads(t.from[i], storage, true);
        for (size_t j = i + 1; j < t.from.size(); ++j)
            if (is_tile(t.from[j]) && !(stored(t.from[j]) && find(t.from[j].v) == find(t.to[j].v))) late = late || reads(t.from[j], storage, false);
        if (late) held_.push_back({t.at, static_cast<uint32_t>(i), tile_bytes(fn_, t.to[i])});
    }
}

/// By value: is every NaN among a tile's elements the canonical one, because arithmetic on f32 or f64 made them?
std::vector<bool> Planner::find_arithmetic() const {
    std::vector<bool> out(fn_.value_count());
    for (const ir::InstId id : order_) {
        const ir::Inst& inst = fn_.inst(id);
        const auto operands = fn_.operands(inst);
        for (uint32_t r = 0; r < inst.results.count; ++r) {
            const ir::ValueId v = fn_.result(inst, r);
            if (fn_.type(v).kind != Type::tile || fn_.type(v).pointer || !is_native(fn_.elem(v))) continue;
            out[v.v] = ir::has_trait(inst.op, ir::ELEMWISE) || (inst.op == Op::select && out[operands[1].v] && out[operands[2].v]) ||
                       (inst.op == Op::constant && !std::isnan(decode(fn_.elem(v), static_cast<uint64_t>(fn_.attrs(inst)[0]))));
        }
    }
    return out;
}

/// Arithmetic in storage of its own that is only ever read element by element stays unsettled.
void Planner::find_unsettled() {
    const std::vector<bool> arithmetic = find_arithmetic();
    std::vector<uint32_t> sharers(parent_.size());
    for (uint32_t v = 0; v < parent_.size(); ++v) ++sharers[find(v)];
    const auto by_elements = [&](const Use& use) {
        const Op user = fn_.inst(use.inst).op;
        return ir::has_trait(user, ir::ELEMWISE) || user == Op::select || user == Op::cast || user == Op::reduce || user == Op::store;
    };
    for (uint32_t v = 0; v < parent_.size(); ++v)
        plan_.values[v].unsettled =
            arithmetic[v] && stored(ir::ValueId{v}) && sharers[find(v)] == 1 && std::ranges::all_of(uses_.of(ir::ValueId{v}), by_elements);
}

void Planner::place() {
    struct Item {
        uint32_t first, last, kind, id;
        uint64_t bytes;
    };
    std::map<uint32_t, Item> storages;
    for (uint32_t v = 0; v < parent_.size(); ++v) {
        if (plan_.values[v].kind != Home::stored || first_[v] == UINT32_MAX) continue;
        Item& item = storages.emplace(find(v), Item{UINT32_MAX, 0, 0, find(v), 0}).first->second;
        item.first = std::min(item.first, first_[v]);
        item.last = std::max(item.last, last_[v]);
        item.bytes = std::max(item.bytes, tile_bytes(fn_, ir::ValueId{v}));
    }
    std::vector<Item> items;
    for (const auto& [root, item] : storages) items.push_back(item);
    for (size_t i = 0; i < held_.size(); ++i) items.push_back({at_[held_[i].at.v], at_[held_[i].at.v], 1, static_cast<uint32_t>(i), held_[i].bytes});
    for (ir::InstId id : order_)
        if (const uint64_t bytes = work_bytes(fn_, fn_.inst(id), plan_)) items.push_back({at_[id.v], end_[id.v], 2, id.v, bytes});
    std::sort(items.begin(), items.end(),
              [](const Item& a, const Item& b) { return std::tie(a.first, a.kind, a.id) < std::tie(b.first, b.kind, b.id); });

    struct Slot {
        uint64_t bytes;
        uint32_t last;
    };
    std::vector<Slot> slots;
    std::map<uint32_t, uint32_t> slot_of_storage, slot_of_work;
    for (const Item& item : items) {
        const uint64_t bytes = (item.bytes + kSlack + 63) & ~uint64_t{63};
        size_t best = slots.size();
        for (size_t s = 0; s < slots.size(); ++s) {
            if (slots[s].last >= item.first) continue;
            const auto waste = [&](size_t k) { return slots[k].bytes > bytes ? slots[k].bytes - bytes : bytes - slots[k].bytes; };
            if (best == slots.size() || waste(s) < waste(best)) best = s;
        }
        if (best == slots.size()) slots.push_back({0, 0});
        slots[best].bytes = std::max(slots[best].bytes, bytes);
        slots[best].last = item.last;
        const auto slot = static_cast<uint32_t>(best);
        if (item.kind == 0)
            slot_of_storage[item.id] = slot;
        else if (item.kind == 1)
            plan_.held[held_[item.id].at.v].push_back({held_[item.id].number, slot});
        else
            slot_of_work[item.id] = slot;
    }
    for (const Slot& s : slots) {
        plan_.slots.push_back(plan_.scratch_bytes);
        plan_.scratch_bytes += s.bytes;
    }
    for (uint32_t v = 0; v < parent_.size(); ++v)
        if (plan_.values[v].kind == Home::stored && slot_of_storage.count(find(v))) plan_.values[v].slot = slot_of_storage[find(v)];
    find_unsettled();
    for (const auto& [inst, slot] : slot_of_work) plan_.work[inst] = plan_.slots[slot];
}

void Planner::store_all() {
    const size_t values = fn_.value_count();
    parent_.resize(values);
    for (uint32_t v = 0; v < values; ++v) parent_[v] = v;
    first_.resize(values, UINT32_MAX);
    last_.resize(values);
    reads_.resize(values);
    find_transfers();
    live_ranges();
    unite_views();
    for (const Transfer& t : transfers_)
        for (size_t i = 0; i < t.from.size(); ++i)
            if (fn_.blocks(fn_.inst(t.at)).empty()) unite_result(t, i);
    for (const Transfer& t : transfers_)
        for (size_t i = 0; i < t.from.size(); ++i)
            if (!fn_.blocks(fn_.inst(t.at)).empty()) unite_init(t, i);
    for (const Transfer& t : transfers_) hold(t);
    place();
}

}  // namespace tegula::cpu
