// Reductions, scans, sorts.
#pragma once
#include "lower/kernel/lowering.h"

namespace tegula::lower {

// ---- reductions ----
/// Arrays of registers that are reduced together.
struct Joined {
    std::vector<std::string> names, types;
    /// Statement(s) that join the elements `b` into the elements `a`, by array.
    std::function<void(const std::vector<std::string>& a, const std::vector<std::string>& b)> join;
};
void reduce_joined(Lowering& ctx, ir::InstId id, const ReducePlan& plan, const Joined& joined);
void join_digits(Lowering& ctx, const ReducePlan::Step& step, const Joined& joined);
void join_lanes(Lowering& ctx, const ReducePlan::Step& step, const Joined& joined);
void join_warps(Lowering& ctx, ir::InstId id, const ReducePlan::Step& step, const Joined& joined);
void join_spread(Lowering& ctx, ir::InstId id, const ReducePlan::Step& step, const Joined& joined);
void each_row(Lowering& ctx, const ReducePlan::Step& step, const std::function<void(Ex r, Ex row)>& body);
std::vector<std::string> write_partials(Lowering& ctx, ir::InstId id, const ReducePlan::Step& step,
                                        const Joined& joined);
std::vector<std::string> join_parts(Lowering& ctx, const std::vector<std::string>& areas, const std::string& base,
                                    const ReducePlan::Step& step, const Joined& joined);
std::vector<std::string> from_lane(Lowering& ctx, const std::vector<std::string>& sent, int mask, const Joined& joined);
void reduce_direct(Lowering& ctx, ir::InstId id, const ReducePlan& plan);
std::string pair_joining(Lowering& ctx, ir::InstId id, const ReducePlan& plan);
ReducePlan joined_pairs(Lowering& ctx, ir::InstId id, const ReducePlan& plan, const std::string& function,
                        const Joined& joined);
/// A variable: where the line of a result begins; ghosts: 0.
Ex line_start(Lowering& ctx, const Axis& lines, ir::ValueId to, Ex r);
/// The levels of the tree over lines: "for (int half = 32; half > 0; half >>= 1)"; the counter.
Ex open_halves(Lowering& ctx, const std::string& name, int64_t half);
Ex is_element(Lowering& ctx, const TileLayout& l, int64_t axis, Ex r);  ///< no ghost along the axis, or of all
void reduce_chain(Lowering& ctx, ir::InstId id);
void reduce_tree(Lowering& ctx, ir::InstId id);
void arg_reduce_direct(Lowering& ctx, ir::InstId id, const ReducePlan& plan);
void arg_reduce_staged(Lowering& ctx, ir::InstId id);
/// The name of a function: element -> unsigned key in the order of values.
std::string order_key(Lowering& ctx, const Format& f, bool nan_first);
std::string key_type(const Format& f);
/// One rounding of an element to the result's format, if the formats differ.
std::string to_result(Lowering& ctx, ir::ValueId result, ir::ValueId operand, const std::string& element);
void contract_direct(Lowering& ctx, ir::InstId id);
void sort_network(Lowering& ctx, int64_t width, int64_t columns, const std::string& keys, const std::string& order,
                  const std::string& type);

}  // namespace tegula::lower
