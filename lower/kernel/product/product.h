// Products: by threads, by mma.sync, wgmma and tcgen05, and instructions that programs declare.
#pragma once
#include "lower/kernel/lowering.h"

namespace tegula::lower {

struct AsmRegister;
struct AsmFunction;

// ---- statements ----
/// An array of so many registers; `other`: floats.
Ex declare_array(Lowering& ctx, kernel::Type type, std::string_view stem, int64_t size);
/// Registers of 32 bits that PTX knows by a new name.
std::string declare_named(Lowering& ctx, std::string_view stem, int64_t count);
/// An expression that was made as text.
inline Ex spelled(Lowering& ctx, std::string_view text) { return ctx.pool.text(kernel::Type::other, text, false); }

// ---- instructions that programs declare ----
AsmFunction asm_function(Lowering& ctx, const Instruction& i, std::string_view ptx, std::span<const ir::ValueId> values,
                         std::span<const PtxRegisters> registers);
std::string to_asm(Lowering& ctx, const AsmRegister& r, ir::ValueId v, const std::function<std::string(int)>& element);
std::string from_asm(Lowering& ctx, const AsmRegister& r, ir::ValueId v, int i, const std::string& from);
void call_instruction(Lowering& ctx, ir::InstId id);
void note_instruction(Lowering& ctx, const std::string& name);
/// The asm statement of a product on the arrays a, b and d of mma_function, k registers from `k` on.
std::string own_statement(Lowering& ctx, const ir::OwnRow& own, int k, const std::string& indent);

// ---- products without tensor cores ----
void thread_product(Lowering& ctx, ir::InstId id);
std::string dp4a_function(Lowering& ctx, const MmaRow& row);
std::string factor(Lowering& ctx, ir::ValueId v, const Format& to, bool tf32,
                   const std::string& element);  ///< as the chain takes it
/// Rows or columns of an operand in scratch: [batch, count / per, the other dimension, per].
struct Slab {
    ir::ValueId tile;
    size_t k = 0;       ///< the dimension that they are cut along
    int64_t count = 0;  ///< along it
    int per = 1;        ///< elements along it that lie side by side; zeros follow the last ones
    std::string pointer = {};
};
/// Puts the rows or columns [first, first + count) there.
void stage_slab(Lowering& ctx, const Slab& slab, Ex first,
                const std::function<std::string(const std::string& element)>& value);
Ex clamped(Lowering& ctx, ir::ValueId v, size_t d, Ex r);  ///< a coordinate; ghosts stand on the last element
void scaled_fma_product(Lowering& ctx, ir::InstId id);
struct ScaleSide {           ///< of rows or columns
    std::string array = {};  ///< as f32: in scratch [blocks, M or N]; in registers; empty: ones
    int64_t block = 0;       ///< elements of K
    std::vector<int> own;    ///< in registers: by register of the result, the one of the first block, which others
                             ///< follow; scratch: none
};
using BlockScales = std::array<ScaleSide, 2>;
BlockScales stage_scales(Lowering& ctx, ir::InstId dot_scaled);  ///< all meet behind it where they go through scratch
/// The given registers of the result: fma(sum[i], a_scale * b_scale, registers[i]), with the scales at element `k` of
/// K. Sums are floats, or integers of instructions that multiply codes.
void add_scaled(Lowering& ctx, ir::InstId dot_scaled, const BlockScales& scales, Ex k, Ex sum,
                const std::vector<int>& registers);
bool takes_codes(const Lowering& ctx, Fmt instruction, ir::ValueId operand);  ///< as they are

// ---- products on tensor cores ----
struct WarpGroups;                                 ///< one wgmma product while it is emitted
struct WarpGroupsPart;                             ///< what one statement adds of it
void mma_product(Lowering& ctx, ir::InstId id);    ///< a product whose row is mma.sync
void wgmma_product(Lowering& ctx, ir::InstId id);  ///< a product whose row is wgmma
/// The result's registers, holding the accumulator: in place where it dies here. `from_zero`, if given, is set and the
/// registers are left alone when the accumulator is a zero constant.
void accumulate_in(Lowering& ctx, ir::ValueId result, ir::ValueId acc, bool* from_zero);
std::string mma_function(Lowering& ctx, const MmaRow& row, const std::string& type, const ir::OwnRow* own);
/// 32-bit registers (f64: of 64 bits) of a fragment, packed from element register `start` on.
struct FragmentWords {
    Ex to;  ///< array
    int count;
    Ex start;
};
/// k_extent >= 0: elements beyond it along K are zero.
void mma_fragment(Lowering& ctx, ir::ValueId v, const FragmentWords& words, int64_t k_extent, bool k_last);
/// Converts of shared tiles to registers that are left to the one mma product that takes them, which loads fragments as
/// it goes (ldmatrix).
void find_shared_fragments(Lowering& ctx);
struct FragmentSource;  ///< an operand of an mma product: registers or shared memory
FragmentSource fragment_source(Lowering& ctx, ir::ValueId operand, bool is_a);
Ex ldmatrix_lane(Lowering& ctx, const FragmentSource& from, Ex across);
Ex ldmatrix_address(const FragmentSource& from, Ex across, Ex k);
// Sums that a loop keeps in registers with names of their own (product/sum.cpp).
void find_late_sums(Lowering& ctx);
void find_kept_sums(Lowering& ctx);
void enter_sum(Lowering& ctx, ir::ValueId initial, ir::ValueId carried, ir::ValueId result);
void leave_sum(Lowering& ctx, ir::ValueId result);
bool stored_as_sum(const Lowering& ctx, ir::ValueId result);  ///< left to the bulk store that rounds it
void wgmma_run(Lowering& ctx, const WarpGroups& w, const std::string& to, const WarpGroupsPart& p);
int part_registers(const Lowering& ctx, const WarpGroups& w);
std::vector<WarpGroupsPart> wgmma_cut(const Lowering& ctx, const WarpGroups& w, int64_t size, int most);
using AddPart = std::function<void(Ex part, const std::vector<int>& registers, int64_t k)>;
void wgmma_parts(Lowering& ctx, WarpGroups& w, ir::InstId id, int64_t size, const std::function<void()>& meanwhile,
                 const AddPart& add);
void wgmma_scaled(Lowering& ctx, WarpGroups& w, ir::InstId id);
void wgmma_promoted(Lowering& ctx, WarpGroups& w, ir::InstId id);
void release_early(Lowering& ctx, ir::InstId product);
void wgmma_fragments(Lowering& ctx, WarpGroups& w);
void wgmma_hold(Lowering& ctx, WarpGroups& w, const std::string& registers);
std::string held_factor(Lowering& ctx, const WarpGroups& w, ir::InstId product);  ///< (control/late.cpp)
void wgmma_descriptors(Lowering& ctx, WarpGroups& w);
std::string word_of(Lowering& ctx, const std::array<std::string, 4>& bytes);
std::string packed(Lowering& ctx, const std::string& array, const Format& f,
                   Ex first);  ///< 32 bits of consecutive registers

// ---- products in tensor memory ----
void take_tensor_memory(Lowering& ctx);  ///< at the program's start, if it needs any
void give_tensor_memory(Lowering& ctx);  ///< where all threads of the group have met and will not use it any more
void end_tensor_memory(Lowering& ctx);   ///< at the program's end
void end_meetings(Lowering& ctx);        ///< at the program's end
void wait_for_products(Lowering& ctx);   ///< all threads meet there, too
void tcgen05_product(Lowering& ctx, ir::InstId id);
void from_tensor_memory(Lowering& ctx, ir::InstId id);
void to_tensor_memory(Lowering& ctx, ir::InstId id);
void each_tensor_run(Lowering& ctx, const TileLayout& l, const TensorLayout& place,
                     const std::function<void(Ex r, Ex at)>& body);
int tensor_run(const TileLayout& l);
Ex tensor_move(Lowering& ctx, ir::ValueId tile, bool load);

}  // namespace tegula::lower
