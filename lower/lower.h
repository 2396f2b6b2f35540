// Tile IR -> simpler tile IR, passes that every machine shares. `run_passes` is the list, in order; the verifier runs after each pass.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lang/cancel.h"
#include "lang/explanation.h"
#include "lang/facts.h"
#include "lang/ir.h"

namespace tegula {

/// The facts hold at every launch of the function.
struct PassOptions : LaunchFacts {
    std::vector<std::string> disabled;  ///< pass names to skip ("all" skips every optional pass); may not change a result bit
    /// Called after every pass with its name and whether the IR changed (for `dump --emit=ir:after=PASS`).
    std::function<void(std::string_view pass, bool changed, const ir::Function&)> after;
    const std::atomic<bool>* cancel = nullptr;  ///< polled before every pass
};

/// Names of the passes, in order: split_k, extents, fold, cse, licm, masks, recognise, dce (repeated ones listed once). split_k cannot be disabled.
std::vector<std::string_view> pass_names();
/// Runs them. Throws InternalError (through TEGULA_CHECK) when a pass breaks the IR: text of the pass and the problems included; Cancelled.
void run_passes(ir::Function& fn, const PassOptions& options);

// Single passes (for tests and the list). Each returns whether it changed anything.
/// `schedule split_k(n)`, `split_k(step = S)`: one loop over products becomes stretches with sums of their own, added in order.
bool split_k(ir::Function& fn);
/// Before the passes: why a kernel with that hint is not split; empty when it is.
std::string split_k_problem(const ir::Function& fn);
bool fix_extents(ir::Function& fn, const PassOptions& options);  ///< extents that facts leave one value become constants, in tensors too
bool fold(ir::Function& fn);  ///< constants, algebraic identities that keep every bit, trivial shape ops, constant branches
bool cse(ir::Function& fn);   ///< equal pure instructions in dominating position
bool licm(
    ir::Function& fn);  ///< pure loop-invariant instructions move out (only cheap-to-hold ones when the loop may not run: all are safe, no op traps)
bool masks(ir::Function& fn, const PassOptions& options);  ///< sets Access::Axis::in_bounds where facts prove it; drops all-true masks
bool recognise(ir::Function& fn);                          ///< contract over broadcasts -> dot; extract by iota -> permute/broadcast
bool dce(ir::Function& fn);

/// Why each `contract` became a dot or did not: explain::Recognition.
std::vector<explain::Note> explain_products(const ir::Function& fn);

}  // namespace tegula
