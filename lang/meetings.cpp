// Uniformity of values (meetings.h): a forward data flow over the function, repeated until nothing changes because loops carry values around. What an
// access reads is known as little wherever it reads, and a value that a branch or loop hands out also tells which way was taken.
#include "lang/meetings.h"

#include <algorithm>

namespace tegula::ir {

namespace {

class Flow {
public:
    explicit Flow(const Function& fn) : fn_(fn), of_(fn.value_count(), Uniformity::uniform) {
        for (bool again = true; again;) {
            changed_ = false;
            visit(fn.body);
            again = changed_;
        }
    }

    /// Of which way a branch takes, or how often a loop runs.
    Uniformity control(const Inst& inst) const {
        if (inst.op == Op::for_loop) return most(fn_.operands(inst).first(3));
        if (inst.op == Op::while_loop) return of(end(fn_.blocks(inst)[0])[0]);
        return most(fn_.operands(inst));
    }

private:
    Uniformity of(ValueId v) const { return of_[v.v]; }
    Uniformity most(std::span<const ValueId> values) const {
        Uniformity out = Uniformity::uniform;
        for (const ValueId v : values) out = std::max(out, of(v));
        return out;
    }
    void raise(ValueId v, Uniformity to) {
        if (to <= of(v)) return;
        of_[v.v] = to;
        changed_ = true;
    }
    void raise(std::span<const ValueId> values, std::span<const ValueId> from) {
        for (size_t i = 0; i < std::min(values.size(), from.size()); ++i) raise(values[i], of(from[i]));
    }
    /// The operands of a block's last instruction.
    std::span<const ValueId> end(BlockId block) const { return fn_.operands(fn_.inst(fn_.block(block).insts.back())); }

    void visit(BlockId block) {
        for (const InstId id : fn_.block(block).insts) {
            const Inst& inst = fn_.inst(id);
            if (inst.blocks.count == 0)
                raise_results(inst, plain(inst));
            else
                owner(inst);
        }
    }

    void raise_results(const Inst& inst, Uniformity to) {
        for (uint32_t i = 0; i < inst.results.count; ++i) raise(fn_.result(inst, i), to);
    }

    Uniformity plain(const Inst& inst) const {
        if (inst.op == Op::program_id || inst.op == Op::cta_id) return Uniformity::program;
        if (has_trait(inst.op, READS)) return Uniformity::memory;
        return most(fn_.operands(inst));
    }

    void owner(const Inst& inst) {
        const std::span<const ValueId> in = fn_.operands(inst);
        const std::span<const BlockId> blocks = fn_.blocks(inst);
        const auto args = [&](size_t block) { return std::span<const ValueId>(fn_.block(blocks[block]).args); };
        switch (inst.op) {
            case Op::for_loop:
                raise(args(0)[0], control(inst));
                raise(args(0).subspan(1), in.subspan(3));
                visit(blocks[0]);
                raise(args(0).subspan(1), end(blocks[0]));
                for (uint32_t i = 0; i < inst.results.count; ++i) raise(fn_.result(inst, i), std::max(of(args(0)[i + 1]), control(inst)));
                return;
            case Op::while_loop:
                raise(args(0), in);
                visit(blocks[0]);
                raise(args(1), end(blocks[0]).subspan(1));
                visit(blocks[1]);
                raise(args(0), end(blocks[1]));
                for (uint32_t i = 0; i < inst.results.count; ++i) raise(fn_.result(inst, i), std::max(of(end(blocks[0])[i + 1]), control(inst)));
                return;
            case Op::if_else:
                for (const BlockId b : blocks) {
                    visit(b);
                    for (uint32_t i = 0; i < inst.results.count; ++i) raise(fn_.result(inst, i), std::max(of(end(b)[i]), control(inst)));
                }
                return;
            default:  // functions that combine elements
                for (const BlockId b : blocks) {
                    for (const ValueId v : fn_.block(b).args) raise(v, most(in));
                    visit(b);
                    raise_results(inst, std::max(most(in), fn_.block(b).insts.empty() ? Uniformity::uniform : most(end(b))));
                }
        }
    }

    const Function& fn_;
    std::vector<Uniformity> of_;
    bool changed_ = false;
};

}  // namespace

std::vector<GridMeeting> grid_meetings(const Function& fn) {
    std::vector<GridMeeting> out;
    for (uint32_t b = 0; b < fn.block_count(); ++b)
        for (const InstId id : fn.block(BlockId{b}).insts)
            if (fn.inst(id).op == Op::grid_barrier) out.push_back({id, Uniformity::uniform, {}});
    if (out.empty()) return out;
    const Flow flow(fn);
    for (GridMeeting& meeting : out)
        for (InstId at = fn.block(fn.inst(meeting.at).parent).owner; at.valid(); at = fn.block(fn.inst(at).parent).owner)
            if (const Uniformity found = flow.control(fn.inst(at)); found > meeting.uniformity) meeting.uniformity = found, meeting.control = at;
    return out;
}

bool may_miss_meetings(const Function& fn) {
    return std::ranges::any_of(grid_meetings(fn), [](const GridMeeting& m) { return m.uniformity != Uniformity::uniform; });
}

}  // namespace tegula::ir

namespace tegula {

std::optional<explain::Cooperative> explain_cooperative(const ir::Function& fn) {
    if (!ir::find_hint(fn.hints, "cooperative")) return std::nullopt;
    return explain::Cooperative{static_cast<int64_t>(ir::grid_meetings(fn).size()), ir::may_miss_meetings(fn)};
}

}  // namespace tegula
