// What single instructions amount to (fold.h). Every rule keeps every bit: floats are never reassociated, x + 0 stays (it turns -0 into
// +0), hardware approximations are never folded, and constants go through the evaluation that the interpreter uses.
#include <algorithm>

#include "lang/access_operands.h"
#include "lang/evaluate.h"
#include "lang/scalar.h"
#include "lower/fold.h"
#include "lower/rewrite.h"

namespace tegula {

using namespace ir;

namespace {

constexpr size_t kMaxListed = 1024;  ///< constant_tile results larger than this are not made

/// Is it x with x <= 0 or NaN, beside a constant c with c > 0, or with c >= 0?
bool nonpositive_and(const Function& fn, const Inst& inst, bool above_zero) {
    const std::span<const ValueId> operands = fn.operands(inst);
    const auto c = constant_of(fn, operands[1]);
    if (!c || c->codes.size() != 1 || !fn.elem(operands[1]).is_float()) return false;
    const double value = decode(fn.elem(operands[1]), c->codes[0]);
    return (above_zero ? value > 0 : value >= 0) && is_nonpositive(fn, operands[0]);
}

/// An elementwise op, cast or bitcast of constants, element by element.
std::optional<ConstantTile> evaluate_elements(const Function& fn, const Inst& inst) {
    if (inst.op == Op::gt && nonpositive_and(fn, inst, false)) return ConstantTile{{0}};
    std::vector<ConstantTile> operands;
    size_t count = 1;
    for (ValueId v : fn.operands(inst)) {
        auto c = constant_of(fn, v);
        if (!c || fn.type(v).pointer) return std::nullopt;
        count = std::max(count, c->codes.size());
        operands.push_back(std::move(*c));
    }
    if (operands.size() > 3 || fn.type(fn.result(inst)).pointer) return std::nullopt;
    const Format &from = fn.elem(fn.operands(inst)[0]), &to = fn.elem(fn.result(inst));
    ConstantTile out;
    for (size_t i = 0; i < count; ++i) {
        uint64_t codes[3] = {};
        for (size_t n = 0; n < operands.size(); ++n) codes[n] = operands[n].codes[operands[n].codes.size() == 1 ? 0 : i];
        const auto code = evaluate_scalar(inst.op, fn.attrs(inst), from, to, std::span<const uint64_t>(codes, operands.size()));
        if (!code) return std::nullopt;
        out.codes.push_back(*code);
    }
    return out;
}

}  // namespace

std::optional<ConstantTile> constant_of(const Function& fn, ValueId v) {
    const Inst* def = fn.def(v);
    if (!def || (def->op != Op::constant && def->op != Op::constant_tile)) return std::nullopt;
    const std::span<const int64_t> attrs = fn.attrs(*def);
    if (attrs.size() > kMaxListed) return std::nullopt;
    return ConstantTile{{attrs.begin(), attrs.end()}};
}

std::optional<ConstantTile> evaluate(const Function& fn, const Inst& inst) {
    if (has_trait(inst.op, ELEMWISE) || inst.op == Op::cast || inst.op == Op::bitcast) return evaluate_elements(fn, inst);
    switch (inst.op) {
        case Op::broadcast:
        case Op::permute:
        case Op::slice: {
            auto c = constant_of(fn, fn.operands(inst)[0]);
            return c && c->codes.size() == 1 ? c : std::nullopt;
        }
        case Op::reshape:
            return constant_of(fn, fn.operands(inst)[0]);
        case Op::iota:
            if (fn.type(fn.result(inst)).shape[static_cast<size_t>(fn.attrs(inst)[0])] == 1) return ConstantTile{{0}};
            return std::nullopt;
        case Op::dim: {
            const int64_t extent = fn.type(fn.operands(inst)[0]).shape[static_cast<size_t>(fn.attrs(inst)[0])];
            return extent == kDynamic ? std::nullopt : std::optional(ConstantTile{{static_cast<uint64_t>(extent)}});
        }
        default:
            return std::nullopt;
    }
}

namespace {

/// How constants look in a format: the codes of 0, -0, 1 and all ones, where the identities below hold for it.
struct Neutral {
    const Format& format;
    bool exact() const { return format.is_int() || format.is_bool(); }
    /// A float where a value has one code, NaN aside, so that an operation without effect gives back its operand's code.
    bool plain_float() const { return format.is_float() && format.subnormal && format.bits == format.is_signed + format.exp_bits + format.man_bits; }
    bool is_zero(uint64_t code) const { return code == 0; }
    bool is_minus_zero(uint64_t code) const {
        return format.is_float() && format.negative_zero && format.is_signed && code == uint64_t{1} << (format.bits - 1);
    }
    bool is_one(uint64_t code) const {
        if (format.is_int()) return code == 1 && !(format.bits == 1 && format.is_signed);
        return (plain_float() || format.kind == FormatKind::fixed) && decode(format, code) == 1.0;
    }
    bool all_ones(uint64_t code) const { return exact() && scalar::wrap(code, format.bits, false) == scalar::wrap(~uint64_t{0}, format.bits, false); }
};

/// x op x.
ValueId same_operands(Op op, const Neutral& n, ValueId x) {
    switch (op) {
        case Op::min:
        case Op::max:
        case Op::minnum:
        case Op::maxnum:
            return n.exact() || n.plain_float() || n.format.kind == FormatKind::fixed ? x : ValueId{};
        case Op::bit_and:
        case Op::bit_or:
            return x;
        default:
            return {};
    }
}

/// x op c, c a splat constant: is the result x?
bool right_neutral(Op op, const Neutral& n, uint64_t c) {
    const bool additive = n.exact() || n.format.kind == FormatKind::fixed;
    switch (op) {
        case Op::add:
            return (additive && n.is_zero(c)) || (n.plain_float() && n.is_minus_zero(c));
        case Op::sub:
            return (additive || (n.plain_float() && !n.format.scale_only)) && n.is_zero(c);
        case Op::mul:
        case Op::div:
            return n.is_one(c);
        case Op::div_trunc:
        case Op::div_ceil:
            return n.is_one(c);
        case Op::bit_or:
        case Op::bit_xor:
        case Op::shl:
        case Op::shr:
            return n.is_zero(c);
        case Op::bit_and:
            return n.all_ones(c);
        default:
            return false;
    }
}

/// c op x: is the result x?
bool left_neutral(Op op, const Neutral& n, uint64_t c) {
    return op != Op::sub && op != Op::div && op != Op::div_trunc && op != Op::div_ceil && op != Op::shl && op != Op::shr && right_neutral(op, n, c);
}

/// x op c where the result is c whatever x is.
bool absorbs(Op op, const Neutral& n, uint64_t c) {
    if (op == Op::mul) return n.exact() && n.is_zero(c);
    return (op == Op::bit_and && n.is_zero(c)) || (op == Op::bit_or && n.all_ones(c));
}

ValueId elementwise_identity(const Function& fn, const Inst& inst) {
    const std::span<const ValueId> operands = fn.operands(inst);
    if (fn.type(operands[0]).pointer) return {};
    const Neutral n{fn.elem(operands[0])};
    if (operands.size() == 1) {
        const Inst* inner = fn.def(operands[0]);
        const bool involution = inst.op == Op::bit_not || (inst.op == Op::neg && (n.exact() || (n.plain_float() && n.format.is_signed)));
        return involution && inner && inner->op == inst.op ? fn.operands(*inner)[0] : ValueId{};
    }
    if (operands.size() != 2) return {};
    if (inst.op == Op::min && nonpositive_and(fn, inst, true)) return operands[0];
    uint64_t c = 0;
    if (splat_code(fn, operands[1], c)) {
        if (right_neutral(inst.op, n, c)) return operands[0];
        if (absorbs(inst.op, n, c)) return operands[1];
    }
    if (splat_code(fn, operands[0], c)) {
        if (left_neutral(inst.op, n, c)) return operands[1];
        if (absorbs(inst.op, n, c)) return operands[0];
    }
    return operands[0] == operands[1] ? same_operands(inst.op, n, operands[0]) : ValueId{};
}

ValueId cast_identity(const Function& fn, const Inst& inst) {
    const ValueId from = fn.operands(inst)[0];
    const auto overflow = static_cast<Overflow>(fn.attrs(inst)[1]);
    const Neutral n{fn.elem(from)};
    const bool keeps = overflow == Overflow::automatic || overflow == Overflow::ieee || n.exact();
    return inst.operands.count == 1 && fn.type_of(from) == fn.type_of(fn.result(inst)) && keeps && (n.exact() || n.plain_float()) ? from : ValueId{};
}

/// Does an extract or deposit reach every element of its object, in order?
bool is_whole(const Function& fn, const AccessOperands& operands) {
    if (operands.mask) return false;
    for (size_t d = 0; d < operands.access.axes.size(); ++d) {
        const Access::Axis& axis = operands.access.axes[d];
        if (axis.kind == Access::all) continue;
        uint64_t start = 1;
        const bool whole = axis.kind == Access::range && axis.step == 1 && axis.extent == fn.type(operands.object).shape[d];
        if (!whole || !splat_code(fn, operands.index[d].value, start) || start != 0) return false;
    }
    return true;
}

}  // namespace

ValueId identity(const Function& fn, const Inst& inst) {
    if (has_trait(inst.op, ELEMWISE)) return elementwise_identity(fn, inst);
    const std::span<const ValueId> operands = fn.operands(inst);
    if (operands.empty()) return {};
    const bool same_type = fn.type_of(operands[0]) == fn.type_of(fn.result(inst));
    switch (inst.op) {
        case Op::select: {
            uint64_t c = 0;
            if (operands[1] == operands[2]) return operands[1];
            return splat_code(fn, operands[0], c) ? operands[c ? 1 : 2] : ValueId{};
        }
        case Op::cast:
            return cast_identity(fn, inst);
        case Op::bitcast:
        case Op::broadcast:
        case Op::reshape:
            return same_type ? operands[0] : ValueId{};
        case Op::permute:
            return std::is_sorted(fn.attrs(inst).begin(), fn.attrs(inst).end()) ? operands[0] : ValueId{};
        case Op::cat:
            return operands.size() == 1 ? operands[0] : ValueId{};
        case Op::slice: {
            const auto attrs = fn.attrs(inst);
            bool whole = same_type;
            for (size_t d = 0; d < attrs.size() / 2; ++d) whole &= attrs[2 * d] == 0 && (attrs[2 * d + 1] == 1 || fn.type(operands[0]).shape[d] == 1);
            return whole ? operands[0] : ValueId{};
        }
        case Op::extract:
            return is_whole(fn, AccessOperands(fn, inst)) ? operands[0] : ValueId{};
        case Op::deposit: {
            const AccessOperands access(fn, inst);
            return is_whole(fn, access) ? access.value.value : ValueId{};
        }
        default:
            return {};
    }
}

}  // namespace tegula
