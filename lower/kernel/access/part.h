// One access to a part of a tensor while it is emitted: what is uniform in it (bounds, addresses of the part's start)
// has variables already, what depends on registers is made as expressions of the register (access/part.cpp). Loads,
// stores and atomics are loops around that (access/memory.cpp, access/atomic.cpp).
#pragma once
#include "lower/kernel/lowering.h"

namespace tegula::lower {

/// The wide accesses that a part is made of.
struct Vectors {
    enum Inside { any, first, whole };

    int length = 1;        ///< elements of one; 1: elements one by one
    int axis = -1;         ///< along which a vector lies
    bool shifted = false;  ///< they start at any element (access/shifted.cpp)
    Inside inside = any;   ///< of the elements of a vector at the tensor's edge: any, the first n, all or none
};

struct Part {
    ir::InstId inst;
    ir::ValueId tensor, value;  ///< `value` has the part's shape and layout: the result, or what is stored
    ir::Access access;
    std::vector<std::string> pointers;  ///< by operand: its copy in scratch, "" when it is read from registers
    ir::AccessOperands::Operand other, mask, expected;

    struct Axis {
        ir::ValueId index;  ///< start, index or gathered indices; invalid for `all`
        size_t operand = 0;
        int dim = -1;   ///< of the part; gather: the first joint dimension
        Ex start;       ///< i64
        Ex low, count;  ///< checked ranges of step 1: coordinates [low, low + count) are inside
        Ex size;        ///< extent of the tensor's dimension, when checked
    };
    std::vector<Axis> axes;
    CachingText caching;
    int joint_rank = 0;
    std::string last;  ///< store whose elements may meet: bytes in scratch, by element with a mask, else by joint index
    Ex fixed;          ///< indices of dropped dimensions are in range
    Ex whole;          ///< uniform: no element leaves the tensor through a range, and wide accesses are aligned
    bool narrow = false;  ///< `whole` cannot be told in 64 bits
    Ex base;              ///< u64 variable: offset of the part's start and of the thread
    /// A layout by expressions whose offset is `base` plus `terms`: what a register adds, times pitches.
    bool in_pieces = false;
    std::vector<std::pair<LayoutExpr, Ex>> terms;
    Vectors vectors;
};

bool is_plain(const ir::Access& access);  ///< neither masked nor gathered, and zero out of range

}  // namespace tegula::lower
