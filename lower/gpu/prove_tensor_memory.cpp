// The part of `prove` about values in tensor memory: what an instruction reads there is what its operand put there, on every path, although products
// overwrite sums in place. The program is walked with the value that every run of columns holds; what a loop's trip writes is not known at the
// start of the next one, unless the loop carries it. (That accesses of different threads are ordered is prove.cpp's part.)
#include <algorithm>

#include "lang/gpu/tensor_memory.h"
#include "lower/gpu/gpu.h"
#include "lower/rewrite.h"

namespace tegula {

using namespace ir;

namespace {

/// Columns [begin, end) and the value they hold.
struct Held {
    int64_t begin, end;
    ValueId value;
    friend bool operator==(const Held&, const Held&) = default;
};
using Holds = std::vector<Held>;

class Walk {
public:
    explicit Walk(const Function& fn) : fn_(fn) {}
    std::vector<std::string> run() {
        Holds state;
        block(fn_.body, state);
        return std::move(problems_);
    }

private:
    bool tensor(ValueId v) const { return in_tensor_memory(fn_, v); }
    Held place(ValueId v) const {
        const TensorLayout& l = fn_.placement(v).tmem;
        return {l.column, l.column + tensor_columns(l.shape), v};
    }
    void put(Holds& state, ValueId v) const {
        const Held now = place(v);
        std::erase_if(state, [&](const Held& h) { return h.begin < now.end && now.begin < h.end; });
        state.push_back(now);
    }
    void need(const Holds& state, ValueId v, InstId by) {
        if (std::find(state.begin(), state.end(), place(v)) != state.end() || problems_.size() >= kMaxProblems) return;
        const Inst& inst = fn_.inst(by);
        problems_.push_back("inst " + std::to_string(by.v) + " (" + op_row(inst.op).name + ", source " + std::to_string(inst.span.file) + ":" +
                            std::to_string(inst.span.begin) + "): %" + std::to_string(v.v) + " may have been overwritten in tensor memory");
    }
    /// Drops what the blocks of an instruction may overwrite.
    void forget(const Inst& inst, Holds& state) const {
        for (const BlockId b : fn_.blocks(inst))
            fn_.walk(b, [&](InstId i) {
                const Inst& inner = fn_.inst(i);
                if ((inner.op != Op::dot && inner.op != Op::convert) || !tensor(fn_.result(inner))) return;
                const Held now = place(fn_.result(inner));
                std::erase_if(state, [&](const Held& h) { return h.begin < now.end && now.begin < h.end; });
            });
    }
    void block(BlockId id, Holds& state) {
        for (const InstId i : fn_.block(id).insts) instruction(i, state);
    }
    void instruction(InstId id, Holds& state) {
        const Inst& inst = fn_.inst(id);
        for (const ValueId v : fn_.operands(inst))
            if (tensor(v)) need(state, v, id);
        const auto blocks = fn_.blocks(inst);
        if (inst.op == Op::for_loop) return loop(inst, state);
        if (inst.op == Op::specialise) return block(blocks[1], state);
        if (inst.op == Op::if_else) {
            Holds other = state;
            block(blocks[0], state);
            block(blocks[1], other);
            std::erase_if(state, [&](const Held& h) { return std::find(other.begin(), other.end(), h) == other.end(); });
        } else if (blocks.size()) {
            forget(inst, state);
            for (const BlockId b : blocks) {
                block(b, state);
                forget(inst, state);
            }
        }
        for (uint32_t r = 0; r < inst.results.count; ++r)
            if (tensor(fn_.result(inst, r))) put(state, fn_.result(inst, r));
    }
    /// A value of the body is needed by its yield, so that what the next trip, or the code behind the loop, finds is what was carried.
    void loop(const Inst& inst, Holds& state) {
        const auto& args = fn_.block(fn_.blocks(inst)[0]).args;
        forget(inst, state);
        Holds inside = state;
        for (const ValueId v : args)
            if (tensor(v)) put(inside, v);
        block(fn_.blocks(inst)[0], inside);
        for (uint32_t r = 0; r < inst.results.count; ++r)
            if (tensor(fn_.result(inst, r))) put(state, fn_.result(inst, r));
    }

    const Function& fn_;
    std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> prove_tensor_memory(const Function& fn) { return Walk(fn).run(); }

}  // namespace tegula
