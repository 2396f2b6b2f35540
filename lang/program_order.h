// What programs of a launch wait for and tell each other: facts about instructions and whole functions that passes and machines go by.
#pragma once
#include "lang/ir.h"

namespace tegula::ir {

inline bool is_atomic(Op op) { return op == Op::atomic || op == Op::ptr_atomic; }

/// Do other accesses of the program keep their places in front of the instruction, or behind it?
bool orders_accesses(const Function& fn, const Inst& inst);

struct ProgramOrder {
    bool atomics = false;   ///< it updates memory by atomics
    bool orders = false;    ///< and some order other accesses, also for other programs
    bool polls = false;     ///< a `while` loop may wait for what another program does
    bool meets = false;     ///< there are places where all programs meet
    bool together = false;  ///< all programs run at the same time (`@ cooperative`)
};
ProgramOrder program_order(const Function& fn);

/// Programs of a launch that run at the same time on interpreter and CPU.
constexpr uint64_t kMostTogether = 8192;

}  // namespace tegula::ir
