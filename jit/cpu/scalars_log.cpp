// Log numbers as integers: signs, order, products and quotients are those of their logarithms, which no rounding is needed for; sums and casts round
// doubles by a table of where logarithms change. Bits equal those of decoding, computing in double and rounding (lang/scalar.h).
#include <array>
#include <bit>
#include <cmath>
#include <mutex>

#include <llvm/IR/Constants.h>

#include "jit/cpu/scalar_formats.h"
#include "jit/cpu/scalars.h"

namespace tegula::cpu {

using ir::Op;
using llvm::Value;
namespace Intrinsic = llvm::Intrinsic;

/// What a log number consists of, i32 and i1 per lane. `special`: 0 or NaN.
struct Scalars::Log {
    Value *code, *sign, *log, *special, *nan;
};

static uint64_t sign_of(const Format& f) { return uint64_t{1} << (f.bits - 1); }
static uint64_t zero_of(const Format& f) { return uint64_t{1} << (f.bits - 2); }
/// Neither values nor products or quotients of two leave the doubles.
static bool fits_doubles(const Format& f) { return f.int_bits <= 10; }

Scalars::Log Scalars::log_parts(const Format& f, Value* v) {
    Log out;
    out.code = resize(v, 32, false);
    const auto k = [&](uint64_t value) { return i(out.code, value); };
    out.sign = b_.CreateAnd(out.code, k(sign_of(f)));
    out.log = b_.CreateAShr(b_.CreateShl(out.code, k(33u - f.bits)), k(33u - f.bits));
    out.special = b_.CreateICmpEQ(out.log, k(~(zero_of(f) - 1)));
    out.nan = b_.CreateICmpEQ(out.code, k(nan_code(f)));
    return out;
}

/// The i32 code of a logarithm of any size.
Value* Scalars::log_code(const Format& f, Value* log, Value* sign) {
    const uint64_t largest = zero_of(f) - 1;
    log = call(Intrinsic::smin, {call(Intrinsic::smax, {log, i(log, ~largest + 1)}), i(log, largest)});
    return b_.CreateOr(b_.CreateAnd(log, i(log, low_bits(f.bits - 1u))), sign);
}

Value* Scalars::log_product(const Format& f, const Log& a, const Log& b, bool divides) {
    const auto k = [&](uint64_t value) { return i(a.code, value); };
    Value *sign = b_.CreateXor(a.sign, b.sign), *log = divides ? b_.CreateSub(a.log, b.log) : b_.CreateAdd(a.log, b.log);
    Value *r = log_code(f, log, sign), *nan = b_.CreateOr(a.nan, b.nan), *zero = a.special;
    if (divides) {
        r = b_.CreateSelect(b.special, b_.CreateOr(a.sign, k(zero_of(f) - 1)), r);
        nan = b_.CreateOr(nan, b_.CreateAnd(a.special, b.special));
    } else {
        zero = b_.CreateOr(zero, b.special);
    }
    return b_.CreateSelect(nan, k(nan_code(f)), b_.CreateSelect(zero, k(zero_of(f)), r));
}

/// i32 in the order of the values; of NaN anything.
Value* Scalars::log_order(const Format& f, const Log& a) {
    Value* size = b_.CreateAdd(a.log, i(a.log, zero_of(f)));
    return b_.CreateSelect(b_.CreateICmpNE(a.sign, i(a.sign, 0)), b_.CreateNeg(size), size);
}

Value* Scalars::log_extremum(Op op, const Format& f, const Log& a, const Log& b) {
    const bool is_min = op == Op::min || op == Op::minnum;
    Value *x = log_order(f, a), *y = log_order(f, b);
    Value* r = b_.CreateSelect(is_min ? b_.CreateICmpSLT(y, x) : b_.CreateICmpSGT(y, x), b.code, a.code);
    if (op == Op::min || op == Op::max) return b_.CreateSelect(b_.CreateOr(a.nan, b.nan), i(r, nan_code(f)), r);
    return b_.CreateSelect(a.nan, b.code, b_.CreateSelect(b.nan, a.code, r));
}

Value* Scalars::log_test(Op op, const Format& f, const Log& a, const Log& b) {
    const auto p = op == Op::lt   ? llvm::CmpInst::ICMP_SLT
                   : op == Op::le ? llvm::CmpInst::ICMP_SLE
                   : op == Op::gt ? llvm::CmpInst::ICMP_SGT
                   : op == Op::ge ? llvm::CmpInst::ICMP_SGE
                                  : llvm::CmpInst::ICMP_EQ;
    Value* r = b_.CreateAnd(b_.CreateICmp(p, log_order(f, a), log_order(f, b)), b_.CreateNot(b_.CreateOr(a.nan, b.nan)));
    return op == Op::ne ? b_.CreateNot(r) : r;
}

/// Null: the row is computed in double.
Value* Scalars::log_row(Op op, const Format& f, std::span<Value* const> x) {
    const Log a = log_parts(f, x[0]), b = x.size() > 1 ? log_parts(f, x[1]) : a;
    if (ir::op_row(op).result == ir::ResultRule::boolean) return log_test(op, f, a, b);
    Value* r = nullptr;
    switch (op) {
        case Op::mul:
        case Op::div:
            if (!fits_doubles(f)) return nullptr;
            r = log_product(f, a, b, op == Op::div);
            break;
        case Op::neg:
            r = b_.CreateSelect(a.special, a.code, b_.CreateXor(a.code, i(a.code, sign_of(f))));
            break;
        case Op::abs:
            r = b_.CreateSelect(a.special, a.code, b_.CreateAnd(a.code, i(a.code, ~sign_of(f))));
            break;
        case Op::min:
        case Op::max:
        case Op::minnum:
        case Op::maxnum:
            r = log_extremum(op, f, a, b);
            break;
        default:
            return nullptr;
    }
    return resize(r, f.container_bytes() * 8, false);
}

/// The value as a double; null: the general way. Wide ones by a table of the fractions of the logarithm.
Value* Scalars::decode_log(const Format& f, Value* v) {
    if (!fits_doubles(f)) return nullptr;
    constexpr unsigned kWholeTable = 10;  // bits
    const bool whole = f.bits <= kWholeTable;
    std::vector<uint64_t> entries;
    for (uint64_t code = 0; code < uint64_t{1} << (whole ? f.bits : f.frac_bits); ++code)
        entries.push_back(std::bit_cast<uint64_t>(tegula::decode(f, code)) & (whole ? ~uint64_t{0} : low_bits(52)));
    if (whole) return as_real(table_at(entries, 64, v, "values"), 64);
    const Log a = log_parts(f, v);
    Value* exponent = b_.CreateAdd(b_.CreateAShr(a.log, i(a.log, f.frac_bits)), i(a.log, 1023));
    Value* high = b_.CreateOr(b_.CreateShl(exponent, i(exponent, 20)), b_.CreateShl(a.sign, i(a.sign, 32u - f.bits)));
    high = b_.CreateSelect(a.nan, i(high, 0x7ff80000), high);
    Value *wide = b_.CreateShl(resize(high, 64, false), 32), *fraction = table_at(entries, 64, v, "powers");
    return as_real(b_.CreateSelect(a.special, b_.CreateSelect(a.nan, wide, i(wide, 0)), b_.CreateOr(wide, fraction)), 64);
}

namespace {

constexpr unsigned kMostFraction = 10;  ///< bits; tables grow with them

/// How many steps of 2^-frac_bits the logarithm of a number in [1, 2) has, rounded: for the number's first frac_bits + 1 bits an entry that, added to
/// its 52, gives the steps from bit 53 on. Steps are farther apart than so many bits tell, so that at most one lies among the numbers of an entry.
const std::vector<uint64_t>& log_steps(unsigned frac_bits) {
    static std::array<std::vector<uint64_t>, kMostFraction + 1> all;
    static std::mutex mutex;
    std::lock_guard lock(mutex);
    std::vector<uint64_t>& entries = all[frac_bits];
    if (!entries.empty()) return entries;
    Format f;
    f.kind = FormatKind::lns;
    f.int_bits = 4, f.frac_bits = static_cast<uint8_t>(frac_bits), f.bits = static_cast<uint8_t>(5 + frac_bits);
    const uint64_t steps = uint64_t{1} << frac_bits, one = std::bit_cast<uint64_t>(1.0), end = uint64_t{1} << 52, width = end / steps / 2;
    std::vector<uint64_t> limits;  // the least number, without its 1, that has a step more
    for (uint64_t k = 0; k < steps; ++k) {
        uint64_t bits = std::bit_cast<uint64_t>(std::exp2((static_cast<double>(k) + 0.5) / static_cast<double>(steps)));
        const auto reached = [&](uint64_t x) { return encode(f, std::bit_cast<double>(x)) > k; };
        while (!reached(bits)) ++bits;
        while (reached(bits - 1)) --bits;
        limits.push_back(bits - one);
    }
    uint64_t passed = 0;
    for (uint64_t from = 0; from < end; from += width) {
        while (passed < steps && limits[passed] < from) ++passed;
        const bool has = passed < steps && limits[passed] < from + width;
        entries.push_back((passed << 53) + (uint64_t{1} << 53) - (has ? limits[passed] : end));
    }
    return entries;
}

}  // namespace

/// The nearest log number of a double; null: the general way.
Value* Scalars::nearest_log(const Format& f, Value* x) {
    if (f.kind != FormatKind::lns || !fits_doubles(f) || f.frac_bits > kMostFraction) return nullptr;
    x = b_.CreateFPCast(x, like(b_.getDoubleTy(), x));
    Value *bits = bits_of(x), *number = b_.CreateAnd(bits, i(bits, low_bits(52)));
    Value* entry = table_at(log_steps(f.frac_bits), 64, b_.CreateLShr(bits, i(bits, 51u - f.frac_bits)), "steps");
    Value* steps = resize(b_.CreateLShr(b_.CreateAdd(number, entry), i(bits, 53)), 32, false);
    Value* exponent = b_.CreateAnd(resize(b_.CreateLShr(bits, i(bits, 52)), 32, false), i(steps, 0x7ff));
    Value* log = b_.CreateAdd(b_.CreateShl(b_.CreateSub(exponent, i(steps, 1023)), i(steps, f.frac_bits)), steps);
    Value* sign = b_.CreateAnd(resize(b_.CreateLShr(bits, i(bits, 64u - f.bits)), 32, false), i(steps, sign_of(f)));
    Value* code = b_.CreateSelect(b_.CreateFCmpOEQ(x, real(x, 0.0)), i(steps, zero_of(f)), log_code(f, log, sign));
    code = b_.CreateSelect(b_.CreateFCmpUNO(x, x), i(steps, nan_code(f)), code);
    return resize(code, f.container_bytes() * 8, false);
}

}  // namespace tegula::cpu
