// Structured control flow, the order of programs, split sums, effects.
#pragma once
#include "lower/kernel/lowering.h"

namespace tegula::lower {

// ---- control ----
std::vector<std::string> declare_all(Lowering& ctx, std::span<const ir::ValueId> values);
void block(Lowering& ctx, ir::BlockId id);
void find_turned_loops(Lowering& ctx);
/// How the trips of a loop are counted.
struct Trips {
    std::string type, counter;
    Ex start, test;
    std::vector<kernel::Assign> next;
    Ex index = {};  ///< of the body, where it is not the counter
};
Trips count_trips(Lowering& ctx, const ir::Inst& loop);
void declare_index(Lowering& ctx, const ir::Inst& loop, const Trips& trips);  ///< in the body
void next_trip(Lowering& ctx, const Trips& trips);                            ///< counts
void for_loop_text(Lowering& ctx, ir::InstId loop);
void trip(Lowering& ctx, ir::BlockId body);
// Loops with products that run into the next trip (control/late.cpp).
std::vector<std::string> other_places(Lowering& ctx, const ir::Inst& loop, const std::vector<std::string>& places);
void late_loop(Lowering& ctx, ir::InstId loop, const Trips& trips);
/// Where the `yield` (or the values of the `condition`) that ends a block puts its values; without an entry a yield
/// emits nothing and its owner reads the operands.
inline void set_targets(Lowering& ctx, ir::BlockId block, std::vector<std::string> names) {
    ctx.control.targets[block.v] = std::move(names);
}
void copy_all(Lowering& ctx, std::span<const ir::ValueId> from,
              const std::vector<std::string>& to);  ///< at once, through temporaries where they overlap
void copy(Lowering& ctx, ir::ValueId from, const std::string& to);
/// "const float v3 = ..;" for a scalar, declaration and loop for a tile, with its neighbours where that can be
/// (elementwise/fuse.cpp).
void assign(Lowering& ctx, ir::ValueId result, const std::function<std::string(Ex r)>& value);

// ---- effects ----
std::string report(Lowering& ctx);  ///< the report buffer parameter
std::string code_text(Lowering& ctx, ir::ValueId v, const std::string& element);

// ---- programs on a multiprocessor, and warps ----
/// Programs that should be on a multiprocessor at once, as far as registers go (residency.cpp).
void find_residency(Lowering& ctx);
bool parts(const Lowering& ctx, ir::InstId id);
void find_parting(Lowering& ctx);
std::string program_axis(Lowering& ctx, int axis);
/// Declares a variable with a value, in front of the kernel's body or here.
/// Declares a constant.
using Put = std::function<void(const std::string& type, const std::string& name, const std::string& value)>;
/// The index along `axis` of a program, declared by `put`. `place`: its number in a grid of plain order.
std::string index_of_program(Lowering& ctx, const std::string& place, int axis, const Put& put);

// ---- split sums ----
void prepare_split(Lowering& ctx);
Ex split_parts(Lowering& ctx);
std::string split_sums(Lowering& ctx, size_t k, const std::string& stretch);
void split_loop(Lowering& ctx, ir::InstId id);
void split_publish(Lowering& ctx);
void split_add(Lowering& ctx, const ir::Block& body, const std::vector<std::string>& totals);
void split_tail(Lowering& ctx, const ir::Block& body, const std::vector<std::string>& totals);
/// The number of the program at `place` of the launch's order, which may be one that shares operands more
/// (control/raster.cpp). `scope`: where it is declared, once, and what it is the number of.
std::string in_groups(Lowering& ctx, const std::string& place, const std::string& scope, const Put& put);

}  // namespace tegula::lower
