// Whether an instruction of dot_rows.h does on the processor at hand what its row promises. No LLVM.
#pragma once

namespace tegula::cpu {

/// Does VDPBF16PS add the product of the upper halves, then that of the lower ones, each as one fma rounded to nearest even, where no subnormal
/// appears? Tried on some thousand sums, in microseconds. False on a processor without the instruction.
bool dot_bf16_is_two_fmas();

}  // namespace tegula::cpu
