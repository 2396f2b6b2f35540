// Rows of ops.def on integers, bool and fixed point. Integers compute in their container and wrap to their width; quotients of up to 32 bits go
// through floating division, which is exact there and vectorises.
#include <llvm/IR/Constants.h>
#include <llvm/IR/PatternMatch.h>

#include "jit/cpu/scalar_formats.h"
#include "jit/cpu/scalars.h"
#include "lang/check.h"

namespace tegula::cpu {

using ir::Op;
using llvm::Value;
namespace Intrinsic = llvm::Intrinsic;

Value* Scalars::compare(Op op, bool is_signed, Value* a, Value* b) {
    using P = llvm::CmpInst;
    switch (op) {
        case Op::eq:
            return b_.CreateICmpEQ(a, b);
        case Op::ne:
            return b_.CreateICmpNE(a, b);
        case Op::lt:
            return b_.CreateICmp(is_signed ? P::ICMP_SLT : P::ICMP_ULT, a, b);
        case Op::le:
            return b_.CreateICmp(is_signed ? P::ICMP_SLE : P::ICMP_ULE, a, b);
        case Op::gt:
            return b_.CreateICmp(is_signed ? P::ICMP_SGT : P::ICMP_UGT, a, b);
        case Op::ge:
            return b_.CreateICmp(is_signed ? P::ICMP_SGE : P::ICMP_UGE, a, b);
        case Op::min:
        case Op::minnum:
            return call(is_signed ? Intrinsic::smin : Intrinsic::umin, {a, b});
        case Op::max:
        case Op::maxnum:
            return call(is_signed ? Intrinsic::smax : Intrinsic::umax, {a, b});
        default:
            TEGULA_CHECK(false, ir::op_row(op).name);
    }
}

Value* Scalars::bool_row(Op op, std::span<Value* const> x) {
    switch (op) {
        case Op::min:
        case Op::bit_and:
            return b_.CreateAnd(x[0], x[1]);
        case Op::max:
        case Op::bit_or:
            return b_.CreateOr(x[0], x[1]);
        case Op::ne:
        case Op::bit_xor:
            return b_.CreateXor(x[0], x[1]);
        case Op::eq:
            return b_.CreateNot(b_.CreateXor(x[0], x[1]));
        case Op::bit_not:
            return b_.CreateNot(x[0]);
        default:
            TEGULA_CHECK(false, ir::op_row(op).name);
    }
}

Value* Scalars::integer_row(Op op, const Format& f, std::span<Value* const> x) {
    switch (op) {
        case Op::add:
            return wrap(b_.CreateAdd(x[0], x[1]), f);
        case Op::sub:
            return wrap(b_.CreateSub(x[0], x[1]), f);
        case Op::mul:
            return wrap(b_.CreateMul(x[0], x[1]), f);
        case Op::fma:
            return wrap(b_.CreateAdd(b_.CreateMul(x[0], x[1]), x[2]), f);
        case Op::neg:
            return wrap(b_.CreateNeg(x[0]), f);
        case Op::abs:
            return f.is_signed ? wrap(b_.CreateSelect(b_.CreateICmpSLT(x[0], i(x[0], 0)), b_.CreateNeg(x[0]), x[0]), f) : x[0];
        case Op::div:
        case Op::rem:
        case Op::div_trunc:
        case Op::rem_trunc:
        case Op::div_ceil:
            return wrap(divide_row(op, f, x[0], x[1]), f);
        case Op::bit_and:
            return b_.CreateAnd(x[0], x[1]);
        case Op::bit_or:
            return b_.CreateOr(x[0], x[1]);
        case Op::bit_xor:
            return b_.CreateXor(x[0], x[1]);
        case Op::bit_not:
            return wrap(b_.CreateNot(x[0]), f);
        case Op::umulhi:
        case Op::mulhi:
        case Op::shl:
        case Op::shr:
        case Op::popcount:
        case Op::clz:
        case Op::ctz:
            return integer_bits_row(op, f, x);
        default:
            return compare(op, f.is_signed, x[0], x[1]);
    }
}

Value* Scalars::high_product(Value* a, Value* b) {
    const auto low = [&](Value* v) { return b_.CreateAnd(v, i(v, 0xffffffff)); };
    const auto high = [&](Value* v) { return b_.CreateLShr(v, i(v, 32)); };
    Value *a0 = low(a), *a1 = high(a), *b0 = low(b), *b1 = high(b);
    Value *m0 = b_.CreateMul(a0, b1), *m1 = b_.CreateMul(a1, b0);
    Value* middle = b_.CreateAdd(b_.CreateAdd(high(b_.CreateMul(a0, b0)), low(m0)), low(m1));
    return b_.CreateAdd(b_.CreateAdd(b_.CreateMul(a1, b1), high(middle)), b_.CreateAdd(high(m0), high(m1)));
}

Value* Scalars::integer_bits_row(Op op, const Format& f, std::span<Value* const> x) {
    const unsigned container = f.container_bytes() * 8, spare = container - f.bits;
    Value* a = x[0];
    switch (op) {
        case Op::umulhi:
        case Op::mulhi: {
            if (container == 64) {
                Value* high = high_product(a, x[1]);
                // A negative factor was taken for 2^64 more than it is.
                const auto too_much = [&](Value* v, Value* by) { return b_.CreateAnd(b_.CreateAShr(v, i(v, 63)), by); };
                if (f.is_signed) high = b_.CreateSub(b_.CreateSub(high, too_much(a, x[1])), too_much(x[1], a));
                if (spare == 0) return high;
                return wrap(b_.CreateOr(b_.CreateShl(high, i(a, spare)), b_.CreateLShr(b_.CreateMul(a, x[1]), i(a, f.bits))), f);
            }
            Value* product = b_.CreateMul(resize(a, 2 * container, f.is_signed), resize(x[1], 2 * container, f.is_signed));
            return wrap(resize(b_.CreateLShr(product, i(product, f.bits)), container, false), f);
        }
        case Op::shl: {
            // A negative amount is a large one in the container as well.
            Value* out = b_.CreateICmpUGE(x[1], i(a, f.bits));
            return wrap(b_.CreateSelect(out, i(a, 0), b_.CreateShl(a, b_.CreateSelect(out, i(a, 0), x[1]))), f);
        }
        case Op::shr: {
            if (f.is_signed) return b_.CreateAShr(a, call(Intrinsic::umin, {x[1], i(a, container - 1)}));
            Value* out = b_.CreateICmpUGE(x[1], i(a, f.bits));
            return b_.CreateSelect(out, i(a, 0), b_.CreateLShr(a, b_.CreateSelect(out, i(a, 0), x[1])));
        }
        case Op::popcount:
            return wrap(call(Intrinsic::ctpop, {low_code(a, f)}), f);
        case Op::clz:
            return wrap(b_.CreateSub(b_.CreateIntrinsic(a->getType(), Intrinsic::ctlz, {low_code(a, f), b_.getFalse()}), i(a, spare)), f);
        case Op::ctz: {
            // A bit just above the element's ends the count.
            Value* v = spare ? b_.CreateOr(a, i(a, uint64_t{1} << f.bits)) : a;
            return wrap(b_.CreateIntrinsic(a->getType(), Intrinsic::cttz, {v, b_.getFalse()}), f);
        }
        default:
            TEGULA_CHECK(false, ir::op_row(op).name);
    }
}

// ---- quotients ----

/// `v`, but 1 for 0, and for -1 of signed ones. No selection: where one side of a select is a constant divisor with a zero in any lane, LLVM 19 takes
/// the quotient of the other side for all lanes.
static Value* safe_divisor(llvm::IRBuilderBase& b, Value* v, bool is_signed) {
    const auto number = [&](uint64_t n) { return llvm::ConstantInt::get(v->getType(), n); };
    if (!is_signed) return b.CreateBinaryIntrinsic(Intrinsic::umax, v, number(1));
    return b.CreateSub(b.CreateBinaryIntrinsic(Intrinsic::umax, b.CreateAdd(v, number(1)), number(2)), number(1));
}

/// Toward zero, of a divisor that is neither 0 nor, of signed ones, -1.
Value* Scalars::quotient(const Format& f, Value* a, Value* b) {
    const unsigned container = f.container_bytes() * 8;
    const llvm::APInt* known = nullptr;
    const bool exact = llvm::PatternMatch::match(b, llvm::PatternMatch::m_APInt(known)) || !a->getType()->isVectorTy() || container == 64;
    if (exact) return f.is_signed ? b_.CreateSDiv(a, b) : b_.CreateUDiv(a, b);
    llvm::Type* type = like(container == 32 ? b_.getDoubleTy() : b_.getFloatTy(), a);
    const auto as_float = [&](Value* v) { return f.is_signed ? b_.CreateSIToFP(v, type) : b_.CreateUIToFP(v, type); };
    Value* r = b_.CreateFDiv(as_float(a), as_float(b));
    llvm::Type* wide = like(b_.getInt32Ty(), a);
    return resize(f.is_signed ? b_.CreateFPToSI(r, wide) : b_.CreateFPToUI(r, wide), container, f.is_signed);
}

/// x / 0 = 0 with remainder x, MIN / -1 = MIN.
Value* Scalars::divide_row(Op op, const Format& f, Value* a, Value* b) {
    const llvm::APInt* known = nullptr;
    llvm::PatternMatch::match(b, llvm::PatternMatch::m_APInt(known));
    if (known && known->isPowerOf2() && !(f.is_signed && known->isNegative())) {
        if (op == Op::div) return f.is_signed ? b_.CreateAShr(a, i(a, known->logBase2())) : b_.CreateLShr(a, i(a, known->logBase2()));
        if (op == Op::rem) return b_.CreateAnd(a, i(a, known->getZExtValue() - 1));
    }
    const bool safe = known && !known->isZero() && !(f.is_signed && known->isAllOnes());
    Value* d = safe ? b : safe_divisor(b_, b, f.is_signed);
    Value *q = quotient(f, a, d), *r = b_.CreateSub(a, b_.CreateMul(q, d));
    // Steps from there by sign bits, not conditions: LLVM 19's instruction selection does not end for some sums of vectors and AVX-512's masks.
    Value *inexact = b_.CreateOr(r, b_.CreateNeg(r)), *last = i(a, a->getType()->getScalarSizeInBits() - 1);
    Value* negative = f.is_signed ? b_.CreateXor(r, d) : i(a, 0);  // the exact quotient, where it is inexact
    Value* down = b_.CreateAShr(b_.CreateAnd(inexact, negative), last);
    if (op == Op::div) q = b_.CreateAdd(q, down);
    if (op == Op::div_ceil) q = b_.CreateAdd(q, b_.CreateLShr(b_.CreateAnd(inexact, b_.CreateNot(negative)), last));
    if (op == Op::rem) r = b_.CreateAdd(r, b_.CreateAnd(d, down));
    const bool rest = op == Op::rem || op == Op::rem_trunc;
    if (safe) return rest ? r : q;
    if (f.is_signed && !rest) q = b_.CreateSelect(b_.CreateICmpEQ(b, i(b, ~uint64_t{0})), b_.CreateNeg(a), q);
    return b_.CreateSelect(b_.CreateICmpEQ(b, i(b, 0)), rest ? a : i(a, 0), rest ? r : q);
}

// ---- fixed point: raw * 2^-frac_bits in 64 bits, saturating, one rounding to nearest even ----

Value* Scalars::fixed_row(Op op, const Format& f, std::span<Value* const> x) {
    Value* a = resize(x[0], 64, f.is_signed);
    Value* b = x.size() > 1 ? resize(x[1], 64, f.is_signed) : a;
    const unsigned container = f.container_bytes() * 8;
    const auto result = [&](Value* v, bool v_signed) { return resize(saturated(v, v_signed, f), container, false); };
    switch (op) {
        case Op::add:
            return result(b_.CreateAdd(a, b), true);
        case Op::sub:
            return result(b_.CreateSub(a, b), true);
        case Op::neg:
            return result(b_.CreateNeg(a), true);
        case Op::abs:
            return result(b_.CreateSelect(b_.CreateICmpSLT(a, i(a, 0)), b_.CreateNeg(a), a), true);
        case Op::mul: {
            Value* product = b_.CreateMul(a, b);
            if (f.frac_bits == 0) return result(product, f.is_signed);
            Value* n = i(a, f.frac_bits);
            Value* whole = f.is_signed ? b_.CreateAShr(product, n) : b_.CreateLShr(product, n);
            Value *rest = b_.CreateAnd(product, i(a, low_bits(f.frac_bits))), *half = i(a, uint64_t{1} << (f.frac_bits - 1));
            Value* odd = b_.CreateICmpNE(b_.CreateAnd(whole, i(a, 1)), i(a, 0));
            Value* up = b_.CreateOr(b_.CreateICmpUGT(rest, half), b_.CreateAnd(b_.CreateICmpEQ(rest, half), odd));
            return result(b_.CreateAdd(whole, b_.CreateZExt(up, a->getType())), f.is_signed);
        }
        case Op::div:
            return fixed_quotient(f, a, b);
        default:
            return compare(op, f.is_signed, x[0], x[1]);
    }
}

/// a, b: i64. By magnitude: rounding to nearest even is symmetric.
Value* Scalars::fixed_quotient(const Format& f, Value* a, Value* b) {
    Value* zero = i(a, 0);
    const auto negative = [&](Value* v) { return f.is_signed ? b_.CreateICmpSLT(v, zero) : truth(v, false); };
    const auto magnitude = [&](Value* v) { return f.is_signed ? b_.CreateSelect(negative(v), b_.CreateNeg(v), v) : v; };
    Value *none = b_.CreateICmpEQ(b, zero), *d = safe_divisor(b_, magnitude(b), false);
    Value* n = f.frac_bits >= 64 ? zero : b_.CreateShl(magnitude(a), i(a, f.frac_bits));
    Value *q = b_.CreateUDiv(n, d), *r = b_.CreateSub(n, b_.CreateMul(q, d)), *rest = b_.CreateSub(d, r);
    Value* odd = b_.CreateICmpNE(b_.CreateAnd(q, i(a, 1)), zero);
    Value* up = b_.CreateOr(b_.CreateICmpUGT(r, rest), b_.CreateAnd(b_.CreateICmpEQ(r, rest), odd));
    q = b_.CreateAdd(q, b_.CreateZExt(up, a->getType()));
    Value* below = b_.CreateXor(negative(a), negative(b));
    const uint64_t high = low_bits(f.bits - f.is_signed);
    Value* limit = b_.CreateSelect(below, i(a, f.is_signed ? high + 1 : 0), i(a, high));
    // Divided by zero: the sign of a alone decides; 0 / 0 = 0.
    Value* at_zero = b_.CreateSelect(b_.CreateICmpEQ(a, zero), zero, b_.CreateSelect(negative(a), i(a, f.is_signed ? ~high : 0), i(a, high)));
    q = call(Intrinsic::umin, {q, limit});
    q = b_.CreateSelect(none, at_zero, b_.CreateSelect(below, b_.CreateNeg(q), q));
    return resize(q, f.container_bytes() * 8, false);
}

}  // namespace tegula::cpu
