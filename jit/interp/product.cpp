// dot and dot_scaled. Per output element one fma chain, K ascending, in the accumulator's format: f32, f64 and integers run whole rows at
// once; other floats fuse exactly and round each step; fixed point multiplies and adds.
#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include "jit/interp/machine.h"
#include "lang/one_rounding.h"
#include "lang/scalar.h"
#include "lang/tensor_core.h"

namespace tegula::interp {

namespace {

struct Extents {
    int64_t batch = 1, m = 1, n = 1, k = 1;
    explicit Extents(const Info& info) {
        const Shape &a = info.in[0].shape, &c = info.in[2].shape;
        const size_t r = a.rank;
        for (size_t d = 0; d + 2 < r; ++d) batch *= a[d];
        m = c[r - 2u];
        n = c[r - 1u];
        k = a[r - 1u];
    }
};

/// A tile's elements as `type` (F32, F64, I32, I64) in buffer `which`; the tile itself when it is that already.
const uint8_t* as_native(Machine& m, const Tile& t, NumType type, int which) {
    const NumType own = num_type(*t.format, false);
    if (own == type || (own == U32 && type == I32) || (own == U64 && type == I64)) return m.at(t);
    const unsigned width = type == F32 || type == I32 ? 4 : 8;
    uint8_t* out = m.buffer(which, static_cast<uint64_t>(t.n) * width);
    for (int64_t i = 0; i < t.n; i += kChunk) {
        const int64_t n = std::min(kChunk, t.n - i);
        const uint8_t* in = m.at(t) + i * t.width;
        uint8_t* to = out + i * width;
        if (own < kIntTypes && type < kIntTypes) {
            kernels().widen[own](in, m.chunks.integer, n);
            kernels().narrow[width_index(width)](m.chunks.integer, to, n);
        } else {
            double* real = type == F64 ? reinterpret_cast<double*>(to) : m.chunks.real[0];
            decode_many(*t.format, in, static_cast<size_t>(n), real);
            if (type == F32)
                for (int64_t j = 0; j < n; ++j) reinterpret_cast<float*>(to)[j] = static_cast<float>(real[j]);
        }
    }
    return out;
}

/// tf32 precision: the operand rounded to 10 mantissa bits, ties away.
const uint8_t* rounded_tf32(Machine& m, const uint8_t* values, int64_t n, int which) {
    uint8_t* out = m.buffer(which, static_cast<uint64_t>(n) * 4);
    const Format& tf32 = m.plan.fn->types().format(id_of(Fmt::tf32));
    RoundSpec spec;
    spec.round = Round::rna;
    for (int64_t i = 0; i < n; ++i) {
        const float v = reinterpret_cast<const float*>(values)[i];
        reinterpret_cast<float*>(out)[i] = static_cast<float>(decode(tf32, encode(tf32, v, spec)));
    }
    return out;
}

/// A tile's elements rounded to `f`, the format of a narrow accumulator, as F64 in buffer `which`; `codes` names a second buffer.
const double* rounded_operand(Machine& m, const Tile& t, const Format& f, int which, int codes) {
    const double* values = reinterpret_cast<const double*>(as_native(m, t, F64, which));
    if (*t.format == f) return values;
    const size_t n = static_cast<size_t>(t.n);
    uint8_t* rounded = m.buffer(codes, static_cast<uint64_t>(t.n) * f.container_bytes());
    encode_many(f, values, n, rounded);
    double* out = reinterpret_cast<double*>(m.buffer(which, static_cast<uint64_t>(t.n) * 8));
    decode_many(f, rounded, n, out);
    return out;
}

template <class T>
void rows(Machine& m, DotFn<T> fn, const uint8_t* a, const uint8_t* b, uint8_t* c, const Extents& e) {
    const int64_t step = std::max<int64_t>(1, (1 << 22) / std::max<int64_t>(1, e.n * e.k));  // a few ms between polls
    for (int64_t z = 0; z < e.batch; ++z)
        for (int64_t i = 0; i < e.m; i += step) {
            const int64_t count = std::min(step, e.m - i);
            fn(reinterpret_cast<const T*>(a) + (z * e.m + i) * e.k, reinterpret_cast<const T*>(b) + z * e.k * e.n,
               reinterpret_cast<T*>(c) + (z * e.m + i) * e.n, count, e.n, e.k);
            if (m.poll()) return;
        }
}

/// Accumulators without a native type: row by row of the output, one rounding per step.
void dot_by_steps(Machine& m, const Info& info, const Extents& e) {
    const Tile& out = info.out[0];
    const Format& f = *out.format;
    const bool real = f.is_float();
    const double* a = real ? rounded_operand(m, info.in[0], f, 0, 2) : nullptr;
    const double* b = real ? rounded_operand(m, info.in[1], f, 1, 3) : nullptr;
    std::vector<double> chain(static_cast<size_t>(e.n));
    uint8_t* row = m.at(out);
    for (int64_t r = 0; r < e.batch * e.m; ++r, row += e.n * out.width) {
        const int64_t z = r / e.m;
        for (int64_t k = 0; k < e.k; ++k) {
            if (real) {
                decode_many(f, row, static_cast<size_t>(e.n), chain.data());
                const double left = a[r * e.k + k], *right = b + (z * e.k + k) * e.n;
                for (size_t j = 0; j < chain.size(); ++j) chain[j] = before_rounding(ir::Op::fma, left, right[j], chain[j], Grid(f));
                encode_many(f, chain.data(), static_cast<size_t>(e.n), row);
                continue;
            }
            const auto operand = [&](const Tile& t, int64_t i) { return convert(f, *t.format, get_code(*t.format, t.width, m.at(t), i)); };
            for (int64_t j = 0; j < e.n; ++j) {
                const uint64_t pair[2] = {operand(info.in[0], r * e.k + k), operand(info.in[1], (z * e.k + k) * e.n + j)};
                const uint64_t sum[2] = {get_code(f, out.width, row, j), scalar::eval_elementwise(ir::Op::mul, f, pair)};
                set_code(out.width, row, j, scalar::eval_elementwise(ir::Op::add, f, sum));
            }
        }
        if (m.poll()) return;
    }
}

void dot_integers(Machine& m, const Info& info, const Extents& e) {
    const Tile& out = info.out[0];
    const NumType own = num_type(*out.format, false);
    const NumType type = out.width == 8 ? I64 : I32;
    const uint8_t* a = as_native(m, info.in[0], type, 0);
    const uint8_t* b = as_native(m, info.in[1], type, 1);
    uint8_t* c = m.at(out);
    if (out.width < 4) {  // i8 and i16 accumulators: modulo 2^32 is modulo 2^N
        c = m.buffer(2, static_cast<uint64_t>(out.n) * 4);
        for (int64_t i = 0; i < out.n; ++i) reinterpret_cast<int32_t*>(c)[i] = static_cast<int32_t>(get_code(*out.format, out.width, m.at(out), i));
    }
    if (type == I64)
        rows<int64_t>(m, kernels().dot_i64, a, b, c, e);
    else
        rows<int32_t>(m, kernels().dot_i32, a, b, c, e);
    if (out.width < 4)
        for (int64_t i = 0; i < out.n; ++i) set_code(out.width, m.at(out), i, static_cast<uint32_t>(reinterpret_cast<int32_t*>(c)[i]));
    if (out.format->bits != out.width * 8) kernels().wrap[own](m.at(out), out.n, out.format->bits);
}

/// The instruction that a GPU pass chose for this product, when its sum is the hardware's own; null: a chain of fma, or exact.
const MmaRow* core_row(const Machine& m, const Info& info) {
    if (!m.plan.fn->gpu) return nullptr;
    const MmaRow& row = product_row(*m.plan.fn, info.id);
    return row.fraction_bits ? &row : nullptr;
}

/// A tile's elements for the instruction; `transposed`: [batch, k, n] read as [batch, n, k].
std::vector<CoreOperand> core_operands(Machine& m, const Tile& t, const Format& f, const Extents& e, bool transposed) {
    RoundSpec spec;
    if (t.format->is_float() && f.bits < t.format->bits) spec.round = Round::rna;  // f32 as tf32, as rounded_tf32 does
    std::vector<CoreOperand> out(static_cast<size_t>(t.n));
    for (int64_t i = 0; i < t.n; ++i) {
        const uint64_t own = get_code(*t.format, t.width, m.at(t), i);
        int64_t to = i;
        if (transposed) {
            const int64_t z = i / (e.k * e.n), k = i / e.n % e.k, n = i % e.n;
            to = (z * e.n + n) * e.k + k;
        }
        out[static_cast<size_t>(to)] = core_operand(f, *t.format == f ? own : tegula::convert(f, *t.format, own, spec));
    }
    return out;
}

/// Operands of a product as its instruction takes them.
class CoreProduct {
public:
    CoreProduct(Machine& m, const Info& info, const Extents& e, const MmaRow& row)
        : row_(row),
          e_(e),
          a_(core_operands(m, info.in[0], m.plan.fn->types().format(id_of(row.a)), e, false)),
          b_(core_operands(m, info.in[1], m.plan.fn->types().format(id_of(row.b)), e, true)) {}
    /// c + the products over [begin, end) of K: row i of all batches, column j.
    uint64_t sum(int64_t i, int64_t j, int64_t begin, int64_t end, uint64_t c) const {
        const auto part = [&](const std::vector<CoreOperand>& of, int64_t line) {
            return std::span(of).subspan(static_cast<size_t>(line * e_.k + begin), static_cast<size_t>(end - begin));
        };
        return core_dot(row_, part(a_, i), part(b_, i / e_.m * e_.n + j), c);
    }

private:
    const MmaRow& row_;
    const Extents& e_;
    std::vector<CoreOperand> a_, b_;
};

void dot_on_core(Machine& m, const Info& info, const Extents& e, const MmaRow& row) {
    const CoreProduct product(m, info, e, row);
    const Tile& out = info.out[0];
    for (int64_t i = 0; i < e.batch * e.m; ++i) {
        for (int64_t j = 0; j < e.n; ++j) {
            const int64_t at = i * e.n + j;
            set_code(out.width, m.at(out), at, product.sum(i, j, 0, e.k, get_code(*out.format, out.width, m.at(out), at)));
        }
        if (m.poll()) return;
    }
}

}  // namespace

void step_dot(Machine& m, const Step& s) {
    const Info& info = *s.info;
    const Tile& out = info.out[0];
    const Extents e(info);
    std::memmove(m.at(out), m.at(info.in[2]), static_cast<size_t>(out.n) * out.width);
    if (const MmaRow* row = core_row(m, info)) return dot_on_core(m, info, e, *row);
    const NumType type = num_type(*out.format, false);
    if (type < kIntTypes) return dot_integers(m, info, e);
    if (type != F32 && type != F64) return dot_by_steps(m, info, e);
    const uint8_t* a = as_native(m, info.in[0], type, 0);
    const uint8_t* b = as_native(m, info.in[1], type, 1);
    if (type == F64) return rows<double>(m, kernels().dot_f64, a, b, m.at(out), e);
    if (static_cast<ir::Precision>(info.attrs[0]) == ir::Precision::tf32) {
        a = rounded_tf32(m, a, info.in[0].n, 2);
        b = rounded_tf32(m, b, info.in[1].n, 3);
    }
    rows<float>(m, kernels().dot_f32, a, b, m.at(out), e);
}

/// For each stretch of K with one pair of scales: partial = chain from 0 in f32; acc = fma(partial, a_scale * b_scale, acc), the product of
/// the scales rounded once to f32. The accumulator's format is rounded to after each stretch. An instruction's own sum takes the chain's place.
void step_dot_scaled(Machine& m, const Step& s) {
    const Info& info = *s.info;
    const Tile& out = info.out[0];
    const Extents e(info);
    const int64_t a_block = std::max<int64_t>(1, info.attrs[0]), b_block = std::max<int64_t>(1, info.attrs[1]);
    const int64_t a_blocks = info.in[3].shape[1], b_blocks = info.in[4].shape[0];
    const float* a = reinterpret_cast<const float*>(as_native(m, info.in[0], F32, 0));
    const float* sa = reinterpret_cast<const float*>(as_native(m, info.in[3], F32, 1));
    const float* b = reinterpret_cast<const float*>(as_native(m, info.in[1], F32, 2));
    const float* sb = reinterpret_cast<const float*>(as_native(m, info.in[4], F32, 3));
    std::memmove(m.at(out), m.at(info.in[2]), static_cast<size_t>(out.n) * out.width);
    std::vector<float> partial(static_cast<size_t>(e.n)), scale(partial), acc(partial);
    const Format& f32 = m.plan.fn->types().format(id_of(Fmt::f32));
    const Conversion in(f32, *out.format), back(*out.format, f32);
    const Row fma(ir::Op::fma, f32, false);
    std::optional<CoreProduct> core;
    if (const MmaRow* row = core_row(m, info)) core.emplace(m, info, e, *row);
    for (int64_t i = 0; i < e.m; ++i) {
        uint8_t* row = m.at(out) + i * e.n * out.width;
        in.apply(m.chunks, acc.data(), row, e.n);
        for (int64_t k = 0; k < e.k;) {
            const int64_t end = std::min({e.k, (k / a_block + 1) * a_block, (k / b_block + 1) * b_block});
            std::fill(partial.begin(), partial.end(), 0.0f);
            if (core)
                for (int64_t j = 0; j < e.n; ++j)
                    partial[static_cast<size_t>(j)] = std::bit_cast<float>(static_cast<uint32_t>(core->sum(i, j, k, end, 0)));
            else
                kernels().dot_f32(a + i * e.k + k, b + k * e.n, partial.data(), 1, e.n, end - k);
            const float left = sa[i * a_blocks + std::min(k / a_block, a_blocks - 1)];
            const float* right = sb + std::min(k / b_block, b_blocks - 1) * e.n;
            for (int64_t j = 0; j < e.n; ++j) scale[static_cast<size_t>(j)] = left * right[j];
            fma.apply(m.chunks, acc.data(), partial.data(), scale.data(), acc.data(), e.n);
            if (out.elem != id_of(Fmt::f32)) {
                back.apply(m.chunks, row, acc.data(), e.n);
                in.apply(m.chunks, acc.data(), row, e.n);
            }
            k = end;
        }
        back.apply(m.chunks, row, acc.data(), e.n);
        if (m.poll()) return;
    }
}

}  // namespace tegula::interp
