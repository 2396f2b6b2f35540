// Folding: walks the function once in program order, replaces what is constant or an identity (fold_rules.cpp), joins chains of shape ops,
// and opens branches and loops whose course is known. Instructions it replaces leave their block at once.
#include "lower/fold.h"

#include <algorithm>

#include "lower/lower.h"
#include "lower/rewrite.h"

namespace tegula {

namespace {

using namespace ir;

class Folder {
public:
    explicit Folder(Function& fn) : fn_(fn) {}

    bool run() {
        block(fn_.body);
        return changed_;
    }

private:
    void block(BlockId id) {
        std::vector<InstId> list;
        list.swap(fn_.block(id).insts);
        std::vector<InstId> out;
        take(list, id, out);
        fn_.block(id).insts = std::move(out);
    }
    /// Moves instructions behind `out`, which becomes the content of block `into`.
    void take(const std::vector<InstId>& list, BlockId into, std::vector<InstId>& out) {
        for (InstId i : list) {
            fn_.inst(i).parent = into;
            visit(i, into, out);
        }
    }
    void visit(InstId id, BlockId into, std::vector<InstId>& out);
    bool open(InstId id, BlockId into, std::vector<InstId>& out);
    void splice(InstId owner, BlockId block, BlockId into, std::vector<InstId>& out);
    void join_shapes(InstId id);
    bool holds(const Inst& inst) const;

    Function& fn_;
    Replacements replaced_;
    bool changed_ = false;
};

/// An assert or assume of `true`.
bool Folder::holds(const Inst& inst) const {
    uint64_t code = 0;
    return (inst.op == Op::assert || inst.op == Op::assume) && splat_code(fn_, fn_.operands(inst)[0], code) && code;
}

void Folder::visit(InstId id, BlockId into, std::vector<InstId>& out) {
    replaced_.apply(fn_, id);
    join_shapes(id);
    const Inst inst = fn_.inst(id);
    if (holds(inst) || open(id, into, out)) {
        changed_ = true;
        return;
    }
    if (inst.results.count == 1 && has_trait(inst.op, PURE) && !has_trait(inst.op, REGIONS)) {
        const ValueId result = fn_.result(inst);
        if (const ValueId same = identity(fn_, inst); same.valid()) {
            replaced_.set(result, same);
            changed_ = true;
            return;
        }
        if (const auto c = evaluate(fn_, inst)) {
            const std::vector<int64_t> codes(c->codes.begin(), c->codes.end());
            const TypeId type = fn_.type_of(result);
            const InstId made = fn_.make(codes.size() == 1 ? Op::constant : Op::constant_tile, {}, {&type, 1}, codes, inst.span);
            fn_.inst(made).parent = into;
            out.push_back(made);
            replaced_.set(result, fn_.result(made));
            changed_ = true;
            return;
        }
    }
    out.push_back(id);
    for (uint32_t b = 0; b < inst.blocks.count; ++b) block(fn_.blocks(inst)[b]);
}

/// Branches on a constant, loops that run never or once: their content, or nothing, takes their place.
bool Folder::open(InstId id, BlockId into, std::vector<InstId>& out) {
    const Inst inst = fn_.inst(id);
    uint64_t code = 0;
    if (inst.op == Op::if_else && splat_code(fn_, fn_.operands(inst)[0], code)) {
        splice(id, fn_.blocks(inst)[code ? 0 : 1], into, out);
        return true;
    }
    if (inst.op != Op::for_loop) return false;
    int64_t lo = 0, hi = 0, step = 0;
    if (!constant_int(fn_, fn_.operands(inst)[0], lo) || !constant_int(fn_, fn_.operands(inst)[1], hi)) return false;
    const bool known_step = constant_int(fn_, fn_.operands(inst)[2], step);
    if (lo >= hi || (known_step && step <= 0)) {
        for (uint32_t n = 0; n < inst.results.count; ++n) replaced_.set(fn_.result(inst, n), fn_.operands(inst)[3 + n]);
        return true;
    }
    if (!known_step || static_cast<uint64_t>(hi) - static_cast<uint64_t>(lo) > static_cast<uint64_t>(step)) return false;
    const BlockId body = fn_.blocks(inst)[0];
    const std::vector<ValueId> args = fn_.block(body).args;
    replaced_.set(args[0], fn_.operands(inst)[0]);
    for (size_t n = 1; n < args.size(); ++n) replaced_.set(args[n], fn_.operands(inst)[2 + n]);
    splice(id, body, into, out);
    return true;
}

/// The block's instructions stand in for its owner; what it yields, for the owner's results.
void Folder::splice(InstId owner, BlockId block, BlockId into, std::vector<InstId>& out) {
    std::vector<InstId> list;
    list.swap(fn_.block(block).insts);
    const InstId end = list.back();
    list.pop_back();
    take(list, into, out);
    replaced_.apply(fn_, end);
    const Inst inst = fn_.inst(owner);
    for (uint32_t n = 0; n < inst.results.count; ++n) replaced_.set(fn_.result(inst, n), fn_.operands(fn_.inst(end))[n]);
}

/// broadcast(broadcast x), reshape(reshape x), permute(permute x): one op on x.
void Folder::join_shapes(InstId id) {
    const Inst inst = fn_.inst(id);
    if (inst.op != Op::broadcast && inst.op != Op::reshape && inst.op != Op::permute) return;
    const Inst* found = fn_.def(fn_.operands(inst)[0]);
    if (!found || found->op != inst.op) return;
    const Inst inner = *found;
    if (inst.op == Op::permute) {
        std::vector<int64_t> axes;
        for (int64_t a : fn_.attrs(inst)) axes.push_back(fn_.attrs(inner)[static_cast<size_t>(a)]);
        fn_.set_attrs(id, axes);
    }
    const ValueId from = fn_.operands(inner)[0];
    fn_.set_operands(id, {&from, 1});
    changed_ = true;
}

}  // namespace

bool fold(ir::Function& fn) { return Folder(fn).run(); }

}  // namespace tegula
