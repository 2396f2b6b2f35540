// NVIDIA tensor cores to the bit: what one instruction computes, as measured on an H200 (each of the modelled forms equal on 2^30 dots). All
// products and the accumulator are cut, each toward zero, at one common place below the largest of them, summed exactly and rounded once.
// Used by the interpreter where a product was given an instruction, and by tests that run emitted code without a GPU.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "lang/format.h"
#include "lang/target.h"

namespace tegula {

/// Elements of K in one sum of a row that keeps fewer than 23 bits in f32 (fp8 wgmma); such sums are added up in f32.
constexpr int64_t kPromotion = 128;
inline bool promotes(const MmaRow& row) { return row.acc == Fmt::f32 && row.result_bits < 23; }
/// Registers of a thread that sums made anew on the way, by promotion or between scales, have on wgmma beside the accumulator's: 64 rows of 128
/// columns, beyond which the instruction is no faster.
constexpr int kPartRegisters = 64;

/// One operand element: significand * 2^exponent, subnormals not renormalised (the hardware does not).
struct CoreOperand {
    int32_t significand = 0;  ///< signed
    int32_t exponent = 0;     ///< of the leading place: E - bias
    uint8_t mantissa_bits = 0;
    Exact::Class cls = Exact::finite;
};
CoreOperand core_operand(const Format& format, uint64_t code);

/// One instruction: the sum of a[i] * b[i] and the accumulator code `c` (f32 or f16, as the row says), as a code. a and b have equal length, at
/// most row.k; missing products count as zero. Rows with fraction_bits 0 are not modelled here: they are exact.
uint64_t core_step(const MmaRow& row, std::span<const CoreOperand> a, std::span<const CoreOperand> b, uint64_t c);

/// acc + a . b over any K: steps of row.k ascending. Rows that keep fewer than 23 bits in f32 start a new accumulator every kPromotion
/// elements and add it to the old one, rounded to nearest.
uint64_t core_dot(const MmaRow& row, std::span<const CoreOperand> a, std::span<const CoreOperand> b, uint64_t c);

}  // namespace tegula
