// Where instructions that programs declare have their operands: groups of consecutive elements in consecutive registers of a thread, and tiles of a
// warp in their fragments, of which every warp holds a copy.
#include <bit>

#include "lang/instruction.h"
#include "lower/gpu/place.h"

namespace tegula {

using namespace ir;

namespace {

/// `l`, with `group` consecutive elements along the last dimension in place of each.
TileLayout with_groups(const TileLayout& l, int group, const Shape& shape) {
    const auto shift = static_cast<unsigned>(std::countr_zero(static_cast<unsigned>(group)));
    TileLayout out = l;
    out.shape = shape;
    out.bits[shape.rank - 1u] = static_cast<uint8_t>(out.bits[shape.rank - 1u] + shift);
    for (std::vector<uint64_t>* part : {&out.reg, &out.warp})
        for (uint64_t& v : *part) v <<= shift;
    for (uint64_t& v : out.lane) v <<= shift;
    for (unsigned bit = shift; bit-- > 0;) out.reg.insert(out.reg.begin(), uint64_t{1} << bit);
    return out;
}

}  // namespace

InstructionPlacements instruction_placements(const Function& fn, const Inst& inst) {
    const std::optional<Instruction> i = parse_instruction(fn.strings[static_cast<size_t>(fn.attrs(inst)[0])]);
    InstructionPlacements out;
    const auto place = [&](const Instruction::Operand& operand, ValueId v, const TileLayout& groups) {
        const Shape& shape = fn.type(v).shape;
        return in_registers(i->on_tiles() ? in_every_warp(*operand.fragment, fn.gpu->warps) : with_groups(groups, operand.group, shape));
    };
    TileLayout groups;
    if (!i->on_tiles()) {
        Shape shape = fn.type(fn.result(inst)).shape;
        shape.dims[shape.rank - 1u] /= i->result.group;
        groups = plain_layout(shape, fn.gpu->warps);
    }
    const auto operands = fn.operands(inst);
    for (size_t o = 0; o < operands.size(); ++o) out.operands.push_back(place(i->operands[o], operands[o], groups));
    out.result = place(i->result, fn.result(inst), groups);
    return out;
}

}  // namespace tegula
