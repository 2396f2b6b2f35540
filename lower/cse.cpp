// Common subexpressions: a pure instruction equal to one in a dominating position is replaced by it. Loads take part as long as no write
// stands between: tensors of a launch may overlap, also one that is only read and one that is written.
#include <algorithm>
#include <map>

#include "lower/lower.h"
#include "lower/rewrite.h"

namespace tegula {

namespace {

using namespace ir;

bool commutes(Op op) {
    switch (op) {
        case Op::add:
        case Op::mul:
        case Op::min:
        case Op::max:
        case Op::minnum:
        case Op::maxnum:
        case Op::eq:
        case Op::ne:
        case Op::bit_and:
        case Op::bit_or:
        case Op::bit_xor:
            return true;
        default:
            return false;
    }
}

/// Op, memory epoch, result types, operands and attributes, in one comparable list.
using Key = std::vector<uint64_t>;

class Cse {
public:
    explicit Cse(Function& fn) : fn_(fn), dead_(fn.inst_count()) {}

    bool run() {
        block(fn_.body);
        if (changed_) fn_.remove_if(dead_);
        return changed_;
    }

private:
    bool takes_part(const Inst& inst) const {
        return !has_trait(inst.op, REGIONS) && (has_trait(inst.op, PURE) || only_reads(inst.op)) && inst.results.count > 0;
    }
    Key key(const Inst& inst) const {
        Key k{static_cast<uint64_t>(inst.op), has_trait(inst.op, READS) ? epoch_ : 0, inst.operands.count};
        for (uint32_t n = 0; n < inst.results.count; ++n) k.push_back(fn_.type_of(fn_.result(inst, n)).v);
        const size_t first = k.size();
        for (ValueId v : fn_.operands(inst)) k.push_back(v.v);
        if (commutes(inst.op)) std::sort(k.begin() + static_cast<std::ptrdiff_t>(first), k.end());
        for (int64_t a : fn_.attrs(inst)) k.push_back(static_cast<uint64_t>(a));
        return k;
    }
    void block(BlockId id) {
        std::vector<Key> added;
        for (InstId i : fn_.block(id).insts) visit(i, added);
        for (const Key& k : added) known_.erase(k);
    }
    void visit(InstId id, std::vector<Key>& added) {
        replaced_.apply(fn_, id);
        const Inst inst = fn_.inst(id);
        if (takes_part(inst)) {
            Key k = key(inst);
            const auto [it, fresh] = known_.emplace(k, id);
            if (fresh) {
                added.push_back(std::move(k));
                return;
            }
            for (uint32_t n = 0; n < inst.results.count; ++n) replaced_.set(fn_.result(inst, n), fn_.result(it->second, n));
            dead_[id.v] = changed_ = true;
            return;
        }
        const bool writes = has_trait_within(fn_, id, WRITES);
        const bool closed = has_trait(inst.op, PURE);  // combining functions of reductions capture nothing new
        std::map<Key, InstId> outer;
        if (closed) std::swap(outer, known_);
        for (uint32_t b = 0; b < inst.blocks.count; ++b) {
            epoch_ += writes;
            block(fn_.blocks(inst)[b]);
        }
        if (closed) std::swap(outer, known_);
        epoch_ += writes;
    }

    Function& fn_;
    std::vector<bool> dead_;
    std::map<Key, InstId> known_;
    Replacements replaced_;
    uint64_t epoch_ = 1;
    bool changed_ = false;
};

}  // namespace

bool cse(ir::Function& fn) { return Cse(fn).run(); }

}  // namespace tegula
