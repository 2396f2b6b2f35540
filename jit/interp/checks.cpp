// What checked mode looks at around a step: divisors of integer quotients before it, and (with float traps) non-finite results after it.
#include <cmath>

#include "jit/interp/machine.h"
#include "lang/scalar.h"

namespace tegula::interp {

namespace {

using ir::Op;

bool is_quotient(Op op) { return op == Op::div || op == Op::rem || op == Op::div_trunc || op == Op::rem_trunc || op == Op::div_ceil; }

bool watched(const Info& info) {
    if (info.out.empty() || info.in.empty() || info.out[0].pointer || !info.out[0].format || !info.out[0].format->is_float()) return false;
    const Op op = info.op;
    const bool pointwise = ir::has_trait(op, ir::ELEMWISE) && op != Op::neg && op != Op::abs && op != Op::copysign;
    return pointwise || ir::has_trait(op, ir::COMPUTES);
}

bool finite(const Tile& t, const uint8_t* data, int64_t i) {
    return std::isfinite(decode(*t.format, get_code(*t.format, t.width, data, t.splat ? 0 : i)));
}

}  // namespace

void check_division(Machine& m, const Info& info) {
    if (!is_quotient(info.op) || !info.in[0].format->is_int()) return;
    const Tile &a = info.in[0], &b = info.in[1];
    const Format& f = *a.format;
    const int64_t n = m.count(info.out[0]);
    const uint64_t lowest = scalar::wrap(uint64_t{1} << (f.bits - 1), f.bits, true);
    for (int64_t i = 0; i < n; ++i) {
        const uint64_t divisor = get_code(f, b.width, m.at(b), b.splat ? 0 : i);
        if (divisor == 0) {
            report(m, info, Diag::division_by_zero, {}, i, &info.out[0].shape);
        } else if (f.is_signed && divisor == UINT64_MAX && (info.op == Op::div || info.op == Op::div_trunc || info.op == Op::div_ceil)) {
            const uint64_t code = get_code(f, a.width, m.at(a), a.splat ? 0 : i);
            if (code == lowest) report(m, info, Diag::division_overflow, {std::to_string(static_cast<int64_t>(code)), f.name}, i, &info.out[0].shape);
        }
    }
}

void watch_floats(Machine& m, const Info& info) {
    if (!watched(info)) return;
    const int64_t n = m.count(info.out[0]);
    uint8_t* legal = m.buffer(5, static_cast<uint64_t>(n));
    const bool pointwise = ir::has_trait(info.op, ir::ELEMWISE) || info.op == Op::cast;
    std::fill_n(legal, n, uint8_t{0});
    for (const Tile& t : info.in) {
        const int64_t count = t.splat ? 1 : m.count(t);
        for (int64_t i = 0; i < (pointwise ? n : count); ++i) {
            if (finite(t, m.at(t), i)) continue;
            if (pointwise)
                legal[i] = 1;
            else
                std::fill_n(legal, n, uint8_t{1});
        }
        if (info.op == Op::cast) break;
    }
}

void check_floats(Machine& m, const Info& info) {
    if (!watched(info)) return;
    const Tile& out = info.out[0];
    const int64_t n = m.count(out);
    const uint8_t* legal = m.buffer(5, static_cast<uint64_t>(n));
    for (int64_t i = 0; i < n; ++i) {
        if (legal[i] || finite(out, m.at(out), i)) continue;
        const double v = decode(*out.format, get_code(*out.format, out.width, m.at(out), i));
        return report(m, info, Diag::float_trap, {ir::op_row(info.op).name, std::isnan(v) ? "NaN" : "infinity"}, i, &out.shape);
    }
}

}  // namespace tegula::interp
