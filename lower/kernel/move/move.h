// Tiles that move between layouts, through registers, lanes, scratch and shared memory.
#pragma once
#include "lower/kernel/lowering.h"

namespace tegula::lower {

// ---- tiles through scratch ----
/// Declares a pointer to an area of the instruction's scratch and gives its name.
std::string scratch_area(Lowering& ctx, ir::InstId id, const std::string& type, int64_t offset);
/// Writes a tile's elements to row-major scratch, each by one thread; `value` makes the stored text from the element's.
void stage(Lowering& ctx, ir::ValueId v, const std::string& pointer,
           const std::function<std::string(const std::string& element)>& value = {});
/// Stages what scratch_plan says, each operand in its own type; pointers by operand ("": read from registers).
std::vector<std::string> stage_operands(Lowering& ctx, ir::InstId id);
/// Element `number` (row-major) of a staged operand, or its register r where it lies like `of`, whose register r asks
/// for it.
Ex staged(Lowering& ctx, ir::ValueId v, const std::string& pointer, ir::ValueId of, Ex r, Ex number);
/// result[r] = value(r), zero for ghosts; `value` may use the thread's coordinates.
void fill(Lowering& ctx, ir::ValueId result, const std::function<std::string(Ex r)>& value);
/// "for (int e = t; e < n; e += threads)"; the counter.
Ex open_elements(Lowering& ctx, const std::string& e, int64_t n);
/// Coordinates in `shape` of a row-major number, and back.
std::vector<Ex> coordinates_in(const Shape& shape, Ex number);
Ex number_of(Lowering& ctx, const Shape& shape, const std::vector<Ex>& coordinates);
std::vector<Ex> coordinates_of(Lowering& ctx, ir::ValueId v, Ex r);  ///< of a tile's register; none for scalars
Ex number_at(Lowering& ctx, ir::ValueId v, Ex r);                    ///< logical number, 0 for scalars
Ex stores(Lowering& ctx, ir::ValueId v, Ex r);   ///< is this the one thread that stores the register, or the scalar?
Ex is_real(Lowering& ctx, ir::ValueId v, Ex r);  ///< no ghost
/// "condition ? yes : no", or what is known.
std::string chosen(Ex condition, const std::string& yes, const std::string& no);
/// Calls body for each of the registers: a loop where their numbers are evenly spaced.
void each_of(Lowering& ctx, const std::vector<int>& registers, const std::function<void(Ex r)>& body);
void assign_to(Lowering& ctx, ir::ValueId v, Ex r, const std::string& value);  ///< of a declared value

// ---- moving tiles ----
void exchange(Lowering& ctx, ir::InstId id);
void exchange_side(Lowering& ctx, const TileLayout& l, const struct ExchangeText& e, const std::string& tile,
                   bool write);
void shuffle(Lowering& ctx, ir::InstId id, const Conversion& c);
std::string exchanged(Lowering& ctx, const Conversion& c, const std::string& from, const std::string& type,
                      int given_count, int count);
std::string selected(Lowering& ctx, const std::string& tile, const std::string& type, int count,
                     std::span<const int> by_bit);
void to_shared(Lowering& ctx, ir::InstId id);
void from_shared(Lowering& ctx, ir::InstId id);
void between_shared(Lowering& ctx, ir::InstId id);
Ex shared_address(Lowering& ctx, const SharedLayout& l, const std::vector<Ex>& coordinates);  ///< bytes, i32
void move_registers(Lowering& ctx, ir::InstId id);
void move_through_scratch(Lowering& ctx, ir::InstId id, const std::function<Ex(Ex r)>& number);
bool view_or_trivial(Lowering& ctx, ir::InstId id);

// ---- parts of tiles ----
struct TilePart;
TilePart tile_part(Lowering& ctx, const ir::AccessOperands& in, ir::ValueId part,
                   const std::vector<std::string>& pointers);
Ex place_in_tile(Lowering& ctx, const TilePart& part, Ex r, Ex& condition);

}  // namespace tegula::lower
