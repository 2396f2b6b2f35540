// Whether instructions of dot_rows.h do on the processor at hand what their rows promise. No LLVM.
#pragma once

namespace tegula::cpu {

/// Does VDPBF16PS add the product of the upper halves, then that of the lower ones, each as one fma rounded to nearest even, where no subnormal
/// appears? Tried on some thousand sums, in microseconds. False on a processor without the instruction.
bool dot_bf16_is_two_fmas();

/// Does it take less time than two fmas? It does on AMD Zen; on Intel's Emerald Rapids it takes twice as much (docs/internals/cpu.md). Measured in some 20 us.
bool dot_bf16_is_quick();

/// Asks Linux to let this process use tiles of AMX, whose 8 KiB it then keeps for each thread that does.
bool may_use_tiles();

}  // namespace tegula::cpu
