// Rows of ops.def and conversions on dense arrays: how each format goes through the inner loops (elementwise.h). What is not a native
// type takes the same path as scalar::eval_elementwise and tegula::convert, so that folding and running give equal bits.
#include "jit/interp/elementwise.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "lang/one_rounding.h"
#include "lang/scalar.h"

namespace tegula::interp {

namespace {

bool is_binary(const Format& f, unsigned exp_bits, unsigned man_bits) {
    return f.is_float() && f.is_signed && f.exp_bits == exp_bits && f.man_bits == man_bits && f.bias == (1 << (exp_bits - 1)) - 1 && f.has_inf &&
           f.nan == NanCode::ieee && f.subnormal && f.negative_zero;
}

bool sign_extends(const Format& f) { return f.is_signed && (f.is_int() || f.kind == FormatKind::fixed); }

}  // namespace

NumType num_type(const Format& format, bool pointer) {
    if (pointer) return U64;
    if (format.is_bool()) return U8;
    if (format.is_float()) return is_binary(format, 11, 52) ? F64 : is_binary(format, 8, 23) ? F32 : kNumTypes;
    if (!format.is_int()) return kNumTypes;
    return static_cast<NumType>((format.is_signed ? I8 : U8) + width_index(format.container_bytes()));
}

uint64_t get_code(const Format& format, unsigned width, const void* data, int64_t i) {
    uint64_t code = 0;
    std::memcpy(&code, static_cast<const uint8_t*>(data) + static_cast<size_t>(i) * width, width);
    return sign_extends(format) ? scalar::wrap(code, width * 8, true) : code;
}

void set_code(unsigned width, void* data, int64_t i, uint64_t code) {
    std::memcpy(static_cast<uint8_t*>(data) + static_cast<size_t>(i) * width, &code, width);
}

Row::Row(ir::Op o, const Format& f, bool pointer) : op(o), format(&f) {
    const ir::OpRow& row = ir::op_row(o);
    arity = static_cast<uint8_t>(row.operands);
    in_width = static_cast<uint8_t>(pointer ? 8 : f.container_bytes());
    out_width = row.result == ir::ResultRule::boolean ? 1 : row.result == ir::ResultRule::i32 ? 4 : in_width;
    bits = pointer ? 64 : f.bits;
    NumType type = num_type(f, pointer);
    if (type == F32 && scalar::wide_f32(o)) type = kNumTypes;
    if (type != kNumTypes) {
        fn = kernels().rows[static_cast<size_t>(o)][type];
        if (type < kIntTypes && row.result == ir::ResultRule::same && bits != in_width * 8) wrap = kernels().wrap[type];
    } else if (f.is_float()) {
        how = through_f64;
        fn = kernels().rows[static_cast<size_t>(o)][F64];
    } else {
        how = by_code;
    }
    TEGULA_CHECK(how == by_code || fn, row.name);
}

void Row::apply_chunk(Chunks& chunks, void* dst, const void* a, const void* b, const void* c, int64_t n) const {
    if (how == native) {
        fn(dst, a, b, c, n, bits);
        if (wrap) wrap(dst, n, bits);
        return;
    }
    const void* in[3] = {a, b, c};
    if (how == through_f64) {
        for (int k = 0; k < arity; ++k) decode_many(*format, in[k], static_cast<size_t>(n), chunks.real[k]);
        double *x = chunks.real[0], *y = arity > 1 ? chunks.real[1] : x, *z = arity > 2 ? chunks.real[2] : x;
        const bool boolean = ir::op_row(op).result == ir::ResultRule::boolean;
        if (const Grid grid(*format); rounds_twice(op, *format))
            for (int64_t i = 0; i < n; ++i) chunks.real[3][i] = before_rounding(op, x[i], y[i], z[i], grid);
        else
            fn(boolean ? dst : chunks.real[3], x, y, z, n, 64);
        if (const Round round = ir::rounded_op(op).round; round != Round::rne)
            for (int64_t i = 0; i < n; ++i) set_code(out_width, dst, i, encode(*format, chunks.real[3][i], {.round = round}));
        else if (!boolean)
            encode_many(*format, chunks.real[3], static_cast<size_t>(n), dst);
        return;
    }
    for (int64_t i = 0; i < n; ++i) {
        uint64_t codes[3] = {};
        for (int k = 0; k < arity; ++k) codes[k] = get_code(*format, in_width, in[k], i);
        set_code(out_width, dst, i, scalar::eval_elementwise(op, *format, {codes, arity}));
    }
}

void Row::apply(Chunks& chunks, void* dst, const void* a, const void* b, const void* c, int64_t n) const {
    for (int64_t i = 0; i < n; i += kChunk) {
        const auto at = [&](const void* p) { return static_cast<const uint8_t*>(p) + i * in_width; };
        apply_chunk(chunks, static_cast<uint8_t*>(dst) + i * out_width, at(a), at(b), at(c), std::min(kChunk, n - i));
    }
}

Conversion::Conversion(const Format& t, const Format& f, Round r, Overflow o) : to(&t), from(&f), round(r), overflow(o) {
    in_width = static_cast<uint8_t>(f.container_bytes());
    out_width = static_cast<uint8_t>(t.container_bytes());
    in_type = num_type(f, false);
    out_type = num_type(t, false);
    const bool plain = r == Round::rne && o == Overflow::automatic;
    const bool from_int = f.is_int() || f.is_bool();
    const bool from_real = f.is_float() || f.kind == FormatKind::codebook;
    if (plain && t == f && !t.is_float()) {
        how = copy;
    } else if (plain && t.is_bool() && (from_int || from_real)) {
        how = to_bool;
    } else if (plain && from_int && t.is_int()) {
        how = ints;
    } else if (plain && from_int && t.is_float() && (f.bits <= 53 || (in_type == I64 && out_type != kNumTypes))) {
        how = int_to_float;
    } else if (plain && from_real && t.is_float()) {
        how = floats;
    } else if (from_real && t.is_int() && t.bits <= 32 && (o == Overflow::automatic || o == Overflow::sat) &&
               (r == Round::rne || r == Round::rtz || r == Round::ru || r == Round::rd)) {
        how = float_to_int;
    }
}

namespace {

/// Rounds to an integer under `round` and saturates to the format; NaN gives 0.
void round_to_int(const double* in, int64_t* out, int64_t n, const Format& to, Round round) {
    const double low = to.is_signed ? -std::ldexp(1.0, to.bits - 1) : 0.0;
    const double high = std::ldexp(1.0, to.is_signed ? to.bits - 1 : to.bits) - 1;
    for (int64_t i = 0; i < n; ++i) {
        double v = in[i];
        v = round == Round::rne ? std::nearbyint(v) : round == Round::rtz ? std::trunc(v) : round == Round::ru ? std::ceil(v) : std::floor(v);
        out[i] = std::isnan(v) ? 0 : static_cast<int64_t>(std::clamp(v, low, high));
    }
}

}  // namespace

int64_t Conversion::apply_chunk(Chunks& chunks, void* dst, const void* src, int64_t n, const Random& random, bool watch) const {
    const Kernels& k = kernels();
    const size_t count = static_cast<size_t>(n);
    const auto load_real = [&] {
        if (in_type == F32)
            k.f32_to_f64(static_cast<const float*>(src), chunks.real[0], n);
        else
            decode_many(*from, src, count, chunks.real[0]);
    };
    const auto store_int = [&] {
        k.narrow[width_index(out_width)](chunks.integer, dst, n);
        if (to->bits != out_width * 8) k.wrap[out_type](dst, n, to->bits);
    };
    switch (watch ? by_code : how) {
        case copy:
            std::memmove(dst, src, count * in_width);
            return -1;
        case ints:
            k.widen[in_type](src, chunks.integer, n);
            store_int();
            return -1;
        case int_to_float:
            k.widen[in_type](src, chunks.integer, n);
            if (out_type == F32) {
                k.i64_to_f32(chunks.integer, static_cast<float*>(dst), n);
            } else {
                double* real = out_type == F64 ? static_cast<double*>(dst) : chunks.real[0];
                k.i64_to_f64(chunks.integer, real, n);
                if (out_type != F64) encode_many(*to, real, count, dst);
            }
            return -1;
        case float_to_int:
            load_real();
            round_to_int(chunks.real[0], chunks.integer, n, *to, round);
            store_int();
            return -1;
        case floats:
            load_real();
            if (out_type == F32)
                k.f64_to_f32(chunks.real[0], static_cast<float*>(dst), n);
            else
                encode_many(*to, chunks.real[0], count, dst);
            return -1;
        case to_bool:
            if (in_type < kIntTypes) {
                k.widen[in_type](src, chunks.integer, n);
                for (int64_t i = 0; i < n; ++i) static_cast<uint8_t*>(dst)[i] = chunks.integer[i] != 0;
            } else {
                load_real();
                for (int64_t i = 0; i < n; ++i) static_cast<uint8_t*>(dst)[i] = !(chunks.real[0][i] == 0);
            }
            return -1;
        case by_code:
            break;
    }
    int64_t bad = -1;
    for (int64_t i = 0; i < n; ++i) {
        RoundSpec spec{round, overflow, 0};
        if (round == Round::stochastic) spec.random = stochastic_bits(random.seed, static_cast<uint64_t>(random.index + i));
        if (round == Round::bits)
            spec.random = given_bits(*random.bits_format, get_code(*random.bits_format, random.bits_format->container_bytes(), random.bits, i));
        bool overflowed = false;
        set_code(out_width, dst, i, convert(*to, *from, get_code(*from, in_width, src, i), spec, watch ? &overflowed : nullptr));
        if (overflowed && bad < 0) bad = i;
    }
    return bad;
}

void Conversion::apply(Chunks& chunks, void* dst, const void* src, int64_t n) const {
    for (int64_t i = 0; i < n; i += kChunk)
        apply_chunk(chunks, static_cast<uint8_t*>(dst) + i * out_width, static_cast<const uint8_t*>(src) + i * in_width, std::min(kChunk, n - i), {},
                    false);
}

}  // namespace tegula::interp
