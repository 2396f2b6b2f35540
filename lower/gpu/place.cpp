// Every tile gets a home: registers of the program's threads in some layout, or shared memory. Groups of values (place_groups.h) have chosen their
// layouts; here each instruction gets its operands where it needs them. Where a value lies elsewhere, a `convert` follows its definition, or
// the value is made a second time when that is cheaper. Runs after make_channels; afterwards every tile value has a placement.
#include "lower/gpu/place.h"

#include <algorithm>

#include "lang/gpu/packed_view.h"
#include "lower/gpu/channels.h"
#include "lower/gpu/place_groups.h"
#include "lower/gpu/tensor_slots.h"
#include "lower/rewrite.h"

namespace tegula {

namespace {

using namespace ir;

class Placer {
public:
    Placer(Function& fn, const GpuOptions& options, bool simple)
        : fn_(fn),
          options_(options),
          simple_(simple),
          grids_(fn),
          groups_(fn, grids_, simple),
          slots_(fn, [&](InstId id) { return fn.gpu_inst(id).row; }),
          before_(fn.inst_count()),
          after_(fn.inst_count()),
          at_start_(fn.block_count()) {}

    void run() {
        for (const ValueId v : fn_.block(fn_.body).args)
            if (is_tile(v)) set_home(v, plain(v));
        walk(fn_.body);
        for (uint32_t v = static_cast<uint32_t>(after_.size()); v-- > 0;) settle_unused(InstId{v});
        rebuild();
    }

private:
    // ---- values ----
    bool is_tile(ValueId v) const { return fn_.type(v).kind == Type::tile && fn_.type(v).shape.rank > 0; }
    bool cheap(ValueId v) const { return groups_.cheap(v); }
    const Placement& home(ValueId v) const { return fn_.placement(v); }
    bool homeless(ValueId v) const { return home(v).kind == Placement::none; }
    bool lies_in_shared(ValueId v) const { return is_tile(v) && home(v).kind == Placement::shared; }
    void set_home(ValueId v, const Placement& p) {
        GpuForm& gpu = *fn_.gpu;
        gpu.of_value.resize(fn_.value_count(), 0);
        gpu.of_value[v.v] = placement_index(gpu, p);
    }
    Placement plain(ValueId v) const { return in_registers(plain_layout(fn_.type(v).shape, fn_.gpu->warps)); }
    Placement group(ValueId v) const { return cheap(v) ? plain(v) : in_registers(groups_.layout(v)); }
    /// How tensor memory is read and written.
    Placement rows(ValueId v) const { return in_registers(tensor_memory_rows(fn_.type(v).shape, fn_.gpu->warps)); }
    /// Where a value that control flow or a product gives lives: tensor memory if it has a slot there.
    Placement kept(ValueId v) const {
        if (slots_.column(v) < 0) return group(v);
        Placement p;
        p.kind = Placement::tensor;
        p.tmem = {fn_.type(v).shape, slots_.column(v)};
        return p;
    }

    // ---- bringing a value to a place ----
    ValueId demand(ValueId v, const Placement& p) {
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
    /// A second value at p for `v`, made from `from`.
    ValueId copied_once(ValueId v, ValueId from, const Placement& p) {
        const std::pair key{v.v, placement_index(*fn_.gpu, p)};
        if (const auto it = known_.find(key); it != known_.end()) return it->second;
        return known_[key] = copy(from, p);
    }
    /// A tile that a product in tensor memory, or a loop around such, starts from. It is overwritten there, so each taker has a copy of its own.
    ValueId started(ValueId v, const Placement& p, InstId taker) {
        if (home(v) == p) return v;
        const ValueId operands[] = {demand(v, rows(v))};
        const TypeId types[] = {fn_.type_of(v)};
        const InstId made = fn_.make(Op::convert, operands, types, {}, fn_.inst(taker).span);
        before_[taker.v].push_back(made);
        set_home(fn_.result(made), p);
        return fn_.result(made);
    }
    /// A second value for `v` at p, made once.
    ValueId demand_as(ValueId v, const Placement& p) {
        const std::pair key{v.v, placement_index(*fn_.gpu, p)};
        if (const auto it = known_.find(key); it != known_.end()) return it->second;
        const ValueId made = cheap(v) && p.kind == Placement::registers ? again(v, p) : copy(v, p);
        known_[key] = made;
        return made;
    }
    ValueId copy(ValueId v, const Placement& p) {
        const ValueId operands[] = {v};
        const TypeId types[] = {fn_.type_of(v)};
        const InstId def = fn_.value(v).def;
        const Span span = def.valid() ? fn_.inst(def).span : Span{};
        return add_after(v, fn_.make(Op::convert, operands, types, {}, span), p);
    }
    ValueId again(ValueId v, const Placement& p) {
        const Inst inst = fn_.inst(fn_.value(v).def);
        const std::vector<ValueId> operands = sources(inst, p.regs);
        const std::vector<int64_t> attrs(fn_.attrs(inst).begin(), fn_.attrs(inst).end());
        const TypeId types[] = {fn_.type_of(v)};
        return add_after(v, fn_.make(inst.op, operands, types, attrs, inst.span), p);
    }
    ValueId add_after(ValueId v, InstId made, const Placement& p) {
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
    /// Operands of a cheap instruction whose result lies in `l`.
    std::vector<ValueId> sources(const Inst& inst, const TileLayout& l) {
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
    void settle(ValueId v, const Placement& p) {
        set_home(v, p);
        const InstId def = fn_.value(v).def;
        const Inst inst = fn_.inst(def);
        fn_.set_operands(def, sources(inst, p.regs));
    }
    void settle_unused(InstId id) {
        const Inst& inst = fn_.inst(id);
        if (!inst.parent.valid() || inst.results.count != 1) return;
        const ValueId v = fn_.result(inst);
        if (is_tile(v) && cheap(v) && homeless(v)) settle(v, plain(v));
    }
    /// In registers, wherever.
    ValueId any(ValueId v) {
        if (!is_tile(v)) return v;
        if (home(v).kind != Placement::registers) return demand(v, group(v));
        return v;
    }

    // ---- instructions ----
    void walk(BlockId block) {
        const std::vector<InstId> insts = fn_.block(block).insts;
        for (const InstId id : insts) {
            const Inst inst = fn_.inst(id);
            if (inst.results.count == 1 && is_tile(fn_.result(inst)) && cheap(fn_.result(inst))) continue;
            instruction(id);
        }
    }
    void instruction(InstId id) {
        switch (fn_.inst(id).op) {
            case Op::for_loop:
            case Op::while_loop:
            case Op::if_else:
            case Op::specialise:
                return control(id);
            case Op::yield:
            case Op::condition:
                return leave_block(id);
            case Op::load:
            case Op::store:
            case Op::atomic:
                return memory(id);
            case Op::dot:
            case Op::dot_scaled:
                if (product_row(fn_, id).tensor_core()) return product(id);
                break;
            case Op::ptx_tile:
                return in_fragments(id);
            case Op::broadcast:
            case Op::permute:
            case Op::reshape:
                return moved(id);
            case Op::reduce:
            case Op::arg_reduce:
                return reduced(id);
            case Op::channel_get:
                return taken(id);
            default:
                break;
        }
        const Inst inst = fn_.inst(id);
        const Alike a = alike(fn_, inst);
        in_layout(id, a, a.like.valid() && is_tile(a.like) ? group(a.like) : Placement{});
        for (const BlockId b : std::vector<BlockId>(fn_.blocks(inst).begin(), fn_.blocks(inst).end())) walk(b);
    }
    /// Operands that lie alike in `p`, the others anywhere; results in p or their groups' layouts.
    void in_layout(InstId id, const Alike& a, const Placement& p) {
        std::vector<ValueId> operands(fn_.operands(fn_.inst(id)).begin(), fn_.operands(fn_.inst(id)).end());
        for (size_t i = 0; i < operands.size(); ++i) {
            const bool here = p.kind == Placement::registers && std::find(a.operands.begin(), a.operands.end(), i) != a.operands.end();
            const bool stays = is_product(fn_.inst(id).op) && product_row(fn_, id).kind == MmaRow::dp4a && lies_in_shared(operands[i]);
            operands[i] = here ? demand(operands[i], p) : stays ? operands[i] : any(operands[i]);
        }
        fn_.set_operands(id, operands);
        const Inst inst = fn_.inst(id);
        for (uint32_t r = 0; r < inst.results.count; ++r) {
            const ValueId v = fn_.result(inst, r);
            if (is_tile(v)) set_home(v, v == a.like ? p : group(v));
        }
    }
    void memory(InstId id) {
        const Inst inst = fn_.inst(id);
        const Alike a = alike(fn_, inst);
        if (!is_tile(a.like)) return in_layout(id, a, {});
        Placement p = cheap(a.like) ? in_registers(memory_layout(fn_, inst)) : group(a.like);
        const bool writes = inst.op == Op::store || inst.op == Op::atomic;
        fn_.gpu->of_inst[id.v].bulk = !simple_ && writes && bulk_refusal(fn_, options_, id, p.regs).empty();
        if (fn_.gpu->of_inst[id.v].bulk) return in_layout(id, a, p);
        if (!simple_ && !whole_sectors(fn_, inst, p.regs) && !packed_view(fn_, inst, p.regs)) {
            const TileLayout own = memory_layout(fn_, inst);
            if (whole_sectors(fn_, inst, own)) p = in_registers(own);
        }
        if (!simple_)
            if (const auto wide = exchanged_layout(fn_, inst, p.regs)) p = in_registers(*wide);
        in_layout(id, a, p);
    }
    void product(InstId id) {
        std::vector<ValueId> operands(fn_.operands(fn_.inst(id)).begin(), fn_.operands(fn_.inst(id)).end());
        const MmaRow& row = product_row(fn_, id);
        for (size_t i = 0; i < 2; ++i)
            if (homeless(operands[i])) operands[i] = any(operands[i]);
        if (row.kind == MmaRow::mma && decode_hint(fn_) == Decode::through_shared)
            for (size_t i = 0; i < 2; ++i)
                if (is_decoded(fn_, fn_.inst(id), i)) operands[i] = demand(operands[i], shared_operand(fn_, operands[i], row, static_cast<int>(i)));
        const bool computed = row.kind != MmaRow::tcgen05 && home(operands[0]).kind == Placement::registers && lies_as_fragment(id, operands[0]);
        const ProductPlacements want = product_placements(fn_, id, grids_.of(fn_, id), computed);
        const auto reads = [&](int which) {
            const Placement& p = home(operands[static_cast<size_t>(which)]);
            return row.from_shared() && p.kind == Placement::shared && row_reads(row, which, p.smem);
        };
        if (!reads(0)) operands[0] = demand(operands[0], want.a);
        if (!reads(1)) operands[1] = demand(operands[1], want.b);
        const Placement sum = row.kind == MmaRow::tcgen05 ? kept(fn_.result(id)) : in_registers(want.acc);
        operands[2] = sum.kind == Placement::tensor ? started(operands[2], sum, id) : demand(operands[2], sum);
        for (size_t i = 3; i < operands.size(); ++i) operands[i] = any(operands[i]);
        fn_.set_operands(id, operands);
        set_home(fn_.result(id), sum);
    }
    /// Is operand A laid out as the product wants it, or like a product's result, by rows of this product's warps? Then it can stay in registers.
    bool lies_as_fragment(InstId dot, ValueId a) const {
        const TileLayout like = product_placements(fn_, dot, grids_.of(fn_, dot), true).a.regs;
        if (home(a).regs == like) return true;
        const Shape& shape = fn_.type(a).shape;
        if (shape.rank < 2) return false;
        for (int m = 1; m <= fn_.gpu->warps; m *= 2)
            if (home(a).regs == mma_accumulator(shape, m, fn_.gpu->warps / m) && like.warps() == fn_.gpu->warps) return true;
        return false;
    }
    void in_fragments(InstId id) {
        // The widest of operands and result says where groups lie, if its own layout keeps them together.
        std::vector<ValueId> operands(fn_.operands(fn_.inst(id)).begin(), fn_.operands(fn_.inst(id)).end());
        std::optional<TileLayout> groups;
        int64_t most = 0;
        for (size_t i = 0; i <= operands.size() && !simple_; ++i) {
            const ValueId v = i < operands.size() ? operands[i] : fn_.result(id);
            const int64_t bits = fn_.type(v).shape.elements() * fn_.elem(v).bits;
            if (bits <= most || (i < operands.size() && home(v).kind != Placement::registers)) continue;
            const auto found = instruction_groups(fn_, fn_.inst(id), i, i < operands.size() ? home(v).regs : group(v).regs);
            if (found) groups = found, most = bits;
        }
        const InstructionPlacements want = instruction_placements(fn_, fn_.inst(id), groups);
        for (size_t i = 0; i < operands.size(); ++i) operands[i] = demand(any(operands[i]), want.operands[i]);
        fn_.set_operands(id, operands);
        set_home(fn_.result(id), want.result);
    }
    void moved(InstId id) {
        const Inst inst = fn_.inst(id);
        const ValueId from = fn_.operands(inst)[0], to = fn_.result(inst);
        if (!is_tile(to)) {
            const ValueId operands[] = {any(from)};
            return fn_.set_operands(id, operands);
        }
        if (is_tile(from) && home(from).kind == Placement::shared) {
            if (const auto view = shared_view(fn_, inst, home(from).smem)) {
                Placement p;
                p.kind = Placement::shared;
                p.smem = *view;
                return set_home(to, p);
            }
        }
        const Placement p = group(to);
        ValueId operand = from;
        if (is_tile(from)) {
            const auto l = operand_layout(fn_, inst, p.regs);
            operand = l ? demand(from, in_registers(*l)) : any(from);
        }
        const ValueId operands[] = {operand};
        fn_.set_operands(id, operands);
        set_home(to, p);
    }
    void reduced(InstId id) {
        const ValueId operands[] = {any(fn_.operands(fn_.inst(id))[0])};
        fn_.set_operands(id, operands);
        const Inst inst = fn_.inst(id);
        const auto l = is_tile(operands[0]) && is_tile(fn_.result(inst)) ? result_layout(fn_, inst, home(operands[0]).regs) : std::nullopt;
        for (uint32_t r = 0; r < inst.results.count; ++r)
            if (const ValueId v = fn_.result(inst, r); is_tile(v)) set_home(v, l ? in_registers(*l) : group(v));
    }
    void taken(InstId id) {
        const ValueId tile = fn_.result(id);
        GpuChannel* ring = fn_.gpu->channel(fn_.operands(fn_.inst(id))[0].v);
        TEGULA_CHECK(ring, "a channel has no ring");
        if (ring->own) {
            // Threads may as well copy what the group's layout gives them, by 4 bytes or more.
            if (const TileLayout& l = group(tile).regs; suits_own_ring(fn_, tile, l, ring->layout.contiguous, 4)) ring->own = l;
            return set_home(tile, in_registers(*ring->own));
        }
        Placement p;
        p.kind = Placement::shared;
        p.smem = ring->layout;
        set_home(tile, p);
    }

    // ---- control ----
    void control(InstId id) {
        const Inst inst = fn_.inst(id);
        const std::vector<BlockId> blocks(fn_.blocks(inst).begin(), fn_.blocks(inst).end());
        for (const BlockId b : blocks)
            for (const ValueId v : fn_.block(b).args)
                if (is_tile(v)) set_home(v, kept(v));
        std::vector<ValueId> operands(fn_.operands(inst).begin(), fn_.operands(inst).end());
        const size_t first = inst.op == Op::for_loop ? 3 : 0;
        for (size_t i = first; i < operands.size() && inst.op != Op::if_else; ++i) {
            const Placement p = kept_tile(fn_.block(blocks[0]).args[i - first + (inst.op == Op::for_loop)]);
            operands[i] = p.kind == Placement::tensor ? started(operands[i], p, id) : demand(operands[i], p);
        }
        fn_.set_operands(id, operands);
        for (const BlockId b : blocks) walk(b);
        for (uint32_t r = 0; r < inst.results.count; ++r)
            if (const ValueId v = fn_.result(inst, r); is_tile(v)) set_home(v, kept(v));
    }
    Placement kept_tile(ValueId v) const { return is_tile(v) ? kept(v) : Placement{}; }
    /// yield and condition: values go where the block's successor keeps them.
    void leave_block(InstId id) {
        const BlockId block = fn_.inst(id).parent;
        const InstId owner = fn_.block(block).owner;
        const Inst loop = fn_.inst(owner);
        std::vector<ValueId> operands(fn_.operands(fn_.inst(id)).begin(), fn_.operands(fn_.inst(id)).end());
        const bool back = loop.op == Op::while_loop && fn_.blocks(loop)[1] == block;
        const size_t first = fn_.inst(id).op == Op::condition;
        for (size_t i = first; i < operands.size(); ++i) {
            const ValueId target = back ? fn_.block(fn_.blocks(loop)[0]).args[i] : fn_.result(loop, static_cast<uint32_t>(i - first));
            operands[i] = demand(operands[i], kept_tile(target));
        }
        fn_.set_operands(id, operands);
    }

    void rebuild() {
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

    Function& fn_;
    const GpuOptions& options_;
    bool simple_;
    ProductGrids grids_;
    Groups groups_;
    TensorSlots slots_;
    std::vector<std::vector<InstId>> before_, after_;  ///< by original instruction
    std::vector<std::vector<InstId>> at_start_;        ///< by block
    std::map<uint32_t, uint32_t> added_;               ///< made instruction -> the original it stands behind (or after_.size() + block)
    std::map<std::pair<uint32_t, uint32_t>, ValueId> known_;
};

}  // namespace

void place_tiles(ir::Function& fn, const GpuOptions& options) {
    fn.gpu->of_value.assign(fn.value_count(), 0);
    fn.gpu->of_inst.resize(fn.inst_count());
    fn.gpu->placements.resize(1);
    const bool simple =
        std::any_of(options.disabled.begin(), options.disabled.end(), [](const std::string& d) { return d == "place" || d == "all"; });
    Placer(fn, options, simple).run();
}

}  // namespace tegula
