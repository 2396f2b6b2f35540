// The choice among rows of targets.def for one product: which rows could compute it, at what cost, and why the others cannot. Used by the choice
// itself, by `explain`, and by placement (how the warps of a program share a product).
#pragma once
#include <string>
#include <vector>

#include "lang/explanation.h"
#include "lang/ir.h"
#include "lang/target.h"

namespace tegula {

/// Extents of a product; `batch` is the product of the leading dimensions.
struct ProductShape {
    int64_t batch = 1, m = 1, n = 1, k = 1;
};
ProductShape product_shape(const ir::Function& fn, const ir::Inst& dot);

/// How the tile warps share a product's result: m * n = warps.
struct WarpGrid {
    int m = 1, n = 1;
};
/// `rows_first`: as many warps as possible along M (products whose rows are reduced or that feed each other).
WarpGrid warp_grid(const ProductShape& shape, const MmaRow& row, int warps, bool rows_first);
/// Does the result of a product reach operand A of another one, or a reduction of its rows? (Attention.)
bool rows_stay_together(const ir::Function& fn, const ir::Inst& dot);

/// Why a row whose fraction_bits is -1 is not taken.
inline constexpr const char* kUnmeasured = "nobody has measured its sums";

/// Why a row does not compute a product.
struct RowRefusal {
    explain::Rejected::Code code = explain::Rejected::formats;
    std::string text;
    bool empty() const { return text.empty(); }
};
struct RowVerdict {
    int row = 0;
    bool legal = false;
    double cost = 0;     ///< clocks of an SM for one execution of the product
    FormatId a{}, b{};   ///< formats that the operands are cast to (exactly, or to tf32 where the precision allows it)
    RowRefusal refusal;  ///< why not, when not legal
};
struct RowContext {
    const Arch* arch = nullptr;
    int warps = 4;
    int64_t shared_left = 0;   ///< bytes for operands in shared memory
    bool allow_own = true;     ///< the program's own instructions
    bool allow_shared = true;  ///< rows that read operands from there
    bool allow_tensor_memory = true;
};
/// Warps that hold tiles: the hint's, or by the size of products and tiles; with fp8, as many of them as its own row can do with.
int chosen_warps(const ir::Function& fn, const RowContext& context);
/// Registers of a program for codes in plain row order that a loop's product takes as operand A: the four lanes that share a row of a fragment hold
/// all of its words each, now and for the next trip.
int64_t shared_words(const ir::Function& fn);
/// One verdict per row of the architecture whose accumulator format fits (row 0 always), in row order.
std::vector<RowVerdict> judge_rows(const ir::Function& fn, const ir::Inst& dot, const RowContext& context);
const RowVerdict& best_row(const std::vector<RowVerdict>& verdicts);

/// Bytes of shared memory that the operands of a row that reads them there take: operand B, and A.
int64_t shared_operand_bytes(const ProductShape& shape, const MmaRow& row);

/// Is every value of `from` a value of `to`? (Conservative for formats of more than 8 bits.)
bool exact_in(const Format& from, const Format& to);

}  // namespace tegula
