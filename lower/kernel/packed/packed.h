// Narrow codes that are loaded, moved and decoded in whole words, and 16-bit floats in pairs.
#pragma once
#include "lower/kernel/lowering.h"

namespace tegula::lower {

// ---- narrow codes in whole words ----
void find_words(Lowering& ctx);
bool is_words(const Lowering& ctx, ir::ValueId v);
std::string words_name(Lowering& ctx, ir::ValueId v);
std::string field(Lowering& ctx, ir::ValueId v, Ex r);
std::vector<Ex> member_pitches(Lowering& ctx, ir::ValueId tensor, size_t members);
Ex whole_periods(const PackedView& view, Ex thread, Ex& shift);
std::string storage_bytes(Lowering& ctx, ir::ValueId tensor);
bool load_words(Lowering& ctx, ir::InstId id);  ///< false: it is no such load
void load_all_words(Lowering& ctx, const Part& part, const PackedView& view, const std::string& array,
                    const std::function<Ex(const PackedView::Load&)>& offset, bool guarded);
void clear_outside(Lowering& ctx, const Part& part, const PackedView& view, const std::string& array, Ex moved);
std::vector<std::string> inside_masks(Lowering& ctx, const Part& part, const PackedView& view, size_t number_of_axis,
                                      std::set<std::string>& solid);
void move_masks(Lowering& ctx, const PackedView& view, std::vector<std::string>& masks,
                const std::set<std::string>& solid, const std::string& by);
void keep_inside(Lowering& ctx, const PackedView& view, const std::string& array, int w, const std::string& mask);
void find_unshifted(Lowering& ctx);
Ex moved_bits(Lowering& ctx, ir::ValueId v);
void shift_words(Lowering& ctx, const PackedView& view, const std::string& from, const std::string& to, Ex shift);
bool can_decode(Lowering& ctx, const ir::Inst& cast);
const Decoding& decoding(Lowering& ctx, const ir::Inst& cast);  ///< no calls: not this way
void place_pair_table(Lowering& ctx);
void fill_pair_table(Lowering& ctx);
std::string decode_function(Lowering& ctx, const DecodePlan& plan);
/// `to`: the words of one array.
void decode_words(Lowering& ctx, const ir::Inst& cast, const std::function<Ex(int pair)>& to);

// ---- 16-bit floats in pairs ----
void find_pairs(Lowering& ctx);
void find_quads(Lowering& ctx);
inline bool is_pairs(const Lowering& ctx, ir::ValueId v) { return ctx.plan.has(KernelPass::pairs, v); }
inline bool is_quads(const Lowering& ctx, ir::ValueId v) { return ctx.plan.has(KernelPass::quads, v); }
std::string part_of_word(Lowering& ctx, const std::string& words, int per, Ex r, const Format& f);
std::vector<int> moved_pairs(const Lowering& ctx, ir::InstId id);
bool make_pairs(Lowering& ctx, ir::InstId id);              ///< false: it makes none
bool decode_elements(Lowering& ctx, const ir::Inst& cast);  ///< false: it decodes none
/// 32 bits of consecutive registers of a product's operand.
std::string fragment_word(Lowering& ctx, ir::ValueId v, Ex first);
Ex pair_at(Lowering& ctx, ir::ValueId v, Ex first);  ///< the word of registers first (even) and first + 1

// ---- casts of pairs ----
void cast_pairs(Lowering& ctx, ir::ValueId to, ir::ValueId from, const std::string& function);
/// Are infinities of a cast to a wider float infinities there, too?
bool keeps_infinities(const Lowering& ctx, const ir::Inst& cast);
/// The function that rounds two f32 to 16 bits each; empty: none does what the cast does.
std::string pair_function(const Lowering& ctx, const ir::Inst& cast);
void find_rounding_stores(Lowering& ctx);  ///< casts that are left to the store behind them
void decode_pairs(Lowering& ctx, ir::ValueId to, ir::ValueId from);
std::string fp8_function(Lowering& ctx, const ir::Inst& cast);
std::string two_halves(Lowering& ctx, const Format& from);  ///< function (int, int) -> packed pair

}  // namespace tegula::lower
