// Loop-invariant code: pure instructions whose operands come from outside the loop move in front of it, inner loops first. No op traps, so
// this is right even when the loop does not run. Loads of `in` tensors move only out of loops that write nothing, as tensors of a
// launch may overlap, and that surely run, so that checked runs see no access that the author did not write.
#include <algorithm>

#include "lang/made_in.h"
#include "lower/lower.h"
#include "lower/rewrite.h"

namespace tegula {

namespace {

using namespace ir;

class Licm {
public:
    explicit Licm(Function& fn) : fn_(fn) {}

    bool run() {
        block(fn_.body);
        return changed_;
    }

private:
    bool surely_runs(const Inst& loop) const {
        int64_t lo = 0, hi = 0, step = 0;
        const auto operands = fn_.operands(loop);
        return loop.op == Op::for_loop && constant_int(fn_, operands[0], lo) && constant_int(fn_, operands[1], hi) &&
               constant_int(fn_, operands[2], step) && lo < hi && step > 0;
    }
    bool movable(const Inst& inst, InstId loop) const {
        if (has_trait(inst.op, REGIONS)) return false;
        if (!has_trait(inst.op, PURE)) {
            if (!only_reads(inst.op) || !surely_runs(fn_.inst(loop)) || has_trait_within(fn_, loop, WRITES)) return false;
            const Type& object = fn_.type(fn_.operands(inst)[0]);
            if (object.kind != Type::tensor || object.mode != Mode::in) return false;
        }
        const auto operands = fn_.operands(inst);
        return std::none_of(operands.begin(), operands.end(), [&](ValueId v) { return made_in(fn_, v, loop); });
    }
    void block(BlockId id) {
        for (size_t at = 0; at < fn_.block(id).insts.size(); ++at) {
            const InstId i = fn_.block(id).insts[at];
            const Inst inst = fn_.inst(i);
            for (uint32_t b = 0; b < inst.blocks.count; ++b) block(fn_.blocks(inst)[b]);
            if (inst.op != Op::for_loop && inst.op != Op::while_loop) continue;
            const std::vector<InstId> moved = take_invariants(i);
            std::vector<InstId>& list = fn_.block(id).insts;
            list.insert(list.begin() + static_cast<std::ptrdiff_t>(at), moved.begin(), moved.end());
            for (InstId m : moved) fn_.inst(m).parent = id;
            at += moved.size();
            changed_ |= !moved.empty();
        }
    }
    /// Takes them out of the loop's blocks, in order. What was taken counts as outside for what follows.
    std::vector<InstId> take_invariants(InstId loop) {
        std::vector<InstId> moved;
        const Inst inst = fn_.inst(loop);
        for (uint32_t b = 0; b < inst.blocks.count; ++b) {
            const BlockId body = fn_.blocks(inst)[b];
            std::erase_if(fn_.block(body).insts, [&](InstId i) {
                if (!movable(fn_.inst(i), loop)) return false;
                moved.push_back(i);
                fn_.inst(i).parent = inst.parent;
                return true;
            });
        }
        return moved;
    }

    Function& fn_;
    bool changed_ = false;
};

}  // namespace

bool licm(ir::Function& fn) { return Licm(fn).run(); }

}  // namespace tegula
