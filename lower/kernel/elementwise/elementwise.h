// Elementwise tiles: one loop over registers for neighbours, and divisions and comparisons that share work.
#pragma once
#include "lower/kernel/lowering.h"

namespace tegula::lower {

/// Are the load's elements the same in all programs? They come from caches then.
bool has_constant_indices(const ir::Function& fn, const ir::Inst& load);

// ---- elementwise tiles in one loop ----
void fuse(Lowering& ctx, ir::ValueId result, const std::function<std::string(Ex r)>& value);
void fused_group(Lowering& ctx, const std::vector<Fused>& all, Ex first, int count, const Part* store);
void fused_elements(Lowering& ctx, const std::vector<Fused>& all);
bool may_join(Lowering& ctx, ir::InstId id);
Part part_ahead(Lowering& ctx, ir::InstId id);
bool join_load(Lowering& ctx, ir::InstId id);   ///< false: it is to be emitted by itself
bool join_store(Lowering& ctx, ir::InstId id);  ///< false: so is that
void end_fused(Lowering& ctx, const Part* store = nullptr);
bool chosen_by_floats(Lowering& ctx, const ir::Inst& select);
Fused* fused(Lowering& ctx, ir::ValueId v);
std::optional<std::string> fused_at(Lowering& ctx, ir::ValueId v, Ex r);
std::optional<ir::ValueId> splat(const Lowering& ctx, ir::ValueId v);  ///< a broadcast scalar that needs no registers

// ---- instructions ----
void instruction(Lowering& ctx, ir::InstId id);
Known known_at(Lowering& ctx, ir::ValueId v, Ex r);
void elementwise(Lowering& ctx, ir::InstId id);
/// The choice between two values by a mask, the operands of a select.
std::string select_text(Lowering& ctx, std::span<const ir::ValueId> in, Ex r);

// ---- division by shared numbers, comparisons with counts ----
void find_shared_divisions(Lowering& ctx);
void divide_by_shared(Lowering& ctx, ir::InstId id);
void test_dividends(Lowering& ctx, ir::InstId id, Ex moderate);
std::string bounded_dividends(Lowering& ctx, ir::ValueId dividend, ir::ValueId divisor);
std::string moderate_dividends(Lowering& ctx, ir::ValueId dividend, const std::string& type);
/// A comparison of an iota with a scalar (compare.cpp); false: something else.
bool compare_counts(Lowering& ctx, ir::InstId id);
bool select_by_counts(Lowering& ctx, ir::InstId id);
int64_t emulation(const Lowering& ctx, const ir::Inst& inst);

}  // namespace tegula::lower
