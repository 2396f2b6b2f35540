// What a GPU offers, as rows of targets.def: architectures, and the instructions that multiply tiles. Choosing one is a search over rows.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "lang/format.h"

namespace tegula {

struct Arch {
    const char* name;       ///< what NVRTC is given: "sm_90a" for a cubin of that GPU alone, "compute_90" for PTX that later ones run, too
    int number;             ///< 75, 80, 86, 89, 90, 100, 120
    bool ptx;               ///< PTX that later GPUs run, too, rather than a cubin
    int shared_bytes;       ///< usable by one CTA
    int registers;          ///< 32-bit registers of an SM
    bool cp_async, tma, wgmma, tcgen05;
    bool bulk_adds;         ///< bulk copies add f16, bf16 and f32 to memory as IEEE 754 says, subnormals included: measured
    bool multicast;         ///< CTAs of a cluster share rings: bulk copies into several run at full speed, and each can give stages back to all
    bool exchange;          ///< warps hand registers to each other (setmaxnreg); not where ptxas ignores it in kernels that call its division
    // Of the largest part, for cost estimates:
    int sms;
    int l2_bytes, memory_bytes;  ///< read per clock by all SMs together
    int clock_mhz;

    bool is_ptx() const { return ptx; }
};
std::span<const Arch> all_archs();
/// "sm_90a", "sm_90" (-> the row of that number), "90", "compute_90"; null when unknown.
const Arch* find_arch(std::string_view name);
/// What kernels are compiled for on a GPU of this compute capability whose CTAs may use `shared_bytes`, by a compiler that knows the architectures
/// `known` (empty: all of them): the GPU's own row, else the newest PTX that it can run; null when there is none.
const Arch* arch_for(int major, int minor, int shared_bytes, std::span<const int> known);

/// One instruction shape. Operands: a [m, k], b [k, n], accumulator [m, n].
struct MmaRow {
    enum Kind : uint8_t { fma, dp4a, mma, wgmma, tcgen05 } kind;
    const char* name;          ///< PTX mnemonic without shape, "mma.sync.f16.f32"; spelled in `explain`
    Fmt a, b, acc;
    int m, n, k;  ///< one thread's step for fma and dp4a; n: step for wgmma (8 .. 256) and tcgen05 (16 .. 256)
    int min_arch, max_arch;
    int rate;                  ///< multiply-adds per clock and SM at best
    bool a_in_registers;       ///< wgmma: A may come from registers
    /// The hardware's sum (h200-numerics 1): terms are cut at 2^(emax - fraction_bits), the result keeps result_bits mantissa bits, toward zero;
    /// fraction_bits 0: exact integer or a chain of fma; -1: not known, the row is never taken.
    int fraction_bits, result_bits;
    bool tensor_core() const { return kind != fma && kind != dp4a; }
    bool from_shared() const { return kind == wgmma || kind == tcgen05; }  ///< operands are read from shared memory through descriptors
};
std::span<const MmaRow> mma_rows();  ///< row 0 is `fma`, legal for every type
/// Has the architecture this instruction? No two rows of one architecture have the same name.
bool has_row(const Arch& arch, const MmaRow& row);

}  // namespace tegula
