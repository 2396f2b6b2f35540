// Tiles of which each thread of a GPU holds more elements than registers take: one rule for the emitter, which keeps loops over them, and for what is
// said of them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "lang/ir.h"

namespace tegula {

struct WideTile {
    ir::ValueId value;
    Span span;
    int64_t elements, bytes;  ///< of each thread
    bool local = false;       ///< compilers do not unroll loops over so many: it lies in local memory, whatever else the kernel holds
    std::string type(const ir::Function& form) const;  ///< "tile<f32>[320, 320]"
    /// "`tile<f32>[320, 320]`: 400 elements (1600 bytes) of each thread".
    std::string text(const ir::Function& form) const;
};
/// The tiles in registers of a function in GPU form, those with the most bytes first; of several alike at one place the first.
std::vector<WideTile> widest_tiles(const ir::Function& form);

}  // namespace tegula
