// Scalars: types, constants, the dispatch of rows, NaNs, tables. The families of rows are in scalars_*.cpp.
#include "jit/cpu/scalars.h"

#include <bit>
#include <cmath>

#include <llvm/IR/Constants.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/PatternMatch.h>

#include "jit/cpu/scalar_formats.h"
#include "lang/check.h"
#include "lang/joining.h"
#include "lang/one_rounding.h"

namespace tegula::cpu {

using llvm::Type;
using llvm::Value;

namespace {

template <class R, class... Args>
const void* address(R (*function)(Args...)) {
    return reinterpret_cast<const void*>(function);
}

double before_rounding_of_op(double a, double b, double c, int op, int man_bits, int min_exponent) {
    return before_rounding(static_cast<ir::Op>(op), a, b, c, Grid(man_bits, min_exponent));
}

}  // namespace

std::span<const HostFunction> host_functions() {
    using F = float (*)(float);
    using D = double (*)(double);
    static const HostFunction all[] = {
        {"fmod", address(static_cast<double (*)(double, double)>(std::fmod))},
        {"fmodf", address(static_cast<float (*)(float, float)>(std::fmod))},
        {"fma", address(static_cast<double (*)(double, double, double)>(std::fma))},
        {"fmaf", address(static_cast<float (*)(float, float, float)>(std::fma))},
        {"floor", address(static_cast<D>(std::floor))},
        {"floorf", address(static_cast<F>(std::floor))},
        {"ceil", address(static_cast<D>(std::ceil))},
        {"ceilf", address(static_cast<F>(std::ceil))},
        {"trunc", address(static_cast<D>(std::trunc))},
        {"truncf", address(static_cast<F>(std::trunc))},
        {"nearbyint", address(static_cast<D>(std::nearbyint))},
        {"nearbyintf", address(static_cast<F>(std::nearbyint))},
        {"exp2", address(static_cast<D>(std::exp2))},
        {"log2", address(static_cast<D>(std::log2))},
        {"sin", address(static_cast<D>(std::sin))},
        {"cos", address(static_cast<D>(std::cos))},
        {"tanh", address(static_cast<D>(std::tanh))},
        {"tegula_before_rounding", address(&before_rounding_of_op)},
    };
    return all;
}

// ---- types and constants ----

Type* Scalars::type(const Format& f, unsigned lanes) const {
    Type* element = f.is_bool()    ? b_.getInt1Ty()
                    : is_native(f) ? (f.bits == 32 ? b_.getFloatTy() : b_.getDoubleTy())
                                   : static_cast<Type*>(b_.getIntNTy(f.container_bytes() * 8));
    return lanes ? llvm::FixedVectorType::get(element, lanes) : element;
}

Type* Scalars::memory_type(const Format& f, unsigned lanes) const {
    if (!f.is_bool()) return type(f, lanes);
    return lanes ? llvm::FixedVectorType::get(b_.getInt8Ty(), lanes) : static_cast<Type*>(b_.getInt8Ty());
}

Value* Scalars::constant(const Format& f, uint64_t code, unsigned lanes) const {
    Type* t = type(f, lanes);
    code = extend_code(f, code);
    if (!is_native(f)) return llvm::ConstantInt::get(t, f.is_bool() ? code & 1 : code);
    const auto& semantics = f.bits == 32 ? llvm::APFloat::IEEEsingle() : llvm::APFloat::IEEEdouble();
    return llvm::ConstantFP::get(t, llvm::APFloat(semantics, llvm::APInt(f.bits, code)));
}

Value* Scalars::to_memory(Value* v, const Format& f) { return f.is_bool() ? b_.CreateZExt(v, like(b_.getInt8Ty(), v)) : v; }
Value* Scalars::from_memory(Value* v, const Format& f) { return f.is_bool() ? b_.CreateTrunc(v, like(b_.getInt1Ty(), v)) : v; }

Type* Scalars::like(Type* element, Value* v) const {
    const unsigned n = lanes_of(v);
    return n ? llvm::FixedVectorType::get(element, n) : element;
}

Value* Scalars::i(Value* like, uint64_t value) const { return llvm::ConstantInt::get(like->getType(), value); }
Value* Scalars::real(Value* like, double value) const { return llvm::ConstantFP::get(like->getType(), value); }
Value* Scalars::truth(Value* v, bool value) const { return llvm::ConstantInt::get(like(b_.getInt1Ty(), v), value); }

Value* Scalars::resize(Value* v, unsigned bits, bool is_signed) { return b_.CreateIntCast(v, like(b_.getIntNTy(bits), v), is_signed); }

Value* Scalars::call(llvm::Intrinsic::ID id, std::initializer_list<Value*> args) {
    return b_.CreateIntrinsic((*args.begin())->getType(), id, llvm::ArrayRef<Value*>(args.begin(), args.size()));
}

Value* Scalars::bits_of(Value* v) { return b_.CreateBitCast(v, like(b_.getIntNTy(v->getType()->getScalarSizeInBits()), v)); }

Value* Scalars::as_real(Value* v, unsigned bits) {
    return b_.CreateBitCast(resize(v, bits, false), like(bits == 32 ? b_.getFloatTy() : b_.getDoubleTy(), v));
}

Value* Scalars::wrap(Value* v, const Format& f) {
    const unsigned container = v->getType()->getScalarSizeInBits();
    if (f.is_bool()) return v;
    if (f.bits >= container) return v;
    const unsigned spare = container - f.bits;
    if (extends_sign(f)) return b_.CreateAShr(b_.CreateShl(v, i(v, spare)), i(v, spare));
    return b_.CreateAnd(v, i(v, low_bits(f.bits)));
}

Value* Scalars::low_code(Value* v, const Format& f) {
    if (is_native(f)) return bits_of(v);
    if (f.is_bool()) return resize(v, 8, false);
    return f.bits == v->getType()->getScalarSizeInBits() || !extends_sign(f) ? v : b_.CreateAnd(v, i(v, low_bits(f.bits)));
}

Value* Scalars::known_words(const Format& f, Value* code) const { return known(words_, f, code); }

Value* Scalars::table_index(const Format& f, Value* code) {
    Value* words = known_words(f, code);
    return words ? words : code;
}

void Scalars::know(KnownOf& of, const Format& f, Value* code, Value* value) {
    if (!llvm::isa<llvm::Constant>(code)) of[code] = {&f, value};  // constants are shared by all that have their bits
}

Value* Scalars::known(const KnownOf& of, const Format& f, Value* code) {
    const auto found = of.find(code);
    return found != of.end() && found->second.format == &f ? found->second.value : nullptr;
}

Value* Scalars::select(Value* mask, Value* v, Value* other) {
    Value* r = b_.CreateSelect(mask, v, other);
    // Of zeros the words are zeros, too.
    const auto* zero = llvm::dyn_cast<llvm::Constant>(other);
    if (const auto words = words_.find(v); words != words_.end() && zero && zero->isNullValue()) {
        const auto [format, value] = words->second;
        know(words_, *format, r, b_.CreateSelect(mask, value, llvm::Constant::getNullValue(value->getType())));
    }
    return r;
}

Value* Scalars::saturated(Value* v, bool v_signed, const Format& f) {
    using namespace llvm;
    const uint64_t high = low_bits(f.bits - f.is_signed);
    if (!v_signed) return high == ~uint64_t{0} ? v : call(Intrinsic::umin, {v, i(v, high)});
    v = call(Intrinsic::smax, {v, i(v, f.is_signed ? ~high : 0)});
    return high > uint64_t{INT64_MAX} ? v : call(Intrinsic::smin, {v, i(v, high)});
}

// ---- calls and tables, lane by lane where the machine has nothing better ----

Value* Scalars::per_lane(const char* function, std::initializer_list<Value*> args) {
    std::vector<Type*> types;
    for (Value* v : args) types.push_back(v->getType()->getScalarType());
    const auto callee = b_.GetInsertBlock()->getModule()->getOrInsertFunction(function, llvm::FunctionType::get(types[0], types, false));
    Value* first = *args.begin();
    Value* out = llvm::PoisonValue::get(first->getType());
    const unsigned lanes = lanes_of(first);
    for (unsigned l = 0; l < std::max(lanes, 1u); ++l) {
        std::vector<Value*> one;
        for (Value* v : args) one.push_back(lanes_of(v) ? b_.CreateExtractElement(v, l) : v);
        Value* result = b_.CreateCall(callee, one);
        out = lanes ? b_.CreateInsertElement(out, result, l) : result;
    }
    return out;
}

/// Entries that need up to 32 bits come as i32, else i64.
Value* Scalars::table_at(llvm::ArrayRef<uint64_t> given, unsigned bits, Value* index, const char* name) {
    using namespace llvm;
    std::vector<uint64_t> entries(given.begin(), given.end());
    entries.resize(std::bit_ceil(entries.size()));
    llvm::LLVMContext& context = b_.getContext();
    const unsigned lanes = lanes_of(index), width = bits <= 32 ? 32 : 64;
    Type* element = b_.getIntNTy(width);
    const std::vector<uint32_t> narrow(entries.begin(), entries.end());
    const unsigned permuted = features_.avx512 ? 16 : features_.avx2 ? 8 : 0;  // entries by one permutation, which ignores further bits of an index
    if (permuted && lanes == permuted && width == 32 && entries.size() <= 2 * permuted) {
        Value* number = resize(index, 32, false);
        const auto part = [&](size_t from) {
            std::vector<uint32_t> some(permuted);
            for (size_t k = 0; k < permuted; ++k) some[k] = narrow[(from + k) % narrow.size()];
            return ConstantDataVector::get(context, some);
        };
        const auto one = [&](size_t from) -> Value* {
            return features_.avx512 ? b_.CreateIntrinsic(Intrinsic::x86_avx512_permvar_si_512, {}, {part(from), number})
                                    : b_.CreateIntrinsic(Intrinsic::x86_avx2_permd, {}, {part(from), number});
        };
        if (entries.size() <= permuted) return one(0);
        if (features_.avx512) return b_.CreateIntrinsic(Intrinsic::x86_avx512_vpermi2var_d_512, {}, {part(0), number, part(permuted)});
        return b_.CreateSelect(b_.CreateICmpNE(b_.CreateAnd(number, i(number, permuted)), i(number, 0)), one(permuted), one(0));
    }
    Constant* data = width == 32 ? ConstantDataArray::get(context, narrow) : ConstantDataArray::get(context, ArrayRef<uint64_t>(entries));
    Module& module = *b_.GetInsertBlock()->getModule();
    GlobalVariable* table = nullptr;
    for (GlobalVariable& g : module.globals())
        if (g.isConstant() && g.hasInitializer() && g.getInitializer() == data) table = &g;
    if (!table) {
        table = new GlobalVariable(module, data->getType(), true, GlobalValue::PrivateLinkage, data, name);
        table->setUnnamedAddr(GlobalValue::UnnamedAddr::Global);
        table->setAlignment(Align(64));
    }
    index = resize(index, 64, false);
    Value* at = b_.CreateGEP(element, table, b_.CreateAnd(index, i(index, entries.size() - 1)));
    if (!lanes) return b_.CreateAlignedLoad(element, at, Align(width / 8));
    return b_.CreateMaskedGather(FixedVectorType::get(element, lanes), at, Align(width / 8));
}

// ---- NaNs ----

Value* Scalars::raw(Value* v) const {
    const auto known = raw_.find(v);
    return known == raw_.end() ? v : known->second;
}

Value* Scalars::settle(const Format& f, Value* v) {
    if (!is_native(f)) return v;
    v = raw(v);
    if (speculation_ && speculation_->ordinary.count(v)) return v;
    Value* settled = b_.CreateSelect(b_.CreateFCmpUNO(v, v), constant(f, nan_code(f), lanes_of(v)), v);
    if (!llvm::isa<llvm::Constant>(settled)) raw_[settled] = v;
    return settled;
}

/// Of results that would both be settled the selected one is.
Value* Scalars::select(const Format& f, Value* condition, Value* a, Value* b) {
    const auto arithmetic = [&](Value* v) { return raw(v) != v || llvm::PatternMatch::match(v, llvm::PatternMatch::m_NonNaN()); };
    if (!is_native(f) || (raw(a) == a && raw(b) == b) || !arithmetic(a) || !arithmetic(b)) return b_.CreateSelect(condition, a, b);
    return settle(f, b_.CreateSelect(condition, raw(a), raw(b)));
}

Value* Scalars::raw_fma(const Format& f, Value* a, Value* b, Value* c) {
    if (is_native(f)) return call(llvm::Intrinsic::fma, {raw(a), raw(b), raw(c)});
    Value* all[] = {a, b, c};
    return elementwise(ir::Op::fma, f, all);
}

// ---- rows ----

Value* Scalars::row(ir::Op op, const Format& f, std::span<Value* const> operands) {
    switch (f.kind) {
        case FormatKind::boolean:
            return bool_row(op, operands);
        case FormatKind::integer:
            return integer_row(op, f, operands);
        case FormatKind::fixed:
            return fixed_row(op, f, operands);
        case FormatKind::floating:
        case FormatKind::lns:
            break;
        default:
            TEGULA_CHECK(false, "no arithmetic on codebooks and blocks");
    }
    if (ir::is_directed(op)) return directed_row(op, f, operands);
    if (!is_native(f)) return minifloat_row(op, f, operands);
    std::vector<Value*> x(operands.begin(), operands.end());
    // A NaN's sign can be seen.
    for (size_t k = 0; k < x.size(); ++k)
        if (op != ir::Op::signbit && !(op == ir::Op::copysign && k == 1)) x[k] = raw(x[k]);
    Value* r = native_row(op, x);
    return ir::op_row(op).result == ir::ResultRule::boolean ? r : settle(f, r);
}

Value* Scalars::join(ir::ReduceKind kind, const Format& f, Value* a, Value* b) {
    Value* both[] = {a, b};
    return elementwise(ir::joining_op(kind, f), f, both);
}

Value* Scalars::bitcast(Value* v, const Format& from, const Format& to) {
    Value* code = low_code(v, from);
    if (is_native(to)) return as_real(code, to.bits);
    if (to.is_bool()) return b_.CreateTrunc(code, like(b_.getInt1Ty(), v));
    return wrap(resize(code, to.container_bytes() * 8, false), to);
}

Value* Scalars::stochastic_bits(Value* seed, Value* index) {
    if (lanes_of(index) && !lanes_of(seed)) seed = b_.CreateVectorSplat(lanes_of(index), seed);
    Value* low = i(index, 0xffffffff);
    const auto upper = [&](Value* v) { return b_.CreateLShr(v, i(v, 32)); };
    const auto lower = [&](Value* v) { return b_.CreateAnd(v, low); };
    Value *c0 = lower(index), *c1 = upper(index), *c2 = i(index, 0), *c3 = c2, *k0 = lower(seed), *k1 = upper(seed);
    for (int round = 0; round < 10; ++round) {
        Value *p0 = b_.CreateMul(i(index, 0xD2511F53), c0), *p1 = b_.CreateMul(i(index, 0xCD9E8D57), c2);
        c0 = b_.CreateXor(b_.CreateXor(upper(p1), c1), k0);
        c1 = lower(p1);
        c2 = b_.CreateXor(b_.CreateXor(upper(p0), c3), k1);
        c3 = lower(p0);
        k0 = lower(b_.CreateAdd(k0, i(index, 0x9E3779B9)));
        k1 = lower(b_.CreateAdd(k1, i(index, 0xBB67AE85)));
    }
    return b_.CreateOr(b_.CreateShl(c1, i(index, 32)), c0);
}

}  // namespace tegula::cpu
