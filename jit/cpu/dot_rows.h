// Instructions that add the products of a few neighbours along k to a 32-bit sum, in the order of preference. A product takes the first row that the
// target has and that gives the bits of its chain (plan_product). No LLVM: the plan and `explain` need it too.
#pragma once
#include <cstdint>
#include <string_view>

namespace tegula::cpu {

struct DotRow {
    /// What the two operands hold; bytes in groups of four, words and bf16 in pairs.
    enum Operands : uint8_t { unsigned_signed, unsigned_unsigned, signed_signed, words, bf16 } operands;
    enum Instruction : uint8_t { dpbusd, dpbuud, dpbssd, dpwssd, maddwd, dpbf16 } instruction;
    std::string_view name, feature;                                                             ///< feature: as LLVM names it
    unsigned vector_bytes;                                                                      ///< of the target whose vectors it works on
    constexpr unsigned group() const { return operands == words || operands == bf16 ? 2 : 4; }  ///< neighbours along k in one element of a panel
    constexpr bool floats() const { return operands == bf16; }
};

inline constexpr DotRow kDotRows[] = {
    // Sums of integers wrap, so that any order is right.
    {DotRow::signed_signed, DotRow::dpbssd, "vpdpbssd", "avxvnniint8", 32},
    {DotRow::unsigned_unsigned, DotRow::dpbuud, "vpdpbuud", "avxvnniint8", 32},
    {DotRow::unsigned_signed, DotRow::dpbusd, "vpdpbusd", "avx512vnni", 64},
    {DotRow::unsigned_signed, DotRow::dpbusd, "vpdpbusd", "avxvnni", 32},
    {DotRow::words, DotRow::dpwssd, "vpdpwssd", "avx512vnni", 64},
    {DotRow::words, DotRow::dpwssd, "vpdpwssd", "avxvnni", 32},
    {DotRow::words, DotRow::maddwd, "vpmaddwd", "avx512bw", 64},
    {DotRow::words, DotRow::maddwd, "vpmaddwd", "avx2", 32},
    {DotRow::words, DotRow::maddwd, "pmaddwd", "sse2", 16},
    // Two fused steps, the upper half first, subnormals taken as zero: checked at run time (product.h, watched).
    {DotRow::bf16, DotRow::dpbf16, "vdpbf16ps", "avx512bf16", 64},
};

/// Bit i: row i is there.
using DotRows = uint32_t;

}  // namespace tegula::cpu
