// What `explain` says of loads and stores through pointers: whether their lanes lie side by side (lane_steps.h), and if not, why.
#pragma once
#include <string>

#include "jit/cpu/plan.h"

namespace tegula::cpu {

std::string pointer_text(const ir::Function& fn, const Plan& plan, ir::InstId access);

}  // namespace tegula::cpu
