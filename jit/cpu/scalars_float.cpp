// Rows of ops.def on floats and log numbers: native f32 and f64, and all others through the value of their codes - in float where a float result
// rounds once more as if rounded once, else in double.
#include <cmath>

#include <llvm/IR/Constants.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/PatternMatch.h>

#include "jit/cpu/scalar_formats.h"
#include "jit/cpu/scalars.h"
#include "lang/check.h"
#include "lang/one_rounding.h"

namespace tegula::cpu {

using ir::Op;
using llvm::Value;
namespace Intrinsic = llvm::Intrinsic;

// ---- native ----

Value* Scalars::native_row(Op op, std::span<Value* const> x) {
    Value* a = x[0];
    switch (op) {
        case Op::add:
            return b_.CreateFAdd(a, x[1]);
        case Op::sub:
            return b_.CreateFSub(a, x[1]);
        case Op::mul:
            return b_.CreateFMul(a, x[1]);
        case Op::div:
            return quotient(a, x[1]);
        case Op::rem:
            return native_remainder(a, x[1]);
        case Op::neg:
            return b_.CreateFNeg(a);
        case Op::abs:
            return call(Intrinsic::fabs, {a});
        case Op::fma:
            return call(Intrinsic::fma, {a, x[1], x[2]});
        case Op::sqrt:
            return call(Intrinsic::sqrt, {a});
        case Op::floor:
            return call(Intrinsic::floor, {a});
        case Op::ceil:
            return call(Intrinsic::ceil, {a});
        case Op::trunc:
            return call(Intrinsic::trunc, {a});
        case Op::round:
            return call(Intrinsic::nearbyint, {a});
        case Op::copysign:
            return call(Intrinsic::copysign, {a, x[1]});
        case Op::flush_subnormal:
            return flushed(a, a->getType()->getScalarType()->isDoubleTy() ? -1022 : -126);
        case Op::min:
        case Op::max:
        case Op::minnum:
        case Op::maxnum:
            return native_order(op, a, x[1]);
        default:
            if (ir::op_row(op).result == ir::ResultRule::boolean) return native_test(op, a, x.size() > 1 ? x[1] : a);
            return fast_row(op, a);
    }
}

/// Zero with the sign of a number below 2^min_exponent.
Value* Scalars::flushed(Value* v, int min_exponent) {
    Value* below = b_.CreateFCmpOLT(call(Intrinsic::fabs, {v}), real(v, std::ldexp(1.0, min_exponent)));
    return b_.CreateSelect(below, call(Intrinsic::copysign, {real(v, 0.0), v}), v);
}

Value* Scalars::native_test(Op op, Value* a, Value* b) {
    Value* infinity = llvm::ConstantFP::getInfinity(a->getType());
    switch (op) {
        case Op::eq:
            return b_.CreateFCmpOEQ(a, b);
        case Op::ne:
            return b_.CreateFCmpUNE(a, b);
        case Op::lt:
            return b_.CreateFCmpOLT(a, b);
        case Op::le:
            return b_.CreateFCmpOLE(a, b);
        case Op::gt:
            return b_.CreateFCmpOGT(a, b);
        case Op::ge:
            return b_.CreateFCmpOGE(a, b);
        case Op::isnan:
            return b_.CreateFCmpUNO(a, a);
        case Op::isinf:
            return b_.CreateFCmpOEQ(call(Intrinsic::fabs, {a}), infinity);
        case Op::isfinite:
            return b_.CreateFCmpOLT(call(Intrinsic::fabs, {a}), infinity);
        case Op::signbit: {
            Value* bits = bits_of(a);
            return b_.CreateICmpSLT(bits, i(bits, 0));
        }
        default:
            TEGULA_CHECK(false, ir::op_row(op).name);
    }
}

/// The two selections are single instructions; they differ for NaNs and for zeros of both signs only, where their bits together decide.
Value* Scalars::native_order(Op op, Value* a, Value* b) {
    const bool is_min = op == Op::min || op == Op::minnum;
    if (llvm::isa<llvm::Constant>(a)) std::swap(a, b);
    const llvm::APFloat* limit = nullptr;
    if ((op == Op::min || op == Op::max) && llvm::PatternMatch::match(b, llvm::PatternMatch::m_APFloat(limit)) && !limit->isNaN()) {
        // A NaN compares as false and stays. Of equal zeros the one with the right sign must win.
        const bool constant_wins = limit->isZero() && limit->isNegative() == is_min;
        Value* replaced = is_min ? (constant_wins ? b_.CreateFCmpOGE(a, b) : b_.CreateFCmpOGT(a, b))
                                 : (constant_wins ? b_.CreateFCmpOLE(a, b) : b_.CreateFCmpOLT(a, b));
        return b_.CreateSelect(replaced, b, a);
    }
    if (Value* r = ordered_range(a, b, is_min); r && (op == Op::min || op == Op::max))
        return b_.CreateSelect(b_.CreateFCmpUNO(a, b), llvm::ConstantFP::getQNaN(a->getType()), r);
    const auto first = [&](Value* x, Value* y) { return bits_of(b_.CreateSelect(is_min ? b_.CreateFCmpOLT(x, y) : b_.CreateFCmpOGT(x, y), x, y)); };
    Value *p = first(a, b), *q = first(b, a);
    Value* r = b_.CreateBitCast(is_min ? b_.CreateOr(p, q) : b_.CreateAnd(p, q), a->getType());
    if (op == Op::min) return r;
    if (op == Op::max) return b_.CreateSelect(b_.CreateFCmpUNO(a, b), llvm::ConstantFP::getQNaN(a->getType()), r);
    return b_.CreateSelect(b_.CreateFCmpUNO(a, a), b, b_.CreateSelect(b_.CreateFCmpUNO(b, b), a, r));
}

/// The smaller or larger of two vectors, -0 below +0, as one instruction where the target has it; anything where one is NaN.
Value* Scalars::ordered_range(Value* a, Value* b, bool is_min) {
    const auto* type = llvm::dyn_cast<llvm::FixedVectorType>(a->getType());
    if (!features_.avx512 || !type || type->getPrimitiveSizeInBits() != 512) return nullptr;
    const bool is_double = type->getElementType()->isDoubleTy();
    const unsigned lanes = type->getNumElements();
    const auto id = is_double ? Intrinsic::x86_avx512_mask_range_pd_512 : Intrinsic::x86_avx512_mask_range_ps_512;
    constexpr uint32_t kSignOfResult = 4, kLarger = 1, kCurrentRounding = 4;
    llvm::Type* mask = b_.getIntNTy(lanes);
    return b_.CreateIntrinsic(id, {},
                              {a, b, b_.getInt32(kSignOfResult | (is_min ? 0 : kLarger)), llvm::PoisonValue::get(a->getType()),
                               llvm::Constant::getAllOnesValue(mask), b_.getInt32(kCurrentRounding)});
}

/// Remainder of the quotient toward zero, of whichever sign where it is 0. Taken from the quotient where that is exact to the unit and the rest with
/// it, as is usual, else lane by lane in C.
Value* Scalars::truncated_remainder(Value* a, Value* b) {
    const bool is_double = a->getType()->getScalarType()->isDoubleTy();
    if (!lanes_of(a) || (is_double && !features_.fma)) return b_.CreateFRem(a, b);
    Value* const operands[] = {a, b};
    return called(is_double ? "fmod" : "fmodf", a->getType(), Touches::nothing, operands, [&](std::span<Value* const> y) -> Value* {
        llvm::Type* wide = like(b_.getDoubleTy(), y[0]);  // holds the product of a quotient below 2^28 and a float
        Value *x = b_.CreateFPExt(y[0], wide), *by = b_.CreateFPExt(y[1], wide);
        Value* q = call(Intrinsic::trunc, {b_.CreateFDiv(x, by)});
        Value* rest = is_double ? call(Intrinsic::fma, {b_.CreateFNeg(q), by, x}) : b_.CreateFSub(x, b_.CreateFMul(q, by));
        if (is_double) {  // the quotient may have been rounded up to the next unit
            Value* zero = real(x, 0.0);
            Value* beyond = b_.CreateOr(b_.CreateAnd(b_.CreateFCmpOGT(x, zero), b_.CreateFCmpOLT(rest, zero)),
                                        b_.CreateAnd(b_.CreateFCmpOLT(x, zero), b_.CreateFCmpOGT(rest, zero)));
            rest = b_.CreateSelect(beyond, b_.CreateFAdd(rest, call(Intrinsic::copysign, {by, x})), rest);
        }
        const double most = is_double ? 0x1p52 : 0x1p28, infinity = std::numeric_limits<double>::infinity();
        Value* exact = b_.CreateAnd(b_.CreateFCmpOLT(call(Intrinsic::fabs, {q}), real(q, most)),
                                    b_.CreateFCmpOLT(call(Intrinsic::fabs, {by}), real(by, infinity)));
        rest = b_.CreateFPTrunc(rest, a->getType());
        llvm::BasicBlock* near = b_.GetInsertBlock();
        auto *far = llvm::BasicBlock::Create(b_.getContext(), "", near->getParent()),
             *end = llvm::BasicBlock::Create(b_.getContext(), "", near->getParent());
        b_.CreateCondBr(b_.CreateAndReduce(exact), end, far);
        b_.SetInsertPoint(far);
        Value* slow = b_.CreateFRem(y[0], y[1]);
        b_.CreateBr(end);
        b_.SetInsertPoint(end);
        llvm::PHINode* out = b_.CreatePHI(a->getType(), 2);
        out->addIncoming(rest, near);
        out->addIncoming(slow, far);
        return out;
    });
}

Value* Scalars::native_remainder(Value* a, Value* b) {
    Value *r = truncated_remainder(a, b), *zero = real(a, 0.0);
    Value* below = b_.CreateXor(b_.CreateFCmpOLT(r, zero), b_.CreateFCmpOLT(b, zero));
    Value* moved = b_.CreateSelect(below, b_.CreateFAdd(r, b), r);  // a NaN stays one
    return b_.CreateSelect(b_.CreateFCmpOEQ(r, zero), call(Intrinsic::copysign, {zero, b}), moved);
}

// ---- other floats ----

Value* Scalars::minifloat_row(Op op, const Format& f, std::span<Value* const> x) {
    if (op == Op::flush_subnormal) return nearest(f, flushed(decode(f, x[0]), min_exponent(f)));
    if (rounds_twice(op, f)) return rounded_once(op, f, x);
    if (f.kind == FormatKind::lns)
        if (Value* r = log_row(op, f, x)) return r;
    std::vector<Value*> values;
    for (Value* v : x) values.push_back(decode(f, v));
    if (op == Op::signbit || op == Op::copysign) values.back() = positive_nan(values.back());
    Value* r = native_row(op, values);
    return ir::op_row(op).result == ir::ResultRule::boolean ? r : nearest(f, r);
}

/// What f64 would round before the format does (lang/one_rounding.h).
Value* Scalars::rounded_once(Op op, const Format& f, std::span<Value* const> x) {
    const bool in_float = rounds_from_float(f);
    std::vector<Value*> v;
    for (Value* code : x) v.push_back(b_.CreateFPCast(decode(f, code), like(in_float ? b_.getFloatTy() : b_.getDoubleTy(), code)));
    if (op == Op::fma && in_float) return nearest(f, float_fma_round_odd(f, v[0], v[1], v[2]));
    if (Value* odd = result_round_odd(op, f, v)) return nearest(f, odd);
    v.resize(3, v[0]);
    const Grid grid(f);
    const auto number = [&](int n) { return b_.getInt32(static_cast<uint32_t>(n)); };
    return nearest(
        f, per_lane("tegula_before_rounding", {v[0], v[1], v[2], number(static_cast<int>(op)), number(grid.man_bits), number(grid.min_exponent)}));
}

/// Of native formats, too. The host's rounding mode plays no part: what is rounded to nearest here is exact or rounded to odd.
Value* Scalars::directed_row(Op op, const Format& f, std::span<Value* const> x) {
    const auto [base, round] = ir::rounded_op(op);
    std::vector<Value*> v;
    for (Value* code : x) v.push_back(b_.CreateFPCast(decode(f, code), like(b_.getDoubleTy(), code)));
    Value* r = result_round_odd(base, f, v);
    if (r && round == Round::rd && (base == Op::add || base == Op::sub || base == Op::fma)) {
        // Of a sum only that of two positive zeros is a positive zero.
        const auto sign = [&](Value* of) { return b_.CreateICmpSLT(bits_of(of), i(bits_of(of), 0)); };
        Value *first = base == Op::fma ? b_.CreateFMul(v[0], v[1]) : v[0], *second = base == Op::sub ? b_.CreateFNeg(v[1]) : v.back();
        Value* minus = b_.CreateAnd(b_.CreateFCmpOEQ(r, real(r, 0.0)), b_.CreateOr(sign(first), sign(second)));
        r = b_.CreateSelect(minus, real(r, -0.0), r);
    }
    if (!r) {
        v.resize(3, v[0]);
        const Grid grid(f);
        const auto number = [&](int n) { return b_.getInt32(static_cast<uint32_t>(n)); };
        r = per_lane("tegula_before_rounding", {v[0], v[1], v[2], number(static_cast<int>(op)), number(grid.man_bits), number(grid.min_exponent)});
    }
    return is_ieee_binary(f, 64) ? settle(f, r) : rounded(f, number_of_real(r), round, Overflow::automatic, nullptr);
}

/// By the error of the result in double, where that is a double, too; else null.
Value* Scalars::result_round_odd(Op op, const Format& f, std::span<Value* const> x) {
    const auto fma = [&](Value* a, Value* b, Value* c) { return call(Intrinsic::fma, {a, b, c}); };
    Value *a = x[0], *b = x.size() > 1 ? x[1] : a;
    if (op == Op::fma) return products_are_exact(f) ? fma_round_odd(a, b, x[2]) : nullptr;
    if (!errors_are_exact(f)) return nullptr;
    if (op == Op::add) return fma_round_odd(a, real(a, 1.0), b);
    if (op == Op::sub) return fma_round_odd(a, real(a, 1.0), b_.CreateFNeg(b));
    if (!features_.fma) return nullptr;
    switch (op) {
        case Op::mul: {
            Value* r = b_.CreateFMul(a, b);
            return towards_odd(r, fma(a, b, b_.CreateFNeg(r)));
        }
        case Op::div: {
            Value *r = b_.CreateFDiv(a, b), *rest = fma(b_.CreateFNeg(r), b, a);
            return towards_odd(r, b_.CreateFMul(rest, call(Intrinsic::copysign, {real(b, 1.0), b})));
        }
        case Op::sqrt: {
            Value* r = call(Intrinsic::sqrt, {a});
            return towards_odd(r, fma(b_.CreateFNeg(r), r, a));
        }
        default:
            return nullptr;
    }
}

/// An inexact result with an even last bit moves towards the exact one, which differs from it by `error`.
Value* Scalars::towards_odd(Value* result, Value* error) {
    Value *bits = bits_of(result), *zero = real(result, 0.0);
    Value* even = b_.CreateICmpEQ(b_.CreateAnd(bits, i(bits, 1)), i(bits, 0));
    Value* away = b_.CreateNot(b_.CreateXor(b_.CreateFCmpOGT(error, zero), b_.CreateFCmpOGT(result, zero)));
    Value* moved = b_.CreateAdd(bits, b_.CreateSelect(away, i(bits, 1), i(bits, ~uint64_t{0})));
    return b_.CreateBitCast(b_.CreateSelect(b_.CreateAnd(b_.CreateFCmpONE(error, zero), even), moved, bits), result->getType());
}

/// By the sum's exact error (Knuth).
Value* Scalars::fma_round_odd(Value* a, Value* b, Value* c) {
    Value *product = b_.CreateFMul(a, b), *sum = b_.CreateFAdd(product, c), *part = b_.CreateFSub(sum, product);
    return towards_odd(sum, b_.CreateFAdd(b_.CreateFSub(product, b_.CreateFSub(sum, part)), b_.CreateFSub(c, part)));
}

/// Of values of a format that rounds_from_float.
Value* Scalars::float_fma_round_odd(const Format& f, Value* a, Value* b, Value* c) {
    if (features_.avx512 && lanes_of(a) == 16) return directed_fma_round_odd(a, b, c);
    if (products_are_floats(f)) return fma_round_odd(a, b, c);
    const auto wide = [&](Value* v) { return b_.CreateFPExt(v, like(b_.getDoubleTy(), v)); };
    return float_round_odd(fma_round_odd(wide(a), wide(b), wide(c)));
}

/// Of the sum rounded down and up the odd one; where both are the same, it is exact. An exact zero is -0 and 0, and 0 is what nearest gives.
Value* Scalars::directed_fma_round_odd(Value* a, Value* b, Value* c) {
    constexpr uint32_t kDown = 1, kUp = 2, kNoExceptions = 8;
    const auto fma = [&](uint32_t rounding) {
        return b_.CreateIntrinsic(Intrinsic::x86_avx512_vfmadd_ps_512, {}, {a, b, c, b_.getInt32(rounding | kNoExceptions)});
    };
    Value *low = fma(kDown), *bits = bits_of(low);
    return b_.CreateSelect(b_.CreateICmpNE(b_.CreateAnd(bits, i(bits, 1)), i(bits, 0)), low, fma(kUp));
}

Value* Scalars::float_step_here(const Format& f, Value* a, Value* b, Value* c) {
    Value* sum = float_fma_round_odd(f, a, b, c);
    if (!is_prefix_of_f32(f)) return b_.CreateFPCast(decode(f, nearest(f, sum)), sum->getType());
    Value* r = nearest_prefix(f, bits_of(sum));
    return as_real(b_.CreateAnd(r, i(r, ~low_bits(23 - f.man_bits))), 32);
}

/// Double to float such that one more rounding, to fewer bits, rounds as if once.
Value* Scalars::float_round_odd(Value* v) {
    Value *r = b_.CreateFPTrunc(v, like(b_.getFloatTy(), v)), *back = b_.CreateFPExt(r, v->getType()), *bits = bits_of(r);
    Value* beyond = b_.CreateFCmpOGT(call(Intrinsic::fabs, {back}), call(Intrinsic::fabs, {v}));
    Value* odd = b_.CreateOr(b_.CreateSub(bits, b_.CreateZExt(beyond, bits->getType())), i(bits, 1));
    return b_.CreateBitCast(b_.CreateSelect(b_.CreateFCmpONE(back, v), odd, bits), r->getType());
}

// ---- approximations, within the bounds that ops.def states ----

Value* Scalars::fast_row(Op op, Value* a) {
    const bool is_double = a->getType()->getScalarType()->isDoubleTy();
    Value* one = real(a, 1.0);
    switch (op) {
        case Op::fast_rcp:
            return b_.CreateFDiv(one, a);
        case Op::fast_rsqrt:
            return b_.CreateFDiv(one, call(Intrinsic::sqrt, {a}));
        case Op::fast_exp2:
            return is_double ? per_lane("exp2", {a}) : fast_exp2(a);
        case Op::fast_log2:
            return is_double ? per_lane("log2", {a}) : fast_log2(a);
        case Op::fast_sin:
            return is_double ? per_lane("sin", {a}) : fast_circular(a, true);
        case Op::fast_cos:
            return is_double ? per_lane("cos", {a}) : fast_circular(a, false);
        case Op::fast_tanh:
            return is_double ? per_lane("tanh", {a}) : fast_tanh(a);
        default:
            TEGULA_CHECK(false, ir::op_row(op).name);
    }
}

Value* Scalars::polynomial(Value* x, std::initializer_list<double> coefficients) {
    Value* sum = nullptr;
    for (double c : coefficients) sum = sum ? call(Intrinsic::fma, {sum, x, real(x, c)}) : real(x, c);
    return sum;
}

/// 2^n * 2^f with f in [-1/2, 1/2]: powers of log(2) over factorials; the scale in two steps, which leaves one rounding to subnormals.
Value* Scalars::fast_exp2(Value* a) {
    Value *low = real(a, -160.0), *high = real(a, 130.0);
    Value* x = b_.CreateSelect(b_.CreateFCmpOGT(a, low), a, low);
    x = b_.CreateSelect(b_.CreateFCmpOLT(x, high), x, high);
    Value *whole = call(Intrinsic::nearbyint, {x}), *part = b_.CreateFSub(x, whole);
    double terms[8];
    for (int k = 0; k < 8; ++k) terms[k] = std::pow(std::log(2.0), k) / std::tgamma(k + 1.0);
    Value* r = polynomial(part, {terms[7], terms[6], terms[5], terms[4], terms[3], terms[2], terms[1], terms[0]});
    Value *n = b_.CreateFPToSI(whole, like(b_.getInt32Ty(), a)), *half = b_.CreateAShr(n, i(n, 1));
    const auto power = [&](Value* e) { return b_.CreateBitCast(b_.CreateShl(b_.CreateAdd(e, i(e, 127)), i(e, 23)), a->getType()); };
    r = b_.CreateFMul(b_.CreateFMul(r, power(half)), power(b_.CreateSub(n, half)));
    return b_.CreateSelect(b_.CreateFCmpUNO(a, a), a, r);
}

/// Exponent plus the logarithm of m in [sqrt(1/2), sqrt(2)) by the series of atanh((m - 1) / (m + 1)).
Value* Scalars::fast_log2(Value* a) {
    Value* tiny = b_.CreateFCmpOLT(a, real(a, 0x1p-126));
    Value* x = b_.CreateSelect(tiny, b_.CreateFMul(a, real(a, 0x1p23)), a);
    Value *bits = bits_of(x), *from = b_.CreateSub(bits, i(bits, 0x3f3504f3));
    Value* e = b_.CreateAShr(from, i(bits, 23));
    Value* m = b_.CreateBitCast(b_.CreateSub(bits, b_.CreateShl(e, i(bits, 23))), a->getType());
    Value* z = b_.CreateFDiv(b_.CreateFSub(m, real(a, 1.0)), b_.CreateFAdd(m, real(a, 1.0)));
    const double unit = 2 / std::log(2.0);
    Value* series = polynomial(b_.CreateFMul(z, z), {unit / 9, unit / 7, unit / 5, unit / 3, unit});
    Value* exponent = b_.CreateFAdd(b_.CreateSIToFP(e, a->getType()), b_.CreateSelect(tiny, real(a, -23.0), real(a, 0.0)));
    Value* r = call(Intrinsic::fma, {z, series, exponent});
    Value* infinity = llvm::ConstantFP::getInfinity(a->getType());
    r = b_.CreateSelect(b_.CreateFCmpOEQ(a, infinity), infinity, r);
    r = b_.CreateSelect(b_.CreateFCmpOEQ(a, real(a, 0.0)), b_.CreateFNeg(infinity), r);
    return b_.CreateSelect(b_.CreateFCmpULT(a, real(a, 0.0)), llvm::ConstantFP::getQNaN(a->getType()), r);
}

/// Reduced by multiples of pi / 2 in double; the result lies in [-1, 1] whatever the argument.
Value* Scalars::fast_circular(Value* a, bool sine) {
    Value* x = b_.CreateFPExt(a, like(b_.getDoubleTy(), a));
    const auto fma = [&](Value* p, double q, Value* r) { return call(Intrinsic::fma, {p, real(p, q), r}); };
    Value* turns = call(Intrinsic::nearbyint, {b_.CreateFMul(x, real(x, 0x1.45f306dc9c883p-1))});
    Value* r = fma(turns, -0x1.1a62633145c07p-54, fma(turns, -0x1.921fb54442d18p0, x));
    Value* four = b_.CreateFMul(real(x, 4.0), call(Intrinsic::floor, {b_.CreateFMul(turns, real(x, 0.25))}));
    Value* quarter = b_.CreateIntrinsic(Intrinsic::fptosi_sat, {like(b_.getInt32Ty(), a), x->getType()}, {b_.CreateFSub(turns, four)});
    if (!sine) quarter = b_.CreateAdd(quarter, i(quarter, 1));
    Value *t = b_.CreateFPTrunc(r, a->getType()), *t2 = b_.CreateFMul(t, t);
    Value* s = b_.CreateFMul(t, polynomial(t2, {1.0 / 362880, -1.0 / 5040, 1.0 / 120, -1.0 / 6, 1.0}));
    Value* c = polynomial(t2, {-1.0 / 3628800, 1.0 / 40320, -1.0 / 720, 1.0 / 24, -0.5, 1.0});
    const auto bit = [&](uint64_t mask) { return b_.CreateICmpNE(b_.CreateAnd(quarter, i(quarter, mask)), i(quarter, 0)); };
    Value* v = b_.CreateSelect(bit(1), c, s);
    v = b_.CreateSelect(bit(2), b_.CreateFNeg(v), v);
    Value *one = real(a, 1.0), *minus = real(a, -1.0);
    v = b_.CreateSelect(b_.CreateFCmpOGT(v, one), one, v);
    return b_.CreateSelect(b_.CreateFCmpOLT(v, minus), minus, v);
}

Value* Scalars::fast_tanh(Value* a) {
    Value *size = call(Intrinsic::fabs, {a}), *one = real(a, 1.0), *square = b_.CreateFMul(a, a);
    Value* small = b_.CreateFMul(size, polynomial(square, {-17.0 / 315, 2.0 / 15, -1.0 / 3, 1.0}));
    Value* e = fast_exp2(b_.CreateFMul(size, real(a, 2 / std::log(2.0))));
    Value* large = b_.CreateFSub(one, b_.CreateFDiv(real(a, 2.0), b_.CreateFAdd(e, one)));
    Value* r = b_.CreateSelect(b_.CreateFCmpOLT(size, real(a, 0.25)), small, large);
    r = call(Intrinsic::copysign, {r, a});
    return b_.CreateSelect(b_.CreateFCmpUNO(a, a), a, r);
}

}  // namespace tegula::cpu
