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

/// Elements of widths other than 8, 16, 32 and 64 are addressed by bits, which pointers to them count, and read and written one by one.
inline bool is_bit_addressed(const Format& f) { return f.bits != 8 && f.bits != 16 && f.bits != 32 && f.bits != 64; }

/// What the address of the first element is a multiple of: elements of no whole words are taken out of bytes.
inline unsigned element_alignment(const Format& f) { return is_bit_addressed(f) ? 1 : f.bits / 8; }


}  // namespace tegula
