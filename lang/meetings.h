// Do all programs of a launch come to a `grid_barrier`, equally often? What its branches and loops depend on tells.
#pragma once
#include <optional>
#include <vector>

#include "lang/explanation.h"
#include "lang/ir.h"

namespace tegula::ir {

enum class Uniformity {
    uniform,  ///< scalar parameters, extents and the grid: the same in all programs
    memory,   ///< contents of memory, which may be the same
    program,  ///< program_id
};

/// A `grid_barrier`, with what decides whether and how often a program comes to it.
struct GridMeeting {
    InstId at;
    Uniformity uniformity = Uniformity::uniform;
    InstId control;  ///< the innermost branch or loop around it that is as little uniform; invalid where all are uniform
};
std::vector<GridMeeting> grid_meetings(const Function& fn);

/// May a program miss a meeting, as far as the function tells?
bool may_miss_meetings(const Function& fn);

}  // namespace tegula::ir

namespace tegula {

/// Of a cooperative kernel; nothing of another.
std::optional<explain::Cooperative> explain_cooperative(const ir::Function& fn);

}  // namespace tegula
