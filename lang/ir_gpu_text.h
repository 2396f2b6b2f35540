// What a GpuForm adds to IR text: the form with its numbered placements in the header, `@ p3` behind a placed value's type, and what was decided
// for an instruction behind its types.
#pragma once
#include <map>
#include <string>

#include "lang/ir.h"

namespace tegula::ir {

/// Prints nothing for functions without a form. Placements are numbered in order of appearance, so ask for the header last.
class GpuPrinter {
public:
    explicit GpuPrinter(const Function& fn);
    std::string placement(ValueId v);   ///< " @ p3"
    std::string facts(InstId i) const;  ///< " @ {row = 3, scratch = 0:512, sync}"
    std::string header() const;         ///< " gpu {arch = sm_90a, ..}"

private:
    const Function& fn_;
    std::map<uint32_t, const GpuChannel*> rings_;  ///< by the value of the `channel` instruction
    std::map<std::string, size_t> numbers_;
    std::vector<std::string> texts_;
};

/// Reads what SharedLayout::text() writes; nullopt when malformed or when no tile of this shape can lie so.
std::optional<SharedLayout> parse_shared_layout(std::string_view text, const Shape& shape);

}  // namespace tegula::ir
