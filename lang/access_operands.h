// The one decoding of an access' operands (ir.h Access): which is which, and where the dimensions of the accessed part come from.
#pragma once
#include <array>

#include "lang/ir.h"

namespace tegula::ir {

/// Is it one of the ops whose operands AccessOperands decodes?
bool is_access(Op op);

/// Operands of load, store, atomic, extract, deposit, channel_put, ptr_load, ptr_store and ptr_atomic by what they mean.
struct AccessOperands {
    /// An operand and its number among the instruction's; 0, which is the object's: there is none.
    struct Operand {
        ValueId value;
        uint32_t at = 0;
        explicit operator bool() const { return at != 0; }
    };

    AccessOperands(const Function& fn, const Inst& inst);

    Access access;                          ///< through pointers: its flags, no axes
    ValueId object;                         ///< tensor, tile or pointers
    std::array<Operand, kMaxRank> index{};  ///< by axis: the index, start or index tile; of `all`: none
    Operand value;                          ///< what a store, deposit or atomic takes
    Operand expected;                       ///< of a compare-and-swap
    Operand other, mask;
    Operand channel;     ///< that a put fills
    uint32_t first = 1;  ///< the operand behind the indices
};

/// The accessed part, dimension by dimension (ir.h Access).
struct AccessPart {
    AccessPart(const Function& fn, const AccessOperands& operands);

    Shape shape;
    Shape joint;                         ///< of all index tiles together
    std::array<int8_t, kMaxRank> dim{};  ///< by axis: its dimension of the part, of index tiles the first of the joint ones; -1: an index has none
};

}  // namespace tegula::ir
