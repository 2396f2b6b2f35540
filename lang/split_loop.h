// The loop over stretches of K that `split_k` made (lower/split_k.cpp), in a function in GPU form: whether programs of their own can run the
// stretches. Emission and what is said of hints agree through this.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "lang/ir.h"

namespace tegula {

struct SplitLoop {
    ir::InstId loop;                    ///< in the group that computes
    int parts = 1;
    std::vector<ir::InstId> sums;       ///< per carried tile: what adds a stretch to the total
    std::vector<ir::ValueId> partials;  ///< what it adds
    /// Bytes that the threads of one program keep of its stretch; the tiles' in order, each a multiple of 16.
    std::vector<int64_t> offsets;
    int64_t bytes = 0;
};
/// Is the loop marked as the stretches of a split sum?
bool is_split_loop(const ir::Function& fn, const ir::Inst& loop);
/// nullopt: there is none, or, with `why`, it is run stretch after stretch.
std::optional<SplitLoop> parallel_split(const ir::Function& fn, std::string* why = nullptr);

}  // namespace tegula
