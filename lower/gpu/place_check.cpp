// After placement: tidying, and the check of what emission relies on.
#include <algorithm>
#include <map>

#include "lang/gpu/tensor_memory.h"
#include "lower/gpu/place.h"
#include "lower/gpu/place_groups.h"
#include "lower/lower.h"
#include "lower/rewrite.h"

namespace tegula {

namespace {

using namespace ir;

bool is_tile(const Function& fn, ValueId v) { return fn.type(v).kind == Type::tile && fn.type(v).shape.rank > 0; }

class Checker {
public:
    explicit Checker(const Function& fn) : fn_(fn) {}
    std::vector<std::string> run() {
        for (const Placement& p : fn_.gpu->placements)
            if (p.kind == Placement::tensor && !fits_tensor_memory(p.tmem)) problems_.push_back("a tile outside of tensor memory");
        for (const Placement& p : fn_.gpu->placements)
            if (p.kind == Placement::registers && (!p.regs.valid() || p.regs.warps() != fn_.gpu->warps))
                problems_.push_back("invalid layout " + p.regs.text());
        fn_.walk([&](InstId id) {
            where_ = "inst " + std::to_string(id.v) + " (" + op_row(fn_.inst(id).op).name + "): ";
            values(fn_.inst(id));
            rule(id);
        });
        return std::move(problems_);
    }

private:
    void need(bool holds, const char* text) {
        if (!holds && problems_.size() < 20) problems_.push_back(where_ + text);
    }
    void placed(ValueId v) {
        const Placement& p = fn_.placement(v);
        if (!is_tile(fn_, v)) return need(p.kind == Placement::none, "what is no tile has a placement");
        need(p.kind != Placement::none, "a tile has no placement");
        if (p.kind != Placement::none) need(p.shape() == fn_.type(v).shape, "a layout of another shape");
    }
    void values(const Inst& inst) {
        for (uint32_t r = 0; r < inst.results.count; ++r) placed(fn_.result(inst, r));
        for (const BlockId b : fn_.blocks(inst))
            for (const ValueId v : fn_.block(b).args) placed(v);
        const bool reads_shared = inst.op == Op::convert || is_product(inst.op) || has_trait(inst.op, VIEW);
        for (const ValueId v : fn_.operands(inst)) need(reads_shared || fn_.placement(v).kind != Placement::shared, "cannot read shared memory");
        if (inst.op == Op::channel_get && fn_.gpu->is_own(fn_.operands(inst)[0].v)) {
            const Placement& p = fn_.placement(fn_.result(inst));
            need(p.kind == Placement::registers && p.regs == *fn_.gpu->channel(fn_.operands(inst)[0].v)->own,
                 "the tile of an own ring lies as its threads have copied it");
        }
        const bool makes_shared = reads_shared || inst.op == Op::channel_get;
        for (uint32_t r = 0; r < inst.results.count; ++r)
            need(makes_shared || fn_.placement(fn_.result(inst, r)).kind != Placement::shared, "cannot give a tile in shared memory");
        tensor_values(inst);
    }
    /// Tiles in tensor memory come from converts and products and go there; `for` hands them on.
    void tensor_values(const Inst& inst) {
        const bool moves = inst.op == Op::convert || inst.op == Op::dot || inst.op == Op::for_loop;
        const auto operands = fn_.operands(inst);
        for (size_t o = 0; o < operands.size(); ++o) {
            const bool here = moves || inst.op == Op::yield;
            need((here && (inst.op != Op::dot || o == 2)) || !in_tensor_memory(fn_, operands[o]), "cannot read tensor memory");
        }
        for (uint32_t r = 0; r < inst.results.count; ++r)
            need(moves || !in_tensor_memory(fn_, fn_.result(inst, r)), "cannot give a tile in tensor memory");
        if (inst.op != Op::convert) return;
        const Placement &from = fn_.placement(operands[0]), &to = fn_.placement(fn_.result(inst));
        if (from.kind != Placement::tensor && to.kind != Placement::tensor) return;
        const Placement& other = from.kind == Placement::tensor ? to : from;
        need(other.kind == Placement::registers && other.regs == tensor_memory_rows(other.regs.shape, fn_.gpu->warps),
             "not the registers that tensor memory is read into");
    }
    void same(ValueId a, ValueId b) {
        if (is_tile(fn_, a) && is_tile(fn_, b)) need(fn_.placement(a) == fn_.placement(b), "placements differ");
    }
    void carried(const Inst& loop) {
        const auto blocks = fn_.blocks(loop);
        const auto pass = [&](std::span<const ValueId> from, std::span<const ValueId> to) {
            for (size_t i = 0; i < std::min(from.size(), to.size()); ++i) same(from[i], to[i]);
        };
        const auto last = [&](size_t b) { return fn_.operands(fn_.inst(fn_.block(blocks[b]).insts.back())); };
        std::vector<ValueId> results;
        for (uint32_t r = 0; r < loop.results.count; ++r) results.push_back(fn_.result(loop, r));
        if (loop.op == Op::for_loop) {
            const std::span<const ValueId> args(fn_.block(blocks[0]).args);
            pass(fn_.operands(loop).subspan(3), args.subspan(1));
            pass(last(0), args.subspan(1));
            pass(last(0), results);
        } else if (loop.op == Op::while_loop) {
            pass(fn_.operands(loop), fn_.block(blocks[0]).args);
            pass(last(0).subspan(1), fn_.block(blocks[1]).args);
            pass(last(0).subspan(1), results);
            pass(last(1), fn_.block(blocks[0]).args);
        } else {
            pass(last(0), results);
            pass(last(1), results);
        }
    }
    void product(InstId id) {
        const Inst& inst = fn_.inst(id);
        const auto operands = fn_.operands(inst);
        same(operands[2], fn_.result(inst));
        const MmaRow& r = product_row(fn_, id);
        if (r.kind == MmaRow::dp4a) return;  // from wherever they lie
        if (r.kind == MmaRow::fma)
            return need(fn_.placement(operands[0]).kind == Placement::registers && fn_.placement(operands[1]).kind == Placement::registers,
                        "fma reads registers");
        const Placement &a = fn_.placement(operands[0]), &b = fn_.placement(operands[1]);
        if (r.kind == MmaRow::tcgen05) {
            need(in_tensor_memory(fn_, fn_.result(inst)), "the sum is not in tensor memory");
            for (const int which : {0, 1}) {
                const Placement& p = fn_.placement(operands[static_cast<size_t>(which)]);
                need(p.kind == Placement::shared && row_reads(r, which, p.smem), "an operand is not where tcgen05 reads it");
            }
            return;
        }
        const std::optional<WarpGrid> grid = placed_grid(fn_, id);
        if (!grid) return need(false, "the accumulator is not in its fragment");
        const ProductPlacements want = product_placements(fn_, id, *grid, a.kind == Placement::registers);
        if (r.kind == MmaRow::wgmma) {
            need(b.kind == Placement::shared && row_reads(r, 1, b.smem), "operand B is not where wgmma reads it");
            need(a.kind == Placement::registers ? a == want.a : row_reads(r, 0, a.smem), "operand A is not where wgmma reads it");
        } else {
            need(a == want.a && b == want.b, "an operand is not in its fragment");
        }
    }
    void rule(InstId id) {
        const Inst& inst = fn_.inst(id);
        const auto operands = fn_.operands(inst);
        if (keeps_layout(inst.op) || inst.op == Op::ptr_load || inst.op == Op::ptr_atomic)
            for (const ValueId v : operands) same(v, fn_.result(inst));
        if (inst.op == Op::ptr_store)
            for (const ValueId v : operands) same(v, operands[0]);
        if (inst.op == Op::for_loop || inst.op == Op::while_loop || inst.op == Op::if_else) carried(inst);
        if (is_product(inst.op)) product(id);
        if (inst.op == Op::ptx_tile) {
            const auto groups = instruction_groups(fn_, inst, operands.size(), fn_.placement(fn_.result(inst)).regs);
            const InstructionPlacements want = instruction_placements(fn_, inst, groups);
            for (size_t i = 0; i < operands.size(); ++i) need(fn_.placement(operands[i]) == want.operands[i], "an operand is not in its fragment");
            need(fn_.placement(fn_.result(inst)) == want.result, "the result is not in its fragment");
        }
        if (fn_.gpu_inst(id).bulk) {
            const bool stores = inst.op == Op::store || inst.op == Op::atomic;
            need(stores && !fn_.gpu_inst(id).global_scratch, "only a store or an atomic through shared memory is done in bulk");
        }
    }

    const Function& fn_;
    std::vector<std::string> problems_;
    std::string where_;
};

}  // namespace

bool clean_converts(ir::Function& fn) {
    std::vector<bool> dead(fn.inst_count());
    Replacements replaced;
    bool changed = false;
    std::map<std::pair<uint32_t, uint32_t>, ValueId> known;  // (operand, placement) within one block
    BlockId block;
    fn.walk([&](InstId id) {
        replaced.apply(fn, id);
        const Inst& inst = fn.inst(id);
        if (inst.parent != block) known.clear(), block = inst.parent;
        if (inst.op != Op::convert || in_tensor_memory(fn, fn.result(inst))) return;  // what is overwritten in place is made for one taker each
        const ValueId v = fn.result(inst), from = fn.operands(inst)[0];
        const uint32_t place = fn.gpu->of_value[v.v];
        const auto [it, fresh] = known.try_emplace({from.v, place}, v);
        const ValueId same = fn.gpu->of_value[from.v] == place ? from : fresh ? ValueId{} : it->second;
        if (!same.valid()) return;
        replaced.set(v, same);
        dead[id.v] = changed = true;
    });
    if (changed) fn.remove_if(dead);
    return dce(fn) || changed;
}

std::vector<std::string> check_placements(const ir::Function& fn) { return Checker(fn).run(); }

}  // namespace tegula
