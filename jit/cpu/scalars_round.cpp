// The one rounding: nearest-even into narrow floats by a few integer steps, and the general case (lang/round.cpp) in 64-bit lanes. Facts of a format
// are constants of the code, so that what a format does not have folds away.
#include <llvm/IR/Constants.h>

#include "jit/cpu/scalar_formats.h"
#include "jit/cpu/scalars_number.h"
#include "lang/check.h"

namespace tegula::cpu {

using llvm::Value;
namespace Intrinsic = llvm::Intrinsic;

// ---- nearest even of a float or double ----

Value* Scalars::nearest(const Format& f, Value* v) {
    const bool is_float = v->getType()->getScalarType()->isFloatTy();
    if (is_native(f)) return settle(f, b_.CreateFPCast(v, like(f.bits == 32 ? b_.getFloatTy() : b_.getDoubleTy(), v)));
    if (Value* log = nearest_log(f, v)) return log;
    if (has_short_encoder(f) || is_prefix_of_f32(f)) return nearest_short(f, is_float ? v : float_round_odd(v));
    return rounded(f, number_of_real(v), Round::rne, Overflow::automatic, nullptr);
}

/// From float. Subnormal results come from the float adder, which rounds at the right place when a constant is added.
Value* Scalars::nearest_short(const Format& f, Value* v) {
    const unsigned container = f.container_bytes() * 8;
    if (features_.bf16 && is_prefix_of_f32(f) && f.bits == 16 && speculates(v)) return quick_bf16(v);
    Value *is_nan = b_.CreateFCmpUNO(v, v), *bits = bits_of(v);
    const auto finish = [&](Value* code) { return b_.CreateSelect(is_nan, i(code, nan_code(f)), code); };
    if (features_.f16c && is_binary16(f)) {
        Value *half = b_.CreateFPTrunc(v, like(b_.getHalfTy(), v)), *code = finish(b_.CreateBitCast(half, like(b_.getInt16Ty(), v)));
        know(values_, f, code, half_to_float(half));  // any NaN will do
        return code;
    }
    const unsigned cut = 23 - f.man_bits;
    if (is_prefix_of_f32(f)) {
        Value* r = nearest_prefix(f, bits);
        if (f.bits == 32) return finish(b_.CreateAnd(r, i(bits, ~low_bits(cut))));
        r = b_.CreateLShr(r, i(bits, cut));
        return finish(resize(r, container, false));
    }
    Value* last = b_.CreateAnd(b_.CreateLShr(bits, i(bits, cut)), i(bits, 1));
    Value* m = b_.CreateAnd(bits, i(bits, 0x7fffffff));
    const uint64_t magic_bits = static_cast<uint64_t>(min_exponent(f) - f.man_bits + 23 + 127) << 23;
    Value *size = as_real(m, 32), *magic = as_real(i(bits, magic_bits), 32);
    Value* tiny = b_.CreateSub(bits_of(b_.CreateFAdd(size, magic)), i(bits, magic_bits));
    Value* kept = b_.CreateLShr(b_.CreateAdd(b_.CreateAdd(m, last), i(bits, low_bits(cut - 1))), i(bits, cut));
    Value* normal = b_.CreateSub(kept, i(bits, static_cast<uint64_t>(126 + min_exponent(f)) << f.man_bits));
    Value* r = b_.CreateSelect(b_.CreateICmpULT(m, i(bits, static_cast<uint64_t>(min_exponent(f) + 127) << 23)), tiny, normal);
    const uint64_t max = max_code(f);
    r = b_.CreateSelect(b_.CreateICmpUGT(r, i(r, max)), i(r, f.has_inf ? inf_code(f, false) : max), r);
    Value* sign = b_.CreateAnd(b_.CreateLShr(bits, i(bits, 32 - f.bits)), i(bits, uint64_t{1} << (f.bits - 1)));
    if (!f.negative_zero) sign = b_.CreateSelect(b_.CreateICmpEQ(r, i(r, 0)), i(r, 0), sign);
    return finish(resize(b_.CreateOr(r, sign), container, false));
}

/// Bits of a float whose upper ones are the nearest value's. NaNs remain NaNs if the bits that are cut are zero.
Value* Scalars::nearest_prefix(const Format& f, Value* bits) {
    const unsigned cut = 23 - f.man_bits;
    Value* last = b_.CreateAnd(b_.CreateLShr(bits, i(bits, cut)), i(bits, 1));
    return b_.CreateAdd(b_.CreateAdd(bits, last), i(bits, low_bits(cut - 1)));
}

// ---- exact values ----

Scalars::Number Scalars::number_of_real(Value* v) {
    v = b_.CreateFPCast(v, like(b_.getDoubleTy(), v));
    Value* bits = bits_of(v);
    Value *mantissa = b_.CreateAnd(bits, i(bits, low_bits(52))), *field = b_.CreateAnd(b_.CreateLShr(bits, i(bits, 52)), i(bits, 0x7ff));
    Value *normal = b_.CreateICmpNE(field, i(bits, 0)), *special = b_.CreateICmpEQ(field, i(bits, 0x7ff)),
          *whole = b_.CreateICmpEQ(mantissa, i(bits, 0));
    Number n;
    n.significand = b_.CreateSelect(normal, b_.CreateOr(mantissa, i(bits, uint64_t{1} << 52)), mantissa);
    n.exponent = b_.CreateSub(b_.CreateSelect(normal, field, i(bits, 1)), i(bits, 1075));
    n.negative = b_.CreateICmpSLT(bits, i(bits, 0));
    n.sticky = truth(v, false);
    n.infinite = b_.CreateAnd(special, whole);
    n.nan = b_.CreateAnd(special, b_.CreateNot(whole));
    return n;
}

Scalars::Number Scalars::number_of_integer(Value* v, bool is_signed) {
    Value* none = truth(v, false);
    Value* negative = is_signed ? b_.CreateICmpSLT(v, i(v, 0)) : none;
    return {b_.CreateSelect(negative, b_.CreateNeg(v), v), i(v, 0), negative, none, none, none};
}

Scalars::Number Scalars::number(const Format& f, Value* v) {
    if (is_whole(f)) return number_of_integer(resize(v, 64, f.is_int() && f.is_signed), f.is_int() && f.is_signed);
    if (f.kind == FormatKind::lns) return lns_number(f, v);
    return number_of_real(decode(f, v));
}

Value* Scalars::is_zero(const Number& n) { return b_.CreateAnd(b_.CreateICmpEQ(n.significand, i(n.significand, 0)), b_.CreateNot(n.sticky)); }

/// The top bit at 63; a mere sticky tail is smaller than any quantum.
Scalars::Number Scalars::normalise(const Number& n) {
    Value *s = n.significand, *none = b_.CreateICmpEQ(s, i(s, 0));
    Value* shift = b_.CreateIntrinsic(s->getType(), Intrinsic::ctlz, {b_.CreateSelect(none, i(s, 1), s), b_.getFalse()});
    Number r = n;
    r.significand = b_.CreateSelect(none, i(s, uint64_t{1} << 63), b_.CreateShl(s, shift));
    r.exponent = b_.CreateSub(n.exponent, b_.CreateSelect(none, i(s, 128), shift));
    return r;
}

// ---- rounding ----

Scalars::Cut Scalars::cut_at(Value* s, Value* sticky, Value* shift) {
    Value *zero = i(s, 0), *k63 = i(s, 63), *k64 = i(s, 64);
    shift = call(Intrinsic::smin, {call(Intrinsic::smax, {shift, zero}), i(s, 128)});
    const auto amount = [&](Value* v) { return b_.CreateAnd(v, k63); };
    Value *small = b_.CreateICmpULT(shift, k64), *none = b_.CreateICmpEQ(shift, zero);
    Cut c;
    c.whole = b_.CreateSelect(small, b_.CreateLShr(s, amount(shift)), zero);
    Value* near = b_.CreateSelect(none, zero, b_.CreateShl(s, amount(b_.CreateSub(k64, shift))));
    Value* far = b_.CreateSelect(b_.CreateICmpULT(shift, i(s, 128)), b_.CreateLShr(s, amount(shift)), zero);
    c.fraction = b_.CreateSelect(small, near, far);
    c.sticky = b_.CreateOr(sticky, b_.CreateICmpUGT(shift, k64));
    return c;
}

/// i1: does the magnitude go up?
Value* Scalars::round_up(const Cut& cut, Value* negative, Round round, Value* random) {
    Value *f = cut.fraction, *zero = i(f, 0);
    Value* half = b_.CreateICmpSLT(f, zero);
    Value* rest = b_.CreateOr(b_.CreateICmpNE(b_.CreateShl(f, i(f, 1)), zero), cut.sticky);
    switch (round) {
        case Round::rne: {
            Value* odd = b_.CreateICmpNE(b_.CreateAnd(cut.whole, i(f, 1)), zero);
            return b_.CreateAnd(half, b_.CreateOr(rest, odd));
        }
        case Round::rna:
            return half;
        case Round::rtz:
            return truth(f, false);
        case Round::ru:
            return b_.CreateAnd(b_.CreateNot(negative), b_.CreateOr(half, rest));
        case Round::rd:
            return b_.CreateAnd(negative, b_.CreateOr(half, rest));
        case Round::stochastic:
        case Round::bits:
            TEGULA_CHECK(random, "stochastic rounding needs random bits");
            return b_.CreateICmpULT(b_.CreateAdd(f, random), f);
    }
    TEGULA_CHECK(false, "rounding mode");
}

Value* Scalars::rounded(const Format& to, const Number& n, Round round, Overflow overflow, Value* random) {
    switch (to.kind) {
        case FormatKind::floating: {
            Value* code = round_float(to, n, round, overflow, random);
            return is_native(to) ? as_real(code, to.bits) : resize(code, to.container_bytes() * 8, false);
        }
        case FormatKind::integer:
        case FormatKind::fixed:
            return resize(round_integer(to, n, round, random), to.container_bytes() * 8, false);
        case FormatKind::lns:
            return lns_round(to, n, round, random);
        default:
            TEGULA_CHECK(false, "rounding to " + to.name);
    }
}

Value* Scalars::round_float(const Format& f, const Number& v, Round round, Overflow overflow, Value* random) {
    const Number n = normalise(v);
    Value* s = n.significand;
    const auto k = [&](int64_t value) { return i(s, static_cast<uint64_t>(value)); };
    Value* exponent = call(Intrinsic::smax, {b_.CreateAdd(n.exponent, k(63)), k(min_exponent(f))});
    const Cut cut = cut_at(s, v.sticky, b_.CreateSub(b_.CreateSub(exponent, k(f.man_bits)), n.exponent));
    Value* whole = b_.CreateAdd(cut.whole, b_.CreateZExt(round_up(cut, v.negative, round, random), s->getType()));
    Value* step = b_.CreateSub(exponent, k(min_exponent(f)));
    Value* magnitude = b_.CreateAdd(b_.CreateShl(step, k(f.man_bits)), whole);
    if (f.scale_only) magnitude = b_.CreateSelect(b_.CreateICmpEQ(magnitude, k(0)), k(0), b_.CreateSub(magnitude, k(int64_t{1} << f.man_bits)));
    Value* over = b_.CreateOr(b_.CreateICmpUGT(step, i(s, low_bits(f.exp_bits))), b_.CreateICmpUGT(magnitude, i(s, max_magnitude(f))));
    if (!f.is_signed) {
        Value* some = f.scale_only ? truth(s, true) : b_.CreateOr(over, b_.CreateICmpNE(whole, k(0)));
        over = b_.CreateOr(over, b_.CreateAnd(v.negative, some));
    }
    if (!f.subnormal) magnitude = b_.CreateSelect(b_.CreateICmpULT(magnitude, k(int64_t{1} << f.man_bits)), k(0), magnitude);
    Value* zero = is_zero(v);
    magnitude = b_.CreateSelect(zero, k(0), magnitude);
    Value* code = b_.CreateShl(magnitude, k(padding(f)));
    if (f.is_signed) {
        Value* shown = f.negative_zero ? v.negative : b_.CreateAnd(v.negative, b_.CreateICmpNE(magnitude, k(0)));
        code = b_.CreateOr(code, b_.CreateSelect(shown, i(s, uint64_t{1} << (f.bits - 1)), k(0)));
    }
    // What lies outside has two codes, which the reference knows.
    const RoundSpec spec{round, overflow, 0};
    const auto special = [&](Exact::Class cls, Value* when) {
        Exact x{cls, false, false, 1, 100000}, y = x;
        y.negative = true;
        Value* both = b_.CreateSelect(v.negative, i(s, round_exact(y, f, spec)), i(s, round_exact(x, f, spec)));
        code = b_.CreateSelect(when, both, code);
    };
    special(Exact::finite, b_.CreateAnd(over, b_.CreateNot(zero)));
    special(Exact::infinite, v.infinite);
    special(Exact::nan, v.nan);
    return code;
}

Value* Scalars::round_integer(const Format& f, const Number& v, Round round, Value* random) {
    const Number n = normalise(v);
    Value* s = n.significand;
    const auto k = [&](int64_t value) { return i(s, static_cast<uint64_t>(value)); };
    const uint64_t high = low_bits(f.bits - f.is_signed);
    Value* limit = b_.CreateSelect(v.negative, i(s, f.is_signed ? high + 1 : 0), i(s, high));
    Value* shift = b_.CreateSub(k(f.kind == FormatKind::fixed ? -int64_t{f.frac_bits} : 0), n.exponent);
    const Cut cut = cut_at(s, v.sticky, shift);
    Value* up = round_up(cut, v.negative, round, random);
    Value* whole = b_.CreateAdd(cut.whole, b_.CreateZExt(up, s->getType()));
    Value* over = b_.CreateOr(b_.CreateICmpSLT(shift, k(0)), b_.CreateICmpUGT(whole, limit));
    over = b_.CreateOr(b_.CreateOr(over, v.infinite), b_.CreateAnd(up, b_.CreateICmpEQ(whole, k(0))));
    whole = b_.CreateSelect(over, limit, whole);
    whole = b_.CreateSelect(b_.CreateOr(v.nan, b_.CreateAnd(is_zero(v), b_.CreateNot(v.infinite))), k(0), whole);
    return b_.CreateSelect(v.negative, b_.CreateNeg(whole), whole);
}

}  // namespace tegula::cpu
