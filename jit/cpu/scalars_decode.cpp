// The value of a code, in float where every value of the format is exact there and arithmetic may be done there (works_in_float), else in double.
#include <bit>
#include <cmath>

#include <llvm/IR/Constants.h>

#include "jit/cpu/scalar_formats.h"
#include "jit/cpu/scalars_number.h"
#include "lang/check.h"

namespace tegula::cpu {

using llvm::Value;
namespace Intrinsic = llvm::Intrinsic;

bool Scalars::value_is_float(const Format& f) { return is_ieee_binary(f, 32) || works_in_float(f); }

Value* Scalars::decode(const Format& f, Value* v) {
    switch (f.kind) {
        case FormatKind::fixed: {
            llvm::Type* type = like(b_.getDoubleTy(), v);
            Value* r = f.is_signed ? b_.CreateSIToFP(v, type) : b_.CreateUIToFP(v, type);
            return b_.CreateFMul(r, real(r, std::ldexp(1.0, -int{f.frac_bits})));
        }
        case FormatKind::lns:
        case FormatKind::codebook:
            return decode_table(f, v);
        case FormatKind::floating:
            break;
        default:
            TEGULA_CHECK(false, "not a real number: " + f.name);
    }
    if (is_native(f)) return raw(v);
    if (Value* value = known(values_, f, v)) return value;
    Value* value = decode_short(f, v);
    return value ? value : decode_any(f, v);
}

Value* Scalars::decode_to_float(const Format& f, Value* v) {
    if (Value* value = known(values_, f, v)) return b_.CreateFPCast(value, like(b_.getFloatTy(), v));
    if (f.kind == FormatKind::codebook || (f.kind == FormatKind::lns && f.bits <= 8)) {
        if (Value* quick = float_of_few(f, v)) return quick;
        std::vector<uint64_t> entries;
        for (uint64_t code = 0; code < uint64_t{1} << f.bits; ++code)
            entries.push_back(std::bit_cast<uint32_t>(static_cast<float>(tegula::decode(f, code))));
        return as_real(table_at(entries, 32, table_index(f, v), "values"), 32);
    }
    if (f.kind == FormatKind::fixed && f.bits <= 24) {  // exact
        llvm::Type* type = like(b_.getFloatTy(), v);
        Value* r = f.is_signed ? b_.CreateSIToFP(v, type) : b_.CreateUIToFP(v, type);
        return b_.CreateFMul(r, real(r, std::ldexp(1.0, -int{f.frac_bits})));
    }
    return b_.CreateFPCast(decode(f, v), like(b_.getFloatTy(), v));
}

Value* Scalars::positive_nan(Value* v) { return b_.CreateSelect(b_.CreateFCmpUNO(v, v), llvm::ConstantFP::getQNaN(v->getType()), v); }

/// The values of at most 32 codes (AVX2: 16) by one or two permutations, rounded to float where that is not exact; null: not on this target.
Value* Scalars::float_of_few(const Format& f, Value* v) {
    const bool wide = features_.avx512;
    if (!(wide || features_.avx2) || f.bits > (wide ? 5 : 4) || lanes_of(v) != (wide ? 16 : 8) || f.is_bool()) return nullptr;
    std::vector<uint64_t> entries;
    for (uint64_t code = 0; code < uint64_t{1} << f.bits; ++code)
        entries.push_back(std::bit_cast<uint32_t>(static_cast<float>(tegula::decode(f, code))));
    return as_real(table_at(entries, 32, table_index(f, v), "values"), 32);
}

/// Of whole numbers that float holds.
Value* Scalars::whole_to_float(const Format& f, Value* v) {
    if (Value* quick = float_of_few(f, v)) return quick;
    llvm::Type* type = like(b_.getFloatTy(), v);
    const bool is_signed = f.is_int() && f.is_signed;
    Value* words = f.bits < 32 ? known_words(f, v) : nullptr;
    if (!words) return is_signed ? b_.CreateSIToFP(v, type) : b_.CreateUIToFP(v, type);
    if (!is_signed) return b_.CreateSIToFP(b_.CreateAnd(words, i(words, low_bits(f.bits))), type);
    const uint64_t spare = 32u - f.bits;
    return b_.CreateSIToFP(b_.CreateAShr(b_.CreateShl(words, spare), spare), type);
}

/// Kept apart from what follows: LLVM would compare halves instead, which most processors do one by one.
Value* Scalars::half_to_float(Value* half) {
    llvm::Type* type = like(b_.getFloatTy(), half);
    return b_.CreateIntrinsic(llvm::Intrinsic::arithmetic_fence, {type}, {b_.CreateFPExt(half, type)});
}

/// Formats that need no general decoder, else null.
Value* Scalars::decode_short(const Format& f, Value* v) {
    if (features_.f16c && is_binary16(f)) return half_to_float(b_.CreateBitCast(v, like(b_.getHalfTy(), v)));
    if (Value* quick = works_in_float(f) ? float_of_few(f, v) : nullptr) return quick;
    Value* code = resize(v, 32, false);
    if (is_prefix_of_f32(f) && (f.bits == 16 || f.bits == 32)) {
        Value* bits = f.bits == 16 ? b_.CreateShl(code, i(code, 16)) : b_.CreateAnd(code, i(code, ~low_bits(padding(f))));
        Value* r = as_real(bits, 32);
        return works_in_float(f) ? r : b_.CreateFPExt(r, like(b_.getDoubleTy(), v));
    }
    if (!works_in_float(f)) return nullptr;
    if (f.scale_only && f.man_bits == 0 && f.exp_bits == 8 && f.bias == 127 && f.nan == NanCode::all_ones) {
        Value* bits = b_.CreateSelect(b_.CreateICmpEQ(code, i(code, 0)), i(code, 0x400000), b_.CreateShl(code, i(code, 23)));
        return as_real(b_.CreateSelect(b_.CreateICmpEQ(code, i(code, 255)), i(code, 0x7fc00000), bits), 32);
    }
    if (f.exp_bits >= 8 || !f.subnormal || f.scale_only || f.bias < 0 || f.bias > 250) return nullptr;
    // The fields where a float has them, off by the difference of the biases.
    const unsigned width = f.exp_bits + f.man_bits;
    const uint64_t max = max_magnitude(f), top = low_bits(width);
    Value* m = b_.CreateAnd(code, i(code, top));
    Value* r = as_real(b_.CreateShl(m, i(m, 23 - f.man_bits)), 32);
    r = b_.CreateFMul(r, real(r, std::ldexp(1.0, 127 - f.bias)));
    if (f.has_inf) r = b_.CreateSelect(b_.CreateICmpEQ(m, i(m, max + 1)), llvm::ConstantFP::getInfinity(r->getType()), r);
    if (f.is_signed) {
        Value* sign = b_.CreateShl(b_.CreateAnd(code, i(code, uint64_t{1} << (f.bits - 1))), i(code, 32 - f.bits));
        if (!f.negative_zero) sign = b_.CreateSelect(b_.CreateICmpEQ(m, i(m, 0)), i(m, 0), sign);
        r = as_real(b_.CreateOr(bits_of(r), sign), 32);
    }
    Value* nan = llvm::ConstantFP::getQNaN(r->getType());
    if (f.nan == NanCode::negative_zero) r = b_.CreateSelect(b_.CreateICmpEQ(code, i(code, uint64_t{1} << (f.bits - 1))), nan, r);
    if (max + f.has_inf < top) r = b_.CreateSelect(b_.CreateICmpUGT(m, i(m, max + f.has_inf)), nan, r);
    return r;
}

/// v * 2^exponent, rounding at most once: v * 2^(exponent / 2) is exact and normal.
Value* Scalars::scale_by(Value* v, Value* exponent) {
    Value* half = b_.CreateAShr(exponent, i(exponent, 1));
    const auto power = [&](Value* e) { return as_real(b_.CreateShl(b_.CreateAdd(e, i(e, 1023)), i(e, 52)), 64); };
    return b_.CreateFMul(b_.CreateFMul(v, power(half)), power(b_.CreateSub(exponent, half)));
}

/// By the definition of the fields (lang/round.cpp exact_float).
Value* Scalars::decode_any(const Format& f, Value* v) {
    Value* code = resize(v, 64, false);
    const uint64_t sign = f.is_signed ? uint64_t{1} << (f.bits - 1) : 0, max = max_magnitude(f), width = f.exp_bits + f.man_bits;
    Value* negative = f.is_signed ? b_.CreateICmpNE(b_.CreateAnd(code, i(code, sign)), i(code, 0)) : truth(v, false);
    Value* m = b_.CreateAnd(b_.CreateLShr(code, i(code, padding(f))), i(code, low_bits(static_cast<unsigned>(width))));
    Value *exponent = b_.CreateLShr(m, i(m, f.man_bits)), *mantissa = b_.CreateAnd(m, i(m, low_bits(f.man_bits)));
    Value* normal = f.scale_only ? truth(v, true) : b_.CreateICmpNE(exponent, i(m, 0));
    Value* significand = b_.CreateSelect(normal, b_.CreateOr(mantissa, i(m, uint64_t{1} << f.man_bits)), f.subnormal ? mantissa : i(m, 0));
    const uint64_t lowest = static_cast<uint64_t>(int64_t{min_exponent(f) - f.man_bits});
    Value* above = f.scale_only ? exponent : b_.CreateSelect(normal, b_.CreateSub(exponent, i(m, 1)), i(m, 0));
    // Exponents of codes without a finite value may not leave the range of the scale.
    Value* finite = b_.CreateICmpULE(m, i(m, max));
    Value* e = b_.CreateSelect(finite, b_.CreateAdd(above, i(m, lowest)), i(m, 0));
    Value* r = scale_by(b_.CreateSIToFP(significand, like(b_.getDoubleTy(), v)), e);
    if (f.has_inf) r = b_.CreateSelect(b_.CreateICmpEQ(m, i(m, max + 1)), llvm::ConstantFP::getInfinity(r->getType()), r);
    Value* shown = f.negative_zero ? negative : b_.CreateAnd(negative, b_.CreateICmpNE(m, i(m, 0)));
    r = b_.CreateSelect(shown, b_.CreateFNeg(r), r);
    Value* nan = llvm::ConstantFP::getQNaN(r->getType());
    if (f.nan == NanCode::negative_zero) r = b_.CreateSelect(b_.CreateAnd(negative, b_.CreateICmpEQ(m, i(m, 0))), nan, r);
    if (max + f.has_inf < low_bits(static_cast<unsigned>(width))) r = b_.CreateSelect(b_.CreateICmpUGT(m, i(m, max + f.has_inf)), nan, r);
    return works_in_float(f) ? b_.CreateFPTrunc(r, like(b_.getFloatTy(), v)) : r;
}

/// Codebooks, and log numbers of any width: a table of the fractions of the logarithm, then the exponent.
Value* Scalars::decode_table(const Format& f, Value* v) {
    if (f.kind == FormatKind::codebook) {
        std::vector<uint64_t> entries;
        for (double d : f.table) entries.push_back(std::bit_cast<uint64_t>(d));
        return as_real(table_at(entries, 64, table_index(f, v), "codebook"), 64);
    }
    if (Value* quick = decode_log(f, v)) return quick;
    const Number n = lns_number(f, v);
    Value* r = scale_by(b_.CreateUIToFP(n.significand, like(b_.getDoubleTy(), v)), n.exponent);
    r = b_.CreateSelect(n.negative, b_.CreateFNeg(r), r);
    return b_.CreateSelect(n.nan, llvm::ConstantFP::getQNaN(r->getType()), r);
}

}  // namespace tegula::cpu
