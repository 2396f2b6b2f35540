// One access to a part of a tensor while it is emitted: what is uniform in it (bounds, addresses of the part's start)
// has variables already, what depends on registers is made as expressions of the register (access/part.cpp). Loads,
// stores and atomics are loops around that (access/memory.cpp, access/atomic.cpp).
#pragma once
#include "lower/kernel/lowering.h"

namespace tegula::lower {

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
    bool in_pieces =
        false;  ///< a layout by expressions whose offset is `base` plus `terms`: what a register adds, times pitches
    std::vector<std::pair<LayoutExpr, Ex>> terms;
    int vector = 1;        ///< elements of a wide access
    bool shifted = false;  ///< vectors start at any element (access/shifted.cpp)
    int vector_axis = -1;  ///< along which they lie
    enum {
        any,
        first,
        whole_vectors
    } inside = any;  ///< of the elements of a vector at the tensor's edge: any, the first n, all or none
};

bool is_plain(const ir::Access& access);  ///< neither masked nor gathered, and zero out of range

}  // namespace tegula::lower
