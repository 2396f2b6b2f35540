// How a matrix product (the ops `dot` and `dot_scaled`) is computed: the type of its chains of fma, the micro-kernel's registers, and the panels that
// its operands are packed into. No LLVM: the plan and `explain` need it too.
#pragma once
#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "jit/cpu/dot_rows.h"
#include "jit/cpu/nest_order.h"
#include "lang/ir.h"

namespace tegula::cpu {

struct Product {
    enum Chain : uint8_t { f32, f64, i32, i64, steps } chain = f32;  ///< steps: codes of the accumulator's format, row by row
    int64_t batch = 1, m = 1, n = 1, k = 1;
    int rank = 2;
    const Format* rounded = nullptr;            ///< the accumulator's format, to which each step in f32 is rounded; null: f32 is
    const DotRow* row = nullptr;                ///< the instruction of a step; null: an fma, or a multiplication and an addition
    bool flip = false;                          ///< the instruction takes the right operand first
    bool offset = false;                        ///< left bytes are packed 128 too large, which the sums start without
    int64_t depth = 1;                          ///< k of the operands; `k` counts groups of neighbours, each an element of a panel
    bool tf32 = false;                          ///< operands are rounded to tf32 first
    int64_t left_scaled = 0, right_scaled = 0;  ///< dot_scaled: of k, so much shares a scale
    unsigned bytes = 4;                         ///< of a chain's element
    unsigned lanes = 4;                         ///< along n, in one step
    unsigned rows = 1, steps_n = 1;             ///< of the micro-kernel: rows x steps_n * lanes accumulators in registers or tiles
    unsigned blocks_tried = 0;                  ///< from which the two were chosen by cost
    int64_t k_block = 256;                      ///< a stretch of k per pass over the accumulators
    /// Few rows: each element of the right operand is read once, so that it is evaluated in registers where it is multiplied (product_few.cpp).
    bool few = false;
    std::vector<TurnedLoad> loads;   ///< of the right operand, where each of them is known to be read; by its dimensions
    std::vector<TurnedLoad> turned;  ///< those whose memory runs along k, which are turned, and those of declared layouts, read in blocks
    int64_t chunk = 0;               ///< of k, between two squares of turned rows
    int64_t run = 0;                 ///< of k, a divisor of chunk: what depends on quotients by k, as scales of groups do, is evaluated once
    int64_t step = 8;                ///< of k, unrolled
    uint64_t square_words = 0;       ///< vectors of words of a chunk
    bool kept = false;               ///< whole squares stay in registers, one vector of columns at a time, chunks of k unrolled
    // Work area.
    int64_t a_pitch = 1;                                                         ///< elements between rows of a: [batch, m, a_pitch]
    int64_t n_blocks = 1;                                                        ///< b: [batch, n_blocks, k, block()]
    uint64_t square_bytes() const { return uint64_t{lanes} * 4 * (square_words + 1); }  ///< of turned words, and a vector behind them
    int64_t block() const { return int64_t{lanes} * steps_n; }
    uint64_t a_bytes = 0, b_bytes = 0, c_bytes = 0;  ///< c: accumulators wider than their container
    int64_t turn_pitch = 1;
    uint64_t turn_bytes = 0;       ///< [lines of a vector's lanes, turn_pitch]: rows of memory that become columns
    uint64_t scale_bytes[2] = {};  ///< [m, k / left_scaled] and [k / right_scaled, n] in f32
    uint64_t turn_at() const { return a_bytes + b_bytes + c_bytes; }
    uint64_t scales_at() const { return turn_at() + turn_bytes; }
    uint64_t work_bytes() const { return scales_at() + scale_bytes[0] + scale_bytes[1]; }
    /// Of k, summed from zero and then scaled, or a part of that where neither side's blocks divide the other's; 0: all of k.
    int64_t stretch() const { return std::gcd(left_scaled, right_scaled); }
    bool every_stretch() const { return left_scaled % right_scaled == 0 || right_scaled % left_scaled == 0; }
    bool tiles() const { return row && row->tiles(); }
    bool same_tiles() const { return m % rows == 0 && n % block() == 0; }  ///< all blocks have one shape, which takes 0.1 us to set
    unsigned group() const { return row ? row->group() : 1; }
    /// Does a step treat subnormals as zero? Then the code looks at what it multiplies and what it starts from, and takes fmas where one could
    /// appear: where all products are multiples of 2^-126 and so are the sums they are added to, none can.
    bool watched() const { return row && row->floats(); }
    std::string text() const;  ///< "6 x 32 accumulators .."
    /// What a block of sums takes of the registers that it was chosen for, with what is loaded beside it.
    unsigned registers(const VectorUnit& vectors) const;
    int64_t panel_bytes() const { return std::min(k, k_block) * block() * bytes; }  ///< of the right operand, read once per block of rows
};

/// Without a plan operands are packed. `rows`: only so many of the first ones are wanted; 0: all.
Product plan_product(const ir::Function& fn, const ir::Inst& dot, const VectorUnit& vectors, const Plan* plan = nullptr, int64_t rows = 0);
/// The product once more for launches of which so few rows are kept (kept_rows.h) that they are better computed as few; by ascending rows.
std::vector<Product> smaller_products(const Product& p, const ir::Function& fn, const ir::Inst& dot, const VectorUnit& vectors, const Plan* plan);
/// Chooses how products with few rows run (product_few_plan.cpp), if it is one.
void choose_few(Product& p, const ir::Function& fn, const ir::Inst& dot, const Plan& plan, const VectorUnit& vectors);
/// Why the product runs so on a target: instructions that come first in dot_rows.h and do not apply, how the block fits registers and caches.
std::string product_reasons(const Product& p, const ir::Function& fn, const ir::Inst& dot, const VectorUnit& vectors);
/// So many rows at most are few.
unsigned most_few_rows(const Product& p, const VectorUnit& vectors);
/// Work area for any target.
uint64_t product_bytes(const ir::Function& fn, const ir::Inst& dot, const Plan* plan = nullptr);
/// The dimension of a tile along which evaluation reads memory in its order, -1: none known.
int fast_dimension(const ir::Function& fn, const CompileOptions& options, ir::ValueId v);
/// Is an operand read along its second last dimension, and turned on its way into the panels?
bool is_turned(const ir::Function& fn, const CompileOptions& options, ir::ValueId operand, int64_t width);
/// Is a stored operand of this type what the micro-kernel reads?
bool is_chain_operand(const ir::Function& fn, ir::ValueId operand, Product::Chain chain);

}  // namespace tegula::cpu
