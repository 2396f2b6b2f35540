// Proves what the text of a kernel relies on: names, operands, and what threads have to agree on.
#pragma once
#include <string>
#include <vector>

#include "lang/kernel/kernel.h"

namespace tegula::kernel {

struct Problem {
    std::string statement;  ///< its first line, with names of operations
    std::string reason;
};

/// - A name that the kernel declares is used behind its declaration and inside of its block, is declared once in a
///   block, and not assigned to where it is const. Names inside of text count; names that the kernel does not declare
///   are parameters, functions and types.
/// - Operations have the operands of their row, are on an architecture that has them, and constant numbers of registers
///   lie within their array. `break` stands in a loop.
/// - Operations that need threads together stand where these agree: under no condition that depends on the number of a
///   thread, on registers or on what differs by thread, as variables that are declared uniform do not; a meeting of a
///   role names its threads.
/// - Asynchronous work is committed and awaited before its result is read, its source written, a register of a
///   product touched, and before the kernel ends. A fence stands between a register's last use and the product that
///   takes it. A barrier is initialised, and all threads know, before it is used.
/// - Rings are taken and given back in step on every path; who returns early may keep stages of its own CTA.
/// Of queues, barriers and rings that text handles, nothing is said. Loops are followed until nothing changes, work
/// that branches leave behind is joined where they leave as many groups.
std::vector<Problem> verify(const Kernel& kernel);

}  // namespace tegula::kernel
