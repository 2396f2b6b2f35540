// Applying one row of ops.def, or one conversion, to dense arrays of any element format. Native formats (integers, f32, f64) run the inner
// loops directly; other floats decode to f64, compute and round once; fixed point, log numbers and odd roundings go code by code.
#pragma once
#include <cstdint>
#include <memory>

#include "jit/interp/kernels.h"
#include "lang/format.h"
#include "lang/ir.h"

namespace tegula::interp {

constexpr int64_t kChunk = 1024;  ///< elements per pass of multi-stage kernels: their buffers stay in the first-level cache

/// Buffers of one worker for multi-stage kernels.
struct Chunks {
    alignas(64) uint8_t splat[3][kChunk * 8];
    alignas(64) double real[4][kChunk];
    alignas(64) int64_t integer[kChunk];
};

/// The native type of a format, or kNumTypes when it has none. Bool is U8, pointers are U64.
NumType num_type(const Format& format, bool pointer);
/// log2 of a container width.
inline int width_index(unsigned width) { return width == 1 ? 0 : width == 2 ? 1 : width == 4 ? 2 : 3; }
/// Container to 64-bit code (sign- or zero-extended as format.h wants) and back.
uint64_t get_code(const Format& format, unsigned width, const void* data, int64_t i);
void set_code(unsigned width, void* data, int64_t i, uint64_t code);

struct Row {
    enum How : uint8_t { native, through_f64, by_code } how = native;
    ir::Op op{};
    uint8_t arity = 0, in_width = 0, out_width = 0, bits = 0;
    const Format* format = nullptr;
    RowFn fn = nullptr;
    void (*wrap)(void*, int64_t, unsigned) = nullptr;

    Row() = default;
    Row(ir::Op op, const Format& format, bool pointer);
    /// At most kChunk elements; absent operands equal `a`; dst may be exactly one of the operands.
    void apply_chunk(Chunks& chunks, void* dst, const void* a, const void* b, const void* c, int64_t n) const;
    /// Any number of elements.
    void apply(Chunks& chunks, void* dst, const void* a, const void* b, const void* c, int64_t n) const;
};

struct Conversion {
    enum How : uint8_t { by_code, copy, ints, int_to_float, float_to_int, floats, to_bool } how = by_code;
    const Format *to = nullptr, *from = nullptr;
    Round round = Round::rne;
    Overflow overflow = Overflow::automatic;
    uint8_t in_width = 0, out_width = 0;
    NumType in_type = kNumTypes, out_type = kNumTypes;

    Conversion() = default;
    Conversion(const Format& to, const Format& from, Round round = Round::rne, Overflow overflow = Overflow::automatic);
    /// What drives stochastic rounding: a seed and the first element's index in its tile, or an integer per element.
    struct Random {
        uint64_t seed = 0;
        int64_t index = 0;
        const void* bits = nullptr;
        const Format* bits_format = nullptr;
    };
    /// At most kChunk elements; returns the number of the first element that overflowed when `watch` is set, else -1.
    int64_t apply_chunk(Chunks& chunks, void* dst, const void* src, int64_t n, const Random& random, bool watch) const;
    /// Any number of elements, nearest-even.
    void apply(Chunks& chunks, void* dst, const void* src, int64_t n) const;
};

}  // namespace tegula::interp
