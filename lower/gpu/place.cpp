// Every tile gets a home: registers of the program's threads in some layout, or shared memory. Groups of values (place_groups.h) have chosen their
// layouts; here each instruction gets its operands where it needs them. Where a value lies elsewhere, a `convert` follows its definition, or
// the value is made a second time when that is cheaper. Runs after make_channels; afterwards every tile value has a placement.
#include "lower/gpu/placer.h"

#include <algorithm>

#include "lower/gpu/gpu.h"

namespace tegula {

using namespace ir;

void Placer::run() {
    for (const ValueId v : fn_.block(fn_.body).args)
        if (is_tile(v)) set_home(v, plain(v));
    walk(fn_.body);
    for (uint32_t v = static_cast<uint32_t>(after_.size()); v-- > 0;) settle_unused(InstId{v});
    rebuild();
}

void Placer::set_home(ValueId v, const Placement& p) {
    GpuForm& gpu = *fn_.gpu;
    gpu.of_value.resize(fn_.value_count(), 0);
    gpu.of_value[v.v] = placement_index(gpu, p);
}

Placement Placer::kept(ValueId v) const {
    if (slots_.column(v) < 0) return group(v);
    Placement p;
    p.kind = Placement::tensor;
    p.tmem = {fn_.type(v).shape, slots_.column(v)};
    return p;
}

ValueId Placer::demand(ValueId v, const Placement& p) {
    if (!is_tile(v) || home(v) == p) return v;
    if (cheap(v) && homeless(v)) {
        settle(v, p.kind == Placement::registers ? p : plain(v));
        if (home(v) == p) return v;
    }
    TEGULA_CHECK(!homeless(v), "a tile is used before it is placed");
    if (home(v).kind == Placement::shared && p.kind == Placement::shared) return copy(demand_as(v, plain(v)), p);
    if (home(v).kind == Placement::tensor && !(p == rows(v))) return copied_once(v, demand_as(v, rows(v)), p);
    return demand_as(v, p);
}

ValueId Placer::copied_once(ValueId v, ValueId from, const Placement& p) {
    const std::pair key{v.v, placement_index(*fn_.gpu, p)};
    if (const auto it = known_.find(key); it != known_.end()) return it->second;
    return known_[key] = copy(from, p);
}

ValueId Placer::started(ValueId v, const Placement& p, InstId taker) {
    if (home(v) == p) return v;
    const ValueId operands[] = {demand(v, rows(v))};
    const TypeId types[] = {fn_.type_of(v)};
    const InstId made = fn_.make(Op::convert, operands, types, {}, fn_.inst(taker).span);
    before_[taker.v].push_back(made);
    set_home(fn_.result(made), p);
    return fn_.result(made);
}

ValueId Placer::demand_as(ValueId v, const Placement& p) {
    const std::pair key{v.v, placement_index(*fn_.gpu, p)};
    if (const auto it = known_.find(key); it != known_.end()) return it->second;
    const ValueId made = cheap(v) && p.kind == Placement::registers ? again(v, p) : copy(v, p);
    known_[key] = made;
    return made;
}

ValueId Placer::copy(ValueId v, const Placement& p) {
    const ValueId operands[] = {v};
    const TypeId types[] = {fn_.type_of(v)};
    const InstId def = fn_.value(v).def;
    const Span span = def.valid() ? fn_.inst(def).span : Span{};
    return add_after(v, fn_.make(Op::convert, operands, types, {}, span), p);
}

ValueId Placer::again(ValueId v, const Placement& p) {
    const Inst inst = fn_.inst(fn_.value(v).def);
    const std::vector<ValueId> operands = sources(inst, p.regs);
    const std::vector<int64_t> attrs(fn_.attrs(inst).begin(), fn_.attrs(inst).end());
    const TypeId types[] = {fn_.type_of(v)};
    return add_after(v, fn_.make(inst.op, operands, types, attrs, inst.span), p);
}

ValueId Placer::add_after(ValueId v, InstId made, const Placement& p) {
    set_home(fn_.result(made), p);
    // What was added for v itself stands behind its original definition.
    const InstId def = fn_.value(v).def;
    if (!def.valid()) {
        at_start_[fn_.value(v).block.v].push_back(made);
    } else {
        const auto origin = added_.find(def.v);
        const uint32_t original = origin == added_.end() ? def.v : origin->second;
        added_[made.v] = original;
        if (original < after_.size())
            after_[original].push_back(made);
        else
            at_start_[original - after_.size()].push_back(made);
    }
    if (!def.valid()) added_[made.v] = static_cast<uint32_t>(after_.size()) + fn_.value(v).block.v;
    return fn_.result(made);
}

std::vector<ValueId> Placer::sources(const Inst& inst, const TileLayout& l) {
    std::vector<ValueId> out(fn_.operands(inst).begin(), fn_.operands(inst).end());
    for (ValueId& v : out) {
        if (!is_tile(v)) continue;
        if (keeps_layout(inst.op)) {
            v = demand(v, in_registers(l));
        } else {
            const auto from = operand_layout(fn_, inst, l);
            v = demand(v, from ? in_registers(*from) : plain(v));
        }
    }
    return out;
}

void Placer::settle(ValueId v, const Placement& p) {
    set_home(v, p);
    const InstId def = fn_.value(v).def;
    const Inst inst = fn_.inst(def);
    fn_.set_operands(def, sources(inst, p.regs));
}

void Placer::settle_unused(InstId id) {
    const Inst& inst = fn_.inst(id);
    if (!inst.parent.valid() || inst.results.count != 1) return;
    const ValueId v = fn_.result(inst);
    if (is_tile(v) && cheap(v) && homeless(v)) settle(v, plain(v));
}

ValueId Placer::any(ValueId v) {
    if (!is_tile(v)) return v;
    if (home(v).kind != Placement::registers) return demand(v, group(v));
    return v;
}

void Placer::rebuild() {
    for (uint32_t b = 0; b < at_start_.size(); ++b) {
        const std::vector<InstId> old = std::move(fn_.block(BlockId{b}).insts);
        fn_.block(BlockId{b}).insts.clear();
        for (const InstId i : at_start_[b]) fn_.append(BlockId{b}, i);
        for (const InstId i : old) {
            for (const InstId made : before_[i.v]) fn_.append(BlockId{b}, made);
            fn_.append(BlockId{b}, i);
            for (const InstId made : after_[i.v]) fn_.append(BlockId{b}, made);
        }
    }
    fn_.gpu->of_value.resize(fn_.value_count(), 0);
    fn_.gpu->of_inst.resize(fn_.inst_count());
}

void place_tiles(ir::Function& fn, const GpuOptions& options) {
    fn.gpu->of_value.assign(fn.value_count(), 0);
    fn.gpu->of_inst.resize(fn.inst_count());
    fn.gpu->placements.resize(1);
    const bool simple =
        std::any_of(options.disabled.begin(), options.disabled.end(), [](const std::string& d) { return d == "place" || d == "all"; });
    Placer(fn, options, simple).run();
}

}  // namespace tegula
