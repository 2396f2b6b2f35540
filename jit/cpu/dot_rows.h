// What a processor's vectors are, and its instructions that add the products of a few neighbours along k to 32-bit sums, in the order of preference.
// A product takes the first row that the target has and that gives the bits of its chain (plan_product). No LLVM: the plan and `explain` need it too.
#pragma once
#include <cstdint>
#include <string_view>

namespace tegula::cpu {

enum class Isa : uint8_t { other, x86, aarch64 };

struct DotRow {
    /// What the two operands hold, the left one first; bytes in groups of four, words and bf16 in pairs.
    enum Operands : uint8_t { unsigned_signed, unsigned_unsigned, signed_signed, signed_unsigned, words, bf16 } operands;
    enum Instruction : uint8_t {
        dpbusd, dpbuud, dpbssd, dpwssd, maddwd, dpbf16,
        tdpbusd, tdpbuud, tdpbssd, tdpbsud,  ///< on tiles of 16 rows of 64 bytes
        usdot, udot, sdot,
    } instruction;
    std::string_view name, feature;                                                             ///< feature: as LLVM names it
    unsigned vector_bytes;                                                                      ///< of the target whose vectors it works on
    constexpr unsigned group() const { return operands == words || operands == bf16 ? 2 : 4; }  ///< neighbours along k in one element of a panel
    constexpr bool floats() const { return operands == bf16; }
    constexpr bool tiles() const { return instruction >= tdpbusd && instruction <= tdpbsud; }
    constexpr Isa isa() const { return instruction >= usdot ? Isa::aarch64 : Isa::x86; }
};

inline constexpr DotRow kDotRows[] = {
    // Sums of integers wrap, so that any order is right. There is none for tiles of bf16: they sum even and odd neighbours apart.
    {DotRow::signed_signed, DotRow::tdpbssd, "tdpbssd", "amx-int8", 64},
    {DotRow::unsigned_unsigned, DotRow::tdpbuud, "tdpbuud", "amx-int8", 64},
    {DotRow::unsigned_signed, DotRow::tdpbusd, "tdpbusd", "amx-int8", 64},
    {DotRow::signed_unsigned, DotRow::tdpbsud, "tdpbsud", "amx-int8", 64},
    {DotRow::signed_signed, DotRow::dpbssd, "vpdpbssd", "avxvnniint8", 32},
    {DotRow::unsigned_unsigned, DotRow::dpbuud, "vpdpbuud", "avxvnniint8", 32},
    {DotRow::unsigned_signed, DotRow::dpbusd, "vpdpbusd", "avx512vnni", 64},
    {DotRow::unsigned_signed, DotRow::dpbusd, "vpdpbusd", "avxvnni", 32},
    {DotRow::words, DotRow::dpwssd, "vpdpwssd", "avx512vnni", 64},
    {DotRow::words, DotRow::dpwssd, "vpdpwssd", "avxvnni", 32},
    {DotRow::words, DotRow::maddwd, "vpmaddwd", "avx512bw", 64},
    {DotRow::words, DotRow::maddwd, "vpmaddwd", "avx2", 32},
    {DotRow::words, DotRow::maddwd, "pmaddwd", "sse2", 16},
    {DotRow::signed_signed, DotRow::sdot, "sdot", "dotprod", 16},
    {DotRow::unsigned_unsigned, DotRow::udot, "udot", "dotprod", 16},
    {DotRow::unsigned_signed, DotRow::usdot, "usdot", "i8mm", 16},
    // Two fused steps, the upper half first, subnormals taken as zero: checked at run time (product.h, watched).
    {DotRow::bf16, DotRow::dpbf16, "vdpbf16ps", "avx512bf16", 64},
};

/// Bit i: row i is there.
using DotRows = uint32_t;

/// The vectors that code is made of.
struct VectorUnit {
    Isa isa = Isa::other;
    unsigned bytes = 16;      ///< of a register
    unsigned registers = 16;  ///< that code names
    DotRows dot_rows = 0;
    bool has(const DotRow& row) const { return dot_rows >> (&row - kDotRows) & 1; }
    /// May the instruction work on these vectors, if the processor has it?
    bool suits(const DotRow& row) const { return row.isa() == isa && row.vector_bytes == bytes; }
};

}  // namespace tegula::cpu
