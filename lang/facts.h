// What a launch guarantees beyond types: sema collects it from the kernel's signature, `where` and `grid`, the mask pass relies on it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace tegula {

struct LaunchFacts {
    struct Fact {  ///< of an extent parameter
        std::string extent;
        int64_t divisor = 1;   ///< extent is a multiple of this
        int64_t at_least = 0;  ///< extent >= this
        int64_t at_most = INT64_MAX;
    };
    std::vector<Fact> facts;
    /// The extent of axis `axis` of tensor parameter `tensor` is the extent parameter `extent` (checked at launch), of a view of another element type
    /// `extent * times / by` without a remainder. Without it a `?` extent is known to nobody but `dim`.
    struct DimFact {
        std::string tensor;
        int axis = 0;
        std::string extent;
        int64_t times = 1, by = 1;
    };
    std::vector<DimFact> dims;
    /// What the grid says of program_id(axis): program_id < cdiv(extent, tile) when `extent` names a parameter, and program_id <= at_most.
    struct GridFact {
        int axis = 0;
        std::string extent;
        int64_t tile = 1;
        int64_t at_most = INT64_MAX;
    };
    std::vector<GridFact> grid;
};

}  // namespace tegula
