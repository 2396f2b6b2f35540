// Where instructions that programs declare have their operands: groups of consecutive elements in consecutive registers of a thread, and tiles of a
// warp in their fragments, of which every warp holds a copy.
#include <bit>

#include "lang/instruction.h"
#include "lower/gpu/place.h"
#include "lower/gpu/place_groups.h"

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

/// The layout of groups whose elements lie in `l` as with_groups says; nullopt: they do not.
std::optional<TileLayout> groups_in(const TileLayout& l, int group, const Shape& groups) {
    const auto shift = static_cast<unsigned>(std::countr_zero(static_cast<unsigned>(group)));
    const size_t last = l.shape.rank - 1u;
    if (l.bits[last] < shift || l.reg.size() < shift) return std::nullopt;
    TileLayout out = l;
    out.shape = groups;
    out.bits[last] = static_cast<uint8_t>(out.bits[last] - shift);
    out.reg.erase(out.reg.begin(), out.reg.begin() + shift);
    for (std::vector<uint64_t>* part : {&out.reg, &out.warp})
        for (uint64_t& v : *part) v >>= shift;
    for (uint64_t& v : out.lane) v >>= shift;
    return with_groups(out, group, l.shape) == l ? std::optional(out) : std::nullopt;
}

Shape groups_shape(const Function& fn, const Inst& inst, const Instruction& i) {
    Shape shape = fn.type(fn.result(inst)).shape;
    shape.dims[shape.rank - 1u] /= i.result.group;
    return shape;
}

}  // namespace

bool instruction_on_tiles(const Function& fn, const Inst& inst) { return instruction_of(fn, inst).on_tiles(); }

std::optional<TileLayout> instruction_groups(const Function& fn, const Inst& inst, size_t operand, const TileLayout& l) {
    const Instruction i = instruction_of(fn, inst);
    if (i.on_tiles()) return std::nullopt;
    return groups_in(l, operand < i.operands.size() ? i.operands[operand].group : i.result.group, groups_shape(fn, inst, i));
}

InstructionPlacements instruction_placements(const Function& fn, const Inst& inst, const std::optional<TileLayout>& given) {
    const Instruction i = instruction_of(fn, inst);
    const TileLayout groups = given ? *given : i.on_tiles() ? TileLayout{} : plain_layout(groups_shape(fn, inst, i), fn.gpu->warps);
    const auto place = [&](const Instruction::Operand& operand, ValueId v) {
        return in_registers(i.on_tiles() ? in_every_warp(*operand.fragment, fn.gpu->warps) : with_groups(groups, operand.group, fn.type(v).shape));
    };
    InstructionPlacements out;
    for (size_t o = 0; o < i.operands.size(); ++o) out.operands.push_back(place(i.operands[o], fn.operands(inst)[o]));
    out.result = place(i.result, fn.result(inst));
    return out;
}

}  // namespace tegula
