// Bits of floats whose NaNs nobody sees (planner.h): those of exp's exponent, say, which scale a polynomial that is NaN itself then. They need not be
// settled (scalars.h).
#include "jit/cpu/planner.h"

#include <algorithm>

#include "jit/cpu/scalar_formats.h"

namespace tegula::cpu {

using ir::Op;

namespace {

constexpr size_t kLooked = 64;  ///< values looked at for one

bool keeps_nans(Op op) { return op == Op::add || op == Op::sub || op == Op::mul || op == Op::div || op == Op::fma || op == Op::neg || op == Op::abs; }

bool is_bit_arithmetic(Op op) {
    return op == Op::add || op == Op::sub || op == Op::mul || op == Op::shl || op == Op::shr || op == Op::bit_and || op == Op::bit_or ||
           op == Op::bit_xor;
}

}  // namespace

/// Is v, element by element, NaN wherever `source` is?
bool Planner::is_nan_with(ir::ValueId v, ir::ValueId source) const {
    std::vector<ir::ValueId> seen{v};
    for (size_t k = 0; k < seen.size() && seen.size() < kLooked; ++k) {
        if (seen[k] == source) return true;
        const ir::Inst* def = fn_.def(seen[k]);
        if (!def || !keeps_nans(def->op) || !is_native(fn_.elem(seen[k]))) continue;
        for (ir::ValueId o : fn_.operands(*def))
            if (std::find(seen.begin(), seen.end(), o) == seen.end()) seen.push_back(o);
    }
    return false;
}

/// Does what is computed from the bits end in floats that are NaN where `source` is, whatever the bits are?
bool Planner::nan_is_unseen(ir::ValueId bits, ir::ValueId source) const {
    std::vector<ir::ValueId> made{bits};
    for (size_t k = 0; k < made.size(); ++k) {
        const Format& format = fn_.elem(made[k]);
        for (const Use& use : uses_.of(made[k])) {
            const ir::Inst& user = fn_.inst(use.inst);
            const bool goes_on = user.op == Op::bitcast || (format.is_int() && is_bit_arithmetic(user.op));
            if (goes_on && !fn_.type(fn_.result(user)).pointer) {
                if (std::find(made.begin(), made.end(), fn_.result(user)) == made.end()) made.push_back(fn_.result(user));
                continue;
            }
            if (!is_native(format) || !keeps_nans(user.op)) return false;
            const auto operands = fn_.operands(user);
            if (std::none_of(operands.begin(), operands.end(), [&](ir::ValueId o) { return is_nan_with(o, source); })) return false;
        }
        if (made.size() > kLooked) return false;
    }
    return true;
}

void Planner::find_unseen_nans() {
    for (ir::InstId id : order_) {
        const ir::Inst& inst = fn_.inst(id);
        if (inst.op != Op::bitcast) continue;
        const ir::ValueId from = fn_.operands(inst)[0], to = fn_.result(inst);
        if (fn_.type(from).pointer || fn_.type(to).pointer || !is_native(fn_.elem(from)) || !fn_.elem(to).is_int()) continue;
        plan_.values[to.v].unseen_nans = nan_is_unseen(to, from);
    }
}

}  // namespace tegula::cpu
