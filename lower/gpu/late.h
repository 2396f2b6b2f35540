// Products that are not waited for in their trip of a loop (private to lower/gpu): what may be one, for the pass and for its proof.
#pragma once
#include <functional>
#include <string>

#include "lang/uses.h"

namespace tegula {

/// Is the product one of wgmma in a for_loop whose sum only goes from trip to trip, in place? Nothing else sees its registers before the loop ends.
bool may_be_late(const ir::Function& fn, const ir::Uses& uses, ir::InstId product);
/// The get, in the block of `operand`'s product, of the stage that the operand lies in as it was copied; invalid: it lies elsewhere, or in a ring
/// that has no stage for the trip after.
ir::InstId late_stage(const ir::Function& fn, ir::ValueId operand);
/// Proves that nothing that late products read or write is touched while they are under way (prove_late.cpp).
void prove_late(const ir::Function& fn, const std::function<void(ir::InstId, const std::string&)>& problem);

}  // namespace tegula
