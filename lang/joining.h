// Which elementwise op joins two elements of a reduction, or the old value and the operand of an atomic: the same for all machines.
#pragma once
#include "lang/ir.h"

namespace tegula::ir {

Op joining_op(ReduceKind kind, const Format& format);
/// Of the kinds that compute; `add` for xchg and cas, which do not.
Op joining_op(AtomicKind kind);

}  // namespace tegula::ir
