// Elementwise evaluation on codes, instantiated from ops.def (scalar.h). Integers compute in 64 bits and wrap; f32 and f64 are native; other
// floats decode to double, compute there and round once (one_rounding.h); fixed and log numbers have integer rules of their own.
#include "lang/scalar.h"

#include <algorithm>
#include <array>

#include "lang/one_rounding.h"

namespace tegula::scalar {

namespace {

using ir::Op;

/// A directed row on native floats.
template <class T>
struct Directed {
    Op op;
    T operator()(T a, T b = 0, T c = 0) const {
        const double v = before_rounding(op, a, b, c, sizeof(T) == 4 ? Grid(23, -126) : Grid(52, -1022));
        const T r = static_cast<T>(v);
        if (!std::isinf(r) || std::isinf(v)) return r;
        // Beyond the largest number and not infinite: the mode says which of both it is.
        const Round round = ir::rounded_op(op).round;
        const bool grows = round == (v < 0 ? Round::rd : Round::ru);
        return grows ? r : std::copysign(std::numeric_limits<T>::max(), r);
    }
};

}  // namespace

#define TEGULA_DIRECTED(row, arity, operands)                                            \
    float row(TEGULA_TAKES_##arity(float)) { return Directed<float>{Op::row} operands; } \
    double row(TEGULA_TAKES_##arity(double)) { return Directed<double>{Op::row} operands; }
#define DIRECTED(op, arity, operands, doc)     \
    TEGULA_DIRECTED(op##_rtz, arity, operands) \
    TEGULA_DIRECTED(op##_ru, arity, operands)  \
    TEGULA_DIRECTED(op##_rd, arity, operands)
#include "lang/ops.def"
#undef TEGULA_DIRECTED

namespace {

using Codes = std::array<uint64_t, 3>;

/// The row's integer expression; bool results are 0 or 1.
template <class T>
uint64_t eval_int(Op op, const Codes& codes, unsigned N) {
    [[maybe_unused]] const T a = static_cast<T>(codes[0]), b = static_cast<T>(codes[1]), c = static_cast<T>(codes[2]), x = 0;
    switch (op) {
#define ELEMENTWISE(name, arity, domain, result, cost, int_expr, float_expr, doc) \
    case Op::name:                                                                \
        return static_cast<uint64_t>(int_expr);
#include "lang/ops.def"
        default:
            TEGULA_CHECK(false, "not an elementwise op");
            return 0;
    }
}

/// The row's float expression; bool results are 0 or 1.
template <class T>
T eval_float(Op op, T a, [[maybe_unused]] T b, [[maybe_unused]] T c) {
    [[maybe_unused]] const T x = 0;
    switch (op) {
#define ELEMENTWISE(name, arity, domain, result, cost, int_expr, float_expr, doc) \
    case Op::name:                                                                \
        return static_cast<T>(float_expr);
#include "lang/ops.def"
        default:
            TEGULA_CHECK(false, "not an elementwise op");
            return 0;
    }
}

bool is_boolean(Op op) { return ir::op_row(op).result == ir::ResultRule::boolean; }

uint64_t eval_f32(Op op, const Codes& codes) {
    const auto value = [&](int i) { return std::bit_cast<float>(static_cast<uint32_t>(codes[static_cast<size_t>(i)])); };
    const float r =
        wide_f32(op) ? static_cast<float>(eval_float<double>(op, value(0), value(1), value(2))) : eval_float<float>(op, value(0), value(1), value(2));
    if (is_boolean(op)) return r != 0;
    return std::isnan(r) ? 0x7fc00000u : std::bit_cast<uint32_t>(r);
}

uint64_t eval_f64(Op op, const Codes& codes) {
    const auto value = [&](int i) { return std::bit_cast<double>(codes[static_cast<size_t>(i)]); };
    const double r = eval_float<double>(op, value(0), value(1), value(2));
    if (is_boolean(op)) return r != 0;
    return std::isnan(r) ? 0x7ff8000000000000u : std::bit_cast<uint64_t>(r);
}

uint64_t eval_minifloat(Op op, const Format& format, const Codes& codes) {
    const double a = decode(format, codes[0]), b = decode(format, codes[1]), c = decode(format, codes[2]);
    const double r = rounds_twice(op, format) ? before_rounding(op, a, b, c, Grid(format)) : eval_float<double>(op, a, b, c);
    return is_boolean(op) ? uint64_t(r != 0) : encode(format, r, {.round = ir::rounded_op(op).round});
}

// ---- fixed point: raw * 2^-frac_bits, saturating, one rounding to nearest even ----

__extension__ using Wide = __int128;

Wide raw(const Format& format, uint64_t code) {
    return format.is_signed ? Wide(static_cast<int64_t>(wrap(code, format.bits, true))) : Wide(wrap(code, format.bits, false));
}

uint64_t saturate(const Format& format, Wide v) {
    const Wide one = 1;
    const Wide high = (one << (format.is_signed ? format.bits - 1 : format.bits)) - 1;
    const Wide low = format.is_signed ? -high - 1 : Wide(0);
    return static_cast<uint64_t>(v > high ? high : v < low ? low : v);
}

/// n / d to nearest, ties to even, d > 0.
Wide divide_even(Wide n, Wide d) {
    Wide q = n / d, r = n % d;
    if (r < 0) r += d, q -= 1;
    const Wide rest = d - r;
    return r > rest || (r == rest && (q & 1)) ? q + 1 : q;
}

uint64_t eval_fixed(Op op, const Format& format, const Codes& codes) {
    const Wide a = raw(format, codes[0]), b = raw(format, codes[1]);
    const Wide unit = Wide(1) << format.frac_bits;
    switch (op) {
        case Op::add:
            return saturate(format, a + b);
        case Op::sub:
            return saturate(format, a - b);
        case Op::mul:
            return saturate(format, divide_even(a * b, unit));
        case Op::div:
            if (b == 0) return a == 0 ? 0 : saturate(format, a > 0 ? Wide(1) << 100 : -(Wide(1) << 100));
            return saturate(format, divide_even((b < 0 ? -a : a) * unit, b < 0 ? -b : b));
        case Op::neg:
            return saturate(format, -a);
        case Op::abs:
            return saturate(format, a < 0 ? -a : a);
        default:
            return format.is_signed ? eval_int<int64_t>(op, codes, format.bits) : eval_int<uint64_t>(op, codes, format.bits);
    }
}

/// Is this IEEE binary32 or binary64, however it was declared?
bool is_native(const Format& f, unsigned man_bits, int bias) {
    return f.is_signed && f.man_bits == man_bits && f.bias == bias && f.has_inf && f.nan == NanCode::ieee && f.subnormal && f.negative_zero &&
           f.bits == 1 + f.exp_bits + f.man_bits && bias == (1 << (f.exp_bits - 1)) - 1;
}

uint64_t eval_floating(Op op, const Format& format, const Codes& codes) {
    if (is_native(format, 23, 127)) return eval_f32(op, codes);
    if (is_native(format, 52, 1023)) return eval_f64(op, codes);
    return eval_minifloat(op, format, codes);
}

}  // namespace

uint64_t eval_elementwise(ir::Op op, const Format& format, std::span<const uint64_t> codes) {
    const ir::OpRow& row = ir::op_row(op);
    TEGULA_CHECK((row.traits & ir::ELEMWISE) && codes.size() == static_cast<size_t>(row.operands), row.name);
    TEGULA_CHECK(ir::in_domain(op, format, false), std::string(row.name) + " on " + format.name);
    Codes all{};
    std::copy(codes.begin(), codes.end(), all.begin());
    switch (format.kind) {
        case FormatKind::floating:
            return eval_floating(op, format, all);
        case FormatKind::lns:
            return eval_minifloat(op, format, all);  // at most 16 bits: products of logs come out exact in double
        case FormatKind::fixed:
            return eval_fixed(op, format, all);
        default:
            break;
    }
    const bool extend = format.is_int() && format.is_signed;
    const uint64_t r = extend ? eval_int<int64_t>(op, all, format.bits) : eval_int<uint64_t>(op, all, format.bits);
    return is_boolean(op) ? r : wrap(r, format.bits, extend);
}

}  // namespace tegula::scalar
