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

bool reduce_is_ordered(ReduceKind kind, const Format& f) {
    return (kind == ReduceKind::sum || kind == ReduceKind::prod) && !f.is_int() && !f.is_bool();
}

std::optional<uint64_t> reduce_identity(ReduceKind kind, const Format& f) {
    using K = ReduceKind;
    const bool plain = f.is_int() || f.is_bool() || (f.is_float() && !f.scale_only);
    if (!plain) return std::nullopt;
    switch (kind) {
        case K::sum:
            return f.is_float() ? encode(f, f.negative_zero ? -0.0 : 0.0) : 0;
        case K::prod:
            if (f.is_float() ? decode(f, encode(f, 1.0)) != 1.0 : f.bits == 1 && f.is_signed) return std::nullopt;
            return f.is_float() ? encode(f, 1.0) : 1;
        case K::min:
            return f.is_float() && f.has_inf ? inf_code(f, false) : max_code(f);
        case K::max:
            return f.is_float() && f.has_inf && f.is_signed ? inf_code(f, true) : lowest_code(f);
        case K::minnum:
            return f.is_float() && has_nan(f) ? nan_code(f) : reduce_identity(K::min, f);
        case K::maxnum:
            return f.is_float() && has_nan(f) ? nan_code(f) : reduce_identity(K::max, f);
        case K::all:
        case K::bit_and:
            return extend_code(f, ~uint64_t{0});
        case K::any:
        case K::bit_or:
        case K::bit_xor:
            return 0;
    }
    return std::nullopt;
}

}  // namespace tegula::ir
