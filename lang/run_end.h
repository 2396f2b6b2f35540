// Why a run ended before its grid did, as diagnostics: what was spent, where it happened and what helps. Shared by the machines.
#pragma once
#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lang/runtime.h"

namespace tegula {

/// What was running when a run ended early. Machines fill in what they know.
struct RunEnd {
    ir::InstId at{};  ///< the instruction; invalid: unknown
    std::optional<std::array<uint64_t, 3>> program;
    std::map<uint32_t, uint64_t> trips_left;  ///< of `for` loops, by number of the instruction: trips after the one that was running

    uint64_t tile_bytes = 0;  ///< of one program, where memory ended
    std::string need;         ///< what else needed memory, as the beginning of a sentence; empty: the tiles
    std::string have;         ///< what there was; empty: the budget, or what this machine has
    std::string help;
    /// More than kKeptPrintBytes is printed.
    void too_much_print();
};

/// T0913, T0914 or T0915 for a run that ended with `status`; nothing for another status.
std::optional<Diagnostic> end_of_run(const ir::Function& fn, std::span<const uint64_t, 3> grid, const RunOptions& options, RunResult::Status status,
                                     const RunEnd& end);

/// A run that does not begin: its programs must run at the same time and are more than `most` (T0927).
RunResult not_resident(const ir::Function& fn, uint64_t programs, uint64_t most);

}  // namespace tegula
