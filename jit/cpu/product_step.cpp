// One step of k: an fma or the instruction for products of narrow operands, rounded to the accumulator's format where that is narrow; and products of
// formats whose steps work on codes alone.
#include <llvm/IR/IntrinsicsAArch64.h>
#include <llvm/IR/IntrinsicsX86.h>

#include "jit/cpu/product_emitter.h"

namespace tegula::cpu {

using ir::Op;
using llvm::Value;

namespace {

constexpr uint32_t kLeastSum = 24;  ///< biased exponent of f32 from which on numbers are multiples of 2^-126

llvm::Intrinsic::ID intrinsic_of(const DotRow& row) {
    const bool wide = row.vector_bytes == 64;
    switch (row.instruction) {
        case DotRow::usdot:
            return llvm::Intrinsic::aarch64_neon_usdot;
        case DotRow::udot:
            return llvm::Intrinsic::aarch64_neon_udot;
        case DotRow::sdot:
            return llvm::Intrinsic::aarch64_neon_sdot;
        case DotRow::dpbusd:
            return wide ? llvm::Intrinsic::x86_avx512_vpdpbusd_512 : llvm::Intrinsic::x86_avx512_vpdpbusd_256;
        case DotRow::dpbuud:
            return llvm::Intrinsic::x86_avx2_vpdpbuud_256;
        case DotRow::dpbssd:
            return llvm::Intrinsic::x86_avx2_vpdpbssd_256;
        case DotRow::dpwssd:
            return wide ? llvm::Intrinsic::x86_avx512_vpdpwssd_512 : llvm::Intrinsic::x86_avx512_vpdpwssd_256;
        case DotRow::maddwd:
            if (row.vector_bytes == 16) return llvm::Intrinsic::x86_sse2_pmadd_wd;
            return wide ? llvm::Intrinsic::x86_avx512_pmaddw_d_512 : llvm::Intrinsic::x86_avx2_pmadd_wd;
        case DotRow::dpbf16:
            return llvm::Intrinsic::x86_avx512bf16_dpbf16ps_512;
        default:
            break;
    }
    TEGULA_CHECK(false, "no intrinsic for this row");
}

}  // namespace

/// sum + the products of one element of a panel each.
Value* ProductEmitter::step(Value* sum, Value* left, Value* right) {
    if (p_.rounded) return g_.scalars().float_step(*p_.rounded, left, right, sum);
    if (!p_.row) return g_.scalars().raw_fma(chain_, left, right, sum);
    const llvm::Intrinsic::ID id = intrinsic_of(*p_.row);
    if (p_.flip) std::swap(left, right);
    if (p_.row->isa() == Isa::x86 && !p_.row->floats() && p_.row->instruction != DotRow::maddwd)
        return b_.CreateIntrinsic(id, {}, {sum, left, right});
    llvm::Type* part = p_.row->floats() ? b_.getBFloatTy() : static_cast<llvm::Type*>(b_.getIntNTy(32 / p_.group()));
    llvm::Type* type = llvm::FixedVectorType::get(part, p_.group() * p_.lanes);
    left = b_.CreateBitCast(left, type);
    right = b_.CreateBitCast(right, type);
    if (p_.row->instruction == DotRow::maddwd) return b_.CreateAdd(sum, b_.CreateIntrinsic(id, {}, {left, right}));
    if (p_.row->isa() == Isa::aarch64) return b_.CreateIntrinsic(id, {sum->getType(), type}, {sum, left, right});
    return b_.CreateIntrinsic(id, {}, {sum, left, right});
}

/// The same of pairs of bf16 as two fmas, the upper halves first.
Value* ProductEmitter::step_apart(Value* sum, Value* left, Value* right) {
    llvm::Type* bits = llvm::FixedVectorType::get(b_.getInt32Ty(), p_.lanes);
    const auto half = [&](Value* v, bool first) {
        v = b_.CreateBitCast(v, bits);
        v = first ? b_.CreateAnd(v, llvm::ConstantInt::get(bits, 0xffff0000u)) : b_.CreateShl(v, 16);
        return b_.CreateBitCast(v, vector_);
    };
    for (bool first : {true, false}) sum = g_.scalars().raw_fma(chain_, half(left, first), half(right, first), sum);
    return sum;
}

/// i1: is each sum a zero, or large enough to be a multiple of 2^-126?
Value* ProductEmitter::sums_are_safe(const Values& sums) {
    llvm::Type* bits = llvm::FixedVectorType::get(b_.getInt32Ty(), p_.lanes);
    Value* least = nullptr;
    for (Value* sum : sums) {  // without the sign, less one so that zeros count as the largest
        Value* magnitude = b_.CreateShl(b_.CreateBitCast(sum, bits), 1);
        magnitude = b_.CreateSub(magnitude, llvm::ConstantInt::get(bits, 1));
        least = least ? b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, least, magnitude) : magnitude;
    }
    return b_.CreateAndReduce(b_.CreateICmpUGE(least, llvm::ConstantInt::get(bits, (kLeastSum << 24) - 1)));
}

/// Accumulators in a format of their own: rounded after every step, element by element along the rows.
void product_by_steps(Codegen& g, ir::InstId id) {
    const ir::Function& fn = g.fn();
    const auto operands = fn.operands(fn.inst(id));
    const ir::ValueId result = fn.result(fn.inst(id));
    const Format& f = fn.elem(result);
    const Shape shape = fn.type(result).shape;
    const size_t r = shape.rank;
    g.nest(shape, [&](const Point& p) {
        const auto sums = g.loop(g.i64(0), g.i64(fn.type(operands[0]).shape[r - 1]), 1, {g.lanes(operands[2], p)},
                                 [&](Value* k, std::vector<Value*> now) -> std::vector<Value*> {
                                     Point a = p, b = p;
                                     a.index[r - 1] = b.index[r - 2] = g.uniform(k);
                                     Value* left = g.scalars().cast(g.lanes(operands[0], a), fn.elem(operands[0]), f);
                                     Value* right = g.scalars().cast(g.lanes(operands[1], b), fn.elem(operands[1]), f);
                                     if (f.is_float()) return {g.scalars().elementwise(Op::fma, f, std::array{left, right, now[0]})};
                                     Value* product = g.scalars().elementwise(Op::mul, f, std::array{left, right});
                                     return {g.scalars().elementwise(Op::add, f, std::array{now[0], product})};
                                 });
        g.write(g.buffer(result), p, sums[0]);
    });
}

}  // namespace tegula::cpu
