// The block sum of tensor cores (tensor_core.h).
#include "lang/tensor_core.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "lang/check.h"

namespace tegula {

namespace {

/// Exponents below this do not lower the place of the cut: it shows in sums of subnormals only.
int exponent_floor(const MmaRow& row) { return row.acc == Fmt::f16 ? -21 : -133; }

const Format& accumulator(const MmaRow& row) {
    static const std::vector<Format> formats = builtin_formats();
    return formats[static_cast<size_t>(row.acc)];
}

/// |x| * 2^shift, cut toward zero.
int64_t shifted(int64_t x, int shift) {
    const int64_t magnitude = x < 0 ? -x : x;
    const int64_t cut = shift >= 0 ? magnitude << shift : shift > -64 ? magnitude >> -shift : 0;
    return x < 0 ? -cut : cut;
}

uint64_t infinity(const MmaRow& row, bool negative) { return inf_code(accumulator(row), negative); }
uint64_t not_a_number(const MmaRow& row) { return nan_code(accumulator(row)); }

/// Inf and NaN among the terms decide the result alone.
struct Special {
    bool nan = false, plus = false, minus = false;
    void add_infinite(bool negative) { (negative ? minus : plus) = true; }
    bool any() const { return nan || plus || minus; }
};

Special special_of(std::span<const CoreOperand> a, std::span<const CoreOperand> b, const CoreOperand& c) {
    Special s;
    for (size_t i = 0; i < a.size(); ++i) {
        if (a[i].cls == Exact::finite && b[i].cls == Exact::finite) continue;
        const bool infinite = a[i].cls != Exact::nan && b[i].cls != Exact::nan && a[i].significand != 0 && b[i].significand != 0;
        if (infinite)
            s.add_infinite((a[i].significand < 0) != (b[i].significand < 0));
        else
            s.nan = true;  // NaN, or Inf * 0
    }
    if (c.cls == Exact::nan) s.nan = true;
    if (c.cls == Exact::infinite) s.add_infinite(c.significand < 0);
    return s;
}

/// sum * 2^unit in f32, toward zero with `bits` mantissa bits.
uint64_t round_f32(int64_t sum, int unit, int bits) {
    const auto magnitude = static_cast<uint64_t>(sum < 0 ? -sum : sum);
    const int exponent = static_cast<int>(std::bit_width(magnitude)) - 1 + unit;
    if (exponent > 127) return sum < 0 ? 0xff800000u : 0x7f800000u;
    const int quantum = std::max(exponent, -126) - bits;
    const int drop = quantum - unit;
    const uint64_t kept = drop <= 0 ? magnitude : drop < 64 ? magnitude >> drop << drop : 0;
    if (kept == 0) return 0;
    const double value = std::ldexp(static_cast<double>(kept), unit);
    return std::bit_cast<uint32_t>(static_cast<float>(sum < 0 ? -value : value));
}

}  // namespace

CoreOperand core_operand(const Format& f, uint64_t code) {
    CoreOperand o;
    o.mantissa_bits = f.man_bits;
    o.cls = decode_exact(f, code).cls;
    const bool negative = f.is_signed && (code >> (f.bits - 1) & 1);
    const int unused = f.bits - f.is_signed - f.exp_bits - f.man_bits;  // tf32 sits in the top of 32 bits; the hardware ignores the rest
    const auto biased = static_cast<int32_t>(code >> (f.man_bits + unused) & ((uint64_t{1} << f.exp_bits) - 1));
    const auto mantissa = static_cast<int32_t>(code >> unused & ((uint64_t{1} << f.man_bits) - 1));
    if (o.cls != Exact::finite) {
        o.significand = negative ? -1 : 1;
        return o;
    }
    o.significand = biased ? mantissa | int32_t{1} << f.man_bits : mantissa;
    o.exponent = (biased ? biased : 1) - f.bias;
    if (negative) o.significand = -o.significand;
    return o;
}

uint64_t core_step(const MmaRow& row, std::span<const CoreOperand> a, std::span<const CoreOperand> b, uint64_t code) {
    TEGULA_CHECK(row.fraction_bits > 0 && a.size() == b.size());
    const CoreOperand c = core_operand(accumulator(row), code);
    if (const Special s = special_of(a, b, c); s.any()) return s.nan || (s.plus && s.minus) ? not_a_number(row) : infinity(row, s.minus);
    int top = exponent_floor(row);
    for (size_t i = 0; i < a.size(); ++i)
        if (a[i].significand && b[i].significand) top = std::max(top, a[i].exponent + b[i].exponent);
    if (c.significand) top = std::max(top, c.exponent);
    const int unit = top - row.fraction_bits;
    int64_t sum = c.significand ? shifted(c.significand, c.exponent - c.mantissa_bits - unit) : 0;
    for (size_t i = 0; i < a.size(); ++i) {
        const int64_t product = int64_t{a[i].significand} * b[i].significand;
        if (product) sum += shifted(product, a[i].exponent + b[i].exponent - a[i].mantissa_bits - b[i].mantissa_bits - unit);
    }
    if (sum == 0) return 0;
    if (row.acc == Fmt::f32) return round_f32(sum, unit, row.result_bits);
    RoundSpec spec;
    spec.overflow = Overflow::ieee;
    const uint64_t rounded = encode(accumulator(row), std::ldexp(static_cast<double>(sum), unit), spec);
    return rounded << 1 & 0xffff ? rounded : 0;  // a sum that rounds to zero is +0
}

uint64_t core_dot(const MmaRow& row, std::span<const CoreOperand> a, std::span<const CoreOperand> b, uint64_t c) {
    const auto chain = [&](size_t begin, size_t end, uint64_t acc) {
        for (size_t k = begin; k < end; k += static_cast<size_t>(row.k)) {
            const size_t n = std::min(end - k, static_cast<size_t>(row.k));
            acc = core_step(row, a.subspan(k, n), b.subspan(k, n), acc);
        }
        return acc;
    };
    if (!promotes(row)) return chain(0, a.size(), c);
    for (size_t k = 0; k < a.size(); k += kPromotion) {
        const auto part = std::bit_cast<float>(static_cast<uint32_t>(chain(k, std::min(a.size(), k + kPromotion), 0)));
        const float total = std::bit_cast<float>(static_cast<uint32_t>(c)) + part;
        c = std::isnan(total) ? nan_code(accumulator(row)) : std::bit_cast<uint32_t>(total);
    }
    return c;
}

}  // namespace tegula
