// Folding: walks the function once in program order, replaces what is constant or an identity (fold_rules.cpp), joins chains of shape ops,
// and opens branches and loops whose course is known. Instructions it replaces leave their block at once.
#include "lower/fold.h"

#include <algorithm>

#include "lower/lower.h"
#include "lower/rewrite.h"

namespace tegula {

namespace {

using namespace ir;

class Folder : public Rewriter {
public:
    using Rewriter::Rewriter;

private:
    bool replace(InstId id, BlockId into) override;
    bool open(InstId id, BlockId into);
    void splice(InstId owner, BlockId block, BlockId into);
    void join_shapes(InstId id);
    bool holds(const Inst& inst) const;
};

/// An assert or assume of `true`.
bool Folder::holds(const Inst& inst) const {
    uint64_t code = 0;
    return (inst.op == Op::assert || inst.op == Op::assume) && splat_code(fn_, fn_.operands(inst)[0], code) && code;
}

bool Folder::replace(InstId id, BlockId into) {
    join_shapes(id);
    const Inst inst = fn_.inst(id);
    if (holds(inst) || open(id, into)) return true;
    if (inst.results.count != 1 || !has_trait(inst.op, PURE) || has_trait(inst.op, REGIONS)) return false;
    const ValueId result = fn_.result(inst);
    if (const ValueId same = identity(fn_, inst); same.valid()) {
        replaced_.set(result, same);
        return true;
    }
    const auto c = evaluate(fn_, inst);
    if (!c) return false;
    const std::vector<int64_t> codes(c->codes.begin(), c->codes.end());
    const TypeId type = fn_.type_of(result);
    const InstId made = fn_.make(codes.size() == 1 ? Op::constant : Op::constant_tile, {}, {&type, 1}, codes, inst.span);
    fn_.append(into, made);
    replaced_.set(result, fn_.result(made));
    return true;
}

/// Branches on a constant, loops that run never or once: their content, or nothing, takes their place.
bool Folder::open(InstId id, BlockId into) {
    const Inst inst = fn_.inst(id);
    uint64_t code = 0;
    if (inst.op == Op::if_else && splat_code(fn_, fn_.operands(inst)[0], code)) {
        splice(id, fn_.blocks(inst)[code ? 0 : 1], into);
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
    splice(id, body, into);
    return true;
}

/// The block's instructions stand in for its owner; what it yields, for the owner's results.
void Folder::splice(InstId owner, BlockId block, BlockId into) {
    std::vector<InstId> list;
    list.swap(fn_.block(block).insts);
    const InstId end = list.back();
    list.pop_back();
    take(list, into);
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
