// How much scratch memory an instruction of a function with a GpuForm needs: one rule for the pass that assigns it and the emitter that uses it.
#pragma once
#include "lang/ir.h"

namespace tegula {

/// Bytes, from the instruction's op, types and placements; 0: none.
int64_t scratch_bytes(const ir::Function& fn, ir::InstId inst);

}  // namespace tegula
