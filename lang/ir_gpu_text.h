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
    std::string facts(InstId i) const;  ///< " @ {row = "wgmma.f16.f32", scratch = 0:512, sync}"
    std::string header() const;         ///< " gpu {arch = sm_90a, ..}"

private:
    const Function& fn_;
    std::map<uint32_t, const GpuChannel*> rings_;  ///< by the value of the `channel` instruction
    std::map<std::string, size_t> numbers_;
    std::vector<std::string> texts_;
};

/// The number of the row that text calls `name`: the `nth` (from 1) of those that the form's architecture, or the function itself, has; -1: none.
/// Only a function's own rows, of instances of one instruction, share a name.
int find_row(const Function& fn, std::string_view name, int64_t nth);

/// Reads what SharedLayout::text() writes; nullopt when malformed or when no tile of this shape can lie so.
std::optional<SharedLayout> parse_shared_layout(std::string_view text, const Shape& shape);

}  // namespace tegula::ir
