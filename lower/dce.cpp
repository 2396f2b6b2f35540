// Dead code: keeps effects, terminators of live blocks, loops that may not end, and what those need; removes every other instruction.
#include "lower/lower.h"
#include "lower/rewrite.h"

namespace tegula {

namespace {

using namespace ir;

class Marker {
public:
    explicit Marker(const Function& fn) : fn_(fn), live_(fn.inst_count()) {}

    /// Which instructions are live.
    std::vector<bool> run() {
        fn_.walk([&](InstId i) {
            const Op op = fn_.inst(i).op;
            if ((op_row(op).traits & (WRITES | EFFECT)) || op == Op::ret || op == Op::while_loop) mark(i);
        });
        while (!work_.empty()) {
            const InstId i = work_.back();
            work_.pop_back();
            spread(fn_.inst(i));
        }
        return std::move(live_);
    }

private:
    void mark(InstId i) {
        if (!i.valid() || live_[i.v]) return;
        live_[i.v] = true;
        work_.push_back(i);
    }
    void spread(const Inst& inst) {
        for (ValueId v : fn_.operands(inst)) mark(fn_.value(v).def);
        mark(fn_.block(inst.parent).owner);
        for (BlockId b : fn_.blocks(inst)) mark(fn_.block(b).insts.back());
    }

    const Function& fn_;
    std::vector<bool> live_;
    std::vector<InstId> work_;
};

}  // namespace

bool dce(ir::Function& fn) {
    std::vector<bool> dead = Marker(fn).run();
    dead.flip();
    bool changed = false;
    fn.walk([&](InstId i) { changed |= dead[i.v]; });
    if (changed) fn.remove_if(dead);
    return changed;
}

}  // namespace tegula
