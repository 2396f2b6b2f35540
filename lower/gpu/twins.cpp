// Equal scalars of two blocks (twins.h). A work list of claims, not a recursion: chains of definitions may be long.
#include "lower/gpu/twins.h"

#include <algorithm>

namespace tegula {

using namespace ir;

bool Twins::same(ValueId a, ValueId b) {
    work_.emplace_back(a, b);
    return settle();
}

bool Twins::pair_loops(InstId a, InstId b) { return assume_loops(a, b) && settle(); }

bool Twins::settle() {
    while (!work_.empty()) {
        const auto [a, b] = work_.back();
        work_.pop_back();
        if (a == b || !claimed_.emplace(a.v, b.v).second) continue;
        if (!agree(a, b)) {
            work_.clear();
            return false;
        }
    }
    return true;
}

bool Twins::assume_loops(InstId a, InstId b) {
    const auto [at, fresh] = loop_of_a_.emplace(a.v, b.v);
    const auto [bt, fresh_b] = loop_of_b_.emplace(b.v, a.v);
    if (at->second != b.v || bt->second != a.v) return false;
    if (!fresh && !fresh_b) return true;
    const Inst &x = fn_.inst(a), &y = fn_.inst(b);
    if (x.op != y.op) return false;
    if (x.op == Op::while_loop) {
        work_.emplace_back(end_of(fn_.blocks(x)[0], 0), end_of(fn_.blocks(y)[0], 0));
        return true;
    }
    if (x.op != Op::for_loop) return false;
    for (size_t i = 0; i < 3; ++i) work_.emplace_back(fn_.operands(x)[i], fn_.operands(y)[i]);
    return true;
}

bool Twins::agree(ValueId a, ValueId b) {
    const Value &x = fn_.value(a), &y = fn_.value(b);
    if (!(x.type == y.type) || x.def.valid() != y.def.valid()) return false;
    if (x.def.valid()) {
        const Inst &p = fn_.inst(x.def), &q = fn_.inst(y.def);
        if (p.op != q.op) return false;
        if (p.blocks.count) return agree_results(x.def, y.def, x.index, y.index);
        return x.index == y.index && agree_plain(p, q, y.def);
    }
    const InstId p = fn_.block(x.block).owner, q = fn_.block(y.block).owner;
    if (!p.valid() || !q.valid() || fn_.inst(p).op != fn_.inst(q).op || !assume_loops(p, q)) return false;
    const uint32_t skip = fn_.inst(p).op == Op::for_loop ? 1 : 0;
    if (x.index < skip || y.index < skip) return x.index == y.index;
    const bool x_head = fn_.blocks(fn_.inst(p))[0] == x.block, y_head = fn_.blocks(fn_.inst(q))[0] == y.block;
    if (x_head != y_head) return false;
    return agree_carried(fn_.inst(p), fn_.inst(q), x.index - skip, y.index - skip);
}

bool Twins::agree_plain(const Inst& a, const Inst& b, InstId b_id) {
    if (!std::ranges::equal(fn_.attrs(a), fn_.attrs(b)) || a.operands.count != b.operands.count) return false;
    const bool pure = has_trait(a.op, PURE);
    if (!pure && (a.op != Op::load || writes_.may_precede(b_id))) return false;
    for (uint32_t i = 0; i < a.operands.count; ++i) work_.emplace_back(fn_.operands(a)[i], fn_.operands(b)[i]);
    return true;
}

bool Twins::agree_results(InstId a, InstId b, uint32_t i, uint32_t j) {
    const Inst &x = fn_.inst(a), &y = fn_.inst(b);
    if (x.op == Op::for_loop || x.op == Op::while_loop) return assume_loops(a, b) && agree_carried(x, y, i, j);
    if (x.op != Op::if_else) return false;
    work_.emplace_back(fn_.operands(x)[0], fn_.operands(y)[0]);
    for (size_t n = 0; n < 2; ++n) work_.emplace_back(end_of(fn_.blocks(x)[n], i), end_of(fn_.blocks(y)[n], j));
    return true;
}

/// Carried value i of `a` and j of `b`: equal before, and equal again after every trip.
bool Twins::agree_carried(const Inst& a, const Inst& b, uint32_t i, uint32_t j) {
    const uint32_t bounds = a.op == Op::for_loop ? 3 : 0;
    work_.emplace_back(fn_.operands(a)[i + bounds], fn_.operands(b)[j + bounds]);
    const auto p = fn_.blocks(a), q = fn_.blocks(b);
    for (size_t n = 0; n < p.size(); ++n) {
        const uint32_t skip = a.op == Op::while_loop && n == 0 ? 1 : 0;
        work_.emplace_back(end_of(p[n], i + skip), end_of(q[n], j + skip));
    }
    return true;
}

}  // namespace tegula
