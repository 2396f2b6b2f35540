// How wide the accesses are that a load or store of a tensor becomes on a GPU: one rule for the emitter and for `explain`.
#pragma once
#include "lang/ir.h"

namespace tegula {

/// Is a coordinate along d the sum of what a register and what a thread contributes, without common bits?
bool is_additive(const TileLayout& l, int d);

struct WideAccess {
    int vector = 1;        ///< elements of one access
    int axis = -1;         ///< of the access, along which they lie
    bool shifted = false;  ///< vectors begin at any element, and words are shifted into place
};
/// Of a load, store or put of a tensor whose part (`value`) lies in registers. Conditions at the tensor's edge may still take elements one by one.
WideAccess wide_access(const ir::Function& form, ir::InstId id, ir::ValueId value);

/// Elements of other widths are addressed by bits, and read and written one by one.
inline bool is_bit_addressed(const Format& f) { return f.bits != 8 && f.bits != 16 && f.bits != 32 && f.bits != 64; }

}  // namespace tegula
