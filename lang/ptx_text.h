// The PTX text of an instruction that a program declares: which registers it reads and writes, and that it does nothing else. Registers are named
// through operands (`%a`, `%a.0`, `%result`) or declared in the text (`.reg .b32 t;`); there is no memory and no control flow.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tegula {

/// What `%name` may stand for.
struct PtxOperand {
    std::string_view name;
    bool whole = true;  ///< `%name`: one register
    int parts = 0;      ///< `%name.0` .. `%name.(parts - 1)`: a register each
    bool written = false;
};

struct PtxPiece {
    size_t begin = 0, end = 0;  ///< in the text
    int operand = -1;           ///< number of the operand that the piece names; -1: text that stays as it is
    int part = -1;              ///< `%name.part`; -1: `%name`
};

struct PtxText {
    std::vector<PtxPiece> pieces;  ///< all of the text, in order
    int statements = 0;            ///< instructions
    bool declares = false;         ///< has registers of its own
    struct Problem {
        size_t begin = 0, end = 0;  ///< in the text
        std::string what;
    };
    std::optional<Problem> problem;  ///< the first one; the rest of the text is not read then
};
/// `warp`: instructions of whole warps may stand in the text.
PtxText read_ptx(std::string_view text, std::span<const PtxOperand> operands, bool warp);

}  // namespace tegula
