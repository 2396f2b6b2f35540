// The loop over stretches of K that `split_k` made (lower/split_k.cpp), in a function in GPU form: whether programs of their own can run the
// stretches. Emission and what is said of hints agree through this.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "lang/ir.h"

namespace tegula {

struct SplitLoop {
    ir::InstId loop;    ///< in the group that computes
    int64_t parts = 0;  ///< how many stretches, where that is a constant; 0: it is `count`, known when the kernel is launched (launch_value.h)
    ir::ValueId count;
    std::vector<ir::InstId> tail;       ///< what makes the next totals of the totals and a stretch's sums, in the body's order
    std::vector<ir::ValueId> partials;  ///< per carried tile: the stretch's sum
    /// Bytes that the threads of one program keep of its stretch; the tiles' in order, each a multiple of 16.
    std::vector<int64_t> offsets;
    int64_t bytes = 0;
};
/// Is the loop marked as the stretches of a split sum?
bool is_split_loop(const ir::Function& fn, const ir::Inst& loop);
/// nullopt: there is none, or it has one stretch at every launch, or, with `why`, it is run stretch after stretch.
std::optional<SplitLoop> parallel_split(const ir::Function& fn, std::string* why = nullptr);

}  // namespace tegula
