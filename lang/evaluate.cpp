#include "lang/evaluate.h"

#include "lang/scalar.h"

namespace tegula {

using ir::Op;

Undefined undefined_quotient(Op op, const Format& format, uint64_t dividend, uint64_t divisor) {
    const bool quotient = op == Op::div || op == Op::div_trunc || op == Op::div_ceil, remainder = op == Op::rem || op == Op::rem_trunc;
    if ((!quotient && !remainder) || !format.is_int()) return Undefined::no;
    if (divisor == 0) return Undefined::by_zero;
    const bool least = format.is_signed && dividend == scalar::wrap(uint64_t{1} << (format.bits - 1), format.bits, true);
    return quotient && least && divisor == UINT64_MAX ? Undefined::overflow : Undefined::no;
}

std::optional<uint64_t> scalar_constant(const ir::Function& fn, ir::ValueId v) {
    const ir::Inst* def = fn.def(v);
    const Type& type = fn.type(v);
    if (!def || def->op != Op::constant || type.kind != Type::tile || type.pointer || type.shape.rank != 0) return std::nullopt;
    return static_cast<uint64_t>(fn.attrs(*def)[0]);
}

std::optional<uint64_t> evaluate_scalar(Op op, std::span<const int64_t> attrs, const Format& from, const Format& to,
                                        std::span<const uint64_t> codes) {
    if (ir::has_trait(op, ir::ELEMWISE)) {
        if (scalar::wide_f32(op)) return std::nullopt;
        if (codes.size() == 2 && undefined_quotient(op, from, codes[0], codes[1]) != Undefined::no) return std::nullopt;
        return scalar::eval_elementwise(op, from, codes);
    }
    switch (op) {
        case Op::cast: {
            const RoundSpec spec{static_cast<Round>(attrs[0]), static_cast<Overflow>(attrs[1]), 0};
            if (is_random(spec.round) || spec.overflow == Overflow::trap) return std::nullopt;
            return convert(to, from, codes[0], spec);
        }
        case Op::bitcast:
            return extend_code(to, codes[0]);
        case Op::select:
            return codes[codes[0] ? 1 : 2];
        default:
            return std::nullopt;
    }
}

}  // namespace tegula
