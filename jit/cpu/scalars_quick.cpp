// Quick forms (speculation.h): quotients by a number that all lanes share, and bf16 as the processor rounds it.
#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/IntrinsicsX86.h>

#include "jit/cpu/scalar_formats.h"
#include "jit/cpu/scalars.h"

namespace tegula::cpu {

using llvm::Value;
namespace Intrinsic = llvm::Intrinsic;

/// With AVX-512 a division takes 6 (AMD) or 16 cycles (Intel); narrower vectors are divided in fewer, and have no masks to look at.
bool Scalars::speculates(const Value* v) const {
    return speculation_ && speculation_->block == b_.GetInsertBlock() && features_.avx512 && lanes_of(v) == 16;
}

/// Orders magnitudes, zeros above all others.
Value* Scalars::twice_less_one(Value* v) {
    Value* bits = bits_of(v);
    return b_.CreateSub(b_.CreateAdd(bits, bits), i(bits, 1));
}

/// The correctly rounded reciprocal, NaN for divisors that are not moderate, and the least magnitude of a dividend, as `twice_less_one` gives it: its
/// quotients are normal and remainders exact.
Speculation::Divisor Scalars::divisor(Value* shared, Value* like) {
    Speculation::Divisor& made = speculation_->divisors[shared];
    if (made.reciprocal) return made;
    const bool is_double = shared->getType()->isDoubleTy();
    Value* moderate = b_.CreateAnd(b_.CreateFCmpOGE(shared, real(shared, is_double ? 0x1p-900 : 0x1p-100)),
                                   b_.CreateFCmpOLT(shared, real(shared, is_double ? 0x1p1022 : 0x1p126)));
    Value* reciprocal = b_.CreateSelect(moderate, b_.CreateFDiv(real(shared, 1.0), shared), llvm::ConstantFP::getQNaN(shared->getType()));
    Value *normal = b_.CreateFMul(shared, real(shared, is_double ? 0x1p-1020 : 0x1p-124)), *exact = real(shared, is_double ? 0x1p-960 : 0x1p-100);
    Value* limit = twice_less_one(b_.CreateSelect(b_.CreateFCmpOGT(normal, exact), normal, exact));
    return made = {b_.CreateVectorSplat(lanes_of(like), reciprocal), b_.CreateVectorSplat(lanes_of(like), limit)};
}

/// a times the correctly rounded reciprocal of b, corrected by the exact remainder, which rounds correctly what was off by less than a unit
/// (Markstein, IBM J. R&D 34, 1990). The product is off by less than 3/2 units. In double one more correction comes first; in float one alone is
/// right unless the quotient lies within 7/2 parts of the divisor's 24-bit integer from a tie, and all of these quotients of all divisors were tried.
/// Whatever overflows on the way, and dividends that are not finite, leave a NaN. The remainder of 0 is +0 and leaves the product's sign, because it
/// is taken away.
Value* Scalars::quotient(Value* a, Value* b) {
    Value* shared = speculates(a) ? llvm::getSplatValue(b) : nullptr;
    if (const auto* known = llvm::dyn_cast_or_null<llvm::ConstantFP>(shared); known && known->getValueAPF().getExactInverse(nullptr))
        shared = nullptr;
    if (!shared) return b_.CreateFDiv(a, b);
    const auto [reciprocal, limit] = divisor(shared, a);
    Value *q = b_.CreateFMul(a, reciprocal), *minus = b_.CreateFNeg(a), *taken = b_.CreateFNeg(reciprocal);
    for (int step = shared->getType()->isDoubleTy() ? 2 : 1; step > 0; --step)
        q = call(Intrinsic::fma, {taken, call(Intrinsic::fma, {b, q, minus}), q});
    speculation_->numbers.push_back(q);
    speculation_->limited.emplace_back(twice_less_one(a), limit);
    speculation_->ordinary.insert(q);
    return q;
}

/// The instruction takes subnormal numbers for zero, and keeps what a NaN holds.
Value* Scalars::quick_bf16(Value* v) {
    if (!speculation_->ordinary.count(v)) {
        Value* magnitude = twice_less_one(v);
        speculation_->numbers.push_back(v);
        speculation_->limited.emplace_back(magnitude, i(magnitude, 2 * uint64_t{0x00800000} - 1));
    }
    return b_.CreateBitCast(b_.CreateIntrinsic(Intrinsic::x86_avx512bf16_cvtneps2bf16_512, {}, {v}), like(b_.getInt16Ty(), v));
}

}  // namespace tegula::cpu
