#include "lang/divisor.h"

#include <algorithm>
#include <bit>
#include <map>

namespace tegula {

using ir::Op;

namespace {

constexpr int kMostBits = 40;
constexpr int64_t kMost = int64_t{1} << kMostBits;
constexpr int kMaxDepth = 40;

/// By value; sums of themselves would be followed on both sides each.
using Known = std::map<uint32_t, int64_t>;

int64_t divisor_anew(const ir::Function& fn, ir::ValueId v, int depth, Known& known);

int64_t divisor(const ir::Function& fn, ir::ValueId v, int depth, Known& known) {
    if (const auto it = known.find(v.v); it != known.end()) return it->second;
    return depth > kMaxDepth ? 1 : known[v.v] = divisor_anew(fn, v, depth, known);
}

int64_t divisor_anew(const ir::Function& fn, ir::ValueId v, int depth, Known& known) {
    const ir::Inst* def = fn.def(v);
    if (!def) {
        const ir::InstId owner = fn.value(v).block.valid() ? fn.block(fn.value(v).block).owner : ir::InstId{};
        if (!owner.valid() || fn.inst(owner).op != Op::for_loop || fn.value(v).index != 0) return 1;
        const auto bounds = fn.operands(fn.inst(owner));
        return std::min(divisor(fn, bounds[0], depth + 1, known), divisor(fn, bounds[2], depth + 1, known));
    }
    const auto in = [&](size_t k) { return divisor(fn, fn.operands(*def)[k], depth + 1, known); };
    switch (def->op) {
        case Op::constant:
            return int64_t{1} << std::min(std::countr_zero(static_cast<uint64_t>(fn.attrs(*def)[0])), kMostBits);
        case Op::mul:
            return std::min(kMost, in(0) * std::min<int64_t>(in(1), 1 << 20));
        case Op::add:
        case Op::sub:
        case Op::min:
        case Op::max:
            return std::min(in(0), in(1));
        case Op::select:
            return std::min(in(1), in(2));
        case Op::cast: {
            const Format &to = fn.elem(v), &from = fn.elem(fn.operands(*def)[0]);
            const bool kept = to.is_int() && from.is_int() && from.bits < to.bits && (to.is_signed || !from.is_signed);
            return kept ? in(0) : 1;
        }
        default:
            return 1;
    }
}

}  // namespace

int64_t power_of_two_divisor(const ir::Function& fn, ir::ValueId v) {
    Known known;
    return divisor(fn, v, 0, known);
}

}  // namespace tegula
