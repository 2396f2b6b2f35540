// Joining ops (joining.h).
#include "lang/joining.h"

namespace tegula::ir {

Op joining_op(ReduceKind kind, const Format& format) {
    using K = ReduceKind;
    switch (kind) {
        case K::sum:
            return Op::add;
        case K::prod:
            return Op::mul;
        case K::min:
            return Op::min;
        case K::max:
            return Op::max;
        case K::minnum:
            return format.is_bool() ? Op::min : Op::minnum;
        case K::maxnum:
            return format.is_bool() ? Op::max : Op::maxnum;
        case K::any:
        case K::bit_or:
            return Op::bit_or;
        case K::all:
        case K::bit_and:
            return Op::bit_and;
        case K::bit_xor:
            return Op::bit_xor;
    }
    return Op::add;
}

Op joining_op(AtomicKind kind) {
    switch (kind) {
        case AtomicKind::max:
            return Op::max;
        case AtomicKind::min:
            return Op::min;
        case AtomicKind::bit_and:
            return Op::bit_and;
        case AtomicKind::bit_or:
            return Op::bit_or;
        case AtomicKind::bit_xor:
            return Op::bit_xor;
        default:
            return Op::add;
    }
}

}  // namespace tegula::ir
