// What is wrong with the statements of a test or bench, found without running them: every error, not only the first.
#pragma once
#include "jit/engine/engine.h"

namespace tegula {

/// Checks the test and bench blocks of a module, or one of them. Reports what running them would report, as far as types, extents and constants are
/// known without it; what only a run can know is silent. Throws Cancelled. `cancel` (null: that of the engine) ends it; `wanted` says which blocks (empty: all).
void check_host_blocks(Engine& engine, LoadedModule& module, DiagSink& diags, const std::atomic<bool>* cancel = nullptr, const ItemFilter& wanted = {});
void check_host_block(Engine& engine, LoadedModule& module, const ast::Item& item, DiagSink& diags);

}  // namespace tegula
