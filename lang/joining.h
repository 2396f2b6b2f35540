// Which elementwise op joins two elements of a reduction, or the old value and the operand of an atomic: the same for all machines.
#pragma once
#include <cstdint>
#include <optional>

#include "lang/ir.h"

namespace tegula::ir {

Op joining_op(ReduceKind kind, const Format& format);
/// Of the kinds that compute; `add` for xchg and cas, which do not.
Op joining_op(AtomicKind kind);

/// Does the kind depend on the order for this format?
bool reduce_is_ordered(ReduceKind kind, const Format& f);
/// The code that joins without effect; nullopt when the format has none.
std::optional<uint64_t> reduce_identity(ReduceKind kind, const Format& f);

}  // namespace tegula::ir
