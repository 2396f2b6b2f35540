// reduce, contract and scan with built-in rows. The tree: P the smallest power of two >= n; for s = P/2 .. 1, x[i] = op(x[i], x[i + s])
// for i < s where i + s < n. One level is one row over a contiguous span, because the axis' outer stride is the span's length.
#include <algorithm>
#include <cstring>

#include "jit/interp/machine.h"
#include "lang/axis.h"
#include "lang/joining.h"

namespace tegula::interp {

namespace {

/// The operand in the result's format: itself, or converted into buffer `which`.
const uint8_t* in_result_format(Machine& m, const Tile& in, const Tile& out, int which) {
    if (in.elem == out.elem) return m.at(in);
    uint8_t* buffer = m.buffer(which, static_cast<uint64_t>(in.n) * out.width);
    Conversion(*out.format, *in.format).apply(m.chunks, buffer, m.at(in), in.n);
    return buffer;
}

}  // namespace

void step_reduce(Machine& m, const Step& s) {
    const Info& info = *s.info;
    const Tile &in = info.in[0], &out = info.out[0];
    const Axis axis(in.shape, info.attrs[2]);
    const Row row(ir::joining_op(static_cast<ir::ReduceKind>(info.attrs[0]), *out.format), *out.format, out.pointer);
    const uint8_t* x = in_result_format(m, in, out, 0);
    const int64_t line = axis.inner * out.width;
    const int64_t half = first_stride(axis.n);
    uint8_t* tree = m.buffer(1, static_cast<uint64_t>(std::max<int64_t>(half, 1) * line));
    for (int64_t o = 0; o < axis.outer; ++o, x += axis.n * line) {
        uint8_t* to = m.at(out) + o * line;
        if (info.attrs[1] == 1 || axis.n == 1) {
            std::memcpy(to, x, static_cast<size_t>(line));
            for (int64_t k = 1; k < axis.n; ++k) row.apply(m.chunks, to, to, x + k * line, to, axis.inner);
        } else {
            const int64_t pairs = axis.n - half;
            row.apply(m.chunks, tree, x, x + half * line, x, pairs * axis.inner);
            std::memcpy(tree + pairs * line, x + pairs * line, static_cast<size_t>((half - pairs) * line));
            for (int64_t t = half / 2; t > 0; t /= 2) row.apply(m.chunks, tree, tree, tree + t * line, tree, t * axis.inner);
            std::memcpy(to, tree, static_cast<size_t>(line));
        }
        if (m.poll()) return;
    }
}

void step_contract(Machine& m, const Step& s) {
    const Info& info = *s.info;
    const Tile& out = info.out[0];
    const Axis axis(info.in[0].shape, info.attrs[0]);
    const uint8_t* a = in_result_format(m, info.in[0], out, 0);
    const uint8_t* b = in_result_format(m, info.in[1], out, 1);
    const bool fused = out.format->is_int() || out.format->is_float();
    const Row row(fused ? ir::Op::fma : ir::Op::mul, *out.format, false);
    const Row add(ir::Op::add, *out.format, false);
    const int64_t line = axis.inner * out.width;
    const uint64_t zero = encode(*out.format, 0.0);
    uint8_t* product = m.buffer(2, static_cast<uint64_t>(line));
    for (int64_t o = 0; o < axis.outer; ++o) {
        uint8_t* to = m.at(out) + o * line;
        for (int64_t i = 0; i < axis.inner; ++i) set_code(out.width, to, i, zero);
        for (int64_t k = 0; k < axis.n; ++k, a += line, b += line) {
            if (fused) {
                row.apply(m.chunks, to, a, b, to, axis.inner);
            } else {
                row.apply(m.chunks, product, a, b, a, axis.inner);
                add.apply(m.chunks, to, to, product, to, axis.inner);
            }
        }
        if (m.poll()) return;
    }
}

void step_scan(Machine& m, const Step& s) {
    const Info& info = *s.info;
    const Tile &in = info.in[0], &out = info.out[0];
    const Axis axis(in.shape, info.attrs[1]);
    const bool reverse = info.attrs[2] != 0;
    const Row row(ir::joining_op(static_cast<ir::ReduceKind>(info.attrs[0]), *out.format), *out.format, false);
    const uint8_t* x = in_result_format(m, in, out, 0);
    uint8_t* y = m.at(out);
    const int64_t line = axis.inner * out.width;
    for (int64_t o = 0; o < axis.outer; ++o, x += axis.n * line, y += axis.n * line) {
        for (int64_t k = 0; k < axis.n; ++k) {
            const int64_t at = (reverse ? axis.n - 1 - k : k) * line, before = at + (reverse ? line : -line);
            if (k == 0)
                std::memcpy(y + at, x + at, static_cast<size_t>(line));
            else
                row.apply(m.chunks, y + at, y + before, x + at, x + at, axis.inner);
            if ((k & 4095) == 4095 && m.poll()) return;
        }
    }
}

}  // namespace tegula::interp
