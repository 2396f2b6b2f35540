// Log numbers and codebooks: logarithms by repeated squaring, nearest entries by counting thresholds.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include <llvm/IR/Constants.h>
#include <llvm/IR/Module.h>

#include "jit/cpu/scalar_formats.h"
#include "jit/cpu/scalars_number.h"

namespace tegula::cpu {

using llvm::Value;
namespace Intrinsic = llvm::Intrinsic;

// ---- log numbers ----

/// i64, in units of 2^-frac_bits.
Value* Scalars::logarithm(const Format& f, Value* code) {
    Value* wide = resize(code, 64, false);
    return b_.CreateAShr(b_.CreateShl(wide, i(wide, 65u - f.bits)), i(wide, 65u - f.bits));
}

Scalars::Number Scalars::lns_number(const Format& f, Value* v) {
    std::vector<uint64_t> significands;
    for (uint64_t part = 0; part < uint64_t{1} << f.frac_bits; ++part) significands.push_back(decode_exact(f, part).significand);
    Value *log = logarithm(f, v), *part = b_.CreateAnd(log, i(log, low_bits(f.frac_bits)));
    Value* none = b_.CreateICmpEQ(log, i(log, ~low_bits(f.bits - 2u)));
    Value *sign = b_.CreateICmpNE(b_.CreateAnd(v, i(v, uint64_t{1} << (f.bits - 1))), i(v, 0)), *some = b_.CreateNot(none);
    Number n;
    n.significand = b_.CreateSelect(none, i(log, 0), f.frac_bits ? table_at(significands, 64, part, "powers") : i(log, significands[0]));
    n.exponent = b_.CreateSub(b_.CreateAShr(log, i(log, f.frac_bits)), i(log, 63));
    n.negative = b_.CreateAnd(sign, some);
    n.sticky = b_.CreateAnd(b_.CreateICmpNE(part, i(log, 0)), some);
    n.infinite = truth(v, false);
    n.nan = b_.CreateAnd(sign, none);
    return n;
}

/// The i64 code of the logarithm `base` + `cut`.
Value* Scalars::lns_code(const Format& to, Value* base, Cut cut, Value* negative, Round round, Value* random) {
    const uint64_t zero = uint64_t{1} << (to.bits - 2);
    Value *largest = i(base, zero - 1), *smallest = i(base, ~(zero - 1) + 1), *floor_log = b_.CreateAdd(base, cut.whole);
    cut.whole = floor_log;  // its lowest bit decides ties
    Value* log = b_.CreateAdd(floor_log, b_.CreateZExt(round_up(cut, negative, round, random), base->getType()));
    log = call(Intrinsic::smin, {call(Intrinsic::smax, {log, smallest}), largest});
    Value* sign = b_.CreateSelect(negative, i(base, uint64_t{1} << (to.bits - 1)), i(base, 0));
    Value* code = b_.CreateOr(b_.CreateAnd(log, i(base, low_bits(to.bits - 1u))), sign);
    Value* toward_zero = round == Round::rtz  ? truth(base, true)
                         : round == Round::rd ? b_.CreateNot(negative)
                         : round == Round::ru ? negative
                                              : truth(base, false);
    return b_.CreateSelect(b_.CreateAnd(toward_zero, b_.CreateICmpSLT(floor_log, smallest)), i(base, zero), code);
}

namespace {

/// i64 -> {i64, i64}: whole units of 2^-frac_bits of log2(x / 2^63), x in [2^63, 2^64), and 64 bits of the fraction. 62 bits are exact.
llvm::Function* logarithm_function(llvm::Module& module, unsigned frac_bits) {
    const std::string name = "lns.log2." + std::to_string(frac_bits);
    if (llvm::Function* known = module.getFunction(name)) return known;
    llvm::LLVMContext& context = module.getContext();
    llvm::IRBuilder<> b(context);
    llvm::Type *i64 = b.getInt64Ty(), *i128 = b.getInt128Ty();
    auto* result = llvm::StructType::get(i64, i64);
    auto* fn = llvm::Function::Create(llvm::FunctionType::get(result, {i64}, false), llvm::GlobalValue::InternalLinkage, name, module);
    fn->addFnAttr(llvm::Attribute::NoUnwind);
    auto *entry = llvm::BasicBlock::Create(context, "", fn), *loop = llvm::BasicBlock::Create(context, "", fn),
         *end = llvm::BasicBlock::Create(context, "", fn);
    b.SetInsertPoint(entry);
    b.CreateBr(loop);
    b.SetInsertPoint(loop);
    llvm::PHINode *n = b.CreatePHI(i64, 2), *x = b.CreatePHI(i64, 2), *bits = b.CreatePHI(i128, 2);
    Value* square = b.CreateMul(b.CreateZExt(x, i128), b.CreateZExt(x, i128));
    Value* one = b.CreateLShr(square, 127);
    Value* next = b.CreateTrunc(b.CreateLShr(square, b.CreateAdd(one, llvm::ConstantInt::get(i128, 63))), i64);
    Value *more = b.CreateOr(b.CreateShl(bits, 1), one), *count = b.CreateAdd(n, b.getInt64(1));
    b.CreateCondBr(b.CreateICmpULT(count, b.getInt64(frac_bits + 64)), loop, end);
    n->addIncoming(b.getInt64(0), entry), n->addIncoming(count, loop);
    x->addIncoming(fn->getArg(0), entry), x->addIncoming(next, loop);
    bits->addIncoming(llvm::ConstantInt::get(i128, 0), entry), bits->addIncoming(more, loop);
    b.SetInsertPoint(end);
    Value* out = b.CreateInsertValue(llvm::PoisonValue::get(result), b.CreateTrunc(b.CreateLShr(more, 64), i64), 0);
    b.CreateRet(b.CreateInsertValue(out, b.CreateTrunc(more, i64), 1));
    return fn;
}

}  // namespace

Value* Scalars::lns_round(const Format& to, const Number& v, Round round, Value* random) {
    const Number n = normalise(v);
    Value* s = n.significand;
    llvm::Function* function = logarithm_function(*b_.GetInsertBlock()->getModule(), to.frac_bits);
    Cut cut{i(s, 0), i(s, 0), v.sticky};
    if (const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(s->getType())) {
        for (unsigned l = 0; l < vector->getNumElements(); ++l) {
            Value* one = b_.CreateCall(function, {b_.CreateExtractElement(s, l)});
            cut.whole = b_.CreateInsertElement(cut.whole, b_.CreateExtractValue(one, 0), l);
            cut.fraction = b_.CreateInsertElement(cut.fraction, b_.CreateExtractValue(one, 1), l);
        }
    } else {
        Value* one = b_.CreateCall(function, {s});
        cut.whole = b_.CreateExtractValue(one, 0);
        cut.fraction = b_.CreateExtractValue(one, 1);
    }
    Value* exponent = b_.CreateAdd(n.exponent, i(s, 63));
    exponent = call(Intrinsic::smin, {call(Intrinsic::smax, {exponent, i(s, ~uint64_t{4095})}), i(s, 4096)});
    Value* code = lns_code(to, b_.CreateShl(exponent, i(s, to.frac_bits)), cut, v.negative, round, random);
    const uint64_t zero = uint64_t{1} << (to.bits - 2);
    Value* sign = b_.CreateSelect(v.negative, i(s, uint64_t{1} << (to.bits - 1)), i(s, 0));
    code = b_.CreateSelect(b_.CreateAnd(is_zero(v), b_.CreateNot(v.infinite)), i(s, zero), code);
    code = b_.CreateSelect(v.infinite, b_.CreateOr(sign, i(s, zero - 1)), code);
    code = b_.CreateSelect(v.nan, i(s, nan_code(to)), code);
    return resize(code, to.container_bytes() * 8, false);
}

/// Between log numbers the logarithm is rescaled; values, which are irrational, are not needed.
Value* Scalars::lns_convert(const Format& to, const Format& from, Value* v, Round round, Value* random) {
    Value *log = logarithm(from, v), *none = b_.CreateICmpEQ(log, i(log, ~low_bits(from.bits - 2u)));
    Value* negative = b_.CreateICmpNE(b_.CreateAnd(v, i(v, uint64_t{1} << (from.bits - 1))), i(v, 0));
    const int fewer = from.frac_bits - to.frac_bits;
    Cut cut{i(log, 0), i(log, 0), truth(log, false)};
    Value* base = fewer <= 0 ? b_.CreateShl(log, i(log, static_cast<uint64_t>(-fewer))) : b_.CreateAShr(log, i(log, static_cast<uint64_t>(fewer)));
    if (fewer > 0) cut.fraction = b_.CreateShl(log, i(log, static_cast<uint64_t>(64 - fewer)));
    Value* code = lns_code(to, base, cut, negative, round, random);
    Value* special = b_.CreateSelect(negative, i(log, nan_code(to)), i(log, uint64_t{1} << (to.bits - 2)));
    return resize(b_.CreateSelect(none, special, code), to.container_bytes() * 8, false);
}

// ---- codebooks ----

namespace {

struct Thresholds {
    std::vector<uint64_t> limits;  ///< doubles: an entry is passed when x >= its limit
    std::vector<uint64_t> codes;   ///< by number of limits passed
    bool in_order = true;          ///< codes are 0, 1, 2, ..
};

/// Is x nearer to b than to a < b, or as near with `tie`? Decided exactly by the error-free sum.
bool passes(double x, double a, double b, bool tie) {
    const long double sum = static_cast<long double>(a) + b, part = sum - a, error = (a - (sum - part)) + (b - part),
                      twice = 2 * static_cast<long double>(x);
    if (twice != sum) return twice > sum;
    return error == 0 ? tie : error < 0;
}

Thresholds thresholds_of(const Format& f) {
    std::vector<uint32_t> order(f.table.size());
    for (uint32_t k = 0; k < order.size(); ++k) order[k] = k;
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return f.table[a] != f.table[b] ? f.table[a] < f.table[b] : a < b; });
    order.erase(std::unique(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return f.table[a] == f.table[b]; }), order.end());
    Thresholds t;
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    for (size_t k = 0; k < order.size(); ++k) {
        t.codes.push_back(order[k]);
        t.in_order &= order[k] == k;
        if (k == 0) continue;
        const double a = f.table[order[k - 1]], b = f.table[order[k]];
        const bool tie = order[k] < order[k - 1];
        double x = a / 2 + b / 2;
        while (!passes(x, a, b, tie)) x = std::nextafter(x, kInfinity);
        while (passes(std::nextafter(x, -kInfinity), a, b, tie)) x = std::nextafter(x, -kInfinity);
        t.limits.push_back(std::bit_cast<uint64_t>(x));
    }
    return t;
}

}  // namespace

/// i32: how many of the ascending limits x reaches.
Value* Scalars::count_thresholds(Value* x, llvm::ArrayRef<uint64_t> limits) {
    llvm::Type* i32 = like(b_.getInt32Ty(), x);
    Value* count = llvm::ConstantInt::get(i32, 0);
    if (limits.size() <= 16) {
        for (uint64_t limit : limits) count = b_.CreateAdd(count, b_.CreateZExt(b_.CreateFCmpOGE(x, real(x, std::bit_cast<double>(limit))), i32));
        return count;
    }
    std::vector<uint64_t> padded(limits.begin(), limits.end());
    padded.resize(std::bit_ceil(limits.size() + 1) - 1, uint64_t{0x7ff8} << 48);  // no x reaches a NaN
    for (uint64_t half = (padded.size() + 1) / 2; half > 0; half /= 2) {
        Value* limit = as_real(table_at(padded, 64, b_.CreateAdd(count, i(count, half - 1)), "limits"), 64);
        count = b_.CreateAdd(count, b_.CreateSelect(b_.CreateFCmpOGE(x, limit), i(count, half), i(count, 0)));
    }
    return count;
}

Value* Scalars::as_double(const Format& from, Value* v) {
    llvm::Type* type = like(b_.getDoubleTy(), v);
    if (!is_whole(from)) return b_.CreateFPCast(decode(from, v), type);
    const bool is_signed = from.is_int() && from.is_signed;
    Value* x = is_signed ? b_.CreateSIToFP(v, type) : b_.CreateUIToFP(v, type);
    if (from.bits <= 53) return x;
    // What is lost must still show: a tie, whose last bit is even, stays apart from its neighbours. An x beyond all integers is above v.
    Value* back = b_.CreateIntrinsic(is_signed ? Intrinsic::fptosi_sat : Intrinsic::fptoui_sat, {v->getType(), type}, {x});
    Value* beyond = b_.CreateFCmpOGE(x, real(x, is_signed ? 0x1p63 : 0x1p64));
    return towards_odd(x, b_.CreateSelect(beyond, real(x, -1.0), b_.CreateSIToFP(b_.CreateSub(v, back), type)));
}

Value* Scalars::nearest_entry(const Format& to, const Format& from, Value* v) {
    Value* x = as_double(from, v);
    const Thresholds t = thresholds_of(to);
    Value* count = count_thresholds(x, t.limits);
    Value* code = t.in_order ? count : table_at(t.codes, 32, count, "codes");
    code = b_.CreateSelect(b_.CreateFCmpUNO(x, x), i(code, max_code(to)), code);
    return resize(code, to.container_bytes() * 8, false);
}

}  // namespace tegula::cpu
