// An instruction that a program declares: a function whose body says what it means, and PTX text for GPUs that computes the same. In the tile IR it
// is one text (`text`, parse_instruction), which functions keep among their strings.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lang/ir.h"
#include "lang/ptx_text.h"
#include "lang/target.h"
#include "lang/tile_layout.h"

namespace tegula {

struct Instruction {
    struct Operand {
        std::string name;
        int group = 1;                            ///< consecutive elements along the last dimension that it takes at once; 0: a tile, of a whole warp
        std::optional<TileLayout> fragment = {};  ///< of a tile: in which register of which lane its elements lie
    };
    struct Form {
        std::string arch;  ///< "sm_80": of it and later ones; "sm_90a": of it alone
        std::string text;
    };
    std::string name;
    std::vector<Operand> operands;
    Operand result;
    std::vector<Form> forms;
    double clocks = 0;  ///< of an SM per instruction, at best; 0: not said

    bool on_tiles() const { return result.group == 0; }
    bool grouped() const;
    /// The form for an architecture: its own, else that of the latest one before; null: there is none.
    const Form* form(const Arch& arch) const;
    std::string text() const;
};
std::optional<Instruction> parse_instruction(std::string_view text);
/// The one that `instruction`, `ptx` or `ptx_tile` names; verified before.
Instruction instruction_of(const ir::Function& fn, const ir::Inst& inst);
/// The number in "sm_80" or "sm_90a"; 0: something else.
int form_number(std::string_view arch);

/// The row of an instruction d = a @ b + c of these formats (a, b, sum), whose fragments must be those of mma.sync m16n8; nullopt: `why` not.
std::optional<ir::OwnRow> own_row(const Instruction& i, std::span<const FormatId, 3> formats, const TypeTable& types, std::string& why);

bool has_instructions(const ir::Function& fn);
/// Puts what the bodies of instructions mean in their place, for machines that have no text for them.
void forget_instructions(ir::Function& fn);

/// A register of PTX: elements `first` .. `first + count - 1` of those that an operand holds, as codes side by side where there are several.
struct PtxRegister {
    int first = 0, count = 1, bits = 32;
};
/// The registers that the text may name: a single element is one; a group is one register of up to 64 bits, and one for each element; fragments are
/// words of 32 bits for elements of up to 16, else a register for each element.
struct PtxRegisters {
    std::optional<PtxRegister> whole;
    std::vector<PtxRegister> parts;
    int elements = 1;
    PtxOperand named(std::string_view name, bool written) const { return {name, whole.has_value(), static_cast<int>(parts.size()), written}; }
};
PtxRegisters ptx_registers(const Instruction::Operand& operand, const Format& format);
/// The layout of `shape` in which each of `warps` warps holds a copy of the fragment.
TileLayout in_every_warp(const TileLayout& fragment, int warps);

}  // namespace tegula
